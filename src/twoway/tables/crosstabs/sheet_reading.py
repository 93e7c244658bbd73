"""Tables read from a sheet by its layout, with every number checked against the totals that the sheet shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, product
from math import prod
from pathlib import Path
from typing import TypeAlias

import numpy as np

from twoway.errors import DataError
from twoway.schema import first_duplicate
from twoway.tables.crosstabs.cells import Cell, parse_cell, parse_printed_cell
from twoway.tables.crosstabs.grids import Grid
from twoway.tables.crosstabs.sheet_layout import NO_NAME, Role, SheetLayout, TableBlock, TableLines
from twoway.tables.crosstabs.sheet_sums import check_sums, note_sums_of_hundred
from twoway.tables.crosstabs.sheet_table import SheetTable
from twoway.tables.crosstabs.sheet_words import MarginRole
from twoway.tables.crosstabs.sheets import PrintedPlace
from twoway.text import counted, shortlist

_LabelledRole: TypeAlias = tuple[MarginRole | None, tuple[str, ...]]


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
        matching = [g for g in grids if block.sheet in ("", g.sheet) and block.file in ("", Path(g.file).name)]
        if len(matching) != 1:
            where = f"file {block.file!r}, " * bool(block.file) + f"sheet {block.sheet!r}"
            known = shortlist(dict.fromkeys(g.sheet or g.file for g in grids))
            raise DataError(
                f"the layout names {where}, which {'is ambiguous' if matching else 'does not exist'}; known: {known}"
            )
        return cls(matching[0], block, symbols)

    def text(self, row: int, column: int) -> str:
        if row >= len(self.grid.cells) or column >= self.grid.width:
            raise DataError(f"{self.grid.place(row, column)}: the sheet ends before")
        return self.grid.cells[row][column].strip()

    def number(self, row: int, column: int) -> Cell | None:
        """Return the number in a cell, None if it is empty."""
        text = self.text(row, column)
        if not text:
            return None
        meant = self.symbols.get(text, text)
        try:
            return parse_printed_cell(meant, self.block.letters)
        except ValueError as problem:
            hint = "a cell must be a number of 0 or more, such as 1234, '1,234', '45%', '<5' or '-' for zero"
            if not re.search(r"\d", text):
                hint = f'say in a layout what it means, as in symbols = {{"{text}" = "<5"}}, or skip its row or column'
            raise DataError(f"{self.grid.place(row, column)}: {text!r} {problem}; {hint}") from None

    def labelled(self, lines: TableLines, is_rows: bool) -> list[tuple[str, ...]]:
        """Return the categories of rows or columns; those that the sheet has are read there."""
        if lines.categories:
            return list(lines.categories)
        shown: list[Iterable[str]] = []
        for label in lines.labels:
            texts = [self.text(at, label) if is_rows else self.text(label, at) for at in lines.at]
            if not all(texts[:1]):
                where = self.grid.place(lines.at[0], label) if is_rows else self.grid.place(label, lines.at[0])
                raise DataError(f"{where}: a label is missing")
            shown.append(accumulate(texts, lambda above, text: text or above))  # merged cells
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

    def printed(self, rows: TableLines, columns: TableLines) -> dict[_LabelledRole, tuple[Cell, int, int]]:
        """Return the number, its row and its column for each role and labels, empty for those of a margin."""
        grid, shown = self.grid, dict[_LabelledRole, tuple[Cell, int, int]]()
        lines = self.lines(rows, self.block.row_roles, True), self.lines(columns, self.block.column_roles, False)
        for (row, down_labels, role), (column, across_labels, other) in product(*lines):
            labels = (*down_labels, *across_labels)
            bases = {margin_role for margin_role in (role, other) if margin_role not in (None, "total")}
            if len(bases) > 1:
                continue  # a base of a base
            is_cell = "" not in labels and role is other is None
            own: MarginRole | None = None if is_cell else next(iter(bases), "total")
            if (cell := self.number(row, column)) is None:
                if own is None:
                    raise DataError(f"{grid.place(row, column)}: the cell is empty; a zero must be 0 or '-'")
                continue
            if own is None and (own, labels) in shown:
                raise DataError(
                    f"{grid.place(row, column)}: duplicate cell {shortlist(labels)}, also in "
                    f"{grid.place(*shown[own, labels][1:])}"
                )
            shown[own, labels] = cell, row, column
        return shown

    def tables(self, rows: TableLines, columns: TableLines, notes: list[str]) -> Iterator[SheetTable]:
        """Yield the table of some rows and columns; one for each category where people could choose several."""
        grid, block = self.grid, self.block
        variables = (*rows.variables, *columns.variables)
        name = " × ".join(variables)
        if nameless := [variable for variable in variables if variable.startswith(NO_NAME)]:
            raise DataError(f"{grid.name}: the variable {nameless[0]!r} still needs a name; write it into the layout")
        if (twice := first_duplicate(variables)) is not None:
            raise DataError(f"{grid.name}: {twice!r} is a variable of rows and of columns")
        shown = self.printed(rows, columns)
        inner = {labels: printed for (role, labels), printed in shown.items() if role is None}
        if not inner:
            raise DataError(f"{grid.name}: table {name} has no numbers but totals")
        categories = tuple(tuple(dict.fromkeys(side)) for side in zip(*inner, strict=True))
        shape = tuple(map(len, categories))
        if len(inner) < prod(shape):
            lacking = [labels for labels in product(*categories) if labels not in inner]
            if not rows.labels:
                raise DataError(f"{grid.name}: table {name} has no cell for {shortlist(lacking[0])}")
            notes.append(f"{name} lacks {counted(len(lacking), 'cell')}, such as {shortlist(lacking[0])}; counted as 0")
            shown |= {(None, labels): (parse_cell(0), 0, 0) for labels in lacking}
        if bounds := [place for cell, *place in inner.values() if cell.low != cell.high]:
            notes.append(
                f"{name} has {counted(len(bounds), 'cell')} shown as a bound, such as {self.text(*bounds[0])!r} in "
                f"{grid.place(*bounds[0])}; what they are is left open within these bounds"
            )
        codes = [{label: code for code, label in enumerate(side)} | {"": -1} for side in categories]
        cells: dict[PrintedPlace, Cell] = {}
        places: dict[PrintedPlace, tuple[int, int]] = {}
        at = np.zeros((*shape, 2), dtype=np.int64)
        for (role, labels), (cell, row, column) in shown.items():
            if all(label in code for label, code in zip(labels, codes, strict=True)):
                index = tuple(code[label] for code, label in zip(codes, labels, strict=True))
                cells[role, role or "", index], places[role, role or "", index] = cell, (row, column)
                if role is None:
                    at[index] = row, column
        n_down = len(rows.variables)
        given = {"row": range(n_down), "column": range(n_down, len(variables))}.get(block.kind, range(0))
        more = {what: getattr(block, what) for what in ("kind", "total", "area", "within")}
        table = SheetTable.of_cells(name, variables, categories, cells, given=tuple(given), grid=grid, at=at, **more)
        if table.kind in ("counts", "joint"):
            table.check_totals(
                "correct it, or skip its row or column in a layout if it counts others, too",
                where=lambda place: f"{grid.place(*places[place])}, table {name}",
            )
        whole = tuple(margin for margin in table.margins if not np.isnan(margin.values).any())
        table = replace(table, margins=whole)
        others = {label for group in block.rows if group is not rows for path in group.categories for label in path}
        yield from table.of_choices(others) if rows.several else [table]
