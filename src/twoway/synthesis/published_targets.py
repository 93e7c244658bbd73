"""What published tables of any kind say of a population: coarser categories, parts of all people, shares, bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from twoway.model.events import Names
from twoway.synthesis.persons import Rule
from twoway.synthesis.targets import CompleteTable, Target, complete_targets
from twoway.tables.published.pairs import complete_counts
from twoway.tables.published.places import TablePlaces
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables


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
        positions = set(published.schema.indices(names))
        margin = None
        if not any(positions <= set(table.positions) for table in complete):
            margin = _coarse_margin(published, [names] if isinstance(names, str) else list(names))
        if margin is None:
            wanted.append(names)
        else:
            goals = _any_target(published, margin, n, float(margin.counts.sum()))
            coarse.append(replace(goals, is_exact=True))
    # Exact ones come last, so that they hold after each pass.
    return [*others, *coarse, *complete_targets(published.schema, complete, n, wanted)]


def _coarse_margin(published: PublishedTables, names: Sequence[str]) -> PublishedTable | None:
    """Return the margin of a table of all people in coarser categories, of the one with most of these."""
    holding = [
        table
        for table in published.tables
        if set(names) <= set(table.variables)
        and table.is_known
        and not table.given
        and not published.universe(table.within)
    ]
    if not holding:
        return None
    margins = [table.margin(names) for table in holding]
    return max(margins, key=lambda table: table.counts.size)


def published_rules(published: PublishedTables) -> list[Rule]:
    """Return the combinations that nobody has."""
    return [{position: np.array(sorted(codes)) for position, codes in rule.items()} for rule in published.rules]


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
