"""Kinds of published tables, counts or percentages, and how each becomes counts with a total and a weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from twoway.errors import DataError, unknown
from twoway.schema import Label, Schema
from twoway.tables.crosstabs.cells import parse_cell
from twoway.tables.crosstabs.labels import Labels
from twoway.tables.crosstabs.shares import PublishedTable, find_joints, nominal_total, read_margins
from twoway.tables.crosstabs.sheets import Key, Margin, Numbers, check_key, parse_sheet, read_sheet, read_sheets
from twoway.text import shortlist

Kind: TypeAlias = Literal["counts", "joint", "row", "column"]
Entry: TypeAlias = tuple[tuple[int, int], NDArray[np.float64], float]
"""Positions of two variables, their counts (n_first, n_second), and the weight of the table."""

KINDS = ("counts", "joint", "row", "column")


def read_crosstabs(
    tables: Any,
    *,
    kind: Kind | Mapping[Key, Kind] = "counts",
    schema: Schema | None = None,
    totals: float | Mapping[Key, float] | None = None,
    weights: Mapping[Key, float] | None = None,
    standard_errors: Mapping[Key, Any] | None = None,
    margins: Mapping[str, Mapping[Label, Any]] | None = None,
) -> tuple[Schema, list[Entry], list[str]]:
    """Return the schema, the counts of each table and what should be noted; `Tables.from_crosstabs` tells the rules."""
    sheets = read_sheets(tables)
    if not sheets:
        raise DataError("there is no table; at least one is needed")
    keys = [sheet.key for sheet in sheets]
    kinds = _kinds(kind, keys)
    given_totals = _by_key("totals", totals, keys)
    given_weights = _by_key("weights", weights, keys)
    given_errors = _by_key("standard_errors", standard_errors, keys)
    parsed = [parse_sheet(sheet, partial(_is_category, schema)) for sheet in sheets]
    labels = Labels.known(schema) if schema is not None else Labels.found(parsed)
    notes: list[str] = []
    made: list[PublishedTable] = []
    counted: list[tuple[float, float, str]] = []
    for sheet, numbers, one_kind in zip(sheets, parsed, kinds, strict=True):
        pair = frozenset(sheet.key)
        table = _read_table(numbers, one_kind, labels, notes)
        if table is None:
            continue
        if pair in given_totals:
            table.total = _positive(given_totals[pair], f"the total of {table.name}")
        elif one_kind == "counts":
            counted.append((float(table.values.sum()), _most_rounding(numbers), table.name))
        if sheet.weight is not None:
            table.weight = _positive(sheet.weight, f"the weight of {table.name}")
        if pair in given_weights:
            if pair in given_errors:
                raise DataError(f"table {table.name} has a weight and a standard error; give one of them")
            table.weight = _positive(given_weights[pair], f"the weight of {table.name}")
        if pair in given_errors:
            # A frame of errors has its own key, which may be the other way round.
            key = next(key for key in standard_errors or {} if frozenset(key) == pair)
            table.weight = _effective_records(table, key, given_errors[pair], labels)
        made.append(table)
    find_joints(made, labels.schema, read_margins(margins, labels), notes)
    if counted:
        (least, rounding, name), (greatest, other_rounding, other_name) = min(counted), max(counted)
        if greatest - least > rounding + other_rounding:
            notes.append(f"totals of tables differ: {least:,.0f} in {name}, {greatest:,.0f} in {other_name}")
    return labels.schema, _entries(made, notes), notes


def _is_category(schema: Schema | None, name: str, label: Label) -> bool:
    """Return whether a schema is there and lists the label."""
    return schema is not None and name in schema and schema[name].find(label) is not None


def _kinds(kind: Kind | Mapping[Key, Kind], keys: Sequence[Key]) -> list[Kind]:
    if isinstance(kind, Mapping):
        for key in kind:
            if key not in keys:
                raise unknown("table", key, keys, where=" for kind (row variable first)")
        absent = [key for key in keys if key not in kind]
        if absent:
            raise DataError(f"kind says nothing of the table {absent[0]!r}; it needs an entry for each table")
        chosen = [kind[key] for key in keys]
    else:
        chosen = [kind] * len(keys)
    for one in chosen:
        if one not in KINDS:
            raise unknown("kind of table", one, KINDS)
    return chosen


def _by_key(option: str, given: Any, keys: Sequence[Key]) -> dict[frozenset[str], Any]:
    """Return an option's value for each pair; a pair may be named either way round."""
    pairs = [frozenset(key) for key in keys]
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if option != "totals":
            raise DataError(f"{option} must be a mapping of (row variable, column variable) to numbers; got {given!r}")
        return dict.fromkeys(pairs, given)
    for key in given:
        if frozenset(check_key(key)) not in pairs:
            raise unknown("table", key, keys, where=f" for {option}")
    return {frozenset(key): value for key, value in given.items()}


def _positive(value: Any, what: str) -> float:
    try:
        number = parse_cell(value).value
    except ValueError as problem:
        raise DataError(f"{what} must be a positive number; {value!r} {problem}") from None
    if number == 0:
        raise DataError(f"{what} must be a positive number; got {value!r}")
    return number


