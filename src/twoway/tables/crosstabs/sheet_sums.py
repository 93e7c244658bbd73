"""Sums: which lines of a table are sums of others, and whether totals and percentages add up as they should."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from twoway.arrays import Floats, first_true, sums_by
from twoway.errors import DataError
from twoway.text import shortlist

if TYPE_CHECKING:
    from twoway.tables.crosstabs.sheet_table import SheetTable

_MOST_LINES = 2000  # a longer list of areas or cells is not searched for sums


def scale_of_sums(sums: Floats, n_terms: int, step: float, *, is_percent: bool) -> tuple[float, float]:
    """Return what sums of shares should be, 1 or 100, and how far rounding to a step may take each of them off.

    Rounding errors are at most half a step each, and with many terms they seldom add up to that.

    Examples
    --------
    >>> scale_of_sums(np.array([99.0, 101.0]), 4, 1.0, is_percent=False)
    (100.0, 2.000000002)
    """
    known = sums[np.isfinite(sums)]
    scale = 100.0 if is_percent or (known.size and float(np.median(known)) > 10) else 1.0
    slack = min(0.5 * n_terms, 4 * math.sqrt(n_terms / 12)) * step
    return scale, min(max(slack, 1e-3 * scale), 0.2 * scale) * (1 + 1e-9)


def adds_up(sums: Floats, numbers: Floats) -> bool:
    """Return whether sums of numbers are all 100, or all 1, but for rounding.

    Examples
    --------
    >>> shares, few_people = np.array([[0.2, 0.8], [0.55, 0.45]]), np.array([[0.0, 1.0], [0.0, 2.0]])
    >>> adds_up(shares.sum(axis=1), shares), adds_up(few_people.sum(axis=1), few_people)
    (True, False)
    """
    known, n_terms = sums[~np.isnan(sums)], numbers.size // max(sums.size, 1)
    scale, most = scale_of_sums(known, n_terms, 1.0, is_percent=False)
    farthest = float(np.abs(known - scale).max(initial=0.0))
    if not known.size or n_terms < 2 or farthest > most:
        return False
    decimals = max((len(f"{x:.10g}".partition(".")[2]) for x in numbers.ravel() if not np.isnan(x)), default=0)
    is_few_people = scale == 1.0 and decimals == 0
    return not is_few_people and farthest <= scale_of_sums(known, n_terms, 10.0**-decimals, is_percent=False)[1]


def find_sums(numbers: Floats, candidates: Sequence[int]) -> list[int]:
    """Return the candidates (rows of numbers) that are the sum of others: of all, or of those that follow.

    Three numbers at least must agree, so that it is no chance.
    """
    left = list(candidates)
    is_sure = numbers.shape[1] > 2 and len(candidates) <= _MOST_LINES
    for place in reversed(candidates) if is_sure else ():  # inner sums first
        others = [term for term in left if term != place]
        for chosen in (others, [term for term in others if term > place]):
            is_sum = len(chosen) > 1 and abs(numbers[place] - numbers[chosen].sum(axis=0)).max() < 1e-9
            if is_sum and numbers[place].any() and place in left:
                left.remove(place)
    return [place for place in candidates if place not in left]


def run_of_sum(numbers: Floats, candidates: Sequence[int]) -> tuple[int, list[int]] | None:
    """Return a candidate that is the sum of neighbours before or after it, and these; None where there is none."""
    if len(candidates) > _MOST_LINES:
        return None
    for at, place in enumerate(candidates):
        for side in (candidates[:at][::-1], candidates[at + 1 :]):
            sums = np.cumsum(numbers[side], axis=0)
            for n in (np.flatnonzero((np.abs(sums - numbers[place]) < 1e-9).all(axis=1)) + 1).tolist():
                # A few small numbers are the sum of some others by chance.
                is_told = n == len(candidates) - 1 or (numbers.shape[1] > 1 and numbers[place].max() >= 10)
                if n > 1 and is_told and numbers[place].any():
                    return place, sorted(side[:n])
    return None


def check_sums(table: SheetTable) -> None:
    """Raise where percentages are over 100, or do not add up to 100 where they should."""
    if table.kind == "counts":
        if table.is_percent:
            raise DataError(f"{table.grid.name}: table {table.name} has percentages but its kind is 'counts'")
        return
    sums, low, high = (sums_by(own, table.given, keepdims=True) for own in (table.values, table.low, table.high))
    scale, tolerance = scale_of_sums(sums, table.values.size // sums.size, table.step, is_percent=table.is_percent)
    if (where := first_true(table.values > scale * (1 + 1e-9))) is not None:
        raise DataError(
            f"{table.place(where)}: {table.values[where]:g} is over {scale:g}, so it is not a percentage of "
            f"{table.name}; if the row or column is a base or a total, say so in a layout: base_rows, total_rows, …"
        )
    for margin in table.margins:
        totals = margin.values[margin.values > 0]
        is_share = margin.is_percent or (totals.size and float(totals.max()) <= scale)
        if margin.role == "total" and margin.axes == table.given and is_share and margin.axes:
            is_off = (np.abs(margin.values - scale) > 0.03 * scale) & (margin.values > 0)
            if (wrong := first_true(is_off)) is not None:
                code_of = dict(zip(margin.axes, wrong, strict=True))
                index = tuple(code_of.get(axis, 0) for axis in range(table.values.ndim))
                raise DataError(
                    f"{table.place(index)}: the total of its percentages in {table.name} is shown as "
                    f"{float(margin.values[wrong]):g}, not {scale:g}; if it is the sum of some categories, "
                    "skip it in a layout: skip_rows, skip_columns"
                )
    is_off = (low > scale + tolerance) | (high < scale - tolerance)
    if (where := first_true(is_off & (sums != 0))) is not None:  # 0 are groups of nobody
        of = shortlist([table.categories[axis][where[axis]] for axis in table.given]) or "all cells"
        raise DataError(
            f"{table.place(where)}: the percentages of {of} in {table.name} add up to {float(sums[where]):g}, not to "
            f"{scale:g}, of kind {table.kind!r}; if people could choose several, say several = true in the layout"
        )


def note_sums_of_hundred(table: SheetTable, notes: list[str]) -> None:
    """Note counts that look like percentages."""
    for axis in range(table.values.ndim) if table.kind == "counts" else ():
        sums = table.values.sum(axis)
        if sums.size > 1 and (np.abs(sums - 100.0) <= 1).all():
            notes.append(f"{table.name} adds up to 100 in each line, and was read as counts; if not, give its kind")
            return
