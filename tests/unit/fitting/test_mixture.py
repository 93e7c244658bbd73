"""Mixtures of trees from `fit`: when they are chosen, and that everything that takes a model takes them."""

import itertools

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.errors import DataError
from twoway.report import StopReason
from twoway.solvers.loop import Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.visible_trees import VisibleMixture

NAMES = tuple("abcdef")
ORDERS = ((0, 1, 2, 3, 4, 5), (0, 3, 5, 1, 4, 2), (4, 0, 2, 5, 3, 1))


def grouped_records(n, seed=0, holes=0.0, names=NAMES):
    """Return records of three groups, in each of which every variable nearly settles another, in its own order."""
    random = np.random.default_rng(seed)
    codes = np.zeros((n, len(names)), dtype=int)
    group = random.integers(3, size=n)
    for number, order in enumerate(ORDERS):
        rows = np.flatnonzero(group == number)
        codes[rows, order[0]] = random.integers(3, size=len(rows))
        for before, place in itertools.pairwise(order):
            follows = (codes[rows, before] + number) % 3
            moves = random.random(len(rows)) < 0.05
            codes[rows, place] = np.where(moves, random.integers(3, size=len(rows)), follows)
    frame = pd.DataFrame(codes, columns=list(names)).astype(object)
    return frame.mask(random.random(codes.shape) < holes) if holes else frame


@pytest.fixture(scope="module")
def records():
    return grouped_records(1500, holes=0.1)


@pytest.fixture(scope="module")
def pmf(records):
    return tw.fit(records, structure="mixture", rank=3, smoothing=0.5, starts=2)


@pytest.fixture(scope="module")
def joint(pmf):
    """All cells, as the sum over the trees of the products of their tables."""
    mixture, cells = VisibleMixture.of(pmf), np.zeros((3,) * 6)
    for cell in itertools.product(range(3), repeat=6):
        for share, tree in zip(mixture.shares, mixture.trees, strict=True):
            product = share
            for vertex, parent in enumerate(tree.rows.parents):
                own, n_columns = cell[tree.rows.variables[vertex]], 3 if vertex else 1
                above = cell[tree.rows.variables[parent]] if vertex else 0
                product *= tree.tables[tree.rows.firsts[vertex] + own * n_columns + above]
            cells[cell] += product
    return cells


@pytest.mark.slow
def test_groups_with_shapes_of_their_own_ask_for_a_mixture():
    pmf = tw.fit(grouped_records(1500))
    assert pmf.report.solver == "mixture"
    assert pmf.report.n_trees == len(pmf.trees.trees) > 1
    assert "trees predicts better than" in pmf.report.structure
    assert f"a mixture of {pmf.report.n_trees} trees" in str(pmf.report)
    assert f"mixture of {pmf.report.n_trees} trees" in repr(pmf)


def test_answers_are_those_of_all_cells(pmf, joint, records):
    assert joint.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(np.asarray(pmf.marginal(list(NAMES))), joint, atol=1e-12)
    assert pmf.prob({"a": 1, "d": [0, 2]}) == pytest.approx(joint[:, :, :, [0, 2]][1].sum())
    given = pmf.given({"b": [1, 2], "e": 0})
    part = joint[:, 1:, :, :, 0].sum(axis=(1, 4)) / joint[:, 1:, :, :, 0].sum()
    np.testing.assert_allclose(np.asarray(given.marginal(["a", "c", "d"])), part, atol=1e-12)
    mode = pmf.given({"c": 1}).mode()
    assert mode.probability == pytest.approx(joint[:, :, 1].max() / joint[:, :, 1].sum())
    assert pmf.entropy(list(NAMES)) == pytest.approx(-(joint * np.log(joint)).sum())
    pair = joint.sum(axis=(1, 3, 4, 5))
    plain = np.outer(pair.sum(axis=1), pair.sum(axis=0))
    assert pmf.mutual_information("a", "c") == pytest.approx((pair * np.log(pair / plain)).sum())
    assert pmf.expect("f") == pytest.approx(joint.sum(axis=(0, 1, 2, 3, 4)) @ np.arange(3))
    whole = records.dropna().head(20)
    cells = tuple(whole.to_numpy(dtype=int).T)
    np.testing.assert_allclose(pmf.log_prob(whole), np.log(joint[cells]), atol=1e-10)
    holes = records[records.isna().sum(axis=1) == 1].head(20)
    filled = pmf.impute(holes)
    for (_, shown), (_, full) in zip(holes.iterrows(), filled.iterrows(), strict=True):
        line = joint[tuple(slice(None) if pd.isna(value) else int(value) for value in shown)]
        assert full[shown.isna().to_numpy()].item() == int(line.argmax())
    drawn = pmf.sample(20_000, seed=0)
    shares = pd.crosstab(drawn["a"], drawn["c"], normalize=True).to_numpy()
    np.testing.assert_allclose(shares, pair, atol=0.015)


