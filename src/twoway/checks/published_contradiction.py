"""Published tables that disagree: about the shares of a variable, or about how many people there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from twoway.arrays import Floats
from twoway.checks.chance import holm, homogeneity
from twoway.checks.contradiction import followed_side
from twoway.model.pmf import JointPMF
from twoway.tables.published.pairs import Codes
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables
from twoway.text import shortlist

_SIGNIFICANT = 0.01
# Published numbers are rounded, and censuses count whole populations: smaller differences are no contradiction.
_LEAST_CHANGE = 0.005
_LEAST_RATIO = 1.01
_MOST_NAMED = 3


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
    return [*_totals(whole), *_shares(published, whole, pmf)]


def _totals(tables: Sequence[PublishedTable]) -> list[str]:
    known = [table for table in tables if table.is_known and not table.notes]
    if len(known) < 2:
        return []
    least, most = (pick(known, key=lambda table: float(table.counts.sum())) for pick in (min, max))
    few, many = float(least.counts.sum()), float(most.counts.sum())
    if many <= _LEAST_RATIO * few:
        return []
    return [f"tables differ in the number of people: {many:,.0f} in {most.name}, {few:,.0f} in {least.name}"]


def _shares(published: PublishedTables, tables: Sequence[PublishedTable], pmf: JointPMF | None) -> list[str]:
    compared: list[tuple[float, float, str]] = []
    for name in published.schema.names:
        holding = [table for table in tables if name in table.variables and table.is_known]
        for first, second in combinations(holding, 2):
            axes = [published.axis_codes(table, table.variables.index(name)) for table in (first, second)]
            parts = _common(axes)
            counts = np.array(
                [_counts(table, name, codes, parts) for table, codes in zip((first, second), axes, strict=True)]
            )
            shares = counts / counts.sum(axis=1, keepdims=True)
            worst = int(np.argmax(np.abs(shares[0] - shares[1])))
            change = 0.5 * float(np.abs(shares[0] - shares[1]).sum())
            own = [published.schema[name].categories[code] for code in parts[worst]]
            sides = [(float(shares[at, worst]), table.name) for at, table in enumerate((first, second))]
            text = f"{name!r} {shortlist(own, 3)}: " + ", ".join(f"{share:.2%} in {table}" for share, table in sides)
            text += "" if pmf is None else "; " + followed_side(pmf.prob({name: own}), sides)
            compared.append((homogeneity(counts), change, text))
    if not compared:
        return []
    corrected = holm([p for p, _, _ in compared])
    off = [one for one, p in zip(compared, corrected, strict=True) if p < _SIGNIFICANT and one[1] > _LEAST_CHANGE]
    off.sort(key=lambda one: -one[1])
    return [f"tables disagree by more than chance about {text}" for _, _, text in off[:_MOST_NAMED]]


def _common(sides: Sequence[Sequence[Codes]]) -> list[Codes]:
    """Return the finest sets of categories of which both tables have sums."""
    parts: list[set[int]] = []
    for codes in (set(own) for side in sides for own in side):
        touching = [part for part in parts if part & codes]
        parts = [part for part in parts if not part & codes] + [codes.union(*touching)]
    return [tuple(sorted(part)) for part in parts]


def _counts(table: PublishedTable, name: str, codes: Sequence[Codes], parts: Sequence[Codes]) -> Floats:
    """Return the effective numbers of people in sets of categories."""
    axis = table.variables.index(name)
    sums = table.shares.sum(axis=tuple(one for one in range(table.counts.ndim) if one != axis)) * table.weight
    return np.array([sum(s for s, own in zip(sums, codes, strict=True) if set(own) <= set(part)) for part in parts])
