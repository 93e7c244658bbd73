"""Published tables as people find them, in files of text, workbooks and web pages: found, declared and read.

A file becomes grids of text (`grids`); what its rows and columns are is found (`sheet_finding`) or declared, as one
layout (`sheet_layout`); by the layout, and by nothing else, its tables are read (`sheet_reading`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twoway.errors import DataError, unknown_name
from twoway.tables.crosstabs.grids import Grid, published_files, read_grids
from twoway.tables.crosstabs.sheet_finding import find_layout_of
from twoway.tables.crosstabs.sheet_layout import SheetLayout
from twoway.tables.crosstabs.sheet_published import ErrorSheets, published_of, with_groups
from twoway.tables.crosstabs.sheet_reading import read_tables
from twoway.tables.crosstabs.sheet_table import SheetTable, check_labels, check_zeros, pair_sheets
from twoway.tables.crosstabs.sheets import LONG_COLUMNS, Key, read_long_sheets
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables
from twoway.text import shortlist

if TYPE_CHECKING:
    from twoway.tables.crosstabs.published_tables import TableKind


def find_layout(path: str | os.PathLike[str], *, kind: TableKind | None = None) -> SheetLayout:
    """Return what the rows and columns of the tables in a file, or in a folder of files, seem to be.

    Raises where a sheet does not say enough, with the place and what to declare.

    Parameters
    ----------
    path
        The file or folder: CSV, TSV, Excel, OpenDocument or HTML; ``book.xlsx#Sheet`` names one sheet.
    kind
        What the numbers are, if the sheet does not say it: "counts", "joint", "row" or "column".

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("age_x_vote.csv").write_text(",no,yes,Total\\nyoung,30,70,100\\nold,65,35,100\\n")
    >>> print(find_layout("age_x_vote.csv").to_toml().partition("\\n\\n")[2])
    [[table]]
    kind = "counts"
    total_columns = "D"
    <BLANKLINE>
    [[table.rows]]
    variables = ["age"]
    rows = "2-3"
    categories = ["young", "old"]
    <BLANKLINE>
    [[table.columns]]
    variables = ["vote"]
    columns = "B-C"
    categories = ["no", "yes"]
    <BLANKLINE>
    """
    return find_layout_of(_all_grids(path), kind)


def draft_layout(path: str | os.PathLike[str], kind: TableKind | None = None) -> SheetLayout:
    """Return a layout in which variables may still need a name, where `find_layout` raises because of that."""
    return find_layout_of(_all_grids(path), kind, is_draft=True)


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
    by_area = _read_areas(path, kind, totals, layout, area, errors)
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
    return _read_areas(path, kind, totals, layout, None, errors)


def read_sheet_tables(path: str | os.PathLike[str], layout: SheetLayout, notes: list[str]) -> list[SheetTable]:
    """Return the tables of a file or folder by its layout, as printed; what was left out is added to the notes."""
    return read_tables([grid for grid in _all_grids(path) if not _is_list_of_cells(grid)], layout, notes)


def _read_areas(
    path: Any, kind: Any, totals: float | None, layout: Any, area: str | None, errors: Any
) -> dict[str, Tables | PublishedTables]:
    grids = _all_grids(path)
    lists = [grid for grid in grids if _is_list_of_cells(grid)]
    rest = [grid for grid in grids if grid not in lists]
    notes: list[str] = []
    found: list[SheetTable] = []
    if rest:
        if layout is None:
            one_kind: Any = kind if isinstance(kind, str) else None
            layout = find_layout_of(rest, one_kind)
        elif not isinstance(layout, SheetLayout):
            layout = SheetLayout.load(layout)
        found = read_tables(rest, layout, notes)
        layout = with_groups(layout, found)
    areas: dict[str, list[SheetTable]] = {}
    for table in found:
        areas.setdefault(table.area, []).append(table)
    if area is not None:
        if area not in areas:
            raise unknown_name("area", area, areas)
        areas = {area: areas[area]}
    listed = [(sheet.key, sheet) for grid in lists for sheet in read_long_sheets(_cell_frame(grid), None)]
    by_area: dict[str, Tables | PublishedTables] = {}
    sheets = None if errors is None else ErrorSheets(errors)
    for name, own in (areas or {"": []}).items():
        check_labels(own)
        check_zeros(own)
        own_notes = list(notes)
        more = published_of(own, layout, own_notes, sheets) if own and not listed else None
        by_area[name] = _tables_of(own, listed, kind, totals, notes) if more is None else more.with_notes(own_notes)
    return by_area


def _tables_of(
    found: Sequence[SheetTable], listed: Sequence[Any], kind: Any, totals: Any, notes: Sequence[str]
) -> Tables:
    own_notes = list(notes)
    pairs = pair_sheets(found, own_notes)
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


def _all_grids(path: str | os.PathLike[str]) -> list[Grid]:
    return [grid for file in published_files(path) for grid in read_grids(file)]


def _is_list_of_cells(grid: Grid) -> bool:
    return bool(grid.cells) and set(LONG_COLUMNS) <= set(grid.cells[0])


def _cell_frame(grid: Grid) -> Any:
    import pandas as pd

    filled = [row for row in grid.cells[1:] if any(row)]
    return pd.DataFrame(filled, columns=list(grid.cells[0]), dtype=str)[list(LONG_COLUMNS)]
