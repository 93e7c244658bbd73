"""The evidence that solvers fit: records or tables, as weighted sets of observed cells and as one matrix of all pairs.

A record is a set of observed cells. So is a cell of a two-way or three-way table, weighted by its count: the sum of
Kullback-Leibler divergences between tables and model is, up to a constant, the log-likelihood of these small records.
That is why EM on records, CNMF-OPT on pairs and the KL fit of triples are one computation here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from twoway.arrays import Bools, Floats, Ints, times_log
from twoway.data.records import Records
from twoway.data.stored_records import Block, RecordSource
from twoway.errors import DataError
from twoway.model.hidden_tree import HiddenTree, packed_tree, unpacked_tree
from twoway.model.pmf import JointPMF
from twoway.model.trees import Trees
from twoway.parallel import reduce_in_order
from twoway.schema import Schema
from twoway.solvers.pair_matrix import PairMatrix
from twoway.tables.counting import n_set_cells
from twoway.tables.dependence import corrected_information, strongest_tables, strongest_tree
from twoway.tables.pair_graph import PairGraph
from twoway.tables.tables import Tables
from twoway.text import shortlist

if TYPE_CHECKING:
    from twoway.kernels.trees import TreeRows

Theta = Floats
"""Parameters as the kernels take them, (1 + n_categories, width): the weights above the stacked factors."""
PairWeights = Literal["counts", "equal"]

# How often an answer counts in its two-way tables besides, where it counts once in its record: in all of its tables
# together, and in each table of the strongest tree. Held-out records and cross-tabs are fitted best with about as much.
_IN_ALL_TABLES, _IN_STRONG_TABLES = 8.0, 12.0
# Cells of the two-way tables that count besides the records', at most; the strongest tables where there are more.
_MOST_BESIDES = 200_000
# So many variables with tables to both of two others tell how these depend on each other.
_BRIDGES = 3
# Records that each variable's overall shares get on top of the data.
_EXTRA = 0.1
_MANY_CATEGORIES = 100
# Observed cells of the records that a model of very many tables is compared with.
_MOST_COMPARED = 10**7


@dataclass(frozen=True)
class ExpectedCounts:
    """How often each component, and each cell in each component, is expected; these add."""

    counts: Theta
    """(1 + n_categories, width): the components' totals above those of the cells."""
    log_likelihood: float

    def __add__(self, other: ExpectedCounts) -> ExpectedCounts:
        # The left one is a partial sum that nobody else holds.
        np.add(self.counts, other.counts, out=self.counts)
        return ExpectedCounts(self.counts, self.log_likelihood + other.log_likelihood)


def theta_of(pmf: JointPMF) -> Theta:
    """Return a PMF's parameters as the kernels take them; those of hidden variables on a tree are above the factors."""
    return packed_tree(_tree_of(pmf))[1].copy()


def pmf_of(form: JointPMF, theta: Theta) -> JointPMF:
    """Return the PMF of parameters, of the same form as another: with its variables, and as many hidden states."""
    return JointPMF.from_trees(form.schema, Trees(np.ones(1), (unpacked_tree(_tree_of(form), theta),)))


def theta_groups(pmf: JointPMF) -> Ints:
    """Return where the groups of rows of θ begin, behind its first row: hidden variables, then visible ones."""
    hidden = np.cumsum([0, *_tree_of(pmf).n_states[1:]])
    return np.concatenate([hidden[:-1], hidden[-1] + pmf.schema.offsets])


def tree_rows(pmf: JointPMF) -> TreeRows | None:
    """Return which rows of θ belong to which hidden variable, None where there is one."""
    return packed_tree(_tree_of(pmf))[0] if pmf.n_hidden > 1 else None


def _tree_of(pmf: JointPMF) -> HiddenTree:
    (tree,) = pmf.trees.trees
    return tree


def expected_counts(
    records: RecordSource, theta: Theta, rank: int, threads: int | None, rows: TreeRows | None = None
) -> ExpectedCounts:
    """Return the sums of the E-step over all records."""
    per_block = partial(expected_counts_of_block, theta=theta, rank=rank, rows=rows)
    return records.map_reduce(per_block, ExpectedCounts.__add__, threads=threads)


