"""Measure the core against its targets; write docs/benchmarks.md.

    python benchmarks/core.py              everything, about five minutes
    python benchmarks/core.py em auto-n5   some sections

Times are the best of several runs, with one thread unless threads are measured; comparisons are
ratios within one run. Sections that need data use the folders in TWOWAY_DATA and TWOWAY_REFERENCE; without these
they say so.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records, nearly_separable
from twoway.kernels.lanes import pad_to_lanes
from twoway.solvers import CoupledNMF
from twoway.solvers.cell_sets import expected_counts

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "benchmarks" / "out"
PAGE = ROOT / "docs" / "benchmarks.md"

Row = tuple[str, str, str, bool]
"""What was measured, the target, the result, whether it was reached."""


def folder(variable: str) -> Path | None:
    path = os.environ.get(variable)
    return Path(path) if path and Path(path).is_dir() else None


def best_of(function: Callable[[], Any], times: int) -> float:
    """Return the seconds of the fastest of several runs, after a warm-up."""
    function()
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def reference() -> list[Row]:
    """Coupled-nmf against the authors' CNMF-OPT."""
    path = folder("TWOWAY_REFERENCE")
    if path is None:
        return [("coupled-nmf against the authors' runs", "", "no reference folder here", False)]
    runs = json.loads((path / "reference.json").read_text())
    rows = []
    for name, starts in (("n5_s1e4_a", 1), ("n5_s1e4_b", 1), ("n15_s1e3", None)):
        run = runs[name]
        tables = tw.count(tw.Records(np.load(path / f"{name}.npz")["records"], missing=[-1]))

        def solve(tables: tw.Tables = tables, rank: int = run["rank"], starts: int | None = starts) -> tw.JointPMF:
            return tw.fit(
                tables, rank=rank, solver=CoupledNMF(pair_weights="equal"), starts=starts, smoothing=0, threads=1
            )

        seconds, objective = best_of(solve, 5), solve().report.objective
        theirs, target = run["opt"]["seconds"], run["opt"]["mean_kl_per_pair"]
        reached = objective <= target and theirs / seconds >= 1000
        rows.append(
            (
                f"coupled-nmf on {name} ({'one start' if starts else 'default starts, total time'})",
                f"mean KL per pair ≤ {target:.8f}, 1000 times faster than {theirs:.1f} s",
                f"{objective:.8f}, {theirs / seconds:.0f} times faster ({seconds * 1e3:.1f} ms)",
                reached,
            )
        )
    return rows


def half_missing_records() -> tuple[tw.JointPMF, tw.Records]:
    truth = dirichlet_rows(15, 10, 10, seed=0)
    return truth, draw_records(truth, 100_000, observed=0.5, seed=1).canonical()


def em() -> list[Row]:
    """One EM round against StepMix, two threads against one, and counting all pairs."""
    from stepmix import StepMix

    _, records = half_missing_records()
    start = dirichlet_rows(15, 10, 10, seed=2)
    theta = pad_to_lanes(start.weights, start.stacked)

    def round_with(threads: int) -> Callable[[], Any]:
        from twoway.kernels.maximization import maximize

        shares, none = np.full(150, 0.1), np.zeros(151)

        def one_round() -> None:
            counts = expected_counts(records, theta, 10, threads).counts
            maximize(counts, none, shares, records.schema.offsets, 10)

        return one_round

    # Alternate, so that load from other programs affects both.
    one = two = float("inf")
    for _ in range(60):
        one, two = min(one, best_of(round_with(1), 5)), min(two, best_of(round_with(2), 5))
    counting = best_of(lambda: tw.count(records, threads=1), 15)
    codes = records.codes().astype(float)
    codes[codes < 0] = np.nan

    def stepmix_seconds(rounds: int) -> float:
        model = StepMix(
            n_components=10,
            measurement="categorical_nan",
            max_iter=rounds,
            abs_tol=0.0,
            rel_tol=0.0,
            n_init=1,
            random_state=0,
            progress_bar=0,
        )
        began = time.perf_counter()
        model.fit(codes)
        return time.perf_counter() - began

    # The difference of two run lengths excludes the set-up.
    theirs = min((stepmix_seconds(6) - stepmix_seconds(2)) / 4 for _ in range(3))
    return [
        (
            "one EM round (N=15, I=10, F=10, S=10⁵, half missing), one thread",
            "100 times faster than StepMix 3.0.0",
            f"{theirs / one:.0f} times ({one * 1e3:.2f} ms against {theirs * 1e3:.0f} ms)",
            theirs / one >= 100,
        ),
        ("the same, two threads", "1.6 times one thread", f"{one / two:.2f} times", one / two >= 1.6),
        (
            "counting all pairs of the same records, one thread",
            "under two EM rounds",
            f"{counting / one:.2f} rounds ({counting * 1e3:.2f} ms)",
            counting < 2 * one,
        ),
    ]


