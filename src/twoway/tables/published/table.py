"""A published table of any number of variables: counts, shares or percentages, some of them known by bounds only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, first_true, sums_by
from twoway.category_labels import Label
from twoway.data.flat_counts import NO_TOTAL, NOMINAL_TOTAL
from twoway.errors import DataError, check_known
from twoway.schema import Schema, first_duplicate
from twoway.tables.crosstabs.cells import SUPPRESSED, Cell, is_missing_cell, parse_cell
from twoway.tables.crosstabs.sheets import Axes, Sheet, SheetMargin, printed_sheet_numbers
from twoway.text import counted, crossed_text, shortlist

Labels = tuple[Label, ...]


@dataclass(frozen=True)
class PublishedMean:
    """A published mean of a variable whose categories are numbers, such as the mean age of women.

    Parameters
    ----------
    variable
        Its name.
    mean
        The mean.
    people
        The number of people that it rests on.
    within
        The categories of other variables that these people have; empty for all people.
    """

    variable: str
    mean: float
    people: float
    within: Mapping[str, Labels] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class PublishedTable:
    """A table of one or more variables, as someone published it; `of` makes one from frames, series and mappings.

    Parameters
    ----------
    variables
        The names of its variables.
    categories
        The labels of each. A label may stand for several categories of other tables: see ``groups`` of
        `PublishedTables`.
    counts
        People in each cell, with an axis for each variable; in a cell that is not known, a guess.
    low, high
        What each count is at least and at most; the same as ``counts`` where it is known.
    given
        Variables that percentages are given: only the shares within each of their categories count.
    within
        The universe: the categories of other variables that all these people have, such as the ages of those who
        were asked. Nothing is said of others.
    weight
        The number of people that the table counts as in a fit; by default the sum of its counts.
    totals
        Totals that were published: for some of its axes, the sums over all others.
    name
        What messages call it; by default its variables.
    notes
        What was assumed.
    places
        Where each number was found, for messages; None where that is not known.
    rounded_to
        The unit that numbers were rounded to: ``low`` and ``high`` are half of it below and above.
    """

    variables: tuple[str, ...]
    categories: tuple[Labels, ...]
    counts: Floats
    low: Floats
    high: Floats
    given: tuple[str, ...] = ()
    within: Mapping[str, Labels] = field(default_factory=dict)
    weight: float = 0.0
    totals: Mapping[Axes, Floats] = field(default_factory=dict)
    name: str = ""
    notes: tuple[str, ...] = ()
    places: NDArray[np.str_] | None = None
    rounded_to: float = 0.0

    def __post_init__(self) -> None:
        name = self.name or crossed_text(self.variables)
        weight = self.weight or float(self.counts.sum())
        vars(self).update(name=name, weight=weight)
        if (twice := first_duplicate(self.variables)) is not None:
            raise DataError(f"table {name}: duplicate variable {twice!r}")
        if self.counts.shape != tuple(map(len, self.categories)):
            raise DataError(
                f"table {name}: {self.counts.shape} counts of {tuple(map(len, self.categories))} categories"
            )
        check_known("variable", self.variables, *self.given, where=f" to be given in table {name}")
        if len(self.given) == len(self.variables):
            raise DataError(f"table {name}: all of its variables are given, so it has no information")
        if not (weight > 0 and math.isfinite(weight)):
            raise DataError(f"table {name} must count at least one person; got {weight:g}")

    @property
    def is_known(self) -> bool:
        """Whether every cell is a number, rounded or not, and none a bound."""
        is_rounded = np.isclose(self.high - self.counts, 0.5 * self.rounded_to)
        return bool(((self.low == self.high) | is_rounded).all())

    def place(self, index: tuple[int, ...] | None = None) -> str:
        """Return what a message calls a cell of the table, or the table itself: with its file, row and column."""
        if self.places is None:
            return f"table {self.name}"
        return f"{self.places[index or (0,) * self.counts.ndim]}, table {self.name}"

    @property
    def shares(self) -> Floats:
        """The counts as shares of all."""
        return np.asarray(self.counts / self.counts.sum())

    def margin(self, names: Sequence[str]) -> PublishedTable:
        """Return the table of some of its variables, in the order given."""
        axes = [self.variables.index(name) for name in names]
        order, categories = np.argsort(np.argsort(axes)), tuple(self.categories[axis] for axis in axes)
        counts, low, high = (sums_by(own, axes).transpose(order) for own in (self.counts, self.low, self.high))
        unit = self.rounded_to * self.counts.size / counts.size
        about: dict[str, Any] = {"within": self.within, "weight": self.weight, "rounded_to": unit}
        return PublishedTable(tuple(names), categories, counts, low, high, **about)

    def __repr__(self) -> str:
        within = f" within {', '.join(self.within)}" if self.within else ""
        people = "1 person" if self.weight == 1 else f"{self.weight:,.6g} people"
        return f"<PublishedTable: {self.name}{within}, {counted(self.counts.size, 'cell')}, {people}>"

    @classmethod
    def of(
        cls,
        variables: str | Sequence[str],
        numbers: Any,
        *,
        kind: str = "counts",
        given: str | Sequence[str] = (),
        total: float | None = None,
        within: Mapping[str, Any] | None = None,
        standard_errors: Any = None,
        rounded_to: float = 0.0,
        symbols: Mapping[str, str] | None = None,
        name: str = "",
    ) -> PublishedTable:
        """Return a table from numbers as they were published.

        Parameters
        ----------
        variables
            The name of its variable, or several.
        numbers
            A mapping of labels (tuples of labels, where there are several variables) to numbers, a pandas series with
            the labels in its index, a frame with a column for each variable and one of numbers, or, for two
            variables, a frame with rows of the first and columns of the second. Labels such as "Total" are totals,
            and are checked. Numbers may be text: "1,234", "45%"; "<5" is at most 4 people; None and NaN are
            suppressed, and can be any number.
        kind
            "counts", or "shares" that add up to 1 or 100 %.
        given
            For percentages of rows or columns: the variables for each category of which shares add up to 100 %.
        total
            The number of people behind shares.
        within
            The universe: for other variables, the categories that all these people have.
        standard_errors
            Published standard errors: a number or the same form as ``numbers``. The table counts as so many people
            that shares have such errors.
        rounded_to
            The unit that counts were rounded to, such as 10.
        symbols
            What signs in place of numbers mean, such as ``{"*": "<5"}``.
        name
            What messages call the table.

        Examples
        --------
        >>> PublishedTable.of(
        ...     ["age", "sex"], {("0-64", "m"): 40, ("0-64", "f"): 39, ("65+", "m"): "<5", ("65+", "f"): 8}
        ... )
        <PublishedTable: age × sex, 4 cells, 89.5 people>
        """
        names, asked = published_labels(variables), published_labels(given)
        called = name or crossed_text(names)
        check_known("kind of numbers", ["counts", "shares"], kind)
        check_known("variable", names, *asked, where=f" to be given in table {called}")
        sheet = read_published_numbers(called, names, numbers, symbols or {})
        universe = named_labels(within or {})
        if kind == "shares" or asked:
            axes = tuple(map(names.index, asked))
            base = sheet.base(axes, "unweighted", "base")
            sheet = with_guessed_shares(sheet, axes)
            table = table_of_shares(sheet, axes, base, total, given=asked, within=universe)
        else:
            sheet = with_guessed_counts(with_bounds_of_people(sheet), rounded_to)
            table = table_of_counts(sheet, sheet.totals, rounded_to=rounded_to, within=universe)
        if standard_errors is None:
            return table
        n = table.counts.sum() if kind == "counts" else 1.0
        return replace(table, weight=people_of_errors(table.shares, sheet, standard_errors, n))


def table_of_counts(
    sheet: Sheet, totals: Mapping[Axes, Floats], *, rounded_to: float = 0.0, **fields: Any
) -> PublishedTable:
    """Return a table of counts that were rounded to a unit."""
    half = np.where(sheet.is_open, 0.0, 0.5 * rounded_to)
    low, high = np.maximum(sheet.low - half, 0.0), sheet.high + half
    return _table_of_sheet(sheet, sheet.values, low, high, totals=totals, rounded_to=rounded_to, **fields)


def table_of_shares(
    sheet: Sheet, axes: Axes, base: SheetMargin | None, total: float | None, **fields: Any
) -> PublishedTable:
    """Return a table of shares: of people in a base for each category given, or of an assumed number, with a note."""
    sums = sums_by(sheet.values, axes, keepdims=True)
    notes: tuple[str, ...] = ()
    if base is not None:
        people = base.values
    else:
        notes = () if total else (f"{sheet.name} has {NO_TOTAL} {NOMINAL_TOTAL:g} records",)
        people = np.full(sums.shape, (total or NOMINAL_TOTAL) / sums.size)
    unit = np.maximum(people.reshape(sums.shape), 1e-9) / np.where(sums > 0, sums, 1.0)
    # Rounding of shares is part of their error; only bounds are left open.
    counts, low, high = (numbers * unit for numbers in (sheet.values, sheet.low, sheet.high))
    return _table_of_sheet(sheet, counts, low, high, notes=notes, **fields)


def _table_of_sheet(sheet: Sheet, counts: Floats, low: Floats, high: Floats, **fields: Any) -> PublishedTable:
    for numbers in (counts, low, high):
        numbers.flags.writeable = False
    return PublishedTable(sheet.variables, sheet.categories, counts, low, high, name=sheet.name, **fields)


def published_labels(given: Any) -> tuple[Any, ...]:
    """Return one label or several, or one name."""
    is_one = isinstance(given, str) or not isinstance(given, Iterable)
    return (given,) if is_one else tuple(given)


def named_labels(given: Mapping[Any, Any]) -> dict[Any, Labels]:
    """Return one label or several for each name."""
    return {name: published_labels(labels) for name, labels in given.items()}


def read_published_numbers(name: str, variables: tuple[str, ...], numbers: Any, symbols: Mapping[str, str]) -> Sheet:
    """Return the table that a mapping, series or frame has; missing numbers were suppressed."""

    def read(raw: object) -> Cell:
        meant = symbols.get(raw.strip(), raw) if isinstance(raw, str) else raw
        return SUPPRESSED if is_missing_cell(meant) else parse_cell(meant)

    hint = "; symbols={'*': '<5'} says what other signs mean"
    sheet = Sheet.of_numbers(name, variables, printed_sheet_numbers(name, variables, numbers), read, hint=hint)
    if (absent := first_true(np.isnan(sheet.low))) is not None:
        labels = [own[code] for own, code in zip(sheet.categories, absent, strict=True)]
        raise DataError(
            f"table {name} has no number for {shortlist(labels)}; give 0 where there is nobody, or None where the "
            "number was not published"
        )
    return sheet


def with_bounds_of_people(sheet: Sheet) -> Sheet:
    """Return counts whose bounds are whole people: fewer than 5 are at most 4."""
    is_whole = sheet.is_open & (sheet.high >= 1.0) & (sheet.high == np.rint(sheet.high))
    return replace(sheet, high=np.where(is_whole, np.fmax(sheet.high - 1.0, sheet.values), sheet.high))


def with_guessed_counts(sheet: Sheet, rounded_to: float) -> Sheet:
    """Return counts, checked, with a guess where none was published: what a total leaves, or the mean of the others."""
    if sheet.is_percent:
        raise DataError(f"table {sheet.name} has percentages but its kind is 'counts'; give kind='shares'")
    is_guessed = np.isnan(sheet.values)
    if n_guessed := int(is_guessed.sum()):
        known, total = float(np.nansum(sheet.values)), float(sheet.totals.get((), np.nan))
        mean = known / max(sheet.values.size - n_guessed, 1)
        guess = mean if np.isnan(total) else max(total - known, 0.0) / n_guessed
        sheet = replace(sheet, values=np.where(is_guessed, guess, sheet.values))
    is_whole = (sheet.values == np.rint(sheet.values)).all()  # rounded to whole people, at least
    sheet.check_totals("correct it, or leave it out", max(rounded_to, float(is_whole)))
    return sheet


def with_guessed_shares(sheet: Sheet, given: Axes) -> Sheet:
    """Return shares, checked, with a guess where none was published: equal parts of what the others leave."""
    is_guessed, values = np.isnan(sheet.values), np.nan_to_num(sheet.values)
    sums = sums_by(values, given, keepdims=True)
    scale = 100.0 if float(np.median(sums)) > 10.0 else 1.0
    is_open = sums_by(sheet.is_open, given, keepdims=True) > 0
    if (wrong := first_true((np.abs(sums - scale) > 0.03 * scale) & ~((sums < scale) & is_open))) is not None:
        labels = [sheet.categories[axis][wrong[axis]] for axis in given]
        raise DataError(
            f"table {sheet.name}: the shares of {shortlist(labels) or 'all cells'} add up to "
            f"{float(sums[wrong]):g}, not to {scale:g}; correct them, or name with given=… the variables for each "
            f"category of which they add up to {scale:g}"
        )
    guesses = np.maximum(scale - sums, 0.0) / np.maximum(sums_by(is_guessed, given, keepdims=True), 1)
    return replace(sheet, values=np.where(is_guessed, guesses, values))


def people_of_errors(shares: Floats, sheet: Sheet, errors: Any, n: float) -> float:
    """Return the number of people for which shares have published standard errors, which are of n people."""
    if isinstance(errors, int | float):
        numbers = np.full(shares.shape, float(errors))
    else:
        called, schema = f"{sheet.name} (standard errors)", Schema.found(sheet.sides)
        printed = read_published_numbers(called, sheet.variables, errors, {})
        arranged, absent = printed.arranged(schema, f"table {called}")
        for variable, labels in absent.items():
            raise DataError(f"table {called} has no number for {shortlist(labels)} of {variable!r}")
        numbers = arranged.values
    return number_of_people(shares, numbers / n, sheet.name)


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
