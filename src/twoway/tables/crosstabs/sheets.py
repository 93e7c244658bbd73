"""Sheets: published two-way tables, read from frames, with their labels, numbers and margins.

This is the gate for cross-tabulations: it knows frame libraries and ways of writing a number or a label. What the
numbers mean is decided in `crosstabs`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from twoway.arrays import Floats
from twoway.category_labels import Label, label_key, plain_label
from twoway.errors import DataError, unknown_name
from twoway.schema import Schema
from twoway.tables.crosstabs.cells import Cell, cell_value, is_missing_cell, parse_cell
from twoway.tables.crosstabs.sheet_words import MarginRole, margin_in_words
from twoway.text import shortlist

Key: TypeAlias = tuple[str, str]

LONG_COLUMNS = ("row_variable", "row_category", "column_variable", "column_category", "value")
"""The columns of one frame that holds many tables; ``weight`` may be there too."""

_NUMERIC = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")


@dataclass(frozen=True)
class SheetMargin:
    """Totals or bases, with a number for each combination of categories of some of a table's variables."""

    role: MarginRole
    axes: tuple[int, ...]
    """Their positions in the table: 0 for a column of totals, 1 for a row of them, none for the grand total."""
    values: Floats
    is_percent: bool
    label: Label = ""

    @property
    def axis(self) -> int:
        """The only variable of the margin of a two-way table."""
        return self.axes[0]

    @classmethod
    def of(cls, axis: int, label: Label, role: MarginRole, cells: Sequence[Cell]) -> SheetMargin:
        """Return the margin of some cells."""
        values, is_percent = np.array([cell.value for cell in cells]), any(cell.is_percent for cell in cells)
        return cls(role, (axis,), values, is_percent, label)


