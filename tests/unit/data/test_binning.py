"""Numbers in bins: exact edges, their labels, columns sorted into them, and comparisons that they allow."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import twoway as tw
from twoway.data.binning import bin_codes, bin_labels, make_bins
from twoway.errors import DataError, QuestionError, UnknownNameError
from twoway.questions.language import parse
from twoway.schema import Schema, Variable
from twoway.storage.version_1 import version_1_edges

OPERATORS = {">=": np.greater_equal, ">": np.greater, "<": np.less, "<=": np.less_equal}
AGE = Variable("age", bin_labels([18, 40]), (9.0, 30.0, 60.0), edges=(18, 40))


def test_text_with_an_underscore_is_no_number():
    records = tw.Records({"age": ["30", "70", " 17.5 "]}, schema=Schema((AGE,)))
    assert records.codes()[:, 0].tolist() == [1, 2, 0]
    with pytest.raises(UnknownNameError, match="no category '18_24' of 'age'"):
        tw.Records({"age": ["18_24", "30"]}, schema=Schema((AGE,)))


@given(st.sets(st.floats(-1e9, 1e9), min_size=1, max_size=6))
def test_labels_show_exact_edges(edges):
    edges = sorted(edges)
    labels = bin_labels(edges)
    assert len(set(labels)) == len(labels)
    assert version_1_edges(labels) == edges


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
@examples(50)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40), st.integers(2, 6))
def test_edges_are_short_and_labels_agree_with_them(strategy, numbers, n_bins):
    bins = make_bins("x", np.array(numbers), n_bins=n_bins, strategy=strategy)
    assert bins.variable.categories == bin_labels(bins.variable.edges)
    for edge in bins.variable.edges:  # the label of a bin is true of its first number, and of the last before it
        around = np.array([np.nextafter(edge, -np.inf), edge])
        assert np.diff(bins.codes(around)).tolist() == [1]


def test_a_number_beside_a_rounded_edge_is_in_the_bin_that_its_label_says():
    bins = make_bins("x", np.array([1.5, 2.25, 3.125, 4.0625, 9.5]), n_bins=2)
    assert bins.variable.categories == ("below 3.12", "3.12 or more")
    assert bins.codes(np.array([3.119, 3.12, 3.121])).tolist() == [0, 1, 1]


def test_weights_decide_where_to_cut():
    numbers = np.arange(8.0)
    assert make_bins("x", numbers, n_bins=2).variable.edges == (4.0,)
    assert make_bins("x", numbers, np.array([9.0, 1, 1, 1, 1, 1, 1, 1]), n_bins=2).variable.edges == (1.0,)
    assert make_bins("x", numbers, np.array([0, 0, 0, 0, 0, 0, 1.0, 3.0]), n_bins=2).variable.values == (6.0, 7.0)


def test_cuts_may_leave_bins_empty():
    variable = make_bins("x", np.array([1.0, 2.0]), cuts=[5, 10]).variable
    assert variable.values == (1.5, 7.5, 10.0)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([17.9, 18, 40.5, None]),
        pd.Series([17.9, 18, 40.5, "NA"], dtype=object),
        pd.Series(["17.9", "18", "40 or more", None]),
        pl.Series([17.9, 18, 40.5, None]),
        pl.Series(["below 18", "18 to below 40", "40.5", "?"]),
    ],
)
def test_records_with_numbers_are_sorted_into_bins(column):
    frame = pl.DataFrame({"age": column}) if isinstance(column, pl.Series) else pd.DataFrame({"age": column})
    records = tw.Records(frame, schema=Schema((AGE,)))
    assert records.codes().ravel().tolist() == [0, 1, 2, -1]


def test_other_text_among_numbers_in_bins_is_unknown():
    frame = pd.DataFrame({"age": ["17", "teen"]})
    with pytest.raises(UnknownNameError, match="no category 'teen' of 'age'"):
        tw.Records(frame, schema=Schema((AGE,)))
    with pytest.raises(UnknownNameError, match=r"'teen'.*'age' is in bins"):
        tw.Records(frame, schema=Schema((AGE,)), unseen="extend")
    assert tw.Records(frame, schema=Schema((AGE,)), unseen="missing").codes().ravel().tolist() == [0, -1]


def test_text_that_reads_like_bins_is_text():
    pmf = model(Variable("age", ("below 18", "18 or more")))
    with pytest.raises(QuestionError, match="no category 18"):
        tw.ask(pmf, "P(age >= 18)")


@pytest.mark.parametrize("edges", [(1.0,), (2.0, 1.0), (1.0, np.inf), (1.0, "x"), (1.0, 2.0, 3.0)])
def test_edges_are_ascending_numbers_between_categories(edges):
    with pytest.raises(DataError, match="'age'"):
        Variable("age", ("a", "b", "c"), edges=edges)
    with pytest.raises(DataError, match="'age'"):
        Variable("age", (1, 2), edges=(1.5,))


@pytest.mark.parametrize(
    ("labels", "edges"),
    [
        (["< 1.5", "[1.5, 3)", ">= 3"], [1.5, 3]),
        (["< 1.5", "(1.5, 3]", ">= 3"], None),
        (["(0, 10]", "(10, 20]"], [np.nextafter(10, 11)]),
        (["[0, 10)", "[10, 20)"], [10]),
        (["[0, 10)", "10 or more"], [10]),
        (["(-inf, 30.0]", "(30.0, inf]"], [np.nextafter(30, 31)]),
        (["below -2", "-2 or more"], [-2]),
        (["18-39", "40+"], None),
        (["below 3", 3], None),
        (["3 or more", "below 3"], None),
        (["below 3", "2 or more"], None),
        (["below 3", "unknown"], None),
        (["any number"], None),
    ],
)
def test_edges_in_labels_of_version_1(labels, edges):
    assert version_1_edges(labels) == edges


def model(variable):
    shares = np.arange(1.0, len(variable) + 1)[:, None]
    schema = Schema((variable, Variable("vote", ("no", "yes"))))
    return tw.JointPMF([1.0], [shares / shares.sum(), [[0.3], [0.7]]], schema)


@pytest.mark.parametrize("values", [None, (20.0, 37.0, 52.0, 71.0)])
def test_a_comparison_inside_a_bin_is_refused_with_the_edges(values):
    edges = (30, 45, 60)
    pmf = model(Variable("age", bin_labels(edges), values, edges=edges))
    assert tw.ask(pmf, "P(age >= 45)") == pytest.approx(0.7)
    assert tw.ask(pmf, "P(age < 45)") == pytest.approx(0.3)
    assert tw.ask(pmf, "P(age >= 30, age < 60)") == pytest.approx(0.5)
    assert tw.ask(pmf, "P(vote | age >= 60)")["yes"] == pytest.approx(0.7)
    assert tw.ask(pmf, "P(age >= '45 to below 60')") == pytest.approx(0.7)
    for question in (
        "P(age >= 50)",
        "P(age > 45)",
        "P(age <= 45)",
        "P(age < 99)",
        "P(vote | age >= 59.9)",
        "P(age > 1e9)",
    ):
        with pytest.raises(QuestionError, match="30, 45, 60"):
            tw.ask(pmf, question)
    with pytest.raises(QuestionError, match="ask for age >= 45 or age >= 60"):
        tw.ask(pmf, "P(age >= 50)")
    with pytest.raises(QuestionError, match=r"ask for age < 30$"):
        tw.ask(pmf, "P(age < 3)")
    assert str(parse("P(age >= 50)", pmf.schema)) == "P(age >= 50)"  # it can be parsed; it has no answer


@given(st.sampled_from(sorted(OPERATORS)), st.integers(-1, 6))
def test_an_answer_counts_all_numbers_that_meet_the_comparison(operator, threshold):
    edges = (1.0, 2.0, np.nextafter(4.0, 5.0))  # the last bin holds what is greater than 4
    variable = Variable("x", ("a", "b", "c", "d"), edges=edges)
    numbers = np.sort(np.concatenate([np.linspace(-2, 8, 41), edges]))
    meets, codes = OPERATORS[operator](numbers, threshold), bin_codes(edges, numbers)
    whole = [code for code in range(4) if meets[codes == code].all()]
    is_split = any(0 < meets[codes == code].mean() < 1 for code in range(4))
    pmf = model(variable)
    question = f"P(x {operator} {threshold})"
    if is_split:
        with pytest.raises(QuestionError, match="1, 2, 4: ask for x"):
            tw.ask(pmf, question)
    elif whole:
        assert tw.ask(pmf, question) == pytest.approx(sum(code + 1 for code in whole) / 10)


def test_values_of_other_labels_are_compared_as_before():
    pmf = model(Variable("age", ("low", "high"), (10.0, 50.0)))
    assert tw.ask(pmf, "P(age >= 20)") == pytest.approx(2 / 3)