# Reading one table


def _read_table(numbers: Numbers, kind: Kind, labels: Labels, notes: list[str]) -> PublishedTable | None:
    if kind == "column":
        numbers = numbers.transposed()
    # In messages a table keeps the name by which it was given.
    name = " × ".join(reversed(numbers.key) if kind == "column" else numbers.key)
    rows, columns = (
        labels.codes(variable, found, f"table {name}")
        for variable, found in zip(numbers.key, (numbers.rows, numbers.columns), strict=True)
    )
    positions = labels.schema.index(numbers.key[0]), labels.schema.index(numbers.key[1])
    _check_complete(numbers, kind, (rows, columns), labels, name, notes)
    values = np.zeros([labels.schema.sizes[position] for position in positions])
    values[np.ix_(rows, columns)] = numbers.values
    if kind == "counts":
        return _read_counts(numbers, values, positions, name, notes)
    noise = numbers.step / np.sqrt(12)
    if kind == "joint":
        scale = _scale(numbers, numbers.values.sum()[None], numbers.values.size, name, ["all cells"])
        table = PublishedTable(name, positions, values / values.sum(), False, noise / scale)
        table.total = _base_sum([*numbers.beside, *numbers.below])
        table.weight = _base_sum([*numbers.beside, *numbers.below], unweighted=True)
        table.joint = table.values
        return table
    return _read_conditional(numbers, values, (rows, columns), positions, name, noise)


def _check_complete(
    numbers: Numbers, kind: Kind, codes: Sequence[Sequence[int]], labels: Labels, name: str, notes: list[str]
) -> None:
    """Note categories that a table of counts lacks; percentages that lack some cannot be completed."""
    for variable, found in zip(numbers.key, codes, strict=True):
        absent = [label for code, label in enumerate(labels.schema[variable].categories) if code not in found]
        if not absent:
            continue
        if kind != "counts":
            raise DataError(
                f"table {name} lacks {shortlist(absent)} of {variable!r}; percentages must give every category, with 0 "
                f"where nothing is: {shortlist(labels.schema[variable].categories)}"
            )
        notes.append(f"{name} lacks {shortlist(absent)} of {variable!r}; counted as 0")


def _read_counts(
    numbers: Numbers, values: NDArray[np.float64], positions: tuple[int, int], name: str, notes: list[str]
) -> PublishedTable | None:
    if numbers.is_percent:
        raise DataError(f"table {name} has percentages but its kind is 'counts'; the kinds are {shortlist(KINDS)}")
    for margin, axis, side in [(one, 1, "column") for one in numbers.beside] + [
        (one, 0, "row") for one in numbers.below
    ]:
        sums = numbers.values.sum(axis=axis)
        # Rounded counts may miss their rounded total.
        tolerance = 0.5 * numbers.step * (numbers.values.shape[axis] + 1) + 1e-6 * sums
        wrong = np.flatnonzero(np.abs(margin.values - sums) > tolerance)
        if margin.role == "total" and wrong.size and not margin.is_percent:
            along = (numbers.rows if side == "column" else numbers.columns)[wrong[0]]
            raise DataError(
                f"table {name}: the {side} {margin.label!r} looks like a total but is not the sum of the others: at "
                f"{along!r} it is {margin.values[wrong[0]]:g} and they add up to {sums[wrong[0]]:g}; drop it if some "
                "categories are not shown, and give a schema that lists it if it is a category"
            )
    total = float(values.sum())
    if total == 0:
        notes.append(f"{name} has no counts; left out")
        return None
    unweighted = _base_sum([*numbers.beside, *numbers.below], unweighted=True)
    return PublishedTable(name, positions, values, False, 0.0, total, unweighted, joint=values / total)


def _most_rounding(numbers: Numbers) -> float:
    """Return by how much rounding can have moved the total of counts: half a step in each cell."""
    step = numbers.step
    while numbers.values.any() and (numbers.values % (10.0 * step) == 0.0).all():
        step *= 10.0
    return 0.5 * step * numbers.values.size


def _read_conditional(
    numbers: Numbers,
    values: NDArray[np.float64],
    codes: tuple[Sequence[int], Sequence[int]],
    positions: tuple[int, int],
    name: str,
    noise: float,
) -> PublishedTable:
    rows, columns = codes
    sums = numbers.values.sum(axis=1)
    bases = [one for one in numbers.beside if _tells_shares(one, sums)]
    # Weighted bases are those that the shares rest on; unweighted ones say how many were asked.
    base = min(bases, key=lambda one: ("base", "total", "unweighted").index(one.role), default=None)
    is_empty = np.zeros(len(sums), dtype=bool) if base is None else (base.values == 0) & (sums == 0)
    scale = _scale(numbers, np.where(is_empty, np.nan, sums), numbers.values.shape[1], name, numbers.rows)
    values = values / np.where(values.sum(axis=1, keepdims=True) > 0, values.sum(axis=1, keepdims=True), 1.0)
    table = PublishedTable(name, positions, values, True, noise / scale)
    if base is not None:
        if base.values.sum() == 0:
            raise DataError(f"table {name}: the bases {base.label!r} are all zero; at least one must be positive")
        table.shares = np.zeros(len(values))
        table.shares[rows] = base.values / base.values.sum()
    for margin in numbers.below:
        if margin.role != "unweighted" and margin.values.sum() > 0:
            table.overall = np.zeros(values.shape[1])
            table.overall[columns] = margin.values / margin.values.sum()
    table.total = _base_sum(bases) or _base_sum(numbers.below)
    if table.total is None and base is not None and not base.is_percent and base.values.sum() > 1.1 * scale:
        table.total = float(base.values.sum())
    table.weight = _base_sum(bases, unweighted=True) or _base_sum(numbers.below, unweighted=True)
    return table


