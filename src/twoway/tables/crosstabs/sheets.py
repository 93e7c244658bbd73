"""Sheets: published two-way tables as they were printed, and the numbers and margins in them.

This is the gate for cross-tabulations: it knows frame libraries and ways of writing a number, and
nothing of what the numbers mean; that is the business of `kinds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from twoway.errors import DataError
from twoway.schema import Label, label_key, plain_label
from twoway.tables.crosstabs.cells import Cell, MarginRole, is_missing, margin_role, parse_cell
from twoway.text import shortlist

Key: TypeAlias = tuple[str, str]

LONG_COLUMNS = ("row_variable", "row_category", "column_variable", "column_category", "value")
"""The columns of one frame that holds many tables; ``weight`` may stand beside them."""


@dataclass(frozen=True)
class Sheet:
    """One table as it was printed: labels down and across, and the cells between them."""

    key: Key
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    cells: Sequence[Sequence[object]]
    """One sequence for each row."""
    weight: float | None = None

    @property
    def name(self) -> str:
        """The table's name in messages."""
        return f"{self.key[0]} × {self.key[1]}"


@dataclass(frozen=True)
class Margin:
    """A row or column of totals or bases beside the categories."""

    label: Label
    role: MarginRole
    values: NDArray[np.float64]
    """One number for each category that it runs along."""
    is_percent: bool


@dataclass(frozen=True)
class Numbers:
    """The numbers of a sheet: categories and margins told apart."""

    key: Key
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    values: NDArray[np.float64]
    """Shape (n_rows, n_columns), as printed: 45 for "45%"."""
    step: float
    """The unit of the last digit printed in any cell."""
    is_percent: bool
    """Whether any cell has a percent sign."""
    beside: tuple[Margin, ...]
    """Margins with one number for each row: columns of the sheet."""
    below: tuple[Margin, ...]
    """Margins with one number for each column: rows of the sheet."""

    @property
    def name(self) -> str:
        """The table's name in messages."""
        return f"{self.key[0]} × {self.key[1]}"

    def transposed(self) -> Numbers:
        """Return the same numbers with rows and columns changed round; the key too."""
        return Numbers(
            (self.key[1], self.key[0]),
            self.columns,
            self.rows,
            self.values.T,
            self.step,
            self.is_percent,
            self.below,
            self.beside,
        )


def parse_sheet(sheet: Sheet, is_category: Callable[[str, Label], bool]) -> Numbers:
    """Return the numbers of a sheet, its margins apart.

    Parameters
    ----------
    sheet
        The table as printed.
    is_category
        (variable, label) -> whether the label is known to be a category, whatever it looks like.
    """
    row_roles = _roles(sheet.key[0], sheet.rows, is_category)
    column_roles = _roles(sheet.key[1], sheet.columns, is_category)
    inner_rows = [place for place, role in enumerate(row_roles) if role is None]
    inner_columns = [place for place, role in enumerate(column_roles) if role is None]
    for side, inner in (("rows", inner_rows), ("columns", inner_columns)):
        if not inner:
            raise DataError(f"table {sheet.name} has no {side} beside totals; it needs at least one category")
    parsed = {(row, column): _parse_at(sheet, row, column) for row in inner_rows for column in inner_columns}
    values = [[parsed[row, column].value for column in inner_columns] for row in inner_rows]

    def margin(label: Label, role: MarginRole, places: Sequence[tuple[int, int]]) -> Margin:
        cells = [_parse_at(sheet, row, column) for row, column in places]
        return Margin(label, role, np.array([cell.value for cell in cells]), any(cell.is_percent for cell in cells))

    beside = [
        margin(sheet.columns[column], role, [(row, column) for row in inner_rows])
        for column, role in enumerate(column_roles)
        if role is not None
    ]
    below = [
        margin(sheet.rows[row], role, [(row, column) for column in inner_columns])
        for row, role in enumerate(row_roles)
        if role is not None
    ]
    return Numbers(
        sheet.key,
        tuple(sheet.rows[row] for row in inner_rows),
        tuple(sheet.columns[column] for column in inner_columns),
        np.array(values),
        # A printed zero says nothing of the digits that the others were rounded to.
        min((cell.step for cell in parsed.values() if cell.value > 0), default=1.0),
        any(cell.is_percent for cell in parsed.values()),
        tuple(beside),
        tuple(below),
    )


