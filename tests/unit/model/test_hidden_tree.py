"""Hidden trees answer like the joint that they describe, written out cell by cell."""

import itertools
import math

import numpy as np
import pytest
from hidden_trees import SIZES, random_tree

from twoway.model.hidden_tree import HiddenTree

SHAPES = {
    "star": (-1, 0, 0, 0),
    "chain": (-1, 0, 1, 2),
    "branches": (-1, 0, 0, 1),
}


def brute_force_joint(tree):
    """Return the joint by a sum over all states of all hidden variables."""
    joint = np.zeros([len(factor) for factor in tree.factors])
    for states in itertools.product(*map(range, tree.n_states)):
        probability = tree.weights[states[0]]
        for child, transition in enumerate(tree.transitions, start=1):
            probability *= transition[states[child], states[tree.parents[child]]]
        product = np.array(probability)
        for factor, home in zip(tree.factors, tree.homes, strict=True):
            product = product[..., None] * factor[:, states[home]]
        joint += product
    return joint


@pytest.fixture(params=SHAPES)
def tree(request):
    return random_tree(SHAPES[request.param])


@pytest.fixture
def truth(tree):
    return brute_force_joint(tree)


def subsets():
    return [s for n in (1, 2, 3, 6) for s in itertools.combinations(range(6), n)] + [(4, 0), (5, 2, 1), (3, 5, 4, 0)]


def marginal_of(joint, variables):
    others = tuple(axis for axis in range(joint.ndim) if axis not in variables)
    return joint.sum(axis=others).transpose(np.argsort(np.argsort(variables)))


def test_joint(tree, truth):
    np.testing.assert_allclose(tree.joint(), truth, rtol=1e-13)
    for variable in range(6):
        np.testing.assert_allclose(tree.of_variables([variable]).joint(), marginal_of(truth, [variable]), rtol=1e-13)


def test_every_part(tree, truth):
    for variables in subsets():
        np.testing.assert_allclose(tree.of_variables(variables).joint(), marginal_of(truth, variables), rtol=1e-12)


def test_part_is_small(tree):
    for pair in itertools.permutations(range(6), 2):
        assert tree.of_variables(pair).n_hidden == 1
    chain = random_tree(SHAPES["chain"], homes=(0, 1, 2, 3, 3, 1))
    assert chain.of_variables((0, 1, 2)).n_hidden == 1
    assert tree.of_variables(range(6)).n_hidden <= tree.n_hidden


def test_root_does_not_matter(tree, truth):
    for root in range(tree.n_hidden):
        np.testing.assert_allclose(tree.rooted_at(root).joint(), truth, rtol=1e-13)


def test_log_joint(tree, truth):
    codes = np.unravel_index(np.arange(truth.size), truth.shape)
    np.testing.assert_allclose(tree.log_joint(codes), np.log(truth.ravel()), rtol=1e-13)


def given(tree, allowed):
    sizes = {variable: len(tree.factors[variable]) for variable in allowed}
    return tree.reweighted({v: np.isin(np.arange(sizes[v]), codes).astype(float) for v, codes in allowed.items()})


@pytest.mark.parametrize("evidence", [{0: [1]}, {2: [0, 3], 4: [1]}, {0: [0, 1, 2]}, {1: [0], 3: [2], 5: [0, 1]}])
def test_given(tree, truth, evidence):
    allowed = {variable: np.array(codes) for variable, codes in evidence.items()}
    mask = np.ones_like(truth)
    for variable, codes in evidence.items():
        keep = np.zeros(SIZES[variable])
        keep[codes] = 1.0
        mask *= keep.reshape([-1 if axis == variable else 1 for axis in range(6)])
    known, log_probability = given(tree, allowed)
    assert math.exp(log_probability) == pytest.approx((truth * mask).sum(), rel=1e-13)
    np.testing.assert_allclose(known.joint(), truth * mask / (truth * mask).sum(), rtol=1e-12, atol=1e-18)
    rows = {v: np.log(tree.factors[v][codes].sum(axis=0)) for v, codes in allowed.items()}
    assert tree.log_mass(rows) == pytest.approx(log_probability, rel=1e-13)


