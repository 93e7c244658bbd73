"""Weighted sets of observed cells, which is what the likelihood solvers fit.

A record is such a set. So is a cell of a two-way or three-way table, weighted by its count: the sum of Kullback-Leibler
divergences between tables and model is, up to a constant, the log-likelihood of these small records. That is why
EM on records, CNMF-OPT on pairs and the KL fit of triples are one computation here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from twoway.arrays import Floats
from twoway.data.records import Records
from twoway.data.source import Block, RecordSource
from twoway.model.pmf import JointPMF
from twoway.schema import Schema
from twoway.solvers.pairs import PairWeights
from twoway.tables.tables import Tables

Theta = Floats
"""Parameters as the kernels take them, (1 + n_categories, width): the weights above the stacked factors."""

# Records that each variable's overall shares get on top of the data.
_EXTRA = 0.1


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


def theta_of(pmf: JointPMF) -> Theta:
    """Return a PMF's parameters as the kernels take them."""
    from twoway.kernels.lanes import pad_to_lanes

    return pad_to_lanes(pmf.weights, pmf.stacked)


def pmf_of(schema: Schema, theta: Theta, rank: int) -> JointPMF:
    """Return the PMF of parameters."""
    return JointPMF.from_stacked(schema, theta[0, :rank].copy(), theta[1:, :rank].copy())


def expected_counts(records: RecordSource, theta: Theta, rank: int, threads: int | None) -> ExpectedCounts:
    """Return the sums of the E-step over all records."""
    return records.map_reduce(partial(_expect_block, theta=theta, rank=rank), ExpectedCounts.__add__, threads=threads)


def _expect_block(block: Block, *, theta: Theta, rank: int) -> ExpectedCounts:
    # Kernels are imported where the block is: one that travelled there would be compiled anew.
    from twoway.kernels.expectation import expect
    from twoway.kernels.lanes import layout

    counts = np.zeros(theta.shape)
    _, prototype = layout(rank)
    return ExpectedCounts(counts, expect(block.pointers, block.cells, block.weights, theta, counts, prototype))


def sums_of_variables(counts: Theta, schema: Schema, rank: int) -> Floats:
    """Return the sum of expected counts over each variable's cells, below the components' totals.

    Shape (1 + n_variables, rank).
    """
    return np.vstack([counts[0, :rank], np.add.reduceat(counts[1:, :rank], schema.offsets[:-1], axis=0)])


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

    @classmethod
    def of_records(cls, records: RecordSource, threads: int | None) -> CellSets:
        """Return records as they are."""
        return cls(records, np.ones(len(records.schema)), 1.0, 0.0, threads)

    @classmethod
    def of_tables(cls, tables: Tables, pair_weights: PairWeights, threads: int | None) -> CellSets:
        """Return the cells of tables, weighted by their counts."""
        copies = np.bincount(tables.sets.ravel(), minlength=len(tables.schema)).astype(np.float64)
        offset = _negative_entropy(tables, pair_weights)
        return cls(tables.as_records(pair_weights), copies, float(len(tables)), offset, threads)

    @property
    def schema(self) -> Schema:
        """The variables."""
        return self.records.schema

    def expected(self, theta: Theta, rank: int) -> ExpectedCounts:
        """Return the sums of the E-step over all sets."""
        return expected_counts(self.records, theta, rank, self.threads)

    @cached_property
    def totals(self) -> Floats:
        """How often each cell was observed, shape (n_categories,)."""
        theta = np.zeros((1 + self.schema.n_categories, 4))
        theta[:, 0] = 1.0
        # The expected counts of a single component are plain counts.
        return self.expected(theta, 1).counts[1:, 0]

    @cached_property
    def shares(self) -> Floats:
        """Each variable's overall shares (n_categories,), with a tenth of a record spread evenly on top.

        The extra keeps a category that was declared but never seen possible.
        """
        totals = self.totals
        sizes = np.array(self.schema.sizes)
        of_variable = np.add.reduceat(totals, self.schema.offsets[:-1])
        return (totals + np.repeat(_EXTRA / sizes, sizes)) / np.repeat(of_variable + _EXTRA, sizes)

    def support(self, counts: Theta, rank: int) -> Floats:
        """Return on how many people each component rests, and each of its factors; shape (1 + n_variables, rank)."""
        copies = np.concatenate([[self.total_copies], self.copies])
        support: Floats = sums_of_variables(counts, self.schema, rank) / np.maximum(copies, 1.0)[:, None]
        return support

    def with_records(self, records: Records) -> CellSets:
        """Return other sets of the same kind, such as a fold of these."""
        return replace(self, records=records)


def _negative_entropy(tables: Tables, pair_weights: PairWeights) -> float:
    """Return the weighted mean over tables of Σ x log x."""
    shares = tables.flat / np.repeat(tables.totals, np.diff(tables.starts))
    of_table = np.add.reduceat(times_log(shares, shares), tables.starts[:-1])
    weights = tables.weights if pair_weights == "counts" else np.ones(len(tables))
    return float((of_table * weights).sum() / weights.sum())


def times_log(shares: Floats, values: Floats) -> Floats:
    """Return shares · log(values), 0 where the share is 0."""
    return shares * np.log(values, where=shares > 0, out=np.zeros_like(shares))
