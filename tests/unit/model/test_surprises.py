"""The least probable records, and their cells."""

import pytest

import twoway as tw

FRAME = {"sky": ["grey", "blue"] * 50 + ["blue", None], "rain": ["yes", "no"] * 50 + ["yes", "no"]}


def test_the_least_probable_records_come_first():
    pmf = tw.fit(FRAME, rank=2, smoothing=1.0)
    least = tw.surprises(pmf, FRAME, n=3)
    scores = pmf.log_prob(FRAME)
    assert [surprise.log_prob for surprise in least] == sorted(scores)[:3]
    assert least[0].record == 100
    for cell in least[0].cells:
        other = "rain" if cell.variable == "sky" else "sky"
        known = {other: FRAME[other][100]}
        assert cell.probability == pytest.approx(pmf.given(known).prob({cell.variable: cell.category}))
    assert {cell.variable: cell.expected for cell in least[0].cells} == {"sky": "grey", "rain": "no"}


def test_missing_cells_and_impossible_rests_are_left_out():
    halves = [[1, 0], [0, 1]]
    schema = tw.Schema(tuple(tw.Variable(name, ("n", "y")) for name in "abc"))
    pmf = tw.JointPMF([0.5, 0.5], [halves, halves, halves], schema)
    first, second = tw.surprises(pmf, {"a": ["n", "n"], "b": ["y", None], "c": ["n", "n"]}, n=9)
    assert [cell.variable for cell in first.cells] == ["b"]  # a and b, and b and c, exclude each other
    assert [cell.variable for cell in second.cells] == ["a", "c"]
    with pytest.raises(tw.DataError, match="n must be"):
        tw.surprises(pmf, {"a": ["n"]}, n=0)
