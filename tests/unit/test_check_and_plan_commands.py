"""The commands check and plan: what they read, print and refuse."""

import json

import pytest
from typer.testing import CliRunner

import twoway as tw
from twoway.cli.check import check
from twoway.cli.plan import plan
from twoway.datasets import dirichlet_rows, draw_records

TRUTH = dirichlet_rows(4, 3, 2, seed=1)


def run(command, *arguments):
    import typer

    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    TRUTH.sample(400, seed=0).to_csv(folder / "records.csv", index=False)
    TRUTH.save(folder / "model.twoway")
    tw.count(draw_records(TRUTH, 2000, observed=1.0)).save(folder / "pairs.tables")
    (folder / "other.bin").write_bytes(b"nothing")
    return folder


@pytest.mark.parametrize("name", ["records.csv", "model.twoway", "pairs.tables"])
def test_check_reads_all_three(files, name):
    arguments = [] if name == "model.twoway" else ["--rank", 2]
    shown = run(check, files / name, *arguments)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith(("recoverable", "not from these tables"))
    told = json.loads(run(check, files / name, *arguments, "--json").stdout)
    assert told["rank"] == 2
    assert shown.stdout.startswith(told["verdict"])


def test_check_compares_a_model_with_data(files):
    shown = run(check, files / "model.twoway", "--data", files / "pairs.tables")
    assert "all 6 tables are fitted as well as chance allows" in shown.stdout
    assert isinstance(run(check, files / "pairs.tables", "--data", files / "records.csv").exception, tw.DataError)


def test_check_refuses_what_it_cannot_read(files):
    assert isinstance(run(check, files / "nowhere.csv").exception, tw.MissingFileError)
    assert isinstance(run(check, files / "other.bin").exception, tw.FileFormatError)


def test_plan_by_a_model_and_by_assumption(files):
    shown = run(plan, files / "model.twoway", "--error", 0.3, "--of", "x1,x2", "--trials", 1)
    assert "records bring the total variation of x1 × x2 to 0.3" in shown.stdout
    told = run(plan, "--variables", 3, "--categories", 2, "--rank", 2, "--error", 0.3, "--trials", 1, "--json")
    assert json.loads(told.stdout)["n_records"] >= 2
    assert isinstance(run(plan).exception, tw.DataError)
