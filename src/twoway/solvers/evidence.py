"""The evidence that solvers fit: records or tables, as sets of cells and as one matrix of all pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Bools, Floats, Ints
from twoway.data.records import Records
from twoway.data.stored_records import RecordSource
from twoway.errors import DataError
from twoway.model.pmf import JointPMF
from twoway.schema import Schema
from twoway.solvers.cell_sets import CellSets, PairWeights
from twoway.tables.counting import count_cells
from twoway.tables.dependence import most_dependent_tables, most_dependent_tree, table_dependence
from twoway.tables.pair_graph import PairGraph
from twoway.tables.tables import Tables
from twoway.text import shortlist

# How often an answer counts in its two-way tables besides, where it counts once in its record: in all of its tables
# together, and in each table of the strongest tree. Held-out records and cross-tabs are fitted best with about as much.
_IN_ALL_TABLES, _IN_STRONG_TABLES = 8.0, 12.0
# Cells of the two-way tables that count besides the records', at most; the strongest tables where there are more.
_MOST_BESIDES = 200_000
# How many variables need tables with both of two others to show how these depend on each other.
_BRIDGES = 3
_MANY_CATEGORIES = 100
# Observed cells of the records that a model of very many tables is compared with.
_MOST_COMPARED = 10**7

T = TypeVar("T", bound=np.generic)


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
                raise DataError(f"this solver needs {order}-way tables or records, but only {known} tables were given")
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
        """Return up to ``n_tables`` tables of up to ``n_cells`` cells to compare a model with, and how many there are.

        They are those given, or the two-way tables of the records; a random part of them where there are more.
        """
        schema, order = self.schema, self.given_order
        n_pairs = math.comb(len(schema), 2)
        random = np.random.default_rng(seed)
        is_small = n_pairs <= n_tables and count_cells(schema.sizes, 2) <= n_cells
        if self.records is None or order in self._tables or is_small:
            tables = self.tables(order)
            return tables.sample(n_tables, n_cells, random), len(tables)
        variables: list[int] = []
        for variable in random.permutation(len(schema)).tolist():
            sizes = [schema.sizes[other] for other in (*variables, variable)]
            if math.comb(len(sizes), 2) > n_tables:
                break
            if count_cells(sizes, 2) <= n_cells:
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
        together = self.tables(2).together
        n_bridges = together.astype(np.int64) @ together
        return bool((together | (n_bridges >= _BRIDGES) | np.eye(len(together), dtype=bool)).all())

    @cached_property
    def is_in_tree(self) -> Bools:
        """Which two-way tables make the tree of largest mutual information."""
        return most_dependent_tree(self.tables(2), self._information)

    @cached_property
    def _information(self) -> Floats:
        return table_dependence(self.tables(2))

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
            is_strong = most_dependent_tables(tables, self._information, is_tree, _MOST_BESIDES)
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


@dataclass(frozen=True)
class PairMatrix:
    """Shares of every available pair, (n_categories, n_categories) and symmetric; zero where no table is."""

    schema: Schema
    shares: Floats
    """Each table sums to one, in both of its places."""
    weights: Floats
    """(n_variables, n_variables): the records that each table rests on; 0 where there is none."""

    @classmethod
    def of(cls, tables: Tables) -> PairMatrix:
        """Return the matrix of some two-way tables."""
        schema = tables.schema
        shares = np.zeros((schema.n_categories, schema.n_categories))
        rows, columns = tables.cells(np.arange(len(tables.flat))).T
        shares[rows, columns] = shares[columns, rows] = tables.shares
        weights = np.zeros((len(schema), len(schema)))
        first, second = tables.sets.T
        weights[first, second] = weights[second, first] = tables.weights
        return cls(schema, shares, weights)

    @property
    def n_tables(self) -> int:
        """The number of tables."""
        return int(np.count_nonzero(self.weights) // 2)

    def model(self, pmf: JointPMF) -> Floats:
        """Return the model's share of every pair of cells, (n_categories, n_categories)."""
        return (pmf.stacked * pmf.weights) @ pmf.stacked.T

    def divergence(self, pmf: JointPMF) -> float:
        """Return the mean Kullback-Leibler divergence of the model from the tables, in nats per pair."""
        seen = self.shares > 0
        with np.errstate(divide="ignore"):
            logs = np.log(self.shares[seen]) - np.log(self.model(pmf)[seen])
        return float((self.shares[seen] * logs).sum()) / (2 * self.n_tables)

    def carries(self, split: Bools, rank: int) -> bool:
        """Return whether a split has every table between its groups, and at least rank categories on each side."""
        sizes = np.array(self.schema.sizes)
        enough = min(sizes[split].sum(), sizes[~split].sum()) >= rank
        return bool(enough and (self.weights[np.ix_(split, ~split)] > 0).all())

    @cached_property
    def inseparable(self) -> list[Ints]:
        """Groups of variables that no split with all its tables can part."""
        return PairGraph(self.weights > 0, self.schema.sizes).inseparable()

    def can_carry(self, rank: int) -> bool:
        """Return whether any split has every table between its groups, and rank categories on each side."""
        sizes = [sum(self.schema.sizes[index] for index in group) for group in self.inseparable]
        reachable = 1  # bit s is set where some groups have s categories together
        for size in sizes:
            reachable |= reachable << size
        return any(reachable >> size & 1 for size in range(rank, sum(sizes) - rank + 1))

    @staticmethod
    def spread_over_cells(of_pairs: NDArray[T], sizes: Sequence[int] | Ints) -> NDArray[T]:
        """Return what belongs to pairs of variables, for each pair of their categories."""
        return np.repeat(np.repeat(of_pairs, sizes, axis=0), sizes, axis=1)
