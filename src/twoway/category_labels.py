"""Labels of categories: which of them are the same, how they are kept, and their natural order."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date, time, timedelta
from typing import Any, TypeAlias

import numpy as np

from twoway.arrays import Array
from twoway.errors import DataError

Label: TypeAlias = str | int | float | bool

_DIGITS = re.compile(r"([0-9]+)")


def label_key(label: object) -> tuple[str, object]:
    """Return what two labels have in common if they are the same category.

    Numbers match by value (``1``, ``1.0`` and numpy's ``1`` are one category), text matches only the
    same text (``"1"`` is not ``1``), and ``True`` and ``False`` match only truth values. Dates and intervals
    are their text.

    Examples
    --------
    >>> label_key(1) == label_key(1.0), label_key(1) == label_key("1"), label_key(1) == label_key(True)
    (True, False, False)
    """
    if isinstance(label, str):
        return ("text", str(label))
    if isinstance(label, bool | np.bool_):
        return ("truth", bool(label))
    if isinstance(label, int | np.integer):
        return ("number", int(label))
    if isinstance(label, float | np.floating):
        return ("number", float(label))
    if isinstance(label, date | time | timedelta):
        # A day is written as a day, however it is stored.
        text = label.isoformat() if isinstance(label, date | time) else str(label)
        return ("text", text.removesuffix("T00:00:00"))
    if (hasattr(label, "left") and hasattr(label, "closed")) or hasattr(label, "start_time"):
        return ("text", str(label))  # pandas' Interval and Period
    raise DataError(
        f"a category must be text, a number, a truth value, a date or an interval, not {label!r} of type "
        f"{type(label).__name__}"
    )


def plain_label(label: object) -> Label:
    """Return a label as plain Python: numpy scalars lose their type, whole floats become integers."""
    value = label_key(label)[1]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DataError(f"a category must be a finite number, not {value!r}")
        return int(value) if value.is_integer() else value
    if isinstance(value, int):
        try:
            float(value)
        except OverflowError:  # the number is not shown: its text has hundreds of digits, or Python refuses to write it
            raise DataError(
                f"a category must be a number below 1.8e308, not a whole number of {value.bit_length()} bits"
            ) from None
    if isinstance(value, str):
        check_label_text(value, "a category")
    return value  # type: ignore[return-value]  # label_key admits labels only


def check_label_text(text: str, what: str) -> None:
    """Raise where text holds half of a surrogate pair, which no file, terminal or page can show."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{what} must be valid Unicode text; {text[:40]!r} has an unpaired surrogate at position {error.start}"
        ) from None


def sort_labels(labels: Iterable[Label]) -> list[Label]:
    """Return labels in their natural order: truth values, then numbers by size, then text.

    Numbers within text are compared by size too, so that bands of ages or incomes are in order.

    Examples
    --------
    >>> sort_labels(["10-14", "5-9", "none", 3])
    [3, '5-9', '10-14', 'none']
    """
    rank = {"truth": 0, "number": 1, "text": 2}

    def key(label: Label) -> tuple[int, Any, Label]:
        # Text and digits in turn; of two numbers the one with more digits is larger.
        parts = _DIGITS.split(label) if isinstance(label, str) else []
        digits = [part.lstrip("0") for part in parts[1::2]]
        parts[1::2] = [(len(number), number) for number in digits]
        return rank[label_key(label)[0]], parts, label

    return sorted(labels, key=key)


def labels_of_one_kind(labels: Sequence[Label]) -> list[Label]:
    """Return labels as one column of a file can hold them: those of several kinds become text.

    Examples
    --------
    >>> labels_of_one_kind(["a", 1]), labels_of_one_kind([1, 2.5])
    (["'a'", '1'], [1, 2.5])
    """
    is_mixed = len({label_key(label)[0] for label in labels}) > 1
    return [repr(label) if is_mixed else label for label in labels]


def label_array(labels: Sequence[Label]) -> Array:
    """Return labels as an array of the plainest dtype that keeps each of them as it is.

    Examples
    --------
    >>> label_array((1, 2)).dtype, label_array((1, 2.5)).dtype, label_array((1, "a")).dtype
    (dtype('int64'), dtype('float64'), dtype('O'))
    """
    kinds = {label_key(label)[0] for label in labels}
    if kinds == {"truth"}:
        return np.array(labels, dtype=np.bool_)
    if kinds == {"number"}:
        if all(isinstance(label, int) and -(2**63) <= label < 2**63 for label in labels):
            return np.array(labels, dtype=np.int64)
        if all(isinstance(label, float) or abs(int(label)) <= 2**53 for label in labels):
            return np.array(labels, dtype=np.float64)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
