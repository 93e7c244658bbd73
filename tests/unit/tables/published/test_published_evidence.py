"""Published tables of any kind: read, checked, and kept in files."""

import math

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.errors import UnknownNameError
from twoway.storage import container
from twoway.tables.published.packing import packed_tables
from twoway.tables.published.rules import possible_boxes

AGES = ["0-14", "15-64", "65+"]
BY_SEX = {("0-14", "m"): 100, ("0-14", "f"): 90, ("15-64", "m"): 300, ("15-64", "f"): 310, ("65+", "m"): 80}
BY_SEX[("65+", "f")] = 110
WORKS = {("15+", "yes"): 520, ("15+", "no"): 280}
GROUPS = {"age": {"15+": ["15-64", "65+"]}}
OVERLAPPING = {"age": {"15+": ["15-64", "65+"], "0-64": ["0-14", "15-64"]}}
Table = tw.PublishedTable


def published(**options):
    tables = [Table.of(["age", "sex"], BY_SEX), Table.of(["age", "works"], WORKS, within={"age": "15+"})]
    return tw.PublishedTables.of(tables, groups=GROUPS, **options)


def series():
    return pd.Series(BY_SEX).rename_axis(["age", "sex"])


@pytest.mark.parametrize(
    "numbers",
    [
        BY_SEX,
        series(),
        series().swaplevel(),
        series().rename("n").reset_index(),
        series().unstack().loc[AGES, ["m", "f"]],
        {**BY_SEX, ("0-14", "Total"): 190, ("Total", "m"): 480, ("Total", "Total"): "990"},
        {key: f"{value:,}" for key, value in BY_SEX.items()},
    ],
)
def test_a_table_is_read_from_any_form(numbers):
    table = Table.of(["age", "sex"], numbers)
    labels = dict(zip(table.categories[0], table.counts.tolist(), strict=True))
    order = [table.categories[1].index(sex) for sex in ("m", "f")]
    assert {age: [row[place] for place in order] for age, row in labels.items()} == {
        age: [BY_SEX[age, "m"], BY_SEX[age, "f"]] for age in AGES
    }
    assert table.is_known
    assert table.weight == 990


def test_bounds_and_suppressed_cells():
    table = Table.of("age", {"a": "<5", "b": None, "c": 7, "d": "*"}, symbols={"*": "<3"})
    assert table.low.tolist() == [0, 0, 7, 0]
    assert table.high.tolist() == [4, math.inf, 7, 2]
    assert not table.is_known
    rounded = Table.of("age", {"a": 10, "b": 0}, rounded_to=10)
    assert rounded.low.tolist() == [5, 0]
    assert rounded.high.tolist() == [15, 5]


def test_a_note_says_which_categories_count_nobody():
    by_sex = {**BY_SEX, ("80+", "m"): 0, ("80+", "f"): "-"}
    tables = tw.PublishedTables.of([Table.of(["age", "sex"], by_sex)])
    note = "age × sex counts nobody with '80+' of 'age'; drop such a row or column if it is not a category"
    assert tables.notes == tables.pairs().notes == (note,)
    assert published().notes == ()
    open_cells = {**BY_SEX, ("80+", "m"): "<5", ("80+", "f"): None}
    assert tw.PublishedTables.of([Table.of(["age", "sex"], open_cells)]).notes == ()


def test_labels_stay_what_they_are():
    text = {("0", "m"): 10, ("0", "f"): 20, ("1", "m"): 30, ("1", "f"): 40}
    numbers = {(int(child), sex): count for (child, sex), count in text.items()}
    for labels, tables in ((("0", "1"), [text]), ((0, 1), [numbers]), ((0, 1), [text, numbers])):
        known = tw.PublishedTables.of([Table.of(["children", "sex"], own) for own in tables])
        assert known.schema["children"].categories == labels
        assert [type(label) for label in known.schema["children"].categories] == [type(label) for label in labels]
        assert known.pairs().array(0).tolist() == (len(tables) * np.array([[10, 20], [30, 40]])).tolist()


def test_a_misspelt_variable_of_a_universe_is_an_error():
    by_sex = Table.of(["age", "sex"], BY_SEX)
    works = Table.of("works", {"yes": 520, "no": 280}, within={"Age": ["15-64", "65+"]})
    message = (
        "table works: no table has the variable 'Age' of within; did you mean 'age'\\? known: 'age', 'sex', 'works'"
    )
    with pytest.raises(UnknownNameError, match=message):
        tw.PublishedTables.of([by_sex, works])
    of_north = Table.of("works", {"yes": 520, "no": 280}, within={"region": "north"})
    of_south = Table.of("works", {"yes": 50, "no": 20}, within={"region": "south"})
    assert tw.PublishedTables.of([by_sex, of_north, of_south]).schema["region"].categories == ("north", "south")
    schema = tw.Schema((*published().schema.variables, tw.Variable("Age", ("15-64", "65+"))))
    assert len(tw.PublishedTables.of([by_sex, works], schema=schema)) == 2


