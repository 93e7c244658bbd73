"""Ratings of items by users: read from a long table or a users × items frame, kept compressed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoway.arrays import Bools, Floats, Ints
from twoway.category_labels import label_key, plain_label, sort_labels
from twoway.data.frames import frame_in_memory
from twoway.data.records import Records
from twoway.errors import DataError, unknown_name
from twoway.estimators.long_tables import (
    find_long_table_names,
    long_table_columns,
    long_table_names,
    long_table_records,
    read_long_table,
    shown_name,
)
from twoway.schema import Schema, Variable
from twoway.text import shortlist

# Ratings with more values than this are measurements, not points on a scale.
_MOST_POINTS = 100
_ALLOWED = "ratings must be a long table of user, item and rating, or a frame or array of users × items"
_NEED = "each rating needs its user and item"
# Pairs of user and item are answered in parts of about this many numbers.
_CHUNK = 2**22


@dataclass(frozen=True)
class RatingTable:
    """The ratings: one record per user, one variable per item."""

    users: pd.Index
    """User ``n`` has record ``n``."""
    items: pd.Index
    """In the order of the schema's variables."""
    records: Records

    @cached_property
    def keys(self) -> Ints:
        """A number for each rating, ascending: the user's position times the number of items, plus the item's."""
        records = self.records
        user_of_cell = np.repeat(np.arange(records.n_records), np.diff(records.pointers))
        return np.asarray(user_of_cell * len(self.items) + records.cells // self.n_points)

    @property
    def n_points(self) -> int:
        """The number of points of the scale."""
        return self.records.schema.sizes[0]

    @property
    def points(self) -> Floats:
        """The points of the scale, ascending."""
        return np.array(self.records.schema.variables[0].values)

    @cached_property
    def ratings(self) -> Floats:
        """The ratings in the order of the keys."""
        return np.asarray(self.points[self.records.cells % self.n_points])

    @cached_property
    def least_noise(self) -> float:
        """The variance that rounding to the points of the scale alone would cause."""
        return float(np.diff(self.points).min()) ** 2 / 12 if self.n_points > 1 else 1.0

    @cached_property
    def variance(self) -> float:
        """The variance of all ratings, at least that of rounding."""
        return max(float(np.var(self.ratings)), self.least_noise)

    def only(self, marked: Bools) -> RatingTable:
        """Return the table with some ratings, those marked in (n_ratings,); every user and item stays."""
        users, cells = self.keys[marked] // len(self.items), self.records.cells[marked]
        return replace(self, records=long_table_records(self.records.schema, users, cells, len(self.users)))

    def sample(self, n_ratings: int, random: np.random.Generator) -> RatingTable:
        """Return the table of some users, with about ``n_ratings``; every item stays."""
        return self._take(np.flatnonzero(random.uniform(size=len(self.users)) * len(self.keys) < n_ratings))

    def canonical(self) -> RatingTable:
        """Return the table of the users who rated something, in an order that depends on their ratings alone."""
        records, pointers = self.records, self.records.pointers
        order = sorted(
            np.flatnonzero(np.diff(pointers)).tolist(),
            key=lambda user: records.cells[pointers[user] : pointers[user + 1]].tobytes(),
        )
        return self._take(np.array(order, dtype=np.int64))

    def _take(self, users: Ints) -> RatingTable:
        return replace(self, users=self.users[users], records=self.records.take(users))


@dataclass(frozen=True)
class RatingPairs:
    """Pairs of user and item whose ratings are predicted, and the known ratings to predict them by."""

    table: RatingTable
    """The known ratings."""
    user_codes: Ints
    """(n_pairs,): positions in the table, -1 for a user without known ratings."""
    item_codes: Ints
    """(n_pairs,)."""

    def __len__(self) -> int:
        return len(self.user_codes)

    def take(self, places: Ints) -> RatingPairs:
        """Return some of the pairs, by position."""
        return RatingPairs(self.table, self.user_codes[places], self.item_codes[places])

    def chunks(self, n_numbers: int, most: int) -> Iterator[Ints]:
        """Yield the positions of all pairs, ordered by user, in parts of ``most`` numbers or less, some per pair."""
        order, size = np.argsort(self.user_codes, kind="stable"), max(1, most // n_numbers)
        for first in range(0, len(order), size):
            yield order[first : first + size]

    def by_user(self, n_numbers: int) -> Iterator[tuple[Ints, Records, Ints]]:
        """Yield parts of the pairs: their positions, the ratings of their users, and the place of each pair's user.

        A part is so small that ``n_numbers`` per pair fit in memory.
        """
        for pairs in self.chunks(n_numbers, _CHUNK):
            users, of_pair = np.unique(self.user_codes[pairs], return_inverse=True)
            n_unknown = int(users[0] < 0)
            known = self.table.records.take(users[n_unknown:])
            pointers = np.concatenate([np.zeros(n_unknown, dtype=np.int64), known.pointers])
            yield pairs, Records.from_cells(known.schema, pointers, known.cells), of_pair

    def with_known(self, answers: Floats, of_point: Floats) -> Floats:
        """Return the answers for all pairs, with that of its point of the scale where a rating is known."""
        table = self.table
        if len(table.keys):
            asked = self.user_codes * len(table.items) + self.item_codes
            places = np.minimum(np.searchsorted(table.keys, asked), len(table.keys) - 1)
            is_known = (table.keys[places] == asked) & (self.user_codes >= 0)
            answers[is_known] = of_point[table.records.cells[places[is_known]] % table.n_points]
        return answers


_Triplets: TypeAlias = tuple[pd.Index, Ints, pd.Index, Ints, Floats]
"""The ratings of a source in any order: all users and the user of each rating, likewise the items, and the ratings."""


def read_rated_pairs(source: Any, columns: Sequence[str], table: RatingTable) -> RatingPairs:
    """Return the pairs of user and item in a long table; all items must be those of a table of known ratings."""
    users, items = read_long_table(source, columns[:2], "users and items", _ALLOWED)
    user_codes = table.users.get_indexer(pd.Index(users)).astype(np.int64)
    return RatingPairs(table, user_codes, _find_rated_items(table.items, items))


def read_true_ratings(source: Any, columns: Sequence[str], ratings: Any) -> Floats:
    """Return the ratings in a long table, NaN where they are missing, or those in place of its column."""
    *_, cells = read_long_table(source, columns, "ratings", _ALLOWED, ratings)
    return _rating_numbers(cells.to_numpy())


def read_ratings(
    source: Any,
    columns: Sequence[str],
    *,
    ratings: Any = None,
    items: pd.Index | None = None,
    scale: Sequence[float] | None = None,
) -> RatingTable:
    """Return the ratings in a source.

    Parameters
    ----------
    source
        A long table with one row per rating, or a frame or array of users × items.
    columns
        The names of a long table's columns: user, item, rating.
    ratings
        The ratings, in place of the column of a long table.
    items
        The known items; those of the source by default.
    scale
        The points that ratings can take; those that occur by default.
    """
    source = frame_in_memory(source)
    is_long = _has_row_per_rating(source, columns)
    raw = _long_ratings(source, columns, ratings) if is_long else _wide_ratings(source, ratings, items)
    users, user_codes, raw_items, raw_item_codes, numbers = raw
    rated = ~np.isnan(numbers)
    is_new = items is None
    if items is None:
        place = {label_key(label): position for position, label in enumerate(raw_items)}
        ordered = sort_labels(plain_label(label) for label in raw_items)
        items = raw_items[[place[label_key(label)] for label in ordered]]
    item_codes = _find_rated_items(items, raw_items)[raw_item_codes]
    never = np.bincount(item_codes[rated], minlength=len(items)) == 0
    points = _check_rating_scale(scale, numbers[rated])
    if is_new and never.any():
        raise DataError(f"no user rated {shortlist(items[never].tolist())}; leave out items without ratings")
    codes = np.minimum(np.searchsorted(points, numbers), len(points) - 1)
    outside = np.flatnonzero(rated & (points[codes] != numbers))
    if len(outside):
        user, item = shown_name(users, user_codes[outside[0]]), shown_name(items, item_codes[outside[0]])
        raise DataError(
            f"the rating {numbers[outside[0]]:g} of item {item} by user {user} is outside the scale "
            f"{', '.join(f'{point:g}' for point in points)}"
        )
    keys, cells = user_codes * len(items) + item_codes, item_codes * len(points) + codes
    return _rating_table(users, items, points, keys[rated], cells[rated])


def _find_rated_items(items: pd.Index, labels: Any) -> Ints:
    return find_long_table_names("item", items, labels, " among those that have ratings")


def _rating_table(users: pd.Index, items: pd.Index, points: Floats, keys: Ints, cells: Ints) -> RatingTable:
    """Return the table of ratings in any order, from the keys and the cells of the ratings."""
    schema = Schema(tuple(Variable(str(plain_label(item)), tuple(points.tolist()), is_found=True) for item in items))
    if (np.diff(keys) <= 0).any():
        order = np.argsort(keys, kind="stable")
        keys, cells = keys[order], cells[order]
        twice = np.flatnonzero(np.diff(keys) == 0)
        if len(twice):
            user, item = divmod(int(keys[twice[0]]), len(items))
            raise DataError(
                f"user {shown_name(users, user)} rated item {shown_name(items, item)} twice; keep one of the ratings, "
                "for example the latest"
            )
    return RatingTable(users, items, long_table_records(schema, keys // len(items), cells, len(users)))


def _has_row_per_rating(source: Any, columns: Sequence[str]) -> bool:
    """Return whether a source has one row per rating, by its column names."""
    if isinstance(source, np.ndarray):
        return False
    names = long_table_columns(source, _ALLOWED)
    missing = [name for name in columns[:2] if name not in names]
    if len(missing) == 1:
        raise unknown_name("column", missing[0], names, where=" in the table of ratings")
    return not missing


def _long_ratings(source: Any, columns: Sequence[str], ratings: Any) -> _Triplets:
    users, items, cells = read_long_table(source, columns, "ratings", _ALLOWED, ratings)
    of_users = long_table_names(users, columns[0], _NEED)
    return *of_users, *long_table_names(items, columns[1], _NEED), _rating_numbers(cells.to_numpy())


def _wide_ratings(source: Any, ratings: Any, items: pd.Index | None) -> _Triplets:
    if ratings is not None:
        raise DataError("a frame of users × items already holds the ratings; give y only with a long table")
    if isinstance(source, np.ndarray):
        if source.ndim != 2:
            raise DataError(f"an array of ratings must have 2 dimensions, users × items; got {source.ndim}")
        frame = pd.DataFrame(source, columns=items if items is not None and len(items) == source.shape[1] else None)
    elif hasattr(source, "to_pandas"):
        frame = source.to_pandas()  # users are numbered
    else:
        try:
            frame = pd.DataFrame(source)
        except ValueError as error:
            raise DataError("a mapping of ratings must have a list for each item, all of one length") from error
    for what, index in (("user", frame.index), ("item", frame.columns)):
        if not index.is_unique:
            duplicate = shown_name(index, int(np.argmax(index.duplicated())))
            raise DataError(f"duplicate {what} {duplicate} in the frame of users × items")
    matrix = _rating_numbers(frame.to_numpy())
    rows, places = np.nonzero(~np.isnan(matrix))
    return frame.index, rows, frame.columns, places, matrix[rows, places]


def _rating_numbers(values: NDArray[Any]) -> Floats:
    """Return ratings as numbers, NaN where they are missing."""
    try:
        numbers: Floats = pd.to_numeric(pd.Series(values.ravel())).to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise DataError(f"a rating must be a number, or missing: {error}") from None
    if values.dtype.kind not in "iufb" and any(isinstance(value, str) for value in values.ravel()):
        raise DataError("a rating must be a number, or missing; got text")
    if np.isinf(numbers).any():
        raise DataError("a rating must be a finite number, or missing; got inf")
    return numbers.reshape(values.shape)


def _check_rating_scale(scale: Sequence[float] | None, ratings: Floats) -> Floats:
    """Return the points of the scale, ascending."""
    given = [*scale] if isinstance(scale, Iterable) else []
    points = np.unique(ratings if scale is None else _rating_numbers(np.asarray(given)))
    n = len(points)
    if scale is None and not n:
        raise DataError("there are no ratings to learn from")
    if scale is None and n > _MOST_POINTS:
        raise DataError(f"the ratings have {n} different values, but a scale has at most {_MOST_POINTS}; round them")
    if not n or np.isnan(points).any():
        raise DataError(f"scale must be the possible ratings, at least one number; got {scale!r}")
    return points
