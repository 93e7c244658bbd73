"""The user's frames on their way out: made from labels, or filled where cells are missing.

A filled column keeps its dtype as long as that can hold the labels that fill it.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, Literal, TypeAlias

import numpy as np

from twoway.arrays import Array, Floats, Ints
from twoway.category_labels import label_array, sort_labels
from twoway.errors import DataError, check_known
from twoway.lazy_imports import nw, pa, pc, pd, pl
from twoway.schema import Variable
from twoway.text import shortlist

LIBRARIES = ("pandas", "polars", "pyarrow")
Fill: TypeAlias = tuple[Ints, Array]
"""The rows of a column to be filled, and what goes there; both of shape (n_holes,)."""


def make_frame(columns: Mapping[str, Array], library: str = "pandas", mixed: Collection[str] = ()) -> Any:
    """Return a frame of the library asked for, from columns without holes.

    Parameters
    ----------
    columns
        Arrays of truth values, integers, floats or, as objects, labels.
    library
        "pandas", "polars" or "pyarrow".
    mixed
        Columns whose labels are of several types, even where these rows happen to show one type only.
    """
    check_known("frame library", LIBRARIES, library)

    plain: dict[str, nw.dtypes.DType] = {"b": nw.Boolean(), "i": nw.Int64(), "f": nw.Float64()}
    dtypes: dict[str, nw.dtypes.DType] = {}
    for name, column in columns.items():
        if column.dtype.kind in plain:
            dtypes[name] = plain[column.dtype.kind]
        elif name not in mixed and all(isinstance(label, str) for label in column):
            dtypes[name] = nw.String()
        elif library == "pandas":
            dtypes[name] = nw.Object()
        else:
            raise DataError(
                f"the categories of {name!r} are of several types, which a column of {library} cannot hold; "
                'library="pandas" can'
            )
    return nw.from_dict(dict(columns), dtypes, backend=library).to_native()  # type: ignore[arg-type]


def make_labelled_frame(
    variables: Sequence[Variable],
    codes: Sequence[Array],
    library: str = "pandas",
    numbers: Mapping[str, Floats] | None = None,
) -> Any:
    """Return a frame of the library asked for: a column of labels for each variable, then the numbers.

    Parameters
    ----------
    variables
        The variables whose labels the columns hold.
    codes
        The category codes of each variable, none missing; each of shape (n_rows,).
    library
        "pandas", "polars" or "pyarrow".
    numbers
        Further columns by name.
    """
    labels = {variable.name: label_array(variable.categories) for variable in variables}
    columns = {name: array[code] for (name, array), code in zip(labels.items(), codes, strict=True)}
    mixed = [v.name for v in variables if not all(isinstance(label, str) for label in v.categories)]
    return make_frame({**columns, **(numbers or {})}, library, mixed)


def frame_in_memory(frame: Any) -> Any:
    """Return a frame in memory: a polars LazyFrame is collected, other Arrow data become a pyarrow Table.

    Anything else is returned as it is.
    """
    library = type(frame).__module__.partition(".")[0]
    if library in ("pandas", "numpy") or hasattr(frame, "combine_chunks"):
        return frame
    if library == "polars":
        return frame.collect() if hasattr(frame, "collect") else frame
    return arrow_frame(frame)


def arrow_frame(source: Any) -> Any:
    """Return what hands out Arrow data, as a stream or as one batch, as an Arrow table; other things as they are."""
    if not (hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")):
        return source

    return pa.table(source)


def eager_frame(frame: Any) -> nw.DataFrame[Any] | None:
    """Return a frame in memory as one of narwhals, None for anything else."""
    try:
        found = nw.from_native(frame, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"names of columns must differ: {error}") from None
    return found if isinstance(found, nw.DataFrame) else None


def frame_columns(frame: Any, names: Sequence[str]) -> list[str]:
    """Return the names of the columns of a frame that can be filled; those of an array are ``names``."""
    if isinstance(frame, np.ndarray):
        if frame.ndim != 2 or frame.shape[1] != len(names):
            raise DataError(
                f"the columns of an array are the {len(names)} variables in order; got the shape {frame.shape}"
            )
        return list(names)
    columns = frame.column_names if frame_library(frame) == "pyarrow" else frame.columns
    return [str(name) for name in columns]


def frame_library(frame: Any) -> str:
    """Return the library of a frame: "pandas", "polars" or "pyarrow"; anything else is an error."""
    found = eager_frame(frame)
    library = None if found is None else found.implementation.value
    if library not in LIBRARIES:
        raise DataError(
            f"holes can be filled in pandas, polars and pyarrow frames and 2-D numpy arrays; got {type(frame).__name__}"
        )
    return str(library)


def frame_number_kind(frame: Any, column: str) -> Literal["integer", "single", "double"] | None:
    """Return which numbers a column of a frame or an array holds; None for anything else.

    A column of Python objects holds numbers where none of them is text.
    """
    if isinstance(frame, np.ndarray):
        if frame.dtype.kind not in "iufO":
            return None
        return "single" if frame.dtype == np.float32 else "integer" if frame.dtype.kind in "iu" else "double"
    series = nw.from_native(frame, eager_only=True)[column]
    values = getattr(getattr(series.to_native(), "type", None), "value_type", None)
    if values is not None:  # a dictionary of Arrow
        series = nw.from_native(pa.chunked_array([], values), series_only=True)
    if series.dtype == nw.Object:
        return None if any(isinstance(cell, str) for cell in series.to_list()) else "double"
    if not series.dtype.is_numeric():
        return None
    return "single" if series.dtype == nw.Float32 else "integer" if series.dtype.is_integer() else "double"


def frame_library_of(source: Any) -> str:
    """Return the library of what records were read from; pandas if that was not a frame.

    Examples
    --------
    >>> import polars
    >>> frame_library_of(polars.DataFrame({"a": [1]})), frame_library_of("survey.csv")
    ('polars', 'pandas')
    """
    known = getattr(source, "library", type(source).__module__.partition(".")[0])
    is_arrow = hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")
    return known if known in LIBRARIES else "pyarrow" if is_arrow else "pandas"


def fill_frame(frame: Any, fills: Mapping[str, Fill], columns: Sequence[str]) -> Any:
    """Return a copy of a frame, of the same library, with some cells replaced.

    Parameters
    ----------
    frame
        A pandas or polars DataFrame, a pyarrow Table or a 2-D numpy array.
    fills
        For each column to be filled, the rows and the values.
    columns
        What `frame_columns` gave.
    """
    by_position = {columns.index(name): cells for name, cells in fills.items()}
    if isinstance(frame, np.ndarray):
        return _fill_numpy_frame(frame, by_position)
    match frame_library(frame):
        case "pandas":
            filled = frame.copy()
            for position, (rows, values) in by_position.items():
                filled[frame.columns[position]] = _fill_pandas_frame(frame.iloc[:, position], rows, values)
            return filled
        case "polars":
            return frame.with_columns(_fill_polars_frame(frame[name], *filled) for name, filled in fills.items())
        case _:
            for position, (rows, values) in by_position.items():
                column = frame.column(position)
                column = _fill_arrow_column(column, columns[position], column.type, rows, values)
                frame = frame.set_column(position, frame.field(position).with_type(column.type), column)
            return frame


def frame_with_categories(frame: Any, columns: Mapping[int, tuple[Ints, Sequence[str]]]) -> Any:
    """Return a frame of the same library in which some columns, by position, are ordered categories.

    Parameters
    ----------
    frame
        A pandas or polars DataFrame or a pyarrow Table.
    columns
        The position of a category in each row, -1 where missing, and the labels of the categories.
    """
    library = frame_library(frame)
    frame = frame.copy() if library == "pandas" else frame
    for position, (codes, labels) in columns.items():
        if library == "pandas":
            values = pd.Categorical.from_codes(codes, pd.Index(list(labels)), ordered=True)
            frame.isetitem(position, pd.Series(values, index=frame.index))
        elif library == "polars":
            cells = [None if code < 0 else labels[code] for code in codes]
            frame = frame.with_columns(pl.Series(frame.columns[position], cells, pl.Enum(labels)))
        else:
            indices = pa.array(codes, pa.int32(), mask=codes < 0)
            values = pa.DictionaryArray.from_arrays(indices, pa.array(labels), ordered=True)
            frame = frame.set_column(position, frame.column_names[position], values)
    return frame


def make_drawn_frame(variables: Sequence[Variable], codes: Sequence[Array], library: str) -> Any:
    """Return a frame of labels as `make_labelled_frame` does; text with an order of its own is ordered categories."""
    frame = make_labelled_frame(variables, codes, library)
    ordered = {
        place: (codes[place].astype(np.int64), [str(label) for label in variable.categories])
        for place, variable in enumerate(variables)
        if all(isinstance(label, str) for label in variable.categories)
        and list(variable.categories) != sort_labels(variable.categories)
    }
    return frame_with_categories(frame, ordered) if ordered else frame


def _dates_in_frame(values: Array, kind: Any) -> Array:
    """Return labels as dates, times or durations where that is what a column holds: as labels they are text.

    Durations of pandas keep their nanoseconds, which those of Python do not have.
    """
    is_duration = issubclass(kind, timedelta)
    if not (is_duration or hasattr(kind, "fromisoformat")) or not all(isinstance(label, str) for label in values):
        return values

    dates = np.empty(len(values), dtype=object)
    dates[:] = list(map(pd.Timedelta if is_duration else kind.fromisoformat, values))
    if kind is timedelta:
        dates[:] = [date.to_pytimedelta() for date in dates]
    return dates


def _fill_numpy_frame(array: Array, fills: Mapping[int, Fill]) -> Array:
    values = [label for _, column in fills.values() for label in column.tolist()]
    dtype = array.dtype
    if dtype.kind == "U" and all(isinstance(label, str) for label in values):
        dtype = np.dtype(f"<U{max([dtype.itemsize // 4, *map(len, values)])}")
    elif dtype.kind == "f" and not any(isinstance(label, str) for label in values):
        if any(dtype.type(label) != label for label in values):
            dtype = np.dtype(np.float64)
    elif values and dtype.kind != "M":
        dtype = np.dtype(object)
    filled = array.astype(dtype)
    for column, (rows, labels) in fills.items():
        observed = np.delete(array[:, column], rows)
        is_dated = dtype.kind == "O" and len(observed) > 0
        filled[rows, column] = _dates_in_frame(labels, type(observed[0])) if is_dated else labels
    return filled


def _fill_pandas_frame(series: pd.Series[Any], rows: Ints, values: Array) -> pd.Series[Any]:
    observed = np.delete(np.arange(len(series)), rows)
    if len(observed):
        values = _dates_in_frame(values, type(series.iloc[observed[0]]))
    if isinstance(series.dtype, pd.CategoricalDtype):
        categories = series.cat.categories
        absent = [label for label in dict.fromkeys(values.tolist()) if label not in categories]
        if values.dtype.kind != "f" or not absent:
            series = series.cat.add_categories(absent)
        else:
            # Means are not categories: the column becomes one of numbers.
            series = series.astype(np.float64 if pd.api.types.is_numeric_dtype(categories) else object)
    filled = series.copy()
    with warnings.catch_warnings():
        # pandas 2 warns where a dtype cannot hold a value, later ones refuse.
        warnings.simplefilter("error")
        try:
            filled.iloc[rows] = values.astype(object) if series.dtype == object else values
            return filled
        except (TypeError, ValueError, NotImplementedError, Warning):
            pass
    numeric = values.dtype.kind in "if" and pd.api.types.is_numeric_dtype(series)
    filled = series.astype(np.float64 if numeric else object)
    filled.iloc[rows] = values if numeric else values.astype(object)
    return filled


def _fill_polars_frame(series: pl.Series, rows: Ints, values: Array) -> pl.Series:
    is_category = isinstance(series.dtype, pl.Categorical | pl.Enum)
    plain = series.cast(pl.String) if is_category else series
    column = pa.chunked_array([plain.to_arrow(compat_level=pl.CompatLevel.oldest())])
    filled = pl.Series(series.name, _fill_arrow_column(column, series.name, series.dtype, rows, values))
    try:
        return filled.cast(series.dtype) if is_category else filled
    except pl.exceptions.PolarsError:  # an Enum that does not have all labels
        return filled


def _fill_arrow_column(column: pa.ChunkedArray, name: str, shown: object, rows: Ints, values: Array) -> pa.ChunkedArray:
    """Return a column with some cells replaced; an error calls its type as it is ``shown``."""
    original = column.type
    if pa.types.is_dictionary(original):
        plain = _fill_arrow_column(column.cast(original.value_type), name, shown, rows, values)
        return plain if plain.type != original.value_type else pc.dictionary_encode(plain).cast(original)
    kinds = {pa.types.is_date: date, pa.types.is_time: time, pa.types.is_timestamp: datetime}
    kind = next((kind for is_kind, kind in kinds.items() if is_kind(original)), object)
    if pa.types.is_duration(original):
        filler = pa.array(pd.to_timedelta(values).to_numpy())
    else:
        filler = pa.array(_dates_in_frame(values, kind).tolist())
    if pa.types.is_null(original):
        column = column.cast(filler.type)
    # Where the cell of each row is, with the new ones after those of the column.
    places = np.arange(len(column))
    places[rows] = len(column) + np.arange(len(rows))

    def holds(dtype: pa.DataType) -> tuple[bool, bool]:
        """Return whether a type holds numbers, and whether it holds truth values."""
        types = pa.types
        is_number = types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype)
        return is_number, types.is_boolean(dtype)

    for dtype in (column.type, pa.float64()):
        try:
            fitting = filler.cast(dtype)
            # A cast may cut a fraction off, or write a number as text: neither is the label any more.
            if fitting.cast(filler.type).equals(filler) and holds(filler.type) == holds(dtype):
                return pa.chunked_array([*column.cast(dtype).chunks, fitting]).take(pa.array(places))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    wanted = shortlist(list(dict.fromkeys(values.tolist())), 3)
    raise DataError(f"column {name!r} of type {shown} cannot hold {wanted}")
