"""Models of hidden trees, and mixtures of them, answer like the same joint written out as one mixture."""

import itertools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hidden_trees import random_tree

import twoway as tw
from twoway.errors import DataError, ImpossibleEvidenceError
from twoway.model.hidden_tree import HiddenTree
from twoway.model.information import pairwise_information
from twoway.model.mode import search_mode
from twoway.model.trees import Trees

SCHEMA = tw.Schema(
    tuple(
        tw.Variable(f"x{n}", tuple(range(size)), tuple(map(float, range(size))))
        for n, size in enumerate((3, 2, 4, 3, 2, 3))
    )
)
PARENTS = {"star": (-1, 0, 0, 0), "chain": (-1, 0, 1, 2), "branches": (-1, 0, 0, 1)}


def make(kind):
    if kind in PARENTS:
        return tw.JointPMF.from_trees(SCHEMA, Trees(np.ones(1), (random_tree(PARENTS[kind]),)))
    single = random_tree((-1,), seed=7, n_states=(3,), homes=(0,) * 6)
    trees = [random_tree(PARENTS["chain"]), random_tree(PARENTS["star"], seed=5), single]
    return tw.JointPMF.from_trees(SCHEMA, Trees.of(np.array([0.5, 0.2, 0.3]), trees))


@pytest.fixture(scope="module", params=[*PARENTS, "mixture"])
def pmf(request):
    return make(request.param)


@pytest.fixture(scope="module")
def truth(pmf):
    """The same joint as a mixture of independent variables, whose answers other tests check."""
    return tw.JointPMF.from_joint(pmf.trees.joint(), SCHEMA)


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(3)
    codes = np.column_stack([rng.integers(len(v), size=300) for v in SCHEMA])
    frame = pd.DataFrame(codes, columns=SCHEMA.names).astype("Int64")
    return frame.mask(rng.random(codes.shape) < 0.4)


EVENTS = [{"x0": 1}, {"x2": {0, 3}, "x4": 1}, {"x1": 0, "x3": 2, "x5": {0, 1}}, {v.name: 1 for v in SCHEMA}, {}]


def test_prob(pmf, truth):
    for event in EVENTS:
        assert pmf.prob(event) == pytest.approx(truth.prob(event), rel=1e-12)


def test_marginal(pmf, truth):
    for n in (1, 2, 3, 6):
        for names in itertools.permutations(SCHEMA.names, n) if n < 3 else itertools.combinations(SCHEMA.names, n):
            np.testing.assert_allclose(pmf.marginal(names), truth.marginal(names), rtol=1e-11)


def test_given(pmf, truth):
    for event in EVENTS[:3]:
        known, expected = pmf.given(event), truth.given(event)
        np.testing.assert_allclose(
            known.marginal(SCHEMA.names), expected.marginal(SCHEMA.names), atol=1e-15, rtol=1e-11
        )
        assert known.n_hidden == pmf.n_hidden


def test_given_twice_is_given_both(pmf):
    both = pmf.given({"x0": 1, "x3": 2})
    np.testing.assert_allclose(pmf.given({"x0": 1}).given({"x3": 2}).marginal("x5"), both.marginal("x5"), rtol=1e-12)


def test_impossible_evidence():
    copy = np.eye(2)
    schema = tw.Schema((tw.Variable("a", ("no", "yes")), tw.Variable("b", ("no", "yes"))))
    tree = HiddenTree((-1, 0), (0, 1), np.array([0.3, 0.7]), (copy,), (copy, copy))
    pmf = tw.JointPMF.from_trees(schema, Trees(np.ones(1), (tree,)))
    assert pmf.prob({"a": "no", "b": "yes"}) == 0.0
    with pytest.raises(ImpossibleEvidenceError, match="a = 'no'"):
        pmf.given({"a": "no", "b": "yes"})
    assert np.asarray(pmf.given({"a": "no"}).marginal("b")).tolist() == [1.0, 0.0]


def test_mode(pmf, truth):
    for names in (None, ["x0"], ["x5", "x1"], ["x1", "x2", "x3"]):
        mode, expected = pmf.mode(names), truth.mode(names)
        assert mode.values == expected.values
        assert mode.probability == pytest.approx(expected.probability, rel=1e-11)
        assert mode.proven


def test_mode_by_branch_and_bound(pmf):
    codes, log_probability, proven = search_mode(pmf.trees)
    expected = pmf.mode()
    assert proven
    assert codes == list(expected.values.values())
    assert math.exp(log_probability) == pytest.approx(expected.probability, rel=1e-11)


@pytest.mark.parametrize("seed", range(5))
def test_mode_with_zeros_by_branch_and_bound(seed):
    rng = np.random.default_rng(seed)
    trees = [random_tree(parents, seed=seed + 9 * n) for n, parents in enumerate(PARENTS.values())]
    for tree in trees:
        for matrix in (*tree.transitions, *tree.factors):
            matrix[rng.random(matrix.shape) < 0.4] = 0.0
            matrix[0, ~matrix.any(axis=0)] = 1.0
            matrix /= matrix.sum(axis=0)
    joint = Trees(np.array([0.5, 0.2, 0.3]), tuple(trees)).joint()
    codes, log_probability, proven = search_mode(Trees(np.array([0.5, 0.2, 0.3]), tuple(trees)))
    assert proven
    assert joint[tuple(codes)] == pytest.approx(joint.max(), rel=1e-9)
    assert math.exp(log_probability) == pytest.approx(joint.max(), rel=1e-9)


