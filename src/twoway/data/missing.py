"""Labels that mean "not observed": the usual ones, and those that the owner of the data names."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, TypeAlias

from twoway.category_labels import Label, label_key, plain_label
from twoway.errors import DataError, check_known, check_type
from twoway.schema import Schema, Variable

USUAL: tuple[str, ...] = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "?")
"""Text that means "not observed" in any column."""


class MissingMarkers(frozenset[tuple[str, object]]):
    """Labels that mean "not observed", as they are compared; so do the numbers within the ranges among them."""

    @functools.cached_property
    def ranges(self) -> list[tuple[float, float]]:
        """The ranges of numbers, both ends included."""
        return [value for kind, value in self if kind == "range"]  # type: ignore[misc]

    @functools.cached_property
    def has_codes(self) -> bool:
        """Whether there are others than the usual ones."""
        return not self <= _USUAL_KEYS

    def __contains__(self, key: object) -> bool:
        if super().__contains__(key):
            return True
        number: Any = key[1] if isinstance(key, tuple) and key[0] == "number" else math.nan
        return any(low <= number <= high for low, high in self.ranges)


_USUAL_KEYS = frozenset(("text", label) for label in USUAL)
Markers: TypeAlias = MissingMarkers
Unseen: TypeAlias = Literal["error", "missing", "extend"]
"""What a label gets that a schema does not have; only records in memory can extend theirs."""
_DIGITS = 40
"""Decimal numbers of more digits are read as floats, which they may be too large for."""


@dataclass(frozen=True)
class MissingLabels:
    """Labels that mean "not observed", beside null and NaN and, unless they are to be the only ones, the usual ones.

    Parameters
    ----------
    labels
        Those of every column. Text is compared without surrounding space, numbers by value; a pair such as
        (90, 99) is a range of numbers.
    columns
        Those of one column, by its name.
    only
        Whether the usual ones (the empty text, NA, N/A, n/a, NaN, nan, null, NULL and ?) are categories.

    Examples
    --------
    >>> MissingLabels([-9], {"income": [98, 99]}).of_column("income")
    ('', 'NA', 'N/A', 'n/a', 'NaN', 'nan', 'null', 'NULL', '?', -9, 98, 99)
    >>> MissingLabels("-", only=True).of_column("income")
    ('-',)
    """

    labels: Iterable[object] = ()
    columns: Mapping[str, Iterable[object]] = field(default_factory=dict)
    only: bool = False
    declared: Mapping[str, tuple[object, ...]] = field(default_factory=dict, repr=False)
    """Those of one column that its source declares."""

    def __post_init__(self) -> None:
        check_type("the missing labels of columns", self.columns, Mapping, "a mapping from a name to labels")
        columns = {name: _plain_missing_labels(labels) for name, labels in self.columns.items()}
        vars(self).update(labels=_plain_missing_labels(self.labels), columns=columns)

    @classmethod
    def of(cls, missing: AnyMissing) -> MissingLabels:
        """Return the option ``missing``: labels of every column, or a mapping from a column to labels."""
        if isinstance(missing, MissingLabels):
            return missing
        return cls(columns=missing) if isinstance(missing, Mapping) else cls(missing)

    def check_columns(self, names: Iterable[str], schema: Schema | None = None) -> None:
        """Raise if labels are given for a column that is neither among these nor a variable of a schema."""
        known = [*names, *(schema.names if schema else ())]
        check_known("column", known, *self.columns, where=" for the labels that mean missing")

    def and_also(self, columns: Mapping[str, Iterable[object]]) -> MissingLabels:
        """Return the same with labels that the source of some columns declares."""
        return replace(self, declared={name: _plain_missing_labels(labels) for name, labels in columns.items()})

    def among(self, names: Iterable[str]) -> MissingLabels:
        """Return the same without the labels of columns other than these."""
        known = set(names)
        return replace(self, columns={name: labels for name, labels in self.columns.items() if name in known})

    def of_column(self, name: str, variable: Variable | None = None) -> tuple[Label, ...]:
        """Return all labels that mean "not observed" in a column, those that its variable remembers included."""
        remembered = USUAL if variable is None or variable.missing is None else variable.missing
        own = (*self.labels, *self.columns.get(name, ()))
        labels = (*(() if self.only else remembered), *own, *self.declared.get(name, ()))
        return tuple({missing_key(label): label for label in labels}.values())  # type: ignore[arg-type]  # see _plain_missing_labels

    def remembered(self, name: str) -> tuple[Label, ...] | None:
        """Return what the variable of a column should remember: None for the usual labels alone."""
        labels = tuple(label for label in self.of_column(name) if not isinstance(label, float) or math.isfinite(label))
        return None if labels == USUAL else labels

    def markers(self, name: str, variable: Variable | None = None) -> Markers:
        """Return all labels that mean "not observed" in a column, as they are compared."""
        if name not in self.columns and name not in self.declared and (variable is None or variable.missing is None):
            return self._markers_everywhere
        return Markers(map(missing_key, self.of_column(name, variable)))

    @functools.cached_property
    def _markers_everywhere(self) -> Markers:
        return Markers(map(missing_key, self.of_column("")))

    def texts(self, name: str, variable: Variable | None = None) -> frozenset[str]:
        """Return how the labels that mean "not observed" in a column are written in a text file."""
        return frozenset(str(label) for label in self.of_column(name, variable) if not isinstance(label, bool | tuple))


AnyMissing: TypeAlias = Iterable[object] | MissingLabels


def missing_key(label: object) -> tuple[str, object]:
    """Return a label as it is compared with those that mean "not observed", of which a range is a pair."""
    if isinstance(label, tuple):
        return ("range", label)
    return label_key(label.strip() if isinstance(label, str) else label)


def is_null(label: object) -> bool:
    """Return whether a raw label is None, NaN, NaT or pandas' NA: none of them equals itself."""
    try:
        return label is None or not bool(label == label)
    except (TypeError, ValueError, ArithmeticError):  # pandas' NA has no truth value; nor has an array, not a label
        return not hasattr(label, "__len__")


def label_unless_missing(label: object, name: str, markers: Markers = Markers()) -> Label | None:  # noqa: B008  # frozen
    """Return a raw label as a category, or None where it means "missing"."""
    if is_null(label):
        return None
    if isinstance(label, Decimal):
        is_whole = abs(label.adjusted()) < _DIGITS and label == label.to_integral_value()
        label = int(label) if is_whole else float(label)
    try:
        return None if missing_key(label) in markers else plain_label(label)
    except DataError as error:
        raise DataError(f"column {name!r}: {error}") from None


def _plain_missing_labels(labels: Iterable[object]) -> tuple[object, ...]:
    """Return labels as plain ones, without those that mean "not observed" in any case."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        labels = (labels,)
    plain = (missing_key(missing_range(label))[1] for label in labels if not is_null(label))
    return tuple(int(label) if isinstance(label, float) and label.is_integer() else label for label in plain)


def missing_range(label: object) -> object:
    """Return a pair of numbers as a range with ends that every file can hold; other labels as they are."""
    if not isinstance(label, tuple | list):
        return label
    if len(label) != 2 or not all(isinstance(end, Real) for end in label) or not label[0] <= label[1]:
        raise DataError(f"a range of missing codes is a pair of numbers, the smaller one first; got {label!r}")
    most = sys.float_info.max
    return max(float(label[0]), -most), min(float(label[1]), most)
