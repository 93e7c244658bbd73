"""Sheets of thirty shapes are read right, cell by cell, or refused with the place; none is read wrong."""

import csv
import gzip
import re
from itertools import product

import numpy as np
import published_layouts
import pytest

import twoway as tw
from twoway.cli import run
from twoway.errors import DataError
from twoway.tables.crosstabs.grids import read_grids
from twoway.tables.crosstabs.layout_finding import find_layout
from twoway.tables.crosstabs.sheet_layout import SheetLayout
from twoway.tables.crosstabs.sheet_reading import read_sheet_tables


def cells_of(table, variables):
    """Return the cells of a table by their labels, in the order of some variables."""
    order = [table.variables.index(name) for name in variables]
    labels = (tuple(path[axis] for axis in order) for path in product(*table.categories))
    return dict(zip(labels, table.values.ravel().tolist(), strict=True))


def verdict(tables, truth):
    """Return whether tables are those of the truth: variables, kinds, areas, labels and every number."""
    found = {(table.area or None, frozenset(table.variables)): table for table in tables}
    if truth is None or len(found) != len(tables) or len(found) != len(truth):
        return "wrong"
    for true in truth:
        table = found.get((true.area, frozenset(true.variables)))
        if table is None or table.kind != true.kind or cells_of(table, true.variables) != true.cells:
            return "wrong"
    return "right"


def read(path):
    grids = read_grids(str(path))
    return read_sheet_tables(grids, find_layout(path), [])


def score(make, folder):
    path, truth = make(folder)
    try:
        return verdict(read(path), truth), ""
    except DataError as error:
        return "refused", str(error)


def test_thirty_layouts(tmp_path, capsys):
    verdicts = {make.__name__: score(make, tmp_path) for make in published_layouts.LAYOUTS}
    counts = {name: [own for own, _ in verdicts.values()].count(name) for name in ("right", "refused", "wrong")}
    with capsys.disabled():
        print(f"\n{len(verdicts)} layouts: {counts}")
    assert len(verdicts) == 30
    assert [name for name, (own, _) in verdicts.items() if own == "wrong"] == []
    assert counts["right"] >= 28
    for own, message in verdicts.values():
        # A refusal says where and what to declare.
        assert own != "refused" or re.search(r"row \d+.*(kind = |layout)", message)


def test_the_score_can_fail(tmp_path):
    path, truth = published_layouts.plain_counts(tmp_path)
    assert verdict(read(path), truth) == "right"
    wrong = [truth[0]._replace(cells=truth[0].cells | {("18-34", "Yes"): 1.0})]
    assert verdict(read(path), wrong) == "wrong"
    assert verdict(read(path), [truth[0]._replace(kind="row")]) == "wrong"
    assert verdict(read(path), None) == "wrong"


@pytest.mark.parametrize("make", published_layouts.LAYOUTS[:28], ids=lambda make: make.__name__)
def test_a_layout_survives_its_file(tmp_path, make):
    path, _ = make(tmp_path)
    layout = find_layout(path)
    layout.save(tmp_path / "layout.toml")
    assert SheetLayout.load(tmp_path / "layout.toml") == layout


def test_pairs_of_a_sheet_can_be_fitted(tmp_path):
    path, truth = published_layouts.nested_header(tmp_path)
    tables = tw.read_published(path)
    assert set(tables.pairs().names) == {("Region", "sex"), ("Region", "age"), ("sex", "age")}
    cells = truth[0].cells
    assert tables.totals[0] == sum(cells.values())
    north = sum(value for (region, sex, _), value in cells.items() if (region, sex) == ("North", "Male"))
    assert tables.pairs()["Region", "sex"]["North", "Male"] == pytest.approx(north / sum(cells.values()))


