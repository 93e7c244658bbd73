"""What is to be diagnosed: a model or data, the tables that are there, and models that fit them as well."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.checks.contradiction import Contradiction, find_contradiction
from twoway.checks.fit_quality import FitQuality, fit_quality
from twoway.data.records import Records
from twoway.data.source import RecordSource
from twoway.diagnosis.alternatives import exact_tables, far_joints
from twoway.diagnosis.conditions import Check
from twoway.diagnosis.verdict import Diagnosis, Kind, MissingTable
from twoway.errors import DataError
from twoway.fitting.fit import evidence_of
from twoway.model.pmf import JointPMF
from twoway.report import Progress, StopReason
from twoway.schema import Schema
from twoway.solvers import EM, CoupledNMF, Evidence, Problem, Smoothing, Watch
from twoway.solvers.rank import choose_rank_from, n_parameters
from twoway.solvers.starts import random_start, softened
from twoway.tables.pair_graph import PairGraph
from twoway.tables.tables import Tables
from twoway.text import shortlist

# Restarts together may take so many passes times table cells times components.
_WORK = 1e9
_STARTS = 4
_LEAST_PASSES, _USUAL_PASSES, _MOST_PASSES = 30, 400, 4000
_LEAST_TABLES = 3
_EM_PASSES = 60
_NOT_COMPARED = FitQuality(())
# Starts near a joint: how much a start is moved off the border, and the records that the joint counts as.
_SOFTENED, _WEIGHT = 1e-3, 1e4
# A pseudo-record a component: starts that lead to one place then get there, and soon.
_LITTLE = Smoothing(1.0, 1.0)
# Exact tables are fitted to this divergence: no share is then off by more than about 1e-6.
_EXACT = 1e-12
# Of so many tables, at most, is the fit looked at.
_MOST_COMPARED = 500
# Three-way tables of records are counted for so many variables that these numbers of tables and cells are not passed.
_MOST_TRIPLES, _MOST_TRIPLE_CELLS, _MOST_TRIPLE_RECORDS = 500, 300_000, 1_000_000


@dataclass(frozen=True)
class Case:
    """A model at hand, the tables that are there, and models that fit them as well."""

    pmf: JointPMF
    graph: PairGraph
    others: list[JointPMF]
    converged: bool
    tables: Tables
    is_exact: bool
    """Whether the tables are the model's own, and leave nothing to chance."""
    n_records: float | None = None
    from_records: JointPMF | None = None
    records_say_more: bool = False
    """Whether the fit to records explains them better than that to their tables, by more than chance."""
    any_joint: float | None = None
    """How far a joint of any rank with the model's tables is from it, as far as found; None where not looked for."""
    quality: FitQuality = _NOT_COMPARED
    """How well the model fits the tables."""
    triples: FitQuality = _NOT_COMPARED
    """How well it fits three-way tables of the records."""
    contradiction: Contradiction | None = None


def case_of_model(
    pmf: JointPMF,
    rank: int | None,
    pairs: Iterable[Sequence[str]] | None,
    seed: int,
    threads: int | None,
    watch: Watch,
) -> Case | Diagnosis:
    """Return a model with its exact tables, or the diagnosis where the graph of tables says it all."""
    if rank not in (None, pmf.rank):
        raise DataError(f"the model has rank {pmf.rank}, and rank={rank} was asked for; leave rank out")
    schema = pmf.schema
    available = np.ones((len(schema), len(schema)), dtype=bool)
    if pairs is not None:
        available[:] = False
        for pair in pairs:
            indices = schema.indices(pair)
            if len(indices) != 2:
                raise DataError(f"a pair names two variables; got {pair!r}")
            available[indices[0], indices[1]] = available[indices[1], indices[0]] = True
    graph = PairGraph(available, schema.sizes)
    exact = exact_tables(pmf, graph)
    if (simple := _simple(graph, schema, pmf.rank, is_exact=True)) is not None:
        return replace(simple, tables=exact, is_exact=True, models=(pmf,))
    evidence = Evidence(schema, tables=exact, threads=threads)
    fits, _ = _restarts(_fewer_tables(evidence, pmf.rank, seed), pmf.rank, seed, watch, Smoothing())
    far, any_joint = _far_fits(evidence, pmf, graph, seed, watch)
    same = [other for other, objective in (*fits, *far) if objective < _EXACT]
    return Case(pmf, graph, same, True, exact, True, any_joint=any_joint)


