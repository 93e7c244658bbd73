"""Cells of published tables as records, and the rows of θ that sets of several categories have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twoway.arrays import Floats, Ints, times_log
from twoway.data.records import Records
from twoway.solvers.theta import Theta
from twoway.tables.published.pairs import Codes
from twoway.tables.published.table import PublishedMean, PublishedTable
from twoway.tables.published.tables import PublishedTables

if TYPE_CHECKING:
    from twoway.kernels.trees import TreeRows

_LEAST = 1e-300


class GroupRows(NamedTuple):
    """Sets of categories as rows of θ below all others."""

    members: Ints
    """The cells of all sets, one after the other."""
    starts: Ints
    """Where each set begins among them."""
    firsts: Ints
    """The first cell of each set's variable."""

    def extended(self, theta: Theta, rows: TreeRows | None, n_cells: int) -> tuple[Theta, TreeRows | None]:
        """Return θ with the sums of all sets below, and the tree with their hidden variables."""
        if not self.starts.size:
            return theta, rows
        sums = np.add.reduceat(theta[len(theta) - n_cells + self.members], self.starts)
        homes = None if rows is None else rows._replace(homes=np.concatenate([rows.homes, rows.homes[self.firsts]]))
        return np.vstack([theta, sums]), homes

    def dealt_out(self, counts: Theta, extended: Theta, n_cells: int) -> Theta:
        """Return counts of θ's own rows, with those of the sets dealt out to their members."""
        if not self.starts.size:
            return counts
        n_rows = len(counts) - self.starts.size
        sums = extended[n_rows:]
        ratios = np.divide(counts[n_rows:], sums, out=np.zeros_like(sums), where=sums > _LEAST)
        lengths = np.diff([*self.starts, self.members.size])
        places = n_rows - n_cells + self.members
        own = counts[:n_rows].copy()
        np.add.at(own, places, extended[places] * np.repeat(ratios, lengths, axis=0))
        return own


class Slice(NamedTuple):
    """Cells that share out people of a universe among them; nothing is said of how many are outside of it."""

    cells: Ints
    outside: Ints
    """Cells that together make up all that is outside of the universe."""


class OpenCells(NamedTuple):
    """Cells whose counts are not known, or known by bounds."""

    cells: Ints
    low: Floats
    high: Floats
    people: float
    """What the counts of the table they are in add up to."""
    unit: float
    """How much one person weighs."""
    total: float
    """What the cells add up to; NaN where that is not known."""


class MeanCells(NamedTuple):
    """The cells of a variable with a published mean."""

    cells: Ints
    values: Floats
    mean: float
    weight: float
    outside: Ints
    """Cells that make up all that is outside of its universe; empty for all people."""


