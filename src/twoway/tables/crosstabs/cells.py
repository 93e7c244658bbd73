"""Cells of a published table: the number that a cell shows, and what several of them were rounded to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from twoway.arrays import Floats
from twoway.category_labels import Label
from twoway.text import shortlist

_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?")
# Thousands separators: space, no-break space, thin space, narrow no-break space, comma, apostrophes and underscore.
_GROUPED = re.compile(r"\d{1,3}(?:([ \u00a0\u2009\u202f,'’_])\d{3})(?:\1\d{3})*(?:\.\d*)?")
_DASHES = {"-", "–", "—", "−"}
_LETTERS = re.compile(r"(?<=[\d%])\s*[A-Za-z]{1,12}$")
_BASE_NUMBER = re.compile(r"\(?\s*n\s*=\s*(\d[\d,]*)\s*\)?", re.IGNORECASE)
_MARKS = re.compile(r"(?<=[\d%])[¹²³⁴⁵⁶⁷⁸⁹⁰ᵃᵇᶜ†‡§]+$")
# Counts are rounded to one of these; that so many of them are multiples by chance is next to impossible.
_ROUNDED_TO, _LEAST_ROUNDED = (5.0, 10.0, 50.0, 100.0, 500.0, 1000.0), 6


class Cell(NamedTuple):
    """A number as it was printed."""

    value: float
    step: float
    """The unit of the last printed digit: 0.1 for 45.2."""
    is_percent: bool
    low: float
    high: float
    """What the number is at least and at most: the same, except for a bound such as "<5"."""


SUPPRESSED = Cell(math.nan, 1.0, False, 0.0, math.inf)
"""A number that was not published, which can be any."""


def parse_cell(raw: object) -> Cell:
    """Return the number in a printed cell, or raise ValueError with what is wrong.

    "1,234", "45%" and "45.2 %" are numbers, a dash is zero, and "<1%" is half of that.

    Examples
    --------
    >>> parse_cell("45.2 %"), parse_cell("1,234").value, parse_cell("–").value, parse_cell("<1%").value
    (Cell(value=45.2, step=0.1, is_percent=True, low=45.2, high=45.2), 1234.0, 0.0, 0.5)
    """
    if isinstance(raw, bool | np.bool_) or not isinstance(raw, str | int | float | np.number | Decimal):
        raise ValueError("is missing" if is_missing_cell(raw) else "is not a number")
    text = raw.strip() if isinstance(raw, str) else repr(float(raw))
    is_percent = text.endswith("%")
    text = text.removesuffix("%").rstrip()
    if text in _DASHES:
        return Cell(0.0, 0.0, is_percent, 0.0, 0.0)
    is_bound = text.startswith("<")
    text = text.removeprefix("<").lstrip()
    if _GROUPED.fullmatch(text):
        text = re.sub(r"[^\d.]", "", text)
    if not _NUMBER.fullmatch(text):
        if text[:1] in _DASHES and _NUMBER.fullmatch(text[1:]):
            raise ValueError("is negative")
        if text in ("inf", "-inf") and not isinstance(raw, str):
            raise ValueError("is infinite")
        if not text or text.casefold() in ("nan", "na", "n/a", "none", "null"):
            raise ValueError("is missing")
        raise ValueError("is not a number")
    value = float(text)
    if math.isinf(value):
        raise ValueError("is infinite")
    # Trailing zeros are no sign of coarse rounding: 100 is as exact as 101.
    step = 1.0 if value.is_integer() else float(f"1e{Decimal(text).normalize().as_tuple().exponent}")
    return Cell(value / 2 if is_bound else value, step, is_percent, 0.0 if is_bound else value, value)


def parse_printed_cell(text: str, letters: bool = False) -> Cell:
    """Return the number of a cell, without marks of footnotes, and without letters of significance if it may have them.

    Examples
    --------
    >>> (
    ...     parse_printed_cell("32% CE", letters=True).value,
    ...     parse_printed_cell("(n=1,204)").value,
    ...     parse_printed_cell("81²").value,
    ... )
    (32.0, 1204.0, 81.0)
    """
    plain = _MARKS.sub("", _LETTERS.sub("", text) if letters else text)
    base = _BASE_NUMBER.fullmatch(plain)
    return parse_cell(base[1] if base else plain)


def printed_number(text: str, letters: bool = False) -> float:
    """Return the number in a printed cell, NaN where there is none."""
    try:
        return parse_printed_cell(text.strip(), letters).value
    except ValueError:
        return math.nan


def is_missing_cell(raw: object) -> bool:
    """Return whether a raw cell or label is an object that stands for a missing value, or NaN."""
    return raw is None or type(raw).__name__ in ("NAType", "NaTType") or (isinstance(raw, float) and math.isnan(raw))


def rounded_cells_unit(numbers: Floats, step: float) -> float:
    """Return what numbers are rounded to, at least a step: 10 where all end in a zero.

    Examples
    --------
    >>> rounded_cells_unit(np.array([100.0, 90, 200]), 1.0), rounded_cells_unit(np.array([100.0, 95]), 1.0)
    (10.0, 1.0)
    >>> rounded_cells_unit(np.array([0.0, 1e-12]), 1.0)
    1.0
    """
    largest = float(np.abs(numbers).max(initial=0.0))
    while largest >= 10.0 * step and (np.abs(np.remainder(numbers, 10.0 * step)) < 1e-9).all():
        step *= 10.0
    return step


def rounded_cells_step(counts: Floats) -> float:
    """Return the unit that counts were rounded to, by what they are all multiples of; 0 where that may be chance.

    Examples
    --------
    >>> (
    ...     rounded_cells_step(np.array([120.0, 30, 0, 10, 50, 70, 90])),
    ...     rounded_cells_step(np.array([120.0, 30, 10, 50, 70, 91])),
    ... )
    (10.0, 0.0)
    """
    positive = counts[counts > 0]
    if len(positive) < _LEAST_ROUNDED or (positive != np.rint(positive)).any():
        return 0.0
    step = float(np.gcd.reduce(positive.astype(np.int64)))
    return max((unit for unit in _ROUNDED_TO if step % unit == 0), default=0.0)


def empty_cells_notes(
    table: str, variables: Sequence[str], categories: Sequence[Sequence[Label]], numbers: Floats
) -> Iterator[str]:
    """Yield a note for each variable of a table, an axis of its numbers each, of which some categories count nobody."""
    for axis, (name, labels) in enumerate(zip(variables, categories, strict=True)):
        rows = np.moveaxis(numbers, axis, 0).reshape(len(labels), -1)
        if empty := [labels[code] for code in np.flatnonzero(~rows.any(axis=1)).tolist()]:
            yield (
                f"{table} counts nobody with {shortlist(empty, 4)} of {name!r}; drop such a row or column if it is not "
                "a category"
            )
