"""The sufficiently scattered condition: whether rows of a nonnegative matrix spread widely enough over the simplex.

H is sufficiently scattered if the cone of its rows contains C = {x : Σx ≥ √(F−1)·‖x‖}, and touches its border in as
few places as it must. In the dual: every point of {y : H·y ≥ 0, Σy = 1} has ‖y‖ ≤ 1, and those of length one are the
unit vectors. The longest points are vertices, so listing the vertices decides. Where there are too many to list, a
search for long points can refute the condition but cannot prove it.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from twoway.arrays import Floats
from twoway.diagnosis.bounds import separability

Status = Literal["holds", "fails", "unknown"]

# Qhull lists the vertices of n halfspaces in d dimensions at a cost of about n^(d/2).
_MAX_VERTICES = 40_000
_TOLERANCE = 1e-7
_N_SEARCHES = 12


class Scattered(NamedTuple):
    """Whether a matrix is sufficiently scattered."""

    status: Status
    longest: float = 1.0
    """The length of the longest point found in the dual: 1 where the condition holds, larger the farther from it."""
    is_exact: bool = True
    """Whether all vertices were listed."""


def sufficiently_scattered(h: Floats, random: np.random.Generator) -> Scattered:
    """Return whether the rows of a nonnegative matrix (rows, rank) are sufficiently scattered.

    Random numbers are used to refute the condition only: whether it is found to hold does not depend on them.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> sufficiently_scattered(np.eye(3), random).status
    'holds'
    >>> sufficiently_scattered(np.array([[0.8, 0.2], [0.2, 0.8]]), random).status
    'fails'
    """
    rank = h.shape[1]
    sums = h.sum(axis=1)
    rows = np.unique(np.round(h[sums > 0] / sums[sums > 0, None], 12), axis=0)
    if rank == 1:
        return Scattered("holds" if len(rows) else "fails")
    if len(rows) < rank or np.linalg.svd(rows, compute_uv=False)[-1] < 1e-9:
        return Scattered("fails", math.inf)
    if separability(rows) < 1e-9:  # one row per component alone: the cone is the whole orthant
        return Scattered("holds")
    vertices = _vertices(rows) if len(rows) ** ((rank - 1) // 2) <= _MAX_VERTICES else None
    if vertices is not None:
        lengths = np.linalg.norm(vertices, axis=1)
        longest = max(1.0, float(lengths.max())) if len(vertices) else math.inf
        # A point of length one and sum one that is not a unit vector has a negative entry.
        others = (lengths > 1 - _TOLERANCE) & (vertices.min(axis=1) < -1e-6)
        return Scattered("fails" if longest > 1 + _TOLERANCE or others.any() else "holds", longest)
    for _ in range(_N_SEARCHES):
        longest = _search(rows, np.asarray(random.normal(size=rank)))
        if longest > 1 + _TOLERANCE:
            return Scattered("fails", longest, False)
    return Scattered("unknown", 1.0, False)


def _vertices(rows: Floats) -> Floats | None:
    """Return the vertices of {y : rows · y ≥ 0, Σy = 1}; empty where it is unbounded, None where qhull fails."""
    from scipy.spatial import ConvexHull, QhullError

    rank = rows.shape[1]
    # In the plane Σy = 1, around its middle 1/F: y = 1/F + B·z, and rows · y ≥ 0 reads −rows·B · z ≤ 1/F.
    basis = np.linalg.svd(np.ones((1, rank)))[2][1:].T
    normals = -rows @ basis * rank
    if rank == 2:
        if not ((normals > 0).any() and (normals < 0).any()):
            return np.empty((0, rank))
        ends = [1.0 / normals[normals > 0].max(), 1.0 / normals[normals < 0].min()]
        return np.asarray(1.0 / rank + np.array(ends)[:, None] * basis.T)
    try:
        # The vertices of a polytope around the origin are the facets of the hull of its normals.
        hull = ConvexHull(normals)
    except QhullError:
        return None
    outward, offsets = hull.equations[:, :-1], hull.equations[:, -1]
    if (offsets > -1e-12).any():
        return np.empty((0, rank))
    return np.asarray(1.0 / rank - outward / offsets[:, None] @ basis.T)


def _search(rows: Floats, direction: Floats) -> float:
    """Return the length of a point of the dual that is longer than its neighbours, by linear programs uphill."""
    from scipy.optimize import linprog

    rank, length = rows.shape[1], 0.0
    for _ in range(20):
        # rows · y ≥ 0 and Σy = 1
        solved = linprog(-direction, -rows, np.zeros(len(rows)), np.ones((1, rank)), [1.0], (None, None), "highs")
        if solved.status == 3:  # unbounded
            return math.inf
        point = np.asarray(solved.x, dtype=np.float64)
        if solved.status != 0 or np.linalg.norm(point) <= length + 1e-12:
            break
        direction, length = point, float(np.linalg.norm(point))
        if length > 1 + _TOLERANCE:
            break
    return length