def case_of_data(
    source: Any, rank: int | None, n_records: float | None, seed: int, threads: int | None, watch: Watch
) -> Case | Diagnosis:
    """Return the best fit to tables, or the diagnosis where their graph says it all."""
    records: RecordSource | None = None
    if isinstance(source, Tables):
        tables = source
        if tables.order != 2:
            raise DataError("diagnose looks at two-way tables; these are three-way ones, which say more: fit them")
    else:
        evidence, _, _ = evidence_of(source, threads)
        assert evidence.records is not None
        records, tables = evidence.records, evidence.tables(2)
        n_records = records.total_weight
    schema = tables.schema
    graph = PairGraph.of(tables)
    if (simple := _simple(graph, schema, rank)) is not None:
        return replace(simple, tables=tables)
    evidence = Evidence(schema, tables=tables, threads=threads)
    if rank is None:
        whole = evidence if records is None else Evidence(schema, records=records, threads=threads)
        rank = choose_rank_from(whole, None, seed=seed, watch=watch).rank
    part = _fewer_tables(evidence, rank, seed)
    if rank == 1:
        fits, converged = [(independent(tables), 0.0)], True
    else:
        fits, converged = _restarts(part, rank, seed, watch, _LITTLE)
    best = min(fits, key=lambda fit: fit[1])[0]
    far, any_joint = _far_fits(evidence, best, graph, seed, watch)
    from_records, say_more = None, False
    if records is not None and rank > 1:
        from_records, say_more = _fit_records(records, best, seed, threads, watch)
    quality = _quality(best, part.tables(2), seed)
    return Case(
        best,
        graph,
        _as_good(part, best, [pmf for pmf, _ in (*fits, *far) if pmf is not best]),
        converged,
        tables,
        False,
        n_records,
        from_records,
        say_more,
        any_joint,
        quality,
        _NOT_COMPARED if records is None else _three_way_quality(best, records, seed),
        find_contradiction(tables, [pair.variables for pair in quality.misfits]),
    )


def independent(tables: Tables) -> JointPMF:
    """Return the model of one component that has the shares of each variable."""
    shares = [np.asarray(tables.marginal(name)) for name in tables.schema.names]
    return JointPMF.from_stacked(tables.schema, np.ones(1), np.concatenate(shares)[:, None])


# Other models, and what they are compared with


def _as_good(evidence: Evidence, best: JointPMF, fits: list[JointPMF]) -> list[JointPMF]:
    """Return the fits that a test could not tell from the best: within a standard deviation of the deviance."""
    tables, pairs = evidence.tables(2), evidence.pairs
    cells = int(np.diff(tables.starts).sum()) - len(tables)
    allowed = math.sqrt(2.0 * max(cells, 1)) / (2.0 * float(tables.weights.sum()))
    sizes = tables.schema.sizes
    weights = np.repeat(np.repeat(pairs.weights, sizes, axis=0), sizes, axis=1) / pairs.weights.sum()
    seen = pairs.shares > 0
    weighted = weights[seen] * pairs.shares[seen]

    def divergence(pmf: JointPMF) -> float:
        """Return the divergence from the tables, each with its weight, but for what all models have in common."""
        return -float(weighted @ np.log(np.maximum(pairs.model(pmf)[seen], 1e-300)))

    lowest = divergence(best)
    return [pmf for pmf in fits if divergence(pmf) <= lowest + allowed]


def _quality(pmf: JointPMF, tables: Tables, seed: int) -> FitQuality:
    """Return how well a model fits the tables, or some of them where there are very many."""
    return fit_quality(pmf, tables.sample(_MOST_COMPARED, len(tables.flat), np.random.default_rng(seed)))


def _three_way_quality(pmf: JointPMF, records: RecordSource, seed: int) -> FitQuality:
    """Return how well a model fits three-way tables of records, of as many variables as there is time for."""
    schema = records.schema
    variables: list[int] = []
    n_triples = n_cells = n_pair_cells = 0
    sizes: list[int] = []
    for index in np.random.default_rng(seed).permutation(len(schema)).tolist():
        size = schema.sizes[index]
        n_triples, n_cells = math.comb(len(sizes) + 1, 3), n_cells + size * n_pair_cells
        if n_triples > _MOST_TRIPLES or n_cells > _MOST_TRIPLE_CELLS:
            break
        variables.append(index)
        n_pair_cells += size * sum(sizes)
        sizes.append(size)
    if len(variables) < 3:
        return _NOT_COMPARED
    variables.sort()
    tables = Tables.count(records.sample(_MOST_TRIPLE_RECORDS, seed=seed).narrowed(variables), 3)
    return fit_quality(_part_of(pmf, variables), tables)


