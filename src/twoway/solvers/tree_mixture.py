"""Mixtures of trees of the visible variables, each with a shape of its own (Meilă and Jordan, 2000).

Components begin as those of a mixture of independent variables. In each, the variables that depend on each other most
become neighbours: a Chow-Liu tree of the two-way tables in which a record counts as much as it belongs to the
component. Pseudo-records draw every tree to what it began from, its component without any dependence, and to the
two-way tables of all records: with one component it is the Chow-Liu tree of the data.

A tree of visible variables is one of hidden variables that are copies of them, so the result answers every question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, Ints, times_log
from twoway.data.records import Records
from twoway.data.weights import record_weights
from twoway.model.pmf import JointPMF
from twoway.schema import Schema
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.evidence import PairMatrix
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.starts import random_start
from twoway.solvers.tree_shape import strongest_tree_shape
from twoway.solvers.visible_trees import VisibleMixture, VisibleTree, visible_counts, visible_memberships

PairCounts: TypeAlias = NDArray[np.float32]
"""Counts of all pairs of cells: half the memory, and twice the speed, where digits are to spare."""
# Records that belong to a component less than this are left out when its tree is chosen.
_LITTLE = 1e-6
START_SMOOTHING = Smoothing(1.0, 1.0)
"""Pseudo-records of the components without dependence that mixtures of trees begin from."""
TREE_TOL = 0.1
"""The part of a tolerance at which mixtures of trees end."""


def fit_random_tree_mixture(
    records: Records, n_trees: int, smoothing: Smoothing, seeds: tuple[int, int], loop: Loop, threads: int | None = 1
) -> Descent:
    """Return the mixture of trees that a random start leads to, by way of components without dependence."""
    sets = CellSets.of_records(records, threads)
    start = random_start(sets.schema, n_trees, sets.shares, seeds)
    start = fit_cells_by_em(sets, start, START_SMOOTHING, loop).pmf
    return fit_tree_mixture(records, start, smoothing, replace(loop, tol=TREE_TOL * loop.tol))


def fit_tree_mixture(records: Records, start: JointPMF, smoothing: Smoothing, loop: Loop) -> Descent:
    """Return the mixture of trees that a mixture of independent variables leads to, by EM.

    ``smoothing.factors`` is the number of pseudo-records by which a tree is drawn to its component of the start, for
    each category of a variable's parent, and also that by which it is drawn to the two-way tables of all records.
    The objective is the negative log-likelihood for each unit of weight, with the penalty that smoothing stands for.
    """
    data = _TreeMixtureData.of(records, smoothing, start)
    shapes_move = True

    def advance(here: _TreeMixture | None) -> tuple[_TreeMixture, float]:
        nonlocal shapes_move
        if here is None or shapes_move:
            memberships = (start.memberships(records) * data.weights[:, None]).T if here is None else here.memberships
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
        from scipy.sparse import csr_array

        columns, entries = [np.ones(len(self.codes), dtype=np.float32)], []
        for codes, size, first in zip(self.codes.T, self.sizes, self.offsets[:-1], strict=True):
            has_holes = bool(codes.min() < 0)
            for code in range(size):
                if code < size - 1 or has_holes:
                    entries.append((1.0, first + code, len(columns)))
                    columns.append((codes == code).astype(np.float32))
                else:
                    entries.append((1.0, first + code, 0))
                    entries += [(-1.0, first + code, len(columns) - 1 - other) for other in range(size - 1)]
        values, rows, places = zip(*entries, strict=True)
        shape = (int(self.offsets[-1]), len(columns))
        return np.column_stack(columns), csr_array((np.array(values, dtype=np.float32), (rows, places)), shape=shape)

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
        rows, columns = VisibleTree.shape(variables, parents, self.sizes)
        # For each cell of the tables, the category of the variable and that of its parent; of the root, its own.
        vertex = np.repeat(np.arange(len(variables)), np.diff(rows.firsts))
        n_columns = np.where(parents >= 0, rows.sizes[parents], 1)[vertex]
        code, column = np.divmod(np.arange(rows.firsts[-1]) - rows.firsts[vertex], n_columns)
        own = self.offsets[variables[vertex]] + code
        cells = own, np.where(vertex == 0, own, self.offsets[variables[parents[vertex]]] + column)
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
