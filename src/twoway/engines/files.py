"""Files of records, read into Arrow tables.

CSV, TSV and JSON lines are read by DuckDB. A text file says nothing of types, so every cell is read as text
first, and a column is one of numbers where each of its distinct labels is: ``007`` stays text, ``yes`` is no truth
value, and no cell far down can contradict a guess. Parquet and Arrow files have types of their own, categories and
their order included, which are kept.
"""

from __future__ import annotations

import csv
import glob
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from twoway.engines.file_set import DELIMITERS, FilePath, FileSet, find_files
from twoway.engines.text_types import kinds_of, type_column
from twoway.errors import DataError, FileFormatError, TwowayError, shortlist, unknown
from twoway.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from twoway.coding import Unseen

_HEADER_BYTES = 2**24


def read_table(
    path: FilePath,
    columns: Sequence[str] | None = None,
    *,
    missing: Iterable[object] = (),
    schema: Schema | None = None,
    where: str | None = None,
    unseen: Unseen = "error",
) -> pa.Table:
    """Return a file's records as an Arrow table, holes as nulls.

    Parameters
    ----------
    path
        The file; a pattern such as ``trips/*.parquet`` or a folder reads all files it stands for, in the order of
        their names.
    columns
        The columns to read, all by default.
    missing
        Text that means "not observed" in a text file, beside the empty cell.
    schema
        Variables that columns stand for, which then decide whether ``1`` is a number or text.
    where
        A condition in SQL that the records meet.
    unseen
        What text gets in a text file among the numbers of a variable of the schema: an error, or "missing".
    """
    import pyarrow as pa

    found = find_files(path)
    names = all_columns(found)
    chosen = choose_columns(found, names, columns)
    read = [*chosen, *(name for name in condition_columns(where, names) if name not in chosen)]
    if found.kind == "json":
        with clear_errors(path), connect() as connection:
            table = json_relation(connection, found, read).to_arrow_table()
    else:
        texts = found.kind in ("csv", "tsv")
        parts = []
        for number, one in enumerate(found.paths):
            with clear_errors(one):
                inside = [name for name in read if name not in found.partition_names]
                part = _read_text(one, found.kind, inside) if texts else _read_typed(one, found.kind, inside)
                parts.append(found.with_partitions(number, part, read).select(read))
        if texts:
            markers, more = text_markers(missing), further_kinds(found)
            known = {} if schema is None else {variable.name: variable for variable in schema}
            table = pa.table(
                {
                    name: _column(parts, name)
                    if name in found.partition_names
                    else type_column(
                        _column(parts, name), markers, known.get(name), kinds_of(known.get(name)) | more, unseen
                    )
                    for name in read
                }
            )
        else:
            table = parts[0] if len(parts) == 1 else pa.table({name: _column(parts, name) for name in read})
            table = table.unify_dictionaries()
    return table if where is None else filter_table(table, where, names).select(chosen)


def column_names(path: FilePath) -> list[str]:
    """Return the names of a file's columns, those that its folders' names are last."""
    return all_columns(find_files(path))


def all_columns(files: FileSet) -> list[str]:
    """Return the names of the first file's columns, and of those that the folders' names are."""
    with clear_errors(files.paths[0]):
        names = file_columns(files, files.paths[0])
    for name in files.partition_names:
        if name in names:
            raise DataError(f"{files.paths[0]!r} has a column {name!r} and lies in a folder that says {name!r} too")
    return [*names, *files.partition_names]


def file_columns(files: FileSet, path: str) -> list[str]:
    """Return the names of the columns in a file."""
    if files.kind in ("parquet", "arrow"):
        return list(typed_schema(path, files.kind).names)
    if files.kind == "json":
        with connect() as connection:
            return list(_open_json(connection, files.paths).columns)
    return read_header(path, files.kind)[0]


