"""Running fits: several at a time, each saved as soon as it is finished, none run twice."""

from __future__ import annotations

import os
import platform
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from twoway import __version__
from twoway.errors import DataError, OutputError, TwowayError, check_known, check_whole_number
from twoway.paper.results import Line, append_result, read_results, remove_torn_result, result_key, results_file
from twoway.paper.tables import SIZES, Experiment, Size
from twoway.paper.trials import TrialSetting
from twoway.parallel import usable_cores


@dataclass(frozen=True)
class Fit:
    """One method on one draw of data."""

    experiment: Experiment
    setting: TrialSetting
    trial: int
    method: str
    threads: int | None


@dataclass(frozen=True)
class RunPlan:
    """The fits left to run; made by `plan`, which checks everything that can be checked before any work starts."""

    experiments: tuple[Experiment, ...]
    size: Size
    out: Path
    fits: tuple[Fit, ...]
    jobs: int

    def run(self, report_progress: Callable[[Fit], None] = lambda fit: None) -> Iterator[Experiment]:
        """Yield each experiment when it is finished; ``report_progress`` is called after each fit."""
        left = Counter(fit.experiment.name for fit in self.fits)
        yield from (experiment for experiment in self.experiments if not left[experiment.name])
        for is_timed in (False, True):
            fits = [fit for fit in self.fits if fit.experiment.is_timed == is_timed]
            for fit, line in _run_fits(fits, 1 if is_timed else self.jobs):
                append_result(results_file(self.out, fit.experiment, self.size), line)
                report_progress(fit)
                left[fit.experiment.name] -= 1
                if not left[fit.experiment.name]:
                    yield fit.experiment


def plan_run(
    experiments: Sequence[Experiment],
    size: Size,
    out: Path,
    *,
    trials: int | None = None,
    jobs: int | None = None,
    methods: Sequence[str] = (),
) -> RunPlan:
    """Return the fits of some experiments that are not saved yet.

    Parameters
    ----------
    size
        "paper", or "smoke" to see that everything runs.
    out
        The folder for results; fits saved there are not run again.
    trials
        Trials per column; by default 20 at "paper" (5 at 10⁶ records), 2 at "smoke".
    jobs
        The number of processes; by default one per core.
    methods
        Names of `METHODS`; all of them by default.
    """
    check_known("size", SIZES, size)
    jobs = usable_cores() if jobs is None else check_whole_number("jobs", jobs, 1)
    trials = None if trials is None else check_whole_number("trials", trials, 1)
    for experiment in experiments:
        experiment.smoke[0].data(0)  # missing data are reported before any work
    check_run_folder(out)
    fits = []
    for experiment in experiments:
        path = results_file(out, experiment, size)
        remove_torn_result(path)
        saved = read_results(path)
        threads = None if jobs == 1 or experiment.is_timed else 1
        n_trials = experiment.columns(size, trials)
        # A trial of every column before the next trial, so that the time left is known early.
        fits += [
            Fit(experiment, setting, trial, method, threads)
            for trial in range(max(n_trials.values()))
            for setting in n_trials
            for method in experiment.methods
            if trial < n_trials[setting]
            and (method in methods or not methods)
            and result_key(asdict(setting), trial, method) not in saved
        ]
    _check_run_memory(fits, jobs)
    return RunPlan(tuple(experiments), size, out, tuple(fits), jobs)


def check_run_folder(out: Path) -> None:
    """Raise if nothing can be written to a folder; create it if it does not exist."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        reason = f"{error.strerror}; name another with --out"
        raise OutputError(f"cannot write to the folder {str(out)!r}: {reason}") from None


def _check_run_memory(fits: Sequence[Fit], jobs: int) -> None:
    """Raise if the largest fits that may run at the same time do not fit in memory."""
    sizes = (fit.setting.n_bytes * (1 if fit.experiment.is_timed else min(jobs, len(fits))) for fit in fits)
    needed, available = max(sizes, default=0), _bytes_to_run()
    if needed > available:
        raise DataError(
            f"the fits need about {needed / 2**30:.1f} GB with {jobs} jobs, and {available / 2**30:.1f} GB are "
            "available; use fewer --jobs or a smaller --size"
        )


def _bytes_to_run() -> int:
    """Return the memory that can be used, without the system's caches where they are known."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return sys.maxsize


# Fits


def _run_fits(fits: Sequence[Fit], jobs: int) -> Iterator[tuple[Fit, Line]]:
    """Yield each fit with its line when it is finished, whichever is first; one job runs in this process."""
    if not fits:
        return
    from joblib import Parallel, delayed, parallel_config

    try:
        with parallel_config("loky", inner_max_num_threads=1), _run_ends_on_ctrl_c():
            parallel = Parallel(n_jobs=min(jobs, len(fits)), return_as="generator_unordered", batch_size=1)
            yield from parallel(delayed(_run_in_job)(fit, os.getpid()) for fit in fits)
    except BrokenProcessPool:
        raise TwowayError(
            "a process that ran fits was killed, perhaps because memory ran out; finished fits are saved, and the same "
            "command continues from there; fewer --jobs need less memory"
        ) from None


@contextmanager
def _run_ends_on_ctrl_c() -> Iterator[None]:
    """Make Ctrl-C raise `SystemExit`: after `KeyboardInterrupt` a fit returns its best model so far, to be saved."""

    def leave(*_: object) -> None:
        raise SystemExit(130)

    handler = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _run_in_job(fit: Fit, parent: int) -> tuple[Fit, Line]:
    if os.getpid() != parent:
        _run_no_longer_than(parent)
    return fit, run_fit(fit)


@cache
def _run_no_longer_than(parent: int) -> None:
    """End this process as soon as its parent has ended, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def run_fit(fit: Fit) -> Line:
    """Return the line of a fit: its scores, or why it has none."""
    setting = fit.setting
    if "seconds" in fit.experiment.metrics:
        smaller = dict(zip(fit.experiment.paper, fit.experiment.smoke, strict=False))
        _run_before_timing(smaller.get(setting, setting), fit.method)
    line: Line = {
        "version": __version__,
        "setting": asdict(setting),
        "trial": fit.trial,
        "method": fit.method,
        "date": time.strftime("%Y-%m-%d"),
        "machine": run_machine(),
        "threads": fit.threads or usable_cores(),
    }
    try:
        scores, details = setting.run(fit.method, _run_data(setting, fit.trial), fit.trial, fit.threads)
    except TwowayError as error:  # too little evidence for this method
        return {**line, "scores": None, "reason": str(error)}
    except Exception as error:
        error.add_note(f"in trial {fit.trial} of {fit.experiment.name!r} at {setting}, method {fit.method!r}")
        raise
    return {**line, **details, "scores": scores, "reason": None}


@lru_cache(maxsize=1)
def _run_data(setting: TrialSetting, trial: int) -> Any:
    return setting.data(trial)


@cache
def _run_before_timing(setting: TrialSetting, method: str) -> None:
    """Import and compile what a method needs, so that this is not timed."""
    with suppress(TwowayError):
        setting.run(method, setting.data(0), 0, None)


@cache
def run_machine() -> str:
    """Return the processor, its cores and the versions that times depend on."""
    import numpy as np

    processor = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    return f"{processor}, {usable_cores()} cores; Python {platform.python_version()}, numpy {np.__version__}"
