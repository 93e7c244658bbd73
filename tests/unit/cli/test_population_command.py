"""``twoway population``: models, tables and sheets in, files of persons out, and what goes wrong."""

import json

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.synthesis import persons

SHEET = """age × vote,no,yes
0-14,300,0
15-64,250,350
65+,40,60
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("population")
    (folder / "sheet.csv").write_text(SHEET)
    tables = tw.read_published(folder / "sheet.csv")
    tables.save(folder / "sheet.tables")
    pmf = tw.fit(tables, rank=2)
    pmf.save(folder / "sheet.twoway")
    pmf.save(folder / "plain.twoway", counts=False)
    return folder


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch):
    monkeypatch.setattr(persons, "_FEWEST_DRAWS", 2000)


def written(path):
    frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    return pd.crosstab(frame["age"].astype(str), frame["vote"].astype(str)).to_numpy().tolist()


@pytest.mark.parametrize("given", [["sheet.twoway"], ["plain.twoway", "--tables", "sheet.csv"]])
def test_a_model_becomes_persons(cli, folder, given):
    name = f"{len(given)}.parquet"
    code, out, err = cli("population", *given, "-n", "1000", "-o", name, "--exact", "age,vote", "--exact", "age")
    assert (code, err) == (0, "")
    assert "1,000" in out
    assert "exact" in out
    assert written(folder / name) == [[300, 0], [250, 350], [40, 60]]


@pytest.mark.slow
def test_tables_are_fitted_first(cli, folder, monkeypatch):
    monkeypatch.setattr("twoway.synthesis.population.fit", lambda source, **_: tw.fit(source, rank=2, starts=1))
    for number, given in enumerate((["sheet.tables"], ["--tables", "sheet.csv"])):
        code, out, _ = cli("population", *given, "-n", "100", "-o", f"small{number}.csv", "--json", "--seed", "3")
        assert code == 0
        report = json.loads(out)
        assert (report["n_persons"], report["out"], report["warnings"]) == (100, f"small{number}.csv", [])
        assert report["worst"]["share"] <= 0.01
        np.testing.assert_allclose(written(folder / f"small{number}.csv"), [[30, 0], [25, 35], [4, 6]], atol=1)


def test_published_tables_of_a_file(cli, folder, monkeypatch):
    counts = {("0-14", "no"): 30, ("0-14", "yes"): 0, ("15+", "no"): 30, ("15+", "yes"): 40}
    table = tw.PublishedTable.of(["age", "vote"], counts)
    tw.PublishedTables.of([table], exact=[("age", "vote")]).save(folder / "published.tables")
    pmf = tw.fit({"age": ["0-14", "15+"], "vote": ["no", "yes"]}, rank=1)
    monkeypatch.setattr("twoway.synthesis.population.fit", lambda source, **_: pmf)
    assert cli("population", "published.tables", "-n", "100", "-o", "published.csv")[0] == 0
    assert written(folder / "published.csv") == [[30, 0], [30, 40]]


def test_existing_files_are_kept(cli, folder):
    (folder / "kept.csv").write_text("mine")
    command = ("population", "sheet.twoway", "-n", "10", "-o", "kept.csv")
    assert cli(*command)[0] == 4
    assert (folder / "kept.csv").read_text() == "mine"
    assert cli(*command, "--force")[0] == 0
    assert len((folder / "kept.csv").read_text().splitlines()) == 11


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-n", "10"], 2, "give a MODEL or tables"),
        (["sheet.tables", "--tables", "sheet.csv", "-n", "10"], 2, "give a MODEL or tables"),
        (["plain.twoway", "-n", "10"], 3, "give them with --tables, or use sample"),
        (["sheet.twoway", "-n", "0"], 3, "must be a whole number of at least 1, not 0"),
        (["sheet.twoway", "-n", "100000001"], 3, "at most 100,000,000"),
        (["sheet.twoway", "-n", "10", "--exact", "agee"], 3, "did you mean 'age'"),
        (["sheet.twoway", "-n", "10", "--impossible", "age = 0-14, vote = no"], 3, "contradicts the table age × vote"),
        (["sheet.twoway", "-n", "10", "--impossible", "age = 0-13"], 3, "0-14"),
        (["sheet.twoway", "-n", "10", "--impossible", "age"], 3, "'age' needs a value"),
    ],
)
def test_mistakes(cli, folder, arguments, code, message):
    found, _, err = cli("population", *arguments, "-o", "mistake.csv")
    assert found == code
    assert message in err
    assert not (folder / "mistake.csv").exists()


def test_rules_on_the_command_line(cli, folder):
    rules = ("--impossible", "age = 0-14, vote = yes")
    assert cli("population", "sheet.twoway", "-n", "500", "-o", "ruled.csv", *rules)[0] == 0
    assert written(folder / "ruled.csv")[0] == [150, 0]
