"""The EM step, starts, intervals and gains of the label aggregator equal slow versions, and brute force."""

import math

import numpy as np
import pytest
from reference import labels as slow

from twoway.estimators.labels import confusions
from twoway.estimators.labels.confusions import (
    USUAL_RIGHT,
    Confusions,
    class_of_components,
    confusion_parameters,
    confusion_start_from_pairs,
    fit_confusions,
    group_annotators,
    usual_confusions,
)
from twoway.estimators.labels.quality import (
    LabelQuality,
    best_questions,
    expected_label_gains,
    label_information,
)
from twoway.estimators.labels.table import read_labels
from twoway.kernels.lanes import pad_to_lanes
from twoway.report import StopReason
from twoway.solvers.cell_sets import CellSets

COLUMNS = ("item", "annotator", "label")


def drawn(n_items=25, n_annotators=5, n_classes=3, *, seed=0, accuracy=0.6, observed=0.7, n_gold=4):
    """Return a table of labels with some gold, its labels item by item, and the truth."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, n_classes, n_items)
    items, annotators = np.nonzero(random.random((n_items, n_annotators)) < observed)
    labels = np.where(random.random(len(items)) < accuracy, truth[items], random.integers(0, n_classes, len(items)))
    gold = {item: truth[item] for item in range(n_gold)}
    with pytest.warns() if set(gold) - set(items) else _nothing():
        table = read_labels((items, annotators, labels), COLUMNS, gold=gold or None)
    pairs = [
        [(a, b) for i, a, b in zip(table.item_codes, table.annotator_codes, table.label_codes, strict=True) if i == n]
        for n in range(len(table.items))
    ]
    return table, pairs, truth[table.items.to_numpy()]


def _nothing():
    from contextlib import nullcontext

    return nullcontext()


def random_matrices(n_annotators, n_classes, seed=1):
    random = np.random.default_rng(seed)
    return random.dirichlet(np.ones(n_classes), (n_annotators, n_classes)).transpose(0, 2, 1)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("n_gold", [0, 4])
def test_a_pass_of_em(n_classes, n_gold):
    table, pairs, _ = drawn(n_classes=n_classes, n_gold=n_gold)
    n_annotators = len(table.annotators)
    # One more than annotators: anybody else.
    matrices, priors = random_matrices(n_annotators + 1, n_classes), np.arange(1.0, n_classes + 1)
    priors /= priors.sum()
    theta = pad_to_lanes(priors, np.vstack([matrices.reshape(-1, n_classes), np.eye(n_classes)]))
    sums = CellSets.of_records(table.records, 1).expected(theta, n_classes)
    counts = sums.counts[:, :n_classes]
    of_annotators = counts[1:-n_classes].reshape(matrices.shape)
    shares, factors = confusion_parameters(counts[0], of_annotators, table.largest_shares, 5.0)
    options = (table.largest_shares, 5.0, USUAL_RIGHT, confusions._USUAL_LABELS)
    expected = slow.em_pass(pairs, table.gold, priors, matrices, *options)
    np.testing.assert_allclose(shares, expected[0])
    np.testing.assert_allclose(factors[:-n_classes].reshape(matrices.shape), expected[1])
    np.testing.assert_array_equal(factors[-n_classes:], np.eye(n_classes))
    assert sums.log_likelihood == pytest.approx(expected[2])


def test_posteriors():
    table, pairs, _ = drawn()
    matrices, priors = random_matrices(len(table.annotators) + 1, 3), np.array([0.5, 0.3, 0.2])
    fit = Confusions(priors, matrices, 1.0, 1, StopReason.CONVERGED, 0.0)
    expected, _ = slow.posteriors(pairs, table.gold, priors, matrices)
    np.testing.assert_allclose(fit.probabilities(table), expected, atol=1e-14)


def test_what_is_usual():
    counts = np.random.default_rng(0).exponential(size=(6, 3, 3))
    counts[4], counts[5] = 0.0, 1000.0 * np.eye(3)  # nobody knows, and one who is always right
    usual = usual_confusions(counts)
    np.testing.assert_allclose(usual, slow.usual_confusions(counts, USUAL_RIGHT, confusions._USUAL_LABELS), rtol=1e-6)
    np.testing.assert_allclose(usual.sum(axis=1), 1.0)
    assert (np.diagonal(usual[5]) > np.diagonal(usual[4])).all()


def test_a_spammer_is_told_by_few_numbers():
    """One who always says the first label is expected to go on like that in classes with no label."""
    counts = np.zeros((2, 2, 2))
    counts[0] = [[400.0, 100.0], [100.0, 400.0]]
    counts[1, 0] = [50.0, 0.0]
    counts[1, 0, 1] = 30.0
    usual = usual_confusions(counts)
    assert usual[1, 0].min() > 0.7
    assert usual[0, 0, 1] < 0.25


def test_sums_are_expected_counts():
    table, pairs, _ = drawn()
    shares = np.random.default_rng(0).dirichlet(np.ones(3), len(table.items))
    expected = slow.counts_of(pairs, shares, len(table.annotators) + 1)
    np.testing.assert_allclose(table.sums(shares), expected)


# Where fits begin


def test_coupled_nmf_finds_the_classes():
    table, _, truth = drawn(400, 6, 3, accuracy=0.75, n_gold=0, observed=0.9)
    shares = confusion_start_from_pairs(table, seed=0, threads=1)
    assert (shares.argmax(axis=1) == truth).mean() > 0.85
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_no_pairs_no_start():
    apart = read_labels((list("abcdef"), list("uvwxyz"), [0, 1, 0, 1, 0, 1]), COLUMNS)
    assert confusion_start_from_pairs(apart, seed=0, threads=1) is None
    two = read_labels(([1, 1, 2, 2], [1, 2, 1, 2], [0, 1, 0, 0]), COLUMNS)
    assert confusion_start_from_pairs(two, seed=0, threads=1) is None


def test_both_starts_are_tried(monkeypatch):
    """A start from pairs that is better than the votes is taken, and the more probable end kept."""
    table, _, _ = drawn(200, 6, 2, accuracy=0.8, n_gold=0)
    ends = []
    begin = confusions._fit_confusions_from
    monkeypatch.setattr(confusions, "_fit_confusions_from", lambda *args: ends.append(begin(*args)) or ends[-1])
    best = fit_confusions(table, 8.0, seed=0, threads=1)
    assert len(ends) == 2
    assert best.log_likelihood == max(end.log_likelihood for end in ends)


def test_groups_share_labels_evenly():
    table, _, _ = drawn(300, 100, 2, observed=0.1, n_gold=0)
    groups = group_annotators(table)
    n_groups = groups.max() + 1
    assert 3 <= n_groups <= 40
    of_group = np.bincount(groups[table.annotator_codes])
    assert of_group.min() > 0.4 * of_group.mean()
    records = table.grouped(groups)
    codes = records.codes()
    # Each group shows the first of its labels.
    for item in range(5):
        seen = {}
        for place in np.flatnonzero(table.item_codes == item):
            seen.setdefault(groups[table.annotator_codes[place]], table.label_codes[place])
        assert {g: c for g, c in enumerate(codes[item]) if c >= 0} == seen


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 0, 2]])
def test_components_get_their_classes(order):
    table, _, truth = drawn(60, n_gold=0)
    memberships = np.eye(3)[truth][:, order]
    np.testing.assert_array_equal(memberships[:, class_of_components(memberships, table)], np.eye(3)[truth])


def test_gold_outweighs_votes():
    items = np.repeat(np.arange(20), 3)
    table = read_labels((items, np.tile([0, 1, 2], 20), items % 2), COLUMNS, gold={0: 1, 1: 0})
    memberships = np.eye(2)[np.arange(20) % 2]
    # All votes are for the parity of the item, and gold says the opposite.
    np.testing.assert_array_equal(class_of_components(memberships, table), [1, 0])


# Intervals


def test_missing_information_is_that_of_the_likelihood():
    """The curvature of the log-likelihood along one probability is the complete information, less what is missing."""
    table, pairs, _ = drawn(40, n_gold=3)
    n_annotators = len(table.annotators)
    matrices, priors = random_matrices(n_annotators + 1, 3), np.array([0.5, 0.3, 0.2])
    fit = Confusions(priors, matrices, 2.0, 1, StopReason.CONVERGED, 0.0)
    shares, _ = slow.posteriors(pairs, table.gold, priors, matrices)
    rows = LabelQuality.of(fit, table, shares)
    counts = slow.counts_of(pairs, shares, n_annotators)
    own = counts.sum(axis=(1, 2)) + USUAL_RIGHT
    checked = 0
    for m, k, j in np.ndindex(n_annotators, 3, 3):
        here, n_labels = matrices[m, j, k], counts[m, :, k].sum()

        def log_likelihood(share, m=m, k=k, j=j, here=here):
            moved = matrices.copy()
            moved[m, :, k] *= (1 - share) / (1 - here)
            moved[m, j, k] = share
            return slow.posteriors(pairs, table.gold, priors, moved)[1]

        step = 1e-4 * here * (1 - here)
        values = [log_likelihood(here + step * side) for side in (-1, 0, 1)]
        curvature = -(values[0] - 2 * values[1] + values[2]) / step**2
        complete = counts[m, j, k] / here**2 + (n_labels - counts[m, j, k]) / (1 - here) ** 2
        missing = (complete - curvature) * here * (1 - here)
        evidence = n_labels + own[m] * 2.0 / (own[m] + 2.0)
        if missing < 0.9 * evidence:
            assert rows.effective[m, k, j] == pytest.approx(evidence - missing, rel=1e-2)
            checked += 1
    assert checked > 10


def test_known_items_miss_nothing():
    table, _, truth = drawn(40, n_gold=0)
    fit = Confusions(np.full(3, 1 / 3), random_matrices(6, 3), 2.0, 1, StopReason.CONVERGED, 0.0)
    rows = LabelQuality.of(fit, table, np.eye(3)[truth])
    n_labels = np.bincount(table.annotator_codes) + USUAL_RIGHT
    np.testing.assert_allclose(rows.in_all, n_labels)


# What to ask next


def test_gains():
    matrices = random_matrices(4, 3)
    matrices[3] = 1 / 3  # a spammer
    shares = np.vstack([np.random.default_rng(0).dirichlet(np.ones(3), 5), np.eye(3)[:1]])
    gains = expected_label_gains(shares, matrices)
    for item, annotator in np.ndindex(gains.shape):
        assert gains[item, annotator] == pytest.approx(slow.gain(shares[item], matrices[annotator]), abs=1e-12)
    np.testing.assert_allclose(gains[:, 3], 0.0, atol=1e-12)
    np.testing.assert_allclose(gains[5], 0.0, atol=1e-12)
    assert label_information(np.eye(2)[None], np.array([0.5, 0.5]))[0] == pytest.approx(math.log(2))


@pytest.mark.parametrize("chunk", [1, 2**21])
@pytest.mark.parametrize("n", [1, 4, 100])
def test_best_questions_are_the_best_of_all(n, chunk, monkeypatch):
    monkeypatch.setattr("twoway.estimators.labels.quality._CHUNK", chunk)
    table, _, _ = drawn(30, n_gold=0)
    matrices = random_matrices(len(table.annotators), 3)
    shares = np.random.default_rng(2).dirichlet(np.full(3, 0.3), len(table.items))
    items, annotators = np.arange(3, len(table.items)), np.array([0, 2, 3])
    found = best_questions(table, shares, matrices, items, annotators, n)
    asked = set(zip(table.item_codes.tolist(), table.annotator_codes.tolist(), strict=True))
    best = {}
    for item in items:
        left = [(slow.gain(shares[item], matrices[who]), who) for who in annotators if (item, who) not in asked]
        if left:
            best[item] = max(left)
    expected = sorted(best.items(), key=lambda pair: -pair[1][0])[:n]
    assert found[0].tolist() == [item for item, _ in expected]
    assert found[1].tolist() == [who for _, (_, who) in expected]
    np.testing.assert_allclose(found[2], [gain for _, (gain, _) in expected], atol=1e-12)


# Smoothing


def test_smoothing_is_chosen_by_held_out_labels(monkeypatch):
    table, _, _ = drawn(60, n_gold=0)
    scores = {12.0: -1.0, 3.0: -1.1, 48.0: -0.9, 192.0: -0.95}  # three classes
    monkeypatch.setattr(
        confusions,
        "_confusion_log_probs",
        lambda table, held, smoothing, threads: np.full(np.count_nonzero(held), scores[smoothing]),
    )
    chosen, compared = confusions.choose_confusion_smoothing(table, seed=0, threads=1)
    assert chosen == 48.0
    assert [row["smoothing"] for row in compared] == [3.0, 12.0, 48.0, 192.0]
    assert [row["log_prob"] for row in compared] == pytest.approx([-1.1, -1.0, -0.9, -0.95])


def test_few_labels_take_the_default():
    table = read_labels(([1, 1, 2], [1, 2, 3], [0, 1, 0]), COLUMNS)
    assert confusions.choose_confusion_smoothing(table, seed=0, threads=1) == (
        confusions.SMOOTHING_PER_CLASS * table.n_classes,
        [],
    )


def test_held_out_labels_are_predicted_by_the_rest():
    table, _, _ = drawn(60, n_gold=0)
    held = np.arange(len(table.label_codes)) % 5 == 0
    scores = confusions._confusion_log_probs(table, held, 8.0, 1)
    fit = confusions._fit_confusions_from(table.only(~held), table.only(~held).votes, 8.0, 1)
    shares = fit.probabilities(table.only(~held))
    for place, score in zip(np.flatnonzero(held), scores, strict=True):
        item, who, label = table.item_codes[place], table.annotator_codes[place], table.label_codes[place]
        assert math.exp(score) == pytest.approx(sum(shares[item, k] * fit.matrices[who, label, k] for k in range(3)))
