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
from twoway.tables.published.pairs import complete_counts
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


def complete_target(positions: Sequence[int], counts: Floats, n: int, weight: float, *, is_exact: bool) -> Target:
    """Return the target of a table with a number for every combination, an axis for each variable, scaled to n."""
    goals = counts.ravel() * (n / counts.sum())
    cell_of = np.arange(goals.size, dtype=np.int32).reshape(counts.shape)
    return Target(tuple(positions), cell_of, goals, goals, weight, is_exact)


class CompleteTable(NamedTuple):
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
    complete = [CompleteTable(own, tables.array(i), float(tables.weights[i])) for i, own in enumerate(sets)]
    return complete_targets(tables.schema, complete, n, exact)


def complete_targets(
    schema: Schema, tables: Sequence[CompleteTable], n: int, exact: Iterable[Names] = ()
) -> list[Target]:
    """Return the targets of complete tables, and of the margins that must hold exactly.

    Every table is scaled to n by its own total. Exact margins are rounded up or down to whole persons later, all of
    them together; those that contradict each other are an error.
    """
    wanted = list(dict.fromkeys(tuple(sorted(schema.indices(names))) for names in exact))
    margins = [_exact_margin(schema, tables, positions, n) for positions in wanted]
    for pair in combinations(margins, 2):
        _check_exact_agree(schema, *pair)
    targets = [
        complete_target(table.positions, table.counts, n, table.weight, is_exact=False)
        for table in tables
        if table.positions not in wanted
    ]
    return [*targets, *margins]


def _exact_margin(schema: Schema, tables: Sequence[CompleteTable], positions: tuple[int, ...], n: int) -> Target:
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
        _check_same(schema, positions, (numbers, table.margin(positions, n)), places)
    return complete_target(positions, numbers, n, best.weight, is_exact=True)


def _check_exact_agree(schema: Schema, first: Target, second: Target) -> None:
    """Raise where two exact margins have different numbers for the variables that they share."""
    shared = sorted(set(first.variables) & set(second.variables))
    sums = []
    for target in (first, second):
        others = tuple(axis for axis, position in enumerate(target.variables) if position not in shared)
        sums.append(np.asarray(target.low.reshape(target.cell_of.shape).sum(axis=others)))
    places = [f"in the exact margin {target.name(schema)}" for target in (first, second)]
    _check_same(schema, shared, (sums[0], sums[1]), places)


def _check_same(
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
    complete = [_complete_table(published, table) for table, whole in pairs if whole]
    best = max(complete, key=lambda table: table.weight, default=None)
    n_people = 0.0 if best is None else float(best.counts.sum())
    others = [_any_target(published, table, n, n_people) for table, whole in pairs if not whole]
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
            goals = _any_target(published, finest, n, float(finest.counts.sum()))
            coarse.append(replace(goals, is_exact=True))
    # Exact ones come last, so that they hold after each pass.
    return [*others, *coarse, *complete_targets(published.schema, complete, n, wanted)]


def _complete_table(published: PublishedTables, table: PublishedTable) -> CompleteTable:
    positions, counts = published.schema.indices(table.variables), complete_counts(published, table)
    order = np.argsort(positions)
    return CompleteTable(tuple(positions[axis] for axis in order), counts.transpose(order), table.weight)


def _any_target(published: PublishedTables, table: PublishedTable, n: int, n_people: float) -> Target:
    """Return the target of a table of which a cell is any set of combinations.

    Of people of a part of all, or of percentages of rows, only shares count: how many they are, others say. Where some
    numbers are bounds, the table's total is that of other tables, ``n_people``, if it can be.
    """
    places = TablePlaces.of(published, table)
    total = n_people if table.low.sum() <= n_people <= table.high.sum() else float(table.counts.sum())
    low, high = (numbers.ravel() * (n / total) for numbers in (table.low, np.minimum(table.high, total)))
    return Target(places.variables, places.cell_of, low, high, table.weight, blocks=places.blocks)
