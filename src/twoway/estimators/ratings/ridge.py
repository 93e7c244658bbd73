"""Vectors as single guesses: a biased matrix factorisation by a few sweeps of ridge regressions.

A rating is an offset of the item plus a bias of the user plus the product of two vectors (Koren, Bell and Volinsky,
Matrix factorization techniques for recommender systems, 2009). With the items fixed, a user's bias and vector are a
ridge regression, and the other way round. It ends after a few sweeps: more would fit the noise. Its errors are not
those of distributions of vectors, so that an average of both predicts better than either.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twoway.arrays import Floats
from twoway.estimators.ratings.table import RatingTable
from twoway.estimators.ratings.vectors import RatingVectors, VectorFit, packed_products, unpacked
from twoway.report import StopReason

_SWEEPS = 5
_START_SPREAD = 0.1
# Single guesses do not know how wrong they are: about so, as a share of the variance of ratings.
_ERROR_SHARE = 0.5


class RidgeRecipe(NamedTuple):
    """The penalties, for ratings of unit variance."""

    n_dimensions: int
    penalty: float
    bias_penalty: float


def fit_ridge(table: RatingTable, recipe: RidgeRecipe, *, seed: tuple[int, ...], threads: int | None) -> VectorFit:
    """Return vectors fitted to ratings from a random start.

    An item's numbers are its offset, the same loading of every user's bias, and its vector. A penalty is the noise of a
    model in which users' numbers have unit variance, so a loading sets the penalty of the bias.
    """
    scale = float(np.sqrt(table.variance))
    penalty, mean = recipe.penalty * scale, float(table.ratings.mean())
    size = 2 + recipe.n_dimensions
    means = np.empty((len(table.items), size))
    means[:, 0], means[:, 1] = mean, np.sqrt(penalty / recipe.bias_penalty)
    random = np.random.default_rng(seed)
    means[:, 2:] = _START_SPREAD * np.sqrt(scale) * random.normal(size=(len(means), recipe.n_dimensions))
    penalties = np.array([recipe.bias_penalty, *[penalty] * recipe.n_dimensions])
    for _ in range(_SWEEPS):
        sums = _point_vectors(table, means, penalty).sums(table.records, threads)
        squares, free = unpacked(sums.squares), [0, *range(2, size)]
        # Of each rating, what the bias explains is taken away; an offset is drawn toward the mean.
        right = sums.products[:, free] - squares[:, free, 1] * means[:, 1:2]
        right[:, 0] += recipe.bias_penalty * mean
        left = squares[:, free][:, :, free] + np.diag(penalties)
        means = means.copy()
        means[:, free] = np.linalg.solve(left, right[:, :, np.newaxis])[:, :, 0]
    return VectorFit(_point_vectors(table, means, penalty), [], StopReason.CONVERGED)


def _point_vectors(table: RatingTable, means: Floats, penalty: float) -> RatingVectors:
    return RatingVectors(table.points, means, packed_products(means), penalty, _ERROR_SHARE * table.variance)
