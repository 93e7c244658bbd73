"""Variables, their categories, and the order in which both are kept."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Ints
from twoway.category_labels import Label, check_label_text, label_key, plain_label, sort_labels
from twoway.errors import DataError, check_type, unknown_name
from twoway.notebook import Shown
from twoway.text import aligned_text, brief, printable, shortlist

_MOST_SHOWN, _FEW_SHOWN = 20, 5
_DAY_FIRST = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{2}")


def first_duplicate(names: Iterable[str]) -> str | None:
    """Return the first name that occurs more than once, or None where all differ."""
    return next((name for name, n_times in Counter(names).items() if n_times > 1), None)


def schema_hash(*parts: str) -> int:
    """Return a 64-bit number for some text, the same in every process."""
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
        Whether categories or values were found in data, and may reveal something about it; otherwise they were
        declared. Not compared when variables are.
    missing
        Labels that mean "not observed" where records are read by this variable; None for the usual ones. Not compared
        when variables are.
    edges
        Where the categories are bins of numbers: the ascending numbers that separate them, one fewer than categories.
        Each belongs to the bin above it, and the first and the last bin have no end. Records that hold numbers are
        sorted into the bins.
    ordered
        Whether the order of the categories means something, as that of "never", "sometimes", "always": questions such
        as ``P(sport <= sometimes)`` can be asked. Numbers, bins and text that begins with numbers, in the order of
        these ("5-9", "10-14"), are ordered in any case.
    label
        What the variable says in words, such as the text of a question.
    codes
        What stands for a category in records besides its label: pairs of a code and a category. A number also matches
        where records have it as text.
    column
        The column that records have it in, where that has another name.
    choices
        The columns of a multiple-choice question, of which this is one: an empty cell is the first category, "no",
        where another of them has an answer.

    Examples
    --------
    >>> Variable("rating", (1, 2, 3)).values
    (1.0, 2.0, 3.0)
    >>> Variable("vote", ("no", "yes")).values is None
    True
    >>> Variable("age", ("young", "old"), edges=[40]).edges
    (40.0,)
    """

    name: str
    categories: tuple[Label, ...]
    values: tuple[float, ...] | None = None
    is_found: bool = field(default=False, repr=False, compare=False)
    missing: tuple[Label, ...] | None = field(default=None, repr=False, compare=False)
    edges: tuple[float, ...] | None = field(default=None, repr=False, kw_only=True)
    ordered: bool = field(default=False, repr=False, compare=False, kw_only=True)
    label: str = field(default="", repr=False, compare=False, kw_only=True)
    codes: tuple[tuple[Label, Label], ...] = field(default=(), repr=False, compare=False, kw_only=True)
    column: str | None = field(default=None, repr=False, compare=False, kw_only=True)
    choices: tuple[str, ...] = field(default=(), repr=False, compare=False, kw_only=True)
    _codes: dict[tuple[str, object], int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        check_type("a variable's name", self.name, str, "text")
        check_label_text(self.name, "a variable's name")
        check_type(f"the categories of {self.name!r}", self.categories, Iterable, "labels, such as ('no', 'yes')")
        categories = tuple(plain_label(label) for label in self.categories)
        if not categories:
            raise DataError(f"variable {self.name!r} has no categories; it needs at least one")
        codes: dict[tuple[str, object], int] = {}
        for code, label in enumerate(categories):
            if codes.setdefault(label_key(label), code) != code:
                raise DataError(f"variable {self.name!r} has a duplicate category {label!r}")
        kinds = {kind for kind, _ in codes}
        values: Iterable[Any] | None = self.values
        if values is None and kinds in ({"number"}, {"truth"}):
            values = categories
        if values is not None:
            values = self._finite("values", values, len(categories))
        edges = self.edges
        if edges is not None:
            edges = self._finite("edges", edges, len(categories) - 1)
            if kinds != {"text"} or any(low >= high for low, high in pairwise(edges)):
                raise DataError(f"the edges of variable {self.name!r} must ascend, and its bins have text as labels")
        missing: Any = self.missing
        if missing is not None:  # a pair of numbers is a range
            missing = tuple(
                (float(m[0]), float(m[1])) if isinstance(m, list | tuple) else plain_label(m) for m in missing
            )
        pairs = tuple((plain_label(code), plain_label(category)) for code, category in self.codes)
        self._add_codes(codes, pairs)
        vars(self).update(categories=categories, values=values, edges=edges, missing=missing, codes=pairs, _codes=codes)
        vars(self).update(ordered=bool(self.ordered), choices=tuple(self.choices))

    def _add_codes(self, codes: dict[tuple[str, object], int], pairs: tuple[tuple[Label, Label], ...]) -> None:
        """Add the codes that stand for a category in records to ``codes``, which has the labels."""
        labels = dict(codes)
        for code, category in pairs:
            position = labels[label_key(category)]
            if labels.get(label_key(code), position) != position:
                raise DataError(f"{code!r} is a category of {self.name!r}, and a code of another one, {category!r}")
            codes.setdefault(label_key(code), position)
        for code, category in pairs:
            codes.setdefault(label_key(str(code)), labels[label_key(category)])

    def _finite(self, what: str, numbers: Iterable[Any], n_numbers: int) -> tuple[float, ...]:
        """Return as many finite numbers as there must be, or raise."""
        try:
            finite = tuple(float(number) for number in numbers)
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"the {what} of variable {self.name!r} must be numbers; got {numbers!r}") from None
        if len(finite) != n_numbers or not all(map(math.isfinite, finite)):
            raise DataError(f"variable {self.name!r} needs {n_numbers} finite {what}; got {finite!r}")
        return finite

    def __len__(self) -> int:
        return len(self.categories)

    def __repr__(self) -> str:
        labels = shortlist(self.categories, _MOST_SHOWN) + ("," if len(self) == 1 else "")
        return f"Variable(name={self.name!r}, categories=({labels}), values={self.values and brief(self.values)})"

    @property
    def is_ordered(self) -> bool:
        """Whether categories can be compared: their order was declared, or is that of the numbers that begin them."""
        if self.ordered or self.values is not None or self.edges is not None:
            return True
        texts = [str(label) for label in self.categories]
        # 31.12.2023 is before 30.03.2024.
        begin_with_numbers = all(text[:1].isdigit() and not _DAY_FIRST.match(text) for text in texts)
        return begin_with_numbers and list(self.categories) == sort_labels(self.categories)

    def difference(self, other: Variable) -> str:
        """Return in words how another variable of the same name differs first; "" where it does not.

        Labels without edges do not differ from bins with the same labels, whose values they lack.
        """
        for place, labels in enumerate(zip_longest(self.categories, other.categories), 1):
            if None in labels or label_key(labels[0]) != label_key(labels[1]):
                first, second = ("nothing" if label is None else repr(label) for label in labels)
                return f"category {place} of {self.name!r} is {first} in one and {second} in the other"
        only_one_has_edges = (self.edges is None) != (other.edges is None)
        for what in ("values", "edges"):
            numbers = getattr(self, what), getattr(other, what)
            if numbers[0] != numbers[1] and not (only_one_has_edges and None in numbers):
                return f"{self.name!r} has the {what} {numbers[0]} in one and {numbers[1]} in the other"
        return ""

    def declared(self) -> Variable:
        """Return the variable as if its categories had been declared, without values that were found in data."""
        return replace(self, values=None if self.is_found else self.values, is_found=False)

    def code(self, label: object) -> int:
        """Return the position of a category; an unknown one is an error that suggests the near miss."""
        code = self.find(label)
        if code is None:
            raise unknown_name("category", label, self.categories, where=f" of {self.name!r}")
        return code

    def find(self, label: object) -> int | None:
        """Return the position of a category, or None where there is no such category."""
        return self._codes.get(label_key(label))


