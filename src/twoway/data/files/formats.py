"""The formats of files: which one a name ends in, and how its columns and rows are read, whole or in pieces.

Parquet and Arrow files are read by pyarrow, CSV, TSV and JSON lines by DuckDB, files of statistics programs by
pyreadstat, sheets by calamine. A text file has no types, so every cell of it is read as text here. Parquet and Arrow
files have types of their own, categories and their order included.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from twoway.data.files.spreadsheets import ENDINGS as SHEET_ENDINGS
from twoway.data.files.spreadsheets import read_spreadsheet_table, split_spreadsheet_name
from twoway.data.files.survey_files import READERS, survey_metadata, survey_slices
from twoway.data.files.text_files import read_text_header, text_relation, type_text_column
from twoway.errors import DataError, FileFormatError, TwowayError
from twoway.lazy_imports import ds, pa, pq
from twoway.text import brief, shortlist

if TYPE_CHECKING:
    from twoway.data.files.file_set import FileSet

FilePath: TypeAlias = str | os.PathLike[str]

_ENDINGS = {
    "csv": (".csv", ".txt", ".data"),
    "tsv": (".tsv", ".tab"),
    "json": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "sav": (".sav", ".zsav"),
    "por": (".por",),
    "dta": (".dta",),
    "sas7bdat": (".sas7bdat",),
    "sheet": SHEET_ENDINGS,
}
FORMATS: Mapping[str, str] = {ending: kind for kind, endings in _ENDINGS.items() for ending in endings}
"""The format for each ending of a file name; CSV, TSV and JSON may be compressed: .gz, .zst."""

COMPRESSED = (".gz", ".zst")

SLICE_ROWS = 2**17
"""Large enough to hide what a slice costs, small enough that some of them are nothing in memory."""

_MOST_ROWS = 2**21
"""A piece has no more rows, so that all that is made of it fits into memory."""

ReadSlices: TypeAlias = "Callable[[], Iterator[pa.Table]]"
"""Gives some rows of a file, a slice at a time; may be called on any thread."""


def format_of(path: FilePath) -> str:
    """Return the format of a file by the ending of its name, such as "csv", "parquet", "sav" or "sheet".

    Examples
    --------
    >>> format_of("survey.csv.gz"), format_of("trips/*.parquet")
    ('csv', 'parquet')
    """
    ending = _format_ending(path)
    if ending not in FORMATS:
        raise FileFormatError(
            f"cannot read {str(path)!r}: its name ends in {ending!r}; records are read from {', '.join(FORMATS)}, the "
            f"text ones also with {' or '.join(COMPRESSED)}"
        )
    return FORMATS[ending]


def is_data_format(path: FilePath) -> bool:
    """Return whether a file is one of records by its name."""
    return _format_ending(path) in FORMATS


def _format_ending(path: FilePath) -> str:
    plain = Path(split_spreadsheet_name(os.fspath(path))[0])
    return (Path(plain.stem).suffix if plain.suffix.lower() in COMPRESSED else plain.suffix).lower()


def columns_of_format(files: FileSet, path: str) -> list[str]:
    """Return the names of the columns in a file of a set, or in all files of JSON."""
    with clear_format_errors(path):
        if files.is_text:
            return read_text_header(path, files.kind).names
        if files.kind == "sheet":
            return list(read_spreadsheet_table(path, files.place).column_names)
        if files.kind in READERS:
            return list(survey_metadata(path, files.kind).column_names)
        if files.kind != "json":
            return list(format_schema(path, files.kind).names)
        with connect_for_formats() as connection:
            return list(_open_json_format(connection, files.paths)[1])


def read_whole_format(connection: Any, files: FileSet, path: str, columns: Sequence[str]) -> pa.Table:
    """Return some columns of a file, or of all files of JSON."""
    if files.is_typed:
        return ds.dataset(path, format=files.kind).to_table(columns=list(columns))
    if (slices := _format_slices(files, path, columns)) is not None:
        return pa.concat_tables(slices, promote_options="permissive")
    with connection.cursor() as cursor:
        relation, finish = _format_relation(cursor, files, path, columns)
        return finish(relation.to_arrow_table())


def read_format_pieces(
    connection: Any, files: FileSet, path: str, columns: Sequence[str]
) -> Iterator[tuple[int, ReadSlices]]:
    """Yield some columns of a file, or of all files of JSON, in parts: the number of the first row, and the rows."""
    if files.kind == "parquet":
        yield from _parquet_format_pieces(path, columns)
    elif (slices := _format_slices(files, path, columns)) is not None:
        yield from _format_pieces(slices)
    else:
        with connection.cursor() as cursor:
            relation, finish = _format_relation(cursor, files, path, columns)
            yield from _format_pieces(stream_format_slices(relation), finish)


def _format_slices(files: FileSet, path: str, columns: Sequence[str]) -> Iterator[pa.Table] | None:
    """Return the rows of a file that neither DuckDB nor threads of Parquet's read, a slice at a time; else None."""
    if files.kind == "arrow":
        return _arrow_format_slices(path, columns)
    if files.kind == "sheet":
        return iter([read_spreadsheet_table(path, files.place).select(list(columns))])
    return survey_slices(path, files.kind, columns, files.letters) if files.kind in READERS else None


