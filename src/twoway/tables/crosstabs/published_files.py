"""Published tables as people find them, in files of text, workbooks and web pages: found, declared and read.

A file becomes grids of text (`grids`); what its rows and columns are is found (`layout_finding`) or declared, as one
layout (`sheet_layout`); by the layout, and by nothing else, its tables are read (`sheet_reading`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np

from twoway.category_labels import Label
from twoway.errors import DataError, errors_at, unknown_name
from twoway.tables.crosstabs.cells import parse_cell, rounded_cells_step
from twoway.tables.crosstabs.crosstabs import TableKind
from twoway.tables.crosstabs.grids import Grid, error_grid_file, read_all_grids, read_grids
from twoway.tables.crosstabs.layout_finding import find_layout_in_grids
from twoway.tables.crosstabs.sheet_layout import SheetLayout
from twoway.tables.crosstabs.sheet_reading import read_sheet_tables
from twoway.tables.crosstabs.sheet_table import SheetTable, check_sheet_labels, check_sheet_zeros
from twoway.tables.crosstabs.sheets import Key, Sheet, read_long_sheets
from twoway.tables.published.ranges import Range, groups_of_ranges, range_of_label
from twoway.tables.published.table import (
    Labels,
    PublishedTable,
    number_of_people,
    table_of_counts,
    table_of_shares,
    with_bounds_of_people,
)
from twoway.tables.published.tables import PublishedTables, as_published_tables, find_published_schema
from twoway.tables.tables import Tables
from twoway.text import shortlist

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
    by_area = read_published_areas(path, kind=kind, totals=totals, layout=layout, area=area, errors=errors)
    if len(by_area) > 1:
        raise DataError(
            f"{os.fspath(path)!r} has tables of {len(by_area)} areas: {shortlist(by_area, 6)}; name one with "
            "area=…, or read or fit each of them"
        )
    return next(iter(by_area.values()))


def read_published_areas(
    path: str | os.PathLike[str],
    *,
    kind: TableKind | Mapping[Key, TableKind] | None = None,
    totals: float | None = None,
    layout: SheetLayout | str | os.PathLike[str] | None = None,
    area: str | None = None,
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
    grids = read_all_grids(path)
    sheet_grids = [grid for grid in grids if not grid.is_list_of_cells]
    listed = [sheet for g in grids if g.is_list_of_cells for sheet in read_long_sheets(g.listed_cells(), None)]
    notes: list[str] = []
    if not sheet_grids:
        plan = SheetLayout(())
    elif layout is None:
        plan = find_layout_in_grids(sheet_grids, kind if isinstance(kind, str) else None)
    else:
        plan = layout if isinstance(layout, SheetLayout) else SheetLayout.load(layout)
    tables = read_sheet_tables(sheet_grids, plan, notes)
    tables = tables if totals is None else [replace(table, total=totals) for table in tables]
    plan = with_published_groups(plan, tables)
    has_rules = bool(plan.groups or plan.impossible or plan.exact)
    areas: dict[str, list[SheetTable]] = {}
    for table in tables:
        areas.setdefault(table.area, []).append(table)
    if area is not None:
        if area not in areas:
            raise unknown_name("area", area, areas)
        areas = {area: areas[area]}
    people = None if errors is None else partial(_people_by_error_file, errors, cache(read_grids))
    by_area: dict[str, Tables | PublishedTables] = {}
    for name, own in (areas or {"": []}).items():
        check_sheet_labels(own)
        check_sheet_zeros(own)
        if own and (has_rules or people or any(_is_beyond_pairs(table) for table in own)):
            lists = _published_pairs([], listed, kind, totals, ()) if listed else None
            by_area[name] = _published_of_sheets(own, lists, plan, [*notes], people)
        else:
            by_area[name] = _published_pairs(own, listed, kind, totals, notes)
    return by_area


def read_published_sheets(path: str | os.PathLike[str], layout: SheetLayout, notes: list[str]) -> list[SheetTable]:
    """Return the tables of a file or folder by its layout, as printed; what was left out is added to the notes."""
    return read_sheet_tables([grid for grid in read_all_grids(path) if not grid.is_list_of_cells], layout, notes)


def _published_pairs(
    tables: Sequence[SheetTable], listed: Iterable[Sheet], kind: Any, totals: Any, notes: Iterable[str]
) -> Tables:
    """Return the tables of two variables; one of a single variable gives shares that percentages may need."""
    notes, sheets = [*notes], [*listed]
    kinds: dict[Key, TableKind] = dict.fromkeys((sheet.pair for sheet in sheets), kind or "counts")
    own_totals: dict[Key, float] = {}
    margins: dict[str, dict[Any, float]] = {}
    for table in tables:
        if table.values.ndim == 1:
            name = table.variables[0]
            margins[name] = dict(zip(table.categories[0], table.values.tolist(), strict=True))
            notes.append(
                f"{table.grid.name} has a table of {name!r} alone: its shares are used where percentages need them"
            )
            continue
        for pair, other in kinds.items():
            if set(pair) == set(table.pair) and other != table.kind:
                raise DataError(
                    f"there are two tables {table.name}, of kind {other} and {table.kind}; leave one out of the layout"
                )
        kinds[table.pair] = table.kind
        sheets.append(table)
        base = table.base((), "base")
        total = table.total or (base and float(base.values))
        has_base = any(margin.role in ("base", "unweighted") and margin.axes for margin in table.margins)
        if total and table.kind != "counts" and not has_base:
            own_totals[table.pair] = total
    if not sheets:
        raise DataError(
            f"{tables[0].grid.name} has tables of one variable only: {shortlist(table.name for table in tables)}; a "
            "fit needs a table of two"
        )
    pairs = Tables.from_crosstabs(
        [(sheet.pair, sheet) for sheet in sheets],
        kind=kind if isinstance(kind, Mapping) else kinds,
        totals=own_totals if totals is None else totals,
        margins=margins,
    )
    return replace(pairs, notes=(*notes, *pairs.notes))


# Tables that say more than pairs: of many variables, in coarser categories, of some people, with bounds


def _is_beyond_pairs(table: SheetTable) -> bool:
    return bool(table.values.ndim > 2 or table.is_open.any() or table.within or table.is_rough)


def _people_by_error_file(
    path: str | os.PathLike[str], read: Callable[[str], list[Grid]], table: SheetTable, published: PublishedTable
) -> float:
    """Return the number of people for which a table's shares have the errors in a file, at the same places."""
    file, is_margin = error_grid_file(table.grid.file, path)
    grids = [grid for grid in read(file) if grid.sheet == table.grid.sheet]
    if len(grids) != 1:
        raise DataError(f"{file!r} has no sheet {table.grid.sheet!r} with the errors")
    errors = np.zeros(table.values.shape)
    for index in np.ndindex(errors.shape):
        row, column = table.at[index].tolist()
        try:
            errors[index] = parse_cell(grids[0].cells[row][column]).value
        except (IndexError, ValueError) as problem:
            raise DataError(f"{grids[0].place(row, column)}: this is not a standard error: {problem}") from None
    scale = float(table.values.sum()) if table.kind == "counts" else (100.0 if table.is_percent else 1.0)
    return number_of_people(published.shares, errors / scale / (_MARGIN if is_margin else 1.0), table.name)


