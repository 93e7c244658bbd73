"""``twoway segments``: text, Excel, Markdown and CSV, names, relations, assignments, and what goes wrong."""

import json

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.cli import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("segments")
    random = np.random.default_rng(0)
    group = random.integers(0, 2, 300)
    chosen = np.where(random.random((300, 5)) < 0.85, group[:, None], 1 - group[:, None])
    frame = pd.DataFrame(np.where(chosen, "=yes", "no"), columns=[f"q{n}" for n in range(5)])
    frame = frame.mask(random.random(frame.shape) < 0.05)
    frame["city"] = np.where(random.random(300) < 0.7, np.where(group, "Oslo", "Rome"), "Bern")
    frame.assign(id=range(300), spent=random.normal(group), w=1.0).to_csv(folder / "people.csv", index=False)
    return folder


QUICK = ("--only", "q*", "--count", "2", "--replicates", "0", "--starts", "4")


def test_everything_at_once(cli, folder):
    pytest.importorskip("xlsxwriter")
    openpyxl = pytest.importorskip("openpyxl")
    code, out, err = cli(
        *("segments", "people.csv", *QUICK, "--names", "loyal,other", "--covariates", "city", "--outcomes", "spent"),
        *("--weights", "w", "-o", "found.xlsx", "--assignments", "assigned.csv", "--model", "found.twoway"),
    )
    assert (code, err) == (0, "")
    assert "loyal" in out
    assert "Wald test of city" in out
    assert "Wald test of spent" in out
    assert "more often q0" in out
    book = openpyxl.load_workbook(folder / "found.xlsx")
    assert book.sheetnames == ["segments", "profiles", "number of segments", "covariates", "tests", "outcomes"]
    sheet = book["profiles"]
    head = [cell.value for cell in sheet[1]]
    assert head[:5] == ["variable", "category", "all", "share: loyal", "share: other"]
    assert [cell.value for cell in sheet[2]][:2] == ["q0", "=yes"]
    assert all(cell.data_type == "n" for cell in sheet[2][2:])
    assert sheet.freeze_panes == "C2"
    assert sheet["C2"].number_format == "0.0%"
    assigned = pd.read_csv(folder / "assigned.csv")
    assert list(assigned.columns)[-2:] == ["segment", "probability"]
    assert len(assigned) == 300
    assert assigned["probability"].between(0.5, 1).all()
    assert set(assigned["segment"]) == {"loyal", "other"}
    assert tw.Segments.load(folder / "found.twoway").names == ("loyal", "other")


def test_items_in_bins_are_related_to_other_columns(cli):
    items = ("--only", "q*,spent", "--bins", "spent=3", "--count", "2", "--replicates", "0", "--starts", "4")
    code, out, err = cli("segments", "people.csv", *items, "--outcomes", "city")
    assert (code, err) == (0, "")
    assert "Wald test of city" in out


def test_names_are_changed_in_a_file_that_was_written(cli, folder):
    assert cli("segments", "people.csv", *QUICK, "--model", "a.twoway")[0] == 0
    code, _, _ = cli("segments", "a.twoway", "--names", "segment 2=late | <b>", "--model", "b.twoway", "-o", "b.md")
    assert code == 0
    assert tw.Segments.load(folder / "b.twoway").names == ("segment 1", "late | <b>")
    text = (folder / "b.md").read_text(encoding="utf-8")
    assert "late \\| \\<b\\>" in text  # no label is markup
    assert "## Profiles" in text
    rows = [line for line in text.splitlines() if line.startswith("| q0")]
    assert len(rows) == 2
    assert rows[0].count("%") == 3
    assert cli("ask", "a.twoway", "P(q0 | q1 = no)")[0] == 0


def test_profiles_as_csv_and_all_as_json(cli, folder):
    code, out, _ = cli("segments", "people.csv", *QUICK, "-o", "profiles.csv", "--json", "--outcomes", "city")
    assert code == 0
    content = json.loads(out)
    assert [row["segment"] for row in content["segments"]] == ["segment 1", "segment 2"]
    assert {row["category"] for row in content["outcomes"]} == {"Bern", "Oslo", "Rome"}
    profiles = pd.read_csv(folder / "profiles.csv")
    assert len(profiles) == 10
    assert profiles.groupby("variable")["share: segment 1"].sum().to_numpy() == pytest.approx(1.0)


def test_value_labels_of_survey_files_are_the_categories_of_outcomes(cli, folder):
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pd.read_csv(folder / "people.csv")
    codes = frame["city"].map({"Bern": 1, "Oslo": 2, "Rome": 3})
    frame = frame[["q0", "q1", "q2"]].fillna("").assign(city=codes.where(frame.index > 3, 9))
    labels = {"city": {1: "in Bern", 2: "in Oslo", 3: "in Rome", 9: "refused"}}
    pyreadstat.write_sav(frame, str(folder / "s.sav"), variable_value_labels=labels, missing_ranges={"city": [9]})
    options = ("--count", "2", "--replicates", "0", "--starts", "4", "--outcomes", "city")
    code, out, _ = cli("segments", "s.sav", *options)
    assert code == 0
    assert "in Oslo" in out
    assert "refused" not in out.partition("Wald")[0].rpartition("city")[2]
    assert "4 people without a value" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--count", "8..2"), 3, "--count 8..2 is empty"),
        (("--count", "many"), 3, "--count must be a number or a range such as 2..8, not 'many'"),
        (("--count", "2", "--covariates", "q1"), 3, "'q1' is in both --covariates and --only"),
        (("--count", "2", "--outcomes", "cty"), 3, "did you mean 'city'"),
        (("--count", "2", "--names", "a,a"), 3, "the name 'a' is taken"),
        (("--count", "2", "-o", "x.pdf"), 4, "segments are written to .xlsx"),
        (("--count", "2", "-o", "people.csv", "--force"), 4, "input of this command"),
        (("--count", "2", "--model", "x.csv"), 3, "it has the name of a data file"),
        (("--count", "2", "--assignments", "x.txtx"), 4, "x.txtx"),
    ],
)
def test_mistakes_are_named(cli, folder, arguments, code, message):
    found = cli("segments", "people.csv", "--only", "q*", "--replicates", "0", "--starts", "2", *arguments)
    assert found[0] == code
    assert message in found[2]


def test_a_model_has_no_people(cli, folder):
    assert run(["segments", str(folder / "people.csv"), *QUICK, "--model", str(folder / "c.twoway")]) == 0
    code, _, err = cli("segments", "c.twoway", "--outcomes", "spent")
    assert code == 3
    assert "need the records" in err
