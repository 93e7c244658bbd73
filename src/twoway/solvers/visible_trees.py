"""Mixtures of trees of the visible variables, whose expected counts add over blocks of records.

In a model, each variable that has children is a hidden variable's only meaning: a copy of it. Here the tables are those
of the variables themselves, so that a pass costs one product of numbers for each cell of a record and tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, Ints, times_log
from twoway.data.records import Records
from twoway.data.stored_records import Block, RecordSource
from twoway.data.weights import record_weights
from twoway.errors import DataError
from twoway.model.hidden_tree import HiddenTree
from twoway.model.pmf import JointPMF
from twoway.model.trees import Trees
from twoway.schema import Schema
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.smoothing import Smoothing

if TYPE_CHECKING:
    from twoway.kernels.visible_trees import VisibleRows


class VisibleTree(NamedTuple):
    """A tree of variables, and its tables one behind the other."""

    rows: VisibleRows
    tables: Floats
    """The probability of each category given the parent's."""
    columns: Ints
    """The column that each cell of the tables is in; see `shape`."""

    @staticmethod
    def shape(variables: Ints, parents: Ints, sizes: Ints) -> tuple[VisibleRows, Ints, tuple[Ints, Ints, Ints]]:
        """Return a tree of variables (vertices with the sizes of all), and the column of each cell of its tables.

        Cells of one column are the categories of a variable, given one of the parent's. Then, for each cell, the
        vertex, its category and that of its parent, which is 0 for the root.
        """
        from twoway.kernels.visible_trees import VisibleRows

        heights = sizes[variables]
        widths = np.where(parents >= 0, heights[parents], 1)
        rows = VisibleRows(variables, parents, heights, widths, np.concatenate([[0], np.cumsum(heights * widths)]))
        vertex = np.repeat(np.arange(len(variables)), heights * widths)
        code, above = np.divmod(np.arange(rows.firsts[-1]) - rows.firsts[vertex], widths[vertex])
        return rows, np.concatenate([[0], np.cumsum(widths)])[vertex] + above, (vertex, code, above)

    @classmethod
    def of_hidden(cls, tree: HiddenTree) -> VisibleTree:
        """Return the tree of variables whose hidden copies these are."""
        copies: dict[int, int] = {}
        for variable, (home, factor) in enumerate(zip(tree.homes, tree.factors, strict=True)):
            if len(factor) == factor.shape[1] and np.array_equal(factor, np.eye(len(factor))):
                copies.setdefault(home, variable)
        if len(copies) < tree.n_hidden:
            raise DataError("the hidden variables of this mixture of trees are not copies of visible variables")
        variables, parents = [copies[home] for home in range(tree.n_hidden)], list(tree.parents)
        tables = [tree.weights[:, None], *tree.transitions]
        for variable, home in enumerate(tree.homes):
            if copies[home] != variable:
                variables.append(variable)
                parents.append(home)
                tables.append(tree.factors[variable])
        sizes = np.array([len(factor) for factor in tree.factors])
        rows, columns, _ = cls.shape(np.array(variables), np.array(parents), sizes)
        return cls(rows, _flat_visible(tables), columns)

    def maximized(self, counts: Floats) -> VisibleTree:
        """Return the tree of the same shape that best explains expected counts."""
        return self._replace(tables=_normalized_visible(counts, self.columns, self.tables))

    def split_tables(self) -> list[Floats]:
        """Return the tables (n_categories, n_categories of the parent) of all vertices; the root's has one column."""
        parts = np.split(self.tables, self.rows.firsts[1:-1])
        return [part.reshape(self.rows.sizes[vertex], -1) for vertex, part in enumerate(parts)]

    def vertex_shares(self) -> list[Floats]:
        """Return the shares of each vertex's categories."""
        shares: list[Floats] = []
        for table, parent in zip(self.split_tables(), self.rows.parents.tolist(), strict=True):
            shares.append(table @ (shares[parent] if shares else np.ones(1)))
        return shares

    def edge_tables(self) -> list[Floats]:
        """Return the joint shares of each vertex and its parent."""
        shares, above = self.vertex_shares(), [np.ones(1)]
        above += [shares[parent] for parent in self.rows.parents[1:].tolist()]
        return [table * columns for table, columns in zip(self.split_tables(), above, strict=True)]

    def hidden(self) -> HiddenTree:
        """Return a tree with a hidden copy of each variable that has children, to which those without are attached."""
        vertices, parents = np.argsort(self.rows.variables).tolist(), self.rows.parents.tolist()
        tables = self.split_tables()
        root, *inner = sorted({0, *parents} - {-1})
        number = {vertex: place for place, vertex in enumerate([root, *inner])}
        homes = tuple(number[vertex if vertex in number else parents[vertex]] for vertex in vertices)
        factors = tuple(np.eye(len(tables[vertex])) if vertex in number else tables[vertex] for vertex in vertices)
        above, transitions = (number[parents[vertex]] for vertex in inner), (tables[vertex] for vertex in inner)
        return HiddenTree((-1, *above), homes, tables[root][:, 0], tuple(transitions), factors)