def with_published_groups(layout: SheetLayout, tables: Iterable[SheetTable]) -> SheetLayout:
    """Return a layout that says which ranges of a variable are made up of finer ones, where tables differ in them."""
    sides: dict[str, list[tuple[str, ...]]] = {}
    spelt: dict[tuple[str, Range], tuple[str, str]] = {}
    for table in tables:
        for axis, (name, labels) in enumerate(table.sides.items()):
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
    groups = {name: groups_of_ranges(own) for name, own in sides.items() if name not in layout.groups}
    return replace(layout, groups={**layout.groups, **{name: own for name, own in groups.items() if own is not None}})


def _published_of_sheets(
    tables: Sequence[SheetTable],
    lists: Tables | None,
    layout: SheetLayout,
    notes: list[str],
    people: Callable[[SheetTable, PublishedTable], float] | None,
) -> PublishedTables:
    """Return tables with all that they and their layout say, and those of lists of cells."""
    groups: Mapping[str, Any] = layout.groups

    def finest(name: str, labels: Iterable[str]) -> set[Label]:
        return {member for label in labels for member in groups[name].get(label, (label,))}

    all_of = {name: finest(name, chain(*(table.sides.get(name, ()) for table in tables))) for name in groups}
    made = []
    for table in tables:
        within: dict[str, Labels] = dict(table.within)
        for name, labels in table.sides.items():
            if name in groups and name not in within and finest(name, labels) < all_of[name]:
                within[name] = labels
                notes.append(f"{table.name} is about some people only: {name!r} {labels[0]} to {labels[-1]}")
        with errors_at(f"{table.grid.name}, table {table.name}"):
            published = _published_of_sheet(table, within)
            if published.rounded_to:
                what = f"all numbers of {table.name} are multiples of {published.rounded_to:g}"
                notes.append(f"{what}: they are taken as rounded, each to within {0.5 * published.rounded_to:g}")
            made.append(replace(published, weight=people(table, published)) if people else published)
    for name, members in groups.items():
        notes.append(f"these labels of {name!r} stand for several categories of other tables: {shortlist(members, 4)}")
    if lists is not None:
        made += as_published_tables(lists)
        notes += lists.notes
    schema = find_published_schema(made, groups, is_typed=False)
    rules: dict[str, Any] = {"groups": groups, "impossible": layout.impossible, "exact": layout.exact}
    return PublishedTables(schema, tuple(made), **rules, reading_notes=tuple(dict.fromkeys(notes)))


def _published_of_sheet(table: SheetTable, within: Mapping[str, Labels]) -> PublishedTable:
    places = np.array([table.place(index) for index in np.ndindex(table.values.shape)]).reshape(table.values.shape)
    if not table.values.sum() > 0:
        raise DataError("it counts nobody")
    if table.kind == "counts":
        rounded_to = rounded_cells_step(table.values[~table.is_open]) if table.is_rough else 0.0
        totals = table.totals if table.is_open.any() else {}
        sheet = with_bounds_of_people(table)
        return table_of_counts(sheet, totals, rounded_to=rounded_to, within=within, places=places)
    # Unweighted bases are the people who were asked, and say nothing about the population.
    base = table.base(table.given, "base", "unweighted")
    is_joint = base is not None and base.role == "base"
    given = () if is_joint else tuple(table.variables[axis] for axis in table.given)
    return table_of_shares(table, table.given, base, table.total, given=given, within=within, places=places)
