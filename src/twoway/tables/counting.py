"""Counting: all pairs or triples of variables that records have together, block by block."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, Ints
from twoway.data.weights import record_weights
from twoway.errors import DataError
from twoway.schema import Schema

if TYPE_CHECKING:
    from twoway.data.stored_records import Block, RecordSource

MAX_BYTES = 2**31
"""Counts larger than this, 2 GiB, are refused."""

_THREADED_ENTRIES = 2**21
"""With more entries, one thread counts: counts of finished blocks that wait to be added would fill memory."""
_MOST_BASES = 2**22
"""With more cells, the bases of each are not counted: that would take three times the memory."""


class CountedSets(NamedTuple):
    """Sets of variables, in lexicographic order, and what was counted of them."""

    sets: NDArray[np.int32]
    """(n_sets, order)"""
    flat: Floats
    """The counts of all sets one after the other, each in C order."""
    squares: Floats | None
    """The sum of people's squared weights of each set, (n_sets,); None where all weights are one."""
    bases: Floats | None
    """The people of each cell by head, and the sum of their squared weights, (2, n_cells); None where all weights are
    one, or where there are too many cells."""


def count_sets(source: RecordSource, order: int, threads: int | None = None) -> CountedSets:
    """Return how often records show the categories of every set of ``order`` variables together.

    The counts do not depend on the order of the records, on blocks or on threads, to the byte.
    """
    schema = source.schema
    sets = sets_to_count(schema, order)
    n_entries = count_cells(schema.sizes, order)
    if not n_entries or not source.n_records:
        return CountedSets(sets, np.zeros(n_entries), None, None)
    from twoway.kernels import counting

    first, _ = counting.counting_strips(schema.offsets, order)
    totals = source.weight_totals
    step, square_step = counting_step(totals.total), counting_step(totals.squares)
    square_steps = square_step if totals.is_weighted else None
    per_block = partial(_count_block, schema=schema, order=order, first=first, step=step, square_step=square_steps)
    counts = source.map_reduce(per_block, _add_counted_blocks, threads=threads if n_entries <= _THREADED_ENTRIES else 1)
    units = {"plain": 1.0, "weighted": step, "heads": 1.0, "square": square_step}
    cells = {
        name: counting.unstrip_counts(counts[name], schema.offsets, order) * unit
        for name, unit in units.items()
        if name in counts
    }
    flat = np.zeros(n_entries) + cells.get("plain", 0.0) + cells.get("weighted", 0.0)
    bases = np.stack([cells["heads"], cells["square"]]) if "heads" in cells else None
    squares = None
    if "squares" in counts:
        # At least one step: where weights differ by many powers of ten, the smallest squares are rounded to zero.
        squares = np.maximum(counts["squares"], 1).astype(np.float64) * square_step
    return CountedSets(sets, flat, squares, bases)


def count_singles(source: RecordSource, threads: int | None = None) -> Floats:
    """Return what the people with each category weigh, how many they are, and the sum of their squared weights.

    Shape (3, n_categories).
    """
    return source.map_reduce(partial(_count_block_singles, schema=source.schema), np.add, threads=threads)


def _count_block_singles(block: Block, *, schema: Schema) -> Floats:
    begin, end, n_shown = int(block.pointers[0]), int(block.pointers[-1]), np.diff(block.pointers)
    cells = block.cells[begin:end]
    numbers = (record_weights(block), block.n_people, block.squares)
    return np.array([np.bincount(cells, np.repeat(each, n_shown), schema.n_categories) for each in numbers])


def sets_to_count(schema: Schema, order: int) -> NDArray[np.int32]:
    """Return all sets of ``order`` variables, or raise where their counts would not fit.

    Shape (n_sets, order), in lexicographic order.
    """
    if order not in (2, 3):
        raise DataError(f"order must be 2 (pairs) or 3 (triples); got {order!r}")
    n_entries = count_cells(schema.sizes, order)
    if n_entries * 8 > MAX_BYTES:
        raise DataError(
            f"all {('pairs', 'triples')[order - 2]} of these {len(schema)} variables with {schema.n_categories} "
            f"categories have {n_entries:,} cells, {n_entries * 8 / 2**30:.1f} GiB of counts; at most "
            f"{MAX_BYTES / 2**30:g} GiB are allowed: leave out variables or merge categories"
        )
    if order == 2:
        return np.column_stack(np.triu_indices(len(schema), 1)).astype(np.int32)
    return np.array(list(combinations(range(len(schema)), order)), dtype=np.int32).reshape(-1, order)


