"""Other models that have exactly the same two-way tables: what tables alone cannot distinguish.

With G_n = A_n · diag(√λ), a table is G_j · G_kᵀ. It stays the same when all G_n are rotated alike, G_n · U with
U · Uᵀ = 1, and the result is a model as long as no entry gets negative. Where every table has a variable on each of two
sides, one side can be sheared against the other as well. And a variable whose neighbours have fewer than F
independent rows can be changed in ways that none of their tables shows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.checks.table_program import ProgramAxis, ProgramMargins, TableProgram
from twoway.model import mixture
from twoway.model.parameters import normalized_factors
from twoway.model.pmf import JointPMF
from twoway.tables.pair_graph import PairGraph
from twoway.tables.tables import Tables

_STEPS_PER_PLANE = 12
_MAX_STEPS = 1500
_N_DRAWS = 4000
_SMALL_JOINT = 200_000
# Models are compared on at most so many variables at a time; of more, on several random groups.
_GROUP_SIZE, _N_GROUPS = 15, 3
# Joints of any rank with the same tables are searched for among at most so many cells.
_MAX_PROGRAM_CELLS = 1024
_N_SEARCHES, _SEARCH_STEPS = 4, 4


class JointDistance:
    """The total variation between one joint and others: no probability differs by more.

    Exact where the joint is small, otherwise an average over draws, accurate to about 0.01. With more than 15
    variables, the mean over a few groups of 15: nobody asks about a hundred at once, and no two estimates agree on all.
    """

    def __init__(self, pmf: JointPMF, seed: int = 0) -> None:
        n, random = len(pmf.schema), np.random.default_rng(seed)
        self._groups = [np.arange(n)]
        if n > _GROUP_SIZE:
            self._groups = [np.sort(random.choice(n, _GROUP_SIZE, replace=False)) for _ in range(_N_GROUPS)]
        self._is_small = len(self._groups) == 1 and mixture.n_cells(pmf.factors) <= _SMALL_JOINT
        if self._is_small:
            self._joint = mixture.joint(pmf.weights, pmf.factors)
            return
        components = mixture.draw_components(pmf.weights, _N_DRAWS, random)
        self._codes = [mixture.draw_codes(factor, components, random) for factor in pmf.factors]
        self._logs = [self._log_joint(pmf, group) for group in self._groups]

    def _log_joint(self, pmf: JointPMF, group: NDArray[np.int64]) -> Floats:
        factors, codes = [pmf.factors[index] for index in group], [self._codes[index] for index in group]
        return mixture.log_joint(pmf.weights, factors, codes)

    def __call__(self, other: JointPMF) -> float:
        """Return the distance to another joint."""
        if self._is_small:
            return 0.5 * float(np.abs(self._joint - mixture.joint(other.weights, other.factors)).sum())
        logs = (self._log_joint(other, group) for group in self._groups)
        ratios = [np.exp(its - own) for its, own in zip(logs, self._logs, strict=True)]
        return float(np.mean([np.maximum(0.0, 1.0 - ratio).mean() for ratio in ratios]))


def same_tables(pmf: JointPMF, graph: PairGraph, random: np.random.Generator, n_walks: int = 4) -> Iterator[JointPMF]:
    """Yield models that have the same tables of the available pairs, as different as a few random walks find."""
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
    return _model(pmf, np.square(g[pmf.schema.cells(0)].sum(axis=0)), g)


def _sheared(pmf: JointPMF, side: NDArray[np.bool_], random: np.random.Generator) -> JointPMF:
    """Return the end of a walk that adds one component to another on one side and subtracts it on the other."""
    of_cell = np.repeat(side, pmf.schema.sizes)
    stacked = pmf.stacked.copy()
    stacked[~of_cell] *= pmf.weights
    w, h = stacked[of_cell], stacked[~of_cell]
    for plane in _planes(pmf.rank, random):
        for a, b in (plane, plane[::-1]):
            low = -min(_least_ratio(w[:, a], w[:, b]), 10.0)
            step = _between(low, min(_least_ratio(h[:, b], h[:, a]), 10.0), random)
            w[:, a] += step * w[:, b]
            h[:, b] -= step * h[:, a]
            np.maximum(w, 0.0, out=w)
            np.maximum(h, 0.0, out=h)
    stacked[of_cell], stacked[~of_cell] = w, h
    first, second = (stacked[pmf.schema.cells(int(np.argmax(part)))].sum(axis=0) for part in (side, ~side))
    return _model(pmf, first * second, stacked)


def unseen_changes(pmf: JointPMF, graph: PairGraph) -> dict[int, JointPMF]:
    """Return, for each under-connected variable, a model with the same tables in which it differs."""
    models = {}
    scaled = [factor * pmf.weights for factor in pmf.factors]
    grams = np.array([factor.T @ factor for factor in scaled])
    for variable, factor in enumerate(pmf.factors):
        # A change of rows of the factor along this direction shows in no table, if its eigenvalue is 0.
        values, vectors = np.linalg.eigh(grams[graph.available[variable]].sum(axis=0))
        direction = vectors[:, 0]
        if values[0] > 1e-13 * max(values[-1], 1e-300) or len(factor) < 2:
            continue
        # One category gains what another loses, as far as both stay nonnegative.
        gain = [_least_ratio(row, np.maximum(-direction, 0.0)) for row in factor]
        loss = [_least_ratio(row, np.maximum(direction, 0.0)) for row in factor]
        lengths = np.minimum.outer(gain, loss)
        np.fill_diagonal(lengths, 0.0)
        gains, loses = np.unravel_index(lengths.argmax(), lengths.shape)
        if lengths[gains, loses] == 0.0:
            continue
        changed = factor.copy()
        changed[gains] += direction * lengths[gains, loses]
        changed[loses] -= direction * lengths[gains, loses]
        stacked = pmf.stacked.copy()
        stacked[pmf.schema.cells(variable)] = np.maximum(changed, 0.0)
        models[variable] = JointPMF.from_stacked(pmf.schema, pmf.weights, normalized_factors(pmf.schema, stacked))
    return models


def exact_tables(pmf: JointPMF, graph: PairGraph) -> Tables:
    """Return a model's own tables of the available pairs."""
    sets, names = np.argwhere(np.triu(graph.available)), pmf.schema.names
    flat = [1e6 * pmf.marginal([names[j], names[k]]).array.ravel() for j, k in sets]
    return Tables(pmf.schema, sets.astype(np.int32), np.concatenate([np.zeros(0), *flat]))


