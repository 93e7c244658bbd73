"""Published cross-tabulations: usual notations are read, and errors name what cannot be read."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from twoway.errors import DataError, TwowayError, UnknownNameError
from twoway.schema import Schema, Variable
from twoway.tables.crosstabs.cells import parse_cell
from twoway.tables.crosstabs.sheet_words import margin_in_words
from twoway.tables.tables import Tables

AGE, VOTE, REGION = ("young", "middle", "old"), ("no", "yes"), ("north", "south", "east")
COUNTS = pd.DataFrame([[10, 20], [30, 5], [7, 28]], index=AGE, columns=VOTE)
KEY = ("age", "vote")
NOBODY = ("'middle' of 'age'", "'maybe' of 'vote'")


def make_joint(seed=4, sizes=(3, 2, 3)):
    """Return a joint of age, vote and region with nothing near zero."""
    joint = np.random.default_rng(seed).random(sizes) + 0.2
    return joint / joint.sum()


def printed(array, rows, columns, digits=0):
    """Return percentages as a newspaper prints them."""
    return pd.DataFrame(
        [[f"{100 * value:.{digits}f}%" for value in line] for line in array], index=rows, columns=columns
    )


def conditional(table):
    return table / table.sum(axis=1, keepdims=True)


# Cells


@pytest.mark.parametrize(
    ("raw", "value", "step", "is_percent"),
    [
        (12, 12, 1, False),
        (0.25, 0.25, 0.01, False),
        (45.0, 45, 1, False),
        (np.float32(0.5), 0.5, 0.1, False),
        ("45%", 45, 1, True),
        ("45.2 %", 45.2, 0.1, True),
        (" 7 ", 7, 1, False),
        ("1,234", 1234, 1, False),
        ("1,234,567.5", 1234567.5, 0.1, False),
        ("1 234", 1234, 1, False),
        ("1\u202f234", 1234, 1, False),
        ("1'234", 1234, 1, False),
        ("-", 0, 0, False),
        ("–", 0, 0, False),
        ("- %", 0, 0, True),
        ("<1%", 0.5, 1, True),
        ("< 0.5", 0.25, 0.1, False),
        ("1e3", 1000, 1, False),
        (".5", 0.5, 0.1, False),
    ],
)
def test_cells_as_people_print_them(raw, value, step, is_percent):
    assert parse_cell(raw)[:3] == (value, pytest.approx(step), is_percent)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("-3", "is negative"),
        ("−3%", "is negative"),
        (-0.1, "is negative"),
        (float("nan"), "is missing"),
        (None, "is missing"),
        (pd.NA, "is missing"),
        ("", "is missing"),
        ("n/a", "is missing"),
        (float("inf"), "is infinite"),
        ("1e999", "is infinite"),
        ("1,5", "is not a number"),
        ("12,34", "is not a number"),
        ("about 5", "is not a number"),
        ("*", "is not a number"),
        (True, "is not a number"),
    ],
)
def test_a_bad_cell_is_named(raw, problem):
    frame = COUNTS.astype(object)
    frame.loc["middle", "yes"] = raw
    with pytest.raises(DataError, match=rf"table age × vote, cell 'middle', 'yes': .* {problem}"):
        Tables.from_crosstabs({KEY: frame})


@given(st.integers(0, 10**12))
@examples(40)
def test_thousands_come_back(number):
    assert parse_cell(f"{number:,}").value == parse_cell(f"{number:_}").value == number


# Frames


def wide_frames():
    """Return the same table as each library and habit has it."""
    with_column = COUNTS.rename_axis("age").reset_index()
    unnamed = COUNTS.reset_index()
    return {
        "pandas": COUNTS,
        "pandas, named": COUNTS.rename_axis(index="age", columns="vote"),
        "pandas, column": with_column,
        "pandas, unnamed column": unnamed,
        "polars": pl.from_pandas(with_column),
        "pyarrow": pa.Table.from_pandas(unnamed, preserve_index=False),
        "long": COUNTS.rename_axis("age").reset_index().melt("age", var_name="vote", value_name="n"),
        "long polars": pl.DataFrame(
            {
                "n": COUNTS.to_numpy().ravel(),
                "vote": [vote for _ in AGE for vote in VOTE],
                "age": [age for age in AGE for _ in VOTE],
            }
        ),
    }


@pytest.mark.parametrize("form", wide_frames())
def test_every_form_of_frame_is_the_same_table(form):
    tables = Tables.from_crosstabs({KEY: wide_frames()[form]})
    assert tables.schema == Schema((Variable("age", AGE), Variable("vote", VOTE)))
    np.testing.assert_array_equal(tables.array(0), COUNTS)
    assert tables.totals == tables.weights == [100]
    assert tables.notes == ()


def test_text_cells_under_a_default_index_are_not_labels():
    frame = pd.DataFrame({"no": ["10", "1,000"], "yes": ["20", "5"]})
    tables = Tables.from_crosstabs({("stars", "vote"): frame})
    assert tables.schema["stars"].categories == (0, 1)
    np.testing.assert_array_equal(tables.array(0), [[10, 20], [1000, 5]])
    frame.loc[0, "no"] = "1O"
    frame.loc[2] = ["3", "4"]
    with pytest.raises(DataError, match="cell 0, 'no': '1O' is not a number"):
        Tables.from_crosstabs({("stars", "vote"): frame})


@pytest.mark.parametrize("labels", [["2019", "2020¹", "2021¹"], ["n=12", "n=30", "n=5"]])
def test_numbers_with_marks_in_the_first_column_are_labels(labels):
    frame = pd.DataFrame({"Year": labels, "no": [1, 2, 3], "yes": [4, 5, 6]})
    tables = Tables.from_crosstabs({("year", "vote"): frame})
    assert tables.schema == Schema((Variable("year", tuple(labels)), Variable("vote", ("no", "yes"))))
    np.testing.assert_array_equal(tables.array(0), [[1, 4], [2, 5], [3, 6]])


def test_a_long_frame_without_a_line_for_empty_cells():
    frame = pl.DataFrame({"age": ["young", "old"], "vote": ["no", "yes"], "n": [3, 4]})
    tables = Tables.from_crosstabs({KEY: frame})
    np.testing.assert_array_equal(tables.array(0), [[3, 0], [0, 4]])
    with pytest.raises(DataError, match=r"age × vote.* duplicate cell 'old', 'yes'"):
        Tables.from_crosstabs({KEY: pl.concat([frame, frame[1:]])})


def test_one_frame_of_many_tables():
    frame = pd.DataFrame(
        {
            "row_variable": ["age"] * 4 + ["vote"] * 2,
            "row_category": ["old", "old", "young", "young", "no", "yes"],
            "column_variable": ["vote"] * 4 + ["wet"] * 2,
            "column_category": ["yes", "no", "yes", "no", True, True],
            "value": [1, 2, 3, 4, "5", "1,000"],
        }
    )
    tables = Tables.from_crosstabs(frame)
    assert tables.names == (("age", "vote"), ("vote", "wet"))
    assert [variable.categories for variable in tables.schema] == [("old", "young"), ("yes", "no"), (True,)]
    assert tables.flat.tolist() == [1, 2, 3, 4, 1000, 5]
    with pytest.raises(DataError, match="'value'"):
        Tables.from_crosstabs(frame.drop(columns="value"))
    with pytest.raises(DataError, match="'colour'"):
        Tables.from_crosstabs(frame.assign(colour=1))
    with pytest.raises(DataError, match="age × vote has several weights"):
        Tables.from_crosstabs(frame.assign(weight=range(6)))


def test_the_same_pair_twice_or_reversed_is_added():
    once = Tables.from_crosstabs({KEY: COUNTS})
    both = Tables.from_crosstabs({KEY: COUNTS, ("vote", "age"): COUNTS.T})
    twice = Tables.from_crosstabs([(KEY, COUNTS), (KEY, COUNTS)])
    assert both == twice == once + once


def test_numbers_in_headers():
    rows = pl.DataFrame({"stars": [1, 2], "no": [1, 2], "yes": [3, 4]})
    headers = pl.DataFrame({"region": ["north", "south"], "1": [1, 2], "2": [3, 4]})
    tables = Tables.from_crosstabs({("stars", "vote"): rows, ("region", "stars"): headers})
    assert tables.schema["stars"].categories == (1, 2)
    assert tables.schema["stars"].values == (1, 2)
    more = pl.DataFrame({"region": ["north", "south"], "1": [1, 2], "2": [3, 4], "3+": [5, 6]})
    tables = Tables.from_crosstabs({("stars", "vote"): rows, ("region", "stars"): more})
    assert tables.schema["stars"].categories == ("1", "2", "3+")
    assert tables.notes[0] == "stars × vote lacks '3+' of 'stars'; counted as 0"
    codes = pl.DataFrame({"region": ["north", "south"], "01": [1, 2], "02": [3, 4]})
    assert Tables.from_crosstabs({("region", "code"): codes}).schema["code"].categories == ("01", "02")


def test_a_schema_decides_what_a_label_means():
    schema = Schema(
        (Variable("stars", ("1", "2", "Total")), Variable("wet", (False, True)), Variable("other", ("a", "b")))
    )
    frame = pd.DataFrame({"true": [1, 2, 3], "False": [4, 5, 6]}, index=[2, 1, "Total"])
    tables = Tables.from_crosstabs({("stars", "wet"): frame}, schema=schema)
    assert tables.schema is schema
    np.testing.assert_array_equal(tables.array(0), [[5, 2], [4, 1], [6, 3]])
    with pytest.raises(DataError, match="stars × wet: no category 'maybe' of 'wet'"):
        Tables.from_crosstabs({("stars", "wet"): frame.rename(columns={"true": "maybe"})}, schema=schema)
    with pytest.raises(UnknownNameError, match="no variable 'star'; did you mean 'stars'"):
        Tables.from_crosstabs({("star", "wet"): frame}, schema=schema)


# Margins


def with_margins(label="Total"):
    frame = COUNTS.copy()
    frame[label] = frame.sum(axis=1)
    frame.loc[label] = frame.sum(axis=0)
    return frame


@pytest.mark.parametrize(
    "label", ["Total", "all", " SUM ", "Base", "N", "N=", "Unweighted base", "Overall", "Base (n)"]
)
def test_margins_are_no_categories(label):
    tables = Tables.from_crosstabs({KEY: with_margins(label)})
    assert tables == Tables.from_crosstabs({KEY: COUNTS})


def test_margins_of_pandas_crosstab():
    records = pd.DataFrame({"age": ["young", "old", "old"], "vote": ["no", "no", "yes"]})
    tables = Tables.from_crosstabs({KEY: pd.crosstab(records["age"], records["vote"], margins=True)})
    np.testing.assert_array_equal(tables.array(0), [[1, 1], [1, 0]])


def test_what_looks_like_a_margin_may_be_a_category():
    assert margin_in_words("N", ["Y", "N"]) is None
    assert margin_in_words("N", ["red", "N"]) == margin_in_words("N", ["yes", "no", "N"]) == "base"
    assert margin_in_words("Allergic", []) is None
    assert margin_in_words(3, []) is None
    frame = pd.DataFrame([[1, 2, 3], [4, 5, 6]], index=["a", "b"], columns=["None", "Some", "All"])
    with pytest.raises(DataError, match=r"'All': 6 .*'b'.*9;"):
        Tables.from_crosstabs({("who", "eaten"): frame})
    schema = Schema((Variable("who", ("a", "b")), Variable("eaten", ("None", "Some", "All"))))
    assert Tables.from_crosstabs({("who", "eaten"): frame}, schema=schema).totals == [21]
    shares = pd.DataFrame([["20%", "30%", "50%"], ["40%", "50%", "10%"]], index=["a", "b"], columns=frame.columns)
    with pytest.raises(DataError, match=r"'a' .*got 50 without 'All'"):
        Tables.from_crosstabs({("who", "eaten"): shares}, kind="row")


def test_cells_with_bounds_may_miss_their_total():
    frame = pd.DataFrame([["<5", 20, 24], [30, 5, 35]], index=["a", "b"], columns=["x", "y", "Total"])
    assert Tables.from_crosstabs({("who", "what"): frame}).flat.tolist() == [2.5, 20, 30, 5]
    frame.loc["a", "Total"] = 30
    with pytest.raises(DataError, match=r"'Total': 30 .*'a'.*22\.5"):
        Tables.from_crosstabs({("who", "what"): frame})


def test_an_unweighted_base_is_the_weight_of_weighted_counts():
    frame = COUNTS * 1.5
    frame["Unweighted base"] = [20, 30, 25]
    tables = Tables.from_crosstabs({KEY: frame})
    assert tables.totals == [150]
    assert tables.weights == [75]


# Kinds


@pytest.mark.parametrize("scale", [1, 100])
def test_joint_shares(scale):
    tables = Tables.from_crosstabs({KEY: COUNTS / 100 * scale}, kind="joint", totals=500)
    np.testing.assert_allclose(tables.array(0), COUNTS * 5)
    assert tables.totals == pytest.approx(500)
    assert tables.notes == ()


def test_shares_that_do_not_add_up_are_errors():
    with pytest.raises(DataError, match=r"age × vote: all cells .*got 60$"):
        Tables.from_crosstabs({KEY: COUNTS * 0.6}, kind="joint")
    frame = printed(conditional(COUNTS.to_numpy()), AGE, VOTE)
    frame.loc["middle", "no"] = "50%"
    with pytest.raises(DataError, match=r"'middle' .*got 64$"):
        Tables.from_crosstabs({KEY: frame}, kind="row", margins={"age": dict.fromkeys(AGE, 1)})
    with pytest.raises(DataError, match=r"percentages .*'counts'"):
        Tables.from_crosstabs({KEY: frame})


def test_rounding_is_forgiven_and_removed():
    frame = pd.DataFrame([["33%", "33%", "33%"], ["17%", "33%", "51%"]], index=VOTE, columns=REGION)
    tables = Tables.from_crosstabs(
        {("vote", "region"): frame}, kind="row", margins={"vote": {"no": "40%", "yes": "60%"}}
    )
    np.testing.assert_allclose(tables["vote", "region"].array.sum(axis=1), [0.4, 0.6])
    np.testing.assert_allclose(tables["vote", "region"].array[0], 0.4 / 3)


def share_sources():
    """Return, for each way of telling the overall shares of age, tables and options; votes are given by age."""
    joint = make_joint()
    by_vote, by_region = joint.sum(axis=2), joint.sum(axis=1)
    votes, regions = conditional(by_vote), conditional(by_region)
    shares = by_vote.sum(axis=1)
    table = printed(votes, AGE, VOTE, 2)
    region_table = printed(regions, AGE, REGION, 2)
    total = pd.DataFrame([[f"{100 * share:.2f}%" for share in by_vote.sum(axis=0)]], index=["Total"], columns=VOTE)
    region_total = pd.DataFrame(
        [[f"{100 * share:.2f}%" for share in by_region.sum(axis=0)]], index=["All"], columns=REGION
    )
    base = table.assign(Base=[f"{100_000 * share:,.0f}" for share in shares])
    derived = printed(conditional(by_region.T), REGION, AGE, 2).assign(
        N=[round(100_000 * share) for share in by_region.sum(axis=0)]
    )
    return {
        "base": ({KEY: base}, {}),
        "total column of counts": ({KEY: base.rename(columns={"Base": "Total"})}, {}),
        "total column of shares": ({KEY: table.assign(Total=[f"{100 * share:.2f}%" for share in shares])}, {}),
        "margins": ({KEY: table}, {"margins": {"age": dict(zip(AGE, shares, strict=True))}}),
        "counts": ({KEY: table, ("age", "region"): pd.DataFrame(by_region * 1e6, AGE, REGION)}, {"counts": True}),
        "derived": ({KEY: table, ("region", "age"): derived}, {}),
        "total row": ({KEY: pd.concat([table, total]), ("age", "region"): pd.concat([region_table, region_total])}, {}),
    }


@pytest.mark.parametrize("source", share_sources())
@pytest.mark.parametrize("kind", ["row", "column"])
def test_each_source_of_shares_recovers_the_joint(source, kind):
    tables, options = share_sources()[source]
    kinds = dict.fromkeys(tables, kind)
    if options.pop("counts", False):
        kinds["age", "region"] = "counts"
    if kind == "column":
        tables = {key[::-1]: frame.T for key, frame in tables.items()}
        kinds = {key[::-1]: one for key, one in kinds.items()}
    read = Tables.from_crosstabs(tables, kind=kinds, **options)
    # Solving for the shares magnifies the rounding of the percentages.
    tolerance = 3e-3 if source == "total row" else 2e-4
    np.testing.assert_allclose(read["age", "vote"], make_joint().sum(axis=2), atol=tolerance)
    if ("age", "region") in read:
        np.testing.assert_allclose(read["age", "region"], make_joint().sum(axis=1), atol=tolerance)
    assert any("solved from the totals of" in note for note in read.notes) == (source == "total row")


def test_the_table_s_own_base_comes_first_and_margins_before_other_tables():
    frame = printed(conditional(COUNTS.to_numpy()), AGE, VOTE, 1)
    other = pd.DataFrame(np.ones((3, 3)), AGE, REGION)
    margins = {"age": {"young": 1, "middle": 1, "old": 2}}
    kinds = {KEY: "row", ("age", "region"): "counts"}
    read = Tables.from_crosstabs({KEY: frame, ("age", "region"): other}, kind=kinds, margins=margins)
    np.testing.assert_allclose(read["age", "vote"].array.sum(axis=1), [0.25, 0.25, 0.5])
    based = frame.assign(Base=[30, 35, 35])
    read = Tables.from_crosstabs({KEY: based, ("age", "region"): other}, kind=kinds, margins=margins)
    np.testing.assert_allclose(read["age", "vote"].array.sum(axis=1), [0.3, 0.35, 0.35])
    assert read.totals[0] == pytest.approx(100)


def test_shares_travel_through_several_tables():
    joint = make_joint()
    first = pd.DataFrame(joint.sum(axis=2), AGE, VOTE)
    second = pd.DataFrame(conditional(joint.sum(axis=0)), VOTE, REGION)
    third = pd.DataFrame(conditional(joint.sum(axis=1).T), REGION, AGE)
    tables = {("region", "age"): third, ("vote", "region"): second, KEY: first}
    kinds = {("region", "age"): "row", ("vote", "region"): "row", KEY: "joint"}
    read = Tables.from_crosstabs(tables, kind=kinds)
    np.testing.assert_allclose(read["age", "region"], joint.sum(axis=1), atol=1e-12)


def test_shares_that_totals_leave_open_may_follow_from_another_table():
    joint = make_joint()
    votes = pd.DataFrame(conditional(joint.sum(axis=2)), AGE, VOTE)
    votes.loc["Total"] = joint.sum(axis=(0, 2))
    ages = pd.DataFrame(conditional(joint.sum(axis=1).T), REGION, AGE)
    ages.loc["Total"] = joint.sum(axis=(1, 2))
    read = Tables.from_crosstabs({KEY: votes, ("region", "age"): ages}, kind="row")
    np.testing.assert_allclose(read["age", "vote"], joint.sum(axis=2), atol=1e-9)
    np.testing.assert_allclose(read["age", "region"], joint.sum(axis=1), atol=1e-9)


def test_a_row_without_people():
    frame = printed(conditional(COUNTS.to_numpy()), AGE, VOTE, 1).assign(Base=[30, 0, 35])
    frame.loc["middle", list(VOTE)] = "-"
    read = Tables.from_crosstabs({KEY: frame}, kind="row")
    np.testing.assert_array_equal(read.array(0)[1], [0, 0])
    assert read.totals == pytest.approx(65)


def test_shares_that_nothing_gives_are_asked_for():
    frame = printed(conditional(COUNTS.to_numpy()), AGE, VOTE, 1)
    with pytest.raises(TwowayError, match=r"overall shares of 'age' .*the shares of 'age' as margins"):
        Tables.from_crosstabs({KEY: frame}, kind="row")
    with pytest.raises(TwowayError, match="overall shares of 'vote'"):
        Tables.from_crosstabs({KEY: printed(conditional(COUNTS.to_numpy().T).T, AGE, VOTE, 1)}, kind="column")
    frame.loc["Total"] = ["47%", "53%"]
    with pytest.raises(DataError, match=r"3 categories .*only 2 .*margins"):
        Tables.from_crosstabs({KEY: frame}, kind="row")


@pytest.mark.parametrize(
    ("margins", "message"),
    [
        ({"age": {"young": 1, "old": 2}}, "margins of 'age' lack 'middle'"),
        (
            {"age": {"young": 1, "middle": 1, "odl": 2}},
            "margins of 'age': no category 'odl' of 'age'; did you mean 'old'",
        ),
        ({"age": {"young": 1, "middle": "x", "old": 2}}, "margins of 'age', cell 'middle': 'x' is not a number"),
        ({"age": {**dict.fromkeys(AGE, 1), "Total": 3}}, "margins of 'age': no category 'Total' of 'age'"),
        ({"age": dict.fromkeys(AGE, 0)}, "margins of 'age' are all zero"),
        ({"agee": {}}, "no variable 'agee'; did you mean 'age'"),
    ],
)
def test_bad_margins_are_errors(margins, message):
    frame = printed(conditional(COUNTS.to_numpy()), AGE, VOTE, 1)
    with pytest.raises(TwowayError, match=message):
        Tables.from_crosstabs({KEY: frame}, kind="row", margins=margins)


def test_a_triangle_of_inconsistent_rounded_tables_is_read():
    joint = make_joint(7)
    tables = {
        KEY: printed(joint.sum(axis=2), AGE, VOTE),
        ("age", "region"): printed(joint.sum(axis=1), AGE, REGION),
        ("vote", "region"): printed(joint.sum(axis=0), VOTE, REGION),
    }
    read = Tables.from_crosstabs(tables, kind="joint", totals={("vote", "age"): 800, ("age", "region"): 600})
    assert read.is_connected
    np.testing.assert_allclose(read.totals, [800, 600, 700])
    assert read.notes == ("vote × region has no total; counted as 700 records",)
    assert not np.array_equal(read["age", "vote"].array.sum(axis=1), read["age", "region"].array.sum(axis=1))
    np.testing.assert_allclose(read["age", "region"], joint.sum(axis=1), atol=0.01)


# Totals, weights, categories that are not there


def test_totals_weights_and_standard_errors():
    shares = COUNTS / 100
    read = Tables.from_crosstabs({KEY: shares}, kind="joint")
    assert read.totals == pytest.approx(1000)
    assert read.notes == ("age × vote has no total; counted as 1000 records",)
    scaled = Tables.from_crosstabs({KEY: COUNTS}, totals=50)
    np.testing.assert_allclose(scaled.array(0), COUNTS / 2)
    weighed = Tables.from_crosstabs({KEY: COUNTS}, weights={("vote", "age"): 40})
    np.testing.assert_array_equal(weighed.array(0), COUNTS)
    assert weighed.weights == [40]
    errors = np.sqrt(shares * (1 - shares) / 400)
    from_frame = Tables.from_crosstabs({KEY: shares}, kind="joint", standard_errors={KEY: errors})
    assert from_frame.weights == pytest.approx(400)
    assert from_frame.totals == pytest.approx(400)
    p = shares.to_numpy()
    one = Tables.from_crosstabs({KEY: shares}, kind="joint", totals=1200, standard_errors={KEY: "2%"})
    assert one.weights == pytest.approx((p * (1 - p)).mean() / 0.02**2)
    assert one.totals == pytest.approx(1200)
    votes = COUNTS.div(COUNTS.sum(axis=1), axis=0)
    asked = pd.Series([300, 350, 350], AGE)
    errors = np.sqrt((votes * (1 - votes)).div(asked, axis=0))
    options = {"margins": {"age": asked.to_dict()}}
    rows = Tables.from_crosstabs({KEY: votes}, kind="row", standard_errors={KEY: errors}, **options)
    assert rows.weights == pytest.approx(1000)
    flipped = Tables.from_crosstabs(
        {("vote", "age"): votes.T}, kind="column", standard_errors={("vote", "age"): errors.T}, **options
    )
    assert flipped.weights == pytest.approx(1000)
    reversed_key = Tables.from_crosstabs(
        {KEY: votes}, kind="row", standard_errors={("vote", "age"): errors.T}, **options
    )
    assert reversed_key.weights == pytest.approx(1000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"totals": {("age", "vot"): 3}}, r"no table \('age', 'vot'\) for totals; did you mean \('age', 'vote'\)"),
        ({"totals": 0}, "total of age × vote .*got 0"),
        ({"totals": -3}, "total of age × vote .*-3 is negative"),
        ({"weights": {KEY: "many"}}, "weight of age × vote .*'many' is not a number"),
        ({"weights": 3}, "weights must be"),
        ({"standard_errors": {KEY: 2}}, "standard error of age × vote .*got 2"),
        ({"standard_errors": {KEY: 0.1}, "weights": {KEY: 1}}, "age × vote .* weight and a standard error"),
        ({"kind": "rows"}, "no kind of table 'rows'; did you mean 'row'"),
        ({"kind": {("vote", "age"): "row"}}, r"no table \('vote', 'age'\) for kind"),
        ({"kind": {}}, r"kind .*\('age', 'vote'\)"),
    ],
)
def test_bad_options_are_errors(options, message):
    with pytest.raises(TwowayError, match=message):
        Tables.from_crosstabs({KEY: COUNTS}, **options)


def test_categories_that_a_table_lacks():
    fewer = pd.DataFrame([[1, 2]], index=["old"], columns=["north", "south"])
    read = Tables.from_crosstabs({KEY: COUNTS, ("age", "region"): fewer})
    assert read.notes[0] == "age × region lacks 'young', 'middle' of 'age'; counted as 0"
    np.testing.assert_array_equal(read.array(1), [[0, 0], [0, 0], [1, 2]])
    kinds = {KEY: "counts", ("age", "region"): "row"}
    with pytest.raises(DataError, match="age × region lacks 'young', 'middle' of 'age'"):
        Tables.from_crosstabs({KEY: COUNTS, ("age", "region"): fewer / 3}, kind=kinds)
    with pytest.raises(
        DataError, match="'age' has the category 'old' in table age × vote and 'Old' in table age × reg"
    ):
        Tables.from_crosstabs({KEY: COUNTS, ("age", "region"): fewer.rename(index={"old": "Old"})})


def test_a_table_of_zeros_is_left_out():
    read = Tables.from_crosstabs({KEY: COUNTS, ("age", "region"): pd.DataFrame(0, AGE, REGION)})
    assert read.names == (KEY,)
    assert read.notes == ("age × region has no counts; left out",)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({}, "there is no table"),
        ({"age": COUNTS}, "pair .*got 'age'"),
        ({("age", "age"): COUNTS}, "two different variables"),
        ({KEY: 3}, "age × vote must be .*got int"),
        (3, "mapping .*got int"),
        ({KEY: COUNTS.iloc[:0]}, "age × vote is empty"),
        ({KEY: pd.concat([COUNTS, COUNTS[:1]])}, "age × vote: duplicate cell 'young', 'no'"),
        ({KEY: pd.concat([COUNTS, COUNTS["no"]], axis=1)}, "age × vote: duplicate cell 'young', 'no'"),
        ({KEY: COUNTS.rename(index={"old": None})}, "age × vote has a category of 'age' without a label"),
        ({KEY: COUNTS.rename(index={"old": (1, 2)})}, "age × vote, a label of 'age': "),
        ({KEY: COUNTS.set_index("no", append=True)}, "age × vote .*several levels"),
        ({KEY: COUNTS.rename_axis(index="vote", columns="age")}, r"age × vote: .*name it \('vote', 'age'\)"),
        (
            {KEY: COUNTS.rename(index=dict.fromkeys(AGE, "Total"))[:1]},
            "age × vote has no category of 'age' except totals",
        ),
        (
            {KEY: pd.DataFrame({"age": ["young", "Total"], "vote": ["Total", "no"], "n": [3, 3]})},
            "'Total': 3 is taken for the total of 'young', but the cells add up to 0; drop .* if it is a category",
        ),
    ],
)
def test_bad_tables_are_errors(tables, message):
    with pytest.raises(DataError, match=message):
        Tables.from_crosstabs(tables)


@examples(30)
@given(
    counts=st.lists(st.lists(st.integers(0, 10**6), min_size=2, max_size=2), min_size=3, max_size=3).filter(
        lambda lines: any(map(any, lines))
    )
)
def test_counts_are_kept_to_the_bit_however_they_are_printed(counts):
    frame = pd.DataFrame([[f"{value:,}" if value else "–" for value in line] for line in counts], AGE, VOTE)
    np.testing.assert_array_equal(Tables.from_crosstabs({KEY: frame}).array(0), counts)


def test_truth_values_are_no_numbers_in_a_long_frame():
    schema = Schema((Variable("a", ("no", "yes")), Variable("b", (0, "no", False, True, 1))))
    tables = Tables(schema, np.array([[0, 1]]), np.arange(10.0))
    read = Tables.from_crosstabs(tables.to_frame(), schema=schema)
    np.testing.assert_array_equal(read.flat, tables.flat)


@pytest.mark.parametrize("kind", ["counts", "joint", "row", "column"])
def test_a_note_says_which_categories_count_nobody(kind):
    shown = {"no": [30, 0, 20], "maybe": [0, 0, 0], "yes": [20, 0, 30]}
    frame = pd.DataFrame(shown, index=AGE) * (2 if kind in ("row", "column") else 1)
    if kind == "row":
        frame["Base"] = [50, 0, 50]
    if kind == "column":
        frame = pd.concat([frame, pd.DataFrame({"no": [50], "maybe": [0], "yes": [50]}, index=["Base"])])
    notes = Tables.from_crosstabs({KEY: frame}, kind=kind, totals=100).notes
    told = {f"age × vote counts nobody with {of}; drop such a row or column if it is not a category" for of in NOBODY}
    assert told <= set(notes)
    assert not any("nobody" in note for note in Tables.from_crosstabs({KEY: COUNTS}).notes)


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize(("axis", "kind"), [("index", "row"), ("columns", "column")])
def test_shares_of_rows_are_not_taken_for_counts(scale, axis, kind):
    """What ``pd.crosstab(…, normalize=axis)`` returns is not a table of two people."""
    people = pd.DataFrame({"age": list("yooyo") * 30, "vote": list("nyyyn") * 30})
    table = scale * pd.crosstab(people["age"], people["vote"], normalize=axis)
    with pytest.raises(DataError, match=f"each {kind} adds up to {scale:g}.*kind='{kind}'"):
        Tables.from_crosstabs({("age", "vote"): table})
    whole = scale * pd.crosstab(people["age"], people["vote"], normalize="all")
    assert Tables.from_crosstabs({("age", "vote"): whole}).totals[0] > 90
