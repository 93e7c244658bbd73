"""Entropy and mutual information of variables under a mixture, exact or sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from twoway.arrays import Floats
from twoway.errors import check_number, check_whole_number
from twoway.model.trees import Trees

N_SAMPLES = 2**16
"""Records drawn where a sub-joint is too large to visit every cell."""


Term: TypeAlias = tuple[int, Sequence[int]]
"""The sign of an entropy, and the positions of its variables."""


class Estimate(float):
    """A number with its standard error.

    Examples
    --------
    >>> Estimate(1.5), Estimate(1.5, 0.01)
    (1.5, Estimate(1.5, standard_error=0.01))
    >>> Estimate(1.5, 0.01) + 1
    2.5
    """

    standard_error: float
    """The standard error where the number was sampled, 0 where it is exact."""

    def __new__(cls, value: float, standard_error: float = 0.0) -> Estimate:
        """Return the number with its standard error."""
        estimate = super().__new__(cls, value)
        estimate.standard_error = standard_error
        return estimate

    def __repr__(self) -> str:
        number = float.__repr__(self)
        return f"Estimate({number}, standard_error={self.standard_error!r})" if self.standard_error else number


def signed_entropies(trees: Trees, terms: Sequence[Term], base: float | None, seed: int) -> Estimate:
    """Return a sum of entropies with signs, not below 0: an entropy, or a mutual information.

    All terms are estimated on the same draws, where they are not exact, so that their errors cancel as
    far as they can.

    Parameters
    ----------
    trees
        The model of the variables asked about.
    terms
        The sign of each entropy and the positions of its variables.
    base
        The base of the logarithm; None for nats.
    seed
        The seed of the draws.
    """
    allowed = "None, for nats, or a number above 1"
    unit = 1.0 if base is None else math.log(check_number("base", base, allowed, lambda base: 1 < base < math.inf))
    seed = check_whole_number("seed", seed, 0)
    parts = [(sign, subset, trees.of_variables(subset)) for sign, subset in terms if subset]
    if all(part.is_small for _, _, part in parts):
        return Estimate(max(0.0, math.fsum(sign * _exact_entropy(part) for sign, _, part in parts) / unit))
    codes = trees.draw(N_SAMPLES, np.random.default_rng(seed))
    surprisals = np.zeros(N_SAMPLES)
    for sign, subset, part in parts:
        surprisals -= sign * part.log_joint([codes[n] for n in subset])
    spread = float(surprisals.std(ddof=1)) / math.sqrt(N_SAMPLES)
    return Estimate(max(0.0, float(surprisals.mean()) / unit), spread / unit)


def _exact_entropy(trees: Trees) -> float:
    """Return the entropy of all variables in nats, by visiting every cell."""
    parts = []
    for chunk in trees.joint_chunks():
        positive = chunk[chunk > 0]
        parts.append(-float(positive @ np.log(positive)))
    return max(0.0, math.fsum(parts))


def pairwise_information(trees: Trees) -> Floats:
    """Return the mutual information of every pair of variables in nats; on the diagonal, their entropies.

    Shape (n_variables, n_variables).
    """
    factors = trees.factors
    starts = np.cumsum([0, *map(len, factors)])[:-1]
    shares = np.concatenate([factor @ trees.state_shares(variable) for variable, factor in enumerate(factors)])
    table = np.empty((len(factors), len(factors)))
    for index, factor in enumerate(factors):
        # All tables that hold this variable, side by side.
        joint = trees.tables_with(index)
        own = shares[starts[index] : starts[index] + len(factor)]
        # One after the other: the product of two small shares may underflow.
        ratio = np.divide(joint, own[:, None], out=np.ones_like(joint), where=joint > 0)
        np.divide(ratio, shares, out=ratio, where=joint > 0)
        table[index] = np.add.reduceat((joint * np.log(ratio)).sum(axis=0), starts)
        table[index, index] = -float(own[own > 0] @ np.log(own[own > 0]))
    return np.asarray(np.maximum((table + table.T) / 2, 0.0))
