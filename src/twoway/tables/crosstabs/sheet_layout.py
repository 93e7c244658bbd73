"""Layouts: where the tables of a file are, and what each of their rows and columns is.

A layout is found by `find_layout` or written by hand; it is one TOML file, and the only thing that a sheet is read by.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import chain, groupby
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from twoway.data.columns import read_toml
from twoway.data.files.spreadsheets import spreadsheet_column
from twoway.data.toml_text import toml_key, toml_value
from twoway.errors import DataError, check_known, check_number, errors_at
from twoway.schema import first_duplicate
from twoway.storage.atomic_files import write_text_file
from twoway.tables.crosstabs.crosstabs import TableKind

_Part = TypeVar("_Part")
Role: TypeAlias = Literal["total", "base", "unweighted", "skip"]

NO_NAME = "?"
"""How a variable begins that still needs a name."""

_HEAD = """\
# Where the tables are, and what their rows and columns are: check it, change it, and give it back with --layout.
# Rows are counted from 1, columns from A. An empty category is a subtotal, the sum of all categories of its variable.
"""


@dataclass(frozen=True)
class TableLines:
    """Rows, or columns, of a sheet that show the categories of one or more variables.

    Parameters
    ----------
    variables
        Their names, the outer one first.
    at
        The positions of the rows or columns, from 0.
    categories
        For each position a category of each variable, empty for all of them (a subtotal).
    labels
        Instead of categories, the columns (rows) where the labels of the rows (columns) are, one for each variable.
    several
        Whether people could choose several categories: each becomes a variable of its own, yes or no.
    """

    variables: tuple[str, ...]
    at: tuple[int, ...]
    categories: tuple[tuple[str, ...], ...] = ()
    labels: tuple[int, ...] = ()
    several: bool = False

    def __post_init__(self) -> None:
        if (twice := first_duplicate(self.variables)) is not None:
            raise DataError(f"duplicate variable {twice!r}")
        if self.categories and len(self.categories) != len(self.at):
            raise DataError(f"{len(self.at)} rows or columns cannot have {len(self.categories)} categories")
        for category in self.categories:
            if len(category) != len(self.variables):
                raise DataError(f"the variables {list(self.variables)} need a category each; got {list(category)}")
        if not self.categories and self.variables and len(self.labels) != len(self.variables):
            raise DataError(f"{list(self.variables)} need categories, or labels: where each one's labels are")


@dataclass(frozen=True)
class TableBlock:
    """Tables that share their rows and columns: each group of rows crossed with each group of columns."""

    kind: TableKind
    rows: tuple[TableLines, ...]
    columns: tuple[TableLines, ...]
    row_roles: Mapping[int, Role] = field(default_factory=dict)
    """Rows that are no categories: totals, bases, and those to skip."""
    column_roles: Mapping[int, Role] = field(default_factory=dict)
    file: str = ""
    sheet: str = ""
    total: float | None = None
    """The number of records, where the sheet does not show a base."""
    area: str = ""
    """The area that all of it is about."""
    letters: bool = False
    """Whether letters after numbers mark differences that are significant."""
    within: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The universe: for variables that the table need not have, the categories that all its people have."""

    def __post_init__(self) -> None:
        check_known("kind of table", get_args(TableKind), self.kind)
        for side, groups, roles in (("row", self.rows, self.row_roles), ("column", self.columns, self.column_roles)):
            if not groups:
                raise DataError(f"a table needs {side}s that show categories")
            check_known("role", get_args(Role), *roles.values())
            places = [*chain.from_iterable(group.at for group in groups), *roles]
            shown = (spreadsheet_column(place) if side == "column" else str(place + 1) for place in places)
            if (twice := first_duplicate(shown)) is not None:
                raise DataError(f"the {side} {twice} is declared twice")


