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
from twoway.diagnosis.conditions import SMALL, check_conditions
from twoway.diagnosis.hidden import diagnose_hidden
from twoway.diagnosis.verdict import ComponentNote, Diagnosis, MissingTable, verdict_by_findings, verdict_by_graph
from twoway.errors import DataError, check_number, check_whole_number
from twoway.fitting.sources import evidence_of_source
from twoway.model.comparison import match_components
from twoway.model.pmf import JointPMF
from twoway.report import Monitor, Progress
from twoway.solvers import EM, Evidence, Problem, Watch
from twoway.solvers.rank import choose_rank_from
from twoway.solvers.rank_spectrum import rank_spectrum
from twoway.tables.counting import count_cells
from twoway.tables.pair_graph import PairGraph, PairSplit
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables
from twoway.text import shortlist

# At most this many tables are compared with the model.
_MAX_COMPARED = 500
_MAX_MISSING = 10
# Three-way tables are counted for as many variables as stay within these limits.
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
        recovered from its exact tables. Each hidden variable on a tree gets its own verdict. Ranges are over the tables
        that the model was fitted to, if it keeps them.
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
    if n_records is not None:
        check_number("n_records", n_records, "a number above 0", lambda number: number > 0)
    source = getattr(source, "pmf", source)  # that of a Bootstrap
    model = source if isinstance(source, JointPMF) else None
    with Watch.showing(monitor) as watch:
        evidence, given = _evidence_to_diagnose(source, rank, pairs, threads)
        tables, records = evidence.tables(2), evidence.records
        rank = rank if model is None else model.rank
        findings = Diagnosis("recoverable", "", rank or 1, len(tables.schema), len(tables), tables=tables, given=given)
        if model is not None:
            findings = replace(findings, is_exact=True, models=(model,))
        graph = evidence.graph
        if (verdict := verdict_by_graph(findings, graph, rank)) is not None:
            return verdict
        if model is not None and model.n_hidden > 1:
            return verdict_by_findings(diagnose_hidden(findings, model, graph, seed, watch), graph)
        if rank is None:
            rank = choose_rank_from(evidence, None, seed=seed, watch=watch).rank
        of_tables = evidence if records is None else Evidence(tables.schema, tables=tables, threads=threads)
        fits = alternatives.fit_alternatives(of_tables, rank, model, seed, watch)
        findings = replace(findings, rank=rank, any_joint=fits.any_joint, converged=fits.converged)
        if records is not None:
            n_records = records.total_weight
            findings = _diagnose_records(findings, fits.pmf, evidence, records, seed, watch)
        watch.show(Progress("checking conditions", 0, 1))
        return verdict_by_findings(_diagnose_models(findings, fits, graph, n_records, seed), graph)


def _evidence_to_diagnose(
    source: Any, rank: int | None, pairs: Iterable[Sequence[str]] | None, threads: int | None
) -> tuple[Evidence, Tables | PublishedTables | None]:
    """Return records or two-way tables, those of a model exactly; and the tables that ranges are over, if others."""
    given: Tables | PublishedTables | None = None
    if isinstance(source, JointPMF):
        if rank not in (None, source.rank):
            raise DataError(f"the model has rank {source.rank}, and rank {rank} was asked for; leave rank out")
        tables, given = _tables_of_model(source, pairs)
    elif pairs is not None:
        raise DataError("pairs= is for a model; for tables and records, all pairs are used")
    elif isinstance(source, PublishedTables):
        tables, given = source.pairs(), source
    elif not isinstance(source, Tables):
        return evidence_of_source(source, threads)[0], None
    elif source.order != 2:
        raise DataError("diagnose takes two-way tables, but these are three-way tables; fit them directly")
    else:
        tables = source
    return Evidence(tables.schema, tables=tables, threads=threads), given


def _tables_of_model(
    pmf: JointPMF, pairs: Iterable[Sequence[str]] | None
) -> tuple[Tables, Tables | PublishedTables | None]:
    """Return a model's exact tables of the pairs named, and what it was fitted to; without pairs, of those fitted."""
    counts = pmf.counts if pairs is None else None
    if counts is not None and counts.published is None:
        return alternatives.tables_of_alternatives(pmf, PairGraph.of(counts.tables)), counts.tables
    published = None if counts is None else counts.published
    available = np.full((len(pmf.schema), len(pmf.schema)), pairs is None and published is None)
    # Published tables show more pairs than there are counts of.
    for pair in map(pmf.schema.indices, pairs or ()) if published is None else published.pairs_shown:
        if len(pair) != 2:
            raise DataError(f"a pair names two variables; got {shortlist(pmf.schema.names[index] for index in pair)}")
        available[pair, pair[::-1]] = True
    return alternatives.tables_of_alternatives(pmf, PairGraph(available, pmf.schema.sizes)), published


