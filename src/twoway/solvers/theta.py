"""θ: the parameters of a model as the kernels take them, and their expected counts: the sums of the E-step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.data.stored_records import Block, RecordSource
from twoway.model.hidden_tree import HiddenTree, packed_tree
from twoway.model.pmf import JointPMF
from twoway.model.trees import Trees

if TYPE_CHECKING:
    from twoway.kernels.trees import TreeRows

Theta = Floats
"""Parameters as the kernels take them, (1 + n_categories, width): the weights above the stacked factors."""


def theta_of(pmf: JointPMF) -> Theta:
    """Return a PMF's parameters as the kernels take them; those of hidden variables on a tree are above the factors."""
    return packed_tree(_theta_tree(pmf))[1].copy()


def pmf_of_theta(form: JointPMF, theta: Theta) -> JointPMF:
    """Return the PMF of parameters, of the same form as another: with its variables, and as many hidden states."""
    return JointPMF.from_trees(form.schema, Trees(np.ones(1), (_theta_tree(form).with_theta(theta),)))


def theta_groups(pmf: JointPMF) -> Ints:
    """Return where the groups of rows of θ begin, behind its first row: hidden variables, then visible ones."""
    hidden = np.cumsum([0, *_theta_tree(pmf).n_states[1:]])
    return np.concatenate([hidden[:-1], hidden[-1] + pmf.schema.offsets])


def theta_tree_rows(pmf: JointPMF) -> TreeRows | None:
    """Return which rows of θ belong to which hidden variable, None where there is one."""
    return packed_tree(_theta_tree(pmf))[0] if pmf.n_hidden > 1 else None


def _theta_tree(pmf: JointPMF) -> HiddenTree:
    (tree,) = pmf.trees.trees
    return tree


@dataclass(frozen=True)
class ExpectedCounts:
    """How often each component, and each cell in each component, is expected; these add."""

    counts: Theta
    """(1 + n_categories, width): the components' totals above those of the cells."""
    log_likelihood: float

    def __add__(self, other: ExpectedCounts) -> ExpectedCounts:
        # The left one is a partial sum that nobody else holds.
        np.add(self.counts, other.counts, out=self.counts)
        return ExpectedCounts(self.counts, self.log_likelihood + other.log_likelihood)


def expected_counts(
    records: RecordSource, theta: Theta, rank: int, threads: int | None, rows: TreeRows | None = None
) -> ExpectedCounts:
    """Return the sums of the E-step over all records."""
    per_block = partial(expected_counts_of_block, theta=theta, rank=rank, rows=rows)
    return records.map_reduce(per_block, ExpectedCounts.__add__, threads=threads)


def expected_counts_of_block(block: Block, *, theta: Theta, rank: int, rows: TreeRows | None) -> ExpectedCounts:
    """Return the sums of the E-step over a block of records."""
    # Import kernels where the block is: a pickled kernel would be compiled again.
    from twoway.kernels.expectation import expect
    from twoway.kernels.lanes import lane_layout

    if not theta.flags.writeable:  # as after pickling; numba would compile another copy for it
        theta = theta.copy()
    counts = np.zeros(theta.shape)
    _, prototype = lane_layout(rank)
    if rows is None:
        log_likelihood = expect(block.compressed, theta, counts, prototype)
        return ExpectedCounts(counts, log_likelihood)
    from twoway.kernels.trees import expect_tree

    none = np.empty(0)
    log_likelihood = expect_tree(block.compressed, rows, theta, counts, none[:, None, None], none, prototype)
    return ExpectedCounts(counts, log_likelihood)


def expected_counts_of_groups(counts: Theta, form: JointPMF) -> Floats:
    """Return the sum of expected counts over each group of rows of θ, below the components' totals.

    Shape (n_hidden + n_variables, rank): hidden variables, then visible ones.
    """
    counts = counts[:, : form.rank]
    return np.vstack([counts[0], np.add.reduceat(counts[1:], theta_groups(form)[:-1], axis=0)])
