"""Sheets: published two-way tables, read from frames, with their numbers and margins.

This is the gate for cross-tabulations: it knows frame libraries and ways of writing a number. What the
numbers mean is decided in `kinds`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from twoway.arrays import Floats
from twoway.errors import DataError
from twoway.schema import Label, Schema, label_key, plain_label
from twoway.tables.crosstabs.cells import Cell, MarginRole, is_missing, margin_role, parse_cell
from twoway.text import shortlist

Key: TypeAlias = tuple[str, str]

LONG_COLUMNS = ("row_variable", "row_category", "column_variable", "column_category", "value")
"""The columns of one frame that holds many tables; ``weight`` may be there too."""


@dataclass(frozen=True)
class Margin:
    """A column (axis 0) or row (axis 1) of totals or bases, with one number for each category along that axis."""

    axis: int
    label: Label
    role: MarginRole
    values: Floats
    is_percent: bool

    @classmethod
    def of(cls, axis: int, label: Label, role: MarginRole, cells: Sequence[Cell]) -> Margin:
        """Return the margin of some cells."""
        return cls(axis, label, role, np.array([cell.value for cell in cells]), any(cell.is_percent for cell in cells))


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
    margins: tuple[Margin, ...]
    weight: float | None = None

    @property
    def name(self) -> str:
        """The table's name in messages."""
        return " × ".join(self.key)

    def transposed(self) -> Sheet:
        """Return the same numbers with rows and columns exchanged; the key too."""
        margins = tuple(replace(margin, axis=1 - margin.axis) for margin in self.margins)
        key, rows, columns = (self.key[1], self.key[0]), self.columns, self.rows
        return replace(self, key=key, rows=rows, columns=columns, values=self.values.T, margins=margins)


def read_sheets(tables: Any, schema: Schema | None) -> list[Sheet]:
    """Return the sheets of a mapping, of (key, frame) pairs, or of one long frame of many tables.

    Labels that the schema lists are categories, also if they look like a margin.
    """
    if _is_frame(tables):
        return split_long(tables, schema)
    if isinstance(tables, Iterable) and not isinstance(tables, str | bytes):
        pairs = list(tables.items() if isinstance(tables, Mapping) else tables)
        if all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            return [read_sheet(key, frame, schema) for key, frame in pairs]
    raise DataError(
        "tables must be a mapping of (row variable, column variable) to frames, or one frame with the columns "
        f"{', '.join(LONG_COLUMNS)}; got {type(tables).__name__}"
    )


def read_sheet(key: object, frame: Any, schema: Schema | None) -> Sheet:
    """Return one frame as a sheet: rows down and columns across, or long with a column for each variable."""
    if isinstance(frame, Sheet):
        return frame
    key = check_key(key)
    name = " × ".join(key)
    if not _is_frame(frame):
        raise DataError(f"table {name} must be a pandas, polars or pyarrow frame; got {type(frame).__name__}")
    headers, columns = _columns(frame, name)
    if len(headers) == len(set(headers)) == 3 and set(key) <= set(headers):
        column_of = dict(zip(headers, columns, strict=True))
        return _pivot(key, column_of.pop(key[0]), column_of.pop(key[1]), *column_of.values(), schema=schema)
    labels = _index_labels(frame, key, headers, columns)
    if labels is None:
        labels, headers, columns = columns[0], headers[1:], columns[1:]
    return _parse(key, labels, headers, list(zip(*columns, strict=True)), schema)


def check_key(key: object) -> Key:
    """Return a pair of two different variables' names, or raise."""
    if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key)):
        raise DataError(f"a table is named by a pair (row variable, column variable); got {key!r}")
    if key[0] == key[1]:
        raise DataError(f"a table needs two different variables; got {key!r}")
    return key


def _is_frame(source: Any) -> bool:
    import narwhals as nw

    # Checked first: narwhals refuses pandas frames with duplicate headers, which get an error of their own.
    return nw.dependencies.is_pandas_dataframe(source) or isinstance(
        nw.from_native(source, eager_only=True, pass_through=True), nw.DataFrame
    )


def _columns(frame: Any, name: str) -> tuple[list[Any], list[list[Any]]]:
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


