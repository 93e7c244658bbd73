"""The verdict of a diagnosis: its findings, the rules that decide, and both as text and as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from twoway.checks.contradiction import Contradiction
from twoway.checks.fit_quality import PairFit
from twoway.checks.probability_range import MAX_CELLS, ProbabilityRange, probability_range
from twoway.diagnosis.conditions import SMALL, Check, HiddenVerdict, Status
from twoway.errors import ImpossibleEvidenceError
from twoway.model.events import Event
from twoway.model.pmf import JointPMF
from twoway.notebook import Shown
from twoway.solvers.rank_spectrum import VISIBLE
from twoway.tables.pair_graph import PairGraph, pairs_without_table
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables
from twoway.text import counted, crossed_text, plain_data, shortlist

Kind = Literal["recoverable", "recoverable if", "not from these tables"]

# Total variation: beyond these, answers are not known.
_LARGE_AMBIGUITY = 0.25
_LARGE_DISAGREEMENT = 0.15
# How far above sampling error a component is beyond doubt.
_CLEAR = 2.0
_MAX_NOTES, _MAX_MISSING = 4, 3


@dataclass(frozen=True)
class MissingTable:
    """A table that is not available, and how much it would help."""

    variables: tuple[str, str]
    disagreement: float
    """How far models that fit all tables differ on this one, in total variation; NaN where none could be fitted."""
    why: str


@dataclass(frozen=True)
class ComponentNote:
    """A component that should be read with care."""

    component: int
    """Its position, as in ``pmf.weights``."""
    what: str


@dataclass(frozen=True, repr=False)
class Diagnosis(Shown):
    """Whether the joint can be known from two-way tables, and what prevents it."""

    kind: Kind
    reason: str
    """After "recoverable if" or "not from these tables:"; for "recoverable", why."""
    rank: int
    n_variables: int
    n_tables: int
    checks: tuple[Check, ...] = ()
    hidden: tuple[HiddenVerdict, ...] = ()
    """The verdict on each hidden variable of a tree; empty where there is one."""
    split: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """Two groups of variables with all tables between them."""
    condition_numbers: tuple[float, float] | None = None
    """Of the stacked factors of the two groups."""
    separability: tuple[float, float] | None = None
    """The smallest ε for which each group is ε-separable."""
    visible: int | None = None
    """The number of components that the tables show above sampling error."""
    strength: float | None = None
    """How far the weakest component is above sampling error: 1 is chance."""
    excess: float | None = None
    """How far the next component after the rank is above sampling error: 1 is chance."""
    ambiguity: float = 0.0
    """The total variation between the joint and that of another model with exactly the same tables, as far as found."""
    disagreement: float | None = None
    """The largest total variation between the joints of starts that fit the tables equally well."""
    any_joint: float | None = None
    """The total variation between the joint and another one with the same tables, of any rank, as far as found."""
    beyond_tables: float | None = None
    """The total variation between the joint fitted to the tables and that fitted to the records."""
    records_add_information: bool = False
    """Whether the fit to the records explains them better than that to their tables, by more than chance."""
    misfits: int = 0
    """The number of tables that the model does not fit, by more than chance."""
    worst_misfit: PairFit | None = None
    """The largest of these misfits."""
    three_way_misfits: int = 0
    """The number of three-way tables of the records that the model does not fit, by more than chance."""
    worst_three_way: PairFit | None = None
    """The largest of these misfits."""
    contradiction: Contradiction | None = None
    """Tables that no joint has."""
    components: tuple[ComponentNote, ...] = ()
    under_connected: tuple[str, ...] = ()
    """Variables that their tables do not determine."""
    missing: tuple[MissingTable, ...] = ()
    """Tables that are not available, the most helpful first."""
    advice: tuple[str, ...] = ()
    is_exact: bool = False
    """Whether the tables are those of a model, without sampling error."""
    tables: Tables = field(repr=False, compare=False, kw_only=True)
    """The tables that were diagnosed."""
    given: Tables | PublishedTables | None = field(default=None, repr=False, compare=False, kw_only=True)
    """Published tables, or those that a model was fitted to and keeps, which `range` is about."""
    models: tuple[JointPMF, ...] = field(default=(), repr=False, compare=False)
    """The models that were found to fit the tables, the best first."""
    is_proven: bool = field(default=False, repr=False)
    """Whether the paper's Theorem 2 or its extension holds for the model."""
    converged: bool = field(default=True, repr=False)
    """Whether the best fit converged."""
    has_records: bool = field(default=False, repr=False)
    """Whether records were given, not only tables."""
    n_compared: int = field(default=0, repr=False)
    """The number of two-way tables that were compared with the model."""
    n_three_way: int = field(default=0, repr=False)
    """The number of three-way tables of the records that were compared with the model."""

    def range(
        self, event: Event, given: Event | None = None, *, level: float = 0.95, max_cells: int = MAX_CELLS
    ) -> ProbabilityRange:
        """Return the least and greatest probability that any joint with these tables can have.

        Of a model, these are the tables that it was fitted to, if it keeps them; otherwise its own, which are exact.
        The result also has the least and greatest answer of the models that were found to fit the tables. See
        `probability_range` for the parameters.

        Examples
        --------
        >>> from twoway.datasets import dirichlet_rows
        >>> from twoway.diagnosis.diagnose import diagnose
        >>> pmf = dirichlet_rows(3, 2, 2, seed=1)
        >>> event = {"x1": 0, "x2": 0, "x3": 0}
        >>> pmf.prob(event) in diagnose(pmf).range(event)
        True
        """
        exact_level = None if self.is_exact and self.given is None else level
        bounds = probability_range(self.given or self.tables, event, given, level=exact_level, max_cells=max_cells)
        answers = []
        # Models of the pairs alone do not know the rest of what was published.
        for pmf in self.models if self.is_exact or not isinstance(self.given, PublishedTables) else ():
            with suppress(ImpossibleEvidenceError):
                answers.append(float((pmf.given(given) if given else pmf).prob(event)))
        return replace(bounds, models=(min(answers), max(answers)) if answers else None, n_models=len(answers))

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return f"{self.kind}{' ' if self.kind == 'recoverable if' else ': '}{self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as plain lists and dictionaries; numbers that are not finite are None."""
        return {"verdict": self.verdict, **plain_data(self)}

    def __str__(self) -> str:
        size = f"{self.n_variables} variables, {self.n_tables} of {math.comb(self.n_variables, 2)} tables, "
        size += f"{len(self.hidden)} hidden variables, " if self.hidden else ""
        lines = [self.verdict, "", f"{size}rank {self.rank}", *(f"  {check}" for check in self.checks)]
        lines += [f"  {line.format(self)}" for name, line in _LINES.items() if getattr(self, name) is not None]
        lines += [f"  component {note.component}: {note.what}" for note in self.components[:_MAX_NOTES]]
        if len(self.components) > _MAX_NOTES:
            lines.append(f"  … {len(self.components) - _MAX_NOTES} more notes on components")
        missing = self.missing[:_MAX_MISSING]
        lines += [f"  a table of {crossed_text(table.variables)} would help: {table.why}" for table in missing]
        return "\n".join([*lines, *(f"→ {step}" for step in self.advice)])


