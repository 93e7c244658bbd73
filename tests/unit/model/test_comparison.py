"""Two models, compared."""

import pytest

import twoway as tw

HERE = {"a": ["x", "y", "y"], "b": ["p", "q", "p"], "c": [1, 2, 2]}


def test_a_model_is_like_itself():
    pmf = tw.fit(HERE, rank=2)
    comparison = tw.compare(pmf, pmf)
    assert [difference.variables for difference in comparison.variables] == [("a",), ("b",), ("c",)]
    assert len(comparison.pairs) == 3
    assert all(difference.total_variation == pytest.approx(0) for difference in comparison.pairs)
    assert comparison.notes == ()


def test_differences_come_largest_first_and_unlike_variables_are_noted():
    there = {"a": ["x"] * 3, "b": ["q", "q", "p"], "c": [1, 3, 3]}
    one, other = (tw.fit(columns, rank=1, solver="em") for columns in (HERE, there))
    with pytest.raises(tw.DataError, match="no variable in common"):
        tw.compare(one, tw.fit({"z": [1, 2]}, rank=1, solver="em"))
    comparison = tw.compare(one, other)
    assert [difference.variables for difference in comparison.variables] == [("a",), ("b",)]
    assert comparison.variables[0].total_variation == pytest.approx(one.prob({"a": "y"}))
    assert comparison.variables[1].total_variation == pytest.approx(tw.total_variation(one, other, "b"))
    assert comparison.notes == (
        "only the first model has 'y' of 'a'; the other gives it probability 0",
        "not compared: category 2 of 'c' is 2 in one and 3 in the other",
    )


def test_a_category_added_by_an_update_has_probability_0_in_the_older_model():
    before = tw.fit({"a": ["x", "z"] * 20, "b": ["p", "q", "q", "p"] * 10}, rank=1)
    after = tw.update(before, {"a": ["y"] * 10, "b": ["p"] * 10}, extend=True)
    assert after.schema["a"].categories == ("x", "y", "z")
    for comparison in (tw.compare(before, after), tw.compare(after, before)):
        by_names = {difference.variables: difference.total_variation for difference in comparison.variables}
        assert by_names["a",] == pytest.approx(after.prob({"a": "y"}))
        assert [difference.variables for difference in comparison.pairs] == [("a", "b")]
        expected, known = after.marginal(["a", "b"]).array, before.marginal(["a", "b"]).array
        distance = 0.5 * (abs(expected[[0, 2]] - known).sum() + expected[1].sum())
        assert comparison.pairs[0].total_variation == pytest.approx(distance)
    assert tw.compare(before, after).notes == (
        "only the second model has 'y' of 'a'; the other gives it probability 0",
    )


def test_the_order_of_categories_does_not_matter():
    here, there = (tw.Schema((tw.Variable("a", labels),)) for labels in (("low", "high"), ("high", "low")))
    one, other = tw.JointPMF([1.0], [[[0.2], [0.8]]], here), tw.JointPMF([1.0], [[[0.7], [0.3]]], there)
    comparison = tw.compare(one, other)
    assert comparison.variables[0].total_variation == pytest.approx(0.1)
    assert comparison.notes == ()


def test_bins_are_compared_with_the_same_labels_without_edges():
    bins = tw.Variable("a", ("low", "high"), (1.0, 9.0), edges=(5.0,))
    one = tw.fit(tw.Records({"a": ["low", "high"]}, schema=tw.Schema((bins,))), rank=1, smoothing=0.0)
    other = tw.fit(
        tw.Records({"a": ["low"]}, schema=tw.Schema((tw.Variable("a", bins.categories),))), rank=1, smoothing=0.0
    )
    for comparison in (tw.compare(one, other), tw.compare(other, one)):
        assert comparison.variables[0].total_variation == pytest.approx(0.5)
        assert comparison.notes == ()
    assert one.log_prob(tw.Records({"a": ["low"]}, schema=other.schema)) == pytest.approx(-0.693, abs=0.01)
