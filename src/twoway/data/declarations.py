"""What columns are, where their source does not say so: labels, order, codes for missing cells, bins, names."""

from __future__ import annotations

import csv
import math
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from itertools import pairwise
from typing import Any

from twoway.data.binning import bin_labels, number_to_bin
from twoway.data.missing import missing_key
from twoway.errors import DataError, FileFormatError, MissingFileError, check_known, naming
from twoway.schema import Label, Schema, Variable, first_duplicate, label_key, plain_label, sort_labels
from twoway.text import shortlist


@dataclass(frozen=True)
class Column:
    """What one column is, where its source does not say so: an entry of `Columns`.

    Parameters
    ----------
    label
        What it says in words, such as the text of a question.
    use
        Whether it is used.
    name
        What to call it.
    categories
        A mapping from codes to labels: ``{"1, 2": "Democrat", 3: "Independent"}``. Codes of one label are merged.
    order
        All categories, the lowest first; one that is left out is an error.
    ordered
        Whether the categories are in order already.
    missing
        Codes that mean "not observed", and ranges of numbers as pairs: ``[8, (90, 99)]``.
    cuts
        The numbers at which bins begin.
    """

    label: str = ""
    use: bool = True
    name: str | None = None
    categories: Mapping[Any, Any] = field(default_factory=dict)
    order: Sequence[Any] = ()
    ordered: bool = False
    missing: Sequence[Any] = ()
    cuts: Sequence[float] = ()

    def __post_init__(self) -> None:
        for what, kinds, shape in (
            ("label", str, "text"),
            ("use", bool, "true or false"),
            ("name", str | None, "text"),
            ("ordered", bool, "true or false"),
            ("categories", Mapping, 'a table from codes to labels, such as "1, 2" = "yes"'),
        ):
            if not isinstance(getattr(self, what), kinds):
                raise DataError(f"{what} must be {shape}; got {getattr(self, what)!r}")
        for what in ("order", "missing", "cuts"):
            given = getattr(self, what)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise DataError(f"{what} must be a list; got {given!r}")
            items = (tuple(item) if isinstance(item, list) else item for item in given)
            object.__setattr__(self, what, tuple(items))
        object.__setattr__(self, "order", tuple(map(plain_label, self.order)))
        numbers = [cut for cut in self.cuts if isinstance(cut, int | float) and math.isfinite(cut)]
        if len(numbers) < len(self.cuts) or any(low >= high for low, high in pairwise(numbers)):
            raise DataError(f"cuts must be ascending numbers, such as [18, 40, 65]; got {list(self.cuts)!r}")
        gone = {missing_key(code) for code in self.missing}
        for code, category in self.codes:
            if missing_key(code) in gone:
                raise DataError(f"the code {code!r} is both a category, {category!r}, and missing; make it one of them")
        for category in self.order:
            if missing_key(category) in gone:
                raise DataError(f"{category!r} is both a category, in the order, and missing; make it one of them")

    @property
    def codes(self) -> tuple[tuple[Label, Label], ...]:
        """Codes and the category of each, in the order given; text such as "1, 2" stands for two numbers."""
        codes: dict[tuple[str, object], tuple[Label, Label]] = {}
        for given, category in self.categories.items():
            for code in _codes_meant(given):
                codes[label_key(code)] = plain_label(code), plain_label(category)
        return tuple(codes.values())

    def over(self, other: Column) -> Column:
        """Return what another declares of the same column, with what this one declares instead."""
        given = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default and value != {}}
        if other.categories and self.categories:
            own = {label_key(code): category for code, category in self.codes}
            # A category may be named by its code or by its label in the file.
            composed = {code: own.get(label_key(code), own.get(label_key(label), label)) for code, label in other.codes}
            given["categories"] = {**composed, **dict(self.codes)}
        if "missing" in given:
            given["categories"] = {
                code: label
                for code, label in replace(other, **{**given, "missing": (), "order": ()}).codes
                if missing_key(code) not in {missing_key(gone) for gone in self.missing}
            }
        return replace(other, **given)

    def variable(self, name: str, labels: Sequence[Label], is_ordered: bool, missing: Any) -> Variable:
        """Return the variable of a column that shows some labels, in an order that means something or not."""
        category_of = {label_key(code): category for code, category in self.codes}
        listed = [code for code, _ in self.codes]
        if listed and listed != sort_labels(listed):
            places = {label_key(code): place for place, code in enumerate(listed)}
            labels = sorted(labels, key=lambda label: places.get(label_key(label), len(places)))
        shown: dict[tuple[str, object], tuple[Label, list[Label]]] = {}
        for label in labels:
            category = category_of.get(label_key(label), label)
            shown.setdefault(label_key(category), (category, []))[1].append(label)
        categories = tuple(category for category, _ in shown.values())
        if self.order:
            lacking = [category for category in categories if label_key(category) not in map(label_key, self.order)]
            if lacking:
                in_order = shortlist(self.order)
                raise DataError(f"the order of {name!r} leaves out the category {lacking[0]!r}; it has {in_order}")
            categories = tuple(self.order)
        ordered = is_ordered or self.ordered or bool(self.order)
        values: tuple[Any, ...] | None = None
        codes_of = [shown[label_key(category)][1] if label_key(category) in shown else [] for category in categories]
        if ordered and listed and all(len(codes) == 1 for codes in codes_of):
            values = tuple(number_to_bin(code) for (code,) in codes_of)
            values = None if None in values else values
        known = set(map(label_key, categories))
        codes = tuple((code, category) for code, category in self.codes if label_key(category) in known)
        return Variable(name, categories, values, True, missing, ordered=ordered, label=self.label, codes=codes)