def far_joints(pmf: JointPMF, graph: PairGraph, random: np.random.Generator) -> list[tuple[Floats, float]]:
    """Return joints of any rank that have the model's tables, and their total variation from it, farthest first.

    The total variation is convex, so its greatest values are at vertices of the set of such joints: from a random
    vertex, each step goes to the vertex farthest in the direction in which the last one differs from the model. The
    list is empty where the joint is too large.
    """
    if mixture.n_cells(pmf.factors) > _MAX_PROGRAM_CELLS:
        return []
    axes = ProgramAxis.full(pmf.schema, range(len(pmf.schema)))
    program = TableProgram(ProgramMargins(exact_tables(pmf, graph)), axes, None)
    own = mixture.joint(pmf.weights, pmf.factors)
    joints = []
    for _ in range(_N_SEARCHES):
        direction, best = random.choice(np.array([-1.0, 1.0]), own.size), (own, 0.0)
        for _ in range(_SEARCH_STEPS):
            vertex = program.cheapest(direction)
            assert vertex is not None
            distance = 0.5 * float(np.abs(vertex[1] - own).sum())
            if distance <= best[1] + 1e-6:
                break
            best, direction = (vertex[1], distance), np.sign(own - vertex[1]).ravel()
        joints.append(best)
    return sorted(joints, key=lambda joint: -joint[1])


def _planes(rank: int, random: np.random.Generator) -> Iterator[tuple[int, int]]:
    for _ in range(min(_STEPS_PER_PLANE * rank * (rank - 1) // 2, _MAX_STEPS)):
        a, b = random.choice(rank, 2, replace=False)
        yield int(a), int(b)


def _least_ratio(above: Floats, below: Floats) -> float:
    """Return the least of above / below where below is not 0."""
    some = below > 0
    return float((above[some] / below[some]).min()) if some.any() else np.inf


def _between(low: float, high: float, random: np.random.Generator) -> float:
    """Return a step between two ends, often one of the ends, to get far."""
    where = random.uniform()
    return low if where < 0.35 else high if where > 0.65 else float(random.uniform(low, high))


def _model(pmf: JointPMF, weights: Floats, stacked: Floats) -> JointPMF:
    return JointPMF.from_stacked(pmf.schema, weights / weights.sum(), normalized_factors(pmf.schema, stacked + 1e-300))
