"""DuckDB: connections, its errors and those of Arrow in one line, and conditions in SQL that records meet."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from twoway.arrays import Ints
from twoway.errors import DataError, FileFormatError, TwowayError
from twoway.text import shortlist

if TYPE_CHECKING:
    import pyarrow as pa

    from twoway.data.files.file_set import FilePath


@contextmanager
def clear_errors(path: FilePath) -> Iterator[None]:
    """Turn errors of DuckDB and Arrow into errors that name the file, in one line."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, TwowayError) or getattr(error, "errno", None) is not None:
            raise  # one of ours, or of the operating system
        message = f"is damaged, or its format does not match its name: {first_lines(error)}"
        raise FileFormatError(f"{os.fspath(path)!r} {message}") from error
    except Exception as error:
        if not is_of_duckdb(error):
            raise
        raise FileFormatError(f"{os.fspath(path)!r} cannot be read: {first_lines(error)}") from error


def is_of_duckdb(error: Exception) -> bool:
    """Return whether DuckDB raised an error."""
    return type(error).__module__.split(".")[0] in ("duckdb", "_duckdb")


def first_lines(error: Exception) -> str:
    """Return the first lines of an error message, without hints and settings."""
    lines = map(str.strip, str(error).splitlines())
    kept = takewhile(lambda line: line and not line.startswith(("Possible", "file =", "Candidate")), lines)
    return "; ".join(line if len(line) <= 120 else line[:119] + "…" for line in islice(kept, 3))


def connect() -> Any:
    """Return a connection to a DuckDB in memory, without a progress bar."""
    import duckdb

    # A condition is SQL from the user: it must not install extensions, which DuckDB would do unasked.
    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    connection.execute("SET enable_progress_bar = false")
    return connection


# Conditions

# Text, comments and the fields of a struct are skipped; names are in double quotes or are words.
_PARTS_OF_SQL = re.compile(
    r"""'(?:[^']|'')*' | --[^\n]* | /\*.*?\*/ | \.\s*(?:"(?:[^"]|"")*"|\w+) | "(?:[^"]|"")*" | [^\W\d][\w$]*""",
    re.DOTALL | re.VERBOSE,
)


def condition_columns(where: str | None, names: Sequence[str]) -> list[str]:
    """Return the columns that a condition may use: those whose names it contains."""
    if where is None:
        return []
    text = where.replace('""', '"').casefold()
    return [name for name in names if name.casefold() in text]


def rows_that_meet(table: pa.Table, where: str, known: Sequence[str], connection: Any) -> Ints:
    """Return the positions of the rows that meet a condition in SQL, ascending.

    ``known`` are the columns of the files, for the error.
    """
    import pyarrow as pa

    names, condition = _distinct_names(table.column_names, where)
    number = _unused_name("row number", names)
    numbered = table.rename_columns(names).append_column(number, pa.array(np.arange(table.num_rows)))
    try:
        with connection.cursor() as cursor:
            rows_met = cursor.from_arrow(numbered).filter(condition).project(f'"{number}"').to_arrow_table().column(0)
    except Exception as error:
        if not is_of_duckdb(error):
            raise
        message = f"the condition where={where!r} cannot be used: {first_lines(error)}"
        raise DataError(f"{message} The columns are {shortlist(known)}") from error
    rows: Ints = np.sort(rows_met.to_numpy())
    return rows


def _distinct_names(names: Sequence[str], where: str) -> tuple[list[str], str]:
    """Return names that are distinct for DuckDB, and the condition in their terms.

    DuckDB ignores the case of names. Names that differ in case alone are replaced, in the condition too, where they
    mean columns exactly as they are written.
    """
    times = Counter(map(fold_case, names))
    new = dict(zip(names, names, strict=True))
    for name in names:
        if times[fold_case(name)] > 1:
            new[name] = _unused_name(f"column {len(new)}", new.values())

    def replaced(part: re.Match[str]) -> str:
        name = part[0][1:-1].replace('""', '"') if part[0].startswith('"') else part[0]
        return part[0] if new.get(name, name) == name else f'"{new[name]}"'

    return list(new.values()), _PARTS_OF_SQL.sub(replaced, where)


def _unused_name(name: str, names: Iterable[str]) -> str:
    """Return a name that is not among some names, as DuckDB compares them."""
    taken = set(map(fold_case, names))
    while fold_case(name) in taken:
        name += "_"
    return name


def fold_case(name: str) -> str:
    """Return a name as DuckDB compares names: the letters of ASCII in lower case."""
    return name.encode(errors="surrogatepass").lower().decode(errors="surrogatepass")
