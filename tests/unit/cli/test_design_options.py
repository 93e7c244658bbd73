"""The design of a survey on the command line."""

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.cli import run

RNG = np.random.default_rng(0)
TOWN = np.repeat(np.arange(12), 15)
SURVEY = pd.DataFrame(
    {
        "region": np.where(TOWN < 6, "north", "south"),
        "town": TOWN,
        "size": np.where(TOWN < 6, 50, 200),
        "vote": np.where(RNG.normal(size=12)[TOWN] + RNG.normal(size=180) > 0, "yes", "no"),
        "w": RNG.uniform(0.5, 2.0, 180),
    }
)
REPLICATES = [f"repw{number}" for number in range(12)]
for number, name in enumerate(REPLICATES):
    SURVEY[name] = SURVEY["w"] * np.where(number == TOWN, 0.0, 12 / 11)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SURVEY.to_csv("survey.csv", index=False)
    return tmp_path


def fit(*options, rank="1"):
    common = ["fit", "survey.csv", "-o", "m.twoway", "--force", "--weights", "w", "--rank", rank, "--smoothing", "0"]
    return run([*common, *options])


def error_of_yes():
    return float(tw.load("m.twoway").standard_error("P(vote = yes)"))


def test_strata_units_and_population(folder):
    assert fit("--strata", "region", "--units", "town", "--population", "size", "--intervals", "--drop", "repw*") == 0
    loaded = tw.load("m.twoway")
    assert loaded.schema.names == ("region", "vote")
    records = tw.Records(SURVEY, columns=["region", "vote"], weights="w")
    design = tw.Design(strata=SURVEY["region"], units=SURVEY["town"], population=SURVEY["size"])
    other = tw.bootstrap(loaded.pmf, records, design=design)
    assert error_of_yes() == pytest.approx(float(other.standard_error(lambda pmf: pmf.prob({"vote": "yes"}))), rel=1e-6)


def test_replicate_weights(folder, capsys):
    options = ("--replicate-weights", "repw*", "--only", "vote", "--intervals")
    assert fit(*options) == 0
    assert "12 jackknife weights, recognized" in capsys.readouterr().out
    jackknife = error_of_yes()
    # Samples of a design go a part of the way only: how often they agree on a mode says nothing.
    assert run(["ask", "m.twoway", "mode(vote)", "--interval"]) == 0
    assert "agree" not in capsys.readouterr().out
    for given, times in (("jackknife", 1.0), ("jackknife:0.5", (6 / 11) ** 0.5)):
        assert fit(*options, "--replicate-kind", given) == 0
        assert "12 jackknife weights, as given" in capsys.readouterr().out
        assert error_of_yes() == pytest.approx(times * jackknife)
    assert tw.load("m.twoway").pmf.report.columns == {
        "weights": "w",
        "replicate_weights": "repw*",
        "replicate_kind": "jackknife:0.5",
    }
    assert fit("--units", "town", "--only", "vote", "--intervals") == 0
    assert jackknife == pytest.approx(error_of_yes(), rel=0.1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--units", "twon", "--intervals"], "did you mean 'town'?"),
        (["--units", "town"], "--intervals"),
        (["--replicate-weights", "vote", "--intervals"], "'vote' must hold replicate weights"),
        (["--replicate-weights", "wt*", "--intervals"], "no column 'wt*'"),
        (["--replicate-weights", "repw*", "--replicate-kind", "jk", "--intervals", "--only", "vote"], "jackknife"),
        (["--replicate-weights", "repw*", "--replicate-kind", "fay:half", "--intervals"], "such as fay:0.3"),
        (["--replicate-kind", "brr", "--intervals"], "--replicate-kind needs --replicate-weights"),
        (["--replicate-weights", "w,size", "--intervals", "--only", "vote"], "give the kind"),
    ],
)
def test_mistakes(folder, capsys, options, said):
    assert fit(*options) == 3
    assert said in capsys.readouterr().err


