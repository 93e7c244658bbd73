"""Named columns of labels, whatever they come in: frames, arrays, mappings, Arrow tables.

Every frame library meets here as Arrow columns, read a slice at a time so that memory stays small.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Array, Bools, Floats
from twoway.category_labels import Label, label_key
from twoway.data.binning import bin_sums, numbers_to_bin
from twoway.data.coding import FEW_LABELS, code_counts, coded_labels
from twoway.data.columns import NOT_CHOSEN
from twoway.data.frames import arrow_frame
from twoway.data.missing import Markers, MissingLabels, label_unless_missing, missing_key
from twoway.data.weights import weights_as_floats
from twoway.errors import DataError, check_known
from twoway.lazy_imports import nw, pa, pd
from twoway.schema import Schema, Variable

SLICE_ROWS = 2**16
_CODES = b"twoway: codes read as missing"
LabelsByKey: TypeAlias = dict[tuple[str, object], Label]
"""Categories by what makes two labels the same."""


@dataclass(frozen=True)
class RawColumns:
    """Named columns of one length, any slice of which can be had as labels and codes."""

    names: tuple[str, ...]
    n_rows: int
    read_slice: Callable[[str, int, int], Any]
    """(name, first row, row after the last) -> Arrow array, or a list of Python objects."""
    declared: Mapping[str, tuple[Label, ...]]
    """The categories of those columns whose type declares them, in order."""
    ordered: frozenset[str] = frozenset()
    """Those of them whose order means something."""
    start: int = 0
    """The number of the first record, for errors."""
    rows: Bools | None = None
    """Which rows of the source these are; None for all."""
    codes_read_as_missing: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How often each code that means "not observed" was in a column of a text file, where the cells now are null."""

    @classmethod
    def of_codes(cls, schema: Schema, codes: NDArray[np.int32]) -> RawColumns:
        """Return the labels of records as columns, to be read anew; codes are (n_records, n_variables)."""

        def read_slice(name: str, start: int, stop: int) -> list[Label | None]:
            labels = (*schema[name].categories, None)
            return [labels[code] for code in codes[start:stop, schema.index(name)]]

        declared = {variable.name: variable.categories for variable in schema}
        return cls(schema.names, len(codes), read_slice, declared, frozenset(v.name for v in schema if v.ordered))

    def where(self, rows: Bools) -> RawColumns:
        """Return the columns of some rows, those marked in (n_rows,)."""
        places = np.flatnonzero(rows)

        def read_slice(name: str, start: int, stop: int) -> Any:
            first, last = int(places[start]), int(places[stop - 1])
            cells, is_read = self.read_slice(name, first, last + 1), rows[first : last + 1]
            return list(compress(cells, is_read)) if isinstance(cells, list) else cells.filter(pa.array(is_read))

        return replace(self, n_rows=len(places), read_slice=read_slice, rows=rows)

    def record_number(self, row: int) -> int:
        """Return the number of a row's record in the source."""
        return self.start + (row if self.rows is None else int(np.flatnonzero(self.rows)[row]))

    def slices(self) -> list[tuple[int, int]]:
        """Return the first row of each slice, and the row after its last."""
        return [(start, min(start + SLICE_ROWS, self.n_rows)) for start in range(0, self.n_rows, SLICE_ROWS)]

    def numbers(self, name: str, what: str) -> Floats:
        """Return a column of counts or weights, NaN for null."""
        parts = [np.empty(0)]
        for start, stop in self.slices():
            labels, codes = coded_labels(self.read_slice(name, start, stop))
            parts.append(weights_as_floats([*labels, None], what)[codes])
        return np.concatenate(parts)

    def observed_labels(self, name: str, markers: Markers) -> list[Label]:
        """Return the labels that occur in a column, each once."""
        labels: LabelsByKey = {}
        self.collect_labels(labels, name, markers)
        return list(labels.values())

    def collect_labels(self, labels: LabelsByKey, name: str, markers: Markers, most: int | None = None) -> None:
        """Add the labels that occur in a column to others; more than ``most`` are an error."""

        def is_known(raw: Any) -> bool:
            try:
                return raw is None or missing_key(raw) in markers or label_key(raw) in labels
            except DataError:  # it is not a label, which is an error only if it occurs
                return False

        for start, stop in self.slices():
            raw_labels, codes = coded_labels(self.read_slice(name, start, stop))
            if len(raw_labels) <= FEW_LABELS and all(map(is_known, raw_labels)):
                continue  # whichever of them occur here
            for code in np.flatnonzero(code_counts(codes, len(raw_labels))):
                label = label_unless_missing(raw_labels[code], name, markers)
                if label is not None:
                    labels.setdefault(label_key(label), label)
            check_number_of_column_labels(name, len(labels), most)

    def bin_sums(self, variable: Variable, markers: Markers, weights: Floats | None) -> Floats:
        """Return how much is in each bin of a column of numbers, and the sum; (2, n_bins)."""
        sums = np.zeros((2, len(variable)))
        for start, stop in self.slices():
            numbers = numbers_to_bin(self.read_slice(variable.name, start, stop), markers)
            if numbers is None:
                raise DataError(f"column {variable.column or variable.name!r} has cuts but does not hold numbers")
            is_known = np.isfinite(numbers)
            counts = np.ones(stop - start) if weights is None else weights[start:stop]
            sums += bin_sums(variable.edges or (), numbers[is_known], counts[is_known])
        return sums

    def select(self, names: Sequence[str]) -> RawColumns:
        """Return some of the columns; unknown ones are an error."""
        check_known("column", self.names, *names)
        return replace(self, names=tuple(names))

    def with_choices(
        self, choices: Mapping[str, Sequence[str]], column_of: Mapping[str, str], whole: RawColumns
    ) -> RawColumns:
        """Return columns in which empty cells of multiple-choice questions read "no" where the question was answered.

        Parameters
        ----------
        choices
            For each column of such a question all of its columns, by the names that they have in ``whole``.
        column_of
            What ``whole`` calls each column.
        whole
            All columns, before they were chosen and renamed.
        """
        markers = MissingLabels().markers("")

        def is_answered(name: str, start: int, stop: int) -> Bools:
            labels, codes = coded_labels(whole.read_slice(name, start, stop))
            observed: Bools = np.array([*(missing_key(label) not in markers for label in labels), False])[codes]
            return observed

        def read_slice(name: str, start: int, stop: int) -> Any:
            cells = self.read_slice(name, start, stop)
            if name not in choices:
                return cells
            own = is_answered(column_of[name], start, stop)
            others = [is_answered(other, start, stop) for other in choices[name] if other in whole.names]
            cells = cells if isinstance(cells, list) else cells.to_pylist()
            is_no = np.any(others, axis=0) & ~own
            return [NOT_CHOSEN if no else cell for cell, no in zip(cells, is_no, strict=True)]

        return replace(self, read_slice=read_slice)

    def renamed(self, column_of: Mapping[str, str]) -> RawColumns:
        """Return columns by new names, a mapping from each to the old one."""

        def read_slice(name: str, start: int, stop: int) -> Any:
            return self.read_slice(column_of[name], start, stop)

        declared = {name: self.declared[column] for name, column in column_of.items() if column in self.declared}
        ordered = frozenset(name for name, column in column_of.items() if column in self.ordered)
        codes = {name: self.codes_read_as_missing.get(column, {}) for name, column in column_of.items()}
        return replace(
            self,
            names=tuple(column_of),
            read_slice=read_slice,
            declared=declared,
            ordered=ordered,
            codes_read_as_missing=codes,
        )


