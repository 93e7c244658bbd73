"""The one gate for raw data: from frames and arrays of labels to compressed records.

Every frame library meets here as Arrow columns, read a slice at a time so that memory stays small:
once to find the categories, where no schema gives them, and once to write their codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoway.data.coding import NO_MARKERS, Found, Unseen, categories_of, clean, collect_labels, encode_slice, numbers_in
from twoway.data.files import reading as files
from twoway.data.files.file_set import is_path
from twoway.data.missing import AnyMissing, Markers, MissingLabels
from twoway.data.weighing import WeightTotals, check_counts, check_weights, of_rows
from twoway.errors import DataError, unknown
from twoway.schema import Label, Schema, Variable, first_duplicate, sort_labels
from twoway.text import near_miss, shortlist


class Parts(NamedTuple):
    """What records are made of."""

    schema: Schema
    pointers: NDArray[np.int64]
    cells: NDArray[Any]
    weights: NDArray[np.float64] | None
    people: NDArray[Any] | None


_SLICE_ROWS = 2**16


@dataclass(frozen=True)
class Columns:
    """Named columns of one length, any slice of which can be had as labels and codes."""

    names: tuple[str, ...]
    n_rows: int
    read_slice: Callable[[str, int, int], Any]
    """(name, first row, row after the last) -> Arrow array, or a list of Python objects."""
    declared: Mapping[str, tuple[Label, ...]]
    """The categories of columns whose type declares them, in order."""


def read(
    source: Any,
    *,
    schema: Schema | None,
    columns: Sequence[str] | None,
    missing: AnyMissing,
    counts: Any,
    weights: Any,
    where: Any,
    unseen: Unseen,
) -> Parts:
    """Return the records in a source."""
    missing = check_options(schema, missing, unseen, can_extend=True)
    wanted = with_columns_of([columns] if isinstance(columns, str) else columns, counts, weights)
    if is_path(source):
        condition = where if isinstance(where, str) else None
        source = files.read_table(source, wanted, missing=missing, schema=schema, where=condition, unseen=unseen)
        where = None if condition is not None else where
    opened = open_columns(source, wanted)
    if wanted is None:
        missing.check_columns([*opened.names, *(() if schema is None else schema.names)])
    opened, counts, weights = split_off(opened, counts, weights)
    rows = None if where is None else _rows_where(where, opened.n_rows)
    row_weights, people = weights_of_rows(counts, weights, opened.n_rows, rows)
    markers = missing.by_name(opened.names, schema)
    if schema is None:
        found = {name: _find_categories(opened, name, markers[name], rows) for name in opened.names}
        if not found:
            raise DataError("the data has no columns; it needs at least one")
        schema = Schema.found(found, missing.remembered)
        present = list(schema.names)
    else:
        present = match_columns(schema, opened.names)
        if unseen == "extend":
            schema = _extended(schema, opened, present, markers, rows)
    pointers, cells = _encode(opened, schema, present, markers, unseen, rows)
    return Parts(schema, pointers, cells, row_weights, people)


def check_options(
    schema: Schema | None, missing: AnyMissing, unseen: Unseen, *, can_extend: bool = False
) -> MissingLabels:
    """Return the labels that mean "not observed"; raise where options of reading make no sense."""
    if schema is not None and not isinstance(schema, Schema):
        raise DataError(f"schema must be a Schema, not {schema!r}")
    if not isinstance(missing, Iterable | MissingLabels):
        raise DataError(f'missing must be labels that mean "not observed", or a mapping of them; got {missing!r}')
    allowed = ("error", "missing", "extend") if can_extend else ("error", "missing")
    if unseen not in allowed:
        raise DataError(f"unseen must be {', '.join(map(repr, allowed[:-1]))} or {allowed[-1]!r}, not {unseen!r}")
    return MissingLabels.of(missing)


def open_columns(source: Any, columns: Sequence[str] | None = None) -> Columns:
    """Return the columns of a frame, array or mapping, some of them or all."""
    if columns is not None:
        _check_names_differ(list(columns))
    if isinstance(source, Columns):
        for name in columns or ():
            if name not in source.names:
                raise unknown("column", name, source.names)
        return source if columns is None else replace(source, names=tuple(columns))
    if isinstance(source, np.ndarray):
        return _open_array(source, columns)
    if isinstance(source, Mapping):
        import pandas as pd

        for name, column in source.items():
            if isinstance(column, str | bytes) or not hasattr(column, "__len__"):
                raise DataError(f"column {str(name)!r} must be a sequence of cells; got {column!r}")
        if any(hasattr(column, "columns") for column in source.values()):
            raise DataError("a mapping of frames holds tables, not records: Tables.from_crosstabs(…) reads them")
        lengths = {str(name): len(column) for name, column in source.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"columns must be of one length; got {lengths}")
        source = pd.DataFrame({name: _series(column) for name, column in source.items()})
    import narwhals as nw
    import pyarrow as pa

    if (
        hasattr(source, "set_axis")
        and hasattr(source, "columns")
        and not all(isinstance(name, str) for name in source.columns)
    ):
        # pandas names columns by anything; variables have text names.
        source = source.set_axis([str(name) for name in source.columns], axis=1)
    try:
        frame = nw.from_native(source)
    except nw.exceptions.DuplicateError:
        _check_names_differ([str(name) for name in getattr(source, "column_names", source.columns)])
        raise
    except TypeError:
        raise DataError(
            "records come from a pandas, polars or pyarrow frame, a 2-D numpy array or a mapping of columns; "
            f"got {type(source).__name__}"
        ) from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    all_names = [str(name) for name in frame.columns]
    _check_names_differ(all_names)
    by_name = dict(zip(all_names, frame.columns, strict=True))
    for name in columns or ():
        if name not in by_name:
            raise unknown("column", name, all_names)
    names = tuple(columns) if columns is not None else tuple(all_names)
    declared = {name: _declared_categories(frame[by_name[name]], name) for name in names}

    def read_slice(name: str, start: int, stop: int) -> Any:
        column = frame[by_name[name]][start:stop]
        # Arrow would make True and 2.5 one type, and has no word for some types of pandas.
        if column.dtype in (nw.Object, nw.Unknown):
            return column.to_list()
        try:
            arrow = column.to_arrow()
        except UnicodeEncodeError:  # half of a surrogate pair, which is refused as a label
            return column.to_list()
        values = getattr(arrow.type, "value_type", None)
        return column.to_list() if isinstance(values, pa.BaseExtensionType) else arrow

    return Columns(names, len(frame), read_slice, {name: labels for name, labels in declared.items() if labels})


def _series(column: Any) -> Any:
    """Return a column of a mapping as pandas has it, whole numbers beside a hole as they are."""
    import pandas as pd

    try:
        series = pd.Series(column).reset_index(drop=True)
    except ValueError as error:  # of several dimensions
        raise DataError(f"a column must be a sequence of cells: {error}") from None
    # Beyond 2⁵³ floats, which pandas makes of whole numbers for the sake of a hole, run them together.
    is_listed = series.dtype.kind == "f" and isinstance(column, list | tuple)
    if is_listed and any(isinstance(cell, int) and abs(cell) > 2**53 for cell in column):
        return pd.Series(column, dtype=object)
    return series


def _open_array(array: NDArray[Any], names: Sequence[str] | None) -> Columns:
    import pyarrow as pa

    if array.ndim != 2:
        raise DataError(f"an array of records must have 2 dimensions, records by variables; got {array.ndim}")
    names = [f"x{column}" for column in range(array.shape[1])] if names is None else list(names)
    if len(names) != array.shape[1]:
        raise DataError(f"the array has {array.shape[1]} columns and got {len(names)} names")
    position = {name: column for column, name in enumerate(names)}

    def read_slice(name: str, start: int, stop: int) -> Any:
        column = array[start:stop, position[name]]
        return column.tolist() if column.dtype.kind in "Oc" else pa.array(column, from_pandas=True)

    return Columns(tuple(names), len(array), read_slice, {})


def _check_names_differ(names: Sequence[str]) -> None:
    if (name := first_duplicate(names)) is not None:
        raise DataError(f"duplicate column name {name!r}; names must differ")


def _declared_categories(series: Any, name: str) -> tuple[Label, ...]:
    """Return the categories that a column's type declares in a meaningful order, or none."""
    import narwhals as nw

    def labels(declared: Iterable[object]) -> tuple[Label, ...]:
        cleaned = (clean(label, NO_MARKERS, name) for label in declared)
        return tuple(label for label in cleaned if label is not None)

    native = series.to_native()
    if isinstance(series.dtype, nw.Enum):
        return labels(series.dtype.categories)
    if isinstance(series.dtype, nw.Categorical) and hasattr(native, "cat") and hasattr(native.cat, "categories"):
        # pandas: a fixed list. In polars and Arrow an unordered dictionary lists labels as they came.
        return labels(native.cat.categories)
    kind = getattr(native, "type", None)
    if getattr(kind, "ordered", False) and len(native) and hasattr(native, "unify_dictionaries"):
        unified = native.unify_dictionaries().chunk(0)
        return labels(unified.dictionary.to_pylist())
    return ()


