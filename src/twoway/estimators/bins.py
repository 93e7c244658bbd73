"""Continuous columns as intervals: found, cut, and read as categories."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from twoway.data.coding import dictionary_of
from twoway.data.columns import Columns
from twoway.data.missing import USUAL
from twoway.errors import DataError, unknown, whole_number
from twoway.schema import Variable, looks_continuous

Strategy: TypeAlias = Literal["quantile", "uniform"]

# Columns of more different whole numbers than this are put into intervals: few records are like any one of them.
MANY_WHOLE_NUMBERS = 40
# Digits of the numbers in labels, as few as tell them apart.
_DIGITS = (3, 4, 6, 9, 12, 17)


@dataclass(frozen=True)
class Bins:
    """The intervals of one continuous column.

    The first and the last one are open to the outside: a number beyond those seen belongs to them.
    """

    variable: Variable
    """The intervals as categories, with their centres as values: the mean of the numbers that fell into each."""
    edges: NDArray[np.float64]
    """(n_bins + 1,): the least number, where one interval ends and the next begins, which is its own, the greatest."""
    is_whole: bool
    """Whether all numbers were whole."""

    @property
    def labels(self) -> list[str]:
        """The intervals, as they are written."""
        return [str(label) for label in self.variable.categories]

    def codes(self, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the interval of each number, -1 for NaN."""
        found: NDArray[np.int64] = np.searchsorted(self.edges[1:-1], numbers, side="right")
        return np.where(np.isnan(numbers), -1, found)

    def centres(self, codes: NDArray[Any]) -> NDArray[np.float64]:
        """Return the centre of each interval asked for, NaN for -1."""
        found: NDArray[np.float64] = np.array([*(self.variable.values or ()), np.nan])[codes]
        return found

    def draw(self, labels: Iterable[Any], random: np.random.Generator | None) -> NDArray[np.float64]:
        """Return a number for each interval, by its label: one drawn from it, or its centre without ``random``."""
        codes = np.array([self.variable.code(label) for label in labels], dtype=np.int64)
        if random is None:
            centres = self.centres(codes)
            return np.rint(centres) if self.is_whole else centres
        if not self.is_whole:
            return random.uniform(self.edges[codes], self.edges[codes + 1])
        # The whole numbers of each interval; where the next one begins is not its own.
        least = np.ceil(self.edges[:-1])
        greatest = np.append(least[1:] - 1, self.edges[-1])
        drawn = np.floor(random.uniform(least[codes], greatest[codes] + 1))
        return np.asarray(np.minimum(drawn, greatest[codes]))


def make_bins(
    name: str,
    numbers: NDArray[np.float64],
    weights: NDArray[np.float64] | None = None,
    *,
    n_bins: int,
    strategy: Strategy,
) -> Bins:
    """Return the intervals of a column.

    Parameters
    ----------
    numbers, weights
        The column, NaN where missing, and how much each cell counts; both (n_records,).
    n_bins
        How many intervals at most; fewer where numbers repeat so often that some would be empty.
    strategy
        "quantile" for intervals of about as many numbers each, "uniform" for intervals of one width.
    """
    n_bins = whole_number("the number of bins", n_bins, 2)
    if strategy not in get_args(Strategy):
        raise unknown("strategy", strategy, get_args(Strategy))
    if np.isinf(numbers).any():
        raise DataError(f"column {name!r} holds an infinite number; numbers must be finite, or missing")
    seen = ~np.isnan(numbers)
    if weights is not None:
        seen &= weights > 0
    if not seen.any():
        raise DataError(f"column {name!r} has no observed number; drop it")
    observed = numbers[seen]
    counts = np.ones(len(observed)) if weights is None else weights[seen]
    cuts = (
        quantile_cuts(observed, counts, n_bins)
        if strategy == "quantile"
        else np.unique(np.linspace(observed.min(), observed.max(), n_bins + 1)[1:-1])
    )
    codes = np.searchsorted(cuts, observed, side="right")
    # An interval that nothing fell into is joined to the one before it.
    used = np.unique(codes)
    cuts = cuts[used[1:] - 1]
    codes = np.searchsorted(cuts, observed, side="right")
    centres = np.bincount(codes, counts * observed) / np.bincount(codes, counts)
    edges = np.concatenate([[observed.min()], cuts, [observed.max()]])
    return Bins(
        Variable(name, _labels(cuts), tuple(centres), is_found=True), edges, bool((observed == np.rint(observed)).all())
    )


