"""Variables, their categories, and the order in which both are kept."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time, timedelta
from functools import cached_property
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from twoway.errors import DataError, unknown
from twoway.text import describe

Label: TypeAlias = str | int | float | bool

_DIGITS = re.compile(r"([0-9]+)")


def label_key(label: object) -> tuple[str, object]:
    """Return what two labels must share to be the same category.

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
        check_text(value, "a category")
    return value  # type: ignore[return-value]  # label_key admits labels only


def check_text(text: str, what: str) -> None:
    """Raise where text holds half of a surrogate pair, which no file, terminal or page can show."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{what} must be text that UTF-8 can hold; {text[:40]!r} has half of a surrogate pair at {error.start}"
        ) from None


def sort_labels(labels: Iterable[Label]) -> list[Label]:
    """Return labels in their natural order: truth values, then numbers by size, then text.

    Numbers within text count by size too, so that the bands of an age or an income stand in their order.

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


def has_own_order(labels: Sequence[Label]) -> bool:
    """Return whether labels are text that stands in another order than it would be sorted into.

    Examples
    --------
    >>> has_own_order(("never", "sometimes", "always")), has_own_order(("no", "yes")), has_own_order((2, 1))
    (True, False, False)
    """
    return all(isinstance(label, str) for label in labels) and list(labels) != sort_labels(labels)


