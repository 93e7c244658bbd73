"""Tables of sheets that say more than pairs: of many variables, in coarser categories, of some people, with bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from twoway.arrays import Floats
from twoway.errors import DataError, naming
from twoway.schema import Label
from twoway.tables.crosstabs.sheet_layout import SheetLayout
from twoway.tables.crosstabs.sheet_reading import SheetTable
from twoway.tables.layout import NO_TOTAL, NOMINAL_TOTAL
from twoway.tables.published.numbers import Axes, Labels
from twoway.tables.published.ranges import groups_of_ranges
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables
from twoway.text import shortlist


def with_groups(layout: SheetLayout, tables: Iterable[SheetTable]) -> SheetLayout:
    """Return a layout that says which ranges of a variable are made up of finer ones, where tables differ in them."""
    sides: dict[str, list[tuple[str, ...]]] = {}
    for table in tables:
        for name, labels in zip(table.variables, table.categories, strict=True):
            sides.setdefault(name, []).append(labels)
        for name, labels in table.within.items():
            sides.setdefault(name, []).append(labels)
    found = {name: groups_of_ranges(own) for name, own in sides.items() if name not in layout.groups}
    groups = {name: own for name, own in found.items() if own is not None}
    return replace(layout, groups={**layout.groups, **groups}) if groups else layout


def published_of(tables: Sequence[SheetTable], layout: SheetLayout, notes: list[str]) -> PublishedTables | None:
    """Return tables with all that they and their layout say; None where two-way tables say it all."""
    is_more = layout.groups or layout.impossible or layout.exact
    if not is_more and not any(t.values.ndim > 2 or t.slack.any() or t.within for t in tables):
        return None
    finest = _finest(tables, layout.groups)
    made = []
    for table in tables:
        with naming(f"{table.grid.name}, table {table.name}"):
            made.append(_published_table(table, _within(table, layout.groups, finest, notes)))
    labels: dict[str, dict[Label, Labels]] = {
        name: {label: tuple(own) for label, own in members.items()} for name, members in layout.groups.items()
    }
    for name, members in labels.items():
        notes.append(f"labels of {name!r} that stand for several categories: {shortlist(members, 4)}")
    return PublishedTables.of(made, groups=labels, impossible=layout.impossible, exact=layout.exact)


def _finest(tables: Iterable[SheetTable], groups: Mapping[str, Mapping[str, Labels]]) -> dict[str, set[str]]:
    """Return the finest categories of each variable that has groups."""
    finest: dict[str, set[str]] = {name: set() for name in groups}
    for table in tables:
        for name, labels in zip(table.variables, table.categories, strict=True):
            if name in groups:
                finest[name] |= _members(labels, groups[name])
    return finest


def _members(labels: Iterable[str], groups: Mapping[str, Labels]) -> set[str]:
    return {str(member) for label in labels for member in groups.get(label, (label,))}


def _within(
    table: SheetTable, groups: Mapping[str, Mapping[str, Labels]], finest: Mapping[str, set[str]], notes: list[str]
) -> dict[str, Labels]:
    """Return the universe of a table: what is declared, and ranges that are not all there are."""
    within: dict[str, Labels] = dict(table.within)
    for name, labels in zip(table.variables, table.categories, strict=True):
        if name in groups and name not in within and _members(labels, groups[name]) < finest[name]:
            within[name] = labels
            notes.append(f"{table.name} is about some people only: {name!r} {labels[0]} to {labels[-1]}")
    return within


def _published_table(table: SheetTable, within: Mapping[str, Labels]) -> PublishedTable:
    notes: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    values, slack, totals = table.values, table.slack, _totals(table)
    if table.kind == "counts":
        unit: Floats | float = 1.0
    else:
        others = tuple(axis for axis in range(values.ndim) if axis not in table.given)
        bases, is_joint = _bases(table)
        if bases is None:
            people = table.total or NOMINAL_TOTAL
            notes = () if table.total else (f"{table.name} has {NO_TOTAL} {people:g} records",)
            bases = np.full([values.shape[axis] for axis in table.given], 1.0)
            bases *= people / bases.size
        sums = values.sum(axis=others, keepdims=True)
        unit = np.expand_dims(bases, others) / np.where(sums > 0, sums, 1.0)
        given = () if is_joint else tuple(table.variables[axis] for axis in table.given)
        totals = {}
    counts = values * unit
    # "<5" counts as 2.5 in a sheet, and is at most 4 people; a share below 1 % may be anything below.
    most = 2.0 * values - (1.0 if table.kind == "counts" else 0.0)
    low, high = np.where(slack > 0, 0.0, counts), np.where(slack > 0, np.maximum(most, values) * unit, counts)
    if not counts.sum() > 0:
        raise DataError("it counts nobody")
    return PublishedTable(
        table.variables, table.categories, counts, low, high, given, dict(within), 0.0, totals, table.name, notes
    )


def _totals(table: SheetTable) -> dict[Axes, Floats]:
    """Return published totals, which tell what cells with bounds add up to."""
    if not table.slack.any():
        return {}
    return {margin.axes: margin.values for margin in table.margins if margin.role == "total" and not margin.is_percent}


def _bases(table: SheetTable) -> tuple[Floats | None, bool]:
    """Return the number of people behind the shares of each category that is given, and whether these are shares, too.

    Unweighted bases are the people who were asked, and say nothing about the population.
    """
    for role in ("base", "unweighted"):
        for margin in table.margins:
            if margin.role == role and margin.axes == table.given and not margin.is_percent and margin.values.sum() > 0:
                return np.maximum(margin.values, 1e-9), role == "base"
    return None, not table.given