def with_columns_of(columns: Sequence[str] | None, counts: Any, weights: Any) -> list[str] | None:
    """Return columns with those that hold counts and weights; None stands for all."""
    if columns is None:
        return None
    return [*columns, *(name for name in (counts, weights) if isinstance(name, str) and name not in columns)]


def check_columns_of(names: Sequence[str], counts: Any, weights: Any) -> None:
    """Raise where counts or weights, by name of a column, have none among the names."""
    for what, name in (("counts", counts), ("weights", weights)):
        if isinstance(name, str) and name not in names:
            raise unknown("column", name, names, where=f" for the {what}")
    if isinstance(counts, str) and counts == weights:
        raise DataError(f"column {counts!r} cannot hold both counts and weights: name it as one of them")


def split_off(columns: Columns, counts: Any, weights: Any) -> tuple[Columns, Any, Any]:
    """Return the columns without those that hold counts and weights, and the numbers in these, or those given."""
    check_columns_of(columns.names, counts, weights)

    def numbers(what: str, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        parts = [numbers_in(columns.read_slice(given, start, stop), what) for start, stop in _slices(columns.n_rows)]
        return np.concatenate([np.empty(0), *parts])

    named = [name for name in (counts, weights) if isinstance(name, str)]
    rest = replace(columns, names=tuple(name for name in columns.names if name not in named))
    return rest, numbers("counts", counts), numbers("weights", weights)


def weights_of_rows(
    counts: Any, weights: Any, n_records: int, rows: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.float64] | None, NDArray[Any] | None]:
    """Return what records weigh and for how many people they stand, as `Records` has it, or raise where it is wrong.

    Only ``rows`` are looked at, where they are given.
    """
    found = []
    for what, given, check in (("counts", counts, check_counts), ("weights", weights, check_weights)):
        numbers = None if given is None else as_numbers(given, what, n_records)
        if numbers is not None:
            check(numbers, rows)
            numbers = numbers if rows is None else numbers[rows]
        found.append(numbers)
    row_weights, people = of_rows(*found)
    if row_weights is not None and len(row_weights):
        WeightTotals.of(row_weights, people, len(row_weights)).check()
    return row_weights, people