def choose_columns(files: FileSet, names: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """Return the columns to read, which every file must have, of the same kind, and no others if all are read."""
    for name in columns or ():
        if name not in names:
            raise unknown("column", name, names)
    chosen = list(names) if columns is None else list(columns)
    if len(files.paths) == 1 or files.kind == "json":
        return chosen
    inside = [name for name in chosen if name not in files.partition_names]
    first = files.paths[0]
    typed = files.kind in ("parquet", "arrow")
    for path in files.paths[1:]:
        with clear_errors(path):
            others = file_columns(files, path)
        lacking = [name for name in inside if name not in others]
        extra = [name for name in others if name not in names] if columns is None else []
        if lacking or extra:
            told = f"lacks the column {lacking[0]!r}" if lacking else f"has a column {extra[0]!r}"
            raise DataError(
                f"{path!r} {told}, unlike {first!r}; files of one set have the same columns: {shortlist(inside)}"
            )
        if typed:
            _check_same_kinds(first, path, files.kind, inside)
    return chosen


def condition_columns(where: str | None, names: Sequence[str]) -> list[str]:
    """Return the columns that a condition may speak of: those whose names it contains."""
    if where is None:
        return []
    text = where.replace('""', '"').casefold()
    return [name for name in names if name.casefold() in text]


def filter_table(table: pa.Table, where: str, known: Sequence[str], connection: Any = None) -> pa.Table:
    """Return the rows that meet a condition in SQL, in their order; types and dictionaries stay as they are.

    ``known`` are the columns of the files, for the error.
    """
    import pyarrow as pa

    number = "row"
    while number in table.column_names:
        number += "_"
    numbered = table.append_column(number, pa.array(np.arange(table.num_rows)))
    try:
        with connect() if connection is None else connection.cursor() as cursor:
            met = cursor.from_arrow(numbered).filter(where).project(f'"{number}"').to_arrow_table().column(0)
    except Exception as error:
        if not _is_of_duckdb(error):
            raise
        told = f"the condition where={where!r} cannot be used: {_first(error)}"
        raise DataError(f"{told} The columns are {shortlist(known)}") from error
    return table if len(met) == table.num_rows else table.take(np.sort(met.to_numpy()))


@contextmanager
def clear_errors(path: FilePath) -> Iterator[None]:
    """Turn what the engines raise about a file into an error that names the file in one line."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, TwowayError) or getattr(error, "errno", None) is not None:
            raise  # one of ours, or of the operating system
        raise FileFormatError(f"{os.fspath(path)!r} is damaged, or not what its name says: {_first(error)}") from error
    except Exception as error:
        if not _is_of_duckdb(error):
            raise
        raise FileFormatError(f"{os.fspath(path)!r} cannot be read: {_first(error)}") from error


def _is_of_duckdb(error: Exception) -> bool:
    return type(error).__module__.split(".")[0] in ("duckdb", "_duckdb")


def _first(error: Exception) -> str:
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


def text_markers(missing: Iterable[object]) -> set[str]:
    """Return the text that means "not observed"."""
    return {label.strip() for label in missing if isinstance(label, str)}


def _column(parts: Sequence[pa.Table], name: str) -> pa.ChunkedArray:
    """Return a column of several tables as one; where some have it as a dictionary and some plain, plain."""
    import pyarrow as pa

    columns = [part.column(name) for part in parts]
    kinds = {column.type for column in columns}
    if len(kinds) > 1:
        columns = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in columns]
        tables = [pa.table({name: column}) for column in columns]
        return pa.concat_tables(tables, promote_options="permissive").column(name)
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)


# Parquet and Arrow


def typed_schema(path: str, kind: str) -> pa.Schema:
    """Return the columns of a Parquet or Arrow file with their types, without an index that pandas wrote."""
    import pyarrow.dataset as ds

    schema = ds.dataset(path, format="parquet" if kind == "parquet" else "ipc").schema
    for name in schema.names:
        if re.fullmatch(r"__index_level_\d+__", name):
            schema = schema.remove(schema.get_field_index(name))
    return schema


def _check_same_kinds(first: str, path: str, kind: str, names: Sequence[str]) -> None:
    """Refuse a column that is numbers in one file and text in another."""
    import pyarrow as pa

    def described(dtype: pa.DataType) -> str:
        if pa.types.is_dictionary(dtype):
            dtype = dtype.value_type
        if pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype):
            return "number"
        return "text" if pa.types.is_string(dtype) or pa.types.is_large_string(dtype) else str(dtype)

    one, two = typed_schema(first, kind), typed_schema(path, kind)
    for name in names:
        types = described(one.field(name).type), described(two.field(name).type)
        if types[0] != types[1] and "null" not in types:
            raise DataError(f"column {name!r} is {types[1]} in {path!r} and {types[0]} in {first!r}")


def _read_typed(path: str, kind: str, columns: Sequence[str]) -> pa.Table:
    import pyarrow.dataset as ds

    return ds.dataset(path, format="parquet" if kind == "parquet" else "ipc").to_table(columns=list(columns))


# JSON lines


def _open_json(connection: Any, paths: Sequence[str]) -> Any:
    names = [glob.escape(path) for path in paths]
    relation = connection.read_json(names if len(names) > 1 else names[0], sample_size=-1)
    if relation.columns == ["json"]:
        raise DataError(f'{paths[0]!r} holds no records; each line must be an object such as {{"age": 30}}')
    return relation


def json_relation(connection: Any, files: FileSet, columns: Sequence[str]) -> Any:
    """Return some columns of JSON files as DuckDB reads them."""
    import duckdb

    if files.partition_names:
        raise FileFormatError(f"{files.name!r}: folders named {files.partition_names[0]}=… are not read for JSON")
    relation = _open_json(connection, files.paths)
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))

    def expression(name: str) -> Any:
        column = _by_name(name)
        if types[name] != "JSON":
            return column
        # Cells of several types: text without its quotes, the others as they were written.
        return duckdb.FunctionExpression("json_extract_string", column, duckdb.ConstantExpression("$")).alias(name)

    return relation.select(*map(expression, columns))


# CSV and TSV


def text_relation(connection: Any, path: str, kind: str, columns: Sequence[str]) -> Any:
    """Return some columns of a text file, every cell as text, as DuckDB reads them."""
    names, delimiter = read_header(path, kind)
    relation = connection.read_csv(
        glob.escape(path),  # a file of this name, not what DuckDB would take for a pattern
        auto_detect=False,
        columns=dict.fromkeys(names, "VARCHAR"),
        header=True,
        delimiter=delimiter,
        quotechar='"',
        escapechar='"',
    )
    return relation.select(*map(_by_name, columns))


def _by_name(name: str) -> Any:
    """Return a column by its name as it is; DuckDB before 2.0 takes a quote in it for its own."""
    import duckdb

    return duckdb.SQLExpression('"' + name.replace('"', '""') + '"')


def read_as_written(path: FilePath) -> pa.Table | None:
    """Return the cells of text files as they are written; None for files of other kinds."""
    import pyarrow as pa

    found = find_files(path)
    if found.kind not in ("csv", "tsv") or found.partition_names:
        return None
    names = all_columns(found)
    with clear_errors(path):
        return pa.concat_tables([_read_text(one, found.kind, names) for one in found.paths])


def _read_text(path: str, kind: str, columns: Sequence[str]) -> pa.Table:
    with connect() as connection:
        return text_relation(connection, path, kind, columns).to_arrow_table()


def further_kinds(files: FileSet) -> set[str]:
    """Return "comma" for text files in which ``2,5`` is a number: who parts columns by semicolons needs the comma."""
    return {"comma"} if read_header(files.paths[0], files.kind)[1] == ";" else set()


def read_header(path: str, kind: str) -> tuple[list[str], str]:
    """Return the names in a text file's first line and what parts them; anything but such a file is an error."""
    import pyarrow as pa

    with pa.input_stream(path, compression="detect") as stream:
        head = stream.read(2**16)
        while head and b"\n" not in head and len(head) < _HEADER_BYTES and (more := stream.read(2**20)):
            head += more
    if not head.strip():
        raise DataError(f"{path!r} is empty; its first line must name the columns")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in head:
        raise FileFormatError(f"{path!r} is not a text file in UTF-8; if a program exported it, save it as CSV (UTF-8)")
    if head[:4] in (b"PAR1", b"PK\x03\x04", b"ARRO"):
        raise FileFormatError(f"{path!r} is not a text file, whatever its name says: it begins with {head[:4]!r}")
    # A character that the end of the sample cuts in two is no error.
    text = head.decode("utf-8-sig", errors="surrogateescape")
    line = next(line for line in text.splitlines() if line.strip())
    if any("\udc80" <= char <= "\udcff" for char in line):
        raise FileFormatError(f"{path!r} is not in UTF-8; if a program exported it, save it as CSV (UTF-8)")
    bare = re.sub(r'"[^"]*"', "", line)
    delimiter = "\t" if kind == "tsv" else max(DELIMITERS, key=bare.count)
    try:
        names = next(row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row)
    except csv.Error as error:
        raise FileFormatError(f"{path!r} has a first line that cannot be read: {error}") from None
    if any("\r" in name for name in names):
        # DuckDB would take it for the end of the line, and find no record.
        raise FileFormatError(f"{path!r} has a carriage return within the column names {shortlist(names)}")
    # An unnamed column is most often the row numbers that some program wrote.
    names = [name.strip() or f"column {place}" for place, name in enumerate(names, 1)]
    # DuckDB takes names that differ in case alone for one.
    for place, name in enumerate(names):
        if same := [other for other in names[:place] if other.lower() == name.lower()]:
            how = "twice" if same[0] == name else f"and {same[0]!r}, which differ in case alone"
            raise DataError(
                f"{path!r} has the column name {name!r} {how}; its first line must name the columns, each once"
            )
    return names, delimiter
