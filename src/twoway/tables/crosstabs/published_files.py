"""Published tables as people find them, in files of text, workbooks and web pages: found, declared and read.

A file becomes grids of text (`grids`); what its rows and columns are is found (`layout_finding`) or declared, as one
layout (`sheet_layout`); by the layout, and by nothing else, its tables are read (`sheet_reading`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from twoway.arrays import Floats
from twoway.category_labels import Label
from twoway.errors import DataError, errors_at, unknown_name
from twoway.tables.crosstabs.cells import parse_cell, rounded_cells_step
from twoway.tables.crosstabs.grids import Grid, error_grid_file, read_all_grids, read_grids
from twoway.tables.crosstabs.layout_finding import find_layout_in_grids
from twoway.tables.crosstabs.pair_sheets import PairSheets
from twoway.tables.crosstabs.sheet_layout import SheetLayout
from twoway.tables.crosstabs.sheet_reading import read_sheet_tables
from twoway.tables.crosstabs.sheet_table import SheetTable, check_sheet_labels, check_sheet_zeros
from twoway.tables.crosstabs.sheets import Key, read_long_sheets
from twoway.tables.flat_counts import NO_TOTAL, NOMINAL_TOTAL
from twoway.tables.published.numbers import Labels, number_of_people
from twoway.tables.published.ranges import Range, groups_of_ranges, range_of_label
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables, find_published_schema
from twoway.tables.tables import Tables
from twoway.text import shortlist

if TYPE_CHECKING:
    from twoway.tables.crosstabs.crosstabs import TableKind

# Margins of error are those of 90 % intervals, as census bureaus publish them.
_MARGIN = 1.645


def read_published(
    path: str | os.PathLike[str],
    *,
    kind: TableKind | Mapping[Key, TableKind] | None = None,
    totals: float | None = None,
    layout: SheetLayout | str | os.PathLike[str] | None = None,
    area: str | None = None,
    errors: str | os.PathLike[str] | None = None,
) -> Tables | PublishedTables:
    """Return the tables in a file or in a folder of files, as people publish them.

    A file is CSV, TSV, Excel, OpenDocument or HTML, and has one table or many, with titles, notes, totals and bases.
    Its variables are named by headings, by a corner cell ``age × vote``, by a title such as "Age by vote" or by the
    file name ``age_x_vote.csv``. A file may also be a list of cells with the columns
    row_variable, row_category, column_variable, column_category and value.

    If the answers to one of several questions in a sheet do not add up to 100, people could choose several: each answer
    becomes a variable of its own, yes or no. A question with an empty cell is left out, with a note in ``notes``: it
    was asked of too few.

    `PublishedTables` are returned where the sheets, or their layout, say more than two-way tables can: tables of three
    or more variables, ranges that are coarser in some tables, tables about some people only, cells shown as bounds.

    Parameters
    ----------
    path
        The file or folder.
    kind, totals
        As for `Tables.from_crosstabs`: what the numbers are, if the sheet does not tell, and how many records each
        table rests on.
    layout
        What the rows and columns of the tables are, as `find_layout` returns it, or a TOML file of it; found if not
        given.
    area
        The area to read, of a file with tables of many; `read_published_areas` reads all.
    errors
        A file of the same shape with the standard error of each number, or a folder with one for each file:
        ``edu_se.csv`` for ``edu.csv``, or ``edu_moe.csv`` with margins of error (of 90 %). Tables then count as many
        people as these tell.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("age_x_vote.csv").write_text(",no,yes\\nyoung,30,80\\nold,65,35\\n")
    >>> read_published("age_x_vote.csv")
    <Tables: 1 pair of 2 variables, total 210>
    """
    by_area = _read_published_areas(path, kind, totals, layout, area, errors)
    if len(by_area) > 1:
        raise DataError(
            f"{os.fspath(path)!r} has tables of {len(by_area)} areas: {shortlist(by_area, 6)}; name one with area=, or "
            "read all with read_published_areas"
        )
    return next(iter(by_area.values()))


def read_published_areas(
    path: str | os.PathLike[str],
    *,
    kind: TableKind | Mapping[Key, TableKind] | None = None,
    totals: float | None = None,
    layout: SheetLayout | str | os.PathLike[str] | None = None,
    errors: str | os.PathLike[str] | None = None,
) -> dict[str, Tables | PublishedTables]:
    """Return the tables of each area in a file, or in a folder of files; the options are those of `read_published`.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("pop.csv").write_text(
    ...     "county,sex,age,n\\nA,m,young,5\\nA,m,old,6\\nA,f,young,7\\nA,f,old,8\\n"
    ...     "B,m,young,1\\nB,m,old,2\\nB,f,young,3\\nB,f,old,4\\n"
    ... )
    >>> read_published_areas("pop.csv")
    {'A': <Tables: 1 pair of 2 variables, total 26>, 'B': <Tables: 1 pair of 2 variables, total 10>}
    """
    return _read_published_areas(path, kind, totals, layout, None, errors)


def read_published_sheets(path: str | os.PathLike[str], layout: SheetLayout, notes: list[str]) -> list[SheetTable]:
    """Return the tables of a file or folder by its layout, as printed; what was left out is added to the notes."""
    return read_sheet_tables([grid for grid in read_all_grids(path) if not grid.is_list_of_cells], layout, notes)


def _read_published_areas(
    path: Any, kind: Any, totals: float | None, layout: Any, area: str | None, errors: Any
) -> dict[str, Tables | PublishedTables]:
    grids = read_all_grids(path)
    lists = [grid for grid in grids if grid.is_list_of_cells]
    rest = [grid for grid in grids if grid not in lists]
    notes: list[str] = []
    found: list[SheetTable] = []
    if rest:
        if layout is None:
            one_kind: Any = kind if isinstance(kind, str) else None
            layout = find_layout_in_grids(rest, one_kind)
        elif not isinstance(layout, SheetLayout):
            layout = SheetLayout.load(layout)
        found = read_sheet_tables(rest, layout, notes)
        layout = with_published_groups(layout, found)
    areas: dict[str, list[SheetTable]] = {}
    for table in found:
        areas.setdefault(table.area, []).append(table)
    if area is not None:
        if area not in areas:
            raise unknown_name("area", area, areas)
        areas = {area: areas[area]}
    listed = [(sheet.key, sheet) for grid in lists for sheet in read_long_sheets(grid.cell_frame(), None)]
    by_area: dict[str, Tables | PublishedTables] = {}
    sheets = None if errors is None else PublishedErrors(errors)
    for name, own in (areas or {"": []}).items():
        check_sheet_labels(own)
        check_sheet_zeros(own)
        said = list(notes)
        more = published_of_sheets(own, layout, said, sheets) if own and not listed else None
        by_area[name] = _published_pairs(own, listed, kind, totals, notes) if more is None else more.with_notes(said)
    return by_area


def _published_pairs(
    found: Sequence[SheetTable], listed: Sequence[Any], kind: Any, totals: Any, notes: Sequence[str]
) -> Tables:
    own_notes = list(notes)
    pairs = PairSheets.of(found, own_notes)
    sheets = [*listed, *pairs.sheets]
    if not sheets:
        raise DataError(
            f"{found[0].grid.name} has tables of one variable only: {shortlist(t.name for t in found)}; a fit needs a "
            "table of two"
        )
    kinds = {**{key: kind or "counts" for key, _ in listed}, **pairs.kinds}
    tables = Tables.from_crosstabs(
        sheets,
        kind=kind if isinstance(kind, Mapping) else kinds,
        totals=totals if totals is not None else pairs.totals,
        margins=pairs.margins,
    )
    return replace(tables, notes=(*own_notes, *tables.notes))


# Tables that say more than pairs: of many variables, in coarser categories, of some people, with bounds


@dataclass(frozen=True)
class PublishedErrors:
    """Sheets with the standard errors, or the margins of error, of numbers in others, at the same places."""

    path: str | os.PathLike[str]
    """A file, or a folder with one for each file of tables."""
    _grids: dict[str, list[Grid]] = field(default_factory=dict)

    def people(self, table: SheetTable, published: PublishedTable) -> float:
        """Return the number of people for which the shares of a table have such errors."""
        file, is_margin = error_grid_file(table.grid.file, self.path)
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
        return number_of_people(published.shares, numbers / scale / (_MARGIN if is_margin else 1.0), table.name)


def with_published_groups(layout: SheetLayout, tables: Iterable[SheetTable]) -> SheetLayout:
    """Return a layout that says which ranges of a variable are made up of finer ones, where tables differ in them."""
    sides: dict[str, list[tuple[str, ...]]] = {}
    spelt: dict[tuple[str, Range], tuple[str, str]] = {}
    for table in tables:
        for axis, (name, labels) in enumerate(zip(table.variables, table.categories, strict=True)):
            sides.setdefault(name, []).append(labels)
            for code, label in enumerate(labels):
                if name not in layout.groups and (own := range_of_label(label)) is not None:
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


def published_of_sheets(
    tables: Sequence[SheetTable], layout: SheetLayout, notes: list[str], errors: PublishedErrors | None = None
) -> PublishedTables | None:
    """Return tables with all that they and their layout say; None where two-way tables say it all.

    With errors, tables count as many people as these tell.
    """
    is_more = layout.groups or layout.impossible or layout.exact or errors is not None
    if not is_more and not any(t.values.ndim > 2 or t.slack.any() or t.within or t.is_rough for t in tables):
        return None
    finest = _finest_published(tables, layout.groups)
    made = []
    for table in tables:
        with errors_at(f"{table.grid.name}, table {table.name}"):
            one = _published_of_sheet(table, _published_universe(table, layout.groups, finest, notes))
            if one.rounded_to:
                what = f"all numbers of {table.name} are multiples of {one.rounded_to:g}"
                notes.append(f"{what}: they are taken as rounded, and as known to within {0.5 * one.rounded_to:g}")
            made.append(one if errors is None else replace(one, weight=errors.people(table, one)))
    labels: dict[str, dict[Label, Labels]] = {
        name: {label: tuple(own) for label, own in members.items()} for name, members in layout.groups.items()
    }
    for name, members in labels.items():
        notes.append(f"these labels of {name!r} stand for several categories of other tables: {shortlist(members, 4)}")
    schema = find_published_schema(made, labels, is_typed=False)
    return PublishedTables.of(made, groups=labels, impossible=layout.impossible, exact=layout.exact, schema=schema)


def _finest_published(tables: Iterable[SheetTable], groups: Mapping[str, Mapping[str, Labels]]) -> dict[str, set[str]]:
    """Return the finest categories of each variable that has groups."""
    finest: dict[str, set[str]] = {name: set() for name in groups}
    for table in tables:
        for name, labels in zip(table.variables, table.categories, strict=True):
            if name in groups:
                finest[name] |= _published_members(labels, groups[name])
    return finest


def _published_members(labels: Iterable[str], groups: Mapping[str, Labels]) -> set[str]:
    return {str(member) for label in labels for member in groups.get(label, (label,))}


def _published_universe(
    table: SheetTable, groups: Mapping[str, Mapping[str, Labels]], finest: Mapping[str, set[str]], notes: list[str]
) -> dict[str, Labels]:
    """Return the universe of a table: what is declared, and ranges that are not all there are."""
    within: dict[str, Labels] = dict(table.within)
    for name, labels in zip(table.variables, table.categories, strict=True):
        if name in groups and name not in within and _published_members(labels, groups[name]) < finest[name]:
            within[name] = labels
            notes.append(f"{table.name} is about some people only: {name!r} {labels[0]} to {labels[-1]}")
    return within


def _published_of_sheet(table: SheetTable, within: Mapping[str, Labels]) -> PublishedTable:
    notes: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    values, slack, totals = table.values, table.slack, table.totals_of_bounds()
    if table.kind == "counts":
        unit: Floats | float = 1.0
    else:
        others = tuple(axis for axis in range(values.ndim) if axis not in table.given)
        bases, is_joint = table.bases()
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
    rounded_to = rounded_cells_step(values[slack == 0]) if table.kind == "counts" and table.is_rough else 0.0
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
