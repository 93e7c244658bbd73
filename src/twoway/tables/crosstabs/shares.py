"""Overall shares of a variable, with which row or column percentages become joint shares."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twoway.arrays import Floats
from twoway.errors import DataError
from twoway.schema import Label, Schema
from twoway.tables.crosstabs.cells import parse_cell
from twoway.tables.crosstabs.labels import find_codes
from twoway.text import shortlist

NOMINAL_TOTAL = 1000.0
"""The number of records of a table where no table gives its own."""


@dataclass
class PublishedTable:
    """A table on its way to counts; the rows of a conditional one are distributions given its first variable."""

    name: str
    positions: tuple[int, int]
    values: Floats
    """Counts, or shares: of the whole, or of each row."""
    is_conditional: bool
    noise: float
    """The standard deviation of the rounding error of a share."""
    total: float | None = None
    weight: float | None = None
    shares: Floats | None = None
    """The overall distribution of the first variable, where the table itself gives it."""
    overall: Floats | None = None
    """The overall distribution of the second variable, where the table itself gives it."""
    joint: Floats | None = None


def nominal_total(tables: Iterable[PublishedTable]) -> float:
    """Return the number of records to assume for a table that does not give it."""
    known = [table.total for table in tables if table.total is not None]
    return float(statistics.median(known)) if known else NOMINAL_TOTAL


def read_margins(margins: Mapping[str, Mapping[Label, Any]] | None, schema: Schema) -> dict[int, Floats]:
    """Return the given distribution of each variable, by its position."""
    distributions = {}
    for name, share_of in (margins or {}).items():
        variable, where = schema[name], f"margins of {name!r}"
        codes = find_codes(schema, name, list(share_of), where)
        if len(codes) < len(variable):
            absent = [label for code, label in enumerate(variable.categories) if code not in codes]
            raise DataError(f"{where} lack {shortlist(absent)}; each category needs a share, even if it is 0")
        shares = np.zeros(len(codes))
        for code, (label, value) in zip(codes, share_of.items(), strict=True):
            try:
                shares[code] = parse_cell(value).value
            except ValueError as problem:
                raise DataError(
                    f"{where}, {label!r}: {value!r} {problem}; a share must be a number of 0 or more"
                ) from None
        if shares.sum() == 0:
            raise DataError(f"{where} are all zero; at least one must be positive")
        distributions[schema.index(name)] = shares / shares.sum()
    return distributions


def find_joints(
    tables: Sequence[PublishedTable], schema: Schema, margins: Mapping[int, Floats], notes: list[str]
) -> None:
    """Set the joint of every conditional table: rows times the overall shares of its first variable."""
    nominal = nominal_total(tables)
    shares: dict[int, Floats] = dict(margins)
    while pending := [table for table in tables if table.joint is None]:
        # A round uses what the round before knew, so that the order of the tables does not matter.
        known = {**_pooled_marginals(tables, nominal), **shares}
        for table in pending:
            own = known.get(table.positions[0]) if table.shares is None else table.shares
            table.joint = None if own is None else table.values * own[:, None]
        if any(table.joint is not None for table in pending):
            continue
        name = schema.names[pending[0].positions[0]]
        problem = DataError(
            f"table {pending[0].name} gives percentages for each {name!r}, but the overall shares of {name!r} are not "
            f"known; {_how_to_give(name)}"
        )
        for position in dict.fromkeys(table.positions[0] for table in pending):
            useful = [table for table in pending if table.positions[0] == position and table.overall is not None]
            try:
                if useful:
                    shares[position] = _solve_shares(useful, schema.names[position], notes)
            except DataError as error:
                # They may still follow from another variable's shares.
                problem = error
        if not any(table.positions[0] in shares for table in pending):
            raise problem


def _pooled_marginals(tables: Iterable[PublishedTable], nominal: float) -> dict[int, Floats]:
    sums: dict[int, Any] = {}
    for table in tables:
        if table.joint is not None:
            for axis, position in enumerate(table.positions):
                counts = table.joint.sum(axis=1 - axis) * (table.total or nominal)
                sums[position] = sums.get(position, 0.0) + counts
    return {position: counts / counts.sum() for position, counts in sums.items()}


def _solve_shares(tables: Sequence[PublishedTable], name: str, notes: list[str]) -> Floats:
    """Return the shares of a variable that mix its conditional distributions into the overall ones."""
    from scipy.optimize import nnls

    mixed = np.concatenate([table.values.T for table in tables])
    overall = np.concatenate([table.overall for table in tables if table.overall is not None])
    noise = max(table.noise for table in tables)
    values = np.linalg.svd(mixed, compute_uv=False)
    rank = int(np.count_nonzero(values > max(noise * np.sqrt(len(mixed)), 1e-10)))
    shown = shortlist((table.name for table in tables), 3)
    if rank < mixed.shape[1]:
        raise DataError(
            f"the overall shares of {name!r} do not follow from the totals of {shown}: the distributions given its "
            f"{mixed.shape[1]} categories span only {rank} dimensions there; {_how_to_give(name)}"
        )
    # Shares add up to one: a row heavy enough to hold, light enough not to drown the others.
    heavy = 100.0
    solved = nnls(np.vstack([mixed, np.full((1, mixed.shape[1]), heavy)]), np.append(overall, heavy))[0]
    spread = float(noise * np.sqrt(2 * np.diag(np.linalg.inv(mixed.T @ mixed))).max())
    notes.append(
        f"the overall shares of {name!r} were solved from the totals of {shown}; rounding makes them uncertain by "
        f"about {spread:.2g}"
    )
    return np.asarray(solved / solved.sum())


def _how_to_give(name: str) -> str:
    return (
        f"give margins={{{name!r}: {{category: share, …}}}}, a row or column 'Base' of counts, or a table of counts or "
        f"joint shares that has {name!r}"
    )
