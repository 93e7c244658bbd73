"""Tables read from a sheet by its layout, with every number checked against the totals that the sheet shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path

import numpy as np

from twoway.errors import DataError
from twoway.schema import first_duplicate
from twoway.tables.crosstabs.cells import parse_printed_cell
from twoway.tables.crosstabs.grids import Grid
from twoway.tables.crosstabs.sheet_layout import NO_NAME, Role, SheetLayout, TableBlock, TableLines
from twoway.tables.crosstabs.sheet_sums import check_sums, check_total_is_sum, note_sums_of_hundred
from twoway.tables.crosstabs.sheet_table import Printed, SheetTable
from twoway.tables.crosstabs.sheet_words import MarginRole
from twoway.tables.crosstabs.sheets import SheetMargin
from twoway.text import counted, shortlist


def read_sheet_tables(grids: Sequence[Grid], layout: SheetLayout, notes: list[str]) -> list[SheetTable]:
    """Return the tables that a layout describes; what was left out or assumed is added to the notes."""
    tables: list[SheetTable] = []
    for block in layout.blocks:
        reader = _SheetReader.of_block(block, grids, layout.symbols)
        asked = [rows for rows in block.rows if len(block.rows) == 1 or not reader.is_left_out(rows, notes)]
        for rows, columns in product(asked, block.columns):
            for table in reader.tables(rows, columns, notes):
                check_sums(table)
                note_sums_of_hundred(table, notes)
                if layout.areas in table.variables:
                    axis = table.variables.index(layout.areas)
                    tables += [table.of_area(axis, code) for code in range(len(table.categories[axis]))]
                else:
                    tables.append(table)
    return tables


@dataclass(frozen=True)
class _SheetReader:
    """Numbers of one block."""

    grid: Grid
    block: TableBlock
    symbols: Mapping[str, str]

    @classmethod
    def of_block(cls, block: TableBlock, grids: Sequence[Grid], symbols: Mapping[str, str]) -> _SheetReader:
        """Return the reader of a block, which is in one of the grids."""
        found = [g for g in grids if block.sheet in ("", g.sheet) and block.file in ("", Path(g.file).name)]
        if len(found) != 1:
            where = f"file {block.file!r}, " * bool(block.file) + f"sheet {block.sheet!r}"
            known = shortlist(dict.fromkeys(g.sheet or g.file for g in grids))
            raise DataError(
                f"the layout names {where}, which {'does not exist' if not found else 'is ambiguous'}; known: {known}"
            )
        return cls(found[0], block, symbols)

    def text(self, row: int, column: int) -> str:
        if row >= len(self.grid.cells) or column >= self.grid.width:
            raise DataError(f"{self.grid.place(row, column)}: the sheet ends before")
        return self.grid.cells[row][column].strip()

    def number(self, row: int, column: int) -> Printed | None:
        """Return the number in a cell, None if it is empty."""
        text = self.text(row, column)
        if not text:
            return None
        meant = self.symbols.get(text, text)
        try:
            cell = parse_printed_cell(meant, self.block.letters)
        except ValueError as problem:
            hint = "a cell must be a number of 0 or more, such as 1234, '1,234', '45%', '<5' or '-' for zero"
            if not re.search(r"\d", text):
                hint = f'say in a layout what it means, as in symbols = {{"{text}" = "<5"}}, or skip its row or column'
            raise DataError(f"{self.grid.place(row, column)}: {text!r} {problem}; {hint}") from None
        return Printed(cell, row, column, cell.value if meant.startswith("<") else 0.0)

    def labelled(self, lines: TableLines, is_rows: bool) -> list[tuple[str, ...]]:
        """Return the categories of rows or columns; those that the sheet has are read there."""
        if lines.categories:
            return list(lines.categories)
        shown: list[list[str]] = []
        for label in lines.labels:
            texts = [self.text(at, label) if is_rows else self.text(label, at) for at in lines.at]
            for place, text in enumerate(texts):
                if not text:
                    if not place:
                        where = self.grid.place(lines.at[0], label) if is_rows else self.grid.place(label, lines.at[0])
                        raise DataError(f"{where}: a label is missing")
                    texts[place] = texts[place - 1]  # merged cells
            shown.append(texts)
        return list(zip(*shown, strict=True))

    def lines(
        self, group: TableLines, roles: Mapping[int, Role], is_rows: bool
    ) -> Iterator[tuple[int, tuple[str, ...], MarginRole | None]]:
        """Yield rows or columns with their categories, then those of totals and bases, with their roles."""
        for at, labels in zip(group.at, self.labelled(group, is_rows), strict=True):
            yield at, labels, None
        for at, role in roles.items():
            if role != "skip":
                yield at, ("",) * len(group.variables), role

    def is_left_out(self, rows: TableLines, notes: list[str]) -> bool:
        """Return whether one of several questions has an empty cell: it was asked of too few."""
        places = [at for columns in self.block.columns for at in columns.at]
        empty = [row for row in rows.at if not all(self.text(row, column) for column in places)]
        if empty:
            where = f"in {Path(self.grid.file).name}, row {empty[0] + 1}"
            notes.append(f"{shortlist(rows.variables)} has empty cells {where}; left out")
        return bool(empty)

    def tables(self, rows: TableLines, columns: TableLines, notes: list[str]) -> Iterator[SheetTable]:
        """Yield the table of some rows and columns; one for each category where people could choose several."""
        grid, block = self.grid, self.block
        variables = (*rows.variables, *columns.variables)
        if nameless := [name for name in variables if name.startswith(NO_NAME)]:
            raise DataError(f"{grid.name}: the variable {nameless[0]!r} still needs a name; write it into the layout")
        if (twice := first_duplicate(variables)) is not None:
            raise DataError(f"{grid.name}: {twice!r} is a variable of rows and of columns")
        shown: dict[tuple[MarginRole | None, tuple[str, ...]], Printed] = {}
        lines = [*self.lines(rows, block.row_roles, True)], [*self.lines(columns, block.column_roles, False)]
        for (row, down_labels, role), (column, across_labels, other) in product(*lines):
            labels = (*down_labels, *across_labels)
            bases = {one for one in (role, other) if one not in (None, "total")}
            if len(bases) > 1:
                continue  # a base of a base
            is_cell = "" not in labels and role is other is None
            own: MarginRole | None = None if is_cell else next(iter(bases), "total")
            printed = self.number(row, column)
            if printed is None:
                if own is None:
                    raise DataError(f"{grid.place(row, column)}: the cell is empty; a zero must be 0 or '-'")
                continue
            if own is None and (own, labels) in shown:
                first = shown[own, labels]
                raise DataError(
                    f"{grid.place(row, column)}: duplicate cell {shortlist(labels)}, also in "
                    f"{grid.place(first.row, first.column)}"
                )
            shown[own, labels] = printed
        table = self._table(variables, len(rows.variables), shown, bool(rows.labels), notes)
        others = {label for group in block.rows if group is not rows for path in group.categories for label in path}
        yield from table.of_choices(others) if rows.several else [table]

    def _table(
        self,
        variables: tuple[str, ...],
        n_down: int,
        shown: Mapping[tuple[MarginRole | None, tuple[str, ...]], Printed],
        may_lack: bool,
        notes: list[str],
    ) -> SheetTable:
        grid, block = self.grid, self.block
        inner = {labels: printed for (role, labels), printed in shown.items() if role is None}
        if not inner:
            raise DataError(f"{grid.name}: table {' × '.join(variables)} has no numbers but totals")
        categories = tuple(tuple(dict.fromkeys(labels[axis] for labels in inner)) for axis in range(len(variables)))
        shape = tuple(map(len, categories))
        codes = [{label: code for code, label in enumerate(side)} for side in categories]
        values, slack = np.zeros(shape), np.zeros(shape)
        rows, columns = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        if len(inner) < prod(shape):
            lacking = next(labels for labels in product(*categories) if labels not in inner)
            if not may_lack:
                raise DataError(f"{grid.name}: table {' × '.join(variables)} has no cell for {shortlist(lacking)}")
            n_lacking = counted(prod(shape) - len(inner), "cell")
            notes.append(f"{' × '.join(variables)} lacks {n_lacking}, such as {shortlist(lacking)}; counted as 0")
        for labels, printed in inner.items():
            index = tuple(code[label] for code, label in zip(codes, labels, strict=True))
            values[index], slack[index] = printed.cell.value, printed.slack
            rows[index], columns[index] = printed.row, printed.column
        if bounds := [printed for printed in inner.values() if printed.slack]:
            row, column = bounds[0].row, bounds[0].column
            notes.append(
                f"{' × '.join(variables)} has {counted(len(bounds), 'cell')} shown as a bound, such as "
                f"{self.text(row, column)!r} in {grid.place(row, column)}; what they are is left open within these "
                "bounds"
            )
        given = {"row": range(n_down), "column": range(n_down, len(variables))}.get(block.kind, range(0))
        table = SheetTable(
            variables,
            categories,
            values,
            block.kind,
            tuple(given),
            min((one.cell.step for one in inner.values() if one.cell.value > 0), default=1.0),
            any(one.cell.is_percent for one in inner.values()),
            (),
            grid,
            rows,
            columns,
            slack,
            block.total,
            block.area,
            block.within,
        )
        return replace(table, margins=tuple(self._margins(table, codes, shown)))

    @staticmethod
    def _margins(
        table: SheetTable,
        codes: Sequence[Mapping[str, int]],
        shown: Mapping[tuple[MarginRole | None, tuple[str, ...]], Printed],
    ) -> Iterator[SheetMargin]:
        """Yield the margins that the sheet shows for all categories; check those of some as well."""
        found: dict[tuple[MarginRole, tuple[int, ...]], dict[tuple[int, ...], Printed]] = {}
        for (role, labels), printed in shown.items():
            if role is None:
                continue
            axes = tuple(axis for axis, label in enumerate(labels) if label)
            if all(labels[axis] in codes[axis] for axis in axes):
                index = tuple(codes[axis][labels[axis]] for axis in axes)
                found.setdefault((role, axes), {})[index] = printed
        for (role, axes), entries in found.items():
            if role == "total" and table.kind in ("counts", "joint"):
                for index, printed in entries.items():
                    check_total_is_sum(table, axes, index, printed)
            shape = tuple(len(table.categories[axis]) for axis in axes)
            if len(entries) == prod(shape):
                values = np.zeros(shape)
                for index, printed in entries.items():
                    values[index] = printed.cell.value
                yield SheetMargin(role, axes, values, any(one.cell.is_percent for one in entries.values()))
