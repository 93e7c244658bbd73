"""Learn a sum-product network by LearnSPN (deeprob-kit), in its own environment: python spn.py GIVEN.npz FOUND.npz.

Unless they are given, options are those under which the validation part is most probable: leaves of one variable, or
trees of Chow and Liu; how few records are not split any further; and the threshold of the test of independence.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from itertools import product

import numpy as np

warnings.filterwarnings("ignore")

# Of more variables than this a random sample is tested for independence.
MOST_TESTED = 300


def learnt(train, seed, leaf, rows, p):
    from deeprob.spn.learning.wrappers import learn_estimator
    from deeprob.spn.structure.leaf import Bernoulli

    n = train.shape[1]
    return learn_estimator(
        train,
        [Bernoulli] * n,
        [[0, 1]] * n,
        learn_leaf=leaf,
        learn_leaf_kwargs={"alpha": 0.1, "to_pc": False} if leaf == "binary-clt" else {"alpha": 0.1},
        split_rows="kmeans",
        split_cols="gvs" if n <= MOST_TESTED else "rgvs",
        split_cols_kwargs={"p": p},
        min_rows_slice=rows,
        random_state=seed,
        verbose=False,
    )


GRID = [
    {"leaf": leaf, "rows": rows, "p": p}
    for leaf, rows, p in product(("binary-clt", "mle"), (200, 50, 500), (15.0, 5.0))
]


def main(given, found):
    from deeprob.spn.algorithms.inference import log_likelihood

    with np.load(given) as stored:
        train, valid, test = (stored[part] for part in ("train", "valid", "test"))
        seed, budget = int(stored["seed"]), float(stored["budget"])
        grid = [json.loads(str(stored["options"]))] if "options" in stored else GRID
    began, best = time.process_time(), (-np.inf, {}, np.empty(0))
    for options in grid:
        if best[1] and time.process_time() - began > budget:
            break
        network = learnt(train, seed, **options)
        reached = log_likelihood(network, valid).mean()
        if reached > best[0]:
            best = (reached, options, log_likelihood(network, test).ravel())
    seconds = time.process_time() - began
    np.savez(found, scores=best[2], seconds=seconds, options=json.dumps(best[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
