"""The most probable cell of a joint: of a small one by visiting each cell, of a large one by branch and bound.

A node of the search is a set of categories still allowed for each variable. With ``top_n(f)`` the largest
allowed entry of column f of variable n, no cell of the node is more probable than Σ_f weights_f · Π_n top_n(f),
and none that holds category i of variable n more than the same sum with A_n(i, f) in place of
top_n(f). Categories whose bound does not beat the best cell known are dropped, which lowers the bounds of
the others, until nothing changes; then the search branches on one variable. With hidden variables on a tree the sum
over their states is the pass of likelihoods up and down the tree, with top_n in place of what was observed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from twoway.arrays import Bools, Floats, Ints, log_of
from twoway.category_labels import Label
from twoway.data.distribution import MAX_ROWS
from twoway.model.trees import Trees
from twoway.notebook import notebook_table
from twoway.text import counted

MAX_NODES = 20_000
"""Nodes visited before the search gives up on a proof."""
_MAX_TREE_NODES = 500
"""The same with hidden variables on a tree, where a node takes some milliseconds."""
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

    def _repr_html_(self) -> str:
        rows = [["variable", "most probable"], *([name, str(label)] for name, label in self.values.items())]
        more = len(rows) - 1 - MAX_ROWS
        proven = "" if self.proven else ", though another may be more probable"
        hidden = f"… {counted(more, 'more variable')}; " if more > 0 else ""
        note = f"{hidden}probability {self.probability:.4g}{proven}"
        return notebook_table(rows[: MAX_ROWS + 1], np.empty((min(len(self.values), MAX_ROWS), 0)), note)


def find_mode(trees: Trees) -> tuple[list[int], float, bool]:
    """Return the codes of the most probable cell, its probability, and whether that is proven."""
    if trees.is_small:
        return *visit_for_mode(trees), True
    codes, log_probability, proven = search_mode(trees)
    return codes, math.exp(log_probability), proven


def visit_for_mode(trees: Trees) -> tuple[list[int], float]:
    """Return the codes of the most probable cell, the first of equals, by visiting every cell."""
    best, best_at, first = -1.0, 0, 0
    for chunk in trees.joint_chunks():
        at = int(chunk.argmax())
        if chunk[at] > best:
            best, best_at = float(chunk[at]), first + at
        first += len(chunk)
    return [int(code) for code in np.unravel_index(best_at, [len(factor) for factor in trees.factors])], best


def search_mode(trees: Trees, max_nodes: int | None = None) -> tuple[list[int], float, bool]:
    """Return the most probable cell, the logarithm of its probability, and whether no other can beat it.

    After ``max_nodes`` it is the best cell so far.
    """
    if max_nodes is None:
        max_nodes = _MAX_TREE_NODES if trees.single is None else MAX_NODES
    ceilings = _ModeBounds(trees)
    best, best_log = ceilings.first_cell()
    offsets = ceilings.offsets
    spans = list(itertools.pairwise(offsets))
    nodes = [np.ones(offsets[-1], dtype=bool)]
    for _ in range(max_nodes):
        if not nodes:
            break
        allowed = nodes.pop()
        if (bounds := _tighten_mode_bounds(allowed, best_log, ceilings)) is None:
            continue
        n_allowed = np.add.reduceat(allowed, offsets[:-1], dtype=np.int64)
        # The heaviest category of each variable makes a cell: often a better one than any so far.
        likeliest = np.array([bounds[a:b].argmax() for a, b in spans])
        if (cell_log := ceilings.log_probability(likeliest)) > best_log:
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


def _tighten_mode_bounds(allowed: Bools, best_log: float, ceilings: _ModeBounds) -> Floats | None:
    """Drop what cannot beat the best from ``allowed``, in place; return the bound of each cell, relative to the best.

    None means that nothing in this node can.
    """
    while True:
        total, bounds = ceilings.over(allowed, best_log)
        if total <= 1 + _ROUNDING:
            return None
        keep = allowed & (bounds > 1 + _ROUNDING)
        if not np.logical_or.reduceat(keep, ceilings.offsets[:-1]).all():
            return None
        if (keep == allowed).all():
            return np.where(allowed, bounds, 0.0)
        allowed[:] = keep


class _ModeBounds:
    """The probabilities of cells under some trees, and their bounds."""

    def __init__(self, trees: Trees) -> None:
        self._trees, self._log_shares = trees.trees, log_of(trees.shares)
        sizes = [len(factor) for factor in trees.factors]
        self.offsets = np.cumsum([0, *sizes])
        self._variable_of = np.repeat(np.arange(len(sizes)), sizes)
        # The logarithms of each tree's factors below one another, as wide as the hidden variable with the most states.
        self._logs = [np.full((self.offsets[-1], max(tree.n_states)), -np.inf) for tree in trees.trees]
        for tree, logs in zip(trees.trees, self._logs, strict=True):
            for first, factor in zip(self.offsets, tree.factors, strict=False):
                logs[first : first + len(factor), : factor.shape[1]] = log_of(factor)

    def first_cell(self) -> tuple[Ints, float]:
        """Return the best of the most probable cells given each state of a root, and of those that changes lead to."""
        best = max(np.hstack([tree.likeliest_cells() for tree in self._trees]).T, key=self.log_probability)
        best_log = self.log_probability(best)
        for _ in range(_MAX_SWEEPS):
            # How many times as probable the cell is with each other category.
            times = self.over(np.isin(np.arange(self.offsets[-1]), self.offsets[:-1] + best), best_log)[1]
            place = int(times.argmax())
            one = best.copy()
            one[self._variable_of[place]] = place - self.offsets[self._variable_of[place]]
            # All variables move at once, each as if the others stayed, or the one that gains most.
            every = np.array([own.argmax() for own in np.split(times, self.offsets[1:-1])])
            cell = max(every, one, key=self.log_probability)
            if not (cell_log := self.log_probability(cell)) > best_log:
                break
            best, best_log = cell, cell_log
        return best, best_log

    def log_probability(self, codes: Ints) -> float:
        """Return the logarithm of the probability of a cell."""
        parts = zip(self._log_shares, self._trees, self._logs, strict=True)
        beliefs = [share + tree.log_beliefs(logs[self.offsets[:-1] + codes])[0] for share, tree, logs in parts]
        return float(np.logaddexp.reduce(np.concatenate(beliefs)))

    def over(self, allowed: Bools, best_log: float) -> tuple[float, Floats]:
        """Return bounds, divided by the best probability: of all allowed cells, and of those with each category.

        The latter are right for allowed categories; of others, only where no factor is 0.
        """
        total, bounds = 0.0, np.zeros(self.offsets[-1])
        for log_share, tree, logs in zip(self._log_shares, self._trees, self._logs, strict=True):
            top = np.maximum.reduceat(np.where(allowed[:, None], logs, -np.inf), self.offsets[:-1], axis=0)
            beliefs = tree.log_beliefs(top) + (log_share - best_log)
            total += float(np.exp(np.minimum(beliefs[0], 700.0)).sum())
            # Without the variable itself.
            others = beliefs[tree.homes, :] - np.where(top > -np.inf, top, 0.0)
            bounds += np.exp(np.minimum(logs + others[self._variable_of], 700.0)).sum(axis=1)
        return total, bounds
