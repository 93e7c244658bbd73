"""Tables of a database, counted where they are: SQL goes in, counts come out, not one row.

A statement groups rows by the labels as they are. What labels mean, which of them mean "missing" and which are the same
category, is decided here, by the gate that reads frames; so no label is ever part of a statement, and the names of
columns are quoted by ibis.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.coding import Unseen
from twoway.counting import all_sets, weight_step
from twoway.engines.connections import clear_errors
from twoway.engines.grouping import grouped, grouped_sets
from twoway.errors import DataError, UnknownNameError, unknown, whole_number
from twoway.reading import check_options, match_columns
from twoway.records import MISSING, Records
from twoway.schema import Schema
from twoway.tables import Tables

MAX_CATEGORIES = 1000
"""More distinct values are rather identifiers or measurements, which would leave the database as rows do."""


def is_database_table(source: object) -> bool:
    """Return whether a source is a table of ibis, or a `DatabaseTable`; ibis is not imported for that."""
    kind = type(source)
    return isinstance(source, DatabaseTable) or (kind.__module__.startswith("ibis.") and kind.__name__ == "Table")


@dataclass(frozen=True, eq=False)
class DatabaseTable:
    """A table of a database, and how to read it; `count` and `fit` leave its rows where they are.

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
        Labels that mean "not observed", beside NULL and NaN.
    weights
        The name of a column that says how many records each one stands for.
    where
        Which records to count: a condition of ibis, or text in the database's own SQL.
    unseen
        What a label that the schema does not have gets: "error", or "missing".
    max_categories
        Columns with more distinct values are an error.

    Examples
    --------
    >>> import ibis, pyarrow as pa
    >>> database = ibis.duckdb.connect()
    >>> survey = pa.table({"age": ["young", "old", "old"], "vote": ["no", "yes", None], "w": [1.0, 2.0, 3.0]})
    >>> table = database.create_table("survey", survey)
    >>> from twoway import count
    >>> count(DatabaseTable(table, weights="w", where="age <> 'young'"))
    <Tables: 1 pair of 2 variables, total 2>
    """

    table: Any
    schema: Schema | None = None
    columns: Sequence[str] | None = None
    missing: Iterable[object] = MISSING
    weights: str | None = None
    where: Any = None
    unseen: Unseen = "error"
    max_categories: int = MAX_CATEGORIES

    def __post_init__(self) -> None:
        if isinstance(self.table, DatabaseTable) or not is_database_table(self.table):
            raise DataError(f"a DatabaseTable is made of a table of ibis, not of {type(self.table).__name__}")
        check_options(self.schema, self.missing, self.unseen)
        whole_number("max_categories", self.max_categories, 1)
        known = self.table.columns
        for name in self.columns or ():
            if name not in known:
                raise unknown("column", name, known)
        if self.weights is not None and self.weights not in known:
            raise unknown("column", self.weights, known, where=" for the weights")
        for name in self.names:
            kind = self.table.schema()[name]
            if kind.is_nested() or kind.is_binary() or kind.is_json() or kind.is_geospatial():
                raise DataError(f"column {name!r} holds {kind}, which is no category; leave it out")
        if self.weights is not None and not self.table.schema()[self.weights].is_numeric():
            raise DataError(f"record weights must be numbers; column {self.weights!r} holds {self._type(self.weights)}")

    def _type(self, name: str) -> str:
        return str(self.table.schema()[name])

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to count, in the order of the schema if there is one."""
        chosen = self.table.columns if self.columns is None else self.columns
        names = [name for name in chosen if name != self.weights]
        if not names:
            raise DataError("the data has no columns; it needs at least one")
        return tuple(names if self.schema is None else match_columns(self.schema, names))

    def rows(self) -> Any:
        """Return the ibis table of the rows to count: columns c0, c1, …, and w for the weights."""
        table = self.table
        if isinstance(self.where, str):
            table = _where(table, self.where)
        elif self.where is not None:
            table = table.filter(self.where)
        columns = {f"c{place}": table[name] for place, name in enumerate(self.names)}
        if self.weights is not None:
            columns["w"] = table[self.weights].cast("float64")
        return table.select(**columns)