def open_raw_columns(source: Any, columns: Sequence[str] | None = None) -> RawColumns:
    """Return the columns of a frame, array or mapping, some of them or all."""
    if columns is not None:
        Schema.check_names_differ(columns)
    if isinstance(source, np.ndarray):
        return _open_array_columns(source, columns)
    if isinstance(source, RawColumns):
        return source if columns is None else source.select(columns)
    return _open_frame_columns(source, columns)


def _open_frame_columns(source: Any, columns: Sequence[str] | None) -> RawColumns:
    if isinstance(source, Mapping):
        source = _frame_of_columns(source)
    if hasattr(source, "set_axis") and not all(isinstance(name, str) for name in getattr(source, "columns", ())):
        # pandas names columns by anything; variables have text names.
        source = source.set_axis([str(name) for name in source.columns], axis=1)
    try:
        frame = nw.from_native(source, pass_through=True)
        if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
            frame = nw.from_native(arrow_frame(source))
    except nw.exceptions.DuplicateError:
        Schema.check_names_differ([str(name) for name in getattr(source, "column_names", source.columns)])
        raise
    except (TypeError, pa.ArrowInvalid):  # neither a frame nor Arrow data of columns
        raise DataError(
            "records come from a pandas, polars or pyarrow frame, a 2-D numpy array or a mapping of columns; "
            f"got {type(source).__name__}"
        ) from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    Schema.check_names_differ(frame.columns)

    def read_slice(name: str, start: int, stop: int) -> Any:
        column = frame[name][start:stop]
        # Arrow would make True and 2.5 one type, and has no word for some types of pandas.
        if column.dtype in (nw.Object, nw.Unknown):
            return column.to_list()
        try:
            arrow = column.to_arrow()
        except (UnicodeEncodeError, pa.ArrowInvalid, pa.ArrowTypeError):
            # Half of a surrogate pair, which is refused as a label; or text beside numbers, as in pd.read_spss(…).
            return column.to_list()
        values = getattr(arrow.type, "value_type", None)
        return column.to_list() if isinstance(values, pa.BaseExtensionType) else arrow

    names = tuple(frame.columns if columns is None else columns)
    check_known("column", frame.columns, *names)
    declared = {name: labels for name in names if (labels := _column_categories(frame[name], name))}
    # An unordered Categorical of pandas only lists its categories.
    ordered = frozenset(name for name in declared if getattr(getattr(frame[name].to_native(), "cat", 0), "ordered", 1))
    codes = codes_read_as_missing(frame.to_native())
    return RawColumns(names, len(frame), read_slice, declared, ordered, codes_read_as_missing=codes)


