"""EM on records: maximum likelihood, or the posterior mode where smoothing is asked for.

Dempster, Laird and Rubin (1977), for the latent class model of the paper's section on EM (Yeredor and Haardt, 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twoway.errors import DataError
from twoway.solvers.base import Problem, Solution
from twoway.solvers.latent import fit_cells
from twoway.solvers.starts import random_start


@dataclass(frozen=True)
class EM:
    """Maximum likelihood from records with any cells missing, from the start given or a random one."""

    max_iter: int = 2000
    """Passes over the records."""
    tol: float = 1e-8
    """Stop when three cycles of up to three passes each lower the objective by less than this share."""

    name: ClassVar[str] = "em"

    def solve(self, problem: Problem) -> Solution:
        """Return the PMF at the end of one climb."""
        if problem.evidence.records is None:
            raise DataError("solver 'em' needs records, and there are only tables; 'coupled-nmf' fits tables")
        sets, smoothing = problem.evidence.sets, problem.smoothing
        start = problem.start or random_start(sets.schema, problem.rank, sets.shares, problem.seeds)
        pmf, path = fit_cells(
            sets,
            start,
            smoothing=smoothing,
            max_iter=self.max_iter,
            tol=self.tol,
            task=self.name,
            watch=problem.watch,
        )
        penalty = "penalised " if any(smoothing) else ""
        return Solution(
            pmf,
            path.objectives,
            path.stop_reason,
            problem.chain(self.name),
            f"negative {penalty}log-likelihood a record",
            smoothing,
        )
