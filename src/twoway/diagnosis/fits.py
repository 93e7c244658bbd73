"""The models that a diagnosis compares: fits from several starts, and fits near joints that are far away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from twoway.arrays import Floats
from twoway.checks.fit_quality import FitQuality, fit_quality
from twoway.data.records import Records
from twoway.data.source import RecordSource
from twoway.diagnosis.alternatives import far_joints
from twoway.model.parameters import n_parameters
from twoway.model.pmf import JointPMF
from twoway.report import Progress, StopReason
from twoway.schema import Schema
from twoway.solvers import EM, CoupledNMF, Evidence, Problem, Smoothing, Solution, Watch
from twoway.solvers.starts import random_start, softened_start
from twoway.tables.counting import n_set_cells
from twoway.tables.pair_graph import PairGraph
from twoway.tables.tables import Tables

# All starts together may take so many passes times table cells times components.
_WORK = 1e9
_N_STARTS = 4
_MIN_PASSES, _USUAL_PASSES, _MAX_PASSES = 30, 400, 4000
_MIN_TABLES = 3
_EM_PASSES = 60
# Starts near a joint: how far a start is moved off the border, and the number of records that the joint counts as.
_SOFTENED, _WEIGHT = 1e-3, 1e4
# One pseudo-record per component: starts that lead to the same place then get there soon.
_LITTLE = Smoothing(1.0, 1.0)
# Exact tables are fitted to this divergence: no share is then off by more than about 1e-6.
_EXACT = 1e-12
# Three-way tables are counted for as many variables as keep within these numbers of tables and cells.
_MAX_TRIPLES, _MAX_TRIPLE_CELLS, _MAX_TRIPLE_RECORDS = 500, 300_000, 1_000_000


@dataclass(frozen=True)
class Fits:
    """A model, and others that fit the same tables as well."""

    pmf: JointPMF
    """The model that was given, or the best fit."""
    others: list[JointPMF]
    converged: bool
    any_joint: float | None
    """How far a joint of any rank with the model's tables is from it, as far as found; None where it is too large."""
    tables: Tables
    """The tables that were fitted; a part where there are very many."""


def fit_starts(
    evidence: Evidence, rank: int, known: JointPMF | None, graph: PairGraph, seed: int, watch: Watch
) -> Fits:
    """Return the models that fit tables equally well: those of a known model, or those of data."""
    part = _fewer_tables(evidence, rank, seed)
    solutions: list[Solution] = []
    if rank == 1 and known is None:
        shares = [np.asarray(evidence.tables(2).marginal(name)) for name in evidence.schema.names]
        pmf, converged = JointPMF.from_stacked(evidence.schema, np.ones(1), np.concatenate(shares)[:, None]), True
    else:
        solver = _solver(part, rank)
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
        best = min(solutions, key=_objective)
        pmf, converged = (best.pmf, best.stop_reason is StopReason.CONVERGED) if known is None else (known, True)
    far, any_joint = _fit_far_joints(evidence, pmf, graph, seed, watch)
    solutions += far
    if known is not None:
        others = [solution.pmf for solution in solutions if _objective(solution) < _EXACT]
    else:
        others = _as_good(part, pmf, [solution.pmf for solution in solutions if solution.pmf is not pmf])
    return Fits(pmf, others, converged, any_joint, part.tables(2))


def _objective(solution: Solution) -> float:
    return solution.objectives[-1]


def _solver(evidence: Evidence, rank: int) -> CoupledNMF:
    work = evidence.sets.records.n_records * rank * _N_STARTS
    return CoupledNMF(tol=1e-9, max_iter=int(np.clip(_WORK / work, _MIN_PASSES, _MAX_PASSES)))


def _as_good(evidence: Evidence, best: JointPMF, fits: list[JointPMF]) -> list[JointPMF]:
    """Return the fits that a test could not distinguish from the best: within a standard deviation of the deviance."""
    tables, pairs = evidence.tables(2), evidence.pairs
    n_free = len(tables.flat) - len(tables)
    allowed = math.sqrt(2.0 * max(n_free, 1)) / (2.0 * float(tables.weights.sum()))
    sizes = tables.schema.sizes
    weights = np.repeat(np.repeat(pairs.weights, sizes, axis=0), sizes, axis=1) / pairs.weights.sum()
    seen = pairs.shares > 0
    weighted = weights[seen] * pairs.shares[seen]

    def divergence(pmf: JointPMF) -> float:
        """Return the divergence from the tables, each with its weight, without what all models have in common."""
        return -float(weighted @ np.log(np.maximum(pairs.model(pmf)[seen], 1e-300)))

    highest = divergence(best) + allowed
    return [pmf for pmf in fits if divergence(pmf) <= highest]