@dataclass(frozen=True)
class SheetLayout:
    """Where the tables of a file are, and what each of their rows and columns is.

    `find_layout` proposes one, ``save`` writes it as TOML to be checked and changed, and `read_published` reads by it.
    """

    blocks: tuple[TableBlock, ...]
    areas: str = ""
    """The variable whose categories are areas: each area gets tables of its own."""
    symbols: Mapping[str, str] = field(default_factory=dict)
    """What signs in place of numbers mean, such as ``{"*": "<5"}``."""
    groups: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """For each variable, labels that stand for several categories, and which."""
    impossible: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    """Combinations that nobody has: categories of two or more variables."""
    exact: tuple[tuple[str, ...], ...] = ()
    """The variables of tables that must hold exactly."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the layout to a TOML file."""
        write_text_file(path, self.to_toml())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SheetLayout:
        """Return the layout in a TOML file."""
        content = read_toml(path)
        with errors_at(repr(os.fspath(path))):
            return cls.of_dict(content)

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> SheetLayout:
        """Return the layout that the content of a TOML file describes."""
        check_known("setting", ["table", "areas", "symbols", "groups", "impossible", "exact"], *content)
        if not (blocks := _layout_parts(content, "table", _layout_block)):
            raise DataError("a layout needs at least one [[table]]")
        symbols, groups = (_layout_mapping(content.get(what, {}), what) for what in ("symbols", "groups"))
        meanings = {str(sign): str(meaning) for sign, meaning in symbols.items()}
        members_of = {str(name): _layout_labels(own, f"groups.{name}") for name, own in groups.items()}
        rules = tuple(_layout_labels(rule, "impossible") for rule in _layout_list(content, "impossible"))
        exact = tuple(map(_layout_texts, _layout_list(content, "exact")))
        return cls(blocks, str(content.get("areas", "")), meanings, members_of, rules, exact)

    def to_toml(self) -> str:
        """Return the layout as the text of a TOML file."""
        lines = [_HEAD, *_layout_settings({"areas": self.areas, "exact": self.exact or None})]
        if self.impossible:
            lines += ["impossible = [", *(f"  {toml_value(rule)}," for rule in self.impossible), "]"]
        if self.symbols:
            lines += ["[symbols]", *(f"{toml_key(sign)} = {toml_value(to)}" for sign, to in self.symbols.items())]
        for block in self.blocks:
            settings = {what: getattr(block, what) for what in ("file", "sheet", "area", "kind", "total", "letters")}
            lines += ["", "[[table]]", *_layout_settings(settings)]
            lines += [f"within = {toml_value(block.within)}"] if block.within else []
            for side in _SIDES:
                roles = getattr(block, f"{side[:-1]}_roles")
                for role in get_args(Role):
                    places = [place for place, own in roles.items() if own == role]
                    lines += _layout_settings({f"{role}_{side}": _layout_places_text(places, side)})
            for side, other in (_SIDES, _SIDES[::-1]):
                for group in getattr(block, side):
                    categories = [labels[0] if len(labels) == 1 else labels for labels in group.categories]
                    lines += ["", f"[[table.{side}]]", f"variables = {toml_value(group.variables)}"]
                    settings = {side: _layout_places_text(group.at, side), "several": group.several}
                    settings["labels"] = _layout_places_text(group.labels, other)
                    settings["categories"] = categories if group.variables and not group.labels else None
                    lines += _layout_settings(settings)
        for name, members_of in self.groups.items():
            lines += ["", f"[groups.{toml_key(name)}]", *_layout_settings(members_of)]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


_SIDES = ("rows", "columns")
_NOT_SET = (None, False, "")


