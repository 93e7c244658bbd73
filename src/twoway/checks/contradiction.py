"""Tables that cannot all be right: no joint has them, or they disagree about shares or numbers of people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from operator import itemgetter

import numpy as np

from twoway.arrays import Floats, Ints, sums_by
from twoway.checks.significance import holm_corrected, homogeneity_p_value
from twoway.checks.table_program import ProgramAxis, TableProgram, program_tables
from twoway.model.pmf import JointPMF
from twoway.notebook import Shown
from twoway.tables.published.pairs import Codes
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables
from twoway.text import crossed_text, printable, shortlist

_MAX_CELLS = 1024
_LEVEL = 0.99
# Published shares are rounded: what two decimals hide is not a contradiction.
_MIN_CHANGE = 0.01
_SIGNIFICANT = 0.01
# Published numbers are rounded, and censuses count whole populations: smaller differences are no contradiction.
_LEAST_CHANGE = 0.005
_LEAST_RATIO = 1.01
# Variables that are named; the others are counted.
_MAX_NAMED = 3


@dataclass(frozen=True, repr=False)
class Contradiction(Shown):
    """Variables whose tables no joint has."""

    variables: tuple[str, ...]
    change: float
    """The least total by which shares must change, beyond sampling error, before some joint has them."""

    def __str__(self) -> str:
        return (
            f"the tables of {shortlist(self.variables, 6)} contradict each other: beyond sampling error, shares must "
            f"change by {self.change:.2g} in total before any joint has these tables"
        )


def find_contradiction(
    tables: Tables, suspects: Iterable[Sequence[str]] = (), *, most_groups: int = 12
) -> Contradiction | None:
    """Return variables whose two-way tables contradict each other by more than chance; None where none were found.

    All variables are checked together if their joint is small, otherwise up to ``most_groups`` triangles of tables
    around the suspects: pairs that a model does not fit, the worst first.

    Examples
    --------
    >>> from twoway.data.records import Records
    >>> same, other = [0, 1] * 500, [1, 0] * 500
    >>> first = Tables.count(Records({"a": same, "b": same}))
    >>> second = Tables.count(Records({"b": same, "c": same}))
    >>> third = Tables.count(Records({"a": same, "c": other}))
    >>> find_contradiction(first + second) is None
    True
    >>> print(find_contradiction(first + second + third))
    the tables of 'a', 'b', 'c' contradict each other: beyond sampling error, shares must change by 0.81 in total \
