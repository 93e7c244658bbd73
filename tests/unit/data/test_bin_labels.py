"""Categories that are intervals of numbers: labels and comparisons."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twoway as tw
from twoway.data.bin_labels import Interval, cuts_of, intervals_of, label_bins
from twoway.errors import QuestionError
from twoway.questions import parse
from twoway.schema import Schema, Variable

OPERATORS = {">=": np.greater_equal, ">": np.greater, "<": np.less, "<=": np.less_equal}


@given(st.sets(st.floats(-1e9, 1e9, width=32).map(lambda cut: float(f"{cut + 0.0:.15g}")), min_size=1, max_size=6))
def test_cuts_are_read_as_they_were_written(cuts):
    cuts = sorted(cuts)
    variable = Variable("age", tuple(label_bins(cuts)))
    assert cuts_of(variable) == cuts


@given(
    st.tuples(st.integers(0, 5), st.integers(1, 5), st.booleans(), st.booleans()),
    st.sampled_from(sorted(OPERATORS)),
    st.integers(-1, 11),
)
def test_an_interval_meets_what_all_its_numbers_do(ends, operator, threshold):
    low, width, has_low, has_high = ends
    interval = Interval(low, low + width, has_low, has_high)
    inside = np.linspace(low, low + width, 21)[int(not has_low) : 20 + has_high]
    met = OPERATORS[operator](inside, threshold)
    expected = True if met.all() else (None if met.any() else False)
    assert interval.meets(operator, threshold) is expected


@pytest.mark.parametrize(
    ("labels", "lows"),
    [
        (("< 1.5", "[1.5, 3)", ">= 3"), [-math.inf, 1.5, 3]),
        (("(0, 10]", "(10, 20]"), [0, 10]),
        (("(-inf, 30.0]", "(30.0, inf]"), [-math.inf, 30]),
        (("below -2", "-2 or more"), [-math.inf, -2]),
        (("18-39", "40+"), None),
        (("below 3", 3), None),
        (("3 or more", "below 3"), None),
        (("below 3", "2 or more"), None),
        (("below 3", "unknown"), None),
    ],
)
def test_labels_that_name_intervals(labels, lows):
    intervals = intervals_of(Variable("age", labels))
    assert (intervals and [interval.low for interval in intervals]) == lows


def model(labels, values=None):
    schema = Schema((Variable("age", tuple(labels), values), Variable("vote", ("no", "yes"))))
    shares = np.arange(1.0, len(labels) + 1)[:, None]
    return tw.JointPMF([1.0], [shares / shares.sum(), [[0.3], [0.7]]], schema)


@pytest.mark.parametrize("values", [None, (20.0, 37.0, 52.0, 71.0)])
def test_a_comparison_inside_a_bin_is_refused_with_the_cuts(values):
    pmf = model(label_bins([30, 45, 60]), values)
    assert tw.ask(pmf, "P(age >= 45)") == pytest.approx(0.7)
    assert tw.ask(pmf, "P(age < 45)") == pytest.approx(0.3)
    assert tw.ask(pmf, "P(age >= 30, age < 60)") == pytest.approx(0.5)
    assert tw.ask(pmf, "P(vote | age >= 60)")["yes"] == pytest.approx(0.7)
    assert tw.ask(pmf, "P(age >= '45 to below 60')") == pytest.approx(0.7)
    for asked in (
        "P(age >= 50)",
        "P(age > 45)",
        "P(age <= 45)",
        "P(age < 99)",
        "P(vote | age >= 59.9)",
        "P(age > 1e9)",
    ):
        with pytest.raises(QuestionError, match="30, 45, 60"):
            tw.ask(pmf, asked)
    with pytest.raises(QuestionError, match="ask for age >= 45 or age >= 60"):
        tw.ask(pmf, "P(age >= 50)")
    assert str(parse("P(age >= 50)", pmf.schema)) == "P(age >= 50)"  # what it says can be read; it has no answer


def test_intervals_that_hold_their_upper_end():
    pmf = model(("(0, 10]", "(10, 20]"))
    assert tw.ask(pmf, "P(age > 10)") == pytest.approx(2 / 3)
    assert tw.ask(pmf, "P(age > 0)") == pytest.approx(1)
    with pytest.raises(QuestionError, match="ask for age > 0 or age > 10"):
        tw.ask(pmf, "P(age >= 10)")
    with pytest.raises(QuestionError, match="no category of 'age'"):
        tw.ask(pmf, "P(age > 20)")


def test_values_of_other_labels_are_compared_as_before():
    pmf = model(("low", "high"), (10.0, 50.0))
    assert tw.ask(pmf, "P(age >= 20)") == pytest.approx(2 / 3)
