"""Words of published tables: what a label or a heading says about the numbers below or beside it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from twoway.category_labels import Label
from twoway.tables.published.ranges import range_of_label

if TYPE_CHECKING:
    from twoway.tables.crosstabs.sheet_layout import Role

MarginRole: TypeAlias = Literal["total", "base", "unweighted"]

_TOTALS = {"total", "totals", "all", "overall", "sum", "grand total", "row total", "column total", "all respondents"}
_BASES = {"base", "n", "base n", "weighted base", "weighted n", "weighted total", "sample size", "respondents"}
_NOT_WEIGHTED = {"unweighted base", "unweighted n", "unweighted total", "unweighted sample", "unweighted"}
_ROLES: tuple[tuple[MarginRole, set[str]], ...] = (("total", _TOTALS), ("base", _BASES), ("unweighted", _NOT_WEIGHTED))

_OTHER_STATISTICS = re.compile(
    r"margins? of error.*|moe|±|\+/-|nets?\b.*|(top|bottom) ?-?\d.*|[tb]\db|average\b.*"
    r"|std\.? ?(error|dev).*|standard (error|deviation).*|s\.?e\.?|cv|mean\b.*|median\b.*|index|rank"
    r"|(expected|residual|cumulative|valid) .*|expected|residual|(lower|upper) .*|ci|p-value|sig\.?|annotation.*",
)
_PATTERNS: dict[Role, re.Pattern[str]] = {
    "unweighted": re.compile(r"unweighted.*|unwtd.*|base \(unweighted\).*"),
    "base": re.compile(
        r"(weighted |effective )?(base|sample)( size)?\b.*|n|\(?n ?= ?[\d, ]*\)?|number of (respondents|cases)"
    ),
    "total": re.compile(
        r"(grand |sub)?totals?\b.*|row total|column total"
        r"|all( (ages|people|persons|respondents|adults|sexes|groups|regions|voters|men|women))?"
        r"|both sexes|overall|everyone|everybody|sum|insgesamt|gesamt|ensemble"
    ),
    "skip": _OTHER_STATISTICS,
}
_COUNT = re.compile(
    r"count|counts|n|number|freq|frequency|frequencies|population|persons|people|cases|value|values|obs_value|estimate"
    r"|households|respondents|votes|obs|observations|no\.|size|weight"
)
_SHARE = re.compile(r"%.*|percent.*|(row|col|column|table|total) ?(%|percent|pct).*|pct|share|proportion|.* ?%")
_AREA = re.compile(
    r"(county|counties|municipality|tract|census tract|district|ward|state|province|geographic area name|geography"
    r"|geo(id|_id)?|fips|area( name)?|local authority|postcode|zip( code)?|country|commune|canton)( name| code)?"
)
_MEASURE = re.compile(
    r"(number|no\.|percent\w*|%|persons|people|population|counts?|households|estimates?|thousands|frequency)\b.*|\(?%\)?"
)
_SEX = re.compile(r"m|f|w|male|female|males|females|man|woman|men|women|boys|girls")
_NO_AGE = 1000


def plain_words(label: str) -> str:
    """Return a label in small letters without signs at its ends."""
    return " ".join(label.casefold().split()).strip(" :.*()[]")


def margin_in_words(label: Label, beside: Iterable[Label]) -> MarginRole | None:
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


def role_in_words(label: str, beside: Sequence[str]) -> Role | None:
    """Return what a row or column is that is no category: a total, a base, another statistic.

    Examples
    --------
    >>> [role_in_words(label, []) for label in ("Total, all ages", "(n)", "Unweighted base:", "Margin of Error", "Yes")]
    ['total', 'base', 'unweighted', 'skip', None]
    """
    words = plain_words(label)
    if (known := margin_in_words(label, beside)) is not None:
        return known
    if words == "n":
        return None  # beside "yes"
    return next((role for role, pattern in _PATTERNS.items() if pattern.fullmatch(words)), None)


def statistic_in_words(label: str) -> str | None:
    """Return "count" or "share" for the name of a statistic, "skip" for others, None for other labels."""
    words = plain_words(label)
    if _COUNT.fullmatch(words):
        return "count"
    if _SHARE.fullmatch(" ".join(label.casefold().split())) or words.startswith("% "):
        return "share"
    return "skip" if _OTHER_STATISTICS.fullmatch(words) else None


def is_measure_word(label: str) -> bool:
    """Return whether a heading above all columns says what the numbers are, and is no variable's name."""
    return bool(_MEASURE.fullmatch(" ".join(label.casefold().split())))


def is_area_word(name: str) -> bool:
    """Return whether a column of that name has the names of areas."""
    return bool(_AREA.fullmatch(plain_words(name)))


def variable_in_words(labels: Sequence[str]) -> str | None:
    """Return "sex" or "age" where labels are the categories of it.

    Examples
    --------
    >>> (
    ...     variable_in_words(["Male", "Female"]),
    ...     variable_in_words(["u15", "15_17", "85up"]),
    ...     variable_in_words(["yes", "no"]),
    ... )
    ('sex', 'age', None)
    """
    words = [plain_words(label) for label in labels]
    if len(words) == 2 and all(map(_SEX.fullmatch, words)):
        return "sex"
    ranges = [own for own in map(range_of_label, words) if own is not None and own[0] < own[1]]
    n_ages = sum(not any(_NO_AGE <= abs(end) < math.inf for end in ends) for ends in ranges)
    return "age" if n_ages >= max(2, len(words) - 1) else None
