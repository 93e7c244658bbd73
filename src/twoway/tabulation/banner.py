"""The columns of tables: variables beside each other, or each within the categories of others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, product
from string import ascii_uppercase

from twoway.category_labels import Label
from twoway.errors import DataError, check_known, check_type
from twoway.model.events import Names
from twoway.schema import Schema, Variable, first_duplicate
from twoway.tabulation.result import BannerColumn

TOTAL = "Total"
WITHIN = ">"
"""The sign between the variables of nested columns, the outer one first."""
# A banner of more columns is a mistake: no page shows it.
MOST_COLUMNS = 1000


@dataclass(frozen=True)
class BannerGroup:
    """Columns that are compared with each other: the categories of a variable, among those with some other answers."""

    variables: tuple[Variable, ...]
    """The variable of the columns; none for the column of all records."""
    among: tuple[tuple[Variable, int], ...] = ()
    """The variables that this one is nested in, with the code of a category each."""

    @property
    def size(self) -> int:
        """The number of columns."""
        return math.prod(map(len, self.variables))

    @property
    def names(self) -> list[str]:
        """The variables of the columns, the outermost first."""
        return [variable.name for variable in (*(outer for outer, _ in self.among), *self.variables)]

    @property
    def codes(self) -> dict[str, int]:
        """The codes of the outer variables, by name."""
        return {outer.name: code for outer, code in self.among}

    @property
    def given(self) -> dict[str, Label]:
        """The categories of the outer variables, by name."""
        return {outer.name: outer.categories[code] for outer, code in self.among}

    @property
    def title(self) -> str:
        """The heading of the columns."""
        outer = [f"{name} = {label}" for name, label in self.given.items()]
        return f" {WITHIN} ".join([*outer, *(variable.name for variable in self.variables)])


def opened_banner(schema: Schema, columns: Names) -> list[BannerGroup]:
    """Return the groups of columns of a banner, that of all records first."""
    check_type("columns", columns, str | Iterable, "names of variables")
    texts = [columns] if isinstance(columns, str) else list(columns)
    nests = [_banner_nest(schema, text) for text in texts]
    if (duplicate := first_duplicate([f" {WITHIN} ".join(nest) for nest in nests])) is not None:
        raise DataError(f"duplicate variable {duplicate!r} in columns")
    groups, n_columns = [BannerGroup(())], 0
    for nest in nests:
        *outer, inner = (schema[name] for name in nest)
        n_columns += math.prod(len(schema[name]) for name in nest)
        if n_columns > MOST_COLUMNS:
            raise DataError(
                f"the banner has more than {MOST_COLUMNS:,} columns with {f' {WITHIN} '.join(nest)!r}; "
                "take fewer variables, or bin them"
            )
        every_code = product(*(range(len(variable)) for variable in outer))
        groups += [BannerGroup((inner,), tuple(zip(outer, codes, strict=True))) for codes in every_code]
    return groups


def _banner_nest(schema: Schema, text: str) -> list[str]:
    """Return the variables of a part of a banner, the outermost first."""
    names = [text] if text in schema else [name.strip() for name in str(text).split(WITHIN)]
    if len(names) > 1 and not all(names):
        raise DataError(f"{text!r} in columns lacks a variable beside {WITHIN!r}: write 'age {WITHIN} gender'")
    check_known("variable", schema.names, *names, where=" in columns")
    if (duplicate := first_duplicate(names)) is not None:
        raise DataError(f"duplicate variable {duplicate!r} in columns {text!r}; a variable cannot be nested in itself")
    return names


def banner_heads(groups: Sequence[BannerGroup]) -> tuple[BannerColumn, ...]:
    """Return the heads of all columns, with letters."""
    heads = [(group.title, label) for group in groups for v in group.variables for label in v.categories]
    lettered = zip(heads, _banner_letters(), strict=False)
    return BannerColumn("", TOTAL, ""), *(BannerColumn(*head, letter) for head, letter in lettered)


def _banner_letters() -> Iterator[str]:
    """Yield the letters of columns: A to Z, then AA, AB, …

    Examples
    --------
    >>> letters = [letter for letter, _ in zip(_banner_letters(), range(703))]
    >>> [letters[place] for place in (0, 25, 26, 701, 702)]
    ['A', 'Z', 'AA', 'ZZ', 'AAA']
    """
    for length in count(1):
        yield from map("".join, product(ascii_uppercase, repeat=length))
