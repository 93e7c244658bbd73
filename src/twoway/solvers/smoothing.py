"""How much smoothing: as much as predicts held-out records best.

Factors and weights get the numbers of pseudo-records that predict held-out records best: first the same number for
both, then more for the weights, for which being nearly equal is a strong simplification that pays where it is true.
Then each variable gets more or less than the others where its own held-out cells clearly ask for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from twoway.arrays import Floats
from twoway.data.records import Records
from twoway.data.weights import record_weights
from twoway.model.pmf import JointPMF
from twoway.report import Progress, Report
from twoway.schema import Schema
from twoway.solvers.heldout import N_FOLDS, HeldOut, held_out_cell_scores, held_out_folds, held_out_scores
from twoway.solvers.starts import is_one_component
from twoway.solvers.watch import Watch

Candidates = tuple[Mapping[str, Any], ...]
"""What was compared."""

_LEAST, _MOST = 2.0**-4, 2.0**12
# From one amount to the next where they are tried coarsely.
_FAR = 4.0
_LEAST_GAIN = 1e-5
_USUAL_TRIALS = 12
# Nats per record below which two held-out likelihoods are the same.
_SAME = 1e-4
_EDGE_TRIALS = 4
_WEIGHT_SHARES = (0.1, 0.3, 0.6, 0.9, 0.99)
# By how many standard errors the cells of a variable must be predicted better for it to get another amount than all,
# how many times as much, or as little, it may get, and how much is worth it; and how many trials there are.
_CLEAR, _MOST_TIMES, _NEAR, _MOST_STEPS = 2.0, 64.0, 1.5, 5


class Smoothing(NamedTuple):
    """Pseudo-records per component, by which factors and weights are drawn toward the plainest ones."""

    factors: float = 0.0
    """Toward each variable's overall shares."""
    weights: float = 0.0
    """Toward equal weights."""
    times: tuple[float, ...] = ()
    """How many times as much each variable gets, by its own evidence; empty for once each."""

    @classmethod
    def of_report(cls, report: Report, schema: Schema) -> Smoothing:
        """Return the smoothing that a report records."""
        return cls(report.smoothing, report.weight_smoothing, cls.times_by_name(report.smoothing_times, schema))

    @staticmethod
    def times_by_name(named: Mapping[str, float], schema: Schema) -> tuple[float, ...]:
        """Return how many times as much each variable gets: what `named_times` was."""
        return tuple(float(named.get(name, 1.0)) for name in schema.names) if named else ()

    def named_times(self, schema: Schema) -> dict[str, float]:
        """Return how many times as much variables get, by name; those of once are left out."""
        return {name: times for name, times in zip(schema.names, self.times, strict=False) if times != 1.0}


Refit = Callable[[Records, Smoothing], JointPMF]


@dataclass(frozen=True)
class SmoothingChoice:
    """The smoothing that was chosen, and by what."""

    smoothing: Smoothing
    candidates: Candidates
    """All that were compared; of those by variable, the ones that are clearly better."""
    held_out: HeldOut | None
    """How well it predicts held-out records; None where there is too little to hold out, or the choice ended early."""


@dataclass(frozen=True)
class SmoothingTrial:
    """A smoothing, and how well it predicts held-out records."""

    smoothing: Smoothing
    held_out: HeldOut
    is_plain: bool
    """Whether smoothing made all components one: no dependence is left."""
    of_cells: Floats = field(default_factory=lambda: np.empty(0))
    """The log-probability of each held-out cell given the others of its record."""

    @property
    def mean(self) -> float:
        """The mean log-likelihood of the held-out records."""
        return self.held_out.mean


Evaluate = Callable[[Smoothing], SmoothingTrial]


