"""Grids: the cells of a file of tables as text, whether it is CSV, Excel, OpenDocument or a web page."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeAlias

from twoway.data.files.spreadsheets import ENDINGS as BOOK_ENDINGS
from twoway.data.files.spreadsheets import read_spreadsheet, split_spreadsheet_name, spreadsheet_column
from twoway.errors import DataError, FileFormatError, missing_file_error
from twoway.tables.crosstabs.sheets import LONG_COLUMNS

Span: TypeAlias = tuple[int, int, int, int]
"""First row, first column, last row and last column of merged cells."""

_TEXT_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
_PAGE_ENDINGS = (".html", ".htm", ".html.gz")
ENDINGS = (*_TEXT_ENDINGS, *BOOK_ENDINGS, *_PAGE_ENDINGS)
"""How the names of files with tables end."""
_COMMA = re.compile(r"\d{1,3}(\.\d{3})+(,\d+)?\s*%?|\d+,\d+\s*%?")
_WIDEST_SPAN = 1000  # as browsers do
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6", "caption")
_HIDDEN = ("style", "script", "sup")  # a mark of a footnote is no part of a label


@dataclass(frozen=True)
class Grid:
    """The cells of one sheet of a file, or of one table of a page, as text; rows are of one length."""

    file: str
    sheet: str
    """The name of the sheet, or the number of the table on its page; empty for text files, which have one grid."""
    cells: tuple[tuple[str, ...], ...]
    """Without spaces at the end. Those at the start may show which rows belong together."""
    merged: tuple[Span, ...] = ()
    heading: str = ""
    """What a page says above the table."""

    @property
    def name(self) -> str:
        """The file and the sheet, for messages."""
        return repr(self.file) + (f", sheet {self.sheet!r}" if self.sheet else "")

    def place(self, row: int, column: int | None = None) -> str:
        """Return where a cell is, as a spreadsheet counts: rows from 1, columns from A."""
        return f"{self.name}, row {row + 1}" + ("" if column is None else f", column {spreadsheet_column(column)}")

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.cells[0]) if self.cells else 0

    @classmethod
    def of_rows(cls, file: str, sheet: str, rows: Sequence[Sequence[str]], *more: Any) -> Grid:
        """Return the grid of rows of any length."""
        width = max(map(len, rows), default=0)
        cells = tuple(tuple(cell.rstrip() for cell in (*row, *[""] * (width - len(row)))) for row in rows)
        return cls(file, sheet, cells, *more)

    @property
    def is_list_of_cells(self) -> bool:
        """Whether each line is a cell of one of many tables, whose variables it names."""
        return bool(self.cells) and set(LONG_COLUMNS) <= set(self.cells[0])

    def listed_cells(self) -> dict[str, list[str]]:
        """Return the columns of a list of cells."""
        places = {name: place for place, name in enumerate(self.cells[0]) if name in (*LONG_COLUMNS, "weight")}
        filled = [row for row in self.cells[1:] if any(row)]
        return {name: [row[place] for row in filled] for name, place in places.items()}


# Files with the standard errors, or the margins of error, of another file.
_ERRORS = re.compile(r"_(se|moe)(?=\.)", re.IGNORECASE)


def error_grid_file(file: str, path: str | os.PathLike[str]) -> tuple[str, bool]:
    """Return the file with the errors of another, and whether these are margins of error.

    ``path`` is that file itself, or a folder with one of the same name, or ending in _se or _moe.
    """
    source, name = Path(path), Path(file).name
    if source.is_dir():
        stem, dot, ending = name.partition(".")
        near = [source / f"{stem}{mark}{dot}{ending}" for mark in ("_se", "_moe", "_SE", "_MOE", "")]
        error_files = (other for other in near if other.is_file() and other.resolve() != Path(file).resolve())
        if (error_file := next(error_files, None)) is None:
            raise DataError(
                f"the folder {str(source)!r} has no standard errors of {name!r}: "
                f"neither {near[0].name!r} nor {near[1].name!r} exists"
            )
        source = error_file
    return str(source), bool(re.search(r"moe|margin", source.name, re.IGNORECASE))


def grid_files(path: str | os.PathLike[str]) -> list[str]:
    """Return the files with tables: the one given, or all in a folder, sorted by name.

    Those with the errors of another, ``edu_se.csv`` or ``edu_moe.csv`` beside ``edu.csv``, are left out.
    """
    source = Path(path)
    if not Path(split_spreadsheet_name(str(path))[0]).exists():
        raise missing_file_error(source)
    if not source.is_dir():
        return [str(source)]
    visible = [file for file in source.iterdir() if file.is_file() and not file.name.startswith((".", "~$"))]
    names = {file.name for file in visible}
    files = sorted(
        str(file)
        for file in visible
        if file.name.lower().endswith(ENDINGS) and _ERRORS.sub("", file.name) not in names - {file.name}
    )
    if not files:
        raise DataError(f"the folder {str(source)!r} has no tables: no file whose name ends in {', '.join(ENDINGS)}")
    return files


def read_all_grids(path: str | os.PathLike[str]) -> list[Grid]:
    """Return the grids of a file, or of all files in a folder."""
    return [grid for file in grid_files(path) for grid in read_grids(file)]


def read_grids(path: str) -> list[Grid]:
    """Return the grids of a file that have cells; ``book.xlsx#Sheet`` names one."""
    file, sheet = split_spreadsheet_name(path)
    lower = file.lower()
    if lower.endswith(BOOK_ENDINGS):
        return [_book_grid(file, *cells) for cells in read_spreadsheet(file, sheet)]
    if not lower.endswith(ENDINGS):
        raise FileFormatError(f"{file!r}: the name of a file of tables must end in {', '.join(ENDINGS)}")
    text = _grid_text(Path(file))
    if lower.endswith(_PAGE_ENDINGS):
        page = _HtmlGrids()
        page.feed(text)
        page.close()
        grids = [Grid.of_rows(file, str(number), *table) for number, table in enumerate(page.tables, 1)]
        if not grids:
            raise DataError(f"{file!r} has no <table>")
        return grids
    delimiter = _grid_delimiter(text, lower)
    rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    if delimiter == ";":
        _use_points_in_grid(file, rows)
    while rows and not any(cell.strip() for cell in rows[-1]):
        rows.pop()
    return [Grid.of_rows(file, "", rows)]


