"""The commands check and plan, and intervals: input, output and errors."""

import json

import pandas as pd
import pytest

import twoway as tw
from twoway.cli import run
from twoway.datasets import dirichlet_rows, draw_records

TRUTH = dirichlet_rows(4, 3, 2, seed=1)


@pytest.fixture
def twoway(capsys):
    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    TRUTH.sample(400, seed=0).to_csv(folder / "records.csv", index=False)
    TRUTH.save(folder / "model.twoway")
    tw.count(draw_records(TRUTH, 2000, observed=1.0)).save(folder / "pairs.tables")
    (folder / "other.bin").write_bytes(b"nothing")
    return folder


@pytest.mark.parametrize("name", ["records.csv", "model.twoway", "pairs.tables"])
def test_check_reads_all_three(twoway, files, name):
    arguments = [] if name == "model.twoway" else ["--rank", 2]
    code, out, err = twoway("check", files / name, *arguments)
    assert code == 0, err
    assert out.startswith(("recoverable", "not from these tables"))
    told = json.loads(twoway("check", files / name, *arguments, "--json")[1])
    assert told["rank"] == 2
    assert out.startswith(told["verdict"])


def test_check_compares_a_model_with_data(twoway, files):
    for data in ("pairs.tables", "records.csv"):
        _, out, _ = twoway("check", files / "model.twoway", "--data", files / data)
        assert "all 6 tables are fitted as well as chance allows" in out
    code, _, err = twoway("check", files / "pairs.tables", "--data", files / "records.csv")
    assert code == 3
    assert "--data needs a model" in err


def test_check_gives_ranges(twoway, files):
    question = "P(x1 = 0, x2 != 1 | x3 in {0, 2})"
    code, out, err = twoway("check", files / "pairs.tables", "--rank", 2, "--range", question)
    assert code == 0, err
    assert "P(x1 = 0, x2 in {0, 2} | x3 in {0, 2})" in out
    shown = twoway("check", files / "pairs.tables", "--rank", 2, "--range", question, "--range", "P(x1=0)", "--json")[1]
    both, one = json.loads(shown)["ranges"]
    truth = TRUTH.given({"x3": [0, 2]}).prob({"x1": 0, "x2": [0, 2]})
    assert both["low"] <= truth <= both["high"]
    assert both["low"] <= both["models"][0] <= both["models"][1] <= both["high"]
    assert one["low"] <= TRUTH.prob({"x1": 0}) <= one["high"]
    for wrong in ("P(x1)", "P(x1 = 0 | x2)", "E(x1)"):
        code, _, err = twoway("check", files / "pairs.tables", "--range", wrong)
        assert code != 0
        assert "one probability" in err
    code, _, err = twoway("check", files / "model.twoway", "--data", files / "pairs.tables", "--range", "P(x1 = 0)")
    assert code != 0
    assert "--data" in err


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Two tables that share age: none shows vote and trust together."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "age_x_vote.csv").write_text(",no,yes\n18-39,120,280\n40+,390,210\n")
    (folder / "age_x_trust.csv").write_text(",low,high\n18-39,60,340\n40+,350,250\n")
    return folder


@pytest.mark.slow
def test_a_range_of_a_model_is_about_the_tables_that_it_was_fitted_to(twoway, published, tmp_path):
    model = tmp_path / "model.twoway"
    assert twoway("fit", "--tables", published, "-o", model)[0] == 0
    ranges = ["--range", "P(vote = yes, trust = high)", "--range", "P(vote = yes, age = 40+)", "--json"]
    of_model = json.loads(twoway("check", model, *ranges)[1])["ranges"]
    of_tables = json.loads(twoway("check", "--tables", published, "--rank", 2, *ranges)[1])["ranges"]
    for found, same in zip(of_model, of_tables, strict=True):
        assert (found["low"], found["high"]) == pytest.approx((same["low"], same["high"]), abs=1e-6)
    no_table, table = of_model
    # Of the 400 aged 18-39, 280 + 340 - 400 at least are both; of the 600 others, none need be.
    assert no_table["low"] < 0.22
    assert no_table["high"] > 0.28 + 0.21
    assert table["low"] < 0.21 < table["high"] < table["low"] + 0.15
    tw.load(model).save(tmp_path / "bare.twoway", counts=False)
    code, _, err = twoway("check", tmp_path / "bare.twoway", *ranges)
    assert code == 3
    assert "does not keep the tables" in err


def test_check_reads_several_files(twoway, files, published, tmp_path):
    halves = [tmp_path / "one.csv", tmp_path / "two.csv"]
    records = pd.read_csv(files / "records.csv")
    for number, half in enumerate(halves):
        records[number::2].to_csv(half, index=False)
    told = [json.loads(twoway("check", *some, "--rank", 2, "--json")[1]) for some in ([files / "records.csv"], halves)]
    assert told[0]["visible"] == told[1]["visible"]
    assert told[0]["n_tables"] == told[1]["n_tables"] == 6
    for wrong in ([], [files / "records.csv", "--tables", published]):
        code, _, err = twoway("check", *wrong)
        assert code == 2
        assert "either DATA" in err


def test_check_refuses_what_it_cannot_read(twoway, files):
    assert twoway("check", files / "nowhere.csv")[0] == 4
    assert twoway("check", files / "other.bin")[0] == 4


