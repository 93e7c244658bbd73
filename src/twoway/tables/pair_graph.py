"""The graph of available tables: connected variables, and splits of the variables into two groups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from twoway.arrays import Bools, Ints
from twoway.schema import Schema
from twoway.text import crossed_text

if TYPE_CHECKING:
    from twoway.tables.tables import Tables

# Up to this number of variables every group is tried; beyond it, groups are grown from each variable.
_MOST_ENUMERATED = 14
_MOST_SPLITS = 24
_MOST_PAIRS_NAMED = 4


@dataclass(frozen=True)
class PairSplit:
    """Two groups of variables with every table between them."""

    first: Bools
    second: Bools

    def carried(self, sizes: Sequence[int] | Ints) -> int:
        """Return the highest rank that both groups can have, given that each variable's shares add up to one."""
        free = np.asarray(sizes) - 1
        return 1 + int(min(free[self.first].sum(), free[self.second].sum()))


class PairGraph:
    """Which tables there are, among variables of some numbers of categories."""

    def __init__(self, available: Bools, sizes: Sequence[int] | Ints) -> None:
        self.available = available & ~np.eye(len(sizes), dtype=bool)
        self.sizes = np.asarray(sizes, dtype=np.int64)

    @classmethod
    def of(cls, tables: Tables) -> Self:
        """Return the graph of two-way tables."""
        return cls(tables.together, tables.schema.sizes)

    @property
    def n_variables(self) -> int:
        """The number of variables."""
        return len(self.sizes)

    @property
    def is_complete(self) -> bool:
        """Whether there is a table of every pair."""
        return bool((self.available | np.eye(self.n_variables, dtype=bool)).all())

    def groups(self) -> list[Ints]:
        """Return the variables that tables connect, group by group."""
        from scipy.sparse.csgraph import connected_components

        n_groups, group_of = connected_components(self.available, directed=False)
        return [np.flatnonzero(group_of == group) for group in range(n_groups)]

    def sides(self) -> Bools | None:
        """Return one side of a split such that every table has a variable on each side, None if there is none."""
        from scipy.sparse.csgraph import dijkstra

        firsts = [group[0] for group in self.groups()]
        steps = dijkstra(self.available, directed=False, indices=firsts, unweighted=True, min_only=True)
        side = np.asarray(steps % 2 == 0)
        return None if (self.available & (side[:, None] == side)).any() else side

    @property
    def goes_through_all(self) -> bool:
        """Whether all splits are tried, so that finding none proves that there is none."""
        return self.n_variables <= _MOST_ENUMERATED or self.is_complete

    @cached_property
    def _most_carried(self) -> int:
        splits = self._candidates(np.random.default_rng(0))
        if self.n_variables <= _MOST_ENUMERATED:
            splits = itertools.islice(splits, 1)  # the best one comes first
        return max((split.carried(self.sizes) for split in splits), default=0)

    def why_no_split(self, rank: int) -> str | None:
        """Return a message that no split can carry a rank; None where one can, or where not all were tried."""
        if not self.goes_through_all or rank <= self._most_carried:  # the splits of many variables take long
            return None
        return f"no two groups of variables with all tables between them have {rank} independent rows each"

    def splits(self, rank: int, random: np.random.Generator) -> list[PairSplit]:
        """Return splits that can carry a rank, those with the most categories on the smaller side first."""
        splits: dict[frozenset[bytes], PairSplit] = {}
        for split in self._candidates(random):
            if split.carried(self.sizes) >= rank:
                splits.setdefault(frozenset((split.first.tobytes(), split.second.tobytes())), split)
            if len(splits) >= 20 * _MOST_SPLITS:
                break
        ranked = sorted(splits.values(), key=lambda split: (-split.carried(self.sizes), -split.first.sum()))
        return ranked[:_MOST_SPLITS]

    def _candidates(self, random: np.random.Generator) -> Iterator[PairSplit]:
        if self.n_variables <= _MOST_ENUMERATED:
            yield from self._all()
        elif self.is_complete:
            yield from self._halves(random)
        else:
            for start in range(self.n_variables):
                yield from self._grown(start)

    def _all(self) -> Iterator[PairSplit]:
        """Yield every group with all that has tables with each of it, largest smaller side first."""
        n = self.n_variables
        beside = [sum(1 << int(k) for k in np.flatnonzero(row)) for row in self.available]
        masks = np.arange(1, 1 << n, dtype=np.int64)
        common = np.full(1 << n, (1 << n) - 1, dtype=np.int64)
        weight = np.zeros(1 << n, dtype=np.int64)
        for bit in range(n):
            with_bit = (np.arange(1 << n) >> bit) & 1 == 1
            common[with_bit] &= beside[bit]
            weight[with_bit] += self.sizes[bit] - 1
        smaller = np.minimum(weight[masks], weight[common[masks]])
        order = np.argsort(-smaller, kind="stable")
        for mask in masks[order][(common[masks] > 0)[order]][: 40 * _MOST_SPLITS]:
            yield PairSplit((mask >> np.arange(n)) & 1 == 1, (common[mask] >> np.arange(n)) & 1 == 1)

    def _halves(self, random: np.random.Generator) -> Iterator[PairSplit]:
        """Yield even splits: by size first, then by chance."""
        for trial in range(_MOST_SPLITS):
            first = self.balanced(2, None if trial == 0 else random.permutation(self.n_variables)) == 0
            yield PairSplit(first, ~first)

    def inseparable(self) -> list[Ints]:
        """Return groups of variables that no split with all its tables can part: those linked by missing tables."""
        return PairGraph(~self.available, self.sizes).groups()

    def balanced(self, n_groups: int, order: Ints | None = None) -> Ints:
        """Return the group of each variable, with every table between groups, as even in categories as they get.

        One after the other, largest first, what must stay together joins the group of fewest categories; ``order`` is
        another order. A group stays empty where there is too little to part.
        """
        parts, group_of, totals = self.inseparable(), np.zeros(self.n_variables, dtype=np.int64), np.zeros(n_groups)
        sizes = np.array([self.sizes[part].sum() for part in parts])
        for part in np.argsort(-sizes, kind="stable") if order is None else order:
            smallest = np.argmin(totals)
            group_of[parts[part]] = smallest
            totals[smallest] += sizes[part]
        return group_of

    def _grown(self, start: int) -> Iterator[PairSplit]:
        """Yield groups grown from one variable, each time by the one that leaves the other side largest."""
        first = np.zeros(self.n_variables, dtype=bool)
        first[start] = True
        common = self.available[start].copy()
        while common.any():
            yield PairSplit(first.copy(), common.copy())
            addable = np.flatnonzero(~first)
            remaining = (self.available[addable] & common) @ self.sizes
            best = int(addable[np.argmax(remaining)])
            first[best] = True
            common &= self.available[best]
            common[best] = False


