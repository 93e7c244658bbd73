"""The numbers of a published table: found in frames, series and mappings, parted from totals, and made counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from twoway.arrays import Floats
from twoway.category_labels import Label, label_key
from twoway.errors import DataError, check_known
from twoway.tables.crosstabs.cells import is_missing_cell, parse_cell
from twoway.tables.crosstabs.sheet_words import MarginRole, margin_in_words
from twoway.tables.crosstabs.sheets import is_sheet_frame, sheet_columns, sheet_index
from twoway.tables.flat_counts import NO_TOTAL, NOMINAL_TOTAL
from twoway.text import counted, shortlist

Labels = tuple[Label, ...]
Axes = tuple[int, ...]


class Number(NamedTuple):
    """A number as published, with what it may be at least and at most."""

    value: float
    low: float
    high: float


def published_numbers(names: Sequence[str], numbers: Any, called: str) -> dict[Labels, object]:
    """Return what a mapping, series or frame has for each combination of labels."""
    if type(numbers).__name__ == "Series" and hasattr(numbers, "index"):
        keys = [key if isinstance(key, tuple) else (key,) for key in numbers.index.tolist()]
        values = numbers.tolist()
        levels = list(numbers.index.names)
        if set(levels) == set(names):  # in any order
            keys = [tuple(key[levels.index(one)] for one in names) for key in keys]
    elif isinstance(numbers, Mapping) and not hasattr(numbers, "columns"):
        keys = [key if isinstance(key, tuple) else (key,) for key in numbers]
        values = list(numbers.values())
    else:
        keys, values = _published_numbers_of_frame(names, numbers, called)
    found: dict[Labels, object] = {}
    for key, value in zip(keys, values, strict=True):
        if len(key) != len(names):
            raise DataError(f"table {called}: each number needs {counted(len(names), 'label')}; got {key!r}")
        if key in found:
            raise DataError(f"table {called}: duplicate cell {shortlist(key)}")
        found[key] = value
    if not found:
        raise DataError(f"table {called} is empty")
    return found


def _published_numbers_of_frame(names: Sequence[str], frame: Any, called: str) -> tuple[list[Labels], list[object]]:
    if not is_sheet_frame(frame):
        raise DataError(f"table {called} must be a mapping, a series or a frame of numbers; got {type(frame).__name__}")
    headers, columns = sheet_columns(frame, called)
    if set(names) < set(headers) and len(headers) == len(names) + 1:
        column_of = dict(zip(headers, columns, strict=True))
        keys = list(zip(*(column_of.pop(one) for one in names), strict=True))
        return keys, next(iter(column_of.values()))
    if len(names) != 2:
        raise DataError(
            f"table {called} needs a frame with a column for each of {shortlist(names)} and one of numbers; "
            f"it has the columns {shortlist(headers)}"
        )
    rows = sheet_index(frame, (names[0], names[1]), headers, columns)
    if rows is None:
        rows, headers, columns = columns[0], headers[1:], columns[1:]
    keys = [(row, header) for header in headers for row in rows]
    return keys, [value for column in columns for value in column]


def published_number(raw: object, labels: Labels, called: str, symbols: Mapping[str, str]) -> Number:
    """Return a number with its bounds; a missing one was suppressed."""
    meant = symbols.get(raw.strip(), raw) if isinstance(raw, str) else raw
    if is_missing_cell(meant) or (isinstance(meant, float) and math.isnan(meant)):
        return Number(math.nan, 0.0, math.inf)
    try:
        cell = parse_cell(meant)
    except ValueError as problem:
        raise DataError(
            f"table {called}, cell {shortlist(labels)}: {raw!r} {problem}; a cell must be a number of 0 or more, such "
            "as 1234, '1,234', '45%', '<5' or '-' for zero; symbols={'*': '<5'} says what other signs mean"
        ) from None
    if isinstance(meant, str) and meant.strip().startswith("<"):
        bound = 2.0 * cell.value
        # Fewer than 5 people are at most 4; a share below 1 % may be anything below.
        high = bound - 1.0 if bound.is_integer() and not cell.is_percent and bound >= 1.0 else bound
        return Number(cell.value, 0.0, high)
    return Number(cell.value, cell.value, cell.value)


@dataclass(frozen=True)
class TableNumbers:
    """The cells of a table, apart from its totals and bases."""

    names: tuple[str, ...]
    called: str
    categories: tuple[Labels, ...]
    values: Floats
    low: Floats
    high: Floats
    margins: Mapping[tuple[MarginRole, Axes], Floats]

    @classmethod
    def of(cls, names: tuple[str, ...], cells: Mapping[Labels, Number], called: str) -> TableNumbers:
        """Return the parts of a table with numbers for combinations of labels."""
        sides: list[dict[tuple[str, object], Label]] = [{} for _ in names]
        for labels in cells:
            for side, label in zip(sides, labels, strict=True):
                side.setdefault(label_key(label), label)
        roles = [{key: margin_in_words(label, side.values()) for key, label in side.items()} for side in sides]
        inner = [[key for key in side if own[key] is None] for side, own in zip(sides, roles, strict=True)]
        for variable, kept in zip(names, inner, strict=True):
            if not kept:
                raise DataError(f"table {called} has no category of {variable!r} except totals")
        shape = tuple(map(len, inner))
        arrays = np.full((3, *shape), np.nan)
        margins: dict[tuple[MarginRole, Axes], Floats] = {}
        for labels, number in cells.items():
            keys = [label_key(label) for label in labels]
            axes = tuple(axis for axis, key in enumerate(keys) if roles[axis][key] is None)
            index = tuple(inner[axis].index(keys[axis]) for axis in axes)
            if len(axes) == len(names):
                arrays[0][index], arrays[1][index], arrays[2][index] = number
                continue
            shown = {role for axis, key in enumerate(keys) if (role := roles[axis][key]) is not None}
            if len(shown) == 1:  # not the base of a base
                own = margins.setdefault((shown.pop(), axes), np.full([shape[axis] for axis in axes], np.nan))
                own[index] = number.value
        absent = np.argwhere(np.isnan(arrays[1]))
        if absent.size:
            missing = [sides[axis][inner[axis][code]] for axis, code in enumerate(absent[0])]
            raise DataError(
                f"table {called} has no number for {shortlist(missing)}; give 0 where there is nobody, or None where "
                "the number was not published"
            )
        categories = tuple(tuple(side[key] for key in kept) for side, kept in zip(sides, inner, strict=True))
        return cls(names, called, categories, arrays[0], arrays[1], arrays[2], margins)

    def fields(
        self,
        *,
        is_shares: bool,
        given: tuple[str, ...],
        total: float | None,
        standard_errors: Any,
        rounded_to: float,
    ) -> dict[str, Any]:
        """Return the fields of a `PublishedTable`, with shares made counts."""
        low, high, weight, notes = self.low, self.high, 0.0, tuple[str, ...]()
        totals = {axes: own for (role, axes), own in self.margins.items() if role == "total"}
        check_known("variable", self.names, *given, where=f" to be given in table {self.called}")
        if is_shares or given:
            totals, rounded_to = {}, 0.0
            counts, factor, notes = self._counts_of_shares(tuple(map(self.names.index, given)), total)
            # Rounding of shares is part of their error; only suppressed ones are open.
            is_open = low != high
            low, high = (np.where(is_open, side * factor, counts) for side in (low, high))
        else:
            counts = self._guessed(totals)
            self._check_totals(counts, low, high, totals, rounded_to)
            half = np.where(low == high, 0.5 * rounded_to, 0.0)
            low, high = np.maximum(low - half, 0.0), high + half
        if standard_errors is not None:
            weight = self._people(counts / counts.sum(), standard_errors, is_counts=not is_shares, n=counts.sum())
        for one in (low, high, counts):
            one.flags.writeable = False
        fields = {"variables": self.names, "categories": self.categories, "counts": counts, "low": low, "high": high}
        fields |= {"totals": totals, "name": self.called, "notes": notes}
        return {**fields, "weight": weight, "rounded_to": rounded_to}

    def _guessed(self, totals: Mapping[Axes, Floats]) -> Floats:
        """Return counts with a guess where none was published: what a total leaves, or the mean of the others."""
        is_open = np.isnan(self.values)
        if not is_open.any():
            return self.values.copy()
        known = float(np.nansum(self.values))
        left = float(totals[()]) - known if () in totals else math.nan
        usual = known / max(int((~is_open).sum()), 1)
        guess = max(left, 0.0) / int(is_open.sum()) if not math.isnan(left) else usual
        return np.where(is_open, guess, self.values)

    def _check_totals(
        self, counts: Floats, low: Floats, high: Floats, totals: Mapping[Axes, Floats], rounded_to: float
    ) -> None:
        for axes, own in totals.items():
            others = tuple(axis for axis in range(counts.ndim) if axis not in axes)
            n_terms = math.prod(counts.shape[axis] for axis in others) + 1
            is_whole = (counts == np.rint(counts)).all()  # rounded to whole people, at least
            slack = 0.5 * max(rounded_to, float(is_whole)) * n_terms
            least, most = low.sum(axis=others) - slack, high.sum(axis=others) + slack
            is_wrong = ~((own >= least * (1 - 1e-6)) & (own <= most * (1 + 1e-6))) & ~np.isnan(own)
            if is_wrong.any():
                place = tuple(np.argwhere(is_wrong)[0])
                labels = [self.categories[axis][code] for axis, code in zip(axes, place, strict=True)]
                raise DataError(
                    f"table {self.called}: the total of {shortlist(labels) or 'all cells'} is {own[place]:g}, but the "
                    f"cells add up to {counts.sum(axis=others)[place]:g}; correct it, or leave it out"
                )

    def _counts_of_shares(self, given: Axes, total: float | None) -> tuple[Floats, Floats, tuple[str, ...]]:
        """Return shares as counts, what each was multiplied by, and a note where their number was assumed."""
        values = np.where(np.isnan(self.values), 0.0, self.values)
        others = tuple(axis for axis in range(values.ndim) if axis not in given)
        sums = values.sum(axis=others, keepdims=True)
        scale = 100.0 if float(np.median(sums)) > 10.0 else 1.0
        is_open = (self.low != self.high).any(axis=others, keepdims=True)
        wrong = np.argwhere((np.abs(sums - scale) > 0.03 * scale) & ~((sums < scale) & is_open))
        if wrong.size:
            labels = [self.categories[axis][wrong[0][axis]] for axis in given]
            raise DataError(
                f"table {self.called}: the shares of {shortlist(labels) or 'all cells'} add up to "
                f"{float(sums[tuple(wrong[0])]):g}, not to {scale:g}; given= names the variables for whose categories "
                "they do"
            )
        # What is not shown is spread over the cells that are open.
        n_open = np.isnan(self.values).sum(axis=others, keepdims=True)
        rest = np.maximum(scale - sums, 0.0) / np.maximum(n_open, 1)
        shares = np.where(np.isnan(self.values), rest, values)
        shares /= shares.sum(axis=others, keepdims=True)
        bases, notes = self._bases(given, total, sums.shape)
        return shares * bases, np.broadcast_to(bases / scale, shares.shape), notes

    def _bases(self, given: Axes, total: float | None, shape: tuple[int, ...]) -> tuple[Floats, tuple[str, ...]]:
        """Return the number of people behind the shares of each category that is given."""
        bases: tuple[MarginRole, ...] = ("unweighted", "base")
        for role in bases:
            own = self.margins.get((role, given))
            if own is not None and not np.isnan(own).any() and own.sum() > 0:
                return np.maximum(own, 1e-9).reshape(shape), ()
        notes = () if total is not None else (f"{self.called} has {NO_TOTAL} {NOMINAL_TOTAL:g} records",)
        return np.full(shape, (NOMINAL_TOTAL if total is None else total) / math.prod(shape)), notes

    def _people(self, shares: Floats, errors: Any, *, is_counts: bool, n: float) -> float:
        """Return the number of people for which shares have published standard errors."""
        if isinstance(errors, int | float):
            numbers = np.full(shares.shape, float(errors))
        else:
            raw = published_numbers(self.names, errors, f"{self.called} (standard errors)")
            known = {tuple(map(label_key, labels)): value for labels, value in raw.items()}
            try:
                flat = [parse_cell(known[tuple(map(label_key, labels))]).value for labels in product(*self.categories)]
            except (KeyError, ValueError) as error:
                raise DataError(f"table {self.called}: the standard errors lack a number: {error}") from None
            numbers = np.array(flat).reshape(shares.shape)
        return number_of_people(shares, numbers / n if is_counts else numbers, self.called)


def number_of_people(shares: Floats, errors: Floats, called: str) -> float:
    """Return the number of people for which shares have such standard errors.

    Examples
    --------
    >>> round(number_of_people(np.array([0.2, 0.8]), np.array([0.01, 0.01]), "age"))
    1600
    """
    is_between = (shares > 0) & (shares < 1) & (errors > 0)
    if not is_between.any() or (errors >= 1).any():
        raise DataError(
            f"table {called}: a standard error must be above 0, and below the total where the table has counts, "
            "below 1 or 100 % where it has shares"
        )
    variance = shares[is_between] * (1 - shares[is_between])
    # Sums, so that small cells, whose errors are rough, do not decide.
    return float(variance.sum() / (errors[is_between] ** 2).sum())
