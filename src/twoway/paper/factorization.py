"""Biased matrix factorisation, the baseline of the rating tables: alternating ridge regressions.

A rating is μ + b_user + c_item + p_user · q_item (Koren, Bell and Volinsky, Matrix factorization techniques for
recommender systems, 2009). Users and items alternate: with one side fixed, a vector of the other is a ridge regression.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from twoway.arrays import Floats, Ints
    from twoway.estimators.ratings.table import RatingTable

_PENALTY = 10.0
# The normal equations of this many users are solved at a time.
_CHUNK = 2**13


@dataclass(frozen=True)
class Factorization:
    """Predictions for users and items: μ, and one vector per user and item, whose last number is the bias."""

    mean: float
    lowest: float
    highest: float
    users: Floats
    """(n_users, rank + 1)."""
    items: Floats
    """(n_items, rank + 1)."""

    def predict(self, user_codes: Ints, item_codes: Ints) -> Floats:
        """Return the predicted ratings of pairs, clipped to the scale; (n_pairs,)."""
        users, items = self.users[user_codes], self.items[item_codes]
        product = np.einsum("pk,pk->p", users[:, :-1], items[:, :-1])
        clipped: Floats = np.clip(self.mean + users[:, -1] + items[:, -1] + product, self.lowest, self.highest)
        return clipped


def factorization_sweeps(table: RatingTable, rank: int, *, seed: int) -> Iterator[Factorization]:
    """Yield the factorisation after each sweep over users and items, indefinitely."""
    shown = np.zeros((len(table.users), len(table.items)))
    rating = np.zeros_like(shown)
    shown.ravel()[table.keys] = 1.0
    rating.ravel()[table.keys] = table.ratings
    mean = float(rating.sum() / shown.sum())
    items = np.zeros((len(table.items), rank + 1))
    items[:, :-1] = np.random.default_rng(seed).normal(scale=0.1, size=(len(items), rank))
    while True:
        users = _factorization_ridge(shown, rating - mean, items)
        items = _factorization_ridge(shown.T, rating.T - mean, users)
        yield Factorization(mean, table.points[0], table.points[-1], users, items)


def _factorization_ridge(shown: NDArray[np.float64], rating: Floats, others: Floats) -> Floats:
    """Return the vectors of one side, (n, rank + 1), given those of the other side, (m, rank + 1)."""
    factors = np.hstack([others[:, :-1], np.ones((len(others), 1))])
    products = (factors[:, :, np.newaxis] * factors[:, np.newaxis, :]).reshape(len(factors), -1)
    penalty = _PENALTY * np.eye(factors.shape[1])
    solved = np.empty((len(shown), factors.shape[1]))
    for first in range(0, len(shown), _CHUNK):
        part = slice(first, first + _CHUNK)
        gram = (shown[part] @ products).reshape(-1, *penalty.shape) + penalty
        right = (shown[part] * (rating[part] - others[:, -1])) @ factors
        solved[part] = np.linalg.solve(gram, right[:, :, np.newaxis])[:, :, 0]
    return solved