_UNDECLARED = Column()


@dataclass(frozen=True)
class Columns:
    """What the columns of a file, a frame or a database are, where these do not say so themselves.

    Give it as ``columns`` to `Records`, `FileRecords`, `DatabaseTable` or `DaskRecords`. Models keep it, so that they
    read later records alike. `Columns.load` reads it from a TOML file.

    Parameters
    ----------
    columns
        For each column that needs it a `Column`, or a mapping with some of its parameters.
    weights, counts
        The columns that hold them, as for `Records`.
    only
        The columns to use, all by default.

    Examples
    --------
    >>> import twoway as tw
    >>> trust = {"name": "trust", "categories": {"1, 2": "low", 3: "high"}, "ordered": True, "missing": [9]}
    >>> records = tw.Records({"q1": [1, 2, 9, 3]}, columns=tw.Columns({"q1": trust}))
    >>> records.schema["trust"].categories, records.n_observed
    (('low', 'high'), 3)
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    weights: str | None = None
    counts: str | None = None
    only: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise DataError(f"columns are declared by a mapping from their names to settings; got {self.columns!r}")
        columns = {}
        for name, settings in self.columns.items():
            if not isinstance(settings, Column):
                if not isinstance(settings, Mapping):
                    raise DataError(f"column {name!r} is declared by a mapping of settings; got {settings!r}")
                check_known("setting", [f.name for f in fields(Column)], *settings, where=f" of column {name!r}")
                with naming(f"column {name!r}"):
                    settings = Column(**settings)
            columns[name] = settings
        object.__setattr__(self, "columns", columns)
        if isinstance(self.only, str):
            object.__setattr__(self, "only", (self.only,))

    @classmethod
    def of(cls, columns: Columns | Sequence[str] | None) -> Columns:
        """Return the option ``columns``: names, or what columns are."""
        return columns if isinstance(columns, Columns) else cls(only=columns)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Columns:
        """Return what a TOML file declares, as ``twoway columns`` writes it."""
        shown = repr(os.fspath(path))
        try:
            with open(path, "rb") as file:
                content = tomllib.load(file)
        except FileNotFoundError:
            raise MissingFileError(f"there is no file {shown}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise FileFormatError(f"{shown} is not a TOML file: {error}") from None
        with naming(shown):
            check_known("setting", ["columns", "weights", "counts"], *content)
            return cls(**content)

    def __getitem__(self, name: str) -> Column:
        found: Column = self.columns.get(name, _UNDECLARED)
        return found

    def over(self, other: Columns) -> Columns:
        """Return what another declares, with what this one declares instead."""
        both = {name: self[name].over(other[name]) for name in (*other.columns, *self.columns)}
        return replace(self, columns=both)

    def among(self, names: Iterable[str]) -> Columns:
        """Return the same without what is declared of columns other than these."""
        return replace(self, columns={name: self[name] for name in names if name in self.columns})

    def check(self, names: Sequence[str]) -> None:
        """Raise if a column is declared that is not among these, or two of them get one name."""
        check_known("column", names, *self.columns, where=" among those declared")
        check_known("column", names, *(self.only or ()))
        if (twice := first_duplicate(self[name].name or name for name in self.kept(names))) is not None:
            raise DataError(f"two columns would be called {twice!r}; names must differ")

    def kept(self, names: Iterable[str]) -> list[str]:
        """Return the columns among some names that are used."""
        known = dict.fromkeys(names)
        return [name for name in (known if self.only is None else self.only) if name in known and self[name].use]

    def new_names(self, names: Iterable[str]) -> dict[str, str]:
        """Return the columns by their new names."""
        return {self[name].name or name: name for name in names}

    @property
    def missing(self) -> dict[str, tuple[Any, ...]]:
        """The codes that mean "not observed" in each column, by its name and by its new one."""
        own = {name: column.missing for name, column in self.columns.items() if column.missing}
        return {**own, **{self[name].name or name: codes for name, codes in own.items()}}

    @property
    def bins(self) -> Schema | None:
        """The variables whose bins are declared."""
        bins = [
            Variable(column.name or name, bin_labels(column.cuts), edges=column.cuts, label=column.label, column=name)
            for name, column in self.columns.items()
            if column.cuts
        ]
        return Schema(tuple(bins)) if bins else None


def _codes_meant(given: Any) -> list[Label]:
    """Return the codes that the key of a category stands for.

    Examples
    --------
    >>> _codes_meant("1, x"), _codes_meant('"a, b"'), _codes_meant((1, 2))
    (['1, x', '1', 1, 'x'], ['"a, b"', 'a, b'], [1, 2])
    """
    if isinstance(given, tuple):
        return [code for one in given for code in _codes_meant(one)]
    if not isinstance(given, str):
        return [plain_label(given)]
    codes: dict[Label, None] = {given: None}
    for part in next(csv.reader([given], skipinitialspace=True), []):
        number = number_to_bin(part)
        codes |= dict.fromkeys([part.strip(), *([] if number is None else [plain_label(number)])])
    return list(codes)
