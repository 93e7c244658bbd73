"""Measure a Dask cluster of two processes against one, and one against memory; prints a Markdown table.

    python benchmarks/cluster.py                    ten million records, some minutes and about 6 GB
    python benchmarks/cluster.py --records 1000000  a quick look

Each engine counts all pairs and runs a fixed number of EM passes, with one thread per process, from frames that are
already in memory. Times are the best of several alternating runs. Next to wall-clock time is the processor time
of the longest path, which is that of the client plus the busiest worker: other programs disturb it less.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # also limits Arrow's threads

import argparse
import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster, wait

import twoway as tw
from twoway.datasets import dirichlet_rows
from twoway.solvers import EM

N_VARIABLES, N_CATEGORIES, RANK = 16, 5, 10
N_PARTITIONS = 16
OBSERVED = 0.5
EM_PASSES = 20
TRUTH = dirichlet_rows(N_VARIABLES, N_CATEGORIES, RANK, seed=0)


class Took(NamedTuple):
    seconds: float
    processor_seconds: float


def make_partition(number: int, n_records: int) -> pd.DataFrame:
    """Return records with missing cells, as categorical columns."""
    truth = dirichlet_rows(N_VARIABLES, N_CATEGORIES, RANK, seed=0)
    random = np.random.default_rng([1, number])
    drawn = truth.sample(n_records, seed=number)
    return pd.DataFrame(
        {
            v.name: pd.Categorical.from_codes(
                np.where(random.uniform(size=n_records) < OBSERVED, drawn[v.name].to_numpy() - 1, -1).astype(np.int8),
                v.categories,
            )
            for v in truth.schema
        }
    )


def jobs(threads: int | None) -> dict[str, Callable[[Any], Any]]:
    solver = EM(max_iter=EM_PASSES, tol=0)
    return {
        "count": lambda frame: tw.count(frame, threads=threads),
        f"{EM_PASSES} EM passes": lambda frame: tw.fit(frame, rank=RANK, solver=solver, starts=1, threads=threads),
    }


def run(job: Callable[[Any], Any], frame: Any, client: Client | None) -> tuple[Took, Any]:
    def busy() -> dict[str, float]:
        return client.run(time.process_time) if client else {}

    workers, here, began = busy(), time.process_time(), time.perf_counter()
    result = job(frame)
    seconds, client_seconds = time.perf_counter() - began, time.process_time() - here
    longest = max((after - workers[worker] for worker, after in busy().items()), default=0.0)
    return Took(seconds, client_seconds + longest), result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    n_each = options.records // N_PARTITIONS
    numbers = range(N_PARTITIONS)
    with ExitStack() as stack:
        engines: dict[str, tuple[Any, Client | None]] = {}
        engines["memory"] = pd.concat([make_partition(number, n_each) for number in numbers], ignore_index=True), None
        for n_workers in (1, 2):
            cluster = LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                memory_limit=None,
                dashboard_address=":0",
                silence_logs=logging.ERROR,
            )
            client = stack.enter_context(Client(stack.enter_context(cluster), set_as_default=False))
            with client.as_current():
                frame = dd.from_map(make_partition, numbers, n_records=n_each, meta=make_partition(0, 0)).persist()
                wait(frame)
            engines[f"{n_workers} worker{'s' * (n_workers > 1)}"] = frame, client
        best: dict[tuple[str, str], Took] = {}
        results: dict[tuple[str, str], Any] = {}
        for _ in range(1 + options.repeats):  # the first is a warm-up
            for engine, (frame, client) in engines.items():
                for name, job in jobs(1 if client is None else None).items():
                    with client.as_current() if client else ExitStack():
                        took, results[engine, name] = run(job, frame, client)
                    before = best.get((engine, name))
                    best[engine, name] = took if before is None else Took(*map(min, before, took))
    show(best, results, options.records)


def show(best: dict[tuple[str, str], Took], results: dict[tuple[str, str], Any], n_records: int) -> None:
    print(
        f"\n{n_records:,} records of {N_VARIABLES} variables with {N_CATEGORIES} categories, {OBSERVED:.0%} observed;"
    )
    print(f"{N_PARTITIONS} partitions; one thread per process. Wall-clock time, with processor time in parentheses.\n")
    print("| what | memory | 1 worker | 2 workers | 1 worker / memory (at most 1.5) | 1 / 2 workers (at least 1.5) |")
    print("|---|---|---|---|---|---|")
    names = list(dict.fromkeys(name for _, name in best))
    for engine in ("memory", "1 worker", "2 workers"):
        best[engine, "both"] = Took(*map(sum, zip(*(best[engine, name] for name in names), strict=True)))
    for name in (*names, "both"):
        memory, one, two = (best[engine, name] for engine in ("memory", "1 worker", "2 workers"))
        times = " | ".join(f"{took.seconds:.1f} s ({took.processor_seconds:.1f} s)" for took in (memory, one, two))
        overhead = [a / b for a, b in zip(one, memory, strict=True)]
        gain = [a / b for a, b in zip(one, two, strict=True)]
        print(f"| {name} | {times} | {overhead[0]:.2f} ({overhead[1]:.2f}) | {gain[0]:.2f} ({gain[1]:.2f}) |")
    expected, fitted = (results["memory", name] for name in names)
    for engine in ("1 worker", "2 workers"):
        counted, pmf = (results[engine, name] for name in names)
        same = "the same" if counted.flat.tobytes() == expected.flat.tobytes() else "DIFFERENT"
        apart = max(np.abs(pmf.stacked - fitted.stacked).max(), np.abs(pmf.weights - fitted.weights).max())
        print(f"\n{engine}: counts {same} as in memory to the byte; no probability differs by more than {apart:.0e}")


if __name__ == "__main__":
    main()
