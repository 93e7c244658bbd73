"""CNMF-OPT: the fit of all available two-way tables at once (Ibrahim and Fu, Algorithm CNMF-OPT).

The default updates all factors and weights together by the EM step of the KL fit (see `em`), accelerated.
``update="mirror"`` is the paper's way: block coordinate descent, one factor after the other, then the weights. Each
block takes one exponentiated-gradient step on its simplex, whose length is found by a search that never lets the
objective rise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from twoway.arrays import Floats
from twoway.errors import DataError, check_known
from twoway.model.pmf import JointPMF
from twoway.solvers.cell_sets import PairWeights
from twoway.solvers.em import annealed_by_em, fit_cells_by_em
from twoway.solvers.evidence import PairMatrix
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.problem import Problem, Solution
from twoway.solvers.spa import MOST_CATEGORIES, SPA
from twoway.solvers.starts import softened_start
from twoway.solvers.theta import Theta

Loss = Literal["kl", "euclidean"]
_Map = Callable[[Floats], Floats]

_TINY = 1e-300  # below every probability, and far enough from zero to divide by
_SEARCHES = 30  # halvings of a step before a block is left as it is


@dataclass(frozen=True)
class CoupledNMF:
    """The PMF that comes closest to all two-way tables together."""

    loss: Loss = "kl"
    """Distance between a table and the model's."""
    update: Literal["em", "mirror"] | None = None
    """"em" (KL only) or the paper's "mirror"; None takes the faster one that fits the loss."""
    pair_weights: PairWeights = "counts"
    """Each table by the records it rests on, or all equally, as in the paper."""
    max_iter: int = 5000
    """Passes over the tables."""
    tol: float = 1e-8
    """Stop when each of three cycles of up to three passes lowers the objective by less than this share."""

    name: ClassVar[str] = "coupled-nmf"

    def __post_init__(self) -> None:
        check_known("loss", get_args(Loss), self.loss)
        check_known("update", ("em", "mirror", None), self.update)
        check_known("pair_weights", get_args(PairWeights), self.pair_weights)
        if self.update == "em" and self.loss != "kl":
            raise DataError("update='em' minimises the KL divergence only; loss='euclidean' needs update='mirror'")

    def solve(self, problem: Problem) -> Solution:
        """Return the PMF at the end of one descent: from the given start, else from `SPA` or at random.

        The first of several starts takes the solution of `SPA`, where that can find as many components.
        """
        evidence, smoothing = problem.evidence, problem.given_smoothing
        evidence.connected_tables(2)
        sets = evidence.table_sets(self.pair_weights)
        is_small = sets.schema.n_categories <= MOST_CATEGORIES
        if problem.start is None and problem.number == 0 and is_small and evidence.pairs.can_carry(problem.rank):
            direct = SPA().solve(problem)
            problem = replace(problem, start=softened_start(direct.pmf, sets.shares), origin=direct.solver)
        start = problem.first_point(sets)
        if self.loss == "kl" and self.update != "mirror":
            if problem.start is None:
                start = annealed_by_em(sets, start, smoothing, self.max_iter, problem.watch)
            descent = fit_cells_by_em(sets, start, smoothing, problem.loop(self))
        elif any(smoothing):
            raise DataError("mirror descent fits the tables as they are; smoothing needs update='em'")
        else:
            loop = problem.loop(self, accelerate=False)
            descent = fit_coupled_by_mirror(evidence.pairs, start, self.loss, self.pair_weights, loop)
        no_split = evidence.graph.why_no_split(problem.rank)
        warning = (
            f"two-way tables cannot identify rank {problem.rank} here: {no_split}; answers about three or more "
            "variables may be arbitrary"
        )
        kind = "Kullback-Leibler divergence" if self.loss == "kl" else "half squared distance"
        return problem.solution(self, descent, f"mean {kind} per pair", *([warning] if no_split else []))


def fit_coupled_by_mirror(
    pairs: PairMatrix, start: JointPMF, loss: Loss, pair_weights: PairWeights, loop: Loop
) -> Descent:
    """Return the end of the mirror descent."""
    schema, rank = pairs.schema, start.rank
    # The matrix holds each table twice.
    of_pair = pairs.weights if pair_weights == "counts" else (pairs.weights > 0).astype(float)
    of_pair = of_pair / (of_pair.sum() / 2.0)
    of_cell = PairMatrix.spread_over_cells(of_pair, schema.sizes)
    everything = _TableLoss(loss, pairs.shares, of_cell)
    blocks = []
    for index in range(len(schema)):
        rows, others = schema.cells(index), np.repeat(of_pair[index] > 0, schema.sizes)
        blocks.append((rows, others, _TableLoss(loss, pairs.shares[rows, others], of_cell[rows, others])))

    def move(start: Floats, axis: int, tables: _TableLoss, model: _Map, gradient: _Map) -> Floats:
        """Return one step from a start along the simplex, the longest tried that does not raise the loss.

        ``model`` gives the model's tables at a point, and ``gradient`` the slope there, from that at the tables.
        """
        modelled = model(start)
        least, slope = tables.value(modelled), gradient(tables.slope(modelled))
        # Adding the same to a whole column changes nothing on the simplex, and keeps exponents small.
        slope = slope - slope.min(axis=axis, keepdims=True)
        for _ in range(_SEARCHES):
            point: Floats = start * np.exp(-np.minimum(tables.step * slope, 50.0))
            point /= point.sum(axis=axis, keepdims=True)
            if tables.value(model(point)) <= least:
                tables.step *= 2.0
                return point
            tables.step /= 2.0
        return start

    def move_factor(index: int, weights: Floats, stacked: Floats) -> None:
        rows, others, tables = blocks[index]
        basis = stacked[others] * weights
        factor = stacked[rows]
        stacked[rows] = move(factor, 0, tables, lambda factor: factor @ basis.T, lambda slope: slope @ basis)

    def sweep(theta: Theta) -> tuple[Theta, float]:
        following = theta.copy()
        weights, stacked = following[0, :rank], following[1:, :rank]

        def model(row: Floats) -> Floats:
            return (stacked * row) @ stacked.T

        def gradient(slope: Floats) -> Floats:
            return np.asarray((stacked * (slope @ stacked)).sum(axis=0, keepdims=True))

        objective = everything.value(model(weights))
        for index in range(len(schema)):
            move_factor(index, weights, stacked)
        weights[:] = move(weights[None].copy(), 1, everything, model, gradient)[0]
        return following, objective / 2.0

    return loop.descend(sweep, start)


class _TableLoss:
    """The weighted loss of some tables side by side, as a function of the model's, and how far to go down it."""

    def __init__(self, loss: Loss, shares: Floats, weights: Floats) -> None:
        self.is_kl = loss == "kl"
        self.shares = shares
        self.weights = weights
        self.targets = weights * shares
        self.step = 1.0  # the length of the next one, learned from those before
        self.at_best = float((self.targets * np.log(np.maximum(shares, _TINY))).sum())

    def value(self, model: Floats) -> float:
        """Return the loss."""
        if self.is_kl:
            return self.at_best - float((self.targets * np.log(np.maximum(model, _TINY))).sum())
        return float(0.5 * (self.weights * (model - self.shares) ** 2).sum())

    def slope(self, model: Floats) -> Floats:
        """Return the derivative of the loss by each cell of the model."""
        if self.is_kl:
            return -self.targets / np.maximum(model, _TINY)
        return self.weights * (model - self.shares)
