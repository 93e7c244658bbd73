"""A mixture of trees of the visible variables: as many as predict held-out records best.

Near-deterministic data ask for it: within a group of records, what is known of one variable settles others, and which
ones differs from group to group. A tree of hidden variables has one shape for all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from twoway.arrays import Floats
from twoway.data.records import Records
from twoway.errors import DataError
from twoway.report import Progress
from twoway.solvers.evidence import Evidence
from twoway.solvers.heldout import CHOICE_CELLS, HeldOut, held_out_folds, held_out_scores
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.problem import Problem, Solution
from twoway.solvers.smoothing import Candidates, Smoothing, SmoothingChoice
from twoway.solvers.tree_mixture import fit_random_tree_mixture
from twoway.solvers.visible_trees import VisibleMixture

# Numbers of trees that are tried, from the first until one is no better; and records that each needs.
_TREES = (3, 8, 21, 55)
_RECORDS_PER_TREE = 20
# Where the search for the smoothing begins, the step of it, and its ends.
_FIRST_SMOOTHING, _STEP, _LEAST, _MOST = 4.0, 4.0, 2.0**-6, 2.0**10
# Nats per record below which two amounts of smoothing are the same.
_SAME = 1e-3
_CHOICE_PASSES, _CHOICE_TOL = 30, 1e-4
# More categories take too long: shapes are learned from the tables of all pairs.
_MOST_CATEGORIES = 1000
# The number of trees is chosen, and shapes are learned, on at most this many observed cells.
_TREE_CELLS, _SHAPE_CELLS = 2_000_000, 10_000_000
# The score of a record that a mixture without smoothing rules out.
_IMPOSSIBLE = -1e6
# Passes over all records after that, where there are more.
_FINAL_PASSES = 30


@dataclass(frozen=True)
class MixtureChoice(SmoothingChoice):
    """How many trees, how smooth, and how well such a mixture predicts held-out records."""

    n_trees: int

    def with_more_trees(self, problem: Problem) -> MixtureChoice:
        """Return the choice with as many trees as a larger part of the records asks for, where there is one."""
        records, watch = problem.evidence.records, problem.watch
        if records is None or records.n_observed <= CHOICE_CELLS or watch.interrupted:
            return self
        search = _MixtureSearch(problem, problem.evidence.sample(_TREE_CELLS, seed=problem.seed))
        best = (self.n_trees, self.smoothing.factors)
        with watch.guard(), threadpool_limits(1):
            best = search.best_number(best)
        return replace(self, n_trees=best[0], candidates=(*self.candidates, *search.candidates))


@dataclass(frozen=True)
class Mixture:
    """A mixture of as many trees as the rank says, each with a shape of its own, from records."""

    n_starts: int = 2
    max_iter: int = 300
    tol: float = 1e-5

    name: ClassVar[str] = "mixture"

    def solve(self, problem: Problem) -> Solution:
        """Return the best solution of all starts."""
        records, evidence, smoothing = problem.evidence.records, problem.evidence, problem.given_smoothing
        if records is None:
            raise DataError("a mixture of trees needs records, but only tables were given; 'tree' fits tables")
        sample = records.sample(_SHAPE_CELLS, seed=problem.seed)
        loop = Loop("mixture of trees", self.max_iter, self.tol, problem.watch)
        fits: list[Descent] = []
        with problem.watch.guard(), threadpool_limits(1):
            for number in range(self.n_starts):
                seeds = (problem.seed, number)
                fits.append(fit_random_tree_mixture(sample, problem.rank, smoothing, seeds, loop, evidence.threads))
                if problem.watch.interrupted:
                    break
        if not fits:
            raise KeyboardInterrupt
        fits.sort(key=lambda descent: descent.objective)
        best, *others = (problem.solution(self, descent, problem.name_of_likelihood) for descent in fits)
        if sample.n_observed < records.n_observed and not problem.watch.interrupted:
            others, best = [best, *others], self._refined(problem, best, sample)
        return replace(best, others=tuple(other.as_start() for other in others))

    def _refined(self, problem: Problem, solution: Solution, sample: Records) -> Solution:
        """Return a solution with its shapes, learned from all records; smoothing looks at the sample."""
        assert problem.evidence.records is not None
        mixture = VisibleMixture.of(solution.pmf)
        prior = mixture.pseudo_counts(sample, problem.given_smoothing)
        loop = Loop("mixture of trees", _FINAL_PASSES, self.tol, problem.watch)
        descent = mixture.climb(problem.evidence.records, prior, loop, problem.evidence.threads)
        return problem.solution(self, descent, solution.objective_name)


def can_be_mixture(evidence: Evidence) -> bool:
    """Return whether it is worth trying a mixture of trees."""
    schema = evidence.schema
    return evidence.records is not None and len(schema) > 2 and schema.n_categories <= _MOST_CATEGORIES


def choose_mixture(problem: Problem, n_trees: int | None, rival: HeldOut | None = None) -> MixtureChoice:
    """Return how many trees predict held-out records best, unless their number is given, and with how much smoothing.

    Where a rival predicts the first fold clearly better, the search ends with that fold.
    """
    evidence, watch = problem.evidence, problem.watch
    search = _MixtureSearch(problem, evidence.sample(CHOICE_CELLS, seed=problem.seed))
    best = (n_trees or _TREES[0], _FIRST_SMOOTHING if problem.smoothing is None else problem.smoothing.factors)
    held_out = None
    with watch.guard(), threadpool_limits(1):
        if search.folds:
            best = search.best_number(best) if n_trees is None else best
            held_out = search.first_fold(*best)
            if rival is None or not held_out.is_behind(rival, 1.0):
                if problem.smoothing is None:
                    best = search.best_smoothing(best)
                held_out = search.all_folds(*best)
    smoothing = problem.smoothing or Smoothing(best[1], best[1])
    return MixtureChoice(smoothing, search.candidates, None if watch.interrupted else held_out, best[0])


class _MixtureSearch:
    """Numbers of trees with amounts of smoothing, compared by the first of some folds."""

    def __init__(self, problem: Problem, sample: Records) -> None:
        self.folds = held_out_folds(sample, seed=problem.seed)
        self._seeds, self._threads, self._watch = (problem.seed, 0), problem.evidence.threads, problem.watch
        self._tried: dict[tuple[int, float], HeldOut] = {}

    @property
    def candidates(self) -> Candidates:
        """What was compared."""
        return tuple(
            {"trees": n_trees, "smoothing": amount, "held_out": held_out.mean}
            for (n_trees, amount), held_out in sorted(self._tried.items(), key=lambda item: item[0])
        )

    def first_fold(self, n_trees: int, amount: float) -> HeldOut:
        """Return how well a mixture predicts the first fold."""
        if (n_trees, amount) not in self._tried:
            self._watch.show(Progress("comparing mixtures of trees", len(self._tried), len(_TREES) + 4))
            self._tried[n_trees, amount] = HeldOut(*self._scores(0, n_trees, amount))
        return self._tried[n_trees, amount]

    def all_folds(self, n_trees: int, amount: float) -> HeldOut:
        """Return how well a mixture predicts all folds."""
        first = self.first_fold(n_trees, amount)
        others = [self._scores(number, n_trees, amount) for number in range(1, len(self.folds))]
        return HeldOut.of_folds([(first.scores, first.weights), *others])

    def best_number(self, best: tuple[int, float]) -> tuple[int, float]:
        """Return a mixture of more trees, as long as that is clearly better."""
        most = self.folds[0][0].total_weight / _RECORDS_PER_TREE
        numbers = [n_trees for n_trees in _TREES if best[0] < n_trees <= most]
        for n_trees in numbers:
            if not self.first_fold(*best).is_behind(self.first_fold(n_trees, best[1]), 1.0):
                break
            best = (n_trees, best[1])
        return best

    def best_smoothing(self, best: tuple[int, float]) -> tuple[int, float]:
        """Return the mixture with the best smoothing."""
        for factor in (_STEP, 1.0 / _STEP):
            first = best
            while _LEAST <= best[1] * factor <= _MOST:
                other = (best[0], best[1] * factor)
                if self.first_fold(*other).mean <= self.first_fold(*best).mean + _SAME:
                    break
                best = other
            if best != first:
                break
        return best

    def _scores(self, number: int, n_trees: int, amount: float) -> tuple[Floats, Floats]:
        train, held = self.folds[number]
        loop = Loop("comparing mixtures of trees", _CHOICE_PASSES, _CHOICE_TOL, self._watch.quiet())
        fitted = fit_random_tree_mixture(train, n_trees, Smoothing(amount, amount), self._seeds, loop, self._threads)
        if self._watch.interrupted:
            raise KeyboardInterrupt
        scores, weights = held_out_scores(fitted.pmf, held)
        return np.maximum(scores, _IMPOSSIBLE), weights