_LINES = {
    "separability": "separable within ε = {0.separability[0]:.3f} and {0.separability[1]:.3f}",
    "strength": (
        "the tables show {0.visible} components above sampling error; number {0.rank} is {0.strength:.2f} times what "
        "chance makes"
    ),
    "ambiguity": "models with exactly the same tables differ by up to {0.ambiguity:.3f} in total variation",
    "disagreement": "starts that fit equally well differ by up to {0.disagreement:.3f}",
    "any_joint": "joints of any rank with the same tables differ by up to {0.any_joint:.3f}",
    "worst_misfit": "{0.worst_misfit}",
    "worst_three_way": "{0.worst_three_way}",
    "contradiction": "{0.contradiction}",
    "beyond_tables": "a fit to the records themselves moves the joint by {0.beyond_tables:.3f}",
}
"""What is printed of a finding, where it is not None."""


def verdict_by_graph(findings: Diagnosis, graph: PairGraph, rank: int | None) -> Diagnosis | None:
    """Return the verdict where it follows from which tables are available; None where their content matters."""
    names, sizes, groups = findings.tables.schema.names, graph.sizes, graph.groups()
    alone = tuple(names[group[0]] for group in groups if len(group) == 1)

    def decided(kind: Kind, reason: str, status: Status, detail: str, **more: Any) -> Diagnosis:
        return replace(findings, kind=kind, reason=reason, checks=(Check("tables", status, detail),), **more)

    if len(names) == 1 or (len(names) == 2 and findings.n_tables == 1):
        return decided("recoverable", "the only table is the joint itself", "holds", "all tables are available")
    if rank == 1 and not alone:
        reason = "with one component, the shares of each variable determine the joint"
        return decided("recoverable", reason, "holds", "every variable is in one") if findings.is_exact else None
    if len(groups) == 1 or (rank is None and findings.n_tables == 0):
        return None
    smallest = min(groups, key=len).tolist()
    others = [index for index in range(len(names)) if index not in smallest]
    first, second = (max(side, key=lambda index: int(sizes[index])) for side in (smallest, others))
    why = "of the tables that connect the groups, it has the most categories"
    return decided(
        "not from these tables",
        f"no table connects {shortlist([names[index] for index in smallest], 6)} with the other variables",
        "fails",
        f"{len(groups)} groups of variables that no table connects",
        under_connected=alone,
        missing=(MissingTable((names[first], names[second]), math.nan, why),),
        advice=("add a table that connects the groups, or fit each group separately",),
    )


