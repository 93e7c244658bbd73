"""Published tables: a folder of cross-tabs, a list of cells, or a banner sheet."""

import gzip

import numpy as np
import pytest

import twoway as tw
from twoway.errors import DataError, FileFormatError, MissingFileError
from twoway.tables.crosstabs.published_files import read_published

BANNER = """AMONG ADULTS,,Everybody,Age,,Region,,
,,,18-39,40+,north,south,west
Do you trust them?,,,,,,,
,Yes,40%,30%,45%,41%,38%,40%
,No,60%,70%,55%,59%,62%,60%
"What do you read? (All that apply)",,,,,,,
,Papers,70%,50%,80%,75%,65%,66%
,Books,55%,65%,50%,51%,60%,57%
,Other,5%,6%,4%,5%,6%,3%
What do you watch?,,,,,,,
,Films,90%,91%,89%,93%,88%,85%
,Other,15%,16%,14%,15%,16%,13%
AMONG THE EMPLOYED: Do you like it?,,,,,,,
,Yes,40%,,45%,41%,38%,40%
,No,60%,,55%,59%,62%,60%
"""


def test_a_folder_of_cross_tabs(tmp_path):
    (tmp_path / "one.csv").write_text("age × vote,no,yes\nyoung,30,70\nold,65,35\n")
    (tmp_path / "age_x_trust.csv").write_text(",low,high\nyoung,120,680\nold,700,500\n")
    (tmp_path / "vote by trust.tsv").write_text("\tlow\thigh\nno\t430\t500\nyes\t390\t680\n")
    (tmp_path / "notes.md").write_text("not a table")
    tables = read_published(tmp_path)
    assert tables.pairs == (("age", "trust"), ("age", "vote"), ("trust", "vote"))
    assert tables["vote", "age"]["no", "old"] == pytest.approx(65 / 200)
    assert tables["vote", "trust"]["yes", "high"] == pytest.approx(0.34)


@pytest.mark.parametrize("corner", ["age × vote", "age \\ vote", "age / vote", "age x vote", "age by vote", "age|vote"])
def test_corners(tmp_path, corner):
    (tmp_path / "t.csv").write_text(f"{corner},no,yes\nyoung,3,7\nold,6,3\n")
    assert read_published(tmp_path / "t.csv").pairs == (("age", "vote"),)


@pytest.mark.parametrize("name", ["age × vote", "age_x_vote", "age by vote", "age--vote", "age__vote", "age_by_vote"])
def test_file_names(tmp_path, name):
    (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress(b",no,yes\nyoung,3,7\nold,6,3\n"))
    assert read_published(tmp_path).pairs == (("age", "vote"),)


def test_labels_of_two_lines(tmp_path):
    (tmp_path / "t.csv").write_text('age × vote,no,"yes,\nsurely"\nyoung,3,7\nold,6,3\n')
    assert read_published(tmp_path).schema["vote"].categories == ("no", "yes,\nsurely")


def test_a_list_of_cells_is_what_tables_write(tmp_path):
    tables = tw.count({"a": ["x", "y", "y"], "b": [1, 2, 2], "c": ["u", "u", "v"]})
    tables.to_frame().to_csv(tmp_path / "cells.csv", index=False)
    assert read_published(tmp_path / "cells.csv") == tables
    weighted = tw.count(tw.Records({"a": ["x", "y", "y"], "b": [1, 2, 2], "w": [1.0, 2.0, 1.0]}, weights="w"))
    weighted.to_frame().to_csv(tmp_path / "cells.csv", index=False)
    np.testing.assert_allclose(read_published(tmp_path / "cells.csv").weights, weighted.weights)


def test_a_list_of_cells_beside_a_table_of_three_variables(tmp_path):
    tables = tw.count({"age": ["young", "old", "old"], "pet": ["cat", "cat", "dog"]})
    tables.to_frame().to_csv(tmp_path / "cells.csv", index=False)
    lines = ["age,sex,vote,n", *(f"{a},{s},{v},5" for a in ("young", "old") for s in "mf" for v in ("no", "yes"))]
    (tmp_path / "votes.csv").write_text("\n".join(lines) + "\n")
    published = read_published(tmp_path)
    assert [table.variables for table in published.tables] == [("age", "sex", "vote"), ("age", "pet")]
    assert published.schema["age"].categories == ("young", "old")
    assert published.totals.tolist() == [40, 3]