class TableCells:
    """The cells of tables as records, collected table by table."""

    def __init__(self, published: PublishedTables) -> None:
        self.published = published
        self.schema = published.schema
        # The number of each set of several categories, by the position of its variable and their codes.
        self._groups: dict[tuple[int, Codes], int] = {}
        self.records: list[list[int]] = []
        self.weights: list[float] = []
        self.slices: list[Slice] = []
        self.open_cells: list[OpenCells] = []
        self.means: list[MeanCells] = []
        self.copies = np.zeros(len(self.schema))
        self.total_copies = 0.0
        self.total_weight = 0.0
        self.entropy = 0.0

    def add_table(self, table: PublishedTable, boost: float) -> None:
        """Add a table that counts so many times."""
        positions = self.schema.indices(table.variables)
        codes = [self.published.axis_codes(table, axis) for axis in range(len(positions))]
        universe = self.published.universe(table.within)
        people = float(table.counts.sum())
        unit = boost * table.weight / people
        first = len(self.records)
        besides = {variable: own for variable, own in universe.items() if variable not in positions}
        is_known = table.low == table.high
        for index in np.ndindex(table.counts.shape):
            sets = {position: own[place] for position, own, place in zip(positions, codes, index, strict=True)}
            self._add({**sets, **besides}, unit * float(table.counts[index]) * bool(is_known[index]))
        numbers = first + np.arange(table.counts.size).reshape(table.counts.shape)
        for cells, total in self._open_parts(table):
            bounds = table.low[cells], table.high[cells]
            self.open_cells.append(OpenCells(numbers[cells], *bounds, people, unit, total))
        self._add_slices(table, numbers, positions, codes, universe)
        self.copies[positions] += 1.0
        self.total_copies += 1.0
        self.total_weight += boost * table.weight
        shares = table.shares
        self.entropy += boost * table.weight * float(times_log(shares, shares).sum())

    def add_mean(self, mean: PublishedMean) -> None:
        """Add a published mean."""
        position, universe = self.schema.index(mean.variable), self.published.universe(mean.within)
        allowed = universe.get(position, tuple(range(self.schema.sizes[position])))
        first = len(self.records)
        for code in allowed:
            self._add({**universe, position: (code,)}, 0.0)
        cells = np.arange(first, len(self.records))
        values = np.array(self.schema.variables[position].values, dtype=np.float64)[list(allowed)]
        self.means.append(MeanCells(cells, values, mean.mean, mean.people, self._add_outside(universe)))

    def records_of_cells(self, groups: GroupRows) -> Records:
        """Return all cells as records."""
        pointers = np.cumsum([0, *map(len, self.records)]).astype(np.int64)
        flat = np.array([row for record in self.records for row in record], dtype=np.int64)
        cells = flat.astype(np.min_scalar_type(max(self.schema.n_categories + len(groups.starts) - 1, 1)))
        return Records.from_cells(self.schema, pointers, cells, np.array(self.weights))

    def group_rows(self) -> GroupRows:
        """Return the rows of the sets of several categories."""
        members = [self.schema.offsets[variable] + np.array(codes) for variable, codes in self._groups]
        variables = np.array([variable for variable, _ in self._groups], dtype=np.int64)
        flat = np.concatenate([np.zeros(0, dtype=np.int64), *members])
        return GroupRows(flat, np.cumsum([0, *map(len, members)])[:-1], self.schema.offsets[variables])

    @property
    def negative_entropy(self) -> float:
        """The mean over people of Σ x log x of the tables that they are in."""
        return self.entropy / max(self.total_weight, _LEAST)

    def _row(self, variable: int, codes: Codes) -> int:
        """Return the row of a set of categories, below all single ones where it has several; -1 for all of them."""
        if len(codes) == self.schema.sizes[variable]:
            return -1
        if len(codes) == 1:
            return int(self.schema.offsets[variable]) + codes[0]
        return self.schema.n_categories + self._groups.setdefault((variable, codes), len(self._groups))

    def _add(self, sets: Mapping[int, Codes], weight: float) -> int:
        rows = sorted(self._row(variable, codes) for variable, codes in sets.items())
        self.records.append([row for row in rows if row >= 0])
        self.weights.append(weight)
        return len(self.records) - 1

    def _add_outside(self, universe: Mapping[int, Codes]) -> Ints:
        """Add cells that make up all that is outside of a universe: outside in one variable, inside in those before."""
        numbers: list[int] = []
        inside: dict[int, Codes] = {}
        for variable, codes in universe.items():
            others = tuple(code for code in range(self.schema.sizes[variable]) if code not in codes)
            numbers.append(self._add({**inside, variable: others}, 0.0))
            inside[variable] = codes
        return np.array(numbers, dtype=np.int64)

    def _add_slices(
        self,
        table: PublishedTable,
        numbers: Ints,
        positions: Sequence[int],
        codes: Sequence[Sequence[Codes]],
        universe: Mapping[int, Codes],
    ) -> None:
        """Add the universe of a table, or one for each category that its percentages are given."""
        axes = [table.variables.index(name) for name in table.given]
        for index in product(*(range(table.counts.shape[axis]) for axis in axes)):
            chosen: list[int | slice] = [slice(None)] * table.counts.ndim
            own = dict(universe)
            for axis, place in zip(axes, index, strict=True):
                chosen[axis] = place
                own[positions[axis]] = codes[axis][place]
            if own:
                self.slices.append(Slice(np.ravel(numbers[tuple(chosen)]), self._add_outside(own)))

    @staticmethod
    def _open_parts(table: PublishedTable) -> Iterator[tuple[tuple[Ints, ...], float]]:
        """Yield the open cells of a table, and what published totals leave for them together; NaN without totals."""
        is_open = table.low != table.high
        if not is_open.any():
            return
        totals = max(table.totals, key=len, default=None)
        # Rounded cells are all open, and their totals tell nothing more.
        if totals is None or is_open.all():
            yield np.nonzero(is_open), np.nan
            return
        for index in np.ndindex(table.totals[totals].shape):
            chosen: list[int | slice] = [slice(None)] * is_open.ndim
            for axis, place in zip(totals, index, strict=True):
                chosen[axis] = slice(place, place + 1)
            part = np.zeros_like(is_open)
            part[tuple(chosen)] = is_open[tuple(chosen)]
            if part.any():
                known = table.counts[tuple(chosen)][~is_open[tuple(chosen)]].sum()
                left = float(table.totals[totals][index]) - float(known)
                yield np.nonzero(part), left if left >= 0 else np.nan
