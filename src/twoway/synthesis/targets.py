"""What the tables of a population must be: numbers of cells, each a sum over persons, from whatever was published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Bools, Floats, Ints, sums_by
from twoway.errors import DataError
from twoway.model.events import Names
from twoway.schema import Schema
from twoway.tables.published.places import TablePlaces
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables
from twoway.text import crossed_text, shortlist

Codes: TypeAlias = NDArray[np.integer]
"""The categories of persons, shape (n_variables, n_persons): a row per variable."""

NEARLY_WHOLE = 1e-6
"""Scaled numbers as near to a whole one as this are whole but for rounding."""


@dataclass(frozen=True, eq=False)
class Target:
    """A table that the population must have: which persons each of its cells counts, and how many these must be.

    A cell is any set of combinations of categories of some variables: one of them, a coarser group, or a part of those
    whom a table is about. So all that a publication says of numbers of people is a target.
    """

    variables: tuple[int, ...]
    """The positions of the variables, ascending."""
    cell_of: NDArray[np.int32]
    """The number of the cell that counts each combination of their categories, an axis each; -1 for none."""
    low: Floats
    """The least that each cell may have, in persons, shape (n_cells,)."""
    high: Floats
    """The most that each cell may have: the same as ``low`` where the number is known."""
    weight: float = 1.0
    """How much the table counts where tables contradict each other; the effective number of records behind it."""
    is_exact: bool = False
    blocks: Ints | None = None
    """Where sums of cells are not known, only shares: the number of the group that each cell is in, from 0, within
    which they are shares. ``low`` and ``high`` are then those of a guess of the sums. Shape (n_cells,)."""

    @classmethod
    def of_counts(
        cls, variables: Iterable[int], counts: Floats, n: float, weight: float = 1.0, *, is_exact: bool = False
    ) -> Target:
        """Return the target of a complete table, which has an axis for each variable, scaled to n persons."""
        goals = counts.ravel() * (n / counts.sum())
        cell_of = np.arange(goals.size, dtype=np.int32).reshape(counts.shape)
        return cls(tuple(variables), cell_of, goals, goals, weight, is_exact)

    def margin(self, variables: Sequence[int], *, is_exact: bool = False) -> Target:
        """Return the target of some of the variables of a complete table, ascending."""
        axes = [axis for axis, position in enumerate(self.variables) if position in variables]
        counts = sums_by(self.low.reshape(self.cell_of.shape), axes)
        return Target.of_counts(variables, counts, float(counts.sum()), self.weight, is_exact=is_exact)

    def cells(self, codes: Codes) -> NDArray[np.int32]:
        """Return the cell of each person, -1 for none; ``codes`` has a row for each variable of the schema."""
        return np.asarray(self.cell_of[tuple(codes[position] for position in self.variables)])

    def combinations(self, cell: int) -> Ints:
        """Return the combinations of categories that a cell counts, shape (n_combinations, n_variables)."""
        return np.argwhere(self.cell_of == cell)

    def name(self, schema: Schema) -> str:
        """Return the names of the variables, such as "age × vote"."""
        return crossed_text((schema.names[position] for position in self.variables), None)

    def describe(self, schema: Schema, cell: int) -> str:
        """Return the categories of a cell as text, of the first combination where it counts several."""
        codes = zip(self.variables, self.combinations(cell)[0], strict=True)
        return ", ".join(f"{schema.names[at]} = {schema.variables[at].categories[code]!r}" for at, code in codes)


@dataclass(frozen=True, eq=False)
class TargetCells:
    """The cells of all targets one after the other, and the one of each that each person is in."""

    targets: Sequence[Target]
    of_person: NDArray[np.int32]
    """The number of the cell, shape (n_targets, n_persons); the number of all cells for none."""
    low: Floats
    high: Floats
    blocks: Ints
    """The number of the group of each cell whose sum is not known, -1 for none; shape (n_cells,)."""
    totals: Floats
    """The sum of each of these groups by which ``low`` and ``high`` are given; shape (n_blocks,)."""
    starts: Ints
    """The first cell of each target, and the number of all cells; shape (n_targets + 1,)."""

    @classmethod
    def of(cls, targets: Sequence[Target], codes: Codes) -> TargetCells:
        """Return the cells of some targets, and of persons by their codes, (n_variables, n_persons)."""
        starts = np.cumsum([0, *(len(target.low) for target in targets)])
        of_person = np.empty((len(targets), codes.shape[1]), dtype=np.int32)
        low, high = (np.concatenate([[], *(getattr(target, end) for target in targets)]) for end in ("low", "high"))
        blocks, n_blocks = np.full(len(low), -1), 0
        for row, start, target in zip(of_person, starts, targets, strict=False):
            numbers = target.cells(codes)
            row[:] = np.where(numbers < 0, starts[-1], numbers + start)
            if target.blocks is not None:
                blocks[start : start + len(target.low)] = n_blocks + target.blocks
                n_blocks += int(target.blocks.max()) + 1
        totals = np.bincount(blocks[blocks >= 0], ((low + high) / 2)[blocks >= 0], n_blocks)
        return cls(targets, of_person, low, high, blocks, np.maximum(totals, 1e-300), starts)

    def settled(self, weights: Floats) -> TargetCells:
        """Return the cells with the sums that groups of unknown sums have by the weights, so that all are known."""
        is_open = self.blocks >= 0
        blocks = self.blocks[is_open]
        sums = np.bincount(blocks, self.sums(weights)[is_open], len(self.totals))
        scale = np.ones(len(self.low))
        scale[is_open] = (sums / self.totals)[blocks]
        low, high, closed = self.low * scale, self.high * scale, np.full(len(self.low), -1)
        return replace(self, low=low, high=high, blocks=closed, totals=np.zeros(0))

    @property
    def is_exact(self) -> Bools:
        """Which targets must hold exactly, shape (n_targets,)."""
        return np.array([target.is_exact for target in self.targets], dtype=bool)

    def sums(self, weights: NDArray[np.number]) -> Floats:
        """Return the sum of the weights of each cell's persons, shape (n_cells,)."""
        n_cells = int(self.starts[-1])
        sums = np.zeros(n_cells)
        for row in self.of_person:
            sums += np.bincount(row, weights, n_cells + 1)[:-1]
        return sums

    def goals(self, sums: Floats) -> Floats:
        """Return the numbers nearest to the sums that the targets allow, shape (n_cells,)."""
        return np.clip(sums, self.low, self.high)

    def worst(self, sums: Floats) -> tuple[Floats, Ints]:
        """Return by how much the worst cell of each target is off, and its number among all; (n_targets,) each."""
        off = np.abs(sums - self.goals(sums))
        worst = np.array([a + off[a:b].argmax() for a, b in pairwise(self.starts.tolist())], dtype=np.int64)
        return off[worst], worst


