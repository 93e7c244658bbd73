"""Kinds of published tables, counts or percentages, and how each becomes counts with a total and a weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from twoway.arrays import Floats
from twoway.errors import DataError, check_known, unknown
from twoway.schema import Label, Schema
from twoway.tables.crosstabs.cells import parse_cell
from twoway.tables.crosstabs.labels import find_codes, find_schema
from twoway.tables.crosstabs.shares import PublishedTable, find_joints, nominal_total, read_margins
from twoway.tables.crosstabs.sheets import Key, Margin, Sheet, check_key, read_sheet, read_sheets
from twoway.tables.sums import Entry
from twoway.text import shortlist

TableKind: TypeAlias = Literal["counts", "joint", "row", "column"]


def read_crosstabs(
    tables: Any, kind: Any, schema: Schema | None, totals: Any, weights: Any, standard_errors: Any, margins: Any
) -> tuple[Schema, list[Entry], list[str]]:
    """Return the schema, the counts of each table, and notes; see `Tables.from_crosstabs`."""
    sheets = read_sheets(tables, schema)
    if not sheets:
        raise DataError("there is no table; at least one is needed")
    if schema is None:
        schema = find_schema(sheets)
    keys = [sheet.key for sheet in sheets]
    total_of = _by_pair("totals", totals, keys)
    weight_of = _by_pair("weights", weights, keys)
    error_of = _by_pair("standard_errors", standard_errors, keys)
    notes: list[str] = []
    published: list[PublishedTable] = []
    counted: list[tuple[float, float, str]] = []
    for sheet, table_kind in zip(sheets, _kinds(kind, keys), strict=True):
        pair = frozenset(sheet.key)
        table = _read_table(sheet, table_kind, schema, notes)
        if table is None:
            continue
        if pair in total_of:
            table.total = _positive(total_of[pair][1], f"the total of {table.name}")
        elif table_kind == "counts":
            counted.append((float(table.values.sum()), _most_rounding(sheet), table.name))
        if pair in weight_of and pair in error_of:
            raise DataError(f"table {table.name} has a weight and a standard error; give one of them")
        weight = weight_of[pair][1] if pair in weight_of else sheet.weight
        if weight is not None:
            table.weight = _positive(weight, f"the weight of {table.name}")
        if pair in error_of:
            table.weight = _effective_records(table, *error_of[pair], schema)
        published.append(table)
    find_joints(published, schema, read_margins(margins, schema), notes)
    if counted:
        (least, rounding, name), (greatest, other_rounding, other_name) = min(counted), max(counted)
        if greatest - least > rounding + other_rounding:
            notes.append(f"totals of tables differ: {least:,.0f} in {name}, {greatest:,.0f} in {other_name}")
    return schema, _entries(published, notes), notes


def _kinds(kind: TableKind | Mapping[Key, TableKind], keys: Sequence[Key]) -> list[TableKind]:
    """Return the kind of each table."""
    kind_of = kind if isinstance(kind, Mapping) else dict.fromkeys(keys, kind)
    for key, value in kind_of.items():
        check_known("table", keys, key, where=" for kind (row variable first)")
        check_known("kind of table", get_args(TableKind), value)
    for key in keys:
        if key not in kind_of:
            raise DataError(f"kind has no entry for the table {key!r}; each table needs one")
    return [kind_of[key] for key in keys]


def _by_pair(option: str, given: Any, keys: Sequence[Key]) -> dict[frozenset[str], tuple[Key, Any]]:
    """Return an option's key and value for each pair; the option may name a pair either way round."""
    if option == "totals" and given is not None and not isinstance(given, Mapping):
        given = dict.fromkeys(keys, given)
    if not isinstance(given, Mapping | None):
        raise DataError(f"{option} must be a mapping of (row variable, column variable) to numbers; got {given!r}")
    pairs = [frozenset(key) for key in keys]
    for key in given or {}:
        if frozenset(check_key(key)) not in pairs:
            raise unknown("table", key, keys, where=f" for {option}")
    return {frozenset(key): (key, value) for key, value in (given or {}).items()}


def _positive(value: Any, what: str) -> float:
    try:
        number = parse_cell(value).value
    except ValueError as problem:
        raise DataError(f"{what} must be a positive number; {value!r} {problem}") from None
    if number == 0:
        raise DataError(f"{what} must be a positive number; got {value!r}")
    return number


# Reading one table


