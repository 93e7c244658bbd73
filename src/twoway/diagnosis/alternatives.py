"""Other models that have the very same two-way tables: what tables alone cannot tell.

With G_n = A_n · diag(√λ), a table is G_j · G_kᵀ. It stays the same when all G_n are rotated alike, G_n · U with
U · Uᵀ = 1, and the result is a model as long as no entry gets negative. Where every table has a variable on each of two
sides, one side can be sheared against the other as well. And a variable whose neighbours have fewer than F
independent rows can be changed in ways that none of them sees.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.checks.table_program import Axis, Margins, TableProgram
from twoway.model import mixture
from twoway.model.pmf import JointPMF
from twoway.solvers.starts import normalized
from twoway.tables.pair_graph import PairGraph
from twoway.tables.tables import Tables

_STEPS_A_PLANE = 12
_MOST_STEPS = 1500
_DRAWS = 4000
_SMALL_JOINT = 200_000
MOST_TOGETHER = 15
"""Models are compared on so many variables at a time."""
_GROUPS = 3
# Joints of any rank with the same tables are looked for among so many cells at most.
_MOST_PROGRAM_CELLS = 1024
_CLIMBS, _CLIMB_STEPS = 4, 4


class JointDistance:
    """The total variation between one joint and others: no probability differs by more.

    Exact where the joint is small, otherwise an average over draws, good to about a hundredth. Of more than 15
    variables, the mean over some groups of 15: nobody asks about a hundred at once, of which no two estimates agree.
    """

    def __init__(self, pmf: JointPMF, seed: int = 0) -> None:
        n, random = len(pmf.schema), np.random.default_rng(seed)
        self._groups = (
            [np.arange(n)]
            if n <= MOST_TOGETHER
            else [np.sort(random.choice(n, MOST_TOGETHER, replace=False)) for _ in range(_GROUPS)]
        )
        self._is_small = len(self._groups) == 1 and mixture.n_cells(pmf.factors) <= _SMALL_JOINT
        if self._is_small:
            self._joint = mixture.joint(pmf.weights, pmf.factors)
            return
        components = mixture.draw_components(pmf.weights, _DRAWS, random)
        self._codes = [mixture.draw_codes(factor, components, random) for factor in pmf.factors]
        self._logs = [self._log_joint(pmf, group) for group in self._groups]

    def _log_joint(self, pmf: JointPMF, group: NDArray[np.int64]) -> Floats:
        factors, codes = [pmf.factors[index] for index in group], [self._codes[index] for index in group]
        return mixture.log_joint(pmf.weights, factors, codes)

    def __call__(self, other: JointPMF) -> float:
        """Return the distance to another joint."""
        if self._is_small:
            return 0.5 * float(np.abs(self._joint - mixture.joint(other.weights, other.factors)).sum())
        ratios = [
            np.exp(self._log_joint(other, group) - logs) for group, logs in zip(self._groups, self._logs, strict=True)
        ]
        return float(np.mean([np.maximum(0.0, 1.0 - ratio).mean() for ratio in ratios]))


def same_tables(pmf: JointPMF, graph: PairGraph, random: np.random.Generator, n_walks: int = 4) -> Iterator[JointPMF]:
    """Yield models whose tables of the available pairs are the model's own, as different as a few walks find."""
    if pmf.rank == 1:
        return
    side = graph.sides()
    for _ in range(n_walks):
        yield _rotated(pmf, random)
        if side is not None and side.any() and not side.all():
            yield _sheared(pmf, side, random)


def _rotated(pmf: JointPMF, random: np.random.Generator) -> JointPMF:
    """Return the end of a walk through the rotations that leave every entry nonnegative."""
    g = pmf.stacked * np.sqrt(pmf.weights)
    for a, b in _planes(pmf.rank, random):
        forward, backward = np.arctan(_least_ratio(g[:, a], g[:, b])), np.arctan(_least_ratio(g[:, b], g[:, a]))
        angle = _between(-backward, forward, random)
        cos, sin = np.cos(angle), np.sin(angle)
        g[:, a], g[:, b] = cos * g[:, a] - sin * g[:, b], sin * g[:, a] + cos * g[:, b]
        np.maximum(g, 0.0, out=g)  # rounding
    # The rows of any one variable add up to the roots of the weights.
    roots = g[pmf.schema.cells(0)].sum(axis=0)
    return _model(pmf, np.square(roots), g)


def _sheared(pmf: JointPMF, side: NDArray[np.bool_], random: np.random.Generator) -> JointPMF:
    """Return the end of a walk that adds one component to another on one side, and takes it off on the other."""
    of_cell = np.repeat(side, pmf.schema.sizes)
    stacked = pmf.stacked.copy()
    stacked[~of_cell] *= pmf.weights
    w, h = stacked[of_cell], stacked[~of_cell]
    for a, b in _planes(pmf.rank, random):
        for one, other in ((a, b), (b, a)):
            step = _between(
                -min(_least_ratio(w[:, one], w[:, other]), 10.0),
                min(_least_ratio(h[:, other], h[:, one]), 10.0),
                random,
            )
            w[:, one] += step * w[:, other]
            h[:, other] -= step * h[:, one]
            np.maximum(w, 0.0, out=w)
            np.maximum(h, 0.0, out=h)
    stacked[of_cell], stacked[~of_cell] = w, h
    sums = [stacked[pmf.schema.cells(int(np.flatnonzero(one)[0]))].sum(axis=0) for one in (side, ~side)]
    return _model(pmf, sums[0] * sums[1], stacked)