def test_one_of_a_thing_is_singular():
    one = Table.of("age", {"0+": 1})
    assert repr(one) == "<PublishedTable: age, 1 cell, 1 person>"
    assert repr(tw.PublishedTables.of([one])) == "<PublishedTables: 1 table of 1 variable>"
    impossible = [{"age": "0-14", "works": "yes"}]
    assert repr(published(impossible=impossible)).endswith("2 tables of 3 variables, 1 impossible combination>")


def test_a_total_tells_what_suppressed_cells_add_up_to():
    table = Table.of("age", {"a": 10, "b": None, "c": None, "Total": 40})
    assert table.counts.tolist() == [10, 15, 15]
    assert table.totals[()] == 40


def test_percentages_become_counts():
    table = Table.of("vote", {"yes": "45%", "no": "55%"}, kind="shares", total=400)
    np.testing.assert_allclose(table.counts, [180, 220])
    rows = {("young", "yes"): 30, ("young", "no"): 70, ("old", "yes"): 60, ("old", "no"): 40}
    rows |= {("young", "Base"): 50, ("old", "Base"): 150}
    table = Table.of(["age", "vote"], rows, kind="shares", given="age")
    np.testing.assert_allclose(table.counts, [[15, 35], [90, 60]])


def test_standard_errors_become_a_number_of_people():
    shares, people = np.array([0.2, 0.3, 0.5]), 700
    errors = np.sqrt(shares * (1 - shares) / people)
    table = Table.of(
        "vote",
        dict(zip("abc", shares, strict=True)),
        kind="shares",
        standard_errors=dict(zip("abc", errors, strict=True)),
    )
    assert table.weight == pytest.approx(people)
    # of counts, the errors are those of counts
    counts = Table.of(
        "vote",
        dict(zip("abc", shares * 9000, strict=True)),
        standard_errors=dict(zip("abc", errors * 9000, strict=True)),
    )
    assert counts.weight == pytest.approx(people)


def test_labels_of_standard_errors_are_read_as_those_of_numbers():
    spaced = Table.of("vote", {" a": 20, "b": 80}, standard_errors={" a": 4, "b ": 4})
    assert spaced.weight == Table.of("vote", {"a": 20, "b": 80}, standard_errors={"a": 4, "b": 4}).weight


@pytest.mark.parametrize(
    ("names", "numbers", "options", "culprit"),
    [
        ("age", {"a": -1}, {}, "negative"),
        ("age", {"a": "x"}, {}, "'x' is not a number; .* symbols="),
        ("age", {}, {}, "empty"),
        (["age", "sex"], {"a": 1}, {}, "labels"),
        (["age", "sex"], {("a", "m"): 1, ("b", "f"): 1}, {}, "'a', 'f'"),
        (["age", "sex"], {("a", "Total"): 1, ("Total", "f"): 1}, {}, "no number for 'a', 'f'"),
        ("age", {"a": 1, "b": 2, "Total": 9}, {}, "9"),
        ("age", {"a": "45%", "b": "55%"}, {}, "percentages"),
        ("age", {"a": 0, "b": 0}, {}, "person"),
        ("age", {"a": 20, "b": 30}, {"kind": "shares"}, "50"),
        ("age", {"a": 1, "b": 1}, {"kind": "share"}, "share"),
        ("age", {"a": 1, "b": 1}, {"given": "age"}, "given"),
        (["age", "sex"], {("a", "m"): 1}, {"given": "ages"}, "ages"),
        (["age", "age"], {("a", "a"): 1}, {}, "age"),
        ("age", {"a": 1, "b": 1}, {"standard_errors": 5.0}, "standard error"),
        ("age", {"a": 20, "b": 80}, {"standard_errors": {"a": 4}}, "no number for 'b' of 'age'"),
        ("age", {"a": 20, "b": 80}, {"standard_errors": {"a": 4, "c": 4}}, "'c' of 'age'"),
        ("age", [1, 2], {}, "list"),
    ],
)
def test_a_bad_table_is_refused(names, numbers, options, culprit):
    with pytest.raises(tw.TwowayError, match=culprit):
        Table.of(names, numbers, **options)


def test_categories_are_the_finest_and_groups_stand_for_several():
    tables = published()
    assert tables.schema["age"].categories == tuple(AGES)
    assert tables.codes("age", "15+") == (1, 2)
    assert tables.universe({"age": ("15+",)}) == {0: (1, 2)}
    assert tables.universe({"age": tuple(AGES)}) == {}


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        ({"groups": {}}, "15"),  # the label 15+ is then a category that the other table lacks
        ({"groups": {"age": {"15+": ["15-64", "66+"]}}}, "66"),
        ({"groups": {"ages": {"15+": ["15-64"]}}}, "ages"),
        (
            {
                "groups": {"age": {"15+": ["0-14", "15-64", "65+"], "0-64": ["0-14", "15-64"]}},
                "works": {("15+", "yes"): 1, ("0-64", "yes"): 2},
            },
            "two of its",
        ),
        ({"impossible": [{"age": "0-14"}]}, "two variables"),
        ({"impossible": {"age": "0-14", "works": "yes"}}, "must be a list of mappings"),
        ({"impossible": ["age"]}, r"must be a list of mappings.*got \['age'\]"),
        ({"impossible": [{"age": "15-64", "sex": "m"}]}, "300"),
        ({"impossible": [{"age": "15-64", "sexes": "m"}]}, "sexes"),
        ({"exact": [("age", "vote")]}, "vote"),
        ({"exact": [("sex", "works")]}, "no table"),
        ({"means": [tw.PublishedMean("sex", 1.5, 100)]}, "sex"),
    ],
)
def test_bad_declarations_are_refused(change, culprit):
    options = {"groups": GROUPS, **change}
    works = options.pop("works", WORKS)
    tables = [Table.of(["age", "sex"], BY_SEX), Table.of(["age", "works"], works, within={"age": "15+"})]
    with pytest.raises(tw.TwowayError, match=culprit):
        tw.PublishedTables.of(tables, **options)