def choose_smoothing(
    records: Records,
    refit: Refit,
    *,
    first: float,
    n_components: int,
    seed: int,
    watch: Watch,
    coarse: bool = False,
    is_fixed: bool = False,
    copies: float = 1.0,
    threads: int | None = None,
) -> SmoothingChoice:
    """Return the smoothing that predicts held-out records best.

    Parameters
    ----------
    records
        What is split into folds.
    refit
        From training records and smoothing to a PMF.
    first
        Where the search begins, in pseudo-records.
    n_components
        Among how many components the weights are shared out; 1 leaves them the smoothing of the factors.
    coarse
        Whether to look for the best of amounts that are four times each other, and not more finely.
    is_fixed
        Whether the first amount is that of all variables together, so that only their own ones are chosen.
    copies
        How often a person is counted in the cells of a variable: once in records, but in each of its tables.
    threads
        Those by which held-out records are scored; all cores by default.
    """
    folds = held_out_folds(records, seed=seed)
    tried: dict[Smoothing, SmoothingTrial] = {}
    improved: list[SmoothingTrial] = []

    def evaluate(smoothing: Smoothing) -> SmoothingTrial:
        if smoothing not in tried:
            watch.show(Progress("choosing the smoothing", len(tried), _USUAL_TRIALS))
            fits = [(refit(train, smoothing), held) for train, held in folds]
            if watch.interrupted:  # which cut the fits short
                raise KeyboardInterrupt
            held_out = HeldOut.of_folds(held_out_scores(*each, threads) for each in fits)
            of_cells = np.concatenate([held_out_cell_scores(*each) for each in fits])
            is_plain = all(is_one_component(pmf) for pmf, _ in fits)
            tried[smoothing] = SmoothingTrial(smoothing, held_out, is_plain, of_cells)
        return tried[smoothing]

    with watch.guard():
        if folds and not watch.interrupted:
            if is_fixed:
                common = best = evaluate(Smoothing(first, first))
                amounts = [evaluate(Smoothing(amount, amount)) for amount in (first / _FAR, first, first * _FAR)]
            else:
                common = best = _smooth_factors(evaluate, first, coarse)
                amounts = list(tried.values())
            if n_components > 1 and not best.is_plain:
                best = _smooth_weights(evaluate, best, records.total_weight / n_components)
            if not best.is_plain:
                cells = _CellsToSmooth([held for _, held in folds], copies)
                improved.extend(_smooth_variables(evaluate, best, common, amounts, cells))
    if not tried:
        return SmoothingChoice(Smoothing(first, first), (), None)
    of_all = [trial for trial in tried.values() if not trial.smoothing.times]
    chosen = max(improved or of_all[: 1 if is_fixed else None], key=lambda trial: (trial.mean, trial.smoothing))
    candidates = tuple(
        {
            "smoothing": trial.smoothing.factors,
            "weight_smoothing": trial.smoothing.weights,
            "smoothing_times": trial.smoothing.named_times(records.schema),
            "held_out": trial.mean,
        }
        for trial in sorted(of_all + improved, key=lambda trial: trial.smoothing)
    )
    # It was chosen for what is left when a fold is held out, and what it must keep down, chance, grows as a root.
    whole = math.sqrt(N_FOLDS / (N_FOLDS - 1.0)) if len(folds) > 1 and not is_fixed else 1.0
    factors, weights, times = chosen.smoothing
    smoothing = Smoothing(whole * factors, whole * weights, times)
    return SmoothingChoice(smoothing, candidates, None if watch.interrupted else chosen.held_out)


def _smooth_factors(evaluate: Evaluate, first: float, coarse: bool = False) -> SmoothingTrial:
    """Return the peak over smoothing that is the same for factors and weights, by doubling and halving."""
    ratio, least = (_FAR, _LEAST / 2.0) if coarse else (2.0, _LEAST)

    def at(factors: float) -> SmoothingTrial:
        return evaluate(Smoothing(factors, factors))

    best = at(first)
    for factor in (ratio, 1.0 / ratio):
        while least <= best.smoothing.factors * factor <= _MOST:
            following = at(best.smoothing.factors * factor)
            if following.mean <= best.mean + _LEAST_GAIN:
                break
            best = following
            if best.is_plain:  # and would be with more
                return _smooth_near_edge(at, best)
        if best.smoothing.factors != first:
            break
    # A parabola through the peak and its neighbours finds it more finely.
    middle = best.smoothing.factors
    if coarse or not _LEAST < middle < _MOST:
        return best
    low, high = at(middle / 2.0), at(middle * 2.0)
    bend = low.mean - 2.0 * best.mean + high.mean
    if bend >= 0.0:
        return best
    # Where a neighbour is better by less than counts, the parabola's top may be anywhere: not beyond the neighbours.
    shift = min(1.0, max(-1.0, 0.5 * (low.mean - high.mean) / bend))
    refined = at(middle * 2.0**shift)
    return refined if refined.mean > best.mean else best


def _smooth_near_edge(at: Callable[[float], SmoothingTrial], plain: SmoothingTrial) -> SmoothingTrial:
    """Return the best near the edge below which smoothing is too weak to make all components one.

    Where dependence hardly stands out from chance, only the strongest of it is worth fitting, and that is there.
    """
    best, inside = plain, plain.smoothing.factors
    while inside / 2.0 > _LEAST and at(inside / 2.0).is_plain:
        inside /= 2.0
    outside = inside / 2.0
    for _ in range(_EDGE_TRIALS):
        between = at(math.sqrt(outside * inside))
        if between.mean < plain.mean - _SAME:
            outside = between.smoothing.factors
        else:
            inside = between.smoothing.factors
        best = max(best, between, key=lambda trial: trial.mean)
    return best


