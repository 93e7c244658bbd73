"""Kinds of numbers: counts, or percentages of rows, of columns or of all, judged by their sums."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, product

import numpy as np

from twoway.arrays import Floats, sums_by
from twoway.tables.crosstabs.crosstabs import TableKind
from twoway.tables.crosstabs.sheet_lines import LineGroup
from twoway.tables.crosstabs.sheet_regions import Region
from twoway.tables.crosstabs.sheet_sums import adds_up
from twoway.tables.crosstabs.sheet_titles import kind_of_title
from twoway.tables.crosstabs.sheets import Axes

# The axes along which numbers of a kind add up to 100.
_GIVEN: dict[TableKind, Axes] = {"row": (0,), "column": (1,), "joint": ()}
_CHOOSE = re.compile(r"appl(y|ies)|select|several|multiple|mention|choose", re.IGNORECASE)


def find_kind(region: Region, sides: Sequence[list[LineGroup]], declared: TableKind | None) -> TableKind:
    """Return the kind of numbers of a region, and mark the groups of rows of which people could choose several."""
    rows, columns = sides
    titles = " ".join((*region.all_titles, *(region.grid.cells[row][0] for row in region.header)))
    # For each kind, whether each group of rows adds up to 100.
    numbers = [[region.numbers(group.inner, other.inner) for other in columns] for group in rows]
    fits = {
        kind: [all(adds_up(sums_by(own, axes), own) for own in of_group) for of_group in numbers]
        for kind, axes in _GIVEN.items()
    }
    may_choose = any(group.names[:1] != [None] for group in rows) and (
        len(rows) > 1 or bool(_CHOOSE.search(" ".join([titles, *region.headings.values()]))) or declared == "column"
    )
    for group, fit in zip(rows, fits["column"], strict=True):
        group.several = may_choose and not fit
        if group.several:
            answers = region.numbers(group.inner, [column for other in columns for column in other.inner])
            if not np.isnan(answers).any():
                problem = "the other answers add up to 100: if it is a sum of some, skip its row"
                _check_kind_without_extra(region, group, answers, True, problem)
    kinds: tuple[TableKind, ...] = ("row", "column")
    adding = [kind for kind in kinds if all(fits[kind])] or [kind for kind in fits if all(fits[kind])]
    kind = declared or kind_of_title(titles)
    if declared is None and kind and adding and kind not in adding:
        raise region.fail(f"the title says {kind} percentages, but the numbers add up as {adding[0]}")
    if kind is None:
        is_choice = len({group.several for group in rows}) > 1 or bool(_CHOOSE.search(titles))
        kind = _kind_by_sums(region, sides, adding, is_choice)
    for group in rows:
        group.several &= kind == "column"
    return kind


def _kind_by_sums(
    region: Region, sides: Sequence[list[LineGroup]], adding: Sequence[TableKind], is_choice: bool
) -> TableKind:
    """Return the kind that neither the user nor a title gives; ``adding`` are those that add up to 100."""
    rows, columns = sides
    if len(adding) > 1:
        raise region.fail('rows and columns both add up to 100: say kind = "row" or kind = "column"')
    places = (chain.from_iterable(group.paths for group in side) for side in sides)
    texts = [region.grid.cells[row][column] for row, column in product(*places)]
    is_percent = any("%" in text for text in texts)
    if adding:
        has_base = any(role in ("base", "unweighted") for group in chain(*sides) for role in group.roles.values())
        if is_percent or has_base or any("." in text for text in texts):
            return adding[0]
        if not region.titles and region.body[0] == 1 and len(rows) == len(columns) == 1:
            return "counts"  # a bare table has counts by default, with a note
        raise region.fail(
            f'the numbers add up to 100, as {adding[0]} percentages do: say kind = "{adding[0]}" or "counts"'
        )
    if not is_percent:
        problem = "the other numbers add up to 100: say whether this is a base, or kind = 'counts'"
        for group, other in product(rows, columns):
            numbers = region.numbers(group.inner, other.inner)
            if min(numbers.shape) > 1:
                _check_kind_without_extra(region, group, numbers, True, problem)
                _check_kind_without_extra(region, other, numbers.T, False, problem)
        return "counts"
    if is_choice:
        return "column"
    _check_kind_signs(region, sides)
    raise region.fail("the percentages add up to 100 neither in rows, nor in columns, nor all together")


def _check_kind_signs(region: Region, sides: Sequence[list[LineGroup]]) -> None:
    """Raise with the place of a percentage over 100, or of a row without percent signs."""
    for rows, columns in product(*sides):
        for row in rows.paths:
            texts = {column: region.grid.cells[row][column] for column in columns.paths}
            if not any("%" in text for text in texts.values()):
                raise region.fail(
                    "it has no percent signs, unlike other lines: say in a layout whether it is a base", row
                )
            for column, text in texts.items():
                if region.number(row, column) > 100:
                    raise region.fail(f"{text.strip()!r} is over 100, so it cannot be a percentage", row, column)


def _check_kind_without_extra(region: Region, lines: LineGroup, numbers: Floats, is_rows: bool, problem: str) -> None:
    """Raise where numbers would add up to 100 without one of the lines, which may be a base or a sum of others."""
    for place, at in enumerate(lines.inner) if len(numbers) > 2 else ():
        others = np.delete(numbers, place, 0)
        if adds_up(others.sum(0), others):
            raise region.fail_line(is_rows, at, problem)
