"""A real county from its published sheets to its people, as docs/published-tables.md shows it."""

import os
import shutil
from pathlib import Path

import pandas as pd
import pytest

import twoway as tw
from twoway.cli.app import run

FOLDER = Path(os.environ.get("TWOWAY_DATA", "")) / "crosstabs" / "acs2012_ca_counties"
RULES = ["age in {u15, 15}, emp_status = employed", "age in {u15, 15, 16_17}, edu in {ba_deg, grad_deg}"]
COUNTY = "Sacramento County, California"

pytestmark = pytest.mark.data


@pytest.mark.skipif(not (FOLDER / "edu.csv").exists(), reason="set TWOWAY_DATA to a folder with crosstabs/")
def test_a_county_from_its_sheets_to_its_people(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("california").mkdir()
    for name in ("age_by_sex", "edu", "emp_status", "nativity"):
        shutil.copy(FOLDER / f"{name}.csv", "california")
    rules = [text for rule in RULES for text in ("--impossible", rule)]
    assert run(["tables", "read", "california", "-o", "california.toml"]) == 0
    assert run(["tables", "read", "california", "--layout", "california.toml", "--area", COUNTY, "-o", "s.tables"]) == 0
    assert run(["fit", "s.tables", "-o", "s.twoway", "--exact", "age", *rules]) == 0
    assert run(["population", "s.tables", "-n", "1422348", "-o", "people.parquet", "--exact", "age", *rules]) == 0
    capsys.readouterr()
    report = tw.load("s.twoway").report
    assert max(misfit.total_variation for misfit in report.misfits) < 0.001
    people = pd.read_parquet("people.parquet")
    published = pd.read_csv(FOLDER / "age_by_sex.csv", index_col="county").loc[COUNTY]
    assert ((people["age"] == "u15") & (people["sex"] == "m")).sum() == pytest.approx(published["m_u15"], abs=1)
    assert not (people["age"].isin(["u15", "15"]) & (people["emp_status"] == "employed")).any()
