"""Can it be known? The paper's theory, and what it leaves open tried out, on the evidence at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twoway.checks.fit_quality import FitQuality, PairFit
from twoway.diagnosis.alternatives import JointDistance, same_tables, unseen_changes
from twoway.diagnosis.cases import Case, case_of_data, case_of_model
from twoway.diagnosis.conditions import Check, SplitFindings, check_stacks, study_split, three_groups
from twoway.diagnosis.judgement import SMALL, judge
from twoway.diagnosis.scattered import sufficiently_scattered
from twoway.diagnosis.verdict import ComponentNote, Diagnosis, MissingTable
from twoway.errors import DataError, whole_number
from twoway.fitting.fit import watching
from twoway.model.measures import match_components
from twoway.model.pmf import JointPMF
from twoway.report import Monitor, Progress
from twoway.schema import Schema
from twoway.solvers import Watch
from twoway.solvers.spectrum import spectrum
from twoway.tables.pair_graph import PairGraph
from twoway.text import shortlist

_MOST_MISSING = 10


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
    """Return whether the joint can be recovered from two-way tables, and what stands in the way.

    Parameters
    ----------
    source
        `Tables`; or records, whose pairs are counted; or a `JointPMF`, to ask whether a model like this one could be
        recovered from its exact tables.
    rank
        The number of components; chosen where None, that of the model where one is given.
    pairs
        For a model: the tables that are there, by their variables; all by default.
    n_records
        For tables: how many people stand in them all together; see `bootstrap`.
    seed, threads, monitor
        As for `fit`.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows, draw_records, uniform_entries
    >>> print(diagnose(dirichlet_rows(3, 2, 1)).verdict)
    recoverable: with one component, the shares of each variable say all
    >>> print(diagnose(draw_records(uniform_entries(6, 4, 4), 3000), rank=4).kind)
    not from these tables
    """
    random = np.random.default_rng(whole_number("seed", seed, 0))
    if rank is not None:
        rank = whole_number("rank", rank, 1)
    with watching(monitor) as told:
        watch = Watch(told)
        if isinstance(source, JointPMF):
            case: Case | Diagnosis = case_of_model(source, rank, pairs, seed, threads, watch)
        elif pairs is not None:
            raise DataError("pairs= is for a model; tables and records say themselves which pairs are there")
        else:
            case = case_of_data(source, rank, n_records, seed, threads, watch)
        if isinstance(case, Diagnosis):
            return case
        watch.tell(Progress("checking conditions", 0, 1))
        return _study(case, random, seed)


# What is found


def _study(case: Case, random: np.random.Generator, seed: int) -> Diagnosis:
    pmf, graph, schema = case.pmf, case.graph, case.pmf.schema
    n_tables = int(graph.available.sum()) // 2
    # What a sample cannot tell from zero counts as zero.
    zero = 0.0 if case.is_exact else min(0.01, 4.0 * pmf.rank / float(np.median(case.tables.weights)))
    studied = _best_split(pmf, graph, random, zero)
    checks = _checks(case, studied, random)
    shown = None
    if not case.is_exact and studied is not None:
        shown = spectrum(case.tables, pmf, [studied.split], case.n_records, seed)
    distance = JointDistance(pmf, seed)
    loose = {index: (other, distance(other)) for index, other in unseen_changes(pmf, graph).items()}
    alternatives = [(other, distance(other)) for other in same_tables(pmf, graph, random, 2 if pmf.rank > 12 else 4)]
    restarts = [(other, distance(other)) for other in case.others]
    alternatives += [*loose.values(), *(restarts if case.is_exact else [])]
    ambiguity = max((away for _, away in alternatives), default=0.0)
    disagreement = max((away for _, away in restarts), default=None)
    beyond = None if case.from_records is None else JointDistance(case.from_records, seed)(pmf)
    hanging = tuple(schema.names[index] for index, (_, away) in loose.items() if away > SMALL)
    proven = _is_proven(pmf, graph, studied, zero, random)
    found = Diagnosis(
        kind="recoverable",
        reason="",
        rank=pmf.rank,
        n_variables=len(schema),
        n_tables=n_tables,
        checks=checks,
        split=None if studied is None else _names(schema, studied),
        condition_numbers=None if studied is None else studied.kappas,
        separability=None if studied is None else studied.epsilons,
        visible=None if shown is None else shown.n_visible,
        strength=None if shown is None else shown.strength(pmf.rank),
        excess=None if shown is None else shown.strength(pmf.rank + 1),
        ambiguity=ambiguity,
        disagreement=None if case.is_exact else disagreement,
        any_joint=case.any_joint,
        beyond_tables=beyond,
        records_say_more=case.records_say_more,
        misfits=len(case.quality.misfits),
        worst_misfit=_worst(case.quality),
        three_way_misfits=len(case.triples.misfits),
        worst_three_way=_worst(case.triples),
        contradiction=case.contradiction,
        components=tuple(_component_notes(case)),
        hanging=hanging,
        missing=tuple(_missing(case, [other for other, _ in alternatives])),
        tables=case.tables,
        is_exact=case.is_exact,
        models=(pmf, *(other for other, _ in (*alternatives, *restarts))),
    )
    kind, reason, advice = judge(found, case, is_proven=proven, split=studied is not None)
    return replace(found, kind=kind, reason=reason, advice=advice)


def _worst(quality: FitQuality) -> PairFit | None:
    """Return the misfit that is largest, not that which is surest; None where there is none."""
    return max(quality.misfits, key=lambda pair: pair.total_variation, default=None)


def _names(schema: Schema, studied: SplitFindings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    first, second = (
        tuple(schema.names[index] for index in np.flatnonzero(side))
        for side in (studied.split.first, studied.split.second)
    )
    return first, second


def _best_split(pmf: JointPMF, graph: PairGraph, random: np.random.Generator, zero: float) -> SplitFindings | None:
    """Return the first split that proves Theorem 2, else the one whose stacks are conditioned best."""
    best = None
    for split in graph.splits(pmf.rank, random)[: 24 if pmf.rank <= 6 else 2]:
        studied = study_split(pmf, graph, split, random, zero)
        if studied.proves:
            return studied
        score = (len(studied.outside), max(studied.kappas))
        if best is None or score < (len(best.outside), max(best.kappas)):
            best = studied
    return best


def _is_proven(
    pmf: JointPMF, graph: PairGraph, studied: SplitFindings | None, zero: float, random: np.random.Generator
) -> bool:
    """Return whether Theorem 2 holds by a split, or its extension to three groups."""
    if studied is None:
        return False
    if studied.proves:
        return True
    if not three_groups(pmf, graph):
        return False
    stacked = np.where(pmf.stacked < zero, 0.0, pmf.stacked) * np.sqrt(pmf.weights)
    return sufficiently_scattered(stacked, random).status == "holds"


def _checks(case: Case, studied: SplitFindings | None, random: np.random.Generator) -> tuple[Check, ...]:
    """Return the conditions of Theorem 2, one by one."""
    pmf, graph, names = case.pmf, case.graph, case.pmf.schema.names
    checks = [
        Check(
            "every component has weight",
            "holds" if pmf.weights.min() > 0 else "fails",
            f"the smallest has {pmf.weights.min():.3g}",
        )
    ]
    if studied is None:
        no_split = graph.why_no_split(pmf.rank)
        checks.append(
            Check(
                "(ii) a split with all its tables",
                "unknown" if no_split is None else "fails",
                no_split or f"none was found in which both groups have {pmf.rank} independent rows",
            )
        )
        checks.append(Check("(i) sufficiently scattered on both sides", "unknown", "there is no split to look at"))
    else:
        sides = [int(side.sum()) for side in (studied.split.first, studied.split.second)]
        checks.append(
            Check(
                "(ii) a split with all its tables",
                "holds",
                f"{sides[0]} variables against {sides[1]}, rank {pmf.rank} fits on both sides",
            )
        )
        checks.append(
            Check(
                "full column rank on both sides",
                "holds" if studied.has_full_rank else "fails",
                "condition numbers " + " and ".join(f"{one:.3g}" for one in studied.kappas),
            )
        )
        how = ", ".join(
            f"{one.status}{'' if one.is_exact else ' (by search)'}, dual length {one.longest:.4g}"
            for one in studied.scattered
        )
        checks.append(Check("(i) sufficiently scattered on both sides", studied.scattered_status, how))
    checks.append(check_stacks(pmf, random))
    if studied is not None:
        outside = [names[index] for index in studied.outside]
        checks.append(
            Check(
                "(iv) every other variable is tied to the groups",
                "fails" if outside else "holds",
                f"not {shortlist(outside, 6)}" if outside else "by tables with enough of them",
            )
        )
    return tuple(checks)


def _component_notes(case: Case) -> Iterable[ComponentNote]:
    """Yield components that are nearly empty, nearly equal to another, or not the same in another restart."""
    pmf = case.pmf
    offsets = pmf.schema.offsets[:-1]

    def apart(one: np.ndarray, other: np.ndarray) -> float:
        return float(0.5 * np.add.reduceat(np.abs(one - other), offsets).mean())

    for component, weight in enumerate(pmf.weights):
        if weight * pmf.rank < 0.02:
            yield ComponentNote(component, f"nearly empty, weight {weight:.2g}")
        for other in range(component):
            distance = apart(pmf.stacked[:, component], pmf.stacked[:, other])
            if distance < 0.03:
                yield ComponentNote(component, f"nearly equal to component {other}: {distance:.3f} apart on average")
    if case.is_exact:
        return
    moved = np.zeros(pmf.rank)
    for fit in case.others:
        matched = match_components(pmf, fit)
        moves = [apart(pmf.stacked[:, own], fit.stacked[:, other]) for own, other in enumerate(matched)]
        moved = np.maximum(moved, moves)
    for place in np.flatnonzero(moved > 0.15):
        yield ComponentNote(int(place), f"another one in a restart that fits as well, {moved[place]:.2f} apart")


def _missing(case: Case, alternatives: list[JointPMF]) -> list[MissingTable]:
    """Return the tables that are not there, those that models with the present tables differ on most first."""
    graph, schema = case.graph, case.pmf.schema
    absent = np.argwhere(np.triu(~graph.available, 1))
    if len(absent) == 0:
        return []
    starts = schema.offsets[:-1]

    def tables(pmf: JointPMF) -> np.ndarray:
        return (pmf.stacked * pmf.weights) @ pmf.stacked.T

    own = tables(case.pmf)
    spread = np.zeros((len(schema), len(schema)))
    for other in [*alternatives, *case.others]:
        gap = np.abs(tables(other) - own)
        spread = np.maximum(spread, 0.5 * np.add.reduceat(np.add.reduceat(gap, starts, axis=0), starts, axis=1))
    ranked = sorted(absent.tolist(), key=lambda pair: (-spread[pair[0], pair[1]], pair))
    return [
        MissingTable(
            (schema.names[j], schema.names[k]),
            float(spread[j, k]),
            f"models that fit all tables there are differ on it by up to {spread[j, k]:.3f}",
        )
        for j, k in ranked[:_MOST_MISSING]
    ]
