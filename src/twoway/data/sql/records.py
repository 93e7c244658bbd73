"""Tables of a database: their columns read as a stream of Arrow batches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twoway.data.coding import Unseen, numbers_in
from twoway.data.missing import AnyMissing, MissingLabels
from twoway.data.reading import check_columns_of, check_options, match_columns
from twoway.data.records import Records
from twoway.data.sql.connections import clear_errors
from twoway.errors import DataError, UnknownNameError, unknown, whole_number
from twoway.schema import Schema

_MOST_WHOLE = 2.0**60

MAX_CATEGORIES = 1000
"""More distinct values are rather identifiers or measurements, which would leave the database as rows do."""
_BATCH_ROWS = 2**16
_CLUSTERS = frozenset(["athena", "bigquery", "databricks", "pyspark", "snowflake", "trino"])


def is_database_table(source: object) -> bool:
    """Return whether a source is a table of ibis, or a `DatabaseTable`; ibis is not imported for that."""
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
    schema
        Variables and categories to read by. Found by one more query if not given.
    columns
        The columns to use, all by default.
    missing
        As for `Records`.
    counts
        The name of a column that says how many equal records each one stands for.
    weights
        The name of a column that says how much each record matters.
    where
        Which records to count: a condition of ibis, or text in the database's own SQL.
    unseen
        What a label that the schema does not have gets: "error", or "missing".
    max_categories
        Columns with more distinct values are an error.
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
    schema: Schema | None = None
    columns: Sequence[str] | None = None
    missing: AnyMissing = ()
    counts: str | None = None
    weights: str | None = None
    where: Any = None
    unseen: Unseen = "error"
    max_categories: int = MAX_CATEGORIES
    inside: bool | None = None

    def __post_init__(self) -> None:
        if isinstance(self.table, DatabaseTable) or not is_database_table(self.table):
            raise DataError(f"a DatabaseTable is made of a table of ibis, not of {type(self.table).__name__}")
        labels = check_options(self.schema, self.missing, self.unseen)
        object.__setattr__(self, "missing", labels)
        whole_number("max_categories", self.max_categories, 1)
        known = self.table.columns
        labels.check_columns([*known, *(() if self.schema is None else self.schema.names)])
        for name in self.columns or ():
            if name not in known:
                raise unknown("column", name, known)
        check_columns_of(known, self.counts, self.weights)
        for name in self.names:
            kind = self.table.schema()[name]
            if kind.is_nested() or kind.is_binary() or kind.is_json() or kind.is_geospatial():
                raise DataError(f"column {name!r} holds {kind}, which is no category; leave it out")
        for what, column in self.number_columns.items():
            if not self.table.schema()[column].is_numeric():
                raise DataError(f"record {what} must be numbers; column {column!r} holds {self._type(column)}")

    @property
    def number_columns(self) -> dict[str, str]:
        """The columns of counts and weights, where there are some."""
        named = {"counts": self.counts, "weights": self.weights}
        return {what: column for what, column in named.items() if column is not None}

    def _type(self, name: str) -> str:
        return str(self.table.schema()[name])

    @property
    def is_counted_inside(self) -> bool:
        """Whether the database counts."""
        return self.table.get_backend().name in _CLUSTERS if self.inside is None else self.inside

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to count, in the order of the schema if there is one."""
        chosen = self.table.columns if self.columns is None else self.columns
        names = [name for name in chosen if name not in (self.counts, self.weights)]
        if not names:
            raise DataError("the data has no columns; it needs at least one")
        return tuple(names if self.schema is None else match_columns(self.schema, names))

    def rows(self) -> Any:
        """Return the ibis table of the rows to count: columns c0, c1, …, and those of `number_columns`."""
        table = self.table
        if isinstance(self.where, str):
            table = _where(table, self.where)
        elif self.where is not None:
            table = table.filter(self.where)
        columns = {f"c{place}": table[name] for place, name in enumerate(self.names)}
        columns |= {what: table[column].cast("float64") for what, column in self.number_columns.items()}
        return table.select(**columns)


def read_rows(table: DatabaseTable) -> Records:
    """Return the rows of a database table, which come as a stream of Arrow batches and are coded as they come."""
    import pyarrow as pa
    import pyarrow.compute as pc

    backend, names = table.table.get_backend(), table.names
    index = pa.int16() if table.max_categories < 2**15 else pa.int32()
    with clear_errors(backend):
        rows = table.rows()
        types = rows.schema().to_pyarrow().types
        labels = [pa.array([], kind) for kind in types]
        columns: list[list[Any]] = [[] for _ in names]
        numbers = {what: [np.empty(0)] for what in table.number_columns}
        for batch in _batches(backend, rows):
            for place, name in enumerate(names):
                coded = batch.column(place).dictionary_encode()
                labels[place] = pc.unique(pa.concat_arrays([labels[place], coded.dictionary]))
                check_number_of_labels(table, name, len(labels[place]))
                codes = pc.index_in(coded.dictionary, value_set=labels[place]).cast(index).take(coded.indices)
                columns[place].append(codes)
            for what, parts in numbers.items():
                parts.append(numbers_in(batch.column(rows.columns.index(what)), what))
    coded_columns = {
        name: pa.chunked_array(
            [pa.DictionaryArray.from_arrays(chunk, labels[place]) for chunk in columns[place]],
            pa.dictionary(index, types[place]),
        )
        for place, name in enumerate(names)
    }
    try:
        return Records(
            pa.table(coded_columns),
            schema=table.schema,
            missing=MissingLabels.of(table.missing).among(names),
            unseen=table.unseen,
            counts=np.concatenate(numbers["counts"]) if "counts" in numbers else None,
            weights=np.concatenate(numbers["weights"]) if "weights" in numbers else None,
        )
    except UnknownNameError as error:  # rows of a database have no number
        raise UnknownNameError(re.sub(r" \(record \d+\)", "", str(error))) from None


def _batches(backend: Any, rows: Any) -> Iterator[Any]:
    if backend.name == "duckdb" and not hasattr(backend.con, "fetch_record_batch"):
        # ibis 12 asks DuckDB 2 for what it no longer has.
        yield from backend.to_pyarrow(rows).to_batches(max_chunksize=_BATCH_ROWS)
    else:
        yield from backend.to_pyarrow_batches(rows, chunk_size=_BATCH_ROWS)


def check_number_of_labels(table: DatabaseTable, name: str, n_labels: int) -> None:
    """Raise where a column has more distinct values than are allowed."""
    if n_labels > table.max_categories:
        raise DataError(
            f"column {name!r} has more than {table.max_categories:,} distinct values: free text, measurements or "
            "an identifier? leave it out, or raise max_categories to take each value as a category"
        )


def _where(table: Any, condition: str) -> Any:
    """Return the rows of an ibis table for which a condition in the database's SQL holds."""
    import sqlglot
    import sqlglot.expressions as sge

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
