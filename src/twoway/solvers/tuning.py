"""Choices by what was held out: how much smoothing, and when to stop trying.

Factors and weights get the numbers of pseudo-records that predict held-out records best: first the same number for
both, then more for the weights, for which being nearly equal is a strong simplification that pays where it is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np

from twoway.arrays import Floats
from twoway.data.records import Records
from twoway.model.pmf import JointPMF
from twoway.report import Progress
from twoway.solvers.loop import Watch
from twoway.solvers.problem import Smoothing
from twoway.solvers.starts import is_one_component

T = TypeVar("T")
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
# A search ends after so many candidates in a row that are not better.
_PATIENCE = 2


@dataclass(frozen=True)
class HeldOut:
    """How well a candidate predicts what was held out: a score for each held-out record, higher is better."""

    scores: Floats
    """(n_held_out,), of all folds."""
    weights: Floats
    """(n_held_out,)."""

    @classmethod
    def of_folds(cls, folds: Iterable[tuple[Floats, Floats]]) -> Self:
        """Return the scores and weights of several folds as one."""
        scores, weights = zip(*folds, strict=True)
        return cls(np.concatenate(scores), np.concatenate(weights))

    @property
    def mean(self) -> float:
        """The mean score."""
        return float(np.average(self.scores, weights=self.weights))

    def behind(self, other: HeldOut) -> tuple[float, float]:
        """Return by how much another candidate predicts better, and the standard error of that."""
        gaps = other.scores - self.scores
        mean = float(np.average(gaps, weights=self.weights))
        variance = float(np.average(np.square(gaps - mean), weights=self.weights))
        return mean, math.sqrt(variance / float(self.weights.sum()))


def held_out_scores(pmf: JointPMF, held_out: Records) -> tuple[Floats, Floats]:
    """Return the log-likelihood of each held-out record that has a weight, and the weight."""
    weights = np.ones(held_out.n_records) if held_out.weights is None else held_out.weights
    has_weight = weights > 0
    return pmf.log_prob(held_out)[has_weight], weights[has_weight]


def try_in_order(candidates: Iterable[T], is_better: Callable[[T], bool]) -> None:
    """Try candidates until several in a row are not better."""
    n_failed = 0
    for candidate in candidates:
        n_failed = 0 if is_better(candidate) else n_failed + 1
        if n_failed == _PATIENCE:
            return


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
    records: Records, refit: Refit, *, first: float, n_components: int, n_folds: int, seed: int, watch: Watch
) -> tuple[Smoothing, Candidates]:
    """Return the smoothing that predicts held-out records best, and all that were compared.

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
    """
    folds = records.folds(n_folds, seed=seed)
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
        if folds:
            best = _tune_factors(evaluate, first)
            if n_components > 1 and not best.is_plain:
                _tune_weights(evaluate, best, records.total_weight / n_components)
    if not tried:
        return Smoothing(first, first), ()
    chosen = max(tried.values(), key=lambda trial: (trial.mean, trial.smoothing))
    candidates = tuple(
        {"smoothing": trial.smoothing.factors, "weight_smoothing": trial.smoothing.weights, "held_out": trial.mean}
        for trial in sorted(tried.values(), key=lambda trial: trial.smoothing)
    )
    # It was chosen for what is left when a fold is held out, and what it must keep down, chance, grows as a root.
    whole = math.sqrt(len(folds) / (len(folds) - 1.0)) if len(folds) > 1 else 1.0
    return Smoothing(whole * chosen.smoothing.factors, whole * chosen.smoothing.weights), candidates


def _tune_factors(evaluate: Callable[[Smoothing], Trial], first: float) -> Trial:
    """Return the peak over smoothing that is the same for factors and weights, by doubling and halving."""

    def at(factors: float) -> Trial:
        return evaluate(Smoothing(factors, factors))

    best = at(first)
    for factor in (2.0, 0.5):
        while _LEAST <= best.smoothing.factors * factor <= _MOST:
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
    if not _LEAST < middle < _MOST:
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
