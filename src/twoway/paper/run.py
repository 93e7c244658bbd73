"""Running trials: in processes of their own, every finished one saved at once, none run twice.

What is saved is one file a table and size, of a JSON line for each setting, trial and method.
"""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import platform
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from twoway import __version__
from twoway.errors import DataError, FileFormatError, OutputError, TwowayError, unknown, whole_number
from twoway.paper.base import Setting
from twoway.paper.tables import SIZES, Experiment, Size
from twoway.parallel import usable_cores
from twoway.storage.container import alone_in_folder

Line = dict[str, Any]
Key = tuple[Any, ...]
Tell = Callable[[int, int, float | None], None]
"""Called with the fits done, all fits to do, and the seconds left where they can be foretold."""


@dataclass(frozen=True)
class Trial:
    """One draw of data, and the methods that have not seen it yet."""

    table: str
    setting: Setting
    number: int
    methods: tuple[str, ...]
    path: Path
    """The file that results are added to."""
    threads: int | None
    is_timed: bool
    """Whether it runs alone."""
    shows_seconds: bool
    """Whether seconds are shown, so that nothing may be loaded or compiled while they are taken."""


@dataclass(frozen=True)
class Plan:
    """What is left to run; made by `plan`, which checks everything that can be checked before any work starts."""

    experiments: tuple[Experiment, ...]
    trials: tuple[Trial, ...]
    jobs: int

    def run(self, tell: Tell = lambda done, total, seconds_left: None) -> Iterator[Experiment]:
        """Yield each experiment as it is finished."""
        clock = _Clock(self.trials, tell)
        left = Counter(trial.table for trial in self.trials)
        yield from (experiment for experiment in self.experiments if not left[experiment.name])
        for is_timed in (False, True):
            trials = [trial for trial in self.trials if trial.is_timed == is_timed]
            for trial, seconds in _in_processes(trials, 1 if is_timed else self.jobs):
                clock.finish(trial, seconds, 1 if is_timed else self.jobs)
                left[trial.table] -= 1
                if not left[trial.table]:
                    yield next(one for one in self.experiments if one.name == trial.table)


def plan(
    experiments: Sequence[Experiment],
    size: Size,
    out: Path,
    *,
    trials: int | None = None,
    jobs: int | None = None,
    methods: Sequence[str] = (),
) -> Plan:
    """Return what is left to run of some experiments.

    Parameters
    ----------
    size
        "paper", or "smoke" to see that everything runs.
    out
        The folder with what was run before, and for what will be.
    trials
        How many trials each column has; by default 20 at "paper" (5 at 10⁶ records), 2 at "smoke".
    jobs
        How many processes; by default one a core.
    methods
        Names of `METHODS`; all of them by default.
    """
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    jobs = usable_cores() if jobs is None else whole_number("jobs", jobs, 1)
    if trials is not None:
        trials = whole_number("trials", trials, 1)
    for experiment in experiments:
        for setting in experiment.settings(size):
            setting.check()
    check_writable(out)
    waiting = []
    for experiment in experiments:
        path = results_file(out, experiment, size)
        with alone_in_folder(path):
            _cut_torn_line(path)
        done = {key_of(line) for line in read_lines(path)}
        asked = [name for name in experiment.methods if name in methods or not methods]
        settings = experiment.settings(size)
        # A trial of every column before the next trial: the time left is known early.
        numbers = {setting: trials or experiment.n_trials(setting, size) for setting in settings}
        for number in range(max(numbers.values())):
            for setting in settings:
                missing = tuple(name for name in asked if (settings_key(asdict(setting)), number, name) not in done)
                if number < numbers[setting] and missing:
                    threads = 1 if jobs > 1 and not experiment.is_timed else None
                    is_timed = experiment.is_timed
                    seconds = "seconds" in experiment.metrics
                    waiting.append(Trial(experiment.name, setting, number, missing, path, threads, is_timed, seconds))
    _check_memory(waiting, jobs)
    return Plan(tuple(experiments), tuple(waiting), jobs)


def results_file(out: Path, experiment: Experiment, size: Size) -> Path:
    """Return where the lines of an experiment are."""
    return out / f"{experiment.name}-{size}.jsonl"


def key_of(line: Line) -> Key:
    """Return what a line is about: setting, trial and method."""
    return settings_key(line["setting"]), line["trial"], line["method"]


def settings_key(fields: dict[str, Any]) -> Key:
    """Return the fields of a setting as something to look them up by."""
    return tuple(sorted(fields.items()))


def read_lines(path: Path) -> list[Line]:
    """Return what this version of the library saved in a file; a last line without an end is not one."""
    if not path.exists():
        return []
    found = []
    for number, text in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], 1):
        try:
            line = json.loads(text)
            key_of(line)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise FileFormatError(
                f"line {number} of {str(path)!r} is not a result of 'twoway reproduce': {text[:60]!r}; "
                "remove the line, or name another folder with --out"
            ) from None
        if line.get("version") == __version__:
            found.append(line)
    return found


