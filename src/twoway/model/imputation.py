"""What belongs into the missing cells of records, given the observed ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.data.frames import Fill, label_array
from twoway.data.records import Records
from twoway.errors import unknown, warn_caller, whole_number
from twoway.model.mixture import draw_codes
from twoway.model.posterior import posterior_of
from twoway.schema import Variable
from twoway.text import shortlist

How: TypeAlias = Literal["mode", "mean", "sample"]

# A block's cells by its categories are worked off in pieces of about this many numbers.
_CHUNK = 2**20


def fills(
    records: Records,
    weights: Floats,
    stacked: Floats,
    indices: Sequence[int],
    how: How,
    seed: int | Sequence[int],
    *,
    warn: bool = True,
) -> dict[str, Fill]:
    """Return the missing rows of some variables, and a label or a mean for each.

    Nothing is known about the missing cells of a record that is impossible under the model: they are left out.

    Parameters
    ----------
    records
        The records; a block of them is looked at at a time.
    weights, stacked
        The mixture, shapes (rank,) and (schema.n_categories, rank).
    indices
        The positions of the variables to fill.
    how
        "mode", "mean" or "sample".
    seed
        Where the draws of "sample" start from.
    warn
        Whether to warn of impossible records.
    """
    if how not in get_args(How):
        raise unknown("way to impute", how, get_args(How))
    schema = records.schema
    seeds = [whole_number("seed", one, 0) for one in (seed if isinstance(seed, Sequence) else [seed])]
    rng = np.random.default_rng(seeds[0] if len(seeds) == 1 else seeds)
    rows: dict[int, list[NDArray[np.int64]]] = {index: [] for index in indices}
    values: dict[int, list[NDArray[Any]]] = {index: [] for index in indices}
    impossible: list[NDArray[np.int64]] = []
    first = 0
    for block in records.blocks():
        missing = Records.from_cells(schema, block.pointers, block.cells).codes() < 0
        memberships, log_prob = posterior_of(block, weights, stacked)
        impossible.append(np.flatnonzero((log_prob == -np.inf) & missing[:, indices].any(axis=1)) + first)
        missing[log_prob == -np.inf] = False
        components = _draw_each(memberships, rng) if how == "sample" else None
        for index in indices:
            holes = np.flatnonzero(missing[:, index])
            if len(holes) == 0:
                continue
            factor = stacked[schema.cells(index)]
            rows[index].append(holes + first)
            if components is not None:
                values[index].append(draw_codes(factor, components[holes], rng))
            elif how == "mean" and (numbers := schema.variables[index].values) is not None:
                values[index].append(memberships[holes] @ (factor.T @ np.array(numbers)))
            else:
                values[index].append(_likeliest(memberships, holes, factor))
        first += len(missing)
    if warn:
        warn_of_impossible(np.concatenate(impossible) if impossible else np.empty(0, dtype=np.int64))
    return {
        schema.names[index]: (
            np.concatenate(rows[index]),
            _labels(schema.variables[index], np.concatenate(values[index])),
        )
        for index in indices
        if rows[index]
    }


def hole_shares(
    records: Records, weights: Floats, stacked: Floats, indices: Sequence[int]
) -> Iterator[tuple[int, NDArray[np.int64], Floats]]:
    """Yield, a block and a variable at a time, the rows where it is missing and what could be there.

    Each is the variable's position, rows (n_holes,) and Pr(category | the record), shape (n_holes, n_categories), NaN
    where the record is impossible under the model.
    """
    first = 0
    for block in records.blocks():
        missing = Records.from_cells(records.schema, block.pointers, block.cells).codes() < 0
        memberships, log_prob = posterior_of(block, weights, stacked)
        memberships[log_prob == -np.inf] = np.nan
        for index in indices:
            holes = np.flatnonzero(missing[:, index])
            if len(holes):
                yield index, holes + first, memberships[holes] @ stacked[records.schema.cells(index)].T
        first += len(missing)


def warn_of_impossible(rows: NDArray[np.int64], then: str = "missing cells stay missing") -> None:
    """Warn of records, by number from 0, to which a model gives no probability at all."""
    if len(rows):
        warn_caller(
            f"{len(rows)} {'record is' if len(rows) == 1 else 'records are'} impossible under the model, which gives "
            f"probability 0 to what is observed; {then}: {shortlist(rows.tolist(), 5)}, counted from 0"
        )


def _labels(variable: Variable, values: NDArray[Any]) -> NDArray[Any]:
    """Return the labels of codes; means are what they are."""
    return label_array(variable.categories)[values] if values.dtype.kind in "iu" else values


def _likeliest(memberships: Floats, holes: NDArray[np.int64], factor: Floats) -> NDArray[Any]:
    codes = np.empty(len(holes), dtype=np.int64)
    step = max(1, _CHUNK // len(factor))
    for start in range(0, len(holes), step):
        part = slice(start, start + step)
        codes[part] = (memberships[holes[part]] @ factor.T).argmax(axis=1)
    return codes


def _draw_each(memberships: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return one component for each record, drawn by its own memberships."""
    cumulative = np.cumsum(memberships, axis=1)
    uniform = rng.random(len(memberships)) * cumulative[:, -1]
    # The first component whose cumulated share exceeds the number: never one of share 0. A product that
    # rounds up to the whole belongs to the last component that has any share.
    drawn = (cumulative <= uniform[:, np.newaxis]).sum(axis=1, dtype=np.int64)
    last = memberships.shape[1] - 1 - (memberships[:, ::-1] > 0).argmax(axis=1)
    result: NDArray[np.int64] = np.minimum(drawn, last)
    return result
