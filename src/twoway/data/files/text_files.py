"""Text files: the names of their columns, what separates these, and what the cells are by their distinct labels."""

from __future__ import annotations

import csv
import glob
import io
import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from twoway.category_labels import label_key
from twoway.data.missing import Unseen
from twoway.errors import DataError, FileFormatError, unknown_name, warn_caller
from twoway.lazy_imports import pa, pc
from twoway.schema import Variable, first_duplicate
from twoway.text import shortlist

DELIMITERS = ",;\t|"
"""What may separate the columns of a text file."""
_MOST_BYTES = 2**24
_FEW_LINES = 20
_BLANK = ' \t\r\n"' + DELIMITERS
"""A line of only these, as spreadsheets write it for an empty row, is not the header."""


class Header(NamedTuple):
    """What comes before the first record of a text file."""

    names: list[str]
    delimiter: str
    n_before: int
    """The number of blank lines before the names."""
    head: bytes
    """The beginning of the file."""


def read_text_header(path: str, kind: str) -> Header:
    """Return the names in the first line of a text file that is not blank; a file of another kind is an error."""
    with pa.input_stream(path, compression="detect") as stream:
        head = stream.read(2**16)
        while _first_text_line(head) is None and len(head) < _MOST_BYTES and (more := stream.read(2**20)):
            head += more
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in head:
        raise FileFormatError(f"{path!r} is not a text file in UTF-8; if a program exported it, save it as CSV (UTF-8)")
    if head[:4] in (b"PAR1", b"PK\x03\x04", b"ARRO"):
        raise FileFormatError(f"{path!r} is not a text file, despite its name: it begins with {head[:4]!r}")
    place = _first_text_line(head + b"\n")
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
        if b"\n" not in head:
            raise FileFormatError(
                f"{path!r} has lines that end in a carriage return without a line feed; save it again"
            ) from None
        raise FileFormatError(f"{path!r} has a first line that cannot be read: {error}") from None
    if len({ending.endswith(b"\r") for ending in [*head.split(b"\n", n_before)[:n_before], line[:-1]]}) > 1:
        # DuckDB would skip other lines than meant.
        raise FileFormatError(
            f"{path!r} has blank lines before its header that end differently from the other lines; remove them"
        )
    if any("\r" in name for name in names):
        # DuckDB would take it for the end of the line, and find no record.
        raise FileFormatError(f"{path!r} has a carriage return within the column names {shortlist(names)}")
    # An unnamed column is most often the row numbers that some program wrote.
    names = [name.strip() or f"column {place}" for place, name in enumerate(names, 1)]
    if (name := first_duplicate(names)) is not None:
        raise DataError(f"{path!r} has a duplicate column name, {name!r}; its first line must name each column once")
    return Header(names, delimiter, n_before, head)


def warn_of_single_column(path: str, kind: str) -> None:
    """Warn where a text file has one column and the same number of words in each of its first lines."""
    header = read_text_header(path, kind)
    n_words = {len(line.split()) for line in header.head.split(b"\n")[:_FEW_LINES] if line.strip()}
    if len(header.names) == 1 and len(n_words) == 1 and n_words != {1}:
        warn_caller(
            f"{path!r} is read as one column, {header.names[0]!r}, but each of its first lines has {n_words.pop()} "
            "words: columns are separated by a comma, a semicolon, a tab or |, not by spaces",
            once=True,
        )


def _first_text_line(head: bytes) -> tuple[bytes, int] | None:
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


def text_relation(connection: Any, path: str, kind: str, columns: Sequence[str]) -> Any:
    """Return some columns of a text file, every cell as text, as DuckDB reads them: ``c0``, ``c1``, … in their order.

    The names are ours: of those in the file, DuckDB would take two that differ in case alone for one.
    """
    header = read_text_header(path, kind)
    position = {name: place for place, name in enumerate(header.names)}
    relation = connection.read_csv(
        glob.escape(path),  # a file of this name, not what DuckDB would take for a pattern
        auto_detect=False,
        columns={f"c{place}": "VARCHAR" for place in range(len(header.names))},
        header=True,
        skiprows=header.n_before,
        delimiter=header.delimiter,
        quotechar='"',
        escapechar='"',
    )
    return relation.select(*(f"c{position[name]}" for name in columns))


# Numbers, truth values or text

_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?$|^-?\.[0-9]+([eE][+-]?[0-9]+)?$"
# As floats, different whole numbers beyond 2⁵³, which has 16 digits, may be equal.
_LARGE_INTEGER = r"^-?[0-9]{16,}(\.0*)?$"
_MOST_DIGITS = 38
_COMMA_NUMBER = r"^-?(0|[1-9][0-9]*)(,[0-9]+)?$"
NO_TEXT = "none of which is text"
_TRUTHS = {"true": True, "false": False, "True": True, "False": False, "TRUE": True, "FALSE": False}


