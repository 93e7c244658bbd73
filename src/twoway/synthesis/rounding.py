"""From weights to whole persons: each weight is rounded down or up, so that tables keep their sums.

Truncate, replicate, sample (Lovelace and Ballas, 2013) gives every person the whole part of its weight, and draws who
gets one more by the rest of it. Then pairs of persons are exchanged wherever that brings tables nearer to their goals
(combinatorial optimization; Williamson, Birkin and Rees, 1998).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.kernels.raking import swap
from twoway.solvers.watch import Watch
from twoway.synthesis.targets import Target, TargetCells

# Pairs that are tried at once; at most so many times, and as long as this share of the chosen persons is exchanged.
_PAIRS, _MOST_TIMES, _LEAST_EXCHANGED = 200_000, 60, 2e-4
# How much a person too many counts in a table that must be exact, beside others.
_EXACT_IMPORTANCE = 10.0


def round_weights(
    cells: TargetCells, weights: Floats, targets: Sequence[Target], n: int, rng: np.random.Generator, watch: Watch
) -> Ints:
    """Return how many persons there are of each kind, n in all; weights add up to n."""
    whole = np.floor(weights)
    rest = weights - whole
    n_chosen = n - int(whole.sum())
    if n_chosen < 0 or n_chosen > np.count_nonzero(rest):  # the sum of weights is n but for rounding
        whole, rest = np.maximum(whole - 1.0, 0.0), weights - np.maximum(whole - 1.0, 0.0)
        n_chosen = n - int(whole.sum())
    chosen = round_by_share(rest, n_chosen, rng)
    if targets and 0 < n_chosen < len(weights):
        _exchange_rounded(cells, weights, whole, chosen, targets, rng, watch)
    return np.asarray(whole + chosen, dtype=np.int64)


def round_by_share(shares: Floats, n: int, rng: np.random.Generator) -> Bools:
    """Return n of some persons, each chosen with a probability in proportion to its share, which is at most 1.

    Systematic sampling of a random order, in which nobody is chosen twice.
    """
    order = rng.permutation(len(shares))
    ends = np.cumsum(shares[order])
    chosen = np.zeros(len(shares), dtype=bool)
    if n == 0:
        return chosen
    marks = (np.arange(n) + rng.random()) * (ends[-1] / n)
    places = np.searchsorted(ends, marks, side="right").clip(max=len(shares) - 1)
    # Where rounding let two marks fall on one, the next that is free.
    chosen[order[places]] = True
    missing = n - np.count_nonzero(chosen)
    chosen[order[np.flatnonzero(~chosen[order])[:missing]]] = True
    return chosen


def _exchange_rounded(
    cells: TargetCells,
    weights: Floats,
    whole: Floats,
    chosen: Bools,
    targets: Sequence[Target],
    rng: np.random.Generator,
    watch: Watch,
) -> None:
    """Exchange chosen persons for others, in place, as long as that brings tables nearer to those of the weights."""
    rest = weights - whole
    pool = np.flatnonzero(rest > 0)
    rows = np.ascontiguousarray(cells.of_person[:, pool].T)
    off = np.append(cells.sums(whole + chosen) - cells.sums(weights), 0.0)
    importance = np.array([_EXACT_IMPORTANCE if target.is_exact else 1.0 for target in targets])
    mine, ends, n_chosen = chosen[pool], np.cumsum(rest[pool]), np.count_nonzero(chosen)
    show = watch.counting("rounding", _MOST_TIMES)
    for number in range(_MOST_TIMES):
        show(number)
        # By their shares, so that unlikely persons do not become likelier.
        entering = np.searchsorted(ends, rng.random(_PAIRS) * ends[-1], side="right").clip(max=len(pool) - 1)
        leaving = rng.choice(np.flatnonzero(mine), _PAIRS)
        if swap(rows, mine, off, importance, leaving, entering) <= _LEAST_EXCHANGED * n_chosen:
            break
    chosen[pool] = mine
