"""What the cells of a text file are: numbers, truth values or text, by their distinct labels."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from typing import TYPE_CHECKING

from twoway.errors import unknown
from twoway.schema import Variable, label_key

if TYPE_CHECKING:
    import pyarrow as pa

    from twoway.data.coding import Unseen

_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?$|^-?\.[0-9]+([eE][+-]?[0-9]+)?$"
# As floats, different whole numbers beyond 2⁵³, which has 16 digits, may be equal.
_LARGE_INTEGER = r"^-?[0-9]{16,}(\.0*)?$"
_MOST_DIGITS = 38
_COMMA_NUMBER = r"^-?(0|[1-9][0-9]*)(,[0-9]+)?$"
NO_TEXT = "none of which is text"
_TRUTHS = {"true": True, "false": False, "True": True, "False": False, "TRUE": True, "FALSE": False}


def type_column(
    column: pa.ChunkedArray,
    markers: Collection[str],
    variable: Variable | None = None,
    kinds: set[str] | None = None,
    unseen: Unseen = "error",
) -> pa.ChunkedArray:
    """Return a column of text as a dictionary of numbers, truth values or text, with markers as nulls.

    Parameters
    ----------
    column
        Cells as text.
    markers
        Text that means "not observed".
    variable
        Whose categories the cells are, where that is known: numbers are then read as text or as numbers, as the
        categories are.
    kinds
        What the cells are, "number" or "truth", if other parts of the column decide it; empty for text. With
        "comma", ``2,5`` is a number, too.
    unseen
        What happens to text among the numbers of a variable whose categories are numbers: an error, or "missing"; with
        "extend", a column of text alone stays as it is.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = pc.dictionary_encode(column)
    labels = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], pa.string())
    if kinds is None:
        kinds = kinds_of(variable)
    is_missing = pc.is_in(pc.utf8_trim_whitespace(labels), value_set=pa.array(sorted(markers), pa.string()))
    if variable is not None:  # a category, even where it reads "NA"
        texts = [str(label) for label in variable.categories]
        is_missing = pc.and_not(is_missing, pc.is_in(labels, value_set=pa.array(texts, pa.string())))
    kept = pc.if_else(is_missing, pa.scalar(None, labels.type), labels)
    dictionary = typed_labels(kept, kinds)
    if variable is not None and "text" not in kinds and dictionary is kept:
        # One odd cell must not make text of all the numbers beside it, none of which would be a category then.
        present = kept.drop_null()
        odd = [label.as_py() for label in present if pa.types.is_string(typed_labels(pa.array([label]), kinds).type)]
        if odd and unseen == "extend" and len(odd) == len(present):
            return type_column(column, markers, None, {"text"})  # new categories, with no number beside them
        if odd and unseen != "missing":
            error = unknown("category", odd[0], variable.categories, where=f" of {variable.name!r}")
            raise type(error)(f"{error}, {NO_TEXT}; unseen='missing' reads such labels as missing")
        dictionary = typed_labels(pc.if_else(pc.is_in(kept, pa.array(odd, kept.type)), None, kept), kinds)
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(chunk.indices, dictionary) for chunk in encoded.chunks],
        pa.dictionary(pa.int32(), dictionary.type),
    )


def typed_labels(labels: pa.Array, kinds: set[str]) -> pa.Array:
    """Return labels as numbers or truth values, if these kinds are wanted and each label is one; else as they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def each(pattern: str) -> bool:
        return bool(pc.all(pc.match_substring_regex(trimmed, pattern)).as_py())

    trimmed = pc.utf8_trim_whitespace(labels)
    if labels.null_count == len(labels):
        return labels
    if {"number", "comma"} <= kinds and each(_COMMA_NUMBER):
        trimmed = pc.replace_substring(trimmed, ",", ".")
    if "number" in kinds and each(_NUMBER):
        are_whole = each(_INTEGER)
        is_large = not are_whole and pc.any(pc.match_substring_regex(trimmed, _LARGE_INTEGER)).as_py()
        kind = pa.int64() if are_whole else _decimal(trimmed) if is_large else pa.float64()
        try:
            return labels if kind is None else trimmed.cast(kind)
        except pa.ArrowInvalid:  # whole numbers beyond 64 bits
            return labels
    if "truth" in kinds and pc.all(pc.is_in(trimmed, value_set=pa.array([*_TRUTHS, None]))).as_py():
        return pa.array([None if label is None else _TRUTHS[label] for label in trimmed.to_pylist()])
    return labels


def _decimal(labels: pa.Array) -> pa.DataType | None:
    """Return a type that holds all of some numbers as they are written; None where they have too many digits."""
    import pyarrow as pa

    numbers = [Decimal(label) for label in labels.to_pylist() if label is not None]
    scale = max(max(-int(number.as_tuple().exponent), 0) for number in numbers)
    n_whole = max(max(number.adjusted() + 1, 0) for number in numbers)
    return pa.decimal128(_MOST_DIGITS, scale) if scale + n_whole <= _MOST_DIGITS else None


def kinds_of(variable: Variable | None) -> set[str]:
    """Return what labels may be: the kinds of a variable's categories, or numbers and truth values without one."""
    if variable is not None and variable.edges is not None:
        return {"number", "text"}
    return {"number", "truth"} if variable is None else {label_key(label)[0] for label in variable.categories}
