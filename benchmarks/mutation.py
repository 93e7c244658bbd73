"""Measure the share of small changes to the code that the tests detect: python benchmarks/mutation.py --sample 300

mutmut changes one thing at a time in the modules that pyproject.toml names ([tool.mutmut]) and runs the tests that
reach the changed function. All changes take hours, so a sample is drawn; --sample 0 runs all. Prints a Markdown table
and the changes that no test detected: `.venv-mutate/bin/mutmut show NAME` shows one. A second run tries these
and the remaining ones, after tests were added or after an interruption.

mutmut 3.8 does not run under pytest 9, so it has its own environment.
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
# The codes of mutmut: a test failed, or the interpreter broke; time ran out; all tests passed, or there was none.
NOTICED = (1, 3, -11)
TIMED_OUT = (-24, 24, 36, 152, 255)
SURVIVED = (0, 5, 33)


def prepare() -> None:
    """Create the environment if it does not exist."""
    if not (PLACE / "bin" / "mutmut").exists():
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(PLACE)], check=True)
        packages = ["--editable", f"{ROOT}[test]", "mutmut==3.8.*", "pytest<9"]
        subprocess.run([*uv, "pip", "install", "--quiet", "--python", str(PLACE), *packages], check=True)


def mutmut(*names: str, jobs: int = 1, check: bool = True) -> None:
    """Run mutmut on some changes."""
    subprocess.run([PLACE / "bin" / "mutmut", "run", "--max-children", str(jobs), *names], cwd=ROOT, check=check)


def results() -> dict[str, int | None]:
    """Return the exit code of each change, None if it was not tried."""
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
    mutmut("none.such", check=False)  # generates the changes and finds the tests that reach them
    names = sorted(results())
    if options.sample and options.sample < len(names):
        names = random.Random(options.seed).sample(names, options.sample)
    codes = results()
    if todo := [name for name in names if codes[name] not in NOTICED]:
        mutmut(*todo, jobs=options.jobs)
    codes = results()
    # Parallel runs slow each other down, so try timeouts again one at a time.
    if late := [name for name in names if codes[name] in TIMED_OUT and options.jobs > 1]:
        mutmut(*late)
    codes = results()
    unknown = [name for name in names if codes[name] not in (*NOTICED, *TIMED_OUT, *SURVIVED)]
    if unknown:
        sys.exit(f"{len(unknown)} changes were not tried to the end, such as {unknown[0]}; run this again")
    tried, noticed, late_of = Counter[str](), Counter[str](), Counter[str]()
    for name in names:
        for group in (name.removeprefix("twoway.").partition(".")[0], "all"):
            tried[group] += 1
            noticed[group] += codes[name] in NOTICED
            late_of[group] += codes[name] in TIMED_OUT
    print("\n| module | changes tried | detected by a test | never terminated | share |\n|---|---|---|---|---|")
    for group in sorted(tried, key=lambda one: (one == "all", one)):
        share = (noticed[group] + late_of[group]) / tried[group]
        print(f"| {group} | {tried[group]} | {noticed[group]} | {late_of[group]} | {share:.1%} |")
    print("\nNot detected:\n", *sorted(name for name in names if codes[name] in SURVIVED), sep="\n")


if __name__ == "__main__":
    main()