def _index_labels(frame: Any, key: Key, headers: list[Any], columns: list[list[Any]]) -> list[Any] | None:
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
    # One cell that is not a number is a typing error; half of them are labels.
    if is_default and len(headers) > 1 and sum(map(_is_word, columns[0])) * 2 >= len(columns[0]):
        return None
    return list(frame.index.tolist())


def _is_word(raw: object) -> bool:
    try:
        parse_cell(raw)
    except ValueError:
        return isinstance(raw, str)
    return False


def _pivot(
    key: Key, rows: Sequence[Any], columns: Sequence[Any], values: Sequence[Any], *, schema: Schema | None
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
    return _parse(key, [label for _, label in down], [label for _, label in across], raw, schema)


def split_long(frame: Any, schema: Schema | None) -> list[Sheet]:
    """Return the tables of one frame that names the variables in every line."""
    headers, columns = _columns(frame, "in the frame")
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
        sheets.append(replace(_pivot(check_key(key), *parts, schema=schema), weight=weights.pop()))
    return sheets


# Labels, numbers and margins


def _parse(
    key: Key, rows: Sequence[Any], columns: Sequence[Any], raw: Sequence[Sequence[object]], schema: Schema | None
) -> Sheet:
    """Return a sheet from its labels and raw cells, one sequence for each row."""
    name = " × ".join(key)
    labels = _labels(rows, name, "row"), _labels(columns, name, "column")
    roles = [_roles(variable, side, schema) for variable, side in zip(key, labels, strict=True)]
    inner_rows, inner_columns = ([place for place, role in enumerate(side) if role is None] for side in roles)
    if not inner_rows or not inner_columns:
        side = "columns" if inner_rows else "rows"
        raise DataError(f"table {name} has no {side} except totals; it needs at least one category")

    def cell(row: int, column: int) -> Cell:
        try:
            return parse_cell(raw[row][column])
        except ValueError as problem:
            raise DataError(
                f"table {name}, row {labels[0][row]!r}, column {labels[1][column]!r}: {raw[row][column]!r} "
                f"{problem}; a cell must be a number of 0 or more, such as 1234, '1,234', '45%', '<1%' or '-' for zero"
            ) from None

    cells = [[cell(row, column) for column in inner_columns] for row in inner_rows]
    along_rows, along_columns = (
        {place: role for place, role in enumerate(side) if role is not None} for side in reversed(roles)
    )
    margins = [
        Margin.of(0, labels[1][column], role, [cell(row, column) for row in inner_rows])
        for column, role in along_rows.items()
    ]
    margins += [
        Margin.of(1, labels[0][row], role, [cell(row, column) for column in inner_columns])
        for row, role in along_columns.items()
    ]
    return Sheet(
        key,
        tuple(labels[0][row] for row in inner_rows),
        tuple(labels[1][column] for column in inner_columns),
        np.array([[cell.value for cell in row] for row in cells]),
        # A printed zero does not show the digits that the others were rounded to.
        min((cell.step for row in cells for cell in row if cell.value > 0), default=1.0),
        any(cell.is_percent for row in cells for cell in row),
        tuple(margins),
    )


def _roles(variable: str, labels: Sequence[Label], schema: Schema | None) -> list[MarginRole | None]:
    known = schema[variable] if schema is not None and variable in schema else None
    return [
        None if known is not None and known.find(label) is not None else margin_role(label, labels) for label in labels
    ]


def _labels(raw: Sequence[Any], name: str, side: str) -> list[Label]:
    """Return plain labels, or raise where one is missing or there twice."""
    labels: dict[tuple[str, object], Label] = {}
    for one in raw:
        if is_missing(one) or (isinstance(one, float) and math.isnan(one)):
            raise DataError(f"table {name} has a {side} without a label")
        try:
            label = plain_label(one.strip() if isinstance(one, str) else one)
        except DataError as error:
            raise DataError(f"table {name}, {side} label: {error}") from None
        if label_key(label) in labels:
            raise DataError(f"table {name}: duplicate {side} {label!r}")
        labels[label_key(label)] = label
    return list(labels.values())
