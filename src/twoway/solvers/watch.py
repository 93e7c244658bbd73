"""The watch over a computation: it reports progress, and remembers what ended it early."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Self, cast

from twoway.errors import DataError
from twoway.report import Monitor, Progress, ProgressBar, StopReason
from twoway.storage.checkpoint import Checkpoint


class Watch:
    """Reports the progress of a computation, and remembers what ended it early: Ctrl-C, or a time limit."""

    def __init__(
        self,
        monitor: Monitor | None = None,
        parent: Watch | None = None,
        checkpoint: Checkpoint | None = None,
        deadline: float = math.inf,
    ) -> None:
        self._monitor = monitor
        shared = SimpleNamespace(stopped=None, deadline=deadline)
        self._shared: SimpleNamespace = shared if parent is None else parent._shared
        self.checkpoint = checkpoint
        """Where loops save their states, and find those of an earlier run."""

    @classmethod
    @contextmanager
    def showing(
        cls, monitor: Monitor | bool | None, checkpoint: Checkpoint | None = None, deadline: float = math.inf
    ) -> Iterator[Self]:
        """Return a context that gives a watch; True shows a progress bar, a function gets each progress.

        A watch gives one for a part of its computation: with its monitor and its deadline, and both end together.
        """
        if isinstance(monitor, Watch):
            yield cls(monitor._monitor, monitor, checkpoint)
            return
        if not callable(monitor) and not isinstance(monitor, bool | None):
            raise DataError(f"monitor must be True, False, None or a function that takes a Progress, not {monitor!r}")
        with ProgressBar() if monitor is True else nullcontext(monitor or None) as callback:
            yield cls(callback, checkpoint=checkpoint, deadline=deadline)

    @property
    def is_shown(self) -> bool:
        """Whether anybody sees the progress, so that the time left is worth an estimate."""
        return self._monitor is not None

    @property
    def stopped(self) -> StopReason | None:
        """What ended the computation early, if anything did."""
        return cast("StopReason | None", self._shared.stopped)

    @property
    def interrupted(self) -> bool:
        """Whether the computation ended early."""
        return self.stopped is not None

    def interrupt(self, reason: StopReason = StopReason.INTERRUPTED) -> None:
        """Remember what ended the computation, unless something else did before."""
        self._shared.stopped = self._shared.stopped or reason

    def ends(self) -> bool:
        """Return whether to end here; only this looks at the clock, so that what is done in time counts as done."""
        if time.monotonic() >= self._shared.deadline:
            self.interrupt(StopReason.TIME_LIMIT)
        return self.interrupted

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Return a context in which Ctrl-C ends the computation, not the program; results up to then are kept."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupt()

    def show(self, progress: Progress) -> None:
        """Pass the progress on to the monitor."""
        if self._monitor is not None:
            self._monitor(progress)

    __call__ = show  # as a monitor: see `showing`

    def counting(self, task: str, whole: int) -> Callable[[int], None]:
        """Return a function that shows how many parts of a task are done, out of ``whole``."""
        return lambda done: self.show(Progress(task, done, whole))

    def part(self, task: str, before: int, whole: int, began: float) -> Watch:
        """Return a watch for a part of a task that began at a time and has done ``before`` of its ``whole`` passes."""
        monitor = self._monitor
        if monitor is None:
            return self.quiet()
        done = before

        def show(progress: Progress) -> None:
            nonlocal done
            done = min(max(done, before + progress.done), whole)
            seconds_left = (time.monotonic() - began) * (whole - done) / done if 50 * done > whole else None
            monitor(Progress(task, done, whole, progress.objective, seconds_left))

        return Watch(show, self, self.checkpoint)

    def quiet(self) -> Watch:
        """Return a watch for a part of the computation that is too small to show."""
        return Watch(None, self, self.checkpoint)
