"""Published tables as people find them: a folder of one cross-tab a file, or one banner sheet of many.

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
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twoway.errors import DataError, FileFormatError
from twoway.storage.container import missing_file
from twoway.tables.crosstabs.cells import parse_cell
from twoway.tables.crosstabs.sheets import LONG_COLUMNS, Key

_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
# How the two variables of a table are parted, in the corner of the table and in the name of its file.
_CORNER = re.compile(r"\s*[\\/×|]\s*|\s+(?:x|by|vs\.?)\s+")
_FILE_NAME = re.compile(r"\s*×\s*|\s+(?:x|by|vs\.?)\s+|_(?:x|by|vs)_|--|__")


@dataclass
class Published:
    """The tables of a folder or a file, for `Tables.from_crosstabs`, and what a reader should know."""

    tables: list[tuple[Key, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_published(path: str | os.PathLike[str]) -> Published:
    """Return the tables of a folder of files, or of one file.

    Each file is a cross-tab (row labels in the first column, column labels in the first line; the corner cell
    ``age × vote`` or the file's name ``age_x_vote.csv`` says the variables), a list of cells with the columns
    row_variable, row_category, column_variable, column_category and value, or a banner sheet.

    In a banner sheet a question whose answers do not add up to 100 let people choose several: each answer becomes a
    variable of its own, yes or no. A question with an empty cell is left out, with a note: it was asked of too few.
    """
    found = Published()
    folder = Path(path)
    if not folder.exists():
        raise missing_file(folder)
    files = sorted(one for one in folder.iterdir() if _is_table(one)) if folder.is_dir() else [folder]
    if not files:
        raise DataError(f"the folder {str(folder)!r} has no tables: no file whose name ends in {', '.join(_ENDINGS)}")
    for file in files:
        rows = _read_rows(file)
        if set(LONG_COLUMNS) <= set(rows[0]):
            found.tables += _split(rows)
        elif len(rows) > 2 and not rows[1][0] and len(rows[1]) > 2 and not rows[1][1]:
            _read_banner(rows, file, found)
        else:
            found.tables.append(_read_cross_tab(rows, file))
    return found


def _is_table(path: Path) -> bool:
    return path.is_file() and path.name.lower().endswith(_ENDINGS) and not path.name.startswith(".")


def _read_rows(path: Path) -> list[list[str]]:
    """Return the lines of a text file as cells without surrounding space, all lines of one length."""
    if not path.name.lower().endswith(_ENDINGS):
        raise FileFormatError(f"{str(path)!r}: tables are read from files whose names end in {', '.join(_ENDINGS)}")
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise FileFormatError(f"{str(path)!r} is not a text file in UTF-8: {error}") from error
    head = text.split("\n", 1)[0]
    delimiter = max("\t;," if ".tsv" not in path.name.lower() else "\t", key=head.count)
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text), delimiter=delimiter)]
    rows = [row for row in rows if any(row)]
    if len(rows) < 2:
        raise DataError(f"{str(path)!r} holds no table: a line of labels and at least one below are needed")
    width = max(map(len, rows))
    return [row + [""] * (width - len(row)) for row in rows]


def _read_cross_tab(rows: Sequence[Sequence[str]], path: Path) -> tuple[Key, Any]:
    stem = re.sub(r"\.(csv|tsv|txt)(\.gz)?$", "", path.name, flags=re.IGNORECASE)
    for text, parting in ((rows[0][0], _CORNER), (stem, _FILE_NAME)):
        names = [part.strip() for part in parting.split(text)]
        if len(names) == 2 and all(names):
            return (names[0], names[1]), _frame(rows[0][1:], rows[1:])
    raise DataError(
        f"{str(path)!r}: which are its two variables? write them into its corner cell, as in 'age × vote', rows first, "
        "or name the file age_x_vote.csv"
    )


def _frame(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    import pandas as pd

    return pd.DataFrame(
        [list(row[1:]) for row in rows], index=[row[0] for row in rows], columns=list(headers), dtype=str
    )


def _split(rows: Sequence[Sequence[str]]) -> list[tuple[Key, Any]]:
    """Return the tables of a list of cells."""
    import pandas as pd

    cells = pd.DataFrame([list(row) for row in rows[1:]], columns=list(rows[0]), dtype=str)
    tables = []
    for pair, part in cells.groupby(["row_variable", "column_variable"], sort=False):
        row, column = map(str, pair)
        long = part[["row_category", "column_category", "value"]]
        tables.append(((row, column), long.set_axis([row, column, "value"], axis=1)))
    return tables


# Banner sheets


def _read_banner(rows: Sequence[Sequence[str]], path: Path, found: Published) -> None:
    overall, groups = _columns(rows[0], rows[1], path)
    places = [*overall, *(place for some in groups.values() for place in some)]
    blocks = list(_blocks(rows[2:], path))
    labels = Counter(row[1] for _, block in blocks for row in block)
    for question, block in blocks:
        if not all(row[place] for row in block for place in places):
            found.notes.append(f"{question!r} has empty cells in {path.name}; left out")
            continue
        for variable, answers in _variables(question, block, places[0], labels):
            for group, own in groups.items():
                headers = [*("Total" for _ in overall[:1]), *(rows[1][place] for place in own)]
                chosen = [[label, *(cells[place] for place in (*overall[:1], *own))] for label, cells in answers]
                found.tables.append(((variable, group), _frame(headers, chosen)))


def _columns(titles: Sequence[str], headings: Sequence[str], path: Path) -> tuple[list[int], dict[str, list[int]]]:
    """Return the places of columns for everybody, and those of each banner variable's categories."""
    overall: list[int] = []
    groups: dict[str, list[int]] = {}
    title = ""
    for place in range(2, len(titles)):
        title = titles[place] or title
        if headings[place]:
            if not title:
                raise DataError(f"{str(path)!r}: column {place + 1}, {headings[place]!r}, stands below no variable")
            groups.setdefault(title, []).append(place)
        elif titles[place]:
            overall.append(place)
    if not groups:
        raise DataError(f"{str(path)!r} looks like a banner sheet, but its second line names no categories")
    return overall, groups


def _blocks(rows: Sequence[Sequence[str]], path: Path) -> Iterator[tuple[str, list[Sequence[str]]]]:
    """Yield each question with its lines of answers."""
    question, block = "", list[Sequence[str]]()
    for row in rows:
        if row[0]:
            if block:
                yield question, block
            question, block = row[0], []
            if any(row[1:]):
                raise DataError(f"{str(path)!r}: the line of the question {question!r} should have no other cells")
        elif row[1]:
            block.append(row)
    if block:
        yield question, block


def _variables(
    question: str, block: Sequence[Sequence[str]], place: int, labels: Mapping[str, int]
) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    """Yield variables with their answers and cells: the question, or where several may be chosen each answer.

    An answer that stands in several questions, as "None of the above" does, is named with its question.
    """
    shares = [[_share(cell) for cell in row] for row in block]
    total = sum(share[place] or 0.0 for share in shares)
    whole = 100.0 if total > 2 else 1.0
    if abs(total - whole) <= whole * min(0.005 * (len(block) + 1), 0.05):
        yield question, [(row[1], list(row)) for row in block]
        return
    for row, share in zip(block, shares, strict=True):
        sign = "%" if "%" in row[place] else ""
        rest = ["" if one is None else f"{whole - one:.10g}{sign}" for one in share]
        name = row[1] if labels[row[1]] == 1 else f"{row[1]} [{question}]"
        yield name, [("yes", list(row)), ("no", rest)]


def _share(cell: str) -> float | None:
    try:
        return parse_cell(cell).value
    except ValueError:
        return None
