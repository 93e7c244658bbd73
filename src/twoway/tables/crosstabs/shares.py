"""Overall shares that tables of row or column percentages need to become joint ones, from wherever they are."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.errors import DataError
from twoway.schema import Label, Schema
from twoway.tables.crosstabs.cells import parse_cell
from twoway.tables.crosstabs.labels import Labels
from twoway.text import shortlist

NOMINAL_TOTAL = 1000.0
"""How many records a table counts as where no table says how many it rests on."""


@dataclass
class PublishedTable:
    """A table on its way to counts; the rows of a conditional one are distributions given its first variable."""

    name: str
    positions: tuple[int, int]
    values: NDArray[np.float64]
    """Counts, or shares: of the whole, or of each row."""
    is_conditional: bool
    noise: float
    """What rounding may have done to a share, as a standard deviation."""
    total: float | None = None
    weight: float | None = None
    shares: NDArray[np.float64] | None = None
    """The overall distribution of the first variable, where the table itself gives it."""
    overall: NDArray[np.float64] | None = None
    """The overall distribution of the second variable, where the table itself gives it."""
    joint: NDArray[np.float64] | None = None


def nominal_total(tables: Iterable[PublishedTable]) -> float:
    """Return how many records a table counts as that does not say how many it rests on."""
    known = [table.total for table in tables if table.total is not None]
    return float(statistics.median(known)) if known else NOMINAL_TOTAL


def read_margins(margins: Mapping[str, Mapping[Label, Any]] | None, labels: Labels) -> dict[int, NDArray[np.float64]]:
    """Return the distribution of each variable that margins are given for, by its position."""
    found = {}
    for name, given in (margins or {}).items():
        position = labels.schema.index(name)
        where = f"margins of {name!r}"
        codes = labels.codes(name, list(given.keys()), where)
        absent = [label for code, label in enumerate(labels.schema[name].categories) if code not in codes]
        if absent:
            raise DataError(f"{where} lack {shortlist(absent)}; each category needs a share, 0 too")
        shares = np.zeros(len(codes))
        for code, (label, value) in zip(codes, given.items(), strict=True):
            try:
                shares[code] = parse_cell(value).value
            except ValueError as problem:
                raise DataError(f"{where}, {label!r}: {value!r} {problem}; a share is a number of 0 or more") from None
        if shares.sum() == 0:
            raise DataError(f"{where} are all zero; at least one must be positive")
        found[position] = shares / shares.sum()
    return found


def find_joints(
    tables: Sequence[PublishedTable], schema: Schema, margins: Mapping[int, NDArray[np.float64]], notes: list[str]
) -> None:
    """Give every conditional table its joint: rows times the overall shares of its first variable."""
    nominal = nominal_total(tables)
    shares: dict[int, NDArray[np.float64]] = dict(margins)
    while pending := [table for table in tables if table.joint is None]:
        # A round uses what the round before knew, so that the order of the tables does not matter.
        known = {**_pooled_marginals(tables, nominal), **shares}
        ready = [table for table in pending if table.shares is not None or table.positions[0] in known]
        for table in ready:
            own = known[table.positions[0]] if table.shares is None else table.shares
            table.joint = table.values * own[:, None]
        if ready:
            continue
        problem = _no_shares(schema.variables[pending[0].positions[0]].name, pending[0].name)
        for position in dict.fromkeys(table.positions[0] for table in pending):
            given = [table for table in pending if table.positions[0] == position and table.overall is not None]
            try:
                if given:
                    shares[position] = _solve_shares(given, schema.variables[position].name, notes)
            except DataError as error:
                # It may yet follow from another variable's shares.
                problem = error
        if not any(table.positions[0] in shares for table in pending):
            raise problem


def _pooled_marginals(tables: Iterable[PublishedTable], nominal: float) -> dict[int, NDArray[np.float64]]:
    sums: dict[int, Any] = {}
    for table in tables:
        if table.joint is not None:
            for axis in (0, 1):
                counts = table.joint.sum(axis=1 - axis) * (table.total or nominal)
                sums[table.positions[axis]] = sums.get(table.positions[axis], 0.0) + counts
    return {position: counts / counts.sum() for position, counts in sums.items()}


def _solve_shares(tables: Sequence[PublishedTable], name: str, notes: list[str]) -> NDArray[np.float64]:
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
            f"the overall shares of {name!r} do not follow from the totals of {shown}: its {mixed.shape[1]} "
            f"categories differ in only {rank} ways there; {_how_to_give(name)}"
        )
    # Shares add up to one: a row heavy enough to hold, light enough not to drown the others.
    heavy = 100.0
    solved = nnls(np.vstack([mixed, np.full((1, mixed.shape[1]), heavy)]), np.append(overall, heavy))[0]
    spread = float(noise * np.sqrt(2 * np.diag(np.linalg.inv(mixed.T @ mixed))).max())
    notes.append(
        f"the overall shares of {name!r} were solved from the totals of {shown}; rounding leaves them uncertain by "
        f"about {spread:.2g}"
    )
    return np.asarray(solved / solved.sum())


def _no_shares(name: str, table: str) -> DataError:
    return DataError(
        f"table {table} gives percentages for each {name!r}, and nothing gives the overall shares of "
        f"{name!r}; {_how_to_give(name)}"
    )


def _how_to_give(name: str) -> str:
    return (
        f"give margins={{{name!r}: {{category: share, …}}}}, a row or column 'Base' of counts, or a table of counts or "
        f"joint shares that has {name!r}"
    )
