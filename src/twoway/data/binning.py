"""Numbers sorted into bins: where to cut, what the bins are called, and which bin a number belongs to.

A bin holds the numbers from its own edge up to, but without, the next one; the first and the last bin have no end. The
edges are part of a `Variable` and its labels are written from them, so that nothing is read back from text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from twoway.arrays import Array, Floats, Ints
from twoway.data.missing import Markers, is_null, missing_key
from twoway.errors import DataError, check_known, check_whole_number
from twoway.lazy_imports import pa, pc
from twoway.schema import Variable

Strategy: TypeAlias = Literal["quantile", "uniform"]


@dataclass(frozen=True)
class Bins:
    """The bins of one column of numbers."""

    variable: Variable
    """The bins as categories: with their inner edges, and with the mean of the numbers in each as values."""
    edges: Floats
    """All edges, shape (n_bins + 1,): the smallest number, the edges between bins, the largest number."""
    is_whole: bool
    """Whether all numbers are whole."""

    def codes(self, numbers: Floats) -> Ints:
        """Return the bin of each number, -1 for NaN."""
        return bin_codes(self.variable.edges or (), numbers)

    def means(self, codes: Array) -> Floats:
        """Return the mean of each bin, rounded where all numbers are whole."""
        means: Floats = np.array(self.variable.values)[codes]
        return np.rint(means) if self.is_whole else means

    def draw(self, codes: Array, random: np.random.Generator) -> Floats:
        """Return a number drawn evenly from each bin."""
        if not self.is_whole:
            return np.asarray(random.uniform(self.edges[codes], self.edges[codes + 1]))
        # The whole numbers of each bin; its upper edge belongs to the next one.
        smallest = np.ceil(self.edges[:-1])
        largest = np.append(smallest[1:] - 1, self.edges[-1])
        drawn = np.floor(random.uniform(smallest[codes], largest[codes] + 1))
        return np.asarray(np.minimum(drawn, largest[codes]))


def bin_codes(edges: Sequence[float], numbers: Floats) -> Ints:
    """Return the bin of each number, -1 for NaN.

    Examples
    --------
    >>> bin_codes([18, 40], np.array([17.9, 18, 99, np.nan])).tolist()
    [0, 1, 2, -1]
    """
    return np.where(np.isnan(numbers), -1, np.searchsorted(edges, numbers, side="right"))


def bin_labels(edges: Iterable[float]) -> tuple[str, ...]:
    """Return the labels of the bins that ascending numbers separate.

    Examples
    --------
    >>> bin_labels([18, 40])
    ('below 18', '18 to below 40', '40 or more')
    """
    shown = [format_bin_edge(edge) for edge in edges]
    if not shown:
        return ("any number",)
    between = [f"{low} to below {high}" for low, high in pairwise(shown)]
    return (f"below {shown[0]}", *between, f"{shown[-1]} or more")


def format_bin_edge(edge: float) -> str:
    """Return an edge with as many digits as it takes to read the same number again."""
    text = f"{edge + 0.0:.15g}"  # without a negative zero
    return text if float(text) == edge else f"{edge:.17g}"


# Making bins


def make_bins(
    name: str,
    numbers: Floats,
    weights: Floats | None = None,
    *,
    n_bins: int = 2,
    strategy: Strategy = "quantile",
    cuts: Sequence[float] | None = None,
) -> Bins:
    """Return the bins of a column.

    Parameters
    ----------
    numbers, weights
        The column, NaN where missing, and how much each cell counts; both (n_records,).
    n_bins
        How many bins at most; fewer where numbers repeat so often that some would be empty.
    strategy
        "quantile" for bins of about as many numbers each, "uniform" for bins of one width.
    cuts
        Where to cut instead, even if a bin stays empty.
    """
    n_bins = check_whole_number("the number of bins", n_bins, 2)
    check_known("strategy", get_args(Strategy), strategy)
    if np.isinf(numbers).any():
        raise DataError(f"column {name!r} holds an infinite number; numbers must be finite, or missing")
    seen = ~np.isnan(numbers)
    if weights is not None:
        seen &= weights > 0
    if not seen.any():
        raise DataError(f"column {name!r} has no observed number; drop it")
    observed = numbers[seen]
    counts = np.ones(len(observed)) if weights is None else weights[seen]
    least, most = observed.min(), observed.max()
    if cuts is None:
        is_even = strategy == "uniform"
        ideal = np.linspace(least, most, n_bins + 1)[1:-1] if is_even else quantile_bin_cuts(observed, counts, n_bins)
        cuts = _rounded_bin_cuts(ideal, np.unique(observed))
    edges = np.concatenate([[least], cuts, [most]])
    means = [float(np.average(observed, weights=counts))]
    if len(cuts):
        totals, sums = bin_sums(cuts, observed, counts)
        means = bin_means(totals, sums, cuts)
    variable = Variable(name, bin_labels(cuts), tuple(means), is_found=True, edges=tuple(cuts))
    return Bins(variable, edges, bool((observed == np.rint(observed)).all()))


def quantile_bin_cuts(numbers: Floats, counts: Floats, n_bins: int) -> Floats:
    """Return where bins of about as many numbers each begin, but for the first; at most ``n_bins`` - 1 cuts.

    A number that is more common than a bin's share has a bin of its own, and the others share the rest: most people
    have no capital gains, and half of them work 40 hours.

    Examples
    --------
    >>> quantile_bin_cuts(np.arange(8.0), np.ones(8), 4)
    array([2., 4., 6.])
    >>> quantile_bin_cuts(np.array([0.0] * 90 + [1, 2, 3, 4, 5, 6, 7, 8, 9, 9]), np.ones(100), 4)
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


