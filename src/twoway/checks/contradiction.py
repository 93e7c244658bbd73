"""Tables that no joint has: those that contradict each other by more than chance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from twoway.checks.table_program import Axis, Margins, TableProgram
from twoway.tables.tables import Tables
from twoway.text import shortlist

_MOST_CELLS = 1024
_LEVEL = 0.99
# Published shares are rounded: what two decimals hide is no contradiction.
_LEAST_CHANGE = 0.01


@dataclass(frozen=True)
class Contradiction:
    """Variables whose tables no joint has."""

    variables: tuple[str, ...]
    change: float
    """The least total by which shares must change, beyond chance, before some joint has them."""

    def __str__(self) -> str:
        return (
            f"the tables of {shortlist(self.variables, 6)} contradict each other: no joint has them unless shares "
            f"change by {self.change:.2g} together, beyond what chance explains"
        )


def find_contradiction(
    tables: Tables, suspects: Iterable[Sequence[str]] = (), *, most_groups: int = 12
) -> Contradiction | None:
    """Return variables whose two-way tables contradict each other by more than chance, None where none were found.

    All variables together are looked at where their joint is small, otherwise triangles of tables around
    the suspects: pairs that a model does not fit, the worst first; ``most_groups`` of them.

    Examples
    --------
    >>> from twoway.data.records import Records
    >>> same, other = [0, 1] * 500, [1, 0] * 500
    >>> first = Tables.count(Records({"a": same, "b": same}))
    >>> second = Tables.count(Records({"b": same, "c": same}))
    >>> third = Tables.count(Records({"a": same, "c": other}))
    >>> find_contradiction(first + second) is None
    True
    >>> print(find_contradiction(first + second + third))
    the tables of 'a', 'b', 'c' contradict each other: no joint has them unless shares change by 0.81 together, \
beyond what chance explains
    """
    margins, names = Margins(tables), tables.schema.names
    for group in islice(_groups(margins, suspects), most_groups):
        axes = [Axis(index, np.arange(tables.schema.sizes[index])) for index in group]
        change = TableProgram(margins, axes, _LEVEL).least_change
        if change > _LEAST_CHANGE:
            return Contradiction(tuple(names[index] for index in group), change)
    return None


def _groups(margins: Margins, suspects: Iterable[Sequence[str]]) -> Iterator[list[int]]:
    """Yield groups of variables, in schema order, whose joint is small enough to look at."""
    schema = margins.tables.schema
    if math.prod(schema.sizes) <= _MOST_CELLS:
        yield list(range(len(schema)))
        return
    for pair in suspects:
        first, second = schema.indices(pair)
        linked = margins.together[first].astype(np.int64) + margins.together[second]
        linked[[first, second]] = 0
        # Triangles first; two tables that share a variable may still disagree on its shares.
        for third in sorted(np.flatnonzero(linked).tolist(), key=lambda index: -int(linked[index])):
            if math.prod(schema.sizes[index] for index in (first, second, third)) <= _MOST_CELLS:
                yield sorted((first, second, third))
