"""Tables of a database: their columns read as a stream of Arrow batches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

from twoway.data.columns import Columns
from twoway.data.missing import AnyMissing, Unseen
from twoway.data.raw_columns import LabelsByKey, open_raw_columns
from twoway.data.reader import Reader, check_reader_columns, match_reader_columns
from twoway.data.records import Records
from twoway.data.scan import Scan
from twoway.data.sql.connections import connection_errors
from twoway.errors import DataError, UnknownNameError
from twoway.lazy_imports import pa, sge, sqlglot
from twoway.schema import Schema

MAX_CATEGORIES = 1000
"""More distinct values are likely identifiers or measurements, which would leave the database like rows."""
_BATCH_ROWS = 2**16
_CLUSTERS = frozenset(["athena", "bigquery", "databricks", "pyspark", "snowflake", "trino"])


def is_database_table(source: object) -> bool:
    """Return whether a source is a table of ibis, or a `DatabaseTable`, without an import of ibis."""
    kind = type(source)
    return isinstance(source, DatabaseTable) or (kind.__module__.startswith("ibis.") and kind.__name__ == "Table")


@dataclass(frozen=True, eq=False)
class DatabaseTable:
    """A table of a database, and how to read it.

    Its columns are read as a stream, and kept as labels' codes, two bytes for each cell. With ``inside=True`` the
    database counts, and not one row leaves it; `fit` then fits the tables of all pairs.

    Parameters
    ----------
    table
        A table of ibis, of any backend that speaks SQL: ``ibis.connect("postgres://…").table("survey")``, and all that
        ibis makes of it (joins, filters, new columns).
    columns
        The columns to use, all by default.
    where
        Which records to count: a condition of ibis, or text in the database's own SQL.
    missing
        As for `Records`.
    weights
        The name of a column that says how much each record matters.
    counts
        The name of a column that says how many equal records each one stands for.
    max_categories
        A column with more distinct values is an error.
    schema
        Variables and categories to read by. Found by one more query if not given.
    unseen
        What happens to a label that the schema does not have: "error", or "missing".
    inside
        Whether the database counts, so that no row leaves it. That takes several times as long as reading the columns,
        so by default only clusters of machines do (Spark, BigQuery, Snowflake, Databricks, Trino, Athena).

    Examples
    --------
    >>> import ibis, pyarrow as pa
    >>> database = ibis.duckdb.connect()
    >>> survey = pa.table({"age": ["young", "old", "old"], "vote": ["no", "yes", None], "w": [1.5, 2.0, 3.0]})
    >>> table = database.create_table("survey", survey)
    >>> from twoway import count
    >>> count(DatabaseTable(table, weights="w", where="age <> 'young'", inside=True))
    <Tables: 1 pair of 2 variables, total 2>
    >>> database.disconnect()
    """

    table: Any
    _: KW_ONLY
    columns: Sequence[str] | Columns | None = None
    where: Any = None
    missing: AnyMissing = ()
    weights: str | None = None
    counts: str | None = None
    max_categories: int | None = MAX_CATEGORIES
    schema: Schema | None = None
    unseen: Unseen = "error"
    inside: bool | None = None

    def __post_init__(self) -> None:
        if isinstance(self.table, DatabaseTable) or not is_database_table(self.table):
            raise DataError(f"a DatabaseTable needs an ibis table, not {type(self.table).__name__}")
        known, types = self.table.columns, self.table.schema()
        self.reader.missing.check_columns(known, self.schema)
        self.reader.declared.check(known)
        check_reader_columns(known, self.reader.counts, self.reader.weights)
        if self.reader.declared.columns and self.is_counted_inside:
            raise DataError("a database that counts takes labels as they are; declared columns need inside=False")
        for name in self.names:
            kind = types[name]
            if kind.is_nested() or kind.is_binary() or kind.is_json() or kind.is_geospatial():
                raise DataError(f"column {name!r} holds {kind}, which is not a category; leave it out")
        for what, column in self.reader.number_columns.items():
            if not types[column].is_numeric():
                raise DataError(f"record {what} must be numbers; column {column!r} holds {types[column]}")

    @cached_property
    def reader(self) -> Reader:
        """How the rows are read."""
        options = (self.missing, self.weights, self.counts, self.max_categories, self.schema, self.unseen)
        return Reader(*options, declared=Columns.of(self.columns))

    @property
    def is_counted_inside(self) -> bool:
        """Whether the database counts."""
        return self.table.get_backend().name in _CLUSTERS if self.inside is None else self.inside

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to count, in the order of the schema if there is one."""
        column_of = self.reader.column_of(self.reader.declared.only or self.table.columns)
        if not column_of:
            raise DataError("the data has no columns; it needs at least one")
        names = list(column_of) if self.schema is None else match_reader_columns(self.schema, list(column_of))
        return tuple(column_of[name] for name in names)

    def rows(self) -> Any:
        """Return the ibis table of the rows to count: columns c0, c1, …, and ``counts`` and ``weights``, if any."""
        table = self.table
        if isinstance(self.where, str):
            table = _database_table_where(table, self.where)
        elif self.where is not None:
            table = table.filter(self.where)
        columns = {f"c{place}": table[name] for place, name in enumerate(self.names)}
        columns |= {what: table[column].cast("float64") for what, column in self.reader.number_columns.items()}
        return table.select(**columns)


