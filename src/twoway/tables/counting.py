"""Counts of all pairs or triples of variables that records show together, block by block."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoway.data.weighing import squares_of
from twoway.errors import DataError

if TYPE_CHECKING:
    from twoway.data.source import Block, RecordSource
    from twoway.schema import Schema

MAX_BYTES = 2**31
"""Counts larger than this, 2 GiB, are refused."""

_THREADED_ENTRIES = 2**21
"""Beyond this, blocks are counted one after the other: finished ones that wait to be added fill memory."""


class _Counts(NamedTuple):
    """What a block adds: the records that weigh one, and the weighted ones in whole steps of weight."""

    plain: NDArray[Any] | None
    weighted: NDArray[np.int64] | None
    squares: NDArray[np.int64] | None


class Counted(NamedTuple):
    """The counts of all sets of variables."""

    sets: NDArray[np.int32]
    """Positions of the variables, shape (n_sets, order), in lexicographic order."""
    flat: NDArray[np.float64]
    """Each set's counts in C order, one after the other, shape (n_entries,)."""
    squares: NDArray[np.float64] | None
    """The sum of the squared weights of the people in each set, (n_sets,); None where each of them weighs one."""


def count_sets(source: RecordSource, order: int, threads: int | None = None) -> Counted:
    """Return the counts of all sets of ``order`` variables.

    The counts do not depend on the order of the records, on blocks or on threads, to the byte.
    """
    schema = source.schema
    sets = all_sets(schema, order)
    n_entries = n_set_cells(schema.sizes, order)
    if not n_entries or not source.n_records:
        return Counted(sets, np.zeros(n_entries), None)
    from twoway.kernels import counting

    first, _ = counting.strips(schema.offsets, order)
    totals = source.weight_totals
    step, square_step = weight_step(totals.total), weight_step(totals.squares)
    count_squares = partial(_count_squares, schema=schema, order=order, step=square_step)
    per_block = partial(
        _count_block,
        order=order,
        first=first,
        n_entries=n_entries,
        step=step,
        count_squares=count_squares if totals.is_weighted else None,
    )
    counts = source.map_reduce(per_block, _add, threads=threads if n_entries <= _THREADED_ENTRIES else 1)
    flat = np.zeros(n_entries)
    if counts.plain is not None:
        flat += counting.unstrip(counts.plain, schema.offsets, order)
    if counts.weighted is not None:
        flat += counting.unstrip(counts.weighted, schema.offsets, order) * step
    squares = None
    if counts.squares is not None:
        # At least one step: where weights differ by many powers of ten, the squares of the least are rounded to none.
        squares = np.maximum(counts.squares, 1).astype(np.float64) * square_step
    return Counted(sets, flat, squares)


def all_sets(schema: Schema, order: int) -> NDArray[np.int32]:
    """Return all sets of ``order`` variables, or raise where their counts would not fit.

    Shape (n_sets, order), in lexicographic order.
    """
    if order not in (2, 3):
        raise DataError(f"order must be 2 (pairs) or 3 (triples); got {order!r}")
    n_entries = n_set_cells(schema.sizes, order)
    if n_entries * 8 > MAX_BYTES:
        raise DataError(
            f"all {('pairs', 'triples')[order - 2]} of these {len(schema)} variables with {schema.n_categories} "
            f"categories have {n_entries:,} cells, {n_entries * 8 / 2**30:.1f} GiB of counts; at most "
            f"{MAX_BYTES / 2**30:g} GiB are counted: leave variables out or merge categories"
        )
    return np.array(list(combinations(range(len(schema)), order)), dtype=np.int32).reshape(-1, order)


def weight_step(total: float) -> float:
    """Return the step in whole numbers of which weights are counted.

    It is a power of two, as fine as 63 bits allow: whole numbers add up to the same in any order. The odd factor keeps
    round totals away from where the step changes, because a total that was added up in another order may fall on the
    other side.
    """
    return float(2.0 ** (math.frexp(total * 1.2345)[1] - 61))


def n_set_cells(sizes: Sequence[int], order: int) -> int:
    """Return the number of cells of all pairs (or triples) of variables of these sizes.

    Examples
    --------
    >>> n_set_cells([2, 3, 4], 2), n_set_cells([2, 3, 4], 3)
    (26, 24)
    """
    # Newton's identities: sums of products from sums of powers, in Python's unbounded integers.
    one, two, three = sum(sizes), sum(size * size for size in sizes), sum(size * size * size for size in sizes)
    return (one**2 - two) // 2 if order == 2 else (one**3 - 3 * one * two + 2 * three) // 6


def _count_block(
    block: Block,
    *,
    order: int,
    first: NDArray[np.uint64],
    n_entries: int,
    step: float,
    count_squares: Callable[[Block], NDArray[np.int64]] | None,
) -> _Counts:
    from twoway.kernels import counting

    squares = None if count_squares is None else count_squares(block)
    kernel = counting.count_pairs if order == 2 else counting.count_triples
    if block.weights.size:
        weights = np.rint(block.weights / step).astype(np.int64)
        weighted = np.zeros(n_entries, dtype=np.int64)
        kernel(block.pointers, block.cells, weights, first, weighted)
        return _Counts(None, weighted, squares)
    # A block has fewer than 2³² records; half the memory is half the misses of the cache.
    plain = np.zeros(n_entries, dtype=np.uint32)
    kernel(block.pointers, block.cells, np.ones(1, dtype=np.uint32), first, plain)
    return _Counts(plain, None, squares)


def _count_squares(block: Block, *, schema: Schema, order: int, step: float) -> NDArray[np.int64]:
    """Return the sum of people's squared weights of each set of variables, (n_sets,), in whole steps."""
    from twoway.kernels import counting

    n_records, n_variables = len(block.pointers) - 1, len(schema)
    weights = block.weights if block.weights.size else np.ones(n_records)
    squares = np.rint((squares_of(weights, block.people) if block.people.size else weights) / step).astype(np.int64)
    # A record that shows all variables stands in every set.
    is_whole = np.diff(block.pointers) == n_variables
    sums = np.full(math.comb(n_variables, order), squares[is_whole].sum())
    if not is_whole.all():
        # As if every variable had one category; whole records were counted.
        first, _ = counting.strips(np.arange(n_variables + 1), order)
        begin, end = int(block.pointers[0]), int(block.pointers[-1])
        variable_of_cell = np.repeat(np.arange(n_variables), schema.sizes).astype(np.min_scalar_type(n_variables - 1))
        variables = variable_of_cell[block.cells[begin:end]]
        kernel = counting.count_pairs if order == 2 else counting.count_triples
        kernel(block.pointers - begin, variables, np.where(is_whole, 0, squares), first, sums)
    return sums


def _add(left: _Counts, right: _Counts) -> _Counts:
    return _Counts(
        _sum(left.plain, right.plain), _sum(left.weighted, right.weighted), _sum(left.squares, right.squares)
    )


def _sum(left: NDArray[Any] | None, right: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return the sum of two arrays of whole numbers; the first is added to in place once it is wide enough."""
    if left is None or right is None:
        return right if left is None else left
    wide = left.astype(np.int64, copy=False)
    wide += right
    return wide
