"""How files of each format are read: their columns, all rows of a file, or its rows in pieces.

Parquet and Arrow files are read by pyarrow, CSV, TSV and JSON lines by DuckDB. A text file has no types, so every cell
of it is read as text here. Parquet and Arrow files have types of their own, categories and their order included.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from twoway.data.files.duck import clear_errors, connect
from twoway.data.files.text_files import read_header, type_column
from twoway.errors import DataError, FileFormatError, check_known
from twoway.text import shortlist

if TYPE_CHECKING:
    import pyarrow as pa

    from twoway.data.files.file_set import FileSet

SLICE_ROWS = 2**17
"""Large enough to hide what a slice costs, small enough that some of them are nothing in memory."""

_MOST_ROWS = 2**21
"""A piece has no more rows, so that all that is made of it fits into memory."""

ReadSlices: TypeAlias = "Callable[[], Iterator[pa.Table]]"
"""Gives some rows of a file, a slice at a time; may be called on any thread."""


def column_names(files: FileSet) -> list[str]:
    """Return the names of the first file's columns, and of those that the folders' names are."""
    first = files.paths[0]
    names = _columns_in(files, first)
    for name in files.partition_names:
        if name in names:
            raise DataError(f"{first!r} has a column {name!r} and lies in a folder whose name gives {name!r}, too")
    return [*names, *files.partition_names]


def _columns_in(files: FileSet, path: str) -> list[str]:
    with clear_errors(path):
        if files.is_text:
            return read_header(path, files.kind).names
        if files.kind != "json":
            return list(_typed_schema(path, files.kind).names)
        with connect() as connection:
            return list(_open_json(connection, files.paths)[1])


def choose_columns(files: FileSet, columns: Sequence[str] | None) -> list[str]:
    """Return the columns to read, which every file must have, of the same kind, and no others if all are read."""
    check_known("column", files.columns, *(columns or ()))
    known = set(files.columns)
    chosen = list(files.columns) if columns is None else list(columns)
    if files.kind == "json":
        return chosen
    inside = [name for name in chosen if name not in files.partition_names]
    first = files.paths[0]
    for path in files.paths[1:]:
        others = _columns_in(files, path)
        lacking = [name for name in inside if name not in set(others)]
        extra = [name for name in others if name not in known] if columns is None else []
        if lacking or extra:
            difference = f"lacks the column {lacking[0]!r}" if lacking else f"has a column {extra[0]!r}"
            raise DataError(
                f"{path!r} {difference}, unlike {first!r}; files of one set have the same columns: {shortlist(inside)}"
            )
        if not files.is_text:
            _check_same_kinds(first, path, files.kind, inside)
    return chosen


def read_whole(connection: Any, files: FileSet, path: str, columns: Sequence[str]) -> pa.Table:
    """Return some columns of a file, or of all files of JSON."""
    if files.is_typed:
        import pyarrow.dataset as ds

        return ds.dataset(path, format=files.kind).to_table(columns=list(columns))
    with connection.cursor() as cursor:
        relation, finish = _relation(cursor, files, path, columns)
        return finish(relation.to_arrow_table())


def read_pieces(connection: Any, files: FileSet, path: str, columns: Sequence[str]) -> Iterator[tuple[int, ReadSlices]]:
    """Yield some columns of a file, or of all files of JSON, in parts: the number of the first row, and the rows."""
    if files.is_typed:
        yield from _parquet_pieces(path, columns) if files.kind == "parquet" else _one_by_one(_arrow(path, columns))
        return
    with connection.cursor() as cursor:
        relation, finish = _relation(cursor, files, path, columns)
        yield from _one_by_one(stream(relation), finish)


def _one_by_one(
    tables: Iterator[pa.Table], finish: Callable[[pa.Table], pa.Table] | None = None, start: int = 0
) -> Iterator[tuple[int, ReadSlices]]:
    """Yield tables as pieces of one slice, which are finished on the thread that reads them."""
    for table in tables:
        yield start, lambda table=table: iter([table if finish is None else finish(table)])  # type: ignore[misc]
        start += table.num_rows


def stream(relation: Any) -> Iterator[pa.Table]:
    """Yield what DuckDB reads, a slice at a time, while it goes on reading."""
    import pyarrow as pa

    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader  # its name before DuckDB 1.4
    for batch in reader(SLICE_ROWS):
        yield pa.Table.from_batches([batch])


def _relation(
    cursor: Any, files: FileSet, path: str, columns: Sequence[str]
) -> tuple[Any, Callable[[pa.Table], pa.Table]]:
    """Return a file as DuckDB reads it, and what makes a table of its rows one of the columns."""
    if files.is_text:
        return text_relation(cursor, path, files.kind, columns), lambda table: table.rename_columns(list(columns))
    relation, numbers = _json_relation(cursor, files, columns)
    return relation, lambda table: _with_numbers(table.rename_columns(list(columns)), numbers)


# Parquet and Arrow


def _typed_schema(path: str, kind: str) -> pa.Schema:
    """Return the columns of a Parquet or Arrow file with their types, without an index that pandas wrote."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    schema = ds.dataset(path, format=kind).schema
    return pa.schema([column for column in schema if not re.fullmatch(r"__index_level_\d+__", column.name)])


