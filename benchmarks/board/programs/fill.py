"""Fill hidden cells by a method of another package, in its own environment: python fill.py GIVEN.npz FOUND.npz.

Each method is tuned on a quarter of the training records, in which as great a share of the cells is hidden as in the
test: its own options, and how its answers become probabilities. They are mixed with the overall shares of the
categories; where it fills in a single category, they may also be the shares of the true categories among held-out cells
that it filled in with the same one, whichever predicts these better. Then it learns from all training records.
Drafts, by which options are compared, have fewer trees and rounds.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from functools import partial
from importlib import import_module
from itertools import product

import numpy as np

warnings.filterwarnings("ignore")

MIXED = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0)
PSEUDO_CELLS = (1.0, 5.0, 20.0)


def one_hot(codes, sizes):
    """Return a column for each category, NaN where a cell is missing."""
    blocks = []
    for column, size in zip(codes.T, sizes, strict=True):
        block = (column[:, None] == np.arange(size)).astype(float)
        block[column < 0] = np.nan
        blocks.append(block)
    return np.hstack(blocks)


def with_nan(codes):
    return np.where(codes < 0, np.nan, codes)


def cells_of_blocks(filled, cells, sizes):
    """Return the numbers in the blocks of cells, as rows as wide as the widest block."""
    starts, found = np.concatenate([[0], np.cumsum(sizes)]), np.zeros((len(cells[0]), max(sizes)))
    for column, size in enumerate(sizes):
        here = cells[1] == column
        found[here, :size] = np.clip(filled[cells[0][here], starts[column] : starts[column + 1]], 0, None)
    return found


def as_points(filled, cells, sizes):
    """Return ones at the categories that were filled in."""
    codes = np.clip(np.rint(filled[cells]), 0, np.array(sizes)[cells[1]] - 1).astype(int)
    return np.eye(max(sizes))[codes]


def knn(train, test, cells, sizes, seed, draft, n_neighbors, weights):
    from sklearn.impute import KNNImputer

    model = KNNImputer(n_neighbors=n_neighbors, weights=weights, keep_empty_features=True).fit(one_hot(train, sizes))
    return cells_of_blocks(model.transform(one_hot(test, sizes)), cells, sizes)


def iterative(train, test, cells, sizes, seed, draft, coded, n_nearest):
    """Fill in codes, or columns of the categories as if they were numbers, which can be read as chances.

    The first category of each variable has no column: it would follow from the others.
    """
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    model = IterativeImputer(
        max_iter=20 if coded else 5, n_nearest_features=n_nearest, random_state=seed, keep_empty_features=True
    )
    if coded:
        return as_points(model.fit(with_nan(train)).transform(with_nan(test)), cells, sizes)
    own = np.concatenate([np.arange(size) > 0 for size in sizes])
    filled = np.zeros((len(test), len(own)))
    filled[:, own] = model.fit(one_hot(train, sizes)[:, own]).transform(one_hot(test, sizes)[:, own])
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    filled[:, first] = 1.0 - np.add.reduceat(filled, first, axis=1)
    return cells_of_blocks(filled, cells, sizes)


def forest_chain(train, test, cells, sizes, seed, draft, leaf, soft):
    """Predict each variable by a forest from all others, in rounds; missing cells hold what the last round said."""
    from sklearn.ensemble import RandomForestClassifier

    starts, found = np.concatenate([[0], np.cumsum(sizes)]), np.zeros((len(cells[0]), max(sizes)))
    both = np.vstack([train, test])
    features = one_hot(both, sizes)
    features = np.where(np.isnan(features), np.nanmean(features[: len(train)], axis=0), features)
    is_complete = (train >= 0).all()
    forests = {}
    for _ in range(2):
        for column in np.argsort((train < 0).sum(axis=0), kind="stable"):
            block = slice(starts[column], starts[column + 1])
            others = np.delete(features, block, axis=1)
            learn, holes = np.flatnonzero(train[:, column] >= 0), np.flatnonzero(both[:, column] < 0)
            if not len(holes):
                continue
            if column not in forests or not is_complete:
                forest = RandomForestClassifier(30 if draft else 100, min_samples_leaf=leaf, random_state=seed)
                forests[column] = forest.fit(others[learn], train[learn, column])
            chances = np.zeros((len(holes), sizes[column]))
            chances[:, forests[column].classes_] = forests[column].predict_proba(others[holes])
            features[holes, block] = chances if soft else np.eye(sizes[column])[chances.argmax(axis=1)]
            here = np.flatnonzero(cells[1] == column)
            places = np.searchsorted(holes, cells[0][here] + len(train))
            found[here, : sizes[column]] = chances[places]
    return found


def missforest(train, test, cells, sizes, seed, draft, leaf):
    """Fill the training and the test records together, as missForest is used."""
    import pandas as pd
    from missforest import MissForest
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    names = [f"v{n}" for n in range(len(sizes))]
    frame = pd.DataFrame(with_nan(np.vstack([train, test])), columns=names)
    options = {"n_estimators": 12 if draft else 50, "min_samples_leaf": leaf, "random_state": seed}
    forests = RandomForestClassifier(**options), RandomForestRegressor(**options)
    model = MissForest(*forests, categorical=names, max_iter=2 if draft else 3, verbose=0)
    return as_points(model.fit_transform(frame)[names].to_numpy(float)[len(train) :], cells, sizes)


def miceforest(train, test, cells, sizes, seed, draft, **options):
    """Fill the training and the test records together; count what is drawn in all rounds but the first."""
    import miceforest as mf
    import pandas as pd

    columns = zip(np.vstack([train, test]).T, sizes, strict=True)
    frame = pd.DataFrame(
        {f"v{n}": pd.Categorical.from_codes(own, categories=range(size)) for n, (own, size) in enumerate(columns)}
    )
    n_chains, n_rounds = 2, 4  # drafts, too: how far draws are mixed depends on their number
    kernel = mf.ImputationKernel(frame, num_datasets=n_chains, random_state=seed)
    kernel.mice(n_rounds, num_threads=1, **options)
    found = np.zeros((len(cells[0]), max(sizes)))
    for chain, number in product(range(n_chains), range(2, n_rounds + 1)):
        drawn = kernel.complete_data(chain, iteration=number).apply(lambda column: column.cat.codes).to_numpy()
        found[np.arange(len(found)), drawn[len(train) :][cells]] += 1
    return found


# What a method is imported from, before its seconds are counted.
MODULES = {
    "KNN": "sklearn.impute",
    "IterativeImputer": "sklearn.impute",
    "random-forest chain": "sklearn.ensemble",
    "missForest": "missforest",
    "miceforest": "miceforest",
}
# Each method: its function and its options.
METHODS = {
    "KNN": (knn, [{"n_neighbors": n, "weights": w} for w in ("uniform", "distance") for n in (5, 10, 20, 40, 80, 160)]),
    "IterativeImputer": (
        iterative,
        [{"coded": coded, "n_nearest": n} for coded in (False, True) for n in (None, 5)],
    ),
    "random-forest chain": (
        forest_chain,
        [*({"leaf": leaf, "soft": True} for leaf in (2, 4, 8, 16)), {"leaf": 4, "soft": False}],
    ),
    "missForest": (missforest, [{"leaf": 4}, {"leaf": 15}, {"leaf": 50}]),
    "miceforest": (
        miceforest,
        [
            {"n_estimators": 50, "num_leaves": 16, "min_data_in_leaf": 3},
            {"n_estimators": 30, "num_leaves": 4, "min_data_in_leaf": 5, "boosting": "gbdt", "learning_rate": 0.1},
        ],
    ),
}


def overall_shares(train, sizes):
    """Return the shares of the categories, a row for each variable as wide as the widest."""
    counts = np.zeros((len(sizes), max(sizes)))
    for column, size in enumerate(sizes):
        counts[column, :size] = np.bincount(train[train[:, column] >= 0, column], minlength=size) + 1e-3
    return counts / counts.sum(axis=1, keepdims=True)


def mixed(raw, columns, shares, amount):
    """Return chances from shares, or from counts of draws, and pseudo-draws by the overall shares."""
    smoothed = raw + amount * shares[columns]
    return smoothed / smoothed.sum(axis=1, keepdims=True)


def calibrations(raw, columns, truth, shares):
    """Yield the loss on held-out cells, and a function from answers to chances."""
    for amount in MIXED:
        yield loss(mixed(raw, columns, shares, amount), truth), partial(mixed, shares=shares, amount=amount)
    if (raw.max(axis=1) < raw.sum(axis=1)).any():
        return  # it says more than one category
    counts, filled = np.zeros((len(shares), *shares.shape[1:] * 2)), raw.argmax(axis=1)
    np.add.at(counts, (columns, filled, truth), 1.0)
    for amount in PSEUDO_CELLS:
        smoothed = counts + amount * shares[:, None, :]
        # A held-out cell says nothing about itself.
        others = smoothed[columns, filled]
        others[np.arange(len(truth)), truth] -= 1.0
        yield loss(others / others.sum(axis=1, keepdims=True), truth), partial(looked_up, smoothed=smoothed)


def looked_up(raw, columns, smoothed):
    """Return the chances of the true categories where these were filled in."""
    own = smoothed[columns, raw.argmax(axis=1)]
    return own / own.sum(axis=1, keepdims=True)


def loss(chances, truth):
    return -np.log(np.maximum(chances[np.arange(len(truth)), truth], 1e-6)).mean()


def tuned(function, grid, train, sizes, share, seed, budget):
    """Return the best options and the function that makes probabilities; half of the budget is for this."""
    random, began = np.random.default_rng(seed), time.process_time()
    order = random.permutation(len(train))
    held, learn = train[order[: len(train) // 4]], train[order[len(train) // 4 :]]
    hidden = (random.random(held.shape) < share) & (held >= 0)
    # A category that is not learnt cannot be predicted.
    hidden &= np.column_stack([np.isin(own, np.unique(of)) for own, of in zip(held.T, learn.T, strict=True)])
    cells, best = np.nonzero(hidden), (np.inf, {}, None)
    truth, shares = held[cells], overall_shares(learn, sizes)
    for options in grid:
        if best[2] is not None and time.process_time() - began > budget / 2:
            break
        raw = function(learn, np.where(hidden, -1, held), cells, sizes, seed, draft=True, **options)
        for found, calibrate in calibrations(raw, cells[1], truth, shares):
            if found < best[0]:
                best = (found, options, calibrate)
    return best[1], best[2]


def main(given, found):
    with np.load(given) as stored:
        train, test, cells = stored["train"], stored["test"], (stored["rows"], stored["columns"])
        sizes, seed, names = stored["sizes"].tolist(), int(stored["seed"]), stored["methods"].tolist()
        share, budget = float(stored["share"]), float(stored["budget"])
    results = {}
    for name in names:
        function, grid = METHODS[name]
        import_module(MODULES[name])
        began = time.process_time()
        options, calibrate = tuned(function, grid, train, sizes, share, seed, budget)
        chances = calibrate(function(train, test, cells, sizes, seed, draft=False, **options), cells[1])
        results[f"chances {name}"] = chances
        results[f"seconds {name}"] = time.process_time() - began
        results[f"options {name}"] = json.dumps(options)
    np.savez(found, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
