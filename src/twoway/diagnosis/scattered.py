"""The sufficiently scattered condition: whether rows of a nonnegative matrix spread widely enough over the simplex.

H is sufficiently scattered if the cone of its rows contains C = {x : Σx ≥ √(F−1)·‖x‖}, and touches its border in as
few places as it must. In the dual: every point of {y : H·y ≥ 0, Σy = 1} has ‖y‖ ≤ 1, and those of length one are the
unit vectors. The longest points are vertices, so that listing them decides. Where there are too many to list, climbing
to long ones can refute the condition, and cannot prove it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from twoway.arrays import Floats
from twoway.diagnosis.bounds import separability

# Qhull lists the vertices of n halfspaces in d dimensions at a cost of about n^(d/2).
_MOST_VERTICES = 40_000
_TOLERANCE = 1e-7
_CLIMBS = 12


@dataclass(frozen=True)
class Scattered:
    """Whether a matrix is sufficiently scattered."""

    status: Literal["holds", "fails", "unknown"]
    longest: float
    """The length of the longest point found in the dual: 1 where the condition holds, the more the farther from it."""
    is_exact: bool
    """Whether all vertices were listed."""


def sufficiently_scattered(h: Floats, random: np.random.Generator) -> Scattered:
    """Return whether the rows of a nonnegative matrix (rows, rank) are sufficiently scattered.

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
        return Scattered("holds" if len(rows) else "fails", 1.0, True)
    if len(rows) < rank or np.linalg.svd(rows, compute_uv=False)[-1] < 1e-9:
        return Scattered("fails", math.inf, True)
    if separability(rows) < 1e-9:  # a row for each component alone: the cone is all there is
        return Scattered("holds", 1.0, True)
    if len(rows) ** ((rank - 1) // 2) <= _MOST_VERTICES:
        vertices = _vertices(rows)
        if vertices is not None:
            return _judge(vertices)
    for _ in range(_CLIMBS):
        longest = _climb(rows, np.asarray(random.normal(size=rank)))
        if longest > 1 + _TOLERANCE:
            return Scattered("fails", longest, False)
    return Scattered("unknown", 1.0, False)


def _judge(vertices: Floats) -> Scattered:
    if len(vertices) == 0:
        return Scattered("fails", math.inf, True)
    lengths = np.linalg.norm(vertices, axis=1)
    longest = float(lengths.max())
    if longest > 1 + _TOLERANCE:
        return Scattered("fails", longest, True)
    # A point of length one and sum one that is no unit vector has a negative entry.
    others = (lengths > 1 - _TOLERANCE) & (vertices.min(axis=1) < -1e-6)
    return Scattered("fails" if others.any() else "holds", max(longest, 1.0), True)


def _vertices(rows: Floats) -> Floats | None:
    """Return the vertices of {y : rows · y ≥ 0, Σy = 1}, none where it has no end, None where qhull fails."""
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
    outward = hull.equations[:, :-1], hull.equations[:, -1]
    if (outward[1] > -1e-12).any():
        return np.empty((0, rank))
    points = -outward[0] / outward[1][:, None]
    return np.asarray(1.0 / rank + points @ basis.T)


def _climb(rows: Floats, direction: Floats) -> float:
    """Return the length of a point of the dual that is longer than its neighbours, by linear programs uphill."""
    from scipy.optimize import linprog

    rank, length = rows.shape[1], 0.0
    for _ in range(20):
        solved = linprog(
            -direction,
            A_ub=-rows,
            b_ub=np.zeros(len(rows)),
            A_eq=np.ones((1, rank)),
            b_eq=[1.0],
            bounds=(None, None),
            method="highs",
        )
        if solved.status == 3:  # it has no end
            return math.inf
        if solved.status != 0:
            break
        point = np.asarray(solved.x, dtype=np.float64)
        if np.linalg.norm(point) <= length + 1e-12:
            break
        direction, length = point, float(np.linalg.norm(point))
        if length > 1 + _TOLERANCE:
            break
    return length