def _layout_settings(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as TOML, without those that are not set."""
    return [f"{toml_key(name)} = {toml_value(value)}" for name, value in settings.items() if value not in _NOT_SET]


def _layout_labels(content: Any, what: str) -> dict[str, tuple[str, ...]]:
    """Return one label or several for each name."""
    return {str(name): _layout_texts(own) for name, own in _layout_mapping(content, what).items()}


def _layout_texts(given: Any) -> tuple[str, ...]:
    """Return one text or several."""
    return tuple(map(str, given if isinstance(given, list) else [given]))


def _layout_list(content: Mapping[str, Any], what: str) -> list[Any]:
    """Return a setting that is a list, empty where it is not given."""
    if not isinstance(given := content.get(what, []), list):
        raise DataError(f"{what} must be a list; got {given!r}")
    return given


def _layout_parts(content: Mapping[str, Any], what: str, read: Callable[[Any], _Part]) -> tuple[_Part, ...]:
    """Return the parts of a setting that is a list; errors name the part."""
    parts = []
    for number, part in enumerate(_layout_list(content, what), 1):
        with errors_at(f"{what} {number}"):
            parts.append(read(part))
    return tuple(parts)


def _layout_block(table: Any) -> TableBlock:
    settings = ["file", "sheet", "area", "kind", "total", "letters", "within", *_SIDES]
    settings += [f"{role}_{side}" for role in get_args(Role) for side in _SIDES]
    check_known("setting", settings, *_layout_mapping(table, "table"))
    given: dict[str, Any] = {name: str(table[name]) for name in ("file", "sheet", "area") if name in table}
    for side in _SIDES:
        given[side] = _layout_parts(table, side, partial(_layout_lines, side=side))
        given[f"{side[:-1]}_roles"] = {
            place: role for role in get_args(Role) for place in _layout_places(table.get(f"{role}_{side}", []), side)
        }
    if "kind" not in table:
        raise DataError(f"it has no kind; the kinds are {', '.join(get_args(TableKind))}")
    total = table.get("total")
    if total is not None:
        check_number("total", total, "a positive number", lambda number: 0 < number < math.inf)
    within = _layout_labels(table.get("within", {}), "within")
    return TableBlock(
        kind=table["kind"], total=total, letters=bool(table.get("letters", False)), within=within, **given
    )


def _layout_lines(group: Any, side: str) -> TableLines:
    check_known("setting", ["variables", side, "categories", "labels", "several"], *_layout_mapping(group, side))
    other = _SIDES[1 - _SIDES.index(side)]
    names, at = _layout_texts(group.get("variables", [])), _layout_places(group.get(side, []), side)
    categories = _layout_list(group, "categories") if names else [[]] * len(at)
    labels = _layout_places(group.get("labels", []), other)
    return TableLines(names, at, tuple(map(_layout_texts, categories)), labels, bool(group.get("several", False)))


def _layout_mapping(content: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise DataError(f"{what} must be tables of settings; got {content!r}")
    return content


# Positions: 0, 1, 2, 4 are the rows "1-3, 5" and the columns "A-C, E".


def _layout_places_text(places: Sequence[int], side: str) -> str:
    """Return positions as people count them.

    Examples
    --------
    >>> _layout_places_text([0, 1, 2, 4], "rows"), _layout_places_text([0, 1, 2, 27], "columns")
    ('1-3, 5', 'A-C, AB')
    """
    shown = []
    # Neighbours differ from their rank by the same number.
    for _, run in groupby(enumerate(places), key=lambda pair: pair[1] - pair[0]):
        own = [place for _, place in run]
        ends = [spreadsheet_column(place) if side == "columns" else str(place + 1) for place in (own[0], own[-1])]
        shown.append(ends[0] if len(own) == 1 else "-".join(ends))
    return ", ".join(shown)


def _layout_places(given: Any, side: str) -> tuple[int, ...]:
    """Return the positions that a text, a number or a list of them names.

    Examples
    --------
    >>> _layout_places("1-3, 5", "rows"), _layout_places(["A-C", "AB"], "columns")
    ((0, 1, 2, 4), (0, 1, 2, 27))
    """
    places: list[int] = []
    for item in given if isinstance(given, list) else [given]:
        for part in str(item).split(","):
            ends = [_layout_place(end.strip(), side) for end in part.split("-")]
            if len(ends) > 2 or None in ends or (len(ends) == 2 and ends[0] > ends[1]):
                example = "'B-D, F'" if side == "columns" else "'4-9, 11'"
                raise DataError(f"{side} must be like {example}; got {item!r}")
            places += range(ends[0], ends[-1] + 1)
    return tuple(places)


def _layout_place(text: str, side: str) -> Any:
    if side == "rows":
        return int(text) - 1 if re.fullmatch(r"[1-9]\d{0,6}", text) else None
    if not re.fullmatch(r"[A-Za-z]{1,3}", text):
        return None
    return reduce(lambda place, letter: place * 26 + ord(letter) - ord("A") + 1, text.upper(), 0) - 1