def _read_table(sheet: Sheet, kind: TableKind, schema: Schema, notes: list[str]) -> PublishedTable | None:
    """Return a table with its categories in schema order; None where it has no counts."""
    name = sheet.name  # in messages a table keeps the name by which it was given
    printed = sheet.transposed() if kind == "column" else sheet
    sheet, absent = _arranged(printed, schema, f"table {name}")
    if kind == "counts":
        _check_counts(printed)
    for variable, labels in absent.items():
        if kind != "counts":
            raise DataError(
                f"table {name} lacks {shortlist(labels)} of {variable!r}; percentages must cover every category, with "
                f"0 for none: {shortlist(schema[variable].categories)}"
            )
        notes.append(f"{name} lacks {shortlist(labels)} of {variable!r}; counted as 0")
    positions = schema.index(sheet.key[0]), schema.index(sheet.key[1])
    if kind in ("row", "column"):
        return _read_conditional(sheet, positions, name)
    values, total = sheet.values, float(sheet.values.sum())
    unweighted = _base_sum(sheet.margins, unweighted=True)
    if kind == "joint":
        scale = _scale(sheet, values.sum()[None], values.size, name, ["all cells"])
        noise, base = sheet.step / np.sqrt(12) / scale, _base_sum(sheet.margins)
        joint = values / values.sum()
        return PublishedTable(name, positions, joint, False, noise, base, unweighted, joint=joint)
    if total == 0:
        notes.append(f"{name} has no counts; left out")
        return None
    return PublishedTable(name, positions, values, False, 0.0, total, unweighted, joint=values / total)


def _arranged(sheet: Sheet, schema: Schema, where: str) -> tuple[Sheet, dict[str, list[Label]]]:
    """Return a sheet with every category of a schema, in its order, and the categories that it lacked, as zeros."""
    variables = [schema[name] for name in sheet.key]
    sides = zip(sheet.key, (sheet.rows, sheet.columns), strict=True)
    codes = [find_codes(schema, name, labels, where) for name, labels in sides]
    absent = {
        variable.name: [label for code, label in enumerate(variable.categories) if code not in known]
        for variable, known in zip(variables, codes, strict=True)
        if len(known) < len(variable)
    }

    def placed(numbers: Floats, *axes: int) -> Floats:
        array = np.zeros([len(variables[axis]) for axis in axes])
        array[np.ix_(*(codes[axis] for axis in axes))] = numbers
        return array

    values = placed(sheet.values, 0, 1)
    margins = tuple(replace(margin, values=placed(margin.values, margin.axis)) for margin in sheet.margins)
    rows, columns = (variable.categories for variable in variables)
    return replace(sheet, rows=rows, columns=columns, values=values, margins=margins), absent


def _check_counts(sheet: Sheet) -> None:
    """Raise where counts are percentages, or do not add up to their totals."""
    if sheet.is_percent:
        kinds = shortlist(get_args(TableKind))
        raise DataError(f"table {sheet.name} has percentages but its kind is 'counts'; the kinds are {kinds}")
    for margin in sheet.margins:
        sums = sheet.values.sum(axis=1 - margin.axis)
        # Rounded counts may miss their rounded total.
        tolerance = 0.5 * sheet.step * (sheet.values.shape[1 - margin.axis] + 1) + 1e-6 * sums
        wrong = np.flatnonzero(np.abs(margin.values - sums) > tolerance)
        if margin.role == "total" and wrong.size and not margin.is_percent:
            side, labels = ("row", sheet.columns) if margin.axis else ("column", sheet.rows)
            raise DataError(
                f"table {sheet.name}: the {side} {margin.label!r} looks like a total but is not the sum of the others: "
                f"at {labels[wrong[0]]!r} it is {margin.values[wrong[0]]:g} and they add up to {sums[wrong[0]]:g}; "
                "drop it if some categories are not shown, or give a schema that lists it if it is a category"
            )


def _most_rounding(sheet: Sheet) -> float:
    """Return by how much rounding can have changed the total of counts: half a step in each cell."""
    step = sheet.step
    while sheet.values.any() and (sheet.values % (10.0 * step) == 0.0).all():
        step *= 10.0
    return 0.5 * step * sheet.values.size


