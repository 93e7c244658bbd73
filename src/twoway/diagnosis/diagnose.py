"""Can it be known? The paper's conditions, and other models that fit as well, on the evidence at hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twoway.arrays import Floats
from twoway.checks.contradiction import find_contradiction
from twoway.checks.fit_quality import fit_quality
from twoway.data.source import RecordSource
from twoway.diagnosis.alternatives import JointDistance, exact_tables, same_tables, unseen_changes
from twoway.diagnosis.conditions import check_conditions
from twoway.diagnosis.fits import Fits, fit_records, fit_starts, three_way_quality
from twoway.diagnosis.verdict import SMALL, ComponentNote, Diagnosis, MissingTable, judge, judge_graph
from twoway.errors import DataError, whole_number
from twoway.fitting.fit import evidence_of, watching
from twoway.model.measures import match_components
from twoway.model.pmf import JointPMF
from twoway.report import Monitor, Progress
from twoway.solvers import Evidence, Watch
from twoway.solvers.rank import choose_rank_from, table_spectrum
from twoway.tables.pair_graph import PairGraph, Split
from twoway.tables.tables import Tables

# The fit of at most so many tables is checked.
_MAX_COMPARED = 500
_MAX_MISSING = 10


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
        recovered from its exact tables.
    rank
        The number of components. By default it is chosen, or that of the model.
    pairs
        For a model: the available tables, by their variables; all by default.
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
    seed = whole_number("seed", seed, 0)
    rank = None if rank is None else whole_number("rank", rank, 1)
    with watching(monitor) as callback:
        watch = Watch(callback)
        model, evidence = None, None
        source = getattr(source, "pmf", source)  # that of a Bootstrap
        if isinstance(source, JointPMF):
            model, tables, rank = source, _tables_of_model(source, rank, pairs), source.rank
        elif pairs is not None:
            raise DataError("pairs= is for a model; of tables and records, all pairs are used")
        elif isinstance(source, Tables):
            tables = source
            if tables.order != 2:
                raise DataError(
                    "diagnose takes two-way tables, and these are three-way tables, which show more: fit them"
                )
        else:
            evidence = evidence_of(source, threads)[0]
            tables = evidence.tables(2)
        records = None if evidence is None else evidence.records
        graph = PairGraph.of(tables)
        findings = Diagnosis("recoverable", "", rank or 1, len(tables.schema), len(tables), tables=tables)
        if model is not None:
            findings = replace(findings, is_exact=True, models=(model,))
        if (verdict := judge_graph(findings, graph, rank)) is not None:
            return verdict
        table_evidence = Evidence(tables.schema, tables=tables, threads=threads)
        if rank is None:
            rank = choose_rank_from(evidence or table_evidence, None, seed=seed, watch=watch).rank
        fits = fit_starts(table_evidence, rank, model, graph, seed, watch)
        findings = replace(findings, rank=rank, any_joint=fits.any_joint, converged=fits.converged)
        if records is not None:
            n_records = records.total_weight
            findings = _with_records(findings, fits.pmf, records, seed, threads, watch)
        watch.show(Progress("checking conditions", 0, 1))
        return judge(_with_models(findings, fits, graph, n_records, seed), graph)


def _tables_of_model(pmf: JointPMF, rank: int | None, pairs: Iterable[Sequence[str]] | None) -> Tables:
    """Return the exact tables of a model, of all pairs or of those named."""
    if rank not in (None, pmf.rank):
        raise DataError(f"the model has rank {pmf.rank}, and rank={rank} was asked for; leave rank out")
    available = np.full((len(pmf.schema), len(pmf.schema)), pairs is None)
    for pair in pairs or ():
        indices = pmf.schema.indices(pair)
        if len(indices) != 2:
            raise DataError(f"a pair names two variables; got {pair!r}")
        available[indices, indices[::-1]] = True
    return exact_tables(pmf, PairGraph(available, pmf.schema.sizes))


def _with_records(
    findings: Diagnosis, pmf: JointPMF, records: RecordSource, seed: int, threads: int | None, watch: Watch
) -> Diagnosis:
    """Return the findings with what records show beyond their two-way tables."""
    if pmf.rank > 1:
        fit, adds_information = fit_records(records, pmf, seed, threads, watch)
        distance = JointDistance(fit, seed)(pmf)
        findings = replace(findings, beyond_tables=distance, records_add_information=adds_information)
    quality = three_way_quality(pmf, records, seed)
    return replace(
        findings,
        has_records=True,
        n_three_way=len(quality.pairs),
        three_way_misfits=len(quality.misfits),
        worst_three_way=quality.largest_misfit,
    )


def _with_models(findings: Diagnosis, fits: Fits, graph: PairGraph, n_records: float | None, seed: int) -> Diagnosis:
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
    distance = JointDistance(pmf, seed)
    unseen = unseen_changes(pmf, graph)
    same = [*same_tables(pmf, graph, random, 2 if pmf.rank > 12 else 4), *unseen.values()]
    if findings.is_exact:
        same, others = [*same, *fits.others], []
    else:
        others = fits.others
        findings = _with_sampling(findings, fits, None if split is None else split.split, n_records, seed)
    return replace(
        findings,
        ambiguity=max(map(distance, same), default=0.0),
        disagreement=max(map(distance, others), default=None),
        components=tuple(_component_notes(pmf, others)),
        under_connected=tuple(names[index] for index, other in unseen.items() if distance(other) > SMALL),
        missing=tuple(_missing(pmf, graph, [*same, *others])),
        models=(pmf, *same, *others),
    )


def _with_sampling(
    findings: Diagnosis, fits: Fits, split: Split | None, n_records: float | None, seed: int
) -> Diagnosis:
    """Return the findings with what is above sampling error: components, misfits and contradictions."""
    pmf = fits.pmf
    if split is not None:
        shown = table_spectrum(findings.tables, pmf, [split], n_records, seed)
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


def _component_notes(pmf: JointPMF, others: Sequence[JointPMF]) -> Iterator[ComponentNote]:
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


def _missing(pmf: JointPMF, graph: PairGraph, others: Sequence[JointPMF]) -> Iterator[MissingTable]:
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
