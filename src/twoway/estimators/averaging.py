"""The average of several fits, of the size that predicts held-out records best.

Short runs of EM from random starts end in different places. Each is a good guess, and their mixture is a better one:
what they agree on stays, what only one of them believes is thinned. Rank and smoothing are those of the least loss on
held-out records: of the label for a classifier, of hidden cells for an imputer, of whole records for a density.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from twoway.arrays import Floats
from twoway.data.records import Records
from twoway.errors import DataError, whole_number
from twoway.model.pmf import JointPMF
from twoway.parallel import usable_cores
from twoway.report import Start, StopReason
from twoway.solvers.base import Path, Smoothing, Watch
from twoway.solvers.cells import CellSets
from twoway.solvers.latent import fit_cells
from twoway.solvers.starts import random_start

Losses: TypeAlias = tuple[Floats, Floats]
"""The loss of each prediction, and how much each counts; both (n_predictions,)."""
Loss: TypeAlias = Callable[[JointPMF, Records], Losses]
"""From a model and held-out records to the losses of what it predicts of them."""

# Each about the golden ratio above the one before.
_RANKS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987)
# A component needs about so many records to stand on.
_RECORDS_A_COMPONENT = 4
_MOST_PASSES = 300
_SMOOTHING, _MORE_SMOOTHING = 0.25, 4.0
_LEAST_SMOOTHING, _MOST_SMOOTHING = 2.0**-8, 2.0**8
# The search for a rank ends after so many in a row that predict no better.
_PATIENCE = 2
# What a higher rank or another smoothing must save of the mean loss: more than this, and more than the standard error
# of what it saves or, where few records decide, a great share of it.
_LEAST_GAIN, _GREAT_SHARE = 0.0005, 0.2
# A mean loss that leaves nothing to gain.
_SMALL_LOSS = 0.004
_N_FOLDS = 5
# Folds are looked at until so many predictions have been scored, on records of so many cells.
_ENOUGH_PREDICTIONS, _ENOUGH_CELLS = 1000, 100_000
# Fits that are averaged in a trial.
_TRIAL_STARTS = 2
# The choice is made on so many observed cells at most: more would say the same.
_SAMPLE_CELLS = 500_000


@dataclass(frozen=True, order=True)
class Recipe:
    """How each of the fits is made."""

    rank: int
    smoothing: float
    """Pseudo-records a component."""


@dataclass(frozen=True)
class AveragedFit:
    """A mixture of fits, and how it came about."""

    pmf: JointPMF
    recipe: Recipe
    candidates: tuple[Mapping[str, Any], ...]
    """A dictionary for each recipe that was compared: its parts and its "loss"; empty where nothing was chosen."""
    starts: tuple[Start, ...]
    """How each of the fits went."""

    @property
    def n_iter(self) -> int:
        """The number of passes of the longest fit."""
        return max(start.n_iter for start in self.starts)

    @property
    def stop_reason(self) -> StopReason:
        """Why the fits ended: ``CONVERGED`` only where all of them converged."""
        reasons = [start.stop_reason for start in self.starts]
        return next((reason for reason in reasons if reason is not StopReason.CONVERGED), StopReason.CONVERGED)


def fit_average(
    records: Records,
    loss: Loss,
    *,
    rank: int | None,
    smoothing: float | None,
    n_starts: int,
    tol: float,
    seed: int,
    threads: int | None,
) -> AveragedFit:
    """Return the average of several fits to records, with the rank and smoothing given, else those that predict best.

    Each fit ends when it gains less than the share ``tol`` of its objective.
    """
    if rank is not None:
        rank = whole_number("rank", rank, 1)
    if smoothing is not None and not (isinstance(smoothing, int | float) and 0 <= smoothing < math.inf):
        raise DataError(f"smoothing must be None or a number of pseudo-records of at least 0, not {smoothing!r}")
    n_starts = whole_number("n_starts", n_starts, 1)
    if records.n_silent == records.n_records:
        raise DataError(f"none of the {records.n_records} records shows a single cell; there is nothing to fit")
    records = records.for_fit()
    fitter = _Fitter(tol, seed, usable_cores() if threads is None else whole_number("threads", threads, 1))
    recipe, candidates = _Choice(fitter, records.sample(_SAMPLE_CELLS, seed=seed), loss).make(rank, smoothing)
    fits = fitter.fit_all([_Task(records, recipe, number) for number in range(n_starts)])
    starts = tuple(Start("em", path.objectives, path.stop_reason) for _, path in fits)
    return AveragedFit(JointPMF.average([pmf for pmf, _ in fits]).sorted_by_weight(), recipe, candidates, starts)


@dataclass(frozen=True)
class _Task:
    records: Records
    recipe: Recipe
    number: int
    """Which of several random starts this is."""


@dataclass(frozen=True)
class _Fitter:
    tol: float
    seed: int
    threads: int

    def fit_all(self, tasks: Iterable[_Task]) -> list[tuple[JointPMF, Path]]:
        """Return the fits of some tasks and how they went, several at a time, in their order."""
        watch = Watch()

        def fit(task: _Task) -> tuple[JointPMF, Path]:
            sets, recipe = CellSets.of_records(task.records, 1), task.recipe
            return fit_cells(
                sets,
                random_start(sets.schema, recipe.rank, sets.shares, (self.seed, task.number)),
                smoothing=Smoothing(recipe.smoothing, recipe.smoothing),
                max_iter=_MOST_PASSES,
                tol=self.tol,
                task="averaging",
                watch=watch,
            )

        with ThreadPoolExecutor(self.threads) as pool:
            try:
                return list(pool.map(fit, tasks))
            except BaseException:
                watch.interrupt()  # so that the fits that run in other threads end, too
                raise


@dataclass(frozen=True)
class _Choice:
    """The search for the recipe that predicts held-out records best: first its rank, then its smoothing."""

    fitter: _Fitter
    records: Records
    loss: Loss
    losses: dict[Recipe, Losses] = field(default_factory=dict)

    def make(self, rank: int | None, smoothing: float | None) -> tuple[Recipe, tuple[Mapping[str, Any], ...]]:
        """Return the recipe, with what is given kept, and all that were compared."""
        first = _SMOOTHING if smoothing is None else float(smoothing)
        if not self.folds:
            return Recipe(rank or 1, first), ()
        best = Recipe(rank or 1, first)
        if rank is None:
            best = self._higher(best)
        if smoothing is None:
            for factor in (_MORE_SMOOTHING, 1.0 / _MORE_SMOOTHING):
                best = self._climb(best, partial(self._smoother, factor=factor))
        order = sorted(self.losses)
        return best, tuple({**asdict(recipe), "loss": _mean(self.losses[recipe])} for recipe in order)

    @cached_property
    def folds(self) -> list[tuple[Records, Records]]:
        """As many folds as it takes to score enough predictions; none where there is too little."""
        plain = random_start(self.records.schema, 1, CellSets.of_records(self.records, 1).shares, (0,))
        chosen, n_predictions, n_cells = [], 0, 0
        for train, held in self.records.folds(_N_FOLDS, seed=self.fitter.seed):
            if n_predictions < _ENOUGH_PREDICTIONS or n_cells < _ENOUGH_CELLS:
                train, held = _without_zeros(train), _without_zeros(held)
                if n_scored := len(self.loss(plain, held)[0]):
                    chosen.append((train, held))
                    n_predictions, n_cells = n_predictions + n_scored, n_cells + train.n_observed
        return chosen

    def _higher(self, best: Recipe) -> Recipe:
        """Return the recipe of the best rank from the one given on."""
        sizes = self.records.schema.sizes
        # No joint distribution of these variables needs more than the latter.
        most = min(self.records.total_weight / _RECORDS_A_COMPONENT, math.prod(sizes) // max(sizes))
        failed = 0
        for rank in _RANKS:
            if failed == _PATIENCE or rank > most:
                break
            if rank > best.rank:
                following = replace(best, rank=rank)
                is_better = self._is_better(following, best)
                best, failed = (following, 0) if is_better else (best, failed + 1)
        return best

    def _climb(self, best: Recipe, following: Callable[[Recipe], Recipe | None]) -> Recipe:
        """Return the last of the recipes that follow one another as long as each predicts better."""
        while (candidate := following(best)) is not None and self._is_better(candidate, best):
            best = candidate
        return best

    def _smoother(self, recipe: Recipe, factor: float) -> Recipe | None:
        smoothing = recipe.smoothing * factor
        inside = _LEAST_SMOOTHING <= smoothing <= _MOST_SMOOTHING
        return replace(recipe, smoothing=smoothing) if inside else None

    def _is_better(self, one: Recipe, other: Recipe) -> bool:
        if _mean(self._losses_of(other)) <= _SMALL_LOSS:  # nothing is left to gain
            return False
        (losses, weights), (others, _) = self._losses_of(one), self._losses_of(other)
        gain = _mean((others - losses, weights))
        error = math.sqrt(_mean(((others - losses - gain) ** 2, weights)) / float(weights.sum()))
        return gain > max(_LEAST_GAIN, min(error, _GREAT_SHARE * _mean((others, weights))))

    def _losses_of(self, recipe: Recipe) -> Losses:
        """Return the losses under a recipe."""
        if recipe not in self.losses:
            tasks = [_Task(train, recipe, number) for train, _ in self.folds for number in range(_TRIAL_STARTS)]
            fits = [pmf for pmf, _ in self.fitter.fit_all(tasks)]
            averages = [JointPMF.average(fits[at : at + _TRIAL_STARTS]) for at in range(0, len(fits), _TRIAL_STARTS)]
            scored = [self.loss(pmf, held) for pmf, (_, held) in zip(averages, self.folds, strict=True)]
            losses, weights = map(np.concatenate, zip(*scored, strict=True))
            self.losses[recipe] = losses, weights
        return self.losses[recipe]


def _without_zeros(fold: Records) -> Records:
    return fold if fold.weights is None else fold.take(np.flatnonzero(fold.weights))


def _mean(losses: Losses) -> float:
    return float(np.average(losses[0], weights=losses[1]))
