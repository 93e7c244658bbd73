"""Random starts, and smoothing for uninformative data."""

import numpy as np
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError
from twoway.solvers import find_solver
from twoway.solvers.auto import Auto
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.coupled_nmf import CoupledNMF
from twoway.solvers.em import annealed_by_em, fit_cells_by_em
from twoway.solvers.loop import Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.starts import naive_bayes_start, random_start
from twoway.solvers.watch import Watch


@pytest.fixture(scope="module")
def sets():
    truth = dirichlet_rows(8, 6, 6, seed=3)
    return CellSets.of_tables(tw.count(draw_records(truth, 1000, observed=0.5, seed=4)), "equal", 1)


def descend(sets, start, max_iter=1500):
    path = fit_cells_by_em(sets, start, Smoothing(), Loop("test", max_iter, 1e-7))
    return path.objectives


@pytest.mark.slow
def test_annealed_starts_end_lower(sets):
    plain, annealed = [], []
    for seed in range(12):
        start = random_start(sets.schema, 6, sets.shares, (seed, 0))
        plain.append(descend(sets, start)[-1])
        start = annealed_by_em(sets, start, Smoothing(), 1500, Watch())
        annealed.append(descend(sets, start)[-1])
    assert np.mean(annealed) < np.mean(plain)
    assert min(annealed) <= min(plain) + 1e-6


def test_annealing_takes_at_most_half_of_the_passes(sets):
    start = random_start(sets.schema, 6, sets.shares, (0, 0))
    assert annealed_by_em(sets, start, Smoothing(), 71, Watch()) is start
    moved = annealed_by_em(sets, start, Smoothing(), 72, Watch())
    assert np.abs(moved.stacked - start.stacked).max() > 0.01


def test_a_start_is_kept_where_annealing_would_make_all_components_one(sets):
    start = random_start(sets.schema, 6, sets.shares, (0, 0))
    assert annealed_by_em(sets, start, Smoothing(1e6, 1e6), 1500, Watch()) is start


def test_many_variables_do_not_begin_as_one_component():
    truth = dirichlet_rows(50, 5, 20, seed=0)  # cells of one byte, as in other tests: one kernel fewer to compile
    many = CellSets.of_tables(tw.count(draw_records(truth, 5000, observed=0.5, seed=1)), "counts", 1)
    start = random_start(many.schema, 20, many.shares, (0, 0))
    start = annealed_by_em(many, start, Smoothing(), 1500, Watch())
    assert np.ptp(start.stacked, axis=1).max() > 0.1


@pytest.mark.slow
def test_weak_dependence_is_still_found():
    """Three cells a record, a thousand records: between fitting chance and seeing nothing there is little room."""
    gains, information = [], []
    for seed in (0, 101, 108):
        truth = dirichlet_rows(15, 10, 10, seed=seed)
        records = draw_records(truth, 1000, observed=0.2, seed=1000 + seed)
        held_out = draw_records(truth, 20_000, observed=0.2, seed=2000 + seed)
        fits = [tw.fit(records, rank=rank) for rank in (10, 1)]
        gains.append(np.mean(fits[0].log_prob(held_out) - fits[1].log_prob(held_out)))
        information.append(fits[0].mutual_information(*records.schema.names[:2]))
    assert min(gains) > 0.001
    assert min(information) > 1e-5


@pytest.mark.slow
def test_pure_chance_costs_little():
    losses = []
    for seed in range(4):
        coins, others = (
            np.random.default_rng([seed, part]).integers(0, 4, (size, 6)) for part, size in enumerate((300, 9000))
        )
        fits = [tw.fit(coins, rank=rank) for rank in (1, 5)]
        losses.append(np.mean(fits[0].log_prob(others) - fits[1].log_prob(others)))
    assert np.mean(losses) < 0.005
    assert max(losses) < 0.02


def test_starts_of_a_given_solver_are_replaced_only_where_some_are_asked_for():
    given = Auto(n_starts=5)
    assert find_solver(given, 3) == Auto(3)
    assert find_solver(given, None) is given


def test_ctd_does_not_smooth():
    with pytest.raises(DataError, match=r"'ctd' .* smoothing"):
        tw.fit(dirichlet_rows(4, 3, 2, seed=1).sample(50, seed=0), rank=2, solver="ctd", smoothing=1.0)


def test_mirror_descent_does_not_smooth():
    solver = CoupledNMF(update="mirror")
    with pytest.raises(DataError, match=r"mirror descent .* update='em'"):
        tw.fit(dirichlet_rows(4, 3, 2, seed=1).sample(50, seed=0), rank=2, solver=solver, smoothing=1.0)


def test_components_of_naive_bayes_are_the_categories_of_the_last_variable():
    """Each has the counts of its own records, with the smoothing in each cell; records without a label do not count."""
    columns = {"a": [0, 0, 1, None, 1, 1], "b": [2, 0, 1, 1, None, 2], "label": ["x", "x", "x", "y", "y", None]}
    pmf = naive_bayes_start(tw.Records(columns), 0.5)
    np.testing.assert_allclose(pmf.weights, np.array([3.5, 2.5]) / 6)
    np.testing.assert_allclose(pmf.factors[0], np.array([[2.5, 0.5], [1.5, 1.5]]) / [4, 2])
    np.testing.assert_allclose(pmf.factors[1], np.array([[1.5, 0.5], [1.5, 1.5], [1.5, 0.5]]) / [4.5, 2.5])
    np.testing.assert_array_equal(pmf.factors[2], np.eye(2))
