"""The verdict: what was found, in the order in which it decides.

What speaks against the model comes first: tables that contradict each other, tables that the model does not have, more
components than it has, fewer, what the graph of tables makes impossible, what records show and tables do not. Only
then does it matter whether other models have the same tables.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twoway.diagnosis.cases import Case
from twoway.diagnosis.verdict import Diagnosis, Kind, describe_misfit
from twoway.solvers.spectrum import CLEAR as VISIBLE
from twoway.text import shortlist

Verdict = tuple[Kind, str, tuple[str, ...]]
"""The kind, the reason, and what to do."""

# Total variation: beyond these, answers are not known.
_LARGE_AMBIGUITY = 0.25
_LARGE_DISAGREEMENT = 0.15
SMALL = 0.01
# How far a component must stand above chance to be there without doubt.
_CLEAR = 2.0


def judge(found: Diagnosis, case: Case, *, is_proven: bool, split: bool) -> Verdict:
    """Return the verdict.

    ``is_proven`` says whether Theorem 2 holds, ``split`` whether there are two groups of variables that carry the rank.
    """
    advice = (
        "three-way tables, or the records themselves, would do it"
        if case.triples.pairs == () and case.from_records is None
        else "you have the records: fit these, not their tables"
    )
    refusals = [
        *_against_tables(found),
        *_against_rank(found, case, advice),
        *_against_records(found, case, advice),
        *_against_graph(found, case, split, advice),
        *_against_answers(found, case, advice),
    ]
    if refusals:
        reason, steps = refusals[0]
        return "not from these tables", reason, steps
    conditions = list(_conditions(found, case, is_proven)) or list(_beyond_rank(found))
    if not conditions:
        fitted = "" if case.is_exact else " for the factors as fitted"
        return "recoverable", f"the conditions of the paper's Theorem 2 hold{fitted}, among models of this rank", ()
    return "recoverable if", "; and ".join(conditions), (advice,) if _error(found) > SMALL else ()


Refusal = tuple[str, tuple[str, ...]]
"""Why not, and what to do."""


def _against_tables(found: Diagnosis) -> Iterator[Refusal]:
    if found.contradiction is not None:
        yield (
            str(found.contradiction),
            ("compare where these tables come from: whom they ask, how they are weighted, what their totals are",),
        )


def _against_rank(found: Diagnosis, case: Case, advice: str) -> Iterator[Refusal]:
    """Yield what speaks for more components than the rank, then for fewer."""
    more_visible = found.visible is not None and found.visible > found.rank and (found.excess or 0.0) >= _CLEAR
    is_off = found.worst_misfit is not None and case.converged and found.worst_misfit.total_variation > SMALL
    if more_visible or is_off:
        reasons = [f"they contradict rank {found.rank}"]
        if more_visible:
            reasons.append(f"they show {_components(found.visible)} above sampling error")
        if found.worst_misfit is not None:
            tables = f"{found.misfits} of {len(case.quality.pairs)} tables"
            reasons.append(
                f"the best model of this rank is off by more than chance in {tables}; "
                f"{describe_misfit(found.worst_misfit)}"
            )
        wanted = f"rank {found.visible}" if more_visible else "a higher rank"
        yield "; ".join(reasons), (f"diagnose {wanted}, or give no rank and let it be chosen",)
    if found.strength is not None and found.strength < VISIBLE:
        yield (
            f"they show {_components(found.visible)} above sampling error, not {found.rank}, and many models fit "
            f"all of them to sampling error{_how_far(found)}",
            (advice, f"rank {found.visible} is what these tables carry"),
        )


def _components(count: int | None) -> str:
    return "1 component" if count == 1 else f"{count} components"


def _how_far(found: Diagnosis) -> str:
    """Return how far other joints are, where some were found that matter."""
    away = max(found.ambiguity, found.disagreement or 0.0, found.any_joint or 0.0)
    return f"; joints with the same tables are up to {away:.2f} away (total variation)" if away > SMALL else ""


def _against_records(found: Diagnosis, case: Case, advice: str) -> Iterator[Refusal]:
    """Yield what records show and their two-way tables do not."""
    three_way = found.worst_three_way
    if three_way is not None and three_way.total_variation > _LARGE_AMBIGUITY:
        tables = f"{found.three_way_misfits} of {len(case.triples.pairs)} three-way tables"
        yield (
            f"the records show what their two-way tables do not: {tables} are off by more than chance; "
            f"{describe_misfit(three_way)}",
            (advice,),
        )
    if found.records_say_more and (found.beyond_tables or 0.0) > _LARGE_AMBIGUITY:
        yield (
            "the records show what their two-way tables do not: fitted as such, they move the joint by "
            f"{found.beyond_tables:.2f} (total variation)",
            (advice,),
        )


def _against_graph(found: Diagnosis, case: Case, split: bool, advice: str) -> Iterator[Refusal]:
    """Yield what the tables that are there make impossible, whatever is in them.

    Zeros can hold in place what tables do not see; a model's own are known to be zeros, those of a fit are not.
    """
    if case.is_exact:
        return
    names, graph = case.pmf.schema.names, case.graph
    # Each variable's shares add up to one, so that its table has one independent row fewer for each further variable.
    shown = 1 + (graph.available * (graph.sizes - 1)).sum(axis=1)
    if (short := np.flatnonzero(shown < found.rank)).size:
        yield (
            f"the tables of {shortlist([names[index] for index in short], 6)} can show "
            f"{_components(int(shown[short].max()))} at most, not {found.rank}{_how_far(found)}",
            (
                f"add tables of {shortlist([names[index] for index in short], 6)} with variables of more categories",
                advice,
            ),
        )
    if not split and graph.goes_through_all:
        yield (
            f"no two groups of variables with all tables between them have {found.rank} independent categories each: "
            f"these tables cannot show {found.rank} components{_how_far(found)}",
            (advice,),
        )


def _against_answers(found: Diagnosis, case: Case, advice: str) -> Iterator[Refusal]:
    """Yield joints far away that the tables do not tell from the model's."""
    if found.ambiguity > _LARGE_AMBIGUITY and case.converged:
        who = f"{shortlist(found.hanging, 6)} under-connected; " if found.hanging else ""
        yield (
            f"{who}another model has the very same tables, and a joint {found.ambiguity:.2f} away (total variation)",
            (advice,),
        )
    if found.disagreement is not None and found.disagreement > _LARGE_DISAGREEMENT and case.converged:
        yield (
            f"restarts that fit them equally well have joints {found.disagreement:.2f} apart (total variation)",
            (advice,),
        )
    if found.rank == 1 and not case.triples.pairs and (found.any_joint or 0.0) > _LARGE_AMBIGUITY:
        yield (
            "any two variables look independent, which does not say that all of them are: another joint has the very "
            f"same tables and is {found.any_joint:.2f} away (total variation)",
            (advice,),
        )