def first_duplicate(names: Iterable[str]) -> str | None:
    """Return the first name that was there before, or None where all differ."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def looks_continuous(numbers: NDArray[np.float64]) -> bool:
    """Return whether the different numbers of a column are more likely measurements than categories.

    More than 100 numbers of any kind are, more than 20 with fractions, and more than 4 with fractions too fine for a
    scale of people's making.

    Examples
    --------
    >>> (
    ...     looks_continuous(np.arange(1, 6)),
    ...     looks_continuous(np.arange(0, 5, 0.5)),
    ...     looks_continuous(np.arange(0, 30, 0.5)),
    ... )
    (False, False, True)
    """
    n_different = len(numbers)
    if bool((numbers == np.rint(numbers)).all()):
        return n_different > 100
    thousandths = 1000.0 * numbers
    is_fine = bool((np.abs(thousandths - np.rint(thousandths)) > 1e-6).any())
    return n_different > (4 if is_fine else 20)


def stable_hash(*parts: str) -> int:
    """Return a number of 64 bits for some text, the same in every process."""
    text = "\0".join(parts).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Variable:
    """A discrete variable: its name and its categories in order.

    Parameters
    ----------
    name
        The column's name.
    categories
        The labels, in the order in which they are shown. Numbers match by value, text only as text.
    values
        A number for each category, for expectations. Numeric categories are their own values unless
        others are given, truth values 0 and 1; text categories have none unless given.
    is_found
        Whether categories or values were found in data, and may tell something about it; otherwise they were declared.
        Two variables that differ in this alone are equal.
    missing
        Labels that mean "not observed" where records are read by this variable; None for the usual ones. It makes
        no difference for whether two variables are equal.

    Examples
    --------
    >>> Variable("rating", (1, 2, 3)).values
    (1.0, 2.0, 3.0)
    >>> Variable("vote", ("no", "yes")).values is None
    True
    """

    name: str
    categories: tuple[Label, ...]
    values: tuple[float, ...] | None = None
    is_found: bool = field(default=False, repr=False, compare=False)
    missing: tuple[Label, ...] | None = field(default=None, repr=False, compare=False)
    _codes: dict[tuple[str, object], int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise DataError(f"a variable's name must be text, not {self.name!r}")
        check_text(self.name, "a variable's name")
        if not isinstance(self.categories, Iterable):
            raise DataError(f"variable {self.name!r} needs categories, such as ('no', 'yes'); got {self.categories!r}")
        categories = tuple(plain_label(label) for label in self.categories)
        if not categories:
            raise DataError(f"variable {self.name!r} has no categories; it needs at least one")
        codes: dict[tuple[str, object], int] = {}
        for code, label in enumerate(categories):
            if codes.setdefault(label_key(label), code) != code:
                raise DataError(f"variable {self.name!r} has the category {label!r} twice; each must be there once")
        values = self.values
        if values is None and {label_key(label)[0] for label in categories} in ({"number"}, {"truth"}):
            values = tuple(float(label) for label in categories)
        if values is not None:
            try:
                values = tuple(float(value) for value in values)
            except (TypeError, ValueError, OverflowError):
                raise DataError(f"the values of variable {self.name!r} must be numbers; got {self.values!r}") from None
            if len(values) != len(categories) or not all(math.isfinite(value) for value in values):
                raise DataError(
                    f"variable {self.name!r} has {len(categories)} categories and needs as many finite values; "
                    f"got {values!r}"
                )
        if self.missing is not None:
            object.__setattr__(self, "missing", tuple(plain_label(label) for label in self.missing))
        object.__setattr__(self, "categories", categories)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "_codes", codes)

    def __len__(self) -> int:
        return len(self.categories)

    def difference(self, other: Variable) -> str:
        """Return in words how another variable of the same name differs first; "" where it does not."""
        for place, (one, two) in enumerate(zip_longest(self.categories, other.categories)):
            if one is None or two is None or label_key(one) != label_key(two):
                shown = ["nothing" if label is None else repr(label) for label in (one, two)]
                return f"category {place + 1} of {self.name!r} is {shown[0]} in one and {shown[1]} in the other"
        return "" if self.values == other.values else str(self._values_differ(other))

    def united(self, other: Variable) -> Variable:
        """Return the variable with the categories of both, by label.

        They stand in their natural order where both do. Otherwise an order of somebody's own comes first, that of this
        one before the other's, and what else there is behind it. A category that is text in one and a number in the
        other, or has another value there, is an error.

        Examples
        --------
        >>> Variable("age", ("5-9", "20+")).united(Variable("age", ("10-19", "20+"))).categories
        ('5-9', '10-19', '20+')
        """
        is_found = self.is_found or other.is_found
        if self == other:
            return replace(self, is_found=is_found, missing=self._missing_of_both(other))
        new = [label for label in other.categories if self.find(label) is None]
        written = {str(label): label for label in self.categories}
        for label in new:
            known = written.get(str(label))
            if known is not None:
                raise DataError(
                    f"{self.name!r} has the category {describe(known, beside=label)} in one and "
                    f"{describe(label, beside=known)} in the other; read both as text, or both as numbers"
                )
        categories = (*self.categories, *new)
        if self._is_natural:
            first = () if other._is_natural else other.categories
            categories = (*first, *sort_labels(label for label in categories if other.find(label) is None or not first))
        if not (self._has_given_values or other._has_given_values):
            return Variable(self.name, categories, is_found=is_found, missing=self._missing_of_both(other))
        values: dict[tuple[str, object], float] = {}
        for variable in (self, other):
            if variable.values is None:
                raise self._values_differ(other)
            for label, value in zip(variable.categories, variable.values, strict=True):
                if values.setdefault(label_key(label), value) != value:
                    raise self._values_differ(other)
        found = tuple(values[label_key(label)] for label in categories)
        return Variable(self.name, categories, found, is_found, self._missing_of_both(other))

    def declared(self) -> Variable:
        """Return the variable as if its categories had been declared; values that were found in data are left out."""
        return Variable(self.name, self.categories, None if self.is_found else self.values, missing=self.missing)

    def _missing_of_both(self, other: Variable) -> tuple[Label, ...] | None:
        if self.missing is None or other.missing is None:
            return self.missing or other.missing
        return tuple({label_key(label): label for label in (*self.missing, *other.missing)}.values())

    @property
    def _is_natural(self) -> bool:
        return list(self.categories) == sort_labels(self.categories)

    @property
    def _has_given_values(self) -> bool:
        return self.values is not None and self.values != Variable(self.name, self.categories).values

    def _values_differ(self, other: Variable) -> DataError:
        return DataError(f"{self.name!r} has the values {self.values} in one and {other.values} in the other")

    def code(self, label: object) -> int:
        """Return the position of a category; an unknown one is an error that suggests the near miss."""
        found = self._codes.get(label_key(label))
        if found is None:
            raise unknown("category", label, self.categories, where=f" of {self.name!r}")
        return found

    def find(self, label: object) -> int | None:
        """Return the position of a category, or None where there is no such category."""
        return self._codes.get(label_key(label))


@dataclass(frozen=True)
class Schema:
    """The variables of a model or a data set, in order.

    Inside the package the categories of all variables are numbered through, variable after variable;
    such a number is called a *cell*. ``offsets[n] + code`` is the cell of a category of variable ``n``.

    Examples
    --------
    >>> schema = Schema((Variable("age", ("young", "old")), Variable("vote", ("no", "yes"))))
    >>> schema.names, schema.sizes, schema.offsets.tolist()
    (('age', 'vote'), (2, 2), [0, 2, 4])
    """

    variables: tuple[Variable, ...]

    @classmethod
    def found(
        cls,
        categories: Mapping[str, tuple[Label, ...]],
        missing: Callable[[str], tuple[Label, ...] | None] = lambda name: None,
    ) -> Schema:
        """Return the schema of variables whose categories were found in data; ``missing`` says what each remembers."""
        return cls(tuple(Variable(n, labels, is_found=True, missing=missing(n)) for n, labels in categories.items()))

    def __post_init__(self) -> None:
        if not isinstance(self.variables, Iterable):
            raise DataError(f"a schema is made of Variables, not {self.variables!r}")
        object.__setattr__(self, "variables", tuple(self.variables))
        for variable in self.variables:
            if not isinstance(variable, Variable):
                raise DataError(f"a schema is made of Variables, not {variable!r}")
        if not self.variables:
            raise DataError("a schema needs at least one variable; got none")
        if (name := first_duplicate(self.names)) is not None:
            raise DataError(f"duplicate column name {name!r}; names must differ")

    def __len__(self) -> int:
        return len(self.variables)

    def __iter__(self) -> Iterator[Variable]:
        return iter(self.variables)

    def __getitem__(self, name: str) -> Variable:
        return self.variables[self.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The variables' names."""
        return tuple(variable.name for variable in self.variables)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of categories of each variable."""
        return tuple(len(variable) for variable in self.variables)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """The first cell of each variable, and the number of cells at the end; shape (n_variables + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @property
    def n_categories(self) -> int:
        """The number of categories of all variables together."""
        return int(self.offsets[-1])

    @cached_property
    def cell_hashes(self) -> NDArray[np.uint64]:
        """A number for each cell that depends on the variable's name and the label alone; shape (n_categories,)."""
        return np.array(
            [stable_hash(v.name, *map(str, label_key(label))) for v in self.variables for label in v.categories],
            dtype=np.uint64,
        )

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def index(self, name: str) -> int:
        """Return the position of a variable; an unknown one is an error that suggests the near miss."""
        found = self._positions.get(name) if isinstance(name, str) else None
        if found is None:
            raise unknown("variable", name, self.names)
        return found

    def indices(self, names: str | Sequence[str]) -> list[int]:
        """Return the positions of one name or several different ones."""
        if not isinstance(names, str | Iterable):
            raise DataError(f"variables are named by text, one or several; got {names!r}")
        asked = [names] if isinstance(names, str) else list(names)
        positions = [self.index(name) for name in asked]
        if len(set(positions)) != len(positions):
            raise DataError(f"a variable is named twice in {asked!r}; each may be there once")
        return positions

    def difference(self, other: Schema) -> str:
        """Return in words where another schema differs first; "" where it does not."""
        for position, (one, two) in enumerate(zip(self, other, strict=False)):
            if one.name != two.name:
                return f"variable {position} is {one.name!r} in one and {two.name!r} in the other"
            if found := one.difference(two):
                return found
        return "" if len(self) == len(other) else f"one has {len(self)} variables and the other {len(other)}"

    def united(self, other: Schema) -> Schema:
        """Return the variables of both with the categories of both; those that only the other has come last."""
        if self == other and not any(v.is_found or v.missing is not None for v in other.variables):
            return self
        both = [v.united(other[v.name]) if v.name in other else v for v in self.variables]
        return Schema((*both, *(v for v in other.variables if v.name not in self)))

    def cells(self, index: int) -> slice:
        """Return the cells of the variable at a position."""
        return slice(int(self.offsets[index]), int(self.offsets[index + 1]))

    def subset(self, names: Sequence[str]) -> Schema:
        """Return the schema of some variables, in the order given."""
        return Schema(tuple(self.variables[index] for index in self.indices(names)))

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the schema as plain lists and dictionaries, for a file's header."""
        return [
            {
                "name": v.name,
                "categories": list(v.categories),
                "values": None if v.values is None else list(v.values),
                # Of files that do not say so nobody knows.
                **({} if v.is_found else {"declared": True}),
                **({} if v.missing is None else {"missing": list(v.missing)}),
            }
            for v in self.variables
        ]

    @classmethod
    def from_dict(cls, described: Sequence[Mapping[str, Any]]) -> Schema:
        """Return the schema that ``to_dict`` described."""
        return cls(
            tuple(
                Variable(
                    entry["name"],
                    tuple(entry["categories"]),
                    None if entry["values"] is None else tuple(entry["values"]),
                    entry.get("declared") is not True,
                    None if entry.get("missing") is None else tuple(entry["missing"]),
                )
                for entry in described
            )
        )
