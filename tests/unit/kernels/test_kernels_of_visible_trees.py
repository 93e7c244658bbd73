"""The kernels of trees of visible variables equal sums over all cells, and tables written out."""

import itertools

import numpy as np
import pytest

from twoway.kernels.visible_trees import VisibleRows, expect_visible_tree, visible_pair_information

SIZES = (2, 3, 2, 3, 2)


@pytest.fixture(scope="module")
def tree():
    rng = np.random.default_rng(3)
    variables, parents = np.array([2, 0, 4, 1, 3]), np.array([-1, 0, 0, 1, 1])
    sizes = np.array(SIZES)[variables]
    widths = np.array([1, *sizes[parents[1:]]])
    tables = [rng.dirichlet(np.ones(size), size=n).T for size, n in zip(sizes, widths, strict=True)]
    firsts = np.cumsum([0, *(table.size for table in tables)])
    return VisibleRows(variables, parents, sizes, widths, firsts), tables


def cells_of(rows, whole):
    """Return which cell of the tables a whole record has in each."""
    own = np.array(whole)[rows.variables]
    above = [0, *own[rows.parents[1:]]]
    return rows.firsts[:-1] + own * rows.widths + above


def test_kernel_equals_the_sum_over_missing_cells(tree):
    rows, tables = tree
    flat = np.concatenate([table.ravel() for table in tables])
    codes = np.array(
        [[0, 2, 1, 0, 1], [-1, 2, 1, 0, 1], [-1, -1, -1, 2, -1], [0, -1, -1, -1, 1], [-1] * 5], dtype=np.int32
    )
    weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    expected_logs, expected_counts = [], np.zeros(len(flat))
    for record, weight in zip(codes, weights, strict=True):
        ways = [range(size) if code < 0 else [code] for code, size in zip(record, SIZES, strict=True)]
        places = [cells_of(rows, whole) for whole in itertools.product(*ways)]
        chances = np.array([flat[place].prod() for place in places])
        expected_logs.append(np.log(chances.sum()))
        for place, chance in zip(places, chances / chances.sum(), strict=True):
            expected_counts[place] += weight * chance
    counts, log_prob = np.zeros(len(flat)), np.empty(len(codes))
    expect_visible_tree(codes, weights, rows, flat, counts, log_prob)
    np.testing.assert_allclose(log_prob, expected_logs, atol=1e-12)
    np.testing.assert_allclose(counts, expected_counts, atol=1e-12)


def test_kernel_gives_impossible_records_no_counts(tree):
    rows, tables = tree
    flat = np.concatenate([table.ravel() for table in tables])
    flat[: SIZES[2]] = [0.0, 1.0]  # the root is never 0
    codes, counts, log_prob = (
        np.array([[0, 0, 0, 0, 0], [-1, 0, 0, 0, 0]], dtype=np.int32),
        np.zeros(len(flat)),
        np.empty(2),
    )
    expect_visible_tree(codes[1:], np.ones(1), rows, flat, counts, log_prob[1:])
    expect_visible_tree(codes[:1], np.zeros(1), rows, flat, counts, log_prob[:1])
    assert (log_prob == -np.inf).all()
    assert not counts.any()


def test_information_equals_that_of_the_table():
    rng = np.random.default_rng(0)
    offsets = np.cumsum([0, 2, 3, 2])
    counts = rng.integers(0, 5, (7, 7)).astype(np.float32)
    counts[0, 2:5] = 0
    counts, pseudo = counts + counts.T, np.full((7, 7), 0.25, dtype=np.float32)
    information = visible_pair_information(counts, pseudo, offsets)
    table = (counts + pseudo)[:2, 2:5].astype(float)
    shares = table / table.sum()
    plain = (shares * np.log(shares / np.outer(shares.sum(axis=1), shares.sum(axis=0)))).sum()
    assert information[0, 1] == information[1, 0] == pytest.approx(plain - 2 / (2 * table.sum()), abs=1e-6)
