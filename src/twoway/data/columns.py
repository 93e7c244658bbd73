"""What columns are, where their source does not say so: labels, order, codes for missing cells, bins, names."""

from __future__ import annotations

import csv
import difflib
import math
import os
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from datetime import date
from itertools import pairwise
from numbers import Real
from typing import Any, TypeAlias

from twoway.category_labels import Label, label_key, plain_label, sort_labels
from twoway.data.binning import bin_labels, number_to_bin
from twoway.data.missing import USUAL, Markers, MissingLabels, missing_key, missing_range
from twoway.data.toml_text import columns_toml
from twoway.errors import DataError, FileFormatError, MissingFileError, check_known, check_type, errors_at, unknown_name
from twoway.notebook import Shown
from twoway.schema import Schema, Variable, first_duplicate
from twoway.text import brief, shortlist

NOT_CHOSEN, CHOSEN = "no", "yes"
"""The categories of an answer to a multiple-choice question."""
Letters: TypeAlias = dict[tuple[str, int], Counter[tuple[str, Label]]]
"""For each slice of a file, by path and first row, how often each letter such as ".a" occurs in each column."""


@dataclass(frozen=True, repr=False)
class Column(Shown):
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
        Codes that mean "not observed", and ranges of numbers as pairs: ``[8, (90, 99)]``. They replace those that a
        file declares; an empty list makes categories of these.
    cuts
        The numbers at which bins begin.
    values
        The number that each category counts as in expected values: ``{"never": 0, "often": 10}``. By default the
        codes of ordered categories.

    Notes
    -----
    What is left out is as the source says: an SPSS file, for one, declares labels, order and codes for missing cells.
    """

    label: str = ""
    use: bool = True
    name: str | None = None
    categories: Mapping[Any, Any] = field(default_factory=dict)
    order: Sequence[Any] = ()
    ordered: bool | None = None
    missing: Sequence[Any] | None = None
    cuts: Sequence[float] = ()
    values: Mapping[Any, float] = field(default_factory=dict)
    choices: Sequence[str] = ()
    """The columns of the multiple-choice question that this is one of; see the sets of `Columns`."""
    value_labels: Mapping[Label, str] = field(default_factory=dict, repr=False)
    """The labels of all codes in the source, also of those that mean "not observed"."""

    def __post_init__(self) -> None:
        check_type("label", self.label, str, "text")
        check_type("use", self.use, bool, "true or false")
        check_type("name", self.name, str | None, "text")
        check_type("ordered", self.ordered, bool | None, "true or false")
        check_type("categories", self.categories, Mapping, 'a table from codes to labels, such as "1, 2" = "yes"')
        check_type("values", self.values, Mapping, "a table from categories to numbers, such as never = 0")
        for what in ("order", "missing", "cuts", "choices"):
            given = getattr(self, what)
            if what == "missing" and given is None:
                continue
            if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
                raise DataError(f"{what} must be a list; got {given!r}")
            vars(self)[what] = tuple(tuple(item) if isinstance(item, list) else item for item in given)
        vars(self).update(order=tuple(map(plain_label, self.order)))
        numbers = [cut for cut in self.cuts if isinstance(cut, Real) and math.isfinite(cut)]
        if len(numbers) < len(self.cuts) or any(low >= high for low, high in pairwise(numbers)):
            raise DataError(f"cuts must be ascending numbers, such as [18, 40, 65]; got {list(self.cuts)!r}")
        missing = {missing_key(missing_range(code)) for code in self.missing or ()}
        for code, category in self.codes:
            if missing_key(code) in missing:
                raise DataError(f"the code {code!r} is both a category, {category!r}, and missing; make it one of them")
        for category in self.order:
            if missing_key(category) in missing:
                raise DataError(f"{category!r} is both a category in the order and missing; make it one of them")

    @property
    def codes(self) -> tuple[tuple[Label, Label], ...]:
        """Codes and the category of each, in the order given; text such as "1, 2" stands for two numbers."""
        codes: dict[tuple[str, object], tuple[Label, Label]] = {}
        for given, category in self.categories.items():
            for code in _declared_codes(given):
                codes[label_key(code)] = plain_label(code), plain_label(category)
        return tuple(codes.values())

    def over(self, other: Column) -> Column:
        """Return what another declares of the same column, with what this one declares instead."""
        given = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default and value != {}}
        given.pop("value_labels", None)
        known, own = dict(other.codes), {label_key(code): category for code, category in self.codes}
        if self.missing is not None:  # codes that only the source takes for missing are categories by their labels
            markers = Markers(map(missing_key, self.missing))
            listed = {code: known.get(code, label) for code, label in other.value_labels.items()} | known
            known = {code: label for code, label in listed.items() if missing_key(code) not in markers}
        # A category may be named by its code or by its label in the file.
        composed = {code: own.get(label_key(code), own.get(label_key(label), label)) for code, label in known.items()}
        if composed:
            given["categories"] = {**composed, **dict(self.codes)}
        return replace(other, **given)

    def __str__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.repr}
        return f"Column({', '.join(f'{k}={brief(v)}' for k, v in given.items() if v != getattr(_UNDECLARED, k))})"

    def shown_code(self, code: Label) -> str:
        """Return a code with its label in the source, where it has one: 99 'refused'."""
        label = self.value_labels.get(code)
        return str(code) if label is None else f"{code} {label!r}"

    def variable(self, name: str, labels: Sequence[Label], is_ordered: bool, missing: Any) -> Variable:
        """Return the variable of a column that shows some labels, in an order that means something or not."""
        category_of = {label_key(code): category for code, category in self.codes}
        if self.choices:
            codes: Any = {label: category_of.get(label_key(label), NOT_CHOSEN) for label in (*labels, NOT_CHOSEN)}
            # Zero, which fills columns of numbers, unless it is what was chosen.
            meant = ((0, NOT_CHOSEN), *codes.items(), *self.codes)
            pairs = tuple({label_key(code): (code, category) for code, category in meant}.values())
            choices, both = tuple(self.choices), (NOT_CHOSEN, CHOSEN)
            return Variable(name, both, None, True, missing, label=self.label, codes=pairs, choices=choices)
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
        ordered = bool(self.order) or (is_ordered if self.ordered is None else self.ordered)
        values: tuple[Any, ...] | None = None
        codes_of = [shown.get(label_key(category), (category, []))[1] for category in categories]
        if self.values:
            own = {label_key(category): value for category, value in self.values.items()}
            own |= {label_key(str(category)): value for category, value in self.values.items()}
            values = tuple(own.get(label_key(c), own.get(label_key(str(c)))) for c in categories)
            if None in values:
                lacking_value = categories[values.index(None)]
                raise DataError(f"the values of {name!r} leave out the category {lacking_value!r}; each must have one")
        elif ordered and listed and all(len(codes) == 1 for codes in codes_of):
            values = tuple(number_to_bin(code) for (code,) in codes_of)
            values = None if None in values else values
        known = set(map(label_key, categories))
        codes = tuple((code, category) for code, category in self.codes if label_key(category) in known)
        return Variable(name, categories, values, True, missing, ordered=ordered, label=self.label, codes=codes)


_UNDECLARED = Column()


@dataclass(frozen=True, repr=False)
class Columns(Shown):
    """What the columns of a file, a frame or a database are, where these do not say so themselves.

    Give it as ``columns`` to `Records`, `FileRecords`, `DatabaseTable` or `DaskRecords`. Models keep it, so that they
    read later records alike. `Columns.load` reads it from a TOML file.

    Parameters
    ----------
    columns
        For each column that needs it a `Column`, or a mapping with some of its parameters.
    sets
        Multiple-choice questions, each a column per answer that can be ticked:
        ``{"media": {"columns": ["q5_1", "q5_2"], "chosen": 1}}``. Their cells become "yes" for the code ``chosen`` and
        "no" for all else, empty cells included where any of the columns has an answer.
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
    sets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    weights: str | None = None
    counts: str | None = None
    only: Sequence[str] | None = None
    letters: Letters = field(default_factory=dict, repr=False, compare=False)
    """Codes of missing cells that are letters beside numbers in a file, counted as it is read."""

    def __post_init__(self) -> None:
        check_type("columns", self.only, str | Iterable | None, "names of columns, or Columns")
        check_type("columns", self.columns, Mapping, "a mapping from names to settings")
        check_type("sets", self.sets, Mapping, "a mapping from names to settings")
        for what in ("weights", "counts"):
            check_type(what, getattr(self, what), str | None, "the name of a column")
        columns = {}
        for name, settings in self.columns.items():
            if not isinstance(settings, Column):
                check_type(f"column {name!r}", settings, Mapping, "a mapping of settings")
                known = [f.name for f in fields(Column) if f.name not in ("choices", "value_labels")]
                check_known("setting", known, *settings, where=f" of column {name!r}")
                with errors_at(f"column {name!r}"):
                    settings = Column(**settings)
            columns[name] = settings
        for name, settings in self.sets.items():
            place = f"of the set {name!r}"
            check_type(f"the set {name!r}", settings, Mapping, 'a table such as columns = ["q5_1", "q5_2"], chosen = 1')
            check_known("setting", ["columns", "chosen", "label"], *settings, where=f" {place}")
            check_type(f"columns {place}", settings.get("columns", ()), list | tuple, "a list of names of columns")
            members = tuple(settings.get("columns", ()))
            for member in members:
                check_type(f"each of the columns {place}", member, str, "the name of a column")
            check_type(f"chosen {place}", settings.get("chosen", 1), str | bool | int | float | date, "one code")
            check_type(f"label {place}", settings.get("label", ""), str, "text")
            if len(members) < 2 or "chosen" not in settings:
                raise DataError(f"the set {name!r} needs the names of at least two columns, and the code for chosen")
            for member in members:
                own = columns.get(member, _UNDECLARED)
                ticked = dict(own.codes).get(settings["chosen"])
                label = own.label or (ticked if isinstance(ticked, str) else "")
                if not own.choices:
                    categories = {settings["chosen"]: CHOSEN}
                    columns[member] = replace(own, label=label, categories=categories, choices=members)
        vars(self).update(columns=columns, only=(self.only,) if isinstance(self.only, str) else self.only)

    @classmethod
    def of(cls, columns: Columns | Sequence[str] | None) -> Columns:
        """Return the option ``columns``: names, or what columns are."""
        return columns if isinstance(columns, Columns) else cls(only=columns)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Columns:
        """Return what a TOML file declares, as ``twoway columns`` writes it."""
        content = read_toml(path)
        with errors_at(repr(os.fspath(path))):
            check_known("setting", ["columns", "sets", "weights", "counts"], *content)
            return cls(**content)

    def __str__(self) -> str:
        return columns_toml(self, {}).rstrip() or "no column is declared"

    def __getitem__(self, name: str) -> Column:
        column: Column = self.columns.get(name, _UNDECLARED)
        return column

    def over(self, other: Columns) -> Columns:
        """Return what another declares, with what this one declares instead."""
        both = {name: self[name].over(other[name]) for name in (*other.columns, *self.columns)}
        return replace(self, columns=both, sets={**other.sets, **self.sets}, letters=other.letters)

    def among(self, names: Iterable[str]) -> Columns:
        """Return the same without what is declared of columns other than these."""
        return replace(self, columns={name: self[name] for name in names if name in self.columns}, sets={})

    def check(self, names: Sequence[str]) -> None:
        """Raise if a column is declared that is not among these, or two of them get one name."""
        check_known("column", names, *self.columns, where=" among those declared")
        check_known("column", names, *(self.only or ()))
        if (twice := first_duplicate(self[name].name or name for name in self.kept(names))) is not None:
            raise DataError(f"two columns would be called {twice!r}; names must differ")

    def kept(self, names: Iterable[str]) -> list[str]:
        """Return the columns among some names that are used."""
        known = dict.fromkeys(names)
        if self.only is not None:
            return [name for name in self.only if name in known]
        return [name for name in known if self[name].use]

    def new_names(self, names: Iterable[str]) -> dict[str, str]:
        """Return the columns by their new names."""
        return {self[name].name or name: name for name in names}

    @property
    def choices(self) -> dict[str, Sequence[str]]:
        """The columns of multiple-choice questions, by the new name of each of them."""
        return {self[name].name or name: column.choices for name, column in self.columns.items() if column.choices}

    @property
    def missing(self) -> dict[str, tuple[Any, ...]]:
        """The codes that mean "not observed" in each column, by its name and by its new one."""
        own = {name: column.missing for name, column in self.columns.items() if column.missing}
        return {**own, **{self[name].name or name: codes for name, codes in own.items()}}

    def add_to(self, missing: MissingLabels) -> MissingLabels:
        """Return labels that mean "not observed" with those declared here; the label of a code stands for the code.

        In a column whose codes a file labels, text that is neither is an error.
        """
        codes, everywhere = dict(self.missing), dict[str, None]()
        for name, column in self.columns.items():
            labels, given = dict.fromkeys(column.value_labels.values()), missing.columns.get(name, ())
            everywhere |= labels
            own = Markers(map(missing_key, (*missing.labels, *given)))
            listed = (*column.value_labels.items(), *column.codes)
            more = [code for code, label in listed if missing_key(label) in own and missing_key(code) not in own]
            if column.name is not None:
                codes[column.name] = (*codes.get(column.name, ()), *given)
            for called in {name, column.name or name} if more else ():
                codes[called] = (*codes.get(called, ()), *dict.fromkeys(more))
            if labels and not any(isinstance(code, str) and code[:1] != "." for code in column.value_labels):
                check_known("label", labels, *_declared_words(given), where=f" of {name!r}, to be read as missing")
        for word in _declared_words(missing.labels):  # text of a column without labels, or a misspelt label?
            if word not in everywhere and difflib.get_close_matches(word, everywhere):
                where = ", to be read as missing; to be sure, name the column"
                raise unknown_name("label", word, everywhere, where=where)
        return missing.and_also(codes)

    @property
    def bins(self) -> Schema | None:
        """The variables whose bins are declared."""
        bins = [
            Variable(column.name or name, bin_labels(column.cuts), edges=column.cuts, label=column.label, column=name)
            for name, column in self.columns.items()
            if column.cuts
        ]
        return Schema(tuple(bins)) if bins else None