def test_a_table_that_lacks_categories_must_say_so():
    with pytest.raises(tw.DataError, match="0-14"):
        tw.PublishedTables.of([Table.of(["age", "sex"], BY_SEX), Table.of(["age", "works"], WORKS)], groups=GROUPS)


def test_files_keep_everything(tmp_path):
    tables = published(impossible=[{"age": "0-14", "works": "yes"}], exact=["age"], means=[])
    suppressed = Table.of("pet", {"cat": "<5", "dog": 5, "none": None, "Total": 990}, name="pets")
    whole = tw.PublishedTables.of(
        [*tables.tables, suppressed], groups=GROUPS, impossible=tables.impossible, exact=["age"]
    )
    whole.save(tmp_path / "a.tables")
    again = tw.PublishedTables.load(tmp_path / "a.tables")
    assert again.schema == whole.schema
    assert (again.groups, again.impossible, again.exact) == (whole.groups, whole.impossible, whole.exact)
    for one, other in zip(again.tables, whole.tables, strict=True):
        assert (one.name, one.variables, one.categories, one.within) == (
            other.name,
            other.variables,
            other.categories,
            other.within,
        )
        np.testing.assert_array_equal(one.high, other.high)
        assert one.totals.keys() == other.totals.keys()
    again.save(tmp_path / "b.tables")
    assert (tmp_path / "a.tables").read_bytes() == (tmp_path / "b.tables").read_bytes()


def test_files_hold_many_tables_and_many_variables(tmp_path):
    names = [f"v{number}" for number in range(6)]
    labels = ((0, 1),) * 5
    counts = np.arange(1.0, 33.0).reshape((2,) * 5)
    large = Table(tuple(names[:5]), labels, counts, counts, counts)
    small = [Table((name,), ((0, 1),), *[np.array([5.0, 3.0 + at])] * 3) for at, name in enumerate(names * 20)]
    tables = tw.PublishedTables.of([large, *small])
    tables.save(tmp_path / "many.tables")
    again = tw.PublishedTables.load(tmp_path / "many.tables")
    assert len(again) == 121
    np.testing.assert_array_equal(again.tables[0].counts, counts)
    assert again.tables[-1].counts.tolist() == small[-1].counts.tolist()


def test_a_file_with_too_many_numbers_is_refused(tmp_path):
    header, arrays = packed_tables(published())
    odd = {**arrays, "low": np.append(arrays["low"], 1.0)}
    container.write_container(tmp_path / "odd.tables", "published", header, odd)
    with pytest.raises(tw.FileFormatError, match="more numbers than its tables"):
        tw.PublishedTables.load(tmp_path / "odd.tables")


def test_pairs_fill_what_is_coarser_by_the_shares_of_single_variables():
    pairs = published().pairs()
    ages = np.array([190, 610, 190]) / 990
    table = np.asarray(pairs["age", "works"])
    np.testing.assert_allclose(table, np.outer(ages, [0.65, 0.35]), atol=1e-8)
    assert ("age", "works") not in published().pairs(only_plain=True)
    assert ("age", "sex") in published().pairs(only_plain=True)


def test_boxes_make_up_all_that_is_possible():
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes = rng.integers(2, 5, 4).tolist()
        rules = []
        for _ in range(rng.integers(1, 4)):
            variables = rng.choice(4, rng.integers(2, 4), replace=False).tolist()
            rules.append(
                {
                    v: frozenset(rng.choice(sizes[v], rng.integers(1, sizes[v]), replace=False).tolist())
                    for v in variables
                }
            )
        boxes = possible_boxes(sizes, rules)
        for cell in np.ndindex(*sizes):
            is_ruled = any(all(cell[v] in codes for v, codes in rule.items()) for rule in rules)
            n_boxes = sum(all(cell[v] in codes for v, codes in box.items()) for box in boxes)
            assert n_boxes == (not is_ruled)


def test_rules_that_leave_nothing_or_too_much_are_refused():
    everything = {0: frozenset({0, 1}), 1: frozenset({0, 1})}
    with pytest.raises(tw.DataError, match="exclude every"):
        possible_boxes([2, 2], [everything])
    rules = [{v: frozenset({0}), v + 1: frozenset({0})} for v in range(0, 14, 2)]
    with pytest.raises(tw.DataError, match="64"):
        possible_boxes([2] * 14, rules)