@dataclass(frozen=True)
class Sheet:
    """The numbers of a table as printed, apart from its margins."""

    key: Key
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    values: Floats
    """Shape (n_rows, n_columns), as printed: 45 for "45%"."""
    step: float
    """The unit of the last digit printed in any cell."""
    is_percent: bool
    """Whether any cell has a percent sign."""
    margins: tuple[SheetMargin, ...]
    weight: float | None = None

    @classmethod
    def of_frame(cls, key: object, frame: Any, schema: Schema | None) -> Sheet:
        """Return one frame as a sheet: rows down and columns across, or long with a column for each variable."""
        if isinstance(frame, cls):
            return frame
        key = cls.check_key(key)
        name = " × ".join(key)
        if not is_sheet_frame(frame):
            raise DataError(f"table {name} must be a pandas, polars or pyarrow frame; got {type(frame).__name__}")
        headers, columns = sheet_columns(frame, name)
        if len(headers) == len(set(headers)) == 3 and set(key) <= set(headers):
            column_of = dict(zip(headers, columns, strict=True))
            return cls.of_lines(key, schema, column_of.pop(key[0]), column_of.pop(key[1]), *column_of.values())
        labels = sheet_index(frame, key, headers, columns)
        if labels is None:
            labels, headers, columns = columns[0], headers[1:], columns[1:]
        return cls.of_cells(key, schema, labels, headers, list(zip(*columns, strict=True)))

    @staticmethod
    def check_key(key: object) -> Key:
        """Return a pair of two different variables' names, or raise."""
        if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key)):
            raise DataError(f"a table is named by a pair (row variable, column variable); got {key!r}")
        if key[0] == key[1]:
            raise DataError(f"a table needs two different variables; got {key!r}")
        return key

    @classmethod
    def of_cells(
        cls, key: Key, schema: Schema | None, rows: Sequence[Any], columns: Sequence[Any], raw: Sequence[Any]
    ) -> Sheet:
        """Return a sheet from its labels and raw cells, one sequence for each row."""
        name = " × ".join(key)
        labels = _sheet_labels(rows, name, "row"), _sheet_labels(columns, name, "column")
        roles: list[list[MarginRole | None]] = []
        for variable, side in zip(key, labels, strict=True):
            known = schema[variable] if schema is not None and variable in schema else None
            is_own = (known is not None and known.find(label) is not None for label in side)
            roles.append(
                [None if own else margin_in_words(label, side) for label, own in zip(side, is_own, strict=True)]
            )
        inner_rows, inner_columns = ([place for place, role in enumerate(side) if role is None] for side in roles)
        if not inner_rows or not inner_columns:
            absent = "columns" if inner_rows else "rows"
            raise DataError(f"table {name} has no {absent} except totals; it needs at least one category")

        def read(rows: Iterable[int], columns: Iterable[int]) -> list[Cell]:
            cells = []
            for row, column in product(rows, columns):
                try:
                    cells.append(parse_cell(raw[row][column]))
                except ValueError as problem:
                    raise DataError(
                        f"table {name}, row {labels[0][row]!r}, column {labels[1][column]!r}: {raw[row][column]!r} "
                        f"{problem}; a cell must be a number of 0 or more, such as 1234, '1,234', '45%', '<1%' or '-' "
                        "for zero"
                    ) from None
            return cells

        cells = read(inner_rows, inner_columns)
        beside = [(labels[1][place], role, read(inner_rows, [place])) for place, role in enumerate(roles[1]) if role]
        below = [(labels[0][place], role, read([place], inner_columns)) for place, role in enumerate(roles[0]) if role]
        return cls(
            key,
            tuple(labels[0][row] for row in inner_rows),
            tuple(labels[1][column] for column in inner_columns),
            np.array([cell.value for cell in cells]).reshape(len(inner_rows), -1),
            # A printed zero does not show the digits that the others were rounded to.
            min((cell.step for cell in cells if cell.value > 0), default=1.0),
            any(cell.is_percent for cell in cells),
            (*(SheetMargin.of(0, *margin) for margin in beside), *(SheetMargin.of(1, *margin) for margin in below)),
        )

    @classmethod
    def of_lines(
        cls, key: Key, schema: Schema | None, rows: Sequence[Any], columns: Sequence[Any], values: Sequence[Any]
    ) -> Sheet:
        """Return a sheet from one line for each cell; a cell without a line is zero, as in a count by groups."""
        # True == 1 in Python, but they are different labels.
        keys = [[(isinstance(label, bool | np.bool_), label) for label in side] for side in (rows, columns)]
        cells: dict[Any, object] = {}
        for place, value in zip(zip(*keys, strict=True), values, strict=True):
            if place in cells:
                raise DataError(f"table {' × '.join(key)}: duplicate cell {place[0][1]!r}, {place[1][1]!r}")
            cells[place] = value
        down, across = map(dict.fromkeys, keys)
        raw = [[cells.get((row, column), 0) for column in across] for row in down]
        return cls.of_cells(key, schema, [label for _, label in down], [label for _, label in across], raw)

    @property
    def name(self) -> str:
        """The table's name in messages."""
        return " × ".join(self.key)

    def transposed(self) -> Sheet:
        """Return the same numbers with rows and columns exchanged; the key too."""
        margins = tuple(replace(margin, axes=(1 - margin.axis,)) for margin in self.margins)
        key, rows, columns = (self.key[1], self.key[0]), self.columns, self.rows
        return replace(self, key=key, rows=rows, columns=columns, values=self.values.T, margins=margins)

    def arranged(self, schema: Schema, where: str) -> tuple[Sheet, dict[str, list[Label]]]:
        """Return the sheet with every category of a schema, in its order, and those that it lacked, as zeros."""
        variables = [schema[name] for name in self.key]
        sides = zip(self.key, (self.rows, self.columns), strict=True)
        codes = [sheet_label_codes(schema, name, labels, where) for name, labels in sides]
        absent = {
            variable.name: [label for code, label in enumerate(variable.categories) if code not in known]
            for variable, known in zip(variables, codes, strict=True)
            if len(known) < len(variable)
        }

        def placed(numbers: Floats, *axes: int) -> Floats:
            array = np.zeros([len(variables[axis]) for axis in axes])
            array[np.ix_(*(codes[axis] for axis in axes))] = numbers
            return array

        values = placed(self.values, 0, 1)
        margins = tuple(replace(margin, values=placed(margin.values, margin.axis)) for margin in self.margins)
        rows, columns = (variable.categories for variable in variables)
        return replace(self, rows=rows, columns=columns, values=values, margins=margins), absent