def write(folder, text, name="t.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "match"),
    [
        # sums
        (
            "age × sex,m,f,Total\nyoung,50,60,125\nold,70,90,160\n",
            "row 2, column D, table .*: 125 .* add up to 110",
        ),
        (
            "age × sex,m,f\nyoung,50,60\nold,70,90\nTotal,120,170\n",
            "row 4, column C, table .*: 170 .* add up to 150",
        ),
        ("age × sex,m,f\nyoung,50%,60%\nold,40%,30%\n", "row 2: the percentages add up to 100 neither in rows"),
        ("vote × sex,m,f\nyes,105%,60%\nno,70%,40%\n", "row 2, column B: '105%' is over 100"),
        ("vote × sex,m,f\ngood,25%,32%\nbad,35%,28%\nugly,40%,40%\nTotal bad,75%,68%\n", "shown as 75, not 100"),
        ("age × sex,m,f\n0-4,15,6\n5-9,7,9\nUnder 10,22,15\n10+,4,5\n", "row 4: 'Under 10' is the sum '0-4' \\+ '5-9'"),
        ("sex × age,young,old\nm,10,20\nf,30,40\nPersons,40,60\n", "row 4: 'Persons' is the sum 'm' \\+ 'f'"),
        # bases
        ("vote × sex,m,f\nyes,45%,52%\nno,55%,48%\nInterviews,423,512\n", "row 4: it has no percent signs"),
        ("vote × sex,m,f\nyes,45,52\nno,55,48\nInterviews,423,512\n", "row 4: the other numbers add up to 100"),
        ("age × sex,m,f\nBase,400,500\n", "row 2: there are no rows or columns of categories"),
        # signs, labels and numbers
        ("age × sex,m,f\nyoung,5,*\nold,7,9\n", r"row 2, column C: '\*' is not a number; say in a layout"),
        ("age × sex,m,f\nyoung,5,6\n,7,9\n", "row 3: it has numbers but no label"),
        ("age × sex,m,f\nyoung,5,6\nyoung,7,9\n", "row 3: duplicate label 'young'"),
        ("age × sex,m,f\nyoung,5,\nold,7,9\n", "row 2, column C: the cell is empty"),
        ("age × sex;m;f\nyoung;1.234;3.456\nold;5.678;1.111\n", "row 2, column B: '1.234' may be 1234"),
        # two ways to read
        (",Has dog,,Has cat,\nage,Yes,No,Yes,No\nyoung,30%,71%,20%,80%\nold,70%,29%,80%,20%\n", "column D: 'Has dog'"),
        (
            "age,m,f,,region,m,f\n0-9,5,6,,North,5,8\n10+,7,9,,South,6,7\n",
            "column E: 'North' is a label beside",
        ),
        ("Vote by sex (row percent)\nvote,m,f\nyes,45%,52%\nno,55%,48%\n", "title says row .* add up as column"),
    ],
)
def test_what_is_wrong_or_open_is_named_with_its_place(tmp_path, text, match):
    with pytest.raises(DataError, match=f"t.csv', .*{match}"):
        tw.read_published(write(tmp_path, text))


def test_errors_name_the_sheet(tmp_path):
    rows = [["Age by sex"], ["Age", "m", "f", "Total"], ["young", 50, 60, 125], ["old", 70, 90, 160]]
    path = published_layouts.write_book(tmp_path, "b.xlsx", {"Cover": ([["Tables"]], []), "T1": (rows, [])})
    with pytest.raises(DataError, match="sheet 'T1', row 3, column D, table Age × sex: 125"):
        tw.read_published(path)


@pytest.mark.parametrize(
    ("second", "match"),
    [
        (
            "18–34,20,20\n35+,30,40\n",
            "row 2, column B: the label '18–34' of 'age' is nearly '18-34', in .*one.csv",
        ),
        ("18-34,0,0\n35+,50,60\n", "row 2, column B: 0 people have 'age' '18-34'.*but 50 .* the same 110 people"),
    ],
)
def test_tables_that_contradict_each_other(tmp_path, second, match):
    write(tmp_path, "age × sex,m,f\n18-34,20,30\n35+,31,29\n", "one.csv")
    write(tmp_path, f"age × vote,yes,no\n{second}", "two.csv")
    with pytest.raises(DataError, match=f"two.csv', {match}"):
        tw.read_published(tmp_path)


def test_a_base_is_never_a_cell(tmp_path):
    text = "vote × sex,m,f\nBase: all adults,423,512\nyes,45%,52%\nno,55%,48%\n(n),423,512\n"
    tables = tw.read_published(write(tmp_path, text.replace("(n),423,512\n", "")))
    assert tables.schema["vote"].categories == ("yes", "no")
    assert tables.totals[0] == pytest.approx(935)
    assert tables["vote", "sex"]["yes", "m"] == pytest.approx(0.45 * 423 / 935)


