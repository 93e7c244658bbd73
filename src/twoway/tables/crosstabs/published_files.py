"""Published tables as people find them: a folder of cross-tabs, one per file, or a banner sheet with many.

A *banner sheet* has the categories of a few variables across, in two lines of headings, and question after question
below one another:

    ,,Total,Age,,Region,
    ,,,18-39,40+,north,south
    Do you trust the government?,,,,,,
    ,Yes,40%,30%,45%,41%,38%
    ,No,60%,70%,55%,59%,62%
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoway.errors import DataError, FileFormatError
from twoway.storage.container import missing_file
from twoway.tables.crosstabs.cells import cell_value
from twoway.tables.crosstabs.sheets import LONG_COLUMNS, Key, read_long_sheets
from twoway.tables.tables import Tables

if TYPE_CHECKING:
    from twoway.tables.crosstabs.published_tables import TableKind

_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
# What separates the two variables of a table, in its corner cell and in its file name.
_CORNER = re.compile(r"\s*[\\/×|]\s*|\s+(?:x|by|vs\.?)\s+")
_FILE_NAME = re.compile(r"\s*×\s*|\s+(?:x|by|vs\.?)\s+|_(?:x|by|vs)_|--|__")


def read_published(
    path: str | os.PathLike[str], *, kind: TableKind | Mapping[Key, TableKind] = "counts", totals: float | None = None
) -> Tables:
    """Return the tables in a file or in a folder of files, as people publish them.

    Each file is a cross-tab (row labels in the first column, column labels in the first line; the corner cell
    ``age × vote`` or the file name ``age_x_vote.csv`` gives the variables), a list of cells with the columns
    row_variable, row_category, column_variable, column_category and value, or a banner sheet.

    If the answers to a question in a banner sheet do not add up to 100, people could choose several: each answer
    becomes a variable of its own, yes or no. A question with an empty cell is left out, with a note in ``notes``: it
    was asked of too few.

    Parameters
    ----------
    path
        The file or folder.
    kind, totals
        As for `Tables.from_crosstabs`: what the numbers are, and how many records each table rests on.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("age_x_vote.csv").write_text(",no,yes\\nyoung,30,70\\nold,65,35\\n")
    >>> read_published("age_x_vote.csv")
    <Tables: 1 pair of 2 variables, total 200>
    """
    source = Path(path)
    if not source.exists():
        raise missing_file(source)
    files = sorted(file for file in source.iterdir() if _is_published_file(file)) if source.is_dir() else [source]
    if not files:
        raise DataError(f"the folder {str(source)!r} has no tables: no file whose name ends in {', '.join(_ENDINGS)}")
    sheets: list[tuple[Key, Any]] = []
    notes: list[str] = []
    for file in files:
        rows = _read_file_rows(file)
        if set(LONG_COLUMNS) <= set(rows[0]):
            long = _file_frame(["", *rows[0]], [["", *row] for row in rows[1:]])[list(LONG_COLUMNS)]
            sheets += [(sheet.key, sheet) for sheet in read_long_sheets(long, None)]
        elif len(rows) > 2 and not rows[1][0] and len(rows[1]) > 2 and not rows[1][1]:
            sheets += _read_banner(rows, file, notes)
        else:
            sheets.append(_read_cross_tab_file(rows, file))
    tables = Tables.from_crosstabs(sheets, kind=kind, totals=totals)
    return replace(tables, notes=(*notes, *tables.notes))


def _is_published_file(path: Path) -> bool:
    return path.is_file() and path.name.lower().endswith(_ENDINGS) and not path.name.startswith(".")


def _read_file_rows(path: Path) -> list[list[str]]:
    """Return the lines of a text file as cells without surrounding spaces, padded to one length."""
    if not path.name.lower().endswith(_ENDINGS):
        raise FileFormatError(f"{str(path)!r}: the name of a file of tables must end in {', '.join(_ENDINGS)}")
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise FileFormatError(f"{str(path)!r} could not be decoded as UTF-8 text: {error}") from error
    head = text.split("\n", 1)[0]
    delimiter = max("\t;," if ".tsv" not in path.name.lower() else "\t", key=head.count)
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text), delimiter=delimiter)]
    rows = [row for row in rows if any(row)]
    if len(rows) < 2:
        raise DataError(f"{str(path)!r} holds no table: it needs a line of labels and at least one line of numbers")
    width = max(map(len, rows))
    return [row + [""] * (width - len(row)) for row in rows]


def _read_cross_tab_file(rows: Sequence[Sequence[str]], path: Path) -> tuple[Key, Any]:
    stem = re.sub(r"\.(csv|tsv|txt)(\.gz)?$", "", path.name, flags=re.IGNORECASE)
    for text, parting in ((rows[0][0], _CORNER), (stem, _FILE_NAME)):
        names = [part.strip() for part in parting.split(text)]
        if len(names) == 2 and all(names):
            return (names[0], names[1]), _file_frame(rows[0], rows[1:])
    raise DataError(
        f"{str(path)!r}: its two variables are unknown; write them into the corner cell, as in 'age × vote', rows "
        "first, or name the file age_x_vote.csv"
    )


def _file_frame(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """Return a frame with its labels in the first column."""
    import pandas as pd

    index = [row[0] for row in rows]
    return pd.DataFrame([list(row[1:]) for row in rows], index=index, columns=list(headers[1:]), dtype=str)


# Banner sheets


def _read_banner(rows: Sequence[Sequence[str]], path: Path, notes: list[str]) -> Iterator[tuple[Key, Any]]:
    """Yield the tables of a banner sheet; questions that are left out are added to the notes."""
    overall, groups = _banner_columns(rows[0], rows[1], path)
    places = [*overall, *itertools.chain(*groups.values())]
    blocks = _banner_blocks(rows[2:], path)
    labels = Counter(row[1] for _, block in blocks for row in block)
    for question, block in blocks:
        if not all(row[place] for row in block for place in places):
            notes.append(f"{question!r} has empty cells in {path.name}; left out")
            continue
        for variable, answers in _banner_variables(question, block, places[0], labels):
            for group, own in groups.items():
                headers = ["", *("Total" for _ in overall[:1]), *(rows[1][place] for place in own)]
                chosen = [[label, *(cells[place] for place in (*overall[:1], *own))] for label, cells in answers]
                yield (variable, group), _file_frame(headers, chosen)


def _banner_columns(
    titles: Sequence[str], headings: Sequence[str], path: Path
) -> tuple[list[int], dict[str, list[int]]]:
    """Return the positions of the columns for everybody, and of each banner variable's categories."""
    overall: list[int] = []
    groups: dict[str, list[int]] = {}
    title = ""
    for place in range(2, len(titles)):
        title = titles[place] or title
        if headings[place]:
            if not title:
                raise DataError(f"{str(path)!r}: column {place + 1}, {headings[place]!r}, has no variable above it")
            groups.setdefault(title, []).append(place)
        elif titles[place]:
            overall.append(place)
    if not groups:
        raise DataError(f"{str(path)!r} looks like a banner sheet, but its second line has no categories")
    return overall, groups


