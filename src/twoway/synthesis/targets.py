"""What the tables of a population must be: numbers of cells, each a sum over persons, from whatever was published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, Ints
from twoway.errors import DataError
from twoway.model.events import Names
from twoway.schema import Schema
from twoway.tables.published.places import TablePlaces, placed_counts
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
        codes = self.combinations(cell)[0].tolist()
        variables = (schema.variables[position] for position in self.variables)
        return ", ".join(
            f"{variable.name} = {variable.categories[code]!r}" for variable, code in zip(variables, codes, strict=True)
        )


@dataclass(frozen=True, eq=False)
class TargetCells:
    """The cells of all targets one after the other, and the one of each that each person is in."""

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
        for row, start, target in zip(of_person, starts, targets, strict=False):
            own = target.cells(codes)
            row[:] = np.where(own < 0, starts[-1], own + start)
        low, high = (np.concatenate([[], *(getattr(target, end) for target in targets)]) for end in ("low", "high"))
        blocks, n_blocks = np.full(len(low), -1), 0
        for start, target in zip(starts, targets, strict=False):
            if target.blocks is not None:
                blocks[start : start + len(target.low)] = n_blocks + target.blocks
                n_blocks += int(target.blocks.max()) + 1
        totals = np.bincount(blocks[blocks >= 0], ((low + high) / 2)[blocks >= 0], n_blocks)
        return cls(of_person, low, high, blocks, np.maximum(totals, 1e-300), starts)

    def settled(self, weights: Floats) -> TargetCells:
        """Return the cells with the sums that groups of unknown sums have by the weights, so that all are known."""
        is_open = self.blocks >= 0
        own = self.blocks[is_open]
        now = np.bincount(own, self.sums(weights)[is_open], len(self.totals))
        scale = np.ones(len(self.low))
        scale[is_open] = (now / self.totals)[own]
        closed = np.full(len(self.low), -1)
        return TargetCells(self.of_person, self.low * scale, self.high * scale, closed, np.zeros(0), self.starts)

    def sums(self, weights: NDArray[np.number]) -> Floats:
        """Return the sum of the weights of each cell's persons, shape (n_cells,)."""
        n_cells = int(self.starts[-1])
        counted = [np.bincount(row, weights, n_cells + 1)[:-1] for row in self.of_person]
        return np.asarray(np.sum(counted, axis=0)) if counted else np.zeros(0)

    def off(self, sums: Floats) -> Floats:
        """Return by how much each cell exceeds what it must be, negative where it falls short; shape (n_cells,)."""
        return sums - np.clip(sums, self.low, self.high)

    def worst(self, sums: Floats) -> tuple[Floats, Ints]:
        """Return how far the worst cell of each target is off, and its number in the target; (n_targets,) each."""
        ends = zip(self.starts[:-1], self.starts[1:], strict=True)
        parts = [np.abs(self.off(sums)[start:end]) for start, end in ends]
        return np.array([part.max() for part in parts]), np.array([part.argmax() for part in parts], dtype=np.int64)


def complete_target(positions: Sequence[int], counts: Floats, n: int, weight: float, *, is_exact: bool) -> Target:
    """Return the target of a table with a number for every combination, an axis for each variable, scaled to n."""
    goals = counts.ravel() * (n / counts.sum())
    cell_of = np.arange(goals.size, dtype=np.int32).reshape(counts.shape)
    return Target(tuple(positions), cell_of, goals, goals, weight, is_exact)


class TargetTable(NamedTuple):
    """A table with a number for every combination of the finest categories, of all people."""

    positions: tuple[int, ...]
    """Of its variables, ascending."""
    counts: Floats
    """An axis for each variable."""
    weight: float

    def margin(self, positions: Sequence[int], n: int) -> Floats:
        """Return the numbers of some of its variables, scaled to n persons."""
        others = tuple(axis for axis, position in enumerate(self.positions) if position not in positions)
        return np.asarray(self.counts.sum(axis=others) * (n / self.counts.sum()))


def table_targets(tables: Tables, n: int, exact: Iterable[Names] = ()) -> list[Target]:
    """Return the targets of a population of n persons: all tables, and the margins that must hold exactly."""
    sets = map(tuple, tables.sets.tolist())
    complete = [TargetTable(own, tables.array(i), float(tables.weights[i])) for i, own in enumerate(sets)]
    return complete_targets(tables.schema, complete, n, exact)


def complete_targets(
    schema: Schema, tables: Sequence[TargetTable], n: int, exact: Iterable[Names] = ()
) -> list[Target]:
    """Return the targets of complete tables, and of the margins that must hold exactly.

    Every table is scaled to n by its own total. Exact margins are rounded up or down to whole persons later, all of
    them together; those that contradict each other are an error.
    """
    wanted = list(dict.fromkeys(tuple(sorted(schema.indices(names))) for names in exact))
    margins = [_exact_target(schema, tables, positions, n) for positions in wanted]
    for pair in combinations(margins, 2):
        _check_exact_targets(schema, *pair)
    targets = [
        complete_target(table.positions, table.counts, n, table.weight, is_exact=False)
        for table in tables
        if table.positions not in wanted
    ]
    return [*targets, *margins]