def as_numbers(given: Any, what: str, n_records: int) -> NDArray[np.float64]:
    """Return counts or weights as an array, or raise where they are not one number per record."""
    try:
        numbers = np.array(given, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"record {what} must be numbers, none beyond what a float can hold") from None
    if len(numbers) != n_records:
        raise DataError(f"there are {n_records} records and {len(numbers)} {what}; each record needs one")
    return numbers


def match_columns(schema: Schema, names: Sequence[str]) -> list[str]:
    """Return the variables that have a column; columns both lacking and left over are an error."""
    known = set(names)
    absent = [name for name in schema.names if name not in known]
    extra = [name for name in names if name not in schema]
    if absent and extra:
        raise DataError(
            f"columns and variables do not match: no column for {shortlist(absent)}, and no variable for "
            f"{shortlist(extra)}{near_miss(extra[0], list(absent))} rename or drop columns so that one side is complete"
        )
    if len(absent) == len(schema):
        raise DataError(f"the data has none of the variables {shortlist(schema.names)}")
    return [name for name in schema.names if name in known]


def _rows_where(where: Any, n_rows: int) -> NDArray[np.bool_]:
    rows = np.asarray(where)
    if rows.dtype != np.bool_ or rows.shape != (n_rows,):
        raise DataError(f"where must be {n_rows} truth values, one a record; got {rows.dtype} of shape {rows.shape}")
    return rows