def _fit_records(
    records: RecordSource, best: JointPMF, seed: int, threads: int | None, watch: Watch
) -> tuple[JointPMF, bool]:
    """Return a fit to records, and whether it explains them better than the fit to their tables by more than chance.

    It is the better of two: from the fit to tables, and from a start that knows nothing of it. Where tables show less
    than the records do, the first may be a saddle point from which no pass leads away.
    """
    evidence = Evidence(records.schema, records=records, threads=threads)
    problem = Problem(evidence, best.rank, seed, start=best, watch=watch.quiet())
    solver = EM(max_iter=_EM_PASSES)
    fits = [solver.solve(one) for one in (problem, replace(problem, start=None))]
    better = min(fits, key=lambda fit: fit.objectives[-1])
    # Fitting as many parameters to chance raises twice the log-likelihood by about their number.
    n_free = n_parameters(records.schema, best.rank)
    gain = 2.0 * records.total_weight * (fits[0].objectives[0] - better.objectives[-1])
    return better.pmf, gain > n_free + 3.0 * math.sqrt(2.0 * n_free)


def _restarts(
    evidence: Evidence, rank: int, seed: int, watch: Watch, smoothing: Smoothing
) -> tuple[list[tuple[JointPMF, float]], bool]:
    """Return fits from several starts with their objectives, and whether the best of them had converged."""
    solver = _solver(evidence, rank)
    fits = []
    for number in range(_STARTS):
        watch.tell(Progress("trying starts", number, _STARTS))
        # Each start as it is: annealed ones would not show how many places they can end in.
        by_spa = number == 0 and evidence.pairs.can_carry(rank)
        start = None if by_spa else random_start(evidence.schema, rank, evidence.sets.shares, (seed, number))
        fits.append(
            solver.solve(
                Problem(evidence, rank, seed, number=number, smoothing=smoothing, start=start, watch=watch.quiet())
            )
        )
        if watch.interrupted:
            raise KeyboardInterrupt
    best = min(fits, key=lambda fit: fit.objectives[-1])
    return [(fit.pmf, fit.objectives[-1]) for fit in fits], best.stop_reason is StopReason.CONVERGED


def _solver(evidence: Evidence, rank: int) -> CoupledNMF:
    work = evidence.sets.records.n_records * rank * _STARTS
    return CoupledNMF(tol=1e-9, max_iter=int(np.clip(_WORK / work, _LEAST_PASSES, _MOST_PASSES)))


def _far_fits(
    evidence: Evidence, pmf: JointPMF, graph: PairGraph, seed: int, watch: Watch
) -> tuple[list[tuple[JointPMF, float]], float | None]:
    """Return fits of the model's rank from starts near joints that are far from it and have its tables.

    Also how far the farthest of these joints is, which may have any rank; None where the joint is too large to look.
    """
    joints = far_joints(pmf, graph, np.random.default_rng(seed))
    if not joints and pmf.rank == 1:
        # What is changed in a few of many independent variables leaves all tables with the others as they are.
        joints = far_joints(*_most_even(pmf, graph), np.random.default_rng(seed))
    if not joints:
        return [], None
    fits = []
    for number, (joint, _) in enumerate(joints if pmf.rank > 1 else ()):
        cells = Evidence(pmf.schema, records=_as_records(pmf.schema, joint), threads=evidence.threads)
        problem = Problem(cells, pmf.rank, seed, number=number, watch=watch.quiet())
        near = softened(EM(max_iter=_EM_PASSES).solve(problem).pmf, evidence.sets.shares, _SOFTENED)
        fit = _solver(evidence, pmf.rank).solve(
            Problem(evidence, pmf.rank, seed, number=number, start=near, watch=watch.quiet())
        )
        fits.append((fit.pmf, fit.objectives[-1]))
    return fits, joints[0][1]


