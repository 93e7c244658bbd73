"""Held-out records: how well candidates predict them, and when to stop trying."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np

from twoway.arrays import Floats
from twoway.data.records import Records
from twoway.data.weights import record_weights
from twoway.model.hidden_tree import packed_tree
from twoway.model.pmf import JointPMF
from twoway.model.posterior import Posterior

T = TypeVar("T")

CHOICE_CELLS = 300_000
"""Observed cells by which candidates are compared: more would give the same answer."""
N_FOLDS = 5
# With more observed cells than this, fewer folds are enough.
_MANY_CELLS, _FOLDS_OF_MANY = 50_000, 3
FAR_BEHIND = 5.0
"""A candidate that is this many standard errors behind need not be fitted better."""
# A search ends after this many candidates in a row that are not better.
_PATIENCE = 2


@dataclass(frozen=True)
class HeldOut:
    """How well a candidate predicts what was held out: a score for each held-out record, higher is better."""

    scores: Floats
    """(n_held_out,), of all folds."""
    weights: Floats
    """(n_held_out,)."""

    @classmethod
    def of_folds(cls, folds: Iterable[HeldOut]) -> Self:
        """Return the scores of several folds as one."""
        scores, weights = zip(*((fold.scores, fold.weights) for fold in folds), strict=True)
        return cls(np.concatenate(scores), np.concatenate(weights))

    @property
    def mean(self) -> float:
        """The mean score."""
        return float(np.average(self.scores, weights=self.weights))

    def behind(self, other: HeldOut) -> tuple[float, float]:
        """Return by how much another candidate predicts better, and the standard error of that.

        One of them may have been held out in more folds.
        """
        n_both = min(len(self.scores), len(other.scores))
        gaps, weights = other.scores[:n_both] - self.scores[:n_both], self.weights[:n_both]
        mean = float(np.average(gaps, weights=weights))
        variance = float(np.average(np.square(gaps - mean), weights=weights))
        return mean, math.sqrt(variance / float(weights.sum()))

    def is_behind(self, other: HeldOut, n_errors: float) -> bool:
        """Return whether another candidate predicts better by more than ``n_errors`` standard errors."""
        gain, error = self.behind(other)
        return gain > n_errors * error


def held_out_folds(records: Records, *, seed: int, many: int = _MANY_CELLS) -> list[tuple[Records, Records]]:
    """Return pairs of training and held-out records, as `Records.folds`; only a few of them where these are enough."""
    dealt = records.folds(N_FOLDS, seed=seed)
    folds = [(held_out_without_zeros(train), held_out_without_zeros(held)) for train, held in dealt]
    return folds[:_FOLDS_OF_MANY] if records.n_observed > many else folds


def held_out_without_zeros(fold: Records) -> Records:
    """Return the records that have a weight: those of the other folds have none."""
    return fold if fold.weights is None else fold.take(np.flatnonzero(fold.weights))


def held_out_scores(pmf: JointPMF, held_out: Records, threads: int | None) -> HeldOut:
    """Return the log-likelihood of each held-out record that has a weight."""
    weights = record_weights(held_out)
    has_weight = weights > 0
    return HeldOut(pmf.log_prob(held_out, threads=threads)[has_weight], weights[has_weight])


def held_out_cell_scores(pmf: JointPMF, held_out: Records) -> Floats:
    """Return the log-probability of each observed cell given the others of its record, (n_observed,).

    The model has one tree, and no factor of 0.
    """
    (tree,) = pmf.trees.trees
    rows, theta = packed_tree(tree)
    scores = [np.empty(0)]
    for block in held_out.blocks():
        cells = block.cells[block.pointers[0] : block.pointers[-1]].astype(np.int64)
        states = Posterior.of(pmf.trees, block).states[0]
        record = np.repeat(np.arange(len(states)), np.diff(block.pointers))
        of_cell = theta[rows.firsts[-1] + cells, : states.shape[2]]
        # Given the whole record, 1 / P(cell | state) is on average 1 / P(cell | other cells).
        inverse = np.divide(states[record, rows.homes[cells]], of_cell, out=np.zeros_like(of_cell), where=of_cell > 0)
        scores.append(-np.log(inverse.sum(axis=1)))
    return np.concatenate(scores)


def try_in_order(candidates: Iterable[T], is_better: Callable[[T], bool]) -> None:
    """Try candidates until several in a row are not better."""
    n_failed = 0
    for candidate in candidates:
        n_failed = 0 if is_better(candidate) else n_failed + 1
        if n_failed == _PATIENCE:
            return