def _roles(
    variable: str, labels: Sequence[Label], is_category: Callable[[str, Label], bool]
) -> list[MarginRole | None]:
    return [None if is_category(variable, label) else margin_role(label, labels) for label in labels]


def _parse_at(sheet: Sheet, row: int, column: int) -> Cell:
    raw = sheet.cells[row][column]
    try:
        return parse_cell(raw)
    except ValueError as problem:
        raise DataError(
            f"table {sheet.name}, row {sheet.rows[row]!r}, column {sheet.columns[column]!r}: {raw!r} {problem}; a cell "
            "is a number of 0 or more, such as 1234, '1,234', '45%', '<1%' or '-' for zero"
        ) from None


# Reading frames


def read_sheets(tables: Any) -> list[Sheet]:
    """Return the sheets of a mapping, of (key, frame) pairs, or of one long frame of many tables."""
    if isinstance(tables, Mapping):
        return [read_sheet(key, frame) for key, frame in tables.items()]
    if _is_frame(tables):
        return _split_long(tables)
    if isinstance(tables, Iterable) and not isinstance(tables, str | bytes):
        pairs = list(tables)
        if all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            return [read_sheet(key, frame) for key, frame in pairs]
    raise DataError(
        "tables come as a mapping of (row variable, column variable) to frames, or as one frame with the columns "
        f"{', '.join(LONG_COLUMNS)}; got {type(tables).__name__}"
    )


def read_sheet(key: object, frame: Any) -> Sheet:
    """Return one frame as a sheet: rows down and columns across, or long with a column for each variable."""
    key = check_key(key)
    name = f"{key[0]} × {key[1]}"
    if not _is_frame(frame):
        raise DataError(f"table {name} must be a pandas, polars or pyarrow frame; got {type(frame).__name__}")
    headers, columns = _columns(frame, name)
    if len(headers) == 3 and set(key) <= set(headers):
        rows, across, values = (columns[headers.index(one)] for one in (*key, next(h for h in headers if h not in key)))
        return _pivot(key, rows, across, values)
    labels = _index_labels(frame, key, headers, columns)
    if labels is None:
        labels, headers, columns = columns[0], headers[1:], columns[1:]
    return Sheet(
        key,
        _labels(labels, name, "row"),
        _labels(headers, name, "column"),
        [[column[row] for column in columns] for row in range(len(labels))],
    )


def check_key(key: object) -> Key:
    """Return a pair of two different variables' names, or raise."""
    if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(one, str) for one in key)):
        raise DataError(f"a table is named by a pair (row variable, column variable); got {key!r}")
    if key[0] == key[1]:
        raise DataError(f"a table is of two different variables; got {key!r}")
    return key


def _is_frame(thing: Any) -> bool:
    import narwhals as nw

    # Asked first, because narwhals refuses pandas frames with a header twice, which deserve an error of their own.
    return nw.dependencies.is_pandas_dataframe(thing) or isinstance(
        nw.from_native(thing, eager_only=True, pass_through=True), nw.DataFrame
    )


def _columns(frame: Any, name: str) -> tuple[list[Any], list[list[Any]]]:
    """Return a frame's headers and its columns as lists."""
    import narwhals as nw

    if nw.dependencies.is_pandas_dataframe(frame):
        if frame.index.nlevels > 1 or frame.columns.nlevels > 1:
            raise DataError(f"table {name} has labels of several levels; one level down and one across is allowed")
        headers, columns = frame.columns.tolist(), [frame.iloc[:, place].tolist() for place in range(frame.shape[1])]
    else:
        native = nw.from_native(frame, eager_only=True)
        headers, columns = list(native.columns), [native[column].to_list() for column in native.columns]
    if not columns or not columns[0]:
        raise DataError(f"table {name} is empty; it needs at least one row and one column")
    return headers, columns


