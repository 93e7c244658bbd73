"""Tables of sheets: numbers as they are printed, and labels that must agree."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.data.columns import CHOSEN, NOT_CHOSEN
from twoway.errors import DataError
from twoway.tables.crosstabs.cells import Cell, rounded_cells_step
from twoway.tables.crosstabs.crosstabs import TableKind
from twoway.tables.crosstabs.grids import Grid
from twoway.tables.crosstabs.sheets import SheetMargin
from twoway.text import shortlist

# Labels as similar as this are taken for the same, one of them misspelt.
_NEAR = 0.85


class Printed(NamedTuple):
    """A number of a sheet and its place."""

    cell: Cell
    row: int
    column: int
    slack: float
    """How far the true number may be off, because the sheet shows a bound such as "<5"."""


@dataclass(frozen=True)
class SheetTable:
    """One table of a sheet: its variables, categories and numbers as printed."""

    variables: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    values: Floats
    """Of one axis for each variable."""
    kind: TableKind
    given: tuple[int, ...]
    """The variables that percentages of a row or column are given: 100 % for each of their categories."""
    step: float
    is_percent: bool
    margins: tuple[SheetMargin, ...]
    grid: Grid
    rows: NDArray[np.int64]
    """The row of each number in the grid; and its column below."""
    columns: NDArray[np.int64]
    slack: Floats
    total: float | None = None
    area: str = ""
    within: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The categories of other variables that all these people have."""

    @property
    def name(self) -> str:
        """The variables, for messages."""
        return " × ".join(self.variables)

    def place(self, index: tuple[int, ...]) -> str:
        """Return where a number is."""
        return self.grid.place(int(self.rows[index]), int(self.columns[index]))

    def place_of(self, axis: int, code: int) -> str:
        """Return where the first number of a category of a variable is."""
        return self.place(tuple(code if one == axis else 0 for one in range(self.values.ndim)))

    def of_area(self, axis: int, code: int) -> SheetTable:
        """Return the table of one area, where one of its variables is the area."""
        chosen = (slice(None),) * axis + (code,)

        def left(axes: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(one - (one > axis) for one in axes if one != axis)

        margins = tuple(
            replace(
                margin, axes=left(margin.axes), values=np.asarray(margin.values.take(code, margin.axes.index(axis)))
            )
            for margin in self.margins
            if axis in margin.axes
        )
        arrays = {name: getattr(self, name)[chosen] for name in ("values", "rows", "columns", "slack")}
        names, labels = ((*one[:axis], *one[axis + 1 :]) for one in (self.variables, self.categories))
        area = self.categories[axis][code]
        return replace(
            self, variables=names, categories=labels, given=left(self.given), margins=margins, area=area, **arrays
        )

    def of_choices(self, elsewhere: set[str]) -> Iterator[SheetTable]:
        """Yield a table for each category of the first variable, whether people chose it or not.

        An answer that other questions have, too, such as "None of the above", is named with its question.
        """
        scale = 100.0 if self.is_percent or float(self.values.max()) > 1 else 1.0

        def both(values: Floats) -> Floats:
            return np.stack([values, scale - values])

        for code, label in enumerate(self.categories[0]):
            margins = (
                replace(margin, values=both(margin.values[code])) if 0 in margin.axes else margin
                for margin in self.margins
                if 0 in margin.axes or margin.role != "total"
            )
            arrays: dict[str, Any] = {
                name: np.stack([getattr(self, name)[code]] * 2) for name in ("rows", "columns", "slack")
            }
            yield replace(
                self,
                variables=(f"{label} [{self.variables[0]}]" if label in elsewhere else label, *self.variables[1:]),
                categories=((CHOSEN, NOT_CHOSEN), *self.categories[1:]),
                values=both(self.values[code]),
                margins=tuple(margins),
                **arrays,
            )

    def joint_numbers(self) -> Floats:
        """Return counts or shares of all, which percentages have with the base of each group."""
        if self.kind in ("counts", "joint"):
            return self.values
        base = next((m for m in self.margins if m.axes == self.given and m.role == "base" and not m.is_percent), None)
        if base is None:
            names = shortlist([self.variables[axis] for axis in self.given])
            raise DataError(
                f"{self.grid.name}: the percentages of {self.name} need the base of each {names}; "
                "declare the rows or columns of bases in a layout, base_rows or base_columns"
            )
        others = tuple(axis for axis in range(self.values.ndim) if axis not in self.given)
        sums = self.values.sum(others, keepdims=True)
        shares = self.values / np.where(sums > 0, sums, 1.0)
        return np.asarray(shares * np.expand_dims(base.values, others))

    @property
    def is_rough(self) -> bool:
        """Whether some counts are so small that rounding changes them by more than chance does."""
        known = self.values[self.slack == 0]
        return self.kind == "counts" and bool((known < (0.5 * rounded_cells_step(known)) ** 2).any())

    def totals_of_bounds(self) -> dict[tuple[int, ...], Floats]:
        """Return published totals, which tell what cells with bounds add up to."""
        if not self.slack.any():
            return {}
        totals = (margin for margin in self.margins if margin.role == "total" and not margin.is_percent)
        return {margin.axes: margin.values for margin in totals}

    def bases(self) -> tuple[Floats | None, bool]:
        """Return the number of people behind the shares of each category given, and whether these are shares, too.

        Unweighted bases are the people who were asked, and say nothing about the population.
        """
        given = [m for m in self.margins if m.axes == self.given and not m.is_percent and m.values.sum() > 0]
        for role in ("base", "unweighted"):
            for margin in given:
                if margin.role == role:
                    return np.maximum(margin.values, 1e-9), role == "base"
        return None, not self.given


def check_sheet_labels(tables: Sequence[SheetTable]) -> None:
    """Raise where a name or label of one table is nearly that of another, but not the same."""
    first: dict[str, tuple[str, SheetTable]] = {}
    places_of: dict[str, dict[str, str]] = {}
    for table in tables:
        for axis, name in enumerate(table.variables):
            known, other = first.setdefault(_plain_sheet_label(name), (name, table))
            if known != name:
                raise DataError(
                    f"{table.place_of(axis, 0)}: the variable {name!r} is {known!r} in {other.place_of(0, 0)}; write "
                    "both the same way"
                )
            own = places_of.setdefault(name, {})
            # A label that only this table has may be a misspelt one that it lacks.
            lacking = [label for label in own if label not in table.categories[axis]]
            for code, label in enumerate(table.categories[axis]):
                near = [one for one in lacking if _is_near_sheet_label(one, label)] if label not in own else []
                if near:
                    raise DataError(
                        f"{table.place_of(axis, code)}: the label {label!r} of {name!r} is nearly {near[0]!r}, in "
                        f"{own[near[0]]}; write both the same way, or name the variables differently in a layout"
                    )
            for code, label in enumerate(table.categories[axis]):
                own.setdefault(label, table.place_of(axis, code))


def _plain_sheet_label(text: str) -> str:
    return re.sub(r"[\s_‐‑‒–—-]+", "-", text.casefold()).strip("-.:* ")


def _is_near_sheet_label(one: str, other: str) -> bool:
    if _plain_sheet_label(one) == _plain_sheet_label(other):
        return True
    if re.findall(r"\d+", one) != re.findall(r"\d+", other) or min(len(one), len(other)) < 4:
        return False
    return difflib.SequenceMatcher(None, one.casefold(), other.casefold()).ratio() >= _NEAR


def check_sheet_zeros(tables: Sequence[SheetTable]) -> None:
    """Raise where a table of counts has nobody in a category that another of the same people does not leave empty."""
    seen: dict[tuple[str, str, float], tuple[float, str]] = {}
    for table in tables:
        if table.kind != "counts" or table.slack.any():
            continue
        people = float(table.values.sum())
        for axis, name in enumerate(table.variables):
            sums = table.values.sum(tuple(one for one in range(table.values.ndim) if one != axis))
            for code, (label, count) in enumerate(zip(table.categories[axis], sums.tolist(), strict=True)):
                where = table.place_of(axis, code)
                other, place = seen.setdefault((name, label, people), (count, where))
                if min(other, count) == 0 < max(other, count):
                    raise DataError(
                        f"{where}: {count:g} people have {name!r} {label!r} in {table.name}, but {other:g} in another "
                        f"table of the same {people:g} people, {place}"
                    )
