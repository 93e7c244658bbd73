"""Sheets of Excel and OpenDocument files: which one is meant, where its names are, and what its cells are."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any

from twoway.errors import DataError, FileFormatError, unknown_name
from twoway.lazy_imports import import_extra, pa
from twoway.schema import first_duplicate
from twoway.text import shortlist

ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_PLACE = re.compile(rf"(.*(?:{'|'.join(map(re.escape, ENDINGS))}))#(.*)", re.IGNORECASE)
_ROWS_SEARCHED = 20


def split_spreadsheet_name(name: str) -> tuple[str, str]:
    """Return the file and the place in it that a name stands for.

    Examples
    --------
    >>> split_spreadsheet_name("survey.xlsx#Answers:3"), split_spreadsheet_name("survey.csv")
    (('survey.xlsx', 'Answers:3'), ('survey.csv', ''))
    """
    place = _PLACE.fullmatch(name)
    return (place[1], place[2]) if place else (name, "")


def read_spreadsheet_table(path: str, place: str) -> pa.Table:
    """Return the cells of a sheet: of the one in the file, or of the one named; empty rows are left out.

    Parameters
    ----------
    path
        The file.
    place
        The sheet and the row that names the columns: ``Answers``, ``Answers:3``, ``:3``, or nothing.
    """
    name, rows, merged = _sheet_of_spreadsheet(path, place)
    sheet = f"{path!r}, sheet {name!r}"
    row = re.search(r":([0-9]+)$", place)
    first = next((number for number, cells in enumerate(rows) if any(cell != "" for cell in cells)), 0)
    header = int(row[1]) - 1 if row else first
    if header < 0:
        raise DataError(f"{sheet}: rows are numbered from 1; got a header in row 0")
    if header >= len(rows):
        raise DataError(f"{sheet} has {len(rows)} rows, and so no header in row {header + 1}")
    body = [cells for cells in rows[header + 1 :] if any(cell != "" for cell in cells)]
    # A sheet has numbers of one kind only: a year is 2020.0.
    names = [
        f"{cell:g}" if isinstance(cell, float) and cell.is_integer() else str(cell).strip() for cell in rows[header]
    ]
    is_used = [bool(name) or any(cells[place] != "" for cells in body) for place, name in enumerate(names)]
    unnamed = [place for place, used in enumerate(is_used) if used and not names[place]]
    if unnamed:
        cell = f"{spreadsheet_column(unnamed[0])}{header + 1}"
        joined = next((r for r in merged if r[0][0] <= header <= r[1][0] and r[0][1] <= unnamed[0] <= r[1][1]), None)
        why = f"{cell} has no name"
        if joined is not None:
            why = f"{cell} is merged with {spreadsheet_column(joined[0][1])}{joined[0][0] + 1}"
        searched = islice(enumerate(rows), header + 1, _ROWS_SEARCHED)
        full = [number for number, cells in searched if _is_spreadsheet_header(cells, is_used)]
        better = f"; the names may be in row {full[0] + 1}: {path}#{name}:{full[0] + 1}" if full else ""
        raise DataError(f"{sheet}: row {header + 1} must name each column once, and {why}{better}")
    if (twice := first_duplicate(filter(None, names))) is not None:
        raise DataError(f"{sheet} has a duplicate column name, {twice!r}; row {header + 1} must name each column once")
    columns = {name: [cells[place] for cells in body] for place, name in enumerate(names) if is_used[place]}
    if not columns:
        raise DataError(f"{sheet} is empty; its first row must name the columns")
    return pa.table({name: _spreadsheet_column_cells(cells) for name, cells in columns.items()})


def _sheet_of_spreadsheet(path: str, place: str) -> tuple[str, list[list[Any]], list[Any]]:
    """Return the name, the rows and the merged cells of the sheet that is meant."""
    sheets = read_spreadsheet(path, re.sub(r":[0-9]+$", "", place))
    if len(sheets) > 1:
        names = [name for name, _, _ in sheets]
        raise DataError(f"{path!r} has the sheets {shortlist(names)}; name one, as in {path}#{names[0]}")
    return sheets[0]


def read_spreadsheet(path: str, wanted: str = "") -> list[tuple[str, list[list[Any]], list[Any]]]:
    """Return the name, the rows and the merged cells of each visible sheet that has cells, or of the one wanted."""
    python_calamine = import_extra("python_calamine", f"{path!r}: sheets need python-calamine", "survey")
    try:
        with python_calamine.CalamineWorkbook.from_path(path) as book:
            if wanted and wanted not in book.sheet_names:
                raise unknown_name("sheet", wanted, book.sheet_names, where=f" in {path!r}")
            visible = [s.name for s in book.sheets_metadata if s.visible == python_calamine.SheetVisibleEnum.Visible]
            sheets = [(name, book.get_sheet_by_name(name)) for name in ([wanted] if wanted else visible)]
            knows_merged = not path.lower().endswith((".ods", ".xlsb"))
            filled = [
                (name, sheet.to_python(skip_empty_area=False), (knows_merged and sheet.merged_cell_ranges) or [])
                for name, sheet in sheets
                if wanted or sheet.height
            ]
    except python_calamine.CalamineError as error:
        raise FileFormatError(f"{path!r} is damaged, or its format does not match its name: {error}") from None
    if not filled:
        raise DataError(f"{path!r} has no sheet with cells")
    return filled


def _is_spreadsheet_header(cells: list[Any], is_used: list[bool]) -> bool:
    """Return whether a row has different names for all columns that are used."""
    names = [cell for cell, used in zip(cells, is_used, strict=True) if used]
    return all(isinstance(name, str) and name for name in names) and len(set(names)) == len(names)


def spreadsheet_column(place: int) -> str:
    """Return what a sheet calls a column.

    Examples
    --------
    >>> spreadsheet_column(0), spreadsheet_column(27)
    ('A', 'AB')
    """
    return (spreadsheet_column(place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)


def _spreadsheet_column_cells(cells: list[Any]) -> pa.Array:
    """Return the cells of a column as numbers, truth values, dates or times where all of them are; else as text."""
    filled = [cell if cell != "" else None for cell in cells]
    kinds = {type(cell) for cell in filled if cell is not None}
    if kinds <= {int, float}:
        return pa.array(filled, pa.float64())
    if kinds == {date, datetime}:
        return pa.array(
            [cell if cell is None or isinstance(cell, datetime) else datetime.combine(cell, time()) for cell in filled]
        )
    if len(kinds) == 1 and kinds <= {bool, str, date, datetime, time, timedelta}:
        return pa.array(filled)
    # As the sheet shows a number: without the fraction that whole ones do not have.
    return pa.array(
        [None if cell is None else f"{cell:.15g}" if isinstance(cell, float) else str(cell) for cell in filled]
    )
