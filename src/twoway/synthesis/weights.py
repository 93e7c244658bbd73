"""Weights of persons by which their tables agree with published ones, and their rounding to whole persons.

Iterative proportional fitting of the weights of draws (raking; Deming and Stephan, 1940; Deville, Särndal and Sautory,
1993). Tables that contradict each other have no such weights, and fitting one after the other goes round in circles.
The steps then get shorter and shorter, which leads to a compromise between all tables, each by its weight (strong
underrelaxation, as Censor, Eggermont and Gordon, 1983, show for linear equations).

Each weight is then rounded down or up, so that tables keep their sums. Truncate, replicate, sample (Lovelace and
Ballas, 2013) gives every person the whole part of its weight, and draws who gets one more by the rest of it. Then pairs
of persons are exchanged wherever that brings tables nearer to their goals (combinatorial optimization; Williamson,
Birkin and Rees, 1998).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.kernels.raking import rake, swap
from twoway.solvers.watch import Watch
from twoway.synthesis.targets import TargetCells

# Weights agree with a table if no cell is off by more than this share of all persons.
_TOLERANCE = 1e-6
# The fewest and the most passes; between them, as many as this number of steps of one person and one table allows.
_PASSES, _MOST_STEPS = (100, 4000), 1.2e9
# Tables contradict each other if the difference hardly falls within this number of passes. Where tables have zeros,
# raking may be as slow as one over the number of passes.
_PASSES_TO_GAIN, _GAIN = 20, 0.98
# The shortest step, and for how many passes each length is used.
_SHORTEST_STEP, _PASSES_PER_STEP = 0.02, 6
# Pairs that are tried at once; the most times, and the least share of the chosen persons exchanged to go on.
_PAIRS, _MOST_TIMES, _LEAST_EXCHANGED = 200_000, 60, 2e-4
# How much a person too many counts in a table that must be exact, beside others.
_EXACT_IMPORTANCE = 10.0


# Raking


def rake_weights(cells: TargetCells, weights: Floats, n: int, watch: Watch) -> Floats:
    """Return weights that add up to n persons and agree with all targets, or come as near to them as these allow."""
    weights, off = weights * (n / weights.sum()), np.zeros(len(cells.targets))
    most = int(np.clip(_MOST_STEPS / max(cells.of_person.size, 1), *_PASSES))
    show = watch.counting("raking", most)

    def one_pass(powers: Floats) -> float:
        arrays = cells.low, cells.high, cells.blocks, cells.totals, cells.starts
        rake(cells.of_person, weights, *arrays, powers, off)
        return float(off.max(initial=0.0))

    history = list[float]()
    while len(history) < most:
        show(len(history))
        history.append(one_pass(np.ones(len(off))))
        if history[-1] <= _TOLERANCE * n:
            break
        if len(history) > _PASSES_TO_GAIN and history[-1] > _GAIN * history[-1 - _PASSES_TO_GAIN]:
            _rake_to_compromise(cells, one_pass)
            break
    return np.asarray(weights * (n / weights.sum()))


def _rake_to_compromise(cells: TargetCells, one_pass: Callable[[Floats], float]) -> None:
    """Go on with shorter and shorter steps; exact targets hold all the while."""
    weight, step = np.array([target.weight for target in cells.targets]), 0.5
    while step > _SHORTEST_STEP:
        for _ in range(_PASSES_PER_STEP):
            one_pass(np.where(cells.is_exact, 1.0, step * weight / weight.max()))
        step /= 2


# Rounding


def round_weights(cells: TargetCells, weights: Floats, n: int, rng: np.random.Generator, watch: Watch) -> Ints:
    """Return how many persons there are of each kind, n in all; weights add up to n."""
    whole = np.floor(weights)
    rest = weights - whole
    n_chosen = n - int(whole.sum())
    if n_chosen < 0 or n_chosen > np.count_nonzero(rest):  # the sum of weights is n but for rounding
        whole, rest = np.maximum(whole - 1.0, 0.0), weights - np.maximum(whole - 1.0, 0.0)
        n_chosen = n - int(whole.sum())
    chosen = round_by_share(rest, n_chosen, rng)
    if cells.targets and 0 < n_chosen < len(weights):
        _exchange_rounded(cells, weights, whole, chosen, rng, watch)
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
    # Where rounding made two marks fall on one person, the next that is free.
    chosen[order[places]] = True
    missing = n - np.count_nonzero(chosen)
    chosen[order[np.flatnonzero(~chosen[order])[:missing]]] = True
    return chosen


def _exchange_rounded(
    cells: TargetCells, weights: Floats, whole: Floats, chosen: Bools, rng: np.random.Generator, watch: Watch
) -> None:
    """Exchange chosen persons for others, in place, as long as that brings tables nearer to those of the weights."""
    rest = weights - whole
    pool = np.flatnonzero(rest > 0)
    rows = np.ascontiguousarray(cells.of_person[:, pool].T)
    off = np.append(cells.sums(whole + chosen) - cells.sums(weights), 0.0)
    importance = np.where(cells.is_exact, _EXACT_IMPORTANCE, 1.0)
    is_chosen, ends, n_chosen = chosen[pool], np.cumsum(rest[pool]), np.count_nonzero(chosen)
    show = watch.counting("rounding", _MOST_TIMES)
    for number in range(_MOST_TIMES):
        show(number)
        # By their shares, so that unlikely persons do not become likelier.
        entering = np.searchsorted(ends, rng.random(_PAIRS) * ends[-1], side="right").clip(max=len(pool) - 1)
        leaving = rng.choice(np.flatnonzero(is_chosen), _PAIRS)
        if swap(rows, is_chosen, off, importance, leaving, entering) <= _LEAST_EXCHANGED * n_chosen:
            break
    chosen[pool] = is_chosen