def _index_labels(frame: Any, key: Key, headers: list[Any], columns: list[list[Any]]) -> list[Any] | None:
    """Return the row labels that a pandas index holds, or None where the first column holds them."""
    import narwhals as nw

    if len(headers) > 1 and str(headers[0]) == key[0]:
        return None
    if not nw.dependencies.is_pandas_dataframe(frame):
        return None
    if (frame.index.name, frame.columns.name) == (key[1], key[0]):
        raise DataError(
            f"table {key[0]} × {key[1]}: by its own names the frame has {key[1]!r} down and {key[0]!r} across; "
            f"name it {(key[1], key[0])!r} or transpose it"
        )
    import pandas as pd

    is_default = isinstance(frame.index, pd.RangeIndex) and frame.index.start == 0 and frame.index.name is None
    # One cell that is no number is a slip of the pen; half of them are labels.
    if is_default and len(headers) > 1 and sum(map(_is_word, columns[0])) * 2 >= len(columns[0]):
        return None
    return list(frame.index.tolist())


def _is_word(raw: object) -> bool:
    if not isinstance(raw, str):
        return False
    try:
        parse_cell(raw)
    except ValueError:
        return True
    return False


def _labels(raw: Sequence[Any], name: str, side: str) -> tuple[Label, ...]:
    """Return labels as plain ones, each there once."""
    labels: list[Label] = []
    seen: set[tuple[str, object]] = set()
    for one in raw:
        if is_missing(one) or (isinstance(one, float) and math.isnan(one)):
            raise DataError(f"table {name} has a {side} without a label; each needs one")
        try:
            label = plain_label(one.strip() if isinstance(one, str) else one)
        except DataError as error:
            raise DataError(f"table {name}, {side} label: {error}") from None
        if label_key(label) in seen:
            raise DataError(f"table {name} has the {side} {label!r} twice; each label may be there once")
        seen.add(label_key(label))
        labels.append(label)
    return tuple(labels)


def _pivot(key: Key, rows: Sequence[Any], columns: Sequence[Any], values: Sequence[Any], weight: Any = None) -> Sheet:
    """Return a sheet from one line for each cell; a cell without a line is zero, as in a count by groups."""
    name = f"{key[0]} × {key[1]}"
    row_place, first_rows = _places(rows)
    column_place, first_columns = _places(columns)
    row_labels, column_labels = _labels(first_rows, name, "row"), _labels(first_columns, name, "column")
    values_at: dict[tuple[int, int], object] = {}
    for line, place in enumerate(zip(row_place, column_place, strict=True)):
        if place in values_at:
            raise DataError(
                f"table {name} has the cell {rows[line]!r}, {columns[line]!r} twice; each may be there once"
            )
        values_at[place] = values[line]
    cells = [
        [values_at.get((row, column), 0) for column in range(len(column_labels))] for row in range(len(row_labels))
    ]
    return Sheet(key, row_labels, column_labels, cells, weight)


def _places(labels: Sequence[Any]) -> tuple[list[int], list[Any]]:
    """Return the place of each label among the different ones, and these in the order they came."""
    first: dict[tuple[bool, Any], int] = {}
    # True is 1 to Python and no number to us.
    places = [first.setdefault((isinstance(one, bool | np.bool_), one), len(first)) for one in labels]
    return places, [one for _, one in first]


def _split_long(frame: Any) -> list[Sheet]:
    """Return the tables of one frame that names the variables in every line."""
    headers, columns = _columns(frame, "in the frame")
    by_name = dict(zip(headers, columns, strict=True))
    absent = [one for one in LONG_COLUMNS if one not in by_name]
    extra = [one for one in headers if one not in (*LONG_COLUMNS, "weight")]
    if absent or extra:
        raise DataError(
            f"one frame of many tables has the columns {', '.join(LONG_COLUMNS)} and may have weight; "
            + (f"it lacks {shortlist(absent)}" if absent else f"it also has {shortlist(extra)}")
        )
    lines: dict[Key, list[int]] = {}
    for line, key in enumerate(zip(by_name["row_variable"], by_name["column_variable"], strict=True)):
        lines.setdefault(key, []).append(line)
    sheets = []
    for key, chosen in lines.items():
        weights = {by_name["weight"][line] for line in chosen} if "weight" in by_name else {None}
        if len(weights) > 1:
            raise DataError(f"table {key[0]} × {key[1]} has several weights {sorted(weights)}; it can have one")
        rows, across, values = (
            [by_name[one][line] for line in chosen] for one in ("row_category", "column_category", "value")
        )
        sheets.append(_pivot(check_key(key), rows, across, values, weights.pop()))
    return sheets
