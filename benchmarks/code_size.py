"""Count lines of code, without docstrings, comments and blank lines, by package.

    python benchmarks/code_size.py [FOLDER]

FOLDER is src/twoway by default. Files with more than 400 lines of any kind are listed.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

MOST_LINES = 400
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def docstring_lines(tree: ast.AST) -> set[int]:
    """Return the lines of docstrings, those of attributes included: strings that are statements."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or 0) + 1))
    return lines


def code_lines(source: str) -> int:
    """Return the number of lines of code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(ast.parse(source)))


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "src/twoway")
    sizes: Counter[str] = Counter()
    long = []
    for path in sorted(folder.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        sizes[path.relative_to(folder).parts[0]] += code_lines(source)
        if (n_lines := source.count("\n")) > MOST_LINES:
            long.append(f"{path.relative_to(folder)} has {n_lines} lines")
    for package, n_lines in sizes.items():
        print(f"{n_lines:6,}  {package}")
    print(f"{sizes.total():6,}  in all")
    print(*long, sep="\n")


if __name__ == "__main__":
    main()
