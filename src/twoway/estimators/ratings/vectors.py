"""Vectors of users and items, whose product is the rating: a Gaussian model with offsets, fitted without sampling.

A rating is an offset of the item plus the product of the item's loadings and the user's vector z ~ N(0, I), plus noise.
The loadings are Gaussian with a common mean, so that one direction of z is how generous a user is. Users have their
exact posterior given the items, and items given the users (variational Bayes: Lim and Teh, Variational Bayesian
approach to movie rating prediction, 2007). Noise, common mean and the variance of offsets are those of the highest
bound of the log-likelihood, which no pass lowers; so is the covariance of loadings, where it is learned. A user with
many ratings has a narrow posterior, but it is still a weighted average of all of them, unlike a membership in one kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.data.records import Records
from twoway.estimators.ratings.experts import Two
from twoway.estimators.ratings.table import RatingTable
from twoway.parallel import reduce_in_order
from twoway.report import StopReason
from twoway.solvers.loop import Loop

_MAX_ITER = 500
# Passes end when the bound rises by less than this share: later ones do not improve predictions.
_TOL = 1e-4
# Above so many ratings a fit begins with a sample of the users.
_MOST_RATINGS = 500_000
# Users are worked on in parts of about this many ratings.
_PART = 2**17
# The standard deviation of a start's loadings, between two limits, and the mean of the first of them: as shares of the
# standard deviation of ratings.
_START_SPREADS, _START_LOADING = (0.1, 0.3), 0.4


class VectorRecipe(NamedTuple):
    """The form of the vectors."""

    n_dimensions: int
    spread: float | None
    """The variance of loadings, as a share of the variance of ratings. None learns a covariance matrix instead."""


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

    @cached_property
    def of_items(self) -> Two:
        """Means, and second moments with the noise."""
        squares = self.moments.copy()
        squares[:, 0] += self.noise
        return self.means, squares

    def of_users(self, users: Records) -> Two:
        """Return means and second moments of users' vectors, given their ratings."""
        moments, _ = self.moments_of(users.pointers, users)
        firsts, is_diagonal = _packed_places(self.means.shape[1])
        return moments[:, firsts], np.where(is_diagonal, 1.0, 2.0) * moments

    def moments_of(self, pointers: Ints, records: Records) -> tuple[Floats, float]:
        """Return the packed second moments of the users between pointers, and the sum of their log-evidence."""
        from twoway.kernels.vectors import user_moments

        moments = np.empty((len(pointers) - 1, self.moments.shape[1]))
        evidence = user_moments(pointers, records.cells, self.points, self.means, self.moments, self.noise, moments)
        return moments, evidence


class VectorFit(NamedTuple):
    """A fit, and how it went."""

    vectors: RatingVectors
    bounds: list[float]
    """The negative bound after each pass, never rising."""
    stop_reason: StopReason


class _UserSums(NamedTuple):
    """What a pass over users gives, summed over each item's ratings."""

    squares: Floats
    """Σ E[x xᵀ], (n_items, n_packed)."""
    products: Floats
    """Σ rating · E[x], (n_items, 1 + n_dimensions)."""
    evidence: float

    def plus(self, other: _UserSums) -> _UserSums:
        return _UserSums(self.squares + other.squares, self.products + other.products, self.evidence + other.evidence)


@dataclass(frozen=True)
class _ItemPrior:
    """What the items' offsets and loadings have in common."""

    center: Floats
    covariance: Floats

    def divergence(self, deviations: Floats, log_determinants: float, n_items: int) -> float:
        """Return the divergence of the items' posteriors from it, given the mean second moments around the center."""
        inverse, size = np.linalg.inv(self.covariance), len(self.center)
        log_determinant = float(np.linalg.slogdet(self.covariance)[1])
        return 0.5 * (n_items * (float(np.sum(inverse * deviations)) - size + log_determinant) - log_determinants)


@dataclass(frozen=True)
class _VectorState:
    vectors: RatingVectors
    prior: _ItemPrior
    divergence: float
    sums: _UserSums


def fit_vectors(table: RatingTable, recipe: VectorRecipe, *, seed: tuple[int, ...], threads: int | None) -> VectorFit:
    """Return vectors fitted to ratings from a random start."""
    return _VectorProblem(table, recipe, threads).fit(seed)


