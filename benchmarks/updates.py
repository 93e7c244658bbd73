"""Measure updates against fits of all records, noisy tables against exact ones, and sources together against apart.

    python benchmarks/updates.py [updates|noise|together]

Prints Markdown tables, those of docs/many-sources.md. Models are synthetic, so the truth is known; the
shortfall is how much less likely a new record is under a model than under the true one, in thousandths of a nat.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

import twoway as tw
from twoway.data.records import Records
from twoway.datasets import dirichlet_rows, draw_records
from twoway.fitting.sources import unite_sources
from twoway.model.pmf import JointPMF
from twoway.tables.privacy import nonnegative_noisy
from twoway.tables.tables import Tables

T = TypeVar("T")

N_VARIABLES, N_CATEGORIES, RANK, OBSERVED = 12, 4, 5, 0.6
DAY = 1000
N_FRESH = 20_000


def main() -> None:
    sections = {"updates": updates, "noise": noise, "together": together}
    for name in sys.argv[1:] or sections:
        sections[name]()
        print()


def updates() -> None:
    """An update, against EM on all records from the old model, and against a new fit."""
    print("| records before | records added | update | EM on all, from the old model | `fit` on all | ", end="")
    print("shortfall: before | update | EM on all | `fit` on all |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    truth = dirichlet_rows(N_VARIABLES, N_CATEGORIES, RANK, seed=0)
    fresh = draw_records(truth, N_FRESH, observed=1.0, seed=10**6)
    for n_days in (10, 100):
        before = draw_records(truth, n_days * DAY, observed=OBSERVED, seed=1)
        old = tw.fit(before, rank=RANK)
        for n_added in (1, 10):
            added = draw_records(truth, n_added * DAY, observed=OBSERVED, seed=2)
            # Read and join before timing, for both.
            everything = unite_sources([before, added]).source
            assert isinstance(everything, Records)
            update_seconds, updated = best_of(5, lambda: tw.update(old, added))  # noqa: B023
            warm_seconds, warm = best_of(2, lambda: fit_from(old, everything))  # noqa: B023
            fit_seconds, refit = best_of(1, lambda: tw.fit(everything, rank=RANK))  # noqa: B023
            short = [shortfall(truth, pmf, fresh) for pmf in (old, updated, warm, refit)]
            seconds = f"{1000 * update_seconds:.0f} ms | {1000 * warm_seconds:.0f} ms | {fit_seconds:.1f} s"
            shown = " | ".join(f"{one:.2f}" for one in short)
            print(f"| {n_days * DAY:,} | {n_added * DAY:,} | {seconds} | {shown} |", flush=True)


def fit_from(pmf: JointPMF, records: Records) -> JointPMF:
    """Return the result of EM on records, started from a model, with the smoothing in its report."""
    from twoway.solvers import EM, Evidence, Problem, Smoothing

    assert pmf.report is not None
    smoothing = Smoothing(pmf.report.smoothing, pmf.report.weight_smoothing)
    evidence = Evidence(records.schema, records=records.for_fit(), threads=None)
    return EM().solve(Problem(evidence, pmf.rank, smoothing=smoothing, start=pmf)).pmf


def noise() -> None:
    """The cost of privacy, and two alternative uses of noisy counts."""
    ways: dict[str, Callable[[Tables, float, int], Tables]] = {
        "default": lambda tables, epsilon, seed: tables.with_noise(epsilon, 1e-6, seed=seed),
        "tables weighted by totals": by_totals,
        "negative counts set to zero": clipped,
    }
    print("| records | " + " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS) + " | no noise |")
    print("|---|" + "---:|" * (len(EPSILONS) + 1))
    for n_records in (2000, 20_000, 200_000):
        for way, add in ways.items():
            if n_records != 20_000 and way != "default":
                continue
            errors = np.zeros((3, len(EPSILONS) + 1))
            for trial in range(len(errors)):
                truth = dirichlet_rows(8, 4, 3, seed=trial)
                tables = tw.count(draw_records(truth, n_records, observed=1.0, seed=trial))
                released = [add(tables, epsilon, trial) for epsilon in EPSILONS]
                errors[trial] = [mean_distance(truth, tw.fit(one, rank=3)) for one in (*released, tables)]
            shown = " | ".join(f"{error:.3f}" for error in errors.mean(axis=0))
            print(f"| {n_records:,}, {way} | {shown} |", flush=True)


EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)


def by_totals(tables: Tables, epsilon: float, seed: int) -> Tables:
    noisy = tables.with_noise(epsilon, 1e-6, seed=seed)
    return replace(noisy, weights=noisy.totals)


def clipped(tables: Tables, epsilon: float, seed: int) -> Tables:
    noisy = tables.with_noise(epsilon, 1e-6, seed=seed)
    drawn = tables.flat + np.random.default_rng(seed).normal(0.0, noisy.releases[0].sigma, tables.flat.size)
    assert np.allclose(nonnegative_noisy(drawn[: tables.starts[1]]), noisy.array(0).ravel())  # the same noise
    flat = np.maximum(drawn, 0.0)
    return Tables(tables.schema, tables.sets, flat, noisy.weights)


def mean_distance(truth: JointPMF, pmf: JointPMF) -> float:
    """Return the mean total variation of some three-way marginals."""
    names = truth.schema.names
    triples = [list(names[first : first + 3]) for first in range(len(names) - 2)]
    return float(np.mean([tw.total_variation(truth, pmf, triple) for triple in triples]))


def together() -> None:
    """Tables and records in one fit, against the pairs of both and against each alone."""
    print("| variables, categories, rank | people in tables | records | together | pairs of both | records | tables |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for n_variables, n_categories, rank in ((6, 3, 4), (8, 4, 3)):
        for in_tables, in_records in ((2000, 2000), (5000, 500), (500, 5000)):
            short = np.zeros((2, 4))
            for trial in range(len(short)):
                truth = dirichlet_rows(n_variables, n_categories, rank, seed=trial)
                fresh = draw_records(truth, N_FRESH, observed=1.0, seed=10**6)
                tables = tw.count(draw_records(truth, in_tables, observed=0.9, seed=1))
                records = draw_records(truth, in_records, observed=0.7, seed=2)
                sources = ([tables, records], tables + tw.count(records), records, tables)
                short[trial] = [shortfall(truth, tw.fit(source, rank=rank), fresh) for source in sources]
            shown = " | ".join(f"{one:.1f}" for one in short.mean(axis=0))
            print(f"| {n_variables}, {n_categories}, {rank} | {in_tables:,} | {in_records:,} | {shown} |", flush=True)


def shortfall(truth: JointPMF, pmf: JointPMF, fresh: Records) -> float:
    """Return how much less likely a new record is under a model than under the truth, in thousandths of a nat."""
    return 1000.0 * float(np.mean(truth.log_prob(fresh)) - np.mean(pmf.log_prob(fresh)))


def best_of(times: int, work: Callable[[], T]) -> tuple[float, T]:
    """Return the shortest time of several runs, in seconds, and the result."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - began)
    return min(seconds), result


if __name__ == "__main__":
    main()
