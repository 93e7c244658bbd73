"""Published tables in a file: what its header says, and its arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.schema import Schema
from twoway.tables.published.table import PublishedMean, PublishedTable

if TYPE_CHECKING:
    from twoway.tables.published.tables import PublishedTables

# What the header says of each table, in this order.
_FIELDS = ("variables", "categories", "given", "within", "weight", "totals", "name", "notes", "rounded_to")


def packed_tables(published: PublishedTables) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a file."""
    header: dict[str, Any] = {
        "schema": published.schema.to_dict(),
        "tables": [
            {name: getattr(table, name) for name in _FIELDS}
            | {"within": [*table.within.items()], "totals": [*table.totals]}
            for table in published.tables
        ],
        "means": [(m.variable, m.mean, m.people, [*m.within.items()]) for m in published.means],
        "groups": [(name, [*own.items()]) for name, own in published.groups.items()],
        "impossible": [[*rule.items()] for rule in published.impossible],
        "exact": published.exact,
        "notes": published.reading_notes,
    }
    # One array for all tables: a file of many tables would have too many arrays, and some too many axes.
    arrays = {what: _packed(getattr(table, what) for table in published.tables) for what in ("counts", "low", "high")}
    arrays["totals"] = _packed(own for table in published.tables for own in table.totals.values())
    return header, arrays


def _packed(parts: Iterable[Floats]) -> Floats:
    return np.concatenate([np.zeros(0), *(np.ravel(part) for part in parts)])


def unpacked_tables(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the fields of the `PublishedTables` in a file."""
    tables = [{name: _tuples(own[name]) for name in _FIELDS} for own in header["tables"]]
    shapes = [tuple(map(len, own["categories"])) for own in tables]
    for what in ("counts", "low", "high"):
        for own, numbers in zip(tables, _unpacked(arrays[what], shapes), strict=True):
            own[what] = numbers
    of_totals = [[s[axis] for axis in axes] for own, s in zip(tables, shapes, strict=True) for axes in own["totals"]]
    totals = iter(_unpacked(arrays["totals"], of_totals))
    for own in tables:
        own |= {"within": dict(own["within"]), "totals": {axes: next(totals) for axes in own["totals"]}}
    return {
        "schema": Schema.from_dict(header["schema"]),
        "tables": tuple(PublishedTable(**own) for own in tables),
        "means": tuple(PublishedMean(v, float(m), float(n), dict(_tuples(w))) for v, m, n, w in header["means"]),
        "groups": {name: dict(own) for name, own in _tuples(header["groups"])},
        "impossible": tuple(map(dict, _tuples(header["impossible"]))),
        "exact": _tuples(header["exact"]),
        "reading_notes": tuple(map(str, header["notes"])),
    }


def _unpacked(flat: NDArray[Any], shapes: Sequence[Sequence[int]]) -> list[Floats]:
    """Return the numbers of tables one after the other, each in its shape; `ValueError` where they are not so many."""
    ends = np.cumsum([math.prod(shape) for shape in shapes], dtype=np.int64)
    *parts, rest = np.split(flat.astype(np.float64), ends)
    if rest.size:
        raise ValueError("its arrays have more numbers than its tables")
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _tuples(content: Any) -> Any:
    """Return the content of a header with tuples in place of lists."""
    return tuple(map(_tuples, content)) if isinstance(content, list) else content
