"""Find where the tables of a sheet are and what their rows and columns are, or say what the sheet leaves open."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from twoway.arrays import Floats, sums_by
from twoway.errors import DataError
from twoway.tables.crosstabs.crosstabs import TableKind
from twoway.tables.crosstabs.grids import Grid, read_all_grids
from twoway.tables.crosstabs.sheet_kinds import find_kind
from twoway.tables.crosstabs.sheet_layout import Role, SheetLayout, TableBlock, TableLines
from twoway.tables.crosstabs.sheet_lines import (
    Line,
    LineGroup,
    clean_line_label,
    mark_line_roles,
    mark_parent_lines,
    mark_statistic_lines,
    split_lines,
)
from twoway.tables.crosstabs.sheet_names import name_groups
from twoway.tables.crosstabs.sheet_regions import Region, find_regions
from twoway.tables.crosstabs.sheet_sums import adds_up, find_sums, run_of_sum
from twoway.tables.crosstabs.sheet_titles import area_of_title, records_of_title
from twoway.tables.crosstabs.sheet_words import is_area_word, role_in_words, statistic_in_words, variable_in_words


def find_layout(path: str | os.PathLike[str], *, kind: TableKind | None = None) -> SheetLayout:
    """Return what the rows and columns of the tables in a file, or in a folder of files, seem to be.

    Raises where a sheet does not say enough, with the place and what to declare.

    Parameters
    ----------
    path
        The file or folder: CSV, TSV, Excel, OpenDocument or HTML; ``book.xlsx#Sheet`` names one sheet.
    kind
        What the numbers are, if the sheet does not say it: "counts", "joint", "row" or "column".

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("age_x_vote.csv").write_text(",no,yes,Total\\nyoung,30,70,100\\nold,65,35,100\\n")
    >>> print(find_layout("age_x_vote.csv").to_toml().partition("\\n\\n")[2])
    [[table]]
    kind = "counts"
    total_columns = "D"
    <BLANKLINE>
    [[table.rows]]
    variables = ["age"]
    rows = "2-3"
    categories = ["young", "old"]
    <BLANKLINE>
    [[table.columns]]
    variables = ["vote"]
    columns = "B-C"
    categories = ["no", "yes"]
    <BLANKLINE>
    """
    return find_layout_in_grids(read_all_grids(path), kind)


def draft_layout(path: str | os.PathLike[str], kind: TableKind | None = None) -> SheetLayout:
    """Return a layout in which variables may still need a name, where `find_layout` raises because of that."""
    return find_layout_in_grids(read_all_grids(path), kind, is_draft=True)


def find_layout_in_grids(grids: Sequence[Grid], kind: TableKind | None = None, is_draft: bool = False) -> SheetLayout:
    """Return the layout of the tables in some grids; raises where they do not say enough.

    In a draft, variables without a name get a sign that one is needed.
    """
    blocks: list[TableBlock] = []
    areas: dict[str, None] = {}
    n_sheets = Counter(grid.file for grid in grids)
    for grid in grids:
        file = Path(grid.file).name if len(n_sheets) > 1 else ""
        sheet = grid.sheet if n_sheets[grid.file] > 1 else ""
        for region in find_regions(grid):
            tables, area = _find_region_layout(replace(region, is_draft=is_draft), kind)
            areas |= {area: None} if area else {}
            blocks += [replace(block, file=file, sheet=sheet) for block in tables]
    if not blocks:
        raise DataError(f"{grids[0].file!r} holds no table: it needs a line of labels and at least one line of numbers")
    if len(areas) > 1:
        raise DataError(f"the areas are called {' and '.join(areas)}; say areas = … in a layout")
    if len({bool(block.area) for block in blocks}) > 1:
        raise DataError(f"{grids[0].file!r}: some tables name their area and others do not; say area = … in a layout")
    return SheetLayout(tuple(blocks), next(iter(areas), ""))


# One region


def _find_region_layout(region: Region, kind: TableKind | None) -> tuple[list[TableBlock], str]:
    """Return the blocks of a region, and the name of the variable whose categories are areas."""
    if (long := _find_long_layout(region, kind)) is not None:
        return long
    n_labels = region.count_label_columns()
    columns = region.find_number_columns(n_labels)
    if (wide := _find_wide_layout(region, n_labels, columns)) is not None:
        return wide
    down, across = region.row_lines(n_labels), region.column_lines(n_labels, columns)
    for lines in (down, across):
        mark_statistic_lines(lines)
        mark_line_roles(lines)
        mark_parent_lines(lines)
    _find_layout_totals(region, down, across)
    sides = []
    for lines, others, is_rows in ((down, across, True), (across, down, False)):
        _find_layout_overall(region, lines, others, is_rows)
        evidence, fail = partial(_is_one_whole, region, others, is_rows), partial(region.fail_line, is_rows)
        sides.append(split_lines(lines, evidence, fail))
    kind = find_kind(region, sides, kind)
    name_groups(region, n_labels, sides)
    total = next((n for text in region.all_titles if (n := records_of_title(text))), None)
    area = next(filter(None, map(area_of_title, reversed(region.all_titles))), "")
    blocks = [
        TableBlock(kind, rows, columns, row_roles, column_roles, total=total, area=area, letters=region.letters)
        for (rows, row_roles), (columns, column_roles) in product(*map(_layout_parts, sides))
    ]
    return blocks, ""


def _layout_parts(groups: list[LineGroup]) -> Iterator[tuple[tuple[TableLines, ...], dict[int, Role]]]:
    """Yield all groups with their roles together, or one by one where groups have totals or bases of their own."""
    is_together = all(group.roles == groups[0].roles for group in groups)
    for part in [groups] if is_together else [[group] for group in groups]:
        yield tuple(group.table_lines for group in part), dict(sorted(part[0].roles.items()))


def _find_layout_totals(region: Region, down: list[Line], across: list[Line]) -> None:
    """Lines of one label each that are the sum of the others are totals, whatever they are called."""
    rows, columns = ([line for line in lines if line.role is None] for lines in (down, across))
    numbers = region.numbers([line.at for line in rows], [line.at for line in columns])
    if np.isnan(numbers).any() or not numbers.size:
        return
    for lines, values in ((rows, numbers), (columns, numbers.T)):
        if {len(line.path) for line in lines} == {1}:
            for place in find_sums(values, range(len(lines))):
                lines[place].role, lines[place].path = "total", ()
            rest = [place for place, line in enumerate(lines) if line.role is None]
            if (run := run_of_sum(values, rest)) is not None:
                terms = " + ".join(repr(lines[term].path[0]) for term in run[1])
                problem = f"{lines[run[0]].path[0]!r} is the sum {terms}: if it is a subtotal, skip it in a layout"
                raise region.fail_line(lines is rows, lines[run[0]].at, problem)


def _find_layout_overall(region: Region, lines: list[Line], others: list[Line], is_rows: bool) -> None:
    """A line without a group, beside groups, is about everybody, if its numbers are between those of each group."""
    plain = [line for line in lines if line.role is None]
    alone = [line for line in plain if len(line.path) == 1]
    if not alone or len(alone) == len(plain):
        return
    tops: dict[str, list[int]] = {}
    for line in plain:
        if len(line.path) > 1:
            tops.setdefault(line.path[0], []).append(line.at)
    across = [line.at for line in others if line.role is None]
    for line in alone:
        numbers = [region.lines(at, across, is_rows) for at in ([line.at], *tops.values())]
        known = ~np.isnan([group.sum(axis=0) for group in numbers]).any(axis=0)
        own, *groups = (group[:, known] for group in numbers)
        # Who is in no group moves a few numbers beyond those of the groups.
        is_mean = all(((group.min(0) - 1.5 <= own) & (own <= group.max(0) + 1.5)).mean() > 0.95 for group in groups)
        is_sum = all(np.allclose(group.sum(0), own, atol=1.0) for group in groups)
        if not known.any() or not (is_mean or is_sum):
            problem = f"{line.path[0]!r} has no group, unlike other lines, and is not their total"
            raise region.fail_line(is_rows, line.at, problem)
        line.role, line.path = "total", ()


def _is_one_whole(
    region: Region, others: Sequence[Line], is_rows: bool, groups: Sequence[Sequence[int]]
) -> bool | None:
    """Return whether sums show groups of lines to be parts of one whole, rather than a whole each; None if unclear."""
    cells = region.grid.cells
    is_percent = any("%" in cell for row in region.body for cell in cells[row])
    for role in (None, "base", "unweighted"):
        across = [line.at for line in others if line.role == role]
        sums = np.array([region.lines(at, across, is_rows).sum(axis=0) for at in groups])
        if not across or np.isnan(sums).any():
            continue
        if role is None and is_percent and not is_rows:
            continue  # columns that add up to 100 each say nothing of their groups
        return bool(np.abs(sums - sums[0]).max() > 0.02 * np.abs(sums).max() + 1e-9)
    tops = [cells[at[0]][0].strip() if is_rows else cells[region.header[0]][at[0]].strip() for at in groups]
    return True if tops and variable_in_words(tops) else None


# Long and wide sheets


def _find_long_layout(region: Region, given: TableKind | None) -> tuple[list[TableBlock], str] | None:
    """Return the layout of a list of cells: a column for each variable and one of numbers."""
    cells, width = region.grid.cells, region.grid.width
    if len(region.header) != 1 or region.headings or width < 3:
        return None
    names = [clean_line_label(text) for text in cells[region.header[0]]]
    if not all(names) or not all(cell.strip() for row in region.body for cell in cells[row]):
        return None
    is_number = [all(not np.isnan(region.number(row, column)) for row in region.body) for column in range(width)]
    if not is_number[-1] or role_in_words(names[-1], []) == "total":
        return None
    labels = [[cells[row][column].strip() for row in region.body] for column in range(width - 1)]
    n_cells = int(np.prod([len(set(own)) for own in labels]))
    if len(set(zip(*labels, strict=True))) < len(region.body):
        return None
    is_crossed = n_cells == len(region.body) and statistic_in_words(names[-1]) == "count"
    if any(is_number[1:-1]) and not is_crossed:
        return None
    if not any(is_number[1:-1]) and min(len(set(own)) for own in labels) == len(region.body):
        return None
    areas = [name for name in names[:-1] if is_area_word(name)]
    area = areas[0] if len(areas) == 1 and width > 3 else ""
    rows = TableLines(tuple(names[:-1]), tuple(region.body), labels=tuple(range(width - 1)))
    numbers = region.numbers(region.body, [width - 1])
    if given is None and adds_up(numbers.sum(0), numbers):
        raise region.fail('all numbers add up to 100 or 1: say kind = "joint" or "counts"', region.body[0], width - 1)
    return [TableBlock(given or "counts", (rows,), (TableLines((), (width - 1,), ((),)),))], area


def _find_wide_layout(region: Region, n_labels: int, columns: Sequence[int]) -> tuple[list[TableBlock], str] | None:
    """Return the layout of a sheet with a row for each area and a column for each cell."""
    if len(region.header) != 1 or n_labels != 1 or region.headings or len(columns) < 4:
        return None
    names = [region.grid.cells[region.header[0]][column].strip() for column in columns]
    corner = clean_line_label(region.grid.cells[region.header[0]][0])
    rows = [row for row in region.body if role_in_words(region.grid.cells[row][0], []) is None]
    numbers = region.numbers(rows, columns)
    if "!!" in names[0]:
        lines = region.column_lines(n_labels, columns)
        mark_statistic_lines(lines)
        plain = [line for line in lines if line.role is None]
        n_shared = len(os.path.commonprefix([line.path for line in plain]))
        for line in plain:
            line.path = line.path[n_shared:]
            line.role = None if line.path else "total"
        mark_parent_lines(lines)
        groups = split_lines(lines, lambda _: True, partial(region.fail_line, False))
        if len(groups) != 1:
            return None
        group = groups[0]
    else:
        if (factored := factor_wide_names(names, numbers)) is None:
            return None
        paths, depth = factored
        if None in paths:
            place = paths.index(None)
            near = _layout_near_sum(numbers, rows, paths, place)
            problem = f"{names[place]!r} is neither a cell nor the sum of cells{near}"
            raise region.fail(f"{problem}: say what it is, or skip its column", column=columns[place])
        path_of = {column: path for column, path in zip(columns, paths, strict=True) if path is not None}
        group = LineGroup([None] * depth, {column: path for column, path in path_of.items() if any(path)})
        group.roles = {column: "total" for column in path_of if column not in group.paths}
    name_groups(region, 1, [[], [group]], stem=True)
    area = corner or "area"
    skipped: dict[int, Role] = {row: "skip" for row in region.body if row not in rows}
    down = TableLines((area,), tuple(rows), labels=(0,))
    return [TableBlock("counts", (down,), (group.table_lines,), skipped, group.roles)], area


def _layout_near_sum(numbers: Floats, rows: Sequence[int], paths: Sequence[tuple[str, ...] | None], place: int) -> str:
    """Return by how much a column misses the sum of all cells, where it is near."""
    cells = [column for column, path in enumerate(paths) if path is not None and all(path)]
    own, sums = numbers[:, place], numbers[:, cells].sum(axis=1)
    if not np.allclose(own, sums, rtol=0.05):
        return ""
    wrong = int(np.argmax(np.abs(own - sums)))
    return f" (in row {rows[wrong] + 1} it is {own[wrong]:.12g}, and all cells add up to {sums[wrong]:.12g})"


Labels = tuple[str, ...]


def factor_wide_names(names: Sequence[str], numbers: Floats) -> tuple[list[Labels | None], int] | None:
    """Return the category of each variable for each name, and the number of variables; None for other names.

    Names are split where all combinations of what is before and after an underscore exist. A part whose numbers are
    always the sum of the others' is all of them, "", and so are names that are no combination but a sum of cells;
    what is neither is None.

    Examples
    --------
    >>> names = ["all", "m_young", "m_old", "f_young", "f_old"]
    >>> factor_wide_names(names, np.array([[10.0, 1, 2, 3, 4], [14.0, 2, 3, 4, 5]]))
    ([('', ''), ('m', 'young'), ('m', 'old'), ('f', 'young'), ('f', 'old')], 2)
    """
    tokens = [tuple(name.split("_")) for name in names]
    parts = _factor_wide_tokens(set(tokens))
    if parts is None:
        return None
    labels = [list(dict.fromkeys("_".join(token) for token in part)) for part in parts]
    place = {name: at for at, name in enumerate(names)}
    shape = [len(part) for part in labels]
    order = [place["_".join(combination)] for combination in product(*labels)]
    cells = numbers[:, order].reshape(len(numbers), *shape)
    shown = [[*part] for part in labels]
    # A part that is the sum of the others is all of them.
    for axis, part in enumerate(labels):
        for code in range(len(part)) if len(part) > 2 else ():
            own, others = cells.take(code, axis + 1), np.delete(cells, code, axis + 1)
            if own.any() and own.size > 2 and np.abs(own - others.sum(axis + 1)).max() < 1e-9:
                shown[axis][code], cells = "", others
                del part[code]
                break
    path_of: dict[int, Labels] = dict(zip(order, product(*shown), strict=True))
    sums = {("",) * len(labels): sums_by(cells, [0])}
    for axis, part in enumerate(labels):
        by_code = sums_by(cells, [0, axis + 1])
        for code, label in enumerate(part):
            path = tuple(label if position == axis else "" for position in range(len(labels)))
            sums[path] = by_code[:, code]
    for at in range(len(names)):
        if at not in path_of:
            same = [
                path for path, total in sums.items() if len(numbers) > 1 and np.abs(total - numbers[:, at]).max() < 1e-9
            ]
            if len(same) == 1:
                path_of[at] = same[0]
    return [path_of.get(at) for at in range(len(names))], len(labels)


def _factor_wide_tokens(tokens: set[Labels]) -> list[list[Labels]] | None:
    """Return parts of which all combinations are among the names: the most names, then the fewest first parts."""
    after: dict[Labels, set[Labels]] = {}
    for name in tokens:
        for at in range(1, len(name)):
            after.setdefault(name[:at], set()).add(name[at:])
    groups: dict[frozenset[Labels], list[Labels]] = {}
    for prefix, suffixes in after.items():
        if len(suffixes) > 1:
            groups.setdefault(frozenset(suffixes), []).append(prefix)
    splits = [(prefixes, suffixes) for suffixes, prefixes in groups.items() if len(prefixes) > 1]
    if not splits:
        return None

    def merit(split: tuple[list[Labels], frozenset[Labels]]) -> tuple[int, int, int]:
        prefixes, suffixes = split
        return len(prefixes) * len(suffixes), -len(prefixes), sum(map(len, prefixes))

    first, last = max(splits, key=merit)
    inner = _factor_wide_tokens(set(last))
    if inner is not None and np.prod([len(part) for part in inner]) == len(last):
        return [sorted(first), *inner]
    return [sorted(first), sorted(last)]