def test_a_layout_says_what_a_sheet_leaves_open(tmp_path):
    path = write(tmp_path, "vote × sex,m,f\nyes,45,*\nno,55,48\nInterviews,423,512\n")
    content = {
        "symbols": {"*": "<5"},
        "table": [
            {
                "kind": "counts",
                "skip_rows": 4,
                "rows": [{"variables": "vote", "rows": "2-3", "labels": "A"}],
                "columns": [{"variables": ["sex"], "columns": "B-C", "categories": ["men", "women"]}],
            }
        ],
    }
    tables = tw.read_published(path, layout=SheetLayout.of_dict(content))
    assert tables.schema["sex"].categories == ("men", "women")
    assert tables.tables[0].low.tolist() == [[45, 0], [55, 48]]
    assert tables.tables[0].high.tolist() == [[45, 4], [55, 48]]
    assert "shown as a bound, such as '*'" in tables.notes[0]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"kind": "rows"}, "no kind of table 'rows'"),
        ({"skip_rows": 2}, "the row 2 is declared twice"),
        (
            {"rows": [{"variables": ["vote"], "rows": "2-3", "categories": ["yes"]}]},
            "2 rows .* 1 categories",
        ),
        ({"columns": [{"variables": ["sex"], "columns": "2-3", "labels": "1"}]}, "columns must be like 'B-D, F'"),
        ({"shape": 3}, "no setting 'shape'"),
        ({"total": -3}, "total must be a positive number"),
        ({"total": float("inf")}, "total must be a positive number, not inf"),
        ({"rows": 3}, "table 1: rows must be a list; got 3"),
        ({"rows": [3]}, "rows 1: rows must be tables of settings; got 3"),
        ({"columns": [{"variables": ["sex"], "columns": "B-C", "categories": 7}]}, "categories must be a list; got 7"),
    ],
)
def test_layouts_that_are_wrong(change, match):
    rows = [{"variables": ["vote"], "rows": "2-3", "labels": "A"}]
    table = {"kind": "counts", "rows": rows, "columns": [{"variables": ["sex"], "columns": "B-C", "labels": "1"}]}
    assert len(SheetLayout.of_dict({"table": [table]}).blocks) == 1
    with pytest.raises((DataError, tw.UnknownNameError), match=match):
        SheetLayout.of_dict({"table": [table | change]})


@pytest.mark.parametrize("setting", ["symbols", "groups", "impossible", "exact"])
def test_settings_of_a_layout_that_are_single_values_are_refused(setting):
    rows = [{"variables": "vote", "rows": "2-3", "labels": "A"}]
    table = {"kind": "counts", "rows": rows, "columns": [{"variables": "sex", "columns": "B-C", "labels": "1"}]}
    with pytest.raises(DataError, match=f"{setting} must be .*; got 3"):
        SheetLayout.of_dict({"table": [table], setting: 3})


def test_many_areas(tmp_path):
    path, truth = published_layouts.wide_by_area(tmp_path)
    by_area = tw.read_published_areas(path)
    assert list(by_area) == [true.area for true in truth]
    for true in truth:
        tables = by_area[true.area]
        assert tables.totals.tolist() == [sum(true.cells.values())]
        (alone,) = tw.read_published(path, area=true.area).tables
        np.testing.assert_array_equal(alone.counts, tables.tables[0].counts)
        assert list(tw.read_published_areas(path, area=true.area)) == [true.area]
    with pytest.raises(DataError, match="tables of 4 areas"):
        tw.read_published(path)
    with pytest.raises(tw.UnknownNameError, match="did you mean 'Alder County, Ohio'"):
        tw.read_published(path, area="Alder County, Oho")


def test_a_draft_needs_names_only(tmp_path, capsys):
    path, out = write(tmp_path, ",A,B,C\nP,1,20,3\nQ,4,5,6\n"), tmp_path / "t.toml"
    assert run(["tables", "read", str(path), "-o", str(out)]) == 3
    assert "lacks only these names" in capsys.readouterr().err
    with pytest.raises(DataError, match=r"'[?]P / Q' still needs a name"):
        tw.read_published(path, layout=out)
    out.write_text(out.read_text().replace("?P / Q", "side").replace("?A / B / C", "letter"))
    assert run(["tables", "read", str(path), "--layout", str(out)]) == 0
    assert "side × letter" in capsys.readouterr().out
    assert tw.read_published(path, layout=out).pairs == (("side", "letter"),)