def _rounded_bin_cuts(cuts: Floats, values: Floats) -> list[float]:
    """Return cuts with as few digits, at least 3, as separate the same values; cuts that separate nothing are left out.

    Labels then show exact edges, and short ones.
    """
    # Cuts by the first value above them. Of several the last counts: an empty bin is joined to the one before it.
    by_place = {int(place): float(cut) for place, cut in zip(np.searchsorted(values, cuts), cuts, strict=True)}
    rounded = []
    for place, cut in by_place.items():
        if 0 < place < len(values):
            shorter = (float(f"{cut:.{digits}g}") for digits in range(3, 18))
            rounded.append(next(edge for edge in shorter if values[place - 1] < edge <= values[place]))
    return rounded


def bin_sums(edges: Sequence[float] | Floats, numbers: Floats, counts: Floats) -> Floats:
    """Return how many numbers, none of them missing, are in each of at least two bins, and their sum; (2, n_bins)."""
    codes, n_bins = np.searchsorted(edges, numbers, side="right"), len(edges) + 1
    return np.array([np.bincount(codes, amount, minlength=n_bins) for amount in (counts, counts * numbers)])


def bin_means(totals: Floats, sums: Floats, edges: Sequence[float] | Floats) -> list[float]:
    """Return the mean of each bin; for an empty bin its middle, or its edge where it has only one."""
    middles = 0.5 * (np.append(edges[:1], edges) + np.append(edges, edges[-1:]))
    means: list[float] = np.where(totals > 0, sums / np.where(totals > 0, totals, 1.0), middles).tolist()
    return means


def needs_bins(numbers: Floats) -> bool:
    """Return whether the different numbers of a column are more likely measurements than categories.

    More than 100 numbers of any kind are, more than 20 with fractions, and more than 4 with fractions finer than
    thousandths.

    Examples
    --------
    >>> [needs_bins(np.arange(*limits)) for limits in ((1, 6), (0, 5, 0.5), (0, 30, 0.5))]
    [False, False, True]
    """
    n_different = len(numbers)
    if bool((numbers == np.rint(numbers)).all()):
        return n_different > 100
    thousandths = 1000.0 * numbers
    is_fine = bool((np.abs(thousandths - np.rint(thousandths)) > 1e-6).any())
    return n_different > (4 if is_fine else 20)


# Columns


def numbers_to_bin(column: Any, markers: Markers) -> Floats | None:
    """Return an Arrow column or a list as numbers, NaN where missing; None where it holds anything else."""
    if isinstance(column, list):
        numbers = np.full(len(column), np.nan)
        for row, cell in enumerate(column):
            if isinstance(cell, int | float | np.integer | np.floating | Decimal) and not isinstance(cell, bool):
                numbers[row] = float(cell)
            elif not (is_null(cell) or (isinstance(cell, str) and missing_key(cell) in markers)):
                return None
    else:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_null(kind):
            return np.full(len(column), np.nan)
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            return None
        numbers = np.asarray(column.cast(kind).cast(pa.float64(), safe=False))
    missing = [value for kind, value in markers if isinstance(value, int | float) and kind == "number"]
    for low, high in markers.ranges:
        numbers = np.where((numbers >= low) & (numbers <= high), np.nan, numbers)
    return np.where(np.isin(numbers, missing), np.nan, numbers) if missing else numbers


def bin_column(column: Any, variable: Variable, markers: Markers) -> Any:
    """Return a column of a variable in bins with the labels of its bins for numbers, also for those written as text.

    Other labels stay, and so does a column of a variable that is not in bins.
    """
    edges = variable.edges
    if edges is None or getattr(getattr(column, "type", None), "ordered", False):  # labels already
        return column

    numbers = numbers_to_bin(column, markers)
    if numbers is not None:
        codes = bin_codes(edges, numbers)
        indices = pa.array(codes, pa.int32(), mask=codes < 0)
        return pa.DictionaryArray.from_arrays(indices, pa.array(variable.categories), ordered=True)

    def label(cell: Any) -> Any:
        number = None if variable.find(cell) is not None or missing_key(cell) in markers else number_to_bin(cell)
        return cell if number is None else variable.categories[bisect_right(edges, number)]

    if isinstance(column, list):
        return [cell if is_null(cell) else label(cell) for cell in column]
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    distinct = pc.unique(plain).drop_null()
    labels = pa.array([label(cell) for cell in distinct.to_pylist()], plain.type)
    return labels.take(pc.index_in(plain, value_set=distinct))


def number_to_bin(text: object) -> float | None:
    """Return the finite number that a label is or reads as, or None."""
    try:
        number = float(str(text))
    except ValueError:
        return None
    return number if np.isfinite(number) and "_" not in str(text) else None  # Python reads "18_24" as 1824
