"""Models that predict ratings, and averages of them.

Whatever a model is, what it expects of a rating is a product of numbers of the user, which follow from the user's known
ratings, and numbers of the item. So a weighted average of models is such a model again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.data.records import Records
from twoway.estimators.ratings.table import RatingTable

Two = tuple[Floats, Floats]
"""Of the expected rating, and of the expected square of the rating; each (n, n_numbers)."""


class RatingExpert(Protocol):
    """A model whose expectations are products of numbers of users and numbers of items."""

    @property
    def of_items(self) -> Two:
        """The numbers of each item."""

    def of_users(self, users: Records) -> Two:
        """Return the numbers of users with these ratings."""


@dataclass(frozen=True)
class RatingAverage:
    """A weighted average of models."""

    experts: Sequence[RatingExpert]
    shares: Sequence[float]

    @cached_property
    def of_items(self) -> Two:
        """The numbers of each item, of one model after the other."""
        means, squares = zip(*(expert.of_items for expert in self.experts), strict=True)
        return np.hstack(means), np.hstack(squares)

    def of_users(self, users: Records) -> Two:
        """Return the numbers of users, each times the share of its model."""
        of_experts = zip(self.shares, (expert.of_users(users) for expert in self.experts), strict=True)
        means, squares = zip(*((share * first, share * second) for share, (first, second) in of_experts), strict=True)
        return np.hstack(means), np.hstack(squares)


def expert_ratings(expert: RatingExpert, table: RatingTable, user_codes: Ints, item_codes: Ints) -> Floats:
    """Return the rating that is expected of each pair of user (-1: unknown) and item, (n_pairs,).

    Nothing is said of the pairs themselves: a known rating counts as one of the user's.
    """
    return expert_powers(expert, table, user_codes, item_codes, 1)[0]


def expert_powers(
    expert: RatingExpert, table: RatingTable, user_codes: Ints, item_codes: Ints, n_powers: int = 2
) -> list[Floats]:
    """Return what `expert_ratings` does, and the expected squares of the ratings; each (n_pairs,)."""
    of_items = expert.of_items[:n_powers]
    powers = [np.empty(len(user_codes)) for _ in of_items]
    for pairs, users, of_pair in table.pairs_by_user(user_codes, sum(numbers.shape[1] for numbers in of_items)):
        for answers, of_item, of_user in zip(powers, of_items, expert.of_users(users), strict=False):
            answers[pairs] = np.einsum("pn,pn->p", of_user[of_pair], of_item[item_codes[pairs]])
    return powers
