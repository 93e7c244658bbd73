"""Measure the solvers of three-way tables against their targets.

    python benchmarks/triples.py             everything, under a minute
    python benchmarks/triples.py ctd mle-ad  some sections

Rows and helpers are those of benchmarks/core.py; one thread throughout.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from core import Row, best_of, folder

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records, nearly_separable
from twoway.kernels.lanes import pad_to_lanes
from twoway.kernels.maximization import maximize
from twoway.solvers import CTD, MLEAD, Evidence, Problem
from twoway.solvers.cell_sets import expected_counts
from twoway.solvers.starts import random_start


def ctd() -> list[Row]:
    """Ctd against the authors' runs."""
    path = folder("TWOWAY_REFERENCE")
    if path is None:
        return [("ctd against the authors' runs", "", "no reference folder here", False)]
    runs = json.loads((path / "reference.json").read_text())
    rows = []
    for name in ("n5_s1e4_a", "n5_s1e4_b"):
        run = runs[name]
        tables = tw.count(tw.Records(np.load(path / f"{name}.npz")["records"], missing=[-1]), 3)

        def solve(tables: tw.Tables = tables, rank: int = run["rank"]) -> tw.JointPMF:
            return tw.fit(tables, rank=rank, solver=CTD(), starts=1, threads=1)

        seconds, pmf = best_of(solve, 10), solve()
        theirs, target = run["ctd"]["seconds"], run["ctd"]["half_squared_error"]
        rows.append(
            (
                f"ctd on {name}",
                f"half squared error ≤ {target:.8f}, 50 times faster than {theirs:.1f} s",
                f"{pmf.report.objective:.8f}, {theirs / seconds:.0f} times faster ({seconds * 1e3:.1f} ms)",
                pmf.report.objective <= target and theirs / seconds >= 50,
            )
        )
        lowest, off = minimum_near(tables, pmf, target)
        rows.append(
            (
                f"the same by L-BFGS-B from that solution, on the simplices; and where {target:.8f} is reached",
                "ctd no higher",
                f"{lowest:.8f}; with columns that sum to one only within {off:.4f}",
                pmf.report.objective <= lowest * (1 + 1e-6),
            )
        )
    return rows


def minimum_near(tables: tw.Tables, pmf: tw.JointPMF, target: float) -> tuple[float, float]:
    """Return the least half squared error that another optimizer finds on the simplices, and how far off the target is.

    The second number is the largest distance from one of a sum of weights or of a column, where a penalty on these
    distances is just weak enough for the target to be reached.
    """
    from scipy.optimize import minimize

    schema, rank = tables.schema, pmf.rank
    shares = [tables.array(index) / tables.totals[index] for index in range(len(tables))]
    start = np.vstack([pmf.weights, pmf.stacked])
    blocks = [slice(1 + begin, 1 + end) for begin, end in itertools.pairwise(schema.offsets)]

    def error(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = 0.0, np.zeros_like(theta)
        for x, row in zip(shares, tables.sets, strict=True):
            a, b, c = (theta[blocks[position]] for position in row)
            residual = np.einsum("f,if,jf,kf->ijk", theta[0], a, b, c, optimize=True) - x
            value += 0.5 * float(np.square(residual).sum())
            bent = [
                np.einsum(letters, residual, one, two, optimize=True)
                for letters, one, two in (("ijk,jf,kf->if", b, c), ("ijk,if,kf->jf", a, c), ("ijk,if,jf->kf", a, b))
            ]
            slope[0] += (bent[0] * a).sum(axis=0)
            for position, part in zip(row, bent, strict=True):
                slope[blocks[position]] += part * theta[0]
        return value, slope

    def excesses(theta: np.ndarray) -> tuple[float, list[np.ndarray]]:
        return float(theta[0].sum() - 1), [theta[block].sum(axis=0) - 1 for block in blocks]

    def penalised(free: np.ndarray, strength: float) -> tuple[float, np.ndarray]:
        theta = free.reshape(-1, rank)
        value, slope = error(theta)
        of_weights, of_columns = excesses(theta)
        value += 0.5 * strength * (of_weights**2 + sum(float(np.square(one).sum()) for one in of_columns))
        slope[0] += strength * of_weights
        for block, one in zip(blocks, of_columns, strict=True):
            slope[block] += strength * one
        return value * 1e3, slope.ravel() * 1e3

    def on_simplices(free: np.ndarray) -> tuple[float, np.ndarray]:
        theta = free.reshape(-1, rank).copy()
        sums = [theta[0].sum(), *(theta[block].sum(axis=0) for block in blocks)]
        theta[0] /= sums[0]
        for block, one in zip(blocks, sums[1:], strict=True):
            theta[block] /= one
        value, slope = error(theta)
        slope[0] = (slope[0] - slope[0] @ theta[0]) / sums[0]
        for block, one in zip(blocks, sums[1:], strict=True):
            slope[block] = (slope[block] - (slope[block] * theta[block]).sum(axis=0)) / one
        return value * 1e3, slope.ravel() * 1e3

    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-14, "gtol": 1e-10}
    bounds = [(0, None)] * start.size

    def minimum(function: Callable[..., tuple[float, np.ndarray]], begin: np.ndarray, *arguments: float) -> np.ndarray:
        found = minimize(
            function, begin.ravel(), arguments, jac=True, bounds=bounds, method="L-BFGS-B", options=options
        )
        return found.x.reshape(-1, rank)

    lowest = on_simplices(minimum(on_simplices, start).ravel())[0] / 1e3
    theta = start
    for strength in 10.0 ** np.arange(-1.0, -5.0, -0.2):
        theta = minimum(penalised, theta, strength)
        if error(theta)[0] <= target:
            of_weights, of_columns = excesses(theta)
            return lowest, max(abs(of_weights), *(float(np.abs(one).max()) for one in of_columns))
    return lowest, float("nan")