def verdict_by_findings(findings: Diagnosis, graph: PairGraph) -> Diagnosis:
    """Return the findings with their verdict.

    The first objection decides. Without one, the joint is recoverable under the conditions that were not shown to
    hold; without such conditions, it is recoverable.
    """
    more_data = "three-way tables, or the records themselves, would be enough"
    if findings.has_records:
        more_data = "you have the records: fit them, not their tables"
    for reason, *advice in _verdict_objections(findings, graph, more_data):
        return replace(findings, kind="not from these tables", reason=reason, advice=tuple(advice or [more_data]))
    if conditions := _verdict_conditions(findings, graph):
        steps = (more_data,) if _verdict_error(findings) > SMALL else ()
        return replace(findings, kind="recoverable if", reason="; and ".join(conditions), advice=steps)
    fitted = "" if findings.is_exact else " for the factors as fitted"
    where = " at each hidden variable, among trees of this shape" if findings.hidden else ", among models of this rank"
    reason = f"the conditions of the paper's Theorem 2 hold{fitted}{where}"
    return replace(findings, kind="recoverable", reason=reason)


def _verdict_objections(d: Diagnosis, graph: PairGraph, more_data: str) -> Iterator[tuple[str, ...]]:
    """Yield what rules the joint out, in the order in which it decides, with advice where more data is not enough.

    What contradicts the model comes first: only a model that may be right can have rivals with the same tables.
    """
    # No joint has the tables.
    if d.contradiction is not None:
        yield (
            str(d.contradiction),
            "compare where these tables come from: who was asked, how answers are weighted, what the totals are",
        )
    # There are more components than the rank.
    visible = f"they show {counted(d.visible or 0, 'component')} above sampling error"
    more_visible = d.visible is not None and d.visible > d.rank and (d.excess or 0.0) >= _CLEAR
    if more_visible or (d.worst_misfit is not None and d.converged and d.worst_misfit.total_variation > SMALL):
        reasons = [f"they contradict rank {d.rank}", *([visible] if more_visible else [])]
        if d.worst_misfit is not None:
            tables = f"{d.misfits} of {d.n_compared} tables"
            reasons.append(f"the best model of this rank is off by more than chance in {tables}; {d.worst_misfit}")
        rank = f"rank {d.visible}" if more_visible else "a higher rank"
        yield "; ".join(reasons), f"diagnose {rank}, or leave the rank out to have it chosen"
    # The tables show fewer components than the rank.
    if d.strength is not None and d.strength < VISIBLE:
        yield (
            f"{visible}, not {d.rank}, and many models fit them equally well{_verdict_distance(d)}",
            more_data,
            f"rank {d.visible} is the highest that these tables show",
        )
    # The records show dependence that is in none of their two-way tables.
    more_shown = "the records show what their two-way tables do not"
    if d.worst_three_way is not None and d.worst_three_way.total_variation > _LARGE_AMBIGUITY:
        tables = f"{d.three_way_misfits} of {d.n_three_way} three-way tables"
        yield (f"{more_shown}: {tables} are off by more than chance; {d.worst_three_way}",)
    if d.records_add_information and (d.beyond_tables or 0.0) > _LARGE_AMBIGUITY:
        yield (f"{more_shown}: a fit to the records moves the joint by {d.beyond_tables:.2f} (total variation)",)
    # The available tables cannot show the rank, whatever is in them. Zeros can determine what tables do not show; a
    # model's own are known to be zeros, those of a fit are not.
    if not d.is_exact:
        # Each variable's shares add up to one, so its table has one independent row fewer for each further variable.
        n_shown = 1 + (graph.available * (graph.sizes - 1)).sum(axis=1)
        if (short := np.flatnonzero(n_shown < d.rank)).size:
            names = shortlist([d.tables.schema.names[index] for index in short], 6)
            yield (
                f"the tables of {names} can show {counted(int(n_shown[short].max()), 'component')} at most, not "
                f"{d.rank}{_verdict_distance(d)}",
                f"add tables of {names} with variables of more categories",
                more_data,
            )
        if d.split is None and graph.goes_through_all:
            yield (
                f"no two groups of variables with all tables between them have {d.rank} independent categories each: "
                f"these tables cannot show {d.rank} components{_verdict_distance(d)}",
            )
    # Joints that are far apart have the same tables.
    if d.ambiguity > _LARGE_AMBIGUITY and d.converged:
        which = f"; under-connected: {shortlist(d.under_connected, 6)}" if d.under_connected else ""
        yield (f"another model has the same tables and a joint {d.ambiguity:.2f} away (total variation){which}",)
    if d.disagreement is not None and d.disagreement > _LARGE_DISAGREEMENT and d.converged:
        yield (f"starts that fit them equally well end at joints {d.disagreement:.2f} apart (total variation)",)
    if d.rank == 1 and not d.n_three_way and (d.any_joint or 0.0) > _LARGE_AMBIGUITY:
        yield (
            "any two variables look independent, which does not mean that all of them are: another joint has the same "
            f"tables and is {d.any_joint:.2f} away (total variation)",
        )


