"""Counts of all pairs or triples of variables that records show together, block by block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoway.errors import DataError

if TYPE_CHECKING:
    from twoway.records import Block, RecordSource
    from twoway.schema import Schema

MAX_BYTES = 2**31
"""Counts larger than this, 2 GiB, are refused."""

_THREADED_ENTRIES = 2**21
"""Beyond this, blocks are counted one after the other: finished ones that wait to be added fill memory."""


class _Counts(NamedTuple):
    """What a block adds: the records that weigh one, and the weighted ones in whole steps of weight."""

    plain: NDArray[Any] | None
    weighted: NDArray[np.int64] | None


def count_sets(
    source: RecordSource, order: int, threads: int | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return all sets of ``order`` variables, and the counts of each set one after the other.

    The counts do not depend on the order of the records, on blocks or on threads, to the byte.

    Returns
    -------
    sets
        Positions of the variables, shape (n_sets, order), in lexicographic order.
    flat
        Each set's counts in C order, shape (n_entries,).
    """
    schema = source.schema
    sets = all_sets(schema, order)
    n_entries = n_set_cells(schema.sizes, order)
    if not n_entries or not source.n_records:
        return sets, np.zeros(n_entries)
    from twoway.kernels import counting

    first, _ = counting.strips(schema.offsets, order)
    step = weight_step(source.total_weight)
    per_block = partial(_count_block, order=order, first=first, n_entries=n_entries, step=step)
    counts = source.map_reduce(per_block, _add, threads=threads if n_entries <= _THREADED_ENTRIES else 1)
    flat = np.zeros(n_entries)
    if counts.plain is not None:
        flat += counting.unstrip(counts.plain, schema.offsets, order)
    if counts.weighted is not None:
        flat += counting.unstrip(counts.weighted, schema.offsets, order) * step
    return sets, flat


def all_sets(schema: Schema, order: int) -> NDArray[np.int32]:
    """Return all sets of ``order`` variables, or raise where their counts would not fit.

    Shape (n_sets, order), in lexicographic order.
    """
    if order not in (2, 3):
        raise DataError(f"order must be 2 (pairs) or 3 (triples); got {order!r}")
    n_entries = n_set_cells(schema.sizes, order)
    if n_entries * 8 > MAX_BYTES:
        raise DataError(
            f"all {('pairs', 'triples')[order - 2]} of these {len(schema)} variables with {schema.n_cells} categories "
            f"have {n_entries:,} cells, {n_entries * 8 / 2**30:.1f} GiB of counts; at most {MAX_BYTES / 2**30:g} GiB "
            "are counted: leave variables out or merge categories"
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


def _count_block(block: Block, *, order: int, first: NDArray[np.uint64], n_entries: int, step: float) -> _Counts:
    from twoway.kernels import counting

    if block.weights.size:
        weights = np.rint(block.weights / step).astype(np.int64)
        weighted = np.zeros(n_entries, dtype=np.int64)
        kernel = counting.count_pairs_weighted if order == 2 else counting.count_triples_weighted
        kernel(block.pointers, block.cells, weights, first, weighted)
        return _Counts(None, weighted)
    # A block has fewer than 2³² records; half the memory is half the misses of the cache.
    plain = np.zeros(n_entries, dtype=np.uint32)
    (counting.count_pairs if order == 2 else counting.count_triples)(block.pointers, block.cells, first, plain)
    return _Counts(plain, None)


def _add(left: _Counts, right: _Counts) -> _Counts:
    return _Counts(_sum(left.plain, right.plain), _sum(left.weighted, right.weighted))


def _sum(left: NDArray[Any] | None, right: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return the sum of two arrays of whole numbers; the first is added to in place once it is wide enough."""
    if left is None or right is None:
        return right if left is None else left
    wide = left.astype(np.int64, copy=False)
    wide += right
    return wide