def _declared_words(labels: Iterable[Any]) -> list[str]:
    """Return the text among labels that mean "not observed" which is neither a number nor usual."""
    texts = (text for text in labels if isinstance(text, str) and text not in USUAL)
    return [text for text in texts if number_to_bin(text) is None]


def _declared_codes(given: Any) -> list[Label]:
    """Return the codes that the key of a category stands for.

    Examples
    --------
    >>> _declared_codes("1, x"), _declared_codes('"a, b"'), _declared_codes((1, 2))
    (['1, x', '1', 1, 'x'], ['"a, b"', 'a, b'], [1, 2])
    """
    if isinstance(given, tuple):
        return [code for label in given for code in _declared_codes(label)]
    if not isinstance(given, str):
        return [plain_label(given)]
    codes: dict[Label, None] = {given: None}
    try:
        parts = next(csv.reader([given], skipinitialspace=True), [])
    except csv.Error:  # a label with a line break, and no list
        parts = []
    for part in parts:
        number = number_to_bin(part)
        codes |= dict.fromkeys([part.strip(), *([] if number is None else [plain_label(number)])])
    return list(codes)


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a TOML file."""
    shown = repr(os.fspath(path))
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise MissingFileError(f"there is no file {shown}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{shown} is not a TOML file: {error}") from None
