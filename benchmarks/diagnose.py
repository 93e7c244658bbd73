"""Measure the diagnosis against its targets: cost, verdicts and ranks. Prints a Markdown table.

    python benchmarks/diagnose.py                    everything, about half an hour
    python benchmarks/diagnose.py cost ranks         some sections

Sections that need data use the folder in TWOWAY_DATA; without it they say so.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records, uniform_entries

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "how-sure.md"
sys.path.insert(0, str(ROOT / "tests"))
from verdict_cases import KNOWN, MORE_NOT_KNOWN, NOT_KNOWN  # noqa: E402

Row = tuple[str, str, str, bool]
"""What was measured, the target, the result, whether it was reached."""


def coverage_from_tables() -> list[Row]:
    """Coverage of 90 % intervals from tables of complete records."""
    held: dict[float | None, list[float]] = {None: [], math.inf: []}
    for seed in range(20):
        truth = dirichlet_rows(8, 4, 3, seed=seed)
        tables = tw.count(draw_records(truth, 10_000, observed=1.0, seed=1000 + seed))
        pmf = tw.fit(tables, rank=3)
        for n_records, shares in held.items():
            boot = tw.bootstrap(pmf, tables, n=100, seed=seed, n_records=n_records)
            for names in (["x1", "x2"], ["x3", "x4"]):
                table, answer = boot.marginal(names), np.asarray(truth.marginal(names))
                shares.append(float(((table.low.array <= answer) & (answer <= table.high.array)).mean()))
    together, apart = (float(np.mean(shares)) for shares in held.values())
    what = "90 % intervals of two-way marginals from tables of the same people, N=8, I=4, F=3, S=10⁴"
    return [
        (what, "86–94 %", f"{together:.1%}", 0.86 <= together <= 0.94),
        (f"{what}, each table drawn on its own (`n_records=inf`, wrong here)", "—", f"{apart:.1%}", apart < together),
    ]


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


def ranks() -> list[Row]:
    """The rank chosen from records, against the true rank."""
    rows = []
    for rank in (3, 5, 10):
        found = []
        for seed in range(20):
            records = draw_records(dirichlet_rows(15, 10, rank, seed=seed), 100_000, seed=500 + seed)
            found.append(tw.choose_rank(records, seed=seed).rank)
        right, off = sum(one == rank for one in found), max(abs(one - rank) for one in found)
        rows.append(
            (
                f"true rank {rank} found, N=15, I=10, S=10⁵, p=0.5, from records",
                "19 of 20, none off by more than 1",
                f"{right} of 20, off by at most {off}",
                right >= 19 and off <= 1,
            )
        )
    return rows


def ranks_from_tables() -> list[Row]:
    """The rank chosen from two-way tables alone, against the true rank."""
    rows = []
    for rank in (3, 5, 10):
        found = []
        for seed in range(10):
            records = draw_records(dirichlet_rows(15, 10, rank, seed=seed), 100_000, seed=500 + seed)
            found.append(tw.choose_rank(tw.count(records), seed=seed).rank)
        right = sum(one == rank for one in found)
        rows.append(
            (f"true rank {rank} found, N=15, I=10, S=10⁵, p=0.5, from tables alone", "—", f"{right} of 10", right >= 9)
        )
    return rows


def mushroom() -> list[Row]:
    """The cost of choosing the rank on real records."""
    path = folder()
    what, target = "`rank=None` on Mushroom", "at most 8 times the fit at the rank it chooses"
    if path is None:
        return [(what, target, "no data folder here", False)]
    frame = pd.read_csv(path / "uci" / "agaricus-lepiota.data", header=None, dtype=str)
    frame.columns = [f"column {number}" for number in range(frame.shape[1])]
    began = time.perf_counter()
    pmf = tw.fit(frame)
    chosen = time.perf_counter() - began
    began = time.perf_counter()
    tw.fit(frame, rank=pmf.rank)
    ratio = chosen / (time.perf_counter() - began)
    return [(what, target, f"rank {pmf.rank}, {ratio:.1f} times ({chosen:.0f} s)", ratio <= 8)]


def false_assurances() -> list[Row]:
    """Cases that look recoverable and are not, and cases that are; rewrites the table in docs/how-sure.md."""
    rows, lines = [], ["| evidence | truth | verdict |", "|---|---|---|"]
    for is_known, cases in ((False, NOT_KNOWN), (False, MORE_NOT_KNOWN), (True, KNOWN)):
        for name, case in cases.items():
            found = tw.diagnose(case.make(), case.rank)
            right = (found.kind != "not from these tables") == is_known
            wanted = "“recoverable”, or if" if is_known else "“not from these tables”"
            rows.append((f"verdict on {name} ({case.truth})", wanted, f"“{found.kind}”", right))
            if cases is not MORE_NOT_KNOWN:
                lines.append(f"| {name} | {case.truth} | {'; '.join(found.verdict.split('; ')[:2])} |")
    begin, end = "<!-- measured: verdicts -->\n", "<!-- end -->"
    before, after = PAGE.read_text(encoding="utf-8").split(begin)
    PAGE.write_text(before + begin + "\n".join(lines) + "\n" + after[after.index(end) :], encoding="utf-8")
    return rows


def verdicts() -> list[Row]:
    """Whether data distinguish the two generators at the paper's size."""
    rows = []
    for name, make, wanted in (
        ("Dirichlet rows", dirichlet_rows, "recoverable if"),
        ("uniform entries", uniform_entries, "not from these tables"),
    ):
        kinds, errors, strengths = [], [], []
        for seed in range(5):
            truth = make(15, 10, 10, seed=seed)
            tables = tw.count(draw_records(truth, 100_000, seed=seed))
            found = tw.diagnose(tables, 10)
            kinds.append(found.kind)
            strengths.append(found.strength or 0.0)
            if seed == 0:
                errors.append(tw.mean_relative_error(truth, tw.fit(tables, rank=10)))
        right = sum(kind == wanted for kind in kinds)
        rows.append(
            (
                f"verdict on {name}, N=15, I=10, F=10, S=10⁵, p=0.5 (MRE of the joint from tables {errors[0]:.2f})",
                f"“{wanted}”",
                f"{right} of 5; component 10 is {min(strengths):.1f} to {max(strengths):.1f} times chance",
                right == 5,
            )
        )
    return rows


