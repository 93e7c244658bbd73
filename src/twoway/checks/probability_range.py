"""What tables alone determine: the least and greatest probability of any joint that has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twoway.arrays import Ints
from twoway.checks.published_program import published_program
from twoway.checks.table_program import TableProgram, choose_program_axes, program_tables
from twoway.errors import DataError, ImpossibleEvidenceError, check_whole_number
from twoway.model.events import Event, describe_event, parse_event
from twoway.model.intervals import checked_interval_level
from twoway.notebook import Shown
from twoway.schema import Schema
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables
from twoway.text import plain_data, shortlist

MAX_CELLS = 10_000
"""The default number of cells of the joint that a range is computed over, which takes a few seconds."""

_QUICK_CELLS = 2000


@dataclass(frozen=True, repr=False)
class ProbabilityRange(Shown):
    """The least and greatest probability of an event, among all joints that have some tables."""

    question: str
    """What was asked, as text."""
    low: float
    high: float
    variables: tuple[str, ...]
    """The variables whose joint was searched: those asked about, and others whose tables narrow the range."""
    merged: tuple[str, ...]
    """Those of them whose categories were merged, to save cells."""
    is_sharp: bool
    """Whether all tables that can narrow the range were used; otherwise it is valid but may be too wide."""
    n_cells: int
    """Cells of the joint that was searched."""
    level: float | None
    """The probability with which all tables are within the margins for sampling error; None where they are exact."""
    contradiction: float = 0.0
    """The least total by which shares must change, beyond sampling error, before any joint has them; 0 if one has."""
    models: tuple[float, float] | None = None
    """The least and greatest answer of the models that were found to fit the tables, where some were."""
    n_models: int = 0

    @property
    def width(self) -> float:
        """The greatest less the least."""
        return self.high - self.low

    def __contains__(self, probability: float) -> bool:
        return self.low <= probability <= self.high

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain lists and dictionaries."""
        return dict(plain_data(self))

    def __str__(self) -> str:
        where = "the joints nearest to these tables" if self.contradiction else "all joints that have these tables"
        chance = "" if self.level is None else f", within sampling error jointly, at {100 * self.level:g} %"
        lines = [f"{self.question}: {self.low:.4f} to {self.high:.4f} in {where}{chance}"]
        if self.contradiction:
            lines.append(
                f"  the tables contradict each other: shares must change by {self.contradiction:.3g} in total before "
                "any joint has them"
            )
        used = f"  over the joint of {shortlist(self.variables, 8)}, {self.n_cells:,} cells"
        if self.merged:
            used += f", categories of {shortlist(self.merged, 4)} merged"
        lines.append(used + ("" if self.is_sharp else "; more variables or finer categories could narrow it"))
        if self.models is not None and f"{self.low:.4f}" != f"{self.high:.4f}":
            low, high = (f"{end:.4f}" for end in self.models)
            several = f"in the {self.n_models} models found that fit the tables: {low} to {high}"
            lines.append(f"  in the best model found: {low}" if low == high else f"  {several}")
        return "\n".join(lines)


