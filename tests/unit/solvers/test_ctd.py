"""The least-squares fit of three-way tables: kernels against reference versions, and the minimum it reaches."""

import json
from itertools import combinations, pairwise

import numpy as np
import pytest
from random_models import random_pmf, sized
from reference import least_squares as slow

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError
from twoway.kernels import least_squares
from twoway.kernels.lanes import lane_layout, pad_to_lanes
from twoway.model.comparison import factor_mse
from twoway.solvers import CTD, Evidence, Problem
from twoway.tables.tables import Tables

SIZES = (3, 2, 5, 4, 1)
SCHEMA = sized(SIZES)
ALL = tuple(combinations(range(len(SIZES)), 3))


def as_tables(pmf, sets=ALL, noise=0.0, seed=0):
    """Return three-way tables near those of a PMF, of very different totals."""
    random = np.random.default_rng(seed)
    arrays = [slow.model(pmf.weights, pmf.factors, row) for row in sets]
    arrays = [(x + noise * x.mean() * random.random(x.shape)) * random.uniform(1, 1000) for x in arrays]
    return Tables(pmf.schema, np.array(sets), np.concatenate([x.ravel() for x in arrays]))


def shares(tables):
    return {tuple(row): tables.array(index) / tables.totals[index] for index, row in enumerate(tables.sets.tolist())}


def arguments(tables, rank):
    """Return tables as the kernels take them, and the prototype of the lanes."""
    flat = tables.flat / np.repeat(tables.totals, np.diff(tables.starts))
    arrays = (flat, tables.starts, tables.sets, tables.schema.offsets, *places_of(tables))
    return least_squares.ThreeWay(*arrays), lane_layout(rank)[1]


def places_of(tables):
    rows = [
        [3 * table + axis for table, row in enumerate(tables.sets.tolist()) for axis in range(3) if row[axis] == n]
        for n in range(len(tables.schema))
    ]
    return np.concatenate(rows), np.cumsum([0, *map(len, rows)])


def solve(tables, rank, start=None, seed=0, **options):
    evidence = Evidence(tables.schema, tables=tables, threads=1)
    return CTD(**options).solve(Problem(evidence, rank, seed, start=start))


# The kernels


@pytest.mark.parametrize("rank", [1, 3, 5, 12, 20])
@pytest.mark.parametrize("sets", [ALL, ((0, 1, 2), (1, 2, 4), (2, 3, 4))])
def test_contractions_equal_their_twin(rank, sets):
    pmf = random_pmf(SCHEMA, rank)
    tables = as_tables(pmf, sets, noise=1.0)
    arrays, prototype = arguments(tables, rank)
    theta = pad_to_lanes(pmf.weights, pmf.stacked)
    for index, (row, x) in enumerate(shares(tables).items()):
        for axis in range(3):
            sums = np.ones((SIZES[row[axis]], theta.shape[1]))
            least_squares.contract_least_squares(3 * index + axis, arrays, theta, sums, prototype)
            expected = 1 + slow.contract(x, pmf.factors, row, axis)
            np.testing.assert_allclose(sums[:, :rank], expected, rtol=1e-12)
            assert (sums[:, rank:] == 1).all()


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_the_value_is_half_the_squared_error(rank):
    pmf, tables = random_pmf(SCHEMA, rank), as_tables(random_pmf(SCHEMA, 2, seed=5), noise=2.0)
    arrays, prototype = arguments(tables, rank)
    theta = pad_to_lanes(pmf.weights, pmf.stacked)
    value = least_squares.sweep_least_squares(theta, arrays, rank, 0, prototype)
    np.testing.assert_array_equal(theta, pad_to_lanes(pmf.weights, pmf.stacked))
    expected = slow.half_squared_error(shares(tables), pmf.weights, pmf.factors)
    assert 0.5 * arrays.shares @ arrays.shares + value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_projections_equal_their_twin(seed):
    random = np.random.default_rng(seed)
    matrix = np.round(random.normal(scale=10.0 ** random.integers(-3, 3), size=(6, 4)), 2)  # with ties
    flat = matrix.copy().reshape(-1)
    for column in range(4):
        least_squares.project_on_simplex(flat, column, 4, 6)
    for column in range(4):
        np.testing.assert_allclose(flat.reshape(6, 4)[:, column], slow.project(matrix[:, column]), atol=1e-12)
    row = matrix[0].copy()
    least_squares.project_on_simplex(row, 0, 1, 4)
    np.testing.assert_allclose(row, slow.project(matrix[0]), atol=1e-12)
    assert row.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "point",
    [
        [0.411765675152625, 0.8894878343490003, 0.9340435159562497],
        [0.05202130106440961, -0.9479786989355903],
        [0.2708401854660657, 0.7857857007138075, 0.49742269548761897, 0.5293121601967704],
    ],
)
def test_entries_at_the_threshold_do_not_go_round_for_ever(point):
    """Rounding puts one entry in turns above and below the threshold that it would make itself."""
    projected = np.array(point)
    least_squares.project_on_simplex(projected, 0, 1, len(point))
    np.testing.assert_allclose(projected, slow.project(np.array(point)), atol=1e-12)