def _diagnose_records(
    findings: Diagnosis, pmf: JointPMF, evidence: Evidence, records: RecordSource, seed: int, watch: Watch
) -> Diagnosis:
    """Return the findings with what records show beyond their two-way tables."""
    if pmf.rank > 1:
        fit, adds_information = _diagnose_fit_of_records(evidence, records.total_weight, pmf, seed, watch)
        distance = alternatives.distance_to_alternatives(fit, seed)(pmf)
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
    evidence: Evidence, n_records: float, best: JointPMF, seed: int, watch: Watch
) -> tuple[JointPMF, bool]:
    """Return a fit to records, and whether it explains them better than the fit to their tables by more than chance.

    It is the better of two: from the fit to tables, and from a start that knows nothing of it. Where tables show less
    than the records do, the first may be a saddle point that EM cannot leave.
    """
    problem = Problem(evidence, best.rank, seed, watch=watch.quiet())
    fits = [EM(max_iter=alternatives.EM_PASSES).solve(replace(problem, start=start)) for start in (best, None)]
    better = min(fits, key=lambda solution: solution.objective)
    # Fitting as many parameters to chance raises twice the log-likelihood by about their number.
    n_free = best.n_parameters
    gain = 2.0 * n_records * (fits[0].objectives[0] - better.objective)
    return better.pmf, gain > n_free + 3.0 * math.sqrt(2.0 * n_free)


def _diagnose_three_way(pmf: JointPMF, records: RecordSource, seed: int) -> FitQuality:
    """Return how well a model fits three-way tables of records, for as many random variables as there is time for."""
    schema = records.schema
    order = np.random.default_rng(seed).permutation(len(schema))
    sizes = [schema.sizes[index] for index in order]
    few = (n for n in range(len(schema) + 1) if math.comb(n, 3) <= _MAX_TRIPLES)
    n_counted = max(n for n in few if count_cells(sizes[:n], 3) <= _MAX_TRIPLE_CELLS)
    if n_counted < 3:
        return FitQuality(())
    variables = np.sort(order[:n_counted]).tolist()
    tables = Tables.count(records.sample(_MAX_TRIPLE_RECORDS, seed=seed).narrowed(variables), 3)
    return fit_quality(alternatives.part_of_model(pmf, variables), tables)


def _diagnose_models(
    findings: Diagnosis, fits: alternatives.Alternatives, graph: PairGraph, n_records: float | None, seed: int
) -> Diagnosis:
    """Return the findings with what the model shows: conditions, models with the same tables, misfits."""
    pmf, tables, random = fits.pmf, findings.tables, np.random.default_rng(seed)
    # What a sample cannot distinguish from zero counts as zero.
    zero = 0.0 if findings.is_exact else min(0.01, 4.0 * pmf.rank / float(np.median(tables.weights)))
    checks, split, is_proven = check_conditions(pmf, graph, zero, random)
    findings = replace(findings, checks=checks, is_proven=is_proven)
    names = np.array(pmf.schema.names, dtype=object)
    if split is not None:
        groups = tuple(names[split.split.first]), tuple(names[split.split.second])
        findings = replace(
            findings, split=groups, condition_numbers=split.condition_numbers, separability=split.separability
        )
    distance = alternatives.distance_to_alternatives(pmf, seed)
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
    findings: Diagnosis, fits: alternatives.Alternatives, split: PairSplit | None, n_records: float | None, seed: int
) -> Diagnosis:
    """Return the findings with what is above sampling error: components, misfits and contradictions."""
    pmf = fits.pmf
    if split is not None:
        spectrum = rank_spectrum(findings.tables, pmf, [split], n_records, seed)
        strength, excess = spectrum.strength(pmf.rank), spectrum.strength(pmf.rank + 1)
        findings = replace(findings, visible=spectrum.n_visible, strength=strength, excess=excess)
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

    def apart(first: Floats, second: Floats) -> float:
        return float(0.5 * np.add.reduceat(np.abs(first - second), offsets).mean())

    for component, weight in enumerate(pmf.weights):
        if weight * pmf.rank < 0.02:
            yield ComponentNote(component, f"nearly empty, weight {weight:.2g}")
        for other in range(component):
            if (distance := apart(pmf.stacked[:, component], pmf.stacked[:, other])) < 0.03:
                yield ComponentNote(component, f"nearly equal to component {other}: {distance:.3f} apart on average")
    moved = np.zeros(pmf.rank)
    for fit in others:
        matched = fit.stacked[:, match_components(pmf, fit)]
        moved = np.maximum(moved, [apart(*columns) for columns in zip(pmf.stacked.T, matched.T, strict=True)])
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
        tables, others_tables = ((part.stacked * part.weights) @ part.stacked.T for part in (pmf, other))
        sums = np.add.reduceat(np.add.reduceat(np.abs(others_tables - tables), starts, axis=0), starts, axis=1)
        spread = np.maximum(spread, 0.5 * sums)
    for j, k in sorted(absent, key=lambda pair: (-spread[pair[0], pair[1]], pair))[:_MAX_MISSING]:
        why = f"models that fit all available tables differ on it by up to {spread[j, k]:.3f}"
        yield MissingTable((names[j], names[k]), float(spread[j, k]), why)
