"""Kinds of numbers: counts, or percentages of rows, of columns or of all, as their sums tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from twoway.arrays import Floats
from twoway.tables.crosstabs.sheet_layout import Role
from twoway.tables.crosstabs.sheet_lines import Group
from twoway.tables.crosstabs.sheet_regions import Region, all_titles
from twoway.tables.crosstabs.sheet_words import kind_of_title

_CHOOSE = re.compile(r"appl(y|ies)|select|several|multiple|mention|choose", re.IGNORECASE)


def find_kind(
    region: Region, groups: Sequence[list[Group]], shared: Sequence[dict[int, Role]], given: str | None
) -> tuple[Any, set[int]]:
    """Return the kind of numbers of a region, and the groups of rows of which people could choose several."""
    texts = [
        region.grid.cells[row][column]
        for rows, columns in product(*groups)
        for row, _ in rows.lines
        for column, _ in columns.lines
    ]
    titles = " ".join((*all_titles(region), *(region.grid.cells[row][0] for row in region.header)))
    # For each kind, whether each group of rows adds up to 100.
    fits: dict[str, dict[int, bool]] = {"row": {}, "column": {}, "joint": {}}
    for rows, columns in product(*groups):
        numbers = region.numbers(_inner(rows), _inner(columns))
        for kind, sums in (("row", numbers.sum(1)), ("column", numbers.sum(0)), ("joint", numbers.sum()[None])):
            fits[kind][id(rows)] = fits[kind].get(id(rows), True) and adds_up(sums, numbers)
    kinds = [kind for kind in ("row", "column") if all(fits[kind].values())]
    kinds = kinds or [kind for kind in ("joint",) if all(fits[kind].values())]
    may_choose = {id(g) for g in groups[0] if g.names[:1] != [None]} and (
        len(groups[0]) > 1 or _CHOOSE.search(" ".join([titles, *region.headings.values()])) or given == "column"
    )
    if may_choose:
        _check_no_nets(region, groups, fits["column"])
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
        _check_no_base(region, groups)
        return "counts", set()
    if (several and len(several) < len(groups[0])) or _CHOOSE.search(titles):
        return "column", several
    _check_signs(region, groups)
    raise region.fail(start, None, "the percentages add up to 100 neither in rows, nor in columns, nor all together")


def _inner(*groups: Group) -> list[int]:
    """Return the lines of groups that are no subtotals."""
    return [at for group in groups for at, path in group.lines if all(path)]


def _check_signs(region: Region, groups: Sequence[list[Group]]) -> None:
    """Raise with the place of a percentage over 100, or of a line without percent signs beside others."""
    for rows, columns in product(*groups):
        for row, _ in rows.lines:
            texts = {column: region.grid.cells[row][column] for column, _ in columns.lines}
            if not any("%" in text for text in texts.values()):
                raise region.fail(row, None, "it has no percent signs, as others have: say whether it is a base")
            for column, text in texts.items():
                if region.number(row, column) > 100:
                    raise region.fail(row, column, f"{text.strip()!r} is over 100, and no percentage can be")


def _check_no_nets(region: Region, groups: Sequence[list[Group]], fits: dict[int, bool]) -> None:
    """Raise where answers without one of them would add up to 100: it may be the sum of some of the others."""
    for rows in groups[0]:
        at = _inner(rows)
        numbers = region.numbers(at, _inner(*groups[1]))
        for place in range(len(at)) if not fits[id(rows)] and len(at) > 2 and not np.isnan(numbers).any() else ():
            rest = np.delete(numbers, place, 0)
            if adds_up(rest.sum(0), rest):
                raise region.fail(
                    at[place], None, "the other answers add up to 100: if it is a sum of some, skip its row"
                )


def _check_no_base(region: Region, groups: Sequence[list[Group]]) -> None:
    """Raise where numbers without one row, or column, would add up to 100: it may be a base."""
    for rows, columns in product(*groups):
        at = _inner(rows), _inner(columns)
        numbers = region.numbers(*at)
        for axis in (0, 1):
            for place in range(numbers.shape[axis]) if min(numbers.shape) > 1 and numbers.shape[axis] > 2 else ():
                rest = np.delete(numbers, place, axis)
                if adds_up(rest.sum(axis), rest):
                    row, column = (at[0][place], None) if axis == 0 else (at[0][0], at[1][place])
                    raise region.fail(
                        row, column, "the other numbers add up to 100: say whether this is a base, or kind = 'counts'"
                    )


def adds_up(sums: Floats, numbers: Floats) -> bool:
    """Return whether sums of numbers are all 100, or all 1, but for rounding.

    Examples
    --------
    >>> shares, few_people = np.array([[0.2, 0.8], [0.55, 0.45]]), np.array([[0.0, 1.0], [0.0, 2.0]])
    >>> adds_up(shares.sum(axis=1), shares), adds_up(few_people.sum(axis=1), few_people)
    (True, False)
    """
    known = sums[~np.isnan(sums)]
    if not known.size:
        return False
    scale = 100.0 if float(np.median(known)) > 10 else 1.0
    n_terms = numbers.size // sums.size
    if n_terms < 2 or np.abs(known - scale).max() > max(0.5 * n_terms, 1.0):
        return False
    decimals = max((len(f"{x:.10g}".partition(".")[2]) for x in numbers.ravel() if not np.isnan(x)), default=0)
    if scale == 1.0 and decimals == 0:
        return False  # few people, not shares
    slack = min(0.5 * n_terms, 4 * np.sqrt(n_terms / 12)) * 10.0**-decimals
    return bool((np.abs(known - scale) <= max(slack, 1e-3 * scale) * (1 + 1e-9)).all())
