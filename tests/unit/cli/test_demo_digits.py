"""The demo of digits, with a faster fit."""

import functools
import json
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

import twoway
from twoway.cli.app import make_app
from twoway.cli.demo import draw_demo_digits
from twoway.model.pmf import JointPMF


def test_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(twoway, "fit", functools.partial(twoway.fit, solver="em", starts=1, smoothing=2))
    done = CliRunner().invoke(
        make_app(), ["demo", "digits", "--out", str(tmp_path / "a" / "b")], catch_exceptions=False
    )
    assert done.exit_code == 0
    assert {path.name for path in (tmp_path / "a" / "b").iterdir()} == {"digits.twoway", "digits.svg", "digits.html"}
    assert JointPMF.load(tmp_path / "a" / "b" / "digits.twoway").rank == 25
    right, filled, common = (float(number) for number in re.findall(r"(\d+\.\d)%", done.stdout))
    assert right > 75
    assert filled > common + 3
    # What it says to try next works.
    said = done.stdout.partition("in Python:\n")[2].partition("\nWith your own")[0]
    exec("\n".join(line.strip() for line in said.splitlines()), {"print": str})


@pytest.mark.slow
def test_demo_for_machines(tmp_path, monkeypatch):
    monkeypatch.setattr(twoway, "fit", functools.partial(twoway.fit, solver="em", starts=1, smoothing=2))
    done = CliRunner().invoke(make_app(), ["demo", "digits", "--out", str(tmp_path), "--json"], catch_exceptions=False)
    told = json.loads(done.stdout)
    assert told["read_correctly"] > 0.75
    assert told["filled_correctly"] > told["most_common_level_correct"]
    assert all(Path(told[name]).exists() for name in ("model", "picture", "page"))


def test_the_picture_shows_hidden_right_and_wrong(tmp_path):
    grey = np.zeros((3, 2, 64))
    grey[0, 0, 0] = np.nan
    grey[1, 1] = 1
    draw_demo_digits(grey, np.array([3, 4]), np.array([3, 5]), tmp_path / "digits.svg")
    picture = ElementTree.parse(tmp_path / "digits.svg").getroot()
    colours = Counter(element.get("fill") for element in picture.iter())
    assert colours["#d6def6"] == 1  # one hidden pixel
    assert colours["#181e38"] == 64  # one black digit
    texts = {element.text: element.get("fill") for element in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert (texts["3"], texts["4 (is 5)"]) == ("#166e3e", "#b02a26")
