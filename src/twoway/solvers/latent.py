"""The maximum-likelihood fit of components to weighted sets of observed cells.

A record is such a set. So is a cell of a two-way or three-way table, weighted by its count: the sum of Kullback-Leibler
divergences between tables and model is, up to a constant, the log-likelihood of these small records. That is why
EM on records, CNMF-OPT on pairs and the KL fit of triples are one computation here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoway.pmf import JointPMF
from twoway.records import Block, RecordSource
from twoway.solvers.base import Path, Smoothing, Theta, Watch, descend

_EXTRA = 0.1


@dataclass(frozen=True)
class ExpectedCounts:
    """How often each component, and each cell in each component, is expected; these add."""

    counts: Theta
    """(1 + n_cells, width): the components' totals above those of the cells."""
    log_likelihood: float

    def __add__(self, other: ExpectedCounts) -> ExpectedCounts:
        # The left one is a partial sum that nobody else holds.
        np.add(self.counts, other.counts, out=self.counts)
        return ExpectedCounts(self.counts, self.log_likelihood + other.log_likelihood)


def expected_counts(records: RecordSource, theta: Theta, rank: int, threads: int | None) -> ExpectedCounts:
    """Return the sums of the E-step over all records."""
    from twoway.kernels.expectation import expect
    from twoway.kernels.lanes import layout

    _, prototype = layout(rank)

    def per_block(block: Block) -> ExpectedCounts:
        counts = np.zeros_like(theta)
        return ExpectedCounts(counts, expect(block.pointers, block.cells, block.weights, theta, counts, prototype))

    return records.map_reduce(per_block, ExpectedCounts.__add__, threads=threads)


def cell_totals(records: RecordSource, threads: int | None) -> NDArray[np.float64]:
    """Return how often each cell was observed, (n_cells,): the expected counts of a single component."""
    theta = np.zeros((1 + records.schema.n_cells, 4))
    theta[:, 0] = 1.0
    return expected_counts(records, theta, 1, threads).counts[1:, 0].copy()


def overall_shares(records: RecordSource, threads: int | None) -> NDArray[np.float64]:
    """Return each variable's overall shares (n_cells,), with a tenth of a record spread evenly on top.

    The extra keeps a category that was declared but never seen possible.
    """
    schema, totals = records.schema, cell_totals(records, threads)
    sizes = np.array(schema.sizes)
    of_variable = np.add.reduceat(totals, schema.offsets[:-1])
    return (totals + np.repeat(_EXTRA / sizes, sizes)) / np.repeat(of_variable + _EXTRA, sizes)


def fit_cells(
    records: RecordSource,
    start: JointPMF,
    *,
    smoothing: Smoothing,
    copies: NDArray[np.float64] | None = None,
    total_copies: float = 1.0,
    objective_offset: float = 0.0,
    max_iter: int,
    tol: float,
    task: str,
    watch: Watch,
    threads: int | None,
) -> tuple[JointPMF, Path]:
    """Return the PMF that best explains weighted sets of cells, and how the loop got there.

    Parameters
    ----------
    smoothing
        Pseudo-records a component; the objective includes their penalty.
    copies, total_copies
        How often a record's cell of each variable, and a record itself, is counted among the sets: 1 for records; for
        tables, the number of tables that hold the variable, and the number of tables.
    objective_offset
        Added to the objective, which is the negative penalised log-likelihood for each unit of weight.
    """
    from twoway.kernels.expectation import pack
    from twoway.kernels.maximization import log_prior, maximize

    schema, rank = records.schema, start.rank
    marginal = overall_shares(records, threads)
    times = np.ones(len(schema)) if copies is None else copies
    pseudo_counts = np.empty(1 + schema.n_cells)
    pseudo_counts[0] = smoothing.weights * total_copies
    pseudo_counts[1:] = smoothing.factors * np.repeat(times, schema.sizes) * marginal
    penalised = bool(pseudo_counts.any())
    total_weight = records.total_weight

    def update(theta: Theta) -> tuple[Theta, float]:
        expected = expected_counts(records, theta, rank, threads)
        value = expected.log_likelihood
        if penalised:
            value += log_prior(theta, pseudo_counts, rank)
        following = np.zeros_like(theta)
        maximize(expected.counts, pseudo_counts, marginal, schema.offsets, rank, following)
        return following, objective_offset - value / total_weight

    path = descend(
        update, pack(start.weights, start.stacked), schema, rank, max_iter=max_iter, tol=tol, task=task, watch=watch
    )
    pmf = JointPMF.from_stacked(schema, path.theta[0, :rank].copy(), path.theta[1:, :rank].copy())
    return pmf, path