def with_codes_read_as_missing(table: pa.Table, counts: Mapping[str, Mapping[str, int]]) -> pa.Table:
    """Return a table that says how often each code that means "not observed" was in its columns, now null there."""
    return table.replace_schema_metadata({_CODES: json.dumps(counts)}) if counts else table


def codes_read_as_missing(table: Any) -> dict[str, dict[str, int]]:
    """Return how often each code that means "not observed" was in the columns of a table, where it says so."""
    known = table.schema.metadata if isinstance(table, pa.Table) else None
    counts: dict[str, dict[str, int]] = json.loads((known or {}).get(_CODES, "{}"))
    return counts


def _frame_of_columns(columns: Mapping[Any, Any]) -> Any:
    """Return a mapping of columns as a pandas frame."""
    for name, column in columns.items():
        if isinstance(column, str | bytes) or not hasattr(column, "__len__"):
            raise DataError(f"column {str(name)!r} must be a sequence of cells; got {column!r}")
    if any(hasattr(column, "columns") for column in columns.values()):
        raise DataError("a mapping of frames holds tables, not records: Tables.from_crosstabs(…) reads them")
    lengths = {str(name): len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"columns must be of one length; got {lengths}")
    return pd.DataFrame({name: column_series(column) for name, column in columns.items()})


def column_series(column: Any) -> pd.Series[Any]:
    """Return a column of a mapping as a pandas Series that keeps whole numbers as they are, even beside a hole."""
    values = getattr(getattr(column, "type", None), "value_type", None)
    if values is not None and hasattr(column, "cast"):  # of a dictionary of Arrow pandas would lose the holes
        column = column.cast(values)
    try:
        series = pd.Series(column).reset_index(drop=True)
    except ValueError as error:  # of several dimensions
        raise DataError(f"a column must be a sequence of cells: {error}") from None
    # For the sake of a hole, pandas makes floats of whole numbers, and beyond 2⁵³ different ones become equal.
    is_listed = series.dtype.kind == "f" and isinstance(column, list | tuple)
    if is_listed and any(isinstance(cell, int) and abs(cell) > 2**53 for cell in column):
        return pd.Series(column, dtype=object)
    return series


def _open_array_columns(array: Array, names: Sequence[str] | None) -> RawColumns:
    if array.ndim != 2:
        raise DataError(f"an array of records must have 2 dimensions, records by variables; got {array.ndim}")
    names = [f"x{column}" for column in range(array.shape[1])] if names is None else list(names)
    if len(names) != array.shape[1]:
        raise DataError(f"the array has {array.shape[1]} columns and got {len(names)} names")
    position = {name: column for column, name in enumerate(names)}

    def read_slice(name: str, start: int, stop: int) -> Any:
        column = array[start:stop, position[name]]
        return column.tolist() if column.dtype.kind in "Oc" else pa.array(column, from_pandas=True)

    return RawColumns(tuple(names), len(array), read_slice, {})


def check_number_of_column_labels(name: str, n_labels: int, most: int | None) -> None:
    """Raise if a column has more labels than are allowed."""
    if most is not None and n_labels > most:
        raise DataError(
            f"column {name!r} has more than {most:,} distinct values: free text, an identifier or measurements? "
            "leave it out, put it into bins, or allow more with max_categories=…"
        )


def _column_categories(series: Any, name: str) -> tuple[Label, ...]:
    """Return the categories that a column's type declares in a meaningful order, or none."""
    native = series.to_native()
    declared: Iterable[object] = ()
    if isinstance(series.dtype, nw.Enum):
        declared = series.dtype.categories
    elif hasattr(native, "cat") and hasattr(native.cat, "categories"):  # pandas: a fixed list
        declared = native.cat.categories
    elif getattr(getattr(native, "type", None), "ordered", False) and len(native):
        # An unordered dictionary of Arrow or polars lists labels as they came.
        declared = native.unify_dictionaries().chunk(0).dictionary.to_pylist()
    labels = (label_unless_missing(label, name) for label in declared)
    return tuple(label for label in labels if label is not None)
