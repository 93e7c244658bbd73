"""Other models that have the same two-way tables, or fit them as well: what tables alone cannot distinguish.

With G_n = A_n · diag(√λ), a table is G_j · G_kᵀ. It stays the same when all G_n are rotated alike, G_n · U with
U · Uᵀ = 1, and the result is a model as long as no entry gets negative. Where every table has a variable on each of two
sides, one side can be sheared against the other as well. And a variable whose neighbours have fewer than F
independent rows can be changed in ways that none of their tables shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twoway.arrays import Bools, Floats
from twoway.checks.table_program import ProgramAxis, TableProgram, program_tables
from twoway.data.coding import compressed_codes
from twoway.data.records import Records
from twoway.model.parameters import normalized_factors
from twoway.model.pmf import JointPMF
from twoway.report import Progress
from twoway.schema import Schema
from twoway.solvers import EM, CoupledNMF, Evidence, Problem, Smoothing, Solution, Watch
from twoway.solvers.evidence import PairMatrix
from twoway.solvers.starts import random_start, softened_start
from twoway.tables.pair_graph import PairGraph
from twoway.tables.tables import Tables

_STEPS_PER_PLANE = 12
_MAX_STEPS = 1500
_N_DRAWS = 4000
_SMALL_JOINT = 200_000
# Models are compared on at most this many variables at a time; with more, on several random groups.
_GROUP_SIZE, _N_GROUPS = 15, 3
# Joints of any rank with the same tables are searched for if the joint has at most this many cells.
_MAX_PROGRAM_CELLS = 1024
_N_SEARCHES, _SEARCH_STEPS = 4, 4
# The most passes × table cells × components of all starts together.
_WORK = 1e9
_N_STARTS = 4
_MIN_PASSES, _USUAL_PASSES, _MAX_PASSES = 30, 400, 4000
_MIN_TABLES = 3
EM_PASSES = 60
# Starts near a joint: how far a start is moved off the border, and the number of records that the joint counts as.
_SOFTENED, _WEIGHT = 1e-3, 1e4
# One pseudo-record per component: starts that lead to the same place then get there soon.
_LITTLE = Smoothing(1.0, 1.0)
# Exact tables are fitted to this divergence: no share is then off by more than about 1e-6.
_EXACT = 1e-12


def distance_to_alternatives(pmf: JointPMF, seed: int = 0) -> Callable[[JointPMF], float]:
    """Return a function of other joints: their total variation from one, by which no probability differs more.

    Exact where the joint is small, otherwise an average over draws, accurate to about 0.01. With more than 15
    variables, the mean over a few groups of 15: nobody asks about a hundred at once, and no two estimates agree on all.
    """
    n, random = len(pmf.schema), np.random.default_rng(seed)
    if n <= _GROUP_SIZE and pmf.trees.n_cells <= _SMALL_JOINT:
        joint = pmf.trees.joint()
        return lambda other: 0.5 * float(np.abs(joint - other.trees.joint()).sum())
    groups = [list(range(n))]
    if n > _GROUP_SIZE:
        groups = [sorted(random.choice(n, _GROUP_SIZE, replace=False).tolist()) for _ in range(_N_GROUPS)]
    codes = pmf.trees.draw(_N_DRAWS, random)

    def log_joints(of: JointPMF) -> list[Floats]:
        return [of.trees.of_variables(group).log_joint([codes[index] for index in group]) for group in groups]

    logs = np.array(log_joints(pmf))
    return lambda other: float(np.maximum(0.0, 1.0 - np.exp(log_joints(other) - logs)).mean())


def same_table_alternatives(
    pmf: JointPMF, graph: PairGraph, random: np.random.Generator, n_walks: int = 4
) -> Iterator[JointPMF]:
    """Yield models that have the same tables of the available pairs, as different as a few random walks find."""
    if pmf.rank == 1:
        return
    side = graph.sides()
    for _ in range(n_walks):
        yield _rotated_alternative(pmf, random)
        if side is not None and side.any() and not side.all():
            yield _sheared_alternative(pmf, side, random)


def _rotated_alternative(pmf: JointPMF, random: np.random.Generator) -> JointPMF:
    """Return the end of a walk through the rotations that leave every entry nonnegative."""
    g = pmf.stacked * np.sqrt(pmf.weights)
    for a, b in _alternative_planes(pmf.rank, random):
        forward = np.arctan(_alternative_ratio(g[:, a], g[:, b]))
        backward = np.arctan(_alternative_ratio(g[:, b], g[:, a]))
        angle = _alternative_step(-backward, forward, random)
        cos, sin = np.cos(angle), np.sin(angle)
        g[:, a], g[:, b] = cos * g[:, a] - sin * g[:, b], sin * g[:, a] + cos * g[:, b]
        np.maximum(g, 0.0, out=g)  # rounding
    # The rows of any one variable add up to the roots of the weights.
    return _alternative_model(pmf, np.square(g[pmf.schema.cells(0)].sum(axis=0)), g)


def _sheared_alternative(pmf: JointPMF, side: Bools, random: np.random.Generator) -> JointPMF:
    """Return the end of a walk that adds one component to another on one side and subtracts it on the other."""
    of_cell = np.repeat(side, pmf.schema.sizes)
    stacked = pmf.stacked.copy()
    stacked[~of_cell] *= pmf.weights
    w, h = stacked[of_cell], stacked[~of_cell]
    for plane in _alternative_planes(pmf.rank, random):
        for a, b in (plane, plane[::-1]):
            low = -min(_alternative_ratio(w[:, a], w[:, b]), 10.0)
            step = _alternative_step(low, min(_alternative_ratio(h[:, b], h[:, a]), 10.0), random)
            w[:, a] += step * w[:, b]
            h[:, b] -= step * h[:, a]
            np.maximum(w, 0.0, out=w)
            np.maximum(h, 0.0, out=h)
    stacked[of_cell], stacked[~of_cell] = w, h
    first, second = (stacked[pmf.schema.cells(int(np.argmax(part)))].sum(axis=0) for part in (side, ~side))
    return _alternative_model(pmf, first * second, stacked)


def unseen_alternatives(pmf: JointPMF, graph: PairGraph) -> dict[int, JointPMF]:
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
        gain = [_alternative_ratio(row, np.maximum(-direction, 0.0)) for row in factor]
        loss = [_alternative_ratio(row, np.maximum(direction, 0.0)) for row in factor]
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


def tables_of_alternatives(pmf: JointPMF, graph: PairGraph) -> Tables:
    """Return a model's own tables of the available pairs."""
    sets, names = np.argwhere(np.triu(graph.available)), pmf.schema.names
    flat = [1e6 * pmf.marginal([names[j], names[k]]).array.ravel() for j, k in sets]
    return Tables(pmf.schema, sets.astype(np.int32), np.concatenate([np.zeros(0), *flat]))


