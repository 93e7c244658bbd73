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
    return float(tw.load("m.twoway").standard_error(lambda pmf: pmf.prob({"vote": "yes"})))


def test_strata_units_and_population(folder):
    assert fit("--strata", "region", "--units", "town", "--population", "size", "--intervals", "--drop", "repw*") == 0
    loaded = tw.load("m.twoway")
    assert loaded.schema.names == ("region", "vote")
    records = tw.Records(SURVEY, columns=["region", "vote"], weights="w")
    design = tw.Design(strata=SURVEY["region"], units=SURVEY["town"], population=SURVEY["size"])
    other = tw.bootstrap(loaded.pmf, records, design=design)
    assert error_of_yes() == pytest.approx(float(other.standard_error(lambda pmf: pmf.prob({"vote": "yes"}))), rel=1e-6)


def test_replicate_weights(folder):
    options = ("--replicate-weights", "repw*", "--replicate-kind", "jackknife", "--only", "vote", "--intervals")
    assert fit(*options) == 0
    jackknife = error_of_yes()
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
    ],
)
def test_mistakes(folder, capsys, options, said):
    assert fit(*options) == 3
    assert said in capsys.readouterr().err