def test_report_and_likelihood(pmf, records):
    report = pmf.report
    assert (report.rank, report.n_trees) == (3, 3)
    assert report.log_likelihood == pytest.approx(pmf.log_prob(records).sum())
    # A share for each tree but one; in each, two for the root, and two for each category of five parents.
    assert report.n_parameters == 2 + 3 * (2 + 5 * 3 * 2)
    assert report.support.shape == (1, 3)
    assert report.support.sum() == pytest.approx(len(records))


def test_expected_counts_add_over_blocks_and_climb(pmf, records):
    mixture, read = VisibleMixture.of(pmf), tw.Records(records)
    np.testing.assert_allclose(np.asarray(mixture.pmf().marginal(["a", "f"])), np.asarray(pmf.marginal(["a", "f"])))
    halves = [read.take(np.arange(len(records))[part]) for part in (slice(700), slice(700, None))]
    together, apart = mixture.expected(read, 1), [mixture.expected(half, 1) for half in halves]
    assert together.log_likelihood == pytest.approx(sum(part.log_likelihood for part in apart))
    for number, counts in enumerate(together.of_trees):
        np.testing.assert_allclose(counts, sum(part.of_trees[number] for part in apart))
    prior = mixture.pseudo_counts(read, Smoothing(2.0, 2.0))
    descent = mixture.climb(read, prior, Loop("test", 50, 1e-9), 1)
    assert len(descent.objectives) > 3
    assert (np.diff(descent.objectives) <= 1e-12).all()


def test_files(pmf, records, tmp_path):
    pmf.save(tmp_path / "mixture.twoway")
    again = tw.load(tmp_path / "mixture.twoway")
    np.testing.assert_array_equal(again.log_prob(records), pmf.log_prob(records))
    assert again.report.n_trees == 3
    np.testing.assert_array_equal(again.report.support, pmf.report.support)
    np.testing.assert_array_equal(again.counts.tables.flat, tw.count(records).flat)


@pytest.mark.slow
def test_bootstrap(pmf, records, tmp_path):
    boot = tw.bootstrap(pmf, records, n=20, threads=1)
    answer = boot.prob({"a": 0, "b": 1})
    assert answer.low < answer < answer.high
    assert answer.high - answer.low < 0.1
    shares = np.array([replicate.trees.shares for replicate in boot.replicates])
    assert shares.std(axis=0).min() > 0
    boot.save(tmp_path / "replicates.twoway")
    again = tw.load(tmp_path / "replicates.twoway")
    assert again.prob({"a": 0, "b": 1}).high == answer.high
    with pytest.raises(DataError, match="records"):
        tw.bootstrap(pmf, tw.count(records))
    with pytest.raises(DataError, match="average"):
        tw.bootstrap(tw.JointPMF.average([pmf, pmf]), records)


