"""Tables that disagree about a variable: its shares differ by more than rounding and chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twoway.tables.tables import Tables
from twoway.text import printable

_SIGNIFICANT = 0.01
# Variables that are named; of the others, the number.
_MOST_NAMED = 3


def disagreements(tables: Tables) -> list[str]:
    """Return a sentence for each variable of which tables have other shares than chance and rounding explain.

    Each names the category and the two tables that are furthest apart. Tables are taken for independent samples of
    their effective numbers of records; tables of the same records differ less than that.

    Examples
    --------
    >>> import pandas as pd
    >>> age = pd.DataFrame({"young": [500, 510], "old": [510, 480]}, index=["men", "women"])
    >>> vote = pd.DataFrame({"no": [980, 500], "yes": [1010, 480]}, index=["men", "women"])
    >>> tables = Tables.from_crosstabs({("sex", "age"): age, ("sex", "vote"): vote})
    >>> print(disagreements(tables)[0])
    tables disagree about sex: men is 50.50% of sex × age and 67.00% of sex × vote; chance and rounding explain less
    """
    from scipy.special import ndtri

    cells, table, shares = _margins(tables)
    if not len(cells):
        return []
    weights, roundings = tables.weights[table], _roundings(tables)[table]
    n_categories = tables.schema.n_categories
    seen = np.bincount(cells, weights, n_categories)
    pooled = np.bincount(cells, weights * shares, n_categories) / np.maximum(seen, 1e-300)
    spread = np.sqrt(np.maximum(pooled * (1.0 - pooled), 0.0))[cells]
    # In standard errors, from the share in all tables; rounding can do no more than move it by its own size.
    off = shares - pooled[cells]
    off = np.sign(off) * np.maximum(np.abs(off) - roundings, 0.0) * np.sqrt(weights)
    order = np.lexsort((off, cells))
    first = np.flatnonzero(np.diff(cells[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    low, high = order[first], order[last]
    gaps = shares[high] - shares[low] - roundings[high] - roundings[low]
    errors = spread[low] * np.sqrt(1.0 / weights[low] + 1.0 / weights[high])
    n_compared = float((np.bincount(cells, minlength=n_categories) ** 2).sum())
    suspected = np.flatnonzero(gaps > -ndtri(_SIGNIFICANT / n_compared) * errors + 1e-9)
    deviates = gaps[suspected] / np.maximum(errors[suspected], 1e-300)
    variables = np.searchsorted(tables.schema.offsets, cells[low[suspected]], side="right") - 1
    sentences: list[str] = []
    named: set[int] = set()
    # Rounded, so that the first of two categories is named that are equally far apart.
    for place in np.argsort(-deviates.round(6), kind="stable").tolist():
        variable = int(variables[place])
        if variable not in named and len(named) < _MOST_NAMED:
            cell = int(cells[low[suspected[place]]])
            ends = [low[suspected[place]], high[suspected[place]]]
            sentences.append(_sentence(tables, variable, cell, table[ends], shares[ends]))
        named.add(variable)
    if len(named) > _MOST_NAMED:
        sentences.append(f"tables disagree about {len(named) - _MOST_NAMED} more variables")
    return sentences


def _margins(tables: Tables) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return cells, tables that count them, and their shares in these; each of shape (n_margins,)."""
    n_tables, n_categories = len(tables), tables.schema.n_categories
    table = np.repeat(np.arange(n_tables), np.diff(tables.starts))
    of_cells = tables.cells(np.arange(len(tables.flat)))
    keys, counts = [], []
    for axis in range(tables.order):
        key, place = np.unique(table * n_categories + of_cells[:, axis], return_inverse=True)
        keys.append(key)
        counts.append(np.bincount(place, tables.flat))
    key = np.concatenate([np.zeros(0, dtype=np.int64), *keys])
    table = key // n_categories if n_categories else key
    return key - table * n_categories, table, np.concatenate([np.zeros(0), *counts]) / tables.totals[table]


def _roundings(tables: Tables) -> NDArray[np.float64]:
    """Return by how much rounding can have moved a share in each table's margins, (n_tables,)."""
    if tables.heaviest is not None and not tables.releases:  # counted from records: neither published nor noisy
        return np.zeros(len(tables))
    sizes = np.array(tables.schema.sizes)[tables.sets]
    # As many cells add up to one of a margin.
    n_added = sizes.prod(axis=1) / sizes.min(axis=1)
    is_whole = np.logical_and.reduceat(tables.flat == np.rint(tables.flat), tables.starts[:-1])
    steps = np.ones(len(tables))
    for step in 10.0 ** np.arange(1, 7):
        scaled = tables.flat / step
        steps[np.logical_and.reduceat(scaled == np.rint(scaled), tables.starts[:-1])] = step
    # Counts are rounded to whole ones, tens or thousands; percentages, at worst, to whole ones.
    rounding: NDArray[np.float64] = np.where(is_whole, 0.5 * steps / tables.totals, 0.005) * n_added
    return rounding


def _sentence(tables: Tables, variable: int, cell: int, ends: NDArray[np.int64], shares: NDArray[np.float64]) -> str:
    name = printable(tables.schema.names[variable], 40)
    label = printable(tables.schema.variables[variable].categories[cell - tables.schema.offsets[variable]], 40)
    said = [
        f"{share:.2%} of {' × '.join(printable(one, 40) for one in tables.names[end])}"
        for end, share in zip(ends.tolist(), shares.tolist(), strict=True)
    ]
    return f"tables disagree about {name}: {label} is {said[0]} and {said[1]}; chance and rounding explain less"
