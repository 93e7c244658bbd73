"""Measure what smoothing each variable by its own evidence brings, against one amount for all.

    python benchmarks/smoothing.py [--halves 4] [election election-ages adult bfi votes carcinoma]

Prints the Markdown table of docs/how-it-works.md. Random halves of each data set, which come from the folder in
TWOWAY_DATA, are fitted with default options; the other half is predicted. Then they are fitted with the same rank and
the same smoothing, but without what single variables get. 15 minutes on two cores.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from trees import AGES, election, halves

import twoway as tw
from twoway.fitting.sources import evidence_of_source
from twoway.solvers import Auto, Problem, Smoothing
from twoway.solvers.tree import Tree

N_ADULTS = 3000


def binned() -> pd.DataFrame:
    study = election()
    return study.assign(AGE=pd.cut(study["AGE"], AGES, labels=[f"over {low}" for low in AGES[:-1]]).astype(object))


def data(*path: str) -> Path:
    return Path(os.environ["TWOWAY_DATA"]).joinpath(*path)


def adult() -> pd.DataFrame:
    """Return some people of UCI's Adult, ages in threes, without its numbers of many values."""
    names = pd.RangeIndex(15).map("a{}".format)
    people = pd.read_csv(data("uci", "adult.data.gz"), names=names, skipinitialspace=True, na_values="?")
    people = people.drop(columns=["a2", "a10", "a11"]).sample(N_ADULTS, random_state=0)
    return people.assign(a0=people["a0"] // 3)


SETS = {
    "election": ("election study, ages in six groups", binned),
    "election-ages": ("election study, ages as they are", election),
    "adult": (f"{N_ADULTS:,} people of Adult", adult),
    "bfi": ("bfi, 28 columns", lambda: pd.read_csv(data("surveys", "bfi.csv.gz"))),
    "votes": ("Votes", lambda: pd.read_csv(data("uci", "house-votes-84.data"), header=None, na_values="?")),
    "carcinoma": ("carcinoma", lambda: pd.read_csv(data("lca", "poLCA__carcinoma.csv"))),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="*", choices=[[], *SETS])
    parser.add_argument("--halves", type=int, default=4)
    asked = parser.parse_args()
    if "TWOWAY_DATA" not in os.environ:
        sys.exit("there is no data folder: set TWOWAY_DATA")
    print("| data | model | one amount | by variable | gain | least to most |\n|---|---|---:|---:|---:|---:|")
    for name in asked.sets or SETS:
        title, read = SETS[name]
        for structure in ("single", "tree"):
            scores = np.array([measured(read(), structure, seed) for seed in range(asked.halves)])
            (common, own), gains = scores.mean(axis=0), scores[:, 1] - scores[:, 0]
            spread = f"{gains.min():+.3f} to {gains.max():+.3f}"
            print(f"| {title} | {structure} | {common:.3f} | {own:.3f} | {gains.mean():+.3f} | {spread} |", flush=True)


def measured(frame: pd.DataFrame, structure: str, seed: int) -> tuple[float, float]:
    """Return the log-probability of the other half's records with one amount for all, and by variable."""
    train, test = halves(frame, seed)
    pmf = tw.fit(train, structure=structure)
    own, report = float(pmf.log_prob(test).mean()), pmf.report
    assert report is not None
    if not report.smoothing_times:
        return own, own
    smoothing = Smoothing(report.smoothing, report.weight_smoothing)
    problem = Problem(evidence_of_source(train, None)[0], pmf.rank, smoothing=smoothing)
    solver = Auto() if structure == "single" else Tree(counts_tables=report.counts_tables)
    return float(solver.solve(problem).pmf.log_prob(test).mean()), own


if __name__ == "__main__":
    main()
