"""Ratings of items by users: read from a long table or a users × items frame, kept compressed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoway.arrays import Bools, Floats, Ints
from twoway.category_labels import label_key, plain_label, sort_labels
from twoway.data.records import Records
from twoway.errors import DataError, check_known, unknown_name
from twoway.estimators.long_tables import long_table_columns, long_table_names, shown_name
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
        keys: Ints = user_of_cell * len(self.items) + records.cells // self.n_points
        return keys

    @property
    def n_points(self) -> int:
        """How many points the scale has."""
        return self.records.schema.sizes[0]

    @property
    def points(self) -> Floats:
        """The points of the scale, ascending."""
        return np.array(self.records.schema.variables[0].values)

    @cached_property
    def ratings(self) -> Floats:
        """The ratings in the order of the keys."""
        ratings: Floats = self.points[self.records.cells % self.n_points]
        return ratings

    @cached_property
    def least_noise(self) -> float:
        """The variance that rounding to the points of the scale alone would cause."""
        return float(np.diff(self.points).min()) ** 2 / 12 if self.n_points > 1 else 1.0

    @cached_property
    def variance(self) -> float:
        """The variance of all ratings, at least that of rounding."""
        return max(float(np.var(self.ratings)), self.least_noise)

    def only(self, kept: Bools) -> RatingTable:
        """Return the table with some ratings, those marked in (n_ratings,); every user and item stays."""
        before = np.concatenate([[0], np.cumsum(kept)])
        records = self.records
        shown = Records.from_cells(records.schema, before[records.pointers], records.cells[kept])
        return replace(self, records=shown)

    def sample(self, n_ratings: int, random: np.random.Generator) -> RatingTable:
        """Return the table of some users, with about so many ratings; every item stays."""
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

    def pairs_by_user(self, user_codes: Ints, n_numbers: int) -> Iterator[tuple[Ints, Records, Ints]]:
        """Yield parts of some pairs: their positions, the ratings of their users, and the place of each pair's user.

        The user -1 has no ratings. A part is of such a size that so many numbers per pair fit in memory.
        """
        order, size = np.argsort(user_codes, kind="stable"), max(1, _CHUNK // n_numbers)
        for pairs in (order[first : first + size] for first in range(0, len(order), size)):
            users, of_pair = np.unique(user_codes[pairs], return_inverse=True)
            n_unknown = int(users[0] < 0)
            known = self.records.take(users[n_unknown:])
            pointers = np.concatenate([np.zeros(n_unknown, dtype=np.int64), known.pointers])
            yield pairs, Records.from_cells(known.schema, pointers, known.cells), of_pair

    def known(self, user_codes: Ints, item_codes: Ints) -> Ints:
        """Return the code of the rating that each user gave each item, -1 where there is none; (n_pairs,)."""
        codes = np.full(len(user_codes), -1)
        if len(self.keys):
            asked = user_codes * len(self.items) + item_codes
            places = np.minimum(np.searchsorted(self.keys, asked), len(self.keys) - 1)
            is_known = (self.keys[places] == asked) & (user_codes >= 0)
            codes[is_known] = self.records.cells[places[is_known]] % self.n_points
        return codes


class _Triplets(NamedTuple):
    """The ratings of a source in any order: the labels, and the positions of each rating's user and item."""

    users: pd.Index
    user_codes: Ints
    items: pd.Index
    item_codes: Ints
    ratings: Floats