class VisibleCounts(NamedTuple):
    """How often each tree, and each cell of its tables, is expected; these add."""

    totals: Floats
    """(n_trees,)."""
    of_trees: list[Floats]
    """Of each tree, as its tables."""
    log_likelihood: float = 0.0

    def plus(self, other: VisibleCounts) -> VisibleCounts:
        """Return the sum of both."""
        of_trees = list(map(np.add, self.of_trees, other.of_trees))
        return VisibleCounts(self.totals + other.totals, of_trees, self.log_likelihood + other.log_likelihood)


def visible_memberships(
    codes: NDArray[np.int32], weights: Floats, shares: Floats, trees: Sequence[VisibleTree]
) -> tuple[float, Floats]:
    """Return the log-likelihood of records (n_records, N), and the weight of each in each tree (n_trees, n_records)."""
    from twoway.kernels.visible_trees import expect_visible_tree

    logs = np.empty((len(trees), len(codes)))
    for log_prob, tree in zip(logs, trees, strict=True):
        expect_visible_tree(codes, weights, tree.rows, tree.tables, np.empty(0), log_prob)
    logs += np.log(shares)[:, None]
    log_prob = np.logaddexp.reduce(logs, axis=0)
    return float(weights @ log_prob), np.exp(logs - log_prob) * weights


def visible_counts(codes: NDArray[np.int32], memberships: Floats, trees: Sequence[VisibleTree]) -> list[Floats]:
    """Return how often each cell of the trees' tables is expected, given the weights of records in each tree."""
    from twoway.kernels.visible_trees import expect_visible_tree

    of_trees = []
    for tree, weights in zip(trees, memberships, strict=True):
        counts, rows = np.zeros(tree.tables.shape), np.flatnonzero(weights)
        expect_visible_tree(codes[rows], weights[rows], tree.rows, tree.tables, counts, np.empty(len(rows)))
        of_trees.append(counts)
    return of_trees


def _flat_visible(tables: Sequence[Floats]) -> Floats:
    """Return tables one behind the other in a flat array."""
    return np.concatenate([table.ravel() for table in tables])


def _normalized_visible(counts: Floats, columns: Ints, otherwise: Floats) -> Floats:
    """Return the shares in each column of counts; others where a column has none."""
    totals = np.bincount(columns, counts)[columns]
    return np.divide(counts, totals, out=otherwise.copy(), where=totals > 0)


