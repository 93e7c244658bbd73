"""From labels to codes, a slice of columns at a time: what is missing, and which category each cell is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from twoway.arrays import Array, Ints
from twoway.category_labels import Label
from twoway.data.binning import bin_column
from twoway.data.missing import USUAL, Markers, Unseen, is_null, label_unless_missing, missing_key
from twoway.errors import DataError, unknown_name
from twoway.lazy_imports import pa
from twoway.schema import Schema, Variable

if TYPE_CHECKING:
    from twoway.data.raw_columns import RawColumns

FEW_LABELS = 256
"""So few labels are all looked up, whether they occur or not: finding out would take longer."""
_UNSEEN = -2
CodeOf: TypeAlias = tuple[str, Label]
"""A variable, and a code that means "not observed" in it."""


def coded_labels(column: Any) -> tuple[list[Any], Array]:
    """Return the labels of a slice of a column, and for each row the position of its label, -1 for null."""
    if isinstance(column, list):
        positions: dict[Any, int] = {}
        codes = np.empty(len(column), dtype=np.int64)
        labels: list[Any] = []
        for row, label in enumerate(column):
            if is_null(label):
                codes[row] = -1
                continue
            try:
                codes[row] = positions.setdefault((type(label), label), len(labels))
            except TypeError:  # not a label, such as a list: `label_unless_missing` refuses it
                codes[row] = len(labels)
            if codes[row] == len(labels):
                labels.append(label)
        return labels, codes

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # more than one chunk can remain, or none
            column = pa.concat_arrays(column.unify_dictionaries().chunks) if column.num_chunks else pa.array([])
    if pa.types.is_null(column.type):
        return [], np.full(len(column), -1, dtype=np.int64)
    if pa.types.is_nested(column.type):  # not labels: `label_unless_missing` refuses them
        return coded_labels(column.to_pylist())
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    indices = column.indices
    if not pa.types.is_signed_integer(indices.type):  # polars counts unsigned
        indices = indices.cast(pa.int64())
    if indices.null_count:
        indices = indices.fill_null(-1)
    try:
        return column.dictionary.to_pylist(), indices.to_numpy(zero_copy_only=False)
    except OverflowError:
        raise DataError("a column has dates beyond the years 1 to 9999, which cannot be read") from None


def code_counts(codes: Array, n_labels: int) -> Ints:
    """Return how often each code occurs, -1 left out; shape (n_labels,)."""
    return np.bincount(codes.astype(np.int64) + 1, minlength=n_labels + 1)[1:]


def encode_slice(
    columns: RawColumns, start: int, stop: int, schema: Schema, markers: Mapping[str, Markers], unseen: Unseen
) -> tuple[Ints, Array, Counter[CodeOf]]:
    """Return pointers and cells of a slice of the columns of the variables that markers are given for.

    The third is how often each code that means "not observed" occurs in each column, but for null and the usual text.
    """
    # Column by column, in the smallest type that holds all codes: memory is what this takes.
    code_type = np.min_scalar_type(-1 - max(schema.sizes))
    codes = np.empty((stop - start, len(markers)), dtype=code_type, order="F")
    missing_codes: Counter[CodeOf] = Counter()
    for place, name in enumerate(markers):
        variable, column = schema[name], columns.read_slice(name, start, stop)
        if markers[name].has_codes and variable.edges is not None:  # bins have no place for them
            missing_codes += _coded_as_missing(*coded_labels(column), variable, markers[name])
        labels, positions = coded_labels(bin_column(column, variable, markers[name]))
        lookup = np.full(len(labels) + 1, -1, dtype=code_type)  # the last entry is for null, position -1
        few = labels if len(labels) <= FEW_LABELS else [None]
        known = [variable.find(raw) if isinstance(raw, str | bool | int) else None for raw in few]
        if None not in known:
            lookup[:-1] = known
        else:
            if markers[name].has_codes and variable.edges is None:
                missing_codes += _coded_as_missing(labels, positions, variable, markers[name])
            for position in np.flatnonzero(code_counts(positions, len(labels))):
                lookup[position] = code = _coded_label(variable, labels[position], markers[name])
                if code == _UNSEEN and unseen != "missing":
                    record = columns.record_number(start + int(np.argmax(positions == position)))
                    label = label_unless_missing(labels[position], name)
                    error = unknown_name(
                        "category", label, variable.categories, where=f" of {name!r} (record {record})"
                    )
                    way = "unseen='missing' reads such labels as missing"
                    if unseen == "extend":
                        way = f"{name!r} is in bins, to which no category can be added"
                    raise type(error)(f"{error}; {way}")
        np.take(lookup, positions, out=codes[:, place], mode="wrap")
    offsets = schema.offsets[[schema.index(name) for name in markers]]
    return *compressed_codes(codes, offsets, schema), missing_codes


def compressed_codes(codes: Array, offsets: Ints, schema: Schema) -> tuple[Ints, Array]:
    """Return pointers and cells of codes, (n_records, n_columns), by the offsets of the columns."""
    from twoway.kernels.compression import compress

    pointers = np.zeros(len(codes) + 1, dtype=np.int64)
    cells = np.empty(int(np.count_nonzero(codes >= 0)), dtype=np.min_scalar_type(schema.n_categories - 1))
    compress(np.ascontiguousarray(codes, dtype=np.int32), offsets, pointers, cells)
    return pointers, cells


def _coded_as_missing(
    labels: Sequence[object], positions: Array, variable: Variable, markers: Markers
) -> Counter[CodeOf]:
    """Return how often each code that means "not observed" occurs in a column, but for the usual text."""
    counts, codes = code_counts(positions, len(labels)), Counter[CodeOf]()
    for position in np.flatnonzero(counts).tolist():
        if label_unless_missing(labels[position], variable.name, markers) is None:
            code = label_unless_missing(labels[position], variable.name)
            if code is not None and variable.find(code) is None and str(code).strip() not in USUAL:
                codes[variable.name, code] += int(counts[position])
    return codes


def _coded_label(variable: Variable, raw: object, markers: Markers) -> int:
    """Return the position of a category, or a negative number for a label that is missing or unseen."""
    label = label_unless_missing(raw, variable.name)
    code = None if label is None else variable.find(label)
    if code is not None:  # a category of the schema, even where it reads "NA"
        return code
    return -1 if label is None or missing_key(label) in markers else _UNSEEN
