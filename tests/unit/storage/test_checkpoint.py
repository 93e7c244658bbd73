"""An interrupted fit continues from its last pass, to the result of an uninterrupted one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import twoway as tw
from twoway.cli import run
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError, FileFormatError
from twoway.solvers.watch import Watch
from twoway.storage import checkpoint, container


class StopError(Exception):
    pass


@pytest.fixture(autouse=True)
def at_every_pass(monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "_WORTH_SECONDS", 0.0)


@pytest.fixture(scope="module")
def records():
    return draw_records(dirichlet_rows(6, 4, 3, seed=1), 600, observed=0.6)


OPTIONS = {"rank": 3, "solver": "em", "starts": 2}


def stopped_after(n_cycles):
    told = []

    def monitor(progress):
        told.append(progress)
        if len(told) > n_cycles:
            raise StopError

    return monitor, told


@pytest.mark.parametrize("n_cycles", [2, 9])
def test_the_same_fit_goes_on(records, tmp_path, n_cycles):
    path = tmp_path / "fit.checkpoint"
    monitor, told = stopped_after(10**9)
    whole = tw.fit(records, monitor=monitor, **OPTIONS)
    n_whole = len(told)
    monitor, _ = stopped_after(n_cycles)
    with pytest.raises(StopError):
        tw.fit(records, checkpoint=path, monitor=monitor, **OPTIONS)
    assert path.exists()
    monitor, told = stopped_after(10**9)
    again = tw.fit(records, checkpoint=path, monitor=monitor, **OPTIONS)
    assert len(told) <= n_whole - n_cycles + 1
    assert again.report.starts == whole.report.starts
    assert again.stacked.tobytes() == whole.stacked.tobytes()
    assert not path.exists()


def test_another_fit_ignores_the_checkpoint(records, tmp_path):
    path = tmp_path / "fit.checkpoint"
    monitor, _ = stopped_after(4)
    with pytest.raises(StopError):
        tw.fit(records, checkpoint=path, monitor=monitor, **OPTIONS)
    other = tw.fit(records, checkpoint=path, **{**OPTIONS, "seed": 1})
    assert other.stacked.tobytes() == tw.fit(records, **{**OPTIONS, "seed": 1}).stacked.tobytes()


def test_ctrl_c_keeps_what_was_reached(records, tmp_path):
    path = tmp_path / "fit.checkpoint"
    n_told = 0

    def monitor(progress):
        nonlocal n_told
        n_told += 1
        if n_told == 5:
            raise KeyboardInterrupt

    best = tw.fit(records, checkpoint=path, monitor=monitor, **OPTIONS)
    assert best.report.stop_reason == "interrupted"
    assert path.exists()
    assert tw.fit(records, checkpoint=path, **OPTIONS).stacked.tobytes() == tw.fit(records, **OPTIONS).stacked.tobytes()


def test_any_number_of_loops_is_read_again(tmp_path):
    path = tmp_path / "many.checkpoint"
    written = checkpoint.Checkpoint(path)
    written.open("a fit")
    points = [np.random.default_rng(number).random((1 + number % 3, 4)) for number in range(130)]
    for point in points:
        key, _ = written.begin(point)
        written.save(key, checkpoint.SavedLoop((point, point + 1, np.array([np.inf])), "converged"))
    read = checkpoint.Checkpoint(path)
    read.open("a fit")
    for point in points:
        _, (arrays, stop_reason) = read.begin(point)
        for array, expected in zip(arrays, (point, point + 1, [np.inf]), strict=True):
            np.testing.assert_array_equal(array, expected)
        assert stop_reason == "converged"


def test_a_checkpoint_without_a_state_or_with_a_wrong_shape(tmp_path):
    path = tmp_path / "fit.checkpoint"
    written = checkpoint.Checkpoint(path)
    written.open("a fit")
    written.write()
    checkpoint.Checkpoint(path).open("a fit")
    key, _ = written.begin(np.zeros(3))
    written.save(key, checkpoint.SavedLoop((np.zeros(3), np.zeros(3)), None))
    header, arrays = container.read_container(path)
    header["loops"] = [{**header["loops"][0], "shapes": [[7], [3]]}]
    container.write_container(path, "checkpoint", header, arrays)
    with pytest.raises(FileFormatError, match="not a checkpoint"):
        checkpoint.Checkpoint(path).open("a fit")


def test_a_file_that_is_not_a_checkpoint_is_not_replaced(records, tmp_path):
    path = tmp_path / "model.twoway"
    tw.fit(records, **OPTIONS).save(path)
    content = path.read_bytes()
    with pytest.raises(FileFormatError, match="not a checkpoint"):
        tw.fit(records, checkpoint=path, **OPTIONS)
    assert path.read_bytes() == content
    with pytest.raises(DataError, match="existing folder"):
        tw.fit(records, checkpoint=tmp_path / "nix" / "c", **OPTIONS)


def test_the_same_command_goes_on(records, tmp_path, monkeypatch, capsys):
    records_path, model = tmp_path / "records.csv", tmp_path / "m.twoway"
    records_frame = dirichlet_rows(4, 3, 2, seed=1).sample(300, seed=0)
    records_frame.to_csv(records_path, index=False)
    command = ["fit", str(records_path), "-o", str(model), "--rank", "2", "--solver", "em"]
    assert run(command) == 0
    whole = tw.load(model)
    assert run(command) == 4  # it is there already
    model.unlink()
    passes = 0
    show = Watch.show

    def interrupted(self, progress):
        nonlocal passes
        passes += 1
        if passes == 4:
            raise KeyboardInterrupt
        show(self, progress)

    monkeypatch.setattr(Watch, "show", interrupted)
    assert run(command) == 130
    assert model.exists()
    assert (tmp_path / "m.twoway.checkpoint").exists()
    monkeypatch.undo()
    assert run(command) == 0
    np.testing.assert_array_equal(tw.load(model).stacked, whole.stacked)
    assert not (tmp_path / "m.twoway.checkpoint").exists()
    capsys.readouterr()


def test_the_checkpoint_is_removed_after_the_model_is_saved(tmp_path, monkeypatch, capsys):
    dirichlet_rows(4, 3, 2, seed=1).sample(300, seed=0).to_csv(tmp_path / "records.csv", index=False)
    command = ["fit", str(tmp_path / "records.csv"), "-o", str(tmp_path / "m.twoway"), "--rank", "2", "--solver", "em"]
    kept = tmp_path / "m.twoway.checkpoint"

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(tw.JointPMF, "save", full)
        assert run(command) == 4
    assert kept.exists()
    assert run(command) == 0
    assert not kept.exists()
    kept.write_bytes(b"of another time")
    assert run(command) == 4  # a finished model is not replaced unasked
    assert "--force" in capsys.readouterr().err


KILLED = """
import os, signal, sys
from twoway.cli import run
from twoway.solvers.watch import Watch
from twoway.storage import checkpoint

