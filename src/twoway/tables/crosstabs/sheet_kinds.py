"""Kinds of numbers: counts, or percentages of rows, of columns or of all, as their sums tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from twoway.tables.crosstabs.sheet_layout import Role
from twoway.tables.crosstabs.sheet_lines import LineGroup
from twoway.tables.crosstabs.sheet_regions import Region
from twoway.tables.crosstabs.sheet_sums import adds_up
from twoway.tables.crosstabs.sheet_titles import kind_of_title

_CHOOSE = re.compile(r"appl(y|ies)|select|several|multiple|mention|choose", re.IGNORECASE)


def find_kind(
    region: Region, groups: Sequence[list[LineGroup]], shared: Sequence[dict[int, Role]], given: str | None
) -> tuple[Any, set[int]]:
    """Return the kind of numbers of a region, and the groups of rows of which people could choose several."""
    texts = [
        region.grid.cells[row][column]
        for rows, columns in product(*groups)
        for row, _ in rows.lines
        for column, _ in columns.lines
    ]
    titles = " ".join((*region.all_titles, *(region.grid.cells[row][0] for row in region.header)))
    # For each kind, whether each group of rows adds up to 100.
    fits: dict[str, dict[int, bool]] = {"row": {}, "column": {}, "joint": {}}
    for rows, columns in product(*groups):
        numbers = region.numbers(rows.inner, columns.inner)
        for kind, sums in (("row", numbers.sum(1)), ("column", numbers.sum(0)), ("joint", numbers.sum()[None])):
            fits[kind][id(rows)] = fits[kind].get(id(rows), True) and adds_up(sums, numbers)
    kinds = [kind for kind in ("row", "column") if all(fits[kind].values())]
    kinds = kinds or [kind for kind in ("joint",) if all(fits[kind].values())]
    may_choose = {id(g) for g in groups[0] if g.names[:1] != [None]} and (
        len(groups[0]) > 1 or _CHOOSE.search(" ".join([titles, *region.headings.values()])) or given == "column"
    )
    if may_choose:
        _check_kind_without_nets(region, groups, fits["column"])
    several = {group for group, ok in fits["column"].items() if not ok} if may_choose else set()
    is_percent = any("%" in text for text in texts)
    told = given or kind_of_title(titles)
    start = region.body[0]
    if told is not None:
        if given is None and kinds and told not in kinds:
            raise region.fail(start, None, f"the title says {told} percentages, but the numbers add up as {kinds[0]}")
        return told, several if told == "column" else set()
    if len(kinds) > 1:
        raise region.fail(start, None, 'rows and columns both add up to 100: say kind = "row" or kind = "column"')
    if kinds:
        has_base = any(role in ("base", "unweighted") for roles in shared for role in roles.values())
        if is_percent or has_base or any("." in text for text in texts):
            return kinds[0], set()
        if not region.titles and start == 1 and len(groups[0]) == len(groups[1]) == 1:
            return "counts", set()  # a bare table has counts by default, with a note
        raise region.fail(
            start, None, f'the numbers add up to 100, as {kinds[0]} percentages do: say kind = "{kinds[0]}" or "counts"'
        )
    if not is_percent:
        _check_kind_without_base(region, groups)
        return "counts", set()
    if (several and len(several) < len(groups[0])) or _CHOOSE.search(titles):
        return "column", several
    _check_kind_signs(region, groups)
    raise region.fail(start, None, "the percentages add up to 100 neither in rows, nor in columns, nor all together")


def _check_kind_signs(region: Region, groups: Sequence[list[LineGroup]]) -> None:
    """Raise with the place of a percentage over 100, or of a line without percent signs beside others."""
    for rows, columns in product(*groups):
        for row, _ in rows.lines:
            texts = {column: region.grid.cells[row][column] for column, _ in columns.lines}
            if not any("%" in text for text in texts.values()):
                raise region.fail(row, None, "it has no percent signs, as others have: say whether it is a base")
            for column, text in texts.items():
                if region.number(row, column) > 100:
                    raise region.fail(row, column, f"{text.strip()!r} is over 100, and no percentage can be")


def _check_kind_without_nets(region: Region, groups: Sequence[list[LineGroup]], fits: dict[int, bool]) -> None:
    """Raise where answers without one of them would add up to 100: it may be the sum of some of the others."""
    for rows in groups[0]:
        at = rows.inner
        numbers = region.numbers(at, [column for columns in groups[1] for column in columns.inner])
        for place in range(len(at)) if not fits[id(rows)] and len(at) > 2 and not np.isnan(numbers).any() else ():
            rest = np.delete(numbers, place, 0)
            if adds_up(rest.sum(0), rest):
                raise region.fail(
                    at[place], None, "the other answers add up to 100: if it is a sum of some, skip its row"
                )


def _check_kind_without_base(region: Region, groups: Sequence[list[LineGroup]]) -> None:
    """Raise where numbers without one row, or column, would add up to 100: it may be a base."""
    for rows, columns in product(*groups):
        at = rows.inner, columns.inner
        numbers = region.numbers(*at)
        for axis in (0, 1):
            for place in range(numbers.shape[axis]) if min(numbers.shape) > 1 and numbers.shape[axis] > 2 else ():
                rest = np.delete(numbers, place, axis)
                if adds_up(rest.sum(axis), rest):
                    row, column = (at[0][place], None) if axis == 0 else (at[0][0], at[1][place])
                    raise region.fail(
                        row, column, "the other numbers add up to 100: say whether this is a base, or kind = 'counts'"
                    )