def _check_same_kinds(first: str, path: str, kind: str, names: Sequence[str]) -> None:
    """Refuse a column that is numbers in one file and text in another."""
    import pyarrow as pa

    def described(dtype: pa.DataType) -> str:
        if pa.types.is_dictionary(dtype):
            dtype = dtype.value_type
        if pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype):
            return "number"
        return "text" if pa.types.is_string(dtype) or pa.types.is_large_string(dtype) else str(dtype)

    schemas = _typed_schema(first, kind), _typed_schema(path, kind)
    for name in names:
        expected, got = (described(schema.field(name).type) for schema in schemas)
        if expected != got and "null" not in (expected, got):
            raise DataError(f"column {name!r} is {got} in {path!r} and {expected} in {first!r}")


def _parquet_pieces(path: str, columns: Sequence[str]) -> Iterator[tuple[int, ReadSlices]]:
    """Yield groups of rows, small ones together.

    Dictionaries stay as they are stored: text is neither made nor compared, and each group of rows is decoded on a
    thread of its own (DuckDB would hand out text).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

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
            yield from _one_by_one(reading(groups)(), start=start)
        elif n_rows >= SLICE_ROWS or group == metadata.num_row_groups - 1:
            yield start, reading(groups)
        else:
            continue
        start, n_rows, groups = start + n_rows, 0, []


def _arrow(path: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of an Arrow file, a slice at a time."""
    import pyarrow as pa

    with pa.memory_map(path) as source:
        file = pa.ipc.open_file(source)
        for number in range(file.num_record_batches):
            table = pa.Table.from_batches([file.get_batch(number)]).select(list(columns))
            for start in range(0, table.num_rows, SLICE_ROWS):
                yield table.slice(start, SLICE_ROWS)


# JSON lines


def _open_json(connection: Any, paths: Sequence[str]) -> tuple[Any, dict[str, str]]:
    """Return JSON files as DuckDB reads them, and what it calls each of their columns."""
    # Without the last option, records of 200 columns or more would be one column, of maps.
    relation = connection.sql(
        f"SELECT * FROM read_json([{_listed(paths)}], sample_size = -1, map_inference_threshold = -1)"
    )
    if relation.columns == ["json"]:
        raise DataError(f'{paths[0]!r} holds no records; each line must be an object such as {{"age": 30}}')
    names = dict(zip(relation.columns, relation.columns, strict=True))
    if any(re.search(r"_\d+$", name) for name in names):
        # Of keys that differ in case alone, DuckDB gives all but the first a number.
        keys = connection.sql(f"SELECT DISTINCT unnest(json_keys(json)) FROM read_json_objects([{_listed(paths)}])")
        known = {key for (key,) in keys.fetchall()}
        names = {name if name in known else re.sub(r"_\d+$", "", name): name for name in relation.columns}
        if set(names) != known:
            raise DataError(f"{paths[0]!r} has keys that differ in case and in a number alone: {shortlist(known)}")
    return relation, names


def _json_relation(connection: Any, files: FileSet, columns: Sequence[str]) -> tuple[Any, list[str]]:
    """Return some columns of JSON files as DuckDB reads them, in their order, and those that are numbers in text."""
    import duckdb

    if files.partition_names:
        raise FileFormatError(f"{files.name!r}: folders named {files.partition_names[0]}=… are not read for JSON")
    relation, names = _open_json(connection, files.paths)
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    numbers = [name for name in columns if types[names[name]] == "DOUBLE" and names[name] == name]
    if numbers:
        # As doubles, whole numbers beyond 2⁵³ would be one where there is a decimal among them.
        types |= dict.fromkeys(numbers, "VARCHAR")
        wanted = ", ".join(f"{_literal(name)}: {_literal(types[name])}" for name in relation.columns)
        relation = connection.sql(f"SELECT * FROM read_json([{_listed(files.paths)}], columns = {{{wanted}}})")

    def expression(name: str) -> Any:
        column = duckdb.SQLExpression('"' + names[name].replace('"', '""') + '"')
        if types[names[name]] != "JSON":
            return column
        # Cells of several types: text without its quotes, the others as they were written.
        text = duckdb.FunctionExpression("json_extract_string", column, duckdb.ConstantExpression("$"))
        return text.alias(names[name])

    return relation.select(*map(expression, columns)), numbers


def _with_numbers(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return a table in which some columns of text are the numbers that they are written as."""
    for name in names:
        column = type_column(table.column(name), frozenset(), None, {"number"})
        table = table.set_column(table.column_names.index(name), name, column.cast(column.type.value_type))
    return table


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(_literal(glob.escape(path)) for path in paths)


def _literal(text: str) -> str:
    """Return text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


# CSV and TSV


def text_relation(connection: Any, path: str, kind: str, columns: Sequence[str]) -> Any:
    """Return some columns of a text file, every cell as text, as DuckDB reads them: ``c0``, ``c1``, … in their order.

    The names are ours: of those in the file, DuckDB would take two that differ in case alone for one.
    """
    header = read_header(path, kind)
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
