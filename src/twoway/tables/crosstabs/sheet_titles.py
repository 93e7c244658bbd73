"""Titles of published tables: the variables, the area, the number of records and the kind of numbers that they name."""

from __future__ import annotations

import re

from twoway.tables.crosstabs.crosstabs import TableKind
from twoway.tables.crosstabs.sheet_words import is_area_word

_TABLE_NUMBER = re.compile(
    r"^\s*(table|tab\.|figure|exhibit)\s*[\w.-]*\d\w*\s*[.:)–-]*\s*|^\s*\d+[.)]\s+", re.IGNORECASE
)
_JOINED = re.compile(r"\s*[×*\\/|]\s*|\s*,?\s+by\s+|\s+x\s+|\s+vs\.?\s+|\s*,\s*(?:and\s+)?|\s+and\s+", re.IGNORECASE)
_KINDS: dict[TableKind, re.Pattern[str]] = {
    "row": re.compile(r"\brow[- ]?(%|per ?cent|pct)|% (with)?in row"),
    "column": re.compile(r"\bcol(umn)?[- ]?(%|per ?cent|pct)|% (with)?in col"),
    "joint": re.compile(r"(%|per ?cent(age)?s?) of (all|the total|total|everyone|respondents)"),
}
_QUESTION = re.compile(r".*\?\W*(\(.*\))?|q\.? ?\d+\w?\b.+", re.IGNORECASE | re.DOTALL)


def names_of_title(title: str, n: int) -> list[str]:
    """Return the names of n variables in a title, or an empty list where it names another number of them.

    Examples
    --------
    >>> names_of_title("Table 7: Population by sex, age and type of area, 2021", 3), names_of_title("Age by vote", 2)
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


def is_question_title(title: str) -> bool:
    """Return whether a title is a question of a survey."""
    return bool(_QUESTION.fullmatch(title.strip()))


def area_of_title(title: str) -> str:
    """Return the area that a title such as "County: Alder County" names, or nothing."""
    name, sign, area = title.partition(":")
    return area.strip() if sign and is_area_word(name) else ""


def records_of_title(title: str) -> float | None:
    """Return the number of records that a title gives: 1204 for "all adults (n = 1,204)"."""
    match = re.search(r"\b[nN]\s*=\s*(\d[\d,]*)", title)
    return float(match[1].replace(",", "")) if match else None


def kind_of_title(title: str) -> TableKind | None:
    """Return the kind of percentages that a title names."""
    words = " ".join(title.casefold().split())
    return next((kind for kind, pattern in _KINDS.items() if pattern.search(words)), None)
