"""Mirror descent for the fit of all two-way tables: one factor after the other, then the weights.

Block coordinate descent as in Ibrahim and Fu, Algorithm CNMF-OPT: each block takes one exponentiated-gradient step on
its simplex, whose length is found by a search that never lets the objective rise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from twoway.arrays import Floats
from twoway.model.pmf import JointPMF
from twoway.solvers.cells import Theta
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.pairs import PairMatrix, PairWeights

Loss = Literal["kl", "euclidean"]

_SEARCHES = 30  # halvings of a step before a block is left as it is


def fit_by_mirror_descent(
    pairs: PairMatrix, start: JointPMF, loss: Loss, pair_weights: PairWeights, loop: Loop
) -> Descent:
    """Return the end of the descent."""
    schema, rank = pairs.schema, start.rank
    # The matrix holds each table twice.
    of_pair = pairs.weights if pair_weights == "counts" else (pairs.weights > 0).astype(float)
    of_pair = of_pair / (of_pair.sum() / 2.0)
    weights = np.repeat(np.repeat(of_pair, schema.sizes, axis=0), schema.sizes, axis=1)
    steps = np.ones(len(schema) + 1)

    def value_and_slope(shares: Floats, weight: Floats, model: Floats) -> tuple[float, Floats]:
        """Return the weighted loss of some tables, and its derivative by the model."""
        if loss == "euclidean":
            residual = model - shares
            return float(0.5 * (weight * residual**2).sum()), weight * residual
        seen = shares > 0
        ratio = np.divide(shares, model, out=np.zeros_like(shares), where=seen)
        logs = np.log(ratio, out=np.zeros_like(shares), where=seen)
        return float((weight * shares * logs).sum()), -weight * ratio

    def move(block: int, here: Floats, axis: int, evaluate: Callable[[Floats], tuple[float, Floats]]) -> Floats:
        """Return one step from here along the simplex, of the longest length found that does not rise."""
        value, gradient = evaluate(here)
        # Adding the same to a whole column changes nothing on the simplex, and keeps exponents small.
        gradient = gradient - gradient.min(axis=axis, keepdims=True)
        for _ in range(_SEARCHES):
            there: Floats = here * np.exp(-np.minimum(steps[block] * gradient, 50.0))
            there /= there.sum(axis=axis, keepdims=True)
            if evaluate(there)[0] <= value:
                steps[block] *= 2.0
                return there
            steps[block] /= 2.0
        return here

    def sweep(theta: Theta) -> tuple[Theta, float]:
        following = theta.copy()
        lam, stacked = following[0, :rank], following[1:, :rank]
        objective, _ = value_and_slope(pairs.shares, weights, (stacked * lam) @ stacked.T)
        for index in range(len(schema)):
            rows = schema.cells(index)
            others = np.repeat(of_pair[index] > 0, schema.sizes)
            basis = stacked[others] * lam
            shares, weight = pairs.shares[rows, others], weights[rows, others]

            def evaluate(
                factor: Floats, basis: Floats = basis, shares: Floats = shares, weight: Floats = weight
            ) -> tuple[float, Floats]:
                value, slope = value_and_slope(shares, weight, factor @ basis.T)
                return value, slope @ basis

            stacked[rows] = move(index, stacked[rows], 0, evaluate)

        def evaluate_weights(row: Floats) -> tuple[float, Floats]:
            value, slope = value_and_slope(pairs.shares, weights, (stacked * row[0]) @ stacked.T)
            return value, np.einsum("if,ij,jf->f", stacked, slope, stacked)[None]

        lam[:] = move(len(schema), lam[None].copy(), 1, evaluate_weights)[0]
        return following, objective / 2.0

    return loop.descend(sweep, start)
