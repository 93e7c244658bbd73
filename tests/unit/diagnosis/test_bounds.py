"""The paper's bounds: their constants, when they apply, and that they hold where they do."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records, nearly_separable
from twoway.diagnosis.bounds import (
    SplitConstants,
    largest_epsilon,
    records_for_spa,
    records_for_table_error,
    separability,
    spa_error,
    split_constants,
    sufficient_rank,
    table_error,
)
from twoway.schema import Schema, Variable


def schema_of(*sizes):
    return Schema(tuple(Variable(f"v{i}", tuple(range(size))) for i, size in enumerate(sizes)))


# Theorem 1


@pytest.mark.parametrize(("sizes", "rank"), [([5], 1), ([2, 2], 2), ([3, 4, 5], 12), ([10] * 4, 1000), ([1, 7], 1)])
def test_sufficient_rank(sizes, rank):
    brute = min(math.prod(sizes[:k] + sizes[k + 1 :]) for k in range(len(sizes)))
    assert sufficient_rank(sizes) == sufficient_rank(schema_of(*sizes)) == brute == rank


@examples(60)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 10**6), st.floats(0, 0.9))
def test_any_joint_is_written_exactly_within_that_rank(sizes, seed, zeros):
    random = np.random.default_rng(seed)
    joint = random.exponential(size=sizes) * (random.uniform(size=sizes) >= zeros)
    joint.flat[0] += 0.1
    joint /= joint.sum()
    pmf = tw.JointPMF.from_joint(joint, schema_of(*sizes))
    assert pmf.rank <= sufficient_rank(sizes)
    assert (np.diff(pmf.weights) <= 0).all()
    np.testing.assert_allclose(np.asarray(pmf.marginal(pmf.schema.names)), joint, atol=1e-15)
    np.testing.assert_allclose(pmf.weights.sum(), 1)


def test_an_invalid_joint_raises():
    schema = schema_of(2, 2)
    with pytest.raises(tw.DataError, match=r"the shape \(2, 2\).* got \(4,\)"):
        tw.JointPMF.from_joint([0.25] * 4, schema)
    with pytest.raises(tw.DataError, match="at 'v0' = 1, 'v1' = 0 it is"):
        tw.JointPMF.from_joint([[0.5, 0.6], [-0.1, 0]], schema)
    with pytest.raises(tw.DataError, match="sum to 2"):
        tw.JointPMF.from_joint([[0.5, 0.5], [0.5, 0.5]], schema)
    with pytest.raises(tw.DataError, match="22,500 components"):
        tw.JointPMF.from_joint(np.full((150, 200, 150), 1 / 4_500_000), schema_of(150, 200, 150))


# Proposition 1


def test_table_error_has_the_papers_constants():
    bound = table_error(10_000, 0.5, 0.1)
    assert bound.error == pytest.approx(math.sqrt(2) * (1 + math.sqrt(math.log(20))) / (0.5 * 100))
    assert bound.applies
    assert bound.says_something
    # Two tables at once have half of the risk each.
    assert table_error(10_000, 0.5, 0.1, n_tables=2).error == pytest.approx(table_error(10_000, 0.5, 0.05).error)


def test_table_error_reports_when_it_does_not_apply():
    least = math.sqrt(8 / 1000 * math.log(2 / 0.05))
    assert table_error(1000, least * 1.0001).applies
    bound = table_error(1000, least * 0.9999)
    assert not bound.applies
    assert str(bound).startswith("does not apply: share of observed cells, at least")


def test_table_errors_observed_stay_below_the_bound():
    truth = dirichlet_rows(4, 5, 3, seed=1)
    bound = table_error(2000, 0.6, 0.05, n_tables=6).error
    for seed in range(5):
        tables = tw.count(draw_records(truth, 2000, observed=0.6, seed=seed))
        errors = [np.linalg.norm(np.asarray(t) - np.asarray(truth.marginal(t.names))) for t in tables]
        assert max(errors) < bound


@given(st.floats(1e-4, 1), st.floats(0.01, 1), st.floats(1e-6, 0.5), st.integers(1, 1000))
def test_the_records_asked_for_are_enough_and_no_more(error, observed, risk, n_tables):
    n_records = records_for_table_error(error, observed, risk, n_tables=n_tables)
    bound = table_error(n_records * 1.0001, observed, risk, n_tables=n_tables)
    assert bound.applies
    assert bound.error <= error
    fewer = table_error(n_records * 0.999, observed, risk, n_tables=n_tables)
    assert not (fewer.applies and fewer.error <= error)


# Theorem 3

CONSTANTS = SplitConstants(
    n_variables=10, n_first=3, n_categories=8, rank=5, sigma_max=2.0, kappa=3.0, eta=0.05, epsilon=1e-5
)


def test_spa_has_the_proofs_constants():
    observed, risk, n_records = 0.5, 0.1, 1e7
    kappa_2 = 1 + 80 * 9
    assert largest_epsilon(CONSTANTS) == pytest.approx(0.25 / (2 * 3 * kappa_2))
    assert largest_epsilon(CONSTANTS, form="printed") == pytest.approx(3 * 0.25 / (2 * 3 * kappa_2))
    printed = 32 * 9 * 8 * (1 + math.sqrt(math.log(2 / risk))) ** 2 / (2.0 * 0.05 * 1e-5 * observed) ** 2
    assert records_for_spa(CONSTANTS, observed, risk, form="printed") == pytest.approx(printed)
    phi = math.sqrt(2) * (1 + math.sqrt(math.log(4 * 21 / risk))) / (observed * math.sqrt(n_records))
    error = math.sqrt(5) * (2.0 * 1e-5 + 2 * 3 * math.sqrt(8) * phi / 0.05) * kappa_2
    bound = spa_error(CONSTANTS, n_records, observed, risk)
    assert bound.error == pytest.approx(error)
    assert not bound.applies
    assert [reason.split(",")[0] for reason in bound.reasons] == ["records"]


def test_spa_applies_where_its_conditions_hold():
    kind = CONSTANTS._replace(epsilon=largest_epsilon(CONSTANTS))
    n_records = records_for_spa(kind)
    assert spa_error(kind, n_records * 1.01).applies
    assert not spa_error(kind, n_records * 0.99).applies
    printed = CONSTANTS._replace(epsilon=largest_epsilon(CONSTANTS, form="printed"))
    assert spa_error(printed, 1e30, form="printed").applies
    assert not spa_error(printed, 1e30).applies  # the corrected ε is M times smaller


def test_a_bound_above_every_possible_error_is_reported():
    kind = CONSTANTS._replace(epsilon=largest_epsilon(CONSTANTS), sigma_max=100.0)
    bound = spa_error(kind, 1e30)
    assert bound.applies
    assert not bound.says_something
    assert "which says nothing: no error exceeds 3.162" in str(bound)
    assert spa_error(kind._replace(sigma_max=2.0), 1e30).says_something


def test_the_rank_changes_the_largest_epsilon():
    for rank, slack in [(1, 0.25), (2, 0.25), (5, 0.25), (17, 1 / 8), (65, 1 / 16)]:
        assert largest_epsilon(CONSTANTS._replace(rank=rank)) == pytest.approx(slack / (2 * 3 * 721))


def test_split_constants_of_a_model():
    pmf = nearly_separable(0.1, seed=3)
    constants = split_constants(pmf, 3)
    assert constants == split_constants(pmf, ["x1", "x2", "x3"])
    w = np.vstack(pmf.factors[:3])
    assert constants.kappa == pytest.approx(np.linalg.cond(w))
    assert constants.sigma_max == pytest.approx(np.linalg.norm(w, 2))
    assert constants.eta == pytest.approx(min(np.asarray(pmf.marginal(n)).min() for n in ("x4", "x5")))
    assert 0 < constants.epsilon < 0.1
    with pytest.raises(tw.DataError, match="both groups need"):
        split_constants(pmf, 5)


def test_too_few_rows_make_the_condition_number_infinite():
    bound = spa_error(split_constants(dirichlet_rows(4, 3, 5), 1), 1e9)
    assert not bound.applies
    assert any("condition number" in reason for reason in bound.reasons)
    assert any("first group M" in reason for reason in bound.reasons)


def test_rows_that_depend_on_each_other_make_the_condition_number_infinite():
    """Two binary variables have four rows, of which three are independent: the rows of each add up to ones."""
    truth = dirichlet_rows(4, 2, 4)
    assert split_constants(truth, 2).kappa == math.inf
    assert "too few categories for this rank" in tw.plan(truth, 0.05, sizes=[100], trials=1).spa_note


def brute_separability(h):
    from itertools import permutations

    rows = h / h.sum(axis=1, keepdims=True)
    unit = np.eye(h.shape[1])
    distances = np.linalg.norm(rows[:, None] - unit[None], axis=2)
    return min(
        max(distances[row, f] for f, row in enumerate(chosen)) for chosen in permutations(range(len(h)), h.shape[1])
    )


@examples(60)
@given(st.integers(1, 3), st.integers(0, 4), st.integers(0, 10**6), st.floats(0.1, 3))
def test_separability_is_the_best_choice_of_rows(rank, more, seed, concentration):
    h = np.random.default_rng(seed).dirichlet(np.full(rank, concentration), rank + more) + 1e-9
    assert separability(h) == pytest.approx(brute_separability(h), abs=1e-6)


def test_separability_of_equal_columns_and_empty_rows():
    assert separability(np.ones((4, 2))) == pytest.approx(math.sqrt(0.5))
    assert separability(np.array([[1.0, 0.0], [0.0, 0.0]])) == math.inf
    assert separability(np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 3.0]])) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: table_error(0), "n_records must be a number above 0"),
        (lambda: table_error(100, 1.5), "observed must be a number above 0 and at most 1"),
        (lambda: table_error(100, 0.5, float("nan")), "risk must be"),
        (lambda: table_error(100, n_tables=0), "n_tables must be a whole number"),
        (lambda: spa_error(CONSTANTS, 100, form="printet"), "did you mean 'printed'"),
        (lambda: sufficient_rank([]), "at least one variable"),
        (lambda: sufficient_rank([2, 0]), "a size must be"),
    ],
)
def test_bad_numbers_are_refused(call, message):
    with pytest.raises(tw.TwowayError, match=message):
        call()