def _verdict_conditions(d: Diagnosis, graph: PairGraph) -> list[str]:
    """Return what must be true for the joint to be known, and was not shown."""
    conditions, error = [], _verdict_error(d)
    if d.rank == 1 and d.n_three_way:
        conditions.append(
            "no dependence appears only among four or more variables: in the two-way and three-way tables of the "
            "records, all variables are independent"
        )
    elif error > SMALL:
        conditions.append(
            f"an error of up to about {error:.2f} in a probability is acceptable: models that fit equally well were "
            "found to differ by that much"
        )
    elif d.rank == 1:
        conditions.append("there is only one component: two-way tables do not show what only three variables share")
    elif not d.is_proven and d.converged:
        names = [check.name for check in d.checks if check.status != "holds" and not check.name.startswith("(iii)")]
        model, unproven = f"model of rank {d.rank}", "; ".join(names)
        if d.hidden:
            model = "tree of this shape"
            unproven = f"those of Theorem 2 at {len(names)} of {len(d.hidden)} hidden variables"
        conditions.append(
            f"no other {model} has the same tables: none was found, but this is not proven, since these conditions "
            f"fail or are unknown: {unproven}"
        )
    if d.strength is not None and VISIBLE <= d.strength < _CLEAR:
        conditions.append(
            "the weakest component, barely above sampling error, is real: more records would show whether it is"
        )
    if not d.converged:
        conditions.append("longer fits agree: these had not converged")
    # A model has its rank, data need not; but a verdict with conditions should name all of them.
    if conditions or not d.is_exact:
        conditions[:0] = _verdict_assumptions(d, graph)
    return conditions


def _verdict_assumptions(d: Diagnosis, graph: PairGraph) -> Iterator[str]:
    """Yield what the tables do not show about the joint, and the model assumes."""
    components = counted(d.rank, "component")
    without = pairs_without_table(d.tables.schema, graph.available)
    if without and not d.is_exact and (d.any_joint is None or d.any_joint > SMALL):
        distance = "an amount that was not searched for, since the joint has too many cells"
        distance = distance if d.any_joint is None else f"up to {d.any_joint:.2f} (total variation)"
        explain = f"{components} also explain{'s' * (d.rank == 1)} the pairs without a table ({without})"
        yield f"{explain}: joints with the same tables differ by {distance}"
    elif d.rank > 1 and (d.any_joint or 0.0) > SMALL:
        assumed = f"there are no more than {components}: a joint with more"
        assumed = "the hidden variables lie on a tree of this shape: another joint" if d.hidden else assumed
        yield f"{assumed} has the same tables and is {d.any_joint:.2f} away (total variation)"


def _verdict_error(d: Diagnosis) -> float:
    """Return by how much a probability may be wrong, as far as was found."""
    errors = [fit.total_variation for fit in (d.worst_misfit, d.worst_three_way) if fit is not None]
    errors += [d.beyond_tables or 0.0] if d.records_add_information else []
    errors += [d.any_joint or 0.0] if d.rank == 1 else []
    return max(d.ambiguity, d.disagreement or 0.0, *errors)


def _verdict_distance(d: Diagnosis) -> str:
    """Return how far other joints with the same tables are, if that matters."""
    distance = max(d.ambiguity, d.disagreement or 0.0, d.any_joint or 0.0)
    return f"; joints with the same tables are up to {distance:.2f} away (total variation)" if distance > SMALL else ""