def _format_pieces(
    tables: Iterator[pa.Table], finish: Callable[[pa.Table], pa.Table] | None = None, start: int = 0
) -> Iterator[tuple[int, ReadSlices]]:
    """Yield tables as pieces of one slice, which are finished on the thread that reads them."""
    for table in tables:
        yield start, lambda table=table: iter([table if finish is None else finish(table)])  # type: ignore[misc]
        start += table.num_rows


def stream_format_slices(relation: Any) -> Iterator[pa.Table]:
    """Yield what DuckDB reads, a slice at a time, while it goes on reading."""
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader  # its name before DuckDB 1.4
    for batch in reader(SLICE_ROWS):
        yield pa.Table.from_batches([batch])


def _format_relation(
    cursor: Any, files: FileSet, path: str, columns: Sequence[str]
) -> tuple[Any, Callable[[pa.Table], pa.Table]]:
    """Return a file as DuckDB reads it, and what makes a table of its rows one of the columns."""
    if files.is_text:
        return text_relation(cursor, path, files.kind, columns), lambda table: table.rename_columns(list(columns))
    relation, numbers = _json_format_relation(cursor, files, columns)
    return relation, lambda table: _json_format_numbers(table.rename_columns(list(columns)), numbers)


# Parquet and Arrow


def format_schema(path: str, kind: str) -> pa.Schema:
    """Return the columns of a Parquet or Arrow file with their types, without an index that pandas wrote."""
    schema = ds.dataset(path, format=kind).schema
    return pa.schema([column for column in schema if not re.fullmatch(r"__index_level_\d+__", column.name)])


def _parquet_format_pieces(path: str, columns: Sequence[str]) -> Iterator[tuple[int, ReadSlices]]:
    """Yield groups of rows, small ones together.

    Dictionaries stay as they are stored: text is neither made nor compared, and each group of rows is decoded on a
    thread of its own (DuckDB would hand out text).
    """
    metadata = pq.read_metadata(path)
    schema = metadata.schema.to_arrow_schema()
    texts = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]

    def reading(groups: list[int]) -> ReadSlices:
        def read() -> Iterator[pa.Table]:
            with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
                for batch in file.iter_batches(SLICE_ROWS, groups, list(columns), use_threads=False):
                    yield pa.Table.from_batches([batch])

        return read

    start = n_rows = 0
    groups: list[int] = []
    for group in range(metadata.num_row_groups):
        groups.append(group)
        n_rows += metadata.row_group(group).num_rows
        if n_rows > _MOST_ROWS:  # too many for a piece: they are decoded while pieces are drawn
            yield from _format_pieces(reading(groups)(), start=start)
        elif n_rows >= SLICE_ROWS or group == metadata.num_row_groups - 1:
            yield start, reading(groups)
        else:
            continue
        start, n_rows, groups = start + n_rows, 0, []