def _read_conditional(sheet: Sheet, positions: tuple[int, int], name: str) -> PublishedTable:
    sums = sheet.values.sum(axis=1)
    # A total of 100% at each row does not weigh the rows.
    beside, below = ([margin for margin in sheet.margins if margin.axis == axis] for axis in (0, 1))
    bases = [one for one in beside if one.role != "total" or not np.allclose(one.values, sums, rtol=0.02)]
    # Shares rest on weighted bases; unweighted ones are the number of people asked.
    base = min(bases, key=lambda one: ("base", "total", "unweighted").index(one.role), default=None)
    is_empty = np.zeros(len(sums), dtype=bool) if base is None else (base.values == 0) & (sums == 0)
    scale = _scale(sheet, np.where(is_empty, np.nan, sums), sheet.values.shape[1], name, sheet.rows)
    values = sheet.values / np.where(sums > 0, sums, 1.0)[:, None]
    table = PublishedTable(name, positions, values, True, sheet.step / np.sqrt(12) / scale)
    table.total = _base_sum(bases) or _base_sum(below)
    table.weight = _base_sum(bases, unweighted=True) or _base_sum(below, unweighted=True)
    if base is not None:
        if base.values.sum() == 0:
            raise DataError(f"table {name}: the bases {base.label!r} are all zero; at least one must be positive")
        table.shares = base.values / base.values.sum()
        if table.total is None and not base.is_percent and base.values.sum() > 1.1 * scale:
            table.total = float(base.values.sum())
    for margin in below:
        if margin.role != "unweighted" and margin.values.sum() > 0:
            table.overall = margin.values / margin.values.sum()
    return table


def _base_sum(margins: Iterable[Margin], *, unweighted: bool = False) -> float | None:
    """Return the number of records that bases add up to, None where there are none."""
    for role in ("unweighted",) if unweighted else ("base", "unweighted"):
        for margin in margins:
            if margin.role == role and not margin.is_percent and margin.values.sum() > 0:
                return float(margin.values.sum())
    return None


def _scale(sheet: Sheet, sums: Floats, n_terms: int, name: str, places: Sequence[object]) -> float:
    """Return what shares add up to, 1 or 100; sums (NaN to ignore) farther off than rounding explains are an error."""
    centre = float(np.nanmedian(sums)) if np.isfinite(sums).any() else 1.0
    scale = 100.0 if sheet.is_percent or centre > 10 else 1.0
    # Rounding errors are at most half a step each, and with many terms they seldom add up to that.
    slack = min(0.5 * n_terms, 4 * np.sqrt(n_terms / 12)) * sheet.step
    tolerance = min(max(slack, 1e-3 * scale), 0.2 * scale) * (1 + 1e-9)
    wrong = np.flatnonzero(np.abs(sums - scale) > tolerance)
    if wrong.size:
        place, got = places[wrong[0]], sums[wrong[0]]
        margins = shortlist(margin.label for margin in sheet.margins)
        hint = f" without {margins}, which a schema can list as a category" if margins and got < scale else ""
        raise DataError(
            f"table {name}: {place if place == 'all cells' else repr(place)} should add up to 1 or to 100, within "
            f"{tolerance / scale:.1%} for rounding; got {got:g}{hint}"
        )
    return scale


# Totals and weights


def _effective_records(table: PublishedTable, key: Key, given: Any, schema: Schema) -> float:
    """Return the number of records for which published proportions have these standard errors."""
    p = table.values if table.is_conditional else table.values / table.values.sum()
    what = f"the standard error of {table.name}"
    if hasattr(given, "columns"):
        sheet = read_sheet(key, given, schema)
        # The frame has a key of its own, which may be the other way round.
        sheet, _ = _arranged(sheet if schema.index(key[0]) == table.positions[0] else sheet.transposed(), schema, what)
        errors = sheet.values / (100.0 if sheet.is_percent else 1.0)
    else:
        errors = np.full_like(p, _positive(given, what) / (100.0 if "%" in str(given) else 1.0))
    variance = p * (1 - p)
    if (errors >= 1).any() or (errors[variance > 0] == 0).any():
        worst = errors.max() if (errors >= 1).any() else 0.0
        raise DataError(f"{what} must be between 0 and 1, because it is one of a proportion; got {worst:g}")
    per_cell = np.divide(variance, errors**2, out=np.full_like(p, np.nan), where=errors > 0)
    # Each conditional distribution rests on records of its own.
    effective = float(np.nanmean(per_cell, axis=1).sum() if table.is_conditional else np.nanmean(per_cell))
    if effective == 0:
        raise DataError(f"table {table.name} has no proportion between 0 and 1, so {what} is not about its records")
    return effective


def _entries(tables: Sequence[PublishedTable], notes: list[str]) -> list[Entry]:
    nominal = nominal_total(tables)
    entries: list[Entry] = []
    for table in tables:
        assert table.joint is not None
        total = table.total if table.total is not None else table.weight
        if total is None:
            total = nominal
            notes.append(f"{table.name} has no total; counted as {total:g} records")
        # Counts that were given stay what they are, to the last bit.
        is_counts = not table.is_conditional and table.values.sum() == total
        counts = table.values if is_counts else table.joint * total
        entries.append((table.positions, counts, total if table.weight is None else table.weight))
    return entries
