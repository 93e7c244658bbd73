"""Two-way tables in the finest categories, from published tables of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from twoway.arrays import Floats, sums_by
from twoway.data.flat_counts import Entry
from twoway.tables.published.table import PublishedTable

if TYPE_CHECKING:
    from twoway.tables.published.tables import PublishedTables

Codes = tuple[int, ...]


def pairs_of_table(published: PublishedTables, table: PublishedTable) -> Iterator[Entry]:
    """Yield the two-way tables of a table, in the finest categories and for all people.

    Members of a group get their overall shares of it, and people outside of the universe the distribution of those
    inside, as if variables were independent there.
    """
    positions = published.schema.indices(table.variables)
    counts = table.counts * (table.weight / table.counts.sum())
    universe = published.universe(table.within)
    for axis in map(table.variables.index, table.given):
        shares = published.single_shares[positions[axis]]
        own = np.array([shares[list(codes)].sum() for codes in published.axis_codes(table, axis)])
        sums = sums_by(counts, [axis])
        scale = np.divide(own / own.sum() * counts.sum(), sums, out=np.ones_like(sums), where=sums > 0)
        counts = counts * scale.reshape([-1 if position == axis else 1 for position in range(counts.ndim)])
    for axes in combinations(range(len(positions)), 2):
        sums = sums_by(counts, axes)
        first, second = (_finer_pair_shares(published, table, axis, positions[axis]) for axis in axes)
        pair = [positions[axis] for axis in axes]
        yield pair, _pair_with_others(published, first @ sums @ second.T, pair, universe), table.weight


def _finer_pair_shares(published: PublishedTables, table: PublishedTable, axis: int, position: int) -> Floats:
    """Return the share of each finest category in each category of an axis."""
    columns = np.zeros((published.schema.sizes[position], len(table.categories[axis])))
    for place, codes in enumerate(published.axis_codes(table, axis)):
        own = published.single_shares[position][list(codes)]
        columns[list(codes), place] = own / own.sum()
    return columns


def _pair_with_others(
    published: PublishedTables, joint: Floats, pair: Sequence[int], universe: Mapping[int, Codes]
) -> Floats:
    """Return a table of some people with all others."""
    total = joint.sum()
    for axis, position in enumerate(pair):
        if position in universe:
            shares = published.single_shares[position].copy()
            inside = shares[list(universe[position])].sum()
            shares[list(universe[position])] = 0.0
            outside, other = shares / inside * joint.sum(), joint.sum(axis=axis) / joint.sum()
            joint = joint + (np.outer(outside, other) if axis == 0 else np.outer(other, outside))
    return np.asarray(joint * (total / joint.sum()))


def shares_for_pairs(published: PublishedTables, position: int) -> Floats:
    """Return the share of each finest category of a variable, as far as tables tell; equal where they do not."""
    name, size = published.schema.names[position], published.schema.sizes[position]
    fine, coarse = np.zeros(size), []
    for table in published.tables:
        if name not in table.variables or name in table.given or published.universe(table.within):
            continue
        axis = table.variables.index(name)
        sums = sums_by(table.shares, [axis])
        codes = published.axis_codes(table, axis)
        if all(len(some) == 1 for some in codes):
            fine[[some[0] for some in codes]] += sums
        else:
            coarse.append((codes, sums))
    if not fine.any():
        fine = np.full(size, 1.0 / size)
        for codes, sums in coarse:
            for some, share in zip(codes, sums, strict=True):
                fine[list(some)] = share / len(some)
    # A category that no table counts is possible all the same.
    return np.asarray((fine / fine.sum() + 1e-9) / (1.0 + size * 1e-9))