def check_writable(out: Path) -> None:
    """Raise where nothing can be written to a folder; make it where it is not there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise OutputError(
            f"cannot write to the folder {str(out)!r}: {error.strerror}; name another with --out"
        ) from None


def _cut_torn_line(path: Path) -> None:
    """Remove a last line that a killed run left unfinished: the next one would be glued to it."""
    if path.exists():
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)


def _check_memory(trials: Sequence[Trial], jobs: int) -> None:
    """Raise where the largest trials that may run at the same time do not fit in memory."""
    there = _available_bytes()
    for is_timed, at_a_time in ((False, jobs), (True, 1)):
        together = [one for one in trials if one.is_timed == is_timed]
        together = sorted(together, key=lambda one: one.setting.n_bytes)[-at_a_time:]
        needed = sum(one.setting.n_bytes for one in together)
        if needed > there:
            top = together[-1]
            raise DataError(
                f"{top.table!r} at {top.setting.drawn} takes about {top.setting.n_bytes / 2**30:.1f} GB a job, "
                f"{needed / 2**30:.1f} GB for {len(together)} at a time, and {there / 2**30:.1f} GB are available; use "
                "fewer --jobs or a smaller --size"
            )


def _available_bytes() -> int:
    """Return the memory that can be had: without the system's caches, where it tells."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return sys.maxsize


# In the parent


class _Clock:
    """Foretells the time left, from the seconds that each setting took until now."""

    def __init__(self, trials: Sequence[Trial], tell: Tell) -> None:
        self._tell = tell
        self._left = Counter((trial.setting, trial.is_timed) for trial in trials)
        self._seconds: defaultdict[Setting, list[float]] = defaultdict(list)
        self._total = sum(len(trial.methods) for trial in trials)
        self._done = 0
        tell(0, self._total, None)

    def finish(self, trial: Trial, seconds: float, jobs: int) -> None:
        self._left[trial.setting, trial.is_timed] -= 1
        self._seconds[trial.setting].append(seconds)
        self._done += len(trial.methods)
        left = sum(
            count * self._foretell(setting) / (1 if is_timed else jobs)
            for (setting, is_timed), count in self._left.items()
        )
        self._tell(self._done, self._total, left)

    def _foretell(self, setting: Setting) -> float:
        """Return the seconds of a trial: the mean until now, or what the largest setting seen makes likely."""
        if setting in self._seconds:
            return sum(self._seconds[setting]) / len(self._seconds[setting])
        seen = max(self._seconds, key=lambda other: other.work)
        return self._foretell(seen) * setting.work / seen.work


def _in_processes(trials: Sequence[Trial], jobs: int) -> Iterator[tuple[Trial, float]]:
    """Yield each trial and its seconds as it is finished, a few at a time in processes of their own.

    Whatever ends this early ends the processes too.
    """
    if not trials:
        return
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(min(jobs, len(trials)), mp_context=context, initializer=_begin_process)
    try:
        waiting = {pool.submit(run_trial, trial): trial for trial in trials}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
        pool.shutdown()
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise TwowayError(
                "a process that ran trials was ended from outside, perhaps for want of memory; what was finished is "
                "saved, and the same command goes on from there; fewer --jobs take less memory"
            ) from None
        raise


# In the processes


def _begin_process() -> None:
    """Make Ctrl-C and the end of the parent end this process at once, rather than a fit early."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def run_trial(trial: Trial) -> float:
    """Draw the data of a trial, run every method on it, save each result at once; return the seconds."""
    from threadpoolctl import threadpool_limits

    began = time.perf_counter()
    data = trial.setting.data(trial.number)
    for name in trial.methods:
        with threadpool_limits(trial.threads):  # of libraries; ours are told by the setting
            if trial.shows_seconds:
                _warm_up(trial.setting.smaller(), name)
            line = _run_method(trial, name, data)
        _append(trial.path, (json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n").encode())
    return time.perf_counter() - began


def _append(path: Path, line: bytes) -> None:
    """Add a line to a file that several processes write to; a disk that is full gets none of it.

    It is one write: lines do not mix even where there are no locks, and a killed process leaves at most one torn.
    """
    with alone_in_folder(path), open(path, "ab", buffering=0) as stream:
        before = stream.tell()
        try:
            if stream.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            stream.truncate(before)
            raise OSError(error.errno, error.strerror, str(path)) from None


def _run_method(trial: Trial, name: str, data: Any) -> Line:
    """Return the line of one method: its scores, or why there are none."""
    setting = trial.setting
    line: Line = {
        "version": __version__,
        "setting": asdict(setting),
        "trial": trial.number,
        "method": name,
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "threads": trial.threads or usable_cores(),
    }
    try:
        scores, details = setting.run(name, data, trial.number, trial.threads)
    except TwowayError as error:  # too little evidence for this method
        return {**line, "scores": None, "reason": str(error)}
    except Exception as error:
        error.add_note(f"in trial {trial.number} of {trial.table!r} at {setting}, method {name!r}")
        raise
    return {**line, **details, "scores": scores, "reason": None}


@cache
def _warm_up(setting: Setting, name: str) -> None:
    _run_method(Trial("warm-up", setting, 0, (name,), Path(os.devnull), None, True, True), name, setting.data(0))


@cache
def machine() -> str:
    """Return the processor, its cores and the versions that times depend on."""
    import numpy as np

    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        processor = names[0].split(":")[1].strip() if names else processor
    return f"{processor}, {usable_cores()} cores; Python {platform.python_version()}, numpy {np.__version__}"
