"""Biased matrix factorization at its best: tuned on held-out ratings, averaged over many fits, with fitted noise.

A rating is μ + b_user + c_item + p_user · q_item, fitted by alternating ridge regressions with one penalty of vectors
and one of biases. Held-out ratings choose the rank, both penalties and the number of sweeps, and then the noise:
of a normal distribution, cut into the points of the scale, or of an ordered probit with a cut point between each two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, product

import numba
import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr

from twoway.arrays import Floats, Ints

AXES = {
    "rank": (1, 2, 5, 10, 20, 50, 100),
    "penalty": (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0),
    "bias_penalty": (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0),
}
MOST_SWEEPS, PATIENCE = 60, 3


@dataclass(frozen=True)
class Ratings:
    """Ratings of some pairs of user and item."""

    users: Ints
    items: Ints
    values: Floats


Folds = list[tuple[Ratings, Ratings]]
"""Ratings to fit, and ratings to predict."""


@dataclass(frozen=True)
class Options:
    """How a factorization is fitted."""

    rank: int
    penalty: float
    bias_penalty: float
    n_sweeps: int = 0


@dataclass(frozen=True)
class Side:
    """The ratings by user, or by item."""

    pointers: Ints
    others: Ints
    values: Floats

    @classmethod
    def of(cls, codes: Ints, others: Ints, values: Floats, n: int) -> Side:
        """Return the ratings sorted by codes."""
        order = np.argsort(codes, kind="stable")
        pointers = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n))])
        return cls(pointers, others[order], values[order])

    def ridge(self, vectors: Floats, options: Options) -> Floats:
        """Return a vector of each row, its bias last, given those of the other side."""
        penalties = np.array([options.penalty] * options.rank + [options.bias_penalty])
        return _ridge(self.pointers, self.others, self.values, vectors, penalties)


@numba.njit(cache=True)
def _ridge(pointers: Ints, places: Ints, values: Floats, vectors: Floats, penalties: Floats) -> Floats:
    features = vectors.copy()
    features[:, -1] = 1.0
    solved = np.zeros((len(pointers) - 1, len(penalties)))
    for row in range(len(solved)):
        others = places[pointers[row] : pointers[row + 1]]
        inputs, outputs = features[others], values[pointers[row] : pointers[row + 1]] - vectors[others, -1]
        if len(others) > len(penalties):
            solved[row] = np.linalg.solve(inputs.T @ inputs + np.diag(penalties), inputs.T @ outputs)
        else:  # the same, in as many unknowns as there are ratings
            scaled = inputs / penalties
            solved[row] = scaled.T @ np.linalg.solve(scaled @ inputs.T + np.eye(len(others)), outputs)
    return solved


def sweeps(
    train: Ratings, shape: tuple[int, int], options: Options, seed: int
) -> Iterator[tuple[float, Floats, Floats]]:
    """Yield the mean, the users' and the items' vectors after each sweep."""
    mean = float(train.values.mean())
    by_user = Side.of(train.users, train.items, train.values - mean, shape[0])
    by_item = Side.of(train.items, train.users, train.values - mean, shape[1])
    items = np.zeros((shape[1], options.rank + 1))
    items[:, :-1] = np.random.default_rng(seed).normal(scale=0.1, size=(shape[1], options.rank))
    while True:
        users = by_user.ridge(items, options)
        items = by_item.ridge(users, options)
        yield mean, users, items


def predict(model: tuple[float, Floats, Floats], asked: Ratings) -> Floats:
    """Return what is predicted of pairs."""
    mean, users, items = model
    of_users, of_items = users[asked.users], items[asked.items]
    product_of_vectors = np.einsum("pk,pk->p", of_users[:, :-1], of_items[:, :-1])
    return mean + of_users[:, -1] + of_items[:, -1] + product_of_vectors


def averaged(train: Ratings, asked: Ratings, shape: tuple[int, int], options: Options, n_fits: int) -> Floats:
    """Return the mean prediction of several fits from different starts."""
    fits = (next(islice(sweeps(train, shape, options, seed), options.n_sweeps - 1, None)) for seed in range(n_fits))
    return np.mean([predict(fit, asked) for fit in fits], axis=0)


def tune(folds: Folds, shape: tuple[int, int], points: Floats) -> Options:
    """Return the options of the lowest held-out error: of a grid, then along axes until none helps.

    A penalty at the upper end of its axis is an error; the least ones are almost none.
    """
    tried: dict[Options, tuple[float, int]] = {}

    def error(options: Options) -> float:
        if options not in tried:
            lowest, n_sweeps = np.inf, 0
            fits = (sweeps(train, shape, options, seed=0) for train, _ in folds)
            for number, models in enumerate(zip(*fits, strict=True), 1):
                rmse = pooled_rmse([predict(model, held) for model, (_, held) in zip(models, folds, strict=True)])
                if rmse < lowest - 1e-6:
                    lowest, n_sweeps = rmse, number
                if number - n_sweeps >= PATIENCE or number == MOST_SWEEPS:
                    break
            tried[options] = lowest, n_sweeps
        return tried[options][0]

    def pooled_rmse(predicted: list[Floats]) -> float:
        gaps = np.concatenate(
            [np.clip(of, points[0], points[-1]) - held.values for of, (_, held) in zip(predicted, folds, strict=True)]
        )
        return float(np.sqrt(np.mean(gaps**2)))

    grid = [Options(*point) for point in product((2, 10, 50), (4.0, 8.0, 16.0), (1.0, 4.0))]
    best, before = min(grid, key=error), None
    while best != before:
        before = best
        for axis, values in AXES.items():
            best = min((replace(best, **{axis: value}) for value in values), key=error)
    if best.penalty == AXES["penalty"][-1] or best.bias_penalty == AXES["bias_penalty"][-1]:
        raise ValueError(f"the best penalty is at the end of the grid: {best}")
    return replace(best, n_sweeps=tried[best][1])


def normal_noise(predicted: Floats, codes: Ints, points: Floats) -> Floats:
    """Return the logarithm of the standard deviation that suits predictions best, as an array."""
    fitted = minimize(lambda x: -np.mean(normal_scores(x, predicted, points)[np.arange(len(codes)), codes]), [0.0])
    return fitted.x


def normal_scores(parameters: Floats, predicted: Floats, points: Floats) -> Floats:
    """Return the logarithms of a normal distribution, cut between the points of the scale, (n, n_points)."""
    cuts = np.concatenate([[-np.inf], (points[1:] + points[:-1]) / 2, [np.inf]])
    return _interval_scores((cuts - predicted[:, None]) / np.exp(parameters[0]))


def ordinal_noise(predicted: Floats, codes: Ints, points: Floats) -> Floats:
    """Return the slope and the cut points of the ordered probit that suits predictions best."""
    start = np.concatenate([[0.0, (points[0] + points[1]) / 2], np.log(np.diff((points[1:] + points[:-1]) / 2))])
    fitted = minimize(lambda x: -np.mean(ordinal_scores(x, predicted, points)[np.arange(len(codes)), codes]), start)
    return fitted.x


def ordinal_scores(parameters: Floats, predicted: Floats, points: Floats) -> Floats:
    """Return the logarithms of an ordered probit, (n, n_points)."""
    cuts = parameters[1] + np.concatenate([[0.0], np.cumsum(np.exp(parameters[2:]))])
    cuts = np.concatenate([[-np.inf], cuts, [np.inf]])
    return _interval_scores((cuts - predicted[:, None]) / np.exp(parameters[0]))


def _interval_scores(limits: Floats) -> Floats:
    """Return the logarithm of the normal probability of each interval between limits, (n, n_intervals)."""
    # On the side where both ends are negative, so that small probabilities are exact.
    flipped = limits[:, 1:] + limits[:, :-1] > 0
    low = np.where(flipped, -limits[:, 1:], limits[:, :-1])
    high = np.where(flipped, -limits[:, :-1], limits[:, 1:])
    upper = log_ndtr(high)
    return upper + np.log1p(-np.minimum(np.exp(log_ndtr(low) - upper), 1.0 - 1e-12))
