"""Check that the scale of weights has no effect, and measure the coverage of intervals of weighted records.

    python benchmarks/weights.py           80 data sets for each kind of weights, about ten minutes
    python benchmarks/weights.py --quick   8 data sets, which writes nothing

Each data set has 2,000 records of five binary variables, drawn from a model of two components. Prints the table and
writes it to docs/how-sure.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations

import numpy as np
from core import ROOT
from numpy.typing import NDArray

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records

PAGE = ROOT / "docs" / "how-sure.md"
N_RECORDS, N_VARIABLES, RANK = 2000, 5, 2
N_DATA_SETS, N_QUICK = 80, 8
# The number of data sets on which the rank is chosen and the fit checked.
N_CHOSEN = 20
Weights = NDArray[np.float64]


def by_first_variable(random: np.random.Generator, records: tw.Records) -> Weights:
    """Return weights of a survey that asked people with the first answer to the first question four times as often."""
    first = records.codes()[:, 0] == 0
    return np.where(first, 0.25, 1.0) * random.uniform(0.8, 1.2, len(records))


KINDS: dict[str, Callable[[np.random.Generator, tw.Records], Weights | None]] = {
    "none": lambda random, records: None,
    "constant 1.5": lambda random, records: np.full(len(records), 1.5),
    "constant 100": lambda random, records: np.full(len(records), 100.0),
    "uniform from 0.5 to 1.5": lambda random, records: random.uniform(0.5, 1.5, len(records)),
    "lognormal, σ = 0.7": lambda random, records: random.lognormal(0.0, 0.7, len(records)),
    "correcting unequal sampling": by_first_variable,
}


def drawn(kind: str, seed: int) -> tuple[tw.JointPMF, tw.Records]:
    """Return a model and records drawn from it, with weights."""
    truth, random = dirichlet_rows(N_VARIABLES, 2, RANK, seed=seed), np.random.default_rng([7, seed])
    records = draw_records(truth, N_RECORDS, observed=1.0, seed=1000 + seed)
    if kind == "correcting unequal sampling":
        pool = draw_records(truth, 8 * N_RECORDS, observed=1.0, seed=1000 + seed)
        chance = np.where(pool.codes()[:, 0] == 0, 1.0, 0.25)
        records = pool.take(np.flatnonzero(random.random(len(pool)) < chance)[:N_RECORDS])
    return truth, tw.Records(records, weights=KINDS[kind](random, records))


def coverage(kind: str, seed: int) -> tuple[float, float, float]:
    """Return the coverage of 90 % intervals, the distance to the truth, and the effective records."""
    truth, records = drawn(kind, seed)
    pmf = tw.fit(records, rank=RANK, starts=4, threads=1)
    boot = tw.bootstrap(pmf, records, seed=seed, threads=1)
    held = []
    for names in combinations(truth.schema.names, 2):
        table, answer = boot.marginal(names), truth.marginal(names).array
        held.append((table.low.array <= answer) & (answer <= table.high.array))
    return float(np.mean(held)), tw.total_variation(truth, pmf, truth.schema.names), pmf.report.n_records or 0.0


def choices(kind: str, seed: int) -> tuple[float, float, float]:
    """Return the distance to the truth of a fit that chooses its rank, that rank, and how many tables are off."""
    truth, records = drawn(kind, seed)
    pmf = tw.fit(records, threads=1)
    return (
        tw.total_variation(truth, pmf, truth.schema.names),
        float(pmf.rank),
        float(len(tw.fit_quality(pmf, records).misfits)),
    )


def row(pool: ProcessPoolExecutor, kind: str, n_data_sets: int) -> str:
    """Return a line of the table."""
    seeds = range(n_data_sets)
    held, distance, effective = np.array(list(pool.map(coverage, [kind] * n_data_sets, seeds))).T
    n_chosen = min(N_CHOSEN, n_data_sets)
    chosen_distance, ranks, misfits = np.array(list(pool.map(choices, [kind] * n_chosen, range(n_chosen)))).T
    error = held.std(ddof=1) / np.sqrt(n_data_sets)
    return (
        f"| {kind} | {effective.mean():,.0f} | {held.mean():.1%} ± {error:.1%} | {distance.mean():.4f} | "
        f"{np.sum(ranks == RANK):.0f} of {n_chosen} | {chosen_distance.mean():.4f} | {misfits.sum():.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{N_QUICK} data sets, which writes nothing")
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    lines = [
        "| weights | effective records | coverage of 90 % intervals | total variation, rank 2 | rank 2 chosen | "
        "total variation, rank chosen | tables off |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    with ProcessPoolExecutor(asked.processes) as pool:
        for kind in KINDS:
            lines.append(row(pool, kind, N_QUICK if asked.quick else N_DATA_SETS))
            print(lines[-1], flush=True)
    if not asked.quick:
        begin, end = "<!-- measured: python benchmarks/weights.py -->\n", "<!-- end -->"
        before, after = PAGE.read_text().split(begin)
        PAGE.write_text(before + begin + "\n".join(lines) + "\n" + after[after.index(end) :])


if __name__ == "__main__":
    main()
