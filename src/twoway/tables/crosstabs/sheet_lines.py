"""Lines: the labels of rows and columns as paths, and which variables these paths are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from twoway.errors import DataError
from twoway.schema import first_duplicate
from twoway.tables.crosstabs.sheet_layout import Role, TableLines
from twoway.tables.crosstabs.sheet_words import plain_words, role_in_words, statistic_in_words

Path = tuple[str, ...]
Fail = Callable[[int, str], DataError]
"""The error for a line at a place that may be read in two ways."""
Evidence = Callable[[Sequence[Sequence[int]]], bool | None]
"""Whether groups of lines are parts of one whole (True), each a whole of its own (False), or not known (None)."""


@dataclass
class Line:
    """A row or column of numbers with the labels that are above or beside it, the outer one first."""

    at: int
    path: Path
    role: Role | None = None


@dataclass
class LineGroup:
    """Lines of the same variables; names that the sheet does not give beside the lines are None."""

    names: list[str | None]
    paths: dict[int, Path]
    """The category of each variable for each line, empty for all of them (a subtotal)."""
    roles: dict[int, Role] = field(default_factory=dict)
    """What other lines are, those that belong to all groups too."""
    several: bool = False
    """Whether people could choose several of the categories."""

    def labels(self, depth: int) -> list[str]:
        """Return the categories of one of the variables."""
        return list(dict.fromkeys(path[depth] for path in self.paths.values() if path[depth]))

    @property
    def inner(self) -> list[int]:
        """The lines that are no subtotals."""
        return [at for at, path in self.paths.items() if all(path)]

    @property
    def table_lines(self) -> TableLines:
        """The lines as a layout has them, once all variables have a name."""
        at, categories = zip(*sorted(self.paths.items()), strict=True)
        return TableLines(tuple(map(str, self.names)), at, categories, several=self.several)


def clean_line_label(text: str) -> str:
    """Return a label without spaces around it, a colon at its end or the mark of a footnote."""
    text = re.sub(r"[ \t\u00a0]+", " ", text).strip()
    text = re.sub(r"\s*[(\[]\s*n\s*=\s*[\d, ]+[)\]]$", "", text, flags=re.IGNORECASE)
    text = re.sub(r"(\s*\[[a-z0-9]{1,2}\]|[¹²³⁴⁵⁶⁷⁸⁹⁰ᵃᵇᶜ†‡§]+)$", "", text)
    return text.removesuffix(":").rstrip()


def mark_statistic_lines(lines: list[Line]) -> None:
    """Take the names of statistics out of the paths, and skip lines of shares beside counts, and of errors."""
    labelled = [line for line in lines if line.path]
    depth = max((len(line.path) for line in labelled), default=0)
    for level in (-1, 0):
        texts = [line.path[level] for line in labelled]
        kinds = [statistic_in_words(text) for text in texts]
        roles = [role_in_words(text, texts) for text in texts]
        is_statistic = [kind is not None or role == "skip" for kind, role in zip(kinds, roles, strict=True)]
        if not texts or not all(is_statistic) or len(set(map(plain_words, texts))) < 2:
            continue
        if depth == 1 and not {"count", "share"} & set(kinds):
            continue
        statistic = "count" if "count" in kinds else "share"
        for line, kind in zip(labelled, kinds, strict=True):
            line.path = line.path[:-1] if level else line.path[1:]
            if kind != statistic:
                line.role = "skip"
        return


def mark_line_roles(lines: list[Line]) -> None:
    """Set the role of lines whose last label is that of a total, a base or another statistic."""
    last = [line.path[-1] for line in lines if line.path]
    for line in lines:
        if line.path and line.role is None:
            line.role = role_in_words(line.path[-1], last)
            if line.role is not None:
                line.path = line.path[:-1]


def mark_parent_lines(lines: list[Line]) -> None:
    """Lines whose path begins others are subtotals."""
    longer = {line.path[:depth] for line in lines if line.role is None for depth in range(1, len(line.path))}
    for line in lines:
        if line.role is None and line.path in longer:
            line.role = "total"


def split_lines(lines: Sequence[Line], evidence: Evidence, fail: Fail) -> list[LineGroup]:
    """Return the groups of lines, each with its variables."""
    plain = [line for line in lines if line.role is None]
    alone = [line for line in lines if line.role == "total" and not line.path]
    if not plain and len(alone) == 1:  # a topline: numbers of everybody
        roles = {line.at: line.role for line in lines if line.role and line is not alone[0]}
        return [LineGroup([], {alone[0].at: ()}, roles)]
    if not plain:
        raise fail(lines[0].at if lines else 0, "there are no rows or columns of categories, only totals")
    groups = list(_split_plain_lines({line.at: line.path for line in plain}, evidence, fail))
    shared: dict[int, Role] = {}
    for line in lines:
        if line.role is None:
            continue
        if not line.path:
            shared[line.at] = line.role
            continue
        own = [g for g in groups if len(line.path) == 1 and g.names == [*line.path]]
        nested = [g for g in groups if any(path[: len(line.path)] == line.path for path in g.paths.values())]
        if own:
            own[0].roles[line.at] = line.role
        elif nested and line.role == "total":
            nested[0].paths[line.at] = line.path + ("",) * (len(nested[0].names) - len(line.path))
        elif line.role in ("skip", "total"):
            shared[line.at] = "skip"
        else:
            raise fail(line.at, f"the base {'/'.join(line.path)!r} belongs to no group of rows or columns")
    for group in groups:
        group.roles |= shared
    return groups


def _split_plain_lines(paths: dict[int, Path], evidence: Evidence, fail: Fail) -> Iterator[LineGroup]:
    lengths = set(map(len, paths.values()))
    if lengths == {0}:
        yield LineGroup([], paths)
        return
    if 0 in lengths:
        raise fail(next(at for at, path in paths.items() if not path), "it has numbers but no label")
    if lengths == {1}:
        if (twice := first_duplicate(path[0] for path in paths.values())) is not None:
            raise fail([at for at, path in paths.items() if path[0] == twice][1], f"duplicate label {twice!r}")
        yield LineGroup([None], paths)
        return
    tops: dict[str, dict[int, Path]] = {}
    for at, path in paths.items():
        tops.setdefault(path[0], {})[at] = path[1:]
    lists = [[*own.values()] for own in tops.values()]
    if len(tops) > 1 and all(sorted(labels) == sorted(lists[0]) for labels in lists) and len(lists[0]) > 1:
        is_nested = evidence([[*own] for own in tops.values()])
        if is_nested is None:
            first, second = list(tops)[:2]
            raise fail(
                next(iter(tops[second])),
                f"{first!r} and {second!r} have the same labels below them: they may be two variables, or two "
                "categories of one",
            )
        if is_nested:
            inner = list(_split_plain_lines(next(iter(tops.values())), evidence, fail))
            if len(inner) == 1:
                named = {at: (path[0].removesuffix(":"), *path[1:]) for at, path in paths.items()}
                yield LineGroup([None, *inner[0].names], named)
                return
    for top, own in tops.items():
        if bare := [at for at, path in own.items() if not path]:
            raise fail(bare[0], f"{top!r} has no label below it, where others have one")
        for group in _split_plain_lines(own, evidence, fail):
            if group.names == [None]:
                group.names = [top]
            yield group