def table_targets(tables: Tables, n: int, exact: Iterable[Names] = (), *, of_records: bool = False) -> list[Target]:
    """Return the targets of a population of n persons: all tables, and the margins that must hold exactly.

    Tables ``of_records`` with missing cells count different people each, so they need not have the same margins.
    """
    complete = [
        Target.of_counts(positions, tables.array(index), n, float(tables.weights[index]))
        for index, positions in enumerate(tables.sets.tolist())
    ]
    return _complete_targets(tables.schema, complete, exact, of_records=of_records)


def _complete_targets(
    schema: Schema, tables: Sequence[Target], exact: Iterable[Names], *, of_records: bool = False
) -> list[Target]:
    """Return the targets of complete tables, and of the margins that must hold exactly.

    Exact margins are rounded up or down to whole persons later, all of them together; those that contradict each other
    are an error.
    """
    exact_positions = list(dict.fromkeys(tuple(sorted(schema.indices(names))) for names in exact))
    margins = [_exact_margin(schema, tables, positions, of_records=of_records) for positions in exact_positions]
    for first, second in combinations(margins, 2):
        shared = sorted(set(first.variables) & set(second.variables))
        _check_same_targets(schema, shared, first, second, "exact margin")
    return [*(table for table in tables if table.variables not in exact_positions), *margins]


