"""Random starts, and smoothing for uninformative data."""

import numpy as np
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError
from twoway.solvers import find_solver
from twoway.solvers.auto import Auto
from twoway.solvers.base import NO_SMOOTHING, Smoothing, Watch
from twoway.solvers.cells import CellSets
from twoway.solvers.coupled_nmf import CoupledNMF
from twoway.solvers.latent import anneal, fit_cells
from twoway.solvers.starts import random_start


@pytest.fixture(scope="module")
def sets():
    truth = dirichlet_rows(8, 6, 6, seed=3)
    return CellSets.of_tables(tw.count(draw_records(truth, 1000, observed=0.5, seed=4)), "equal", 1)


def descend(sets, start, max_iter=1500):
    _, path = fit_cells(sets, start, smoothing=NO_SMOOTHING, max_iter=max_iter, tol=1e-7, task="test", watch=Watch())
    return path.objectives


def test_annealed_starts_end_lower(sets):
    plain, annealed = [], []
    for seed in range(12):
        start = random_start(sets.schema, 6, sets.shares, (seed, 0))
        plain.append(descend(sets, start)[-1])
        start = anneal(sets, start, smoothing=NO_SMOOTHING, max_iter=1500, watch=Watch())
        annealed.append(descend(sets, start)[-1])
    assert np.mean(annealed) < np.mean(plain)
    assert min(annealed) <= min(plain) + 1e-6


def test_annealing_takes_at_most_half_of_the_passes(sets):
    start = random_start(sets.schema, 6, sets.shares, (0, 0))
    assert anneal(sets, start, smoothing=NO_SMOOTHING, max_iter=71, watch=Watch()) is start
    moved = anneal(sets, start, smoothing=NO_SMOOTHING, max_iter=72, watch=Watch())
    assert np.abs(moved.stacked - start.stacked).max() > 0.01


def test_a_start_is_kept_where_annealing_would_make_all_components_one(sets):
    start = random_start(sets.schema, 6, sets.shares, (0, 0))
    assert anneal(sets, start, smoothing=Smoothing(1e6, 1e6), max_iter=1500, watch=Watch()) is start


def test_many_variables_do_not_begin_as_one_component():
    truth = dirichlet_rows(60, 5, 20, seed=0)
    many = CellSets.of_tables(tw.count(draw_records(truth, 5000, observed=0.5, seed=1)), "counts", 1)
    start = random_start(many.schema, 20, many.shares, (0, 0))
    start = anneal(many, start, smoothing=NO_SMOOTHING, max_iter=1500, watch=Watch())
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


def test_starts_do_not_change_the_smoothing():
    given = Auto(smoothing=Smoothing(1.0, 2.0))
    assert find_solver(given, 3) == Auto(3, Smoothing(1.0, 2.0))
    assert find_solver(given, None) is given


def test_ctd_does_not_smooth():
    with pytest.raises(DataError, match=r"'ctd' .* smoothing"):
        tw.fit(dirichlet_rows(4, 3, 2, seed=1).sample(50, seed=0), rank=2, solver="ctd", smoothing=1.0)


def test_mirror_descent_does_not_smooth():
    solver = CoupledNMF(update="mirror")
    with pytest.raises(DataError, match=r"mirror descent .* update='em'"):
        tw.fit(dirichlet_rows(4, 3, 2, seed=1).sample(50, seed=0), rank=2, solver=solver, smoothing=1.0)
