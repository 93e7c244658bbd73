"""Cells of a published table: what a printed number means, and which labels announce a margin."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from twoway.schema import Label

MarginRole: TypeAlias = Literal["total", "base", "unweighted"]

_TOTALS = {"total", "totals", "all", "overall", "sum", "grand total", "row total", "column total", "all respondents"}
_BASES = {"base", "n", "base n", "weighted base", "weighted n", "weighted total", "sample size", "respondents"}
_UNWEIGHTED = {"unweighted base", "unweighted n", "unweighted total", "unweighted sample", "unweighted"}

_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?")
# Space, no-break space, thin space, narrow no-break space, comma, apostrophes and underscore part thousands.
_GROUPED = re.compile(r"\d{1,3}(?:([ \u00a0\u2009\u202f,'’_])\d{3})(?:\1\d{3})*(?:\.\d*)?")
_NOTHING = {"-", "–", "—", "−"}


class Cell(NamedTuple):
    """A number as it was printed."""

    value: float
    step: float
    """The unit of the last digit printed: 0.1 for 45.2."""
    is_percent: bool


def parse_cell(raw: object) -> Cell:
    """Return the number that a printed cell means, or raise ValueError with what is wrong.

    Numbers, "1,234", "45%" and "45.2 %" are themselves, a dash is zero, and "<1%" is half of that.

    Examples
    --------
    >>> parse_cell("45.2 %"), parse_cell("1,234").value, parse_cell("–").value, parse_cell("<1%").value
    (Cell(value=45.2, step=0.1, is_percent=True), 1234.0, 0.0, 0.5)
    """
    if isinstance(raw, str):
        return _parse_text(raw)
    if isinstance(raw, bool | np.bool_) or not isinstance(raw, int | float | np.number | Decimal):
        raise ValueError("is missing" if is_missing(raw) else "is not a number")
    value = float(raw)
    if math.isnan(value):
        raise ValueError("is missing")
    if math.isinf(value):
        raise ValueError("is infinite")
    if value < 0:
        raise ValueError("is negative")
    return Cell(value, _step_of(repr(value)), False)


def _parse_text(raw: str) -> Cell:
    text = raw.strip()
    is_percent = text.endswith("%")
    text = text.removesuffix("%").rstrip()
    if text in _NOTHING:
        return Cell(0.0, 0.0, is_percent)
    is_bound = text.startswith("<")
    text = text.removeprefix("<").lstrip()
    if _GROUPED.fullmatch(text):
        text = re.sub(r"[^\d.]", "", text)
    if not _NUMBER.fullmatch(text):
        if text[:1] in _NOTHING and _NUMBER.fullmatch(text[1:]):
            raise ValueError("is negative")
        if not text or text.casefold() in ("nan", "na", "n/a", "none", "null"):
            raise ValueError("is missing")
        raise ValueError("is not a number")
    value = float(text)
    if math.isinf(value):
        raise ValueError("is infinite")
    return Cell(value / 2 if is_bound else value, _step_of(text), is_percent)


def _step_of(text: str) -> float:
    exponent = Decimal(text).normalize().as_tuple().exponent
    # Trailing zeros are no sign of coarse rounding: 100 is as exact as 101.
    return float(f"1e{min(exponent, 0)}") if isinstance(exponent, int) else 1.0


def is_missing(raw: object) -> bool:
    """Return whether a raw cell or label is one of the objects that mean nothing is there."""
    return raw is None or type(raw).__name__ in ("NAType", "NaTType")


def margin_role(label: Label, beside: Iterable[Label]) -> MarginRole | None:
    """Return what a label such as "Total" or "Base" announces, or None for a category.

    "N" is a category where it is the only "no" beside a "yes".
    """
    if not isinstance(label, str):
        return None
    words = " ".join(re.sub(r"[^\w\s]", " ", label.casefold()).split())
    others = {str(other).strip().casefold() for other in beside}
    if words == "n" and others & {"y", "yes"} and "no" not in others:
        return None
    roles: tuple[tuple[MarginRole, set[str]], ...] = (("total", _TOTALS), ("base", _BASES), ("unweighted", _UNWEIGHTED))
    return next((role for role, known in roles if words in known), None)
