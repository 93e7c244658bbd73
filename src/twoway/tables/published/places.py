"""Which cell of a published table counts whom, in the finest categories."""

from __future__ import annotations

import math
from functools import reduce
from operator import and_
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
        parts = []  # what each category adds to the number of the cell, -1 for outside of the table
        for position in positions:
            part = np.full(schema.sizes[position], -1)
            if position in own:
                axis = own.index(position)
                for number, codes in enumerate(published.axis_codes(table, axis)):
                    part[list(codes)] = number * math.prod(table.counts.shape[axis + 1 :])
            else:
                part[list(universe[position])] = 0
            parts.append(part)
        crossed = np.ix_(*parts)
        inside = reduce(and_, (part >= 0 for part in crossed))
        cell_of = np.where(inside, sum(crossed), -1).astype(np.int32)
        return cls(tuple(positions), cell_of, cls.blocks_of(table, bool(universe)))

    @staticmethod
    def blocks_of(table: PublishedTable, is_part: bool) -> Ints | None:
        """Return the cells within which numbers are shares: each category of what is given, or all of the table."""
        if not table.given:
            return np.zeros(table.counts.size, dtype=np.int64) if is_part else None
        shape = table.counts.shape
        of_given = [size if name in table.given else 1 for name, size in zip(table.variables, shape, strict=True)]
        return np.broadcast_to(np.arange(math.prod(of_given)).reshape(of_given), shape).ravel()

    def shares(self, joint: Floats, table: PublishedTable) -> Floats:
        """Return the table's shares by a joint of these variables; the sums of groups are those of the table."""
        cells = self.cell_of.ravel()
        inside = cells >= 0
        sums = np.bincount(cells[inside], joint.ravel()[inside], table.counts.size)
        return self.rescaled(sums, table.shares)

    def rescaled(self, numbers: NDArray[Any], shares: Floats) -> Floats:
        """Return the numbers of a table's cells as shares, with the sums of groups that other shares have."""
        have, wanted = sums_of_groups(self.blocks, numbers, shares)
        ratio = np.divide(wanted, have, out=np.zeros(have.size), where=have > 0)
        return np.asarray(numbers.ravel() * ratio, dtype=np.float64).reshape(shares.shape)


def sums_of_groups(blocks: Ints | None, *numbers: NDArray[Any]) -> list[Floats]:
    """Return, for each cell of a table, the sum of numbers over its group; over the table where there are none."""
    groups = np.zeros(numbers[0].size, dtype=np.int64) if blocks is None else blocks
    return [np.bincount(groups, own.ravel())[groups].astype(np.float64) for own in numbers]
