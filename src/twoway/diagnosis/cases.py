"""What is to be diagnosed: a model or data, the tables that are there, and models that fit them as well."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twoway.diagnosis.conditions import Check
from twoway.diagnosis.pair_graph import PairGraph
from twoway.diagnosis.verdict import Diagnosis, Kind, MissingTable
from twoway.errors import DataError, shortlist
from twoway.fitting import evidence_of
from twoway.pmf import JointPMF
from twoway.ranks import choose_rank_from
from twoway.records import RecordSource
from twoway.report import Progress, StopReason
from twoway.schema import Schema
from twoway.solvers import EM, CoupledNMF, Evidence, Problem, Smoothing, Watch
from twoway.solvers.starts import random_start
from twoway.tables import Tables

# Restarts together may take so many passes times table cells times components.
_WORK = 1e9
_STARTS = 4
_LEAST_PASSES, _USUAL_PASSES, _MOST_PASSES = 30, 400, 1500
_LEAST_TABLES = 3
_EM_PASSES = 60
# A pseudo-record a component: starts that lead to one place then get there, and soon.
_LITTLE = Smoothing(1.0, 1.0)
# Exact tables are fitted to this divergence; nobody tells it from none with fewer than a million records.
_EXACT = 1e-7


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
    exact = _exact_tables(pmf, graph)
    if (simple := _simple(graph, schema, pmf.rank)) is not None:
        return replace(simple, tables=exact, is_exact=True, models=(pmf,))
    others, _ = _restarts(Evidence(schema, tables=exact, threads=threads), pmf.rank, seed, watch, Smoothing())
    same = [other for other, objective in others if objective < _EXACT]
    return Case(pmf, graph, same, True, exact, True)


def _exact_tables(pmf: JointPMF, graph: PairGraph) -> Tables:
    sets = np.argwhere(np.triu(graph.available))
    names = pmf.schema.names
    flat = [1e6 * pmf.marginal([names[j], names[k]]).array.ravel() for j, k in sets]
    return Tables(pmf.schema, sets.astype(np.int32), np.concatenate([np.zeros(0), *flat]))


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
        if (simple := _simple(graph, schema, rank)) is not None:
            return replace(simple, tables=tables)
    fits, converged = _restarts(evidence, rank, seed, watch, _LITTLE)
    best, lowest = min(fits, key=lambda fit: fit[1])
    # Restarts that a test of fit could not tell from the best: within a standard deviation of the deviance.
    cells = int(np.diff(tables.starts).sum()) - len(tables)
    allowed = math.sqrt(2.0 * max(cells, 1)) / (2.0 * float(tables.weights.sum()))
    others = [pmf for pmf, objective in fits if pmf is not best and objective <= lowest + allowed]
    from_records = None
    if records is not None:
        problem = Problem(
            Evidence(schema, records=records, threads=threads), rank, seed, start=best, watch=watch.quiet()
        )
        from_records = EM(max_iter=_EM_PASSES).solve(problem).pmf
    return Case(best, graph, others, converged, tables, False, n_records, from_records)


def _restarts(
    evidence: Evidence, rank: int, seed: int, watch: Watch, smoothing: Smoothing
) -> tuple[list[tuple[JointPMF, float]], bool]:
    """Return fits from several starts with their objectives, and whether the best of them had converged."""
    evidence = _fewer_tables(evidence, rank, seed)
    work = evidence.sets.records.n_records * rank * _STARTS
    solver = CoupledNMF(tol=1e-7, max_iter=int(np.clip(_WORK / work, _LEAST_PASSES, _MOST_PASSES)))
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


def _simple(graph: PairGraph, schema: Schema, rank: int | None) -> Diagnosis | None:
    """Return the diagnosis where the graph of tables says it all, None otherwise."""
    n_tables = int(graph.available.sum()) // 2

    def made(kind: Kind, reason: str, status: str, detail: str, **more: Any) -> Diagnosis:
        check = Check("tables", status, detail)  # type: ignore[arg-type]
        return Diagnosis(kind, reason, rank or 1, len(schema), n_tables, (check,), **more)

    alone = [schema.names[index] for index in range(len(schema)) if not graph.available[index].any()]
    if len(schema) == 1 or (len(schema) == 2 and n_tables == 1):
        return made("recoverable", "the only table is the joint itself", "holds", "all there")
    if rank == 1 and not alone:
        return made("recoverable", "with one component, the shares of each variable say all", "holds", "each is in one")
    groups = graph.groups()
    if len(groups) == 1 or (rank is None and n_tables == 0):
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