def read_sheets(tables: Any, schema: Schema | None) -> list[Sheet]:
    """Return the sheets of a mapping, of (key, frame) pairs, or of one long frame of many tables.

    Labels that the schema lists are categories, also if they look like a margin.
    """
    if is_sheet_frame(tables):
        return read_long_sheets(tables, schema)
    if isinstance(tables, Iterable) and not isinstance(tables, str | bytes):
        pairs = list(tables.items() if isinstance(tables, Mapping) else tables)
        if all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            return [Sheet.of_frame(key, frame, schema) for key, frame in pairs]
    raise DataError(
        "tables must be a mapping of (row variable, column variable) to frames, or one frame with the columns "
        f"{', '.join(LONG_COLUMNS)}; got {type(tables).__name__}"
    )


def read_long_sheets(frame: Any, schema: Schema | None) -> list[Sheet]:
    """Return the tables of one frame that names the variables in every line."""
    headers, columns = sheet_columns(frame, "in the frame")
    by_name = dict(zip(headers, columns, strict=True))
    absent = [name for name in LONG_COLUMNS if name not in by_name]
    extra = [name for name in headers if name not in (*LONG_COLUMNS, "weight")]
    if absent or extra:
        raise DataError(
            f"one frame of many tables must have the columns {', '.join(LONG_COLUMNS)} and may have weight; "
            + (f"it lacks {shortlist(absent)}" if absent else f"it also has {shortlist(extra)}")
        )
    lines: dict[Key, list[int]] = {}
    for line, key in enumerate(zip(by_name["row_variable"], by_name["column_variable"], strict=True)):
        lines.setdefault(key, []).append(line)
    sheets = []
    for key, chosen in lines.items():
        weights = {by_name["weight"][line] for line in chosen} if "weight" in by_name else {None}
        if len(weights) > 1:
            raise DataError(f"table {key[0]} × {key[1]} has several weights {sorted(weights)}; it can have only one")
        parts = ([by_name[name][line] for line in chosen] for name in ("row_category", "column_category", "value"))
        sheets.append(replace(Sheet.of_lines(Sheet.check_key(key), schema, *parts), weight=weights.pop()))
    return sheets


# Frames


def is_sheet_frame(source: Any) -> bool:
    """Return whether something is a frame of a library that is supported."""
    import narwhals as nw

    # Checked first: narwhals refuses pandas frames with duplicate headers, which get an error of their own.
    return nw.dependencies.is_pandas_dataframe(source) or isinstance(
        nw.from_native(source, eager_only=True, pass_through=True), nw.DataFrame
    )


def sheet_columns(frame: Any, name: str) -> tuple[list[Any], list[list[Any]]]:
    """Return a frame's headers and its columns as lists."""
    import narwhals as nw

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
    import narwhals as nw

    if (len(headers) > 1 and str(headers[0]) == key[0]) or not nw.dependencies.is_pandas_dataframe(frame):
        return None
    if (frame.index.name, frame.columns.name) == (key[1], key[0]):
        raise DataError(
            f"table {key[0]} × {key[1]}: the frame's own names have {key[1]!r} in rows and {key[0]!r} in columns; "
            f"name it {(key[1], key[0])!r} or transpose it"
        )
    import pandas as pd

    is_default = isinstance(frame.index, pd.RangeIndex) and frame.index.start == 0 and frame.index.name is None
    n_words = sum(isinstance(raw, str) and cell_value(raw) is None for raw in columns[0])
    # One cell that is not a number is a typing error; half of them are labels.
    return None if is_default and len(headers) > 1 and n_words * 2 >= len(columns[0]) else list(frame.index.tolist())


# Labels


def _sheet_labels(raw: Sequence[Any], name: str, side: str) -> list[Label]:
    """Return plain labels, or raise where one is missing or there twice."""
    labels: dict[tuple[str, object], Label] = {}
    for one in raw:
        if is_missing_cell(one) or (isinstance(one, float) and math.isnan(one)):
            raise DataError(f"table {name} has a {side} without a label")
        try:
            label = plain_label(one.strip() if isinstance(one, str) else one)
        except DataError as error:
            raise DataError(f"table {name}, {side} label: {error}") from None
        if label_key(label) in labels:
            raise DataError(f"table {name}: duplicate {side} {label!r}")
        labels[label_key(label)] = label
    return list(labels.values())


