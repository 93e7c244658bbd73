"""Published tables as people find them, in files of text, workbooks and web pages: found, declared and read.

A file becomes grids of text (`grids`); what its rows and columns are is found (`layout_finding`) or declared, as one
layout (`sheet_layout`); by the layout, and by nothing else, its tables are read (`sheet_reading`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twoway.errors import DataError, unknown
from twoway.tables.crosstabs.grids import read_all_grids
from twoway.tables.crosstabs.layout_finding import find_layout_in_grids
from twoway.tables.crosstabs.pair_sheets import PairSheets
from twoway.tables.crosstabs.sheet_layout import SheetLayout
from twoway.tables.crosstabs.sheet_published import ErrorSheets, published_of_sheets, with_published_groups
from twoway.tables.crosstabs.sheet_reading import read_sheet_tables
from twoway.tables.crosstabs.sheet_table import SheetTable, check_sheet_labels, check_sheet_zeros
from twoway.tables.crosstabs.sheets import Key, read_long_sheets
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables
from twoway.text import shortlist

if TYPE_CHECKING:
    from twoway.tables.crosstabs.crosstabs import TableKind


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
            raise unknown("area", area, areas)
        areas = {area: areas[area]}
    listed = [(sheet.key, sheet) for grid in lists for sheet in read_long_sheets(grid.cell_frame(), None)]
    by_area: dict[str, Tables | PublishedTables] = {}
    sheets = None if errors is None else ErrorSheets(errors)
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
