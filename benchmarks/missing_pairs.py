"""Compare solvers on two-way tables of which 30, 50 or 70 % are missing.

    python benchmarks/missing_pairs.py [DATA]...

Prints the Markdown tables of docs/solvers.md: means over ten seeds, each of which hides other tables, and their
standard errors. The tables that are left always connect all variables. DATA are "exact", "simulated", "wide",
"election", "bfi" and "adult"; all by default, the last three with the folder of TWOWAY_DATA. Set OMP_NUM_THREADS=1:
times are CPU seconds.

"Hidden pairs" is the mean total variation between the model's and the true tables of the pairs that were hidden; on
real data the true ones are those of all records. "Joint" is the mean relative error of the whole joint, where known.
"""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

import twoway as tw
from twoway.data.records import Records
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import TwowayError
from twoway.model.comparison import mean_relative_error, total_variation
from twoway.solvers.evidence import PairMatrix
from twoway.tables.pair_graph import PairGraph
from twoway.tables.tables import Tables

SHARES = (0.3, 0.5, 0.7)
N_SEEDS = 10
METHODS = {
    "spa": {"solver": "spa"},
    "symmetric-nmf": {"solver": "symmetric-nmf"},
    "coupled-nmf, 1 start": {"solver": "coupled-nmf", "starts": 1},
    "coupled-nmf, 10 starts": {"solver": "coupled-nmf"},
    "symmetric-nmf+coupled-nmf": {"solver": "symmetric-nmf+coupled-nmf"},
    "auto, this rank": {"solver": "auto"},
    "auto, any structure": {"rank": None},
}
METRICS = ("1000 × KL divergence per published table", "Hidden pairs", "Joint", "CPU seconds")
RANK = 4
# Others take minutes there.
WIDE_METHODS = ("symmetric-nmf", "coupled-nmf, 1 start", "symmetric-nmf+coupled-nmf")
ADULT = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital", "occupation", "relationship", "race"),
    *("sex", "gain", "loss", "hours", "country", "income"),
)


def simulated(seed: int) -> tuple[tw.JointPMF, Tables]:
    """Return a model, and the tables of 10,000 records from it."""
    truth = dirichlet_rows(10, 5, RANK, seed=seed)
    return truth, tw.count(draw_records(truth, 10_000, seed=seed))


def exact(seed: int) -> tuple[tw.JointPMF, Tables]:
    """Return a model, and its own tables without any sampling error."""
    truth = dirichlet_rows(10, 5, RANK, seed=seed)
    sets = np.stack(np.triu_indices(len(truth.schema), 1), axis=1)
    shares = [np.asarray(truth.marginal([truth.schema.names[at] for at in pair])).ravel() for pair in sets]
    return truth, Tables(truth.schema, sets, 1e8 * np.concatenate(shares))


def wide(seed: int) -> tuple[tw.JointPMF, Tables]:
    """Return a model of many variables, and the tables of 20,000 records from it."""
    truth = dirichlet_rows(60, 4, 2 * RANK, seed=seed)
    return truth, tw.count(draw_records(truth, 20_000, seed=seed))


def election(seed: int) -> tuple[Records, Tables]:
    """Return the twelve opinions on candidates, and their tables."""
    frame = pd.read_csv(data_folder() / "lca" / "poLCA__election.csv")
    return with_tables(frame.filter(regex="[GB]$"))


def bfi(seed: int) -> tuple[Records, Tables]:
    """Return ten items of personality, two of each trait, and their tables."""
    frame = pd.read_csv(data_folder() / "surveys" / "bfi.csv.gz")
    return with_tables(frame[[f"{trait}{number}" for trait in "ACENO" for number in (1, 2)]])


def adult(seed: int) -> tuple[Records, Tables]:
    """Return the columns of Adult, numbers in five bins, and their tables."""
    path = data_folder() / "uci" / "adult.data.gz"
    frame = pd.read_csv(path, names=ADULT, skipinitialspace=True, na_values="?")
    frame = frame.drop(columns=["fnlwgt", "education-num", "country", "gain", "loss"])
    for name in ("age", "hours"):
        frame[name] = pd.qcut(frame[name], 5, duplicates="drop").astype(str)
    return with_tables(frame)


