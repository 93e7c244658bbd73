"""The kernels of raking against loops in Python."""

from itertools import pairwise

import numpy as np
import pytest
from reference.raking import badness
from reference.raking import rake as slow_rake

from twoway.kernels.raking import rake, swap

STARTS = np.array([0, 3, 5, 9])
N_CELLS = 9


def random_cells(rng, n_persons):
    """Return a cell of each of three tables for each person, some outside of the last table."""
    cells = np.stack([rng.integers(*ends, n_persons) for ends in pairwise(STARTS)])
    cells[2, rng.random(n_persons) < 0.2] = N_CELLS
    return cells.astype(np.int32)


@pytest.mark.parametrize("seed", range(5))
def test_a_pass_is_that_of_the_loops(seed):
    rng = np.random.default_rng(seed)
    cells, weights = random_cells(rng, 60), rng.random(60)
    low = rng.random(N_CELLS) * (rng.random(N_CELLS) > 0.2)  # some cells must be empty
    high = low + rng.random(N_CELLS) * rng.integers(0, 2, N_CELLS)
    powers = np.array([1.0, 0.5, 1.0])
    blocks, totals = np.array([-1, -1, -1, -1, -1, 0, 0, 1, 1]), 0.1 + rng.random(2)
    expected, off = slow_rake(cells, weights, low, high, blocks, totals, STARTS, powers)
    found, found_off = weights.copy(), np.zeros(3)
    rake(cells, found, low, high, blocks, totals, STARTS, powers, found_off)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(found_off, off, rtol=1e-12)
    assert (found[cells[0] == np.flatnonzero(high[:3] == 0)[0]] == 0).all() if (high[:3] == 0).any() else True


@pytest.mark.parametrize("seed", range(5))
def test_every_exchange_is_a_gain(seed):
    rng = np.random.default_rng(seed)
    cells, chosen = np.ascontiguousarray(random_cells(rng, 40).T), rng.random(40) < 0.3
    goals, importance = rng.random(N_CELLS) * 6, np.array([1.0, 3.0, 1.0])
    counts = np.bincount(cells[chosen].ravel(), minlength=N_CELLS + 1)[:N_CELLS]
    off = np.append(counts - goals, 0.0)
    before, n_exchanged = badness(cells, chosen, goals, importance), 0
    for leaving, entering in rng.integers(0, 40, (200, 2)):
        trial, n_chosen = chosen.copy(), np.count_nonzero(chosen)
        trial[[leaving, entering]] = False, True
        allowed = chosen[leaving] and not chosen[entering]
        is_gain = allowed and badness(cells, trial, goals, importance) < before - 1e-9
        done = swap(cells, chosen, off, importance, np.array([leaving]), np.array([entering]))
        assert done == is_gain
        assert np.count_nonzero(chosen) == n_chosen
        n_exchanged += done
        before = badness(cells, chosen, goals, importance)
        counts = np.bincount(cells[chosen].ravel(), minlength=N_CELLS + 1)[:N_CELLS]
        np.testing.assert_allclose(off[:N_CELLS], counts - goals, atol=1e-9)
    assert n_exchanged > 0