def test_mode_of_many_variables():
    n = 20
    tree = random_tree((-1, *range(n - 1)), n_states=(3,) * n, sizes=(4,) * n, homes=range(n), concentration=0.3)
    schema = tw.Schema(tuple(tw.Variable(f"x{v}", (0, 1, 2, 3)) for v in range(n)))
    pmf = tw.JointPMF.from_trees(schema, Trees(np.ones(1), (tree,)))
    mode = pmf.mode()
    assert mode.probability == pytest.approx(pmf.prob(mode.values), rel=1e-9)
    drawn = pmf.log_prob(pmf.sample(500))
    assert math.log(mode.probability) >= drawn.max() - 1e-9


def test_expect_entropy_and_information(pmf, truth):
    for name in SCHEMA.names:
        assert pmf.expect(name) == pytest.approx(truth.expect(name), rel=1e-12)
        assert pmf.entropy(name) == pytest.approx(truth.entropy(name), rel=1e-12)
    assert pmf.entropy(SCHEMA.names) == pytest.approx(truth.entropy(SCHEMA.names), rel=1e-12)
    for groups in (("x0", "x3"), (["x0", "x1"], "x4"), ("x2", ["x3", "x5"], "x1")):
        assert pmf.mutual_information(*groups) == pytest.approx(truth.mutual_information(*groups), rel=1e-9)
    np.testing.assert_allclose(
        pairwise_information(pmf.trees), pairwise_information(truth.trees), rtol=1e-8, atol=1e-14
    )


def test_sampled_entropy(pmf, monkeypatch):
    exact = pmf.entropy(SCHEMA.names)
    monkeypatch.setattr("twoway.model.mixture.MAX_CELLS", 10)
    estimate = pmf.entropy(SCHEMA.names)
    assert estimate.standard_error > 0
    assert abs(estimate - exact) < 4 * estimate.standard_error


def test_log_prob(pmf, truth, records):
    np.testing.assert_allclose(pmf.log_prob(records), truth.log_prob(records), rtol=1e-11, atol=1e-14)


def test_impute(pmf, truth, records):
    pd.testing.assert_frame_equal(pmf.impute(records), truth.impute(records))
    pd.testing.assert_frame_equal(pmf.impute(records, "mean"), truth.impute(records, "mean"))
    proba, expected = pmf.impute_proba(records), truth.impute_proba(records)
    np.testing.assert_allclose(proba["probability"], expected["probability"], rtol=1e-10)


def test_imputed_draws_follow_the_conditional_joint(pmf):
    known = {"x0": 1, "x3": 2}
    frame = pd.DataFrame([{name: known.get(name) for name in SCHEMA.names}] * 40_000).astype("Int64")
    drawn = pmf.impute(frame, "sample")
    others = ["x1", "x2", "x4", "x5"]
    expected = np.asarray(pmf.given(known).marginal(others)).ravel()
    codes = np.ravel_multi_index([drawn[name].to_numpy(dtype=int) for name in others], (2, 4, 2, 3))
    counts, large = np.bincount(codes, minlength=expected.size), expected * 40_000 > 5
    chi_squared = ((counts - 40_000 * expected) ** 2 / (40_000 * expected))[large].sum()
    assert abs(chi_squared - large.sum()) < 5 * math.sqrt(2 * large.sum())
    assert (drawn["x0"] == 1).all()


def test_sample(pmf):
    drawn = pmf.sample(50_000)
    for pair in itertools.combinations(SCHEMA.names, 2):
        shares = pd.crosstab(drawn[pair[0]], drawn[pair[1]], normalize=True).to_numpy()
        np.testing.assert_allclose(shares, np.asarray(pmf.marginal(pair)), atol=0.012)
    pd.testing.assert_frame_equal(drawn, pmf.sample(50_000))


def test_memberships(pmf, records):
    memberships = pmf.memberships(records, of="x3")
    assert memberships.shape == (300, pmf.factors[3].shape[1])
    np.testing.assert_allclose(memberships.sum(axis=1), 1.0, rtol=1e-12)
    nothing = pmf.memberships([{"x0": None}], of="x3")
    np.testing.assert_allclose(pmf.factors[3] @ nothing[0], pmf.marginal("x3"), rtol=1e-12)
    with pytest.raises(DataError, match=r"memberships needs a model with one hidden variable.* such as of='x0'"):
        pmf.memberships(records)


def test_file(pmf, truth, tmp_path):
    path, again = tmp_path / "a.twoway", tmp_path / "b.twoway"
    pmf.save(path)
    loaded = tw.JointPMF.load(path)
    loaded.save(again)
    assert path.read_bytes() == again.read_bytes()
    np.testing.assert_array_equal(loaded.marginal(SCHEMA.names), pmf.marginal(SCHEMA.names))
    copied = pickle.loads(pickle.dumps(pmf))
    np.testing.assert_array_equal(copied.marginal(SCHEMA.names), pmf.marginal(SCHEMA.names))


def test_average_of_trees(pmf, truth):
    other = make("chain")
    average = tw.JointPMF.average([pmf, other, truth], [1, 2, 1])
    expected = (pmf.trees.joint() + 2 * other.trees.joint() + truth.trees.joint()) / 4
    np.testing.assert_allclose(average.marginal(SCHEMA.names), expected, rtol=1e-12)


def test_what_needs_one_hidden_variable_says_so(pmf):
    with pytest.raises(AttributeError, match="hidden variables on a tree"):
        _ = pmf.weights
    assert ("mixture of 3 trees" if len(pmf.trees.trees) > 1 else "hidden of up to") in repr(pmf)
    assert pmf.sorted_by_weight() is pmf
