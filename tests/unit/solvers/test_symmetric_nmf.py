"""Symmetric NMF: missing blocks are imputed, the completed matrix is rotated onto the nonnegative orthant."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from random_models import random_pmf, sized

import twoway as tw
from twoway.datasets import dirichlet_rows
from twoway.errors import DataError
from twoway.model.comparison import factor_mse
from twoway.model.pmf import JointPMF
from twoway.report import StopReason
from twoway.solvers import Evidence, Problem, SymmetricNMF
from twoway.solvers.symmetric_nmf import PairResiduals, rotated_to_nonnegative
from twoway.tables.tables import Tables


def separable(n_variables=8, rank=3, seed=0):
    """Return a model in which some categories belong to one component each."""
    model = dirichlet_rows(n_variables, rank + 2, rank, seed=seed)
    factors = [factor.copy() for factor in model.factors]
    for factor in factors[:2]:
        factor[:rank] = 0.6 * np.eye(rank)
        factor[rank:] *= 0.4 / factor[rank:].sum(axis=0)
    return JointPMF(np.arange(2.0, rank + 2) / np.arange(2.0, rank + 2).sum(), factors, model.schema)


def exact_tables(pmf, missing=0.0, seed=0, total=1e12):
    """Return two-way tables of a model without noise, of which a share is missing."""
    pairs = np.array(list(combinations(range(len(pmf.schema)), 2)))
    chosen = np.random.default_rng(seed).permutation(len(pairs))[round(missing * len(pairs)) :]
    pairs = pairs[np.sort(chosen)]
    arrays = [np.asarray(pmf.marginal([pmf.schema.names[place] for place in pair])).ravel() for pair in pairs]
    return Tables(pmf.schema, pairs, total * np.concatenate(arrays))


def all_pairs(pmf):
    """Return the model's matrix of all pairs, with those of a variable and itself."""
    return (pmf.stacked * pmf.weights) @ pmf.stacked.T


def residuals_of(tables):
    evidence = Evidence(tables.schema, tables=tables, threads=None)
    totals = evidence.table_sets("counts").totals
    shares = totals / np.repeat(np.add.reduceat(totals, tables.schema.offsets[:-1]), tables.schema.sizes)
    return PairResiduals.of(evidence.pairs, shares), shares


def true_residuals(pmf, shares):
    """Return every block of a model, as the residuals are scaled."""
    return (all_pairs(pmf) - np.outer(shares, shares)) / np.sqrt(np.outer(shares, shares))


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.5])
@pytest.mark.parametrize(("n_categories", "rank"), [(6, 4), (3, 5)])
def test_imputed_blocks_are_the_true_ones_without_noise(missing, n_categories, rank):
    """Of 3 categories and 5 components, no single variable spans the space: groups of them do."""
    truth = dirichlet_rows(10, n_categories, rank, seed=3)
    residuals, shares = residuals_of(exact_tables(truth, missing, seed=1))
    np.testing.assert_allclose(residuals.imputed(rank - 1), true_residuals(truth, shares), atol=1e-6)
    v, _ = residuals.completed(rank - 1, 1e-14)
    np.testing.assert_allclose(v @ v.T, true_residuals(truth, shares), atol=1e-6)


def test_blocks_are_imputed_from_variables_of_very_many_categories():
    truth = random_pmf(sized([70, 80, 3, 3, 3]), 4, seed=2)
    tables = exact_tables(truth)
    residuals, shares = residuals_of(tables.part(np.array([names != ("v2", "v3") for names in tables.names])))
    np.testing.assert_allclose(residuals.imputed(3), true_residuals(truth, shares), atol=1e-6)


def test_observed_blocks_stay_as_they_are_and_hopeless_ones_are_independent():
    tables = tw.count(dirichlet_rows(4, 3, 2, seed=1).sample(300, seed=0))
    residuals, _ = residuals_of(tables.part(np.arange(6) < 3))  # x1 with each other: no path of three tables
    imputed = residuals.imputed(2)
    seen = residuals.values != 0
    assert seen.any()
    np.testing.assert_array_equal(imputed[seen], residuals.values[seen])
    assert not imputed[~seen].any()


