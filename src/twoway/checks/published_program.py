"""A linear program over all joints that have published tables: coarser ones, of some people, with bounds and rules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.checks.table_program import ProgramAxis, ProgramTable, TableProgram, choose_program_axes
from twoway.tables.published.pairs import Codes
from twoway.tables.published.places import TablePlaces
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
    schema, place_of = published.schema, {axis.variable: place for place, axis in enumerate(axes)}
    universe = published.universe(table.within)
    cells = np.indices([axis.n_classes for axis in axes]).reshape(len(axes), -1)
    inside = _published_universe_cells(universe, axes, cells)
    if inside is None:
        return None
    cell_of = np.zeros(cells.shape[1], dtype=np.int64)
    numbers, kept = np.array([table.counts, table.low, table.high]), []
    for name in reversed(table.variables):
        position, axis = schema.index(name), table.variables.index(name)
        codes = published.axis_codes(table, axis)
        if position in place_of:
            set_of_class, set_of_category = _common_published_sets(codes, axes[place_of[position]])
        else:
            set_of_class, set_of_category = np.zeros(0, dtype=np.int64), np.zeros(len(codes), dtype=np.int64)
        n_sets = int(set_of_category.max()) + 1
        if (name in table.given and n_sets < len(codes)) or (position in universe and set_of_category.min() < 0):
            return None
        summed = np.zeros([3, *numbers.shape[1 : axis + 1], n_sets, *numbers.shape[axis + 2 :]])
        np.add.at(np.moveaxis(summed, axis + 1, 0), set_of_category, np.moveaxis(numbers, axis + 1, 0))
        numbers = summed
        if set_of_class.size:
            own = set_of_class[cells[place_of[position]]]
            cell_of += own * math.prod(numbers.shape[axis + 2 :])
            inside &= own >= 0
            kept += [name] if n_sets > 1 or position in universe else []
    if set(kept) <= set(table.given):
        return None
    counts, low, high = numbers
    coarse = replace(
        table, categories=tuple(tuple(range(size)) for size in counts.shape), counts=counts, low=low, high=high
    )
    blocks = TablePlaces.blocks_of(coarse, bool(universe))
    return ProgramTable(np.where(inside, cell_of, -1), *_published_program_shares(coarse, blocks), blocks)


def _common_published_sets(codes: Sequence[Codes], axis: ProgramAxis) -> tuple[Ints, Ints]:
    """Return the finest sets of which both some categories of a table and the classes of a joint are parts.

    The number of the set of each class and of each of the table's categories; -1 for what the table leaves out.
    """
    from scipy.sparse.csgraph import connected_components

    category_of = np.full(len(axis.classes), -1)
    for number, own in enumerate(codes):
        category_of[list(own)] = number
    alike = (category_of[:, None] == category_of) | (axis.classes[:, None] == axis.classes)
    set_of_code = connected_components(alike, directed=False)[1].astype(np.int64)
    left_out = np.unique(set_of_code[category_of < 0])
    set_of_code = np.where(np.isin(set_of_code, left_out), -1, set_of_code)
    shown = np.unique(set_of_code[set_of_code >= 0])
    set_of_code = np.where(set_of_code < 0, -1, np.searchsorted(shown, set_of_code))
    first = [int(np.flatnonzero(axis.classes == own)[0]) for own in range(axis.n_classes)]
    return set_of_code[first], set_of_code[[own[0] for own in codes]]


def _published_universe_cells(universe: Mapping[int, Codes], axes: Sequence[ProgramAxis], cells: Ints) -> Bools | None:
    """Return which cells of a joint are within a universe; None where the joint does not tell."""
    by_variable = dict(zip((axis.variable for axis in axes), zip(axes, cells, strict=True), strict=True))
    inside = np.ones(cells.shape[1], dtype=bool)
    for position, codes in universe.items():
        if position not in by_variable:
            return None
        axis, own = by_variable[position]
        is_within = np.isin(np.arange(len(axis.classes)), codes)
        # All of a class must be within the universe, or none of it.
        parts = np.bincount(axis.classes, is_within) / np.bincount(axis.classes)
        if not np.isin(parts, (0.0, 1.0)).all():
            return None
        inside &= parts[own] > 0
    return inside


def _published_program_shares(table: PublishedTable, blocks: Ints | None) -> tuple[Floats, Floats, Floats]:
    """Return the least and greatest share of each cell within its group, and the effective people of the group."""
    low, high = table.low.ravel(), table.high.ravel()
    groups = np.zeros(low.size, dtype=np.int64) if blocks is None else blocks
    sums_of_low, sums_of_high, sums = (
        np.bincount(groups, own, minlength=int(groups.max()) + 1)[groups] for own in (low, high, table.counts.ravel())
    )
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
    """Return which cells of a joint can be; a class of which some categories are impossible can."""
    cells = np.indices([axis.n_classes for axis in axes]).reshape(len(axes), -1)
    is_possible = np.ones(cells.shape[1], dtype=bool)
    place_of = {axis.variable: place for place, axis in enumerate(axes)}
    for rule in published.rules:
        if not set(rule) <= set(place_of):
            continue
        is_ruled = np.ones(cells.shape[1], dtype=bool)
        for position, codes in rule.items():
            classes = axes[place_of[position]].classes
            whole = [set(np.flatnonzero(classes == own).tolist()) <= codes for own in range(int(classes.max()) + 1)]
            is_ruled &= np.array(whole)[cells[place_of[position]]]
        is_possible &= ~is_ruled
    return is_possible
