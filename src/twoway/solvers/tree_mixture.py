"""Mixtures of trees of the visible variables, each with a shape of its own (Meilă and Jordan, 2000).

Components begin as those of a mixture of independent variables. In each, the variables that depend on each other most
become neighbours: a Chow-Liu tree of the two-way tables in which a record counts as much as it belongs to the
component. Pseudo-records draw every tree to what it began from, its component without any dependence, and to the
two-way tables of all records: with one component it is the Chow-Liu tree of the data.

A tree of visible variables is one of hidden variables that are copies of them, so the result answers every question.

Near-deterministic data ask for such a mixture: within a group of records, what is known of one variable settles others,
and which ones differs from group to group. The number of trees is that which predicts held-out records best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from twoway.arrays import Floats, Ints, times_log
from twoway.data.records import Records
from twoway.data.stored_records import RecordSource
from twoway.data.weights import record_weights
from twoway.errors import DataError
from twoway.model.pmf import JointPMF
from twoway.report import Progress
from twoway.schema import Schema
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.evidence import Evidence, PairMatrix
from twoway.solvers.heldout import CHOICE_CELLS, HeldOut, held_out_folds, held_out_scores
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.problem import Problem, Solution
from twoway.solvers.smoothing import Candidates, Smoothing, SmoothingChoice
from twoway.solvers.starts import random_start
from twoway.solvers.tree_starts import strongest_tree_shape
from twoway.solvers.visible_trees import VisibleMixture, VisibleTree, visible_counts, visible_memberships

PairCounts: TypeAlias = NDArray[np.float32]
"""Counts of all pairs of cells: half the memory, and twice the speed, where digits are to spare."""
# Records that belong to a component less than this are left out when its tree is chosen.
_LITTLE = 1e-6
START_SMOOTHING = Smoothing(1.0, 1.0)
"""Pseudo-records of the components without dependence that mixtures of trees begin from."""
TREE_TOL = 0.1
"""The part of a tolerance at which mixtures of trees end."""
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


def fit_random_tree_mixture(
    records: Records, n_trees: int, smoothing: Smoothing, seeds: tuple[int, int], loop: Loop, threads: int | None = 1
) -> Descent:
    """Return the mixture of trees that a random start leads to, by way of components without dependence."""
    sets = CellSets.of_records(records, threads)
    start = random_start(sets.schema, n_trees, sets.shares, seeds)
    start = fit_cells_by_em(sets, start, START_SMOOTHING, loop).pmf
    return fit_tree_mixture(records, start, smoothing, replace(loop, tol=TREE_TOL * loop.tol), threads)


def fit_tree_mixture(
    records: Records, start: JointPMF, smoothing: Smoothing, loop: Loop, threads: int | None = 1
) -> Descent:
    """Return the mixture of trees that a mixture of independent variables leads to, by EM.

    ``smoothing.factors`` is the number of pseudo-records by which a tree is drawn to its component of the start, for
    each category of a variable's parent, and also that by which it is drawn to the two-way tables of all records.
    The objective is the negative log-likelihood for each unit of weight, with the penalty that smoothing stands for.
    """
    data = _TreeMixtureData.of(records, smoothing, start)
    shapes_move = True

    def of_start() -> Floats:
        return (start.memberships(records, threads=threads) * data.weights[:, None]).T

    def advance(here: _TreeMixture | None) -> tuple[_TreeMixture, float]:
        nonlocal shapes_move
        if here is None or shapes_move:
            memberships = of_start() if here is None else here.memberships
            following = data.with_new_shapes(memberships)
            if here is None or following.objective <= here.objective:
                return following, following.objective
            shapes_move = False  # these are no better: keep the old ones from here on
        following = data.step(here)
        return following, following.objective

    last, objectives, stop_reason = loop.follow(advance)
    return Descent(data.visible(last).pmf(), tuple(objectives), stop_reason)


def chow_liu_edges(records: Records, weights: Floats) -> list[tuple[int, int]]:
    """Return the pairs of neighbours in the tree of Chow and Liu of records with these weights (n_records,)."""
    data = _TreeMixtureData.of(records, Smoothing())
    vertices, parents = data.strongest_tree(data.count_pairs(weights))
    variables = data.order[vertices].tolist()
    return [(variables[parent], variable) for parent, variable in zip(parents[1:], variables[1:], strict=True)]


class _Prior(NamedTuple):
    """What smoothing says of a tree."""

    pseudo_counts: Floats
    """What it adds to the counts of the tables' cells."""
    plain: float
    """The logarithm of the prior where no variable depends on its parent, from which the penalty is counted."""