def expected_counts_of_block(block: Block, *, theta: Theta, rank: int, rows: TreeRows | None) -> ExpectedCounts:
    """Return the sums of the E-step over a block of records."""
    # Kernels are imported where the block is: one that travelled there would be compiled anew.
    from twoway.kernels.expectation import expect
    from twoway.kernels.lanes import layout

    if not theta.flags.writeable:  # as one that has travelled is: a type of its own
        theta = theta.copy()
    counts = np.zeros(theta.shape)
    _, prototype = layout(rank)
    if rows is None:
        log_likelihood = expect(block.pointers, block.cells, block.weights, theta, counts, prototype)
        return ExpectedCounts(counts, log_likelihood)
    from twoway.kernels.trees import expect_tree

    none = np.empty(0)
    observed = (block.pointers, block.cells, block.weights)
    return ExpectedCounts(counts, expect_tree(*observed, rows, theta, counts, none[:, None, None], none, prototype))


def counts_of_groups(counts: Theta, form: JointPMF) -> Floats:
    """Return the sum of expected counts over each group of rows of θ, below the components' totals.

    Shape (n_hidden + n_variables, rank): hidden variables, then visible ones.
    """
    counts = counts[:, : form.rank]
    return np.vstack([counts[0], np.add.reduceat(counts[1:], theta_groups(form)[:-1], axis=0)])


def _tables_negative_entropy(tables: Tables, pair_weights: PairWeights) -> float:
    """Return the weighted mean over tables of Σ x log x."""
    shares = tables.flat / np.repeat(tables.totals, np.diff(tables.starts))
    of_table = np.add.reduceat(times_log(shares, shares), tables.starts[:-1])
    weights = tables.weights if pair_weights == "counts" else np.ones(len(tables))
    return float((of_table * weights).sum() / weights.sum())


@dataclass(frozen=True)
class CellSets:
    """Records, or table cells in the shape of records, with what the fit must know about them."""

    records: RecordSource
    copies: Floats
    """(n_variables,): how often a person's answer to each variable is counted among the sets. Once in records; in
    tables, once in each table that holds the variable."""
    total_copies: float
    """How often a person is counted among the sets: once in records, else once in each table."""
    offset: float
    """What turns the mean negative log-likelihood into the objective: 0 for records; for tables, their negative
    entropy, so that the objective is a divergence."""
    threads: int | None
    besides: Records | None = None
    """Cells of the records' own two-way tables, which count besides."""

    @classmethod
    def of_records(cls, records: RecordSource, threads: int | None) -> CellSets:
        """Return records as they are."""
        return cls(records, np.ones(len(records.schema)), 1.0, 0.0, threads)

    @classmethod
    def of_tables(cls, tables: Tables, pair_weights: PairWeights, threads: int | None) -> CellSets:
        """Return the cells of tables, weighted by their counts."""
        copies = np.bincount(tables.sets.ravel(), minlength=len(tables.schema)).astype(np.float64)
        offset = _tables_negative_entropy(tables, pair_weights)
        return cls(tables.as_records(pair_weights), copies, float(len(tables)), offset, threads)

    @property
    def schema(self) -> Schema:
        """The variables."""
        return self.records.schema

    @property
    def total_weight(self) -> float:
        """The weight of all sets together."""
        return self.records.total_weight

    def with_tables(self, tables: Tables, times: Floats) -> CellSets:
        """Return records whose own two-way tables count besides, each so many times; 0 leaves a table out.

        A model that is not quite right then errs less in the tables, which people look at, and a little more in what
        a few records say of many variables at once, which is mostly chance.
        """
        kept = tables.part(times > 0)
        return replace(
            self,
            besides=replace(kept, weights=kept.weights * times[times > 0]).as_records(),
            copies=self.copies + np.bincount(tables.sets.ravel(), np.repeat(times, 2), len(self.schema)),
            total_copies=self.total_copies + float(times.sum()),
        )

    def beside(self, tables: Tables, share: float) -> CellSets:
        """Return the same sets with other tables, which count besides: together, so much for each count of the sets."""
        times = share * self.records.total_weight / tables.weights.sum()
        besides = replace(tables, weights=tables.weights * times).as_records()
        return replace(self, besides=besides, offset=self.offset + share * _tables_negative_entropy(tables, "counts"))

    def expected(self, theta: Theta, rank: int, rows: TreeRows | None = None) -> ExpectedCounts:
        """Return the sums of the E-step over all sets."""
        if self.besides is None:
            return expected_counts(self.records, theta, rank, self.threads, rows)
        if not isinstance(self.records, Records):
            in_records, in_tables = (
                expected_counts(part, theta, rank, self.threads, rows) for part in (self.records, self.besides)
            )
            return in_records + in_tables
        blocks = [*self.records.blocks(), *self.besides.blocks()]
        per_block = partial(expected_counts_of_block, theta=theta, rank=rank, rows=rows)
        return reduce_in_order(blocks, per_block, ExpectedCounts.__add__, threads=self.threads, n_tasks=len(blocks))

    @cached_property
    def totals(self) -> Floats:
        """How often each cell was observed, shape (n_categories,)."""
        theta = np.zeros((1 + self.schema.n_categories, 4))
        theta[:, 0] = 1.0
        # The expected counts of a single component are plain counts.
        return expected_counts(self.records, theta, 1, self.threads).counts[1:, 0]

    @cached_property
    def shares(self) -> Floats:
        """Each variable's overall shares (n_categories,), with a tenth of a record spread evenly on top.

        The extra keeps a category that was declared but never seen possible.
        """
        totals = self.totals
        sizes = np.array(self.schema.sizes)
        of_variable = np.add.reduceat(totals, self.schema.offsets[:-1])
        return (totals + np.repeat(_EXTRA / sizes, sizes)) / np.repeat(of_variable + _EXTRA, sizes)

    def copies_of_groups(self, form: JointPMF) -> Floats:
        """Return how often a person is counted in each group of rows of θ: hidden variables, then visible ones."""
        # A table speaks of the transitions on one path of the tree only.
        return np.concatenate([[self.total_copies], [self.copies.mean()] * (form.n_hidden - 1), self.copies])

    def support(self, counts: Theta, form: JointPMF) -> Floats:
        """Return on how many people each component rests, and each of its factors, as `counts_of_groups`."""
        return counts_of_groups(counts, form) / np.maximum(self.copies_of_groups(form), 1.0)[:, None]


