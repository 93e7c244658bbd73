"""Counts of many tables one after the other in one array: where each starts, its total, and tables put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Array, Bools, Floats, Ints
from twoway.data.weights import effective_weights
from twoway.errors import DataError
from twoway.schema import Schema

Entry = tuple[Sequence[int], Floats, float]
"""Positions of variables, counts with an axis for each, and the effective number of records."""

NO_TOTAL = "no total; counted as"
"""In a note about tables whose number of records is assumed."""
NOMINAL_TOTAL = 1000.0
"""The number of records of a table where no table gives its own."""


def flat_starts(schema: Schema, sets: NDArray[Any]) -> Ints:
    """Return where the counts of each set of variables start, and the end of the last; shape (n_sets + 1,).

    Examples
    --------
    >>> from twoway.schema import Variable
    >>> schema = Schema((Variable("a", (0, 1)), Variable("b", (0, 1, 2)), Variable("c", (0, 1))))
    >>> flat_starts(schema, np.array([[0, 1], [0, 2], [1, 2]]))
    array([ 0,  6, 10, 16])
    """
    lengths = np.array(schema.sizes, dtype=np.int64)[sets].prod(axis=1)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def flat_totals(flat: Floats, starts: Ints) -> Floats:
    """Return the sum of each table's counts, shape (n_tables,)."""
    return np.asarray(np.add.reduceat(flat, starts[:-1]) if len(starts) > 1 else np.zeros(0))


def checked_sets(schema: Schema, what: str, given: Any, orders: Sequence[int] = (2, 3)) -> NDArray[np.int32]:
    """Return sets of variables as an array, or raise where they are not positions that ascend within a row."""
    sets = np.array(given)
    if sets.size and sets.dtype.kind not in "iu":
        raise DataError(f"{what} must be positions of variables, in whole numbers; got {sets.dtype}")
    if sets.ndim != 2 or sets.shape[1] not in orders:
        allowed = " or ".join(f"(n_tables, {order})" for order in orders)
        raise DataError(f"{what} must have the shape {allowed}; got {sets.shape}")
    most = len(schema) - 1
    if sets.size and not (sets.min() >= 0 and sets.max() <= most):
        low, high = sets.min(), sets.max()
        raise DataError(f"{what} must be positions of variables, from 0 to {most}; got {low} to {high}")
    # Only now: a number too large for the type would become another position.
    sets = sets.astype(np.int32)
    if (np.diff(sets, axis=1) <= 0).any():
        raise DataError(f"{what} must ascend within a row")
    # No number that a file may claim overflows.
    if not np.array(schema.sizes, dtype=np.float64)[sets].prod(axis=1).sum() < 2.0**62:
        raise DataError("the tables have more cells than can be counted")
    return sets


class FlatCounts:
    """Counts of sets of variables, one table after the other: what `Tables` and the counts of a model share."""

    schema: Schema
    sets: NDArray[Any]
    flat: NDArray[Any]

    @cached_property
    def starts(self) -> Ints:
        """Where each table's counts start in ``flat``, and the end of the last; shape (n_tables + 1,)."""
        return flat_starts(self.schema, self.sets)

    @cached_property
    def totals(self) -> Floats:
        """The sum of each table's counts, shape (n_tables,)."""
        return flat_totals(self.flat.astype(np.float64, copy=False), self.starts)

    @property
    def order(self) -> int:
        """The number of variables of each table: 2 or 3."""
        return int(self.sets.shape[1])

    @cached_property
    def together(self) -> Bools:
        """Which pairs of variables some table has, shape (n_variables, n_variables)."""
        together = np.zeros((len(self.schema), len(self.schema)), dtype=bool)
        for first, second in permutations(range(self.order), 2):
            together[self.sets[:, first], self.sets[:, second]] = True
        return together

    def holding(self, positions: Sequence[int]) -> Ints:
        """Return which tables have all variables at some positions."""
        return np.flatnonzero(np.isin(self.sets, positions).sum(axis=1) == len(positions))

    def per_cell(self, numbers: Array) -> Array:
        """Return a number of each table for each of its cells, shape (n_cells,)."""
        return np.repeat(numbers, np.diff(self.starts))

    @property
    def table_of_cell(self) -> Ints:
        """The position of each cell's table, shape (n_cells,)."""
        return self.per_cell(np.arange(len(self.sets)))

    @property
    def shares(self) -> Floats:
        """The share of each cell in its table, shape (n_cells,)."""
        return np.asarray(self.flat / self.per_cell(self.totals))


def are_flat_shares(flat: Floats, starts: Ints) -> Bools:
    """Return which tables have shares or percentages, not counts: numbers with fractions that add up to 1 or 100.

    Examples
    --------
    >>> are_flat_shares(np.array([0.25, 0.75, 12.5, 87.5, 1.0, 0.0, 40.0, 60.0]), np.array([0, 2, 4, 6, 8]))
    array([ True,  True, False, False])
    """
    totals = flat_totals(flat, starts)
    has_fractions = flat_totals((flat != np.rint(flat)).astype(np.float64), starts) > 0
    # Rounded ones may miss it by a little.
    return np.asarray(has_fractions & (np.abs(totals - np.where(totals < 50.0, 1.0, 100.0)) <= 0.01 * totals))


def flat_ranks(schema: Schema, sets: NDArray[Any]) -> Ints:
    """Return one number for each set; the numbers sort as the sets do."""
    return np.asarray(sets.astype(np.int64) @ (len(schema) ** np.arange(sets.shape[1])[::-1]))


def flat_entries(order: int, entries: Iterable[Entry]) -> tuple[NDArray[np.int32], Floats, Floats]:
    """Return sets, counts and weights of entries in any order, as `Tables` has them; the same set twice is added."""
    merged: dict[tuple[int, ...], tuple[Floats, float]] = {}
    for positions, counts, weight in entries:
        axes = np.argsort(positions)
        key = tuple(int(positions[axis]) for axis in axes)
        counts = counts.transpose(axes)
        if key in merged:
            before, weight_before = merged[key]
            totals = np.array([before.sum(), counts.sum()])
            # The effective number is (Σw)² / Σw², so that (Σw)² over it is Σw².
            squares = effective_weights(totals, np.array([weight_before, weight]))
            weight = float(effective_weights(totals.sum(keepdims=True), squares.sum(keepdims=True))[0])
            counts = before + counts
        merged[key] = counts, weight
    keys = sorted(merged)
    sets = np.array(keys, dtype=np.int32).reshape(-1, order)
    flat = np.concatenate([np.zeros(0), *(merged[key][0].ravel() for key in keys)])
    return sets, flat, np.array([merged[key][1] for key in keys])
