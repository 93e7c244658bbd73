"""Categories that are intervals of numbers: how their labels are written, and what they say when they are read."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from twoway.schema import Variable
from twoway.text import shortlist

_NUMBER = r"([+-]?(?:inf|\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
_BELOW = re.compile(rf"(?:below |< ){_NUMBER}")
_BETWEEN = re.compile(rf"{_NUMBER} to below {_NUMBER}")
_IN_BRACKETS = re.compile(rf"([\[(]){_NUMBER}, {_NUMBER}([\])])")  # as the Discretizer and pandas write them
_ABOVE = re.compile(rf"(?:{_NUMBER} or more|>= {_NUMBER})")


class Interval(NamedTuple):
    """The numbers from ``low`` to ``high``, and which of the two ends are among them."""

    low: float
    high: float
    has_low: bool
    has_high: bool

    def meets(self, operator: str, threshold: float) -> bool | None:
        """Return whether all numbers of the interval compare so with a threshold, or none does; None for some.

        Examples
        --------
        >>> decade = Interval(40, 50, True, False)
        >>> decade.meets(">=", 40), decade.meets(">=", 50), decade.meets(">=", 45), decade.meets(">", 40)
        (True, False, None, None)
        """
        if operator in ("<", "<="):
            opposite = self.meets(">=" if operator == "<" else ">", threshold)
            return None if opposite is None else not opposite
        counts_equal = operator == ">="
        if self.low > threshold or (self.low == threshold and (counts_equal or not self.has_low)):
            return True
        if self.high < threshold or (self.high == threshold and not (counts_equal and self.has_high)):
            return False
        return None


def label_bins(cuts: Iterable[float]) -> list[str]:
    """Return the labels of the intervals that ascending numbers cut all numbers into; each cut begins an interval.

    Examples
    --------
    >>> label_bins([18, 40])
    ['below 18', '18 to below 40', '40 or more']
    """
    shown = [f"{cut + 0.0:.15g}" for cut in cuts]  # without a negative zero
    between = [f"{low} to below {high}" for low, high in itertools.pairwise(shown)]
    return [f"below {shown[0]}", *between, f"{shown[-1]} or more"]


def intervals_of(variable: Variable) -> list[Interval] | None:
    """Return the intervals that a variable's categories are, one behind the other; None where they are something else.

    Examples
    --------
    >>> [one.low for one in intervals_of(Variable("age", ("below 18", "18 to below 40", "40 or more")))]
    [-inf, 18.0, 40.0]
    >>> intervals_of(Variable("age", ("18-39", "40+"))) is None
    True
    """
    intervals = []
    for label in variable.categories:
        interval = _read(label) if isinstance(label, str) else None
        if interval is None:
            return None
        intervals.append(interval)
    in_order = all(one.low < one.high <= next_one.low for one, next_one in itertools.pairwise(intervals))
    return intervals if in_order else None


def cuts_of(variable: Variable) -> list[float] | None:
    """Return the numbers at which `label_bins` cut, None where a variable's labels are not written by it."""
    intervals = intervals_of(variable)
    if intervals is None or len(intervals) < 2:
        return None
    cuts = [interval.low for interval in intervals[1:]]
    return cuts if label_bins(cuts) == list(variable.categories) else None


def show_ends(intervals: Sequence[Interval]) -> str:
    """Return the ends of intervals as text, for an error."""
    ends = sorted({end for interval in intervals for end in interval[:2] if math.isfinite(end)})
    return shortlist([int(end) if end.is_integer() else end for end in ends])


def _read(label: str) -> Interval | None:
    if found := _BELOW.fullmatch(label):
        return Interval(-math.inf, float(found[1]), False, False)
    if found := _BETWEEN.fullmatch(label):
        return Interval(float(found[1]), float(found[2]), True, False)
    if found := _IN_BRACKETS.fullmatch(label):
        return Interval(float(found[2]), float(found[3]), found[1] == "[", found[4] == "]")
    if found := _ABOVE.fullmatch(label):
        return Interval(float(found[1] or found[2]), math.inf, True, False)
    return None
