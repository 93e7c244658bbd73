"""A biased matrix factorisation, against ridge regressions written out."""

import numpy as np
import pandas as pd

from twoway.estimators.ratings.model import expert_powers
from twoway.estimators.ratings.table import RatingPairs, read_ratings
from twoway.estimators.ratings.vectors import RidgeRecipe


def test_sweeps_are_ridge_regressions():
    """One user and one item at a time, with a column of ones for the biases."""
    random = np.random.default_rng(0)
    ratings = np.where(random.uniform(size=(30, 8)) < 0.6, random.integers(1, 6, size=(30, 8)), np.nan)
    table = read_ratings(pd.DataFrame(ratings), ("user", "item", "rating"))
    recipe = RidgeRecipe(2, 3.0, 0.5)
    found = recipe.fit(table, seed=(0,), threads=1).vectors
    deviation, mean = np.nanstd(ratings), np.nanmean(ratings)
    penalty = np.diag([3.0 * deviation] * 2 + [0.5])
    items = np.zeros((8, 3))
    items[:, :2] = 0.1 * np.sqrt(deviation) * np.random.default_rng((0,)).normal(size=(8, 2))

    def regressions(rows, others):
        solved = []
        for row in rows:
            known = ~np.isnan(row)
            inputs = np.column_stack([others[known, :2], np.ones(known.sum())])
            outputs = row[known] - mean - others[known, 2]
            solved.append(np.linalg.solve(inputs.T @ inputs + penalty, inputs.T @ outputs))
        return np.array(solved)

    for _ in range(5):
        users = regressions(ratings, items)
        items = regressions(ratings.T, users)
    users = regressions(ratings, items)
    expected = mean + users[:, [2]] + items[:, 2] + users[:, :2] @ items[:, :2].T
    rows, columns = np.indices(ratings.shape).reshape(2, -1)
    means, squares = expert_powers(found, RatingPairs(table, rows, columns))
    np.testing.assert_allclose(means, expected.ravel(), rtol=1e-9)
    np.testing.assert_allclose(squares - means**2, 0.5 * deviation**2, rtol=1e-9)