def test_plan_by_a_model_and_by_assumption(twoway, files):
    _, out, _ = twoway("plan", files / "model.twoway", "--error", 0.3, "--of", "x1,x2", "--trials", 1)
    assert "records bring the total variation of x1 × x2 to 0.3" in out
    assumed = ["--variables", 3, "--categories", 2, "--rank", 2, "--error", 0.3, "--trials", 1, "--json"]
    assert json.loads(twoway("plan", *assumed)[1])["n_records"] >= 2
    code, _, err = twoway("plan")
    assert code == 3
    assert "give either a MODEL" in err


def test_intervals_from_fit_to_ask(twoway, files):
    model = files / "sure.twoway"
    code, _, err = twoway("fit", files / "records.csv", "-o", model, "--rank", 2, "--solver", "em", "--intervals")
    assert code == 0, err
    questions = ["P(x1 = 0)", "P(x1 | x2)", "E(x1)", "H(x1)", "I(x1; x2)", "mode(x1, x2 | x3 = 1)"]
    _, out, err = twoway("ask", model, *questions, "--interval", "--json")
    number, table, mean, entropy, information, mode = (json.loads(line) for line in out.splitlines())
    for one in (number, mean, entropy, information):
        assert one["low"] < one["value"] < one["high"]
    assert table["low"][0][0] < table["probabilities"][0][0] < table["high"][0][0]
    assert 0 <= mode["agreement"] <= 1
    boot = tw.Bootstrap.load(model)
    assert number["low"] == pytest.approx(boot.prob({"x1": 0}).low)
    _, out, _ = twoway("ask", model, "P(x1 = 0)", "--interval")
    assert "(90%: 0." in out
    _, out, _ = twoway("ask", model, "P(x1)", "--interval")
    assert out.splitlines()[0].split() == ["x1", "probability", "low", "high", "observed", "records"]
    code, _, err = twoway("update", model, files / "records.csv", "-o", files / "more.twoway")
    assert code == 0, err
    assert "note:" in err
    assert "has no replicates" in err
    # Without replicates there is nothing to say how sure it is.
    code, _, err = twoway("ask", files / "model.twoway", "P(x1 = 0)", "--interval")
    assert code == 4
    assert "without replicates" in err


def test_draws_for_multiple_imputation(twoway, files):
    frame = TRUTH.sample(60, seed=1).astype("Int64")
    frame.loc[::2, "x1"] = None
    frame.insert(0, "id", range(60))
    frame.to_csv(files / "holes.csv", index=False)
    model = files / "drawn.twoway"
    tw.bootstrap(TRUTH, frame.drop(columns="id"), n=20).save(model)
    out = files / "completed.csv"
    code, told, err = twoway("impute", model, files / "holes.csv", "--draws", 20, "-o", out)
    assert code == 0, err
    assert "30 missing cells in 60 records filled, in 20 copies" in told
    long = pd.read_csv(out)
    assert list(long.columns) == [".imp", ".id", "id", "x1", "x2", "x3", "x4"]
    assert long.notna().all().all()
    copies = [table for _, table in long.groupby(".imp")]
    assert [len(copy) for copy in copies] == [60] * 20
    assert all((copy["id"] + 1 == copy[".id"]).all() for copy in copies)
    expected = tw.Bootstrap.load(model).impute(frame, m=20)
    assert all(
        (copy["x1"].to_numpy() == one["x1"].to_numpy()).all() for copy, one in zip(copies, expected, strict=True)
    )
    _, told, _ = twoway("impute", model, files / "holes.csv", "--draws", 2, "-o", files / "two.parquet", "--json")
    assert json.loads(told)["draws"] == 2
    assert pd.read_parquet(files / "two.parquet").shape == (120, 7)
    refused = [
        ((files / "model.twoway", files / "holes.csv", "--draws", 5), 4, "without replicates"),
        ((model, files / "holes.csv", "--draws", 21), 3, "21 were asked for, and there are 20"),
        ((model, files / "holes.csv", "--draws", 5, "--proba"), 3, "cannot be combined with --proba"),
        ((model, files / "holes.csv", "--draws", 5, "--how", "mode"), 3, "cannot be combined with --how mode"),
        ((model, out, "--draws", 5), 3, "has a column '.imp'"),
    ]
    for arguments, expected_code, message in refused:
        code, _, err = twoway("impute", *arguments)
        assert (code, message in err) == (expected_code, True), err


def test_an_impossible_record_is_noted(twoway, files, tmp_path):
    schema = tw.Schema(tuple(tw.Variable(name, ("n", "y")) for name in "abc"))
    halves = [[1, 0], [0, 1]]
    tw.JointPMF([0.5, 0.5], [halves, halves, [[0.2, 0.7], [0.8, 0.3]]], schema).save(tmp_path / "m.twoway")
    (tmp_path / "d.csv").write_text("a,b,c\nn,y,\nn,n,\n")
    code, _, err = twoway("impute", tmp_path / "m.twoway", tmp_path / "d.csv", "-o", tmp_path / "out.csv")
    assert code == 0
    assert (tmp_path / "out.csv").read_text().split() == ["a,b,c", "n,y,", "n,n,y"]
    assert err.startswith("note: 1 record is impossible under the model")
    assert "UserWarning" not in err
