"""Sums of tables, and tables in the categories of another schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.data.merging import merge_schemas
from twoway.data.weights import effective_weights
from twoway.errors import DataError
from twoway.schema import Schema
from twoway.tables.layout import layout_ranks

if TYPE_CHECKING:
    from twoway.tables.tables import Tables

Entry = tuple[Sequence[int], Floats, float]
"""Positions of variables, counts with an axis for each, and the effective number of records."""

NO_PROMISE = "counts without noise were added to noisy ones; nothing is promised about their records"
"""The note of tables about whose records no release promises anything."""


def add_tables(one: Tables, other: Tables) -> Tables:
    """Return the sum of two sets of tables; a category that one side lacks counts as zero there, with a note."""
    if one.order != other.order:
        raise DataError(f"tables of {one.order} variables and tables of {other.order} cannot be added")
    notes, releases = (*one.notes, *other.notes), (*one.releases, *other.releases)
    # A release may have no count left because of its noise; still, what is added to it has none of its promise.
    if releases and any(len(part) and not part.releases for part in (one, other)):
        notes = (*notes, NO_PROMISE)
    schema = merge_schemas(one.schema, other.schema)
    if one.schema == other.schema and np.array_equal(one.sets, other.sets):
        weights = effective_weights(one.totals + other.totals, one.squares + other.squares)
        flat, noise, empty = one.flat + other.flat, one.noise + other.noise, np.vstack([one.empty, other.empty])
        return type(one)(schema, one.sets, flat, weights, notes, releases, _heaviest_of_sum([one, other]), noise, empty)
    lacking = [
        f"some of the tables that were added lack categories of {name!r}, which count as zero there"
        for name in one.schema.names
        if name in other.schema and min(len(one.schema[name]), len(other.schema[name])) < len(schema[name])
    ]
    return replace(sum_in_schema([one, other], schema), notes=(*notes, *lacking), releases=releases)


def sum_in_schema(parents: Sequence[Tables], schema: Schema) -> Tables:
    """Return the sum of tables in another schema, which has all categories of the variables that it shares with them.

    Weights, noise and empty tables are those of all parents; the rest is taken from the first.
    """
    first = parents[0]
    entries = (entry for parent in parents for entry in _entries_to_sum(parent, schema))
    sets, flat, weights = sum_entries(first.order, entries)
    ranks, noise, empty = layout_ranks(schema, sets), np.zeros(len(sets)), []
    for parent in parents:
        place_of = np.array([schema.index(name) if name in schema else -1 for name in parent.schema.names])
        counted, uncounted = (np.sort(place_of[some], axis=1) for some in (parent.sets, parent.empty))
        known = (counted >= 0).all(axis=1)
        np.add.at(noise, np.searchsorted(ranks, layout_ranks(schema, counted[known])), parent.noise[known])
        empty.append(uncounted[(uncounted >= 0).all(axis=1)])
    notes, releases, heaviest = first.notes, first.releases, _heaviest_of_sum(parents)
    return type(first)(schema, sets, flat, weights, notes, releases, heaviest, noise, np.vstack(empty))


def sum_entries(order: int, entries: Iterable[Entry]) -> tuple[NDArray[np.int32], Floats, Floats]:
    """Return sets, counts and weights of entries in any order, as `Tables` has them; the same set twice is added."""
    merged: dict[tuple[int, ...], tuple[Floats, float]] = {}
    for positions, counts, weight in entries:
        axes = np.argsort(positions)
        key = tuple(int(positions[axis]) for axis in axes)
        counts = counts.transpose(axes)
        if key in merged:
            before, weight_before = merged[key]
            totals = np.array([before.sum(), counts.sum()])
            # The effective number is (Σw)² / Σw², so that (Σw)² over it is Σw².
            squares = effective_weights(totals, np.array([weight_before, weight]))
            weight = float(effective_weights(totals.sum(keepdims=True), squares.sum(keepdims=True))[0])
            counts = before + counts
        merged[key] = counts, weight
    keys = sorted(merged)
    sets = np.array(keys, dtype=np.int32).reshape(-1, order)
    flat = np.concatenate([np.zeros(0), *(merged[key][0].ravel() for key in keys)])
    return sets, flat, np.array([merged[key][1] for key in keys])


def _entries_to_sum(tables: Tables, schema: Schema) -> Iterator[Entry]:
    """Yield the tables whose variables are all in another schema, with its categories."""
    places = {
        index: (schema.index(v.name), [schema[v.name].code(label) for label in v.categories])
        for index, v in enumerate(tables.schema)
        if v.name in schema
    }
    for index, row in enumerate(tables.sets.tolist()):
        if all(position in places for position in row):
            positions, codes = zip(*(places[position] for position in row), strict=True)
            counts = np.zeros([schema.sizes[position] for position in positions])
            counts[np.ix_(*codes)] = tables.array(index)
            yield positions, counts, float(tables.weights[index])


def _heaviest_of_sum(parents: Sequence[Tables]) -> float | None:
    """Return the largest weight of a record in any of some tables, None where one of them does not know."""
    known = [parent.heaviest for parent in parents if parent.heaviest is not None]
    return max(known) if len(known) == len(parents) else None