@pytest.mark.parametrize("missing", [0.3, 0.5, 0.7])
def test_a_separable_model_is_recovered_from_the_tables_that_are_left(missing):
    truth = separable()
    pmf = tw.fit(exact_tables(truth, missing, seed=2), rank=3, solver="symmetric-nmf")
    assert factor_mse(truth, pmf) < 1e-12
    assert tw.mean_relative_error(truth, pmf) < 1e-6
    assert pmf.report.stop_reason is StopReason.DIRECT


def test_hidden_pairs_of_any_low_rank_are_recovered():
    truth = dirichlet_rows(8, 5, 4, seed=5)
    pmf = tw.fit(exact_tables(truth, 0.4), rank=4, solver="symmetric-nmf")
    for names in combinations(truth.schema.names, 2):
        np.testing.assert_allclose(np.asarray(pmf.marginal(names)), np.asarray(truth.marginal(names)), atol=1e-6)


def test_the_order_of_variables_does_not_matter():
    tables = tw.count(dirichlet_rows(6, 4, 3, seed=2).sample(2000, seed=0))
    names = ["x4", "x1", "x6", "x3", "x2", "x5"]
    one, other = (tw.fit(data, rank=3, solver="symmetric-nmf") for data in (tables, tables.subset(names)))
    for pair in combinations(names, 2):
        np.testing.assert_allclose(one.marginal(pair), other.marginal(pair), atol=1e-5)


def test_neither_completion_nor_rotation_ever_rises():
    residuals, _ = residuals_of(tw.count(dirichlet_rows(7, 4, 3, seed=2).sample(400, seed=0)))
    v, misfits = residuals.completed(2, 1e-3)
    assert len(misfits) > 3
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(misfits))
    u = np.column_stack([residuals.roots, v])
    h, distances = rotated_to_nonnegative(u, np.random.default_rng(0).random(u.shape), 100)
    assert distances[-1] < distances[0]
    assert all(after <= before + 1e-15 for before, after in pairwise(distances))
    assert (h >= 0).all()


def test_a_rotated_nonnegative_matrix_is_rotated_back():
    random = np.random.default_rng(1)
    h = np.vstack([np.eye(4), random.random((20, 4)) * (random.random((20, 4)) < 0.5)])
    turn = np.linalg.qr(random.normal(size=(4, 4)))[0]
    found, distances = rotated_to_nonnegative(h @ turn, h + 0.1 * random.random(h.shape), 5000)
    assert distances[-1] < 1e-12
    np.testing.assert_allclose(found, h, atol=1e-6)


def test_zero_cells_unseen_categories_and_ranks_beyond_all_categories():
    truth = random_pmf(sized([3, 2, 4, 3]), 2, zeros=0.4, seed=3)
    tables = exact_tables(truth, total=50.0)
    for rank in (1, 2, 14):
        pmf = tw.fit(tables, rank=rank, solver="symmetric-nmf")
        assert np.isfinite(pmf.stacked).all()
        assert np.isfinite(pmf.report.objective)


def test_it_starts_from_what_it_is_given():
    truth = separable(seed=4)
    evidence = Evidence(truth.schema, tables=exact_tables(truth), threads=None)
    solution = SymmetricNMF(n_rotations=1).solve(Problem(evidence, 3, start=truth, origin="spa"))
    assert solution.solver == "spa+symmetric-nmf"
    assert factor_mse(truth, solution.pmf) < 1e-12


def test_what_it_refuses():
    with pytest.raises(DataError, match=r"'symmetric-nmf' .*3000.*'coupled-nmf'"):
        tw.fit({"a": range(1500), "b": range(1500)}, rank=1, solver="symmetric-nmf")
    with pytest.raises(DataError, match="n_rotations"):
        SymmetricNMF(n_rotations=0)
    apart = tw.count(dirichlet_rows(4, 3, 2, seed=1).sample(100, seed=0)).part(np.isin(np.arange(6), [0, 5]))
    with pytest.raises(DataError, match="no table connects"):
        tw.fit(apart, rank=2, solver="symmetric-nmf")


def test_auto_starts_once_from_imputed_tables_where_some_are_missing():
    tables = tw.count(dirichlet_rows(5, 3, 2, seed=1).sample(500, seed=0))
    for given, expected in ((tables, 0), (tables.part(np.arange(10) > 2), 1)):
        report = tw.fit(given, rank=2, starts=3, smoothing=0.1).report
        solvers = [start.solver for start in report.starts]
        assert len(solvers) == 3
        assert solvers.count("symmetric-nmf+coupled-nmf") == expected
