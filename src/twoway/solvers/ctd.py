"""CTD: coupled tensor decomposition, the least-squares fit of all available three-way tables.

Kargas, Sidiropoulos and Fu, Tensors, learning, and "Kolmogorov extension" for finite-alphabet random vectors, 2018. One
factor after the other, then the weights, by ADMM on F × F systems (AO-ADMM: Huang, Sidiropoulos and Liavas, A flexible
and efficient algorithmic framework for constrained matrix and tensor factorization, 2016). No block may rise, so a
sweep never does, and the loop extrapolates between sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from twoway.errors import DataError, check_whole_number
from twoway.model.pmf import JointPMF
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.problem import Problem, Solution
from twoway.solvers.theta import Theta
from twoway.tables.tables import Tables


@dataclass(frozen=True)
class CTD:
    """The PMF that comes closest, in squared distance, to all three-way tables together, each with the same weight."""

    max_iter: int = 2000
    """Sweeps over the tables."""
    tol: float = 1e-8
    """Stop when each of three cycles of up to three sweeps lowers the objective by less than this share."""
    n_inner: int = 10
    """ADMM steps for each factor in a sweep."""

    name: ClassVar[str] = "ctd"

    def __post_init__(self) -> None:
        check_whole_number("n_inner", self.n_inner, 1)

    def solve(self, problem: Problem) -> Solution:
        """Return the PMF at the end of one descent, from the given start or a random one."""
        if any(problem.given_smoothing):
            raise DataError(
                "solver 'ctd' fits the tables as they are, without smoothing; 'mle-ad' fits the same tables and smooths"
            )
        tables = problem.evidence.connected_tables(3)
        start = problem.first_point(problem.evidence.sets)
        descent = fit_ctd(tables, start, self.n_inner, problem.loop(self))
        return problem.solution(self, descent, "half the squared error of all triples")


def fit_ctd(tables: Tables, start: JointPMF, n_inner: int, loop: Loop) -> Descent:
    """Return the end of the descent on half the squared error."""
    from twoway.kernels.lanes import lane_layout
    from twoway.kernels.least_squares import ThreeWay, sweep_least_squares

    schema, rank = tables.schema, start.rank
    _, prototype = lane_layout(rank)
    shares = tables.shares
    # Not `@`: how BLAS adds up long vectors depends on its threads. So in all sums that go into reports.
    constant = 0.5 * float(np.square(shares).sum())
    variables = tables.sets.ravel()
    places = np.argsort(variables, kind="stable")
    firsts = np.searchsorted(variables[places], np.arange(len(schema) + 1))
    arrays = ThreeWay(shares, tables.starts, tables.sets, schema.offsets, places, firsts)
    # A sweep knows the error where it ends; a pass over the tables is needed only for points from elsewhere.
    ended: tuple[Theta | None, float] = (None, np.nan)

    def update(theta: Theta) -> tuple[Theta, float]:
        nonlocal ended
        error = ended[1] if ended[0] is theta else sweep_least_squares(theta, arrays, rank, 0, prototype)
        following = theta.copy()
        ended = following, sweep_least_squares(following, arrays, rank, n_inner, prototype)
        # Where the fit is exact, the difference may round to less than zero.
        return following, max(constant + error, 0.0)

    return loop.descend(update, start)
