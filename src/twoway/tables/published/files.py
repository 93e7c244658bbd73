"""Published tables in a file: what its header says, and its arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoway.schema import Schema
from twoway.tables.published.numbers import Labels
from twoway.tables.published.table import PublishedMean, PublishedTable

if TYPE_CHECKING:
    from twoway.tables.published.tables import PublishedTables


def packed_tables(published: PublishedTables) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a file."""
    header: dict[str, Any] = {
        "schema": published.schema.to_dict(),
        "tables": [_table_header(table) for table in published.tables],
        "means": [[m.variable, m.mean, m.people, _pairs_of_labels(m.within)] for m in published.means],
        "groups": [[name, _pairs_of_labels(own)] for name, own in published.groups.items()],
        "impossible": [_pairs_of_labels(rule) for rule in published.impossible],
        "exact": [list(names) for names in published.exact],
        "notes": list(published.reading_notes),
    }
    arrays: dict[str, NDArray[Any]] = {}
    for number, table in enumerate(published.tables):
        arrays |= {f"{what}_{number}": np.array(getattr(table, what)) for what in ("counts", "low", "high")}
        arrays |= {f"total_{number}_{'_'.join(map(str, axes))}": np.array(own) for axes, own in table.totals.items()}
    return header, arrays


def unpacked_tables(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the fields of the `PublishedTables` in a file."""
    return {
        "schema": Schema.from_dict(header["schema"]),
        "tables": tuple(_table_of(own, number, arrays) for number, own in enumerate(header["tables"])),
        "means": tuple(PublishedMean(str(v), float(m), float(n), _labels_of(w)) for v, m, n, w in header["means"]),
        "groups": {str(name): _labels_of(own) for name, own in header["groups"]},
        "impossible": tuple(_labels_of(rule) for rule in header["impossible"]),
        "exact": tuple(tuple(map(str, names)) for names in header["exact"]),
        "reading_notes": tuple(map(str, header["notes"])),
    }


def _pairs_of_labels(named: Mapping[Any, Labels]) -> list[list[Any]]:
    return [[name, list(labels)] for name, labels in named.items()]


def _labels_of(pairs: Iterable[Any]) -> dict[Any, Labels]:
    return {name: tuple(labels) for name, labels in pairs}


def _table_header(table: PublishedTable) -> dict[str, Any]:
    return {
        "variables": list(table.variables),
        "categories": [list(labels) for labels in table.categories],
        "given": list(table.given),
        "within": _pairs_of_labels(table.within),
        "weight": table.weight,
        "totals": [list(axes) for axes in table.totals],
        "name": table.name,
        "notes": list(table.notes),
    }


def _table_of(header: Mapping[str, Any], number: int, arrays: Mapping[str, NDArray[Any]]) -> PublishedTable:
    totals = {tuple(axes): arrays[f"total_{number}_{'_'.join(map(str, axes))}"] for axes in header["totals"]}
    return PublishedTable(
        tuple(map(str, header["variables"])),
        tuple(tuple(labels) for labels in header["categories"]),
        arrays[f"counts_{number}"].astype(np.float64),
        arrays[f"low_{number}"].astype(np.float64),
        arrays[f"high_{number}"].astype(np.float64),
        tuple(map(str, header["given"])),
        _labels_of(header["within"]),
        float(header["weight"]),
        totals,
        str(header["name"]),
        tuple(map(str, header["notes"])),
    )
