"""The recipe of a model of ratings, chosen by held-out ratings.

They choose the number of kinds of users, give each model its weight in the expected rating, and the distribution its
shape. Weights are drawn toward equal ones: what is averaged errs less than what is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.estimators.ratings.experts import RatingExpert, expert_ratings
from twoway.estimators.ratings.kinds import RatingKinds
from twoway.estimators.ratings.model import RatingFitting, RatingModel, RatingRecipe
from twoway.estimators.ratings.shape import USUAL_EXPONENTS, fit_shape_exponents
from twoway.estimators.ratings.table import RatingTable
from twoway.estimators.ratings.vectors import RidgeRecipe, VectorRecipe
from twoway.solvers.heldout import try_in_order

# Numbers of kinds are compared, from the smallest up.
_RANKS = (1, 2, 5, 10, 20, 40, 80)
# Vectors whose covariance of loadings is learned, and with several guesses of their variance: weights decide.
_DIMENSIONS, _SPREADS = 10, (None, 0.005, 0.02, 0.08)
# Vectors as single guesses: little and much shrunk.
_RIDGES = RidgeRecipe(20, 4.0, 1.0), RidgeRecipe(10, 8.0, 3.0)
_FOLDS = 5
_TRIAL_STARTS = 3
# On so many ratings one fold tells candidates apart; no more than the second number are used.
_MANY_RATINGS, _MOST_RATINGS = 20_000, 500_000
# A component needs at least so many users.
_USERS_PER_COMPONENT = 5
# As if so many held-out ratings asked for equal weights.
_EQUAL_RATINGS = 30.0
# Vectors of less weight are left out.
_LEAST_WEIGHT = 0.02


@dataclass(frozen=True)
class _RatingFold:
    """Ratings to fit, and others to predict."""

    train: RatingTable
    user_codes: Ints
    item_codes: Ints
    codes: Ints
    """The held-out ratings, as positions on the scale."""

    @classmethod
    def of(cls, table: RatingTable, held: Bools) -> _RatingFold:
        users, items = np.divmod(table.keys[held], len(table.items))
        return cls(table.only(~held), users, items, (table.records.cells[held] % table.n_points).astype(np.int64))


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
    if len(table.keys) < _FOLDS:
        return recipe, {}
    fold_of_rating = random.permutation(len(table.keys)) % _FOLDS
    n_folds = _FOLDS if len(table.keys) <= _MANY_RATINGS else 1
    folds = [_RatingFold.of(table, fold_of_rating == fold) for fold in range(n_folds)]
    recipe, tried = _RatingSearch(folds, table.points, fitting).improve(recipe, ranks)
    return recipe, {} if rank else tried


@dataclass(frozen=True)
class _RatingSearch:
    """Comparisons on folds."""

    folds: Sequence[_RatingFold]
    points: Floats
    fitting: RatingFitting

    def improve(self, recipe: RatingRecipe, ranks: Sequence[int]) -> tuple[RatingRecipe, dict[int, float]]:
        """Return the recipe with the best of some ranks, weights and exponents, and the RMSE of the ranks compared."""
        best_rank, kinds, tried = self._best_kinds(ranks)
        vectors = [
            [self.fitting.fit_vectors(fold.train, form, _TRIAL_STARTS)[0] for form in recipe.forms]
            for fold in self.folds
        ]
        weights = self._best_weights([*zip(*vectors, strict=True), kinds])
        kept = np.append(weights[:-1] >= _LEAST_WEIGHT, True)
        weights = weights[kept] / weights[kept].sum()
        recipe = replace(recipe, rank=best_rank, forms=tuple(compress(recipe.forms, kept)), weights=weights)
        models = [
            RatingModel.of(recipe, [*compress(of_fold, kept)], kind, fold.train)
            for fold, of_fold, kind in zip(self.folds, vectors, kinds, strict=True)
        ]
        return replace(recipe, exponents=self._best_exponents(models)), tried

    @cached_property
    def _codes(self) -> Ints:
        """The held-out ratings of all folds, as positions on the scale."""
        return np.concatenate([fold.codes for fold in self.folds])

    def _predictions(self, experts: Sequence[RatingExpert]) -> Floats:
        """Return the expected ratings by an expert of each fold, (n_held_out,)."""
        return np.concatenate(
            [
                expert_ratings(expert, fold.train, fold.user_codes, fold.item_codes)
                for fold, expert in zip(self.folds, experts, strict=True)
            ]
        )

    def _best_kinds(self, ranks: Sequence[int]) -> tuple[int, list[RatingKinds], dict[int, float]]:
        """Return the rank of the lowest RMSE, the fit of each fold, and the RMSE of the ranks that were compared."""
        tried: dict[int, float] = {}
        best: list[RatingKinds] = []

        def is_better(rank: int) -> bool:
            nonlocal best
            fits = [self.fitting.fit_kinds(fold.train, rank, _TRIAL_STARTS) for fold in self.folds]
            kinds = [RatingKinds(fit.pmf, self.points) for fit in fits]
            rmse = float(np.sqrt(np.mean((self._predictions(kinds) - self.points[self._codes]) ** 2)))
            better = rmse < min(tried.values(), default=np.inf)
            tried[rank] = rmse
            best = kinds if better else best
            return better

        try_in_order(ranks, is_better)
        return min(tried, key=tried.__getitem__), best, tried

    def _best_weights(self, experts: Sequence[Sequence[RatingExpert]]) -> Floats:
        """Return the weights, which sum to 1, of the average with the least squared error; experts come by fold."""
        from scipy.optimize import nnls

        actual, n_experts = self.points[self._codes], len(experts)
        gaps = np.stack([self._predictions(of_folds) - actual for of_folds in experts], axis=1)
        # Beside the gaps, a heavy row asks for a sum of 1, and some rows ask for equal weights.
        unit = max(float(np.std(actual)), 1e-6)
        heavy, equal = 100.0 * unit * np.sqrt(len(actual)), np.sqrt(_EQUAL_RATINGS) * unit
        left = np.vstack([gaps, np.full(n_experts, heavy), equal * np.eye(n_experts)])
        right = np.concatenate([np.zeros(len(actual)), [heavy], np.full(n_experts, equal / n_experts)])
        weights: Floats = nnls(left, right)[0]
        weights /= weights.sum()
        return weights

    def _best_exponents(self, models: Sequence[RatingModel]) -> Floats:
        """Return the exponents of the distribution's shape, given the model of each fold."""
        asked = (
            model.parts(fold.train, fold.user_codes, fold.item_codes)
            for fold, model in zip(self.folds, models, strict=True)
        )
        parts, means = zip(*asked, strict=True)
        return fit_shape_exponents(np.concatenate(parts, axis=1), self.points, np.concatenate(means), self._codes)
