"""Slow, obvious versions of twoway.kernels.counting: one Python loop over records and sets of cells."""

from itertools import combinations

import numpy as np


def count_sets(pointers, cells, weights, sizes, order):
    """Return {variable positions: counts array} of every pair (order 2) or triple (order 3) of variables."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    variable_of = np.repeat(np.arange(len(sizes)), sizes)
    tables = {
        positions: np.zeros([sizes[position] for position in positions])
        for positions in combinations(range(len(sizes)), order)
    }
    for record in range(len(pointers) - 1):
        held = [int(cell) for cell in cells[pointers[record] : pointers[record + 1]]]
        for chosen in combinations(held, order):
            positions = tuple(int(variable_of[cell]) for cell in chosen)
            codes = tuple(cell - int(offsets[position]) for cell, position in zip(chosen, positions, strict=True))
            tables[positions][codes] += 1.0 if weights is None else weights[record]
    return tables
