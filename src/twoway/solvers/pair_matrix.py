"""The two-way tables as one matrix of all pairs, and how far a model is from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Bools, Floats, Ints
from twoway.model.pmf import JointPMF
from twoway.schema import Schema
from twoway.tables.pair_graph import PairGraph
from twoway.tables.tables import Tables

T = TypeVar("T", bound=np.generic)


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
        shares[rows, columns] = shares[columns, rows] = tables.flat / np.repeat(tables.totals, np.diff(tables.starts))
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
