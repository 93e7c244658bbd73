"""Tables of sheets that say more than pairs: of many variables, in coarser categories, of some people, with bounds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from twoway.arrays import Floats
from twoway.category_labels import Label
from twoway.errors import DataError, errors_at
from twoway.tables.crosstabs.cells import parse_cell
from twoway.tables.crosstabs.grids import Grid, error_file, read_grids
from twoway.tables.crosstabs.sheet_layout import SheetLayout
from twoway.tables.crosstabs.sheet_table import SheetTable
from twoway.tables.flat_counts import NO_TOTAL, NOMINAL_TOTAL
from twoway.tables.published.numbers import Axes, Labels, people_for_errors
from twoway.tables.published.ranges import Range, groups_of_ranges, range_of
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables, find_published_schema
from twoway.text import shortlist

# Margins of error are those of 90 % intervals, as census bureaus publish them.
_MARGIN = 1.645
# Counts are rounded to one of these; that so many of them are multiples by chance is next to impossible.
_ROUNDED_TO, _LEAST_ROUNDED = (5.0, 10.0, 50.0, 100.0, 500.0, 1000.0), 6


@dataclass(frozen=True)
class ErrorSheets:
    """Sheets with the standard errors, or the margins of error, of numbers in others, at the same places."""

    path: str | os.PathLike[str]
    """A file, or a folder with one for each file of tables."""
    _grids: dict[str, list[Grid]] = field(default_factory=dict)

    def people(self, table: SheetTable, published: PublishedTable) -> float:
        """Return the number of people for which the shares of a table have such errors."""
        file, is_margin = error_file(table.grid.file, self.path)
        grids = self._grids.setdefault(file, [])
        if not grids:
            grids += read_grids(file)
        same = [grid for grid in grids if grid.sheet == table.grid.sheet]
        if len(same) != 1:
            raise DataError(f"{file!r} has no sheet {table.grid.sheet!r} with the errors")
        numbers = np.zeros(table.values.shape)
        for index in np.ndindex(numbers.shape):
            row, column = int(table.rows[index]), int(table.columns[index])
            try:
                numbers[index] = parse_cell(same[0].cells[row][column]).value
            except (IndexError, ValueError) as problem:
                raise DataError(f"{same[0].place(row, column)}: no standard error is here: {problem}") from None
        scale = float(table.values.sum()) if table.kind == "counts" else (100.0 if table.is_percent else 1.0)
        return people_for_errors(published.shares, numbers / scale / (_MARGIN if is_margin else 1.0), table.name)


def with_groups(layout: SheetLayout, tables: Iterable[SheetTable]) -> SheetLayout:
    """Return a layout that says which ranges of a variable are made up of finer ones, where tables differ in them."""
    sides: dict[str, list[tuple[str, ...]]] = {}
    spelt: dict[tuple[str, Range], tuple[str, str]] = {}
    for table in tables:
        for axis, (name, labels) in enumerate(zip(table.variables, table.categories, strict=True)):
            sides.setdefault(name, []).append(labels)
            for code, label in enumerate(labels):
                if name not in layout.groups and (own := range_of(label)) is not None:
                    place = table.place_of(axis, code)
                    other, elsewhere = spelt.setdefault((name, own), (label, place))
                    if other != label:
                        raise DataError(
                            f"{place}: the label {label!r} of {name!r} is nearly {other!r}, in {elsewhere}; write "
                            "both the same way, or say in a layout what each stands for"
                        )
        for name, labels in table.within.items():
            sides.setdefault(name, []).append(labels)
    found = {name: groups_of_ranges(own) for name, own in sides.items() if name not in layout.groups}
    groups = {name: own for name, own in found.items() if own is not None}
    return replace(layout, groups={**layout.groups, **groups}) if groups else layout


def published_of(
    tables: Sequence[SheetTable], layout: SheetLayout, notes: list[str], errors: ErrorSheets | None = None
) -> PublishedTables | None:
    """Return tables with all that they and their layout say; None where two-way tables say it all.

    With errors, tables count as many people as these tell.
    """
    is_more = layout.groups or layout.impossible or layout.exact or errors is not None
    if not is_more and not any(t.values.ndim > 2 or t.slack.any() or t.within or _is_rough(t) for t in tables):
        return None
    finest = _finest(tables, layout.groups)
    made = []
    for table in tables:
        with errors_at(f"{table.grid.name}, table {table.name}"):
            one = _published_table(table, _within(table, layout.groups, finest, notes))
            if one.rounded_to:
                what = f"all numbers of {table.name} are multiples of {one.rounded_to:g}"
                notes.append(f"{what}: they are taken as rounded, and as known to within {0.5 * one.rounded_to:g}")
            made.append(one if errors is None else replace(one, weight=errors.people(table, one)))
    labels: dict[str, dict[Label, Labels]] = {
        name: {label: tuple(own) for label, own in members.items()} for name, members in layout.groups.items()
    }
    for name, members in labels.items():
        notes.append(f"labels of {name!r} that stand for several categories: {shortlist(members, 4)}")
    schema = find_published_schema(made, labels, is_typed=False)
    return PublishedTables.of(made, groups=labels, impossible=layout.impossible, exact=layout.exact, schema=schema)


def _finest(tables: Iterable[SheetTable], groups: Mapping[str, Mapping[str, Labels]]) -> dict[str, set[str]]:
    """Return the finest categories of each variable that has groups."""
    finest: dict[str, set[str]] = {name: set() for name in groups}
    for table in tables:
        for name, labels in zip(table.variables, table.categories, strict=True):
            if name in groups:
                finest[name] |= _members(labels, groups[name])
    return finest


def _members(labels: Iterable[str], groups: Mapping[str, Labels]) -> set[str]:
    return {str(member) for label in labels for member in groups.get(label, (label,))}


def _within(
    table: SheetTable, groups: Mapping[str, Mapping[str, Labels]], finest: Mapping[str, set[str]], notes: list[str]
) -> dict[str, Labels]:
    """Return the universe of a table: what is declared, and ranges that are not all there are."""
    within: dict[str, Labels] = dict(table.within)
    for name, labels in zip(table.variables, table.categories, strict=True):
        if name in groups and name not in within and _members(labels, groups[name]) < finest[name]:
            within[name] = labels
            notes.append(f"{table.name} is about some people only: {name!r} {labels[0]} to {labels[-1]}")
    return within


def _published_table(table: SheetTable, within: Mapping[str, Labels]) -> PublishedTable:
    notes: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    values, slack, totals = table.values, table.slack, _totals(table)
    if table.kind == "counts":
        unit: Floats | float = 1.0
    else:
        others = tuple(axis for axis in range(values.ndim) if axis not in table.given)
        bases, is_joint = _bases(table)
        if bases is None:
            people = table.total or NOMINAL_TOTAL
            notes = () if table.total else (f"{table.name} has {NO_TOTAL} {people:g} records",)
            bases = np.full([values.shape[axis] for axis in table.given], 1.0)
            bases *= people / bases.size
        sums = values.sum(axis=others, keepdims=True)
        unit = np.expand_dims(bases, others) / np.where(sums > 0, sums, 1.0)
        given = () if is_joint else tuple(table.variables[axis] for axis in table.given)
        totals = {}
    counts = values * unit
    # "<5" counts as 2.5 in a sheet, and is at most 4 people; a share below 1 % may be anything below.
    most = 2.0 * values - (1.0 if table.kind == "counts" else 0.0)
    rounded_to = rounded_step(values[slack == 0]) if table.kind == "counts" and _is_rough(table) else 0.0
    half = 0.5 * rounded_to
    low = np.where(slack > 0, 0.0, np.maximum(counts - half, 0.0))
    high = np.where(slack > 0, np.maximum(most, values) * unit, counts + half)
    if not counts.sum() > 0:
        raise DataError("it counts nobody")
    places = np.array([table.place(index) for index in np.ndindex(values.shape)]).reshape(values.shape)
    return PublishedTable(
        table.variables,
        table.categories,
        counts,
        low,
        high,
        given,
        dict(within),
        0.0,
        totals,
        table.name,
        notes,
        places,
        rounded_to,
    )


def _is_rough(table: SheetTable) -> bool:
    """Return whether some counts are so small that rounding changes them by more than chance does."""
    known = table.values[table.slack == 0]
    return table.kind == "counts" and bool((known < (0.5 * rounded_step(known)) ** 2).any())


def rounded_step(counts: Floats) -> float:
    """Return the unit that counts were rounded to, by what they are all multiples of; 0 where that may be chance.

    Examples
    --------
    >>> rounded_step(np.array([120.0, 30, 0, 10, 50, 70, 90])), rounded_step(np.array([120.0, 30, 10, 50, 70, 91]))
    (10.0, 0.0)
    """
    positive = counts[counts > 0]
    if len(positive) < _LEAST_ROUNDED or (positive != np.rint(positive)).any():
        return 0.0
    step = float(np.gcd.reduce(positive.astype(np.int64)))
    return max((unit for unit in _ROUNDED_TO if step % unit == 0), default=0.0)


def _totals(table: SheetTable) -> dict[Axes, Floats]:
    """Return published totals, which tell what cells with bounds add up to."""
    if not table.slack.any():
        return {}
    return {margin.axes: margin.values for margin in table.margins if margin.role == "total" and not margin.is_percent}


def _bases(table: SheetTable) -> tuple[Floats | None, bool]:
    """Return the number of people behind the shares of each category that is given, and whether these are shares, too.

    Unweighted bases are the people who were asked, and say nothing about the population.
    """
    for role in ("base", "unweighted"):
        for margin in table.margins:
            if margin.role == role and margin.axes == table.given and not margin.is_percent and margin.values.sum() > 0:
                return np.maximum(margin.values, 1e-9), role == "base"
    return None, not table.given
