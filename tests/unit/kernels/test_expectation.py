"""The EM kernels equal their reference versions, for every cell type, rank, kind of weights and record size."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reference import em as twin
from strategies import examples

from twoway.kernels.compression import compress, compressed_as_previous, compressed_keys, expand, gather_compressed
from twoway.kernels.expectation import expect, expect_memberships, expected_log_sum
from twoway.kernels.lanes import lane_layout, pad_to_lanes
from twoway.kernels.maximization import extrapolate, log_prior, maximize

RANKS = (1, 3, 4, 5, 12, 16, 17, 20, 33)
DTYPES = (np.uint8, np.uint16, np.uint32)


def make_problem(rank, sizes=(3, 1, 4, 2), n_records=12, observed=0.7, seed=0, dtype=np.uint8, weighted=False):
    """Return sizes, pointers, cells, record weights (None if unweighted), weights and factors."""
    random = np.random.default_rng(seed)
    factors = np.vstack([random.dirichlet(np.ones(size), rank).T for size in sizes])
    seen = random.random((n_records, len(sizes))) < observed
    codes = np.where(seen, np.floor(random.random(seen.shape) * sizes), -1).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    pointers = np.zeros(n_records + 1, dtype=np.int64)
    cells = np.empty(seen.sum(), dtype=dtype)
    compress(codes, offsets, pointers, cells)
    record_weights = random.integers(0, 4, n_records) * 0.5 if weighted else None
    return sizes, pointers, cells, record_weights, random.dirichlet(np.ones(rank)), factors


def run_expect(pointers, cells, record_weights, weights, factors):
    """Return the kernel's counts, without the padding, and log-likelihood."""
    theta = pad_to_lanes(weights, factors)
    counts = np.zeros_like(theta)
    given = np.empty(0) if record_weights is None else np.asarray(record_weights, dtype=float)
    log_likelihood = expect((pointers, cells, given), theta, counts, lane_layout(len(weights))[1])
    assert not counts[:, len(weights) :].any(), "the padding must stay empty"
    return counts[:, : len(weights)], log_likelihood


def run_posterior(pointers, cells, weights, factors):
    n = len(pointers) - 1
    memberships, log_prob = np.full((n, len(weights)), np.nan), np.full(n, np.nan)
    expect_memberships(
        pointers, cells, pad_to_lanes(weights, factors), memberships, log_prob, lane_layout(len(weights))[1]
    )
    return memberships, log_prob


def assert_same_as_twin(pointers, cells, record_weights, weights, factors):
    """What `twoway.kernels.expectation` promises; 1e-11 is the rounding of the twin's logarithms."""
    counts, log_likelihood = run_expect(pointers, cells, record_weights, weights, factors)
    expected, expected_value = twin.expect(pointers, cells, record_weights, weights, factors)
    total_weight = len(pointers) - 1 if record_weights is None else np.sum(record_weights)
    np.testing.assert_allclose(counts, expected, rtol=1e-11, atol=1e-170 * total_weight)
    np.testing.assert_allclose(log_likelihood, expected_value, rtol=1e-12, atol=1e-13)
    memberships, log_prob = run_posterior(pointers, cells, weights, factors)
    expected_memberships, expected_log_prob = twin.posterior(pointers, cells, weights, factors)
    np.testing.assert_allclose(memberships, expected_memberships, rtol=1e-11, atol=1e-170)
    np.testing.assert_allclose(log_prob, expected_log_prob, rtol=1e-12, atol=1e-13)


def smallest_type(n_cells):
    return np.uint8 if n_cells <= 256 else np.uint16


def one_record(n_cells):
    """Return the pointers and cells of one record that shows every cell."""
    return np.array([0, n_cells], dtype=np.int64), np.arange(n_cells, dtype=smallest_type(n_cells))


# The E-step


