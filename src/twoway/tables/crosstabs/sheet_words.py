"""Words of published tables: what a label, a title or a heading says about the numbers below or beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from twoway.tables.crosstabs.cells import margin_role
from twoway.tables.crosstabs.sheet_layout import Role

_TOTAL = re.compile(
    r"(grand |sub)?totals?\b.*|all( (ages|people|persons|respondents|adults|sexes|groups|regions|voters|men|women))?"
    r"|both sexes|overall|everyone|everybody|sum|row total|column total|insgesamt|gesamt|ensemble",
)
_BASE = re.compile(
    r"(weighted |effective )?(base|sample)( size)?\b.*|n|\(?n ?= ?[\d, ]*\)?|number of (respondents|cases)"
)
_UNWEIGHTED = re.compile(r"unweighted.*|unwtd.*|base \(unweighted\).*")
_OTHER_STATISTICS = re.compile(
    r"margins? of error.*|moe|±|\+/-|nets?\b.*|(top|bottom) ?-?\d.*|[tb]\db|average\b.*"
    r"|std\.? ?(error|dev).*|standard (error|deviation).*|s\.?e\.?|cv|mean\b.*|median\b.*|index|rank"
    r"|(expected|residual|cumulative|valid) .*|expected|residual|(lower|upper) .*|ci|p-value|sig\.?|annotation.*",
)
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
_AGE = re.compile(
    r"(aged? )?(\d{1,3} ?(-|–|_|to) ?\d{1,3}|u(nder)? ?_?\d{1,3}|<\d{1,3}|less than \d{1,3}"
    r"|\d{1,3} ?(\+|up|plus|and (over|older|up|above)|or (over|older|more)|years and over))( years?( old| of age)?)?"
)
_QUESTION = re.compile(r".*\?\W*(\(.*\))?|q\.? ?\d+\w?\b.+", re.IGNORECASE | re.DOTALL)
_TABLE_NUMBER = re.compile(
    r"^\s*(table|tab\.|figure|exhibit)\s*[\w.-]*\d\w*\s*[.:)–-]*\s*|^\s*\d+[.)]\s+", re.IGNORECASE
)
_JOINED = re.compile(r"\s*[×*\\/|]\s*|\s*,?\s+by\s+|\s+x\s+|\s+vs\.?\s+|\s*,\s*(?:and\s+)?|\s+and\s+", re.IGNORECASE)
_CROSSED = re.compile(r"\s*[×*\\/|]\s*|\s+x\s+|\s+(?:vs\.?)\s+|\s+(?:by)\s+", re.IGNORECASE)


def plain_words(label: str) -> str:
    """Return a label in small letters without signs at its ends."""
    return " ".join(label.casefold().split()).strip(" :.*()[]")


def line_role(label: str, beside: Sequence[str]) -> Role | None:
    """Return what a row or column is that is no category: a total, a base, another statistic.

    Examples
    --------
    >>> [line_role(label, []) for label in ("Total, all ages", "(n)", "Unweighted base:", "Margin of Error", "Yes")]
    ['total', 'base', 'unweighted', 'skip', None]
    """
    words = plain_words(label)
    known = margin_role(label, beside)
    if known is not None:
        return known
    if words == "n":
        return None  # beside "yes"
    for role, pattern in (("unweighted", _UNWEIGHTED), ("base", _BASE), ("total", _TOTAL), ("skip", _OTHER_STATISTICS)):
        if pattern.fullmatch(words):
            return role  # type: ignore[return-value]
    return None


def statistic(label: str) -> str | None:
    """Return "count" or "share" for the name of a statistic, "skip" for others, None for other labels."""
    words = plain_words(label)
    if _COUNT.fullmatch(words):
        return "count"
    if _SHARE.fullmatch(" ".join(label.casefold().split())) or words.startswith("% "):
        return "share"
    return "skip" if _OTHER_STATISTICS.fullmatch(words) else None


def is_measure(label: str) -> bool:
    """Return whether a heading above all columns says what the numbers are, and is no variable's name."""
    return bool(_MEASURE.fullmatch(" ".join(label.casefold().split())))


def is_area(name: str) -> bool:
    """Return whether a column of that name has the names of areas."""
    return bool(_AREA.fullmatch(plain_words(name)))


def is_question(text: str) -> bool:
    """Return whether a line is a question of a survey."""
    return bool(_QUESTION.fullmatch(text.strip()))


def known_variable(labels: Sequence[str]) -> str | None:
    """Return "sex" or "age" where labels are the categories of it.

    Examples
    --------
    >>> known_variable(["Male", "Female"]), known_variable(["u15", "15_17", "85up"]), known_variable(["yes", "no"])
    ('sex', 'age', None)
    """
    words = [plain_words(label) for label in labels]
    if len(words) == 2 and all(map(_SEX.fullmatch, words)):
        return "sex"
    n_ages = sum(bool(_AGE.fullmatch(one)) for one in words)
    return "age" if len(words) > 1 and n_ages >= max(2, len(words) - 1) else None


def crossed_names(text: str) -> list[str]:
    """Return the two variables that a corner, "age × vote", names; else an empty list."""
    names = [part.strip() for part in _CROSSED.split(text)]
    return names if len(names) == 2 and all(names) else []


def title_names(title: str, n: int) -> list[str]:
    """Return the names of n variables in a title, or an empty list where it names another number of them.

    Examples
    --------
    >>> title_names("Table 7: Population by sex, age and type of area, 2021", 3), title_names("Age by vote", 2)
    (['sex', 'age', 'type of area'], ['Age', 'vote'])
    """
    text = _TABLE_NUMBER.sub("", title)
    text = re.sub(r"\s*\([^)]*\)|\bcross-?tab(ulation)?s?\b", "", text, flags=re.IGNORECASE).split(":")[0].split(";")[0]
    by = re.search(r"\s*[×*]\s*|,?\s+by\s+|\s+x\s+|\s+vs\.?\s+", text, re.IGNORECASE)
    if by is None:
        return []
    head = text[: by.start()].strip(" .,")
    names = [part.strip(" .,") for part in _JOINED.split(text[by.end() :])]
    names = [part for part in names if part and not re.fullmatch(r"[\d\s–-]+|(in )?(percent|counts?).*|%.*", part)]
    if len(names) == n and n > 1:
        return names
    return [head, *names] if len(names) == n - 1 and head else []


def area_of_title(title: str) -> str:
    """Return the area that a title such as "County: Alder County" names, or nothing."""
    name, sign, area = title.partition(":")
    return area.strip() if sign and is_area(name) else ""


def records_of_title(title: str) -> float | None:
    """Return the number of records that a title gives: 1204 for "all adults (n = 1,204)"."""
    found = re.search(r"\b[nN]\s*=\s*(\d[\d,]*)", title)
    return float(found[1].replace(",", "")) if found else None


def kind_of_title(title: str) -> str | None:
    """Return the kind of percentages that a title names."""
    words = " ".join(title.casefold().split())
    for kind, pattern in (
        ("row", r"\brow[- ]?(%|per ?cent|pct)|% (with)?in row"),
        ("column", r"\bcol(umn)?[- ]?(%|per ?cent|pct)|% (with)?in col"),
        ("joint", r"(%|per ?cent(age)?s?) of (all|the total|total|everyone|respondents)"),
    ):
        if re.search(pattern, words):
            return kind
    return None
