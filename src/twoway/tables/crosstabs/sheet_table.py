"""Tables of sheets: numbers as they are printed, and labels that must agree."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, sums_by
from twoway.data.columns import CHOSEN, NOT_CHOSEN
from twoway.errors import DataError
from twoway.tables.crosstabs.cells import rounded_cells_step
from twoway.tables.crosstabs.crosstabs import TableKind
from twoway.tables.crosstabs.grids import Grid
from twoway.tables.crosstabs.sheets import Sheet

_ARRAYS = ("values", "low", "high", "at")
# Labels as similar as this are taken for the same, one of them misspelt.
_NEAR = 0.85


@dataclass(frozen=True, kw_only=True)
class SheetTable(Sheet):
    """One table of a sheet, with the places of its numbers."""

    kind: TableKind
    given: tuple[int, ...]
    """The variables that percentages of a row or column are given: 100 % for each of their categories."""
    grid: Grid
    at: NDArray[np.int64]
    """The row and the column of each number in the grid, on a last axis of its own."""
    total: float | None = None
    area: str = ""
    within: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The categories of other variables that all these people have."""

    def place(self, index: tuple[int, ...]) -> str:
        """Return where a number is."""
        return self.grid.place(*self.at[index].tolist())

    def place_of(self, axis: int, code: int) -> str:
        """Return where the first number of a category of a variable is."""
        return self.place(tuple(code if position == axis else 0 for position in range(self.values.ndim)))

    def of_area(self, axis: int, code: int) -> SheetTable:
        """Return the table of one area, where one of its variables is the area."""
        chosen = (slice(None),) * axis + (code,)

        def left(axes: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(position - (position > axis) for position in axes if position != axis)

        margins = tuple(
            replace(
                margin, axes=left(margin.axes), values=np.asarray(margin.values.take(code, margin.axes.index(axis)))
            )
            for margin in self.margins
            if axis in margin.axes
        )
        arrays = {what: getattr(self, what)[chosen] for what in _ARRAYS}
        names, labels = ((*parts[:axis], *parts[axis + 1 :]) for parts in (self.variables, self.categories))
        area = self.categories[axis][code]
        more = {"given": left(self.given), "margins": margins, "area": area, **arrays}
        return replace(self, name=" × ".join(names), variables=names, categories=labels, **more)

    def of_choices(self, elsewhere: set[str]) -> Iterator[SheetTable]:
        """Yield a table for each category of the first variable, whether people chose it or not.

        An answer that other questions have, too, such as "None of the above", is named with its question.
        """
        scale = 100.0 if self.is_percent or float(self.values.max()) > 1 else 1.0

        def both(values: Floats, others: Floats) -> Floats:
            return np.stack([values, scale - others])

        for code, label in enumerate(self.categories[0]):
            margins = tuple(
                replace(margin, values=both(margin.values[code], margin.values[code])) if 0 in margin.axes else margin
                for margin in self.margins
                if 0 in margin.axes or margin.role != "total"
            )
            question = f"{label} [{self.variables[0]}]" if label in elsewhere else label
            names = (question, *self.variables[1:])
            labels = ((CHOSEN, NOT_CHOSEN), *self.categories[1:])
            values, low, high, at = (getattr(self, what)[code] for what in _ARRAYS)
            more: dict[str, Any] = {"values": both(values, values), "low": both(low, high), "high": both(high, low)}
            more |= {"at": np.stack([at, at]), "margins": margins}
            yield replace(self, name=" × ".join(names), variables=names, categories=labels, **more)

    @property
    def is_rough(self) -> bool:
        """Whether some counts are so small that rounding changes them by more than chance does."""
        known = self.values[~self.is_open]
        return self.kind == "counts" and bool((known < (0.5 * rounded_cells_step(known)) ** 2).any())


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
                near = [absent for absent in lacking if _is_near_sheet_label(absent, label)] if label not in own else []
                place = own.setdefault(label, table.place_of(axis, code))
                if near:
                    raise DataError(
                        f"{place}: the label {label!r} of {name!r} is nearly {near[0]!r}, in {own[near[0]]}; write "
                        "both the same way, or name the variables differently in a layout"
                    )


def _plain_sheet_label(text: str) -> str:
    return re.sub(r"[\s_‐‑‒–—-]+", "-", text.casefold()).strip("-.:* ")


def _is_near_sheet_label(label: str, other: str) -> bool:
    if _plain_sheet_label(label) == _plain_sheet_label(other):
        return True
    if re.findall(r"\d+", label) != re.findall(r"\d+", other) or min(len(label), len(other)) < 4:
        return False
    return difflib.SequenceMatcher(None, label.casefold(), other.casefold()).ratio() >= _NEAR


def check_sheet_zeros(tables: Sequence[SheetTable]) -> None:
    """Raise where a table of counts has nobody in a category that another of the same people does not leave empty."""
    seen: dict[tuple[str, str, float], tuple[float, str]] = {}
    for table in tables:
        if table.kind != "counts" or table.is_open.any():
            continue
        people = float(table.values.sum())
        for axis, name in enumerate(table.variables):
            sums = sums_by(table.values, [axis])
            for code, (label, count) in enumerate(zip(table.categories[axis], sums.tolist(), strict=True)):
                where = table.place_of(axis, code)
                other, place = seen.setdefault((name, label, people), (count, where))
                if min(other, count) == 0 < max(other, count):
                    raise DataError(
                        f"{where}: {count:g} people have {name!r} {label!r} in {table.name}, but {other:g} in another "
                        f"table of the same {people:g} people, {place}"
                    )
