"""How tables lie in one array: the sets of variables that are counted, their cells, and where each table starts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.errors import DataError
from twoway.schema import Schema

# Of a table's total and weight: their squares can be added.
_LEAST_COUNT, _MOST_COUNT = 1e-150, 1e150


def starts_of(schema: Schema, sets: NDArray[Any]) -> NDArray[np.int64]:
    """Return where the counts of each set of variables start, and the end of the last; shape (n_sets + 1,).

    Examples
    --------
    >>> from twoway.schema import Variable
    >>> schema = Schema((Variable("a", (0, 1)), Variable("b", (0, 1, 2)), Variable("c", (0, 1))))
    >>> starts_of(schema, np.array([[0, 1], [0, 2], [1, 2]]))
    array([ 0,  6, 10, 16])
    """
    lengths = np.array(schema.sizes, dtype=np.int64)[sets].prod(axis=1)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def totals_of(flat: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum of each table's counts, shape (n_tables,)."""
    totals: NDArray[np.float64] = np.add.reduceat(flat, starts[:-1]) if len(starts) > 1 else np.zeros(0)
    return totals


def ranks_of(schema: Schema, sets: NDArray[Any]) -> NDArray[np.int64]:
    """Return one number for each set that sorts as the set does."""
    ranks: NDArray[np.int64] = sets.astype(np.int64) @ (len(schema) ** np.arange(sets.shape[1])[::-1])
    return ranks


def cells_of(
    schema: Schema, sets: NDArray[np.int32], starts: NDArray[np.int64], entries: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the cells, in the schema's numbering, that some entries count; shape (n_entries, order)."""
    table = np.searchsorted(starts, entries, side="right") - 1
    cells = np.empty((len(entries), sets.shape[1]), dtype=np.int64)
    sizes = np.array(schema.sizes, dtype=np.int64)
    rest = entries - starts[table]
    for axis in reversed(range(sets.shape[1])):
        variable = sets[table, axis]
        rest, code = np.divmod(rest, sizes[variable])
        cells[:, axis] = schema.offsets[variable] + code
    return cells


def without_sets(schema: Schema, sets: NDArray[Any], others: NDArray[Any]) -> NDArray[np.int32]:
    """Return sets in order, each once, without some others."""
    if sets.size and (
        sets.dtype.kind not in "iu" or sets.min() < 0 or sets.max() >= len(schema) or (np.diff(sets) <= 0).any()
    ):
        raise DataError("empty tables are sets of positions of variables, which ascend within a row")
    ranks, first = np.unique(ranks_of(schema, sets), return_index=True)
    return sets[first[~np.isin(ranks, ranks_of(schema, others))]].astype(np.int32)


# What is given


def check_sets(schema: Schema, given: Any) -> NDArray[np.int32]:
    """Return sets of variables as an array, or raise where they are not positions in order."""
    sets = np.array(given)
    if sets.size and sets.dtype.kind not in "iu":
        raise DataError(f"sets name variables by position, in whole numbers; got {sets.dtype}")
    if sets.ndim != 2 or sets.shape[1] not in (2, 3):
        raise DataError(f"sets must have the shape (n_tables, 2) or (n_tables, 3); got {sets.shape}")
    if sets.size and not (sets.min() >= 0 and sets.max() < len(schema)):
        raise DataError(
            f"sets name variables by position, from 0 to {len(schema) - 1}; got {sets.min()} to {sets.max()}"
        )
    # Not before they are known to be small: what is too large for the type would come out as another position.
    sets = sets.astype(np.int32)
    if (np.diff(sets, axis=1) <= 0).any() or (np.diff(ranks_of(schema, sets)) <= 0).any():
        raise DataError("sets must ascend within a row, and rows must be in lexicographic order, each there once")
    sizes = np.array(schema.sizes, dtype=np.int64)[sets]
    if sets.size and not sizes.prod(axis=1, dtype=np.float64).max() < 2.0**62:
        raise DataError("a table has more cells than can be counted")
    return sets


def check_counts(schema: Schema, sets: NDArray[np.int32], flat: NDArray[np.float64], starts: NDArray[np.int64]) -> None:
    """Raise where there are not as many counts as cells, or one of them is not a number that counts."""
    if flat.shape != (starts[-1],):
        raise DataError(f"the tables have {starts[-1]} cells together; got counts of the shape {flat.shape}")
    bad = np.flatnonzero(~((flat >= 0) & (flat <= _MOST_COUNT)))
    if bad.size:
        (cells,) = cells_of(schema, sets, starts, bad[:1])
        table = int(np.searchsorted(starts, bad[0], side="right")) - 1
        variables = [schema.variables[position] for position in sets[table]]
        codes = cells - schema.offsets[sets[table]]
        cell = ", ".join(f"{v.name!r} = {v.categories[code]!r}" for v, code in zip(variables, codes, strict=True))
        allowed = f"at most {_MOST_COUNT:g}" if _MOST_COUNT < flat[bad[0]] < np.inf else "a number of 0 or more"
        raise DataError(f"a count must be {allowed}; at {cell} it is {flat[bad[0]]}")


def check_size(schema: Schema, sets: NDArray[np.int32], what: str, numbers: NDArray[np.float64]) -> None:
    """Raise where a table's total or weight is too small or too large to be squared."""
    wrong = np.flatnonzero(~((numbers >= _LEAST_COUNT) & (numbers <= _MOST_COUNT)))
    if wrong.size:
        names = " × ".join(repr(schema.names[position]) for position in sets[wrong[0]])
        raise DataError(
            f"a table's {what} must be between {_LEAST_COUNT:g} and {_MOST_COUNT:g}; that of {names} is "
            f"{float(numbers[wrong[0]])!r}"
        )