def unseen_changes(pmf: JointPMF, graph: PairGraph) -> dict[int, JointPMF]:
    """Return, for each variable that hangs by too little, a model with the same tables in which it differs."""
    found = {}
    grams = np.array([(factor * pmf.weights).T @ (factor * pmf.weights) for factor in pmf.factors])
    for variable in range(graph.n_variables):
        direction = _unseen_direction(grams[graph.available[variable]].sum(axis=0))
        cells = pmf.schema.cells(variable)
        if direction is None or pmf.schema.sizes[variable] < 2:
            continue
        factor = pmf.stacked[cells]
        best, farthest = None, 0.0
        # One category gains what another loses.
        for gains in range(len(factor)):
            for loses in range(len(factor)):
                if gains == loses:
                    continue
                change = np.zeros_like(factor)
                change[gains], change[loses] = direction, -direction
                length = float(np.min(np.where(change < 0, factor / np.where(change < 0, -change, 1.0), np.inf)))
                if length * float(np.abs(direction) @ pmf.weights) > farthest:
                    best, farthest = change * length, length * float(np.abs(direction) @ pmf.weights)
        if best is None:
            continue
        stacked = pmf.stacked.copy()
        stacked[cells] = np.maximum(stacked[cells] + best, 0.0)
        found[variable] = JointPMF.from_stacked(pmf.schema, pmf.weights, normalized(pmf.schema, stacked))
    return found


def exact_tables(pmf: JointPMF, graph: PairGraph) -> Tables:
    """Return a model's own tables of the available pairs."""
    sets, names = np.argwhere(np.triu(graph.available)), pmf.schema.names
    flat = [1e6 * pmf.marginal([names[j], names[k]]).array.ravel() for j, k in sets]
    return Tables(pmf.schema, sets.astype(np.int32), np.concatenate([np.zeros(0), *flat]))


def far_joints(pmf: JointPMF, graph: PairGraph, random: np.random.Generator) -> list[tuple[Floats, float]]:
    """Return joints of any rank that have the model's tables, and their total variation from it, farthest first.

    The total variation is convex, so that its greatest values are at vertices of the set of such joints: from a random
    one, each step goes to the vertex farthest in the direction in which the last one differs from the model. Nothing is
    returned where the joint is too large.
    """
    if mixture.n_cells(pmf.factors) > _MOST_PROGRAM_CELLS:
        return []
    axes = [Axis(index, np.arange(size)) for index, size in enumerate(pmf.schema.sizes)]
    program = TableProgram(Margins(exact_tables(pmf, graph)), axes, None)
    own = mixture.joint(pmf.weights, pmf.factors)
    joints = []
    for _ in range(_CLIMBS):
        direction, best = random.choice(np.array([-1.0, 1.0]), own.size), (own, 0.0)
        for _ in range(_CLIMB_STEPS):
            vertex = program.cheapest(direction)
            assert vertex is not None
            away = 0.5 * float(np.abs(vertex[1] - own).sum())
            if away <= best[1] + 1e-6:
                break
            best, direction = (vertex[1], away), np.sign(own - vertex[1]).ravel()
        joints.append(best)
    return sorted(joints, key=lambda joint: -joint[1])


def _unseen_direction(gram: Floats) -> Floats | None:
    """Return a change of one row of a factor, (rank,), that no neighbour's table shows; None where there is none.

    ``gram`` is that of the neighbours' rows, (rank, rank).
    """
    values, vectors = np.linalg.eigh(gram)
    if values[0] > 1e-13 * max(values[-1], 1e-300):
        return None
    direction: Floats = vectors[:, 0]
    return direction


def _planes(rank: int, random: np.random.Generator) -> Iterator[tuple[int, int]]:
    for _ in range(min(_STEPS_A_PLANE * rank * (rank - 1) // 2, _MOST_STEPS)):
        a, b = random.choice(rank, 2, replace=False)
        yield int(a), int(b)


def _least_ratio(above: Floats, below: Floats) -> float:
    """Return the least of above / below where below is not 0."""
    some = below > 0
    return float((above[some] / below[some]).min()) if some.any() else np.inf


def _between(low: float, high: float, random: np.random.Generator) -> float:
    """Return a step between two ends, often one of these: walks shall come far."""
    where = random.uniform()
    return low if where < 0.35 else high if where > 0.65 else float(random.uniform(low, high))


def _model(pmf: JointPMF, weights: Floats, stacked: Floats) -> JointPMF:
    return JointPMF.from_stacked(pmf.schema, weights / weights.sum(), normalized(pmf.schema, stacked + 1e-300))
