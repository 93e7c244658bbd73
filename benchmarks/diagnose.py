"""Measure what the diagnosis promises: coverage, cost, verdicts, ranks. Prints a Markdown table.

    python benchmarks/diagnose.py                    everything, about half an hour
    python benchmarks/diagnose.py coverage cost      some sections

Sections that need data look in TWOWAY_DATA, else in ../shared/data, and say so where there is none.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records, nearly_separable

ROOT = Path(__file__).resolve().parent.parent
Row = tuple[str, str, str, bool]
"""What was measured, what is to be reached, what it was, whether it is reached."""


def coverage() -> list[Row]:
    """How often 90 % intervals hold the truth: two-way marginals, and conditionals given one variable and two."""
    kinds: dict[str, Callable[[int], tw.JointPMF]] = {
        "N=5, I=10, F=5, ε=0.1": lambda seed: nearly_separable(0.1, seed=seed),
        "N=8, I=4, F=3": lambda seed: dirichlet_rows(8, 4, 3, seed=seed),
        "N=15, I=10, F=10": lambda seed: dirichlet_rows(15, 10, 10, seed=seed),
    }
    rows = []
    for name, make in kinds.items():
        held: dict[str, list[float]] = {"two-way marginals": [], "conditionals": [], "given two variables": []}
        for seed in range(20):
            truth = make(seed)
            records = draw_records(truth, 10_000, observed=0.5, seed=1000 + seed)
            boot = tw.bootstrap(tw.fit(records, rank=truth.rank), records, seed=seed)

            def share(one: tw.Bootstrap, true: tw.JointPMF, names: list[str]) -> float:
                table, answer = one.marginal(names), np.asarray(true.marginal(names))
                return float(((table.low.array <= answer) & (answer <= table.high.array)).mean())

            for a, b in (("x1", "x2"), ("x3", "x4"), ("x2", "x5")):
                held["two-way marginals"].append(share(boot, truth, [a, b]))
                for label in (0, 1, 2):
                    given = {a: label}
                    held["conditionals"].append(share(boot.given(given), truth.given(given), [b]))
            for label in (0, 1, 2):
                given = {"x3": label, "x4": 1}
                held["given two variables"].append(share(boot.given(given), truth.given(given), ["x1"]))
        for what, shares in held.items():
            value = float(np.mean(shares))
            rows.append(
                (
                    f"90 % intervals of {what}, {name}, S=10⁴, p=0.5, 20 data sets",
                    "86–94 %",
                    f"{value:.1%}",
                    0.86 <= value <= 0.94,
                )
            )
    return rows


def cost() -> list[Row]:
    """Two hundred replicates against cold fits."""
    rows = []
    for name, source in (
        ("records", draw_records(dirichlet_rows(15, 10, 10), 10_000)),
        ("records, S=10⁵", draw_records(dirichlet_rows(15, 10, 10), 100_000)),
        ("tables", tw.count(draw_records(dirichlet_rows(15, 10, 10), 10_000))),
    ):
        tw.fit(source, rank=10)
        began = time.perf_counter()
        pmf = tw.fit(source, rank=10)
        cold = time.perf_counter() - began
        began = time.perf_counter()
        tw.bootstrap(pmf, source, n=200)
        ratio = (time.perf_counter() - began) / cold
        rows.append(
            (f"200 replicates, N=15, I=10, F=10, {name}", "at most 20 cold fits", f"{ratio:.1f} cold fits", ratio <= 20)
        )
    return rows


SECTIONS: dict[str, Callable[[], list[Row]]] = {"coverage": coverage, "cost": cost}


def folder() -> Path | None:
    path = Path(os.environ.get("TWOWAY_DATA", ROOT.parent / "shared" / "data"))
    return path if path.is_dir() else None


def main() -> None:
    chosen = sys.argv[1:] or list(SECTIONS)
    unknown = [name for name in chosen if name not in SECTIONS]
    if unknown:
        sys.exit(f"no section {unknown[0]!r}; there are: {', '.join(SECTIONS)}")
    print("| what | to reach | measured | reached |\n|---|---|---|---|")
    for name in chosen:
        for what, target, measured, reached in SECTIONS[name]():
            print(f"| {what} | {target} | {measured} | {'yes' if reached else '**no**'} |", flush=True)


if __name__ == "__main__":
    main()
