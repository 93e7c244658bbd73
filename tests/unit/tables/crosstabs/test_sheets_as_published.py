"""Sheets of thirty shapes are read right, cell by cell, or refused with the place; none is read wrong."""

import re
from itertools import product

import published_layouts
import pytest

import twoway as tw
from twoway.errors import DataError
from twoway.tables.crosstabs.grids import read_grids
from twoway.tables.crosstabs.published_files import find_layout
from twoway.tables.crosstabs.sheet_layout import SheetLayout
from twoway.tables.crosstabs.sheet_reading import read_tables


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
    return read_tables(grids, find_layout(path), [])


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
    assert set(tables.pairs) == {("Region", "sex"), ("Region", "age"), ("sex", "age")}
    cells = truth[0].cells
    assert tables.totals[0] == sum(cells.values())
    north = sum(value for (region, sex, _), value in cells.items() if (region, sex) == ("North", "Male"))
    assert tables["Region", "sex"]["North", "Male"] == pytest.approx(north / sum(cells.values()))
