"""How far tables leave an answer open: the least and greatest probability of any joint that has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from twoway.arrays import Ints
from twoway.checks.table_program import Margins, TableProgram, choose_axes
from twoway.errors import DataError, ImpossibleEvidenceError, whole_number
from twoway.model.evidence import describe_event, parse_event
from twoway.model.intervals import checked_level
from twoway.model.pmf import JointPMF
from twoway.schema import Schema
from twoway.tables.tables import Tables
from twoway.text import shortlist

MAX_CELLS = 10_000
"""Cells of the joint that a range is computed over, by default: a few seconds."""


@dataclass(frozen=True)
class ProbabilityRange:
    """The least and greatest probability of an event, among all joints that have some tables."""

    question: str
    """What was asked, as text."""
    low: float
    high: float
    variables: tuple[str, ...]
    """The variables whose joint was searched: those asked about, and others whose tables tighten the range."""
    merged: tuple[str, ...]
    """Those of them whose categories were taken together, to save cells."""
    is_sharp: bool
    """Whether all tables were used that can tighten the range; otherwise it is valid, and may be too wide."""
    n_cells: int
    """Cells of the joint that was searched."""
    level: float | None
    """The probability with which all tables are within the slack given for chance; None where they count as exact."""
    contradiction: float = 0.0
    """The least total by which shares must change, beyond chance, before any joint has them: 0 where one has."""
    models: tuple[float, float] | None = None
    """The least and greatest answer of the models that were found to fit the tables, where some were."""
    n_models: int = 0

    @property
    def width(self) -> float:
        """The greatest less the least."""
        return self.high - self.low

    def __contains__(self, probability: float) -> bool:
        return self.low <= probability <= self.high

    def with_models(self, answers: Iterable[float]) -> ProbabilityRange:
        """Return it with the answers of models that fit the tables."""
        some = list(answers)
        return replace(self, models=(min(some), max(some)) if some else None, n_models=len(some))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain lists and dictionaries."""
        return {
            **asdict(self),
            "variables": list(self.variables),
            "merged": list(self.merged),
            "models": None if self.models is None else list(self.models),
        }

    def __str__(self) -> str:
        chance = "" if self.level is None else f", each within chance at {100 * self.level:g} % for all together"
        if self.contradiction:
            head = "in the joints that come nearest to these tables"
        else:
            head = "in all joints that have these tables"
        lines = [f"{self.question}: {self.low:.4f} to {self.high:.4f} {head}{chance}"]
        if self.contradiction:
            lines.append(
                f"  the tables contradict each other: some shares must change, by {self.contradiction:.3g} together, "
                "before any joint has them"
            )
        used = f"  over the joint of {shortlist(self.variables, 8)}, {self.n_cells:,} cells"
        if self.merged:
            used += f", categories of {shortlist(self.merged, 4)} merged"
        lines.append(used + ("" if self.is_sharp else "; more variables or finer categories could narrow it"))
        if self.models is not None:
            low, high = self.models
            lines.append(f"  in the {self.n_models} models found that fit the tables: {low:.4f} to {high:.4f}")
        return "\n".join(lines)


def probability_range(
    tables: Tables,
    event: Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
    *,
    level: float | None = 0.95,
    max_cells: int = MAX_CELLS,
) -> ProbabilityRange:
    """Return the least and greatest probability of an event that any joint with these tables can have.

    No model is assumed: what the tables do not determine stays open. The truth is in the range wherever the tables
    are right, whatever the rank.

    Parameters
    ----------
    tables
        Two-way or three-way tables.
    event
        As for `JointPMF.prob`: a mapping from a variable's name to a label, or to several any of which may hold.
    given
        What is known, likewise; the range is then that of a conditional probability.
    level
        Tables of a sample are not exact. Each share may be off by what chance explains, given the effective number
        of records of its table; all of them together are, at this level of confidence. None takes tables as exact.
    max_cells
        The joint that is searched has up to so many cells. All variables whose tables can tighten the range are
        in it, where they fit; otherwise those that promise most, some categories merged: the
        range is then wider, still valid, and ``is_sharp`` is False. 100,000 cells take about half a minute.

    Raises
    ------
    ImpossibleEvidenceError
        Where what is given has probability 0 in every joint with these tables.

    Examples
    --------
    Two coins and whether they differ: each pair of the three is independent, and says nothing of all three.

    >>> from twoway.data.records import Records
    >>> a, b = [0, 0, 1, 1] * 1000, [0, 1, 0, 1] * 1000
    >>> tables = Tables.count(Records({"a": a, "b": b, "differ": [x ^ y for x, y in zip(a, b)]}))
    >>> print(probability_range(tables, {"differ": 1}, given={"a": 1, "b": 1}, level=None))
    P(differ = 1 | a = 1, b = 1): 0.0000 to 1.0000 in all joints that have these tables
      over the joint of 'a', 'b', 'differ', 8 cells
    """
    if not isinstance(tables, Tables):
        raise DataError(f"a range is computed from Tables; got {type(tables).__name__}: count records first, tw.count")
    level = None if level is None else checked_level(level)
    max_cells = whole_number("max_cells", max_cells, 1)
    schema = tables.schema
    wanted, known = parse_event(schema, event), parse_event(schema, {} if given is None else given)
    question = f"P({describe_event(event)}{f' | {describe_event(given)}' if given else ''})"
    asked = _asked_classes(schema, wanted, known)
    n_asked = int(np.prod([float(classes.max()) + 1.0 for classes in asked.values()]))
    if n_asked > max_cells:
        raise DataError(
            f"a range for {len(asked)} variables takes {n_asked:,} cells and max_cells is {max_cells:,}; "
            "ask about fewer variables"
        )
    if not asked:
        return ProbabilityRange(question, 1.0, 1.0, (), (), True, 1, level)
    margins = Margins(tables)
    axes, is_sharp = choose_axes(margins, asked, max_cells)
    program = TableProgram(margins, axes, level)
    inside, beside = program.cells(wanted) * program.cells(known), program.cells(known)
    ends = [program.extreme(inside, beside, sign) for sign in (1, -1)]
    if ends[0] is None or ends[1] is None:
        raise ImpossibleEvidenceError(
            f"{describe_event(given or {})} has probability 0 in every joint with these tables"
        )
    low, high = ends[0][0], ends[1][0]
    return ProbabilityRange(
        question,
        min(low, high),
        max(low, high),
        tuple(schema.names[axis.variable] for axis in axes),
        tuple(schema.names[axis.variable] for axis in axes if axis.is_merged),
        is_sharp,
        program.n_cells,
        level,
        program.contradiction,
    )


def answers_of_models(
    models: Iterable[JointPMF], event: Mapping[str, Any], given: Mapping[str, Any] | None = None
) -> list[float]:
    """Return the answers of some models; those in which what is given is impossible have none."""
    answers = []
    for pmf in models:
        try:
            answers.append(float((pmf.given(given) if given else pmf).prob(event)))
        except ImpossibleEvidenceError:
            continue
    return answers


def _asked_classes(schema: Schema, event: Mapping[int, Ints], given: Mapping[int, Ints]) -> dict[int, Ints]:
    """Return the classes of the categories of variables asked about: those that the question does not tell apart."""
    asked = {}
    for index in sorted({*event, *given}):
        classes = np.ones(schema.sizes[index], dtype=np.int64)
        if index in event:
            classes[event[index]] = 2
        if index in given:
            classes[np.setdiff1d(np.arange(len(classes)), given[index])] = 0
        asked[index] = np.unique(classes, return_inverse=True)[1].reshape(-1)
    return asked