def inseparable_pairs(linked: Bools) -> Bools:
    """Return which two variables stay connected whichever single other variable is left out, (n, n).

    Examples
    --------
    >>> linked = np.ones((3, 3), dtype=bool)
    >>> linked[0, 2] = linked[2, 0] = False
    >>> inseparable_pairs(linked)
    array([[ True,  True, False],
           [ True,  True,  True],
           [False,  True,  True]])
    """
    from scipy.sparse.csgraph import connected_components

    inseparable = np.ones_like(linked)
    for place in range(len(linked)):
        part = linked.copy()
        part[place] = part[:, place] = False
        _, label = connected_components(part, directed=False)
        same = label[:, None] == label
        same[place] = same[:, place] = True
        inseparable &= same
    return inseparable


def pairs_without_table(schema: Schema, together: Bools) -> str:
    """Return which pairs of variables no table has, in words; empty where all have one.

    Examples
    --------
    >>> from twoway.schema import Variable
    >>> schema = Schema(tuple(Variable(name, ("no", "yes")) for name in ("age", "sex", "vote")))
    >>> pairs_without_table(schema, np.array([[False, True, True], [True, False, False], [True, False, False]]))
    '1 of 3 pairs: sex × vote'
    """
    pairs = np.argwhere(np.triu(~together, 1))
    if not len(pairs):
        return ""
    named = [crossed_text(schema.names[position] for position in pair) for pair in pairs[:_MOST_PAIRS_NAMED].tolist()]
    more = [f"… ({len(pairs) - len(named):,} more)"] if len(pairs) > len(named) else []
    return f"{len(pairs):,} of {math.comb(len(schema), 2):,} pairs: {', '.join([*named, *more])}"
