"""The Kullback-Leibler fit of three-way tables reaches the same minimum as alternating directions."""

from itertools import pairwise

import numpy as np
import pytest
from reference import least_squares as slow

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError
from twoway.solvers import MLEAD, Evidence, Problem
from twoway.solvers.starts import random_start


@pytest.fixture(scope="module")
def tables():
    """Ten tables of 4 × 4 × 4 cells, many of them empty."""
    return tw.count(draw_records(dirichlet_rows(5, 4, 3, seed=2), 300, observed=0.7, seed=1), 3)


def shares(tables):
    """Return each table's shares, times its part of all records: what the objective weighs them by."""
    return {tuple(row): tables.array(index) / tables.totals.sum() for index, row in enumerate(tables.sets.tolist())}


def divergence(tables, weights, factors):
    """Return the mean divergence of the model from the tables, each weighted by its records."""
    value = 0.0
    for index, row in enumerate(tables.sets.tolist()):
        x, model = tables.array(index), slow.model(weights, factors, row)
        seen = x > 0
        value += x[seen] @ np.log(x[seen] / tables.totals[index] / model[seen])
    return value / tables.totals.sum()


def ratio(x, model):
    """Return the derivative of the divergence by the model."""
    return -np.divide(x, model, out=np.zeros_like(x), where=x > 0)


def minimize_block(tables, weights, factors, block, rounds=3000):
    """Return the divergence after minimising over one block alone: -1 for the weights, else a factor."""
    weights, factors = weights.copy(), [factor.copy() for factor in factors]
    x = {row: one for row, one in shares(tables).items() if block < 0 or block in row}
    for _ in range(rounds):
        by_weights, by_factors = slow.gradient(x, weights, factors, ratio)
        if block < 0:
            weights *= -by_weights
            weights /= weights.sum()
        else:
            factors[block] *= -by_factors[block]
            factors[block] /= factors[block].sum(axis=0)
    return divergence(tables, weights, factors)


def solve(tables, rank, **options):
    return MLEAD(**options).solve(Problem(Evidence(tables.schema, tables=tables, threads=1), rank))


@pytest.fixture(scope="module")
def solution(tables):
    return solve(tables, 3, tol=1e-12)


def test_the_objective_is_the_mean_divergence(tables, solution):
    assert solution.objectives[-1] == pytest.approx(
        divergence(tables, solution.pmf.weights, solution.pmf.factors), rel=1e-9
    )
    assert all(after <= before + 1e-12 for before, after in pairwise(solution.objectives))


@pytest.mark.slow
@pytest.mark.parametrize("block", [-1, 0, *(pytest.param(block, marks=pytest.mark.slow) for block in range(1, 5))])
def test_exact_minimisation_of_a_block_gains_nothing(block, tables, solution):
    pmf = solution.pmf
    gained = solution.objectives[-1] - minimize_block(tables, pmf.weights, pmf.factors, block)
    assert gained <= 1e-7 * solution.objectives[-1]
    # The check can fail: after a few passes there is much to gain.
    early = solve(tables, 3, max_iter=4)
    gained = early.objectives[-1] - minimize_block(tables, early.pmf.weights, early.pmf.factors, block, rounds=20)
    assert gained > 1e-4 * solution.objectives[-1]


def test_no_block_can_gain_more_than_its_tangent_allows(tables, solution):
    pmf = solution.pmf
    slopes = slow.gradient(shares(tables), pmf.weights, pmf.factors, ratio)
    assert max(slow.largest_gains(pmf.weights, pmf.factors, *slopes)) <= 1e-4 * solution.objectives[-1]


@pytest.mark.slow
def test_no_worse_than_plain_multiplicative_updates(tables):
    """All blocks in turn, one step each, from the same start, until nothing moves."""
    problem = Problem(Evidence(tables.schema, tables=tables, threads=1), 3)
    found = MLEAD(tol=1e-12).solve(problem)
    start = random_start(tables.schema, 3, problem.evidence.sets.shares, problem.seeds)
    weights, factors, x = start.weights.copy(), [factor.copy() for factor in start.factors], shares(tables)
    assert divergence(tables, weights, factors) == pytest.approx(found.objectives[0], rel=1e-9)
    for _ in range(1500):
        by_weights, by_factors = slow.gradient(x, weights, factors, ratio)
        weights = weights * -by_weights
        factors = [factor * -slope for factor, slope in zip(factors, by_factors, strict=True)]
        weights /= weights.sum()
        factors = [factor / factor.sum(axis=0) for factor in factors]
    assert found.objectives[-1] <= divergence(tables, weights, factors) * (1 + 1e-6)


def test_tables_weigh_by_their_records():
    """A table of few records gives way to those of many."""
    codes = draw_records(dirichlet_rows(4, 3, 2, seed=1), 4000, observed=1.0, seed=1).codes()
    counts = tw.count(tw.Records(codes), 3)
    noisy = counts.flat.copy()
    noisy[counts.starts[0] : counts.starts[1]] = np.random.default_rng(0).permutation(27)
    distances = []
    for factor in (1e-3, 1e3):
        scaled = noisy.copy()
        scaled[counts.starts[0] : counts.starts[1]] *= factor
        pmf = tw.fit(tw.Tables(counts.schema, counts.sets, scaled), rank=2, solver="mle-ad", starts=2)
        distances.append(tw.total_variation(counts, pmf, list(counts.names[1])))
    assert distances[0] < 0.05 < distances[1]


def test_a_chain_goes_on_with_the_records():
    records = draw_records(dirichlet_rows(5, 4, 3, seed=2), 1000, observed=0.7, seed=1)
    pmf = tw.fit(records, rank=3, solver="mle-ad+em")
    assert pmf.report.solver == "mle-ad+em"
    alone = tw.fit(records, rank=3, solver="mle-ad", starts=1)
    assert pmf.report.log_likelihood > alone.report.log_likelihood


def test_two_variables_are_too_few():
    with pytest.raises(DataError, match="three-way tables need at least 3 variables; got 'a', 'b'"):
        tw.fit({"a": [0, 1], "b": [1, 0]}, rank=1, solver="mle-ad")
