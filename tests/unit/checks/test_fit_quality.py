"""Fit quality: misfits are found, and good fits are not reported."""

import json

import numpy as np
import pandas as pd
import pytest
from hidden_trees import random_tree
from random_models import sized
from scipy.stats import kstest

import twoway as tw
from twoway.checks.fit_quality import fit_quality, modelled_shares
from twoway.datasets import dirichlet_rows, draw_records
from twoway.model.trees import Trees
from twoway.tables.tables import Tables


def test_p_values_of_the_true_model_are_uniform():
    truth = dirichlet_rows(6, 3, 2, seed=1)
    p_values = [
        fit_quality(truth, draw_records(truth, 3000, observed=0.7, seed=seed))[("x1", "x2")].p_value
        for seed in range(80)
    ]
    assert kstest(p_values, "uniform").pvalue > 0.01


def test_a_fit_of_the_true_rank_has_no_misfits():
    for seed in range(2):
        records = draw_records(dirichlet_rows(7, 4, 3, seed=seed), 4000, observed=0.6, seed=seed)
        quality = fit_quality(tw.fit(records, rank=3, starts=3, smoothing=1), records)
        assert quality.misfits == ()
        assert "as well as chance allows" in str(quality)


def test_the_pair_that_depends_is_named():
    random = np.random.default_rng(0)
    frame = pd.DataFrame({name: random.integers(0, 3, 4000).astype(str) for name in "abcd"})
    frame["echo of c"] = np.where(random.uniform(size=4000) < 0.2, frame["c"], random.integers(0, 3, 4000).astype(str))
    quality = fit_quality(tw.fit(frame, rank=1), frame)
    assert [pair.variables for pair in quality.misfits] == [("c", "echo of c")]
    worst = quality.pairs[0]
    assert worst.observed > worst.modelled
    assert worst.worst_cell[0] == worst.worst_cell[1]
    assert worst.residual > 5
    assert quality["echo of c", "c"] == worst
    assert "1 of 10 tables are off" in str(quality)
    assert "echo of c" in str(quality).splitlines()[1]


def test_pearsons_statistic_by_hand():
    schema = tw.Schema((tw.Variable("a", (0, 1)), tw.Variable("b", (0, 1))))
    pmf = tw.JointPMF([1], [[[0.5], [0.5]], [[0.4], [0.6]]], schema)
    frame = pd.DataFrame({"a": [0] * 50 + [1] * 50, "b": [0] * 30 + [1] * 20 + [0] * 20 + [1] * 30})
    pair = fit_quality(pmf, frame).pairs[0]
    expected, seen = np.array([20, 30, 20, 30]), np.array([30, 20, 20, 30])
    assert pair.chi_square == pytest.approx(((seen - expected) ** 2 / expected).sum())
    assert pair.degrees == 3
    assert pair.total_variation == pytest.approx(0.1)
    assert pair.worst_cell == (0, 0)
    assert pair.residual == pytest.approx((0.3 - 0.2) / np.sqrt(0.2 * 0.8 / 100))


def test_rare_cells_are_merged():
    schema = tw.Schema((tw.Variable("a", tuple(range(50))), tw.Variable("b", tuple(range(50)))))
    pmf = tw.JointPMF([1], [np.full((50, 1), 0.02)] * 2, schema)
    # 200 records in 2500 cells: each is expected less than once, and no count is a surprise.
    pair = fit_quality(pmf, draw_records(pmf, 200, observed=1.0)).pairs[0]
    assert pair.degrees == 1
    assert pair.p_value > 0.99


def test_observed_cells_of_probability_zero_are_misfits():
    schema = tw.Schema((tw.Variable("a", (0, 1)), tw.Variable("b", (0, 1))))
    pmf = tw.JointPMF([0.5, 0.5], [np.eye(2), np.eye(2)], schema)
    quality = fit_quality(pmf, {"a": [0, 1, 0] * 20, "b": [0, 1, 1] * 20})
    assert quality.pairs[0].p_value == 0
    described = json.loads(json.dumps(quality.to_dict(), allow_nan=False))
    assert described["pairs"][0]["chi_square"] is None
    assert described["n_off"] == 1


def test_tables_and_weighted_records():
    truth = dirichlet_rows(4, 3, 2, seed=5)
    records = draw_records(truth, 2000, observed=0.8)
    assert fit_quality(truth, tw.count(records)).pairs == fit_quality(truth, records).pairs
    # Another weight is no more evidence; twice the count is.
    weighted = tw.Records(records, weights=np.full(2000, 0.31))
    assert fit_quality(truth, weighted).pairs[0].chi_square == pytest.approx(
        fit_quality(truth, records).pairs[0].chi_square
    )
    assert fit_quality(truth, weighted).note == ""
    unequal = tw.Records(records, weights=np.where(np.arange(2000) < 1000, 1.0, 3.0))
    quality = fit_quality(truth, unequal)
    assert quality.note == "2,000 records count as 1,600 because of their weights"
    assert quality.pairs[0].records == tw.count(records)[quality.pairs[0].variables].total > quality.pairs[0].total
    doubled = tw.Records(records, counts=np.full(2000, 2))
    assert fit_quality(truth, doubled).pairs[0].total == 2 * fit_quality(truth, records).pairs[0].total


def test_nothing_to_compare_and_other_variables():
    pmf = dirichlet_rows(2, 2, 1)
    assert "nothing to compare" in str(fit_quality(pmf, {"x1": [0, None], "x2": [None, 1]}))
    other = tw.count({"a": [0, 1], "b": [1, 0]})
    with pytest.raises(tw.DataError, match="different variables"):
        fit_quality(pmf, other)
    with pytest.raises(tw.DataError, match="was compared"):
        fit_quality(pmf, {"x1": [0], "x2": [1]})[("x1", "x3")]


@pytest.mark.parametrize("sets", [[[0, 1], [1, 2], [2, 5], [3, 4]], [[0, 1, 4], [2, 3, 5]]])
def test_shares_of_a_hidden_tree_are_its_marginals(sets):
    schema = sized((3, 2, 4, 3, 2, 3))
    pmf = tw.JointPMF.from_trees(schema, Trees(np.ones(1), (random_tree((-1, 0, 1, 1)),)))
    sizes = [np.prod([schema.sizes[index] for index in some]) for some in sets]
    shares = modelled_shares(pmf, Tables(schema, sets, np.ones(sum(sizes))))
    marginals = [pmf.marginal([schema.names[index] for index in some]).array.ravel() for some in sets]
    np.testing.assert_allclose(shares, np.concatenate(marginals), rtol=1e-12)
