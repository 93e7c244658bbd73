"""What share of small changes to the code the tests find: python benchmarks/mutation.py --sample 300

mutmut changes one thing at a time in the modules that pyproject.toml names ([tool.mutmut]) and runs the tests that
reach the changed function. All of them take hours, so a sample is drawn; --sample 0 takes all. Prints a Markdown table,
and the changes that no test noticed: `.venv-mutate/bin/mutmut show NAME` shows one. A second run tries these again
and what was not tried yet, after tests were added or after an interruption.

mutmut 3.8 does not run under pytest 9, so it has an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / ".venv-mutate"
SURVIVED = (0, 5, 33)
"""The codes of mutmut for a change that no test noticed: all passed, or there was none."""


def prepare() -> None:
    """Make the environment, if it is not there."""
    if not (PLACE / "bin" / "mutmut").exists():
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(PLACE)], check=True)
        packages = ["--editable", f"{ROOT}[test]", "mutmut==3.8.*", "pytest<9"]
        subprocess.run([*uv, "pip", "install", "--quiet", "--python", str(PLACE), *packages], check=True)


def mutmut(*names: str, jobs: int = 1, check: bool = True) -> None:
    """Run mutmut on some changes."""
    subprocess.run([PLACE / "bin" / "mutmut", "run", "--max-children", str(jobs), *names], cwd=ROOT, check=check)


def results() -> dict[str, int | None]:
    """Return the code of each change, None where it was not tried."""
    found: dict[str, int | None] = {}
    for path in sorted((ROOT / "mutants" / "src").rglob("*.meta")):
        found |= json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=300, help="how many changes to try; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    options = parser.parse_args()
    prepare()
    mutmut("none.such", check=False)  # makes the changes, and finds out which tests reach them
    names = sorted(results())
    if options.sample and options.sample < len(names):
        names = random.Random(options.seed).sample(names, options.sample)
    codes = results()
    if todo := [name for name in names if codes[name] in (None, *SURVIVED)]:
        mutmut(*todo, jobs=options.jobs)
    codes = results()
    tried, killed = Counter[str](), Counter[str]()
    for name in names:
        module = name.rsplit(".", 1)[0]
        for group in (module, "all"):
            tried[group] += 1
            # What runs for ever, or breaks the interpreter, is noticed too.
            killed[group] += codes[name] not in SURVIVED
    print("\n| module | changes tried | noticed | share |\n|---|---|---|---|")
    for group in sorted(tried, key=lambda one: (one == "all", one)):
        print(f"| {group} | {tried[group]} | {killed[group]} | {killed[group] / tried[group]:.1%} |")
    print("\nNot noticed:\n", *sorted(name for name in names if codes[name] in SURVIVED), sep="\n")


if __name__ == "__main__":
    main()