def probability_range(
    tables: Tables | PublishedTables,
    event: Event,
    given: Event | None = None,
    *,
    level: float | None = 0.95,
    max_cells: int = MAX_CELLS,
) -> ProbabilityRange:
    """Return the least and greatest probability of an event that any joint with these tables can have.

    No model is assumed. The truth is in the range if the tables are right, whatever the rank.

    Parameters
    ----------
    tables
        Two-way or three-way tables, or published tables of any kind. Of these, coarser categories, parts of all
        people, bounds of numbers and impossible combinations all count; published means do not narrow the range.
    event
        As for `JointPMF.prob`: a mapping from names of variables to a label, or to several, any of which may hold.
    given
        What is known, likewise; the range is then that of a conditional probability.
    level
        Tables of a sample are not exact. Each share may be off by its sampling error, given the effective number of
        records of its table; all of them together are within it at this level of confidence. None takes tables as
        exact.
    max_cells
        The largest number of cells of the joint that is searched. All variables whose tables can narrow the range are
        in it, if they fit; otherwise the most promising ones, some categories merged: the range is then wider but
        still valid, and ``is_sharp`` is False. 100,000 cells take about half a minute.

    Raises
    ------
    ImpossibleEvidenceError
        If what is given has probability 0 in every joint with these tables.

    Examples
    --------
    Two coins and whether they differ: any two of the three are independent, so their tables do not show the rest.

    >>> from twoway.data.records import Records
    >>> a, b = [0, 0, 1, 1] * 1000, [0, 1, 0, 1] * 1000
    >>> tables = Tables.count(Records({"a": a, "b": b, "differ": [x ^ y for x, y in zip(a, b)]}))
    >>> print(probability_range(tables, {"differ": 1}, given={"a": 1, "b": 1}, level=None))
    P(differ = 1 | a = 1, b = 1): 0.0000 to 1.0000 in all joints that have these tables
      over the joint of 'a', 'b', 'differ', 8 cells
    """
    if not isinstance(tables, Tables | PublishedTables):
        raise DataError(f"a range is computed from Tables; got {type(tables).__name__}: count records first, tw.count")
    level = None if level is None else checked_interval_level(level)
    max_cells = check_whole_number("max_cells", max_cells, 1)
    schema = tables.schema
    categories, given_categories = parse_event(schema, event), parse_event(schema, {} if given is None else given)
    question = f"P({describe_event(event)}{f' | {describe_event(given)}' if given else ''})"
    asked = _probability_range_classes(schema, categories, given_categories)
    if math.prod(int(classes.max()) + 1 for classes in asked.values()) > max_cells:
        raise DataError(
            f"a range for {len(asked)} variables takes more cells than max_cells allows, {max_cells:,}; "
            "ask about fewer variables"
        )
    if not asked:
        return ProbabilityRange(question, 1.0, 1.0, (), (), True, 1, level)
    if isinstance(tables, Tables):
        axes, is_sharp = choose_program_axes(tables, asked, max_cells)
        program = TableProgram(program_tables(tables, axes), axes, level)
    else:
        program, is_sharp = published_program(tables, asked, max_cells, level)
    given_cells = program.cells(given_categories)
    least, greatest = (program.extreme(program.cells(categories) * given_cells, given_cells, sign) for sign in (1, -1))
    if least is None or greatest is None:
        raise ImpossibleEvidenceError(
            f"{describe_event(given or {})} has probability 0 in every joint with these tables"
        )
    low, high = sorted((least[0], greatest[0]))
    names = tuple(schema.names[axis.variable] for axis in program.axes)
    merged = tuple(name for name, axis in zip(names, program.axes, strict=True) if axis.is_merged)
    return ProbabilityRange(question, low, high, names, merged, is_sharp, program.n_cells, level, program.contradiction)


def quick_probability_range(
    tables: Tables | PublishedTables, event: Event, given: Event, level: float | None
) -> ProbabilityRange | None:
    """Return a range that takes under a second; None where that cannot be, or the evidence is impossible."""
    try:
        return probability_range(tables, event, given or None, level=level, max_cells=_QUICK_CELLS)
    except (DataError, ImpossibleEvidenceError):
        return None


def _probability_range_classes(schema: Schema, event: Mapping[int, Ints], given: Mapping[int, Ints]) -> dict[int, Ints]:
    """Return the classes of categories of the variables asked about: those that the question treats alike."""
    asked = {}
    for index in sorted({*event, *given}):
        classes = np.ones(schema.sizes[index], dtype=np.int64)
        if index in event:
            classes[event[index]] = 2
        if index in given:
            classes[np.setdiff1d(np.arange(len(classes)), given[index])] = 0
        asked[index] = np.unique(classes, return_inverse=True)[1].reshape(-1)
    return asked
