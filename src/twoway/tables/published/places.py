"""Which cell of a published table counts whom, in the finest categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, Ints
from twoway.tables.published.table import PublishedTable

if TYPE_CHECKING:
    from twoway.tables.published.tables import PublishedTables


class TablePlaces(NamedTuple):
    """The cell of a table for each combination of the finest categories of its variables and those of its universe."""

    variables: tuple[int, ...]
    """The positions of these variables, ascending."""
    cell_of: NDArray[np.int32]
    """The cell that counts each combination, an axis for each variable; -1 for none."""
    blocks: Ints | None
    """The group that each cell is in, from 0, where numbers are shares within groups; None for shares of all people."""

    @classmethod
    def of(cls, published: PublishedTables, table: PublishedTable) -> TablePlaces:
        """Return the cells of one of the published tables."""
        schema, universe = published.schema, published.universe(table.within)
        own = schema.indices(table.variables)
        positions = sorted({*own, *universe})
        cells, inside = np.zeros([1] * len(positions), dtype=np.int64), np.ones([1] * len(positions), dtype=bool)
        for axis, position in enumerate(positions):
            shape = [-1 if one == axis else 1 for one in range(len(positions))]
            place = np.full(schema.sizes[position], 0 if position not in own else -1)
            if position in own:
                for number, codes in enumerate(published.axis_codes(table, own.index(position))):
                    place[list(codes)] = number
                stride = int(np.prod(table.counts.shape[own.index(position) + 1 :]))
                cells = cells + place.reshape(shape) * stride
            if position in universe:
                place[~np.isin(np.arange(len(place)), universe[position])] = -1
            inside = inside & (place >= 0).reshape(shape)
        cell_of = np.where(inside, cells, -1).astype(np.int32)
        return cls(tuple(positions), cell_of, table_blocks(table, bool(universe)))

    def shares(self, joint: Floats, table: PublishedTable) -> Floats:
        """Return the table's shares by a joint of these variables; the sums of groups are those of the table."""
        cells = self.cell_of.ravel()
        inside = cells >= 0
        sums = np.bincount(cells[inside], joint.ravel()[inside], table.counts.size)
        return self.rescaled(sums, table.shares)

    def rescaled(self, numbers: NDArray[Any], shares: Floats) -> Floats:
        """Return the numbers of a table's cells as shares, with the sums of groups that other shares have."""
        have, wanted = self.sums_of_groups(numbers, shares)
        ratio = np.divide(wanted, have, out=np.zeros(have.size), where=have > 0)
        return np.asarray(numbers.ravel() * ratio, dtype=np.float64).reshape(shares.shape)

    def sums_of_groups(self, *numbers: NDArray[Any]) -> list[Floats]:
        """Return, for each cell of a table, the sum of numbers over its group; over the table where it has none."""
        blocks = np.zeros(numbers[0].size, dtype=np.int64) if self.blocks is None else self.blocks
        return [np.bincount(blocks, own.ravel())[blocks].astype(np.float64) for own in numbers]


def table_blocks(table: PublishedTable, is_part: bool) -> Ints | None:
    """Return the cells within which numbers are shares: each category of what is given, or all of the table."""
    if not table.given:
        return np.zeros(table.counts.size, dtype=np.int64) if is_part else None
    numbers = np.zeros([1] * table.counts.ndim, dtype=np.int64)
    for axis, name in enumerate(table.variables):
        if name in table.given:
            shape = [-1 if one == axis else 1 for one in range(table.counts.ndim)]
            size = table.counts.shape[axis]
            numbers = numbers * size + np.arange(size).reshape(shape)
    return np.broadcast_to(numbers, table.counts.shape).ravel()
