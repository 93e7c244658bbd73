"""Tables of a database: their columns read as a stream of Arrow batches, or, where rows may not leave, counted inside.

To count inside, a statement groups rows by the labels as they are. What labels mean, which of them mean "missing" and
which are the same category, is decided here, by the gate that reads frames; so no label is ever part of a statement,
and the names of columns are quoted by ibis.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.coding import Unseen, numbers_in
from twoway.counting import all_sets, weight_step
from twoway.engines.connections import clear_errors
from twoway.engines.grouping import grouped, grouped_sets
from twoway.errors import DataError, UnknownNameError, unknown, whole_number
from twoway.missing import AnyMissing, MissingLabels
from twoway.reading import check_columns_of, check_options, match_columns
from twoway.records import Records
from twoway.schema import Schema
from twoway.table_layout import ranks_of, starts_of
from twoway.tables import Tables
from twoway.weighing import LEAST_WEIGHT, MOST_COUNT, MOST_WEIGHT, WeightTotals

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
        for what, column in self._numbers.items():
            if not self.table.schema()[column].is_numeric():
                raise DataError(f"record {what} must be numbers; column {column!r} holds {self._type(column)}")

    @property
    def _numbers(self) -> dict[str, str]:
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
        """Return the ibis table of the rows to count: columns c0, c1, …, and those of `_numbers`."""
        table = self.table
        if isinstance(self.where, str):
            table = _where(table, self.where)
        elif self.where is not None:
            table = table.filter(self.where)
        columns = {f"c{place}": table[name] for place, name in enumerate(self.names)}
        columns |= {what: table[column].cast("float64") for what, column in self._numbers.items()}
        return table.select(**columns)


def open_table(source: Any, order: int = 2) -> Records | Tables:
    """Return the records of a database table, or the tables of all pairs (or triples) where rows may not leave it."""
    table = source if isinstance(source, DatabaseTable) else DatabaseTable(source)
    return count_inside(table, order)[0] if table.is_counted_inside else read_rows(table)


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
        numbers = {what: [np.empty(0)] for what in table._numbers}
        for batch in _batches(backend, rows):
            for place, name in enumerate(names):
                coded = batch.column(place).dictionary_encode()
                labels[place] = pc.unique(pa.concat_arrays([labels[place], coded.dictionary]))
                _check_number_of_labels(table, name, len(labels[place]))
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
            missing=_labels(table).among(names),
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


def _check_number_of_labels(table: DatabaseTable, name: str, n_labels: int) -> None:
    if n_labels > table.max_categories:
        raise DataError(
            f"column {name!r} has more than {table.max_categories:,} distinct values: free text, measurements or "
            "an identifier? leave it out, or raise max_categories to take each value as a category"
        )


def count_inside(table: DatabaseTable, order: int = 2) -> tuple[Tables, int]:
    """Return the tables of all pairs (or triples) of a database table's columns, and the number of its records.

    The same, to the last digit, as counting the same rows in memory.
    """
    backend = table.table.get_backend()
    names = table.names
    with clear_errors(backend):
        rows = table.rows()
        schema, n_records, totals = table.schema, 0, WeightTotals()
        if schema is None or table._numbers:
            schema, n_records, totals = _survey(table, backend, rows)
        sets = all_sets(schema, order)
        step, square_step = weight_step(totals.total), weight_step(totals.squares)
        if table._numbers:
            weights = {"w": _steps(_row_weights(rows), 1.0 / step)}
            if totals.is_weighted:
                weights["s"] = _steps(_row_squares(rows), 1.0 / square_step)
            rows = rows.mutate(**weights).drop(*table._numbers)
        counts = _Accumulator(schema, sets)
        sizes = {f"c{place}": len(schema[name]) for place, name in enumerate(names)}
        sums = _add_up if table._numbers else _count_rows
        for wide in grouped_sets(backend, rows, sizes, order, sums, _add_up):
            squares = wide.column("s").to_numpy() if totals.is_weighted else None
            counts.add(_codes(table, schema, wide), wide.column("w").to_numpy(), squares)
            if not table._numbers:
                n_records = max(n_records, *wide.column("w").to_pylist())
    flat = counts.flat.astype(np.float64) * (step if table._numbers else 1.0)
    squares = counts.squares.astype(np.float64) * square_step if totals.is_weighted else None
    return Tables.of_counted(schema, sets, flat, squares, totals.largest if totals.is_weighted else 1.0), n_records


def _row_weights(rows: Any) -> Any:
    """Return what the people that a row stands for weigh together; weights that are refused weigh nothing."""
    import ibis

    if "weights" not in rows.columns:
        return rows.counts
    # PostgreSQL stops at a square that no float can hold.
    weights = ibis.ifelse((rows.weights >= LEAST_WEIGHT) & (rows.weights <= MOST_WEIGHT), rows.weights, 0.0)
    return rows.counts * weights if "counts" in rows.columns else weights


def _row_squares(rows: Any) -> Any:
    """Return the sum of the squared weights of the people that a row stands for, as `squares_of` computes it."""
    import ibis

    weights = _row_weights(rows)
    if "counts" not in rows.columns:
        return weights * weights
    return ibis.ifelse(rows.counts > 0, weights * (weights / rows.counts.nullif(0.0)), 0.0)


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


def _count_rows(rows: Any) -> Mapping[str, Any]:
    return {"w": rows.count()}


def _add_up(rows: Any) -> Mapping[str, Any]:
    return {name: rows[name].sum().cast("int64") for name in ("w", "s") if name in rows.columns}


def _survey(table: DatabaseTable, backend: Any, rows: Any) -> tuple[Schema, int, WeightTotals]:
    """Return categories, the number of records and what their weights add up to, from one query."""
    import ibis

    def sums(rows: Any) -> Mapping[str, Any]:
        found = {"w": rows.count()}
        for what in table._numbers:
            numbers = rows[what]
            smallest = numbers.nullif(0.0).min()
            # Beyond, all floats are whole numbers, and no database has integers for them.
            small = ibis.ifelse((numbers > -_MOST_WHOLE) & (numbers < _MOST_WHOLE), numbers, 0.0)
            found |= {f"{what}_known": numbers.count(), f"{what}_least": numbers.min(), f"{what}_most": numbers.max()}
            found |= {f"{what}_smallest": smallest, f"{what}_broken": (small != small.floor()).sum()}
        if table._numbers:
            found |= {"total": _row_weights(rows).sum(), "squares": _row_squares(rows).sum()}
        return found

    columns = [f"c{place}" for place in range(len(table.names))] if table.schema is None else []
    # Each column has one row more, for NULL. Beyond the limit, one of them has too many.
    most = len(columns) * (table.max_categories + 1) + 1
    wide = grouped(backend, rows, [(), *((name,) for name in columns)], sums, most + 1)
    for name, column in zip(table.names, columns, strict=False):
        _check_number_of_labels(table, name, len(wide) - wide.column(column).null_count)
    n_records = max(wide.column("w").to_pylist())
    totals = _check_weights(table, wide, n_records) if n_records and table._numbers else WeightTotals()
    schema = table.schema if table.schema is not None else _found(table, wide, n_records)
    return schema, n_records, totals


def _found(table: DatabaseTable, wide: Any, n_records: int) -> Schema:
    try:
        named = _named(table, wide)
        return Records(named, missing=_labels(table).among(named.column_names)).schema
    except DataError as error:
        # What is read here are labels.
        raise DataError(re.sub(r"in \d+ records", f"in {n_records} records", str(error))) from None


def _check_weights(table: DatabaseTable, wide: Any, n_records: int) -> WeightTotals:
    """Return what weights add up to, or raise where they cannot be counts or weights."""

    def numbers(column: str) -> list[Any]:
        return [number for number in wide.column(column).to_pylist() if number is not None]

    largest = smallest = 1.0
    is_whole = True
    for what, column in table._numbers.items():
        n_null = n_records - max(numbers(f"{what}_known"))
        allowed = "finite and not negative" if what == "weights" else "whole numbers from 0 to 2**53"
        if n_null:
            raise DataError(f"record {what} must be {allowed}; column {column!r} has {n_null} of NULL")
        least, most = min(numbers(f"{what}_least")), max(numbers(f"{what}_most"))
        is_broken = bool(max(numbers(f"{what}_broken")))
        if not (least >= 0 and math.isfinite(most)) or (what == "counts" and (most > MOST_COUNT or is_broken)):
            raise DataError(f"record {what} must be {allowed}; column {column!r} has {least!r} to {most!r}")
        if what == "weights":
            smallest, largest = min(numbers(f"{what}_smallest"), default=math.inf), most
            is_whole = not is_broken
            if largest > MOST_WEIGHT or smallest < LEAST_WEIGHT:
                raise DataError(
                    f"record weights must be 0 or between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}; column {column!r} has "
                    f"{smallest!r} to {largest!r}"
                )
    totals = WeightTotals(
        max(numbers("total")), max(numbers("squares")), largest, smallest, table.weights is not None, is_whole
    )
    totals.check()
    return totals


def _steps(weight: Any, per_step: float) -> Any:
    """Return a weight in whole steps, halves to the even number, as numpy rounds."""
    import ibis

    exact = weight * ibis.literal(per_step, "float64")
    below = exact.floor().cast("int64")
    rest = exact - below.cast("float64")
    up = (rest > 0.5) | ((rest == 0.5) & (below % 2 == 1))
    return below + ibis.ifelse(up, 1, 0)


def _named(table: DatabaseTable, wide: Any) -> Any:
    """Return the labels of wide rows under their columns' own names."""
    import pyarrow as pa

    columns = {name: f"c{place}" for place, name in enumerate(table.names) if f"c{place}" in wide.column_names}
    return pa.table({name: wide.column(column) for name, column in columns.items()})


