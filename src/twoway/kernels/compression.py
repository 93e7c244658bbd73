"""From a matrix of codes to compressed records, and their canonical order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Bools, Ints
from twoway.kernels.jit import Cells, jit


@jit
def compress(codes: NDArray[np.int32], offsets: Ints, pointers: Ints, cells: Cells) -> None:
    """Write the observed cells of codes (S, N), missing < 0, behind one another.

    ``pointers`` is (S + 1,) with its first entry set: the place in ``cells`` at which to begin.
    """
    place = pointers[0]
    for s in range(codes.shape[0]):
        for n in range(codes.shape[1]):
            if codes[s, n] >= 0:
                cells[place] = offsets[n] + codes[s, n]
                place += 1
        pointers[s + 1] = place


@jit
def expand(
    pointers: Ints, cells: Cells, variable_of_cell: NDArray[np.int32], offsets: Ints, codes: NDArray[np.int32]
) -> None:
    """Write compressed records into codes (S, N), which hold -1 throughout before."""
    for s in range(pointers.size - 1):
        for t in range(pointers[s], pointers[s + 1]):
            n = variable_of_cell[cells[t]]
            codes[s, n] = np.int64(cells[t]) - offsets[n]


@jit
def compressed_keys(pointers: Ints, cells: Cells, cell_hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a number per record (S,): its length in the top 16 bits, a hash of its cells below.

    The hashes of the cells, (I,), are added: their order does not matter.
    """
    keys = np.empty(pointers.size - 1, dtype=np.uint64)
    for s in range(keys.size):
        mixed = np.uint64(0)
        for t in range(pointers[s], pointers[s + 1]):
            mixed += cell_hashes[cells[t]]
        mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
        length = np.uint64(min(pointers[s + 1] - pointers[s], 65535))
        keys[s] = (length << np.uint64(48)) | (mixed >> np.uint64(16))
    return keys


@jit
def gather_compressed(pointers: Ints, cells: Cells, order: Ints, new_pointers: Ints) -> NDArray[Any]:
    """Return the cells of records in another order, and fill their pointers (order.size + 1,)."""
    new_pointers[0] = 0
    for s in range(order.size):
        new_pointers[s + 1] = new_pointers[s] + pointers[order[s] + 1] - pointers[order[s]]
    new_cells = np.empty(new_pointers[-1], dtype=cells.dtype)
    for s in range(order.size):
        place = new_pointers[s]
        for t in range(pointers[order[s]], pointers[order[s] + 1]):
            new_cells[place] = cells[t]
            place += 1
    return new_cells


@jit
def compressed_as_previous(pointers: Ints, cells: Cells, order: Ints) -> Bools:
    """Return for each record in an order (S,) whether its cells equal those of the one before it."""
    same = np.zeros(order.size, dtype=np.bool_)
    for s in range(1, order.size):
        begin, previous = pointers[order[s]], pointers[order[s - 1]]
        length = pointers[order[s] + 1] - begin
        if length == pointers[order[s - 1] + 1] - previous:
            equal = True
            for t in range(length):
                if cells[begin + t] != cells[previous + t]:
                    equal = False
                    break
            same[s] = equal
    return same