def random_block(seed, by_columns):
    """Return a block on its simplex and a quadratic function, some of them badly conditioned."""
    random = np.random.default_rng(seed)
    rank, rows = int(random.integers(1, 7)), int(random.integers(1, 9)) if by_columns else 1
    root = random.normal(size=(rank, rank)) * 10.0 ** random.uniform(-3, 1, rank)
    if by_columns:
        block = random.dirichlet(np.full(rows, 0.3), rank).T.copy()
    else:
        block = random.dirichlet(np.full(rank, 0.3), 1)
    return block, root @ root.T, random.normal(size=(rows, rank)) * np.diag(root @ root.T)


def room(block, q, v, by_columns):
    """Return by how much a block can still fall, at most: the function lies above its tangent."""
    slope = block @ q - v
    return (slope * block).sum() - slope.min(axis=0 if by_columns else 1).sum()


@pytest.mark.parametrize("by_columns", [True, False])
@pytest.mark.parametrize("n_inner", [1, 10])
def test_a_block_falls_until_it_is_solved_and_stays_on_its_simplex(by_columns, n_inner):
    for seed in range(200):
        block, q, v = random_block(seed, by_columns)
        found = block.copy()
        least_squares.minimize_on_simplex(found, q, v, by_columns, n_inner)
        before, after = least_squares.quadratic(block, q, v), least_squares.quadratic(found, q, v)
        assert after <= before
        assert after < before or room(block, q, v, by_columns) <= 1e-9 * abs(before)
        assert (found >= 0).all()
        np.testing.assert_allclose(found.sum(axis=0 if by_columns else 1), 1, atol=1e-12)


@pytest.mark.parametrize("by_columns", [True, False])
def test_a_block_ends_at_its_minimum_and_stays_there(by_columns):
    for seed in range(30):
        block, q, v = random_block(seed, by_columns)
        for _ in range(300):
            least_squares.minimize_on_simplex(block, q, v, by_columns, 100)
        assert room(block, q, v, by_columns) <= 1e-6 * np.abs((block @ q - v) * block).sum() + 1e-12
        again = block.copy()
        least_squares.minimize_on_simplex(again, q, v, by_columns, 3)
        np.testing.assert_allclose(again, block, atol=1e-5)


def test_a_sweep_improves_and_knows_where_it_ends():
    pmf, tables = random_pmf(SCHEMA, 3), as_tables(random_pmf(SCHEMA, 3, seed=5), noise=1.0)
    arrays, prototype = arguments(tables, 3)
    theta = pad_to_lanes(pmf.weights, pmf.stacked)
    values = [least_squares.sweep_least_squares(theta, arrays, 3, 0, prototype)]
    for _ in range(5):
        values.append(least_squares.sweep_least_squares(theta, arrays, 3, 10, prototype))
        again = least_squares.sweep_least_squares(theta, arrays, 3, 0, prototype)
        assert values[-1] == pytest.approx(again, rel=1e-12)
    assert all(after < earlier for earlier, after in pairwise(values))


# The solver


def test_at_the_end_no_block_can_gain():
    records = draw_records(dirichlet_rows(5, 4, 3, seed=2), 2000, observed=0.7, seed=1)
    tables = tw.count(records, 3)
    for seed in range(3):
        solution = solve(tables, 3, seed=seed, tol=1e-13)
        pmf, x = solution.pmf, shares(tables)
        assert solution.objectives[-1] == pytest.approx(slow.half_squared_error(x, pmf.weights, pmf.factors), rel=1e-10)
        by_weights, by_factors = slow.gradient(x, pmf.weights, pmf.factors, lambda x, model: model - x)
        gains = slow.largest_gains(pmf.weights, pmf.factors, by_weights, by_factors)
        assert max(gains) <= 1e-5 * solution.objectives[-1]
        # The check can fail: a few sweeps are not enough.
        early = solve(tables, 3, seed=seed, max_iter=3).pmf
        slopes = slow.gradient(x, early.weights, early.factors, lambda x, model: model - x)
        assert max(slow.largest_gains(early.weights, early.factors, *slopes)) > 1e-3 * solution.objectives[-1]


