"""The demo, with a fit that takes less time."""

import functools
import json
import re
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import twoway
from twoway.cli.app import app
from twoway.cli.demo_picture import draw_digits
from twoway.model.pmf import JointPMF


def test_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(twoway, "fit", functools.partial(twoway.fit, solver="em", starts=1, smoothing=2))
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "a" / "b")], catch_exceptions=False)
    assert done.exit_code == 0
    assert {path.name for path in (tmp_path / "a" / "b").iterdir()} == {"digits.twoway", "digits.png", "digits.html"}
    assert JointPMF.load(tmp_path / "a" / "b" / "digits.twoway").rank == 25
    right, filled, common = (float(number) for number in re.findall(r"(\d+\.\d)%", done.stdout))
    assert right > 75
    assert filled > common + 3
    # What it says to try next works.
    said = done.stdout.partition("in Python:\n")[2].partition("\nWith your own")[0]
    exec("\n".join(line.strip() for line in said.splitlines()), {"print": str})


def test_demo_for_machines(tmp_path, monkeypatch):
    monkeypatch.setattr(twoway, "fit", functools.partial(twoway.fit, solver="em", starts=1, smoothing=2))
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--json"], catch_exceptions=False)
    told = json.loads(done.stdout)
    assert told["read_correctly"] > 0.75
    assert told["filled_correctly"] > told["most_common_level_correct"]
    assert all(Path(told[name]).exists() for name in ("model", "picture", "page"))


def test_the_picture_shows_hidden_right_and_wrong(tmp_path):
    from PIL import Image

    grey = np.zeros((3, 2, 64))
    grey[0, 0, 0] = np.nan
    grey[1, 1] = 1
    draw_digits(grey, np.array([3, 4]), np.array([3, 5]), tmp_path / "digits.png")
    picture = np.asarray(Image.open(tmp_path / "digits.png").convert("RGB")).reshape(-1, 3)
    counts = {tuple(colour): int(n) for colour, n in zip(*np.unique(picture, axis=0, return_counts=True), strict=True)}
    assert counts[214, 222, 246] == 11 * 11  # one hidden pixel
    assert counts[24, 30, 56] >= 64 * 11 * 11  # one black digit, and titles
    assert (22, 110, 62) in counts
    assert (176, 42, 38) in counts
