"""Connections to DuckDB, and errors of DuckDB and Arrow in one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from twoway.errors import FileFormatError, TwowayError

if TYPE_CHECKING:
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
