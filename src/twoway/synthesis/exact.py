"""Margins that must hold exactly: the fewest changes of a population after which they do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from twoway.arrays import Bools, Floats, Ints
from twoway.errors import DataError
from twoway.schema import Schema
from twoway.synthesis.targets import NEARLY_WHOLE, TargetCells
from twoway.text import counted, shortlist

# Kinds of persons among which a first solution is sought, then all; nodes of the search, a limit that, unlike time,
# gives the same result on every machine.
_FIRST_KINDS = 4000
_MOST_NODES = 2000


def settle_exact_margins(schema: Schema, cells: TargetCells, weights: Floats, counts: Ints, rng: Generator) -> Ints:
    """Return numbers of persons near the given ones for which all exact targets hold; the total does not change.

    A cell must have its number, rounded up or down where that is not whole. Only the cells that a person is in matter
    to the exact targets, so that persons in the same cells are one kind. How many more or fewer there are of each kind
    is a small integer program, which HiGHS solves.
    """
    is_exact = cells.is_exact
    bound = replace(cells, of_person=cells.of_person[is_exact])
    low, high = np.floor(cells.low + NEARLY_WHOLE), np.ceil(cells.high - NEARLY_WHOLE)
    is_bound = np.repeat(is_exact, np.diff(cells.starts))
    sums = bound.sums(counts)
    if not is_exact.any() or ((sums >= low) & (sums <= high))[is_bound].all():
        return counts
    kinds, kind_of = np.unique(bound.of_person, axis=1, return_inverse=True)
    kind_of = kind_of.ravel()
    people, weight = (np.bincount(kind_of, numbers).astype(np.float64) for numbers in (counts, weights))
    for chosen in _exact_candidates(people, weight, rng):
        change = _fewest_exact_changes(
            kinds[:, chosen], people[chosen], weight[chosen], (low - sums)[is_bound], (high - sums)[is_bound], is_bound
        )
        if change is not None:
            changes = np.zeros(kinds.shape[1], dtype=np.int64)
            changes[chosen] = change
            return _apply_exact_changes(changes, kind_of, weights, counts, rng)
    names = shortlist(target.name(schema) for target in cells.targets if target.is_exact)
    raise DataError(
        f"no population of {counted(counts.sum(), 'person')} was found that has the exact margins {names} together; "
        "declare fewer of them exact"
    )


def _exact_candidates(people: Floats, weight: Floats, rng: Generator) -> list[Ints]:
    """Return the kinds of persons among which to search: the heaviest and some at random, then all."""
    n_kinds = len(people)
    if n_kinds <= _FIRST_KINDS:
        return [np.arange(n_kinds)]
    order = np.argsort(-(weight + people), kind="stable")
    others = rng.choice(order[_FIRST_KINDS // 2 :], _FIRST_KINDS // 2, replace=False)
    return [np.sort(np.concatenate([order[: _FIRST_KINDS // 2], others])), np.arange(n_kinds)]


def _fewest_exact_changes(
    kinds: NDArray[np.int32], people: Floats, weight: Floats, low: Floats, high: Floats, is_bound: Bools
) -> Ints | None:
    """Return how many more persons there must be of each kind, fewer where negative; None without a solution.

    ``kinds`` (n_targets, n_kinds) has cells, ``low`` and ``high`` what each cell that is bound must gain.
    """
    n_kinds = kinds.shape[1]
    places = kinds.ravel(), np.tile(np.arange(n_kinds), len(kinds))
    in_cells: Any = sparse.csr_array((np.ones(kinds.size), places), shape=(len(is_bound) + 1, n_kinds))
    # The last row is the number of all persons, which stays.
    member = sparse.vstack([in_cells[np.flatnonzero(is_bound)], sparse.csr_array(np.ones((1, n_kinds)))])
    # More of a kind, then fewer of it. What is rare costs more: likely persons are added, unlikely ones removed.
    rarity = -np.log((weight + 1e-9) / (weight.max() + 1e-9))
    rarity /= max(float(rarity.max()), 1e-9)
    most = max(float(np.abs(np.concatenate([low, high])).sum()), 1.0)
    result = milp(
        np.concatenate([1.0 + rarity, 2.0 - rarity]),
        integrality=np.ones(2 * n_kinds),
        bounds=Bounds(0.0, np.concatenate([np.full(n_kinds, most), people])),
        constraints=LinearConstraint(
            sparse.hstack([member, -member], format="csc"), np.append(low, 0.0), np.append(high, 0.0)
        ),
        options={"node_limit": _MOST_NODES, "mip_rel_gap": 0.1},
    )
    if result.x is None:
        return None
    added, removed = np.rint(result.x).astype(np.int64).reshape(2, n_kinds)
    return np.asarray(added - removed)


def _apply_exact_changes(changes: Ints, kind_of: Ints, weights: Floats, counts: Ints, rng: Generator) -> Ints:
    """Return numbers of persons after adding or removing some of each kind, drawn from those of the kind."""
    changed = counts.copy()
    order = np.argsort(kind_of, kind="stable")
    ends = np.cumsum(np.bincount(kind_of, minlength=len(changes)))
    for kind in np.flatnonzero(changes).tolist():
        members = order[ends[kind - 1] if kind else 0 : ends[kind]]
        if changes[kind] > 0:
            shares = weights[members] / weights[members].sum()
            np.add.at(changed, rng.choice(members, int(changes[kind]), p=shares), 1)
        else:
            changed[members] -= rng.multivariate_hypergeometric(
                changed[members], int(-changes[kind]), method="marginals"
            )
    return changed
