"""A linear program over all joints that have published tables: coarser ones, of some people, with bounds and rules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.checks.table_program import ProgramAxis, ProgramTable, TableProgram, choose_program_axes, program_cells
from twoway.tables.published.pairs import Codes
from twoway.tables.published.places import TablePlaces, sums_of_groups
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables


def published_program(
    published: PublishedTables, asked: Mapping[int, Ints], max_cells: int, level: float | None
) -> tuple[TableProgram, bool]:
    """Return the program of a joint with the variables asked about, and whether nothing that could narrow is left out.

    ``asked`` has the class of each category of these variables.
    """
    axes, is_whole = _published_program_axes(published, asked, max_cells)
    shared, is_used = [], True
    for table in published.tables:
        over = _published_program_table(published, table, axes)
        is_used &= over is not None or not {*published.schema.indices(table.variables)} & {a.variable for a in axes}
        shared += [] if over is None else [over]
        if level is not None and len(table.variables) > 1 and not table.given:
            # Sampling error bounds the shares of single variables more closely than their sums over cells.
            margins = (_published_program_table(published, table.margin([name]), axes) for name in table.variables)
            shared += [margin for margin in margins if margin is not None]
    is_sharp = is_whole and is_used and not published.means
    return TableProgram(shared, axes, level, _possible_program_cells(published, axes)), is_sharp


def _published_program_axes(
    published: PublishedTables, asked: Mapping[int, Ints], max_cells: int
) -> tuple[list[ProgramAxis], bool]:
    """Return the variables of the joint: all that tables connect with those asked about, if they fit."""
    from scipy.sparse.csgraph import connected_components

    sizes, n_variables = published.schema.sizes, len(published.schema)
    links = np.eye(n_variables, dtype=bool)
    linked = [*published.pairs_shown, *((min(rule), other) for rule in published.rules for other in rule)]
    links[tuple(np.array(linked, dtype=np.int64).reshape(-1, 2).T)] = True
    label = connected_components(links, directed=False)[1]
    reached = np.flatnonzero(np.isin(label, label[list(asked)])).tolist()
    if math.prod(sizes[index] for index in reached) <= max_cells:
        return ProgramAxis.full(published.schema, reached), True
    return choose_program_axes(published.pairs(), asked, max_cells)[0], False


def _published_program_table(
    published: PublishedTables, table: PublishedTable, axes: Sequence[ProgramAxis]
) -> ProgramTable | None:
    """Return a table over the cells of a joint, as coarse as its classes; None where they leave nothing of it."""
    cells, universe = program_cells(axes), published.universe(table.within)
    if (inside := _published_universe_cells(universe, axes)) is None:
        return None
    cell_of = np.zeros(inside.size, dtype=np.int64)
    numbers, used = np.array([table.counts, table.low, table.high]), list[str]()
    for name in reversed(table.variables):
        position, axis = published.schema.index(name), table.variables.index(name)
        codes = published.axis_codes(table, axis)
        if position in cells:
            set_of_class, set_of_category = _common_published_sets(codes, cells[position][0])
        else:
            set_of_class, set_of_category = np.zeros(0, dtype=np.int64), np.zeros(len(codes), dtype=np.int64)
        sets = ProgramAxis(position, set_of_category)
        if (name in table.given and sets.is_merged) or (position in universe and set_of_category.min() < 0):
            return None
        numbers = sets.summed(numbers, axis + 1)
        if position in cells:
            set_of_cell = set_of_class[cells[position][1]]
            cell_of += set_of_cell * math.prod(numbers.shape[axis + 2 :])
            inside &= set_of_cell >= 0
            used += [name] if sets.n_classes > 1 or position in universe else []
    if set(used) <= set(table.given):
        return None
    counts, low, high = numbers
    categories = tuple(tuple(range(size)) for size in counts.shape)
    coarse = replace(table, categories=categories, counts=counts, low=low, high=high)
    blocks = TablePlaces.blocks_of(coarse, bool(universe))
    return ProgramTable(np.where(inside, cell_of, -1), *_published_program_shares(coarse, blocks), blocks)


def _common_published_sets(codes: Sequence[Codes], axis: ProgramAxis) -> tuple[Ints, Ints]:
    """Return the finest sets of which both some categories of a table and the classes of a joint are parts.

    The number of the set of each class and of each of the table's categories; -1 for what the table leaves out.
    """
    from scipy.sparse.csgraph import connected_components

    category_of = np.full(len(axis.classes), -1)
    for number, categories in enumerate(codes):
        category_of[list(categories)] = number
    alike = (category_of[:, None] == category_of) | (axis.classes[:, None] == axis.classes)
    set_of_code = connected_components(alike, directed=False)[1].astype(np.int64)
    left_out = np.unique(set_of_code[category_of < 0])
    set_of_code = np.where(np.isin(set_of_code, left_out), -1, set_of_code)
    shown = np.unique(set_of_code[set_of_code >= 0])
    set_of_code = np.where(set_of_code < 0, -1, np.searchsorted(shown, set_of_code))
    first = [int(np.flatnonzero(axis.classes == number)[0]) for number in range(axis.n_classes)]
    return set_of_code[first], set_of_code[[categories[0] for categories in codes]]


def _published_universe_cells(universe: Mapping[int, Codes], axes: Sequence[ProgramAxis]) -> Bools | None:
    """Return which cells of a joint are within a universe; None where the joint cannot tell them apart."""
    cells = program_cells(axes)
    inside = np.ones(math.prod(axis.n_classes for axis in axes), dtype=bool)
    for position, codes in universe.items():
        if position not in cells:
            return None
        axis, classes = cells[position]
        is_within = np.isin(np.arange(len(axis.classes)), codes)
        # All of a class must be within the universe, or none of it.
        parts = np.bincount(axis.classes, is_within) / np.bincount(axis.classes)
        if not np.isin(parts, (0.0, 1.0)).all():
            return None
        inside &= parts[classes] > 0
    return inside


def _published_program_shares(table: PublishedTable, blocks: Ints | None) -> tuple[Floats, Floats, Floats]:
    """Return the least and greatest share of each cell within its group, and the effective people of the group."""
    low, high = table.low.ravel(), table.high.ravel()
    sums_of_low, sums_of_high, sums = sums_of_groups(blocks, low, high, table.counts)
    if table.totals and not table.given:
        # The number of people was published, whatever is known of the cells.
        total = float(table.totals[min(table.totals, key=len)].sum())
        sums_of_low = sums_of_high = np.full(low.size, total)
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.where(sums_of_high > 0, low / sums_of_high, 0.0)
        most = np.where(sums_of_low > 0, np.minimum(high / sums_of_low, 1.0), 1.0)
    n_records = np.asarray(table.weight * sums / float(table.counts.sum()), dtype=np.float64)
    return np.nan_to_num(least), np.nan_to_num(most, nan=1.0), n_records


def _possible_program_cells(published: PublishedTables, axes: Sequence[ProgramAxis]) -> Bools:
    """Return which cells of a joint are possible; a class is as long as one of its categories is."""
    cells = program_cells(axes)
    is_possible = np.ones(math.prod(axis.n_classes for axis in axes), dtype=bool)
    for rule in published.rules:
        if not set(rule) <= set(cells):
            continue
        is_ruled = np.ones_like(is_possible)
        for position, codes in rule.items():
            axis, classes = cells[position]
            whole = [set(np.flatnonzero(axis.classes == number).tolist()) <= codes for number in range(axis.n_classes)]
            is_ruled &= np.array(whole)[classes]
        is_possible &= ~is_ruled
    return is_possible