def far_alternatives(pmf: JointPMF, graph: PairGraph, random: np.random.Generator) -> list[tuple[Floats, float]]:
    """Return joints of any rank that have the model's tables, and their total variation from it, farthest first.

    The total variation is convex, so its greatest values are at vertices of the set of such joints: from a random
    vertex, each step goes to the vertex farthest in the direction in which the last one differs from the model. The
    list is empty where the joint is too large.
    """
    if pmf.trees.n_cells > _MAX_PROGRAM_CELLS:
        return []
    axes = ProgramAxis.full(pmf.schema, range(len(pmf.schema)))
    program = TableProgram(program_tables(tables_of_alternatives(pmf, graph), axes), axes, None)
    modelled = pmf.trees.joint()
    joints = []
    for _ in range(_N_SEARCHES):
        direction, best = random.choice(np.array([-1.0, 1.0]), modelled.size), (modelled, 0.0)
        for _ in range(_SEARCH_STEPS):
            vertex = program.cheapest(direction)
            assert vertex is not None
            if (distance := 0.5 * float(np.abs(vertex[1] - modelled).sum())) <= best[1] + 1e-6:
                break
            best, direction = (vertex[1], distance), np.sign(modelled - vertex[1]).ravel()
        joints.append(best)
    return sorted(joints, key=lambda joint: -joint[1])


