"""The most probable cell of a joint: of a small one by visiting each cell, of a large one by branch and bound.

A node of the search is a set of categories still allowed for each variable. With ``top_n(f)`` the largest
allowed entry of column f of variable n, no cell of the node is more probable than Σ_f weights_f · Π_n top_n(f),
and none that holds category i of variable n more than the same sum with A_n(i, f) in place of
top_n(f). Categories whose bound does not beat the best cell known are dropped, which lowers the bounds of
the others, until nothing changes; then the search branches on one variable.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.model.mixture import is_small_mixture, joint_chunks
from twoway.schema import Label

MAX_NODES = 20_000
"""Nodes visited before the search gives up on a proof."""
_MAX_SWEEPS = 100
_ROUNDING = 1e-10


@dataclass(frozen=True)
class Mode:
    """The most probable values of some variables."""

    values: dict[str, Label]
    """The label of each variable."""
    probability: float
    proven: bool
    """Whether it is certain that no other values are more probable."""


def find_mode(weights: Floats, factors: Sequence[Floats]) -> tuple[list[int], float, bool]:
    """Return the codes of the most probable cell, its probability, and whether that is proven."""
    if is_small_mixture(factors):
        return *visit_for_mode(weights, factors), True
    codes, log_probability, proven = search_mode(weights, factors)
    return codes, math.exp(log_probability), proven


def visit_for_mode(weights: Floats, factors: Sequence[Floats]) -> tuple[list[int], float]:
    """Return the codes of the most probable cell, the first of equals, by visiting every cell."""
    best, best_at, first = -1.0, 0, 0
    for chunk in joint_chunks(weights, factors):
        at = int(chunk.argmax())
        if chunk[at] > best:
            best, best_at = float(chunk[at]), first + at
        first += len(chunk)
    return [int(code) for code in np.unravel_index(best_at, [len(factor) for factor in factors])], best


def search_mode(
    weights: Floats, factors: Sequence[Floats], max_nodes: int = MAX_NODES
) -> tuple[list[int], float, bool]:
    """Return the most probable cell, the logarithm of its probability, and whether no other can beat it.

    After ``max_nodes`` it is the best cell so far.

    Parameters
    ----------
    weights
        Shape (rank,).
    factors
        One array (n_categories, rank) for each variable.
    max_nodes
        How many nodes may be visited.
    """
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
        logs = [np.log(factor) for factor in factors]
    best, best_log = _climb_to_mode(log_weights, factors, logs)
    stacked, log_stacked = np.vstack(factors), np.vstack(logs)
    offsets = np.cumsum([0, *(len(factor) for factor in factors)])
    variable_of = np.repeat(np.arange(len(factors)), np.diff(offsets))

    spans = list(itertools.pairwise(offsets))
    nodes = [np.ones(len(stacked), dtype=bool)]
    for _ in range(max_nodes):
        if not nodes:
            break
        allowed = nodes.pop()
        bounds = _tighten_mode_bounds(allowed, best_log, log_weights, log_stacked, offsets, variable_of)
        if bounds is None:
            continue
        n_allowed = np.add.reduceat(allowed, offsets[:-1], dtype=np.int64)
        # The heaviest category of each variable makes a cell: often a better one than any so far.
        likeliest = np.array([bounds[a:b].argmax() for a, b in spans])
        cell_log = _log_probability_of_mode(likeliest, log_weights, logs)
        if cell_log > best_log:
            best, best_log = likeliest, cell_log
        if n_allowed.max() == 1:
            continue
        # Branch where the second choice is least likely to survive: that side closes soon.
        is_open = zip(spans, n_allowed > 1, strict=True)
        chosen = int(np.argmin([np.sort(bounds[a:b])[-2] if several else np.inf for (a, b), several in is_open]))
        cells = np.arange(offsets[chosen], offsets[chosen + 1])
        for cell in cells[np.argsort(bounds[cells], kind="stable")]:
            if allowed[cell]:
                child = allowed.copy()
                child[cells] = False
                child[cell] = True
                nodes.append(child)
    return best.tolist(), best_log, not nodes


def _tighten_mode_bounds(
    allowed: Bools, best_log: float, log_weights: Floats, log_stacked: Floats, offsets: Ints, variable_of: Ints
) -> Floats | None:
    """Drop what cannot beat the best from ``allowed``, in place; return the bound of each cell, relative to the best.

    None means that nothing in this node can.
    """
    while True:
        logs = np.where(allowed[:, np.newaxis], log_stacked, -np.inf)
        top = np.maximum.reduceat(logs, offsets[:-1], axis=0)
        # Components that cannot produce any cell of the node drop out here.
        component = log_weights + top.sum(axis=0)
        alive = component > -np.inf
        shares = np.exp(component[alive] - best_log)
        if shares.sum() <= 1 + _ROUNDING:
            return None
        bounds = np.exp(logs[:, alive] - top[variable_of][:, alive]) @ shares
        keep = allowed & (bounds > 1 + _ROUNDING)
        if not np.logical_or.reduceat(keep, offsets[:-1]).all():
            return None
        if (keep == allowed).all():
            return np.where(allowed, bounds, 0.0)
        allowed[:] = keep


def _climb_to_mode(log_weights: Floats, factors: Sequence[Floats], logs: Sequence[Floats]) -> tuple[Ints, float]:
    """Return the best of the cells that changing one variable at a time leads to, from each component's own mode."""
    starts = np.column_stack([factor.argmax(axis=0) for factor in factors])[log_weights > -np.inf]
    best, best_log = starts[0], -np.inf
    for start in np.unique(starts, axis=0):
        codes = start.copy()
        for _ in range(_MAX_SWEEPS):
            before = codes.copy()
            rows = np.array([log[code] for log, code in zip(logs, codes, strict=True)])
            # after[n] holds the variables behind n: with those in front, all but n itself.
            after = np.vstack([np.cumsum(rows[::-1], axis=0)[::-1][1:], np.zeros((1, len(log_weights)))])
            front = log_weights.copy()
            for n, factor in enumerate(factors):
                others = front + after[n]
                others -= others.max()
                codes[n] = (factor @ np.exp(others)).argmax()
                front += logs[n][codes[n]]
            if (codes == before).all():
                break
        log_probability = _log_probability_of_mode(codes, log_weights, logs)
        if log_probability > best_log:
            best, best_log = codes, log_probability
    return best, best_log


def _log_probability_of_mode(codes: Ints, log_weights: Floats, logs: Sequence[Floats]) -> float:
    rows = sum((log[code] for log, code in zip(logs, codes, strict=True)), log_weights)
    return float(np.logaddexp.reduce(rows))
