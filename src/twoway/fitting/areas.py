"""Models of many areas with the same tables: each alone, or drawn toward the model of all areas together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from twoway.arrays import Floats
from twoway.errors import DataError
from twoway.fitting.fit import fit
from twoway.fitting.published_fit import reported_published_fit
from twoway.model.pmf import JointPMF
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.table_sums import TableSums
from twoway.solvers.theta import theta_groups, theta_of, theta_tree_rows
from twoway.solvers.watch import Watch
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables
from twoway.text import crossed_text

# Pseudo-people by which an area is drawn toward the whole, of which one number is chosen for all areas.
_STRENGTHS = tuple(10.0**power for power in range(7))
_HELD_OUT = 0.2
_MOST_AREAS = 8
_PASSES, _CHOICE_PASSES, _TOL = 1000, 100, 1e-6


def fit_areas(
    tables: Mapping[str, Tables | PublishedTables], *, share: bool = False, seed: int = 0, **options: Any
) -> dict[str, JointPMF]:
    """Return a model of each area.

    Parameters
    ----------
    tables
        The tables of each area, as `read_published_areas` returns them.
    share
        Whether areas share strength: each one is then drawn toward the model of all areas together, by as many
        pseudo-people as predict best what is held out of the tables. So small areas get what is usual where their own
        few people do not tell.
    seed
        The source of every random choice.
    **options
        Those of `fit`.

    Examples
    --------
    >>> from twoway.tables.published.table import PublishedTable
    >>> def area(m, f):
    ...     counts = {("young", "m"): m, ("young", "f"): f, ("old", "m"): 9, ("old", "f"): 9}
    ...     return PublishedTables.of([PublishedTable.of(["age", "sex"], counts)])
    >>> models = fit_areas({"Alder": area(900, 920), "Birch": area(8, 11)}, share=True)
    >>> round(models["Birch"].prob({"age": "young"}), 1)
    0.6
    """
    if not tables:
        raise DataError("there is no area; at least one is needed")
    if not share:
        return {name: fit(own, seed=seed, **options) for name, own in tables.items()}
    by_area = {
        name: own if isinstance(own, PublishedTables) else PublishedTables.of([own], schema=own.schema)
        for name, own in tables.items()
    }
    whole = fit(_sum_of_areas(by_area), seed=seed, **options)
    threads = options.get("threads")
    strength = _area_strength(by_area, whole, seed, threads)
    models = {}
    for name, own in by_area.items():
        loop = Loop(f"area {name}", _PASSES, _TOL)
        descent = _area_drawn_toward(whole, TableSums.of(own, threads), strength, loop)
        note = f"drawn toward the model of all {len(by_area)} areas by {strength:g} pseudo-people"
        assert whole.report is not None
        models[name] = reported_published_fit(own, whole.report, descent, [note])
    return models


def _sum_of_areas(by_area: Mapping[str, PublishedTables]) -> PublishedTables:
    (first_name, first), *others = by_area.items()
    for name, other in others:
        if other.schema != first.schema or len(other.tables) != len(first.tables):
            difference = first.schema.difference(other.schema) or "other tables"
            raise DataError(
                f"areas that share strength need the same tables; {name!r} has, unlike {first_name!r}, {difference}"
            )
    sums = [reduce(_added_areas, own) for own in zip(*(area.tables for area in by_area.values()), strict=True)]
    return replace(first, tables=tuple(sums))


def _added_areas(left: PublishedTable, right: PublishedTable) -> PublishedTable:
    if (left.variables, left.categories, dict(left.within)) != (right.variables, right.categories, dict(right.within)):
        raise DataError(f"areas that share strength need the same tables; {crossed_text(left.variables)} differs")
    totals = {axes: left.totals[axes] + right.totals[axes] for axes in left.totals if axes in right.totals}
    return replace(
        left,
        counts=left.counts + right.counts,
        low=left.low + right.low,
        high=left.high + right.high,
        weight=left.weight + right.weight,
        totals=totals,
    )


def _area_drawn_toward(whole: JointPMF, sums: TableSums, strength: float, loop: Loop) -> Descent:
    """Return the fit of an area, with pseudo-people who are like those of the whole."""
    prior = theta_of(whole)[:, : whole.rank]
    (tree,) = whole.trees.trees
    states = [tree.shares[home] for home in (*range(1, tree.n_hidden), *tree.homes)]
    parents = [tree.shares[parent] for parent in tree.parents[1:]]
    groups = theta_groups(whole)
    # Each state has its share of the pseudo-people: of a transition, those of the parent's states.
    for start, end, shares in zip(groups[:-1], groups[1:], [*parents, *states[tree.n_hidden - 1 :]], strict=True):
        prior[1 + start : 1 + end, : len(shares)] *= shares * len(shares)
    prior[0] *= whole.rank
    # What smoothing makes of a variable's size, or of the tables that it is in, must not change the strength.
    amounts, _ = sums.smoothing_of_rows(whole, Smoothing(1.0, 1.0))
    amounts *= np.repeat(sums.copies_of_groups(whole), np.diff([-1, *groups]))
    prior = prior / amounts[:, None]
    amount = strength / whole.rank
    return fit_cells_by_em(sums, whole, Smoothing(amount, amount), loop, prior)


def _area_strength(by_area: Mapping[str, PublishedTables], whole: JointPMF, seed: int, threads: int | None) -> float:
    """Return the number of pseudo-people with which counts that were held out are predicted best."""
    random = np.random.default_rng([seed, 1])
    names = random.permutation(list(by_area))[:_MOST_AREAS]
    parts = [_parted_area(by_area[name], random) for name in names.tolist()]
    scores = []
    for strength in _STRENGTHS:
        loop = Loop("choosing how much areas share", _CHOICE_PASSES, 1e-5, Watch())
        score = 0.0
        for train, held in parts:
            pmf = _area_drawn_toward(whole, TableSums.of(train, threads), strength, loop).pmf
            expected = TableSums.of(held, threads).expected(theta_of(pmf), pmf.rank, theta_tree_rows(pmf))
            # Per person, so that one large area does not decide for all small ones.
            score += expected.log_likelihood / sum(table.weight for table in held.tables)
        scores.append(score)
    return _STRENGTHS[int(np.argmax(scores))]


def _parted_area(published: PublishedTables, random: np.random.Generator) -> tuple[PublishedTables, PublishedTables]:
    """Return tables without some of their people, and tables of these."""
    train, held = [], []
    for table in published.tables:
        people = np.rint(table.shares * max(table.weight, 1.0)).astype(np.int64)
        out = random.binomial(people, _HELD_OUT).astype(np.float64)
        train.append(_area_with_counts(table, people - out))
        if out.any():
            held.append(_area_with_counts(table, out))
    bare = replace(published, exact=(), impossible=())
    return replace(bare, tables=tuple(train)), replace(bare, tables=tuple(held))


def _area_with_counts(table: PublishedTable, counts: Floats) -> PublishedTable:
    return replace(table, counts=counts, low=counts, high=counts, weight=float(counts.sum()), totals={})
