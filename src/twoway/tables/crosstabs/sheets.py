"""Sheets: published tables with labels, numbers and margins, of frames, series and mappings; one class, one gate.

This is the gate for cross-tabulations: it knows frame libraries and ways of writing a number or a label. What the
numbers mean is decided in `crosstabs` and in `published`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np

from twoway.arrays import Bools, Floats, first_true, sums_by
from twoway.category_labels import Label
from twoway.errors import DataError
from twoway.lazy_imports import nw, pd
from twoway.schema import Schema
from twoway.tables.crosstabs.cells import Cell, parse_cell, rounded_cells_unit
from twoway.tables.crosstabs.sheet_labels import read_sheet_side, sheet_categories, sheet_label_codes
from twoway.tables.crosstabs.sheet_words import MarginRole
from twoway.text import counted, shortlist

Key: TypeAlias = tuple[str, str]
Axes: TypeAlias = tuple[int, ...]
PrintedPlace: TypeAlias = tuple[MarginRole | None, Label, tuple[int, ...]]
"""The role of a number, the label of its margin, and its code on each axis, -1 on the axes of a margin."""

LONG_COLUMNS = ("row_variable", "row_category", "column_variable", "column_category", "value")
"""The columns of one frame that holds many tables; ``weight`` may be there too."""


@dataclass(frozen=True)
class SheetMargin:
    """Totals or bases, with a number for each combination of categories of some of a table's variables."""

    role: MarginRole
    axes: Axes
    """Their positions in the table: 0 for a column of totals, 1 for a row of them, none for the grand total."""
    values: Floats
    """NaN where none was printed."""
    is_percent: bool
    label: Label = ""


