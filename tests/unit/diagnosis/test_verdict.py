"""Verdicts of `diagnose` on evidence that looks better than it is, and on good evidence."""

import functools

import numpy as np
import pytest
from verdict_cases import KNOWN, MORE_NOT_KNOWN, NOT_KNOWN, contradicting, sampled

import twoway as tw
from twoway.checks.contradiction import find_contradiction
from twoway.datasets import dirichlet_rows

CASES = {**NOT_KNOWN, **MORE_NOT_KNOWN, **KNOWN}


@functools.cache
def diagnosis(name):
    return tw.diagnose(CASES[name].make(), CASES[name].rank)


@pytest.mark.parametrize("name", [*NOT_KNOWN, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE_NOT_KNOWN)])
def test_no_false_assurance(name):
    found = diagnosis(name)
    assert found.kind == "not from these tables", found.verdict


@pytest.mark.parametrize("name", KNOWN)
def test_recoverable_cases_are_not_refused(name):
    found = diagnosis(name)
    assert found.kind in ("recoverable", "recoverable if"), found.verdict
    assert found.misfits == 0
    assert found.contradiction is None
    if "identical" in name:
        assert found.kind == "recoverable"


# What each verdict rests on


def of(start):
    return diagnosis(next(name for name in NOT_KNOWN if name.startswith(start)))


def test_pairwise_independence_is_not_independence():
    for found in (of("XOR of"), of("the same, each of the four rows exactly 1,000 times, tables")):
        assert found.rank == 1
        assert found.any_joint == pytest.approx(0.5, abs=0.02)
        bounds = found.range({"c": 1}, {"a": 1, "b": 1})
        assert bounds.high - bounds.low > 0.9


def test_random_starts_find_the_parity():
    found = diagnosis("XOR exactly, tables, rank 4")
    assert found.disagreement > 0.45
    assert any(
        pmf.prob({"a": 1, "b": 1, "c": 1}) < 0.03 or pmf.prob({"a": 1, "b": 1, "c": 1}) > 0.22 for pmf in found.models
    )


def test_records_that_show_more_than_their_tables():
    found = of("XOR, records")
    assert found.records_add_information
    assert found.beyond_tables > 0.45
    assert found.worst_three_way.variables == ("a", "b", "c")
    assert "records show" in found.reason
    assert any("fit them" in step for step in found.advice)
    alike = tw.diagnose(sampled(4, 200, n_variables=8, seed=31), 4)  # so few that fits differ by chance alone
    assert not alike.records_add_information
    assert alike.three_way_misfits == 0


def test_a_rank_that_the_tables_contradict():
    found = of("three identical")
    assert (found.misfits, found.visible) == (3, 2)
    assert "contradict rank 1" in found.reason
    found = of("a copied")
    assert found.visible > 4
    assert {"x1", "copy"} == set(found.worst_misfit.variables)
    found = of("rank 2 asked")
    assert found.visible == 4
    assert found.excess > 2
    assert any("rank 4" in step for step in found.advice)


def test_tables_that_cannot_show_the_rank():
    assert "'x4' can show 2 components at most" in of("x4").reason


def test_tables_that_no_joint_has():
    found = of("P(a≠b)")
    assert found.contradiction.variables == ("a", "b", "c")
    assert found.contradiction.change > 0.2
    assert "contradict each other" in found.reason
    # With ten records, chance explains it.
    assert find_contradiction(contradicting(10.0)) is None
    assert find_contradiction(contradicting(1e9)).change == pytest.approx(0.5, abs=0.01)
    # In a joint too large to look at as a whole, around a table that a model does not fit.
    assert find_contradiction(contradicting(others=4), [("a", "c")]).variables == ("a", "b", "c")
    assert find_contradiction(contradicting(others=4)) is None


@pytest.mark.parametrize("others", [0, 4])
def test_a_fit_warns_of_tables_that_no_joint_has(others):
    report = tw.fit(contradicting(others=others), rank=2, smoothing=1.0).report
    assert any("contradict each other" in warning for warning in report.warnings)


