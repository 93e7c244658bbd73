"""Can it be known? The paper's conditions, and other models that fit as well, on the evidence at hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twoway.arrays import Floats
from twoway.checks.contradiction import find_contradiction
from twoway.checks.fit_quality import FitQuality, fit_quality
from twoway.data.stored_records import RecordSource
from twoway.diagnosis import alternatives
from twoway.diagnosis.alternatives import AlternativeDistance, Alternatives, fit_alternatives, tables_of_alternatives
from twoway.diagnosis.conditions import SMALL, check_conditions
from twoway.diagnosis.hidden import diagnose_hidden
from twoway.diagnosis.verdict import ComponentNote, Diagnosis, MissingTable, verdict_by_findings, verdict_by_graph
from twoway.errors import DataError, check_whole_number
from twoway.fitting.sources import evidence_of_source
from twoway.model.comparison import match_components
from twoway.model.pmf import JointPMF
from twoway.report import Monitor, Progress
from twoway.solvers import EM, Evidence, Problem, Watch
from twoway.solvers.rank import choose_rank_from, rank_spectrum
from twoway.tables.counting import count_cells
from twoway.tables.pair_graph import PairGraph, PairSplit
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables

# The fit of at most so many tables is checked.
_MAX_COMPARED = 500
_MAX_MISSING = 10
# Three-way tables are counted for as many variables as keep within these numbers of tables and cells.
_MAX_TRIPLES, _MAX_TRIPLE_CELLS, _MAX_TRIPLE_RECORDS = 500, 300_000, 1_000_000


def diagnose(
    source: Any,
    rank: int | None = None,
    *,
    pairs: Iterable[Sequence[str]] | None = None,
    n_records: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    monitor: Monitor | bool | None = None,
) -> Diagnosis:
    """Return whether the joint can be recovered from two-way tables, and what prevents it.

    Parameters
    ----------
    source
        `Tables`; or records, whose pairs are counted; or a `JointPMF`, to ask whether a model like this one could be
        recovered from its exact tables; of hidden variables on a tree, each gets a verdict of its own. Ranges are over
        the tables that it was fitted to, if it keeps them.
    rank
        The number of components. By default it is chosen, or that of the model.
    pairs
        For a model: the available tables, by their variables. By default those that it was fitted to, if it keeps
        them; otherwise all.
    n_records
        For tables: the number of people in all tables together; see `bootstrap`.
    seed, threads, monitor
        As for `fit`.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows, draw_records, uniform_entries
    >>> print(diagnose(dirichlet_rows(3, 2, 1)).verdict)
    recoverable: with one component, the shares of each variable determine the joint
    >>> print(diagnose(draw_records(uniform_entries(6, 4, 4), 3000), rank=4).kind)
    not from these tables
    """
    seed = check_whole_number("seed", seed, 0)
    rank = None if rank is None else check_whole_number("rank", rank, 1)
    with Watch.showing(monitor) as watch:
        model, evidence = None, None
        given: Tables | PublishedTables | None = None
        source = getattr(source, "pmf", source)  # that of a Bootstrap
        if isinstance(source, JointPMF):
            kept = given = source.counts.tables if source.counts is not None and pairs is None else None
            if source.counts is not None and pairs is None and source.counts.published is not None:
                # Tables of other kinds tell of more pairs than there are counts of.
                kept, given, names = None, source.counts.published, source.schema.names
                pairs = [(names[one], names[other]) for one, other in source.counts.published.pairs_shown]
            model, tables, rank = source, _tables_to_diagnose(source, rank, pairs, kept), source.rank
        elif pairs is not None:
            raise DataError("pairs= is for a model; of tables and records, all pairs are used")
        elif isinstance(source, PublishedTables):
            tables, given = source.pairs(), source
        elif isinstance(source, Tables):
            tables = source
            if tables.order != 2:
                raise DataError(
                    "diagnose takes two-way tables, and these are three-way tables, which show more: fit them"
                )
        else:
            evidence = evidence_of_source(source, threads)[0]
            tables = evidence.tables(2)
        records = None if evidence is None else evidence.records
        graph = PairGraph.of(tables)
        findings = Diagnosis("recoverable", "", rank or 1, len(tables.schema), len(tables), tables=tables, given=given)
        if model is not None:
            findings = replace(findings, is_exact=True, models=(model,))
        if (verdict := verdict_by_graph(findings, graph, rank)) is not None:
            return verdict
        if model is not None and model.n_hidden > 1:
            return verdict_by_findings(diagnose_hidden(findings, model, graph, seed, watch), graph)
        table_evidence = Evidence(tables.schema, tables=tables, threads=threads)
        if rank is None:
            rank = choose_rank_from(evidence or table_evidence, None, seed=seed, watch=watch).rank
        fits = fit_alternatives(table_evidence, rank, model, graph, seed, watch)
        findings = replace(findings, rank=rank, any_joint=fits.any_joint, converged=fits.converged)
        if records is not None:
            n_records = records.total_weight
            findings = _diagnose_records(findings, fits.pmf, records, seed, threads, watch)
        watch.show(Progress("checking conditions", 0, 1))
        return verdict_by_findings(_diagnose_models(findings, fits, graph, n_records, seed), graph)


def _tables_to_diagnose(
    pmf: JointPMF, rank: int | None, pairs: Iterable[Sequence[str]] | None, given: Tables | None
) -> Tables:
    """Return the exact tables of a model: of the pairs named, of those in the tables given, or of all."""
    if rank not in (None, pmf.rank):
        raise DataError(f"the model has rank {pmf.rank}, and rank={rank} was asked for; leave rank out")
    if given is not None:
        return tables_of_alternatives(pmf, PairGraph.of(given))
    available = np.full((len(pmf.schema), len(pmf.schema)), pairs is None)
    for pair in pairs or ():
        indices = pmf.schema.indices(pair)
        if len(indices) != 2:
            raise DataError(f"a pair names two variables; got {pair!r}")
        available[indices, indices[::-1]] = True
    return tables_of_alternatives(pmf, PairGraph(available, pmf.schema.sizes))


def _diagnose_records(
    findings: Diagnosis, pmf: JointPMF, records: RecordSource, seed: int, threads: int | None, watch: Watch
) -> Diagnosis:
    """Return the findings with what records show beyond their two-way tables."""
    if pmf.rank > 1:
        fit, adds_information = _diagnose_fit_of_records(records, pmf, seed, threads, watch)
        distance = AlternativeDistance(fit, seed)(pmf)
        findings = replace(findings, beyond_tables=distance, records_add_information=adds_information)
    quality = _diagnose_three_way(pmf, records, seed)
    return replace(
        findings,
        has_records=True,
        n_three_way=len(quality.pairs),
        three_way_misfits=len(quality.misfits),
        worst_three_way=quality.largest_misfit,
    )


def _diagnose_fit_of_records(
    records: RecordSource, best: JointPMF, seed: int, threads: int | None, watch: Watch
) -> tuple[JointPMF, bool]:
    """Return a fit to records, and whether it explains them better than the fit to their tables by more than chance.

    It is the better of two: from the fit to tables, and from a start that knows nothing of it. Where tables show less
    than the records do, the first may be a saddle point from which no pass leads away.
    """
    evidence = Evidence(records.schema, records=records, threads=threads)
    problem = Problem(evidence, best.rank, seed, start=best, watch=watch.quiet())
    fits = [EM(max_iter=alternatives.EM_PASSES).solve(replace(problem, start=start)) for start in (best, None)]
    better = min(fits, key=lambda solution: solution.objective)
    # Fitting as many parameters to chance raises twice the log-likelihood by about their number.
    n_free = best.n_parameters
    gain = 2.0 * records.total_weight * (fits[0].objectives[0] - better.objective)
    return better.pmf, gain > n_free + 3.0 * math.sqrt(2.0 * n_free)


def _diagnose_three_way(pmf: JointPMF, records: RecordSource, seed: int) -> FitQuality:
    """Return how well a model fits three-way tables of records, of as many random variables as there is time for."""
    schema = records.schema
    order = np.random.default_rng(seed).permutation(len(schema))
    sizes = [schema.sizes[index] for index in order]
    few = [count for count in range(len(schema) + 1) if math.comb(count, 3) <= _MAX_TRIPLES]
    n_counted = max(count for count in few if count_cells(sizes[:count], 3) <= _MAX_TRIPLE_CELLS)
    variables = np.sort(order[:n_counted]).tolist()
    if len(variables) < 3:
        return FitQuality(())
    tables = Tables.count(records.sample(_MAX_TRIPLE_RECORDS, seed=seed).narrowed(variables), 3)
    return fit_quality(alternatives.part_of_model(pmf, variables), tables)


def _diagnose_models(
    findings: Diagnosis, fits: Alternatives, graph: PairGraph, n_records: float | None, seed: int
) -> Diagnosis:
    """Return the findings with what the model shows: conditions, models with the same tables, misfits."""
    pmf, tables, random = fits.pmf, findings.tables, np.random.default_rng(seed)
    # What a sample cannot distinguish from zero counts as zero.
    zero = 0.0 if findings.is_exact else min(0.01, 4.0 * pmf.rank / float(np.median(tables.weights)))
    checks, split, is_proven = check_conditions(pmf, graph, zero, random)
    findings = replace(findings, checks=checks, is_proven=is_proven)
    names = np.array(pmf.schema.names, dtype=object)
    if split is not None:
        findings = replace(
            findings,
            split=(tuple(names[split.split.first]), tuple(names[split.split.second])),
            condition_numbers=split.condition_numbers,
            separability=split.separability,
        )
    distance = AlternativeDistance(pmf, seed)
    unseen = alternatives.unseen_alternatives(pmf, graph)
    same = [*alternatives.same_table_alternatives(pmf, graph, random, 2 if pmf.rank > 12 else 4), *unseen.values()]
    if findings.is_exact:
        same, others = [*same, *fits.others], []
    else:
        others = fits.others
        findings = _diagnose_sampling(findings, fits, None if split is None else split.split, n_records, seed)
    return replace(
        findings,
        ambiguity=max(map(distance, same), default=0.0),
        disagreement=max(map(distance, others), default=None),
        components=tuple(_diagnose_components(pmf, others)),
        under_connected=tuple(names[index] for index, other in unseen.items() if distance(other) > SMALL),
        missing=tuple(_diagnose_missing(pmf, graph, [*same, *others])),
        models=(pmf, *same, *others),
    )


def _diagnose_sampling(
    findings: Diagnosis, fits: Alternatives, split: PairSplit | None, n_records: float | None, seed: int
) -> Diagnosis:
    """Return the findings with what is above sampling error: components, misfits and contradictions."""
    pmf = fits.pmf
    if split is not None:
        shown = rank_spectrum(findings.tables, pmf, [split], n_records, seed)
        strength, excess = shown.strength(pmf.rank), shown.strength(pmf.rank + 1)
        findings = replace(findings, visible=shown.n_visible, strength=strength, excess=excess)
    tables = fits.tables.sample(_MAX_COMPARED, len(fits.tables.flat), np.random.default_rng(seed))
    quality = fit_quality(pmf, tables)
    return replace(
        findings,
        n_compared=len(quality.pairs),
        misfits=len(quality.misfits),
        worst_misfit=quality.largest_misfit,
        contradiction=find_contradiction(findings.tables, [pair.variables for pair in quality.misfits]),
    )


def _diagnose_components(pmf: JointPMF, others: Sequence[JointPMF]) -> Iterator[ComponentNote]:
    """Yield components that are nearly empty, nearly equal to another, or different in another start."""
    offsets = pmf.schema.offsets[:-1]

    def apart(one: Floats, other: Floats) -> float:
        return float(0.5 * np.add.reduceat(np.abs(one - other), offsets).mean())

    for component, weight in enumerate(pmf.weights):
        if weight * pmf.rank < 0.02:
            yield ComponentNote(component, f"nearly empty, weight {weight:.2g}")
        for other in range(component):
            distance = apart(pmf.stacked[:, component], pmf.stacked[:, other])
            if distance < 0.03:
                yield ComponentNote(component, f"nearly equal to component {other}: {distance:.3f} apart on average")
    moved = np.zeros(pmf.rank)
    for fit in others:
        matched = match_components(pmf, fit)
        moves = [apart(pmf.stacked[:, own], fit.stacked[:, other]) for own, other in enumerate(matched)]
        moved = np.maximum(moved, moves)
    for component in np.flatnonzero(moved > 0.15).tolist():
        yield ComponentNote(component, f"{moved[component]:.2f} apart in another start that fits equally well")


def _diagnose_missing(pmf: JointPMF, graph: PairGraph, others: Sequence[JointPMF]) -> Iterator[MissingTable]:
    """Yield the tables that are not available, those that models with the same tables differ on most first."""
    absent = np.argwhere(np.triu(~graph.available, 1)).tolist()
    if not absent:
        return
    names, starts = pmf.schema.names, pmf.schema.offsets[:-1]
    spread = np.zeros((len(names), len(names)))
    for other in others:
        own, its = ((part.stacked * part.weights) @ part.stacked.T for part in (pmf, other))
        sums = np.add.reduceat(np.add.reduceat(np.abs(its - own), starts, axis=0), starts, axis=1)
        spread = np.maximum(spread, 0.5 * sums)
    for j, k in sorted(absent, key=lambda pair: (-spread[pair[0], pair[1]], pair))[:_MAX_MISSING]:
        why = f"models that fit all available tables differ on it by up to {spread[j, k]:.3f}"
        yield MissingTable((names[j], names[k]), float(spread[j, k]), why)
