"""The command line on streamed files gives the same results as on files in memory."""

import json
import subprocess
import sys

import numpy as np
import pytest

import twoway as tw
from twoway.cli import run
from twoway.data.files import file_set
from twoway.datasets import dirichlet_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    frame = dirichlet_rows(3, 3, 2, seed=1).sample(800, seed=0)
    random = np.random.default_rng(0)
    frame["income"] = random.normal(size=800).round(3)
    frame["a=b"] = random.exponential(size=800).round(3)
    frame["w"] = random.integers(1, 4, 800)
    frame.to_csv(folder / "all.csv", index=False)
    frame[["x1", "x2"]].to_csv(folder / "some.csv", index=False)
    return folder


def answers(cli, *command):
    code, out, err = cli(*command, "--json", "--force")
    assert code == 0, err
    told = json.loads(out)
    told.pop("seconds", None)
    return told


@pytest.mark.parametrize(
    "options",
    [
        ["--drop", "income,a=b,w"],
        ["--bins", "income=3", "--bins", "a=b=4", "--weights", "w"],
        ["--bins", "income", "--drop", "a=b", "--where", "x1 <> 0", "--missing", "1"],
    ],
    ids=["plain", "bins and weights", "a condition"],
)
def test_streamed_files_give_the_same_model(options, cli, folder, monkeypatch):
    fit = ["fit", "all.csv", "-o", "m.twoway", "--rank", "2", "--solver", "em", *options]
    count = ["count", "all.csv", "-o", "t.tables", *options]
    learned, counted = answers(cli, *fit), answers(cli, *count)
    model, tables = tw.load(folder / "m.twoway"), (folder / "t.tables").read_bytes()
    monkeypatch.setattr(file_set, "STREAMED_BYTES", 1)
    streamed = answers(cli, *fit)
    assert {key: streamed[key] for key in ("records", "weight", "holes")} == {
        key: learned[key] for key in ("records", "weight", "holes")
    }
    again = tw.load(folder / "m.twoway")
    assert again.schema == model.schema
    np.testing.assert_allclose(again.stacked, model.stacked, atol=1e-7)
    assert answers(cli, *count) == counted
    assert (folder / "t.tables").read_bytes() == tables


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--bins", "incom"],
            "no column 'incom' to put into bins; did you mean 'income'? known: 'x1', 'x2', 'x3', 'income'",
        ),
        (
            ["--bins", "income", "--bins", "nix=3"],
            "no column 'nix' to put into bins; known: 'x1', 'x2', 'x3', 'income'",
        ),
        (["--bins", "income=1"], "at least 2"),
        (["--bins", "income", "--where", "x1 > 9"], "no records that meet the condition 'x1 > 9'"),
        (["--bins", "income", "--bins", "income=4", "--drop", "income"], "no column 'income'"),
    ],
)
def test_errors_are_the_same(options, told, cli, monkeypatch):
    command = ["count", "all.csv", "-o", "no.tables", "--max-categories", "900", *options]
    in_memory = cli(*command)
    monkeypatch.setattr(file_set, "STREAMED_BYTES", 1)
    assert cli(*command) == in_memory
    code, _, err = in_memory
    assert code == 3
    assert told in err


def test_streamed_files_beside_others_are_counted(cli, monkeypatch):
    monkeypatch.setattr(file_set, "STREAMED_BYTES", 1)
    command = ["fit", "all.csv", "some.csv", "-o", "two.twoway", "--rank", "2", "--only", "x1,x2"]
    told = answers(cli, *command)
    assert told["sources"] == 2
    assert sum("is not in memory, so its two-way counts" in warning for warning in told["warnings"]) == 2


def test_intervals_need_records_in_memory(cli, monkeypatch):
    monkeypatch.setattr(file_set, "STREAMED_BYTES", 1)
    code, _, err = cli("fit", "some.csv", "-o", "no.twoway", "--intervals")
    assert code == 3
    assert "--intervals needs records that fit into memory" in err


def test_update_by_a_streamed_file(cli, folder, monkeypatch):
    assert cli("fit", "some.csv", "-o", "before.twoway", "--rank", "2", "--force")[0] == 0
    monkeypatch.setattr(file_set, "STREAMED_BYTES", 1)
    told = answers(cli, "update", "before.twoway", "some.csv", "-o", "after.twoway")
    assert told["records"] == 800
    with (folder / "new.csv").open("w") as new:
        new.write("x1,x2\n0,\x1b[2J\n")
    code, out, err = cli("update", "before.twoway", "new.csv", "-o", "extended.twoway", "--extend")
    assert code == 0, err
    assert out.splitlines()[-1] == r"new category of 'x2': '\x1b[2J'"


def test_an_interrupted_update_is_marked(cli, folder, monkeypatch):
    assert cli("fit", "some.csv", "-o", "before.twoway", "--rank", "2", "--force")[0] == 0
    from twoway.solvers.watch import Watch

    def interrupt(self, progress):
        raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "show", interrupt)
    code, out, _ = cli("update", "before.twoway", "some.csv", "-o", "half.twoway")
    assert code == 130
    assert out.endswith("interrupted by Ctrl-C: the model is the best one found so far\n")
    assert tw.load(folder / "half.twoway").report.stop_reason == "interrupted"


def test_the_version_names_what_matters():
    done = subprocess.run([sys.executable, "-m", "twoway", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"twoway {tw.__version__} (Python {sys.version.split()[0]}, numpy ")
    assert run(["--version"]) == 0