@pytest.mark.slow
def test_another_optimiser_finds_nothing_lower():
    """All blocks at once, on the simplices through shares of free positive numbers."""
    from scipy.optimize import minimize

    records = draw_records(dirichlet_rows(4, 3, 2, seed=3), 500, observed=0.8, seed=2)
    tables = tw.count(records, 3)
    solution = solve(tables, 2, tol=1e-13)
    x, offsets = shares(tables), tables.schema.offsets

    def error(free):
        free = np.square(free).reshape(-1, 2)
        factors = [free[1 + begin : 1 + end] for begin, end in pairwise(offsets)]
        return 1e3 * slow.half_squared_error(
            x, free[0] / free[0].sum(), [factor / factor.sum(axis=0) for factor in factors]
        )

    found = np.vstack([solution.pmf.weights, solution.pmf.stacked])
    started = [found, *(np.random.default_rng(seed).random(found.shape) for seed in range(4))]
    lowest = min(minimize(error, np.sqrt(one).ravel(), method="L-BFGS-B").fun / 1e3 for one in started)
    assert solution.objectives[-1] == pytest.approx(lowest, rel=1e-6)


@pytest.mark.parametrize("sets", [ALL, ((0, 1, 2), (0, 2, 3), (1, 2, 3), (2, 3, 4)), ((0, 1, 2), (2, 3, 4))])
def test_any_triples_of_any_sizes(sets):
    tables = as_tables(random_pmf(SCHEMA, 2, seed=3), sets)
    solution = min((solve(tables, 2, seed=seed) for seed in range(4)), key=lambda one: one.objectives[-1])
    assert solution.objectives[-1] < 1e-6
    for row, x in shares(tables).items():
        np.testing.assert_allclose(slow.model(solution.pmf.weights, solution.pmf.factors, row), x, atol=2e-3)


def test_exact_tables_give_the_model():
    truth = dirichlet_rows(5, 6, 3, seed=1)
    tables = as_tables(truth, tuple(combinations(range(5), 3)))
    solution = solve(tables, 3, tol=1e-12, max_iter=5000)
    assert factor_mse(truth, solution.pmf) < 1e-6
    assert 0 <= solution.objectives[-1] < 1e-9


def test_a_table_without_counts_is_unavailable_not_zero():
    codes = draw_records(dirichlet_rows(5, 3, 2, seed=4), 3000, observed=1.0, seed=1).codes()
    codes[:1500, 0] = -1
    codes[1500:, 1] = -1
    tables = tw.count(tw.Records(codes, missing=[-1]), 3)
    assert len(tables) == 7
    pmf = tw.fit(tables, rank=2, solver="ctd")
    for misfit in pmf.report.misfits:
        assert misfit.total_variation < 0.1
    assert np.asarray(pmf.marginal([tables.schema.names[0], tables.schema.names[1]])).sum() == pytest.approx(1)


def test_tables_have_equal_weight_whatever_their_totals():
    tables = as_tables(random_pmf(SCHEMA, 3, seed=3), noise=1.0)
    scaled = Tables(tables.schema, tables.sets, tables.flat * np.repeat(np.arange(1, 11), np.diff(tables.starts)))
    start = random_pmf(SCHEMA, 2)
    one, other = solve(tables, 2, start), solve(scaled, 2, start)
    assert one.objectives[-1] == pytest.approx(other.objectives[-1], rel=1e-9)


def test_unsupported_options_raise():
    tables = as_tables(random_pmf(SCHEMA, 2))
    with pytest.raises(DataError, match=r"'ctd'.*without smoothing"):
        tw.fit(tables, rank=2, solver="ctd", smoothing=1.0)
    with pytest.raises(DataError, match=r"at least 3 variables; got 'a', 'b'"):
        tw.fit({"a": [0, 1], "b": [1, 0]}, rank=1, solver="ctd")
    with pytest.raises(DataError, match="no table connects 'd'"):
        tw.fit({"a": [0, 1, None], "b": [1, 0, None], "c": [0, 1, None], "d": [None, None, 1]}, rank=1, solver="ctd")
    with pytest.raises(DataError, match="n_inner must be a whole number of at least 1"):
        CTD(n_inner=0)


def test_the_start_is_used():
    tables = as_tables(random_pmf(SCHEMA, 3, seed=3), noise=1.0)
    start = random_pmf(SCHEMA, 3, seed=8)
    first = solve(tables, 3, start).objectives[0]
    assert first == pytest.approx(slow.half_squared_error(shares(tables), start.weights, start.factors), rel=1e-10)


@pytest.mark.parametrize("name", ["n5_s1e4_a", "n5_s1e4_b"])
def test_within_a_thousandth_of_the_authors_value(name, reference_folder):
    """Theirs is 0.05 % below every PMF found here from many starts. Why is not known: their factors are not there."""
    run = json.loads((reference_folder / "reference.json").read_text())[name]
    codes = np.load(reference_folder / f"{name}.npz")["records"]
    pmf = tw.fit(tw.count(tw.Records(codes, missing=[-1]), 3), rank=run["rank"], solver="ctd", starts=1)
    assert pmf.report.objective <= run["ctd"]["half_squared_error"] * 1.001
