"""Tables in every format: cells are numbers, labels are text whatever they contain, and the command writes them."""

import csv
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.cli import run

RANDOM = np.random.default_rng(8)
ODD = ["=1+1", "a|b", "<b>x</b>", "*bold* & \\ 'q'"]
FRAME = pd.DataFrame(
    {
        "the | vote": RANDOM.choice(ODD, 300),
        "<age>": RANDOM.choice(["18-39", "@SUM(A1)", "60+"], 300),
        "trust": RANDOM.integers(1, 6, 300),
    }
)
FRAME.loc[FRAME["<age>"] == "60+", "trust"] = 5
MODEL = tw.fit(FRAME, rank=2, smoothing=1)
BOOT = tw.bootstrap(MODEL, FRAME, n=20)
TABLES = tw.tabulate(BOOT, columns="<age>", nets={"High": "trust >= 4"})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    BOOT.save("model.twoway")
    return tmp_path


def test_cells_of_a_workbook_are_numbers_below_headers_that_stay(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("xlsxwriter")
    TABLES.save(tmp_path / "tables.xlsx")
    book = openpyxl.load_workbook(tmp_path / "tables.xlsx")
    assert book.sheetnames == ["Tables", "Tests", "Notes"]
    sheet = book["Tables"]
    assert sheet.freeze_panes == "C4"
    assert [cell.value for cell in sheet[2]][2:] == ["Total", "18-39", "60+", "@SUM(A1)"]
    found = {}
    label = None
    for row in sheet.iter_rows(min_row=4):
        label = row[0].value or label
        if row[1].value in ("observed", "modelled", "low", "high"):
            assert all(isinstance(cell.value, int | float) for cell in row[2:])
            assert {cell.number_format for cell in row[2:]} == {"0.00" if label == "Mean" else "0.0%"}
            found[str(label), row[1].value] = [cell.value for cell in row[2:]]
        elif label == "Base":
            assert [cell.number_format for cell in row[2:]] == ["#,##0"] * 4
    for table in TABLES:
        for place, row in enumerate(table.rows):
            for part in ("observed", "modelled", "low", "high"):
                np.testing.assert_allclose(found[str(row.label), part], getattr(table, part)[place])
    assert found.keys() >= {("=1+1", "observed"), ("High", "low"), ("Mean", "high")}
    assert not any(cell.data_type == "f" for own in book for row in own.iter_rows() for cell in row)
    tests = list(book["Tests"].iter_rows(min_row=2, values_only=True))
    assert [row[0] for row in tests] == ["the | vote", "trust"]
    assert all(isinstance(number, int | float) for row in tests for number in row[2:])
    assert "Holm" in book["Notes"]["B1"].value


@pytest.mark.slow
def test_the_workbook_opens_in_libreoffice(tmp_path):
    if (program := shutil.which("soffice")) is None:
        pytest.skip("LibreOffice is not installed")
    pytest.importorskip("xlsxwriter")
    TABLES.save(tmp_path / "tables.xlsx")
    for kind in ("pdf", "csv"):
        command = [program, f"-env:UserInstallation=file://{tmp_path}/profile", "--headless", "--convert-to", kind]
        subprocess.run([*command, "--outdir", tmp_path, tmp_path / "tables.xlsx"], check=True, capture_output=True)
    assert (tmp_path / "tables.pdf").read_bytes().startswith(b"%PDF")
    rows = list(csv.reader((tmp_path / "tables.csv").read_text(encoding="utf-8").splitlines()))
    seen = next(row for row in rows if row[0] == "=1+1" and row[1] == "observed")
    labels = [row.label for row in TABLES["the | vote"].rows]
    expected = 100 * TABLES["the | vote"].observed[labels.index("=1+1"), 0]
    assert float(seen[2].removesuffix("%")) == pytest.approx(expected, abs=0.06)


def test_long_tables_have_a_row_for_each_number(tmp_path):
    frame = TABLES.to_frame()
    table = TABLES["trust"]
    assert len(frame) == sum(own.observed.size for own in TABLES)
    own = frame[frame["question"] == "trust"]
    for part in ("observed", "modelled", "low", "high"):
        np.testing.assert_allclose(own[part], getattr(table, part).ravel())
    assert own["higher_than"].tolist() == table.higher_than.ravel().tolist()
    assert own["records"].tolist() == np.tile(table.records, len(table.rows)).tolist()
    TABLES.save(tmp_path / "tables.csv")
    again = pd.read_csv(tmp_path / "tables.csv", keep_default_na=False)
    assert again["row"].tolist() == frame["row"].tolist()
    assert TABLES.to_frame("polars").shape == frame.shape
    TABLES.save(tmp_path / "tables.parquet")
    assert pd.read_parquet(tmp_path / "tables.parquet")["modelled"].tolist() == frame["modelled"].tolist()


def test_markdown_has_as_many_cells_in_each_line(tmp_path):
    lines = [line for line in TABLES.to_markdown().splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {6}
    assert "| **a\\|b** |" in TABLES.to_markdown()
    assert "\\<b\\>x" in TABLES.to_markdown()


class Cells(HTMLParser):
    """The text of the cells of a page, and the names of its elements."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts = set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_pages_show_labels_as_text():
    for page in (TABLES.to_html(), TABLES._repr_html_()):
        cells = Cells()
        cells.feed(page)
        assert "b" not in cells.tags
        assert "<b>x</b>" in cells.texts
        assert "trust" in cells.texts
    assert f"{100 * TABLES['trust'].observed[0, 0]:.1f}%" in cells.texts


def test_text_shows_letters_intervals_and_tests():
    text = str(TABLES)
    assert re.search(r"^Base +300 ", text, re.MULTILINE)
    assert re.search(r"^High .*% A C$|^High .*% A C ", text, re.MULTILINE)
    assert re.search(r"^  modelled +\d+\.\d% \(\d+\.\d to \d+\.\d\)", text, re.MULTILINE)
    assert re.search(r"^trust × <age>: F \d+\.?\d* on \d\.?\d* and \d+ degrees of freedom, p = ", text, re.MULTILINE)
    assert "90 % intervals" in text
    assert repr(TABLES).count("\n") < 50


def test_weighted_tables_show_both_bases():
    records = tw.Records(FRAME, weights=RANDOM.choice([0.5, 2.0], 300))
    text = str(tw.tabulate(tw.fit(records, rank=1, smoothing=1), "trust"))
    effective = re.search(r"^Effective base +(\d+)$", text, re.MULTILINE)
    assert 150 < int(effective.group(1)) < 300
    bare = str(tw.tabulate(MODEL.with_counts(None), "trust", "<age>"))
    assert "Base" not in bare
    assert "modelled" not in bare


def test_the_command_writes_tables(folder, capsys):
    for name in ("t.xlsx", "t.csv", "t.md", "t.html", "t.txt", "t.json"):
        assert run(["table", "model.twoway", "--columns", "<age>", "--net", "High: trust >= 4", "-o", name]) == 0
        assert (folder / name).stat().st_size > 500
    assert json.loads((folder / "t.json").read_text()) == TABLES.to_dict()
    assert (folder / "t.txt").read_text() == f"{TABLES}\n"
    capsys.readouterr()
    assert run(["table", "model.twoway", "--rows", "trust", "--columns", "<age>", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [column["label"] for column in content["columns"]] == ["Total", "18-39", "60+", "@SUM(A1)"]
    assert content["tables"][0]["records"][0] == 300
    assert run(["table", "model.twoway", "--rows", "tr*"]) == 0
    assert capsys.readouterr().out.startswith("trust\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--columns", "agee"], 3, "no column 'agee'; did you mean '<age>'?"),
        (["--columns", "<age>, <age>"], 3, "duplicate variable '<age>' in --columns"),
        (["--rows", "trust", "--rows", "trust"], 3, "duplicate variable 'trust' in --rows"),
        (["--rows", "trust", "--columns", "trust"], 3, "in both rows and columns"),
        (["--net", "trust >= 4"], 3, "must be a name and a condition"),
        (["--net", "x: trust >= 4", "--net", "x: trust = 1"], 3, "duplicate net 'x'"),
        (["-o", "tables.pdf"], 4, "tables are written to .xlsx"),
        (["-o", "model.twoway"], 4, "it is an input of this command"),
    ],
)
def test_what_is_wrong_with_a_command_is_named(folder, capsys, arguments, code, message):
    assert run(["table", "model.twoway", *arguments]) == code
    assert message in capsys.readouterr().err


def test_a_table_is_drawn_with_its_letters():
    mpl = pytest.importorskip("matplotlib", reason="plots need the extra 'plot'")
    mpl.use("Agg")
    from matplotlib import pyplot

    table = TABLES["trust"]
    ax = tw.plot_table(table)
    texts = [text.get_text() for text in ax.texts]
    shares = 100 * table.observed[:-1]
    letters = table.higher_than[:-1].ravel()
    expected = [f"{share:.0f} {own}".strip() for share, own in zip(shares.ravel(), letters, strict=True)]
    assert texts == expected
    assert any(" A" in text for text in texts)
    assert ax.get_xticklabels()[1].get_text() == f"<age>\n18-39\nA\nn = {table.records[1]:.0f}"
    bare = tw.plot_table(tw.tabulate(MODEL.with_counts(None), "trust")["trust"])
    assert len(bare.texts) == 5
    pyplot.close("all")
    with pytest.raises(tw.DataError, match=r"a table of tw\.tabulate, such as tables\['vote'\], not Tabulation"):
        tw.plot_table(TABLES)