def type_text_column(
    column: pa.ChunkedArray,
    markers: Collection[str],
    variable: Variable | None,
    kinds: set[str],
    unseen: Unseen = "error",
) -> pa.ChunkedArray:
    """Return a column of text as a dictionary of numbers, truth values or text, with markers as nulls.

    Parameters
    ----------
    column
        Cells as text, or a dictionary of text.
    markers
        Text that means "not observed".
    variable
        Whose categories the cells are, where that is known: numbers are then read as text or as numbers, as the
        categories are.
    kinds
        What the cells are, "number" or "truth", if other parts of the column decide it; empty for text. With
        "comma", ``2,5`` is a number, too.
    unseen
        What happens to text among the numbers of a variable whose categories are numbers: an error, or "missing"; with
        "extend", a column of text alone stays as it is.
    """
    encoded = pc.dictionary_encode(column)
    labels = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], pa.string())
    is_missing = pc.is_in(pc.utf8_trim_whitespace(labels), value_set=pa.array(sorted(markers), pa.string()))
    # A category is one even where it reads "NA".
    is_category = pc.is_in(labels, value_set=pa.array(texts_of_variable(variable), pa.string()))
    is_missing = pc.and_not(is_missing, is_category)
    kept = pc.if_else(is_missing, pa.scalar(None, labels.type), labels)
    dictionary = typed_text(kept, kinds)
    if variable is not None and "text" not in kinds and dictionary is kept:
        # One odd cell must not make text of all the numbers beside it, none of which would be a category then.
        present = kept.drop_null()
        odd = [label.as_py() for label in present if pa.types.is_string(typed_text(pa.array([label]), kinds).type)]
        if odd and unseen == "extend" and len(odd) == len(present):
            return type_text_column(column, markers, None, {"text"})  # new categories, with no number beside them
        if odd and unseen != "missing":
            error = unknown_name("category", odd[0], variable.categories, where=f" of {variable.name!r}")
            raise type(error)(f"{error}, {NO_TEXT}; unseen='missing' reads such labels as missing")
        dictionary = typed_text(pc.if_else(pc.is_in(kept, pa.array(odd, kept.type)), None, kept), kinds)
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(chunk.indices, dictionary) for chunk in encoded.chunks],
        pa.dictionary(pa.int32(), dictionary.type),
    )


def texts_of_variable(variable: Variable | None) -> list[str]:
    """Return how the categories of a variable, and their codes, are written in a text file."""
    return [] if variable is None else [str(label) for label in (*variable.categories, *dict(variable.codes))]


def typed_text(labels: pa.Array, kinds: set[str]) -> pa.Array:
    """Return labels as numbers or truth values, if these kinds are wanted and each label is one; else as they are."""

    def each(pattern: str) -> bool:
        return bool(pc.all(pc.match_substring_regex(trimmed, pattern)).as_py())

    trimmed = pc.utf8_trim_whitespace(labels)
    if labels.null_count == len(labels):
        return labels
    if {"number", "comma"} <= kinds and each(_COMMA_NUMBER):
        trimmed = pc.replace_substring(trimmed, ",", ".")
    if "number" in kinds and each(_NUMBER):
        are_whole = each(_INTEGER)
        is_large = not are_whole and pc.any(pc.match_substring_regex(trimmed, _LARGE_INTEGER)).as_py()
        kind = pa.int64() if are_whole else _text_decimal(trimmed) if is_large else pa.float64()
        try:
            return labels if kind is None else trimmed.cast(kind)
        except pa.ArrowInvalid:  # whole numbers beyond 64 bits
            return labels
    if "truth" in kinds and pc.all(pc.is_in(trimmed, value_set=pa.array([*_TRUTHS, None]))).as_py():
        return pa.array([None if label is None else _TRUTHS[label] for label in trimmed.to_pylist()])
    return labels


def _text_decimal(labels: pa.Array) -> pa.DataType | None:
    """Return a type that holds all of some numbers as they are written; None where they have too many digits."""
    numbers = [Decimal(label) for label in labels.to_pylist() if label is not None]
    scale = max(max(-int(number.as_tuple().exponent), 0) for number in numbers)
    n_whole = max(max(number.adjusted() + 1, 0) for number in numbers)
    return pa.decimal128(_MOST_DIGITS, scale) if scale + n_whole <= _MOST_DIGITS else None


def text_kinds(variable: Variable | None) -> set[str]:
    """Return what labels may be: the kinds of a variable's categories, or numbers and truth values without one."""
    if variable is not None and variable.edges is not None:
        return {"number", "text"}
    if variable is None:
        return {"number", "truth"}
    return {label_key(label)[0] for label in (*variable.categories, *(code for code, _ in variable.codes))}
