"""CNMF-SPA: successive projection on the stacked two-way tables (Ibrahim and Fu, Algorithm CNMF-SPA).

Variables are split into two groups; the tables between the groups, stacked, factor as W · Hᵀ. If some category of the
second group belongs to one component alone, its column of the stack is that component's column of W, and successive
projection finds such columns. H follows by nonnegative least squares, the weights from F × F normal equations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from twoway.arrays import Bools, Floats
from twoway.errors import DataError, check_whole_number
from twoway.model.parameters import normalized_factors
from twoway.model.pmf import JointPMF
from twoway.solvers.evidence import PairMatrix
from twoway.solvers.problem import Problem, Solution

# The matrix of all pairs is written out: 3 GB at this size.
MOST_CATEGORIES = 20_000
_MOST_TRIALS = 200


@dataclass(frozen=True)
class SPA:
    """A direct solution from two-way tables, without iteration."""

    first: int | None = None
    """The number of variables in the first group, in schema order: the paper's split. None tries several splits and
    keeps the one whose solution fits all tables best."""
    n_splits: int = 6
    """How many splits are tried where ``first`` is not given."""

    name: ClassVar[str] = "spa"

    def solve(self, problem: Problem) -> Solution:
        """Return the best solution over the splits."""
        schema, rank = problem.evidence.schema, problem.rank
        problem.check_categories(self, MOST_CATEGORIES)
        pairs = problem.evidence.pairs
        splits = list(self.splits(pairs, rank, problem.seeds))
        if not splits:
            raise DataError(
                f"rank {rank} is more than 'spa' can find here: it needs two groups of variables with all tables "
                f"between them and at least {rank} categories on each side, and {len(schema)} variables with "
                f"{schema.n_categories} categories in {pairs.n_tables} tables have no such split; use a lower rank or "
                "solver='coupled-nmf'"
            )
        if len(splits) > 1:
            # Plain least squares separate good splits from bad ones at a tenth of the cost.
            quick = [pairs.divergence(solve_split_by_spa(pairs, split, rank, exact=False)) for split in splits]
            splits = [splits[int(np.argmin(quick))]]
        pmf = solve_split_by_spa(pairs, splits[0], rank)
        return problem.direct(self, pmf, pairs.divergence(pmf))

    def splits(self, pairs: PairMatrix, rank: int, seeds: Sequence[int]) -> Iterator[Bools]:
        """Yield splits as masks of the first group, those that can carry the rank only."""
        n_variables = len(pairs.schema)
        if self.first is not None:
            if not 1 <= check_whole_number("first", self.first, 1) < n_variables:
                raise DataError(f"first must be between 1 and {n_variables - 1} variables, not {self.first!r}")
            split = np.arange(n_variables) < self.first
            if pairs.carries(split, rank):
                yield split
            return
        if not pairs.can_carry(rank):
            return
        # Groups in the order of their names, so that the order of columns does not matter.
        names = pairs.schema.names
        groups = sorted(pairs.inseparable, key=lambda group: min(names[index] for index in group))
        random = np.random.default_rng(seeds)
        seen: set[bytes] = set()
        for trial in range(_MOST_TRIALS):
            # Halves first, then groups dealt out by chance.
            first = np.arange(len(groups)) * 2 < len(groups) if trial == 0 else random.uniform(size=len(groups)) < 0.5
            split = np.zeros(n_variables, dtype=bool)
            for group, is_first in zip(groups, first, strict=True):
                split[group] = is_first
            if split.tobytes() not in seen and pairs.carries(split, rank):
                seen.add(split.tobytes())
                yield split
            if len(seen) >= self.n_splits:
                return


def solve_split_by_spa(pairs: PairMatrix, split: Bools, rank: int, *, exact: bool = True) -> JointPMF:
    """Return CNMF-SPA's solution for one split of the variables.

    Not ``exact`` means that least squares are cut off at zero, instead of solved under that constraint.
    """
    from scipy.optimize import nnls

    schema = pairs.schema
    of_cell = np.repeat(split, schema.sizes)
    stack = pairs.shares[np.ix_(of_cell, ~of_cell)]
    chosen = successive_projection(stack, rank)
    w = np.zeros((schema.n_categories, rank))
    w[of_cell] = stack[:, chosen]
    h = np.zeros((schema.n_categories, rank))
    if exact:
        h[~of_cell] = [nnls(stack[:, chosen], column)[0] for column in stack.T]
    else:
        h[~of_cell] = np.maximum(np.linalg.lstsq(stack[:, chosen], stack, rcond=None)[0].T, 0.0)
    # A component that no category of a variable supports has no column there: any is as good.
    factors = normalized_factors(schema, w + h + 1e-12)
    w, h = factors[of_cell], factors[~of_cell]
    gram = (w.T @ w) * (h.T @ h)
    right = np.einsum("if,ij,jf->f", w, stack, h)
    # Least squares on the Cholesky factor: on the Gram matrix itself it would minimise another norm.
    root = np.linalg.cholesky(gram + 1e-12 * np.trace(gram) * np.eye(rank))
    weights = nnls(root.T, np.linalg.solve(root, right))[0]
    if not weights.any():
        weights = np.ones(rank)
    return JointPMF.from_stacked(schema, weights / weights.sum(), factors)


def successive_projection(stack: Floats, rank: int) -> Sequence[int]:
    """Return the positions of the columns farthest out, each after the earlier ones are projected away."""
    sums = stack.sum(axis=0)
    residual = stack / np.where(sums > 0, sums, 1.0)
    chosen: list[int] = []
    for _ in range(rank):
        norms = np.einsum("ij,ij->j", residual, residual)
        norms[chosen] = -1.0
        chosen.append(int(norms.argmax()))
        direction = residual[:, chosen[-1]]
        length = np.linalg.norm(direction)
        if length > 0:
            direction = direction / length
            residual = residual - np.outer(direction, direction @ residual)
    return chosen
