"""Counts and weights of records: what they must be, and what they add up to.

A record's *count* is how many equal people it stands for; its *weight* is how much each of them matters. Sums of counts
times weights give the shares. How sure these are depends on the effective number of records, (Σw)² / Σw² over people
(Kish, Survey Sampling, 1965), which does not depend on the scale of weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import add, and_, or_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twoway.arrays import Array, Floats, Ints
from twoway.errors import DataError, warn_caller
from twoway.text import brief

if TYPE_CHECKING:
    from twoway.data.records import Records
    from twoway.data.stored_records import Block

LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100
"""Weights outside, but for 0, are refused: their squares could not be added."""
MOST_COUNT = 2.0**53
"""Up to this, floats hold every whole number."""

# Weights per person that differ by less, relative to one another, are equal but for rounding.
_SAME = 1e-9
# Binary digits of weights in a fit: as many as tell weights apart that are not the same.
_DIGITS = 32

_NOT_COUNTS = (
    "these weights are whole numbers that differ: weights say how much a record matters, not how many equal records it "
    "stands for; give such numbers as counts"
)


class WeightTotals(NamedTuple):
    """What the weights of some records add up to; these add."""

    total: float = 0.0
    """The sum of people's weights."""
    squares: float = 0.0
    """The sum of their squares."""
    largest: float = 0.0
    """The largest weight of a person."""
    least: float = math.inf
    """The least weight of a person, zeros left out."""
    is_weighted: bool = False
    """Whether people have weights other than one."""
    is_whole: bool = True
    """Whether every weight is a whole number."""

    def __add__(self, other: WeightTotals) -> WeightTotals:  # type: ignore[override]
        return WeightTotals(*(of_both(one, two) for of_both, one, two in zip(_OF_BOTH, self, other, strict=True)))

    @classmethod
    def of(cls, weights: Floats | None, people: Array | None, n_records: int) -> WeightTotals:
        """Return the totals of records' weights, for as many people each; both as `Records` has them."""
        if weights is None or people is None:
            total = float(n_records if weights is None else weights.sum())
            return cls(total, total, 1.0, 1.0) if total else cls()
        each = weight_per_person(weights, people)
        shown = each[each > 0]
        return cls(
            float(weights.sum()),
            float((weights * each).sum()),
            float(shown.max(initial=0.0)),
            float(shown.min(initial=math.inf)),
            is_weighted=True,
            is_whole=bool((np.rint(shown) == shown).all()),
        )

    def scaled(self, factor: float) -> WeightTotals:
        """Return the totals of the same weights, each times a factor."""
        return WeightTotals(
            self.total * factor,
            self.squares * factor * factor,
            self.largest * factor,
            self.least * factor,
            self.is_weighted and not self.is_constant,
        )

    @property
    def is_constant(self) -> bool:
        """Whether all people weigh the same, but for rounding."""
        return self.largest <= self.least * (1.0 + _SAME)

    @property
    def unit(self) -> float:
        """The weight of one effective record."""
        return self.squares / self.total if self.is_weighted and self.total > 0 else 1.0

    @property
    def effective(self) -> float:
        """The effective number of records."""
        return self.total / self.unit

    def check(self, n_records: int) -> None:
        """Raise if none of the records weighs anything, and warn if weights look like counts."""
        if n_records and self.total == 0:
            raise DataError("the counts or weights of the records are all zero; at least one must be positive")
        if self.is_weighted and self.is_whole and not self.is_constant:
            warn_caller(_NOT_COUNTS, FutureWarning, once=True)


_OF_BOTH: tuple[Callable[[Any, Any], Any], ...] = (add, add, max, min, or_, and_)
"""What makes one number of two, for each of the totals."""


def record_weights(records: Records | Block) -> Floats:
    """Return how much each record counts, (n_records,)."""
    return np.ones(records.n_records) if records.weights is None else records.weights


def record_people(records: Records | Block) -> Array:
    """Return how many people each record stands for, (n_records,): what it weighs where each of them weighs one."""
    return record_weights(records) if records.people is None else records.people


def weight_per_person(weights: Array, people: Array) -> Floats:
    """Return what each of the people that records stand for has of their weights, 0 where there are none."""
    shares: Floats = np.divide(weights, people, out=np.zeros(np.shape(weights)), where=people > 0)
    return shares


def squared_weights(weights: Floats, people: Array) -> Floats:
    """Return the sum of squares of people's weights of each record."""
    return weights * weight_per_person(weights, people)


def effective_weights(weights: Floats, squares: Floats) -> Floats:
    """Return the effective numbers of records whose weights and their squares add up so; 0 where there are none.

    Examples
    --------
    >>> effective_weights(np.array([4.0, 200.0, 3.0]), np.array([4.0, 20000.0, 5.0]))
    array([4. , 2. , 1.8])
    """
    return weights * weight_per_person(weights, squares)


