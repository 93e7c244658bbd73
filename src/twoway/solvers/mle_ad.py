"""MLE-AD: the Kullback-Leibler fit of all available three-way tables.

Yeredor and Haardt, Maximum likelihood estimation of a low-rank probability mass tensor from partial observations, 2019,
as the authors of CNMF ran it: alternating directions, one factor matrix or λ at a time, each minimised under its
simplex constraints.

Here all blocks move together. A cell of a three-way table is a record of three observed cells, weighted by its count,
and the sum of divergences is, up to a constant, minus the log-likelihood of these small records (see `evidence`). Its
EM step never rises, and is accelerated as for every likelihood. That ends where alternating directions end:

- In one block, with the others fixed, the divergence D is convex and the feasible set a product of simplices. So a
  block is at its exact minimum if and only if it meets the first-order (KKT) conditions; and minimising any single
  block gains nothing if and only if all blocks meet theirs.
- The EM step is θ ← θ · (−∂D/∂θ) / μ, with μ the multiplier that restores the sum of each simplex. At a fixed
  point, each positive entry has −∂D/∂θ = μ; from a positive start, an entry falls to zero only where −∂D/∂θ ≤ μ. These
  are the same conditions, block by block.

Objective, feasible set and fixed points are the same. The way is shorter: alternating needs a pass over the tables for
each inner step of each block, EM one for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.problem import Problem, Solution


@dataclass(frozen=True)
class MLEAD:
    """The PMF that comes closest, in Kullback-Leibler divergence, to all three-way tables, each by its records."""

    max_iter: int = 5000
    """Passes over the tables."""
    tol: float = 1e-10
    """Stop when each of three cycles of up to three passes lowers the objective by less than this share. Tighter than
    elsewhere: plain multiplicative updates, run to their end, must get no lower."""

    name: ClassVar[str] = "mle-ad"

    def solve(self, problem: Problem) -> Solution:
        """Return the PMF at the end of one descent, from the given start or a random one."""
        problem.evidence.connected_tables(3)
        sets = problem.evidence.table_sets("counts", order=3)
        descent = fit_cells_by_em(sets, problem.first_point(sets), problem.given_smoothing, problem.loop(self))
        return problem.solution(self, descent, "mean Kullback-Leibler divergence per triple")
