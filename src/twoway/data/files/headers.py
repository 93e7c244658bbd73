"""The first line of a text file: the names of its columns, and what separates them."""

from __future__ import annotations

import csv
import io
import re
from typing import NamedTuple

from twoway.errors import DataError, FileFormatError
from twoway.schema import first_duplicate
from twoway.text import shortlist

DELIMITERS = ",;\t|"
"""What may separate the columns of a text file."""
_MOST_BYTES = 2**24
_BLANK = ' \t\r\n"' + DELIMITERS
"""A line of only these, as spreadsheets write it for an empty row, is not the header."""


class Header(NamedTuple):
    """What comes before the first record of a text file."""

    names: list[str]
    delimiter: str
    n_before: int
    """The number of blank lines before the names."""


def read_header(path: str, kind: str) -> Header:
    """Return the names in the first line of a text file that is not blank; a file of another kind is an error."""
    import pyarrow as pa

    with pa.input_stream(path, compression="detect") as stream:
        head = stream.read(2**16)
        while _first_line(head) is None and len(head) < _MOST_BYTES and (more := stream.read(2**20)):
            head += more
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in head:
        raise FileFormatError(f"{path!r} is not a text file in UTF-8; if a program exported it, save it as CSV (UTF-8)")
    if head[:4] in (b"PAR1", b"PK\x03\x04", b"ARRO"):
        raise FileFormatError(f"{path!r} is not a text file, despite its name: it begins with {head[:4]!r}")
    place = _first_line(head + b"\n")
    if place is None:
        raise DataError(f"{path!r} is empty; its first line must name the columns")
    line, n_before = place
    try:
        text = line.decode()
        bare = re.sub(r'"[^"]*"', "", text)
        delimiter = "\t" if kind == "tsv" else max(DELIMITERS, key=bare.count)
        names = next(csv.reader(io.StringIO(text), delimiter=delimiter))
    except UnicodeDecodeError:
        raise FileFormatError(f"{path!r} is not in UTF-8; if a program exported it, save it as CSV (UTF-8)") from None
    except csv.Error as error:
        raise FileFormatError(f"{path!r} has a first line that cannot be read: {error}") from None
    if len({ending.endswith(b"\r") for ending in [*head.split(b"\n", n_before)[:n_before], line[:-1]]}) > 1:
        # DuckDB would skip other lines than meant.
        raise FileFormatError(f"{path!r} has blank lines before its column names with other line ends; remove them")
    if any("\r" in name for name in names):
        # DuckDB would take it for the end of the line, and find no record.
        raise FileFormatError(f"{path!r} has a carriage return within the column names {shortlist(names)}")
    # An unnamed column is most often the row numbers that some program wrote.
    names = [name.strip() or f"column {place}" for place, name in enumerate(names, 1)]
    if (name := first_duplicate(names)) is not None:
        raise DataError(f"{path!r} has a duplicate column name, {name!r}; its first line must name each column once")
    return Header(names, delimiter, n_before)


def _first_line(head: bytes) -> tuple[bytes, int] | None:
    """Return the first line that is not blank, line ends within quotes included, and the number of lines before it.

    None if it does not end.
    """
    line, n_before = b"", 0
    for number, part in enumerate(head.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:-1], 1):
        line += part + b"\n"
        if line.count(b'"') % 2 == 0:
            if line.strip(_BLANK.encode()):
                return line, n_before
            line, n_before = b"", number
    return None