def counting_step(total: float) -> float:
    """Return the step in whole numbers of which weights are counted.

    It is a power of two, as fine as 63 bits allow: whole numbers add up to the same in any order. The odd factor keeps
    round totals away from where the step changes, because a total that was added up in another order may fall on the
    other side.
    """
    return float(2.0 ** (math.frexp(total * 1.2345)[1] - 61))


def count_cells(sizes: Sequence[int], order: int) -> int:
    """Return the number of cells of all pairs (or triples) of variables of these sizes.

    Examples
    --------
    >>> count_cells([2, 3, 4], 2), count_cells([2, 3, 4], 3)
    (26, 24)
    """
    # Newton's identities: sums of products from sums of powers, in Python's unbounded integers.
    sums, squares, cubes = sum(sizes), sum(size * size for size in sizes), sum(size * size * size for size in sizes)
    return (sums**2 - squares) // 2 if order == 2 else (sums**3 - 3 * sums * squares + 2 * cubes) // 6


def _count_block(
    block: Block, *, schema: Schema, order: int, first: NDArray[np.uint64], step: float, square_step: float | None
) -> dict[str, NDArray[Any]]:
    """Return what a block adds: records of weight one, or weighted ones in whole steps; and squared weights."""
    from twoway.kernels import counting

    n_cells = count_cells(schema.sizes, order)
    if block.weights is not None:
        numbers = {"weighted": np.rint(block.weights / step).astype(np.int64)}
    else:
        # A block has fewer than 2³² records; half the memory is half the misses of the cache.
        numbers = {"plain": np.ones(1, dtype=np.uint32)}
    counts: dict[str, NDArray[Any]] = {}
    if square_step is not None:
        squares = np.rint(block.squares / square_step).astype(np.int64)
        counts["squares"] = _count_squares(block, squares, schema, order)
        if n_cells <= _MOST_BASES:
            numbers |= {"heads": np.rint(block.n_people).astype(np.int64), "square": squares}
    kernel = counting.count_pairs if order == 2 else counting.count_triples
    for name, each in numbers.items():
        counts[name] = np.zeros(n_cells, dtype=each.dtype)
        kernel(block.pointers, block.cells, each, first, counts[name])
    return counts


def _count_squares(block: Block, squares: Ints, schema: Schema, order: int) -> Ints:
    """Return the sum of people's squared weights of each set of variables, (n_sets,), in whole steps."""
    from twoway.kernels import counting

    n_variables = len(schema)
    # A record without missing cells is in every set.
    is_whole = np.diff(block.pointers) == n_variables
    sums = np.full(math.comb(n_variables, order), squares[is_whole].sum())
    if not is_whole.all():
        # As if every variable had one category; records without missing cells are counted already.
        first, _ = counting.counting_strips(np.arange(n_variables + 1), order)
        begin, end = int(block.pointers[0]), int(block.pointers[-1])
        variable_of_cell = np.repeat(np.arange(n_variables), schema.sizes).astype(np.min_scalar_type(n_variables - 1))
        variables = variable_of_cell[block.cells[begin:end]]
        kernel = counting.count_pairs if order == 2 else counting.count_triples
        kernel(block.pointers - begin, variables, np.where(is_whole, 0, squares), first, sums)
    return sums


def _add_counted_blocks(left: Mapping[str, NDArray[Any]], right: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the sums of arrays of whole numbers; those on the left are added to in place once they are wide enough."""
    sums = dict(right)
    for name, array in left.items():
        sums[name] = array
        if name in right:
            sums[name] = array.astype(np.int64, copy=False)
            sums[name] += right[name]
    return sums
