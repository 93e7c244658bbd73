"""Solvers that are made of others: several one after the other, or the best of several starts, which race."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from twoway.report import StopReason
from twoway.solvers.problem import IterativeSolver, Problem, Solution, Solver
from twoway.solvers.starts import softened_start

# Starts race: all run this many passes, then the better ones run as many more, and so on.
_HEAT = 240
_ONE_IN = 3  # goes on to the next heat


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


@dataclass(frozen=True)
class MultiStart:
    """The best of several starts of one solver.

    They race: after a few passes the starts that lag behind are given up, so that many cost little more than a few.
    """

    solver: Solver
    n_starts: int

    @property
    def name(self) -> str:
        """The name of the solver."""
        return self.solver.name

    def solve(self, problem: Problem) -> Solution:
        """Return the best start's solution, with the objectives of the others."""
        return self.race(self.solver, [replace(problem, number=number) for number in range(self.n_starts)])

    @staticmethod
    def race(solver: Solver, problems: Sequence[Problem]) -> Solution:
        """Return the lowest solution of several problems, which differ in their starts."""
        watch, began = problems[0].watch, time.monotonic()
        max_iter = solver.max_iter if isinstance(solver, IterativeSolver) else 1
        heats = list(MultiStart.heats(len(problems), max_iter))
        whole = sum(n_starts * passes for n_starts, passes in heats)
        ranked, past = list(range(len(problems))), 0
        solutions: dict[int, Solution] = {}
        for n_starts, passes in heats:
            for start in ranked[n_starts:]:
                if solutions[start].stop_reason is StopReason.MAX_ITER:
                    solutions[start] = replace(solutions[start], stop_reason=StopReason.OUTRUN)
            heat = replace(solver, max_iter=passes) if isinstance(solver, IterativeSolver) else solver
            with watch.guard():
                for start in sorted(ranked[:n_starts]):
                    if solutions and watch.ends():
                        break
                    before, problem = solutions.get(start), problems[start]
                    if len(problems) > 1:
                        task = f"{solver.name}, {len(problems)} starts"
                        problem = replace(problem, watch=watch.part(task, past, whole, began))
                    if before is None:
                        solutions[start] = heat.solve(problem)
                    elif before.stop_reason is StopReason.MAX_ITER:
                        after = heat.solve(replace(problem, start=before.pmf, origin=""))
                        objectives = (*before.objectives, *after.objectives[1:])
                        solutions[start] = replace(after, objectives=objectives, solver=before.solver)
                    past += passes
            ranked = sorted(solutions, key=lambda start: (solutions[start].objective, start))
            if watch.interrupted:
                break
        if not solutions:
            raise KeyboardInterrupt
        best = ranked[0]
        others = tuple(solutions[start].as_start() for start in sorted(solutions) if start != best)
        return replace(solutions[best], others=others)

    @staticmethod
    def heats(n_starts: int, max_iter: int) -> Iterator[tuple[int, int]]:
        """Yield how many starts run in each heat, and the passes that each start is allowed."""
        while max_iter > _HEAT and n_starts > 1:
            yield n_starts, _HEAT
            n_starts, max_iter = -(-n_starts // _ONE_IN), max_iter - _HEAT
        yield n_starts, max_iter