@dataclass(frozen=True)
class Sheet:
    """The numbers of a table as printed, apart from its margins."""

    name: str
    """What messages call it."""
    variables: tuple[str, ...]
    categories: tuple[tuple[Any, ...], ...]
    values: Floats
    """With an axis for each variable: 45 for "45%", 2.5 for "<5", NaN for a number that was suppressed."""
    low: Floats
    high: Floats
    """What each number is at least and at most: the same, except for bounds and suppressed numbers."""
    step: float
    """The unit of the last digit printed in any cell."""
    is_percent: bool
    """Whether any cell has a percent sign."""
    margins: tuple[SheetMargin, ...]
    weight: float | None = None

    @classmethod
    def of_pair(cls, key: object, numbers: Any, schema: Schema | None) -> Sheet:
        """Return the table of two variables; a combination that it lacks counts nobody."""
        if isinstance(numbers, cls):
            return numbers
        key = check_sheet_key(key)
        name = " × ".join(key)
        return cls.of_numbers(name, key, printed_sheet_numbers(name, key, numbers), parse_cell, schema, is_pair=True)

    @classmethod
    def of_numbers(
        cls,
        name: str,
        variables: tuple[str, ...],
        numbers: Sequence[tuple[tuple[Any, ...], object]],
        read: Callable[[object], Cell],
        schema: Schema | None = None,
        *,
        is_pair: bool = False,
        hint: str = "",
    ) -> Sheet:
        """Return a sheet from the labels and the raw number of each cell; the hint is for numbers that are none.

        Labels that the schema lists are categories, also if they look like a margin. In the table of a pair, numbers
        that were not printed are zeros, as in a count by groups, and the grand total is ignored.
        """
        sides = [
            read_sheet_side(name, variable, [labels[axis] for labels, _ in numbers], schema)
            for axis, variable in enumerate(variables)
        ]
        cells: dict[PrintedPlace, Cell] = {}
        for shown, (_, raw) in zip(zip(*(each for _, each in sides), strict=True), numbers, strict=True):
            labels, index, roles = zip(*shown, strict=True)
            margins = {role: label for role, label in zip(roles, labels, strict=True) if role is not None}
            if len(margins) > 1 or (is_pair and max(index) < 0):
                continue  # the base of a base
            place: PrintedPlace = (*(margins.popitem() if margins else (None, "")), index)
            if place in cells:
                raise DataError(f"table {name}: duplicate cell {shortlist(labels)}")
            try:
                cells[place] = read(raw)
            except ValueError as problem:
                raise DataError(
                    f"table {name}, cell {shortlist(labels)}: {raw!r} {problem}; a cell must be a number of 0 or more, "
                    f"such as 1234, '1,234', '45%', '<5' or '-' for zero{hint}"
                ) from None
        return cls.of_cells(name, variables, tuple(own for own, _ in sides), cells, absent=0.0 if is_pair else np.nan)

    @classmethod
    def of_cells(
        cls,
        name: str,
        variables: tuple[str, ...],
        categories: tuple[tuple[Any, ...], ...],
        cells: Mapping[PrintedPlace, Cell],
        *,
        absent: float = np.nan,
        **more: Any,
    ) -> Self:
        """Return a sheet from its cells; numbers that were not printed are ``absent``."""
        shape = tuple(map(len, categories))
        inner: dict[Axes, Cell] = {}
        margin_cells: dict[tuple[MarginRole, Label, Axes], dict[Axes, Cell]] = {}
        for (role, label, index), cell in cells.items():
            axes = tuple(axis for axis, code in enumerate(index) if code >= 0)
            own = inner if role is None else margin_cells.setdefault((role, label, axes), {})
            own[tuple(index[axis] for axis in axes)] = cell
        values, low, high = np.full((3, *shape), absent)
        for index, cell in inner.items():
            values[index], low[index], high[index] = cell.value, cell.low, cell.high
        margins = []
        for (role, label, axes), own in margin_cells.items():
            numbers = np.full([shape[axis] for axis in axes], absent)
            for index, cell in own.items():
                numbers[index] = cell.value
            margins.append(SheetMargin(role, axes, numbers, any(cell.is_percent for cell in own.values()), label))
        # A printed zero does not show the digits that the others were rounded to.
        step = min((cell.step for cell in inner.values() if cell.value > 0), default=1.0)
        is_percent = any(cell.is_percent for cell in inner.values())
        return cls(name, variables, categories, values, low, high, step, is_percent, tuple(margins), **more)

    @property
    def pair(self) -> Key:
        """The variables of rows and of columns of a two-way table."""
        return self.variables[0], self.variables[1]

    @property
    def sides(self) -> dict[str, tuple[Any, ...]]:
        """The categories of each variable, by its name."""
        return dict(zip(self.variables, self.categories, strict=True))

    @property
    def is_open(self) -> Bools:
        """Which numbers are not known, except by bounds."""
        return np.asarray(self.low != self.high)

    @property
    def totals(self) -> dict[Axes, Floats]:
        """Printed totals that are no percentages beside counts, by the axes that they are not sums over."""
        return {m.axes: m.values for m in self.margins if m.role == "total" and m.is_percent == self.is_percent}

    def base(self, axes: Axes, *roles: MarginRole) -> SheetMargin | None:
        """Return the numbers of people with each category of some axes, by the first role that has them."""
        counted = [m for m in self.margins if m.axes == axes and not m.is_percent and m.values.sum() > 0]
        return next((margin for role in roles for margin in counted if margin.role == role), None)

    def check_totals(self, advice: str, unit: float = 0.0, where: Callable[[PrintedPlace], str] | None = None) -> None:
        """Raise where the cells, rounded to a unit (0: judged by the numbers), do not add up to a total."""
        for margin in self.margins:
            if margin.role != "total" or margin.is_percent != self.is_percent:
                continue  # a percentage beside counts is no total of them
            low, high, sums = (sums_by(numbers, margin.axes) for numbers in (self.low, self.high, self.values))
            shown = margin.values[~np.isnan(margin.values)]
            rounded_to = unit or rounded_cells_unit(np.append(self.values, shown), self.step)
            # Rounded numbers may miss their rounded total.
            slack = 0.5 * rounded_to * (self.values.size // sums.size + 1) + 1e-6 * sums
            if (index := first_true((margin.values < low - slack) | (margin.values > high + slack))) is not None:
                code_of = dict(zip(margin.axes, index, strict=True))
                labels = [self.categories[axis][code] for axis, code in code_of.items()]
                codes = tuple(code_of.get(axis, -1) for axis in range(self.values.ndim))
                shown_at = (
                    where((margin.role, margin.label, codes)) if where else f"table {self.name}, {margin.label!r}"
                )
                raise DataError(
                    f"{shown_at}: {margin.values[index]:g} is taken for the total of "
                    f"{shortlist(labels) or 'all cells'}, but the cells add up to {sums[index]:g}; {advice}"
                )

    def transposed(self) -> Sheet:
        """Return the same numbers of a pair with rows and columns exchanged."""
        margins = tuple(replace(margin, axes=tuple(1 - axis for axis in margin.axes)) for margin in self.margins)
        arrays: dict[str, Any] = {what: getattr(self, what).T for what in ("values", "low", "high")}
        names, labels = self.variables[::-1], self.categories[::-1]
        return replace(self, variables=names, categories=labels, margins=margins, **arrays)

    def arranged(self, schema: Schema, where: str) -> tuple[Sheet, dict[str, list[Label]]]:
        """Return the sheet with every category of a schema, in its order, and those that it lacked, as zeros."""
        variables = [schema[name] for name in self.variables]
        codes = [sheet_label_codes(schema, name, labels, where) for name, labels in self.sides.items()]
        absent = {
            variable.name: [label for code, label in enumerate(variable.categories) if code not in known]
            for variable, known in zip(variables, codes, strict=True)
            if len(known) < len(variable)
        }

        def placed(numbers: Floats, axes: Iterable[int]) -> Floats:
            array = np.zeros([len(variables[axis]) for axis in axes])
            array[np.ix_(*(codes[axis] for axis in axes))] = numbers
            return array

        margins = tuple(replace(margin, values=placed(margin.values, margin.axes)) for margin in self.margins)
        arrays: dict[str, Any] = {
            what: placed(getattr(self, what), range(len(variables))) for what in ("values", "low", "high")
        }
        categories = tuple(variable.categories for variable in variables)
        return replace(self, categories=categories, margins=margins, **arrays), absent


def check_sheet_key(key: object) -> Key:
    """Return a pair of two different variables' names, or raise."""
    if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key)):
        raise DataError(f"a table is named by a pair (row variable, column variable); got {key!r}")
    if key[0] == key[1]:
        raise DataError(f"a table needs two different variables; got {key!r}")
    return key