@dataclass(frozen=True, repr=False)
class Schema(Shown):
    """The variables of a model or a data set, in order.

    Inside the package the categories of all variables are numbered consecutively, variable after variable;
    such a number is called a *cell*. ``offsets[n] + code`` is the cell of a category of variable ``n``.

    Examples
    --------
    >>> schema = Schema((Variable("age", ("young", "old")), Variable("vote", ("no", "yes"))))
    >>> schema.names, schema.sizes, schema.offsets.tolist()
    (('age', 'vote'), (2, 2), [0, 2, 4])
    """

    variables: tuple[Variable, ...]

    @classmethod
    def found(cls, categories: Mapping[str, tuple[Label, ...]]) -> Schema:
        """Return the schema of categories found in data."""
        return cls(tuple(Variable(name, labels, is_found=True) for name, labels in categories.items()))

    def __post_init__(self) -> None:
        check_type("the variables of a schema", self.variables, Iterable, "a sequence of Variables")
        vars(self).update(variables=tuple(self.variables))
        for variable in self.variables:
            check_type("each variable of a schema", variable, Variable, "a Variable")
        if not self.variables:
            raise DataError("a schema needs at least one variable; got none")
        self.check_names_differ(self.names)

    @staticmethod
    def check_names_differ(names: Iterable[str]) -> None:
        """Raise where a name occurs more than once."""
        if (name := first_duplicate(names)) is not None:
            raise DataError(f"duplicate column name {name!r}; names must differ")

    def __len__(self) -> int:
        return len(self.variables)

    def __iter__(self) -> Iterator[Variable]:
        return iter(self.variables)

    def __getitem__(self, name: str) -> Variable:
        return self.variables[self.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __str__(self) -> str:
        rows = [["variable", "categories", ""]]
        for variable in self:
            labels = ", ".join(printable(label) for label in variable.categories[:_FEW_SHOWN])
            more = ", …" if len(variable) > _FEW_SHOWN else ""
            wording = f"  ({printable(variable.label, 60)})" if variable.label else ""
            rows.append([printable(variable.name), str(len(variable)), f"{labels}{more}{wording}"])
        return aligned_text(rows)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The variables' names."""
        return tuple(variable.name for variable in self.variables)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of categories of each variable."""
        return tuple(len(variable) for variable in self.variables)

    @cached_property
    def offsets(self) -> Ints:
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
            [schema_hash(v.name, *map(str, label_key(label))) for v in self.variables for label in v.categories],
            dtype=np.uint64,
        )

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def index(self, name: str) -> int:
        """Return the position of a variable; an unknown one is an error that suggests the near miss."""
        position = self._positions.get(name) if isinstance(name, str) else None
        if position is None:
            raise unknown_name("variable", name, self.names)
        return position

    def indices(self, names: str | Sequence[str]) -> list[int]:
        """Return the positions of one name or several different ones."""
        check_type("names of variables", names, str | Iterable, "text, one or several")
        listed = [names] if isinstance(names, str) else list(names)
        positions = [self.index(name) for name in listed]
        if len(set(positions)) != len(positions):
            raise DataError(f"duplicate variable name in {listed!r}; name each variable once")
        return positions

    def difference(self, other: Schema) -> str:
        """Return in words where another schema differs first; "" where it does not."""
        for position, (first, second) in enumerate(zip(self, other, strict=False)):
            if first.name != second.name:
                return f"variable {position} is {first.name!r} in one and {second.name!r} in the other"
            if difference := first.difference(second):
                return difference
        return "" if len(self) == len(other) else f"one has {len(self)} variables and the other {len(other)}"

    def check_same(self, other: Schema, problem: str) -> None:
        """Raise an error of a problem that says where another schema differs; none where it does not."""
        if difference := self.difference(other):
            raise DataError(f"{problem}: {difference}")

    def cells(self, index: int) -> slice:
        """Return the cells of the variable at a position."""
        return slice(int(self.offsets[index]), int(self.offsets[index + 1]))

    def cells_in(self, other: Schema) -> Ints:
        """Return where another schema, which has all variables and categories, has each cell; shape (n_categories,)."""
        return np.array(
            [other.offsets[other.index(v.name)] + other[v.name].code(label) for v in self for label in v.categories]
        )

    def read_from(self, column: str) -> Variable | None:
        """Return the variable of a column: the one of that name, or the one that was read from it."""
        return self[column] if column in self else next((v for v in self if v.column == column), None)

    def columns_among(self, names: Iterable[str]) -> dict[str, str]:
        """Return the column of each variable that has one among some names: its own, or the one it was read from."""
        known = set(names)
        return {v.name: column for v in self for column in (v.column, v.name) if column in known}

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
                # Files that do not say so may hold either.
                **({} if v.is_found else {"declared": True}),
                **{
                    key: list(value) if isinstance(value, tuple) else value
                    for key, default in _OPTIONAL.items()
                    if (value := getattr(v, key)) != default
                },
            }
            for v in self.variables
        ]

    @classmethod
    def from_dict(cls, described: Sequence[Mapping[str, Any]]) -> Schema:
        """Return the schema that ``to_dict`` described."""
        variables = []
        for entry in described:
            optional = {key: entry[key] for key in _OPTIONAL if key in entry}
            is_found = entry.get("declared") is not True
            variables.append(Variable(entry["name"], tuple(entry["categories"]), entry["values"], is_found, **optional))
        return cls(tuple(variables))


_OPTIONAL = {
    f.name: f.default for f in fields(Variable) if f.init and f.name not in ("name", "categories", "values", "is_found")
}
"""What a file says of a variable only where it is not this."""