def _arrow_format_slices(path: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of an Arrow file, a slice at a time."""
    with pa.memory_map(path) as source:
        file = pa.ipc.open_file(source)
        for number in range(file.num_record_batches):
            table = pa.Table.from_batches([file.get_batch(number)]).select(list(columns))
            for start in range(0, table.num_rows, SLICE_ROWS):
                yield table.slice(start, SLICE_ROWS)


# JSON lines


def _open_json_format(connection: Any, paths: Sequence[str]) -> tuple[Any, dict[str, str]]:
    """Return JSON files as DuckDB reads them, and what it calls each of their columns."""
    # Without the last option, records of 200 columns or more would be one column, of maps.
    relation = connection.sql(
        f"SELECT * FROM read_json([{_json_paths(paths)}], sample_size = -1, map_inference_threshold = -1)"
    )
    if relation.columns == ["json"]:
        raise DataError(f'{paths[0]!r} holds no records; each line must be an object such as {{"age": 30}}')
    names = dict(zip(relation.columns, relation.columns, strict=True))
    if any(re.search(r"_\d+$", name) for name in names):
        # Of keys that differ in case alone, DuckDB gives all but the first a number.
        keys = connection.sql(f"SELECT DISTINCT unnest(json_keys(json)) FROM read_json_objects([{_json_paths(paths)}])")
        known = {key for (key,) in keys.fetchall()}
        names = {name if name in known else re.sub(r"_\d+$", "", name): name for name in relation.columns}
        if set(names) != known:
            raise DataError(
                f"{paths[0]!r} has keys that differ only in case and in an added number: {shortlist(known)}"
            )
    return relation, names


def _json_format_relation(connection: Any, files: FileSet, columns: Sequence[str]) -> tuple[Any, list[str]]:
    """Return some columns of JSON files as DuckDB reads them, in their order, and those that are numbers in text."""
    import duckdb

    if files.partition_names:
        raise FileFormatError(f"{files.name!r}: folders named {files.partition_names[0]}=… are not read for JSON")
    relation, names = _open_json_format(connection, files.paths)
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    numbers = [name for name in columns if types[names[name]] == "DOUBLE" and names[name] == name]
    if numbers:
        # As doubles, whole numbers beyond 2⁵³ would be one where there is a decimal among them.
        types |= dict.fromkeys(numbers, "VARCHAR")
        wanted = ", ".join(f"{_json_literal(name)}: {_json_literal(types[name])}" for name in relation.columns)
        relation = connection.sql(f"SELECT * FROM read_json([{_json_paths(files.paths)}], columns = {{{wanted}}})")

    def expression(name: str) -> Any:
        column = duckdb.SQLExpression('"' + names[name].replace('"', '""') + '"')
        if types[names[name]] != "JSON":
            return column
        # Cells of several types: text without its quotes, the others as they were written.
        text = duckdb.FunctionExpression("json_extract_string", column, duckdb.ConstantExpression("$"))
        return text.alias(names[name])

    return relation.select(*map(expression, columns)), numbers


def _json_format_numbers(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return a table in which some columns of text are the numbers that they are written as."""
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name in names:
        column = type_text_column(columns[name], frozenset(), None, {"number"})
        columns[name] = column.cast(column.type.value_type)
    return pa.table(columns)


def _json_paths(paths: Sequence[str]) -> str:
    return ", ".join(_json_literal(glob.escape(path)) for path in paths)


def _json_literal(text: str) -> str:
    """Return text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


# DuckDB and its errors


@contextmanager
def clear_format_errors(path: FilePath) -> Iterator[None]:
    """Turn errors of DuckDB and Arrow into errors that name the file, in one line."""
    try:
        yield
    except Exception as error:
        is_of_arrow = isinstance(error, pa.ArrowInvalid | OSError)
        if isinstance(error, TwowayError) or getattr(error, "errno", None) is not None:
            raise  # one of ours, or of the operating system
        if not (is_of_arrow or is_format_engine_error(error)):
            raise
        why = "is damaged, or its format does not match its name" if is_of_arrow else "cannot be read"
        known = _explained_format_error(str(error))
        message = f": {known}" if known else f" {why}: {format_error_lines(error)}"
        raise FileFormatError(f"{os.fspath(path)!r}{message}") from error


_WRONG_LINES = {
    r"(?i)not utf-8|invalid (unicode|utf-8)": "is not in UTF-8; if a program exported the file, save it as UTF-8",
    r"Expected Number of Columns: (\d+) Found: (\d+)": (
        r"should have as many cells as the header, \1, and has \2; text with a delimiter in it needs quotes"
    ),
    r"unterminated quote": 'has a quote that does not end; within quotes, a quote is written twice: ""',
    r"Maximum line size of (\d+)": r"has more than \1 bytes; does a quote before it not end?",
}
"""What DuckDB says of a line that it cannot read, and the same in plain words."""


def _explained_format_error(message: str) -> str:
    """Return which line of a text file is wrong, why, and what to do; "" where DuckDB says something else."""
    line = re.search(r"CSV Error on Line: (\d+)(?:\s+Original Line: (.*))?", message)
    text = f", {brief(line[2])}," if line and line[2] else ""
    place = f"line {line[1]}{text}" if line else "it"  # the numbers that it gives lines of JSON are other ones
    found = ((why, re.search(pattern, message)) for pattern, why in _WRONG_LINES.items())
    return next((f"{place} {match.expand(why)}" for why, match in found if match), "")


def is_format_engine_error(error: Exception) -> bool:
    """Return whether DuckDB raised an error."""
    return type(error).__module__.split(".")[0] in ("duckdb", "_duckdb")


def format_error_lines(error: Exception) -> str:
    """Return the first two lines of an error message and the last, which says why, without hints and settings."""
    message = str(error)
    if is_format_engine_error(error):
        message = re.sub(r"^[A-Z][\w ]* Error: ", "", message)
    lines = filter(None, map(str.strip, message.splitlines()))
    kept = list(takewhile(lambda line: not line.startswith(("Possible", "file =", "Candidate", "LINE ")), lines))
    return "; ".join(line if len(line) <= 120 else line[:119] + "…" for line in kept[:2] + kept[2:][-1:])


def connect_for_formats() -> Any:
    """Return a connection to a DuckDB in memory, without a progress bar."""
    import duckdb

    # A condition is SQL from the user: it must not install extensions, which DuckDB would do unasked.
    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    connection.execute("SET enable_progress_bar = false")
    return connection