def read_sheets(tables: Any, schema: Schema | None) -> list[Sheet]:
    """Return the sheets of a mapping, of (key, frame) pairs, or of one long frame of many tables.

    Labels that the schema lists are categories, also if they look like a margin.
    """
    if nw.dependencies.is_into_dataframe(tables):
        headers, columns = sheet_columns(tables, "in the frame")
        return read_long_sheets(dict(zip(headers, columns, strict=True)), schema)
    if isinstance(tables, Iterable) and not isinstance(tables, str | bytes):
        pairs = list(tables.items() if isinstance(tables, Mapping) else tables)
        if all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            return [Sheet.of_pair(key, frame, schema) for key, frame in pairs]
    raise DataError(
        "tables must be a mapping of (row variable, column variable) to frames, or one frame with the columns "
        f"{', '.join(LONG_COLUMNS)}; got {type(tables).__name__}"
    )


def read_long_sheets(columns: Mapping[str, Sequence[Any]], schema: Schema | None) -> list[Sheet]:
    """Return the tables of columns with a line for each cell, which name the variables in every line."""
    absent = [name for name in LONG_COLUMNS if name not in columns]
    extra = [name for name in columns if name not in (*LONG_COLUMNS, "weight")]
    if absent or extra:
        raise DataError(
            f"one frame of many tables must have the columns {', '.join(LONG_COLUMNS)} and may have weight; "
            + (f"it lacks {shortlist(absent)}" if absent else f"it also has {shortlist(extra)}")
        )
    lines: dict[Key, tuple[list[tuple[tuple[Any, Any], object]], set[Any]]] = {}
    weight_column = columns.get("weight", [None] * len(columns["value"]))
    for line in zip(*(columns[name] for name in LONG_COLUMNS), weight_column, strict=True):
        first, label, second, other_label, value, weight = line
        numbers, weights = lines.setdefault((first, second), ([], set()))
        numbers.append(((label, other_label), value))
        weights.add(weight)
    sheets = []
    for key, (numbers, weights) in lines.items():
        name = " × ".join(check_sheet_key(key))
        if len(weights) > 1:
            raise DataError(f"table {name} has several weights {sorted(weights)}; it can have only one")
        sheet = Sheet.of_numbers(name, key, numbers, parse_cell, schema, is_pair=True)
        sheets.append(replace(sheet, weight=weights.pop()))
    return sheets


def find_sheet_schema(sheets: Iterable[Sheet]) -> Schema:
    """Return the schema of all labels in some tables, variables and categories in order of appearance.

    The labels of a variable are numbers if all of them, in all tables, can be read as numbers.
    """
    labels_of: dict[str, list[tuple[Label, str]]] = {}
    for sheet in sheets:
        for name, labels in sheet.sides.items():
            labels_of.setdefault(name, []).extend((label, sheet.name) for label in labels)
    return Schema.found({name: sheet_categories(name, labels) for name, labels in labels_of.items()})