def _book_grid(file: str, sheet: str, rows: list[list[Any]], merged: list[Any]) -> Grid:
    # A sheet has numbers of one kind only: a year is 2020.0.
    texts = [[f"{cell:.15g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    spans = tuple((first[0], first[1], last[0], last[1]) for first, last in merged)
    return Grid.of_rows(file, sheet, texts, spans)


def _grid_text(path: Path) -> str:
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise FileFormatError(f"{str(path)!r} could not be decoded as UTF-8 text: {error}") from error


def _grid_delimiter(text: str, name: str) -> str:
    """Return what separates cells: the sign that most lines have, and as many of it as the others."""
    if ".tsv" in name:
        return "\t"
    lines = [line for line in text.split("\n") if line.strip()]
    # A title has commas of its own; the lines of the table have the same number of delimiters.
    return max(",\t;", key=lambda sign: sum(sign in line for line in lines) * (1 + (sign != ",")))


def _use_points_in_grid(file: str, rows: list[list[str]]) -> None:
    """Write decimal commas, which files with semicolons have, as points."""
    numbers = [(r, c) for r, row in enumerate(rows) for c, cell in enumerate(row) if _COMMA.fullmatch(cell.strip())]
    if any("," in rows[r][c] for r, c in numbers):
        for r, c in numbers:
            rows[r][c] = rows[r][c].replace(".", "").replace(",", ".")
    elif numbers:
        r, c = numbers[0]
        place = Grid(file, "", ()).place(r, c)
        raise DataError(
            f"{place}: {rows[r][c]!r} may be {rows[r][c].replace('.', '')} or less than 1,000; write it plainly"
        )


class _HtmlGrids(HTMLParser):
    """Tables of a page with their merged cells, and the last heading or caption before each.

    The parser of the standard library is enough: a table needs no tree, only the order of its tags.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[tuple[list[list[str]], tuple[Span, ...], str]] = []
        self._open: list[_HtmlGrid] = []  # tables may be inside cells
        self._heading = ""
        self._text: list[str] | None = None
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        table = self._open[-1] if self._open else None
        if tag == "table":
            self._open.append(_HtmlGrid())
        elif tag in _HEADINGS:
            self._text = []
        elif tag in _HIDDEN:
            self._hidden += 1
        elif table is not None and tag == "tr":
            table.rows.append([])
        elif table is not None and tag in ("td", "th"):
            table.start_cell(dict(attrs))
        elif table is not None and tag == "br":
            table.add_text(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table" and self._open:
            table = self._open.pop()
            rows = [[_HtmlGrid.plain_text(cell) for cell in row] for row in table.rows]
            if any(cell.strip() for row in rows for cell in row):
                self.tables.append((rows, tuple(table.merged), table.caption or self._heading))
        elif tag in _HIDDEN:
            self._hidden = max(self._hidden - 1, 0)
        elif tag in _HEADINGS and self._text is not None:
            text, self._text = _HtmlGrid.plain_text("".join(self._text)), None
            if tag == "caption" and self._open:
                self._open[-1].caption = text
            else:
                self._heading = text

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        if self._text is not None:
            self._text.append(data)
        elif self._open:
            self._open[-1].add_text(data)


class _HtmlGrid:
    """A table while its page is read."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.merged: list[Span] = []
        self.caption = ""
        self._taken: set[tuple[int, int]] = set()

    def start_cell(self, attributes: dict[str, str | None]) -> None:
        if not self.rows:
            self.rows.append([])
        row, column = len(self.rows) - 1, len(self.rows[-1])
        while (row, column) in self._taken:
            self.rows[-1].append("")
            column += 1
        spans = (attributes.get(name) or "" for name in ("rowspan", "colspan"))
        down, across = (min(max(int(text), 1), _WIDEST_SPAN) if text.isdigit() else 1 for text in spans)
        self._taken |= {(row + i, column + j) for i in range(down) for j in range(across) if i}
        if down * across > 1:
            self.merged.append((row, column, row + down - 1, column + across - 1))
        self.rows[-1] += [""] * across
        self._place = row, column

    def add_text(self, text: str) -> None:
        if self.rows and self.rows[-1]:
            row, column = self._place
            self.rows[row][column] += text

    @staticmethod
    def plain_text(text: str) -> str:
        """Return text as a page shows it; no-break spaces, which indent, become spaces."""
        return re.sub(r"[ \t\r\n]+", " ", text).strip(" ").replace("\u00a0", " ").rstrip()
