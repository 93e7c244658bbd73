"""Measure files larger than memory against their targets, and write the figures to docs/scale.md.

    python benchmarks/files.py                     everything, about a quarter of an hour; 2 GB of scratch disk
    python benchmarks/files.py count wide          some sections
    python benchmarks/files.py --folder /scratch   data there, kept for the next run
    python benchmarks/files.py --records 1000000   with fewer records than fifty million

Everything runs in a fresh process, kernels compiled before. Memory is its peak resident memory. Times that are compared
are CPU seconds of all threads together, because other work on a machine disturbs them least; on an idle machine
with two cores the clock shows about half of them. EM rounds are compared by the clock, turn and turn about.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "scale.md"
N_VARIABLES, N_CATEGORIES, RANK = 20, 5, 10
LARGE = 50_000_000
PART = 1_000_000

Row = tuple[str, str, str, bool]
"""What was measured, the target, the result, whether it was reached."""


# The data


def make_records(folder: Path, n_records: int, observed: float = 1.0, n_variables: int = N_VARIABLES) -> Path:
    """Return a Parquet file of drawn records, text dictionary-encoded; reuse an existing one."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from twoway.datasets import dirichlet_rows, draw_records

    path = folder / f"{n_records}x{n_variables}-{observed}.parquet"
    if path.exists():
        return path
    truth = dirichlet_rows(n_variables, N_CATEGORIES, RANK, seed=0)
    part_records = PART * N_VARIABLES // n_variables
    labels = pa.array([f"category {code}" for code in range(N_CATEGORIES)])
    scratch = path.with_suffix(".part")
    writer = None
    for seed in range(-(-n_records // part_records)):
        n_drawn = min(part_records, n_records - seed * part_records)
        part = draw_records(truth, n_drawn, observed=observed, seed=seed)
        codes = part.codes().T
        columns = [
            pa.DictionaryArray.from_arrays(pa.array(column.astype(np.int8), mask=column < 0), labels)
            for column in codes
        ]
        table = pa.table(columns, names=list(truth.schema.names))
        writer = writer or pq.ParquetWriter(scratch, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    scratch.rename(path)
    return path


# Measurements, each in its own process


def count_ours(path: str) -> dict[str, Any]:
    import twoway as tw

    began = time.perf_counter()
    tables = tw.count(tw.FileRecords(path))
    return {"seconds": time.perf_counter() - began, "total": float(tables.totals.sum())}


def count_duckdb(path: str) -> dict[str, Any]:
    """DuckDB's own counts of all pairs: query per pair or grouping sets, whichever is faster."""
    from itertools import combinations

    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    names = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()]
    pairs = list(combinations(names, 2))

    def separate(some: list[tuple[str, str]]) -> float:
        began = time.perf_counter()
        for one, two in some:
            connection.execute(f"SELECT {one}, {two}, count(*) FROM '{path}' GROUP BY {one}, {two}").fetchall()
        return time.perf_counter() - began

    def sets(some: list[tuple[str, str]]) -> float:
        listed = ", ".join(f"({one}, {two})" for one, two in some)
        used = ", ".join(dict.fromkeys(name for pair in some for name in pair))
        began = time.perf_counter()
        connection.execute(f"SELECT {used}, count(*) FROM '{path}' GROUP BY GROUPING SETS ({listed})").fetchall()
        return time.perf_counter() - began

    few = pairs[:: len(pairs) // 10][:10]
    ways = {"query per pair": separate(few), "grouping sets": sets(few)}
    best = min(ways, key=lambda way: ways[way])
    before = time.process_time()
    seconds = separate(pairs) if best == "query per pair" else sum(sets(pairs[k : k + 10]) for k in range(0, 190, 10))
    return {"seconds": seconds, "cpu": time.process_time() - before, "way": best, "ten_pairs": ways}


def fit_ours(path: str) -> dict[str, Any]:
    import twoway as tw

    began = time.perf_counter()
    pmf = tw.fit(tw.FileRecords(path), rank=RANK)
    return {
        "seconds": time.perf_counter() - began,
        "passes": pmf.report.starts[0].n_iter,
        "stop": str(pmf.report.stop_reason),
        "warnings": list(pmf.report.warnings),
        "log_likelihood": pmf.report.log_likelihood,
    }


def em_rounds(path: str) -> dict[str, Any]:
    """One round from the scratch file, from the files themselves, and in memory, in alternating runs."""
    import twoway as tw
    from twoway.data.files import file_records as in_scratch
    from twoway.datasets import dirichlet_rows
    from twoway.kernels.lanes import pad_to_lanes
    from twoway.solvers.cell_sets import expected_counts

    in_scratch.KEPT_BYTES = 0  # always use a scratch file
    source = tw.FileRecords(path)
    scratch = source.for_fit()
    memory = tw.Records.joined(scratch.map_reduce(lambda b: [_copied(scratch.schema, b)], lambda a, b: a + b))
    start = dirichlet_rows(N_VARIABLES, N_CATEGORIES, RANK, seed=2)
    theta = pad_to_lanes(start.weights, start.stacked)

    def seconds(records: Any) -> float:
        began = time.perf_counter()
        expected_counts(records, theta, RANK, None)
        return time.perf_counter() - began

    times = {"memory": 1e9, "scratch": 1e9, "files": seconds(source)}
    for _ in range(5):
        times["memory"] = min(times["memory"], seconds(memory))
        times["scratch"] = min(times["scratch"], seconds(scratch))
    return times


def _copied(schema: Any, block: Any) -> Any:
    import twoway as tw

    return tw.Records.joined([tw.Records.from_block(schema, block)])


def wide(path: str) -> dict[str, Any]:
    """Five hundred variables: counts, and coupled-nmf from them."""
    import twoway as tw
    from twoway.solvers import CoupledNMF

    began = time.perf_counter()
    tables = tw.count(tw.FileRecords(path))
    counted = time.perf_counter() - began
    pmf = tw.fit(tables, rank=20, solver=CoupledNMF(), starts=1)
    return {
        "count": counted,
        "fit": time.perf_counter() - began - counted,
        "tables": len(tables),
        "passes": pmf.report.starts[0].n_iter,
        "stop": str(pmf.report.stop_reason),
    }


TASKS: dict[str, Callable[[str], dict[str, Any]]] = {
    "count_ours": count_ours,
    "count_duckdb": count_duckdb,
    "fit_ours": fit_ours,
    "em_rounds": em_rounds,
    "wide": wide,
}


def in_process(task: str, path: Path, times: int = 1) -> dict[str, Any]:
    """Return the fastest of several runs, each in its own process, with its peak resident memory in MB."""
    runs = []
    for _ in range(times):
        run = subprocess.run([sys.executable, __file__, "--task", task, str(path)], capture_output=True, text=True)
        if run.returncode:
            sys.exit(run.stderr)
        runs.append(json.loads(run.stdout.splitlines()[-1]))
        print(f"  {task} {path.name}: {runs[-1]}", file=sys.stderr, flush=True)
    return min(runs, key=lambda one: float(one["cpu"]))


# The sections


def million(n_records: int) -> str:
    return f"{n_records / 1e6:g} million"


def count(folder: Path, n_records: int) -> list[Row]:
    """Counting against DuckDB, and how the cost grows."""
    large, small = make_records(folder, n_records), make_records(folder, n_records // 10)
    little = in_process("count_ours", small, 2)  # the first compiles the kernels
    ours, theirs = in_process("count_ours", large), in_process("count_duckdb", large)
    ratio, growth, memory = (
        theirs["cpu"] / ours["cpu"],
        ours["cpu"] / little["cpu"],
        ours["peak_mb"] / little["peak_mb"],
    )
    return [
        (
            f"counting all 190 pairs of {million(n_records)} records × 20 variables in Parquet",
            "as fast as DuckDB's GROUP BY, goal 5 times",
            f"{ratio:.1f} times as fast ({ours['cpu']:.0f} CPU s against {theirs['cpu']:.0f}, {theirs['way']})",
            ratio >= 1,
        ),
        ("the same, peak resident memory", "under 2 GB", f"{ours['peak_mb']:.0f} MB", ours["peak_mb"] < 2000),
        (
            f"counting, {million(n_records)} records against {million(n_records // 10)}",
            "time ≤ 11 times, memory ≤ 1.3 times",
            f"{growth:.1f} times, {memory:.2f} times",
            growth <= 11 and memory <= 1.3,
        ),
    ]


def fit(folder: Path, n_records: int) -> list[Row]:
    """A fit by `auto`, and how the cost grows."""
    small, large = (in_process("fit_ours", make_records(folder, n)) for n in (n_records // 10, n_records))
    growth, memory = large["cpu"] / small["cpu"], large["peak_mb"] / small["peak_mb"]
    return [
        (
            f"fitting {million(n_records)} records × 20 variables in Parquet, rank 10, solver auto: peak memory",
            "under 2 GB",
            f"{large['peak_mb']:.0f} MB ({large['cpu']:.0f} CPU s, {large['passes']} passes, {large['stop']})",
            large["peak_mb"] < 2000,
        ),
        (
            f"fitting, {million(n_records)} records against {million(n_records // 10)}",
            "time ≤ 11 times, memory ≤ 1.3 times",
            f"{growth:.1f} times, {memory:.2f} times "
            f"({small['cpu']:.0f} CPU s, {small['passes']} passes, {small['peak_mb']:.0f} MB for the fewer)",
            growth <= 11 and memory <= 1.3,
        ),
    ]


def rounds(folder: Path, n_records: int) -> list[Row]:
    """One EM round from files against one in memory."""
    rows: list[Row] = []
    n_records //= 5  # the round in memory needs space
    for observed in (1.0, 0.5):
        times = in_process("em_rounds", make_records(folder, n_records, observed))
        ratio = times["scratch"] / times["memory"]
        what = "complete" if observed == 1 else "half missing"
        rows.append(
            (
                f"one EM round from files, {million(n_records)} records × 20, {what}, rank 10",
                "≤ 3 times the round in memory",
                f"{ratio:.2f} times ({times['scratch']:.2f} s against {times['memory']:.2f} s wall-clock; "
                f"without a scratch file {times['files'] / times['memory']:.1f} times)",
                ratio <= 3,
            )
        )
    return rows


def many_variables(folder: Path, n_records: int) -> list[Row]:
    """Five hundred variables."""
    n_records = min(n_records, 1_000_000)
    found = in_process("wide", make_records(folder, n_records, 0.1, 500))
    minutes = (found["count"] + found["fit"]) / 60
    return [
        (
            f"500 variables × 5 categories, {million(n_records)} records, 90 % missing: pairs, coupled-nmf of rank 20",
            "minutes, under 4 GB",
            f"{minutes:.1f} minutes (counting {found['count']:.0f} s, fit {found['fit']:.0f} s, "
            f"{found['passes']} passes, {found['stop']}), {found['peak_mb'] / 1000:.2f} GB",
            minutes < 10 and found["peak_mb"] < 4000,
        )
    ]


SECTIONS: dict[str, Callable[[Path, int], list[Row]]] = {
    "count": count,
    "fit": fit,
    "rounds": rounds,
    "wide": many_variables,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="all by default")
    parser.add_argument("--folder", type=Path, help="where the data are made, and stay")
    parser.add_argument("--records", type=int, default=LARGE, help="how many records the largest file has")
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        task, path = given.task
        before = time.process_time()
        found = TASKS[task](path)
        print(json.dumps({"cpu": time.process_time() - before, **found, "peak_mb": peak_mb()}))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for section in given.sections or SECTIONS:
            rows = SECTIONS[section](folder, given.records)
            lines = [f"| `{section}` | {what} | {aim} | {was} | {'✓' if ok else '✗'} |" for what, aim, was, ok in rows]
            print("\n".join(lines), flush=True)
            write(section, lines)


def peak_mb() -> float:
    """Return the peak resident memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


def write(section: str, lines: list[str]) -> None:
    """Replace a section's rows in the table of docs/scale.md."""
    begin, end = "<!-- measured: python benchmarks/files.py -->", "<!-- end of what was measured -->"
    text = PAGE.read_text()
    before, rest = text.split(begin)
    table, after = rest.split(end)
    kept = [line for line in table.splitlines() if line.startswith("| `") and not line.startswith(f"| `{section}` ")]
    order = list(SECTIONS)
    rows = sorted([*kept, *lines], key=lambda line: order.index(line.split("`")[1]))
    import numpy as np

    machine = f"{len(os.sched_getaffinity(0))} cores; Python {platform.python_version()}, numpy {np.__version__}."
    head = ["| section | what | target | measured | |", "|---|---|---|---|---|"]
    PAGE.write_text(before + begin + "\n\n" + machine + "\n\n" + "\n".join([*head, *rows]) + "\n\n" + end + after)


if __name__ == "__main__":
    main()
