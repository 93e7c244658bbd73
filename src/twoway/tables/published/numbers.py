"""The numbers of a published table: what was suppressed is guessed, what adds up is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from twoway.arrays import Floats, first_true, sums_by
from twoway.category_labels import Label, label_key
from twoway.errors import DataError
from twoway.tables.crosstabs.cells import SUPPRESSED, Cell, is_missing_cell, parse_cell
from twoway.tables.crosstabs.sheet_labels import plain_sheet_labels
from twoway.tables.crosstabs.sheets import Axes, Sheet, printed_numbers
from twoway.text import shortlist

Labels = tuple[Label, ...]


def read_published_numbers(name: str, variables: tuple[str, ...], numbers: Any, symbols: Mapping[str, str]) -> Sheet:
    """Return the table that a mapping, series or frame has; missing numbers were suppressed."""

    def read(raw: object) -> Cell:
        meant = symbols.get(raw.strip(), raw) if isinstance(raw, str) else raw
        return SUPPRESSED if is_missing_cell(meant) else parse_cell(meant)

    hint = "; symbols={'*': '<5'} says what other signs mean"
    sheet = Sheet.of_numbers(name, variables, printed_numbers(name, variables, numbers), read, hint=hint)
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
    n_guessed = int(is_guessed.sum())
    if n_guessed:
        known = float(np.nansum(sheet.values))
        totals = (float(margin.values) for margin in sheet.margins if margin.role == "total" and not margin.axes)
        guess = known / max(sheet.values.size - n_guessed, 1)
        if not np.isnan(total := next(totals, np.nan)):
            guess = max(total - known, 0.0) / n_guessed
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
    wrong = first_true((np.abs(sums - scale) > 0.03 * scale) & ~((sums < scale) & is_open))
    if wrong is not None:
        labels = [sheet.categories[axis][wrong[axis]] for axis in given]
        raise DataError(
            f"table {sheet.name}: the shares of {shortlist(labels) or 'all cells'} add up to "
            f"{float(sums[wrong]):g}, not to {scale:g}; given= names the variables for whose categories they "
            "do"
        )
    guesses = np.maximum(scale - sums, 0.0) / np.maximum(sums_by(is_guessed, given, keepdims=True), 1)
    return replace(sheet, values=np.where(is_guessed, guesses, values))


def people_of_errors(shares: Floats, sheet: Sheet, errors: Any, n: float) -> float:
    """Return the number of people for which shares have published standard errors, which are of n people."""
    if isinstance(errors, int | float):
        numbers = np.full(shares.shape, float(errors))
    else:
        called = f"{sheet.name} (standard errors)"
        sides, raw = zip(*printed_numbers(called, sheet.variables, errors), strict=True)
        columns = zip(sheet.variables, zip(*sides, strict=True), strict=True)
        labels = (plain_sheet_labels(called, variable, column) for variable, column in columns)
        known = {tuple(map(label_key, place)): number for *place, number in zip(*labels, raw, strict=True)}
        try:
            flat = [parse_cell(known[tuple(map(label_key, labels))]).value for labels in product(*sheet.categories)]
        except (KeyError, ValueError) as error:
            raise DataError(f"table {sheet.name}: the standard errors lack a number: {error}") from None
        numbers = np.array(flat).reshape(shares.shape)
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
