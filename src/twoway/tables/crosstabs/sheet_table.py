"""Tables of sheets: numbers as they are printed, labels that must agree, and pairs of variables of any table."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.errors import DataError
from twoway.tables.crosstabs.cells import Cell, parse_cell
from twoway.tables.crosstabs.grids import Grid
from twoway.tables.crosstabs.published_tables import TableKind
from twoway.tables.crosstabs.sheets import Key, Margin, Sheet
from twoway.text import shortlist

_LETTERS = re.compile(r"(?<=[\d%])\s*[A-Za-z]{1,12}$")
_BASE_NUMBER = re.compile(r"\(?\s*n\s*=\s*(\d[\d,]*)\s*\)?", re.IGNORECASE)
_MARKS = re.compile(r"(?<=[\d%])[¹²³⁴⁵⁶⁷⁸⁹⁰ᵃᵇᶜ†‡§]+$")
# Labels as similar as this are taken for the same, one of them misspelt.
_NEAR = 0.85


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
    margins: tuple[Margin, ...]
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


# Several tables


class PairSheets(NamedTuple):
    """What `Tables.from_crosstabs` takes."""

    sheets: list[tuple[Key, Sheet]]
    kinds: dict[Key, TableKind]
    totals: dict[Key, float]
    margins: dict[str, dict[Any, float]]


def check_labels(tables: Sequence[SheetTable]) -> None:
    """Raise where a name or label of one table is nearly that of another, but not the same."""
    first: dict[str, tuple[str, SheetTable]] = {}
    places_of: dict[str, dict[str, str]] = {}
    for table in tables:
        for axis, name in enumerate(table.variables):
            known, other = first.setdefault(_plain(name), (name, table))
            if known != name:
                raise DataError(
                    f"{table.place_of(axis, 0)}: the variable {name!r} is {known!r} in {other.place_of(0, 0)}; write "
                    "both the same way"
                )
            own = places_of.setdefault(name, {})
            # A label that only this table has may be a misspelt one that it lacks.
            lacking = [label for label in own if label not in table.categories[axis]]
            for code, label in enumerate(table.categories[axis]):
                near = [one for one in lacking if _is_near(one, label)] if label not in own else []
                if near:
                    raise DataError(
                        f"{table.place_of(axis, code)}: the label {label!r} of {name!r} is nearly {near[0]!r}, in "
                        f"{own[near[0]]}; write both the same way, or name the variables differently in a layout"
                    )
            for code, label in enumerate(table.categories[axis]):
                own.setdefault(label, table.place_of(axis, code))


def _plain(text: str) -> str:
    return re.sub(r"[\s_‐‑‒–—-]+", "-", text.casefold()).strip("-.:* ")


def _is_near(one: str, other: str) -> bool:
    if _plain(one) == _plain(other):
        return True
    if re.findall(r"\d+", one) != re.findall(r"\d+", other) or min(len(one), len(other)) < 4:
        return False
    return difflib.SequenceMatcher(None, one.casefold(), other.casefold()).ratio() >= _NEAR


def check_zeros(tables: Sequence[SheetTable]) -> None:
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


def pair_sheets(tables: Iterable[SheetTable], notes: list[str]) -> PairSheets:
    """Return the pairs of variables in tables of any number of them."""
    pairs = PairSheets([], {}, {}, {})
    for table in tables:
        if table.values.ndim == 1:
            _add_margin(pairs, table, notes)
        elif table.values.ndim == 2:
            _add_pair(pairs, table)
        else:
            counts = _joint_numbers(table)
            notes.append(f"{table.name} is used as the tables of its pairs of variables")
            for axes in combinations(range(counts.ndim), 2):
                sums = counts.sum(tuple(axis for axis in range(counts.ndim) if axis not in axes))
                key = table.variables[axes[0]], table.variables[axes[1]]
                labels = table.categories[axes[0]], table.categories[axes[1]]
                kind: TableKind = "joint" if table.kind == "joint" else "counts"
                _add(pairs, key, Sheet(key, *labels, sums, table.step, table.is_percent and kind == "joint", ()), kind)
    return pairs


def _add(pairs: PairSheets, key: Key, sheet: Sheet, kind: TableKind) -> None:
    for one, other in pairs.kinds.items():
        if set(one) == set(key) and other != kind:
            raise DataError(
                f"there are two tables {' × '.join(key)}, of kind {other} and {kind}; leave one out of the layout"
            )
    pairs.kinds[key] = kind
    pairs.sheets.append((key, sheet))


def _add_pair(pairs: PairSheets, table: SheetTable) -> None:
    key = table.variables[0], table.variables[1]
    margins = tuple(replace(margin, label=margin.role) for margin in table.margins if len(margin.axes) == 1)
    step = table.step
    sheet = Sheet(key, table.categories[0], table.categories[1], table.values, step, table.is_percent, margins)
    _add(pairs, key, sheet, table.kind)
    total = table.total or next((float(m.values) for m in table.margins if m.role == "base" and not m.axes), None)
    if total is not None and table.kind != "counts" and not any(m.role in ("base", "unweighted") for m in margins):
        pairs.totals[key] = total


def _add_margin(pairs: PairSheets, table: SheetTable, notes: list[str]) -> None:
    """A table of one variable gives the shares that percentages of another table may need."""
    name = table.variables[0]
    pairs.margins[name] = dict(zip(table.categories[0], table.values.tolist(), strict=True))
    notes.append(f"{name!r} is alone in {table.grid.name}: its shares are used where percentages need them")


def _joint_numbers(table: SheetTable) -> Floats:
    """Return counts or shares of all, which percentages have with the base of each group."""
    if table.kind in ("counts", "joint"):
        return table.values
    base = next((m for m in table.margins if m.axes == table.given and m.role == "base" and not m.is_percent), None)
    if base is None:
        names = shortlist([table.variables[axis] for axis in table.given])
        raise DataError(
            f"{table.grid.name}: the percentages of {table.name} need the base of each {names}; "
            "declare the rows or columns of bases in a layout, base_rows or base_columns"
        )
    others = tuple(axis for axis in range(table.values.ndim) if axis not in table.given)
    sums = table.values.sum(others, keepdims=True)
    shares = table.values / np.where(sums > 0, sums, 1.0)
    return np.asarray(shares * np.expand_dims(base.values, others))
