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
    assert [difference.variables for difference in comparison.variables] == [("b",)]
    assert comparison.variables[0].total_variation == pytest.approx(tw.total_variation(one, other, "b"))
    assert len(comparison.notes) == 2


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