def _most_even(pmf: JointPMF, graph: PairGraph) -> tuple[JointPMF, PairGraph]:
    """Return the part of a model that is about the three variables whose largest shares are smallest."""
    largest = np.maximum.reduceat(pmf.stacked[:, 0], pmf.schema.offsets[:-1])
    # With more than ten categories the joint of three would be too large.
    order = sorted(range(len(pmf.schema)), key=lambda index: (pmf.schema.sizes[index] > 10, largest[index]))
    some = sorted(order[:3])
    part = _part_of(pmf, some)
    return part, PairGraph(graph.available[np.ix_(some, some)], part.schema.sizes)


def _part_of(pmf: JointPMF, variables: Sequence[int]) -> JointPMF:
    """Return a model of some variables only, by their positions in ascending order."""
    schema = pmf.schema.subset([pmf.schema.names[index] for index in variables])
    return JointPMF.from_stacked(schema, pmf.weights, np.concatenate([pmf.factors[index] for index in variables]))


def _as_records(schema: Schema, joint: NDArray[np.float64]) -> Records:
    """Return a joint as weighted records, one for each cell."""
    codes = np.indices(joint.shape).reshape(joint.ndim, -1).T + schema.offsets[:-1]
    some = joint.ravel() > 0
    pointers = np.arange(0, int(some.sum()) * joint.ndim + 1, joint.ndim, dtype=np.int64)
    cells = codes[some].astype(np.min_scalar_type(schema.n_categories - 1)).ravel()
    return Records.from_cells(schema, pointers, cells, joint.ravel()[some] * _WEIGHT)


def _fewer_tables(evidence: Evidence, rank: int, seed: int) -> Evidence:
    """Return the evidence, or so much of it that starts can get to their ends: all variables, not all their tables."""
    tables = evidence.tables(2)
    affordable = _WORK / (_USUAL_PASSES * _STARTS * rank)
    cells = np.diff(tables.starts)
    if cells.sum() <= affordable:
        return evidence
    random = np.random.default_rng(seed)
    order = random.permutation(len(tables))
    degree = np.zeros(len(tables.schema), dtype=np.int64)
    kept, used = [], 0
    # Tables of the variables that have fewest so far; a few for each are more than enough to connect them.
    for table in order:
        one, other = tables.sets[table]
        if used < affordable or min(degree[one], degree[other]) < _LEAST_TABLES:
            kept.append(tables.names[table])
            used += int(cells[table])
            degree[[one, other]] += 1
    part = tables.select(kept)
    return Evidence(tables.schema, tables=part, threads=evidence.threads) if part.is_connected else evidence


def _simple(graph: PairGraph, schema: Schema, rank: int | None, *, is_exact: bool = False) -> Diagnosis | None:
    """Return the diagnosis where the graph of tables says it all, None otherwise."""
    n_tables = int(graph.available.sum()) // 2

    def made(kind: Kind, reason: str, status: str, detail: str, **more: Any) -> Diagnosis:
        check = Check("tables", status, detail)  # type: ignore[arg-type]
        return Diagnosis(kind, reason, rank or 1, len(schema), n_tables, (check,), **more)

    alone = [schema.names[index] for index in range(len(schema)) if not graph.available[index].any()]
    if len(schema) == 1 or (len(schema) == 2 and n_tables == 1):
        return made("recoverable", "the only table is the joint itself", "holds", "all there")
    if rank == 1 and is_exact and not alone:
        return made("recoverable", "with one component, the shares of each variable say all", "holds", "each is in one")
    groups = graph.groups()
    if len(groups) == 1 or (rank == 1 and not alone) or (rank is None and n_tables == 0):
        return None
    if len(groups) > 1:
        smallest = min(groups, key=len)
        names = shortlist([schema.names[index] for index in smallest], 6)
        best = max(
            ((j, k) for j in smallest for k in range(len(schema)) if k not in smallest),
            key=lambda pair: graph.sizes[pair[0]] * graph.sizes[pair[1]],
        )
        pair = schema.names[best[0]], schema.names[best[1]]
        missing = MissingTable(pair, math.nan, "it connects what no table connects, with the most categories")
        return made(
            "not from these tables",
            f"no table connects {names} with the other variables",
            "fails",
            f"{len(groups)} groups of variables that nothing connects",
            hanging=tuple(alone),
            missing=(missing,),
            advice=("add a table between the groups, or fit them apart",),
        )
    return None
