"""What the tables between two groups of variables show of the rank: their singular values, and those of chance.

Stacked, these tables have the rank of the model. Scaled by the roots of the shares of rows and columns, chance moves
all their cells alike, so that a singular value is either larger than those that chance makes or cannot be distinguished
from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twoway.arrays import Floats
from twoway.model.pmf import JointPMF
from twoway.solvers.evidence import PairMatrix
from twoway.solvers.resampling import TableResampling
from twoway.tables.pair_graph import PairSplit
from twoway.tables.tables import Tables

_DRAWS = 3
VISIBLE = 1.2
"""How many times as large as those of chance a singular value must be to show a component."""


@dataclass(frozen=True)
class RankSpectrum:
    """The singular values of stacked tables, and what chance alone would make."""

    singular: tuple[float, ...]
    noise: float
    """The largest singular value that chance makes where the model has none."""

    @property
    def n_visible(self) -> int:
        """The number of components that stand out from chance; one is always there."""
        return max(1, int(sum(value > VISIBLE * self.noise for value in self.singular)))

    def strength(self, rank: int) -> float:
        """Return how far the weakest of ``rank`` components stands out: 1 is chance, 3 is clear."""
        if rank > len(self.singular):
            return 0.0
        return self.singular[rank - 1] / self.noise if self.noise > 0 else math.inf


def rank_spectrum(
    tables: Tables, pmf: JointPMF, splits: Sequence[PairSplit], n_records: float | None, seed: int
) -> RankSpectrum:
    """Return the singular values of the tables between two groups, and those that chance makes around a model.

    Parameters
    ----------
    tables
        What was observed.
    pmf
        The model from which tables are drawn.
    splits
        Ways to make two groups. The one counts that shows most beyond the model: variables that depend on each other
        alone show nothing where they are all in one group. Chance gets the same choice.
    n_records
        How many people all tables together count; see `bootstrap`.
    """
    shares = pmf.stacked @ pmf.weights
    roots = np.where(shares < 1e-12, 0.0, 1.0 / np.sqrt(np.maximum(shares, 1e-300)))
    sides = [[np.repeat(side, pmf.schema.sizes) for side in (split.first, split.second)] for split in splits]

    def scaled(whole: Floats) -> list[Floats]:
        return [whole[np.ix_(*side)] * np.outer(roots[side[0]], roots[side[1]]) for side in sides]

    resampling = TableResampling(tables, pmf, n_records)
    drawn = [scaled(PairMatrix.of(resampling.tables(seed, draw)).shares) for draw in range(_DRAWS)]
    observed = [_rank_spectrum_values(matrix) for matrix in scaled(PairMatrix.of(tables).shares)]
    if min(map(len, observed)) > pmf.rank:
        # A model of rank F has nothing behind its F-th singular value: what a sample has there is chance.
        noise = max(float(_rank_spectrum_values(matrix)[pmf.rank]) for draw in drawn for matrix in draw)
        best = max(observed, key=lambda values: float(values[pmf.rank]))
    else:
        # It leaves no room behind. No singular value moves farther than the largest that chance makes by itself.
        model = scaled((pmf.stacked * pmf.weights) @ pmf.stacked.T)
        noise = max(float(_rank_spectrum_values(a - b)[0]) for draw in drawn for a, b in zip(draw, model, strict=True))
        best = observed[0]
    return RankSpectrum(tuple(float(value) for value in best), noise)


def _rank_spectrum_values(matrix: Floats) -> Floats:
    """Return the singular values, largest first."""
    squares = np.linalg.eigvalsh(matrix @ matrix.T if len(matrix) < matrix.shape[1] else matrix.T @ matrix)
    return np.asarray(np.sqrt(np.maximum(squares[::-1], 0.0)))