def quantile_cuts(numbers: NDArray[np.float64], counts: NDArray[np.float64], n_bins: int) -> NDArray[np.float64]:
    """Return where intervals of about as many numbers each begin, but for the first; at most ``n_bins`` - 1 cuts.

    A number that is more common than an interval's share has one of its own, and the others share the rest: most people
    have no capital gains, and half of them work 40 hours.

    Examples
    --------
    >>> quantile_cuts(np.arange(8.0), np.ones(8), 4)
    array([2., 4., 6.])
    >>> quantile_cuts(np.array([0.0] * 90 + [1, 2, 3, 4, 5, 6, 7, 8, 9, 9]), np.ones(100), 4)
    array([1., 4., 7.])
    """
    values, places = np.unique(numbers, return_inverse=True)
    shares = np.bincount(places, counts)
    is_common = shares > shares.sum() / n_bins
    # The next common number at or after each, or the end.
    following = np.append(np.flatnonzero(is_common), len(values))
    next_common = following[np.searchsorted(following, np.arange(len(values)))]
    others = np.cumsum(np.where(is_common, 0.0, shares))
    cuts = []
    first, n_common = 0, int(is_common.sum())
    for left in range(n_bins, 1, -1):
        if is_common[first]:
            first, n_common = first + 1, n_common - 1
        else:
            done = others[first - 1] if first else 0.0
            goal = done + (others[-1] - done) / max(left - n_common, 1)
            last = int(np.searchsorted(others, goal))
            if last > first and goal - others[last - 1] <= others[last] - goal:
                last -= 1
            first = min(last + 1, int(next_common[first]))
        if first >= len(values):
            break
        cuts.append(values[first])
    return np.array(cuts)


def _labels(cuts: NDArray[np.float64]) -> tuple[str, ...]:
    if len(cuts) == 0:
        return ("any number",)
    for digits in _DIGITS:
        shown = [f"{cut:.{digits}g}" for cut in cuts]
        if len(set(shown)) == len(shown):
            break
    inner = [f"[{low}, {high})" for low, high in itertools.pairwise(shown)]
    return (f"< {shown[0]}", *inner, f">= {shown[-1]}")


def find_continuous(columns: Columns, rows: NDArray[np.bool_] | None = None) -> dict[str, NDArray[np.float64]]:
    """Return the numbers of the columns that look continuous, NaN where missing or in rows that do not count.

    Whole numbers do from fewer on than `looks_continuous` says: an age is no category to learn from and predict by.
    """
    found = {}
    for name in columns.names:
        if name in columns.declared:
            continue
        numbers = _numbers(columns.read_slice(name, 0, columns.n_rows))
        if numbers is not None:
            numbers = numbers if rows is None else np.where(rows, numbers, np.nan)
            different = np.unique(numbers[~np.isnan(numbers)])
            if len(different) > MANY_WHOLE_NUMBERS or looks_continuous(different):
                found[name] = numbers
    return found


def read_numbers(columns: Columns, name: str, start: int, stop: int) -> NDArray[np.float64]:
    """Return a slice of a column of numbers, NaN where missing; anything else is an error."""
    column = columns.read_slice(name, start, stop)
    numbers = _numbers(column)
    if numbers is None:
        labels = [label for label in dictionary_of(column)[0] if not _is_number(label)]
        raise DataError(f"column {name!r} holds numbers, which are put into bins; got {labels[0]!r}")
    return numbers


def binned(columns: Columns, bins: Mapping[str, Bins]) -> Columns:
    """Return columns in which some have intervals for numbers."""
    if not bins:
        return columns

    def read_slice(name: str, start: int, stop: int) -> Any:
        import pyarrow as pa

        if name not in bins:
            return columns.read_slice(name, start, stop)
        codes = bins[name].codes(read_numbers(columns, name, start, stop))
        labels = pa.array(bins[name].variable.categories)
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), labels)

    declared = {name: one.variable.categories for name, one in bins.items()}
    return replace(columns, read_slice=read_slice, declared={**columns.declared, **declared})


def _numbers(column: Any) -> NDArray[np.float64] | None:
    """Return an Arrow column or a list as numbers, NaN where missing; None where something else is there."""
    if not isinstance(column, list):
        import pyarrow as pa

        if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
            numbers: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            return numbers
        if not pa.types.is_null(column.type):
            return None
    labels, codes = dictionary_of(column)
    missing = [isinstance(label, str) and label.strip() in USUAL for label in labels]
    if not all(gone or _is_number(label) for label, gone in zip(labels, missing, strict=True)):
        return None
    values = [np.nan if gone else float(label) for label, gone in zip(labels, missing, strict=True)]
    found: NDArray[np.float64] = np.array([*values, np.nan], dtype=np.float64)[codes]
    return found


def _is_number(label: object) -> bool:
    return isinstance(label, int | float | np.integer | np.floating) and not isinstance(label, bool)
