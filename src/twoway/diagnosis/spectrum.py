"""How many components two-way tables show above sampling error.

The tables between two groups of variables, stacked, have the rank of the model. Scaled by the roots of the shares of
rows and columns, chance moves all their cells alike, so that a singular value either stands out from
what chance makes or cannot be told from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoway.diagnosis.pair_graph import Split
from twoway.diagnosis.resampling import FromTables
from twoway.pmf import JointPMF
from twoway.solvers.pairs import PairMatrix
from twoway.tables import Tables

Floats = NDArray[np.float64]

_DRAWS = 3
CLEAR = 1.2
"""How far above chance a singular value must stand to say that a component is there."""


@dataclass(frozen=True)
class Spectrum:
    """The singular values of stacked tables, and what chance alone would make."""

    singular: tuple[float, ...]
    noise: float
    """The largest singular value that chance makes where the model has none."""

    @property
    def n_visible(self) -> int:
        """The number of components that stand out from chance; one is always there."""
        return max(1, int(sum(value > CLEAR * self.noise for value in self.singular)))

    def strength(self, rank: int) -> float:
        """Return how far the weakest of so many components stands out: 1 is chance, 3 is clear."""
        if rank > len(self.singular):
            return 0.0
        return self.singular[rank - 1] / self.noise if self.noise > 0 else math.inf


def spectrum(tables: Tables, pmf: JointPMF, split: Split, n_records: float | None, seed: int) -> Spectrum:
    """Return the singular values of the tables between two groups, and those that chance makes around a model.

    Parameters
    ----------
    tables
        What was observed.
    pmf
        The model that says how chance moves the tables.
    n_records
        How many people stand in all tables together; see `bootstrap`.
    """
    shares = pmf.stacked @ pmf.weights
    rows, columns = (np.repeat(side, pmf.schema.sizes) for side in (split.first, split.second))
    scale = 1.0 / np.sqrt(np.maximum(np.outer(shares[rows], shares[columns]), 1e-300))
    rare = shares < 1e-12
    scale[rare[rows]], scale[:, rare[columns]] = 0.0, 0.0

    def stacked(of: Tables) -> Floats:
        found: Floats = PairMatrix.of(of).shares[np.ix_(rows, columns)]
        return found

    def singular(shares: Floats) -> Floats:
        matrix = shares * scale
        squares = np.linalg.eigvalsh(matrix @ matrix.T if len(matrix) < matrix.shape[1] else matrix.T @ matrix)
        return np.asarray(np.sqrt(np.maximum(squares[::-1], 0.0)))

    resampling = FromTables(tables, pmf, n_records)
    drawn = [stacked(resampling.tables(seed, draw)) for draw in range(_DRAWS)]
    if min(scale.shape) > pmf.rank:
        # A model of rank F has nothing behind its F-th singular value: what stands there in a sample is chance.
        noise = max(float(singular(shares)[pmf.rank]) for shares in drawn)
    else:
        # It leaves no room behind. No singular value moves farther than the largest that chance makes by itself.
        own = ((pmf.stacked * pmf.weights) @ pmf.stacked.T)[np.ix_(rows, columns)]
        noise = max(float(singular(shares - own)[0]) for shares in drawn)
    return Spectrum(tuple(float(value) for value in singular(stacked(tables))), noise)
