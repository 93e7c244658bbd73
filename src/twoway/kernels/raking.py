"""Weights and choices of persons that make their tables agree with given ones.

K persons (or kinds of persons), T tables, C cells of all tables one after the other, and behind them a cell C for
persons who are outside of a table.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Bools, Floats, Ints
from twoway.kernels.jit import jit


@jit
def rake(
    cells: NDArray[np.int32],
    weights: Floats,
    low: Floats,
    high: Floats,
    blocks: Ints,
    totals: Floats,
    starts: Ints,
    powers: Floats,
    off: Floats,
) -> None:
    """Scale the weights (K,) so that each table in turn has its numbers, as iterative proportional fitting does.

    ``cells`` (T, K) has the cell of each person, ``low`` and ``high`` (C,) what its sum may be, ``starts`` (T + 1,)
    the first cell of each table. Cells of one of the ``blocks`` (C,), -1 for none, have a sum that is not known: their
    numbers are those of a sum of ``totals`` (B,), and grow with it. A table's factors are raised to its power (T,): 1
    fits it, less goes part of the way. ``off`` (T,) becomes the largest difference that each table had before.
    """
    sums = np.zeros(starts[-1] + 1)
    now = np.zeros(totals.size)
    factors = np.ones(starts[-1] + 1)
    for t in range(cells.shape[0]):
        sums[starts[t] : starts[t + 1]] = 0.0
        for k in range(weights.size):
            sums[cells[t, k]] += weights[k]
        now[:] = 0.0
        for c in range(starts[t], starts[t + 1]):
            if blocks[c] >= 0:
                now[blocks[c]] += sums[c]
        off[t] = 0.0
        for c in range(starts[t], starts[t + 1]):
            scale = now[blocks[c]] / totals[blocks[c]] if blocks[c] >= 0 else 1.0
            goal = min(max(sums[c], low[c] * scale), high[c] * scale)
            off[t] = max(off[t], abs(goal - sums[c]))
            factors[c] = (goal / sums[c]) ** powers[t] if sums[c] > 0.0 else 1.0
        for k in range(weights.size):
            weights[k] *= factors[cells[t, k]]


@jit
def swap(
    cells: NDArray[np.int32], chosen: Bools, off: Floats, importance: Floats, leaving: Ints, entering: Ints
) -> int:
    """Replace chosen persons by others wherever that brings all tables nearer to their goals; return how often.

    ``cells`` (K, T) is as for `rake`, transposed. ``chosen`` (K,) and ``off`` (C + 1,), by how much each cell exceeds
    its goal, are changed in place. Pair number m of ``leaving`` and ``entering`` is exchanged if that lowers the sum of
    squares of ``off``, each table's times its ``importance`` (T,).
    """
    outside = off.size - 1
    n_swaps = 0
    for m in range(leaving.size):
        i, j = leaving[m], entering[m]
        if not chosen[i] or chosen[j]:
            continue
        change = 0.0
        for t in range(cells.shape[1]):
            old, new = cells[i, t], cells[j, t]
            if old != new:
                change += importance[t] * ((old != outside) * (1.0 - 2.0 * off[old]))
                change += importance[t] * ((new != outside) * (1.0 + 2.0 * off[new]))
        if change < 0.0:
            chosen[i], chosen[j] = False, True
            n_swaps += 1
            for t in range(cells.shape[1]):
                off[cells[i, t]] -= 1.0
                off[cells[j, t]] += 1.0
    return n_swaps
