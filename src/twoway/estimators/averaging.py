"""The average of several fits, of the size that predicts held-out records best.

Short runs of EM from random starts end in different places. Each is a good guess, and their mixture is a better one:
what they agree on stays, what only one of them believes is thinned. Rank and smoothing are those of the least loss on
held-out records: of the label for a classifier, of hidden cells for an imputer, of whole records for a density.

Models of other forms are averaged, too, where they predict better: hidden variables on a tree, and mixtures of trees.
Each form gets the share that makes held-out records most probable. A classifier has other forms, in which each
class is a component, and averages what they say about the label, not the models: in a mixture, the form that makes a
record's features most probable would decide about its label, not the one that predicts labels best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, Literal, TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

from twoway.arrays import Floats
from twoway.data.records import Records
from twoway.data.weights import record_weights
from twoway.errors import DataError, check_number, check_whole_number
from twoway.model.pmf import JointPMF
from twoway.parallel import usable_cores
from twoway.report import StopReason
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.heldout import HeldOut, held_out_without_zeros, try_in_order
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.starts import naive_bayes_start, random_start
from twoway.solvers.tree_mixture import (
    START_SMOOTHING,
    TREE_TOL,
    chow_liu_edges,
    fit_random_tree_mixture,
    fit_tree_mixture,
)
from twoway.solvers.tree_starts import TreeShape, random_tree_start
from twoway.solvers.watch import Watch

Losses: TypeAlias = tuple[Floats, Floats]
"""The loss of each prediction, and how much each counts; both (n_predictions,)."""
Loss: TypeAlias = Callable[[JointPMF, Records], Losses]
"""From a model and held-out records to the losses of its predictions."""
Candidates: TypeAlias = tuple[Mapping[str, Any], ...]
"""A dictionary for each recipe that was compared: its parts and its "loss"; empty where nothing was chosen."""
Form: TypeAlias = Literal["single", "tree", "trees", "naive_bayes", "class_trees"]
"""One hidden variable, hidden variables on a tree, or a mixture of trees of the visible variables; or a component, or a
tree, for each category of the last variable."""
FORMS: tuple[Form, ...] = ("single", "tree", "trees")
CLASS_FORMS: tuple[Form, ...] = ("naive_bayes", "single", "class_trees")

# Each about the golden ratio above the one before.
_RANKS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987)
# The records that a component needs, about.
_RECORDS_PER_COMPONENT = {"single": 4, "tree": 4, "trees": 20}
_MOST_PASSES = 300
_SMOOTHING, _MORE_SMOOTHING = 0.25, 4.0
# Where the search among trees begins.
_FIRST_OF_TREES = {"tree": (8, 1.0), "trees": (3, 1.0)}
# A form with a smaller share is left out.
_LEAST_SHARE = 0.05
_STACKING_PASSES = 200
# With more cells of records, hidden trees take too long; with more categories, all pairs of them do.
_MOST_TREE_CELLS, _MOST_PAIRED = 500_000, 4000
# Trees of more classes take many times as long as all the rest.
_MOST_CLASS_TREES = 5
_LEAST_SMOOTHING, _MOST_SMOOTHING = 2.0**-8, 2.0**8
# What a higher rank or another smoothing must save of the mean loss: more than this, and more than the standard error
# of what it saves or, where few records decide, a great share of it.
_LEAST_GAIN, _GREAT_SHARE = 0.0005, 0.2
# A mean loss that leaves nothing to gain.
_SMALL_LOSS = 0.004
_N_FOLDS = 5
# Folds are used until this many predictions have been scored, on records of this many cells.
_ENOUGH_PREDICTIONS, _ENOUGH_CELLS = 1000, 100_000
# Fits that are averaged in a trial.
_TRIAL_STARTS = 2
# The choice is made on at most this many observed cells: more would say the same. Trees need more.
_SAMPLE_CELLS, _SAMPLE_CELLS_OF_TREES = 500_000, 2_000_000
# Where trees are tried, too, ranks times observed cells stay below this: what needs more components needs trees.
_MOST_WORK = 2e8


@dataclass(frozen=True, order=True)
class Recipe:
    """How each of the fits is made."""

    form: Form
    rank: int
    """The number of components, of states of each hidden variable on a tree, or of trees."""
    smoothing: float
    """Pseudo-records per component, or per tree; of naive Bayes, of each category in each class."""


@dataclass(frozen=True)
class Average:
    """A mixture of fits, and how they ended."""

    pmf: JointPMF
    n_iter: int
    """The number of passes of the longest fit."""
    stop_reason: StopReason
    """``CONVERGED`` only where all fits converged, ``DIRECT`` where none iterates."""
    parts: tuple[tuple[float, JointPMF], ...] = ()
    """Of an average of averages, the share of each and its model."""

    @classmethod
    def of(cls, fits: Iterable[Descent | Average], shares: Sequence[float] | None = None) -> Average:
        """Return the average of fits, with equal shares unless others are given."""
        fits = list(fits)
        pmf = JointPMF.average([fit.pmf for fit in fits], shares)
        return cls(pmf, max(fit.n_iter for fit in fits), average_stop_reason(fit.stop_reason for fit in fits))


def average_stop_reason(reasons: Iterable[StopReason]) -> StopReason:
    """Return why several fits ended: that of one that did not converge, if there is one."""
    return max(reasons, key=list(StopReason).index)  # in the order of the class, from "direct" on


def _fit_averaged(records: Records, recipe: Recipe, seeds: tuple[int, int], loop: Loop) -> Descent:
    """Return one fit from a random start."""
    sets = CellSets.of_records(records, 1)
    schema, smoothing = sets.schema, Smoothing(recipe.smoothing, recipe.smoothing)
    if recipe.form == "single":
        return fit_cells_by_em(sets, random_start(schema, recipe.rank, sets.shares, seeds), smoothing, loop)
    if recipe.form == "tree":
        # Trees of other shapes are as likely: each fit has that of records with random weights (Bayesian bootstrap).
        weights = np.random.default_rng(seeds).gamma(record_weights(records))
        shape = TreeShape.of_edges(schema.names, chow_liu_edges(records, weights))
        start = random_tree_start(schema, shape, recipe.rank, sets.shares, seeds)
        smoothing = Smoothing(recipe.smoothing, recipe.smoothing / _MORE_SMOOTHING)
        return fit_cells_by_em(sets, start, smoothing, loop)
    if recipe.form == "naive_bayes":
        pmf = naive_bayes_start(records, recipe.smoothing)
        loss = -float(np.average(pmf.log_prob(records), weights=record_weights(records)))
        return Descent(pmf, (loss,), StopReason.DIRECT)
    if recipe.form == "trees":
        return fit_random_tree_mixture(records, recipe.rank, smoothing, seeds, loop)
    start = naive_bayes_start(records, START_SMOOTHING.factors)
    return fit_tree_mixture(records, start, smoothing, replace(loop, tol=TREE_TOL * loop.tol))


def _averaging_gains(model: HeldOut, other: HeldOut) -> bool:
    """Return whether a model predicts better than another, by more than chance."""
    if -other.mean <= _SMALL_LOSS:  # nothing is left to gain
        return False
    gain, error = other.behind(model)
    return gain > max(_LEAST_GAIN, min(error, _GREAT_SHARE * -other.mean))


def _averaging_shares(models: Sequence[HeldOut]) -> Floats:
    """Return the shares of models in the mixture that makes held-out records most probable, by EM."""
    scores = np.array([model.scores for model in models])
    chances = np.exp(scores - scores.max(axis=0))
    shares = np.full(len(scores), 1.0 / len(scores))
    for _ in range(_STACKING_PASSES):
        memberships = shares[:, None] * chances
        shares = np.average(memberships / memberships.sum(axis=0), axis=1, weights=models[0].weights)
    return shares


@dataclass(frozen=True)
class Averaging:
    """The average of several fits to records, of the recipes that predict held-out records best."""

    records: Records
    loss: Loss
    _: KW_ONLY
    rank: int | None
    smoothing: float | None
    n_starts: int
    tol: float
    """Each fit ends when it gains less than this share of its objective."""
    seed: int
    threads: int | None
    forms: Sequence[Form] = ("single",)
    """`FORMS` or `CLASS_FORMS`, or "single" alone. Other forms are for a loss that is a negative log-probability, and
    are not tried where the rank or the smoothing is given."""
    held_out: Records | None = None
    """The records to choose by. None holds out a part of the others."""
    tried: dict[Recipe, HeldOut] = field(default_factory=dict, init=False)
    """Negative losses are scores: higher is better."""

    def __post_init__(self) -> None:
        records, smoothing, threads = self.records, self.smoothing, self.threads
        if smoothing is not None:
            allowed = "None or a number of pseudo-records of at least 0"
            check_number("smoothing", smoothing, allowed, lambda number: 0 <= number < math.inf)
        if records.n_silent == records.n_records:
            raise DataError(f"none of the {records.n_records} records has an observed cell, so there is nothing to fit")
        vars(self).update(
            records=records.for_fit(),
            rank=None if self.rank is None else check_whole_number("rank", self.rank, 1),
            n_starts=check_whole_number("n_starts", self.n_starts, 1),
            threads=usable_cores() if threads is None else check_whole_number("threads", threads, 1),
            forms=self.forms if self.rank is None and smoothing is None else ("single",),
        )

    def fit(self) -> tuple[Average, dict[Recipe, float], Candidates]:
        """Return the average, the recipes of its fits with their shares, the largest first, and those compared."""
        shares, candidates = self._choose()
        averages = [Average.of(self._fit_all([self.records], recipe, self.n_starts)[0]) for recipe in shares]
        mixture = Average.of(averages, list(shares.values()))
        parts = tuple(zip(shares.values(), (average.pmf for average in averages), strict=True))
        return replace(mixture, pmf=mixture.pmf.sorted_by_weight(), parts=parts), shares, candidates

    @cached_property
    def _sample(self) -> Records:
        """The records by which recipes are compared."""
        return self.records.sample(_SAMPLE_CELLS_OF_TREES if "trees" in self.forms else _SAMPLE_CELLS, seed=self.seed)

    def _fit_all(self, samples: Iterable[Records], recipe: Recipe, n_starts: int) -> list[list[Descent]]:
        """Return the fits of a recipe to each of some samples, from several starts where it has random ones."""
        n_starts = n_starts if recipe.form in _RECORDS_PER_COMPONENT else 1
        watch = Watch()
        loop = Loop("averaging", _MOST_PASSES, self.tol, watch)

        def fit(task: tuple[Records, int]) -> Descent:
            return _fit_averaged(task[0], recipe, (self.seed, task[1]), loop)

        # Each fit has one thread: products of matrices must not start more.
        with threadpool_limits(1), ThreadPoolExecutor(self.threads) as pool:
            try:
                fits = list(pool.map(fit, product(samples, range(n_starts))))
            except BaseException:
                watch.interrupt()  # so that the fits that run in other threads end, too
                raise
        return [fits[first : first + n_starts] for first in range(0, len(fits), n_starts)]

    def _choose(self) -> tuple[dict[Recipe, float], Candidates]:
        """Return recipes and their shares, and all that were compared: first the rank, then the smoothing."""
        best = Recipe("single", self.rank or 1, _SMOOTHING if self.smoothing is None else float(self.smoothing))
        if not self._folds:
            return {best: 1.0}, ()
        if self.rank is None:
            best = self._higher(best)
        if self.smoothing is None:
            best = self._smoothed(best)
        others = {form: self._best_of(form) for form in self.forms if form != "single" and self._can_try(form)}
        shares = {best: 1.0}
        if "naive_bayes" in self.forms:
            # Recipes of one form that differ also know different things about the label.
            shares = self._stacked(self.tried)
            if not _averaging_gains(self._pooled(shares), self._held_out(others["naive_bayes"])):
                shares = {others["naive_bayes"]: 1.0}
        elif any(self._is_better(rival, best) for rival in others.values()):
            shares = self._stacked([best, *others.values()])
        return shares, tuple({**asdict(recipe), "loss": -self.tried[recipe].mean} for recipe in sorted(self.tried))

    def _stacked(self, rivals: Iterable[Recipe]) -> dict[Recipe, float]:
        """Return the recipes that help each other to predict, and their shares, the largest first."""
        scores = {rival: self._held_out(rival) for rival in rivals}
        best = max(scores, key=lambda rival: scores[rival].mean)
        if -scores[best].mean <= _SMALL_LOSS:
            return {best: 1.0}
        shares = zip(_averaging_shares(list(scores.values())), scores, strict=True)
        helpful = [(share, rival) for share, rival in shares if share >= _LEAST_SHARE]
        total = sum(share for share, _ in helpful)
        return {rival: float(share / total) for share, rival in sorted(helpful, reverse=True)}

    def _can_try(self, form: Form) -> bool:
        """Return whether a form is worth its time."""
        sizes = self._sample.schema.sizes
        if form == "naive_bayes":
            return True
        if len(sizes) <= 2 or (form == "tree" and self._sample.n_observed > _MOST_TREE_CELLS):
            return False
        n_trees = sizes[-1] if form == "class_trees" else 1
        return n_trees <= _MOST_CLASS_TREES and sum(sizes) * n_trees <= _MOST_PAIRED

    def _best_of(self, form: Form) -> Recipe:
        """Return the best recipe of a form; of trees smoothing first, because little of it asks for few of them."""
        if form not in _FIRST_OF_TREES:
            return self._smoothed(Recipe(form, self._sample.schema.sizes[-1], 1.0))
        rank, smoothing = _FIRST_OF_TREES[form]
        return self._smoothed(self._higher(self._smoothed(Recipe(form, rank, smoothing))))

    def _smoothed(self, best: Recipe) -> Recipe:
        """Return the recipe with the best smoothing: more of it, then less, as long as it predicts better."""
        for factor in (_MORE_SMOOTHING, 1.0 / _MORE_SMOOTHING):
            while _LEAST_SMOOTHING <= best.smoothing * factor <= _MOST_SMOOTHING:
                candidate = replace(best, smoothing=best.smoothing * factor)
                if not self._is_better(candidate, best):
                    break
                best = candidate
        return best

    @cached_property
    def _folds(self) -> list[tuple[Records, Records]]:
        """As many folds as it takes to score enough predictions; none if there are too few records."""
        if self.held_out is not None:
            return [(self._sample, held_out_without_zeros(self.held_out))]
        plain = random_start(self._sample.schema, 1, CellSets.of_records(self._sample, 1).shares, (0,))
        folds, n_predictions, n_cells = [], 0, 0
        for train, held in self._sample.folds(_N_FOLDS, seed=self.seed):
            if n_predictions < _ENOUGH_PREDICTIONS or n_cells < _ENOUGH_CELLS:
                train, held = held_out_without_zeros(train), held_out_without_zeros(held)
                if n_scored := len(self.loss(plain, held)[0]):
                    folds.append((train, held))
                    n_predictions, n_cells = n_predictions + n_scored, n_cells + train.n_observed
        return folds

    def _higher(self, best: Recipe) -> Recipe:
        """Return the recipe of the best rank from the one given on."""
        sizes = self._sample.schema.sizes
        # No joint distribution of these variables needs more than the latter.
        most = min(self._sample.total_weight / _RECORDS_PER_COMPONENT[best.form], math.prod(sizes) // max(sizes))
        if "trees" in self.forms:
            most = min(most, _MOST_WORK / self._sample.n_observed)

        def is_better(rank: int) -> bool:
            nonlocal best
            higher = replace(best, rank=rank)
            best = higher if self._is_better(higher, best) else best
            return best is higher

        try_in_order((rank for rank in _RANKS if best.rank < rank <= most), is_better)
        return best

    def _is_better(self, recipe: Recipe, other: Recipe) -> bool:
        return _averaging_gains(self._held_out(recipe), self._held_out(other))

    def _pooled(self, shares: Mapping[Recipe, float]) -> HeldOut:
        """Return the scores of the held-out records if the predictions of some recipes are averaged."""
        models = [self._held_out(recipe) for recipe in shares]
        chances = np.average(np.exp([model.scores for model in models]), axis=0, weights=list(shares.values()))
        return HeldOut(np.log(chances), models[0].weights)

    def _held_out(self, recipe: Recipe) -> HeldOut:
        """Return the scores of the held-out records under a recipe."""
        if recipe not in self.tried:
            of_folds = self._fit_all((train for train, _ in self._folds), recipe, _TRIAL_STARTS)
            models = [JointPMF.average([fit.pmf for fit in fits]) for fits in of_folds]
            scored = [self.loss(pmf, held) for pmf, (_, held) in zip(models, self._folds, strict=True)]
            self.tried[recipe] = HeldOut.of_folds(HeldOut(-losses, weights) for losses, weights in scored)
        return self.tried[recipe]
