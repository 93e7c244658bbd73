"""Published tables of other samples of people, and the models that are fitted to them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.errors import DataError
from twoway.model.pmf import JointPMF
from twoway.report import StopReason
from twoway.solvers.table_sums import fit_table_sums
from twoway.solvers.watch import Watch
from twoway.tables.published.places import TablePlaces
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables

# More simulated people are not needed; the effect of chance is scaled to the number of people.
_MOST_SIMULATED = 100_000
_LEAST_PART = 1e-9
REPLICATE_PASSES = 500
"""Replicates start at the model and converge soon."""


@dataclass(frozen=True)
class PublishedResampling:
    """Publishes the same tables again, counted on people drawn from the model.

    The errors of tables that count the same people are dependent. Of ``n_people`` in all, each table counts as many as
    it did, chosen at random; infinitely many means that no two tables share a person. Tables that must hold exactly
    stay as they are.
    """

    published: PublishedTables
    pmf: JointPMF
    n_people: float

    @classmethod
    def of(cls, published: PublishedTables, pmf: JointPMF, n_records: float | None) -> PublishedResampling:
        """Return how to draw tables of a model; by default, all tables count the same people."""
        if difference := pmf.schema.difference(published.schema):
            raise DataError(f"the tables and the model have different variables: {difference}")
        people = [table.weight / cls._part_of_all(published, pmf, table) for table in published.tables]
        return cls(published, pmf, max(*people, 0.0 if n_records is None else n_records))

    @cached_property
    def _modelled(self) -> list[tuple[TablePlaces, Floats]]:
        """The cells of each table, and the shares that the model expects there."""
        places = [TablePlaces.of(self.published, table) for table in self.published.tables]
        tables = zip(places, self.published.tables, strict=True)
        trees = self.pmf.trees
        return [(cells, cells.shares(trees.of_variables(cells.variables).joint(), table)) for cells, table in tables]

    def refit(self, seed: int, number: int, watch: Watch) -> tuple[JointPMF, StopReason]:
        """Return the model of another sample of people, and why its fit ended."""
        drawn = self.draw(seed, number)
        # What must hold exactly is known: no sample changes it.
        margins = self.published.exact_margins
        descent = fit_table_sums(drawn, self.pmf, watch, 1, margins=margins, passes=REPLICATE_PASSES, quiet_cycles=3)
        return descent.pmf, descent.stop_reason

    def draw(self, seed: int, number: int) -> PublishedTables:
        """Return the tables that another sample of people would have made."""
        random = np.random.default_rng([seed, number])
        people = None
        if math.isfinite(self.n_people):
            n = round(min(max(self.n_people, 1.0), _MOST_SIMULATED))
            people = np.array(self.pmf.trees.draw(n, random), dtype=np.int64)
        tables = [
            table
            if self.published.is_exact(table)
            else self._published_again(table, shares, self._drawn(table, places, shares, people, random))
            for table, (places, shares) in zip(self.published.tables, self._modelled, strict=True)
        ]
        return replace(self.published, tables=tuple(tables))

    def _drawn(
        self,
        table: PublishedTable,
        places: TablePlaces,
        shares: Floats,
        people: Ints | None,
        random: np.random.Generator,
    ) -> Floats:
        """Return a table's shares among people who were drawn."""
        if people is None:
            n = max(1, round(min(table.weight, 1e15)))
            return places.rescaled(random.multinomial(n, shares.ravel() / shares.sum()), shares)
        cells = places.cell_of[tuple(people[position] for position in places.variables)]
        cells = cells[cells >= 0]
        expected = self.n_people * cells.size / people.shape[1]
        if table.weight < expected:
            cells = cells[random.random(cells.size) < table.weight / expected]
        if not cells.size:
            return shares
        counts = np.bincount(cells, minlength=table.counts.size)
        people_of, shares_of = places.sums_of_groups(counts, shares)
        # Chance grows with the root of the number of people: scale it from those simulated to those counted.
        scale = np.sqrt(people_of / np.maximum(table.weight * shares_of, 1.0)).reshape(shares.shape)
        drawn = np.maximum(shares + scale * (places.rescaled(counts, shares) - shares), 0.0)
        return np.asarray(drawn / drawn.sum())

    @staticmethod
    def _part_of_all(published: PublishedTables, pmf: JointPMF, table: PublishedTable) -> float:
        """Return the share of all people that a table is about."""
        universe = {position: np.array(codes) for position, codes in published.universe(table.within).items()}
        return max(float(np.exp(pmf.trees.log_probability(universe))), _LEAST_PART)

    @staticmethod
    def _published_again(table: PublishedTable, expected: Floats, drawn: Floats) -> PublishedTable:
        """Return a table with other numbers, published in the same way: bounds are as far apart as they were."""
        people = float(table.counts.sum())
        counts, change = drawn * people, np.rint((drawn - expected) * people)
        is_known = table.low == table.high
        low = np.where(is_known, counts, np.where(table.low > 0, np.maximum(table.low + change, 0.0), 0.0))
        high = np.where(is_known, counts, np.maximum(table.high + change, low))
        axes = range(counts.ndim)
        totals = {key: counts.sum(axis=tuple(axis for axis in axes if axis not in key)) for key in table.totals}
        return replace(table, counts=counts, low=low, high=high, totals=totals)
