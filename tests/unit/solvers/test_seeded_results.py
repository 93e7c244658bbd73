"""The same seed gives the same model as in the version before, also where a fit is ended after a few passes.

Starts, splits and steps of a search may change without making a model invalid or worse; these numbers show it. A change
that is meant is noted in CHANGELOG.md, and `python tests/unit/solvers/test_seeded_results.py` then writes them again.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from random_models import random_pmf, sized

import twoway as tw
from twoway.datasets import draw_records
from twoway.solvers import CoupledNMF

STORED = Path(__file__).with_suffix(".json")
SCHEMA = sized([3, 2, 4, 2, 3])
NAMES = list(SCHEMA.names)
RECORDS = draw_records(random_pmf(SCHEMA, 3, seed=4, concentration=0.6), 400, observed=0.7, seed=1)
WEIGHTED = RECORDS.reweighted(np.random.default_rng(2).uniform(0.5, 2.0, RECORDS.n_records))
PAIRS, TRIPLES = tw.count(RECORDS), tw.count(RECORDS, 3)
# v0 – v1 – v2 – v3 – v0 is a circle, on which v4 hangs.
CIRCLE = PAIRS.part([sorted(pair) in ([0, 1], [1, 2], [2, 3], [0, 3], [3, 4]) for pair in PAIRS.sets.tolist()])

# The source, the options of `fit`, and the passes after which it is ended; None for a fit to its end.
CASES = {
    "em": (RECORDS, {"rank": 3, "solver": "em", "starts": 2}, 4),
    "em, smoothed": (WEIGHTED, {"rank": 3, "solver": "em", "starts": 2, "smoothing": 2.0}, 4),
    "auto": (RECORDS, {"rank": 3}, 4),
    "auto, long": (RECORDS, {"rank": 3}, 40),
    "auto from tables": (PAIRS, {"rank": 3, "starts": 3}, 6),
    "spa": (PAIRS, {"rank": 3, "solver": "spa"}, None),
    "spa+em": (RECORDS, {"rank": 4, "solver": "spa+em"}, 2),
    "symmetric-nmf": (PAIRS, {"rank": 3, "solver": "symmetric-nmf"}, None),
    "symmetric-nmf, missing pairs": (CIRCLE, {"rank": 2, "solver": "symmetric-nmf"}, None),
    "coupled-nmf": (PAIRS, {"rank": 3, "solver": "coupled-nmf", "starts": 2}, 4),
    "mirror": (PAIRS, {"rank": 3, "solver": CoupledNMF(update="mirror"), "starts": 1}, 4),
    "euclidean": (PAIRS, {"rank": 3, "solver": CoupledNMF(loss="euclidean"), "starts": 1}, 4),
    "equal": (PAIRS, {"rank": 3, "solver": CoupledNMF(pair_weights="equal"), "starts": 1}, 4),
    "ctd": (TRIPLES, {"rank": 3, "solver": "ctd", "starts": 2}, 4),
    "mle-ad": (TRIPLES, {"rank": 3, "solver": "mle-ad", "starts": 2}, 4),
    "tree": (RECORDS, {"rank": 2, "structure": "tree", "smoothing": 1.0}, 4),
    "tree, smoothing chosen": (RECORDS, {"rank": 2, "structure": "tree"}, 60),
    "tree from tables": (PAIRS, {"rank": 2, "structure": "tree"}, 12),
    "given tree": (RECORDS, {"rank": 3, "structure": [("v0", "v1"), ("v1", "v2"), ("v1", "v3"), ("v3", "v4")]}, 8),
    "missing pairs": (CIRCLE, {}, 60),
    "mixture": (RECORDS, {"rank": 2, "structure": "mixture", "smoothing": 1.0}, 6),
    "mixture, all chosen": (RECORDS, {"structure": "mixture"}, 60),
    "any structure": (RECORDS, {}, 100),
}


class EndAfter:
    """A monitor that ends a fit after some passes, as Ctrl-C does."""

    def __init__(self, passes):
        self.passes = passes

    def __call__(self, progress):
        self.passes -= 1
        if not self.passes:
            raise KeyboardInterrupt


def result(case):
    """Return some probabilities of the model of a case."""
    source, options, passes = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits that were interrupted
        pmf = tw.fit(source, **options, seed=1, threads=1, monitor=None if passes is None else EndAfter(passes))
    return pmf.marginal(NAMES).array.ravel()[::13].tolist()


def ranks(source):
    """Return the numbers by which ranks of a source are compared."""
    choice = tw.choose_rank(source, [1, 2, 3, 4], seed=1, threads=1)
    numbers = [value for one in choice.candidates for value in one.values() if isinstance(value, float)]
    return [float(choice.rank), *numbers]


RANKS = {"ranks of records": RECORDS, "ranks of tables": PAIRS}


@pytest.mark.parametrize("case", CASES)
def test_models_are_those_of_the_version_before(case):
    np.testing.assert_allclose(result(case), json.loads(STORED.read_text())[case], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("case", RANKS)
def test_comparisons_of_ranks_are_those_of_the_version_before(case):
    np.testing.assert_allclose(ranks(RANKS[case]), json.loads(STORED.read_text())[case], rtol=1e-4, atol=1e-6)


if __name__ == "__main__":
    stored = {case: result(case) for case in CASES} | {case: ranks(source) for case, source in RANKS.items()}
    lines = [
        f"  {json.dumps(case)}: {json.dumps([float(f'{value:.9g}') for value in stored[case]])}" for case in stored
    ]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