def test_given_with_zeros():
    # b copies a and c copies b: states that the evidence rules out must not spread NaN.
    copy = np.eye(2)
    tree = HiddenTree((-1, 0), (0, 1, 1), np.array([0.3, 0.7]), (copy,), (copy, copy, np.array([[1, 0.5], [0, 0.5]])))
    known, log_probability = given(tree, {1: np.array([1])})
    assert math.exp(log_probability) == pytest.approx(0.7)
    np.testing.assert_allclose(known.joint(), tree.joint() * [[[0], [1]]] / 0.7, rtol=1e-13)
    assert given(tree, {0: np.array([0]), 1: np.array([1])})[1] == -math.inf


def test_beliefs(tree, truth):
    rng = np.random.default_rng(1)
    likelihoods = [rng.random(size) for size in SIZES[:5]] + [np.ones(SIZES[5])]
    rows = np.zeros((6, max(tree.n_states)))
    for row, likelihood, factor in zip(rows, likelihoods, tree.factors, strict=True):
        row[: factor.shape[1]] = np.log(likelihood @ factor)
    beliefs = tree.log_beliefs(rows)
    for variable, (home, factor) in enumerate(zip(tree.homes, tree.factors, strict=True)):
        weighted = truth
        for other in range(5):
            if other != variable:
                weighted = weighted * likelihoods[other].reshape([-1 if axis == other else 1 for axis in range(6)])
        without = (beliefs[home] - rows[variable])[: factor.shape[1]]
        np.testing.assert_allclose(factor @ np.exp(without), marginal_of(weighted, [variable]), rtol=1e-12)


def test_beliefs_with_zeros():
    copy = np.eye(2)
    tree = HiddenTree((-1, 0, 0), (0, 1, 2), np.array([0.3, 0.7]), (copy, np.array([[0.5, 0], [0.5, 1]])), (copy,) * 3)
    possible = np.log([[1.0, 1], [1, 1], [1, 0.2]])
    shares = [[0.3 * 0.6, 0.7 * 0.2], [0.3 * 0.6, 0.7 * 0.2], [0.15, 0.2 * 0.85]]
    np.testing.assert_allclose(np.exp(tree.log_beliefs(possible)), shares, rtol=1e-13)
    possible[1, 1] = -np.inf
    shares = [[0.18, 0], [0.18, 0], [0.15, 0.03]]
    np.testing.assert_allclose(np.exp(tree.log_beliefs(possible)), shares, rtol=1e-13)
    possible[2, 0] = possible[0, 0] = -np.inf
    assert (tree.log_beliefs(possible) == -np.inf).all()


def test_draws_follow_the_joint(tree, truth):
    codes = tree.draw(200_000, np.random.default_rng(0))
    counts = np.bincount(np.ravel_multi_index(codes, truth.shape), minlength=truth.size)
    expected = 200_000 * truth.ravel()
    large = expected > 5
    chi_squared = ((counts - expected) ** 2 / expected)[large].sum()
    assert abs(chi_squared - large.sum()) < 5 * math.sqrt(2 * large.sum())


def test_one_hidden_variable_is_a_mixture():
    tree = random_tree((-1,), n_states=(4,), homes=(0,) * 6)
    truth = np.einsum("f,af,bf,cf,df,ef,gf->abcdeg", tree.weights, *tree.factors)
    np.testing.assert_allclose(tree.joint(), truth, rtol=1e-13)
    assert tree.of_variables((2, 0)).n_hidden == 1


def test_many_variables_do_not_underflow():
    n = 3000
    parents = (-1, *range(n - 1))
    tree = random_tree(parents, n_states=(3,) * n, sizes=(4,) * n, homes=range(n))
    codes = tree.draw(5, np.random.default_rng(0))
    logs = tree.log_joint(codes)
    assert np.isfinite(logs).all()
    assert (logs < -3000).all()
    known, log_probability = given(tree, {v: codes[v][:1] for v in range(n)})
    assert log_probability == pytest.approx(logs[0], rel=1e-12)
    assert known.of_variables([17]).joint()[codes[17][0]] == pytest.approx(1.0)