def _tells_shares(margin: Margin, sums: NDArray[np.float64]) -> bool:
    """Return whether a margin of conditional rows weighs them, rather than saying 100% at each."""
    return margin.role != "total" or not np.allclose(margin.values, sums, rtol=0.02)


def _base_sum(margins: Iterable[Margin], *, unweighted: bool = False) -> float | None:
    """Return the number of records that bases add up to, None where there are none."""
    roles = ("unweighted",) if unweighted else ("base", "unweighted")
    for role in roles:
        for margin in margins:
            if margin.role == role and not margin.is_percent and margin.values.sum() > 0:
                return float(margin.values.sum())
    return None


def _scale(numbers: Numbers, sums: NDArray[np.float64], n_terms: int, name: str, places: Sequence[object]) -> float:
    """Return what shares add up to, 1 or 100; sums (NaN to pass over) farther off than rounding goes are an error."""
    centre = float(np.nanmedian(sums)) if np.isfinite(sums).any() else 1.0
    scale = 100.0 if numbers.is_percent or centre > 10 else 1.0
    # Rounding errors are at most half a step each, and with many terms they seldom add up to that.
    slack = min(0.5 * n_terms, 4 * np.sqrt(n_terms / 12)) * numbers.step
    tolerance = min(max(slack, 1e-3 * scale), 0.2 * scale) * (1 + 1e-9)
    wrong = np.flatnonzero(np.abs(sums - scale) > tolerance)
    if wrong.size:
        place, got = places[wrong[0]], sums[wrong[0]]
        margins = [one.label for one in (*numbers.beside, *numbers.below)]
        hint = (
            f" without {shortlist(margins)}, which a schema can list as a category" if margins and got < scale else ""
        )
        raise DataError(
            f"table {name}: {place if place == 'all cells' else repr(place)} should add up to 1 or to 100, give or "
            f"take {tolerance / scale:.1%} for rounding; got {got:g}{hint}"
        )
    return scale


# Totals and weights


def _effective_records(table: PublishedTable, key: Key, given: Any, labels: Labels) -> float:
    """Return the number of records for which published proportions have these standard errors."""
    p = table.values if table.is_conditional else table.values / table.values.sum()
    what = f"the standard error of {table.name}"
    if hasattr(given, "columns"):
        numbers = parse_sheet(read_sheet(key, given), partial(_is_category, labels.schema))
        if labels.schema.index(key[0]) != table.positions[0]:
            numbers = numbers.transposed()
        rows, columns = (
            labels.codes(one, found, what)
            for one, found in zip(numbers.key, (numbers.rows, numbers.columns), strict=True)
        )
        errors = np.zeros_like(p)
        errors[np.ix_(rows, columns)] = numbers.values / (100.0 if numbers.is_percent else 1.0)
    else:
        errors = np.full_like(p, _positive(given, what) / (100.0 if "%" in str(given) else 1.0))
    variance = p * (1 - p)
    if (errors >= 1).any() or (errors[variance > 0] == 0).any():
        worst = errors.max() if (errors >= 1).any() else 0.0
        raise DataError(f"{what} must lie between 0 and 1, being one of a proportion; got {worst:g}")
    per_cell = np.divide(variance, errors**2, out=np.full_like(p, np.nan), where=errors > 0)
    # Each conditional distribution rests on records of its own.
    effective = float(np.nanmean(per_cell, axis=1).sum() if table.is_conditional else np.nanmean(per_cell))
    if effective == 0:
        raise DataError(f"table {table.name} has no proportion between 0 and 1, so {what} says nothing of its records")
    return effective


def _entries(tables: Iterable[PublishedTable], notes: list[str]) -> list[Entry]:
    tables = list(tables)
    nominal = nominal_total(tables)
    entries: list[Entry] = []
    for table in tables:
        assert table.joint is not None
        total = table.total if table.total is not None else table.weight
        if total is None:
            total = nominal
            notes.append(f"{table.name} has no total; counted as {total:g} records")
        counts = table.joint * total
        # Counts as they were given stay what they are, to the last bit.
        if not table.is_conditional and table.values.sum() == total:
            counts = table.values
        entries.append((table.positions, counts, total if table.weight is None else table.weight))
    return entries
