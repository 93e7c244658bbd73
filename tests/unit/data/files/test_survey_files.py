"""Files of SPSS, Stata and SAS and sheets: what is read, and what is said about files that cannot be."""

import datetime
import sys
import zipfile

import pandas as pd
import pytest

import twoway as tw
from twoway.data.files import survey_files

pyreadstat = pytest.importorskip("pyreadstat")
openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("python_calamine")

FRAME = pd.DataFrame({"n": [1.0, 2.5, None, 2.5], "word": ["a", "", "b", "a"], "day": [datetime.date(2020, 1, 2)] * 4})


def book_of(**sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    return book


@pytest.mark.parametrize(("name", "write"), [("a.sav", "sav"), ("a.zsav", "sav"), ("a.por", "por"), ("a.dta", "dta")])
def test_cells_of_a_survey_file_are_those_that_were_written(tmp_path, monkeypatch, name, write):
    path = tmp_path / name
    getattr(pyreadstat, f"write_{write}")(FRAME, str(path), **({"compress": True} if name == "a.zsav" else {}))
    whole = tw.Records(str(path))
    assert [variable.categories for variable in whole.schema] == [(1, 2.5), ("a", "b"), ("2020-01-02",)]
    assert whole.codes().tolist() == [[0, 0, 0], [1, -1, 0], [-1, 1, 0], [1, 0, 0]]
    monkeypatch.setattr(survey_files, "_SLICE_CELLS", 6)  # slices of two rows
    streamed = tw.FileRecords(path)
    assert streamed.schema == whole.schema
    assert streamed.n_records == 4
    assert tw.Tables.count(streamed).flat.tolist() == tw.Tables.count(whole).flat.tolist()


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "a.sav"
    pyreadstat.write_sav(FRAME, str(path))
    content = path.read_bytes()
    for damaged in (content[:-20], content[:100], b"", b"no such thing" * 100):
        path.write_bytes(damaged)
        with pytest.raises(tw.FileFormatError, match=r"a\.sav' is damaged"):
            tw.Records(str(path))


def test_sheets_are_chosen_or_listed(tmp_path):
    path = str(tmp_path / "a.xlsx")
    rows = [["A title"], [], ["id", "vote", "day"], [1, "yes", datetime.date(2020, 1, 2)], [2, None, None], []]
    book_of(Answers=rows, Codes=[["code"], [7]], Empty=[]).save(path)
    with pytest.raises(tw.DataError, match=r"has the sheets 'Answers', 'Codes'; name one, as in .*a\.xlsx#Answers"):
        tw.Records(path)
    with pytest.raises(tw.UnknownNameError, match=r"no sheet 'answers' in .* did you mean 'Answers'"):
        tw.Records(f"{path}#answers")
    with pytest.raises(tw.DataError, match=r"B1 has no name; the names may be in row 3: .*a\.xlsx#Answers:3"):
        tw.Records(f"{path}#Answers")
    with pytest.raises(tw.DataError, match="no header in row 9"):
        tw.Records(f"{path}#Answers:9")
    records = tw.Records(f"{path}#Answers:3")
    assert [variable.categories for variable in records.schema] == [(1, 2), ("yes",), ("2020-01-02",)]
    assert tw.Records(f"{path}#Codes").n_records == tw.FileRecords(f"{path}#Codes").n_records == 1


def test_a_sheet_with_merged_names_says_which(tmp_path):
    path = str(tmp_path / "a.xlsx")
    book = book_of(Data=[["id", "media", None], [None, "tv", "radio"], [1, "yes", "no"]])
    book["Data"].merge_cells("B1:C1")
    book.save(path)
    with pytest.raises(tw.DataError, match=r"sheet 'Data': row 1 .*C1 is merged with B1"):
        tw.Records(path)


def test_cells_of_several_kinds_are_text_as_the_sheet_shows_it(tmp_path):
    path = str(tmp_path / "a.xlsx")
    book_of(Data=[["x", "n"], [1, 1], ["two", 2.5], [0.1, None]]).save(path)
    records = tw.Records(path)
    assert records.schema["x"].categories == ("0.1", "1", "two")
    assert records.schema["n"].categories == (1, 2.5)


def test_labels_of_stata_are_categories_without_an_order(tmp_path):
    path = str(tmp_path / "a.dta")
    pyreadstat.write_dta(FRAME[["n"]].round(), path, variable_value_labels={"n": {1: "no", 2: "yes"}})
    variable = tw.Records(path).schema["n"]
    assert (variable.categories, variable.ordered) == (("no", "yes"), False)


def test_an_opendocument_sheet(tmp_path):
    office, names = "urn:oasis:names:tc:opendocument:xmlns", ("office", "table", "text")
    rows = [["age", "vote"], [30, "yes"], [40, "no"]]
    cell = '<table:table-cell office:value-type="{}"{}><text:p>{}</text:p></table:table-cell>'
    kinds = {int: ("float", ' office:value="{}"'), str: ("string", "")}
    cells = [[cell.format(kinds[type(c)][0], kinds[type(c)][1].format(c), c) for c in row] for row in rows]
    body = "".join(f"<table:table-row>{''.join(row)}</table:table-row>" for row in cells)
    spaces = " ".join(f'xmlns:{name}="{office}:{name}:1.0"' for name in names)
    with zipfile.ZipFile(tmp_path / "a.ods", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
        archive.writestr(
            "content.xml",
            f'<office:document-content {spaces}><office:body><office:spreadsheet><table:table table:name="Data">{body}'
            "</table:table></office:spreadsheet></office:body></office:document-content>",
        )
    records = tw.Records(tmp_path / "a.ods")
    assert [variable.categories for variable in records.schema] == [(30, 40), ("no", "yes")]


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    for name, package in (("a.sav", "pyreadstat"), ("a.xlsx", "python_calamine")):
        (tmp_path / name).write_bytes(b"x")
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(tw.DataError, match=r'pip install "twoway\[survey\]"'):
            tw.Records(str(tmp_path / name))


def test_survey_files_are_not_written():
    from twoway.data.files.writing import written_format

    with pytest.raises(tw.FileFormatError, match=r"ends in '\.por'; records are written to \.csv"):
        written_format("a.por")
