"""Long tables, with a row for each rating or label: the names of columns, and the names in a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from twoway.arrays import Ints
from twoway.errors import DataError
from twoway.text import brief


def long_table_columns(source: Any, allowed: str) -> list[Any]:
    """Return the names of a table's columns; what has none is an error that says what is allowed."""
    # Of pyarrow, they are column_names, and columns are arrays.
    names = source if isinstance(source, Mapping) else getattr(source, "column_names", getattr(source, "columns", None))
    if names is None:
        raise DataError(f"{allowed}; got {type(source).__name__}")
    return list(names)


def long_table_names(cells: Any, column: str, need: str) -> tuple[pd.Index, Ints]:
    """Return the names in a column, in order of appearance, and the position of each cell's."""
    codes, uniques = pd.factorize(np.asarray(cells))
    if (codes < 0).any():
        raise DataError(f"column {column!r} is missing in row {np.argmin(codes)}; {need}")
    return pd.Index(uniques), codes.astype(np.int64)


def shown_name(names: pd.Index, position: int) -> str:
    """Return a name as its owner would write it, not as numpy does."""
    return brief(names[[position]].tolist()[0])