def test_a_fit_gives_no_false_warning():
    """Neither a rank that is too low nor chance is a contradiction."""
    tables = tw.count(sampled(3, 5000, n_variables=4, n_categories=3))
    for rank in (1, 3):
        warnings = tw.fit(tables, rank=rank, smoothing=1.0).report.warnings
        assert not any("contradict" in warning for warning in warnings)


def test_other_models_with_the_same_rank_and_tables():
    found = of("4 binary")
    assert found.ambiguity > 0.262
    names = found.tables.schema.names
    for pmf in found.models:
        for pair in found.tables.names:
            np.testing.assert_allclose(np.asarray(pmf.marginal(pair)), np.asarray(found.tables[pair]), atol=1e-5)
    event = dict.fromkeys(names, 0)
    bounds = found.range(event)
    assert bounds.low - 1e-5 <= bounds.models[0] < bounds.models[1] <= bounds.high + 1e-5


def test_text_and_json_give_the_reason():
    found = of("three identical")
    assert "off by" in str(found)
    described = found.to_dict()
    assert described["worst_misfit"]["total_variation"] == pytest.approx(0.5, abs=0.02)
    assert described["contradiction"] is None
    assert of("P(a≠b)").to_dict()["contradiction"]["variables"] == ["a", "b", "c"]


def test_an_assumed_rank_is_reported():
    """XOR beside copies of a coin: two components have the tables, and so has the joint that is there."""
    first, second = np.array([0, 0, 1, 1] * 1000), np.array([0, 1, 0, 1] * 1000)
    columns = {"a": first, "copy": first, "again": first, "b": second, "differ": first ^ second}
    found = tw.diagnose(tw.count(columns), rank=2)
    assert found.kind == "recoverable if"
    assert found.any_joint == pytest.approx(0.5, abs=0.02)
    assert "0.50 away" in found.reason


def test_pairs_without_a_table_are_in_the_headline():
    tables = tw.count(dirichlet_rows(5, 3, 2, seed=3).sample(20_000, seed=1))
    found = tw.diagnose(
        tables.select([pair for pair in tables.pairs if set(pair) not in ({"x1", "x5"}, {"x1", "x4"})]), 2
    )
    assert found.kind == "recoverable if"
    assert found.any_joint > 0.5
    head, _, rest = found.reason.partition("; and ")
    assert "2 components also explain the pairs without a table (2 of 10 pairs: x1 × x4, x1 × x5)" in head
    assert f"joints with the same tables differ by up to {found.any_joint:.2f}" in head
    assert rest.startswith("an error of up to about")


def test_of_a_large_joint_the_headline_says_that_nothing_was_searched_for():
    tables = tw.count(dirichlet_rows(5, 6, 2, seed=3).sample(20_000, seed=1))
    found = tw.diagnose(tables.select([pair for pair in tables.pairs if set(pair) != {"x1", "x5"}]), 2)
    assert found.any_joint is None
    assert "(1 of 10 pairs: x1 × x5): joints with the same tables differ by an amount" in found.reason


@pytest.mark.parametrize(
    "source",
    [
        tw.count(dirichlet_rows(5, 3, 2, seed=3).sample(20_000, seed=1)),
        tw.JointPMF(np.full(2, 0.5), [np.array([[0.6, 0.4], [0.4, 0.6]])] * 5, dirichlet_rows(5, 2, 2).schema),
    ],
    ids=["tables", "model"],
)
def test_the_headline_names_joints_of_higher_rank_with_the_same_tables(source):
    found = tw.diagnose(source, 2)
    assert found.kind == "recoverable if"
    assert found.any_joint > 0.25
    head = (
        f"there are no more than 2 components: a joint with more has the same tables and is {found.any_joint:.2f} away"
    )
    assert found.reason.startswith(head)
    assert "no other model has" not in found.reason
