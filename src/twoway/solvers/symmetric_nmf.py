"""Symmetric NMF: two-way tables, the missing ones imputed, as H · Hᵀ with a nonnegative H.

Ibrahim and Fu, Crowdsourcing via annotator co-occurrence imputation and provable symmetric nonnegative matrix
factorization, 2021. The matrix of all pairs, with the blocks that no table shows and those on its diagonal imputed, is
U Uᵀ for some U with F columns, and H = U Q for an orthogonal Q. Q is found by turns: the nonnegative matrix nearest to
U Q, then the rotation that brings U nearest to it. H holds the factors, each column times the square root of its
weight.

What a table has beyond its margins, in units of its sampling error, is R_jk = (X_jk - x_j x_kᵀ) / √(x_j x_kᵀ), the
residuals of correspondence analysis. With F components all residuals together are V Vᵀ, V with F - 1 columns. So a
block without a table, and each block on the diagonal, follows from others by the spaces that they share,
R_jk = R_jr R_lr⁺ R_lk; l and r may be groups of variables, where one has too few categories. From there, alternating
least squares over the observed blocks alone even out the sampling error.

Legend: R residuals, V their root, j and k variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Self

import numpy as np

from twoway.arrays import Bools, Floats
from twoway.errors import check_whole_number
from twoway.model.parameters import normalized_factors
from twoway.model.pmf import JointPMF
from twoway.schema import Schema
from twoway.solvers.evidence import PairMatrix
from twoway.solvers.problem import Problem, Solution
from twoway.solvers.spa import successive_projection
from twoway.solvers.starts import start_numbers
from twoway.tables.pair_graph import PairGraph

# The matrix of all pairs is decomposed: seconds at this size.
MOST_CATEGORIES = 2_000
# The turns of all rotations, then those of the best few, and how many these are.
_FIRST_TURNS, _MORE_TURNS, _KEPT = 50, 2000, 3
_TURN_TOLERANCE = 1e-12
# Where tables give shares only: their noise is unknown.
_USUAL_RECORDS = 1e6
# Where more blocks are missing, least squares alone fill them in.
_MOST_IMPUTED = 500
# A group with this many categories takes no more variables: they would cost much and add little.
_MOST_SIDE = 60
# Directions weaker than this share of the strongest are rounding.
_ROUNDING = 1e-10
_MOST_SWEEPS = 500
_SWEEP_TOLERANCE = 1e-9


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
        # What margins explain is one direction, known exactly.
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
        if len(distances) > 1 and distances[-2] - distances[-1] <= _TURN_TOLERANCE * distances[-2]:
            break
    return h, distances


@dataclass(frozen=True)
class PairResiduals:
    """What tables have beyond their margins, (n_categories, n_categories) and symmetric; zero where no table is."""

    schema: Schema
    values: Floats
    weights: Floats
    """(n_variables, n_variables): the share of each table among all; 0 where there is none."""
    roots: Floats
    """(n_categories,): the square roots of the variables' overall shares."""

    @classmethod
    def of(cls, pairs: PairMatrix, shares: Floats) -> Self:
        """Return the residuals of tables, given the variables' overall shares (n_categories,)."""
        schema = pairs.schema
        observed = PairMatrix.spread_over_cells(pairs.weights > 0, schema.sizes)
        # Tables need not agree on a margin: each has its own taken out.
        margins = np.repeat(np.add.reduceat(pairs.shares, schema.offsets[:-1], axis=1), schema.sizes, axis=1)
        roots = np.sqrt(shares)
        scale = np.outer(roots, roots)
        beyond = np.where(observed, pairs.shares - margins * margins.T, 0.0)
        values = np.divide(beyond, scale, out=np.zeros_like(scale), where=scale > 0)
        return cls(schema, values, pairs.weights / max(pairs.weights.sum(), 1e-300), roots)

    def imputed(self, n_directions: int) -> Floats:
        """Return all blocks: those observed as they are, others from the spaces they share, zero where there are none.

        Blocks imputed in a round help to impute others in the next.
        """
        values, observed = self.values.copy(), self.weights > 0
        while n_directions and np.count_nonzero(np.triu(~observed)) <= _MOST_IMPUTED:
            blocks = self._impute_round(values, observed, n_directions)
            if not blocks:
                break
            for (first, second), block in blocks.items():
                rows, columns = self.schema.cells(first), self.schema.cells(second)
                values[rows, columns], values[columns, rows] = block, block.T
                observed[first, second] = observed[second, first] = True
        return values

    def _impute_round(self, values: Floats, observed: Bools, n_directions: int) -> dict[tuple[int, int], Floats]:
        schema, sizes = self.schema, np.array(self.schema.sizes)
        # A block is worth its categories less one, since residuals add up to zero along each margin.
        splits = PairGraph(observed, sizes).splits(n_directions + 1, np.random.default_rng(0))
        sides = [pair for split in splits for pair in ((split.first, split.second), (split.second, split.first))]

        # By name, so that the order of columns does not matter.
        order = np.argsort(schema.names)

        def rows_of(variables: Bools) -> Bools:
            return np.repeat(variables, sizes)

        def limited(variables: Bools) -> Bools:
            """Return as many of the variables as may be on a side, the last one whole."""
            before = np.zeros_like(sizes)
            before[order] = np.cumsum((variables * sizes)[order])
            fits: Bools = before - sizes < max(_MOST_SIDE, 3 * n_directions)
            return variables & fits

        @cache
        def inverse(left: bytes, right: bytes) -> Floats | None:
            """Return the pseudo-inverse of the block between two groups, None where it has too few directions."""
            rows, columns = (rows_of(np.frombuffer(group, dtype=bool)) for group in (left, right))
            u, scales, v = np.linalg.svd(values[np.ix_(rows, columns)], full_matrices=False)
            if len(scales) < n_directions or scales[n_directions - 1] <= _ROUNDING * scales[0]:
                return None
            strongest = slice(n_directions)
            pseudo: Floats = (v[strongest].T / scales[strongest]) @ u[:, strongest].T
            return pseudo

        blocks = {}
        for first, second in zip(*np.nonzero(np.triu(~observed)), strict=True):
            # Of each split, what has tables with the two variables; of these, the largest smaller side.
            groups = [(left & observed[second], right & observed[first]) for left, right in sides]
            if not groups:
                break
            smaller = [min((sizes - 1) @ left, (sizes - 1) @ right) for left, right in groups]
            left, right = map(limited, groups[int(np.argmax(smaller))])
            if max(smaller) < n_directions or (pseudo := inverse(left.tobytes(), right.tobytes())) is None:
                continue
            ahead = values[schema.cells(first)][:, rows_of(right)]
            behind = values[rows_of(left)][:, schema.cells(second)]
            block = ahead @ pseudo @ behind
            blocks[int(first), int(second)] = (block + block.T) / 2.0 if first == second else block
        return blocks

    def root(self, n_directions: int) -> Floats:
        """Return V (n_categories, n_directions) whose V Vᵀ is nearest to all blocks, observed and imputed.

        Directions that only a negative product could explain, as sampling error makes them, are left at zero.
        """
        scales, vectors = np.linalg.eigh(self.imputed(n_directions))
        n_found = min(n_directions, len(scales))
        largest = slice(len(scales) - n_found, None)
        v = np.zeros((len(scales), n_directions))
        v[:, :n_found] = vectors[:, largest] * np.sqrt(np.maximum(scales[largest], 0.0))
        # Blocks that could not be imputed are zero, and draw V to zero.
        weights, product = PairMatrix.spread_over_cells(self.weights, self.schema.sizes), v @ v.T
        square = (weights * product**2).sum()
        return v * np.sqrt(max((weights * product * self.values).sum() / square, 1.0)) if square > 0 else v

    def completed(self, n_directions: int, ridge: float) -> tuple[Floats, list[float]]:
        """Return V (n_categories, n_directions) that fits the observed blocks best, and the misfit after each sweep.

        The misfit is the mean over tables of the squared distance, by their weights: twice the KL divergence, nearly;
        and ``ridge`` times the square of V, without which directions that tables leave open would grow at will.
        """
        schema, v = self.schema, self.root(n_directions)
        if not n_directions:
            return v, [self._misfit(v, ridge)]
        weighted = self.values * PairMatrix.spread_over_cells(self.weights, schema.sizes)
        parts = [schema.cells(index) for index in range(len(schema))]
        grams = np.array([v[rows].T @ v[rows] for rows in parts])
        misfits = [self._misfit(v, ridge)]
        # By name, so that the order of columns does not matter.
        order = sorted(range(len(schema)), key=schema.names.__getitem__)
        for _ in range(_MOST_SWEEPS):
            for index in order:
                # Each table is in the misfit twice, once per order of its variables, and the ridge is not.
                gram = np.tensordot(self.weights[index], grams, 1) + ridge / 2.0 * np.eye(n_directions)
                v[parts[index]] = np.linalg.solve(gram, (weighted[parts[index]] @ v).T).T
                grams[index] = v[parts[index]].T @ v[parts[index]]
            misfits.append(self._misfit(v, ridge))
            if misfits[-2] - misfits[-1] <= _SWEEP_TOLERANCE * misfits[-2]:
                break
        return v, misfits

    def _misfit(self, v: Floats, ridge: float) -> float:
        squares = PairMatrix.spread_over_cells(self.weights, self.schema.sizes) * np.square(self.values - v @ v.T)
        return float(squares.sum() + ridge * np.square(v).sum())
