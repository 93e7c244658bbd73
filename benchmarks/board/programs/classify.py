"""Predict labels by a method of scikit-learn, in its own environment: python classify.py GIVEN.npz FOUND.npz.

Options are those of the least log-loss in five folds of the training records; forests are compared with fewer trees.
What scikit-learn's models cannot read, missing cells of categories, is a category of its own: to trees as well as in
one-hot columns, where it is a column of zeros if that is better.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")

N_FOLDS = 5


def one_hot(codes, sizes, with_missing):
    """Return a column for each category, and one for missing cells."""
    categories = [np.arange(-1 if with_missing else 0, size) for size in sizes]
    return np.hstack([column[:, None] == own for column, own in zip(codes.T, categories, strict=True)]).astype(float)


def boosting(train, labels, sizes, seed, draft, rate, leaves, rounds):
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        learning_rate=rate,
        max_leaf_nodes=leaves,
        max_iter=rounds,
        min_samples_leaf=10,
        early_stopping=False,
        categorical_features=[size > 2 for size in sizes],
        random_state=seed,
    )

    def with_nan(codes):
        return np.where(codes < 0, np.nan, codes)

    model.fit(with_nan(train), labels)
    return lambda test: (model.predict_proba(with_nan(test)), model.classes_)


def forest(train, labels, sizes, seed, draft, leaf, columns):
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(80 if draft else 200, min_samples_leaf=leaf, max_features=columns, random_state=seed)
    model.fit(one_hot(train, sizes, True), labels)
    return lambda test: (model.predict_proba(one_hot(test, sizes, True)), model.classes_)


def logistic(train, labels, sizes, seed, draft, C, with_missing):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=C, max_iter=500).fit(one_hot(train, sizes, with_missing), labels)
    return lambda test: (model.predict_proba(one_hot(test, sizes, with_missing)), model.classes_)


def naive_bayes(train, labels, sizes, seed, draft, pseudo):
    """Count cells that are there, and multiply only the terms of those."""
    classes, codes = np.unique(labels, return_inverse=True)
    prior, terms = np.log(np.bincount(codes) + pseudo), []
    for column, size in zip(train.T, sizes, strict=True):
        counts = np.full((len(classes), size), pseudo)
        np.add.at(counts, (codes[column >= 0], column[column >= 0]), 1.0)
        logs = np.log(counts / counts.sum(axis=1, keepdims=True))
        terms.append(np.column_stack([logs, np.zeros(len(classes))]))  # code -1, missing, is the column of zeros

    def predict(test):
        scores = prior + sum(own[:, column].T for own, column in zip(terms, test.T, strict=True))
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        return chances / chances.sum(axis=1, keepdims=True), classes

    return predict


METHODS = {
    "gradient boosting": (
        boosting,
        [
            {"rate": rate, "leaves": leaves, "rounds": rounds}
            for leaves in (4, 12)
            for rate, rounds in ((0.1, 40), (0.1, 120), (0.04, 50), (0.04, 250))
        ],
    ),
    "random forest": (
        forest,
        [{"leaf": leaf, "columns": columns} for columns in ("sqrt", 0.4) for leaf in (1, 2, 4, 8)],
    ),
    "logistic regression": (
        logistic,
        [
            {"C": C, "with_missing": with_missing}
            for with_missing in (False, True)
            for C in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
        ],
    ),
    "naive Bayes": (
        naive_bayes,
        [{"pseudo": pseudo} for pseudo in (0.001, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0)],
    ),
}


def chances_of(predict, test, n_classes):
    chances, classes = predict(test)
    found = np.zeros((len(test), n_classes))
    found[:, classes] = chances
    return found


def cross_validated(function, options, train, labels, sizes, n_classes, seed, folds):
    losses = []
    for fold in range(N_FOLDS):
        learn, held = folds != fold, folds == fold
        chances = chances_of(
            function(train[learn], labels[learn], sizes, seed, draft=True, **options), train[held], n_classes
        )
        losses.append(-np.log(np.maximum(chances[np.arange(held.sum()), labels[held]], 1e-4)))
    return np.concatenate(losses).mean()


def tuned(function, grid, train, labels, sizes, n_classes, seed, budget):
    """Return the best options; half of the budget is for this."""
    folds, losses = np.random.default_rng(seed).permutation(len(train)) % N_FOLDS, {}
    began = time.process_time()
    for number, options in enumerate(grid):
        if losses and time.process_time() - began > budget / 2:
            break
        losses[number] = cross_validated(function, options, train, labels, sizes, n_classes, seed, folds)
    return grid[min(losses, key=losses.get)]


def main(given, found):
    with np.load(given) as stored:
        train, labels, test = stored["train"], stored["labels"], stored["test"]
        sizes, n_classes = stored["sizes"].tolist(), int(stored["n_classes"])
        seed, names, budget = int(stored["seed"]), stored["methods"].tolist(), float(stored["budget"])
    # As for imputation: no class is impossible.
    shares, results = (np.bincount(labels, minlength=n_classes) + 1e-3) / len(labels), {}
    import sklearn.ensemble  # before seconds are counted
    import sklearn.linear_model  # noqa: F401

    for name in names:
        function, grid = METHODS[name]
        began = time.process_time()
        options = tuned(function, grid, train, labels, sizes, n_classes, seed, budget)
        chances = chances_of(function(train, labels, sizes, seed, draft=False, **options), test, n_classes)
        results[f"chances {name}"] = chances + 1e-3 * shares
        results[f"seconds {name}"] = time.process_time() - began
        results[f"options {name}"] = json.dumps(options)
    np.savez(found, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