def count_inside(source: Any, order: int = 2) -> tuple[Tables, int]:
    """Return the tables of all pairs (or triples) of a database table's columns, and the number of its records.

    The same, to the last digit, as counting the same rows in memory.
    """
    table = source if isinstance(source, DatabaseTable) else DatabaseTable(source)
    backend = table.table.get_backend()
    names = table.names
    with clear_errors(backend):
        rows = table.rows()
        schema, n_records, step = table.schema, 0, 1.0
        if schema is None or table.weights is not None:
            schema, n_records, step = _survey(table, backend, rows)
        sets = all_sets(schema, order)
        if table.weights is not None:
            rows = rows.mutate(w=_steps(rows.w, 1.0 / step))
        counts = _Accumulator(schema, sets)
        sizes = {f"c{place}": len(schema[name]) for place, name in enumerate(names)}
        sums = _count_rows if table.weights is None else _add_up
        for wide in grouped_sets(backend, rows, sizes, order, sums, _add_up):
            counts.add(_codes(table, schema, wide), wide.column("w").to_numpy())
            if table.weights is None:
                n_records = max(n_records, *wide.column("w").to_pylist())
    return Tables(schema, sets, counts.flat.astype(np.float64) * step), n_records


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
    return {"w": rows.w.sum().cast("int64")}


def _survey(table: DatabaseTable, backend: Any, rows: Any) -> tuple[Schema, int, float]:
    """Return categories, the number of records and the step that weights are counted in, from one query."""

    def sums(rows: Any) -> Mapping[str, Any]:
        if table.weights is None:
            return _count_rows(rows)
        return {"w": rows.count(), "total": rows.w.sum(), "least": rows.w.min(), "known": rows.w.count()}

    columns = [f"c{place}" for place in range(len(table.names))] if table.schema is None else []
    # Each column has one row more, for NULL. Beyond the limit, one of them has too many.
    most = len(columns) * (table.max_categories + 1) + 1
    wide = grouped(backend, rows, [(), *((name,) for name in columns)], sums, most + 1)
    for name, column in zip(table.names, columns, strict=False):
        n_distinct = len(wide) - wide.column(column).null_count
        if n_distinct > table.max_categories:
            raise DataError(
                f"column {name!r} has more than {table.max_categories:,} distinct values: free text, measurements or "
                "an identifier? leave it out, or raise max_categories to take each value as a category"
            )
    n_records = max(wide.column("w").to_pylist())
    step = 1.0 if table.weights is None else _check_weights(table.weights, wide, n_records)
    schema = table.schema if table.schema is not None else _found(table, wide, n_records)
    return schema, n_records, step


def _found(table: DatabaseTable, wide: Any, n_records: int) -> Schema:
    try:
        return Records(_named(table, wide), missing=table.missing).schema
    except DataError as error:
        # What is read here are labels.
        raise DataError(re.sub(r"in \d+ records", f"in {n_records} records", str(error))) from None


def _check_weights(name: str, wide: Any, n_records: int) -> float:
    """Return the step that weights are counted in, or raise where they cannot be weights."""
    if not n_records:
        return 1.0

    def numbers(column: str) -> list[Any]:
        return [number for number in wide.column(column).to_pylist() if number is not None]

    n_null = n_records - max(numbers("known"))
    if n_null:
        raise DataError(f"record weights must be finite and not negative; column {name!r} has {n_null} of NULL")
    least, total = min(numbers("least")), max(numbers("total"))
    if not math.isfinite(sum(numbers("total"))) or not least >= 0:
        raise DataError(f"record weights must be finite and not negative; column {name!r} has {least!r} to {total!r}")
    if not 1e-250 < total < 1e250:
        raise DataError(f"record weights must not be all zero, and add up to less than 1e250; {name!r} has {total!r}")
    return weight_step(total)


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
        return Records(named, schema=schema, missing=table.missing, unseen=table.unseen).codes()
    except UnknownNameError as error:
        if table.schema is None:
            raise DataError(f"the table was changed while it was counted; count it again ({error})") from None
        raise UnknownNameError(re.sub(r" \(record \d+\)", "", str(error))) from None


class _Accumulator:
    """Counts of all sets of variables, in whole numbers."""

    def __init__(self, schema: Schema, sets: NDArray[np.int32]) -> None:
        self._sizes = np.array(schema.sizes, dtype=np.int64)
        self._places = len(schema) ** np.arange(sets.shape[1], dtype=np.int64)[::-1]
        self._ranks = sets.astype(np.int64) @ self._places
        lengths = self._sizes[sets].prod(axis=1)
        self._starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.flat = np.zeros(int(self._starts[-1]), dtype=np.int64)

    def add(self, codes: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
        """Add the counts of wide rows that fill all variables of a set.

        A row that fills fewer belongs to a grouping in which a cell is missing; which one does not matter.
        """
        order = len(self._places)
        full = np.flatnonzero((codes >= 0).sum(axis=1) == order)
        variables = np.nonzero(codes[full] >= 0)[1].reshape(-1, order)
        shown = codes[full[:, np.newaxis], variables].astype(np.int64)
        cells = np.zeros(len(full), dtype=np.int64)
        for place in range(order):
            cells = cells * self._sizes[variables[:, place]] + shown[:, place]
        table = np.searchsorted(self._ranks, variables @ self._places)
        np.add.at(self.flat, self._starts[table] + cells, counts[full])