@dataclass(frozen=True)
class _VectorProblem:
    """Ratings to be fitted, and how."""

    table: RatingTable
    recipe: VectorRecipe
    threads: int | None

    def fit(self, seed: tuple[int, ...]) -> VectorFit:
        first = None
        if len(self.table.keys) > _MOST_RATINGS:
            sample = self.table.sample(_MOST_RATINGS, np.random.default_rng(seed))
            first = _VectorProblem(sample, self.recipe, self.threads)._run(seed, None)[0]
        last, bounds, stop_reason = self._run(seed, first)
        return VectorFit(last.vectors, bounds, stop_reason)

    def _run(self, seed: tuple[int, ...], first: _VectorState | None) -> tuple[_VectorState, list[float], StopReason]:
        def advance(state: _VectorState | None) -> tuple[_VectorState, float]:
            if state is not None:
                state = self._next(state)
            elif first is not None:
                state = self._with_sums(first.vectors, first.prior, first.divergence)
            else:
                state = self._start(np.random.default_rng(seed))
            return state, state.divergence - state.sums.evidence

        loop = Loop("ratings", _MAX_ITER, _TOL)
        ended = loop.follow(advance)
        if loop.watch.interrupted:
            raise KeyboardInterrupt
        return ended

    @cached_property
    def _ratings(self) -> Floats:
        ratings: Floats = self.table.points[self.table.records.cells % self.table.n_points]
        return ratings

    @cached_property
    def _least_noise(self) -> float:
        """The variance that rounding to the points of the scale alone would cause."""
        return float(np.diff(self.table.points).min(initial=np.inf)) ** 2 / 12 if self.table.n_points > 1 else 1.0

    @cached_property
    def _variance(self) -> float:
        return max(float(np.var(self._ratings)), self._least_noise)

    def _start(self, random: np.random.Generator) -> _VectorState:
        size, n_items, deviation = 1 + self.recipe.n_dimensions, len(self.table.items), np.sqrt(self._variance)
        spread = random.uniform(*_START_SPREADS) * deviation
        means = spread * random.normal(size=(n_items, size))
        means[:, 0] = self._ratings.mean()
        means[:, 1] += _START_LOADING * deviation
        covariances = np.tile(spread**2 * np.eye(size), (n_items, 1, 1))
        return self._state(means, covariances, self._variance)

    def _next(self, state: _VectorState) -> _VectorState:
        """Return the items' posteriors given the users', and then the noise and the prior that suit them."""
        inverse, noise = np.linalg.inv(state.prior.covariance), state.vectors.noise
        squares = _unpacked(state.sums.squares)
        covariances = np.linalg.inv(inverse + squares / noise).astype(np.float64, copy=False)
        right = state.sums.products / noise + inverse @ state.prior.center
        means = np.einsum("ipq,iq->ip", covariances, right)
        second = covariances + means[:, :, np.newaxis] * means[:, np.newaxis, :]
        error = float(np.sum(self._ratings**2) - 2.0 * np.sum(means * state.sums.products) + np.sum(second * squares))
        return self._state(means, covariances, max(error / len(self._ratings), self._least_noise))

    def _state(self, means: Floats, covariances: Floats, noise: float) -> _VectorState:
        center = means.mean(axis=0)
        deviations = covariances.mean(axis=0) + np.cov(means, rowvar=False, bias=True).reshape(covariances.shape[1:])
        covariance = deviations
        if self.recipe.spread is not None:
            covariance = self.recipe.spread * self._variance * np.eye(len(center))
            covariance[0, 0] = deviations[0, 0]
        prior = _ItemPrior(center, covariance)
        moments = _packed(covariances + means[:, :, np.newaxis] * means[:, np.newaxis, :])
        vectors = RatingVectors(self.table.points, means, moments, noise)
        log_determinants = float(np.linalg.slogdet(covariances)[1].sum())
        return self._with_sums(vectors, prior, prior.divergence(deviations, log_determinants, len(means)))

    def _with_sums(self, vectors: RatingVectors, prior: _ItemPrior, divergence: float) -> _VectorState:
        from twoway.kernels.vectors import add_user_moments

        records = self.table.records

        def sums(users: slice) -> _UserSums:
            pointers = records.pointers[users.start : users.stop + 1]
            moments, evidence = vectors.moments_of(pointers, records)
            squares, products = np.zeros_like(vectors.moments), np.zeros_like(vectors.means)
            add_user_moments(pointers, records.cells, vectors.points, moments, squares, products)
            return _UserSums(squares, products, evidence)

        step = max(1, _PART * records.n_records // max(1, len(self.table.keys)))
        parts = [slice(first, min(first + step, records.n_records)) for first in range(0, records.n_records, step)]
        total = reduce_in_order(parts, sums, _UserSums.plus, threads=self.threads, n_tasks=len(parts))
        return _VectorState(vectors, prior, divergence, total)


def _packed_places(size: int) -> tuple[Ints, Bools]:
    """Return the places of the first column in a packed matrix, and which of its entries are on the diagonal."""
    rows, columns = np.tril_indices(size)
    return np.flatnonzero(columns == 0), rows == columns


def _packed(matrices: Floats) -> Floats:
    rows, columns = np.tril_indices(matrices.shape[-1])
    return np.ascontiguousarray(matrices[:, rows, columns])


def _unpacked(packed: Floats) -> Floats:
    size = int((2 * packed.shape[1]) ** 0.5)
    rows, columns = np.tril_indices(size)
    matrices = np.empty((len(packed), size, size))
    matrices[:, rows, columns] = matrices[:, columns, rows] = packed
    return matrices
