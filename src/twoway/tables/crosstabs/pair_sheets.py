"""Sheets of pairs of variables, made from tables of any number of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

from twoway.errors import DataError
from twoway.tables.crosstabs.crosstabs import TableKind
from twoway.tables.crosstabs.sheet_table import SheetTable
from twoway.tables.crosstabs.sheets import Key, Sheet


class PairSheets(NamedTuple):
    """What `Tables.from_crosstabs` takes."""

    sheets: list[tuple[Key, Sheet]]
    kinds: dict[Key, TableKind]
    totals: dict[Key, float]
    margins: dict[str, dict[Any, float]]

    @classmethod
    def of(cls, tables: Iterable[SheetTable], notes: list[str]) -> PairSheets:
        """Return the pairs of variables in tables of any number of them."""
        pairs = cls([], {}, {}, {})
        for table in tables:
            if table.values.ndim == 1:
                pairs._add_margin(table, notes)
            elif table.values.ndim == 2:
                pairs._add_pair(table)
            else:
                counts = table.joint_numbers()
                notes.append(f"{table.name} is used as the tables of its pairs of variables")
                for axes in combinations(range(counts.ndim), 2):
                    sums = counts.sum(tuple(axis for axis in range(counts.ndim) if axis not in axes))
                    key = table.variables[axes[0]], table.variables[axes[1]]
                    labels = table.categories[axes[0]], table.categories[axes[1]]
                    kind: TableKind = "joint" if table.kind == "joint" else "counts"
                    is_percent = table.is_percent and kind == "joint"
                    pairs._add(key, Sheet(key, *labels, sums, table.step, is_percent, ()), kind)
        return pairs

    def _add(self, key: Key, sheet: Sheet, kind: TableKind) -> None:
        for one, other in self.kinds.items():
            if set(one) == set(key) and other != kind:
                raise DataError(
                    f"there are two tables {' × '.join(key)}, of kind {other} and {kind}; leave one out of the layout"
                )
        self.kinds[key] = kind
        self.sheets.append((key, sheet))

    def _add_pair(self, table: SheetTable) -> None:
        key = table.variables[0], table.variables[1]
        margins = tuple(replace(margin, label=margin.role) for margin in table.margins if len(margin.axes) == 1)
        step = table.step
        sheet = Sheet(key, table.categories[0], table.categories[1], table.values, step, table.is_percent, margins)
        self._add(key, sheet, table.kind)
        total = table.total or next((float(m.values) for m in table.margins if m.role == "base" and not m.axes), None)
        if total is not None and table.kind != "counts" and not any(m.role in ("base", "unweighted") for m in margins):
            self.totals[key] = total

    def _add_margin(self, table: SheetTable, notes: list[str]) -> None:
        """A table of one variable gives the shares that percentages of another table may need."""
        name = table.variables[0]
        self.margins[name] = dict(zip(table.categories[0], table.values.tolist(), strict=True))
        notes.append(f"{name!r} is alone in {table.grid.name}: its shares are used where percentages need them")
