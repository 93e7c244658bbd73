"""The demo of a survey."""

import json
import shlex
from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

from twoway.cli.app import make_app


def run_demo(*options):
    done = CliRunner().invoke(make_app(), ["demo", *map(str, options)], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_answers_are_near_the_truth(tmp_path):
    told = json.loads(run_demo("--out", tmp_path, "--json"))
    assert len(told["questions"]) == 3
    for asked in told["questions"]:
        assert abs(asked["answer"] - asked["truth"]) < 0.04
        assert abs(asked["in_the_file"] - asked["truth"]) < 0.15
        assert asked["of"] > 50
    assert told["filled_correctly"] > told["most_common_correct"] + 0.02
    survey, filled = (pd.read_csv(told[name]) for name in ("survey", "filled"))
    assert filled.notna().all(axis=None)
    pd.testing.assert_frame_equal(filled.where(survey.notna()), survey)
    assert Path(told["page"]).exists()


def test_what_it_says_to_try_next_works(tmp_path):
    said = run_demo("--out", tmp_path / "a" / "b")
    assert "P(survived=yes | sex=female)" in said
    commands = [line.strip() for line in said.splitlines() if line.startswith("    twoway")]
    assert len(commands) == 2
    for command in commands:
        done = CliRunner().invoke(make_app(), shlex.split(command)[1:], catch_exceptions=False)
        assert done.exit_code == 0