def speed() -> list[Row]:
    """How long a diagnosis takes."""
    tables = tw.count(draw_records(dirichlet_rows(100, 5, 20), 20_000))
    tw.diagnose(tw.count(draw_records(dirichlet_rows(4, 3, 2), 100)), 2)  # compile
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        tw.diagnose(tables, 20)
        seconds.append(time.perf_counter() - began)
    what = "`diagnose` for 100 variables × 5 categories, rank 20"
    return [(what, "under 10 s", f"{min(seconds):.1f} s (best of 3)", min(seconds) < 10)]


SECTIONS: dict[str, Callable[[], list[Row]]] = {
    "coverage-from-tables": coverage_from_tables,
    "cost": cost,
    "verdicts": verdicts,
    "false-assurances": false_assurances,
    "speed": speed,
    "ranks": ranks,
    "ranks-from-tables": ranks_from_tables,
    "mushroom": mushroom,
}


def folder() -> Path | None:
    path = os.environ.get("TWOWAY_DATA")
    return Path(path) if path and Path(path).is_dir() else None


def main() -> None:
    chosen = sys.argv[1:] or list(SECTIONS)
    unknown = [name for name in chosen if name not in SECTIONS]
    if unknown:
        sys.exit(f"no section {unknown[0]!r}; there are: {', '.join(SECTIONS)}")
    print("| what | target | measured | reached |\n|---|---|---|---|")
    for name in chosen:
        for what, target, measured, reached in SECTIONS[name]():
            print(f"| {what} | {target} | {measured} | {'yes' if reached else '**no**'} |", flush=True)


if __name__ == "__main__":
    main()
