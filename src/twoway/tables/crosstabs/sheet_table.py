"""One table of a sheet: its numbers as they are printed, their places, and its margins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.tables.crosstabs.cells import Cell, parse_cell
from twoway.tables.crosstabs.grids import Grid
from twoway.tables.crosstabs.published_tables import TableKind
from twoway.tables.crosstabs.sheet_layout import Role

_LETTERS = re.compile(r"(?<=[\d%])\s*[A-Za-z]{1,12}$")
_BASE_NUMBER = re.compile(r"\(?\s*n\s*=\s*(\d[\d,]*)\s*\)?", re.IGNORECASE)
_MARKS = re.compile(r"(?<=[\d%])[¹²³⁴⁵⁶⁷⁸⁹⁰ᵃᵇᶜ†‡§]+$")


def printed_number(text: str, letters: bool = False) -> Cell:
    """Return the number of a cell, without marks of footnotes, and without letters of significance if it may have them.

    Examples
    --------
    >>> printed_number("32% CE", letters=True).value, printed_number("(n=1,204)").value, printed_number("81²").value
    (32.0, 1204.0, 81.0)
    """
    plain = _MARKS.sub("", _LETTERS.sub("", text) if letters else text)
    base = _BASE_NUMBER.fullmatch(plain)
    return parse_cell(base[1] if base else plain)


class Printed(NamedTuple):
    """A number of a sheet and its place."""

    cell: Cell
    row: int
    column: int
    slack: float
    """How far the true number may be off, because the sheet shows a bound such as "<5"."""


@dataclass(frozen=True)
class SheetMargin:
    """Totals or bases that a sheet shows for the categories of some of a table's variables."""

    role: Role
    axes: tuple[int, ...]
    """The variables that it has, by their positions in the table; none for the grand total."""
    values: Floats
    is_percent: bool


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
