"""Weighted sets of observed cells, which are what models are fitted to, and the sums of the E-step over them.

A record is a set of observed cells. So is a cell of a two-way or three-way table, weighted by its count: the sum of
Kullback-Leibler divergences between tables and model is, up to a constant, the log-likelihood of these small records.
That is why EM on records, CNMF-OPT on pairs and the KL fit of triples are one computation here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from twoway.arrays import Floats, times_log
from twoway.data.records import Records
from twoway.data.stored_records import Block, RecordSource
from twoway.model.pmf import JointPMF
from twoway.parallel import reduce_in_order
from twoway.schema import Schema
from twoway.solvers.theta import Theta, theta_groups
from twoway.tables.tables import Tables

if TYPE_CHECKING:
    from twoway.kernels.trees import TreeRows
    from twoway.solvers.smoothing import Smoothing

PairWeights = Literal["counts", "equal"]
# Records that each variable's overall shares get on top of the data.
_EXTRA = 0.1
# Smoothing of a variable on a tree, for a size of four categories, and how it grows with their number.
_USUAL_SIZE, _SIZE_POWER = 4.0, 2.5


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
    results = counts, none[:, None, None], none
    return ExpectedCounts(counts, expect_tree(block.compressed, rows, theta, results, prototype))


def expected_counts_of_groups(counts: Theta, form: JointPMF) -> Floats:
    """Return the sum of expected counts over each group of rows of θ, below the components' totals.

    Shape (n_hidden + n_variables, rank): hidden variables, then visible ones.
    """
    counts = counts[:, : form.rank]
    return np.vstack([counts[0], np.add.reduceat(counts[1:], theta_groups(form)[:-1], axis=0)])


@dataclass(frozen=True)
class CellSets:
    """Records, or table cells in the shape of records, with what the fit must know about them."""

    records: RecordSource
    copies: Floats
    """(n_variables,): how often a person's answer to each variable is counted among the sets. Once in records; in
    tables, once in each table that holds the variable."""
    total_copies: float
    """How often a person is counted among the sets: once in records, else once in each table."""
    offset: float
    """What turns the mean negative log-likelihood into the objective: 0 for records; for tables, their negative
    entropy, so that the objective is a divergence."""
    threads: int | None
    besides: Records | None = None
    """Cells of the records' own two-way tables, which count besides."""

    @classmethod
    def of_records(cls, records: RecordSource, threads: int | None) -> CellSets:
        """Return records as they are."""
        return cls(records, np.ones(len(records.schema)), 1.0, 0.0, threads)

    @classmethod
    def of_tables(cls, tables: Tables, pair_weights: PairWeights, threads: int | None) -> CellSets:
        """Return the cells of tables, weighted by their counts."""
        copies = np.bincount(tables.sets.ravel(), minlength=len(tables.schema)).astype(np.float64)
        offset = cls._negative_entropy(tables, pair_weights)
        return cls(tables.as_records(pair_weights), copies, float(len(tables)), offset, threads)

    @property
    def schema(self) -> Schema:
        """The variables."""
        return self.records.schema

    @property
    def total_weight(self) -> float:
        """The weight of all sets together."""
        return self.records.total_weight

    def with_tables(self, tables: Tables, times: Floats) -> CellSets:
        """Return records whose two-way tables also count, each as often as ``times`` says; 0 leaves a table out.

        A model that is not quite right then errs less in the tables, which people look at, and a little more in what
        a few records say about many variables at once, which is mostly chance.
        """
        counted = tables.part(times > 0)
        return replace(
            self,
            besides=replace(counted, weights=counted.weights * times[times > 0]).as_records(),
            copies=self.copies + np.bincount(tables.sets.ravel(), np.repeat(times, 2), len(self.schema)),
            total_copies=self.total_copies + float(times.sum()),
        )

    def beside(self, tables: Tables, share: float) -> CellSets:
        """Return the same sets with other tables, which count ``share`` times as much as the sets, all together."""
        times = share * self.records.total_weight / tables.weights.sum()
        besides = replace(tables, weights=tables.weights * times).as_records()
        return replace(self, besides=besides, offset=self.offset + share * self._negative_entropy(tables, "counts"))

    def expected(self, theta: Theta, rank: int, rows: TreeRows | None = None) -> ExpectedCounts:
        """Return the sums of the E-step over all sets."""
        if self.besides is None:
            return expected_counts(self.records, theta, rank, self.threads, rows)
        if not isinstance(self.records, Records):
            in_records = expected_counts(self.records, theta, rank, self.threads, rows)
            return in_records + expected_counts(self.besides, theta, rank, self.threads, rows)
        blocks = [*self.records.blocks(), *self.besides.blocks()]
        per_block = partial(expected_counts_of_block, theta=theta, rank=rank, rows=rows)
        return reduce_in_order(blocks, per_block, ExpectedCounts.__add__, threads=self.threads, n_tasks=len(blocks))

    @cached_property
    def totals(self) -> Floats:
        """How often each cell was observed, shape (n_categories,)."""
        theta = np.zeros((1 + self.schema.n_categories, 4))
        theta[:, 0] = 1.0
        # The expected counts of a single component are plain counts.
        return expected_counts(self.records, theta, 1, self.threads).counts[1:, 0]

    @cached_property
    def shares(self) -> Floats:
        """Each variable's overall shares (n_categories,), with a tenth of a record spread evenly on top.

        The extra keeps a category that was declared but never seen possible.
        """
        totals = self.totals
        sizes = np.array(self.schema.sizes)
        of_variable = np.add.reduceat(totals, self.schema.offsets[:-1])
        return (totals + np.repeat(_EXTRA / sizes, sizes)) / np.repeat(of_variable + _EXTRA, sizes)

    def copies_of_groups(self, form: JointPMF) -> Floats:
        """Return how often a person is counted in each group of rows of θ: hidden variables, then visible ones."""
        # A table speaks of the transitions on one path of the tree only.
        return np.concatenate([[self.total_copies], [self.copies.mean()] * (form.n_hidden - 1), self.copies])

    def smoothing_of_rows(self, form: JointPMF, smoothing: Smoothing) -> tuple[Floats, Floats]:
        """Return how many pseudo-records each row of θ belongs to, and how the rows behind the first share them.

        The states of each hidden variable but the root are drawn to equal shares, as the root's are.
        """
        n_hidden, sizes = theta_groups(form)[-1] - self.schema.n_categories, np.array(self.schema.sizes)
        # On a tree few states rest on many records each; what they share out among many categories must be held back.
        by_size = np.ones(len(sizes)) if n_hidden == 0 else (sizes / _USUAL_SIZE) ** _SIZE_POWER
        by_size *= smoothing.times or 1.0
        of_states = np.full(1 + n_hidden, smoothing.weights)
        amounts = np.concatenate([of_states, smoothing.factors * np.repeat(by_size, sizes)])
        return amounts, np.concatenate([np.full(n_hidden, 1.0 / form.rank), self.shares])

    def support(self, counts: Theta, form: JointPMF) -> Floats:
        """Return on how many people each component rests, and each of its factors, as `expected_counts_of_groups`."""
        return expected_counts_of_groups(counts, form) / np.maximum(self.copies_of_groups(form), 1.0)[:, None]

    @staticmethod
    def _negative_entropy(tables: Tables, pair_weights: PairWeights) -> float:
        """Return the weighted mean over tables of Σ x log x."""
        shares = tables.shares
        of_table = np.add.reduceat(times_log(shares, shares), tables.starts[:-1])
        weights = tables.weights if pair_weights == "counts" else np.ones(len(tables))
        return float((of_table * weights).sum() / weights.sum())
