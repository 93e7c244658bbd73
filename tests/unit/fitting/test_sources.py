"""Several sources in one fit: their union, their connections, and contradictions between them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import NUMBERS, TEXTS, examples, frames, schemas

import twoway as tw
from twoway.checks.significance import homogeneity_p_value
from twoway.data.merging import merge_variables
from twoway.data.records import Records
from twoway.datasets import dirichlet_rows, draw_records, hide
from twoway.errors import DataError, MissingFileError
from twoway.fitting.sources import is_several_sources, unite_sources
from twoway.schema import Schema, Variable
from twoway.tables.tables import Tables

TRUTH = dirichlet_rows(6, 3, 3, seed=4)
NAMES = TRUTH.schema.names


def part(names, n=3000, seed=0, observed=1.0):
    """Records of some variables only."""
    frame = TRUTH.sample(n, seed=seed)[list(names)]
    return hide(frame, 1.0 - observed, seed=seed) if observed < 1 else frame


# Categories and orders


def test_categories_are_united_in_the_order_that_somebody_chose_or_the_natural_one():
    def united(one, other):
        return merge_variables(Variable("v", one), Variable("v", other)).categories

    assert united(("5-9", "20+"), ("10-19", "20+")) == ("5-9", "10-19", "20+")
    assert united((1, 3), (2,)) == (1, 2, 3)
    assert united(("low", "mid", "high"), ("high", "none")) == ("low", "mid", "high", "none")
    assert united(("high",), ("low", "mid", "high")) == ("low", "mid", "high")
    assert united(("low", "mid", "high"), ("mid", "low", "huge")) == ("low", "mid", "high", "huge")
    assert united((1, 2), (1.0, 2.0)) == (1, 2)
    assert merge_variables(Variable("v", (1, 2)), Variable("v", (3,))).values == (1.0, 2.0, 3.0)
    assert merge_variables(Variable("v", (1, 2)), Variable("v", ("none",))).values is None
    both = merge_variables(Variable("v", ("a", "b"), (0, 5)), Variable("v", ("b", "c"), (5, 9)))
    assert both.values == (0.0, 5.0, 9.0)


def test_categories_that_cannot_be_one_are_an_error():
    with pytest.raises(DataError, match="'v' has the category the int 1"):
        merge_variables(Variable("v", (1, 2)), Variable("v", ("1", "x")))
    for other in (Variable("v", ("a", "b"), (0, 6)), Variable("v", ("a", "c"))):
        with pytest.raises(DataError, match="'v' has the values"):
            merge_variables(Variable("v", ("a", "b"), (0, 5)), other)


def test_bins_keep_the_order_of_their_edges_whichever_source_comes_first():
    bins = Variable("age", ("2 minor", "1 adult"), edges=(18.0,))
    labels = Variable("age", ("1 adult", "2 minor"))
    for other in (labels, Variable("age", ("1 adult",)), Variable("age", labels.categories, is_found=True)):
        assert merge_variables(bins, other) == merge_variables(other, bins) == bins
    means = replace(bins, values=(9.0, 50.0))
    assert merge_variables(labels, means) == merge_variables(means, labels) == means
    sources = [Records({"age": ["1 adult"] * 9 + ["2 minor"]}, schema=Schema((v,))) for v in (bins, labels)]
    for united in (sources, sources[::-1]):
        pmf = tw.fit(united, rank=1, smoothing=0.0)
        assert tw.ask(pmf, "P(age >= 18)") == pytest.approx(0.9)


def test_bins_and_categories_that_are_not_bins_are_an_error():
    bins = Variable("income", ("below 5", "5 or more"), edges=(5.0,))
    for other in (Variable("income", (1, 2)), Variable("income", ("below 5", "6"))):
        for pair in ((bins, other), (other, bins)):
            with pytest.raises(DataError, match="'income' is in bins"):
                merge_variables(*pair)
    with pytest.raises(DataError, match="'income' has the edges"):
        merge_variables(bins, replace(bins, edges=(6.0,)))
    with pytest.raises(DataError, match="category 1 of 'income'"):
        merge_variables(bins, replace(bins, categories=bins.categories[::-1]))


# Tables add


def test_adding_takes_categories_variables_and_orders_by_their_names():
    one = tw.count({"age": ["young", "old", "old"], "vote": ["no", "yes", "yes"]})
    other = tw.count({"vote": ["yes", "maybe"], "age": ["old", "old"], "region": ["n", "s"]})
    both = one + other
    everything = {"age": ["young", *["old"] * 4], "vote": ["no", "yes", "yes", "yes", "maybe"]}
    np.testing.assert_array_equal(both["age", "vote"], tw.count(everything)["age", "vote"])
    assert both["age", "vote"].total == 5
    assert both["age", "region"].total == 2
    assert both.notes == (
        "some of the tables that were added lack categories of 'age', which count as zero there",
        "some of the tables that were added lack categories of 'vote', which count as zero there",
    )
    assert (one + one).notes == ()


def test_effective_numbers_add_as_squares_of_weights_do():
    schema = Schema((Variable("a", (0, 1)), Variable("b", (0, 1))))
    one = Tables(schema, [[0, 1]], [1, 2, 3, 4], [5.0])
    other = Tables(Schema(schema.variables[::-1]), [[0, 1]], [1, 2, 3, 4], [7.0])
    # Ten records each, with sums of squares of 10² / 5 and 10² / 7.
    assert (one + other).weights == pytest.approx([20**2 / (20 + 100 / 7)])
    assert (one + other).squares == pytest.approx([20 + 100 / 7])
    assert (one + other).array(0).tolist() == [[2, 5], [5, 8]]


@st.composite
def tables(draw):
    """Tables counted from small records of some of four variables, whose categories may differ."""
    schema = draw(schemas(min_variables=2, max_variables=4, kinds=(draw(st.sampled_from((TEXTS, NUMBERS))),)))
    return Tables.count(Records(draw(frames(schema)), schema=schema))


def in_one_order(tables):
    """Return tables with variables and categories in an order that depends on their names alone."""
    ordered = sorted(tables.schema, key=lambda variable: variable.name)
    return tables.recoded(Schema(tuple(Variable(v.name, tuple(sorted(v.categories, key=repr))) for v in ordered)))


def add(one, other):
    """Return the sum, or None where the same label is text in one and a number in the other."""
    try:
        return one + other
    except DataError as error:
        if "read both as text" not in str(error):
            raise
        return None


@given(tables(), tables(), tables())
@examples(30)
def test_tables_are_a_commutative_monoid(one, two, three):
    nothing = Tables(one.schema, np.zeros((0, 2), dtype=int), [])
    assert one + nothing == one
    assert in_one_order(nothing + one) == in_one_order(one)
    both = add(one, two)
    if both is None:
        assert add(two, one) is None
        return
    assert in_one_order(both) == in_one_order(two + one)
    left, right = add(both, three), add(two, three)
    right = None if right is None else add(one, right)
    if left is not None and right is not None:
        assert in_one_order(left) == in_one_order(right)


# One fit of several sources


def test_records_of_the_same_variables_are_one_set_of_records():
    halves = [part(NAMES, 400, seed, observed=0.7) for seed in (1, 2)]
    together = tw.fit(pd.concat(halves), rank=2, solver="em")
    for sources in (halves, tuple(halves), {"monday": halves[0], "tuesday": halves[1]}):
        pmf = tw.fit(sources, rank=2, solver="em")
        np.testing.assert_allclose(pmf.stacked, together.stacked, atol=1e-9)
        assert pmf.report.n_records == 800


def test_records_with_other_variables_in_another_order_are_records_with_holes():
    one, other = part(NAMES[:4], 300, 1), part(NAMES[:1:-1], 300, 2)
    holes = pd.concat([one, other]).astype("Int64")
    united = unite_sources([one, other])
    assert isinstance(united.source, Records)
    np.testing.assert_array_equal(united.source.codes(), Records(holes, schema=united.source.schema).codes())
    np.testing.assert_array_equal(united.source.codes(), Records(holes).codes())


def test_weights_of_some_records_only():
    counted = Records({"a": [0, 1], "b": [1, 1]}, counts=[2, 3])
    united = unite_sources([counted, {"a": [1], "b": [0]}])
    assert united.source.weights.tolist() == [2.0, 3.0, 1.0]
    # Weights have a scale of their own in each source, which says nothing.
    for scale in (1.0, 1000.0):
        weighted = Records({"a": [0, 1], "b": [1, 1]}, weights=[0.2 * scale, 0.3 * scale])
        united = unite_sources([weighted, {"a": [1], "b": [0]}])
        assert united.source.weights == pytest.approx([10 / 13, 15 / 13, 1.0])
        assert united.source.total_weight == pytest.approx(0.5**2 / (0.2**2 + 0.3**2) + 1)


def test_one_source_of_several_is_the_source_itself():
    records = draw_records(TRUTH, 500, observed=0.8, seed=3)
    for alone in (records, tw.count(records)):
        one, other = (tw.fit(source, rank=2, solver="spa") for source in ([alone], alone))
        np.testing.assert_array_equal(one.stacked, other.stacked)


def test_tables_and_tables_are_their_sum():
    one, other = tw.count(part(NAMES[:4], seed=1)), tw.count(part(NAMES[2:], seed=2))
    pmf = tw.fit([one, other], rank=3, solver="coupled-nmf")
    np.testing.assert_array_equal(pmf.stacked, tw.fit(one + other, rank=3, solver="coupled-nmf").stacked)
    assert set(pmf.schema.names) == set(NAMES)


def test_tables_and_records_together_are_more_accurate():
    """Three components of three categories: the pairs alone leave room that a few records close, and the other way."""
    counted, records = tw.count(part(NAMES, 4000, 1)), part(NAMES, 250, 2)
    fresh = TRUTH.sample(4000, seed=9)
    fits = [tw.fit(s, rank=3, solver="spa+em", smoothing=2.0) for s in ([counted, records], records)]
    scores = [pmf.log_prob(fresh).mean() for pmf in fits]
    assert scores[0] > scores[1] + 0.02
    united = unite_sources([counted, records])
    # A person of the tables stands in 15 of them with two answers each, and counts as six answers.
    cells = np.repeat(united.source.weights, np.diff(united.source.pointers)).sum()
    assert cells == pytest.approx(6 * 4250, rel=0.001)
    assert "tables were fitted as records" in " ".join(united.warnings)


def test_pairs_and_triples_go_together_too():
    pmf = tw.fit([tw.count(part(NAMES[:4], seed=1)), tw.count(part(NAMES[2:], seed=2), order=3)], rank=2, solver="em")
    assert len(pmf.schema) == 6


def test_what_no_source_connects_is_an_error_that_names_the_sources():
    one, other = part(NAMES[:2], 100, 1), part(NAMES[2:], 100, 2)
    with pytest.raises(DataError, match=r"'x1', 'x2' \(in north\); 'x3'.*\(in south\)"):
        tw.fit({"north": one, "south": tw.count(other)})
    with pytest.raises(DataError, match=r"\(in sources\[0\]\).*\(in sources\[1\]\)"):
        tw.fit([one, other])
    assert tw.fit([one, other, part(NAMES[1:3], 100, 3)], rank=1).rank == 1


def test_sources_that_cannot_be_read_are_named():
    with pytest.raises(MissingFileError, match=r"sources\[1\]: there is no file"):
        tw.fit([part(NAMES, 10), "nowhere.csv"])
    with pytest.raises(DataError, match=r"other does not match .* 'x1' has the category"):
        tw.fit({"one": part(NAMES, 50), "other": part(NAMES, 50).astype(str)})
    with pytest.raises(DataError, match="list of sources is empty"):
        tw.fit([])
    with pytest.raises(DataError, match="must be a sequence of cells"):
        tw.fit([{"age": "young"}, {"age": "old"}])


def test_what_is_several_sources_and_what_is_one():
    frame = part(NAMES, 5)
    assert is_several_sources([frame, frame])
    assert is_several_sources({"a": frame, "b": tw.count(frame)})
    assert is_several_sources({"a": "a.csv", "b": "b.csv"})
    for one in (frame, frame.to_numpy(), {"a": [0, 1]}, {"a": np.arange(2)}, {"a": frame["x1"]}, "a.csv", {}):
        assert not is_several_sources(one)
    with pytest.raises(DataError, match="from_crosstabs"):
        tw.fit({("a", "b"): frame})


# Contradictions


def test_sources_that_agree_are_not_warned_about():
    sources = [part(NAMES[:4], 2000, 1), tw.count(part(NAMES[1:], 2000, 2)), part(NAMES, 2000, 3)]
    assert not [one for one in unite_sources(sources).warnings if "contradict" in one]


def test_the_worst_contradiction_is_named_with_its_sources():
    liar = part(NAMES, 2000, 3)
    liar["x2"] = np.where(np.random.default_rng(0).random(2000) < 0.2, 0, liar["x2"])
    sources = {"north": part(NAMES[:4], 2000, 1), "south": tw.count(part(NAMES[1:], 2000, 2)), "west": liar}
    pmf = tw.fit(sources, rank=1, solver="em")
    told = [one for one in pmf.report.warnings if "contradict" in one]
    assert len(told) == 1
    assert "most in 'x2'" in told[0] or "× 'x2'" in told[0] or "'x2' ×" in told[0]
    assert "west differ" in told[0]


def test_the_test_of_homogeneity_keeps_its_level():
    rng = np.random.default_rng(1)
    shares = [0.4, 0.3, 0.2, 0.098, 0.002]
    p_values = [
        homogeneity_p_value(np.array([rng.multinomial(n, shares) for n in (200, 900, 60.0)])) for _ in range(800)
    ]
    assert 0.02 < np.mean(np.array(p_values) < 0.05) < 0.08


def test_weighted_records_are_tested_by_what_they_are_worth():
    """Weights of thousands, as surveys have them, must not make chance look like a contradiction."""
    rng = np.random.default_rng(77)
    sources = [Records(part(NAMES, 500, seed), weights=rng.random(500) * 1000 + 0.5) for seed in (1, 2)]
    assert not [one for one in unite_sources(sources).warnings if "contradict" in one]


def test_fit_warns_of_a_category_for_each_moment():
    days = pd.date_range("2024-01-01", periods=40)
    frame = pd.DataFrame(
        {"day": np.repeat(days, 20), "hour": np.repeat(days, 20) + pd.Timedelta("90min"), "a": [0, 1] * 400}
    )
    with pytest.warns(
        UserWarning, match="dates or times, .*: 'day', 'hour'; use parts of them, such as the year"
    ) as caught:
        pmf = tw.fit(frame, rank=1, solver="em", starts=1)
    assert caught[0].filename == __file__
    assert str(caught[0].message) in pmf.report.warnings
    few = tw.fit(frame.iloc[:600], rank=1, solver="em", starts=1)  # 30 days
    assert not any("dates" in warning for warning in few.report.warnings)
