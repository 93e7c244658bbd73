"""Posteriors: records read by a model's schema, and the probability of each hidden state given a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.data.missing import Unseen
from twoway.data.records import Records
from twoway.data.stored_records import Block
from twoway.errors import DataError, UnknownNameError
from twoway.model.hidden_tree import HiddenTree, packed_tree
from twoway.model.mixture import Codes, draw_each, log_of
from twoway.model.trees import Trees
from twoway.report import Report
from twoway.schema import Schema


def records_for(schema: Schema, source: Any, unseen: Unseen = "error", report: Report | None = None) -> Records:
    """Return a source of any kind as records read by a model's schema.

    The columns of an array are the variables in order, where there are as many. With the report of a model, counts and
    weights are in the columns in which they were in its fit.
    """
    columns = {} if report is None else report.columns
    numbers = {what: columns[what] for what in ("counts", "weights") if what in columns}
    if isinstance(source, Records) and (difference := schema.difference(source.schema)):
        raise DataError(f"the records have another schema than the model: {difference}")
    if isinstance(source, np.ndarray) and source.ndim == 2 and source.shape[1] == len(schema):
        if numbers:
            raise _lacking_columns(numbers, "an array has no other columns than the variables")
        return Records(source, schema=schema, columns=schema.names, unseen=unseen)
    if isinstance(source, list | tuple):
        if not all(isinstance(record, Mapping) for record in source):
            raise DataError("a list of records must hold mappings from name to label; or give a frame")
        names = dict.fromkeys([name for record in source for name in record] or schema.names)
        source = {name: np.array([*(r.get(name) for r in source), None], dtype=object)[:-1] for name in names}
    return (
        source if isinstance(source, Records) else _with_number_columns(source, numbers, schema=schema, unseen=unseen)
    )


def _with_number_columns(source: Any, numbers: Mapping[str, Any], **options: Any) -> Records:
    """Return records with counts and weights in columns that a model knows, or raise where they are not there."""
    try:
        return Records(source, **options, **numbers)
    except UnknownNameError as error:
        lacking = {what: column for what, column in numbers.items() if f" for the {what}" in str(error)}
        if not lacking:
            raise
        raise _lacking_columns(lacking, error) from error


def _lacking_columns(numbers: Mapping[str, str], why: object) -> UnknownNameError:
    named = " and ".join(f"{what} in the column {column!r}" for what, column in numbers.items())
    return UnknownNameError(
        f"the model was fitted to records with {named}, which these lack: {why}. "
        "tw.Records(source, schema=pmf.schema) reads them without"
    )


def posterior_of(block: Block, weights: Floats, stacked: Floats) -> tuple[Floats, Floats]:
    """Return Pr(component | record), shape (n, rank), and log Pr(record), shape (n,), of a block.

    A record that is impossible under the model has the weights, as a record without observed cells, so that there is
    something to predict from.
    """
    from twoway.kernels.expectation import posterior
    from twoway.kernels.lanes import layout, pad_to_lanes

    n = len(block.pointers) - 1
    memberships, log_prob = np.empty((n, len(weights))), np.empty(n)
    _, prototype = layout(len(weights))
    posterior(block.pointers, block.cells, pad_to_lanes(weights, stacked), memberships, log_prob, prototype)
    return memberships, log_prob


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
        states, logs = zip(*(_states_of(tree, block) for tree in trees.trees), strict=True)
        weighted, log_prob = _weighted_logs(trees, logs)
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
            memberships = self._of_tree(0, 0)
            drawn = draw_each(memberships, rng)
            return lambda variable: drawn
        possible = np.flatnonzero(~self.is_impossible)
        chosen = np.zeros(len(codes), dtype=np.int64)
        chosen[possible] = draw_each(self.tree_shares[possible], rng)
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


def log_prob_of(trees: Trees, block: Block) -> Floats:
    """Return the logarithm of the probability of each record of a block, (n_records,)."""
    return _weighted_logs(trees, [_states_of(tree, block, only_log_prob=True)[1] for tree in trees.trees])[1]


def _weighted_logs(trees: Trees, logs: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return the logarithm of each record's probability with each tree, (n_records, n_trees), and with any of them."""
    weighted = np.column_stack(logs) + log_of(trees.shares)
    return weighted, np.asarray(np.logaddexp.reduce(weighted, axis=1))


def _states_of(tree: HiddenTree, block: Block, *, only_log_prob: bool = False) -> tuple[Floats, Floats]:
    """Return the probability of each state given each record, (n_records, n_hidden, width), and log-probabilities."""
    from twoway.kernels.expectation import posterior
    from twoway.kernels.trees import expect_tree

    rows, theta, prototype = packed_tree(tree)
    n = len(block.pointers) - 1
    log_prob = np.empty(n)
    if tree.n_hidden == 1:
        memberships = np.empty((n, len(tree.weights)))
        posterior(block.pointers, block.cells, theta, memberships, log_prob, prototype)
        memberships[log_prob == -np.inf] = np.nan
        return memberships[:, None, :], log_prob
    # The states of many trees of many variables would take much memory.
    states = np.empty((n, 0 if only_log_prob else tree.n_hidden, theta.shape[1]))
    none = np.empty(0)
    expect_tree(block.pointers, block.cells, none, rows, theta, none[:, None], states, log_prob, prototype)
    return states, log_prob
