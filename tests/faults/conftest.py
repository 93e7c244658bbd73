"""A folder with a survey, its model and its tables; and commands run in their own processes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import twoway as tw

SOURCE = Path(tw.__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A survey with holes, a model of it, and its tables, that no test changes."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    young = rng.random(400) < 0.4
    survey = pd.DataFrame(
        {
            "age": np.where(young, "18-39", "40+"),
            "vote": np.where(rng.random(400) < np.where(young, 0.8, 0.3), "yes", "no"),
            "größe": np.where(young, 3, 2) + rng.integers(-1, 2, 400),
        }
    ).mask(rng.random((400, 3)) < 0.2)
    survey["größe"] = survey["größe"].astype("Int64")
    survey.to_csv(folder / "survey.csv", index=False)
    tw.fit(survey, rank=2, solver="em").save(folder / "m.twoway")
    tw.count(survey).save(folder / "c.tables")
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """A copy of it that a test may spoil."""
    shutil.copytree(made, tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def twoway(folder):
    """Run the command line in the folder, in a process of its own; returns what `subprocess.run` does."""

    def run(*arguments, env=None, before=(), **options):
        command = [*before, sys.executable, "-m", "twoway", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), **(env or {})}
        environment = {name: value for name, value in environment.items() if value is not None}
        options = {"capture_output": True, "timeout": 120} | options
        return subprocess.run(command, cwd=folder, env=environment, check=False, **options)

    return run


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KB, if this process may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=777", "tmpfs", str(place)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a file system, and not everywhere")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def as_nobody():
    """The words to put before a command so that permissions bind it, also where the tests run as root."""
    if os.geteuid():
        return []
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    probe = [*words, sys.executable, "-c", "import twoway"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    if (
        not shutil.which("setpriv")
        or subprocess.run(probe, env=environment, capture_output=True, check=False).returncode
    ):
        pytest.skip("root ignores permissions, and no other user can run twoway here")
    return words