def _codes(table: DatabaseTable, schema: Schema, wide: Any) -> NDArray[np.int32]:
    """Return the positions of wide rows' categories, -1 where there is none; (n_rows, n_variables)."""
    named = _named(table, wide)
    if not named.num_columns:
        return np.full((len(wide), len(schema)), -1, dtype=np.int32)
    try:
        return Records(named, schema=schema, missing=_labels(table), unseen=table.unseen).codes()
    except UnknownNameError as error:
        if table.schema is None:
            raise DataError(f"the table was changed while it was counted; count it again ({error})") from None
        raise UnknownNameError(re.sub(r" \(record \d+\)", "", str(error))) from None


def _labels(table: DatabaseTable) -> MissingLabels:
    return MissingLabels.of(table.missing)


class _Accumulator:
    """Counts of all sets of variables, in whole numbers."""

    def __init__(self, schema: Schema, sets: NDArray[np.int32]) -> None:
        self._sizes = np.array(schema.sizes, dtype=np.int64)
        self._schema, self._order = schema, sets.shape[1]
        self._ranks = ranks_of(schema, sets)
        self._starts = starts_of(schema, sets)
        self.flat = np.zeros(int(self._starts[-1]), dtype=np.int64)
        self.squares = np.zeros(len(sets), dtype=np.int64)

    def add(
        self, codes: NDArray[np.int32], counts: NDArray[np.int64], squares: NDArray[np.int64] | None = None
    ) -> None:
        """Add the counts, and sums of squared weights, of wide rows that fill all variables of a set.

        A row that fills fewer belongs to a grouping in which a cell is missing; which one does not matter.
        """
        order = self._order
        full = np.flatnonzero((codes >= 0).sum(axis=1) == order)
        variables = np.nonzero(codes[full] >= 0)[1].reshape(-1, order)
        shown = codes[full[:, np.newaxis], variables].astype(np.int64)
        cells = np.zeros(len(full), dtype=np.int64)
        for place in range(order):
            cells = cells * self._sizes[variables[:, place]] + shown[:, place]
        table = np.searchsorted(self._ranks, ranks_of(self._schema, variables))
        np.add.at(self.flat, self._starts[table] + cells, counts[full])
        if squares is not None:
            np.add.at(self.squares, table, squares[full])
