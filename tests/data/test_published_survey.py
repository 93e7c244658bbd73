"""docs/published-tables.md on its survey, for which raw responses and cross-tabs were both published."""

import itertools
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.cli import run

pytestmark = pytest.mark.data

PAGE = Path(__file__).resolve().parents[2] / "docs" / "published-tables.md"
SHEET = "fte_masculinity-survey_masculinity-survey.csv.gz"
RESPONSES = "fte_masculinity-survey_raw-responses.csv.gz"
BANNER = ("Age", "Race", "Children", "Sexual Orientation")

# The raw columns of the questions with one answer, in the order of the sheet.
SINGLE = ["q0001", "q0002", "q0005", *(f"q0007_{n:04d}" for n in range(1, 12)), "q0009", "q0017", "q0018", "q0022"]
SINGLE += ["q0024", "q0026", "q0028", "q0029", "age3"]
# Those with several, by the beginning of the question.
MULTIPLE = {
    "q0004": "Where have you gotten",
    "q0008": "Which of the following do you worry",
    "q0020": "When you want to be",
    "q0021": "Over the past 12 months",
    "q0025": "Do you have any children",
}


def commands(text):
    """Return the arguments of each ``twoway`` line about the survey, quotes as a shell reads them."""
    import shlex

    return [
        shlex.split(line)[1:] for line in re.findall(r"^ *(twoway .*)$", text, re.MULTILINE) if "men.twoway" in line
    ]


@pytest.fixture(scope="module")
def survey(data_folder, tmp_path_factory):
    """The folder in which the page's commands were run, and what each printed."""
    folder = tmp_path_factory.mktemp("published")
    shutil.copy(data_folder / "crosstabs" / SHEET, folder / "masculinity-survey.csv.gz")
    return folder


def read_responses(path, schema):
    """Return the weighted responses, as records of the variables of the sheet."""
    raw = pd.read_csv(path)
    single = [v.name for v in schema if v.categories != ("yes", "no") and v.name not in BANNER]
    columns = {name: raw[column] for name, column in zip(single, SINGLE, strict=True)}
    for column in raw.columns:
        question = MULTIPLE.get(column.split("_")[0])
        if question is None:
            continue
        (answer,) = set(raw[column].dropna()) - {"Not selected"}
        (name,) = [n for n in schema.names if n == answer or n.startswith(f"{answer} [{question}")]
        columns[name] = pd.Series(np.where(raw[column] == "Not selected", "no", "yes"))
    return tw.Records(pd.DataFrame(columns), schema=schema.subset(list(columns)), weights=raw["weight"].to_numpy())


def test_the_page_and_how_far_the_tables_carry(survey, data_folder, capsys, monkeypatch):
    monkeypatch.chdir(survey)
    text = PAGE.read_text(encoding="utf-8")
    printed = []
    for arguments in commands(text):
        assert run(arguments) == 0
        printed.append(capsys.readouterr().out)
    assert "216 tables" in printed[0]
    assert "58 variables" in printed[0]
    shown = [float(number) for number in re.findall(r"^ {3}(?:\d\d .*?  )?(0\.\d{4})\b", text, re.MULTILINE)]
    came_out = [
        float(number)
        for out in printed[2:4]
        for number in re.findall(r"^(?:\d\d .*?  )?(0\.\d{4})\b", out, re.MULTILINE)
    ]
    assert len(shown) == 4
    np.testing.assert_allclose(came_out, shown, atol=0.01)

    pmf = tw.load("men.twoway")
    records = read_responses(data_folder / "crosstabs" / RESPONSES, pmf.schema)
    assert len(records.schema) == 54
    # The totals that the sheet publishes, which the model of rank 1 holds to a thousandth.
    assert (
        run(["fit", "--tables", "masculinity-survey.csv.gz", "--kind", "column", "--rank", "1", "-o", "one.twoway"])
        == 0
    )
    independent = tw.load("one.twoway")
    of_model, of_independence = [], []
    for pair in itertools.combinations(records.schema.names, 2):
        raw = records.marginal(pair).array
        of_model.append(0.5 * np.abs(raw - pmf.marginal(pair).array).sum())
        of_independence.append(0.5 * np.abs(raw - independent.marginal(pair).array).sum())
    assert len(of_model) == 1431
    assert np.mean(of_model) < 0.8 * np.mean(of_independence)
    assert np.mean(np.array(of_model) < of_independence) > 0.7
    told = [float(number) for number in re.findall(r"^\| the .* \| (0\.\d{4}) \|$", text, re.MULTILINE)]
    np.testing.assert_allclose([np.mean(of_independence), np.mean(of_model)], told, atol=0.0005)
    # Even against the product of the raw responses' own margins, which nobody had who had the tables only.
    margins = {name: records.marginal(name).array for name in records.schema.names}
    own = [
        0.5 * np.abs(records.marginal(pair).array - np.outer(margins[pair[0]], margins[pair[1]])).sum()
        for pair in itertools.combinations(records.schema.names, 2)
    ]
    assert np.mean(of_model) < 0.8 * np.mean(own)
