"""Chains and races of mock solvers: inputs, survivors and reports."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest

from twoway.datasets import dirichlet_rows, draw_records
from twoway.report import StopReason
from twoway.solvers.combined import _HEAT, Chain, MultiStart
from twoway.solvers.evidence import Evidence
from twoway.solvers.loop import Descent
from twoway.solvers.problem import Problem, Solution
from twoway.solvers.watch import Watch

TRUTH = dirichlet_rows(3, 2, 2, seed=1)
RECORDS = draw_records(TRUTH, 50)


def problems(n, **options):
    evidence = Evidence(RECORDS.schema, records=RECORDS, threads=1)
    return [Problem(evidence, 2, number=number, **options) for number in range(n)]


@dataclass(frozen=True)
class Runner:
    """Falls by a start's own speed each pass, and takes note of what it was given."""

    speeds: tuple[float, ...]
    max_iter: int = 1000
    tol: float = 0.0
    finish: int = 10**9
    log: list[Any] = field(default_factory=list, compare=False)
    name: str = "runner"

    def solve(self, problem):
        done = sum(passes for number, passes, _, _ in self.log if number == problem.number)
        passes = min(self.max_iter, self.finish - done)
        self.log.append((problem.number, passes, problem.start, problem.origin))
        speed = self.speeds[problem.number]
        objectives = tuple(100.0 - speed * step for step in (done, done + passes))
        stop = StopReason.CONVERGED if done + passes >= self.finish else StopReason.MAX_ITER
        return problem.solution(self, Descent(TRUTH, objectives, stop), "distance", f"{problem.number}")


def test_those_behind_are_given_up_and_the_best_is_returned():
    speeds = (1.0, 9.0, 3.0, 4.0, 2.0, 8.0, 5.0, 7.0, 6.0, 1.5)
    runner = Runner(tuple(speed / 1000 for speed in speeds))
    solution = MultiStart.race(runner, problems(10))
    passes = [0] * 10
    for number, done, _, _ in runner.log:
        passes[number] += done
    assert max(passes) == runner.max_iter
    assert passes[1] == runner.max_iter
    heats = [sum(one >= heat * _HEAT for one in passes) for heat in (1, 2, 3)]
    assert heats[0] == 10
    assert all(later <= earlier for earlier, later in pairwise(heats))
    finalists = [number for number, done in enumerate(passes) if done == runner.max_iter]
    assert finalists == [1]
    assert solution.objectives[-1] == pytest.approx(100.0 - 9.0)
    assert len(solution.others) == 9
    assert [start.stop_reason for start in solution.others].count(StopReason.OUTRUN) == 9
    # In the order of their numbers, without the best.
    lasts = [start.objectives[-1] for start in solution.others]
    assert lasts == pytest.approx([100.0 - passes[n] * speeds[n] / 1000 for n in range(10) if n != 1])


def test_progress_reports_every_pass_once():
    """Nine starts, three, then one, in two heats and a final."""
    solution = MultiStart.race(Runner((0.01,) * 9, max_iter=3 * _HEAT), problems(9))
    assert solution.objectives == tuple(100.0 - 0.01 * step for step in (0, _HEAT, 2 * _HEAT, 3 * _HEAT))
    assert solution.solver == "runner"


def test_a_later_heat_begins_where_the_earlier_one_ended():
    runner = Runner((0.01,) * 9)
    MultiStart.race(runner, [replace(one, start=None, origin="spa") for one in problems(9)])
    first, again = ([one for one in runner.log if (one[2] is None) == fresh] for fresh in (True, False))
    assert [origin for *_, origin in first] == ["spa"] * 9
    assert again
    assert all(start is TRUTH and origin == "" for _, _, start, origin in again)


def test_the_name_of_the_chain_survives_the_heats():
    solution = MultiStart.race(Runner((0.01,) * 9), [replace(one, origin="spa") for one in problems(9)])
    assert {start.solver for start in (solution.as_start(), *solution.others)} == {"spa+runner"}