def read_database_table(table: DatabaseTable) -> Records:
    """Return the rows of a database table, which come as a stream of Arrow batches and are coded as they come."""
    backend, reader = table.table.get_backend(), table.reader
    names = [*table.names, *reader.number_columns.values()]
    index = pa.int16() if table.max_categories is not None and table.max_categories < 2**15 else pa.int32()
    scan, parts = Scan(), []
    known: dict[str, LabelsByKey] = {name: {} for name in reader.column_of(names)}
    with connection_errors(backend):
        rows = table.rows()
        types = pa.schema(list(zip(names, rows.schema().to_pyarrow().types, strict=True)))
        for batch in _database_table_batches(backend, rows):
            part = pa.Table.from_batches([batch]).rename_columns(names)
            columns = replace(open_raw_columns(part), start=scan.n_records)
            scan += reader.scan(*reader.split(columns), known=known)
            for place, name in enumerate(table.names):
                coded = part.column(name).dictionary_encode()
                part = part.set_column(place, name, coded.cast(pa.dictionary(index, types.field(name).type)))
            parts.append(part)
    with database_table_errors():
        records = Records(
            pa.concat_tables(parts) if parts else types.empty_table(),
            missing=reader.missing.among(names),
            weights=reader.weights,
            counts=reader.counts,
            schema=reader.found(scan, names) if table.schema is None else table.schema,
            unseen=table.unseen,
        )
    found = ((name, code) for name, codes in records.set_to_missing.items() for code in codes)
    reader.warn_of_unused(found, names, records.schema)
    return records


@contextmanager
def database_table_errors() -> Iterator[None]:
    """Leave the numbers of records out of errors: rows of a database have none."""
    try:
        yield
    except UnknownNameError as error:
        raise UnknownNameError(re.sub(r" \(record \d+\)", "", str(error))) from None


def _database_table_batches(backend: Any, rows: Any) -> Iterator[Any]:
    if backend.name == "duckdb" and not hasattr(backend.con, "fetch_record_batch"):
        # ibis 12 asks DuckDB 2 for what it no longer has.
        yield from backend.to_pyarrow(rows).to_batches(max_chunksize=_BATCH_ROWS)
    else:
        yield from backend.to_pyarrow_batches(rows, chunk_size=_BATCH_ROWS)


def _database_table_where(table: Any, condition: str) -> Any:
    """Return the rows of an ibis table for which a condition in the database's SQL holds."""
    backend = table.get_backend()
    try:
        # One condition and nothing else: neither a second statement nor a parenthesis that closes ours.
        parsed = sqlglot.parse_one(condition, dialect=backend.dialect, into=sge.Condition)
    except sqlglot.errors.SqlglotError:
        raise DataError(
            f"where must be one condition in the SQL of {backend.name}, such as age > 30; got {condition!r}"
        ) from None
    inner = sqlglot.parse_one(backend.compile(table), dialect=backend.dialect)
    outer = sqlglot.select("*").from_(sge.Subquery(this=inner, alias=sge.to_identifier("t"))).where(parsed)
    return backend.sql(outer.sql(dialect=backend.dialect), schema=table.schema())