def _exact_margin(schema: Schema, tables: Sequence[Target], positions: tuple[int, ...], *, of_records: bool) -> Target:
    """Return a margin from the table that has it with the most records; raise where published tables differ in it."""
    holding = [table for table in tables if set(positions) <= set(table.variables)]
    if not positions or not holding:
        known = shortlist(table.name(schema) for table in tables)
        margin = crossed_text((schema.names[position] for position in positions), None)
        raise DataError(f"no table of all people has the exact margin {margin!r}; these are {known}")
    best = max(holding, key=lambda table: table.weight)
    for table in [] if of_records else holding:
        _check_same_targets(schema, positions, best, table, "table")
    return best.margin(positions, is_exact=True)


def _check_same_targets(schema: Schema, positions: Sequence[int], first: Target, second: Target, kind: str) -> None:
    """Raise where two tables differ by a person or more in the margin of some variables."""
    margins = [table.margin(positions) for table in (first, second)]
    difference = np.abs(margins[0].low - margins[1].low)
    if difference.max(initial=0.0) < 1.0:
        return
    worst = int(difference.argmax())
    of_first, of_second = (
        f"{float(margin.low[worst]):,.1f} in the {kind} {table.name(schema)}"
        for margin, table in zip(margins, (first, second), strict=True)
    )
    cell = margins[0].describe(schema, worst)
    raise DataError(f"exact margins contradict each other: {cell} has {of_first} and {of_second} persons")


# Published tables of any kind


def published_targets(published: PublishedTables, n: int, exact: Iterable[Names] = ()) -> list[Target]:
    """Return the targets of a population of n persons; means are left to the model."""
    plain = dict.fromkeys(published.plain)
    complete = [_complete_target(published, table, n) for table in plain]
    n_people = float(max(plain, key=lambda table: table.weight).counts.sum()) if plain else 0.0
    others = [_published_target(published, table, n, n_people) for table in published.tables if table not in plain]
    fine, coarse = [], []
    for names in exact:
        positions = published.schema.indices(names)
        variables = [published.schema.names[position] for position in positions]
        is_complete_margin = any(set(positions) <= set(table.variables) for table in complete)
        margins = [] if is_complete_margin else [table.margin(variables) for table in published.holding(variables)]
        if not margins:
            fine.append(names)
        else:
            finest = max(margins, key=lambda table: table.counts.size)
            goals = _published_target(published, finest, n, float(finest.counts.sum()))
            coarse.append(replace(goals, is_exact=True))
    # Exact ones come last, so that they hold after each pass.
    return [*others, *coarse, *_complete_targets(published.schema, complete, fine)]


def _complete_target(published: PublishedTables, table: PublishedTable, n: int) -> Target:
    places = TablePlaces.of(published, table)
    return Target.of_counts(places.variables, table.counts.ravel()[places.cell_of], n, table.weight)


def _published_target(published: PublishedTables, table: PublishedTable, n: int, n_people: float) -> Target:
    """Return the target of a table of which a cell is any set of combinations.

    Of people of a part of all, or of percentages of rows, only shares count: how many they are, others say. Where some
    numbers are bounds, the table's total is that of other tables, ``n_people``, if it can be.
    """
    places = TablePlaces.of(published, table)
    total = n_people if table.low.sum() <= n_people <= table.high.sum() else float(table.counts.sum())
    low, high = (numbers.ravel() * (n / total) for numbers in (table.low, np.minimum(table.high, total)))
    return Target(places.variables, places.cell_of, low, high, table.weight, blocks=places.blocks)
