"""Files of records, read into Arrow tables.

CSV, TSV and JSON lines are read by DuckDB. A text file says nothing of types, so every cell is read as text
first, and a column is one of numbers where each of its distinct labels is: ``007`` stays text, ``yes`` is no truth
value, and no cell far down can contradict a guess. Parquet and Arrow files have types of their own, categories and
their order included, which are kept.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from twoway.data.files.conditions import condition_columns, filter_table
from twoway.data.files.duck import clear_errors, connect
from twoway.data.files.file_set import FilePath, FileSet, find_files
from twoway.data.files.headers import read_header
from twoway.data.files.text_types import kinds_of, type_column
from twoway.data.missing import AnyMissing, MissingLabels
from twoway.errors import DataError, FileFormatError, unknown
from twoway.schema import Schema
from twoway.text import shortlist

if TYPE_CHECKING:
    import pyarrow as pa

    from twoway.data.coding import Unseen


def read_table(
    path: FilePath,
    columns: Sequence[str] | None = None,
    *,
    missing: AnyMissing = (),
    schema: Schema | None = None,
    where: str | None = None,
    unseen: Unseen = "error",
    untyped: Collection[str] = (),
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
        Labels that mean "not observed", as for `Records`; in a text file these cells come as null.
    schema
        Variables that columns stand for, which then decide whether ``1`` is a number or text.
    where
        A condition in SQL that the records meet.
    unseen
        What text gets in a text file among the numbers of a variable of the schema: an error, or "missing".
    untyped
        Variables of the schema that do not decide it.
    """
    import pyarrow as pa

    found = find_files(path)
    names = all_columns(found)
    labels = MissingLabels.of(missing)
    labels.check_columns([*names, *(() if schema is None else schema.names)])
    chosen = choose_columns(found, names, columns)
    read = list(dict.fromkeys([*chosen, *condition_columns(where, names)]))
    if found.kind == "json":
        with clear_errors(path), connect() as connection:
            relation, numbers = json_relation(connection, found, read)
            table = with_numbers(relation.to_arrow_table().rename_columns(read), numbers)
    else:
        texts = found.kind in ("csv", "tsv")
        parts = []
        for number, one in enumerate(found.paths):
            with clear_errors(one):
                inside = [name for name in read if name not in found.partition_names]
                part = _read_text(one, found.kind, inside) if texts else _read_typed(one, found.kind, inside)
                parts.append(found.with_partitions(number, part, read).select(read))
        if texts:
            more = further_kinds(found)
            known = {} if schema is None else {variable.name: variable for variable in schema}

            def column(name: str) -> Any:
                if name in found.partition_names:
                    return _column(parts, name)
                variable = None if name in untyped else known.get(name)
                texts = labels.texts(name, known.get(name))
                return type_column(_column(parts, name), texts, variable, kinds_of(variable) | more, unseen)

            table = pa.table({name: column(name) for name in read})
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
            return list(_open_json(connection, files.paths)[1])
    return read_header(path, files.kind).names


def choose_columns(files: FileSet, names: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """Return the columns to read, which every file must have, of the same kind, and no others if all are read."""
    known = set(names)
    for name in columns or ():
        if name not in known:
            raise unknown("column", name, names)
    chosen = list(names) if columns is None else list(columns)
    if len(files.paths) == 1 or files.kind == "json":
        return chosen
    inside = [name for name in chosen if name not in files.partition_names]
    first = files.paths[0]
    typed = files.kind in ("parquet", "arrow")
    for path in files.paths[1:]:
        with clear_errors(path):
            others = dict.fromkeys(file_columns(files, path))
        lacking = [name for name in inside if name not in others]
        extra = [name for name in others if name not in known] if columns is None else []
        if lacking or extra:
            told = f"lacks the column {lacking[0]!r}" if lacking else f"has a column {extra[0]!r}"
            raise DataError(
                f"{path!r} {told}, unlike {first!r}; files of one set have the same columns: {shortlist(inside)}"
            )
        if typed:
            _check_same_kinds(first, path, files.kind, inside)
    return chosen


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


def _open_json(connection: Any, paths: Sequence[str]) -> tuple[Any, dict[str, str]]:
    """Return JSON files as DuckDB reads them, and what it calls each of their columns."""
    listed = ", ".join(_literal(glob.escape(path)) for path in paths)
    # Without the last option, records of 200 columns or more would be one column, of maps.
    relation = connection.sql(f"SELECT * FROM read_json([{listed}], sample_size = -1, map_inference_threshold = -1)")
    if relation.columns == ["json"]:
        raise DataError(f'{paths[0]!r} holds no records; each line must be an object such as {{"age": 30}}')
    names = dict(zip(relation.columns, relation.columns, strict=True))
    if any(re.search(r"_\d+$", name) for name in names):
        # Of keys that differ in case alone, DuckDB gives all but the first a number.
        keys = connection.sql(f"SELECT DISTINCT unnest(json_keys(json)) FROM read_json_objects([{listed}])").fetchall()
        known = {key for (key,) in keys}
        names = {name if name in known else re.sub(r"_\d+$", "", name): name for name in relation.columns}
        if set(names) != known:
            raise DataError(f"{paths[0]!r} has keys that differ in case and in a number alone: {shortlist(known)}")
    return relation, names


def json_relation(connection: Any, files: FileSet, columns: Sequence[str]) -> tuple[Any, list[str]]:
    """Return some columns of JSON files as DuckDB reads them, in their order, and those that are numbers in text."""
    import duckdb

    if files.partition_names:
        raise FileFormatError(f"{files.name!r}: folders named {files.partition_names[0]}=… are not read for JSON")
    relation, names = _open_json(connection, files.paths)
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    numbers = [name for name in columns if types[names[name]] == "DOUBLE" and names[name] == name]
    if numbers:
        # As doubles, whole numbers beyond 2⁵³ would be one where a decimal stands among them.
        types |= dict.fromkeys(numbers, "VARCHAR")
        wanted = ", ".join(f"{_literal(name)}: {_literal(types[name])}" for name in relation.columns)
        listed = ", ".join(_literal(glob.escape(path)) for path in files.paths)
        relation = connection.sql(f"SELECT * FROM read_json([{listed}], columns = {{{wanted}}})")

    def expression(name: str) -> Any:
        column = duckdb.SQLExpression('"' + names[name].replace('"', '""') + '"')
        if types[names[name]] != "JSON":
            return column
        # Cells of several types: text without its quotes, the others as they were written.
        text = duckdb.FunctionExpression("json_extract_string", column, duckdb.ConstantExpression("$"))
        return text.alias(names[name])

    return relation.select(*map(expression, columns)), numbers


def with_numbers(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return a table in which some columns of text are the numbers that they are written as."""
    for name in names:
        column = type_column(table.column(name), frozenset(), None, {"number"})
        table = table.set_column(table.column_names.index(name), name, column.cast(column.type.value_type))
    return table


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
        return text_relation(connection, path, kind, columns).to_arrow_table().rename_columns(list(columns))


def further_kinds(files: FileSet) -> set[str]:
    """Return "comma" for text files in which ``2,5`` is a number: who parts columns by semicolons needs the comma."""
    return {"comma"} if read_header(files.paths[0], files.kind).delimiter == ";" else set()
