"""kill -9 at every disk operation of a command, and at any time, leaves the old file or the new one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import twoway as tw
from twoway.paper import run
from twoway.paper.results import read_results
from twoway.paper.tables import EXPERIMENTS

KILL_POINTS = Path(__file__).with_name("kill_points.py")
FIT = ["fit", "survey.csv", "-o", "x.twoway", "--rank", "2", "--solver", "em", "--force"]
COMMANDS = {
    "fit": ("x.twoway", FIT),
    "count": ("x.tables", ["count", "survey.csv", "-o", "x.tables", "--force"]),
    "count --add": ("c.tables", ["count", "survey.csv", "--add", "c.tables"]),
    "impute": ("x.csv", ["impute", "m.twoway", "survey.csv", "-o", "x.csv", "--force"]),
    "impute to Parquet": ("x.parquet", ["impute", "m.twoway", "survey.csv", "-o", "x.parquet", "--force"]),
    "sample": ("x.jsonl", ["sample", "m.twoway", "-n", "500", "-o", "x.jsonl", "--force"]),
    "explore": ("x.html", ["explore", "m.twoway", "-o", "x.html", "--force"]),
}


def kill_points(folder, output, arguments):
    command = [sys.executable, str(KILL_POINTS), str(folder), output, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


QUICK = ("count --add",)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS]
)
def test_killed_at_every_point(folder, name):
    output, arguments = COMMANDS[name]
    if not (folder / output).exists():
        (folder / output).write_bytes(b"what was there before")
    runs = kill_points(folder, output, arguments)
    assert [one for one in runs if one["file"] == "torn"] == []
    # The file that holds the new content is made, made durable, given its permissions and its name; then nothing more.
    at_points = [(one["killed"], one["file"]) for one in runs if one["way"] == 0]
    assert at_points == [(True, "old")] * 4 + [(False, "new")]
    in_the_middle = [(one["killed"], one["file"]) for one in runs if one["way"] == 1]
    assert in_the_middle == [(True, "old")] * 3
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    assert all(name.startswith(".twoway-") and name.endswith(".part") for name in left)


@pytest.mark.slow
def test_the_table_of_a_reproduction_is_the_old_or_the_new_one(folder):
    out = folder / "out"
    reproduce = ["reproduce", "synthetic-eps0.1", "--size", "smoke", "--trials", "1", "--methods", "RAND-EM"]
    reproduce += ["--out", "out", "--jobs", "2"]
    environment = {**os.environ, "PYTHONPATH": str(Path(tw.__file__).resolve().parents[1])}
    command = [sys.executable, "-m", "twoway", *reproduce]
    subprocess.run(command, cwd=folder, check=True, env=environment, stdout=subprocess.DEVNULL)
    for name in ("synthetic-eps0.1-smoke.json", "synthetic-eps0.1-smoke.md"):
        (out / name).write_text("what was there before")
        runs = kill_points(folder, f"out/{name}", [*reproduce, "--page", "results.md"])
        assert {one["file"] for one in runs} == {"old", "new"}
    lines = read_results(out / "synthetic-eps0.1-smoke.jsonl")
    todo = run.plan_run([EXPERIMENTS["synthetic-eps0.1"]], "smoke", out, trials=1, methods=["RAND-EM"])
    assert lines
    assert todo.fits == ()


@pytest.mark.slow
def test_killed_at_any_time(folder, twoway):
    """Thirty fits that would replace a model, each killed after another while."""
    before = (folder / "m.twoway").read_bytes()
    fit = ["fit", "survey.csv", "-o", "m.twoway", "--rank", "3", "--force"]
    began = time.monotonic()
    assert twoway(*fit).returncode == 0
    seconds = time.monotonic() - began
    after = (folder / "m.twoway").read_bytes()
    assert before != after
    environment = {**os.environ, "PYTHONPATH": str(Path(tw.__file__).resolve().parents[1])}
    found = []
    for share in np.linspace(0.0, 1.1, 30):
        (folder / "m.twoway").write_bytes(before)
        command = [sys.executable, "-m", "twoway", *fit]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
        time.sleep(share * seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
        found.append((folder / "m.twoway").read_bytes())
    assert set(found) <= {before, after}
    assert found[0] == before