def find_sheet_schema(sheets: Iterable[Sheet]) -> Schema:
    """Return the schema of all labels in some tables, variables and categories in order of appearance.

    The labels of a variable are numbers if all of them, in all tables, can be read as numbers.
    """
    labels_of: dict[str, list[tuple[Label, str]]] = {}
    for sheet in sheets:
        for name, labels in zip(sheet.key, (sheet.rows, sheet.columns), strict=True):
            labels_of.setdefault(name, []).extend((label, sheet.name) for label in labels)
    return Schema.found({name: sheet_categories(name, labels) for name, labels in labels_of.items()})


def sheet_label_codes(schema: Schema, name: str, labels: Sequence[Label], where: str) -> list[int]:
    """Return the category codes of different labels of a variable; ``where`` is their place, for errors.

    A frame's headers are often text where its rows are numbers, so ``"1"`` may mean the category ``1``
    (and ``1`` the category ``"1"``, ``"True"`` the truth value), unless it is a category itself.

    Examples
    --------
    >>> from twoway.schema import Variable
    >>> schema = Schema((Variable("stars", (1, 2)), Variable("sure", (False, True))))
    >>> sheet_label_codes(schema, "stars", ["2", 1], "table stars × sure")
    [1, 0]
    """
    variable = schema[name]
    codes: list[int] = []
    for label in labels:
        code = next((code for one in _sheet_label_meanings(label) if (code := variable.find(one)) is not None), None)
        if code is None:
            error = unknown_name("category", label, variable.categories, where=f" of {name!r}")
            raise DataError(f"{where}: {error}")
        if code in codes:
            raise DataError(f"{where}: duplicate category {variable.categories[code]!r} of {name!r}")
        codes.append(code)
    return codes


def _sheet_label_meanings(label: Label) -> list[Label]:
    """Return what a label may mean, itself first."""
    if not isinstance(label, str):
        return [label, str(label)]
    text = label.strip()
    numbers = [plain_label(float(text))] if _NUMERIC.fullmatch(text) else []
    truths = [text.casefold() == "true"] if text.casefold() in ("true", "false") else []
    return [text, *numbers, *truths]


def sheet_categories(name: str, shown: Sequence[tuple[Label, str]], *, is_typed: bool = False) -> tuple[Label, ...]:
    """Return the categories of a variable from its labels, each with the name of its table.

    Text that looks like a number is one, unless labels are typed and all of the variable's are text.
    """
    labels = [label for label, _ in shown]
    is_text = is_typed and all(isinstance(label, str) for label in labels)
    chosen = None if is_text else _sheet_labels_of_kind("number", labels)
    if chosen is None and any(isinstance(label, bool) for label in labels):
        chosen = _sheet_labels_of_kind("truth", labels)
    if chosen is None:
        # Where 1 is beside "3+", the "1" of another table is the same category.
        texts = {label for label in labels if isinstance(label, str)}
        chosen = [str(label) if str(label) in texts else label for label in labels]
    first: dict[tuple[str, object], Label] = {}
    first_of_text: dict[str, tuple[Label, str]] = {}
    for label, (_, table) in zip(chosen, shown, strict=True):
        first.setdefault(label_key(label), label)
        other, other_table = first_of_text.setdefault(str(label).casefold(), (label, table))
        if label_key(other) != label_key(label) and other_table != table:
            raise DataError(
                f"{name!r} has the category {other!r} in table {other_table} and {label!r} in table {table}; write "
                "both the same way, or give a schema that lists both"
            )
    return tuple(first.values())


def _sheet_labels_of_kind(kind: str, labels: Sequence[Label]) -> list[Label] | None:
    """Return labels read as numbers, or as truth values, if all of them can be."""
    read = [next((one for one in _sheet_label_meanings(label) if label_key(one)[0] == kind), None) for label in labels]
    known = [one for one in read if one is not None]
    return known if len(known) == len(read) else None
