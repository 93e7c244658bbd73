"""The recipe of a model of ratings, chosen by held-out ratings.

They choose the number of kinds of users, give each model its weight in the expected rating, and the distribution its
shape. Weights are drawn toward equal ones: what is averaged errs less than what is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.estimators.long_tables import long_table_folds
from twoway.estimators.ratings.model import RatingExpert, RatingFitting, RatingModel, RatingRecipe, expert_ratings
from twoway.estimators.ratings.shape import USUAL_EXPONENTS, fit_shape_exponents
from twoway.estimators.ratings.table import RatingPairs, RatingTable
from twoway.estimators.ratings.vectors import RidgeRecipe, VectorRecipe
from twoway.solvers.heldout import try_in_order

# Numbers of kinds are compared, from the smallest up.
_RANKS = (1, 2, 5, 10, 20, 40, 80)
# Vectors whose covariance of loadings is learned, and with several guesses of their variance: weights decide.
_DIMENSIONS, _SPREADS = 10, (None, 0.005, 0.02, 0.08)
# Vectors as single guesses: little and much shrunk.
_RIDGES = RidgeRecipe(20, 4.0, 1.0), RidgeRecipe(10, 8.0, 3.0)
_TRIAL_STARTS = 3
# With more ratings, one fold is enough to compare candidates; no more than the second number are used.
_MANY_RATINGS, _MOST_RATINGS = 20_000, 500_000
# The users that a component needs, at least.
_USERS_PER_COMPONENT = 5
# Weights are drawn to equal ones as if by this many held-out ratings.
_EQUAL_RATINGS = 30.0
# Vectors of a smaller weight are left out.
_LEAST_WEIGHT = 0.02


def choose_rating_recipe(
    table: RatingTable, rank: int | None, fitting: RatingFitting
) -> tuple[RatingRecipe, dict[int, float]]:
    """Return the recipe that predicts held-out ratings best, and their RMSE by the number of kinds where that is open.

    The order of the users must depend on nothing but their ratings.
    """
    random = np.random.default_rng(fitting.seed)
    if len(table.keys) > _MOST_RATINGS:
        table = table.sample(_MOST_RATINGS, random)
    n_users = int(np.count_nonzero(np.diff(table.records.pointers)))
    ranks = [rank] if rank else [number for number in _RANKS if number <= max(1, n_users // _USERS_PER_COMPONENT)]
    n_dimensions = min(_DIMENSIONS, max(1, len(table.items) - 1))
    forms: tuple[VectorRecipe | RidgeRecipe, ...] = tuple(VectorRecipe(n_dimensions, spread) for spread in _SPREADS)
    forms += _RIDGES
    equal = np.full(len(forms) + 1, 1.0 / (len(forms) + 1))
    recipe = RatingRecipe(ranks[0], forms, equal, USUAL_EXPONENTS)
    held_out = long_table_folds(len(table.keys), _MANY_RATINGS, random)
    if not held_out:
        return recipe, {}
    folds = [RatingPairs(table.only(~held), *np.divmod(table.keys[held], len(table.items))) for held in held_out]
    codes = np.concatenate([table.records.cells[held] for held in held_out]).astype(np.int64) % table.n_points
    recipe, tried = _RatingSearch(folds, codes, table.points, fitting).improve(recipe, ranks)
    return recipe, {} if rank else tried


@dataclass(frozen=True)
class _RatingSearch:
    """Comparisons on folds."""

    folds: Sequence[RatingPairs]
    """The pairs of each fold's held-out ratings, with the ratings to fit."""
    codes: Ints
    """The held-out ratings of all folds, as positions on the scale."""
    points: Floats
    fitting: RatingFitting

    def improve(self, recipe: RatingRecipe, ranks: Sequence[int]) -> tuple[RatingRecipe, dict[int, float]]:
        """Return the recipe with the best of some ranks, weights and exponents, and the RMSE of the ranks compared."""
        best_rank, kinds, tried = self._best_kinds(ranks)
        experts = [
            [self.fitting.fit_vectors(fold.table, form, _TRIAL_STARTS).expert for fold in self.folds]
            for form in recipe.forms
        ]
        experts.append(kinds)
        weights = self._best_weights(experts)
        is_used = np.append(weights[:-1] >= _LEAST_WEIGHT, True)
        weights = weights[is_used] / weights[is_used].sum()
        recipe = replace(recipe, rank=best_rank, forms=tuple(compress(recipe.forms, is_used)), weights=weights)
        of_folds = zip(self.folds, zip(*compress(experts, is_used), strict=True), strict=True)
        models = ((fold, RatingModel.of(recipe, of_fold, fold.table)) for fold, of_fold in of_folds)
        parts, means = zip(*(model.parts(fold) for fold, model in models), strict=True)
        joined = np.concatenate(parts, axis=1), self.points, np.concatenate(means), self.codes
        return replace(recipe, exponents=fit_shape_exponents(*joined)), tried

    def _predictions(self, experts: Sequence[RatingExpert]) -> Floats:
        """Return the expected ratings by an expert of each fold, (n_held_out,)."""
        of_folds = zip(self.folds, experts, strict=True)
        return np.concatenate([expert_ratings(expert, fold) for fold, expert in of_folds])

    def _best_kinds(self, ranks: Sequence[int]) -> tuple[int, list[RatingExpert], dict[int, float]]:
        """Return the rank of the lowest RMSE, the fit of each fold, and the RMSE of the ranks that were compared."""
        tried: dict[int, float] = {}
        best: list[RatingExpert] = []

        def is_better(rank: int) -> bool:
            nonlocal best
            kinds = [self.fitting.fit_kinds(fold.table, rank, _TRIAL_STARTS).expert for fold in self.folds]
            rmse = float(np.sqrt(np.mean((self._predictions(kinds) - self.points[self.codes]) ** 2)))
            is_lowest = rmse < min(tried.values(), default=np.inf)
            tried[rank] = rmse
            best = kinds if is_lowest else best
            return is_lowest

        try_in_order(ranks, is_better)
        return min(tried, key=tried.__getitem__), best, tried

    def _best_weights(self, experts: Sequence[Sequence[RatingExpert]]) -> Floats:
        """Return the weights, which sum to 1, of the average with the least squared error; experts come by fold."""
        from scipy.optimize import nnls

        actual, n_experts = self.points[self.codes], len(experts)
        gaps = np.stack([self._predictions(of_folds) - actual for of_folds in experts], axis=1)
        # Beside the gaps, a heavy row asks for a sum of 1, and some rows ask for equal weights.
        unit = max(float(np.std(actual)), 1e-6)
        heavy, equal = 100.0 * unit * np.sqrt(len(actual)), np.sqrt(_EQUAL_RATINGS) * unit
        matrix = np.vstack([gaps, np.full(n_experts, heavy), equal * np.eye(n_experts)])
        target = np.concatenate([np.zeros(len(actual)), [heavy], np.full(n_experts, equal / n_experts)])
        weights: Floats = nnls(matrix, target)[0]
        weights /= weights.sum()
        return weights
