"""Names of variables that a sheet gives not beside its labels, but in a corner, a title or a file name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from twoway.tables.crosstabs.sheet_layout import NO_NAME
from twoway.tables.crosstabs.sheet_lines import LineGroup, clean_line_label
from twoway.tables.crosstabs.sheet_regions import Region
from twoway.tables.crosstabs.sheet_titles import is_question_title, names_of_title
from twoway.tables.crosstabs.sheet_words import plain_words, statistic_in_words, variable_in_words
from twoway.text import shortlist

_CROSSED = re.compile(r"\s*[×*\\/|]\s*|\s+x\s+|\s+(?:vs\.?)\s+|\s+(?:by)\s+", re.IGNORECASE)
_FILE_NAME = re.compile(r"\s*×\s*|\s+(?:x|by|vs\.?)\s+|_(?:x|by|vs)_|--|__")
_SUFFIX = re.compile(r"\.(csv|tsv|txt|xlsx|xlsm|xlsb|xls|ods|html|htm)(\.gz)?$", re.IGNORECASE)


_SAME = {"gender": "sex"}


class _Slot(NamedTuple):
    """A variable without a name."""

    group: LineGroup
    depth: int
    is_row: bool


def name_groups(region: Region, n_labels: int, groups: Sequence[list[LineGroup]], stem: bool = False) -> None:
    """Set the names of all variables, or raise with the place of one that has none.

    Parameters
    ----------
    region, n_labels, groups
        The part of the sheet, the number of columns with labels, and the groups of rows and of columns.
    stem
        Whether a name that nothing else gives may be that of the file.
    """
    file = _SUFFIX.sub("", Path(region.grid.file).name)
    _take_corner_names(region, n_labels, groups)
    titles = [*reversed(region.titles), region.grid.heading, region.grid.sheet]
    n_variables = len(
        {(g.names[d], id(g) if g.names[d] is None else 0, d) for g in chain(*groups) for d in range(len(g.names))}
    )
    by_title = [names for title in titles if (names := names_of_title(title, n_variables))]
    from_file = [part.strip() for part in _FILE_NAME.split(file)]
    if len(from_file) == n_variables > 1 and all(from_file):
        by_title.append(from_file)
    offered = by_title[0] if by_title else []
    for slot in _unnamed_slots(groups):
        known = variable_in_words(slot.group.labels(slot.depth))
        if known is not None and not _is_name_taken(known, groups):
            meant = [name for name in offered if known in plain_words(name) or known == _SAME.get(plain_words(name))]
            slot.group.names[slot.depth] = meant[0] if meant else known
    slots = _unnamed_slots(groups)
    left = [name for name in offered if not _is_name_taken(name, groups)]
    if slots and len(left) == len(slots):
        for slot, name in zip(slots, left, strict=True):
            slot.group.names[slot.depth] = name
    elif len(slots) == 1 and (question := next(filter(is_question_title, titles), "")):
        slots[0].group.names[slots[0].depth] = clean_line_label(question)
    elif len(slots) == 1 and stem:
        slots[0].group.names[slots[0].depth] = file
    for slot in _unnamed_slots(groups):
        if region.is_draft:
            slot.group.names[slot.depth] = f"{NO_NAME}{' / '.join(slot.group.labels(slot.depth)[:3])}"
            continue
        raise region.fail_line(
            slot.is_row,
            next(iter(slot.group.paths)),
            f"the variable of {shortlist(slot.group.labels(slot.depth), 4)} has no name; give it in a corner cell, as "
            "in 'age × vote', a title such as 'Age by vote', the file name age_x_vote.csv or a layout",
        )


def _unnamed_slots(groups: Sequence[list[LineGroup]]) -> list[_Slot]:
    return [
        _Slot(group, depth, not side)
        for side, own in enumerate(groups)
        for group in own
        for depth, name in enumerate(group.names)
        if name is None
    ]


def _is_name_taken(name: str, groups: Sequence[list[LineGroup]]) -> bool:
    """Return whether a variable is called so already, or by a part of it: "age of head" is "age"."""
    words = plain_words(name)
    others = [plain_words(name) for group in chain(*groups) for name in group.names if name is not None]
    return any(words == other or re.search(rf"\b{re.escape(other)}\b", words) for other in others)


def _take_corner_names(region: Region, n_labels: int, groups: Sequence[list[LineGroup]]) -> None:
    """Name variables by the cells above the labels of rows."""
    cells = region.grid.cells
    corner = [
        next((text for row in reversed(region.header) if (text := clean_line_label(cells[row][column]))), "")
        for column in range(n_labels)
    ]
    slots = _unnamed_slots(groups)
    rows = [slot for slot in slots if slot.is_row]
    crossed = [part.strip() for part in _CROSSED.split(corner[0])]  # as in "age × vote"
    if all(crossed) and len(rows) == 1 and len(crossed) == len(slots) == 2:
        for slot, name in zip(slots, crossed, strict=True):
            slot.group.names[slot.depth] = name
        return
    named = [text for text in corner if text and statistic_in_words(text) is None]
    if len(rows) == 2 and len(named) == 1:
        parts = re.split(r"\s*[,/]\s*|\s+and\s+|\s+by\s+", named[0])
        named = parts if len(parts) == 2 else []
    if len({id(slot.group) for slot in rows}) == 1 and len(named) == len(rows):
        for slot, name in zip(rows, named, strict=True):
            slot.group.names[slot.depth] = name
