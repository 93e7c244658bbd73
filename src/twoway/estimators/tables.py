"""Tables as estimators read them: their columns, weights and records, with continuous columns in bins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from twoway.data.binning import Bins, bin_column, column_numbers, looks_continuous, with_bins
from twoway.data.columns import Columns, open_columns
from twoway.data.frames import in_memory
from twoway.data.missing import MissingLabels
from twoway.data.reading import as_numbers
from twoway.data.records import Records
from twoway.data.weighing import check_weights, of_rows
from twoway.errors import DataError

# Columns of more different whole numbers than this are put into bins: few records are like any one of them.
MANY_WHOLE_NUMBERS = 40
_MARKERS = MissingLabels().markers("")


class TableEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator for tables of categories and numbers with missing cells."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _open(self, X: Any, names: tuple[str, ...] | None) -> tuple[Any, Columns]:
        """Return X as a frame or an array that scikit-learn agrees with, and its columns.

        Sets ``n_features_in_`` and, from a frame, ``feature_names_in_`` when fitting.

        Parameters
        ----------
        X
            A frame keeps its library; anything else becomes an array.
        names
            None when fitting; afterwards the names that the columns had then. The columns of a frame are put in that
            order; a missing or an additional one is an error that names it.
        """
        X = in_memory(X)
        if is_frame(X):
            import narwhals as nw

            frame = nw.from_native(X, eager_only=True)
            known = None if names is None else getattr(self, "feature_names_in_", None)
            if known is not None and set(known) == set(frame.columns):
                X = frame.select(list(known)).to_native()
            validate_data(self, X, skip_check_array=True, reset=names is None)
            if len(frame) == 0:
                raise DataError("X has 0 records; a minimum of 1 is required")
        else:
            X = validate_data(self, X, dtype=None, ensure_all_finite=False, reset=names is None)
        columns = open_columns(X)
        if names is None:
            is_named = hasattr(self, "feature_names_in_")
            names = columns.names if is_named else tuple(f"x{place}" for place in range(len(columns.names)))
        return X, _renamed(columns, names)


def is_frame(X: Any) -> bool:
    """Return whether X is a pandas, polars or pyarrow frame."""
    import narwhals as nw

    try:
        return isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"names of columns must differ: {error}") from None


def _renamed(columns: Columns, names: tuple[str, ...]) -> Columns:
    """Return columns under other names: fitting may have seen an array and prediction a frame, or the other way."""
    if columns.names == names:
        return columns
    old = dict(zip(names, columns.names, strict=True))
    return replace(
        columns,
        names=names,
        read_slice=lambda name, start, stop: columns.read_slice(old[name], start, stop),
        declared={name: columns.declared[before] for name, before in old.items() if before in columns.declared},
    )


def read_weights(weights: Any, n_records: int) -> NDArray[np.float64] | None:
    """Return the weights of records as an array, or raise where they cannot be weights; None where there are none."""
    if weights is None:
        return None
    numbers = as_numbers(weights, "weights", n_records)
    check_weights(numbers)
    if n_records and not numbers.any():
        raise DataError("the weights of the records are all zero; at least one must be positive")
    return numbers


def read_training(columns: Columns, bins: Mapping[str, Bins], weights: NDArray[np.float64] | None) -> Records:
    """Return the records of some columns, with the categories found in them and with numbers in bins.

    Records of weight 0 are left out.
    """
    variables = {name: some.variable for name, some in bins.items()}

    def read_slice(name: str, start: int, stop: int) -> Any:
        column = columns.read_slice(name, start, stop)
        return bin_column(column, variables[name], _MARKERS) if name in variables else column

    declared = {**columns.declared, **{name: variable.categories for name, variable in variables.items()}}
    binned = replace(columns, read_slice=read_slice, declared=declared)
    records = Records(binned, where=None if weights is None else weights > 0)
    if weights is not None:
        records = records.reweighted(*of_rows(None, weights[weights > 0]))
    return records.with_cells(with_bins(records.schema, variables), records.pointers, records.cells)


def find_continuous(columns: Columns, rows: NDArray[np.bool_] | None = None) -> dict[str, NDArray[np.float64]]:
    """Return the numbers of the columns that look continuous, NaN where missing or in rows that do not count.

    Fewer whole numbers suffice than for `looks_continuous`: an age is not a category to learn from and predict by.
    """
    continuous = {}
    for name in columns.names:
        if name in columns.declared:
            continue
        numbers = column_numbers(columns.read_slice(name, 0, columns.n_rows), _MARKERS)
        if numbers is not None:
            numbers = numbers if rows is None else np.where(rows, numbers, np.nan)
            different = np.unique(numbers[~np.isnan(numbers)])
            if len(different) > MANY_WHOLE_NUMBERS or looks_continuous(different):
                continuous[name] = numbers
    return continuous


def read_numbers(columns: Columns, name: str) -> NDArray[np.float64]:
    """Return a column of numbers, NaN where missing; anything else is an error."""
    column = columns.read_slice(name, 0, columns.n_rows)
    numbers = column_numbers(column, _MARKERS)
    if numbers is None:
        cells = column if isinstance(column, list) else column.to_pylist()
        odd = next(cell for cell in cells if column_numbers([cell], _MARKERS) is None)
        raise DataError(f"column {name!r} must hold numbers, to put them into bins; got {odd!r}")
    return numbers
