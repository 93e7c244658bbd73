"""The E-step of a tree of visible variables: what a record's missing cells are expected to be, given the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, Ints
from twoway.kernels.jit import Cells, jit, jit_inline

# Below this, a product goes into the logarithm.
_SMALL = 1e-200


class VisibleRows(NamedTuple):
    """A tree of variables; parents come before children."""

    variables: Ints
    """(N,): which variable each vertex is."""
    parents: Ints
    """(N,): the vertex that is each one's parent; -1 for the root, which is 0."""
    sizes: Ints
    """(N,): the number of categories."""
    widths: Ints
    """(N,): the number of columns of each vertex's table, the parent's categories; 1 for the root."""
    firsts: Ints
    """(N + 1,): where each vertex's table begins, (n_categories, n_columns)."""


@jit
def expect_visible_tree(
    codes: Cells, record_weights: Floats, rows: VisibleRows, tables: Floats, counts: Floats, log_prob: Floats
) -> None:
    """Fill the log-probabilities of some records, and add the expected counts of the tables' cells.

    Parameters
    ----------
    codes, record_weights
        Shape (n_records, n_variables), -1 where a cell is missing; and (n_records,).
    rows, tables
        The tree, and the probability of each category given the parent's.
    counts
        Of the size of ``tables``, or 0 where log-probabilities suffice.
    log_prob
        Shape (n_records,).
    """
    variables, parents, sizes, widths, firsts = rows
    n_vertices = variables.size
    observed = np.zeros(n_vertices, dtype=np.int64)
    places = np.zeros(n_vertices, dtype=np.int64)
    up, down = np.ones((n_vertices, sizes.max())), np.ones((n_vertices, sizes.max()))
    for s in range(codes.shape[0]):
        n_missing = 0
        for k in range(n_vertices):
            observed[k] = codes[s, variables[k]]
            n_missing += observed[k] < 0
        if n_missing > 0:
            log_prob[s] = _expect_visible_with_holes(observed, record_weights[s], rows, tables, counts, up, down)
            continue
        log, product = 0.0, 1.0
        for k in range(n_vertices):
            places[k] = firsts[k] + observed[k] * widths[k] + (observed[parents[k]] if k > 0 else 0)
            product *= tables[places[k]]
            if product < _SMALL:
                log += np.log(product)
                product = 1.0
        log_prob[s] = log + np.log(product)
        if counts.size > 0:
            for k in range(n_vertices):
                counts[places[k]] += record_weights[s]


@jit
def _expect_visible_with_holes(
    observed: Ints, weight: float, rows: VisibleRows, tables: Floats, counts: Floats, up: Floats, down: Floats
) -> float:
    """Return the log-probability of one record, and add its expected counts.

    ``observed`` holds its categories, -1 where missing. ``up`` and ``down`` are to work in, (n_vertices, n_categories).
    """
    _, parents, sizes, widths, firsts = rows
    n_vertices = observed.size
    # An observed cell allows one category, a missing one all: from ``low`` to below ``high``.
    low, high = np.maximum(observed, 0), np.where(observed < 0, sizes, observed + 1)
    totals = np.zeros(up.shape[1])
    log, product = 0.0, 1.0
    up[:] = 1.0
    for k in range(n_vertices - 1, -1, -1):
        above = parents[k]
        first, last = (low[above], high[above]) if k > 0 else (0, 1)
        top = 0.0
        for y in range(first, last):
            totals[y] = 0.0
            for z in range(low[k], high[k]):
                totals[y] += tables[firsts[k] + z * widths[k] + y] * up[k, z]
            top = max(top, totals[y])
        if top == 0.0:
            return -np.inf
        product *= top
        if product < _SMALL:
            log += np.log(product)
            product = 1.0
        if k > 0:
            for y in range(first, last):
                up[above, y] *= totals[y] / top
    if counts.size > 0:
        down[:] = 0.0
        for k in range(n_vertices):
            above = parents[k]
            first, last = (low[above], high[above]) if k > 0 else (0, 1)
            for y in range(first, last):
                total = 0.0
                for z in range(low[k], high[k]):
                    total += tables[firsts[k] + z * widths[k] + y] * up[k, z]
                if total > 0.0:
                    share = (down[above, y] if k > 0 else weight) / total
                    for z in range(low[k], high[k]):
                        place = firsts[k] + z * widths[k] + y
                        counts[place] += share * tables[place] * up[k, z]
                        down[k, z] += share * tables[place] * up[k, z]
    return float(log + np.log(product))


@jit
def visible_pair_information(counts: NDArray[np.float32], pseudo_counts: NDArray[np.float32], offsets: Ints) -> Floats:
    """Return the mutual information of each two variables in nats, less what chance would make of independence.

    Parameters
    ----------
    counts, pseudo_counts
        How often each two categories occur together, and what smoothing adds; (n_categories, n_categories).
    offsets
        Where the categories of each variable begin.
    """
    n = offsets.size - 1
    information = np.zeros((n, n))
    width = (offsets[1:] - offsets[:-1]).max()
    rows, columns = np.zeros(width), np.zeros(width)
    for i in range(n):
        for j in range(i):
            rows[:] = 0.0
            columns[:] = 0.0
            total, joint = 0.0, 0.0
            for a in range(offsets[i], offsets[i + 1]):
                for b in range(offsets[j], offsets[j + 1]):
                    count = np.float64(counts[a, b]) + pseudo_counts[a, b]
                    rows[a - offsets[i]] += count
                    columns[b - offsets[j]] += count
                    total += count
                    joint += _visible_times_log(count)
            margins, n_rows, n_columns = 0.0, -1, -1
            for z in range(width):
                margins += _visible_times_log(rows[z]) + _visible_times_log(columns[z])
                n_rows += rows[z] > 0
                n_columns += columns[z] > 0
            if total > 0:
                chance = n_rows * n_columns / 2
                information[i, j] = (joint - margins + _visible_times_log(total) - chance) / max(total, 1.0)
                information[j, i] = information[i, j]
    return information


@jit_inline
def _visible_times_log(count: float) -> float:
    return count * np.log(count) if count > 0.0 else 0.0