def _fit_far_joints(
    evidence: Evidence, pmf: JointPMF, graph: PairGraph, seed: int, watch: Watch
) -> tuple[list[Solution], float | None]:
    """Return fits of the model's rank from starts near joints that are far from it and have its tables.

    Also how far the farthest of these joints is, which may have any rank; None where the joint is too large to search.
    """
    joints = far_joints(pmf, graph, np.random.default_rng(seed))
    if pmf.rank == 1:
        if not joints:
            # A change in a few of many independent variables leaves all tables with the others as they are.
            joints = far_joints(*_most_even(pmf, graph), np.random.default_rng(seed))
        return [], joints[0][1] if joints else None
    fits = []
    for number, (joint, _) in enumerate(joints):
        cells = Evidence(pmf.schema, records=_as_records(pmf.schema, joint), threads=evidence.threads)
        problem = Problem(cells, pmf.rank, seed, number=number, watch=watch.quiet())
        near = softened_start(EM(max_iter=_EM_PASSES).solve(problem).pmf, evidence.sets.shares, _SOFTENED)
        fits.append(_solver(evidence, pmf.rank).solve(replace(problem, evidence=evidence, start=near)))
    return fits, joints[0][1] if joints else None


def _most_even(pmf: JointPMF, graph: PairGraph) -> tuple[JointPMF, PairGraph]:
    """Return the part of a model that is about the three variables whose largest shares are smallest."""
    largest = np.maximum.reduceat(pmf.stacked[:, 0], pmf.schema.offsets[:-1])
    # With more than ten categories the joint of three would be too large.
    order = sorted(range(len(pmf.schema)), key=lambda index: (pmf.schema.sizes[index] > 10, largest[index]))
    variables = sorted(order[:3])
    part = _part_of(pmf, variables)
    return part, PairGraph(graph.available[np.ix_(variables, variables)], part.schema.sizes)


def _part_of(pmf: JointPMF, variables: Sequence[int]) -> JointPMF:
    """Return a model of some variables only, by their positions in ascending order."""
    schema = pmf.schema.subset([pmf.schema.names[index] for index in variables])
    return JointPMF.from_stacked(schema, pmf.weights, np.concatenate([pmf.factors[index] for index in variables]))


def _as_records(schema: Schema, joint: Floats) -> Records:
    """Return a joint as weighted records, one for each cell."""
    codes = np.indices(joint.shape).reshape(joint.ndim, -1).T + schema.offsets[:-1]
    some = joint.ravel() > 0
    pointers = np.arange(0, int(some.sum()) * joint.ndim + 1, joint.ndim, dtype=np.int64)
    cells = codes[some].astype(np.min_scalar_type(schema.n_categories - 1)).ravel()
    return Records.from_cells(schema, pointers, cells, joint.ravel()[some] * _WEIGHT)


def _fewer_tables(evidence: Evidence, rank: int, seed: int) -> Evidence:
    """Return the evidence, or so much of it that starts can converge: all variables, not all their tables."""
    tables = evidence.tables(2)
    affordable = _WORK / (_USUAL_PASSES * _N_STARTS * rank)
    if len(tables.flat) <= affordable:
        return evidence
    sizes, degree = np.diff(tables.starts), np.zeros(len(tables.schema), dtype=np.int64)
    kept, used = [], 0
    # Beyond what is affordable, tables of variables that have few so far: a few for each are enough to connect them.
    for table in np.random.default_rng(seed).permutation(len(tables)):
        pair = tables.sets[table]
        if used < affordable or degree[pair].min() < _MIN_TABLES:
            kept.append(tables.names[table])
            used += int(sizes[table])
            degree[pair] += 1
    part = tables.select(kept)
    return Evidence(tables.schema, tables=part, threads=evidence.threads) if part.is_connected else evidence


# Records


def fit_records(
    records: RecordSource, best: JointPMF, seed: int, threads: int | None, watch: Watch
) -> tuple[JointPMF, bool]:
    """Return a fit to records, and whether it explains them better than the fit to their tables by more than chance.

    It is the better of two: from the fit to tables, and from a start that knows nothing of it. Where tables show less
    than the records do, the first may be a saddle point from which no pass leads away.
    """
    evidence = Evidence(records.schema, records=records, threads=threads)
    problem = Problem(evidence, best.rank, seed, start=best, watch=watch.quiet())
    fits = [EM(max_iter=_EM_PASSES).solve(replace(problem, start=start)) for start in (best, None)]
    better = min(fits, key=_objective)
    # Fitting as many parameters to chance raises twice the log-likelihood by about their number.
    n_free = n_parameters(records.schema, best.rank)
    gain = 2.0 * records.total_weight * (fits[0].objectives[0] - _objective(better))
    return better.pmf, gain > n_free + 3.0 * math.sqrt(2.0 * n_free)


def three_way_quality(pmf: JointPMF, records: RecordSource, seed: int) -> FitQuality:
    """Return how well a model fits three-way tables of records, of as many random variables as there is time for."""
    schema = records.schema
    order = np.random.default_rng(seed).permutation(len(schema))
    sizes = [schema.sizes[index] for index in order]
    few = [count for count in range(len(schema) + 1) if math.comb(count, 3) <= _MAX_TRIPLES]
    n_counted = max(count for count in few if n_set_cells(sizes[:count], 3) <= _MAX_TRIPLE_CELLS)
    variables = np.sort(order[:n_counted]).tolist()
    if len(variables) < 3:
        return FitQuality(())
    tables = Tables.count(records.sample(_MAX_TRIPLE_RECORDS, seed=seed).narrowed(variables), 3)
    return fit_quality(_part_of(pmf, variables), tables)
