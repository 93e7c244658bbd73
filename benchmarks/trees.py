"""Measure hidden trees: predictions on a survey beside those of one hidden variable, and the speed of a pass.

    python benchmarks/trees.py [survey|speed]

Prints the Markdown tables of docs/how-it-works.md. "survey" needs the election study in TWOWAY_DATA
(lca/poLCA__election.csv): half of it is fitted, the other half predicted. "speed" compares a pass of EM with its
matrix products alone, done by numpy's BLAS; set OPENBLAS_NUM_THREADS=1, because the pass uses one thread.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

import twoway as tw
from twoway.kernels.trees import expect_tree
from twoway.model.hidden_tree import HiddenTree, packed_tree

N_STRONGEST = 15
AGES = [-1, 29, 39, 49, 59, 69, 200]
N_VARIABLES, N_CATEGORIES, N_STATES, N_RECORDS, OBSERVED = 15, 10, 10, 100_000, 0.5
N_TIMES = 15


def main() -> None:
    sections = {"survey": survey, "speed": speed}
    for name in sys.argv[1:] or sections:
        sections[name]()
        print()


def survey() -> None:
    """Half of the election study predicted from the other half."""
    if "TWOWAY_DATA" not in os.environ:
        print("survey: set TWOWAY_DATA to the folder with lca/poLCA__election.csv")
        return
    study = pd.read_csv(Path(os.environ["TWOWAY_DATA"]) / "lca" / "poLCA__election.csv")
    ages = [f"over {low}" for low in AGES[:-1]]
    binned = study.assign(AGE=pd.cut(study["AGE"], AGES, labels=ages).astype(object))
    print("| fitted | model | records | strongest pairs | tables off |\n|---|---|---:|---:|---:|")
    for name, frame in (("ages in six groups", binned), ("ages as they are", study)):
        train, test = halves(frame)
        pairs = strongest(train)
        observed = np.mean([cross_tab_score(train, test, *pair) for pair in pairs])
        print(f"| {name} | cross-tabs | | {observed:.3f} | |")
        for structure in ("single", "tree"):
            show(name, structure, tw.fit(train, structure=structure), test, pairs)
    train, test = halves(binned)
    hidden = train.mask(np.random.default_rng(0).random(train.shape) < 0.3)
    for structure in ("single", "tree"):
        pmf = tw.fit(tw.count(hidden), structure=structure)
        show("two-way tables, 30 % of the cells hidden", structure, pmf, test, strongest(train))


def show(name: str, structure: str, pmf: tw.JointPMF, test: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> None:
    of_pairs = np.mean([pair_score(pmf, test, *pair) for pair in pairs])
    check = pmf.report.check if pmf.report else None
    off = "" if check is None else f"{check.n_off} of {check.n_tables}"
    print(f"| {name} | {structure} | {pmf.log_prob(test).mean():.3f} | {of_pairs:.3f} | {off} |", flush=True)


def halves(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two random halves, the second without records that show a category which the first lacks."""
    order = np.random.default_rng(0).permutation(len(frame))
    train, test = frame.iloc[order[: len(frame) // 2]], frame.iloc[order[len(frame) // 2 :]]
    known = [test[name].isna() | test[name].isin(train[name].dropna().unique()) for name in frame]
    return train, test[np.logical_and.reduce(known)]


def strongest(train: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the pairs of variables of largest mutual information, in the order of their columns."""
    return sorted(combinations(train.columns, 2), key=lambda pair: -information(train, *pair))[:N_STRONGEST]


def information(frame: pd.DataFrame, one: str, other: str) -> float:
    shares = pd.crosstab(frame[one], frame[other], normalize=True).to_numpy()
    plain = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    return float((shares[shares > 0] * np.log(shares[shares > 0] / plain[shares > 0])).sum())


def pair_score(pmf: tw.JointPMF, test: pd.DataFrame, one: str, other: str) -> float:
    """Return the mean log-probability of one variable given the other."""
    seen = test[[one, other]].dropna()
    return float((pmf.log_prob(seen) - pmf.log_prob(seen[[other]])).mean())


def cross_tab_score(train: pd.DataFrame, test: pd.DataFrame, one: str, other: str) -> float:
    """Return the same of a cross-tab, with a pseudo-record for each category, spread by the overall shares."""
    shares = train[one].value_counts(normalize=True)
    counts = pd.crosstab(train[one], train[other]).reindex(shares.index)
    smoothed = counts.add(len(shares) * shares, axis=0)
    conditional = smoothed / smoothed.sum()
    seen = test[[one, other]].dropna()
    return float(np.mean([np.log(conditional.at[row[0], row[1]]) for row in seen.itertuples(index=False)]))


def speed() -> None:
    """A pass of EM on a chain of hidden variables, against its matrix products alone."""
    print("| hidden variables | pass | its products by BLAS | ratio |\n|---:|---:|---:|---:|")
    rng = np.random.default_rng(0)
    for n_hidden in (13, 7):
        tree = random_chain(n_hidden, rng)
        rows, theta, prototype = packed_tree(tree)
        observed = rng.random((N_RECORDS, N_VARIABLES)) < OBSERVED
        codes = rng.integers(N_CATEGORIES, size=observed.shape) + N_CATEGORIES * np.arange(N_VARIABLES)
        cells, pointers = codes[observed].astype(np.uint16), np.cumsum([0, *observed.sum(axis=1)])
        no_weights, counts = np.empty(0), np.zeros_like(theta)
        block, transition = rng.random((N_RECORDS, N_STATES)), rng.random((N_STATES, N_STATES))
        product, crossed = np.empty_like(block), np.empty_like(transition)

        def one_pass() -> None:
            expect_tree(pointers, cells, no_weights, rows, theta, counts, prototype)  # noqa: B023

        def products() -> None:
            for _ in range(n_hidden - 1):  # noqa: B023
                np.matmul(block, transition, out=product)  # noqa: B023
                np.matmul(block, transition.T, out=product)  # noqa: B023
                np.matmul(block.T, block, out=crossed)  # noqa: B023

        seconds = [best_seconds(one_pass), best_seconds(products)]
        print(
            f"| {n_hidden} | {1000 * seconds[0]:.0f} ms | {1000 * seconds[1]:.0f} ms | {seconds[0] / seconds[1]:.2f} |"
        )


def random_chain(n_hidden: int, rng: np.random.Generator) -> HiddenTree:
    def columns(n_rows: int) -> np.ndarray:
        return rng.dirichlet(np.ones(n_rows), size=N_STATES).T

    return HiddenTree(
        (-1, *range(n_hidden - 1)),
        tuple(n % n_hidden for n in range(N_VARIABLES)),
        np.full(N_STATES, 1 / N_STATES),
        tuple(columns(N_STATES) for _ in range(n_hidden - 1)),
        tuple(columns(N_CATEGORIES) for _ in range(N_VARIABLES)),
    )


def best_seconds(call: Callable[[], None]) -> float:
    """Return the least processor time of several calls."""
    call()
    seconds = []
    for _ in range(N_TIMES):
        began = time.thread_time()
        call()
        seconds.append(time.thread_time() - began)
    return min(seconds)


if __name__ == "__main__":
    main()
