"""The one loop of all iterative solvers.

It takes any fixed-point map that never raises its objective, and accelerates it by squared extrapolation
(SQUAREM: Varadhan and Roland, Simple and globally convergent methods for accelerating the convergence of
any EM algorithm, 2008). An extrapolated point is kept only if it is no worse than the step before it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from twoway.errors import check_number, check_whole_number
from twoway.model.pmf import JointPMF
from twoway.report import Iteration, Progress, StopReason
from twoway.solvers.theta import Theta, pmf_of_theta, theta_groups, theta_of
from twoway.solvers.watch import Watch
from twoway.storage.checkpoint import Checkpoint, SavedLoop

# The longest extrapolation tried at first; it grows while it succeeds.
_FIRST_LENGTH = 4.0
_ROUNDING = 1e-13
_SMALL_OBJECTIVE = 1e-6

State = TypeVar("State")
Update = Callable[[Theta], tuple[Theta, float]]
"""From a point to the next one, with the objective at the given point."""


@dataclass(frozen=True)
class Descent(Iteration):
    """Where a loop ended, and how it went."""

    pmf: JointPMF
    objectives: tuple[float, ...]
    """The objective at each pass, never rising; the last one belongs to ``pmf``."""
    stop_reason: StopReason

    @property
    def converged(self) -> bool:
        """Whether it ended because nothing changed any more."""
        return self.stop_reason is StopReason.CONVERGED


class _State:
    """Where a loop is. It saves itself in a checkpoint, if there is one, and continues from what it finds there."""

    def __init__(self, start: Theta, checkpoint: Checkpoint | None) -> None:
        self.point = self.best = start
        self.objectives: list[float] = []
        self.gains: list[float] = []
        self.longest = _FIRST_LENGTH
        self.passes = 0
        self.cycle_start = math.inf
        self.stop_reason: StopReason | None = None
        self._checkpoint = checkpoint
        self._key, saved = ("", None) if checkpoint is None else checkpoint.begin(start)
        if saved is not None:
            self.point, self.best, objectives, gains, numbers = saved.arrays
            self.objectives, self.gains = objectives.tolist(), gains.tolist()
            self.longest, self.cycle_start, passes = numbers.tolist()
            self.passes = int(passes)
            self.stop_reason = None if saved.stop_reason is None else StopReason(saved.stop_reason)

    def save(self) -> None:
        if self._checkpoint is not None:
            numbers = [self.longest, self.cycle_start, self.passes]
            lists = (np.array(values) for values in (self.objectives, self.gains, numbers))
            self._checkpoint.save(self._key, SavedLoop((self.point, self.best, *lists), self.stop_reason))


@dataclass(frozen=True)
class Loop:
    """The options of a loop."""

    task: str
    """What progress calls it."""
    max_iter: int
    """Passes allowed; a cycle of the acceleration takes up to three."""
    tol: float
    """Stop when each of ``quiet_cycles`` cycles lowers the objective by less than this share; 0 never stops early."""
    watch: Watch = field(default_factory=Watch)
    accelerate: bool = True
    """Whether to extrapolate; a cycle is a single pass otherwise."""
    quiet_cycles: int = 3
    small: float = _SMALL_OBJECTIVE
    """Gains are shares of the objective, or of this where the objective is smaller."""

    def __post_init__(self) -> None:
        check_whole_number("max_iter", self.max_iter, 1)
        check_number("tol", self.tol, "a number of at least 0", lambda number: number >= 0)

    def descend(self, update: Update, start: JointPMF) -> Descent:
        """Return where a fixed-point map leads, accelerated, with an objective that never rises."""
        state = _State(theta_of(start), self.watch.checkpoint)
        if state.stop_reason is None:
            self._run(update, state, start)
        assert state.stop_reason is not None
        return Descent(pmf_of_theta(start, state.best), tuple(state.objectives), state.stop_reason)

    def follow(self, advance: Callable[[State | None], tuple[State, float]]) -> tuple[State, list[float], StopReason]:
        """Return the last of a chain of states that never raise their objective, their objectives, and why it ended.

        ``advance`` gives the first state from None, then each from the one before, with its objective. For states that
        cannot be extrapolated, such as trees whose shapes change: every pass is a cycle.
        """
        state, objectives, stop_reason = None, list[float](), StopReason.MAX_ITER
        with self.watch.guard():
            while len(objectives) < self.max_iter and not (objectives and self.watch.ends()):
                state, objective = advance(state)
                objectives.append(objective)
                self.watch.show(Progress(self.task, len(objectives), self.max_iter, objective))
                if len(objectives) > 1 and objectives[-2] - objective <= self.tol * abs(objective):
                    stop_reason = StopReason.CONVERGED
                    break
        if state is None:
            raise KeyboardInterrupt
        return state, objectives, self.watch.stopped or stop_reason

    def _run(self, update: Update, state: _State, start: JointPMF) -> None:
        from twoway.kernels.maximization import extrapolate

        groups = theta_groups(start)
        began = time.monotonic()
        stop_reason = StopReason.MAX_ITER

        def step(here: Theta) -> tuple[Theta, float]:
            state.passes += 1
            return update(here)

        with self.watch.guard():
            while state.passes < self.max_iter:
                state.save()
                point = state.point
                first, at_point = step(point)
                state.best = point
                state.objectives.append(at_point)
                state.gains.append((state.cycle_start - at_point) / max(abs(at_point), self.small))
                # A start is not worth keeping without a step from it.
                if len(state.objectives) > 1 and self.watch.ends():
                    break
                seconds_left = _loop_seconds_left(state.gains, self.tol, began) if self.watch.is_shown else None
                self.watch.show(Progress(self.task, state.passes, self.max_iter, at_point, seconds_left))
                if self.tol > 0 and _loop_has_settled(state.gains, self.tol, self.quiet_cycles):
                    stop_reason = StopReason.CONVERGED
                    break
                state.cycle_start = at_point
                if not self.accelerate:
                    state.point = first
                    continue
                if state.passes >= self.max_iter:
                    break
                second, at_first = step(first)
                state.best = first
                state.objectives.append(at_first)
                if self.watch.ends():
                    break
                candidate, length = extrapolate(point, first, second, groups, start.rank, state.longest)
                state.point = second
                if length > 1.0 and state.passes < self.max_iter:
                    third, at_candidate = step(candidate)
                    if at_candidate <= at_first:
                        state.best, state.point = candidate, third
                        state.objectives.append(at_candidate)
                        state.longest *= 4.0 if length == state.longest else 1.0
                    else:
                        state.longest = max(_FIRST_LENGTH, length / 2.0)
        if self.watch.interrupted:
            if not state.objectives:
                raise KeyboardInterrupt
            state.stop_reason = self.watch.stopped
        else:
            state.stop_reason = stop_reason
            state.save()


def _loop_has_settled(gains: list[float], tol: float, quiet_cycles: int) -> bool:
    """Return whether the last cycles changed the objective by next to nothing, and ever less.

    Smoothing may raise the objective, a log-likelihood without it, which is no reason to stop.
    One quiet cycle, or several whose gains grow again, may be a saddle, on which the objective rests before it goes on.
    """
    recent = gains[-quiet_cycles:]
    if len(gains) <= quiet_cycles or max(map(abs, recent)) > tol:
        return False
    # Gains below rounding are noise, and neither grow nor shrink.
    return recent[-1] <= max(recent[0], _ROUNDING)


def _loop_seconds_left(gains: list[float], tol: float, began: float) -> float | None:
    """Return an estimate of the time left, if gains continue to shrink as they did."""
    recent = [gain for gain in gains[-8:] if 0 < gain < math.inf]
    if len(recent) < 4 or tol <= 0 or recent[-1] >= recent[0]:
        return None
    shrinking = math.log(recent[0] / recent[-1]) / (len(recent) - 1)
    cycles_left = max(0.0, math.log(recent[-1] / tol) / shrinking)
    return cycles_left * (time.monotonic() - began) / len(gains)
