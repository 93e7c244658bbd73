"""Cells of a published table: the number that a cell shows, what sums tell, and labels that mean a total or a base."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from twoway.arrays import Floats
from twoway.category_labels import Label
from twoway.text import shortlist

MarginRole: TypeAlias = Literal["total", "base", "unweighted"]

_TOTALS = {"total", "totals", "all", "overall", "sum", "grand total", "row total", "column total", "all respondents"}
_BASES = {"base", "n", "base n", "weighted base", "weighted n", "weighted total", "sample size", "respondents"}
_UNWEIGHTED = {"unweighted base", "unweighted n", "unweighted total", "unweighted sample", "unweighted"}
_ROLES: tuple[tuple[MarginRole, set[str]], ...] = (("total", _TOTALS), ("base", _BASES), ("unweighted", _UNWEIGHTED))

_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?")
# Thousands separators: space, no-break space, thin space, narrow no-break space, comma, apostrophes and underscore.
_GROUPED = re.compile(r"\d{1,3}(?:([ \u00a0\u2009\u202f,'’_])\d{3})(?:\1\d{3})*(?:\.\d*)?")
_DASHES = {"-", "–", "—", "−"}


class Cell(NamedTuple):
    """A number as it was printed."""

    value: float
    step: float
    """The unit of the last printed digit: 0.1 for 45.2."""
    is_percent: bool


def parse_cell(raw: object) -> Cell:
    """Return the number in a printed cell, or raise ValueError with what is wrong.

    "1,234", "45%" and "45.2 %" are numbers, a dash is zero, and "<1%" is half of that.

    Examples
    --------
    >>> parse_cell("45.2 %"), parse_cell("1,234").value, parse_cell("–").value, parse_cell("<1%").value
    (Cell(value=45.2, step=0.1, is_percent=True), 1234.0, 0.0, 0.5)
    """
    if isinstance(raw, bool | np.bool_) or not isinstance(raw, str | int | float | np.number | Decimal):
        raise ValueError("is missing" if is_missing_cell(raw) else "is not a number")
    text = raw.strip() if isinstance(raw, str) else repr(float(raw))
    is_percent = text.endswith("%")
    text = text.removesuffix("%").rstrip()
    if text in _DASHES:
        return Cell(0.0, 0.0, is_percent)
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
    exponent = Decimal(text).normalize().as_tuple().exponent
    # Trailing zeros are no sign of coarse rounding: 100 is as exact as 101.
    return Cell(value / 2 if is_bound else value, float(f"1e{min(int(exponent), 0)}"), is_percent)


def cell_value(raw: object) -> float | None:
    """Return the number in a printed cell, None where it has none."""
    try:
        return parse_cell(raw).value
    except ValueError:
        return None


def is_missing_cell(raw: object) -> bool:
    """Return whether a raw cell or label is an object that stands for a missing value."""
    return raw is None or type(raw).__name__ in ("NAType", "NaTType")


def margin_role(label: Label, beside: Iterable[Label]) -> MarginRole | None:
    """Return the role of a label such as "Total" or "Base", or None for a category.

    "N" is a category where it is the only "no" beside a "yes", and among points of the compass.
    """
    if not isinstance(label, str):
        return None
    words = " ".join(re.sub(r"[^\w\s]", " ", label.casefold()).split())
    if words == "n":
        others = {str(other).strip().casefold() for other in beside}
        if {"s", "e", "w"} <= others or (others & {"y", "yes"} and "no" not in others):
            return None
    return next((role for role, known in _ROLES if words in known), None)


def share_scale(sums: Floats, n_terms: int, step: float, *, is_percent: bool) -> tuple[float, float]:
    """Return what sums of shares should be, 1 or 100, and how far rounding to a step may take each of them off.

    Rounding errors are at most half a step each, and with many terms they seldom add up to that.

    Examples
    --------
    >>> share_scale(np.array([99.0, 101.0]), 4, 1.0, is_percent=False)
    (100.0, 2.000000002)
    """
    known = sums[np.isfinite(sums)]
    scale = 100.0 if is_percent or (known.size and float(np.median(known)) > 10) else 1.0
    slack = min(0.5 * n_terms, 4 * math.sqrt(n_terms / 12)) * step
    return scale, min(max(slack, 1e-3 * scale), 0.2 * scale) * (1 + 1e-9)


def rounded_unit(numbers: Floats, step: float) -> float:
    """Return what numbers are rounded to, at least a step: 10 where all end in a zero.

    Examples
    --------
    >>> rounded_unit(np.array([100.0, 90, 200]), 1.0), rounded_unit(np.array([100.0, 95]), 1.0)
    (10.0, 1.0)
    """
    while numbers.any() and (np.abs(np.remainder(numbers, 10.0 * step)) < 1e-9).all():
        step *= 10.0
    return step


def empty_category_notes(
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
