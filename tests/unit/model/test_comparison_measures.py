"""Distances between PMFs, against brute force on the joints."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.joint import marginal, write_out
from strategies import examples, pmfs, schemas

import twoway as tw
from twoway.data.records import Records
from twoway.datasets import dirichlet_rows, draw_records, uniform_entries
from twoway.errors import DataError, UnknownNameError
from twoway.model.comparison import factor_mse, kl_divergence, match_components, mean_relative_error, total_variation
from twoway.model.pmf import JointPMF
from twoway.schema import Schema, Variable

quick = examples(40)


@st.composite
def two_pmfs(draw):
    schema = draw(schemas())
    return draw(pmfs(schema=schema)), draw(pmfs(schema=schema))


def permuted(pmf, order):
    return JointPMF.from_stacked(pmf.schema, pmf.weights[order], pmf.stacked[:, order])


@given(two_pmfs())
@quick
def test_relative_error_equals_brute_force(pair):
    one, other = pair
    x, y = write_out(one), write_out(other)
    distance = np.linalg.norm(x - y)
    assert mean_relative_error(one, other) == pytest.approx(distance / np.linalg.norm(x), rel=1e-6, abs=1e-7)
    by_estimate = mean_relative_error(one, other, relative_to="estimate")
    assert by_estimate == pytest.approx(distance / np.linalg.norm(y), rel=1e-6, abs=1e-7)


@given(two_pmfs(), st.data())
@quick
def test_kl_and_total_variation_equal_brute_force(pair, data):
    one, other = pair
    names = data.draw(st.permutations(one.schema.names))[: data.draw(st.integers(1, len(one.schema)))]
    p, q = (marginal(write_out(pmf), one.schema, names) for pmf in pair)
    assert total_variation(one, other, names) == pytest.approx(0.5 * np.abs(p - q).sum(), abs=1e-12)
    told = kl_divergence(one, other, names)
    seen = p > 1e-300
    if (q[seen] == 0).any():
        assert told == math.inf
    else:
        assert told == pytest.approx(float((p[seen] * np.log(p[seen] / q[seen])).sum()), abs=1e-12)
        assert told >= 0


def test_kl_of_everything_by_default():
    one, other = dirichlet_rows(3, 4, 2, seed=0), dirichlet_rows(3, 4, 2, seed=1)
    assert kl_divergence(one, other) == kl_divergence(one, other, one.schema.names)
    assert kl_divergence(one, other) > kl_divergence(one, other, "x1") > 0
    assert kl_divergence(one, one) == 0
    assert kl_divergence(one, tw.Bootstrap(other, (other,), other)) == kl_divergence(one, other)


def test_kl_of_large_joints_is_sampled():
    one, other = dirichlet_rows(12, 5, 2, seed=0), dirichlet_rows(12, 5, 2, seed=1)
    told = kl_divergence(one, other)
    assert 0 < told.standard_error < 0.1 * told
    # Each variable's own divergence is a lower bound.
    assert told > max(kl_divergence(one, other, name) for name in one.schema.names)
    assert kl_divergence(one, other, seed=1) == pytest.approx(told, abs=8 * told.standard_error)


@pytest.mark.parametrize("seed", range(5))
def test_no_measure_minds_the_order_of_components(seed):
    one, other = uniform_entries(4, 3, 3, seed=seed), uniform_entries(4, 3, 3, seed=seed + 100)
    order = np.random.default_rng(seed).permutation(3)
    again = permuted(other, order)
    assert factor_mse(one, again) == pytest.approx(factor_mse(one, other), rel=1e-12)
    assert mean_relative_error(one, again) == pytest.approx(mean_relative_error(one, other), rel=1e-9)
    assert kl_divergence(one, again) == pytest.approx(kl_divergence(one, other), rel=1e-9)
    assert factor_mse(one, permuted(one, order)) == 0
    np.testing.assert_array_equal(
        permuted(one, order).weights[match_components(one, permuted(one, order))], one.weights
    )


def test_factor_mse_by_hand():
    schema = Schema((Variable("a", "xy"), Variable("b", "xy")))
    truth = JointPMF([0.5, 0.5], [[[1, 0], [0, 1]], [[1, 0], [0, 1]]], schema)
    estimate = JointPMF([0.6, 0.4], [[[0, 1], [1, 0]], [[0.1, 0.8], [0.9, 0.2]]], schema)
    # Components swap; weights differ by 0.1 each, the second factor by 0.2 and 0.1 in two entries each.
    assert factor_mse(truth, estimate) == pytest.approx(0.02 + (2 * 0.04 + 2 * 0.01) / (2 * 2))


def test_the_best_matching_is_the_best_of_all():
    from itertools import permutations

    one, other = uniform_entries(3, 4, 4, seed=1), uniform_entries(3, 4, 4, seed=2)

    def distance(order):
        return np.square(one.stacked - other.stacked[:, order]).sum()

    best = min(permutations(range(4)), key=lambda order: distance(list(order)))
    assert match_components(one, other).tolist() == list(best)


def test_five_hundred_variables():
    one, other = dirichlet_rows(500, 5, 3, seed=0), dirichlet_rows(500, 5, 3, seed=1)
    assert mean_relative_error(one, one) < 1e-7
    told = mean_relative_error(one, other)
    assert math.isfinite(told)
    # Two joints that hardly meet: ‖X − X̂‖² is the sum of their squares, in logs.
    assert told > 0.9
    nearly = JointPMF.from_stacked(one.schema, np.array([0.3, 0.3, 0.4]), one.stacked)
    # Components hardly overlap, so that the error is one of weights, each by its component's norm.
    logs = sum(np.log(np.square(factor).sum(axis=0)) for factor in one.factors)
    norms = np.exp(logs - logs.max())
    expected = np.sqrt((norms * (nearly.weights - 1 / 3) ** 2).sum() / (norms / 9).sum())
    assert mean_relative_error(one, nearly) == pytest.approx(expected, rel=1e-3)


def test_joints_that_do_not_meet():
    schema = Schema((Variable("a", "xy"), Variable("b", "xy")))
    one = JointPMF([1], [[[1], [0]], [[1], [0]]], schema)
    other = JointPMF([1], [[[0], [1]], [[1], [0]]], schema)
    assert mean_relative_error(one, other) == pytest.approx(math.sqrt(2))
    assert kl_divergence(one, other) == math.inf
    assert total_variation(one, other, ["a", "b"]) == 1


def test_total_variation_of_anything_with_marginals():
    pmf = dirichlet_rows(3, 4, 2)
    records = draw_records(pmf, 2000, observed=0.8)
    tables = tw.count(records)
    assert 0 < total_variation(records, pmf, ["x1", "x2"]) < 0.1
    assert total_variation(records, tables, ["x1", "x2"]) == pytest.approx(0, abs=1e-12)
    assert total_variation(tables, pmf, "x1") == total_variation(pmf, tables, "x1")


def test_what_cannot_be_compared():
    one = dirichlet_rows(3, 4, 2)
    for measure in (factor_mse, mean_relative_error, kl_divergence):
        with pytest.raises(DataError, match="schema"):
            measure(one, dirichlet_rows(4, 4, 2))
    with pytest.raises(DataError, match="2 and 3"):
        factor_mse(one, dirichlet_rows(3, 4, 3))
    with pytest.raises(DataError, match="relative_to must be"):
        mean_relative_error(one, one, relative_to="both")
    with pytest.raises(UnknownNameError, match="no variable 'x9'"):
        kl_divergence(one, one, "x9")
    with pytest.raises(DataError, match="'v'"):
        total_variation(Records({"v": [1, 2]}), Records({"v": [1, 3]}), "v")
