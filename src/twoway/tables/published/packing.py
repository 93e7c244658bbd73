"""Published tables in a file: what its header says, and its arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.schema import Schema
from twoway.tables.published.numbers import Labels
from twoway.tables.published.table import PublishedMean, PublishedTable

if TYPE_CHECKING:
    from twoway.tables.published.tables import PublishedTables


def packed_tables(published: PublishedTables) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a file."""
    header: dict[str, Any] = {
        "schema": published.schema.to_dict(),
        "tables": [_packed_table(table) for table in published.tables],
        "means": [[m.variable, m.mean, m.people, _pack_labels(m.within)] for m in published.means],
        "groups": [[name, _pack_labels(own)] for name, own in published.groups.items()],
        "impossible": [_pack_labels(rule) for rule in published.impossible],
        "exact": [list(names) for names in published.exact],
        "notes": list(published.reading_notes),
    }
    # One array for all tables: a file of many tables would have too many arrays, and some too many axes.
    arrays = {what: _packed(getattr(table, what) for table in published.tables) for what in ("counts", "low", "high")}
    arrays["totals"] = _packed(own for table in published.tables for own in table.totals.values())
    return header, arrays


def _packed(parts: Iterable[Floats]) -> Floats:
    return np.concatenate([np.zeros(0), *(np.ravel(part) for part in parts)])


def unpacked_tables(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the fields of the `PublishedTables` in a file."""
    shapes = [[len(labels) for labels in own["categories"]] for own in header["tables"]]
    of_totals = [
        [s[axis] for axis in axes] for own, s in zip(header["tables"], shapes, strict=True) for axes in own["totals"]
    ]
    counts, low, high = (_unpacked(arrays[what], shapes) for what in ("counts", "low", "high"))
    totals = iter(_unpacked(arrays["totals"], of_totals))
    tables = tuple(_unpacked_table(*one, totals) for one in zip(header["tables"], counts, low, high, strict=True))
    return {
        "schema": Schema.from_dict(header["schema"]),
        "tables": tables,
        "means": tuple(PublishedMean(str(v), float(m), float(n), _unpack_labels(w)) for v, m, n, w in header["means"]),
        "groups": {str(name): _unpack_labels(own) for name, own in header["groups"]},
        "impossible": tuple(_unpack_labels(rule) for rule in header["impossible"]),
        "exact": tuple(tuple(map(str, names)) for names in header["exact"]),
        "reading_notes": tuple(map(str, header["notes"])),
    }


def _unpacked(flat: NDArray[Any], shapes: Sequence[Sequence[int]]) -> list[Floats]:
    """Return the numbers of tables one after the other, each in its shape; `ValueError` where they are not so many."""
    ends = np.cumsum([math.prod(shape) for shape in shapes], dtype=np.int64)
    *parts, rest = np.split(flat.astype(np.float64), ends)
    if rest.size:
        raise ValueError("its arrays have more numbers than its tables")
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _pack_labels(named: Mapping[Any, Labels]) -> list[list[Any]]:
    return [[name, list(labels)] for name, labels in named.items()]


def _unpack_labels(pairs: Iterable[Any]) -> dict[Any, Labels]:
    return {name: tuple(labels) for name, labels in pairs}


def _packed_table(table: PublishedTable) -> dict[str, Any]:
    return {
        "variables": list(table.variables),
        "categories": [list(labels) for labels in table.categories],
        "given": list(table.given),
        "within": _pack_labels(table.within),
        "weight": table.weight,
        "totals": [list(axes) for axes in table.totals],
        "name": table.name,
        "notes": list(table.notes),
        "rounded_to": table.rounded_to,
    }


def _unpacked_table(
    header: Mapping[str, Any], counts: Floats, low: Floats, high: Floats, totals: Iterator[Floats]
) -> PublishedTable:
    return PublishedTable(
        tuple(map(str, header["variables"])),
        tuple(tuple(labels) for labels in header["categories"]),
        counts,
        low,
        high,
        given=tuple(map(str, header["given"])),
        within=_unpack_labels(header["within"]),
        weight=float(header["weight"]),
        totals={tuple(axes): next(totals) for axes in header["totals"]},
        name=str(header["name"]),
        notes=tuple(map(str, header["notes"])),
        rounded_to=float(header["rounded_to"]),
    )
