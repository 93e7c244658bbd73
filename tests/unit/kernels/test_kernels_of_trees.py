"""The E-step of hidden trees: the sums over all states of all hidden variables, written out."""

import itertools
import math

import numpy as np
import pytest

from twoway.kernels.lanes import lane_layout
from twoway.kernels.trees import TreeRows, expect_tree

PARENTS = (-1, 0, 0, 1)
HOMES = (0, 1, 2, 3, 3, 1)
SIZES = (3, 2, 4, 3, 2, 3)
N_STATES = (3, 2, 4, 3)
NONE = np.empty(0)


class Tree:
    """Random parameters of a tree, as the kernels take them."""

    def __init__(self, parents=PARENTS, homes=HOMES, sizes=SIZES, n_states=N_STATES, seed=0, concentration=1.0):
        rng = np.random.default_rng(seed)
        self.parents, self.homes, self.n_states = parents, homes, n_states
        self.offsets = np.cumsum([0, *sizes])
        firsts = np.cumsum([0, 1, *n_states[1:]])
        width, self.prototype = lane_layout(max(n_states))
        self.rows = TreeRows(np.array(parents), firsts, np.repeat(np.array(homes), sizes))
        self.theta = np.zeros((firsts[-1] + sum(sizes), width))
        self.theta[0, : n_states[0]] = rng.dirichlet(np.full(n_states[0], concentration))
        for k in range(1, len(parents)):
            columns = rng.dirichlet(np.full(n_states[k], concentration), size=n_states[parents[k]]).T
            self.theta[firsts[k] : firsts[k + 1], : n_states[parents[k]]] = columns
        for n, (size, home) in enumerate(zip(sizes, homes, strict=True)):
            columns = rng.dirichlet(np.full(size, concentration), size=n_states[home]).T
            first = firsts[-1] + self.offsets[n]
            self.theta[first : first + size, : n_states[home]] = columns

    def row(self, variable, code):
        return self.rows.firsts[-1] + self.offsets[variable] + code

    def block(self, records):
        """Return pointers and cells of records: a code, or -1 for a missing cell, for each variable."""
        cells = [[self.offsets[n] + code for n, code in enumerate(record) if code >= 0] for record in records]
        return np.cumsum([0, *map(len, cells)]), np.array(
            list(itertools.chain(*cells)), dtype=np.min_scalar_type(self.offsets[-1] - 1)
        )

    def expect(self, records, weights=()):
        counts = np.zeros_like(self.theta)
        return counts, self.run(records, weights, counts, NONE[:, None, None], NONE)

    def run(self, records, weights, *results):
        given = np.array(weights, dtype=float)
        return expect_tree((*self.block(records), given), self.rows, self.theta, results, self.prototype)

    def posterior(self, records):
        shares = np.full((len(records), len(self.parents), self.theta.shape[1]), -1.0)
        log_prob = np.empty(len(records))
        self.run(records, (), NONE[:, None], shares, log_prob)
        alone, none = np.empty(len(records)), np.empty((len(records), 0, self.theta.shape[1]))
        self.run(records, (), NONE[:, None], none, alone)
        np.testing.assert_array_equal(alone, log_prob)
        return shares, log_prob

    def brute_force(self, record):
        """Return expected counts, log-probability and the shares of the states of one record."""
        counts = np.zeros_like(self.theta)
        shares = np.zeros((len(self.parents), self.theta.shape[1]))
        firsts = self.rows.firsts
        observed = [(n, code) for n, code in enumerate(record) if code >= 0]
        for states in itertools.product(*map(range, self.n_states)):
            rows = [(0, states[0])]
            rows += [(firsts[k] + states[k], states[self.parents[k]]) for k in range(1, len(self.parents))]
            rows += [(self.row(n, code), states[self.homes[n]]) for n, code in observed]
            probability = math.prod(self.theta[row] for row in rows)
            for row in rows:
                counts[row] += probability
            shares[range(len(states)), states] += probability
        total = counts[0].sum()
        return counts / total, math.log(total), shares / total

    def is_barren(self, record):
        """Return which hidden variables have no observed cell at or below them."""
        seen = {self.homes[n] for n, code in enumerate(record) if code >= 0}
        for k in reversed(range(1, len(self.parents))):
            if k in seen:
                seen.add(self.parents[k])
        return [k for k in range(len(self.parents)) if k not in seen]


def random_records(n, seed=0, missing=0.4):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(size, size=n) for size in SIZES])
    return np.where(rng.random(codes.shape) < missing, -1, codes)


@pytest.mark.parametrize("parents", [(-1, 0, 0, 1), (-1, 0, 1, 2), (-1, 0, 0, 0)])
def test_counts_are_sums_over_all_states(parents):
    assert_counts_are_sums_over_all_states(Tree(parents))


@pytest.mark.slow  # lanes of their own are compiled for each
@pytest.mark.parametrize("n_states", [(7, 2, 5, 3), (3, 11, 2, 2), (2, 3, 15, 2), (18, 2, 3, 2)])
def test_counts_of_many_states(n_states):
    assert_counts_are_sums_over_all_states(Tree(n_states=n_states))