@dataclass(frozen=True, eq=False)
class VisibleMixture:
    """A mixture of trees of the variables of a schema."""

    schema: Schema
    shares: Floats
    trees: tuple[VisibleTree, ...]

    @classmethod
    def of(cls, pmf: JointPMF) -> VisibleMixture:
        """Return the mixture that a model is, or raise if its hidden variables are not copies of visible ones."""
        trees = tuple(VisibleTree.of_hidden(tree) for tree in pmf.trees.trees)
        return cls(pmf.schema, pmf.trees.shares, trees)

    def pmf(self) -> JointPMF:
        """Return the model: each variable that has children gets a hidden copy."""
        # Trees of one hidden variable are not merged, so that they can be separated again.
        return JointPMF.from_trees(self.schema, Trees(self.shares, tuple(tree.hidden() for tree in self.trees)))

    def expected(self, records: RecordSource, threads: int | None) -> VisibleCounts:
        """Return the sums of the E-step over all records."""
        return records.map_reduce(self._expected_of_block, VisibleCounts.plus, threads=threads)

    def _expected_of_block(self, block: Block) -> VisibleCounts:
        """Return the sums of the E-step over a block of records."""
        from twoway.kernels.compression import expand

        schema = self.schema
        codes = np.full((block.n_records, len(schema)), -1, dtype=np.int32)
        variable_of_cell = np.repeat(np.arange(len(schema), dtype=np.int32), schema.sizes)
        expand(block.pointers, block.cells, variable_of_cell, schema.offsets, codes)
        log_likelihood, memberships = visible_memberships(codes, record_weights(block), self.shares, self.trees)
        counts = visible_counts(codes, memberships, self.trees)
        return VisibleCounts(memberships.sum(axis=1), counts, log_likelihood)

    def maximized(self, counts: VisibleCounts) -> VisibleMixture:
        """Return the mixture that best explains expected counts."""
        trees = map(VisibleTree.maximized, self.trees, counts.of_trees)
        return replace(self, shares=counts.totals / counts.totals.sum(), trees=tuple(trees))

    def climb(self, records: RecordSource, prior: VisibleCounts, loop: Loop, threads: int | None) -> Descent:
        """Return where EM leads from here with these shapes, with pseudo-counts, and how it got there.

        The objective is the negative log-likelihood for each unit of weight, with the penalty of the pseudo-counts,
        counted from here.
        """
        at_rest = self.log_prior(prior)

        def advance(
            here: tuple[VisibleMixture, VisibleCounts] | None,
        ) -> tuple[tuple[VisibleMixture, VisibleCounts], float]:
            following = self if here is None else here[0].maximized(here[1].plus(prior))
            expected = following.expected(records, threads)
            value = expected.log_likelihood + following.log_prior(prior) - at_rest
            return (following, expected), -value / records.total_weight

        (last, _), objectives, stop_reason = loop.follow(advance)
        return Descent(last.pmf(), tuple(objectives), stop_reason)

    def log_prior(self, prior: VisibleCounts) -> float:
        """Return the log-probability of pseudo-counts."""
        trees = zip(prior.of_trees, self.trees, strict=True)
        of_trees = sum(times_log(counts, tree.tables).sum() for counts, tree in trees)
        return float(times_log(prior.totals, self.shares).sum() + of_trees)

    def pseudo_counts(self, records: Records, smoothing: Smoothing) -> VisibleCounts:
        """Return what smoothing adds to expected counts.

        So many records of each tree without any dependence, for each category of a parent; and as many with the
        two-way shares in all records.
        """
        codes, weights, of_trees = records.codes(), record_weights(records), []
        for tree in self.trees:
            parts = []
            for vertex, (joint, shares) in enumerate(zip(tree.edge_tables(), tree.vertex_shares(), strict=True)):
                own, above = codes[:, tree.rows.variables[[vertex, max(int(tree.rows.parents[vertex]), 0)]]].T
                above = above if vertex else np.where(own >= 0, 0, -1)
                both = (own >= 0) & (above >= 0)
                place = own[both].astype(np.int64) * joint.shape[1] + above[both]
                counts = np.bincount(place, weights[both], joint.size).reshape(joint.shape)
                plain = np.repeat(shares[:, None], joint.shape[1], axis=1)
                parts.append(smoothing.factors * (plain + counts / max(counts.sum(), 1e-300)))
            of_trees.append(_flat_visible(parts))
        return VisibleCounts(np.full(len(self.trees), smoothing.weights), of_trees)

    def remembered(self, totals: Floats) -> VisibleCounts:
        """Return the expected counts of records with these totals in each tree, if the mixture fits them."""
        trees = zip(totals, self.trees, strict=True)
        return VisibleCounts(totals, [total * _flat_visible(tree.edge_tables()) for total, tree in trees])

    def drawn(self, prior: VisibleCounts, random: np.random.Generator) -> VisibleCounts:
        """Return pseudo-counts of which each column is drawn anew, with the same sum (a Dirichlet distribution)."""

        def draw(counts: Floats, columns: Ints) -> Floats:
            amounts = random.gamma(counts)
            return np.bincount(columns, counts)[columns] * _normalized_visible(amounts, columns, counts)

        totals = draw(prior.totals, np.zeros(len(prior.totals), dtype=np.int64))
        trees = zip(prior.of_trees, self.trees, strict=True)
        return VisibleCounts(totals, [draw(counts, tree.columns) for counts, tree in trees])

    def extended(self, schema: Schema) -> VisibleMixture:
        """Return the mixture by a schema with more categories, which it holds to be impossible."""
        if schema == self.schema:
            return self
        places = [np.array([schema[old.name].code(label) for label in old.categories]) for old in self.schema]
        trees = []
        for tree in self.trees:
            rows, columns, _ = VisibleTree.shape(tree.rows.variables, tree.rows.parents, np.array(schema.sizes))
            parts = []
            for vertex, (old, shares) in enumerate(zip(tree.split_tables(), tree.vertex_shares(), strict=True)):
                own, parent = places[rows.variables[vertex]], rows.parents[vertex]
                above = places[rows.variables[parent]] if vertex else np.array([0])
                table = np.zeros((rows.sizes[vertex], rows.widths[vertex]))
                table[own] = shares[:, None]  # what a category that was never seen says of others
                table[np.ix_(own, above)] = old
                parts.append(table)
            trees.append(VisibleTree(rows, _flat_visible(parts), columns))
        return VisibleMixture(schema, self.shares, tuple(trees))

    def softened(self, part: float, shares: Floats) -> VisibleMixture:
        """Return the mixture with a part of overall shares (n_categories,) mixed into each table."""
        trees = []
        for tree in self.trees:
            tables = []
            for vertex, table in enumerate(tree.split_tables()):
                overall = shares[self.schema.cells(int(tree.rows.variables[vertex]))]
                tables.append((1.0 - part) * table + part * overall[:, None])
            trees.append(tree._replace(tables=_flat_visible(tables)))
        return replace(self, trees=tuple(trees))