def read_rated_pairs(source: Any, columns: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the users and the items of a long table."""
    names = long_table_columns(source, _ALLOWED)
    check_known("column", names, *columns[:2], where=" in a long table of users and items")
    return np.asarray(source[columns[0]]), np.asarray(source[columns[1]])


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
        The ratings of a long table whose own column of ratings, if any, is not meant.
    items
        The items that are known; found in the source by default.
    scale
        The points that ratings can take; those that occur by default.
    """
    is_long = _has_row_per_rating(source, columns)
    raw = _long_ratings(source, columns, ratings) if is_long else _wide_ratings(source, ratings, items)
    rated = ~np.isnan(raw.ratings)
    is_new = items is None
    if items is None:
        place = {label_key(label): position for position, label in enumerate(raw.items)}
        ordered = sort_labels(plain_label(label) for label in raw.items)
        items = raw.items[[place[label_key(label)] for label in ordered]]
    item_codes = find_rated_items(items, raw.items)[raw.item_codes]
    never = np.bincount(item_codes[rated], minlength=len(items)) == 0
    points = _check_rating_scale(scale, raw.ratings[rated])
    if is_new and never.any():
        raise DataError(f"no user rated {shortlist(items[never].tolist())}: leave out items without ratings")
    codes = np.minimum(np.searchsorted(points, raw.ratings), len(points) - 1)
    outside = np.flatnonzero(rated & (points[codes] != raw.ratings))
    if len(outside):
        user, item = shown_name(raw.users, raw.user_codes[outside[0]]), shown_name(items, item_codes[outside[0]])
        raise DataError(
            f"the rating {raw.ratings[outside[0]]:g} of item {item} by user {user} is outside the scale "
            f"{', '.join(f'{point:g}' for point in points)}"
        )
    return _rating_table(raw.users, items, points, raw.user_codes[rated], item_codes[rated], codes[rated])


def find_rated_items(items: pd.Index, labels: Any) -> Ints:
    """Return the position of each label among the items; an unknown label is an error."""
    codes: Ints = items.get_indexer(labels).astype(np.int64)
    if (codes < 0).any():
        missing = plain_label(labels[int(np.argmin(codes))])
        raise unknown_name("item", missing, items.tolist(), where=" among those that have ratings")
    return codes


def _rating_table(
    users: pd.Index, items: pd.Index, points: Floats, user_codes: Ints, item_codes: Ints, rating_codes: Ints
) -> RatingTable:
    """Return the table of ratings in any order."""
    schema = Schema(tuple(Variable(str(plain_label(item)), tuple(points.tolist()), is_found=True) for item in items))
    keys = user_codes * len(items) + item_codes
    if (np.diff(keys) <= 0).any():
        order = np.argsort(keys, kind="stable")
        keys, user_codes, item_codes, rating_codes = np.stack([keys, user_codes, item_codes, rating_codes])[:, order]
        twice = np.flatnonzero(np.diff(keys) == 0)
        if len(twice):
            user, item = shown_name(users, user_codes[twice[0]]), shown_name(items, item_codes[twice[0]])
            raise DataError(f"user {user} rated item {item} twice; keep one of the ratings, for example the latest")
    cells = (item_codes * len(points) + rating_codes).astype(np.min_scalar_type(schema.n_categories - 1))
    pointers = np.concatenate([[0], np.cumsum(np.bincount(user_codes, minlength=len(users)))])
    return RatingTable(users, items, Records.from_cells(schema, pointers, cells))


def _has_row_per_rating(source: Any, columns: Sequence[str]) -> bool:
    """Return whether a source has one row per rating, by its column names."""
    if isinstance(source, np.ndarray):
        return False
    names = long_table_columns(source, _ALLOWED)
    has_column = [name in names for name in columns[:2]]
    if any(has_column) and not all(has_column):
        raise unknown_name("column", columns[has_column.index(False)], names, where=" in a long table of ratings")
    return all(has_column)


def _long_ratings(source: Any, columns: Sequence[str], ratings: Any) -> _Triplets:
    user_labels, item_labels = read_rated_pairs(source, columns)
    if ratings is None:
        check_known("column", long_table_columns(source, _ALLOWED), columns[2], where=" with the ratings")
        ratings = source[columns[2]]
    numbers = _rating_numbers(np.asarray(ratings))
    if numbers.shape != user_labels.shape:
        raise DataError(f"there are {len(user_labels)} pairs of user and item, and ratings of shape {numbers.shape}")
    users = long_table_names(user_labels, columns[0], _NEED)
    return _Triplets(*users, *long_table_names(item_labels, columns[1], _NEED), numbers)


def _wide_ratings(source: Any, ratings: Any, items: pd.Index | None) -> _Triplets:
    if ratings is not None:
        raise DataError("a frame of users × items already holds the ratings; only a long table takes them separately")
    if isinstance(source, np.ndarray):
        if source.ndim != 2:
            raise DataError(f"an array of ratings has 2 dimensions, users by items; got {source.ndim}")
        frame = pd.DataFrame(source, columns=items if items is not None and len(items) == source.shape[1] else None)
    else:
        # A frame of another library has users by their number.
        frame = source.to_pandas() if hasattr(source, "to_pandas") else pd.DataFrame(source)
    for what, index in (("user", frame.index), ("item", frame.columns)):
        if not index.is_unique:
            twice = shown_name(index, int(np.argmax(index.duplicated())))
            raise DataError(f"duplicate {what} {twice} in the frame of users × items")
    matrix = _rating_numbers(frame.to_numpy())
    rows, places = np.nonzero(~np.isnan(matrix))
    return _Triplets(frame.index, rows, frame.columns, places, matrix[rows, places])


def _rating_numbers(values: NDArray[Any]) -> Floats:
    """Return ratings as numbers, NaN where there is none."""
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
    points = np.unique(ratings if scale is None else _rating_numbers(np.asarray(list(scale))))
    n = len(points)
    if scale is None and not n:
        raise DataError("there is no rating to learn from")
    if scale is None and n > _MOST_POINTS:
        raise DataError(f"the ratings have {n} different values; a scale has at most {_MOST_POINTS}: round them")
    if not n or np.isnan(points).any():
        raise DataError(f"scale must be the numbers that a rating can be, at least one; got {scale!r}")
    return points