def _exact_target(schema: Schema, tables: Sequence[TargetTable], positions: tuple[int, ...], n: int) -> Target:
    """Return the target of a margin, from the table that has it with the most records."""
    holding = [table for table in tables if set(positions) <= set(table.positions)]
    if not positions or not holding:
        known = shortlist(crossed_text((schema.names[own] for own in table.positions), None) for table in tables)
        margin = crossed_text((schema.names[position] for position in positions), None)
        raise DataError(f"no table of all people has the exact margin {margin!r}; these are {known}")
    best = max(holding, key=lambda table: table.weight)
    numbers = best.margin(positions, n)
    for table in holding:
        named = [crossed_text((schema.names[own] for own in one.positions), None) for one in (best, table)]
        places = [f"in the table {name}" for name in named]
        _check_targets_same(schema, positions, (numbers, table.margin(positions, n)), places)
    return complete_target(positions, numbers, n, best.weight, is_exact=True)


def _check_exact_targets(schema: Schema, first: Target, second: Target) -> None:
    """Raise where two exact margins have different numbers for the variables that they share."""
    shared = sorted(set(first.variables) & set(second.variables))
    sums = []
    for target in (first, second):
        others = tuple(axis for axis, position in enumerate(target.variables) if position not in shared)
        sums.append(np.asarray(target.low.reshape(target.cell_of.shape).sum(axis=others)))
    places = [f"in the exact margin {target.name(schema)}" for target in (first, second)]
    _check_targets_same(schema, shared, (sums[0], sums[1]), places)


def _check_targets_same(
    schema: Schema, positions: Sequence[int], numbers: tuple[Floats, Floats], places: Sequence[str]
) -> None:
    """Raise where two tables of the same variables differ by a person or more."""
    difference = np.abs(numbers[0] - numbers[1])
    if difference.max(initial=0.0) < 1.0:
        return
    worst = np.unravel_index(difference.argmax(), difference.shape)
    labels = (
        f"{schema.names[position]} = {schema.variables[position].categories[code]!r}"
        for position, code in zip(positions, worst, strict=True)
    )
    first, second = (f"{float(own[worst]):,.1f} {place}" for own, place in zip(numbers, places, strict=True))
    raise DataError(f"exact margins contradict each other: {', '.join(labels)} has {first} and {second} persons")


# Published tables of any kind


def published_targets(published: PublishedTables, n: int, exact: Iterable[Names] = ()) -> list[Target]:
    """Return the targets of a population of n persons; means are left to the model."""
    is_complete = [published.is_plain(table) and table.is_known for table in published.tables]
    pairs = list(zip(published.tables, is_complete, strict=True))
    complete = [_target_table(published, table) for table, whole in pairs if whole]
    best = max(complete, key=lambda table: table.weight, default=None)
    n_people = 0.0 if best is None else float(best.counts.sum())
    others = [_published_target(published, table, n, n_people) for table, whole in pairs if not whole]
    wanted, coarse = [], []
    for names in exact:
        positions = published.schema.indices(names)
        own = [published.schema.names[position] for position in positions]
        is_complete_margin = any(set(positions) <= set(table.positions) for table in complete)
        margins = [] if is_complete_margin else [table.margin(own) for table in published.holding(own)]
        if not margins:
            wanted.append(names)
        else:
            finest = max(margins, key=lambda table: table.counts.size)
            goals = _published_target(published, finest, n, float(finest.counts.sum()))
            coarse.append(replace(goals, is_exact=True))
    # Exact ones come last, so that they hold after each pass.
    return [*others, *coarse, *complete_targets(published.schema, complete, n, wanted)]


def _target_table(published: PublishedTables, table: PublishedTable) -> TargetTable:
    positions, counts = published.schema.indices(table.variables), placed_counts(published, table)
    order = np.argsort(positions)
    return TargetTable(tuple(positions[axis] for axis in order), counts.transpose(order), table.weight)


def _published_target(published: PublishedTables, table: PublishedTable, n: int, n_people: float) -> Target:
    """Return the target of a table of which a cell is any set of combinations.

    Of people of a part of all, or of percentages of rows, only shares count: how many they are, others say. Where some
    numbers are bounds, the table's total is that of other tables, ``n_people``, if it can be.
    """
    places = TablePlaces.of(published, table)
    total = n_people if table.low.sum() <= n_people <= table.high.sum() else float(table.counts.sum())
    low, high = (numbers.ravel() * (n / total) for numbers in (table.low, np.minimum(table.high, total)))
    return Target(places.variables, places.cell_of, low, high, table.weight, blocks=places.blocks)