def with_tables(frame: pd.DataFrame) -> tuple[Records, Tables]:
    """Return records and all their two-way tables."""
    records = Records(frame.drop(columns=[name for name in frame if name.startswith("Unnamed")]))
    return records, tw.count(records)


def data_folder() -> Path:
    return Path(os.environ["TWOWAY_DATA"])


DATA = {"exact": exact, "simulated": simulated, "wide": wide, "election": election, "bfi": bfi, "adult": adult}


@cache
def with_hidden_pairs(name: str, share: float, seed: int) -> tuple[tw.JointPMF | Records, Tables, np.ndarray]:
    """Return the truth, all tables, and which of them are left."""
    truth, tables = DATA[name](seed)
    return truth, tables, left_after_hiding(tables, share, seed)


def left_after_hiding(tables: Tables, share: float, seed: int) -> np.ndarray:
    """Return which tables are left when a share of them, drawn at random, is hidden without parting any variables."""
    random, left = np.random.default_rng(seed), np.ones(len(tables), dtype=bool)
    for table in random.permutation(len(tables)):
        if np.count_nonzero(~left) >= round(share * len(tables)):
            break
        left[table] = False
        if len(PairGraph.of(tables.part(left)).groups()) > 1:
            left[table] = True
    return left


def scores(truth: tw.JointPMF | Records, tables: Tables, left: np.ndarray, options: dict[str, object]) -> list[float]:
    """Return the objective, the distances of hidden pairs and of the joint, and the CPU seconds of a fit."""
    published = tables.part(left)
    began = time.process_time()
    rank = truth.rank if isinstance(truth, tw.JointPMF) else RANK
    pmf = tw.fit(published, threads=1, **{"rank": rank, **options})
    seconds = time.process_time() - began
    hidden = [names for names, is_left in zip(tables.names, left, strict=True) if not is_left]
    distance = np.mean([total_variation(truth, pmf, names) for names in hidden])
    is_single = pmf.n_hidden == 1
    objective = PairMatrix.of(published).divergence(pmf) if is_single else np.nan
    known = isinstance(truth, tw.JointPMF) and is_single
    return [1e3 * objective, distance, mean_relative_error(truth, pmf) if known else np.nan, seconds]


def cells(name: str, share: float, method: str) -> list[str]:
    """Return the mean scores of a method over the seeds; "-" where it is not run, or does not have them."""
    values = []
    if name == "wide" and method not in WIDE_METHODS:
        return ["-"] * len(METRICS)
    for seed in range(N_SEEDS):
        try:
            values.append(scores(*with_hidden_pairs(name, share, seed), METHODS[method]))
        except TwowayError:
            return ["-"] * len(METRICS)
    return [shown(np.array(column)) for column in zip(*values, strict=True)]


def shown(column: np.ndarray) -> str:
    """Return a mean and its standard error."""
    if np.isnan(column).any():
        return "-"
    return f"{column.mean():.4f} ± {column.std(ddof=1) / np.sqrt(len(column)):.4f}"


def main() -> None:
    rows: list[list[list[str]]] = [[] for _ in METRICS]
    for name in sys.argv[1:] or DATA:
        for share in SHARES:
            of_methods = [cells(name, share, method) for method in METHODS]
            for table, of_metric in zip(rows, zip(*of_methods, strict=True), strict=True):
                table.append([f"{name}, {share:.0%}", *of_metric])
            print(*rows[1][-1], sep=" | ", file=sys.stderr, flush=True)
    for metric, table in zip(METRICS, rows, strict=True):
        print(f"\n**{metric}**\n\n| data, hidden | {' | '.join(METHODS)} |\n|---|{'---|' * len(METHODS)}")
        print(*(f"| {' | '.join(row)} |" for row in table), sep="\n")


if __name__ == "__main__":
    main()