def weights_as_floats(weights: Any, what: str, n_records: int | None = None) -> Floats:
    """Return counts or weights as a flat array, or raise if they are not numbers, or not one for each record."""
    try:
        array = np.array(weights, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"record {what} must be numbers{_first_without_number(weights)}") from None
    if n_records is not None and len(array) != n_records:
        raise DataError(f"there are {n_records} records and {len(array)} {what}; each record needs one")
    return array


def _first_without_number(values: Any) -> str:
    """Return which record has something that is no number, and what it has, as the end of a message."""
    for row, value in enumerate(np.ravel(np.asarray(values, dtype=object))):
        try:
            float(value)
        except (TypeError, ValueError, OverflowError):
            return f"; record {row} has {brief(value)} (the first record is 0)"
    return ""


def read_weights(weights: Any, n_records: int) -> Floats | None:
    """Return the weights of all records as a flat array, None for None; invalid ones, or only zeros, are an error."""
    if weights is None:
        return None
    array = weights_as_floats(weights, "weights", n_records)
    check_weights(array)
    if n_records and not array.any():
        raise DataError("the weights of the records are all zero; at least one must be positive")
    return array


def weights_of_rows(counts: Floats | None, weights: Floats | None) -> tuple[Floats | None, Array | None]:
    """Return what rows weigh together, and how many people they stand for, as `Records` has them."""
    if weights is None:
        return counts, None
    if counts is None:
        return weights, np.broadcast_to(np.ones(1), len(weights))
    return counts * weights, counts


def merged_weights(weights: Floats, people: Array | None, starts: Ints) -> tuple[Floats, Floats | None]:
    """Return weights and people of groups of equal records, each from one of ``starts`` to the next.

    A group keeps the sum of its people's weights and that of their squares: it stands for as many people of one weight
    as have the same sums.
    """
    totals = np.add.reduceat(weights, starts)
    if people is None:
        return totals, None
    effective = effective_weights(totals, np.add.reduceat(squared_weights(weights, people), starts))
    # Those that are whole but for rounding are made whole.
    whole = np.rint(effective)
    return totals, np.where(np.abs(effective - whole) <= _SAME * whole, whole, steady_weights(effective))


def is_unit_weight(weight: float) -> bool:
    """Return whether a weight is one, but for rounding."""
    return abs(weight - 1.0) <= _SAME


def steady_weights(weights: Floats) -> Floats:
    """Return weights in so many binary digits as neither the order of sums nor the scale of weights changes.

    A fit goes through many steps, which can make much of a difference in the last digit.

    Examples
    --------
    >>> steady_weights(np.array([0.3, 0.1 + 0.2])) == steady_weights(np.array([0.3, 0.3]))
    array([ True,  True])
    """
    fractions, exponents = np.frexp(weights)
    rounded: Floats = np.ldexp(np.rint(np.ldexp(fractions, _DIGITS)), exponents - _DIGITS)
    return rounded


def scaled_weights(weights: Floats, people: Array, unit: float) -> tuple[Floats, Array | None]:
    """Return weights in units of an effective record; without people where each of these weighs one."""
    scaled = steady_weights(weights / unit)
    if np.allclose(scaled, people, rtol=_SAME, atol=0.0):
        return np.array(people, dtype=np.float64), None
    return scaled, people


def check_weights(weights: Floats, record_number: Callable[[int], int] = int) -> None:
    """Raise if a number cannot be a weight; the second argument gives the number of a row's record."""
    right = (weights == 0) | ((weights >= LEAST_WEIGHT) & (weights <= MOST_WEIGHT))
    if not right.all():
        row = int(np.argmin(right))
        weight = float(weights[row])
        allowed = f"0 or between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}" if weight > 0 else "finite and not negative"
        way_out = "; leave records without a weight out, or give them weight 0" if math.isnan(weight) else ""
        has = f"record {record_number(row)} has {weight!r} (the first record is 0)"
        raise DataError(f"record weights must be {allowed}; {has}{way_out}")


def check_counts(counts: Floats, record_number: Callable[[int], int] = int) -> None:
    """Raise if a number cannot be a count; the second argument gives the number of a row's record."""
    right = (counts >= 0) & (counts <= MOST_COUNT) & (np.rint(counts) == counts)
    if not right.all():
        row = int(np.argmin(right))
        count, allowed = float(counts[row]), "whole numbers from 0 to 2**53"
        near_miss = "; numbers with fractions are weights" if 0 < count < math.inf else ""
        has = f"record {record_number(row)} has {count!r} (the first record is 0)"
        raise DataError(f"record counts must be {allowed}; {has}{near_miss}")