checkpoint.SECONDS = checkpoint._WORTH_SECONDS = 0.0
show, passes = Watch.show, 0

def killed(self, progress):
    global passes
    passes += 1
    if passes == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    show(self, progress)

Watch.show = killed
run(sys.argv[2:])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no kill -9 here")
def test_a_killed_command_goes_on_too(tmp_path, monkeypatch, capsys):
    dirichlet_rows(4, 3, 2, seed=1).sample(300, seed=0).to_csv(tmp_path / "records.csv", index=False)
    model, kept = tmp_path / "m.twoway", tmp_path / "m.twoway.checkpoint"
    command = ["fit", str(tmp_path / "records.csv"), "-o", str(model), "--rank", "2", "--solver", "em"]
    program = [sys.executable, "-c", KILLED, "6", *command]
    environment = {**os.environ, "PYTHONPATH": str(Path(tw.__file__).resolve().parents[1])}
    ended = subprocess.run(program, cwd=tmp_path, env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert kept.exists()
    assert not model.exists()
    n_told = []
    show = Watch.show

    def counting(self, progress):
        n_told[-1] += 1
        show(self, progress)

    monkeypatch.setattr(Watch, "show", counting)
    n_told.append(0)
    assert run(command) == 0
    resumed = tw.load(model)
    assert not kept.exists()
    n_told.append(0)
    assert run([*command, "--force"]) == 0
    whole = tw.load(model)
    assert resumed.report.starts == whole.report.starts
    np.testing.assert_array_equal(resumed.stacked, whole.stacked)
    assert n_told[0] == n_told[1] - 5, "the five cycles before the kill were not run again"
    capsys.readouterr()