def test_a_model_remembers_its_columns(folder, capsys):
    assert fit("--strata", "region", "--units", "town", "--only", "vote,region", "--intervals") == 0
    SURVEY.drop(columns="w").to_csv("plain.csv", index=False)
    SURVEY.drop(columns="town").to_csv("townless.csv", index=False)
    capsys.readouterr()
    for options, said in (
        (["survey.csv"], "12 units in 2 strata"),
        (["survey.csv", "--units", "none"], "180 records count as"),
        (["plain.csv", "--weights", "none"], "12 units in 2 strata"),
        (["townless.csv", "--strata", "region"], "180 units in 2 strata"),
    ):
        assert run(["check", "m.twoway", "--data", *options]) == 0
        assert said in capsys.readouterr().out
    for options, said in (
        (["check", "m.twoway", "--data", "plain.csv"], "weights in column 'w', which 'plain.csv' lacks"),
        (["check", "m.twoway", "--data", "townless.csv"], "or --units none to use no units"),
        (["update", "m.twoway", "plain.csv", "-o", "n.twoway"], "or --weights none to use no weights"),
    ):
        assert run(options) == 3
        assert said in " ".join(capsys.readouterr().err.split())
    assert run(["update", "m.twoway", "survey.csv", "-o", "n.twoway"]) == 0
    updated, fitted = (tw.JointPMF.load(name) for name in ("n.twoway", "m.twoway"))
    assert updated.report.columns == fitted.report.columns
    assert updated.report.n_records == pytest.approx(2 * fitted.report.n_records)
    assert updated.counts.people.sum() == 2 * fitted.counts.people.sum()
    # Tables remember them, too, and so does a model of these.
    assert run(["count", "survey.csv", "--schema", "m.twoway", "-o", "n.tables"]) == 0
    assert run(["count", "survey.csv", "--add", "n.tables"]) == 0
    tables = tw.Tables.load("n.tables")
    assert (tables.number_columns, tables.n_records.tolist()) == ({"weights": "w"}, [360])
    assert tables.weights == pytest.approx(2 * fitted.report.n_records)
    assert tw.fit(tables, rank=1).report.columns == {"weights": "w"}
    assert run(["count", "plain.csv", "--add", "n.tables"]) == 3
    assert run(["count", "plain.csv", "--add", "n.tables", "--weights", "none"]) == 0
    assert tw.Tables.load("n.tables").number_columns == {}


def test_frames_are_read_with_the_same_columns(folder):
    frame = SURVEY[["vote", "region", "w"]].assign(n=2)
    weighted = tw.Records(frame, columns=["vote", "region"], weights="w", counts="n")
    pmf = tw.fit(weighted, rank=1, smoothing=1)
    assert pmf.report.columns == {"counts": "n", "weights": "w"}
    assert tw.fit_quality(pmf, frame).pairs[0].total == tw.fit_quality(pmf, weighted).pairs[0].total
    assert tw.update(pmf, frame).report.n_records == pytest.approx(2 * pmf.report.n_records)
    one, other = (tw.bootstrap(pmf, source, n=20).standard_error("P(vote)") for source in (frame, weighted))
    np.testing.assert_array_equal(one, other)
    for lacking, why in (
        (frame.drop(columns="w"), "weights in the column 'w'"),
        (frame.drop(columns="n"), "counts in the column 'n'"),
        (frame[["vote", "region"]].to_numpy(), "an array has no other columns"),
    ):
        for ask in (tw.update, tw.fit_quality, tw.bootstrap):
            with pytest.raises(tw.UnknownNameError, match=rf"{why}.* tw\.Records\(source"):
                ask(pmf, lacking)
    plain = tw.Records(frame, schema=pmf.schema)
    assert tw.fit_quality(pmf, plain).pairs[0].total == 180
    several = tw.fit([weighted, weighted], rank=1, smoothing=1)
    assert several.report.columns == pmf.report.columns
    assert tw.fit([weighted, plain], rank=1, smoothing=1).report.columns == {}
    with pytest.raises(tw.DataError, match="no standard error"):
        tw.bootstrap(pmf, frame, n=20).standard_error("mode(vote)")


@pytest.mark.parametrize(
    ("options", "design"),
    [
        (("--units", "town"), {"units": SURVEY["town"]}),
        (
            ("--strata", "region", "--units", "town", "--population", "size"),
            {"strata": SURVEY["region"], "units": SURVEY["town"], "population": SURVEY["size"]},
        ),
        (("--replicate-weights", "repw*"), {"replicates": SURVEY[REPLICATES]}),
    ],
)
def test_tables_by_a_design(folder, capsys, options, design):
    assert fit("--drop", "repw*,town,size") == 0
    capsys.readouterr()
    command = ["table", "m.twoway", "--columns", "region", "--data", "survey.csv"]
    assert run([*command, *options]) == 0
    shown = capsys.readouterr().out
    records = tw.Records(SURVEY, columns=["region", "vote"], weights="w")
    by_design = tw.load("m.twoway").table("vote", "region", records=records, design=tw.Design(**design))
    assert shown == f"{by_design}\n"
    assert "90 % intervals" in shown
    # What a fit with a design remembers is used again, and what is given instead says all of it.
    assert fit("--drop", "repw*,town,size", *options, "--intervals") == 0
    capsys.readouterr()
    assert run(command) == 0
    assert str(by_design["vote"].tests[0]) in capsys.readouterr().out


def test_a_design_of_tables_needs_records(folder, capsys):
    assert fit("--only", "vote,region") == 0
    assert run(["table", "m.twoway", "--units", "town"]) == 3
    assert "the design of a survey needs its records; add --data" in capsys.readouterr().err
    assert run(["table", "m.twoway", "--data", "survey.csv", "-o", "survey.csv", "--force"]) == 4
    assert "it is an input of this command" in capsys.readouterr().err
    assert run(["table", "m.twoway", "--data", "survey.csv", "--units", "twon"]) == 3
    assert "no column 'twon'; did you mean 'town'?" in capsys.readouterr().err
    assert run(["table", "m.twoway", "--columns", "region > vot"]) == 3
    assert "no variable 'vot' in columns; did you mean 'vote'?" in capsys.readouterr().err
