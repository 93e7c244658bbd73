"""Models that predict ratings, averages of them, and the distribution of a rating around what they expect.

Whatever a model is, what it expects of a rating is a product of numbers of the user, which follow from the user's known
ratings, and numbers of the item. So a weighted average of models is such a model again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.data.records import Records
from twoway.estimators.averaging import average_stop_reason
from twoway.estimators.ratings.kinds import RatingKinds, fit_rating_kinds
from twoway.estimators.ratings.shape import shape_means, shape_of_users, tilt_shape
from twoway.estimators.ratings.table import RatingPairs, RatingTable
from twoway.estimators.ratings.vectors import RatingVectors, RidgeRecipe, VectorRecipe
from twoway.model.pmf import JointPMF
from twoway.report import StopReason

# Distributions are computed in chunks of about this many numbers.
_CHUNK = 2**20


RatingExpert: TypeAlias = "RatingKinds | RatingVectors | RatingAverage"
"""A model whose expectations, of a rating and of its square, are products of numbers of users and of items.

``of_items`` are the numbers of each item for the rating and for its square, each (n_items, n_numbers);
``of_users(users)`` returns those of users with these ratings, each (n_users, n_numbers).
"""


@dataclass(frozen=True)
class RatingAverage:
    """A weighted average of models."""

    experts: Sequence[RatingExpert]
    shares: Sequence[float]

    @cached_property
    def of_items(self) -> tuple[Floats, Floats]:
        """The numbers of each item, of one model after the other."""
        means, squares = zip(*(expert.of_items for expert in self.experts), strict=True)
        return np.hstack(means), np.hstack(squares)

    def of_users(self, users: Records) -> tuple[Floats, Floats]:
        """Return the numbers of users, each times the share of its model."""
        of_experts = zip(self.shares, (expert.of_users(users) for expert in self.experts), strict=True)
        means, squares = zip(*((share * first, share * second) for share, (first, second) in of_experts), strict=True)
        return np.hstack(means), np.hstack(squares)


def expert_ratings(expert: RatingExpert, pairs: RatingPairs) -> Floats:
    """Return the expected rating of each pair of user and item, (n_pairs,).

    A known rating of a pair counts as one of the user's ratings; it is not returned.
    """
    return expert_powers(expert, pairs, 1)[0]


def expert_powers(expert: RatingExpert, pairs: RatingPairs, n_powers: int = 2) -> list[Floats]:
    """Return what `expert_ratings` does, and the expected squares of the ratings; each (n_pairs,)."""
    of_items = expert.of_items[:n_powers]
    powers = [np.empty(len(pairs)) for _ in of_items]
    for places, users, of_pair in pairs.by_user(sum(numbers.shape[1] for numbers in of_items)):
        for answers, of_item, of_user in zip(powers, of_items, expert.of_users(users), strict=False):
            answers[places] = np.einsum("pn,pn->p", of_user[of_pair], of_item[pairs.item_codes[places]])
    return powers


def ratings_by_model(pmf: JointPMF, table: RatingTable, user_codes: Ints, item_codes: Ints) -> Floats:
    """Return the ratings that a joint PMF expects for pairs of user (-1: unknown) and item, (n_pairs,)."""
    return expert_ratings(RatingKinds(pmf, table.points), RatingPairs(table, user_codes, item_codes))


@dataclass(frozen=True)
class RatingRecipe:
    """How a model is made."""

    rank: int
    """The number of kinds."""
    forms: tuple[VectorRecipe | RidgeRecipe, ...]
    """Of vectors; none where kinds alone predict best."""
    weights: Floats
    """Of each form of vectors, and last of the kinds."""
    exponents: Floats
    """Of the parts of a distribution's shape."""


