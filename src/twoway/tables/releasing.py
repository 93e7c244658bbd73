"""Tables with noise: nothing of the records goes into them but counts with noise.

Variables, categories, the tables there are, their order and the largest weight are known before a record is looked at.
All that is done to noisy counts afterwards, such as moving them to nonnegative ones, uses the noisy counts alone.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoway.errors import DataError
from twoway.schema import Schema
from twoway.tables.layout import ranks_of, starts_of
from twoway.tables.privacy import add_noise, nonnegative, plan_release
from twoway.text import shortlist

if TYPE_CHECKING:
    from twoway.tables.tables import Tables


class _Complete(NamedTuple):
    """All tables that were counted, in order, those without a single record among them."""

    sets: NDArray[np.int32]
    flat: NDArray[np.float64]
    starts: NDArray[np.int64]
    noise: NDArray[np.float64]


def release_tables(
    tables: Tables,
    epsilon: float,
    delta: float,
    max_weight: float | None = None,
    *,
    public_schema: bool = False,
    seed: int | None = None,
) -> Tables:
    """Return tables with noise; see `Tables.with_noise`."""
    _check_public(tables.schema, public_schema)
    complete = _with_empty(tables)
    release = plan_release(epsilon, delta, len(complete.sets), _largest_weight(tables.heaviest, max_weight))
    noisy = add_noise(complete.flat, release, seed)
    parts = [nonnegative(noisy[a:b]) for a, b in pairwise(complete.starts.tolist())]
    releases = (*tables.releases, release)
    return replace(
        tables,
        schema=Schema(tuple(variable.declared() for variable in tables.schema)),
        sets=complete.sets,
        flat=np.concatenate([np.zeros(0), *parts]),
        weights=np.array([release.effective(counts) for counts in parts]),
        notes=tuple(map(str, releases)),  # any other may tell something about the records
        releases=releases,
        heaviest=release.max_weight,
        noise=complete.noise + release.sigma**2,
        empty=tables.empty[:0],
    )


def _check_public(schema: Schema, is_public: bool) -> None:
    found = [variable.name for variable in schema if variable.is_found]
    if found and not is_public:
        raise DataError(
            f"the categories of {shortlist(found, 4)} were found in the data, or it is not known where they come from, "
            "and noise does not hide them: count records that were read by a schema, Records(…, schema=Schema(…)), or "
            "say public_schema=True if everybody may know them and which tables there are"
        )


def _largest_weight(heaviest: float | None, declared: float | None) -> float:
    """Return the weight to allow for: what the caller says, if no record is known to be heavier."""
    if declared is None and heaviest not in (0.0, 1.0):
        why = "nobody knows the weights of these records" if heaviest is None else "these records have weights"
        raise DataError(f"{why}: give max_weight, the largest that one can have")
    allowed = 1.0 if declared is None else declared
    if heaviest is not None and isinstance(allowed, int | float) and heaviest > allowed * (1 + 1e-9):
        raise DataError(f"a record weighs {heaviest:g}, more than max_weight, {allowed:g}, allows for")
    return allowed


def _with_empty(tables: Tables) -> _Complete:
    """Return all tables that were counted, those without a record with zeros."""
    sets = np.vstack([tables.sets, tables.empty])
    order = np.argsort(ranks_of(tables.schema, sets))
    starts = starts_of(tables.schema, sets[order])
    flat = np.zeros(int(starts[-1]))
    flat[np.repeat(order < len(tables), np.diff(starts))] = tables.flat
    # A table that a release left without a count has the noise of the release all the same.
    before = np.full(len(tables.empty), sum(release.sigma**2 for release in tables.releases))
    return _Complete(sets[order], flat, starts, np.concatenate([tables.noise, before])[order])
