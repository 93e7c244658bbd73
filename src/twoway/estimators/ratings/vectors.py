"""Vectors of users and items, whose product is the rating: a Gaussian model with offsets, fitted without sampling.

A rating is an offset of the item plus the product of the item's loadings and the user's vector z ~ N(0, I), plus noise.
The loadings are Gaussian with a common mean, so that one direction of z is how generous a user is. Users have their
exact posterior given the items, and items given the users (variational Bayes: Lim and Teh, Variational Bayesian
approach to movie rating prediction, 2007). Noise, common mean and the variance of offsets are those of the highest
bound of the log-likelihood, which no pass lowers; so is the covariance of loadings, where it is learned. A user with
many ratings has a narrow posterior, but it is still a weighted average of all of them, unlike a membership in one kind.

Vectors can also be single guesses: a biased matrix factorisation by a few sweeps of ridge regressions. A rating is an
offset of the item plus a bias of the user plus the product of two vectors (Koren, Bell and Volinsky, Matrix
factorization techniques for recommender systems, 2009). With the items fixed, a user's bias and vector are a ridge
regression, and the other way round. It ends after a few sweeps: more would fit the noise. Its errors are not those of
distributions of vectors, so that an average of both predicts better than either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.data.records import Records
from twoway.estimators.ratings.table import RatingTable
from twoway.parallel import reduce_in_order
from twoway.report import StopReason
from twoway.solvers.loop import Loop

_MAX_ITER = 500
# Passes end when the bound rises by less than this share: later ones do not improve predictions.
_TOL = 1e-4
# With more ratings, a fit begins with a sample of the users.
_MOST_RATINGS = 500_000
# Users are worked on in parts of about this many ratings.
_PART = 2**17
# The standard deviation of a start's loadings, between two limits, and the mean of the first of them: as shares of the
# standard deviation of ratings.
_START_SPREADS, _START_LOADING = (0.1, 0.3), 0.4
# Of single guesses: the sweeps, and the standard deviation of a start.
_SWEEPS, _START_SPREAD = 5, 0.1
# Single guesses do not know their error: about this share of the variance of ratings.
_ERROR_SHARE = 0.5


class VectorRecipe(NamedTuple):
    """The form of the vectors."""

    n_dimensions: int
    spread: float | None
    """The variance of loadings, as a share of the variance of ratings. None learns a covariance matrix instead."""

    def fit(self, table: RatingTable, *, seed: tuple[int, ...], threads: int | None) -> VectorFit:
        """Return vectors fitted to ratings from a random start; with many ratings, from the fit to a sample."""
        problem = _VectorProblem(table, self, threads)
        if len(table.keys) > _MOST_RATINGS:
            sample = replace(problem, table=table.sample(_MOST_RATINGS, np.random.default_rng(seed)))
            of_sample, *_ = sample.run(sample.start(seed))
            first = replace(of_sample, sums=of_sample.vectors.sums(table.records, threads))
        else:
            first = problem.start(seed)
        last, bounds, stop_reason = problem.run(first)
        return VectorFit(last.vectors, bounds, stop_reason)


class RidgeRecipe(NamedTuple):
    """The penalties, for ratings of unit variance."""

    n_dimensions: int
    penalty: float
    bias_penalty: float

    def fit(self, table: RatingTable, *, seed: tuple[int, ...], threads: int | None) -> VectorFit:
        """Return vectors fitted to ratings from a random start.

        An item's numbers are its offset, the same loading of every user's bias, and its vector. A penalty is the noise
        of a model in which users' numbers have unit variance, so a loading sets the penalty of the bias.
        """
        scale = float(np.sqrt(table.variance))
        drawn = np.random.default_rng(seed).normal(size=(len(table.items), self.n_dimensions))
        start = _START_SPREAD * np.sqrt(scale) * drawn
        sweeps = ridge_sweeps_of_vectors(table, start, self.penalty * scale, self.bias_penalty, threads)
        vectors = next(islice(sweeps, _SWEEPS, None))
        return VectorFit(vectors, [], StopReason.DIRECT)  # of a fixed number of sweeps


class UserSums(NamedTuple):
    """What a pass over users gives, summed over each item's ratings."""

    squares: Floats
    """Σ E[x xᵀ], (n_items, n_packed)."""
    products: Floats
    """Σ rating · E[x], (n_items, 1 + n_dimensions)."""
    evidence: float

    def plus(self, other: UserSums) -> UserSums:
        """Return the sums over the users of both."""
        return UserSums(self.squares + other.squares, self.products + other.products, self.evidence + other.evidence)