def _smooth_weights(evaluate: Evaluate, best: SmoothingTrial, weight_of_component: float) -> SmoothingTrial:
    """Return the best of ever more equal weights, tried until held-out records clearly object."""
    for share in _WEIGHT_SHARES:
        candidate = Smoothing(best.smoothing.factors, share / (1.0 - share) * weight_of_component)
        if candidate.weights > best.smoothing.weights:
            following = evaluate(candidate)
            loss, error = following.held_out.behind(best.held_out)
            if loss > 2.0 * error:
                break
            best = following if loss < 0.0 else best
    return best


class _CellsToSmooth:
    """The observed cells of all that was held out, (n_observed,) each."""

    def __init__(self, held_out: Sequence[Records], copies: float) -> None:
        schema, blocks = held_out[0].schema, [held.as_block() for held in held_out]
        of_cell = np.repeat(np.arange(len(schema)), schema.sizes)
        variables = [of_cell[block.cells[block.pointers[0] : block.pointers[-1]]] for block in blocks]
        weights = [np.repeat(record_weights(block), np.diff(block.pointers)) for block in blocks]
        self.copies, self.shape = copies, (len(held_out), len(schema))
        self.variables, self.weights = np.concatenate(variables), np.concatenate(weights)
        self._place = np.repeat(np.arange(len(held_out)), list(map(len, variables))) * len(schema) + self.variables

    def clear_gains(self, trial: SmoothingTrial, other: SmoothingTrial, ratios: Floats) -> Floats:
        """Return by how much another trial predicts each variable better, (n_variables,); 0 where that is not clear.

        It has ``ratios`` times the smoothing. The standard error is that among cells or that among folds,
        whichever is larger: a fold that ends in another optimum moves all of its cells. Less smoothing gains a little
        in most cells and loses much in few, of which none may have been held out: one more is assumed.
        """
        gaps, (n_folds, _) = other.of_cells - trial.of_cells, self.shape
        of_folds, totals = (
            np.bincount(self._place, self.weights * numbers, math.prod(self.shape)).reshape(self.shape)
            for numbers in (gaps, np.ones(len(gaps)))
        )
        n_cells = np.where(totals.any(axis=0), totals.sum(axis=0), 1.0)  # a variable may have none
        means = of_folds.sum(axis=0) / n_cells
        squares = self.weights * np.square(gaps - means[self.variables])
        among_cells = np.bincount(self.variables, squares, self.shape[1])
        among_folds = np.square(of_folds - means * totals).sum(axis=0) * n_folds / max(n_folds - 1, 1)
        unseen = self.copies * np.maximum(-np.log(ratios), 0.0)
        gains = means - unseen / n_cells
        errors = np.sqrt(self.copies * np.maximum(among_cells, among_folds) + np.square(unseen)) / n_cells
        return np.where(gains > _CLEAR * errors, gains, 0.0)


def _smooth_variables(
    evaluate: Evaluate,
    best: SmoothingTrial,
    common: SmoothingTrial,
    amounts: Sequence[SmoothingTrial],
    cells: _CellsToSmooth,
) -> Iterator[SmoothingTrial]:
    """Give each variable the amount by which its own cells are predicted best, where that is clear; ever better trials.

    The first to be tried is, for each variable, the best of the ``amounts`` that all had, of which ``common`` is best
    for all together. The effects of variables on each other are small: all are changed at once, and those that gained
    go on in the same direction.
    """
    (factors, weights, _), n_variables = best.smoothing, cells.shape[1]
    ratios = np.array([trial.smoothing.factors for trial in amounts]) / common.smoothing.factors
    gains = np.array([cells.clear_gains(common, trial, ratios[place]) for place, trial in enumerate(amounts)])
    gains[np.abs(np.log(ratios)) < math.log(_NEAR)] = 0.0
    step, times = np.where(gains.any(axis=0), ratios[gains.argmax(axis=0)], 1.0), np.ones(n_variables)
    for _ in range(_MOST_STEPS):
        if (step == 1.0).all():
            return
        following = evaluate(Smoothing(factors, weights, tuple((times * step).tolist())))
        gained = np.where(cells.clear_gains(best, following, step) > 0, step, 1.0)
        if (gained == step).all():
            if not best.held_out.is_behind(following.held_out, math.sqrt(cells.copies)):
                return
            yield following
            best, times = following, times * step
            gained = _FAR ** np.sign(np.log(step))
            gained[np.abs(np.log(times * gained)) > math.log(_MOST_TIMES)] = 1.0
        step = gained
