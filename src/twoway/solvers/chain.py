"""Solvers one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from twoway.solvers.problem import Problem, Solution, Solver
from twoway.solvers.starts import softened_start


@dataclass(frozen=True)
class Chain:
    """Solvers one after the other, each from the solution of the one before it."""

    solvers: tuple[Solver, ...]

    @property
    def name(self) -> str:
        """The names of the solvers, joined."""
        return "+".join(solver.name for solver in self.solvers)

    def solve(self, problem: Problem) -> Solution:
        """Return the last solver's solution."""
        solution = self.solvers[0].solve(problem)
        warnings = solution.warnings
        for solver in self.solvers[1:]:
            # Multiplicative updates cannot leave a zero.
            start = softened_start(solution.pmf, problem.evidence.sets.shares)
            solution = solver.solve(replace(problem, start=start, origin=solution.solver))
            warnings += solution.warnings
        return replace(solution, warnings=warnings)