def test_a_banner_sheet(tmp_path):
    path = tmp_path / "sheet.csv"
    path.write_text(BANNER)
    tables = read_published(path, kind="column", totals=1000)
    assert tables.notes[0] == "'AMONG THE EMPLOYED: Do you like it?' has empty cells in sheet.csv, row 14; left out"
    assert set(tables.schema.names) == {
        "Do you trust them?",
        "Age",
        "Region",
        "Papers",
        "Books",
        "Other [What do you read? (All that apply)]",
        "Films",
        "Other [What do you watch?]",
    }
    assert len(tables) == 12
    assert tables.schema["Papers"].categories == ("yes", "no")
    # The totals say how many are of each age, though the sheet does not.
    assert tables.marginal("Age")["18-39"] == pytest.approx(1 / 3, abs=0.01)
    given_age = tables["Age", "Books"]
    np.testing.assert_allclose(given_age[{"Age": "18-39"}].array / tables.marginal("Age")["18-39"], [0.65, 0.35])
    np.testing.assert_allclose(tables.marginal("Do you trust them?").array, [0.4, 0.6], atol=0.01)


@pytest.mark.parametrize(
    ("name", "text", "error", "match"),
    [
        ("t.csv", ",no,yes\nyoung,3,7\n", DataError, "row 2: the variable of 'young' has no name"),
        ("t.csv", "", DataError, "holds no table"),
        ("t.pdf", "x", FileFormatError, "must end in .csv"),
        ("t.xlsx", "x", FileFormatError, "is damaged"),
        ("t.csv", ",,Total,A\n,,,x\nq,1,2,3\n,yes,1,2\n", DataError, "row 4: it has numbers but no label"),
        ("t.csv", "us,,,\n,,x,y\nq,,,\n,yes,1,2\n", DataError, "row 2, column C: the variable of 'x', 'y'"),
        ("t.csv", ",,Total\n,,\nq,,\n,yes,1\n", DataError, "one variable only: 'q'"),
    ],
)
def test_files_without_a_valid_table(tmp_path, name, text, error, match):
    (tmp_path / name).write_text(text)
    with pytest.raises(error, match=match):
        read_published(tmp_path / name)


def test_no_tables_to_read(tmp_path):
    with pytest.raises(DataError, match="has no tables"):
        read_published(tmp_path)
    with pytest.raises(MissingFileError):
        read_published(tmp_path / "nix")


@pytest.mark.parametrize("labels", ["0,1,2+", "0,1-2,3+", "0,1,2"])
def test_a_first_line_of_small_numbers_names_the_columns(tmp_path, labels):
    path = tmp_path / "sex_x_cars.csv"
    path.write_text(f"sex × cars,{labels}\nfemale,553,912,500\nmale,611,923,501\n", encoding="utf-8")
    tables = tw.read_published(path)
    assert [str(label) for label in tables.schema["cars"].categories] == labels.split(",")
    np.testing.assert_array_equal(tables.flat, [553, 912, 500, 611, 923, 501])


def test_bounds_of_those_who_did_not_choose_an_answer(tmp_path):
    lines = [",Male,Female", "Vote,,", "Yes,40%,60%", "No,60%,40%", "News,,", "Radio,<1%,50%", "Papers,30%,70%"]
    (tmp_path / "a.csv").write_text("\n".join([*lines, "Base,100,100\n"]))
    _, radio, _ = read_published(tmp_path / "a.csv").tables
    assert radio.low.tolist() == [[0, 50], [99, 50]]
    assert radio.high.tolist() == [[1, 50], [100, 50]]


def test_the_total_of_shares_with_bounds(tmp_path):
    (tmp_path / "age_x_vote.csv").write_text(",no,yes,never\nyoung,30%,68%,<2%\nold,64%,35%,1%\n")
    (table,) = read_published(tmp_path / "age_x_vote.csv", totals=500).tables
    assert table.weight == pytest.approx(500)
    assert table.notes == ()
