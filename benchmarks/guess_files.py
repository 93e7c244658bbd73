"""Draw functions at random, to see whether a newcomer finds them from the tree of files alone.

    python benchmarks/guess_files.py --seed 1              # the tree, and fifteen functions to guess
    python benchmarks/guess_files.py --seed 1 --answers    # the same functions with their files

Give the first output to someone who has not read the code, then compare with the second.
Functions inside functions and special methods (__init__ …) are not drawn.
"""

from __future__ import annotations

import argparse
import ast
import random
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("src/twoway")


def functions(body: list[ast.stmt], owner: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
            yield f"{owner}{node.name}({', '.join(argument.arg for argument in node.args.args)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-n", type=int, default=15, help="number of functions (15)")
    parser.add_argument("--answers", action="store_true", help="print the file of each function")
    options = parser.parse_args()
    paths = sorted(ROOT.rglob("*.py"))
    places = [
        (name, path.relative_to(ROOT))
        for path in paths
        for name in functions(ast.parse(path.read_text(encoding="utf-8")).body)
    ]
    drawn = random.Random(options.seed).sample(places, options.n)
    if not options.answers:
        print(*(path.relative_to(ROOT) for path in paths), sep="\n", end="\n\n")
    for name, path in drawn:
        print(f"{name}  {path}" if options.answers else name)


if __name__ == "__main__":
    main()