def table_cells(order, sizes, rank, seed=0, first=0):
    """Return the cells of some tables as weighted records, neighbours sharing all but their last cell."""
    random = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = [
        [offsets[variable] + code for variable, code in zip(variables, codes, strict=True)]
        for variables in itertools.combinations(range(len(sizes)), order)
        for codes in np.ndindex(*(sizes[variable] for variable in variables))
    ]
    keep = np.flatnonzero(random.random(len(rows)) < 0.8)
    cells = np.concatenate([np.zeros(first, dtype=np.int64), np.array(rows)[keep].ravel()])
    pointers = first + order * np.arange(keep.size + 1, dtype=np.int64)
    factors = np.vstack([random.dirichlet(np.ones(size), rank).T for size in sizes])
    weights = random.integers(0, 4, keep.size) * 0.7
    return pointers, cells.astype(np.uint8), weights, random.dirichlet(np.ones(rank)), factors


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("rank", [1, 3, 10, 16, 17])
def test_table_cells(order, rank):
    assert_same_as_twin(*table_cells(order, (3, 1, 4, 2, 5), rank, first=5))


@pytest.mark.parametrize("scale", [1e-80, 1e-160, 0.0])
def test_table_cells_that_underflow(scale):
    pointers, cells, record_weights, weights, factors = table_cells(2, (3, 4, 2), 4)
    factors[1:5] *= scale
    counts, log_likelihood = run_expect(pointers, cells, record_weights, weights, factors)
    expected, expected_value = twin.expect(pointers, cells, record_weights, weights, factors)
    np.testing.assert_allclose(counts, expected, rtol=1e-11)
    np.testing.assert_allclose(log_likelihood, expected_value, rtol=1e-12)


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=20))
def test_sums_of_logarithms(numbers):
    weights = np.linspace(0.5, 3.0, len(numbers))
    ours, theirs = expected_log_sum(weights, np.array(numbers)), weights @ np.log(numbers)
    assert ours == pytest.approx(theirs, rel=1e-14, abs=1e-14 * np.abs(weights * np.log(numbers)).sum() + 1e-16)


def test_the_logarithm_of_one_is_zero():
    assert expected_log_sum(np.ones(3), np.ones(3)) == 0.0


@pytest.mark.parametrize("rank", RANKS)
def test_layout_uses_full_lanes(rank):
    width, prototype = lane_layout(rank)
    assert rank <= width < rank + 16
    assert width % len(prototype) == 0
    assert len(prototype) % 4 == 0
    assert len(prototype) <= 16
    theta = pad_to_lanes(np.ones(rank), np.ones((2, rank)))
    assert theta.shape == (3, width)
    assert theta.sum() == 3 * rank


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("weighted", [False, True])
def test_expectation_of_every_rank(rank, weighted):
    assert_same_as_twin(*make_problem(rank, weighted=weighted, seed=rank)[1:])


# Only records of more than 65,536 categories have the widest type, and a kernel of its own to be compiled.
CELL_TYPES = [*DTYPES[:-1], pytest.param(DTYPES[-1], marks=pytest.mark.slow)]


