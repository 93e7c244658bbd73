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
from collections.abc import Sequence
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
    single = trees.single
    if max_nodes is None:
        max_nodes = MAX_NODES if single is not None else _MAX_TREE_NODES
    ceilings = _TreeBounds(trees) if single is None else _MixtureBounds(single.weights, single.factors)
    best, best_log = ceilings.first_cell()
    offsets = np.cumsum([0, *(len(factor) for factor in trees.factors)])
    spans = list(itertools.pairwise(offsets))
    nodes = [np.ones(offsets[-1], dtype=bool)]
    for _ in range(max_nodes):
        if not nodes:
            break
        allowed = nodes.pop()
        bounds = _tighten_mode_bounds(allowed, best_log, ceilings, offsets)
        if bounds is None:
            continue
        n_allowed = np.add.reduceat(allowed, offsets[:-1], dtype=np.int64)
        # The heaviest category of each variable makes a cell: often a better one than any so far.
        likeliest = np.array([bounds[a:b].argmax() for a, b in spans])
        cell_log = ceilings.log_probability(likeliest)
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
    allowed: Bools, best_log: float, ceilings: _MixtureBounds | _TreeBounds, offsets: Ints
) -> Floats | None:
    """Drop what cannot beat the best from ``allowed``, in place; return the bound of each cell, relative to the best.

    None means that nothing in this node can.
    """
    while True:
        total, bounds = ceilings.over(allowed, best_log)
        if total <= 1 + _ROUNDING:
            return None
        keep = allowed & (bounds > 1 + _ROUNDING)
        if not np.logical_or.reduceat(keep, offsets[:-1]).all():
            return None
        if (keep == allowed).all():
            return np.where(allowed, bounds, 0.0)
        allowed[:] = keep


class _MixtureBounds:
    """The bounds of one hidden variable."""

    def __init__(self, weights: Floats, factors: Sequence[Floats]) -> None:
        self._factors = factors
        self._log_weights = log_of(weights)
        self._logs = [log_of(factor) for factor in factors]
        self._log_stacked = np.vstack(self._logs)
        self._offsets = np.cumsum([0, *(len(factor) for factor in factors)])
        self._variable_of = np.repeat(np.arange(len(factors)), np.diff(self._offsets))

    def first_cell(self) -> tuple[Ints, float]:
        """Return the best of the cells that changing one variable at a time leads to, from each component's mode."""
        starts = np.column_stack([factor.argmax(axis=0) for factor in self._factors])[self._log_weights > -np.inf]
        best, best_log = starts[0], -np.inf
        for start in np.unique(starts, axis=0):
            codes = start.copy()
            for _ in range(_MAX_SWEEPS):
                before = codes.copy()
                rows = np.array([log[code] for log, code in zip(self._logs, codes, strict=True)])
                # after[n] holds the variables behind n: with those in front, all but n itself.
                after = np.vstack([np.cumsum(rows[::-1], axis=0)[::-1][1:], np.zeros((1, rows.shape[1]))])
                front = self._log_weights.copy()
                for n, factor in enumerate(self._factors):
                    others = front + after[n]
                    others -= others.max()
                    codes[n] = (factor @ np.exp(others)).argmax()
                    front += self._logs[n][codes[n]]
                if (codes == before).all():
                    break
            log_probability = self.log_probability(codes)
            if log_probability > best_log:
                best, best_log = codes, log_probability
        return best, best_log

    def log_probability(self, codes: Ints) -> float:
        """Return the logarithm of the probability of a cell."""
        rows = sum((log[code] for log, code in zip(self._logs, codes, strict=True)), self._log_weights)
        return float(np.logaddexp.reduce(rows))

    def over(self, allowed: Bools, best_log: float) -> tuple[float, Floats]:
        """Return bounds, divided by the best probability: of all allowed cells, and of those with each category."""
        logs = np.where(allowed[:, np.newaxis], self._log_stacked, -np.inf)
        top = np.maximum.reduceat(logs, self._offsets[:-1], axis=0)
        # Components that cannot produce any cell of the node drop out here.
        component = self._log_weights + top.sum(axis=0)
        alive = component > -np.inf
        shares = np.exp(component[alive] - best_log)
        return float(shares.sum()), np.exp(logs[:, alive] - top[self._variable_of][:, alive]) @ shares


class _TreeBounds:
    """The bounds of hidden variables on trees."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees
        self._log_shares = log_of(trees.shares).tolist()
        self._logs = [[log_of(factor) for factor in tree.factors] for tree in trees.trees]
        self._offsets = np.cumsum([0, *(len(factor) for factor in trees.factors)])

    def first_cell(self) -> tuple[Ints, float]:
        """Return the best of the trees' most probable cells and states together, and of those next to them."""
        cells = [np.array(tree.likeliest_states()) for tree in self._trees.trees]
        best = max(cells, key=self.log_probability)
        best_log = self.log_probability(best)
        for _ in range(_MAX_SWEEPS):
            observed = np.zeros(self._offsets[-1], dtype=bool)
            observed[self._offsets[:-1] + best] = True
            # All variables move at once, each as if the others stayed.
            bounds = np.split(self._sums(observed, best_log)[1], self._offsets[1:-1])
            cell = np.array([bound.argmax() for bound in bounds])
            if not (cell_log := self.log_probability(cell)) > best_log:
                break
            best, best_log = cell, cell_log
        return best, best_log

    def log_probability(self, codes: Ints) -> float:
        return float(self._trees.log_joint(list(codes[:, None]))[0])

    def over(self, allowed: Bools, best_log: float) -> tuple[float, Floats]:
        total, bounds = self._sums(allowed, best_log)
        return total, np.where(allowed, bounds, 0.0)

    def _sums(self, allowed: Bools, best_log: float) -> tuple[float, Floats]:
        """Return the bound of all allowed cells, and that with each category in place of those allowed for it."""
        total, bounds = 0.0, np.zeros(self._offsets[-1])
        for log_share, tree, logs in zip(self._log_shares, self._trees.trees, self._logs, strict=True):
            masks = np.split(allowed, self._offsets[1:-1])
            rows = {n: log[mask].max(axis=0) for n, (log, mask) in enumerate(zip(logs, masks, strict=True))}
            contexts = tree.log_contexts(rows)
            total += math.exp(min(log_share + tree.log_mass(rows) - best_log, 700.0))
            terms = [log + context for log, context in zip(logs, contexts, strict=True)]
            sums = np.concatenate([np.logaddexp.reduce(term, axis=1) for term in terms])
            bounds += np.exp(np.minimum(sums + log_share - best_log, 700.0))
        return total, bounds