def mle_ad() -> list[Row]:
    """Mle-ad against plain multiplicative updates from the same start."""
    tables = tw.count(draw_records(nearly_separable(0.1, seed=0), 100_000, observed=0.5, seed=1), 3)

    def solve() -> tw.JointPMF:
        return tw.fit(tables, rank=5, solver=MLEAD(), starts=1, threads=1)

    seconds, objective = best_of(solve, 10), solve().report.objective
    problem = Problem(Evidence(tables.schema, tables=tables, threads=1), 5)
    sets = problem.evidence.table_sets("counts", 3)
    start = random_start(tables.schema, 5, sets.shares, problem.seeds)
    theta, nothing = pad_to_lanes(start.weights, start.stacked), np.zeros(1 + tables.schema.n_categories)
    plain, n_rounds, began = [np.inf], 0, time.perf_counter()
    while True:
        expected = expected_counts(sets.records, theta, 5, 1)
        plain.append(sets.offset - expected.log_likelihood / sets.records.total_weight)
        if plain[-2] - plain[-1] <= 1e-12 * plain[-1]:
            break
        theta = maximize(expected.counts, nothing, sets.shares, tables.schema.offsets, 5)
        n_rounds += 1
    plain_seconds = time.perf_counter() - began
    return [
        (
            "mle-ad, N=5, F=5, I=10, S=10⁵, one thread: time",
            "200 times faster than the paper's 124 s",
            f"{124 / seconds:.0f} times ({seconds * 1e3:.0f} ms)",
            124 / seconds >= 200,
        ),
        (
            "the same: mean KL a triple, against plain multiplicative updates from the same start",
            f"≤ {plain[-1]:.10f} ({n_rounds} rounds, {plain_seconds:.1f} s)",
            f"{objective:.10f}",
            objective <= plain[-1],
        ),
    ]


def large() -> list[Row]:
    """Both at N=15."""
    truth = dirichlet_rows(15, 10, 10, seed=0)
    tables = tw.count(draw_records(truth, 100_000, observed=0.5, seed=1), 3)
    rows = []
    for solver, limit in ((CTD(), 10.0), (MLEAD(), 60.0)):
        tw.fit(tables, rank=10, solver=replace(solver, max_iter=2), starts=1, threads=1)  # warm-up
        pmf = tw.fit(tables, rank=10, solver=solver, starts=1, threads=1)
        seconds = pmf.report.seconds or np.inf
        rows.append(
            (
                f"{solver.name}, N=15, F=10, I=10, S=10⁵, 455 tables, one thread: one start until it converges",
                f"under {limit:.0f} s",
                f"{seconds:.2f} s, {pmf.report.starts[0].n_iter} passes, MSE {tw.factor_mse(truth, pmf):.6f}",
                bool(pmf.report.converged and seconds < limit),
            )
        )
    return rows


SECTIONS: dict[str, Callable[[], list[Row]]] = {"ctd": ctd, "mle-ad": mle_ad, "large": large}


def main() -> None:
    for section in sys.argv[1:] or list(SECTIONS):
        if section not in SECTIONS:
            sys.exit(f"no section {section!r}; known: {', '.join(SECTIONS)}")
        for what, target, measured, reached in SECTIONS[section]():
            print(f"{'ok  ' if reached else 'MISS'}  {what}: {measured}   (target: {target})", flush=True)


if __name__ == "__main__":
    main()
