"""Ctrl-C stops a fit with the best model so far; a second one exits at once; neither leaves a partial file."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.kernels.jit import _JitCache, jit, jit_without_interrupts

# The monitor sends the signal: at which pass it comes does not depend on how fast this machine is.
PROGRAM = """
import os, signal, sys
from twoway.cli import fit, main
left = int(sys.argv.pop(1))
def interrupt(progress):
    global left
    if left:
        left -= 1
        os.kill(os.getpid(), signal.SIGINT)
fit.has_progress_output = lambda: interrupt
sys.argv[0] = "twoway"
main()
"""


def fit(folder, presses, *more):
    arguments = ["fit", "survey.csv", "-o", "x.twoway", "--rank", "2", "--solver", "em", *more]
    environment = {**os.environ, "PYTHONPATH": str(Path(tw.__file__).resolve().parents[1])}
    command = [sys.executable, "-c", PROGRAM, str(presses), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_once_keeps_the_best_so_far(folder):
    done = fit(folder, 1)
    assert done.returncode == 130
    assert done.stderr.startswith("note: 'x.twoway.checkpoint' holds the state of the fit")
    assert "interrupted by Ctrl-C" in done.stdout
    pmf = tw.load(folder / "x.twoway")
    assert pmf.report.stop_reason == "interrupted"
    np.testing.assert_allclose(pmf.weights.sum(), 1.0)


@pytest.mark.slow
def test_at_any_time_once_and_twice(folder):
    """There is no traceback, whatever the command was doing, and a file is whole, or not there."""
    rng = np.random.default_rng(1)
    columns = {f"x{number}": rng.integers(0, 4, 60_000) for number in range(12)}
    pd.DataFrame(columns).to_parquet(folder / "large.parquet")
    arguments = ["fit", "large.parquet", "-o", "x.twoway", "--rank", "8", "--force"]
    environment = {**os.environ, "PYTHONPATH": str(Path(tw.__file__).resolve().parents[1])}
    found = set()
    for presses in (1, 2):
        for seconds in (0.3, 0.6, 1.0, 2.0, 3.0, 5.0, 8.0):
            (folder / "x.twoway").unlink(missing_ok=True)
            process = subprocess.Popen(
                [sys.executable, "-m", "twoway", *arguments],
                cwd=folder,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            time.sleep(seconds)
            for _ in range(presses):
                process.send_signal(signal.SIGINT)
                time.sleep(0.1)
            told = process.communicate(timeout=120)[1]
            # Before the command begins, Python itself is interrupted, and says so in its own way.
            assert ", in main" not in told, (presses, seconds, told)
            assert process.returncode in (130, 0, -signal.SIGINT)
            if (folder / "x.twoway").exists():
                found.add(str(tw.load(folder / "x.twoway").report.stop_reason))
            assert not list(folder.glob(".twoway-*"))
    assert found <= {"interrupted", "converged", "max_iter"}


# While kernels are compiled


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_a_kernel_is_compiled_to_its_end(monkeypatch):
    """The compiler's locks are given back: otherwise the next thread that compiles would wait for ever."""
    kernel = jit(lambda number: number + 1)
    load = _JitCache.load_overload

    def pressed(self, *arguments):
        press()
        return load(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(_JitCache, "load_overload", pressed)
        with pytest.raises(KeyboardInterrupt):
            kernel(1)
    assert len(kernel.signatures) == 1
    assert kernel(1) == 2
    with ThreadPoolExecutor(1) as other:
        assert other.submit(kernel, 1.5).result(timeout=60) == 2.5


def test_ctrl_c_waits_however_often_it_is_pressed():
    done = []

    def work(presses):
        with jit_without_interrupts():
            for _ in range(presses):
                press()
            done.append(presses)

    work(0)
    for presses in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            work(presses)
    assert done == [0, 1, 3]
    with pytest.raises(KeyboardInterrupt):  # as before
        press()


def test_other_threads_and_other_handlers_are_left_alone():
    handler = signal.getsignal(signal.SIGINT)

    def inside():
        with jit_without_interrupts():
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor(1) as other:
        assert other.submit(inside).result() is handler
    assert inside() is not handler
    assert signal.getsignal(signal.SIGINT) is handler
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert inside() is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler)
