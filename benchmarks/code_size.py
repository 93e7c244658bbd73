"""Count lines of code, without docstrings, comments and blank lines, by package.

    python benchmarks/code_size.py [FOLDER] [--since COMMIT]

FOLDER is src/twoway by default. Files with more than 400 lines of any kind are listed. --since also prints the lines at
a commit, those that later commits added or removed (each by its net change), and the lines of today as a share of what
was there and what was added.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
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


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def lines_at(commit: str, paths: list[str]) -> int:
    """Return the lines of code that these files have at a commit."""
    existing = git("ls-tree", "-r", "--name-only", commit, "--", *paths).splitlines() if paths else []
    return sum(code_lines(git("show", f"{commit}:./{path}")) for path in existing if path.endswith(".py"))


def print_changes(folder: Path, since: str) -> None:
    """Print how many lines the folder had at a commit, and what later commits added and removed."""
    before, added, removed = lines_at(since, [str(folder)]), 0, 0
    for commit in git("rev-list", "--no-merges", f"{since}..HEAD", "--", str(folder)).split():
        names = ["diff-tree", "--no-commit-id", "-r", "--name-only", "--no-renames", "--relative", commit]
        paths = git(*names, "--", str(folder)).splitlines()
        change = lines_at(commit, paths) - lines_at(f"{commit}^", paths)
        added, removed = added + max(change, 0), removed + max(-change, 0)
    now = lines_at("HEAD", [str(folder)])
    print(f"{before:,} at {since}, {added:,} added since, {removed:,} removed, {now:,} at HEAD")
    print(f"{now / (before + added):.1%} of the lines at that commit and those added since")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("src/twoway"))
    parser.add_argument("--since", metavar="COMMIT")
    options = parser.parse_args()
    folder: Path = options.folder
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
    if options.since:
        print_changes(folder, options.since)


if __name__ == "__main__":
    main()