def _alternative_planes(rank: int, random: np.random.Generator) -> Iterator[tuple[int, int]]:
    for _ in range(min(_STEPS_PER_PLANE * rank * (rank - 1) // 2, _MAX_STEPS)):
        a, b = random.choice(rank, 2, replace=False)
        yield int(a), int(b)


def _alternative_ratio(above: Floats, below: Floats) -> float:
    """Return the least of above / below where below is not 0, nor so small that the ratio overflows."""
    some = below > np.finfo(float).tiny
    return float((above[some] / below[some]).min()) if some.any() else np.inf


def _alternative_step(low: float, high: float, random: np.random.Generator) -> float:
    """Return a step between two ends, often one of the ends, to get far."""
    where = random.uniform()
    return low if where < 0.35 else high if where > 0.65 else float(random.uniform(low, high))


def _alternative_model(pmf: JointPMF, weights: Floats, stacked: Floats) -> JointPMF:
    return JointPMF.from_stacked(pmf.schema, weights / weights.sum(), normalized_factors(pmf.schema, stacked + 1e-300))


@dataclass(frozen=True)
class Alternatives:
    """A model, and others that fit the same tables as well."""

    pmf: JointPMF
    """The model that was given, or the best fit."""
    others: list[JointPMF]
    converged: bool
    any_joint: float | None
    """How far a joint of any rank with the model's tables is from it, as far as found; None where it is too large."""
    tables: Tables
    """The tables that were fitted; a part where there are very many."""


def fit_alternatives(evidence: Evidence, rank: int, known: JointPMF | None, seed: int, watch: Watch) -> Alternatives:
    """Return the models that fit tables equally well: those of a known model, or those of data."""
    part = _tables_for_alternatives(evidence, rank, seed)
    solutions: list[Solution] = []
    if rank == 1 and known is None:
        shares = [np.asarray(evidence.tables(2).marginal(name)) for name in evidence.schema.names]
        pmf, converged = JointPMF.from_stacked(evidence.schema, np.ones(1), np.concatenate(shares)[:, None]), True
    else:
        solver = _alternatives_solver(part, rank)
        smoothing = _LITTLE if known is None else Smoothing()
        for number in range(_N_STARTS):
            watch.show(Progress("trying starts", number, _N_STARTS))
            # Starts are not annealed: that would hide how many places they can end in.
            by_spa = number == 0 and part.pairs.can_carry(rank)
            start = None if by_spa else random_start(evidence.schema, rank, part.sets.shares, (seed, number))
            problem = Problem(part, rank, seed, number=number, smoothing=smoothing, start=start, watch=watch.quiet())
            solutions.append(solver.solve(problem))
            if watch.interrupted:
                raise KeyboardInterrupt
        best = min(solutions, key=lambda solution: solution.objective)
        pmf, converged = (best.pmf, best.converged) if known is None else (known, True)
    far, any_joint = _fit_far_alternatives(evidence, pmf, seed, watch)
    if known is not None:
        others = [solution.pmf for solution in (*solutions, *far) if solution.objective < _EXACT]
    else:
        fits = (solution.pmf for solution in (*solutions, *far))
        others = _alternatives_as_good(part, pmf, [fit for fit in fits if fit is not pmf])
    return Alternatives(pmf, others, converged, any_joint, part.tables(2))


def _alternatives_solver(evidence: Evidence, rank: int) -> CoupledNMF:
    work = evidence.sets.records.n_records * rank * _N_STARTS
    return CoupledNMF(tol=1e-9, max_iter=int(np.clip(_WORK / work, _MIN_PASSES, _MAX_PASSES)))


def _alternatives_as_good(evidence: Evidence, best: JointPMF, fits: list[JointPMF]) -> list[JointPMF]:
    """Return the fits that a test could not distinguish from the best: within a standard deviation of the deviance."""
    tables, pairs = evidence.tables(2), evidence.pairs
    n_free = len(tables.flat) - len(tables)
    allowed = math.sqrt(2.0 * max(n_free, 1)) / (2.0 * float(tables.weights.sum()))
    weights = PairMatrix.spread_over_cells(pairs.weights, tables.schema.sizes) / pairs.weights.sum()
    seen = pairs.shares > 0
    weighted = weights[seen] * pairs.shares[seen]

    def divergence(pmf: JointPMF) -> float:
        """Return the divergence from the tables, each with its weight, without what all models have in common."""
        return -float(weighted @ np.log(np.maximum(pairs.model(pmf)[seen], 1e-300)))

    highest = divergence(best) + allowed
    return [pmf for pmf in fits if divergence(pmf) <= highest]


def _fit_far_alternatives(
    evidence: Evidence, pmf: JointPMF, seed: int, watch: Watch
) -> tuple[list[Solution], float | None]:
    """Return fits of the model's rank from starts near joints that are far from it and have its tables.

    Also how far the farthest of these joints is, which may have any rank; None where the joint is too large to search.
    """
    joints = far_alternatives(pmf, evidence.graph, np.random.default_rng(seed))
    if pmf.rank == 1 and not joints:
        # A change in a few of many independent variables leaves all tables with the others as they are.
        joints = far_alternatives(*_most_even_part(pmf, evidence.graph), np.random.default_rng(seed))
    fits = []
    for number, (joint, _) in enumerate(joints if pmf.rank > 1 else ()):
        cells = Evidence(pmf.schema, records=_alternative_as_records(pmf.schema, joint), threads=evidence.threads)
        problem = Problem(cells, pmf.rank, seed, number=number, watch=watch.quiet())
        near = softened_start(EM(max_iter=EM_PASSES).solve(problem).pmf, evidence.sets.shares, _SOFTENED)
        fits.append(_alternatives_solver(evidence, pmf.rank).solve(replace(problem, evidence=evidence, start=near)))
    return fits, joints[0][1] if joints else None


def _most_even_part(pmf: JointPMF, graph: PairGraph) -> tuple[JointPMF, PairGraph]:
    """Return the part of a model that is about the three variables whose largest shares are smallest."""
    largest = np.maximum.reduceat(pmf.stacked[:, 0], pmf.schema.offsets[:-1])
    # With more than ten categories the joint of three would be too large.
    order = sorted(range(len(pmf.schema)), key=lambda index: (pmf.schema.sizes[index] > 10, largest[index]))
    variables = sorted(order[:3])
    part = part_of_model(pmf, variables)
    return part, PairGraph(graph.available[np.ix_(variables, variables)], part.schema.sizes)


def part_of_model(pmf: JointPMF, variables: Sequence[int]) -> JointPMF:
    """Return a model of some variables only, by their positions in ascending order."""
    schema = pmf.schema.subset([pmf.schema.names[index] for index in variables])
    return JointPMF.from_trees(schema, pmf.trees.of_variables(variables))


def _alternative_as_records(schema: Schema, joint: Floats) -> Records:
    """Return a joint as weighted records, one for each possible cell."""
    pointers, cells = compressed_codes(np.argwhere(joint > 0), schema.offsets, schema)
    return Records.from_cells(schema, pointers, cells, joint[joint > 0] * _WEIGHT)


def _tables_for_alternatives(evidence: Evidence, rank: int, seed: int) -> Evidence:
    """Return the evidence, or a part of its tables, of all variables, that is small enough for starts to converge."""
    tables = evidence.tables(2)
    affordable = _WORK / (_USUAL_PASSES * _N_STARTS * rank)
    if len(tables.flat) <= affordable:
        return evidence
    sizes, degree = np.diff(tables.starts), np.zeros(len(tables.schema), dtype=np.int64)
    names, used = [], 0
    # Beyond what is affordable, tables of variables that have few so far: a few for each are enough to connect them.
    for table in np.random.default_rng(seed).permutation(len(tables)):
        pair = tables.sets[table]
        if used < affordable or degree[pair].min() < _MIN_TABLES:
            names.append(tables.names[table])
            used += int(sizes[table])
            degree[pair] += 1
    part = tables.select(names)
    return Evidence(tables.schema, tables=part, threads=evidence.threads) if part.is_connected else evidence
