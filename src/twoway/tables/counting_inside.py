"""Tables of pairs or triples that a database counts itself, where its rows may not leave it.

A statement groups rows by the labels as they are. Which of them mean "missing" and which are the same category is
decided here, by the gate that reads frames; so no label is ever part of a statement, and ibis quotes column names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Ints
from twoway.data.flat_counts import flat_ranks, flat_starts
from twoway.data.raw_columns import open_raw_columns
from twoway.data.records import Records
from twoway.data.scan import Scan
from twoway.data.sql.connections import connection_errors
from twoway.data.sql.database_table import DatabaseTable, database_table_errors
from twoway.data.sql.grouping import grouped, grouped_sets
from twoway.data.weights import LEAST_WEIGHT, MOST_COUNT, MOST_WEIGHT, WeightTotals
from twoway.errors import DataError, UnknownNameError
from twoway.lazy_imports import ibis, pa
from twoway.schema import Schema
from twoway.tables.counting import CountedSets, counting_step, sets_to_count
from twoway.tables.tables import Tables
from twoway.text import counted

_MOST_WHOLE = 2.0**60


def count_inside(table: DatabaseTable, order: int = 2) -> tuple[Tables, int]:
    """Return the tables of all pairs (or triples) of a database table's columns, and the number of its records.

    The same, to the last digit, as counting the same rows in memory.
    """
    backend = table.table.get_backend()
    has_numbers = bool(table.reader.number_columns)
    with connection_errors(backend):
        rows = _weighted_inside(table.rows()) if has_numbers else table.rows()
        schema, n_records, totals = table.schema, 0, WeightTotals()
        if schema is None or has_numbers:
            schema, n_records, totals = _survey_inside(table, backend, rows)
        sets = sets_to_count(schema, order)
        step, square_step = counting_step(totals.total), counting_step(totals.squares)
        sizes = {f"c{place}": len(schema[name]) for place, name in enumerate(table.names)}
        if has_numbers:
            weights = {"w": _weight_steps_inside(rows.weight, 1.0 / step)}
            if totals.is_weighted:
                weights["s"] = _weight_steps_inside(rows.square, 1.0 / square_step)
                weights["n"] = (rows.weight > 0).ifelse(rows.people, 0.0).cast("int64")
            rows = rows.select(*sizes, **weights)
        starts = flat_starts(schema, sets)
        counts = {name: np.zeros(int(starts[-1]), dtype=np.int64) for name in ("w", "n", "s")}
        sums = _add_up_inside if has_numbers else lambda rows: {"w": rows.count()}
        for wide in grouped_sets(backend, rows, sizes, order, sums, _add_up_inside):
            _add_groups_inside(schema, sets, counts, _codes_inside(table, schema, wide), wide)
            if not has_numbers:
                n_records = max(n_records, *wide.column("w").to_pylist())
    flat = counts["w"].astype(np.float64) * (step if has_numbers else 1.0)
    squares = bases = None
    if totals.is_weighted and len(sets):
        bases = np.stack([counts["n"].astype(np.float64), counts["s"] * square_step])
        squares = np.add.reduceat(counts["s"], starts[:-1]) * square_step
    heaviest = 1.0 if squares is None else totals.largest
    counted_sets = CountedSets(sets, flat, squares, bases)
    return Tables.of_counted(schema, counted_sets, heaviest, table.reader.number_columns), n_records


def _weighted_inside(rows: Any) -> Any:
    """Return rows with the number of people of each, what they weigh together, and the sum of their squared weights.

    Weights that are refused weigh nothing. Squares are what `squared_weights` computes.
    """
    people, each = (rows[what] if what in rows.columns else ibis.literal(1.0) for what in ("counts", "weights"))
    # PostgreSQL stops at a square that no float can hold.
    weight = people * ibis.ifelse((each >= LEAST_WEIGHT) & (each <= MOST_WEIGHT), each, 0.0)
    square = ibis.ifelse(people > 0, weight * (weight / people.nullif(0.0)), 0.0)
    return rows.mutate(weight=weight, square=square, people=people)


def _add_up_inside(rows: Any) -> Mapping[str, Any]:
    return {name: rows[name].sum().cast("int64") for name in ("w", "s", "n") if name in rows.columns}


def _survey_inside(table: DatabaseTable, backend: Any, rows: Any) -> tuple[Schema, int, WeightTotals]:
    """Return categories, the number of records and what their weights add up to, from one query."""

    def sums(rows: Any) -> Mapping[str, Any]:
        columns = {"w": rows.count()}
        for what in table.reader.number_columns:
            numbers = rows[what]
            smallest = numbers.nullif(0.0).min()
            # Beyond, all floats are whole numbers, and no database has integers for them.
            small = ibis.ifelse((numbers > -_MOST_WHOLE) & (numbers < _MOST_WHOLE), numbers, 0.0)
            columns |= {f"{what}_known": numbers.count(), f"{what}_least": numbers.min(), f"{what}_most": numbers.max()}
            columns |= {f"{what}_smallest": smallest, f"{what}_broken": (small != small.floor()).sum()}
        if table.reader.number_columns:
            columns |= {"total": rows.weight.sum(), "squares": rows.square.sum()}
        return columns

    variables = [f"c{place}" for place in range(len(table.names))] if table.schema is None else []
    # Each column has one row more, for NULL. Beyond the limit, one of them has too many.
    limit = None if table.max_categories is None else len(variables) * (table.max_categories + 1) + 2
    wide = grouped(backend, rows, [(), *((name,) for name in variables)], sums, limit)
    labels = open_raw_columns(_labels_inside(table, wide))
    scan = Scan.of(labels, table.reader.markers(labels.names), max_categories=table.max_categories)
    largest_group = int(np.argmax(wide.column("w").to_numpy()))
    (whole,) = wide.slice(largest_group, 1).to_pylist()
    scan.n_records = n_records = whole["w"]
    has_weights = n_records and table.reader.number_columns
    totals = _check_weights_inside(table, whole) if has_weights else WeightTotals()
    schema = table.schema if table.schema is not None else table.reader.found(scan, table.names)
    return schema, n_records, totals


def _check_weights_inside(table: DatabaseTable, whole: Mapping[str, Any]) -> WeightTotals:
    """Return what the weights of all rows add up to, or raise where they cannot be counts or weights."""
    largest = smallest = 1.0
    is_whole = True
    for what, column in table.reader.number_columns.items():
        allowed = "finite and not negative" if what == "weights" else "whole numbers from 0 to 2**53"
        if n_null := whole["w"] - whole[f"{what}_known"]:
            raise DataError(f"record {what} must be {allowed}; column {column!r} has NULL in {counted(n_null, 'row')}")
        least, most, is_broken = (whole[f"{what}_{name}"] for name in ("least", "most", "broken"))
        if not (least >= 0 and math.isfinite(most)) or (what == "counts" and (most > MOST_COUNT or is_broken)):
            raise DataError(f"record {what} must be {allowed}; column {column!r} has {least!r} to {most!r}")
        if what == "weights":
            smallest, largest, is_whole = whole[f"{what}_smallest"] or math.inf, most, not is_broken
            if largest > MOST_WEIGHT or smallest < LEAST_WEIGHT:
                raise DataError(
                    f"record weights must be 0 or between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}; column {column!r} has "
                    f"{smallest!r} to {largest!r}"
                )
    has_weights = table.weights is not None
    totals = WeightTotals(whole["total"], whole["squares"], largest, smallest, has_weights, is_whole)
    totals.check(whole["w"])
    return totals


def _weight_steps_inside(weight: Any, per_step: float) -> Any:
    """Return a weight in whole steps, halves to the even number, as numpy rounds."""
    exact = weight * ibis.literal(per_step, "float64")
    below = exact.floor().cast("int64")
    rest = exact - below.cast("float64")
    up = (rest > 0.5) | ((rest == 0.5) & (below % 2 == 1))
    return below + ibis.ifelse(up, 1, 0)


def _labels_inside(table: DatabaseTable, wide: Any) -> Any:
    """Return the labels of wide rows under the names of their columns."""
    columns = {name: f"c{place}" for place, name in enumerate(table.names) if f"c{place}" in wide.column_names}
    return pa.table({name: wide.column(column) for name, column in columns.items()})


def _codes_inside(table: DatabaseTable, schema: Schema, wide: Any) -> NDArray[np.int32]:
    """Return the positions of wide rows' categories, -1 where there is none; (n_rows, n_variables)."""
    labels = _labels_inside(table, wide)
    if not labels.num_columns:
        return np.full((len(wide), len(schema)), -1, dtype=np.int32)
    try:
        with database_table_errors():
            return Records(labels, missing=table.reader.missing, schema=schema, unseen=table.unseen).codes()
    except UnknownNameError as error:
        if table.schema is None:
            raise DataError(f"the table changed while it was counted; count it again ({error})") from None
        raise


def _add_groups_inside(
    schema: Schema, sets: NDArray[np.int32], counts: Mapping[str, Ints], codes: NDArray[np.int32], wide: Any
) -> None:
    """Add the counts, people and sums of squared weights of wide rows that fill all variables of a set.

    A row that fills fewer belongs to a grouping in which a cell is missing; which one does not matter.
    """
    order = sets.shape[1]
    full = np.flatnonzero((codes >= 0).sum(axis=1) == order)
    variables = np.nonzero(codes[full] >= 0)[1].reshape(-1, order)
    sizes, cells = np.array(schema.sizes), np.zeros(len(full), dtype=np.int64)
    for position in variables.T:
        cells = cells * sizes[position] + codes[full, position]
    tables = np.searchsorted(flat_ranks(schema, sets), flat_ranks(schema, variables))
    for name in counts.keys() & set(wide.column_names):
        np.add.at(counts[name], flat_starts(schema, sets)[tables] + cells, wide.column(name).to_numpy()[full])
