"""Long tables, with a row for each rating or label: their columns, and the names in a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoway.arrays import Bools, Ints
from twoway.category_labels import plain_label
from twoway.data.frames import frame_in_memory
from twoway.data.raw_columns import column_series
from twoway.data.records import Records
from twoway.errors import DataError, check_known, unknown_name
from twoway.schema import Schema
from twoway.text import brief

_FOLDS = 5


def check_long_table_option(columns: Any, kinds: str) -> None:
    """Raise if the option that names the columns of a long table does not name three; ``kinds`` says which."""
    if isinstance(columns, str) or not hasattr(columns, "__len__") or len(columns) != 3:
        raise DataError(f"columns must be three names: {kinds}; got {columns!r}")


def long_table_columns(source: Any, allowed: str) -> list[Any]:
    """Return the names of a table's columns; a source without columns is an error that says what is allowed."""
    # The columns of pyarrow's tables are arrays; their names are column_names.
    names = source if isinstance(source, Mapping) else getattr(source, "column_names", getattr(source, "columns", None))
    if names is None:
        raise DataError(f"{allowed}; got {type(source).__name__}")
    return list(names)


def read_long_table(
    source: Any, columns: Sequence[str], what: str, allowed: str, values: Any = None
) -> list[pd.Series[Any]]:
    """Return columns of a long table, all of the same length.

    Parameters
    ----------
    source
        A frame of any library, or a mapping from names to columns.
    columns
        The names of the columns.
    what, allowed
        For errors: what the table holds, and what sources are allowed.
    values
        The last column, where the source does not hold it.
    """
    source = frame_in_memory(source)
    in_source = columns if values is None else columns[:-1]
    check_known("column", long_table_columns(source, allowed), *in_source, where=f" in the table of {what}")
    cells = [long_table_cells(source[name]) for name in in_source]
    if values is not None:
        cells.append(long_table_cells(values))
    if len({len(column) for column in cells}) > 1:
        lengths = ", ".join(f"{name!r} has {len(column)}" for name, column in zip(columns, cells, strict=True))
        raise DataError(f"the columns of the table of {what} differ in length: {lengths}")
    return cells


def long_table_cells(column: Any) -> pd.Series[Any]:
    """Return a column as a pandas Series that keeps its cells as they are."""
    if isinstance(column, str) or not hasattr(column, "__len__"):
        raise DataError(f"a column must be an array or a list, got {brief(column)}")
    return column_series(column)


def long_table_names(cells: Any, column: str, need: str) -> tuple[pd.Index, Ints]:
    """Return the names in a column, in order of appearance, and the position of each cell's name."""
    codes, uniques = pd.factorize(np.asarray(cells))
    if (codes < 0).any():
        raise DataError(f"column {column!r} is missing in row {np.argmin(codes)}; {need}")
    return pd.Index(uniques), codes.astype(np.int64)


def find_long_table_names(kind: str, known: pd.Index, names: Any, where: str = "") -> Ints:
    """Return the position of each name among known ones; an unknown name is an error."""
    positions: Ints = known.get_indexer(names).astype(np.int64)
    if (positions < 0).any():
        raise unknown_name(kind, plain_label(names[int(np.argmin(positions))]), known.tolist(), where=where)
    return positions


def long_table_records(schema: Schema, rows: Ints, cells: NDArray[Any], n_records: int) -> Records:
    """Return the records of a long table, from the record of each cell, ascending, and the cells."""
    pointers = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_records))])
    return Records.from_cells(schema, pointers, cells.astype(np.min_scalar_type(schema.n_categories - 1)))


def long_table_folds(n_cells: int, many: int, random: np.random.Generator) -> list[Bools]:
    """Return which cells are held out in each fold: in one fold where there are many cells, in none where too few."""
    fold_of_cell = random.permutation(n_cells) % _FOLDS
    n_folds = 0 if n_cells < _FOLDS else _FOLDS if n_cells <= many else 1
    return [fold_of_cell == fold for fold in range(n_folds)]


def shown_name(names: pd.Index, position: int) -> str:
    """Return a name as a user would write it, not as numpy does."""
    return brief(names[[position]].tolist()[0])