def _banner_blocks(rows: Sequence[Sequence[str]], path: Path) -> list[tuple[str, list[Sequence[str]]]]:
    """Return each question with its lines of answers."""
    blocks: list[tuple[str, list[Sequence[str]]]] = [("", [])]
    for row in rows:
        if row[0]:
            if any(row[1:]):
                raise DataError(f"{str(path)!r}: the line of the question {row[0]!r} must have no other cells")
            blocks.append((row[0], []))
        elif row[1]:
            blocks[-1][1].append(row)
    return [(question, block) for question, block in blocks if block]


def _banner_variables(
    question: str, block: Sequence[Sequence[str]], place: int, labels: Mapping[str, int]
) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    """Yield variables with their answers and cells: the question, or each answer where several may be chosen.

    An answer that occurs in several questions, such as "None of the above", is named with its question.
    """
    shares = [[cell_value(cell) for cell in row] for row in block]
    total = sum(share[place] or 0.0 for share in shares)
    whole = 100.0 if total > 2 else 1.0
    if abs(total - whole) <= whole * min(0.005 * (len(block) + 1), 0.05):
        yield question, [(row[1], list(row)) for row in block]
        return
    for row, share in zip(block, shares, strict=True):
        sign = "%" if "%" in row[place] else ""
        rest = ["" if number is None else f"{whole - number:.10g}{sign}" for number in share]
        name = row[1] if labels[row[1]] == 1 else f"{row[1]} [{question}]"
        yield name, [("yes", list(row)), ("no", rest)]
