"""How much smoothing: as much as predicts held-out records best.

Factors and weights get the numbers of pseudo-records that predict held-out records best: first the same number for
both, then more for the weights, for which being nearly equal is a strong simplification that pays where it is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from twoway.data.records import Records
from twoway.model.pmf import JointPMF
from twoway.report import Progress
from twoway.solvers.heldout import HeldOut, held_out_folds, held_out_scores
from twoway.solvers.loop import Watch
from twoway.solvers.problem import Smoothing
from twoway.solvers.starts import is_one_component

Candidates = tuple[Mapping[str, Any], ...]
"""What was compared."""
Refit = Callable[[Records, Smoothing], JointPMF]

_LEAST, _MOST = 2.0**-4, 2.0**12
_LEAST_GAIN = 1e-5
_USUAL_TRIALS = 12
# Nats per record below which two held-out likelihoods are the same.
_SAME = 1e-4
_EDGE_TRIALS = 4
_WEIGHT_SHARES = (0.1, 0.3, 0.6, 0.9, 0.99)


@dataclass(frozen=True)
class SmoothingChoice:
    """The smoothing that was chosen, and by what."""

    smoothing: Smoothing
    candidates: Candidates
    """All that were compared."""
    held_out: HeldOut | None
    """How well it predicts held-out records; None where there is too little to hold out, or the choice ended early."""


@dataclass(frozen=True)
class Trial:
    """A smoothing, and how well it predicts held-out records."""

    smoothing: Smoothing
    held_out: HeldOut
    is_plain: bool
    """Whether smoothing made all components one: no dependence is left."""

    @property
    def mean(self) -> float:
        """The mean log-likelihood of the held-out records."""
        return self.held_out.mean


def choose_smoothing(
    records: Records,
    refit: Refit,
    *,
    first: float,
    n_components: int,
    n_folds: int,
    seed: int,
    watch: Watch,
    coarse: bool = False,
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
    """
    folds = held_out_folds(records, seed=seed, n_folds=n_folds)
    tried: dict[Smoothing, Trial] = {}

    def evaluate(smoothing: Smoothing) -> Trial:
        if smoothing not in tried:
            watch.show(Progress("choosing the smoothing", len(tried), _USUAL_TRIALS))
            fits = [refit(train, smoothing) for train, _ in folds]
            if watch.interrupted:  # which cut the fits short
                raise KeyboardInterrupt
            held_out = HeldOut.of_folds(held_out_scores(pmf, held) for pmf, (_, held) in zip(fits, folds, strict=True))
            tried[smoothing] = Trial(smoothing, held_out, all(map(is_one_component, fits)))
        return tried[smoothing]

    with watch.guard():
        if folds and not watch.interrupted:
            best = _tune_factors(evaluate, first, coarse)
            if n_components > 1 and not best.is_plain:
                _tune_weights(evaluate, best, records.total_weight / n_components)
    if not tried:
        return SmoothingChoice(Smoothing(first, first), (), None)
    chosen = max(tried.values(), key=lambda trial: (trial.mean, trial.smoothing))
    candidates = tuple(
        {"smoothing": trial.smoothing.factors, "weight_smoothing": trial.smoothing.weights, "held_out": trial.mean}
        for trial in sorted(tried.values(), key=lambda trial: trial.smoothing)
    )
    # It was chosen for what is left when a fold is held out, and what it must keep down, chance, grows as a root.
    whole = math.sqrt(n_folds / (n_folds - 1.0)) if len(folds) > 1 else 1.0
    smoothing = Smoothing(whole * chosen.smoothing.factors, whole * chosen.smoothing.weights)
    return SmoothingChoice(smoothing, candidates, None if watch.interrupted else chosen.held_out)


def _tune_factors(evaluate: Callable[[Smoothing], Trial], first: float, coarse: bool = False) -> Trial:
    """Return the peak over smoothing that is the same for factors and weights, by doubling and halving."""
    ratio, least = (4.0, _LEAST / 2.0) if coarse else (2.0, _LEAST)

    def at(factors: float) -> Trial:
        return evaluate(Smoothing(factors, factors))

    best = at(first)
    for factor in (ratio, 1.0 / ratio):
        while least <= best.smoothing.factors * factor <= _MOST:
            following = at(best.smoothing.factors * factor)
            if following.mean <= best.mean + _LEAST_GAIN:
                break
            best = following
            if best.is_plain:  # and would be with more
                return _tune_near_edge(at, best)
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


def _tune_near_edge(at: Callable[[float], Trial], plain: Trial) -> Trial:
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


def _tune_weights(evaluate: Callable[[Smoothing], Trial], best: Trial, weight_of_component: float) -> None:
    """Try ever more equal weights, until held-out records clearly object."""
    for share in _WEIGHT_SHARES:
        candidate = Smoothing(best.smoothing.factors, share / (1.0 - share) * weight_of_component)
        if candidate.weights > best.smoothing.weights:
            following = evaluate(candidate)
            loss, error = following.held_out.behind(best.held_out)
            if loss > 2.0 * error:
                return
            best = following if loss < 0.0 else best
