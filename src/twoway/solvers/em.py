"""EM on records: maximum likelihood, or the posterior mode with smoothing.

Dempster, Laird and Rubin (1977), for the latent class model of the paper's section on EM (Yeredor and Haardt, 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twoway.errors import DataError
from twoway.solvers.latent import fit_cells
from twoway.solvers.problem import Problem, Solution


@dataclass(frozen=True)
class EM:
    """Maximum likelihood from records with any cells missing, from the given start or a random one."""

    max_iter: int = 2000
    """Passes over the records."""
    tol: float = 1e-8
    """Stop when each of three cycles of up to three passes lowers the objective by less than this share."""

    name: ClassVar[str] = "em"

    def solve(self, problem: Problem) -> Solution:
        """Return the PMF at the end of one climb."""
        if problem.evidence.records is None:
            raise DataError("solver 'em' needs records, and there are only tables; 'coupled-nmf' fits tables")
        sets, smoothing = problem.evidence.sets, problem.given_smoothing
        descent = fit_cells(sets, problem.first_point(sets), smoothing, problem.loop(self))
        penalty = "penalised " if any(smoothing) else ""
        return problem.solution(self, descent, f"negative {penalty}log-likelihood per record")