before any joint has these tables
    """
    for group in islice(_suspected_contradictions(tables, suspects), most_groups):
        axes = ProgramAxis.full(tables.schema, group)
        if (change := TableProgram(program_tables(tables, axes), axes, _LEVEL).least_change) > _MIN_CHANGE:
            return Contradiction(tuple(tables.schema.names[index] for index in group), change)
    return None


def _suspected_contradictions(tables: Tables, suspects: Iterable[Sequence[str]]) -> Iterator[list[int]]:
    """Yield groups of variables, in schema order, whose joint is small enough to check."""
    schema = tables.schema
    if math.prod(schema.sizes) <= _MAX_CELLS:
        yield list(range(len(schema)))
        return
    for pair in suspects:
        first, second = schema.indices(pair)
        linked = tables.together[[first, second]].sum(axis=0)
        linked[[first, second]] = 0
        # Triangles first; two tables that share a variable may still disagree on its shares.
        for third in sorted(np.flatnonzero(linked).tolist(), key=lambda index: -int(linked[index])):
            if math.prod(schema.sizes[index] for index in (first, second, third)) <= _MAX_CELLS:
                yield sorted((first, second, third))


# Shares of one variable


def contradicting_shares(tables: Tables, pmf: JointPMF | None = None) -> list[str]:
    """Return a sentence for each variable whose shares differ between tables by more than chance and rounding.

    Each names the category and the two tables that are furthest apart. Tables are taken for independent samples of
    their effective numbers of records; tables of the same records differ less than that. With a model, a sentence also
    says which of the two it follows.

    Examples
    --------
    >>> import pandas as pd
    >>> age = pd.DataFrame({"young": [500, 510], "old": [510, 480]}, index=["men", "women"])
    >>> vote = pd.DataFrame({"no": [980, 500], "yes": [1010, 480]}, index=["men", "women"])
    >>> tables = Tables.from_crosstabs({("sex", "age"): age, ("sex", "vote"): vote})
    >>> print(contradicting_shares(tables)[0])
    tables disagree about sex: men is 50.50% of sex × age and 67.00% of sex × vote; chance and rounding explain less
    """
    from scipy.special import ndtri

    cells, table, shares = _contradicting_margins(tables)
    if not len(cells):
        return []
    schema = tables.schema
    weights, roundings = tables.weights[table], _contradiction_by_rounding(tables)[table]
    seen = np.bincount(cells, weights, schema.n_categories)
    pooled = np.bincount(cells, weights * shares, schema.n_categories) / np.maximum(seen, 1e-300)
    spread = np.sqrt(np.maximum(pooled * (1.0 - pooled), 0.0))[cells]
    # In standard errors, from the share in all tables; rounding moves a share by at most its own size.
    off = shares - pooled[cells]
    off = np.sign(off) * np.maximum(np.abs(off) - roundings, 0.0) * np.sqrt(weights)
    order = np.lexsort((off, cells))
    first = np.flatnonzero(np.diff(cells[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    low, high = order[first], order[last]
    gaps = shares[high] - shares[low] - roundings[high] - roundings[low]
    errors = spread[low] * np.sqrt(1.0 / weights[low] + 1.0 / weights[high])
    n_compared = float((np.bincount(cells, minlength=schema.n_categories) ** 2).sum())
    suspected = np.flatnonzero(gaps > -ndtri(_SIGNIFICANT / n_compared) * errors + 1e-9)
    deviates = gaps[suspected] / np.maximum(errors[suspected], 1e-300)
    # Rounded, so that the first of two categories is named that are equally far apart.
    worst: dict[int, tuple[int, int]] = {}
    for place in suspected[np.argsort(-deviates.round(6), kind="stable")]:
        variable = int(np.searchsorted(schema.offsets, cells[low[place]], side="right")) - 1
        worst.setdefault(variable, (low[place], high[place]))
    sentences = []
    for variable, ends in islice(worst.items(), _MAX_NAMED):
        label = schema.variables[variable].categories[cells[ends[0]] - schema.offsets[variable]]
        sides = [(float(shares[end]), crossed_text(tables.names[table[end]], 40)) for end in ends]
        parts = " and ".join(f"{share:.2%} of {name}" for share, name in sides)
        about = f"{printable(schema.names[variable], 40)}: {printable(label, 40)} is {parts}"
        followed = "" if pmf is None else "; " + _contradiction_side(pmf.prob({schema.names[variable]: label}), sides)
        sentences.append(f"tables disagree about {about}; chance and rounding explain less{followed}")
    if len(worst) > _MAX_NAMED:
        sentences.append(f"tables disagree about {len(worst) - _MAX_NAMED} more variables")
    return sentences


def _contradiction_side(share: float, sides: Sequence[tuple[float, str]]) -> str:
    """Return which of two tables a model follows, by its share and theirs.

    Examples
    --------
    >>> _contradiction_side(0.52, [(0.5, "sex × age"), (0.6, "sex × vote")])
    'the model has 52.00%, nearer to sex × age'
    >>> _contradiction_side(0.55, [(0.5, "sex × age"), (0.6, "sex × vote")])
    'the model has 55.00%, between the two'
    """
    near, far = sorted((abs(share - of_table), name) for of_table, name in sides)
    where = f"nearer to {near[1]}" if near[0] < 0.5 * far[0] else "between the two"
    return f"the model has {share:.2%}, {where}"


def _contradicting_margins(tables: Tables) -> tuple[Ints, Ints, Floats]:
    """Return cells, tables that count them, and their shares in these; each of shape (n_margins,)."""
    n_categories, table = max(tables.schema.n_categories, 1), tables.table_of_cell
    keys = [table * n_categories + cells for cells in tables.cells(np.arange(len(tables.flat))).T]
    margins, place = np.unique(np.concatenate(keys), return_inverse=True)
    counts = np.bincount(place, np.tile(tables.flat, len(keys))).astype(np.float64)
    table, cells = np.divmod(margins, n_categories)
    return cells, table, counts / tables.totals[table]


def _contradiction_by_rounding(tables: Tables) -> Floats:
    """Return by how much rounding can have moved a share in each table's margins, (n_tables,)."""
    if tables.heaviest is not None and not tables.releases:  # counted from records: neither published nor noisy
        return np.zeros(len(tables))
    sizes = np.array(tables.schema.sizes)[tables.sets]
    # The number of cells that add up to one of a margin.
    n_added = sizes.prod(axis=1) / sizes.min(axis=1)
    is_whole = np.logical_and.reduceat(tables.flat == np.rint(tables.flat), tables.starts[:-1])
    steps = np.ones(len(tables))
    for step in 10.0 ** np.arange(1, 7):
        scaled = tables.flat / step
        steps[np.logical_and.reduceat(scaled == np.rint(scaled), tables.starts[:-1])] = step
    # Counts are rounded to whole numbers, tens or thousands; percentages, at worst, to whole ones.
    return np.asarray(np.where(is_whole, 0.5 * steps / tables.totals, 0.005) * n_added)