class _TreeMixture(NamedTuple):
    """A mixture, and what records say of it."""

    shares: Floats
    trees: Sequence[VisibleTree]
    priors: Sequence[_Prior]
    memberships: Floats
    """The weight of each record in each tree, (M, n_records)."""
    objective: float


@dataclass(frozen=True)
class _TreeMixtureData:
    """Records as matrices, with the variables sorted by name, so that the order of columns does not matter."""

    schema: Schema
    order: Ints
    """(N,): the variable in each column."""
    sizes: Ints
    offsets: Ints
    codes: NDArray[np.int32]
    """(n_records, N), -1 where a cell is missing."""
    weights: Floats
    """(n_records,)."""
    smoothing: Smoothing
    starts: Floats
    """(n_categories, M): the shares of each variable's categories in the components of the start."""

    @classmethod
    def of(cls, records: Records, smoothing: Smoothing, start: JointPMF | None = None) -> _TreeMixtureData:
        schema = records.schema
        order = np.array(sorted(range(len(schema)), key=schema.names.__getitem__))
        sizes, codes = np.array(schema.sizes)[order], np.ascontiguousarray(records.codes()[:, order])
        starts = np.empty((0, 0)) if start is None else np.vstack([start.factors[variable] for variable in order])
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return cls(schema, order, sizes, offsets, codes, record_weights(records), smoothing, starts)

    # Pairs of variables

    @cached_property
    def _indicators(self) -> tuple[PairCounts, Any]:
        """Columns of ones and zeros: one for all records, then categories; and what makes all categories of them.

        The last category of a variable without missing cells is what the others leave, and has no column.
        """
        from scipy.sparse import block_diag, csr_array, hstack

        columns, is_rest, blocks = [np.ones(len(self.codes), dtype=np.float32)], [], []
        for codes, size in zip(self.codes.T, self.sizes.tolist(), strict=True):
            n_columns = size if codes.min() < 0 else size - 1
            columns += [(codes == code).astype(np.float32) for code in range(n_columns)]
            is_rest.append(np.arange(size) >= n_columns)
            blocks.append(csr_array(np.eye(size, n_columns) - is_rest[-1][:, None]))
        rests = csr_array(np.concatenate(is_rest)[:, None])
        expand = hstack([rests, block_diag(blocks)], format="csr", dtype=np.float32)
        return np.column_stack(columns), expand

    def count_pairs(self, weights: Floats) -> PairCounts:
        """Return how often each two categories are observed together, (n_categories, n_categories)."""
        indicators, expand = self._indicators
        rows = np.flatnonzero(weights > _LITTLE)
        shown = indicators[rows]
        counts = shown.T @ (shown * weights[rows, None].astype(np.float32))
        return np.asarray(np.maximum(expand @ (expand @ counts).T, np.float32(0.0)))

    @cached_property
    def _pseudo_pairs(self) -> PairCounts:
        """The counts of pairs that smoothing adds to those of each tree: the shares in all records."""
        counts = self.count_pairs(self.weights)
        is_shown = (self.codes >= 0).astype(np.float32)
        totals = is_shown.T @ (is_shown * self.weights[:, None].astype(np.float32))
        each = np.divide(self.smoothing.factors, totals, out=np.zeros_like(totals), where=totals > 0)
        return np.asarray(counts * PairMatrix.spread_over_cells(each, self.sizes))

    def strongest_tree(self, pairs: PairCounts) -> tuple[Ints, Ints]:
        """Return the tree of largest mutual information in counts of pairs, as `strongest_tree_shape` does."""
        from twoway.kernels.visible_trees import visible_pair_information

        return strongest_tree_shape(visible_pair_information(pairs, self._pseudo_pairs, self.offsets))

    # Trees

    def with_new_shapes(self, memberships: Floats) -> _TreeMixture:
        """Return the Chow-Liu trees of the records with these weights in each, (M, n_records)."""
        trees = [self._chow_liu_tree(component, weights) for component, weights in enumerate(memberships)]
        return self._evaluated(memberships, *zip(*trees, strict=True))

    def step(self, here: _TreeMixture) -> _TreeMixture:
        """Return the M-step of trees that keep their shapes."""
        counts = visible_counts(self.codes, here.memberships, here.trees)
        parts = zip(here.trees, counts, here.priors, strict=True)
        trees = [tree.maximized(expected + prior.pseudo_counts) for tree, expected, prior in parts]
        return self._evaluated(here.memberships, trees, here.priors)

    def _evaluated(self, memberships: Floats, trees: Sequence[VisibleTree], priors: Sequence[_Prior]) -> _TreeMixture:
        """Return the mixture of trees to which these parts of the records belong, and what all records say of it."""
        totals = memberships.sum(axis=1) + self.smoothing.weights
        shares = np.asarray(totals / totals.sum())
        log_likelihood, following = visible_memberships(self.codes, self.weights, shares, trees)
        log_prior = self.smoothing.weights * np.log(shares * len(shares)).sum()
        for tree, prior in zip(trees, priors, strict=True):
            log_prior += times_log(prior.pseudo_counts, tree.tables).sum() - prior.plain
        objective = -float((log_likelihood + log_prior) / self.weights.sum())
        return _TreeMixture(shares, trees, priors, following, objective)

    def _chow_liu_tree(self, component: int, weights: Floats) -> tuple[VisibleTree, _Prior]:
        """Return the Chow-Liu tree of a component, with records of these weights (n_records,) in it, and its prior."""
        pairs, amount = self.count_pairs(weights), self.smoothing.factors
        variables, parents = self.strongest_tree(pairs)
        rows, columns, (vertex, code, above) = VisibleTree.shape(variables, parents, self.sizes)
        # For each cell of the tables, the category of the variable and that of its parent; of the root, its own.
        own = self.offsets[variables[vertex]] + code
        cells = own, np.where(vertex == 0, own, self.offsets[variables[parents[vertex]]] + above)
        around, overall = self.starts[own, component], self._pseudo_pairs[own, own].astype(np.float64)
        of_pairs = self._pseudo_pairs[cells].astype(np.float64)
        plain = amount * times_log(around, around).sum()
        if amount:
            plain += times_log(of_pairs, overall / amount).sum()
        pseudo_counts = of_pairs + amount * around
        tree = VisibleTree(rows, around, columns).maximized(pairs[cells].astype(np.float64) + pseudo_counts)
        return tree, _Prior(pseudo_counts, float(plain))

    def visible(self, mixture: _TreeMixture) -> VisibleMixture:
        """Return the mixture with the variables in the order of the schema."""
        rows = [tree.rows._replace(variables=self.order[tree.rows.variables]) for tree in mixture.trees]
        trees = [tree._replace(rows=own) for tree, own in zip(mixture.trees, rows, strict=True)]
        return VisibleMixture(self.schema, mixture.shares, tuple(trees))


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
            others, best = [best, *others], self._refined(problem, records, best, sample)
        return replace(best, others=tuple(other.as_start() for other in others))

    def _refined(self, problem: Problem, records: RecordSource, solution: Solution, sample: Records) -> Solution:
        """Return a solution with its shapes, learned from all records; smoothing looks at the sample."""
        mixture = VisibleMixture.of(solution.pmf)
        prior = mixture.pseudo_counts(sample, problem.given_smoothing)
        loop = Loop("mixture of trees", _FINAL_PASSES, self.tol, problem.watch)
        descent = mixture.climb(records, prior, loop, problem.evidence.threads)
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
            self._tried[n_trees, amount] = self._scores(0, n_trees, amount)
        return self._tried[n_trees, amount]

    def all_folds(self, n_trees: int, amount: float) -> HeldOut:
        """Return how well a mixture predicts all folds."""
        others = (self._scores(number, n_trees, amount) for number in range(1, len(self.folds)))
        return HeldOut.of_folds([self.first_fold(n_trees, amount), *others])

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

    def _scores(self, number: int, n_trees: int, amount: float) -> HeldOut:
        train, held = self.folds[number]
        loop = Loop("comparing mixtures of trees", _CHOICE_PASSES, _CHOICE_TOL, self._watch.quiet())
        fitted = fit_random_tree_mixture(train, n_trees, Smoothing(amount, amount), self._seeds, loop, self._threads)
        if self._watch.interrupted:
            raise KeyboardInterrupt
        held_out = held_out_scores(fitted.pmf, held, self._threads)
        return replace(held_out, scores=np.maximum(held_out.scores, _IMPOSSIBLE))
