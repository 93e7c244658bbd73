"""Measure the command line: ``python benchmarks/cli.py [ask] [fit] [--records N]`` prints a Markdown table.

Ratios compare alternating runs, best of several each. ``ask`` times ``twoway ask`` against
``python -c pass``; ``fit`` times ``twoway fit --rank 10`` on a CSV of 20 columns against the minimum work:
DuckDB reading that file into Arrow, and `tw.fit` on that Arrow table.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

REPEATS = 15


class Cost(NamedTuple):
    seconds: float
    cpu: float
    """Seconds of processor time, which other programs on the machine disturb less."""


def cost(command):
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), done.stdout


def best(costs):
    return Cost(*map(min, zip(*costs, strict=True)))


def time_ask(folder):
    from twoway.datasets import dirichlet_rows

    model = folder / "model.twoway"
    dirichlet_rows(20, 5, 10).save(model)
    commands = {
        "ask": [sys.executable, "-m", "twoway", "ask", str(model), "P(x2 | x1 = 0, x3 in {1, 2})"],
        "numpy": [sys.executable, "-c", "import numpy"],
        "nothing": [sys.executable, "-c", "pass"],
    }
    rounds = [{name: cost(command)[0] for name, command in commands.items()} for _ in range(REPEATS)]
    ask, numpy, nothing = (best(one[name] for one in rounds) for name in commands)
    return [
        ("`twoway ask`, in all", f"{ask.seconds:.3f} s", f"{ask.cpu:.2f} s", "under 0.5 s"),
        ("… against `python -c pass`", f"{ask.seconds / nothing.seconds:.1f} times", "", "at most 30 times"),
        ("… of which `import numpy`", f"{numpy.seconds - nothing.seconds:.3f} s", f"{numpy.cpu:.2f} s", ""),
    ]


def write_csv(path, n_records):
    import pyarrow.csv as pa_csv

    from twoway.datasets import dirichlet_rows

    pa_csv.write_csv(dirichlet_rows(20, 5, 10).sample(n_records, library="pyarrow"), path)


READ_AND_FIT = """
import sys, time
import duckdb, twoway as tw
def clocks():
    return time.perf_counter(), time.process_time()
start = clocks()
table = duckdb.connect().read_csv(sys.argv[1]).to_arrow_table()
read = clocks()
tw.fit(table, rank=10)
end = clocks()
print()
print(read[0] - start[0], read[1] - start[1], end[0] - read[0], end[1] - read[1])
"""


def time_fit(folder, n_records, repeats):
    data, model = folder / "records.csv", folder / "fitted.twoway"
    write_csv(data, n_records)
    command = [sys.executable, "-m", "twoway", "fit", str(data), "-o", str(model), "--rank", "10", "--force"]
    whole, reads, fits = [], [], []
    for _ in range(repeats):
        whole.append(cost(command)[0])
        told = cost([sys.executable, "-c", READ_AND_FIT, str(data)])[1].split()[-4:]
        reads.append(Cost(*map(float, told[:2])))
        fits.append(Cost(*map(float, told[2:])))
    command, read, fit = best(whole), best(reads), best(fits)
    ratios = [command[clock] / (read[clock] + fit[clock]) for clock in range(2)]
    return [
        (f"`twoway fit --rank 10`, {n_records:,} × 20 CSV", f"{command.seconds:.1f} s", f"{command.cpu:.1f} s", ""),
        ("DuckDB reads the file into Arrow", f"{read.seconds:.1f} s", f"{read.cpu:.1f} s", ""),
        ("`tw.fit` on that Arrow table", f"{fit.seconds:.1f} s", f"{fit.cpu:.1f} s", ""),
        ("the first against the sum of these", *(f"{ratio:.2f} times" for ratio in ratios), "at most 2 times"),
    ]


def main():
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, as for users
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", help="ask, fit; both by default")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3, help="of the fit")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if not options.what or "ask" in options.what:
            rows += time_ask(Path(folder))
        if not options.what or "fit" in options.what:
            rows += time_fit(Path(folder), options.records, options.repeats)
    print(f"| what | measured ({os.cpu_count()} cores) | processor time | target |\n|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