def _error(found: Diagnosis) -> float:
    """Return by how much a probability may be wrong, as far as was found."""
    errors = [found.ambiguity, found.disagreement or 0.0]
    errors += [fit.total_variation for fit in (found.worst_misfit, found.worst_three_way) if fit is not None]
    if found.records_say_more:
        errors.append(found.beyond_tables or 0.0)
    if found.rank == 1:
        errors.append(found.any_joint or 0.0)
    return max(errors)


def _conditions(found: Diagnosis, case: Case, is_proven: bool) -> Iterator[str]:
    """Yield what must be so, and was not shown to be, for the joint to be known."""
    error = _error(found)
    if found.rank == 1 and case.triples.pairs:
        yield (
            "nothing ties four or more variables together that does not show in three: as far as two-way and three-way "
            "tables of the records tell, all variables are independent"
        )
    elif error > SMALL:
        yield (
            f"an error of up to about {error:.2f} in a probability will do: by so much models differ that fit equally "
            "well, as far as was found"
        )
    elif found.rank == 1:
        yield "one component is all there is: tables of two variables do not show what ties three together"
    elif not is_proven and case.converged:
        yield _what_is_open(found)
    if found.strength is not None and VISIBLE <= found.strength < _CLEAR:
        yield "the weakest component, which hardly stands above chance, is one; more records would tell"
    if not case.converged:
        yield "longer fits agree: those made here had not come to rest"


def _beyond_rank(found: Diagnosis) -> Iterator[str]:
    """Yield that data, unlike a model, need not be of the rank."""
    if not found.is_exact and (found.any_joint or 0.0) > SMALL:
        yield (
            f"there are {_components(found.rank)} and no more: another joint, which has more, has the very same tables "
            f"and is {found.any_joint:.2f} away (total variation)"
        )


def _what_is_open(found: Diagnosis) -> str:
    unproven = [check.name for check in found.checks if check.status != "holds" and not check.name.startswith("(iii)")]
    return (
        "no other model has the same tables: none was found that differs, but it is not proven, since this does not "
        f"hold or cannot be told: {'; '.join(unproven)}"
    )