@dataclass(frozen=True)
class RatingVectors:
    """A distribution of each item's offset and loadings."""

    points: Floats
    """The points of the scale."""
    means: Floats
    """(n_items, 1 + n_dimensions)."""
    moments: Floats
    """The expected products of an item's numbers, (n_items, n_packed): lower triangles, row by row."""
    noise: float
    error: float | None = None
    """Where vectors are single guesses, the variance of ratings around their product. None for distributions."""

    @cached_property
    def of_items(self) -> tuple[Floats, Floats]:
        """Means, and second moments with the noise."""
        squares = self.moments.copy()
        squares[:, 0] += self.noise if self.error is None else self.error
        return self.means, squares

    def of_users(self, users: Records) -> tuple[Floats, Floats]:
        """Return means and second moments of users' vectors, given their ratings."""
        moments, _ = self.moments_of(users.pointers, users)
        rows, columns = np.tril_indices(self.means.shape[1])
        return moments[:, columns == 0], np.where(rows == columns, 1.0, 2.0) * moments

    def moments_of(self, pointers: Ints, records: Records) -> tuple[Floats, float]:
        """Return the packed second moments of the users between pointers, and the sum of their log-evidence.

        Single guesses have no evidence.
        """
        from twoway.kernels.vectors import user_guesses, user_moments

        moments = np.empty((len(pointers) - 1, self.moments.shape[1]))
        arguments = (pointers, records.cells, self.points), self.means, self.moments, self.noise, moments
        if self.error is None:
            return moments, user_moments(*arguments)
        user_guesses(*arguments)
        return moments, 0.0

    def sums(self, records: Records, threads: int | None) -> UserSums:
        """Return the sums over users, given their ratings."""
        from twoway.kernels.vectors import add_user_moments

        def of_part(users: slice) -> UserSums:
            pointers = records.pointers[users.start : users.stop + 1]
            moments, evidence = self.moments_of(pointers, records)
            squares, products = np.zeros_like(self.moments), np.zeros_like(self.means)
            add_user_moments((pointers, records.cells, self.points), moments, squares, products)
            return UserSums(squares, products, evidence)

        n_users = records.n_records
        step = max(1, _PART * n_users // max(1, len(records.cells)))
        parts = [slice(first, min(first + step, n_users)) for first in range(0, n_users, step)]
        return reduce_in_order(parts, of_part, UserSums.plus, threads=threads, n_tasks=len(parts))


class VectorFit(NamedTuple):
    """A fit, and how it went."""

    vectors: RatingVectors
    bounds: list[float]
    """The negative bound after each pass, never rising; none where there is no bound."""
    stop_reason: StopReason


@dataclass(frozen=True)
class _VectorState:
    vectors: RatingVectors
    center: Floats
    """The mean of the items' offsets and loadings."""
    covariance: Floats
    """Around the center, before anything is known of an item."""
    divergence: float
    """Of the items' posteriors from that prior."""
    sums: UserSums


@dataclass(frozen=True)
class _VectorProblem:
    """Ratings to be fitted, and how."""

    table: RatingTable
    recipe: VectorRecipe
    threads: int | None

    def run(self, first: _VectorState) -> tuple[_VectorState, list[float], StopReason]:
        """Return the last state, the bounds, and the stop reason."""

        def advance(before: _VectorState | None) -> tuple[_VectorState, float]:
            state = first if before is None else self._next(before)
            return state, state.divergence - state.sums.evidence

        loop = Loop("ratings", _MAX_ITER, _TOL)
        ended = loop.follow(advance)
        if loop.watch.interrupted:
            raise KeyboardInterrupt
        return ended

    def start(self, seed: tuple[int, ...]) -> _VectorState:
        """Return a random state."""
        random = np.random.default_rng(seed)
        size, n_items, deviation = 1 + self.recipe.n_dimensions, len(self.table.items), np.sqrt(self.table.variance)
        spread = random.uniform(*_START_SPREADS) * deviation
        means = spread * random.normal(size=(n_items, size))
        means[:, 0] = self.table.ratings.mean()
        means[:, 1] += _START_LOADING * deviation
        covariances = np.tile(spread**2 * np.eye(size), (n_items, 1, 1))
        return self._state(means, covariances, self.table.variance)

    def _next(self, state: _VectorState) -> _VectorState:
        """Return the items' posteriors given the users', and then the noise and the prior that suit them."""
        inverse, noise = np.linalg.inv(state.covariance), state.vectors.noise
        squares = unpacked_vectors(state.sums.squares)
        covariances = np.linalg.inv(inverse + squares / noise).astype(np.float64, copy=False)
        right = state.sums.products / noise + inverse @ state.center
        means = np.einsum("ipq,iq->ip", covariances, right)
        second = covariances + means[:, :, np.newaxis] * means[:, np.newaxis, :]
        error = float(
            np.sum(self.table.ratings**2) - 2.0 * np.sum(means * state.sums.products) + np.sum(second * squares)
        )
        return self._state(means, covariances, max(error / len(self.table.ratings), self.table.least_noise))

    def _state(self, means: Floats, covariances: Floats, noise: float) -> _VectorState:
        center = means.mean(axis=0)
        deviations = covariances.mean(axis=0) + np.cov(means, rowvar=False, bias=True).reshape(covariances.shape[1:])
        covariance = deviations
        if self.recipe.spread is not None:
            covariance = self.recipe.spread * self.table.variance * np.eye(len(center))
            covariance[0, 0] = deviations[0, 0]
        moments = packed_vectors(covariances + means[:, :, np.newaxis] * means[:, np.newaxis, :])
        vectors = RatingVectors(self.table.points, means, moments, noise)
        spread = float(np.sum(np.linalg.inv(covariance) * deviations)) - len(center)
        spread += float(np.linalg.slogdet(covariance)[1])
        divergence = 0.5 * (len(means) * spread - float(np.linalg.slogdet(covariances)[1].sum()))
        sums = vectors.sums(self.table.records, self.threads)
        return _VectorState(vectors, center, covariance, divergence, sums)


# Single guesses


def ridge_sweeps_of_vectors(
    table: RatingTable, start: Floats, penalty: float, bias_penalty: float, threads: int | None
) -> Iterator[RatingVectors]:
    """Yield the vectors at the start and after each sweep over users and items, indefinitely.

    ``start`` is (n_items, n_dimensions); penalties are those of vectors, and of users' biases and items' offsets.
    """
    mean, size = float(table.ratings.mean()), 2 + start.shape[1]
    means = np.empty((len(start), size))
    means[:, 0], means[:, 1], means[:, 2:] = mean, np.sqrt(penalty / bias_penalty), start
    penalties = np.array([bias_penalty, *[penalty] * start.shape[1]])
    while True:
        moments = packed_vectors(means[:, :, np.newaxis] * means[:, np.newaxis, :])
        vectors = RatingVectors(table.points, means, moments, penalty, _ERROR_SHARE * table.variance)
        yield vectors
        sums = vectors.sums(table.records, threads)
        squares, free = unpacked_vectors(sums.squares), [0, *range(2, size)]
        # Of each rating, what the bias explains is taken away; an offset is drawn toward the mean.
        right = sums.products[:, free] - squares[:, free, 1] * means[:, 1:2]
        right[:, 0] += bias_penalty * mean
        matrices = squares[:, free][:, :, free] + np.diag(penalties)
        means = means.copy()
        means[:, free] = np.linalg.solve(matrices, right[:, :, np.newaxis])[:, :, 0]


# Symmetric matrices


def packed_vectors(matrices: Floats) -> Floats:
    """Return the lower triangles of matrices, (n, n_packed)."""
    rows, columns = np.tril_indices(matrices.shape[-1])
    return np.ascontiguousarray(matrices[:, rows, columns])


def unpacked_vectors(packed: Floats) -> Floats:
    """Return symmetric matrices, given their lower triangles."""
    size = int((2 * packed.shape[1]) ** 0.5)
    rows, columns = np.tril_indices(size)
    matrices = np.empty((len(packed), size, size))
    matrices[:, rows, columns] = matrices[:, columns, rows] = packed
    return matrices