# Published tables


def published_contradictions(published: PublishedTables, pmf: JointPMF | None = None) -> list[str]:
    """Return sentences on what tables of the same people disagree about, with both numbers, worst first.

    With a model, a sentence on shares also says which of the two it follows.

    Examples
    --------
    >>> from twoway.tables.published.table import PublishedTable
    >>> by_sex = PublishedTable.of(
    ...     ["age", "sex"], {("0-64", "m"): 40, ("0-64", "f"): 40, ("65+", "m"): 10, ("65+", "f"): 10}
    ... )
    >>> doubled = PublishedTable.of("sex", {"m": 100, "f": 100}, name="people by sex")
    >>> print(*published_contradictions(PublishedTables.of([by_sex, doubled])))
    tables differ in the number of people: 200 in people by sex, 100 in age × sex
    """
    whole = [table for table in published.tables if not published.universe(table.within) and not table.given]
    return [*_contradicting_totals(whole), *_contradicting_published_shares(published, whole, pmf)]


def _contradicting_totals(tables: Sequence[PublishedTable]) -> list[str]:
    people = [(float(table.counts.sum()), table.name) for table in tables if table.is_known and not table.notes]
    (few, least), (many, most) = (pick(people, key=itemgetter(0), default=(0.0, "")) for pick in (min, max))
    if many <= _LEAST_RATIO * few:
        return []
    return [f"tables differ in the number of people: {many:,.0f} in {most}, {few:,.0f} in {least}"]


def _contradicting_published_shares(
    published: PublishedTables, tables: Sequence[PublishedTable], pmf: JointPMF | None
) -> list[str]:
    compared: list[tuple[float, float, str]] = []
    for name in published.schema.names:
        holding = [table for table in tables if name in table.variables and table.is_known]
        for first, second in combinations(holding, 2):
            axes = [published.axis_codes(table, table.variables.index(name)) for table in (first, second)]
            parts = _contradiction_sets(axes)
            both = zip((first, second), axes, strict=True)
            counts = np.array([_contradiction_counts(table, name, codes, parts) for table, codes in both])
            shares = counts / counts.sum(axis=1, keepdims=True)
            worst = int(np.argmax(np.abs(shares[0] - shares[1])))
            change = 0.5 * float(np.abs(shares[0] - shares[1]).sum())
            labels = [published.schema[name].categories[code] for code in parts[worst]]
            sides = [(float(share), table.name) for share, table in zip(shares[:, worst], (first, second), strict=True)]
            text = f"{name!r} {shortlist(labels, 3)}: " + ", ".join(f"{share:.2%} in {table}" for share, table in sides)
            text += "" if pmf is None else "; " + _contradiction_side(pmf.prob({name: labels}), sides)
            compared.append((homogeneity_p_value(counts), change, text))
    compared.sort(key=lambda comparison: -comparison[1])
    corrected = zip(compared, holm_corrected([p for p, _, _ in compared]), strict=True)
    off = [text for (_, change, text), p in corrected if p < _SIGNIFICANT and change > _LEAST_CHANGE]
    return [f"tables disagree by more than chance about {text}" for text in off[:_MAX_NAMED]]


def _contradiction_sets(sides: Sequence[Sequence[Codes]]) -> list[Codes]:
    """Return the finest sets of categories of which both tables have sums."""
    parts: list[set[int]] = []
    for codes in (set(categories) for side in sides for categories in side):
        touching = [part for part in parts if part & codes]
        parts = [part for part in parts if not part & codes] + [codes.union(*touching)]
    return [tuple(sorted(part)) for part in parts]


def _contradiction_counts(table: PublishedTable, name: str, codes: Sequence[Codes], parts: Sequence[Codes]) -> Floats:
    """Return the effective numbers of people in sets of categories."""
    axis = table.variables.index(name)
    sums = sums_by(table.shares, [axis]) * table.weight
    return np.array([sum(s for s, some in zip(sums, codes, strict=True) if set(some) <= set(part)) for part in parts])
