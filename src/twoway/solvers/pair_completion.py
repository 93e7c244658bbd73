"""Tables of pairs that were not published, from those that were: the matrix of all pairs as a product of low rank.

What a table has beyond its margins, in units of its sampling error, is R_jk = (X_jk - x_j x_kᵀ) / √(x_j x_kᵀ), the
residuals of correspondence analysis. With F components all residuals together are V Vᵀ, V with F - 1 columns. So a
block without a table, and each block on the diagonal, follows from others by the spaces that they share,
R_jk = R_jr R_lr⁺ R_lk (Ibrahim and Fu, Crowdsourcing via annotator co-occurrence imputation and provable symmetric
nonnegative matrix factorization, 2021); l and r may be groups of variables, where one has too few categories. From
there, alternating least squares over the observed blocks alone even out the sampling error.

Legend: R residuals, V their root, j and k variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np

from twoway.arrays import Bools, Floats
from twoway.schema import Schema
from twoway.solvers.pair_matrix import PairMatrix
from twoway.tables.pair_graph import PairGraph

# Where more blocks are missing, least squares alone fill them in: among so many others they are not held by a few.
_MOST_IMPUTED = 500
# From so many categories of a group on, no more variables join it: they would cost much and say little more.
_MOST_SIDE = 60
# Directions weaker than this share of the strongest are rounding.
_ROUNDING = 1e-10
_MOST_SWEEPS = 500
_TOLERANCE = 1e-9


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
            found = self._impute_round(values, observed, n_directions)
            if not found:
                break
            for (one, other), block in found.items():
                rows, columns = self.schema.cells(one), self.schema.cells(other)
                values[rows, columns], values[columns, rows] = block, block.T
                observed[one, other] = observed[other, one] = True
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
            first, second = (rows_of(np.frombuffer(group, dtype=bool)) for group in (left, right))
            u, scales, v = np.linalg.svd(values[np.ix_(first, second)], full_matrices=False)
            if len(scales) < n_directions or scales[n_directions - 1] <= _ROUNDING * scales[0]:
                return None
            kept = slice(n_directions)
            pseudo: Floats = (v[kept].T / scales[kept]) @ u[:, kept].T
            return pseudo

        found = {}
        for one, other in zip(*np.nonzero(np.triu(~observed)), strict=True):
            # Of each split, what has tables with the two variables; of these, the largest smaller side.
            groups = [(left & observed[other], right & observed[one]) for left, right in sides]
            if not groups:
                break
            smaller = [min((sizes - 1) @ left, (sizes - 1) @ right) for left, right in groups]
            left, right = map(limited, groups[int(np.argmax(smaller))])
            if max(smaller) < n_directions or (pseudo := inverse(left.tobytes(), right.tobytes())) is None:
                continue
            ahead = values[schema.cells(one)][:, rows_of(right)]
            behind = values[rows_of(left)][:, schema.cells(other)]
            block = ahead @ pseudo @ behind
            found[int(one), int(other)] = (block + block.T) / 2.0 if one == other else block
        return found

    def root(self, n_directions: int) -> Floats:
        """Return V (n_categories, n_directions) whose V Vᵀ is nearest to all blocks, observed and imputed.

        Directions that only a negative product could explain, as sampling error makes them, are left at zero.
        """
        scales, vectors = np.linalg.eigh(self.imputed(n_directions))
        n_found = min(n_directions, len(scales))
        kept = slice(len(scales) - n_found, None)
        v = np.zeros((len(scales), n_directions))
        v[:, :n_found] = vectors[:, kept] * np.sqrt(np.maximum(scales[kept], 0.0))
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
            if misfits[-2] - misfits[-1] <= _TOLERANCE * misfits[-2]:
                break
        return v, misfits

    def _misfit(self, v: Floats, ridge: float) -> float:
        squares = PairMatrix.spread_over_cells(self.weights, self.schema.sizes) * np.square(self.values - v @ v.T)
        return float(squares.sum() + ridge * np.square(v).sum())
