"""Counts of co-observed cells, for all pairs and all triples of variables at once.

Legend: record s owns ``cells[pointers[s]:pointers[s + 1]]``, ascending, at most one cell per variable.
Counts lie in *strips*. The strip of a leading cell c (or of a leading pair of cells b < c) has one
entry for each cell of every variable after that of c, so the innermost loop adds to one short run of
memory and looks nothing up. ``first[c]`` (or ``first[b, c]``) is where a strip starts, less the number
of cells up to and including c's variable: cell d is counted at ``first[c] + d``.

That difference may be negative and is kept modulo 2⁶⁴. Positions are unsigned throughout, because for
a signed one the compiler adds a test for Python's negative indices to each count: half of all time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Ints
from twoway.kernels.jit import Cells, jit

_ONE = np.uint64(1)


@jit
def count_pairs(
    pointers: Ints, cells: Cells, weights: NDArray[Any], first: NDArray[np.uint64], counts: NDArray[Any]
) -> None:
    """Add a record's weight to ``counts`` (n_entries,) for each pair of cells that it holds; ``first`` is (n_cells,).

    ``weights`` has the type of ``counts``, and one entry per record, or a single one for all records.
    """
    step = 1 if weights.size > 1 else 0
    for s in range(pointers.size - 1):
        i = np.uint64(pointers[s])
        stop = np.uint64(pointers[s + 1])
        weight = weights[s * step]
        while i < stop:
            strip = first[cells[i]]
            i += _ONE
            j = stop
            while j > i:
                j -= _ONE
                counts[strip + np.uint64(cells[j])] += weight


@jit
def count_triples(
    pointers: Ints, cells: Cells, weights: NDArray[Any], first: NDArray[np.uint64], counts: NDArray[Any]
) -> None:
    """Count triples of cells as `count_pairs` counts pairs; ``first`` is (n_cells, n_cells)."""
    step = 1 if weights.size > 1 else 0
    for s in range(pointers.size - 1):
        i = np.uint64(pointers[s])
        stop = np.uint64(pointers[s + 1])
        weight = weights[s * step]
        while i < stop:
            row = first[cells[i]]
            i += _ONE
            j = i
            while j < stop:
                strip = row[cells[j]]
                j += _ONE
                k = stop
                while k > j:
                    k -= _ONE
                    counts[strip + np.uint64(cells[k])] += weight


def counting_strips(offsets: Ints, order: int) -> tuple[NDArray[np.uint64], int]:
    """Return where each strip starts, ``first`` of the legend, and the number of entries of all strips."""
    first = np.zeros((int(offsets[-1]),) * (order - 1), dtype=np.int64)
    n_entries = 0
    for leading, shape, start in _strip_blocks(offsets, order):
        rows, width = int(np.prod(shape[:-1])), shape[-1]
        block = tuple(slice(offsets[position], offsets[position + 1]) for position in leading)
        first[block] = (start + width * np.arange(rows) - offsets[leading[-1] + 1]).reshape(shape[:-1])
        n_entries = start + rows * width
    return first.astype(np.uint64), n_entries


def unstrip_counts(counts: NDArray[Any], offsets: Ints, order: int) -> NDArray[Any]:
    """Return the counts table after table, sets of variables in lexicographic order, each in C order."""
    flat, sizes = np.empty_like(counts), np.diff(offsets)
    for leading, shape, start in _strip_blocks(offsets, order):
        rows, width = int(np.prod(shape[:-1])), shape[-1]
        block = counts[start : start + rows * width].reshape(rows, width)
        later = sizes[leading[-1] + 1 :]
        # Where the variable of each column begins, and its size: a table is as wide as that.
        left, n_columns = np.repeat(np.cumsum(later) - later, later), np.repeat(later, later)
        places = start + (rows - 1) * left + np.arange(width)
        flat[places + np.arange(rows)[:, None] * n_columns] = block
    return flat


def _strip_blocks(offsets: Ints, order: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], int]]:
    """Yield each set of leading variables, the shape of its strips (leading sizes, width) and their start."""
    sizes = np.diff(offsets).tolist()
    start = 0
    for leading in combinations(range(len(sizes)), order - 1):
        shape = (*(sizes[position] for position in leading), int(offsets[-1] - offsets[leading[-1] + 1]))
        yield leading, shape, start
        start += int(np.prod(shape))
