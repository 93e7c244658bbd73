"""A DuckDB of our own, and what goes wrong in the engines in one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from twoway.errors import FileFormatError, TwowayError

if TYPE_CHECKING:
    from twoway.data.files.file_set import FilePath


@contextmanager
def clear_errors(path: FilePath) -> Iterator[None]:
    """Turn what the engines raise about a file into an error that names the file in one line."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, TwowayError) or getattr(error, "errno", None) is not None:
            raise  # one of ours, or of the operating system
        told = f"is damaged, or not what its name says: {first_lines(error)}"
        raise FileFormatError(f"{os.fspath(path)!r} {told}") from error
    except Exception as error:
        if not is_of_duckdb(error):
            raise
        raise FileFormatError(f"{os.fspath(path)!r} cannot be read: {first_lines(error)}") from error


def is_of_duckdb(error: Exception) -> bool:
    """Return whether an error is one of DuckDB's."""
    return type(error).__module__.split(".")[0] in ("duckdb", "_duckdb")


def first_lines(error: Exception) -> str:
    """Return what matters of an engine's message: its first lines, up to its hints and settings."""
    lines = [line.strip() for line in str(error).splitlines()]
    kept: list[str] = []
    for line in lines:
        if not line or line.startswith(("Possible", "file =", "Candidate")) or len(kept) == 3:
            break
        kept.append(line if len(line) <= 120 else line[:119] + "…")
    return "; ".join(kept)


def connect() -> Any:
    """Return a DuckDB of our own that draws nothing on the terminal."""
    import duckdb

    # A condition is somebody's SQL: it shall not bring in code from elsewhere, which DuckDB does unasked.
    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    connection.execute("SET enable_progress_bar = false")
    return connection
