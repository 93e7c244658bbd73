"""Published tables as evidence: cells that are sums over several categories, and counts that are not quite known.

A category of a coarser table is a set of finer ones, and its row of θ is the sum of theirs. So the sets are rows below
the others, in which the E-step counts as in any; what it expects there is dealt out to the members by their own rows.
That is EM exactly: which member it was is one more thing that was not seen.

What is not known is filled in at each step by what the model expects, which is EM again: the people outside a table's
universe, those behind "<5" or a suppressed cell, and how a published mean is made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from twoway.arrays import Floats, times_log
from twoway.data.records import Records
from twoway.data.stored_records import Block
from twoway.model.pmf import JointPMF
from twoway.model.posterior import posterior_of_theta
from twoway.model.raking import raked_to
from twoway.schema import Schema
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.em import fit_near_by_em
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.table_cells import GroupRows, MeanCells, OpenCells, Slice, TableCells
from twoway.solvers.theta import ExpectedCounts, Theta, expected_counts_of_block
from twoway.solvers.watch import Watch
from twoway.tables.published.pairs import Codes
from twoway.tables.published.tables import PublishedTables

if TYPE_CHECKING:
    from twoway.kernels.trees import TreeRows

_LEAST = 1e-300
# Pseudo-people of all states together by which they are drawn toward where they began: a pull that decides what the
# tables leave open, and nothing else.
_PSEUDO_PEOPLE = 0.6
_TOL = 1e-6
# A gain in the logarithm of the likelihood of all people together that no one would notice.
_SMALL_GAIN = 0.002
# Tables that must hold exactly count so many times as much as others.
_EXACT_TIMES = 100.0
_BISECTIONS = 100
# Probabilities below are differences of rounding errors.
_NO_MASS = 1e-11


@dataclass(frozen=True)
class TableSums(CellSets):
    """Published tables in the shape of records, with what is filled in at each step."""

    own_schema: Schema = None  # type: ignore[assignment]  # always given
    groups: GroupRows = None  # type: ignore[assignment]  # always given
    slices: tuple[Slice, ...] = ()
    open_cells: tuple[OpenCells, ...] = ()
    means: tuple[MeanCells, ...] = ()
    total_weight: float = 1.0

    @classmethod
    def of(cls, published: PublishedTables, threads: int | None) -> TableSums:
        """Return published tables as evidence; those that must hold exactly count more times than others."""
        tables = TableCells(published)
        for table in published.tables:
            tables.add_table(table, _EXACT_TIMES if published.is_exact(table) else 1.0)
        for mean in published.means:
            tables.add_mean(mean)
        groups = tables.group_rows()
        return cls(
            tables.records_of_cells(groups),
            np.maximum(tables.copies, 1.0),
            max(tables.total_copies, 1.0),
            tables.negative_entropy,
            threads,
            None,
            published.schema,
            groups,
            tuple(tables.slices),
            tuple(tables.open_cells),
            tuple(tables.means),
            max(tables.total_weight, 1.0),
        )

    @property
    def schema(self) -> Schema:
        """The variables."""
        return self.own_schema

    def expected(self, theta: Theta, rank: int, rows: TreeRows | None = None) -> ExpectedCounts:
        """Return the sums of the E-step over all cells; the likelihood is that of what was published."""
        assert isinstance(self.records, Records)
        n_cells = self.schema.n_categories
        extended, rows = self.groups.extended(theta, rows, n_cells)
        block = self.records.as_block()
        weights, value = block.weights, None
        if self.slices or self.open_cells or self.means:
            log_prob = posterior_of_theta(block, extended, rank, rows, 1 if rows is None else 0)[1]
            weights, value = self._filled(np.exp(log_prob), log_prob, weights)
        counted = self._heavier_than_0(block, weights)
        expected = expected_counts_of_block(counted, theta=extended, rank=rank, rows=rows)
        counts = self.groups.dealt_out(expected.counts, extended, n_cells)
        return ExpectedCounts(counts, expected.log_likelihood if value is None else value)

    def _filled(self, prob: Floats, log_prob: Floats, known: Floats) -> tuple[Floats, float]:
        """Return the weight of each cell with what is filled in, and the log-likelihood of what was published."""
        weights = known.copy()
        with np.errstate(invalid="ignore"):
            value = float(np.where(known > 0, known * log_prob, 0.0).sum())
        for cells, low, high, people, unit, total in self.open_cells:
            own = prob[cells]
            if np.isnan(total):
                expected, log_of_range = self.expected_in_range(people * own, low, high)
                weights[cells] += unit * expected
                value += unit * float((log_of_range + people * own).sum())
            elif (mass := float(own.sum())) > 0:
                weights[cells] += unit * total * own / mass
                value += unit * total * float(np.log(mass))
        for cells, outside in self.slices:
            mass, weight = max(float(prob[cells].sum()), _LEAST), float(weights[cells].sum())
            weights[outside] += weight / mass * prob[outside]
            value -= weight * float(np.log(mass))
        for cells, values, mean, weight, outside in self.means:
            mass = max(float(prob[cells].sum()), _LEAST)
            tilted, divergence = self.tilted_to(prob[cells] / mass, values, mean)
            weights[cells] += weight * tilted
            weights[outside] += weight / mass * prob[outside]
            value -= weight * divergence
        return weights, value

    @cached_property
    def totals(self) -> Floats:
        """How often each cell was observed, shape (n_categories,); sets of several are dealt out evenly."""
        theta = np.zeros((1 + self.schema.n_categories, 4))
        theta[:, 0] = 1.0
        plain = replace(self, slices=(), open_cells=(), means=())
        return plain.expected(theta, 1).counts[1:, 0]

    @staticmethod
    def expected_in_range(means: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the expected values of Poisson numbers that are within bounds, and the logarithm of that probability.

        Examples
        --------
        >>> np.round(
        ...     TableSums.expected_in_range(np.array([2.0, 9.0, 3.0]), np.zeros(3), np.array([4.0, 4.0, np.inf]))[0], 3
        ... )
        array([1.81 , 3.476, 3.   ])
        """
        from scipy.special import gammaln, pdtr

        means, low, high = np.maximum(means, 1e-12), np.ceil(low), np.floor(high)
        below, above = (
            pdtr(np.maximum(low - 1.0, 0.0), means) * (low > 0),
            np.where(high < np.inf, pdtr(high, means), 1.0),
        )
        mass = above - below
        inner = np.where(high < np.inf, pdtr(np.maximum(high - 1.0, 0.0), means) * (high > 0), 1.0)
        inner -= pdtr(np.maximum(low - 2.0, 0.0), means) * (low > 1)
        # Far from the mean, all but the nearest end is as good as impossible.
        is_far = mass < _NO_MASS
        end = np.clip(means, low, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = np.where(is_far, end, np.clip(means * inner / mass, low, high))
            logs = np.where(is_far, end * np.log(means) - means - gammaln(end + 1.0), np.log(mass))
        return expected, logs

    @staticmethod
    def tilted_to(shares: Floats, values: Floats, mean: float) -> tuple[Floats, float]:
        """Return shares ∝ shares · exp(t · value) that have a mean, and their divergence from the shares.

        Of all shares with that mean, they are nearest to the given ones.

        Examples
        --------
        >>> tilted, divergence = TableSums.tilted_to(np.full(3, 1 / 3), np.array([0.0, 1.0, 2.0]), 1.5)
        >>> np.round(tilted, 3), round(divergence, 3)
        (array([0.116, 0.268, 0.616]), 0.197)
        """
        centred = values - mean
        scale = max(float(np.abs(centred).max()), _LEAST)
        low, high = -60.0 / scale, 60.0 / scale
        for _ in range(_BISECTIONS):
            tilt = 0.5 * (low + high)
            powers = tilt * centred
            tilted = shares * np.exp(powers - powers.max())
            if float(tilted @ centred) > 0:
                high = tilt
            else:
                low = tilt
        tilted /= tilted.sum()
        return tilted, max(float(times_log(tilted, tilted / np.maximum(shares, _LEAST)).sum()), 0.0)

    @staticmethod
    def _heavier_than_0(block: Block, weights: Floats) -> Block:
        """Return a block's records that have a weight, with these weights."""
        kept = np.flatnonzero(weights > 0)
        lengths = np.diff(block.pointers)[kept]
        pointers = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(block.pointers[kept] - pointers[:-1], lengths) + np.arange(pointers[-1])
        return block._replace(pointers=pointers, cells=block.cells[places], weights=weights[kept])


def fit_table_sums(
    published: PublishedTables,
    start: JointPMF,
    watch: Watch,
    threads: int | None,
    *,
    margins: Mapping[int, tuple[list[Codes], Floats]],
    passes: int,
    quiet_cycles: int,
) -> Descent:
    """Return the fit of all that was published that is nearest to a start; ``margins`` hold exactly."""
    sums = TableSums.of(published, threads)
    small = _SMALL_GAIN / (_TOL * sums.total_weight)
    loop = Loop("published tables", passes, _TOL, watch, quiet_cycles=quiet_cycles, small=small)
    descent = fit_near_by_em(sums, start, _PSEUDO_PEOPLE, loop)
    return replace(descent, pmf=raked_to(descent.pmf, margins)) if margins else descent
