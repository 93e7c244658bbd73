"""Output to the terminal and to files: safe text, JSON, and no file overwritten by accident."""

from __future__ import annotations

import errno
import glob
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoway.errors import DataError, MissingFileError, TwowayError
from twoway.text import ADDRESS, escaped, plain_data, without_password

if TYPE_CHECKING:
    import pyarrow as pa

    from twoway.data.files.file_set import FileSet


class OutputExistsError(TwowayError, FileExistsError):
    """The output file already exists."""


def say(text: str = "", *, err: bool = False) -> None:
    """Print text, with every character escaped that a terminal could interpret as a command."""
    stream = sys.stderr if err else sys.stdout
    if stream is not None:  # None if it is closed; print would use the other stream
        print(escaped(text, keep="\n"), file=stream, flush=True)


# Parameters that are options, too. Messages name them in advice, as in solver='em', or begin with one that is wrong.
_PARAMETERS = (
    "area|base|count|delta|epsilon|jobs|kind|max_categories|max_weight|order|public_schema|replicates|schema|seconds|"
    "seed|smoothing|solver|starts|structure|tables|threads|trials|unseen|weights|where"
)
_ADVICE = re.compile(rf"\b({_PARAMETERS})=(?:…|True|'([\w+-]+)')|^({_PARAMETERS}) (must be)(?: None\b.*? or\b)?")


def output_wording(text: str) -> str:
    """Return a message of the library with its advice as options of the command line.

    Examples
    --------
    >>> output_wording("use a lower rank or solver='coupled-nmf'")
    'use a lower rank or --solver coupled-nmf'
    >>> output_wording("name one with area=…, or set public_schema=True")
    'name one with --area, or set --public-schema'
    >>> output_wording("smoothing must be None or a number of at least 0, not -1")
    '--smoothing must be a number of at least 0, not -1'
    """

    def option(advice: re.Match[str]) -> str:
        name, value = advice[1] or advice[3], advice[2] or advice[4] or ""
        return f"--{name.replace('_', '-')} {value}".rstrip()

    return _ADVICE.sub(option, text)


def print_note(text: str) -> None:
    """Print a note about the result to standard error."""
    say(f"note: {text}", err=True)


def say_json(content: Any) -> None:
    """Print content as one line of JSON; NaN and infinity become null."""
    print(output_json(content), flush=True)


def print_output(content: Any, text: object, *, json: bool) -> None:
    """Print a result: its content as JSON, or its text."""
    if json:
        say_json(content)
    else:
        say(str(text))


def output_json(content: Any) -> str:
    """Return content as one line of JSON; NaN and infinity become null."""
    return json.dumps(plain_data(content), allow_nan=False)


def check_output(
    path: Path | None, force: bool, *inputs: Path | str | None, is_records: bool = False, is_model: bool = False
) -> None:
    """Raise before any work is done if an output cannot be written, or would replace a file without ``force``.

    A file that the command reads is not replaced even with ``force``: each command lists all its inputs, except the
    file that it is meant to replace (the model of ``update``, the tables of ``count --add``). An input is a file, a
    folder, a pattern or the address of a database. Records are written only in formats that can be read; models and
    tables not under the name of a data file.
    """
    from twoway.data.files.formats import is_data_format
    from twoway.data.files.writing import written_format

    if path is None:
        return
    if ADDRESS.match(str(path)) and not path.parent.is_dir():
        raise DataError(f"cannot write {without_password(str(path))!r}: it is an address, and outputs are local files")
    if path.is_dir():
        raise OutputExistsError(f"cannot write {str(path)!r}: it is a folder; name a file")
    folder = Path(os.path.realpath(path)).parent  # of what a link leads to
    if not folder.is_dir():
        missing = path.parent if not path.parent.is_dir() else folder
        raise MissingFileError(f"cannot write {str(path)!r}: there is no folder {str(missing)!r}")
    # A new file is written beside the old one; a device is written to as it is.
    if (path.is_file() or not path.exists()) and not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    if path.is_file() and any(_is_output(path, os.fspath(source)) for source in inputs if source is not None):
        raise OutputExistsError(f"cannot write {str(path)!r}: it is an input of this command; name another file")
    if is_records:
        written_format(path)
    if is_model and is_data_format(path):
        raise DataError(f"cannot write {str(path)!r}: it has the name of a data file; use .twoway or .tables")
    if path.is_file() and not force:  # no device or pipe
        raise OutputExistsError(f"{str(path)!r} already exists; --force replaces it")


def _is_output(path: Path, source: str) -> bool:
    """Return whether an output is one of the files that an input refers to."""
    from twoway.data.sql.connections import database_file, is_database_address

    name = (database_file(source) or "") if is_database_address(source) else source
    if os.path.isdir(name):
        names = [os.path.join(folder, file) for folder, _, files in os.walk(name) for file in files]
    else:
        names = [name] if os.path.exists(name) else glob.glob(name, recursive=True)
    return any(os.path.samefile(file, path) for file in names if os.path.exists(file))


def is_terminal(stream: Any) -> bool:
    """Return whether a stream is a terminal."""
    return bool(stream is not None and stream.isatty())


def has_progress_output() -> bool:
    """Return whether a progress display is visible."""
    return is_terminal(sys.stderr)


def write_text_output(text: str, out: Path | None, done: str) -> None:
    """Write lines of text to a file and say what was done; or print them, escaped if standard output is a terminal."""
    from twoway.storage.atomic_files import write_text_file

    if out is None:
        print(escaped(text, keep="\n") if is_terminal(sys.stdout) else text, end="")
        return
    write_text_file(out, text)
    say(f"{done}: {out}")


def write_output(table: pa.Table, out: Path | None, *, as_json: bool = False, like: FileSet | None = None) -> None:
    """Write an Arrow table to a file, or as CSV or JSON lines to standard output, escaped if that is a terminal.

    SPSS and Stata files get the labels that the files ``like`` have.
    """
    from twoway.data.files import writing

    if out is not None:
        writing.write_data_file(table, out, like)
        return
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed", "standard output")
    buffer = io.BytesIO() if is_terminal(sys.stdout) else sys.stdout.buffer
    writing.write_data_stream([table], buffer, "json" if as_json else "csv")
    if isinstance(buffer, io.BytesIO):
        say(buffer.getvalue().decode().rstrip("\n"))
