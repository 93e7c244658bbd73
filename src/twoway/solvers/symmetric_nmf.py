"""Symmetric NMF: two-way tables, the missing ones imputed, as H · Hᵀ with a nonnegative H.

Ibrahim and Fu, Crowdsourcing via annotator co-occurrence imputation and provable symmetric nonnegative matrix
factorization, 2021. The matrix of all pairs, with the blocks that no table shows and those on its diagonal imputed (see
`pair_completion`), is U Uᵀ for some U with F columns, and H = U Q for an orthogonal Q. Q is found by turns: the
nonnegative matrix nearest to U Q, then the rotation that brings U nearest to it. H holds the factors, each column
times the square root of its weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from twoway.arrays import Floats
from twoway.errors import check_whole_number
from twoway.model.parameters import normalized_factors
from twoway.model.pmf import JointPMF
from twoway.solvers.pair_completion import PairResiduals
from twoway.solvers.problem import Problem, Solution
from twoway.solvers.spa import successive_projection
from twoway.solvers.starts import start_numbers

# The matrix of all pairs is decomposed: seconds at this size.
MOST_CATEGORIES = 2_000
# All rotations take so many turns, the best few then more.
_FIRST_TURNS, _MORE_TURNS, _KEPT = 50, 2000, 3
_TOLERANCE = 1e-12
# Where tables give shares only: their noise is unknown.
_USUAL_RECORDS = 1e6


@dataclass(frozen=True)
class SymmetricNMF:
    """A direct solution from two-way tables of which many may be missing."""

    n_rotations: int = 12
    """How many rotations are started; the one whose solution fits all tables best is kept."""

    name: ClassVar[str] = "symmetric-nmf"

    def __post_init__(self) -> None:
        check_whole_number("n_rotations", self.n_rotations, 1)

    def solve(self, problem: Problem) -> Solution:
        """Return the best solution over the rotations; the first is from the given start, if there is one."""
        evidence, rank = problem.evidence, problem.rank
        schema = evidence.schema
        problem.check_categories(self, MOST_CATEGORIES)
        evidence.connected_tables(2)
        pairs, totals = evidence.pairs, evidence.table_sets("counts").totals
        shares = totals / np.repeat(np.add.reduceat(totals, schema.offsets[:-1]), schema.sizes)
        residuals = PairResiduals.of(pairs, shares)
        v, _ = residuals.completed(rank - 1, rank / (pairs.weights.sum() if evidence.has_counts else _USUAL_RECORDS))
        # What margins explain is a direction of its own, known exactly.
        u = np.column_stack([residuals.roots, v])
        pmfs = [self._pmf(problem, h, shares) for h in self._rotated(u, problem)]
        divergences = np.array([pairs.divergence(pmf) for pmf in pmfs])
        # Rounding does not decide between rotations that end at the same place.
        best = int(np.argmax(divergences <= divergences.min() * (1 + 1e-6) + 1e-12))
        return problem.direct(self, pmfs[best], float(divergences[best]))

    def _rotated(self, u: Floats, problem: Problem) -> Iterator[Floats]:
        """Yield the nonnegative matrices (n_categories, rank) nearest to the rotated root, over the best rotations."""
        ends = [rotated_to_nonnegative(u, start, _FIRST_TURNS) for start in self._starts(u, problem)]
        ends.sort(key=lambda end: end[1][-1])
        for h, _ in ends[:_KEPT]:
            yield rotated_to_nonnegative(u, h, _MORE_TURNS)[0]

    def _starts(self, u: Floats, problem: Problem) -> Iterator[Floats]:
        """Yield nonnegative matrices to begin at: a given one, or the corners of the rows, then random ones."""
        schema, rank = problem.evidence.schema, problem.rank
        if problem.start is not None:
            yield problem.start.stacked * np.sqrt(problem.start.weights)
        else:
            # A category that belongs to one component alone is a corner of all rows.
            corners = u[successive_projection(u.T / np.maximum(u[:, 0], 1e-300), rank)]
            yield np.maximum(u @ np.linalg.pinv(corners), 0.0)
        for number in range(1, self.n_rotations):
            yield u[:, :1] * start_numbers(schema, rank, (*problem.seeds, number))

    @staticmethod
    def _pmf(problem: Problem, h: Floats, shares: Floats) -> JointPMF:
        schema = problem.evidence.schema
        scaled = h * np.sqrt(shares)[:, None]
        sums = np.add.reduceat(scaled, schema.offsets[:-1], axis=0)
        weights = np.square(sums.mean(axis=0))
        # A component that no category of a variable supports has no column there: the overall shares are as good.
        factors = normalized_factors(schema, scaled + 1e-12 * (shares[:, None] + 1e-3))
        return JointPMF.from_stacked(schema, weights / weights.sum(), factors)


def rotated_to_nonnegative(u: Floats, start: Floats, n_turns: int) -> tuple[Floats, list[float]]:
    """Return the nonnegative matrix (n, rank) nearest to u times some rotation, and the distances on the way.

    Each turn rotates u as near as it gets to the last nonnegative matrix, first ``start``, and cuts off what is below
    zero; the squared distance between the two never rises.
    """
    h, distances = start, list[float]()
    for _ in range(n_turns):
        left, _, right = np.linalg.svd(u.T @ h)
        turned = u @ (left @ right)
        h = np.maximum(turned, 0.0)
        distances.append(float(np.square(turned - h).sum()))
        if len(distances) > 1 and distances[-2] - distances[-1] <= _TOLERANCE * distances[-2]:
            break
    return h, distances
