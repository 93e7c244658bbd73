"""Kinds of users and vectors together: what they expect is averaged, and a distribution is put around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.estimators.averaging import Average, average_stop_reason
from twoway.estimators.ratings.experts import RatingAverage, RatingExpert, expert_powers, expert_ratings
from twoway.estimators.ratings.kinds import RatingKinds, fit_rating_kinds
from twoway.estimators.ratings.shape import shape_means, shape_of_users, tilt_shape
from twoway.estimators.ratings.table import RatingTable
from twoway.estimators.ratings.vectors import RidgeRecipe, VectorFit, VectorRecipe, fit_vectors, ridge_vectors
from twoway.report import StopReason

# Distributions are computed in chunks of about this many numbers.
_CHUNK = 2**20


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
    """A weighted average of models of ratings, the last of them kinds of users."""

    recipe: RatingRecipe
    experts: Sequence[RatingExpert]
    kinds: RatingKinds
    """The last of the models."""
    shares: Floats
    """How often each rating is given, (n_points,)."""

    @classmethod
    def of(
        cls, recipe: RatingRecipe, vectors: Sequence[RatingExpert], kinds: RatingKinds, table: RatingTable
    ) -> RatingModel:
        """Return the model of experts that were fitted to a table."""
        # One rating more, of any kind, so that a rating that nobody gave has a chance.
        counts = np.bincount(table.records.cells % table.n_points, minlength=table.n_points) + 1.0 / table.n_points
        return cls(recipe, [*vectors, kinds], kinds, counts / counts.sum())

    @cached_property
    def average(self) -> RatingAverage:
        """The model of the expected ratings."""
        return RatingAverage(self.experts, self.recipe.weights.tolist())

    def expected(self, table: RatingTable, user_codes: Ints, item_codes: Ints) -> Floats:
        """Return the expected ratings of pairs of user (-1: unknown) and item, given those in the table, (n_pairs,)."""
        return shape_means(expert_ratings(self.average, table, user_codes, item_codes), table.points)

    def probabilities(self, table: RatingTable, user_codes: Ints, item_codes: Ints) -> Floats:
        """Return the probability of each rating, (n_pairs, n_points), whose means are the expected ratings."""
        answers = np.empty((len(user_codes), table.n_points))
        # Those of a user together, a chunk at a time.
        order, size = np.argsort(user_codes, kind="stable"), max(1, _CHUNK // table.n_points)
        for pairs in (order[first : first + size] for first in range(0, len(order), size)):
            parts, means = self.parts(table, user_codes[pairs], item_codes[pairs])
            answers[pairs] = tilt_shape(np.tensordot(self.recipe.exponents, parts, 1), table.points, means)
        return answers

    def parts(self, table: RatingTable, user_codes: Ints, item_codes: Ints) -> tuple[Floats, Floats]:
        """Return the logarithms of the parts of each distribution, (3, n_pairs, n_points), and the expected ratings."""
        means, squares = expert_powers(self.average, table, user_codes, item_codes)
        variances = (squares - means**2)[:, np.newaxis]
        means = shape_means(means, table.points)
        parts = np.empty((3, len(means), table.n_points))
        parts[0] = -0.5 * (table.points - means[:, np.newaxis]) ** 2 / variances
        for pairs, users, of_pair in table.pairs_by_user(user_codes, table.n_points):
            parts[1, pairs] = np.log(shape_of_users(users, self.shares))[of_pair]
        parts[2] = np.log(np.maximum(self.kinds.shares(table, user_codes, item_codes), 1e-300))
        return parts, means


@dataclass(frozen=True)
class RatingFitting:
    """The options of all fits."""

    smoothing: float
    seed: int
    threads: int | None

    def fit(self, table: RatingTable, recipe: RatingRecipe, n_starts: int) -> tuple[RatingModel, int, StopReason]:
        """Return the model of a recipe, the passes of the longest fit, and why the fits ended.

        At least so many fits of kinds, and of vectors in all forms together, are averaged.
        """
        n_each = -(-n_starts // max(1, len(recipe.forms)))
        vectors = [self.fit_vectors(table, form, n_each) for form in recipe.forms]
        kinds = self.fit_kinds(table, recipe.rank, n_starts)
        model = RatingModel.of(recipe, [average for average, _ in vectors], RatingKinds(kinds.pmf, table.points), table)
        every_fit = [fit for _, fits in vectors for fit in fits]
        n_iter = max([kinds.n_iter, *(len(fit.bounds) for fit in every_fit)])
        return model, n_iter, average_stop_reason([kinds.stop_reason, *(fit.stop_reason for fit in every_fit)])

    def fit_kinds(self, table: RatingTable, rank: int, n_starts: int) -> Average:
        """Return the average of several mixtures."""
        return fit_rating_kinds(
            table, rank, n_starts=n_starts, smoothing=self.smoothing, seed=self.seed, threads=self.threads
        )

    def fit_vectors(
        self, table: RatingTable, form: VectorRecipe | RidgeRecipe, n_starts: int
    ) -> tuple[RatingAverage, list[VectorFit]]:
        """Return the average of several fits of a form of vectors, and the fits."""
        fit: Callable[..., VectorFit] = fit_vectors if isinstance(form, VectorRecipe) else ridge_vectors
        fits = [fit(table, form, seed=(self.seed, start), threads=self.threads) for start in range(n_starts)]
        return RatingAverage([fit.vectors for fit in fits], [1.0 / n_starts] * n_starts), fits
