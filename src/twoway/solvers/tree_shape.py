"""Shapes of trees: which variables are neighbours, and which of them have a hidden one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.solvers.evidence import Evidence
from twoway.tables.dependence import dependence_spanning_tree


@dataclass(frozen=True)
class TreeShape:
    """Which hidden variables there are, and what is attached to each."""

    parents: tuple[int, ...]
    """The parent of each hidden variable, a smaller number; -1 for the root."""
    homes: tuple[int, ...]
    """The hidden variable of each visible one."""
    owners: tuple[int, ...]
    """The visible variable that stands where each hidden one is."""

    @classmethod
    def of_evidence(cls, evidence: Evidence) -> TreeShape:
        """Return the shape of largest mutual information over the tables there are."""
        tables = evidence.tables(2)
        edges = tables.sets[evidence.is_in_tree].tolist()
        # Variables that no table connects depend on each other through nothing: any edge will do.
        ends = tables.schema.indices(sorted(min(names) for names in tables.components()))
        edges += [(ends[0], end) for end in ends[1:]]
        return cls.of_edges(tables.schema.names, edges)

    @classmethod
    def of_edges(cls, names: Sequence[str], edges: Iterable[tuple[int, int]]) -> TreeShape:
        """Return the hidden variables of a tree of visible ones."""
        n_variables, neighbours = len(names), _tree_shape_neighbours(len(names), edges)
        is_inner = [len(adjacent) > 1 for adjacent in neighbours]
        if not any(is_inner):
            return cls((-1,), (0,) * n_variables, (0,))
        # The root is the vertex with most neighbours, by name where several have: the order of columns must not matter.
        root = max(range(n_variables), key=lambda vertex: (len(neighbours[vertex]), names[vertex]))
        inner = [[other for other in adjacent if is_inner[other]] for adjacent in neighbours]
        owners, parents = _tree_shape_from_root(root, inner)
        number = {owner: place for place, owner in enumerate(owners)}
        homes = [number[v] if is_inner[v] else number[neighbours[v][0]] for v in range(n_variables)]
        return cls(tuple(parents), tuple(homes), tuple(owners))


def _tree_shape_neighbours(n_vertices: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the neighbours of each vertex, in ascending order."""
    neighbours: list[list[int]] = [[] for _ in range(n_vertices)]
    for first, second in edges:
        neighbours[first].append(second)
        neighbours[second].append(first)
    return list(map(sorted, neighbours))


def _tree_shape_from_root(root: int, neighbours: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return the vertices of a tree, parents before children, and the place of each one's parent; -1 for the root."""
    vertices, parents = [root], [-1]
    for place, vertex in enumerate(vertices):
        children = [other for other in neighbours[vertex] if place == 0 or other != vertices[parents[place]]]
        vertices += children
        parents += [place] * len(children)
    return vertices, parents


def strongest_tree_shape(strengths: Floats) -> tuple[Ints, Ints]:
    """Return the tree of largest total strength over all pairs (N, N): vertices, parents before children, and parents.

    A parent is a place among the vertices, -1 for the root: the vertex with most neighbours, and of these the first.
    """
    n = len(strengths)
    pairs = np.column_stack(np.triu_indices(n, 1))
    edges = pairs[dependence_spanning_tree(n, pairs, strengths[tuple(pairs.T)].astype(np.float64))]
    neighbours = _tree_shape_neighbours(n, edges.tolist())
    root = max(range(n), key=lambda vertex: len(neighbours[vertex]))
    vertices, parents = _tree_shape_from_root(root, neighbours)
    return np.array(vertices), np.array(parents)