def test_update(pmf, records):
    new = grouped_records(500, seed=5)
    updated = tw.update(pmf, new)
    assert updated.report.n_records == 2000
    assert updated.report.support.sum() == pytest.approx(2000)
    assert updated.counts.tables.totals.sum() == tw.count(pd.concat([records, new])).totals.sum()
    whole = tw.fit(pd.concat([records, new]), structure="mixture", rank=3, smoothing=0.5, starts=2)
    fresh = grouped_records(3000, seed=1)
    scores = [model.log_prob(fresh).mean() for model in (pmf, updated, whole)]
    assert scores[0] - 0.01 < scores[1]
    assert abs(scores[1] - scores[2]) < 0.05


def test_update_with_a_new_category(pmf):
    new = grouped_records(300, seed=6)
    new.loc[:29, "c"] = 7
    updated = tw.update(pmf, new, extend=True)
    assert updated.schema["c"].categories == (0, 1, 2, 7)
    assert updated.prob({"c": 7}) == pytest.approx(30 / 1800, rel=0.2)
    assert np.isfinite(updated.log_prob(new)).all()


def test_what_a_mixture_cannot():
    with pytest.raises(DataError, match="needs records"):
        tw.fit(tw.count(grouped_records(100)), structure="mixture")
    with pytest.raises(DataError, match="solver"):
        tw.fit(grouped_records(100), structure="mixture", solver="em")


def test_what_is_for_one_tree_says_so(pmf):
    with pytest.raises(DataError, match="mixture of 3"):
        tw.diagnose(pmf)
    with pytest.raises(DataError, match="hidden"):
        tw.sql_view(pmf, "answers")


@pytest.mark.slow
def test_any_order_of_columns_records_and_weights(records):
    options = {"structure": "mixture", "rank": 3, "smoothing": 0.5, "starts": 1}
    part = records.head(400)
    one = tw.fit(part, **options)
    turned = tw.fit(part[list(NAMES[::-1])].sample(frac=1.0, random_state=0), **options)
    np.testing.assert_allclose(one.log_prob(part), turned.log_prob(part), atol=1e-8)
    doubled = tw.fit(tw.Records(part.assign(w=2.0), weights="w"), **options)
    np.testing.assert_allclose(one.log_prob(part), doubled.log_prob(part), atol=1e-8)


def test_all_records_count_where_shapes_are_learned_from_a_part(records, monkeypatch):
    monkeypatch.setattr("twoway.solvers.tree_mixture._SHAPE_CELLS", 600)
    report = tw.fit(records, structure="mixture", rank=2, smoothing=0.5, starts=1).report
    assert len(report.starts) == 2
    assert (np.diff(report.starts[0].objectives) <= 1e-12).all()
    assert report.support.sum() == pytest.approx(len(records))


def test_time_limit_and_interrupt(records):
    pmf = tw.fit(records, structure="mixture", seconds=1e-9)
    assert pmf.report.stop_reason is StopReason.TIME_LIMIT
    assert np.isfinite(pmf.log_prob(records)).all()

    def press(progress):
        if progress.task == "mixture of trees":
            raise KeyboardInterrupt

    pmf = tw.fit(records, structure="mixture", rank=2, smoothing=1.0, monitor=press)
    assert pmf.report.stop_reason is StopReason.INTERRUPTED


def test_one_tree_and_few_variables(records):
    for frame, rank in ((records[["a", "b", "c"]], 1), (records[["a", "b"]], 2), (records[["a"]], 2)):
        pmf = tw.fit(frame, structure="mixture", rank=rank, smoothing=0.5, starts=1)
        shares = pd.crosstab(frame["a"], frame[frame.columns[-1]], normalize=True).to_numpy()
        fitted = np.asarray(pmf.marginal(list(dict.fromkeys(["a", frame.columns[-1]]))))
        np.testing.assert_allclose(fitted if fitted.ndim == 2 else np.diag(fitted), shares, atol=0.02)
