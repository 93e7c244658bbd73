"""Posteriors: the probability of each hidden state given a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, log_of
from twoway.data.stored_records import Block
from twoway.model.hidden_tree import HiddenTree, packed_tree
from twoway.model.mixture import Codes, draw_memberships
from twoway.model.trees import Trees

if TYPE_CHECKING:
    from twoway.kernels.trees import TreeRows


def posterior_of(block: Block, weights: Floats, stacked: Floats) -> tuple[Floats, Floats]:
    """Return Pr(component | record), shape (n, rank), and log Pr(record), shape (n,), of a block.

    A record that is impossible under the model has the weights, as a record without observed cells, so that there is
    something to predict from.
    """
    from twoway.kernels.lanes import pad_to_lanes

    states, log_prob = posterior_of_theta(block, pad_to_lanes(weights, stacked), len(weights))
    return states[:, 0], log_prob


def posterior_of_theta(
    block: Block, theta: Floats, rank: int, rows: TreeRows | None = None, n_hidden: int = 1
) -> tuple[Floats, Floats]:
    """Return the probability of each state given each record, (n_records, n_hidden, n_states), and log-probabilities.

    On a tree, which has ``rows``, no hidden variables leave the states out.
    """
    from twoway.kernels.expectation import expect_memberships
    from twoway.kernels.lanes import lane_layout
    from twoway.kernels.trees import expect_tree

    _, prototype = lane_layout(rank)
    n, none = len(block.pointers) - 1, np.empty(0)
    log_prob, states = np.empty(n), np.empty((n, n_hidden, rank if rows is None else theta.shape[1]))
    if rows is None:
        expect_memberships(block.pointers, block.cells, theta, states[:, 0], log_prob, prototype)
    else:
        expect_tree((block.pointers, block.cells, none), rows, theta, (none[:, None], states, log_prob), prototype)
    return states, log_prob


@dataclass(frozen=True)
class Posterior:
    """What the records of a block say about the hidden variables of a model."""

    trees: Trees
    log_prob: Floats
    """The logarithm of each record's probability, (n_records,)."""
    tree_shares: Floats
    """The probability of each tree given the record, (n_records, n_trees); NaN where the record is impossible."""
    states: tuple[Floats, ...]
    """For each tree (n_records, n_hidden, n_states): the probability of each state given the record and the tree."""

    @classmethod
    def of(cls, trees: Trees, block: Block) -> Posterior:
        """Return the posterior of a block of records."""
        states, logs = zip(*(_posterior_states(tree, block) for tree in trees.trees), strict=True)
        weighted, log_prob = _posterior_logs(trees, logs)
        with np.errstate(invalid="ignore"):
            return cls(trees, log_prob, np.exp(weighted - log_prob[:, None]), states)

    @property
    def is_impossible(self) -> NDArray[np.bool_]:
        """Whether each record has the probability 0."""
        return np.asarray(self.log_prob == -np.inf)

    def memberships(self, variable: int) -> Floats:
        """Return the probability of each state in the columns of a variable's factor, (n_records, n_states)."""
        if self.trees.single is not None:
            return self._of_tree(0, variable)
        parts = range(len(self.states))
        return np.hstack([self.tree_shares[:, [m]] * self._of_tree(m, variable) for m in parts])

    def _of_tree(self, number: int, variable: int) -> Floats:
        tree = self.trees.trees[number]
        home = tree.homes[variable]
        return self.states[number][:, home, : tree.n_states[home]]

    def draw(self, codes: Codes, rng: np.random.Generator) -> Callable[[int], Codes]:
        """Return a function from a variable to a column of its factor for each record, drawn for all together.

        ``codes`` are those of the records, -1 where missing. Of an impossible record nothing meaningful is drawn.
        """
        if self.trees.single is not None:
            drawn = draw_memberships(self._of_tree(0, 0), rng)
            return lambda variable: drawn
        possible = np.flatnonzero(~self.is_impossible)
        chosen = np.zeros(len(codes), dtype=np.int64)
        chosen[possible] = draw_memberships(self.tree_shares[possible], rng)
        states = []
        for number, tree in enumerate(self.trees.trees):
            rows = possible[chosen[possible] == number]
            states.append((rows, tree.draw_states(codes[rows], rng)))

        def columns(variable: int) -> Codes:
            result, first = np.zeros(len(codes), dtype=np.int64), 0
            for tree, (rows, drawn) in zip(self.trees.trees, states, strict=True):
                result[rows] = first + drawn[tree.homes[variable]]
                first += tree.n_states[tree.homes[variable]]
            return result

        return columns


def posterior_log_prob(trees: Trees, block: Block) -> Floats:
    """Return the logarithm of the probability of each record of a block, (n_records,)."""
    return _posterior_logs(trees, [_posterior_states(tree, block, only_log_prob=True)[1] for tree in trees.trees])[1]


def _posterior_logs(trees: Trees, logs: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return the logarithm of each record's probability with each tree, (n_records, n_trees), and with any of them."""
    weighted = np.column_stack(logs) + log_of(trees.shares)
    return weighted, np.asarray(np.logaddexp.reduce(weighted, axis=1))


def _posterior_states(tree: HiddenTree, block: Block, *, only_log_prob: bool = False) -> tuple[Floats, Floats]:
    """Return the probability of each state given each record, (n_records, n_hidden, width), and log-probabilities."""
    rows, theta = packed_tree(tree)
    if tree.n_hidden == 1:
        states, log_prob = posterior_of_theta(block, theta, len(tree.weights))
        states[log_prob == -np.inf] = np.nan
        return states, log_prob
    # The states of many trees of many variables would take much memory.
    return posterior_of_theta(block, theta, max(tree.n_states), rows, 0 if only_log_prob else tree.n_hidden)