class Evidence:
    """What is known: records, or tables, or records from which tables can be counted."""

    def __init__(
        self, schema: Schema, *, records: RecordSource | None = None, tables: Tables | None = None, threads: int | None
    ) -> None:
        self.schema = schema
        self.records = records
        self.threads = threads
        self._tables = {} if tables is None else {tables.order: tables}
        self._table_sets: dict[tuple[PairWeights, int], CellSets] = {}
        self._tree_sets: dict[frozenset[frozenset[int]] | None, CellSets] = {}
        self.given_order = 2 if tables is None else tables.order

    def tables(self, order: int) -> Tables:
        """Return the two-way or three-way tables: those given, or those counted (once) from the records."""
        if order not in self._tables:
            if self.records is None:
                known = ", ".join(f"{key}-way" for key in self._tables)
                raise DataError(f"this solver needs {order}-way tables or records, and there are only {known} tables")
            tables = Tables.count(self.records, order, threads=self.threads)
            # Equal records were merged for the fit: the weight of a single one is known no longer.
            is_known = not self.records.weight_totals.is_weighted
            self._tables[order] = tables if is_known else replace(tables, heaviest=None)
        return self._tables[order]

    def connected_tables(self, order: int) -> Tables:
        """Return the two-way or three-way tables, or raise where they do not connect all variables."""
        names = self.schema.names
        if order == 3 and len(names) < 3:
            raise DataError(f"three-way tables need at least 3 variables; got {shortlist(names)}")
        tables = self.tables(order)
        tables.check_connected()
        return tables

    def compared_tables(self, n_tables: int, n_cells: int, *, seed: int) -> tuple[Tables, int]:
        """Return tables to compare a model with, at most so many with at most so many cells, and how many there are.

        They are those given, or the two-way ones of the records; a random part of them where they are more.
        """
        schema, order = self.schema, self.given_order
        n_pairs = math.comb(len(schema), 2)
        random = np.random.default_rng(seed)
        is_small = n_pairs <= n_tables and n_set_cells(schema.sizes, 2) <= n_cells
        if self.records is None or order in self._tables or is_small:
            tables = self.tables(order)
            return tables.sample(n_tables, n_cells, random), len(tables)
        variables: list[int] = []
        for variable in random.permutation(len(schema)).tolist():
            sizes = [schema.sizes[other] for other in (*variables, variable)]
            if math.comb(len(sizes), 2) > n_tables:
                break
            if n_set_cells(sizes, 2) <= n_cells:
                variables.append(variable)
        variables.sort()
        tables = Tables.count(self.records.sample(_MOST_COMPARED, seed=seed).narrowed(variables), threads=self.threads)
        return Tables(schema, np.array(variables)[tables.sets], tables.flat, tables.weights), n_pairs

    @cached_property
    def graph(self) -> PairGraph:
        """Which two-way tables there are."""
        return PairGraph.of(self.tables(2))

    @cached_property
    def pairs(self) -> PairMatrix:
        """The two-way tables as one matrix."""
        return PairMatrix.of(self.tables(2))

    @cached_property
    def sets(self) -> CellSets:
        """What is to be explained: the records, or the cells of the tables where there are none."""
        if self.records is None:
            return self.table_sets("counts", self.given_order)
        return CellSets.of_records(self.records, self.threads)

    @property
    def has_counts(self) -> bool:
        """Whether the numbers of records are known: tables may give shares."""
        if self.records is not None:
            return True
        tables = self.tables(self.given_order)
        # Tables of less than a record are shares, whatever they add up to.
        return not tables.lacks_totals and bool(tables.weights.max(initial=0.0) >= 1.0)

    @property
    def has_all_pairs(self) -> bool:
        """Whether every two variables were seen together: in a record, or in a table."""
        return self.records is not None or len(self.tables(2)) == math.comb(len(self.schema), 2)

    @property
    def bridges_all_pairs(self) -> bool:
        """Whether every two variables have a table, or several others that have tables with both."""
        if self.has_all_pairs:
            return True
        together = self.tables(2).together.astype(np.int64)
        bridges = together @ together
        is_open = ~self.tables(2).together
        np.fill_diagonal(is_open, val=False)
        return bool((bridges[is_open] >= _BRIDGES).all())

    @cached_property
    def is_in_tree(self) -> Bools:
        """Which two-way tables make the tree of largest mutual information."""
        return strongest_tree(self.tables(2), self._information)

    @cached_property
    def _information(self) -> Floats:
        return corrected_information(self.tables(2))

    def tree_sets(self, edges: Iterable[tuple[int, int]] | None = None) -> CellSets:
        """Return what a tree is fitted to: records and their two-way tables, or tables alone.

        The tables of its edges count most, by default those of the strongest tree; of very many, only the strongest
        count.
        """
        if self.records is None or len(self.schema) < 2 or len(self.tables(2)) == 0:
            return self.sets
        chosen = None if edges is None else frozenset(map(frozenset, edges))
        if chosen not in self._tree_sets:
            tables, is_tree = self.tables(2), self.is_in_tree
            if chosen is not None:
                is_tree = np.array([frozenset(pair) in chosen for pair in tables.sets.tolist()])
            times = np.where(is_tree, _IN_STRONG_TABLES, 0.0) + _IN_ALL_TABLES / (len(self.schema) - 1)
            is_strong = strongest_tables(tables, self._information, is_tree, _MOST_BESIDES)
            self._tree_sets[chosen] = self.sets.with_tables(tables, times * is_strong)
        return self._tree_sets[chosen]

    def sample(self, n_observed: int, *, seed: int) -> Records:
        """Return a part of the sets to be explained, in memory, that can be dealt out to folds.

        Variables of very many categories are left out, where there are others: how well an identifier is predicted
        would decide everything, and nothing that matters.
        """
        if self.records is not None:
            plain = np.array(self.schema.sizes) <= _MANY_CATEGORIES
            sample = self.records.sample(n_observed, seed=seed)
            return sample.showing(plain) if plain.any() and not plain.all() else sample
        cells = self.tables(self.given_order).as_records().canonical()
        # Counts are dealt out one by one; published shares of a total need not be whole ones.
        return cells if cells.weights is None else cells.reweighted(np.rint(cells.weights))

    def table_sets(self, pair_weights: PairWeights, order: int = 2) -> CellSets:
        """Return the cells of the two-way or three-way tables."""
        key = (pair_weights, order)
        if key not in self._table_sets:
            self._table_sets[key] = CellSets.of_tables(self.tables(order), pair_weights, self.threads)
        return self._table_sets[key]