def test_long_lists_are_not_searched_for_sums(tmp_path):
    lines = "".join(f"p{i},{i + 1},{2 * i + 3}\n" for i in range(2500))
    tables = tw.read_published(write(tmp_path, f"place × sex,m,f\n{lines}"))
    assert len(tables.schema["place"]) == 2500


@pytest.mark.data
def test_the_two_real_sheets(data_folder):
    folder = data_folder / "crosstabs"
    with open(folder / "acs2012_ca_counties" / "edu.csv", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    tables = {table.area: table for table in read(folder / "acs2012_ca_counties" / "edu.csv")}
    assert len(tables) == len(rows) == 57
    for row in rows:
        table = tables[row[0]]
        assert table.variables == ("sex", "age", "edu")
        assert {"_".join(labels): value for labels, value in cells_of(table, table.variables).items()} == {
            name: float(number) for name, number in zip(header[4:], row[4:], strict=True)
        }
    with gzip.open(folder / "fte_masculinity-survey_masculinity-survey.csv.gz", "rt", encoding="utf-8") as file:
        grid = list(csv.reader(file))
    found = read(folder / "fte_masculinity-survey_masculinity-survey.csv.gz")
    assert len(found) == 216
    for table in found:
        shown = [float(grid[r][c].rstrip("%")) for r, c in zip(table.rows[0], table.columns[0], strict=True)]
        assert table.values[0].tolist() == shown
        assert [grid[1][c] for c in table.columns[0]] == list(table.categories[1])


def test_counts_that_are_multiples_of_ten_are_known_to_within_five(tmp_path):
    lines = ["age,yes,no", "young,40,0", "middle,30,70", "old,10,20", "oldest,50,10"]
    (tmp_path / "age_x_vote.csv").write_text("\n".join(lines) + "\n")
    published = tw.read_published(tmp_path / "age_x_vote.csv")
    (table,) = published.tables
    assert table.rounded_to == 10
    assert (table.low[0].tolist(), table.high[0].tolist()) == ([35, 0], [45, 5])
    assert any("multiples of 10" in note for note in published.notes)
    shares = published.subject_to(exact=[["age"]]).margin_of("age")[1]
    assert shares.tolist() == pytest.approx([40 / 230, 100 / 230, 30 / 230, 60 / 230])


def test_rounding_that_chance_outweighs_is_let_be(tmp_path):
    lines = ["age,yes,no", "young,4000,2200", "middle,3300,7100", "old,1000,2000"]
    (tmp_path / "age_x_vote.csv").write_text("\n".join(lines) + "\n")
    assert isinstance(tw.read_published(tmp_path / "age_x_vote.csv"), tw.PublishedTables)
    lines = ["age,yes,no", "young,4010,2200", "middle,3300,7100", "old,1000,2000"]
    (tmp_path / "age_x_vote.csv").write_text("\n".join(lines) + "\n")
    assert isinstance(tw.read_published(tmp_path / "age_x_vote.csv"), tw.Tables)


def test_rounded_counts_may_miss_their_rounded_total(tmp_path):
    lines = ["region × sex,m,f,Total", "North,100,90,200", "South,300,310,610", "Total,400,410,810"]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tables = tw.read_published(tmp_path / "a.csv")
    assert tables.array(0).tolist() == [[100, 90], [300, 310]]


def test_n_among_points_of_the_compass_is_a_category():
    table = tw.PublishedTable.of(["region", "sex"], {(region, sex): 100 for region in "nsew" for sex in "mf"})
    assert table.counts.shape == (4, 2)
    assert tw.PublishedTable.of("a", {"x": "30%", "z": "70%", "n": 500}, kind="shares").counts.tolist() == [150, 350]


def test_a_range_that_is_spelt_in_two_ways_is_refused(tmp_path):
    (tmp_path / "one.csv").write_text("age × sex,m,f\n0-64,21,33\n65+,12,14\n", encoding="utf-8")
    (tmp_path / "two.csv").write_text("age × vote,yes,no\n0-64,21,33\n65 +,12,14\n", encoding="utf-8")
    with pytest.raises(
        tw.DataError, match=r"two.csv', row 3, column B: the label '65 \+' of 'age' is nearly '65\+', in .*one"
    ):
        tw.read_published(tmp_path)
