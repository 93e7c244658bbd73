"""Solvers made of solvers: one after the other, and several starts of one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from twoway.report import StopReason
from twoway.solvers.base import Problem, Solution, Solver
from twoway.solvers.starts import softened

# Starts race: all run this many passes, then the better ones go on for as many, and so forth.
_HEAT = 240
_KEPT = 3  # one in so many goes on to the next heat
_FINALISTS = 1


@dataclass(frozen=True)
class Chain:
    """Solvers one after the other, each from where the one before it ended."""

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
            # Updates that multiply could not leave a zero again.
            start = softened(solution.pmf, problem.evidence.sets.shares)
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
        """Return the best start's solution, with the others' courses."""
        return race(self.solver, [replace(problem, number=number) for number in range(self.n_starts)])


def race(solver: Solver, problems: Sequence[Problem]) -> Solution:
    """Return the solution of the problem on which a solver gets lowest; the problems differ in their starts."""
    running, watch = list(range(len(problems))), problems[0].watch
    solutions: dict[int, Solution] = {}
    spent = past = 0
    began = time.monotonic()
    limit = getattr(solver, "max_iter", None)
    while True:
        final = limit is None or spent + _HEAT >= limit or len(running) <= _FINALISTS
        heat = solver
        if limit is not None:
            heat = replace(solver, max_iter=limit - spent if final else _HEAT)  # type: ignore[type-var]
        allowed = getattr(heat, "max_iter", 1)
        whole = past + sum(_passes(len(running), limit, spent))
        with watch.guard():
            for place, start in enumerate(running):
                before = solutions.get(start)
                problem = problems[start]
                if len(problems) > 1:
                    task = f"{solver.name}, {len(problems)} starts"
                    problem = replace(problem, watch=watch.part(task, past + place * allowed, whole, began))
                if before is None:
                    solutions[start] = heat.solve(problem)
                elif before.stop_reason is StopReason.MAX_ITER:
                    again = replace(problem, start=before.pmf, origin="")
                    solutions[start] = _continued(before, heat.solve(again))
                if watch.interrupted:
                    break
        past += len(running) * allowed
        if not solutions:
            raise KeyboardInterrupt
        done = [start for start in running if start in solutions]
        done.sort(key=lambda start: (solutions[start].objectives[-1], start))
        if final or watch.interrupted:
            break
        running = sorted(done[: _next(len(done))])
        for start in done:
            if start not in running and solutions[start].stop_reason is StopReason.MAX_ITER:
                solutions[start] = replace(solutions[start], stop_reason=StopReason.OUTRUN)
        spent += _HEAT
    best = min(solutions, key=lambda start: (solutions[start].objectives[-1], start))
    others = tuple(solutions[start].as_start() for start in sorted(solutions) if start != best)
    return replace(solutions[best], others=others)


def _passes(n_starts: int, limit: int | None, spent: int) -> Iterator[int]:
    """Yield how many passes this heat and the later ones allow, all their starts together."""
    while limit is not None and spent + _HEAT < limit and n_starts > _FINALISTS:
        yield n_starts * _HEAT
        n_starts, spent = _next(n_starts), spent + _HEAT
    yield n_starts * (1 if limit is None else limit - spent)


def _next(n_starts: int) -> int:
    """Return how many starts go on to the next heat."""
    return max(_FINALISTS, -(-n_starts // _KEPT))


def _continued(before: Solution, now: Solution) -> Solution:
    """Return a solution with the course of its earlier heats in front."""
    return replace(now, objectives=(*before.objectives, *now.objectives[1:]), solver=before.solver)