@pytest.mark.parametrize("dtype", CELL_TYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_expectation_of_every_cell_type(dtype, weighted):
    assert_same_as_twin(*make_problem(3, dtype=dtype, weighted=weighted)[1:])


@pytest.mark.parametrize(
    ("rank", "n_variables"), [*itertools.product([3, 17], [15, 16, 17, 33, 127, 128]), (3, 129), (3, 400)]
)
def test_long_records(rank, n_variables):
    sizes, dtype = (2,) * n_variables, smallest_type(2 * n_variables)
    problem = make_problem(rank, sizes, n_records=6, observed=0.97, seed=n_variables, dtype=dtype)
    assert_same_as_twin(*problem[1:])
    assert np.diff(problem[1]).max() > 0.8 * n_variables


def test_many_records_share_a_logarithm():
    """Unweighted records multiply up before a logarithm is taken, without underflow."""
    assert_same_as_twin(*make_problem(4, (9,) * 8, n_records=400, observed=0.9)[1:])


def test_cells_beyond_the_small_types():
    factors = np.random.default_rng(0).dirichlet(np.ones(70_000), 3).T
    pointers, cells = np.array([0, 1, 3], dtype=np.int64), np.array([69_999, 255, 65_536], dtype=np.uint32)
    assert_same_as_twin(pointers, cells, None, np.array([0.2, 0.3, 0.5]), factors)
    # The last row of the smallest type: one more than it can count.
    assert_same_as_twin(np.array([0, 1]), np.array([255], dtype=np.uint8), None, np.ones(3) / 3, factors[:256])
    assert_same_as_twin(np.array([0, 1]), np.array([65_535], dtype=np.uint16), None, np.ones(3) / 3, factors[:65_536])


def test_records_of_weight_zero_have_no_effect():
    _, pointers, cells, _, weights, factors = make_problem(5)
    record_weights = np.zeros(len(pointers) - 1)
    counts, log_likelihood = run_expect(pointers, cells, record_weights, weights, factors)
    assert not counts.any()
    assert log_likelihood == 0
    factors = factors.copy()
    factors[cells[0]] = 0.0  # even an impossible one
    assert run_expect(pointers, cells, record_weights, weights, factors)[1] == 0


def test_weights_are_records_repeated():
    _, pointers, cells, _, weights, factors = make_problem(5)
    twice = run_expect(pointers, cells, np.full(len(pointers) - 1, 2.0), weights, factors)
    once = run_expect(pointers, cells, None, weights, factors)
    np.testing.assert_allclose(twice[0], 2 * once[0], rtol=1e-13)
    assert twice[1] == pytest.approx(2 * once[1], rel=1e-13)


def test_counts_add_to_an_existing_file():
    _, pointers, cells, _, weights, factors = make_problem(4)
    theta = pad_to_lanes(weights, factors)
    counts = np.full_like(theta, 7.0)
    expect((pointers, cells, np.empty(0)), theta, counts, lane_layout(4)[1])
    np.testing.assert_allclose(counts[:, :4] - 7, twin.expect(pointers, cells, None, weights, factors)[0], atol=1e-12)


def test_pointers_need_not_start_at_zero():
    _, pointers, cells, _, weights, factors = make_problem(4)
    whole = run_expect(pointers, cells, None, weights, factors)
    parts = [run_expect(part, cells, None, weights, factors) for part in (pointers[:6], pointers[5:])]
    np.testing.assert_allclose(whole[0], parts[0][0] + parts[1][0], rtol=1e-13)
    assert parts[1][0].any()


def test_a_record_with_nothing_observed():
    weights, factors = np.array([0.25, 0.75]), np.ones((1, 2))
    pointers, cells = np.array([0, 0, 1], dtype=np.int64), np.array([0], dtype=np.uint8)
    memberships, log_prob = run_posterior(pointers, cells, weights, factors)
    np.testing.assert_allclose(memberships[0], weights, rtol=1e-15)
    assert log_prob[0] == pytest.approx(0, abs=1e-15)
    assert_same_as_twin(pointers, cells, None, weights, factors)


# Where products underflow


@pytest.mark.parametrize("n_cells", [2, 16, 17, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_tiny_entries(n_cells, weighted):
    random = np.random.default_rng(n_cells)
    factors = random.random((n_cells, 5)) * 1e-200
    record_weights = np.array([2.5]) if weighted else None
    assert_same_as_twin(*one_record(n_cells), record_weights, random.dirichlet(np.ones(5)), factors)


def test_tiny_weights_of_components():
    factors = np.random.default_rng(0).random((4, 3))
    assert_same_as_twin(*one_record(4), None, np.array([1e-300, 1e-310, 1.0 - 1e-10]), factors)
    assert_same_as_twin(*one_record(4), None, np.array([1e-200, 1e-220, 0.0]), factors * 1e-120)


@pytest.mark.parametrize("first", [slice(0, 3), slice(20, 23), slice(397, 400)])
def test_a_component_far_behind_may_lead_in_the_end(first):
    factors = np.full((400, 2), 1e-3)
    factors[:, 1] = 1.0
    factors[first, 1] = 1e-200  # 1e-600 against 1e-1200 in all
    assert_same_as_twin(*one_record(400), None, np.array([0.5, 0.5]), factors)
    memberships, log_prob = run_posterior(*one_record(400), np.array([0.5, 0.5]), factors)
    assert memberships[0, 1] == 1.0
    assert log_prob[0] == pytest.approx(np.log(0.5) - 600 * np.log(10), rel=1e-12)


@pytest.mark.parametrize("n_cells", [1, 16, 17, 250])
@pytest.mark.parametrize("rank", [1, 3, 17])
def test_impossible_records(n_cells, rank):
    random = np.random.default_rng(0)
    factors, weights = random.random((n_cells, rank)), random.dirichlet(np.ones(rank))
    factors[n_cells // 2] = 0.0
    memberships, log_prob = run_posterior(*one_record(n_cells), weights, factors)
    assert log_prob[0] == -np.inf
    np.testing.assert_array_equal(memberships[0], weights)
    for record_weights in (None, np.array([3.0])):
        counts, log_likelihood = run_expect(*one_record(n_cells), record_weights, weights, factors)
        assert log_likelihood == -np.inf
        assert not counts.any()


def test_an_impossible_record_does_not_spoil_the_others():
    weights, factors = np.array([0.4, 0.6]), np.array([[0.0, 0.0], [0.5, 0.25], [0.5, 0.75]])
    pointers, cells = np.array([0, 1, 2, 3], dtype=np.int64), np.array([1, 0, 2], dtype=np.uint8)
    counts, log_likelihood = run_expect(pointers, cells, None, weights, factors)
    assert log_likelihood == -np.inf
    assert counts[0].sum() == pytest.approx(2)


@pytest.mark.parametrize("n_cells", [5, 18, 250])
def test_exact_zeros_in_some_components(n_cells):
    random = np.random.default_rng(n_cells)
    factors = 0.5 * random.random((n_cells, 5))
    factors[random.integers(n_cells, size=3), [0, 2, 4]] = 0.0
    assert_same_as_twin(*one_record(n_cells), None, np.array([0.3, 0.1, 0.2, 0.4, 0.0]), factors)


@examples(50)
@given(
    exponents=st.lists(
        st.lists(st.sampled_from([0, 0, -1, -20, -100, -200, None]), min_size=3, max_size=3), max_size=70
    ),
    weights=st.sampled_from([(0.2, 0.3, 0.5), (0.0, 0.5, 0.5), (1e-200, 1e-30, 1.0)]),
)
@example(exponents=[[0, 0, -200], [0, -1, 0], [0, -200, -200]], weights=(0.0, 0.5, 0.5))
@example(exponents=[[0, 0, -20], [0, 0, -100], [0, -20, 0], [0, -20, -200], [0, -100, 0]], weights=(0.0, 0.5, 0.5))
@example(exponents=[[-300, -20, -20], [-20, -300, -300], [-20, -300, -315]], weights=(0.0, 0.5, 0.5))
@example(exponents=[[0, -20, None], [0, -315, 0], [0, -315, 0]], weights=(0.0, 0.5, 0.5))
def test_any_record(exponents, weights):
    """Entries of any size, None for an exact zero."""
    assert_same_as_twin(*record_of(exponents), None, np.array(weights), factors_of(exponents))


def record_of(exponents):
    return one_record(len(exponents))


def factors_of(exponents):
    return np.array([[0.0 if e is None else 0.7 * 10.0**e for e in row] for row in exponents]).reshape(-1, 3)


@pytest.mark.parametrize("record_weight", [1e-12, 1.0, 1e12])
def test_a_small_share_is_right_until_1e_150_of_the_record(record_weight):
    """The smallest share that is promised up to rounding, beside the smallest sum that is accepted as it is."""
    exponents = [[0, 0, -20], [0, 0, -100], [0, -20, 0], [0, -20, -170], [0, -109, 0]]
    counts, _ = run_expect(
        *record_of(exponents), np.array([record_weight]), np.array([0.0, 0.5, 0.5]), factors_of(exponents)
    )
    np.testing.assert_allclose(counts[0], record_weight * np.array([0.0, 1.0, 1e-141]), rtol=1e-12)


@pytest.mark.parametrize("smallest", [5e-324, 1e-320, 2.3e-308])
def test_the_smallest_doubles(smallest):
    """Entries as small as doubles get still make a possible record, to every digit they have."""
    factors = np.array([[0.3, 0.0], [smallest, 0.9], [0.7, 0.9], [smallest, 0.4]])
    memberships, log_prob = run_posterior(*one_record(4), np.array([0.2, 0.8]), factors)
    assert memberships[0].tolist() == [1.0, 0.0]
    assert log_prob[0] == pytest.approx(np.log(0.2 * 0.3 * 0.7) + 2 * np.log(smallest), rel=1e-14)
    assert_same_as_twin(*one_record(4), None, np.array([0.2, 0.8]), factors)
    assert_same_as_twin(*one_record(4), np.array([2.5]), np.array([0.2, 0.8]), factors)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [(0, 0, -1, -20, -100, -200), (0, 0, 0, -1, -50, -307, -315)])
@pytest.mark.parametrize("weighted", [False, True])
def test_fifty_thousand_records(spread, weighted):
    """Records as in `test_any_record`, in blocks of 20 with cells of their own, those of table cells among them."""
    random = np.random.default_rng(0)
    component_weights = ((0.2, 0.3, 0.5), (0.0, 0.5, 0.5), (1e-200, 1e-30, 1.0))
    for block in range(2_500):
        n_cells = int(random.integers(2, 4) if block % 2 else random.integers(0, 20))
        exponents = random.choice(np.array(spread, dtype=float), (20 * n_cells, 3))
        factors = np.where(random.random(exponents.shape) < 0.05, 0.0, 0.7 * 10.0**exponents)
        pointers, cells = n_cells * np.arange(21, dtype=np.int64), np.arange(20 * n_cells, dtype=np.uint16)
        record_weights = random.random(20) * 10.0 ** random.integers(-3, 4) if weighted else None
        assert_same_as_twin(pointers, cells, record_weights, np.array(component_weights[block % 3]), factors)


# The M-step


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("smoothing", [0.0, 2.5])
def test_maximization(rank, smoothing):
    sizes, pointers, cells, _, weights, factors = make_problem(rank, seed=rank)
    counts, _ = run_expect(pointers, cells, None, weights, factors)
    counts[1:4, 0] = 0.0  # a component that no record of the first variable supports
    marginal = np.concatenate([np.full(size, 1 / size) for size in sizes])
    pseudo_counts = np.concatenate([[smoothing], smoothing * marginal])
    padded = np.pad(counts, [(0, 0), (0, lane_layout(rank)[0] - rank)])
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    theta = maximize(padded, pseudo_counts, marginal, offsets, rank)
    np.testing.assert_allclose(theta[:, :rank], twin.maximize(counts, pseudo_counts, marginal, sizes), rtol=1e-13)
    assert not theta[:, rank:].any()
    np.testing.assert_allclose(log_prior(theta, pseudo_counts, rank), twin.log_prior(theta[:, :rank], pseudo_counts))


def test_maximization_without_any_counts():
    sizes, marginal = (2, 3), np.array([0.5, 0.5, 0.2, 0.3, 0.5])
    theta = maximize(np.zeros((6, 4)), np.zeros(6), marginal, np.array([0, 2, 5]), 2)
    np.testing.assert_allclose(theta[0, :2], 0.5)
    np.testing.assert_allclose(theta[1:, :2], marginal[:, None] * np.ones(2))
    np.testing.assert_allclose(theta[:, :2], twin.maximize(np.zeros((6, 2)), np.zeros(6), marginal, sizes))


def test_a_plain_em_step_never_lowers_the_likelihood():
    """The twins themselves: what the kernels are compared with is EM."""
    sizes, pointers, cells, _, weights, factors = make_problem(3, n_records=40)
    marginal = np.concatenate([np.full(size, 1 / size) for size in sizes])
    values = []
    for _ in range(15):
        counts, value = twin.expect(pointers, cells, None, weights, factors)
        theta = twin.maximize(counts, np.zeros(len(counts)), marginal, sizes)
        weights, factors = theta[0], theta[1:]
        values.append(value)
    assert (np.diff(values) >= -1e-10).all()
    assert values[-1] > values[0] + 0.1


# Extrapolation


def simplex_points(rank=3, sizes=(2, 3), seed=0):
    random = np.random.default_rng(seed)
    points = []
    for _ in range(3):
        theta = np.zeros((1 + sum(sizes), lane_layout(rank)[0]))
        theta[0, :rank] = random.dirichlet(np.ones(rank))
        theta[1:, :rank] = np.vstack([random.dirichlet(np.ones(size), rank).T for size in sizes])
        points.append(theta)
    return points


def test_extrapolation_is_squarem():
    start, first, second = simplex_points()
    # Steps that shrink by half each: the limit is at length 2.
    second = first + 0.5 * (first - start)
    theta, length = extrapolate(start, first, second, np.array([0, 2, 5]), 3, 100.0)
    assert length == pytest.approx(2.0)
    limit = start + 2 * (first - start)
    if (limit[:, :3] > 0.01 * second[:, :3]).all():
        np.testing.assert_allclose(theta[:, :3], limit[:, :3])
    assert extrapolate(start, first, second, np.array([0, 2, 5]), 3, 1.5)[1] == 1.5


@pytest.mark.parametrize("seed", range(20))
def test_extrapolation_stays_inside_the_simplex(seed):
    start, first, second = simplex_points(seed=seed)
    theta, length = extrapolate(start, first, second, np.array([0, 2, 5]), 3, 50.0)
    assert 1.0 <= length <= 50.0
    assert (theta[:, :3] > 0).all()
    np.testing.assert_allclose(theta[0, :3].sum(), 1)
    np.testing.assert_allclose(theta[1:3, :3].sum(axis=0), 1)
    np.testing.assert_allclose(theta[3:6, :3].sum(axis=0), 1)


def test_extrapolation_at_a_fixed_point():
    start, _, _ = simplex_points()
    theta, length = extrapolate(start, start, start, np.array([0, 2, 5]), 3, 50.0)
    assert length == 1.0
    np.testing.assert_allclose(theta, start)


# Compression


@pytest.mark.parametrize("dtype", CELL_TYPES)
def test_compress_and_expand(dtype):
    sizes = (3, 1, 4)
    random = np.random.default_rng(0)
    codes = np.floor(random.random((50, 3)) * (np.array(sizes) + 1)).astype(np.int32) - 1
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    pointers = np.zeros(51, dtype=np.int64)
    cells = np.empty((codes >= 0).sum(), dtype=dtype)
    compress(codes, offsets, pointers, cells)
    expected = [[offsets[n] + code for n, code in enumerate(row) if code >= 0] for row in codes]
    assert cells.tolist() == [cell for row in expected for cell in row]
    assert np.diff(pointers).tolist() == [len(row) for row in expected]
    again = np.full_like(codes, -1)
    expand(pointers, cells, np.repeat(np.arange(3, dtype=np.int32), sizes), offsets, again)
    np.testing.assert_array_equal(again, codes)
    rows = random.permutation(50)[:20]
    new_pointers = np.empty(21, dtype=np.int64)
    gathered = gather_compressed(pointers, cells, rows, new_pointers)
    assert gathered.tolist() == [cell for row in rows for cell in expected[row]]
    assert gathered.dtype == dtype
    keys = compressed_keys(pointers, cells, np.random.default_rng(0).integers(2**63, size=70_000, dtype=np.uint64))
    order = np.argsort(keys, kind="stable")
    assert (np.diff(np.diff(pointers)[order]) >= 0).all(), "records of one length stand together"
    same = compressed_as_previous(pointers, cells, order)
    assert same.any()
    told = [expected[row] for row in order]
    assert same.tolist() == [False] + [one == other for one, other in zip(told[1:], told[:-1], strict=True)]
    by_cells = {tuple(row): key for row, key in zip(expected, keys.tolist(), strict=True)}
    assert all(by_cells[tuple(row)] == key for row, key in zip(expected, keys.tolist(), strict=True))
    assert len(set(by_cells.values())) == len(by_cells)
