"""How much variables depend on each other: the mutual information of two-way tables, and their strongest tree."""

from __future__ import annotations

import numpy as np

from twoway.arrays import Bools, Floats, Ints, times_log
from twoway.tables.tables import Tables


def table_dependence(tables: Tables) -> Floats:
    """Return the mutual information of each two-way table in nats, less what chance would make of independence."""
    if len(tables) == 0:
        return np.zeros(0)
    schema, sets = tables.schema, tables.sets
    table, shares = tables.table_of_cell, tables.shares
    cells = tables.cells(np.arange(len(tables.flat)))
    information = np.bincount(table, times_log(shares, shares), len(tables))
    n_seen = []
    for axis in (0, 1):
        sizes = np.array(schema.sizes)[sets[:, axis]]
        starts = np.cumsum([0, *sizes[:-1]])
        places = starts[table] + cells[:, axis] - schema.offsets[sets[table, axis]]
        margins = np.asarray(np.bincount(places, shares, sizes.sum()), dtype=np.float64)
        information -= np.add.reduceat(times_log(margins, margins), starts)
        n_seen.append(np.add.reduceat(margins > 0, starts, dtype=np.int64))
    behind = np.maximum(tables.weights, 1.0)
    chance = (n_seen[0] - 1) * (n_seen[1] - 1) / (2.0 * behind)
    return np.asarray(information - chance)


def most_dependent_tree(tables: Tables, information: Floats) -> Bools:
    """Return which two-way tables make the tree of largest mutual information (Chow and Liu, 1968)."""
    n = len(tables.schema)
    # By name, and but for rounding: where several trees are equal, the order of columns must not decide.
    place = np.empty(n, dtype=np.int64)
    place[np.argsort(np.array(tables.schema.names, dtype=object))] = np.arange(n)
    ends = np.sort(place[tables.sets], axis=1)
    order = np.lexsort(ends.T[::-1])
    is_kept = np.empty(len(tables), dtype=bool)
    is_kept[order] = dependence_spanning_tree(n, ends[order], np.round(information[order], 12))
    return is_kept


def dependence_spanning_tree(n_vertices: int, pairs: Ints, strengths: Floats) -> Bools:
    """Return which pairs of vertices (n_pairs, 2), the smaller first, make the tree of largest total strength."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    # A length of 0 would be no edge.
    lengths = strengths.max(initial=0.0) - strengths + 1.0
    graph = coo_array((lengths, tuple(pairs.T)), shape=(n_vertices, n_vertices))
    edges = minimum_spanning_tree(graph.tocsr()).tocoo()
    tree = np.minimum(edges.row, edges.col) * n_vertices + np.maximum(edges.row, edges.col)
    return np.isin(pairs[:, 0] * n_vertices + pairs[:, 1], tree)


def most_dependent_tables(tables: Tables, information: Floats, is_tree: Bools, n_cells: int) -> Bools:
    """Return which two-way tables have most mutual information: those of a tree, and more up to ``n_cells``."""
    order = np.lexsort([-information, ~is_tree])
    first = order[np.cumsum(np.diff(tables.starts)[order]) <= n_cells]
    return is_tree | np.isin(np.arange(len(tables)), first)
