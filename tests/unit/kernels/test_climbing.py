"""Compiled EM follows the steps of the kernels that it is made of, and ends where EM stands still."""

import numpy as np
import pytest
from reference import em as twin

from twoway.kernels.climbing import climb
from twoway.kernels.compression import compress
from twoway.kernels.lanes import lane_layout, pad_to_lanes

SIZES, RANK = (3, 2, 2), 2
OFFSETS = np.array([0, 3, 5, 7])


@pytest.fixture(scope="module")
def records():
    """Return the pointers, cells and weights of records of two groups of people, with missing cells."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 80)
    codes = np.stack([np.where(rng.random(80) < 0.8, group, rng.integers(0, size, 80)) for size in SIZES], axis=1)
    codes = np.where(rng.random(codes.shape) < 0.2, -1, codes).astype(np.int32)
    pointers, cells = np.zeros(81, dtype=np.int64), np.empty((codes >= 0).sum(), dtype=np.uint8)
    compress(codes, OFFSETS, pointers, cells)
    return pointers, cells, rng.integers(1, 4, 80).astype(float)


def start(seed):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(RANK)), np.vstack([rng.dirichlet(np.ones(size), RANK).T for size in SIZES])


def climb_from(records, weights, factors, passes, tol=0.0):
    """Return the weights and factors, their log-likelihood, and whether the climb settled."""
    shares = np.concatenate([np.full(size, 1 / size) for size in SIZES])
    theta = pad_to_lanes(weights, factors)
    end, log_likelihood, settled = climb(records, theta, shares, OFFSETS, RANK, passes, tol, lane_layout(RANK)[1])
    return end[0, :RANK], end[1:, :RANK], log_likelihood, settled


@pytest.mark.parametrize("seed", range(3))
def test_log_likelihood_is_that_of_the_end_and_never_falls(records, seed):
    reached = -np.inf
    for passes in range(1, 40):
        weights, factors, log_likelihood, _ = climb_from(records, *start(seed), passes)
        assert weights.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(np.add.reduceat(factors, OFFSETS[:-1]), 1.0)
        assert log_likelihood == pytest.approx(twin.expect(*records, weights, factors)[1], rel=1e-12)
        assert log_likelihood >= reached - 1e-9
        reached = log_likelihood


def test_a_climb_settles_where_em_stands_still(records):
    weights, factors, log_likelihood, settled = climb_from(records, *start(0), 5000, tol=1e-10)
    assert settled
    again = climb_from(records, weights, factors, 3)
    assert again[2] == pytest.approx(log_likelihood, abs=1e-8)
    np.testing.assert_allclose(again[0], weights, atol=1e-3)


def test_a_climb_of_too_few_passes_has_not_settled(records):
    assert not climb_from(records, *start(0), 4, tol=1e-10)[3]
