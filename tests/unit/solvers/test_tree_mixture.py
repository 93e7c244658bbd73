"""Mixtures of trees of the visible variables: against sums over all cells, and from records of every kind."""

import itertools

import numpy as np
import pytest

import twoway as tw
from twoway.data.records import Records
from twoway.report import StopReason
from twoway.solvers import Smoothing, Watch, tree_mixture
from twoway.solvers.loop import Loop
from twoway.solvers.starts import random_start
from twoway.solvers.tree_mixture import chow_liu_edges, fit_tree_mixture
from twoway.solvers.tree_starts import strongest_tree_shape
from twoway.solvers.visible_trees import VisibleMixture

SIZES = (2, 3, 2, 3, 2)
SCHEMA = tw.Schema(tuple(tw.Variable(f"x{n}", tuple(range(size))) for n, size in enumerate(SIZES)))
LOOP = Loop("trees", 300, 1e-6)


def records_of(codes, schema=SCHEMA, weights=None):
    codes = np.asarray(codes)
    columns = {name: np.where(codes[:, n] < 0, np.nan, codes[:, n]) for n, name in enumerate(schema.names)}
    return Records(columns, schema=schema).reweighted(None if weights is None else np.array(weights, dtype=float))


def draw(n, *, holes=0.0, seed=0):
    """Return the codes of records of a chain, whose links differ between two classes, in an order that hides it."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((n, 5), dtype=int)
    kind = rng.integers(0, 2, n)
    codes[:, 0] = rng.integers(0, 2, n)
    for place, before in ((3, 0), (1, 3), (4, 1), (2, 4)):
        follows = (codes[:, before] + kind * place) % SIZES[place]
        codes[:, place] = np.where(rng.random(n) < 0.8, follows, rng.integers(0, SIZES[place], n))
    return np.where(rng.random(codes.shape) < holes, -1, codes)


def fit(codes, rank=3, smoothing=1.0, weights=None, loop=LOOP, schema=SCHEMA, seed=0):
    records = records_of(codes, schema, weights)
    shares = np.concatenate([np.full(size, 1 / size) for size in schema.sizes])
    start = random_start(schema, rank, shares, (seed,))
    return records, fit_tree_mixture(records, start, Smoothing(smoothing, smoothing), loop)


def test_strongest_tree_is_the_best_of_all_trees():
    rng = np.random.default_rng(0)
    lengths = rng.random((5, 5))
    lengths += lengths.T
    vertices, parents = strongest_tree_shape(lengths)
    ours = sum(lengths[vertices[k], vertices[parents[k]]] for k in range(1, 5))
    pairs = list(itertools.combinations(range(5), 2))
    best = max(sum(lengths[e] for e in edges) for edges in itertools.combinations(pairs, 4) if is_connected(edges))
    assert ours == pytest.approx(best)
    assert (parents[1:] < np.arange(1, 5)).all()
    assert [len(v) for v in strongest_tree_shape(np.zeros((1, 1)))] == [1, 1]


def is_connected(edges):
    reached = {0}
    for _ in edges:
        reached |= {v for edge in edges for v in edge if reached & set(edge)}
    return len(reached) == 5


def test_one_component_is_the_tree_of_chow_and_liu():
    codes = draw(400)
    records, descent = fit(codes, rank=1, smoothing=0.0)
    tables = {(i, j): np.zeros((SIZES[i], SIZES[j])) for i, j in itertools.combinations(range(5), 2)}
    for (i, j), table in tables.items():
        np.add.at(table, (codes[:, i], codes[:, j]), 1 / 400)
    best = -np.inf
    for edges in itertools.combinations(tables, 4):
        if is_connected(edges):
            margins = [np.bincount(codes[:, n], minlength=SIZES[n]) / 400 for n in range(5)]
            score, logs = 0.0, sum(np.log(margins[n][codes[:, n]]) for n in range(5))
            for i, j in edges:
                shares = tables[i, j] / np.outer(margins[i], margins[j])
                logs = logs + np.log(shares[codes[:, i], codes[:, j]])
                score -= (SIZES[i] - 1) * (SIZES[j] - 1) / 2
            if logs.sum() + score > best:
                best, expected = logs.sum() + score, logs
    np.testing.assert_allclose(descent.pmf.log_prob(records), expected, atol=1e-5)


@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_objective_never_rises_and_is_that_of_the_model(holes, weighted):
    codes = draw(300, holes=holes)
    weights = np.random.default_rng(1).exponential(size=300) if weighted else None
    records, descent = fit(codes, weights=weights)
    assert descent.stop_reason is StopReason.CONVERGED
    assert len(descent.objectives) > 3
    assert (np.diff(descent.objectives) <= 1e-12).all()
    records, descent = fit(codes, weights=weights, smoothing=1e-9)
    mean = np.average(descent.pmf.log_prob(records), weights=weights)
    assert descent.objective == pytest.approx(-mean, abs=1e-6)
    whole = [list(cell) for cell in itertools.product(*map(range, SIZES))]
    assert np.exp(descent.pmf.log_prob(records_of(whole))).sum() == pytest.approx(1.0)


def test_strongest_edges_follow_the_weights():
    """Half of the records are of a chain 0-1-2, the others of a chain 1-2-0 in which 1 and 0 are less alike."""
    rng = np.random.default_rng(0)
    first = np.cumsum(rng.random((500, 3)) < [0.5, 0.1, 0.1], axis=1) % 2
    codes = np.vstack([first, first[:, [2, 0, 1]]])
    schema = tw.Schema(tuple(tw.Variable(name, (0, 1)) for name in "zyx"))
    records, is_first = records_of(codes, schema), np.arange(1000) < 500
    for weights, expected in ((is_first, {(0, 1), (1, 2)}), (~is_first, {(1, 2), (0, 2)})):
        assert {tuple(sorted(edge)) for edge in chow_liu_edges(records, weights.astype(float))} == expected


def test_mixture_finds_what_one_tree_cannot():
    schema = tw.Schema(tuple(tw.Variable(name, (0, 1)) for name in "abcdef"))

    def pairs(n, seed):
        """Three pairs, which agree in half of the records and differ in the others."""
        rng = np.random.default_rng(seed)
        first = rng.integers(0, 2, (n, 3))
        return np.hstack([first, first ^ rng.integers(0, 2, (n, 1)) ^ (rng.random((n, 3)) < 0.05)])

    test = records_of(pairs(500, 1), schema)
    one, two = (
        max(fit(pairs(500, 0), rank, schema=schema, seed=seed)[1].pmf.log_prob(test).mean() for seed in range(3))
        for rank in (1, 2)
    )
    assert one == pytest.approx(-6 * np.log(2), abs=0.05)
    assert two > one + 0.7


def test_weights_are_repetitions():
    codes = draw(60, holes=0.2)
    times = np.random.default_rng(2).integers(0, 4, 60)
    _, weighted = fit(codes, weights=times)
    _, repeated = fit(np.repeat(codes, times, axis=0))
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-5)
    np.testing.assert_allclose(
        weighted.pmf.log_prob(records_of(codes)), repeated.pmf.log_prob(records_of(codes)), atol=1e-3
    )


def test_order_of_columns_does_not_matter():
    codes = draw(200, holes=0.2)
    order = [3, 0, 4, 2, 1]
    turned = tw.Schema(tuple(SCHEMA.variables[n] for n in order))
    one = fit(codes)[1].pmf
    other = fit(codes[:, order], schema=turned)[1].pmf
    np.testing.assert_allclose(
        one.log_prob(records_of(codes)), other.log_prob(records_of(codes[:, order], turned)), atol=1e-9
    )


def test_variables_of_one_category_and_single_variables():
    schema = tw.Schema((tw.Variable("a", (0, 1)), tw.Variable("b", (0,)), tw.Variable("c", (0, 1, 2))))
    codes = np.array([[0, 0, 0], [1, 0, 2], [1, -1, 2], [0, 0, -1], [1, 0, 1]])
    pmf = fit(codes, rank=2, schema=schema)[1].pmf
    assert pmf.prob({"b": 0}) == pytest.approx(1.0)
    assert pmf.prob({"c": 2}) > pmf.prob({"c": 1})
    single = tw.Schema((tw.Variable("a", (0, 1)),))
    pmf = fit(np.array([[0], [1], [1], [1]]), rank=2, schema=single, smoothing=0.0)[1].pmf
    assert pmf.prob({"a": 1}) == pytest.approx(0.75)


def test_ctrl_c_keeps_the_best_so_far():
    seen = []

    def press(progress):
        seen.append(progress.done)
        if len(seen) == 2:
            raise KeyboardInterrupt

    _, descent = fit(draw(300), loop=Loop("trees", 60, 0.0, Watch(press)))
    assert seen == [1, 2]
    assert descent.stop_reason is StopReason.INTERRUPTED
    assert len(descent.objectives) == 2


def test_trees_keep_their_shapes_once_new_ones_are_worse(monkeypatch):
    learn, calls = tree_mixture._TreeMixtureData.with_new_shapes, []

    def sometimes_worse(self, shares):
        calls.append(shares)
        return learn(self, shares if len(calls) < 3 else np.random.default_rng(0).permutation(shares))

    monkeypatch.setattr(tree_mixture._TreeMixtureData, "with_new_shapes", sometimes_worse)
    _, descent = fit(draw(300), loop=Loop("trees", 8, 0.0))
    assert len(calls) == 3
    assert len(descent.objectives) == 8
    assert (np.diff(descent.objectives) < 0).all()


def test_one_thread_counts_a_mixture_without_asking_for_the_number_of_cores(monkeypatch):
    records, descent = fit(draw(100))
    mixture = VisibleMixture.of(descent.pmf)
    expected = mixture.expected(records, None)

    def asked():
        raise AssertionError("the number of threads was given")

    monkeypatch.setattr("twoway.parallel.usable_cores", asked)
    assert mixture.expected(records, 1).log_likelihood == expected.log_likelihood