def _slices(n_rows: int) -> list[tuple[int, int]]:
    return [(start, min(start + _SLICE_ROWS, n_rows)) for start in range(0, n_rows, _SLICE_ROWS)]


def _find_categories(
    columns: Columns, name: str, markers: Markers, rows: NDArray[np.bool_] | None
) -> tuple[Label, ...]:
    """Return a column's categories in order: those it declares, or those observed."""
    declared = declared_categories(columns, name, markers)
    if declared:
        return declared
    n_read = columns.n_rows if rows is None else int(np.count_nonzero(rows))
    return categories_of(observed_labels(columns, name, markers, rows), name, n_read)


def declared_categories(columns: Columns, name: str, markers: Markers) -> tuple[Label, ...]:
    """Return the categories that a column's type declares, in order; none where it declares none."""
    return tuple(label for label in columns.declared.get(name, ()) if clean(label, markers, name) is not None)


def observed_labels(columns: Columns, name: str, markers: Markers, rows: NDArray[np.bool_] | None = None) -> Found:
    """Return the categories that a column shows."""
    found: Found = {}
    for start, stop in _slices(columns.n_rows):
        column = columns.read_slice(name, start, stop)
        collect_labels(found, column, name, markers, None if rows is None else rows[start:stop])
    return found


def _extended(
    schema: Schema,
    columns: Columns,
    present: Sequence[str],
    markers: Mapping[str, Markers],
    rows: NDArray[np.bool_] | None,
) -> Schema:
    """Return a schema with the labels that its columns show beyond its categories."""
    variables = []
    for variable in schema:
        name = variable.name
        found = observed_labels(columns, name, markers[name], rows) if name in markers else {}
        new = sort_labels(label for label in found.values() if variable.find(label) is None)
        variables.append(variable.united(Variable(variable.name, tuple(new), is_found=True)) if new else variable)
    return Schema(tuple(variables))


def _encode(
    columns: Columns,
    schema: Schema,
    present: Sequence[str],
    markers: Mapping[str, Markers],
    unseen: Unseen,
    rows: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return pointers and cells of the rows wanted."""
    pointers: list[NDArray[np.int64]] = [np.zeros(1, dtype=np.int64)]
    cells: list[NDArray[Any]] = [np.empty(0, dtype=np.min_scalar_type(schema.n_categories - 1))]
    done = 0
    for start, stop in _slices(columns.n_rows):
        read = [columns.read_slice(name, start, stop) for name in present]
        shown = None if rows is None else rows[start:stop]
        part_pointers, part_cells = encode_slice(read, schema, present, markers, unseen, start, shown)
        pointers.append(part_pointers[1:] + done)
        cells.append(part_cells)
        done += len(part_cells)
    return np.concatenate(pointers), np.concatenate(cells)
