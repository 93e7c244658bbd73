"""Tables read from a sheet by its layout, with every number checked against the totals that the sheet shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from twoway.arrays import Floats
from twoway.data.columns import CHOSEN, NOT_CHOSEN
from twoway.errors import DataError
from twoway.schema import first_duplicate
from twoway.tables.crosstabs.cells import MarginRole, rounded_unit, share_scale
from twoway.tables.crosstabs.grids import Grid
from twoway.tables.crosstabs.sheet_layout import NO_NAME, Role, SheetLayout, TableBlock, TableLines
from twoway.tables.crosstabs.sheet_table import Printed, SheetTable, printed_number
from twoway.tables.crosstabs.sheets import Margin
from twoway.text import counted, shortlist


def read_tables(grids: Sequence[Grid], layout: SheetLayout, notes: list[str]) -> list[SheetTable]:
    """Return the tables that a layout describes; what was left out or assumed is added to the notes."""
    tables: list[SheetTable] = []
    for block in layout.blocks:
        grid = _grid_of(grids, block)
        reader = _Reader(grid, block, layout.symbols)
        asked = [rows for rows in block.rows if len(block.rows) == 1 or not _is_left_out(reader, rows, notes)]
        for rows, columns in product(asked, block.columns):
            for table in _read_table(reader, rows, columns, notes):
                check_sums(table)
                _note_hundreds(table, notes)
                if layout.areas in table.variables:
                    axis = table.variables.index(layout.areas)
                    tables += [table.of_area(axis, code) for code in range(len(table.categories[axis]))]
                else:
                    tables.append(table)
    return tables


def _is_left_out(reader: _Reader, rows: TableLines, notes: list[str]) -> bool:
    """Return whether one of several questions has an empty cell: it was asked of too few."""
    places = [at for columns in reader.block.columns for at in columns.at]
    empty = [row for row in rows.at if not all(reader.text(row, column) for column in places)]
    if empty:
        where = f"in {Path(reader.grid.file).name}, row {empty[0] + 1}"
        notes.append(f"{shortlist(rows.variables)} has empty cells {where}; left out")
    return bool(empty)


def _grid_of(grids: Sequence[Grid], block: TableBlock) -> Grid:
    found = [g for g in grids if block.sheet in ("", g.sheet) and block.file in ("", Path(g.file).name)]
    if len(found) != 1:
        where = f"file {block.file!r}, " * bool(block.file) + f"sheet {block.sheet!r}"
        known = shortlist(dict.fromkeys(g.sheet or g.file for g in grids))
        raise DataError(
            f"the layout names {where}, which {'does not exist' if not found else 'is ambiguous'}; known: {known}"
        )
    return found[0]


@dataclass(frozen=True)
class _Reader:
    """Numbers of one block."""

    grid: Grid
    block: TableBlock
    symbols: Mapping[str, str]

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
            cell = printed_number(meant, self.block.letters)
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


def _read_table(reader: _Reader, rows: TableLines, columns: TableLines, notes: list[str]) -> Iterator[SheetTable]:
    """Yield the table of some rows and columns; one for each category where people could choose several."""
    grid, block = reader.grid, reader.block
    variables = (*rows.variables, *columns.variables)
    if nameless := [name for name in variables if name.startswith(NO_NAME)]:
        raise DataError(f"{grid.name}: the variable {nameless[0]!r} still needs a name; write it into the layout")
    if (twice := first_duplicate(variables)) is not None:
        raise DataError(f"{grid.name}: {twice!r} is a variable of rows and of columns")
    shown: dict[tuple[MarginRole | None, tuple[str, ...]], Printed] = {}
    lines = [*reader.lines(rows, block.row_roles, True)], [*reader.lines(columns, block.column_roles, False)]
    for (row, down_labels, role), (column, across_labels, other) in product(*lines):
        labels = (*down_labels, *across_labels)
        bases = {one for one in (role, other) if one not in (None, "total")}
        if len(bases) > 1:
            continue  # a base of a base
        is_cell = "" not in labels and role is other is None
        own: MarginRole | None = None if is_cell else next(iter(bases), "total")
        printed = reader.number(row, column)
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
    table = _table_of(reader, variables, len(rows.variables), shown, bool(rows.labels), notes)
    others = {label for group in block.rows if group is not rows for path in group.categories for label in path}
    yield from _one_each(table, others) if rows.several else [table]


def _table_of(
    reader: _Reader,
    variables: tuple[str, ...],
    n_down: int,
    shown: Mapping[tuple[MarginRole | None, tuple[str, ...]], Printed],
    may_lack: bool,
    notes: list[str],
) -> SheetTable:
    grid, block = reader.grid, reader.block
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
            f"{reader.text(row, column)!r} in {grid.place(row, column)}; what they are is left open within these bounds"
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
    return replace(table, margins=tuple(_margins_of(table, codes, shown)))


def _margins_of(
    table: SheetTable,
    codes: Sequence[Mapping[str, int]],
    shown: Mapping[tuple[MarginRole | None, tuple[str, ...]], Printed],
) -> Iterator[Margin]:
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
                _check_total(table, axes, index, printed)
        shape = tuple(len(table.categories[axis]) for axis in axes)
        if len(entries) == prod(shape):
            values = np.zeros(shape)
            for index, printed in entries.items():
                values[index] = printed.cell.value
            yield Margin(role, axes, values, any(one.cell.is_percent for one in entries.values()))


def _check_total(table: SheetTable, axes: tuple[int, ...], index: tuple[int, ...], printed: Printed) -> None:
    """Raise where a total is not the sum of its cells; a percentage beside counts is no total of them."""
    if printed.cell.is_percent != table.is_percent:
        return
    chosen = [slice(None)] * table.values.ndim
    for axis, code in zip(axes, index, strict=True):
        chosen[axis] = slice(code, code + 1)
    cells = table.values[tuple(chosen)]
    total = float(cells.sum())
    tolerance = (
        0.5 * rounded_unit(np.append(table.values, printed.cell.value), table.step) * (cells.size + 1)
        + 1e-6 * total
        + float(table.slack[tuple(chosen)].sum())
    )
    if abs(printed.cell.value - total) > tolerance:
        of = shortlist([table.categories[axis][code] for axis, code in zip(axes, index, strict=True)]) or "all cells"
        raise DataError(
            f"{table.grid.place(printed.row, printed.column)}: {printed.cell.value:g} is taken for the total of {of} "
            f"in {table.name}, but the cells add up to {total:g}; correct it, or skip its row or column in a layout if "
            "it counts others, too"
        )


def check_sums(table: SheetTable) -> None:
    """Raise where percentages are over 100, or do not add up to 100 where they should."""
    if table.kind == "counts":
        if table.is_percent:
            raise DataError(f"{table.grid.name}: table {table.name} has percentages but its kind is 'counts'")
        return
    others = tuple(axis for axis in range(table.values.ndim) if axis not in table.given)
    sums = table.values.sum(axis=others, keepdims=True)
    scale, tolerance = share_scale(sums, table.values.size // sums.size, table.step, is_percent=table.is_percent)
    over = np.argwhere(table.values > scale * (1 + 1e-9))
    if over.size:
        where = tuple(over[0])
        raise DataError(
            f"{table.place(where)}: {table.values[where]:g} is over {scale:g}, and no percentage of {table.name} can "
            "be; if the row or column is a base or a total, say so in a layout: base_rows, total_rows, …"
        )
    for margin in table.margins:
        totals = margin.values[margin.values > 0]
        is_share = margin.is_percent or (totals.size and float(totals.max()) <= scale)
        if margin.role == "total" and margin.axes == table.given and is_share and margin.axes:
            wrong = np.argwhere((np.abs(margin.values - scale) > 0.03 * scale) & (margin.values > 0))
            if wrong.size:
                index = [0] * table.values.ndim
                for axis, code in zip(margin.axes, wrong[0], strict=True):
                    index[axis] = int(code)
                raise DataError(
                    f"{table.place(tuple(index))}: the total of its percentages in {table.name} is shown as "
                    f"{float(margin.values[tuple(wrong[0])]):g}, not {scale:g}; if it is the sum of some categories, "
                    "skip it in a layout: skip_rows, skip_columns"
                )
    is_off = np.abs(sums - scale) > tolerance + table.slack.sum(axis=others, keepdims=True)
    wrong = np.argwhere(is_off & (sums != 0))  # 0 are groups of nobody
    if wrong.size:
        where = tuple(wrong[0])
        of = shortlist([table.categories[axis][where[axis]] for axis in table.given]) or "all cells"
        raise DataError(
            f"{table.place(where)}: the percentages of {of} in {table.name} add up to {float(sums[where]):g}, not to "
            f"{scale:g}, of kind {table.kind!r}; if people could choose several, say several = true in the layout"
        )


def _note_hundreds(table: SheetTable, notes: list[str]) -> None:
    """Note counts that look like percentages."""
    for axis in range(table.values.ndim) if table.kind == "counts" else ():
        sums = table.values.sum(axis)
        if sums.size > 1 and (np.abs(sums - 100.0) <= 1).all():
            notes.append(f"{table.name} adds up to 100 in each line, and was read as counts; if not, give its kind")
            return


def _one_each(table: SheetTable, elsewhere: set[str]) -> Iterator[SheetTable]:
    """Yield a table for each category of the first variable, whether people chose it or not.

    An answer that other questions have, too, such as "None of the above", is named with its question.
    """
    scale = 100.0 if table.is_percent or float(table.values.max()) > 1 else 1.0

    def both(values: Floats) -> Floats:
        return np.stack([values, scale - values])

    for code, label in enumerate(table.categories[0]):
        margins = (
            replace(margin, values=both(margin.values[code])) if 0 in margin.axes else margin
            for margin in table.margins
            if 0 in margin.axes or margin.role != "total"
        )
        arrays: dict[str, Any] = {
            name: np.stack([getattr(table, name)[code]] * 2) for name in ("rows", "columns", "slack")
        }
        yield replace(
            table,
            variables=(f"{label} [{table.variables[0]}]" if label in elsewhere else label, *table.variables[1:]),
            categories=((CHOSEN, NOT_CHOSEN), *table.categories[1:]),
            values=both(table.values[code]),
            margins=tuple(margins),
            **arrays,
        )