def assert_counts_are_sums_over_all_states(tree):
    for record in [*random_records(20), [-1, -1, -1, 1, -1, -1], [2, 1, 3, 2, 1, 2]]:
        if max(record) < 0:
            continue
        counts, value = tree.expect([record])
        expected, log_probability, _ = tree.brute_force(record)
        for k in tree.is_barren(record):  # what nothing was observed of is not counted
            expected[tree.rows.firsts[k] : tree.rows.firsts[k + 1]] = 0.0
        assert value == pytest.approx(log_probability, rel=1e-14)
        np.testing.assert_allclose(counts, expected, rtol=1e-12, atol=1e-15)


def test_posterior_is_a_sum_over_all_states():
    tree = Tree()
    records = [*random_records(20), [-1] * 6]
    shares, log_prob = tree.posterior(records)
    for record, found, value in zip(records, shares, log_prob, strict=True):
        _, log_probability, expected = tree.brute_force(record)
        assert value == pytest.approx(log_probability, rel=1e-14, abs=1e-15)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_records_add():
    tree, records = Tree(), random_records(200)  # more than a batch
    weights = np.random.default_rng(1).random(200)
    weights[::7] = 0.0
    counts, value = tree.expect(records, weights)
    apart = [tree.expect([record]) for record in records]
    np.testing.assert_allclose(counts, sum(w * c for w, (c, _) in zip(weights, apart, strict=True)), rtol=1e-11)
    assert value == pytest.approx(sum(w * v for w, (_, v) in zip(weights, apart, strict=True)), rel=1e-13)
    np.testing.assert_allclose(tree.expect(records)[0], sum(c for c, _ in apart), rtol=1e-11)


def test_an_empty_record_changes_nothing():
    tree = Tree()
    counts, value = tree.expect([[-1] * 6])
    assert value == 0.0
    assert not counts.any()


@pytest.mark.parametrize("code", [0, 1])
def test_an_impossible_record(code):
    tree = Tree()
    tree.theta[tree.row(4, code)] = 0.0
    record = [0, 0, 0, 0, code, 0]
    counts, value = tree.expect([record])
    assert value == -math.inf
    assert not counts.any()
    shares, log_prob = tree.posterior([record, [0] * 3 + [-1] * 3])
    assert log_prob[0] == -math.inf
    assert np.isnan(shares[0]).all()
    assert np.isfinite(shares[1]).all()


@pytest.mark.parametrize(("n", "scale"), [(85, 1e-12), pytest.param(2000, 1.0, marks=pytest.mark.slow)])
def test_long_records_do_not_underflow(n, scale):
    tree = Tree((-1, *range(n - 1)), range(n), (3,) * n, (2,) * n)
    tree.theta[tree.row(0, 0) :] *= scale
    record = np.random.default_rng(0).integers(3, size=n)
    counts, value = tree.expect([record])
    shares, log_prob = tree.posterior([record])
    # The same by a forward pass in logarithms.
    log_theta = np.log(tree.theta[:, :2])
    logs = np.zeros(2)
    for k in reversed(range(n)):
        logs = logs + log_theta[tree.row(k, record[k])]
        if k:
            first = tree.rows.firsts[k]
            logs = np.logaddexp.reduce(log_theta[first : first + 2] + logs[:, None], axis=0)
    assert value == pytest.approx(np.logaddexp.reduce(logs + log_theta[0]), rel=1e-13)
    assert log_prob[0] == value
    np.testing.assert_allclose(shares[0].sum(axis=1), 1.0, rtol=1e-12)
    middle = n // 2
    np.testing.assert_allclose(counts[tree.row(middle, record[middle]), :2], shares[0, middle, :2], rtol=1e-9)


def test_tiny_entries_are_calculated_in_logarithms():
    # After a, state 0 is 1e-290 as likely as state 1; b, whose home copies a's, then rules state 1 out.
    tree = Tree((-1, 0), (0, 1), (2, 2), (2, 2))
    first = tree.rows.firsts[1]
    tree.theta[0, :2] = 0.5
    tree.theta[first : first + 2, :2] = np.eye(2)
    tree.theta[tree.row(0, 0), :2] = 1e-290, 1.0
    tree.theta[tree.row(0, 1), :2] = 1.0, 0.0
    tree.theta[tree.row(1, 0), :2] = 1e-290, 0.0
    tree.theta[tree.row(1, 1), :2] = 1.0, 1.0
    counts, value = tree.expect([[0, 0]])
    assert value == pytest.approx(math.log(0.5) - 2 * 290 * math.log(10), rel=1e-14)
    assert counts[0, :2].tolist() == [1.0, 0.0]
    shares, log_prob = tree.posterior([[0, 0]])
    assert log_prob[0] == pytest.approx(value)
    assert shares[0, :, 0].tolist() == [1.0, 1.0]