def auto_n5() -> list[Row]:
    """The error of auto at N=5."""
    rows = []
    for n_records, target in ((1000, 0.64), (10_000, 0.219), (100_000, 0.067)):
        errors = []
        for seed in range(10):
            truth = nearly_separable(0.1, seed=seed)
            pmf = tw.fit(draw_records(truth, n_records, observed=0.5, seed=1000 + seed), rank=5)
            errors.append(tw.mean_relative_error(truth, pmf))
        mean = float(np.mean(errors))
        rows.append(
            (
                f"auto, MRE, N=5, ε=0.1, p=0.5, S={n_records}, mean of 10 seeds",
                f"≤ {target}",
                f"{mean:.4f} ± {np.std(errors):.4f}",
                mean <= target,
            )
        )
    return rows


def auto_n15() -> list[Row]:
    """The error of auto at N=15."""
    rows = []
    for observed, n_records, target in (
        (0.5, 1000, 0.040),
        (0.5, 10_000, 0.0026),
        (0.5, 100_000, 0.00026),
        (0.2, 10_000, 0.0165),
    ):
        errors = []
        for seed in range(5):
            truth = dirichlet_rows(15, 10, 10, seed=seed)
            pmf = tw.fit(draw_records(truth, n_records, observed=observed, seed=1000 + seed), rank=10)
            errors.append(tw.factor_mse(truth, pmf))
        mean = float(np.mean(errors))
        rows.append(
            (
                f"auto, MSE, N=15, F=10, p={observed}, S={n_records}, mean of 5 seeds",
                f"≤ {target}",
                f"{mean:.6f} ± {np.std(errors):.6f}",
                mean <= target,
            )
        )
    gains = []
    for seed in range(5):
        truth = dirichlet_rows(15, 10, 10, seed=seed)
        records = draw_records(truth, 1000, observed=0.2, seed=1000 + seed)
        held_out = draw_records(truth, 20_000, observed=0.2, seed=2000 + seed)
        fits = [tw.fit(records, rank=rank) for rank in (10, 1)]
        gains.append(float(np.mean(fits[0].log_prob(held_out) - fits[1].log_prob(held_out))))
    rows.append(
        (
            "auto, p=0.2, S=1000: held-out log-likelihood per record above independence, 5 seeds",
            "> 0",
            f"{np.mean(gains):.2g} (lowest {min(gains):.2g})",
            min(gains) > 0,
        )
    )
    return rows


def auto_time() -> list[Row]:
    """The time of auto at a given rank."""
    small = draw_records(nearly_separable(0.1, seed=0), 1000, observed=0.5, seed=1)
    large = draw_records(dirichlet_rows(15, 10, 10, seed=0), 100_000, observed=0.5, seed=1)
    few, many = best_of(lambda: tw.fit(small, rank=5), 3), best_of(lambda: tw.fit(large, rank=10), 2)
    return [
        ("time of auto, N=5, S=10³, two cores", "under 1 s", f"{few:.2f} s", few < 1),
        ("time of auto, N=15, S=10⁵, two cores", "under 30 s, goal 10 s", f"{many:.2f} s", many < 30),
    ]