def test_converged_starts_do_not_run_again():
    runner = Runner((0.01,) * 9, finish=100)
    solution = MultiStart.race(runner, problems(9))
    assert [number for number, *_ in runner.log] == list(range(9))
    assert solution.stop_reason is StopReason.CONVERGED
    assert all(start.stop_reason is StopReason.CONVERGED for start in solution.others)


def test_equals_are_taken_in_their_order():
    solution = MultiStart.race(Runner((0.01, 0.01)), problems(2))
    assert solution.warnings == ("0",)


def test_a_solver_without_passes_runs_each_start_once():
    @dataclass(frozen=True)
    class Direct:
        name = "direct"

        def solve(self, problem):
            return Solution(TRUTH, (float(problem.number != 1),), StopReason.DIRECT, "direct", "distance")

    told = []
    solution = MultiStart.race(Direct(), problems(3, watch=Watch(told.append)))
    assert solution.objectives == (0.0,)
    assert len(solution.others) == 2


def test_heats_are_known_before_they_are_run():
    assert list(MultiStart.heats(27, 1000)) == [(27, _HEAT), (9, _HEAT), (3, _HEAT), (1, 1000 - 3 * _HEAT)]
    assert list(MultiStart.heats(10, 2 * _HEAT)) == [(10, _HEAT), (4, _HEAT)]
    assert list(MultiStart.heats(27, 1)) == [(27, 1)]
    assert list(MultiStart.heats(27, _HEAT)) == [(27, _HEAT)]
    assert list(MultiStart.heats(1, 1000)) == [(1, 1000)]


def test_progress_is_of_all_starts_together():
    told = []

    @dataclass(frozen=True)
    class Telling(Runner):
        def solve(self, problem):
            from twoway.report import Progress

            problem.watch.show(Progress("own", self.max_iter, self.max_iter, 1.0))
            return super().solve(problem)

    MultiStart.race(Telling((0.01,) * 9), problems(9, watch=Watch(told.append)))
    assert {progress.task for progress in told} == {"runner, 9 starts"}
    assert {progress.at_most for progress in told} == {
        sum(starts * passes for starts, passes in MultiStart.heats(9, 1000))
    }
    done = [progress.done for progress in told]
    assert done == sorted(done)
    assert done[:9] == [_HEAT * (place + 1) for place in range(9)]
    assert done[-1] == told[-1].at_most


def test_a_single_start_reports_its_progress():
    seen = []

    @dataclass(frozen=True)
    class Looking(Runner):
        def solve(self, problem):
            seen.append(problem.watch)
            return super().solve(problem)

    watch = Watch()
    MultiStart.race(Looking((0.01,)), problems(1, watch=watch))
    assert seen == [watch]


def test_several_starts_by_their_numbers():
    runner = Runner((0.01, 0.03, 0.02))
    solution = MultiStart(runner, 3).solve(problems(1)[0])
    assert solution.warnings == ("1",)
    assert MultiStart(runner, 3).name == "runner"


# Chains


@dataclass(frozen=True)
class Link:
    name: str
    seen: list[Any] = field(default_factory=list, compare=False)

    def solve(self, problem):
        self.seen.append(problem)
        model = dirichlet_rows(3, 2, 2, seed=len(self.name))
        descent = Descent(model, (1.0,), StopReason.CONVERGED)
        return problem.solution(self, descent, "distance", f"from {self.name}")


def test_each_link_starts_where_the_one_before_ended():
    links = Link("a"), Link("bb"), Link("ccc")
    several = Chain(links)
    assert several.name == "a+bb+ccc"
    (given,) = problems(1)
    solution = several.solve(given)
    assert [link.seen[0].origin for link in links] == ["", "a", "a+bb"]
    assert links[0].seen == [given]
    assert links[2].seen[0].start is not None
    assert solution.solver == "a+bb+ccc"
    assert solution.warnings == ("from a", "from bb", "from ccc")
    assert solution.pmf.weights.tolist() == dirichlet_rows(3, 2, 2, seed=3).weights.tolist()
