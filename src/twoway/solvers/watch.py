"""The progress of a computation and its parts, and whether somebody interrupted it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from twoway.report import Monitor, Progress
from twoway.storage.checkpoint import Checkpoint


class Watch:
    """Reports the progress of a computation, and remembers that somebody interrupted it."""

    def __init__(
        self, monitor: Monitor | None = None, parent: Watch | None = None, checkpoint: Checkpoint | None = None
    ) -> None:
        self._monitor = monitor
        self._shared: SimpleNamespace = SimpleNamespace(interrupted=False) if parent is None else parent._shared
        self.checkpoint = checkpoint
        """Where loops save their states, and find those of an earlier run."""

    @property
    def interrupted(self) -> bool:
        """Whether somebody pressed Ctrl-C."""
        return bool(self._shared.interrupted)

    def interrupt(self) -> None:
        """Remember that somebody pressed Ctrl-C."""
        self._shared.interrupted = True

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Return a context that Ctrl-C ends, and not the program: results up to then are kept."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupt()

    def show(self, progress: Progress) -> None:
        """Pass the progress on to the monitor."""
        if self._monitor is not None:
            self._monitor(progress)

    def part(self, task: str, before: int, whole: int, began: float) -> Watch:
        """Return a watch for a part of a task that began at a time and has done ``before`` of its ``whole`` passes."""
        monitor = self._monitor
        if monitor is None:
            return self.quiet()
        done = before

        def show(progress: Progress) -> None:
            nonlocal done
            done = min(max(done, before + progress.done), whole)
            left = (time.monotonic() - began) * (whole - done) / done if 50 * done > whole else None
            monitor(Progress(task, done, whole, progress.objective, left))

        return Watch(show, self, self.checkpoint)

    def quiet(self) -> Watch:
        """Return a watch for a part of the computation that is too small to show."""
        return Watch(None, self, self.checkpoint)