def real_data() -> list[Row]:
    """Tables alone on bfi, and poLCA's maxima."""
    path = folder("TWOWAY_DATA")
    if path is None:
        return [("real data", "", "no data folder here", False)]
    rows = []
    items = pd.read_csv(path / "surveys" / "bfi.csv.gz").iloc[:, :25]
    records = tw.Records(items)
    triples = list(itertools.combinations(items.columns, 3))
    drawn = [list(triples[place]) for place in np.random.default_rng(0).choice(len(triples), 300, replace=False)]
    for rank in (3, 6, 10):
        from_tables, from_records = tw.fit(tw.count(records), rank=rank), tw.fit(records, rank=rank, solver="em")
        distances = [
            float(np.mean([tw.total_variation(records, pmf, names) for names in drawn]))
            for pmf in (from_tables, from_records)
        ]
        ratio = distances[0] / distances[1]
        rows.append(
            (
                f"bfi, 25 items, rank {rank}: total variation of 300 three-way marginals, pair tables alone against EM",
                "≤ 1.2 times",
                f"{ratio:.3f} times ({distances[0]:.4f} against {distances[1]:.4f})",
                ratio <= 1.2,
            )
        )
    for name, published in (("carcinoma", -293.7), ("gss82", -2754.5)):
        frame = pd.read_csv(path / "lca" / f"poLCA__{name}.csv")
        best = max(tw.fit(frame, rank=3, solver="em", seed=seed).report.log_likelihood for seed in range(10))
        rows.append(
            (
                f"{name}, 3 classes: log-likelihood, best of 100 starts",
                f"poLCA's {published} (rounded to one decimal)",
                f"{best:.3f}",
                round(best, 1) >= published,
            )
        )
    return rows


def memory() -> list[Row]:
    """The growth of peak memory in a fit of ten million records."""
    program = ROOT / "benchmarks" / "memory.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    ratio = measured["growth_bytes"] / measured["records_bytes"]
    return [
        (
            "memory of a fit, S=10⁷, N=15, half missing: growth of peak resident memory",
            "at most 3 times the compressed records",
            f"{ratio:.2f} times ({measured['growth_bytes'] / 2**20:.0f} MB for "
            f"{measured['records_bytes'] / 2**20:.0f} MB; fit in {measured['seconds']:.0f} s)",
            ratio <= 3,
        )
    ]


def importing() -> list[Row]:
    """The start of ``import twoway``."""
    command = [sys.executable, "-c", "import twoway"]
    bare = best_of(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), 5)
    seconds = best_of(lambda: subprocess.run(command, check=True), 5) - bare
    return [("import twoway, in addition to Python's own start-up", "under 0.3 s", f"{seconds:.3f} s", seconds < 0.3)]


SECTIONS: dict[str, Callable[[], list[Row]]] = {
    "reference": reference,
    "em": em,
    "auto-n5": auto_n5,
    "auto-n15": auto_n15,
    "auto-time": auto_time,
    "real-data": real_data,
    "memory": memory,
    "import": importing,
}


def processor() -> str:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return names[0].split(":")[1].strip() if names else platform.processor()


def write_page(results: dict[str, list[Row]]) -> None:
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; `python benchmarks/core.py SECTION` measures one section. "
        "Shared machines are noisy: compare the ratios, which are measured within one run. "
        "[Beside the best](peers.md) compares with other packages.",
        "",
        f"{processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, numpy {np.__version__}; "
        f"{time.strftime('%Y-%m-%d')}.",
        "",
        "| section | what | target | measured | |",
        "|---|---|---|---|---|",
    ]
    for section in SECTIONS:
        lines += [
            f"| `{section}` | {what} | {target} | {measured} | {'✓' if reached else '✗'} |"
            for what, target, measured, reached in results.get(section, [])
        ]
    PAGE.write_text("\n".join(lines) + "\n")


def main() -> None:
    asked = sys.argv[1:] or list(SECTIONS)
    OUT.mkdir(exist_ok=True)
    saved = OUT / "core.json"
    results = json.loads(saved.read_text()) if saved.exists() else {}
    for section in asked:
        if section not in SECTIONS:
            sys.exit(f"no section {section!r}; known: {', '.join(SECTIONS)}")
        results[section] = [
            (what, target, measured, bool(reached)) for what, target, measured, reached in SECTIONS[section]()
        ]
        for what, target, measured, reached in results[section]:
            print(f"{'ok  ' if reached else 'MISS'}  {what}: {measured}   (target: {target})", flush=True)
        saved.write_text(json.dumps(results))
    write_page(results)


if __name__ == "__main__":
    main()