# Frames, series and mappings


def printed_sheet_numbers(name: str, variables: tuple[str, ...], numbers: Any) -> list[tuple[tuple[Any, ...], object]]:
    """Return the labels and the raw number of each cell of a mapping, series or frame."""
    if type(numbers).__name__ == "Series" and hasattr(numbers, "index"):
        keys, values, levels = numbers.index.tolist(), numbers.tolist(), list(numbers.index.names)
    elif isinstance(numbers, Mapping) and not hasattr(numbers, "columns"):
        keys, values, levels = list(numbers), list(numbers.values()), []
    elif nw.dependencies.is_into_dataframe(numbers):
        return _printed_in_frame(name, variables, numbers)
    else:
        raise DataError(
            f"table {name} must be a mapping, a series or a frame (pandas, polars or pyarrow) of numbers; got "
            f"{type(numbers).__name__}"
        )
    keys = [key if isinstance(key, tuple) else (key,) for key in keys]
    if set(levels) == set(variables):  # in any order
        keys = [tuple(key[levels.index(variable)] for variable in variables) for key in keys]
    if wrong := [key for key in keys if len(key) != len(variables)]:
        raise DataError(f"table {name}: each number needs {counted(len(variables), 'label')}; got {wrong[0]!r}")
    if not keys:
        raise DataError(f"table {name} is empty")
    return list(zip(keys, values, strict=True))


def _printed_in_frame(name: str, variables: tuple[str, ...], frame: Any) -> list[tuple[tuple[Any, ...], object]]:
    """Return the cells of a frame: long with a column for each variable, or two variables in rows and columns."""
    headers, columns = sheet_columns(frame, name)
    if set(variables) < set(headers) and len(headers) == len(variables) + 1:
        column_of = dict(zip(headers, columns, strict=True))
        labels = zip(*(column_of.pop(variable) for variable in variables), strict=True)
        return list(zip(labels, *column_of.values(), strict=True))
    if len(variables) != 2:
        raise DataError(
            f"table {name} needs a frame with a column for each of {shortlist(variables)} and one of numbers; it has "
            f"the columns {shortlist(headers)}"
        )
    if (rows := sheet_index(frame, (variables[0], variables[1]), headers, columns)) is None:
        rows, headers, columns = columns[0], headers[1:], columns[1:]
    cells = zip(headers, columns, strict=True)
    return [((row, header), raw) for header, column in cells for row, raw in zip(rows, column, strict=True)]


def sheet_columns(frame: Any, name: str) -> tuple[list[Any], list[list[Any]]]:
    """Return a frame's headers and its columns as lists."""
    if nw.dependencies.is_pandas_dataframe(frame):
        if frame.index.nlevels > 1 or frame.columns.nlevels > 1:
            raise DataError(f"table {name} has labels of several levels; only one level in each direction is allowed")
        headers, columns = frame.columns.tolist(), [frame.iloc[:, place].tolist() for place in range(frame.shape[1])]
    else:
        native = nw.from_native(frame, eager_only=True)
        headers, columns = list(native.columns), [native[column].to_list() for column in native.columns]
    if not columns or not columns[0]:
        raise DataError(f"table {name} is empty; it needs at least one row and one column")
    return headers, columns


def sheet_index(frame: Any, key: Key, headers: list[Any], columns: list[list[Any]]) -> list[Any] | None:
    """Return the row labels in a pandas index, or None where the first column holds them."""
    if (len(headers) > 1 and str(headers[0]) == key[0]) or not nw.dependencies.is_pandas_dataframe(frame):
        return None
    if (frame.index.name, frame.columns.name) == (key[1], key[0]):
        raise DataError(
            f"table {key[0]} × {key[1]}: the frame's own names have {key[1]!r} in rows and {key[0]!r} in columns; "
            f"name it {(key[1], key[0])!r} or transpose it"
        )
    is_default = isinstance(frame.index, pd.RangeIndex) and frame.index.start == 0 and frame.index.name is None
    n_words = sum(map(_is_word, columns[0]))
    # One cell that is not a number is a typing error; half of them are labels.
    return None if is_default and len(headers) > 1 and n_words * 2 >= len(columns[0]) else list(frame.index.tolist())


def _is_word(raw: object) -> bool:
    """Return whether a cell is text that cannot be a number of a frame: the mark of a footnote makes it a label."""
    try:
        parse_cell(raw)
    except ValueError:
        return isinstance(raw, str)
    return False
