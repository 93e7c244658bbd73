"""The columns of tables: variables beside each other, or each within the categories of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from string import ascii_uppercase

from twoway.category_labels import Label
from twoway.errors import DataError, check_known
from twoway.model.events import Names
from twoway.schema import Schema, Variable, first_duplicate
from twoway.tabulation.result import BannerColumn

TOTAL = "Total"
WITHIN = ">"
"""What stands between the variables of columns that nest, the outer one first."""
# A banner of more columns is a mistake: no page shows it.
MOST_COLUMNS = 1000


@dataclass(frozen=True)
class BannerGroup:
    """Columns that are compared with each other: the categories of a variable, among those with some other answers."""

    variable: Variable | None
    """None for the column of all records."""
    among: tuple[tuple[Variable, int], ...] = ()
    """The variables that this one is nested in, with the code of a category each."""

    @property
    def size(self) -> int:
        """The number of columns."""
        return 1 if self.variable is None else len(self.variable)

    @property
    def names(self) -> list[str]:
        """The variables of the columns, the outermost first."""
        own = [] if self.variable is None else [self.variable.name]
        return [*(outer.name for outer, _ in self.among), *own]

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
        """What stands above the columns."""
        outer = [f"{name} = {label}" for name, label in self.given.items()]
        return f" {WITHIN} ".join([*outer, *([] if self.variable is None else [self.variable.name])])


def opened_banner(schema: Schema, columns: Names) -> list[BannerGroup]:
    """Return the groups of columns of a banner, that of all records first."""
    texts = [columns] if isinstance(columns, str) else list(columns)
    nests = [_banner_nest(schema, text) for text in texts]
    if (twice := first_duplicate([f" {WITHIN} ".join(nest) for nest in nests])) is not None:
        raise DataError(f"{twice!r} is asked for twice in columns; name a variable once")
    groups = [BannerGroup(None)]
    n_columns = 0
    for *outer, inner in nests:
        variables = [schema[name] for name in outer]
        for codes in product(*(range(len(variable)) for variable in variables)):
            groups.append(BannerGroup(schema[inner], tuple(zip(variables, codes, strict=True))))
            n_columns += groups[-1].size
            if n_columns > MOST_COLUMNS:
                raise DataError(
                    f"the banner has more than {MOST_COLUMNS:,} columns with {f' {WITHIN} '.join([*outer, inner])!r}; "
                    "take fewer variables, or bin them"
                )
    return groups


def _banner_nest(schema: Schema, text: str) -> list[str]:
    """Return the variables of a part of a banner, the outermost first."""
    names = [text] if text in schema else [name.strip() for name in str(text).split(WITHIN)]
    if len(names) > 1 and not all(names):
        raise DataError(f"{text!r} in columns lacks a variable beside {WITHIN!r}: write 'age {WITHIN} gender'")
    check_known("variable", schema.names, *names, where=" in columns")
    if (twice := first_duplicate(names)) is not None:
        raise DataError(f"{twice!r} is asked for twice in columns {text!r}; a variable cannot be within itself")
    return names


def banner_heads(groups: Sequence[BannerGroup]) -> tuple[BannerColumn, ...]:
    """Return the heads of all columns, with letters."""
    named = [(group.title, group.variable) for group in groups if group.variable is not None]
    heads = [(title, label) for title, variable in named for label in variable.categories]
    return BannerColumn("", TOTAL, ""), *(BannerColumn(*head, _banner_letter(at)) for at, head in enumerate(heads))


def _banner_letter(place: int) -> str:
    """Return the letter of a column: A to Z, then AA, AB, …

    Examples
    --------
    >>> [_banner_letter(place) for place in (0, 25, 26, 701, 702)]
    ['A', 'Z', 'AA', 'ZZ', 'AAA']
    """
    letters = ""
    while place >= 0:
        place, last = divmod(place, 26)
        letters, place = ascii_uppercase[last] + letters, place - 1
    return letters