@dataclass(frozen=True)
class RatingModel:
    """A weighted average of models of ratings, and the distribution around it."""

    average: RatingAverage
    """The model of the expected ratings."""
    kinds: RatingKinds
    """The last of the models that are averaged."""
    exponents: Floats
    """Of the parts of a distribution's shape."""
    shares: Floats
    """How often each rating is given, (n_points,)."""

    @classmethod
    def of(cls, recipe: RatingRecipe, experts: Sequence[RatingExpert], table: RatingTable) -> RatingModel:
        """Return the model of vectors, and last kinds, that were fitted to a table."""
        # One more rating of any kind, so that a rating that nobody gave is possible.
        counts = np.bincount(table.records.cells % table.n_points, minlength=table.n_points) + 1.0 / table.n_points
        kinds = experts[-1]
        assert isinstance(kinds, RatingKinds)
        return cls(RatingAverage(experts, recipe.weights.tolist()), kinds, recipe.exponents, counts / counts.sum())

    def expected(self, pairs: RatingPairs) -> Floats:
        """Return the expected ratings of pairs of user and item, given the known ratings, (n_pairs,)."""
        return shape_means(expert_ratings(self.average, pairs), self.kinds.points)

    def probabilities(self, pairs: RatingPairs) -> Floats:
        """Return the probability of each rating, (n_pairs, n_points), whose means are the expected ratings."""
        points = self.kinds.points
        answers = np.empty((len(pairs), len(points)))
        for places in pairs.chunks(len(points), _CHUNK):
            parts, means = self.parts(pairs.take(places))
            answers[places] = tilt_shape(np.tensordot(self.exponents, parts, 1), points, means)
        return answers

    def parts(self, pairs: RatingPairs) -> tuple[Floats, Floats]:
        """Return the logarithms of the parts of each distribution, (3, n_pairs, n_points), and the expected ratings."""
        points = self.kinds.points
        means, squares = expert_powers(self.average, pairs)
        variances = (squares - means**2)[:, np.newaxis]
        means = shape_means(means, points)
        parts = np.empty((3, len(means), len(points)))
        parts[0] = -0.5 * (points - means[:, np.newaxis]) ** 2 / variances
        for places, users, of_pair in pairs.by_user(len(points)):
            parts[1, places] = np.log(shape_of_users(users, self.shares))[of_pair]
        parts[2] = np.log(np.maximum(self.kinds.shares(pairs), 1e-300))
        return parts, means


class RatingFit(NamedTuple):
    """A fitted model, the average of several fits, and how they ended."""

    expert: RatingExpert
    n_iter: int
    """The passes of the longest fit."""
    stop_reason: StopReason


@dataclass(frozen=True)
class RatingFitting:
    """The options of all fits."""

    smoothing: float
    seed: int
    threads: int | None

    def fit(self, table: RatingTable, recipe: RatingRecipe, n_starts: int) -> tuple[RatingModel, int, StopReason]:
        """Return the model of a recipe, the passes of the longest fit, and why the fits ended.

        At least ``n_starts`` fits of kinds, and as many of vectors in all forms together, are averaged.
        """
        n_each = -(-n_starts // max(1, len(recipe.forms)))
        fits = [self.fit_vectors(table, form, n_each) for form in recipe.forms]
        fits.append(self.fit_kinds(table, recipe.rank, n_starts))
        experts, n_iters, stop_reasons = zip(*fits, strict=True)
        return RatingModel.of(recipe, experts, table), max(n_iters), average_stop_reason(stop_reasons)

    def fit_kinds(self, table: RatingTable, rank: int, n_starts: int) -> RatingFit:
        """Return the average of several mixtures."""
        average = fit_rating_kinds(
            table, rank, n_starts=n_starts, smoothing=self.smoothing, seed=self.seed, threads=self.threads
        )
        return RatingFit(RatingKinds(average.pmf, table.points), average.n_iter, average.stop_reason)

    def fit_vectors(self, table: RatingTable, form: VectorRecipe | RidgeRecipe, n_starts: int) -> RatingFit:
        """Return the average of several fits of a form of vectors."""
        fits = [form.fit(table, seed=(self.seed, start), threads=self.threads) for start in range(n_starts)]
        vectors, bounds, stop_reasons = zip(*fits, strict=True)
        average = RatingAverage(vectors, [1.0 / n_starts] * n_starts)
        return RatingFit(average, max(map(len, bounds)), average_stop_reason(stop_reasons))
