"""Coverage of intervals with smoothing, with a wrong model, and for questions that tables leave open."""

import math
from dataclasses import replace

import numpy as np
import pytest

import twoway as tw
from twoway.cli import run
from twoway.datasets import dirichlet_rows, draw_records
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.loop import Loop
from twoway.solvers.smoothing import Smoothing
from twoway.uncertainty.replication import replicate_prior, replicate_smoothings

RECORDS = draw_records(dirichlet_rows(4, 3, 2, seed=4), 300, observed=0.8, seed=1)


# Smoothing


@pytest.mark.slow
def test_mutual_information_at_200_records_is_not_always_too_low():
    """It was for 16 of these 36, when replicates shrank dependence as much as the model and no more."""
    too_low = []
    for seed in range(12):
        truth = dirichlet_rows(4, 3, 3, seed=seed)
        records = draw_records(truth, 200, observed=1.0, seed=seed)
        boot = tw.bootstrap(tw.fit(records, rank=3, smoothing=8, starts=1), records, n=40, seed=seed)
        for a, b in (("x1", "x2"), ("x3", "x4"), ("x1", "x4")):
            too_low.append(boot.mutual_information(a, b).high < truth.mutual_information(a, b))
    assert np.mean(too_low) < 0.2


def test_priors_are_drawn_like_records():
    sets = CellSets.of_records(RECORDS, 1)
    smoothing, form = Smoothing(20.0, 50.0), tw.fit(RECORDS, rank=2, starts=1, smoothing=1)
    drawn = np.array([replicate_prior(sets, form, smoothing, np.random.default_rng(seed)) for seed in range(2000)])
    np.testing.assert_allclose(drawn[:, 0].sum(axis=1), 2)
    np.testing.assert_allclose(drawn[:, 1:4].sum(axis=1), 1)
    np.testing.assert_allclose(drawn[:, 0].mean(axis=0), 1, atol=0.02)
    np.testing.assert_allclose(drawn[:, 1:].mean(axis=0), np.repeat(sets.shares[:, None], 2, axis=1), atol=0.02)
    expected = np.sqrt(sets.shares * (1 - sets.shares) / 21)  # the spread of a Dirichlet distribution of 20 records
    np.testing.assert_allclose(drawn[:, 1:].std(axis=0), np.repeat(expected[:, None], 2, axis=1), rtol=0.1)
    # However weak, no share is lost.
    weak = replicate_prior(sets, form, Smoothing(1e-9, 1e-9), np.random.default_rng(0))
    assert np.isfinite(weak).all()
    assert (weak > 0).all()


def test_equal_pseudo_shares_are_the_overall_shares():
    sets, smoothing = CellSets.of_records(RECORDS, 1), Smoothing(3.0, 7.0)
    start = tw.fit(RECORDS, rank=2, smoothing=1, starts=1)
    overall = np.vstack([np.ones(2), np.repeat(sets.shares[:, None], 2, axis=1)])
    loop = Loop("", 300, 1e-10)
    plain = fit_cells_by_em(sets, start, smoothing, loop)
    own = fit_cells_by_em(sets, start, smoothing, loop, overall)
    np.testing.assert_allclose(own.pmf.stacked, plain.pmf.stacked, atol=1e-5)
    np.testing.assert_allclose(own.pmf.weights, plain.pmf.weights, atol=1e-5)
    assert all(later <= earlier + 1e-12 for earlier, later in zip(own.objectives, own.objectives[1:], strict=False))
    assert plain.stop_reason is own.stop_reason


def test_replicates_repeat_the_choice_of_smoothing():
    pmf = tw.fit(RECORDS, rank=2, starts=1)
    choices, chances = replicate_smoothings(pmf)
    assert chances.sum() == pytest.approx(1)
    assert (chances > 0.01).sum() > 1  # 300 records do not tell exactly
    best = choices[int(chances.argmax())]
    assert best.factors == pytest.approx(pmf.report.smoothing)
    fixed = tw.fit(RECORDS, rank=2, starts=1, smoothing=3)
    assert replicate_smoothings(fixed)[0] == [Smoothing(3.0, 3.0)]


def test_without_smoothing_replicates_are_reflected():
    pmf = tw.fit(RECORDS, rank=2, starts=1, smoothing=0)
    boot = tw.bootstrap(pmf, RECORDS, n=40)
    assert boot.reflected
    information = boot.mutual_information("x1", "x2")
    drawn = [one.mutual_information("x1", "x2") for one in boot.replicates]
    # Chance looks like dependence, once in the model and once more in replicates: the truth lies below these.
    assert np.mean(drawn) > information
    assert information.high < np.quantile(drawn, 0.95)
    assert not tw.bootstrap(tw.fit(RECORDS, rank=2, starts=1, smoothing=3), RECORDS, n=20).reflected


def test_entropy_is_not_too_low():
    truth = dirichlet_rows(4, 3, 2, seed=4)
    boot = tw.bootstrap(tw.fit(RECORDS, rank=2, starts=1, smoothing=4), RECORDS, n=60)
    for base in (None, 2):
        answer = boot.entropy(["x1", "x2"], base)
        assert answer.low < truth.entropy(["x1", "x2"], base) < answer.high
        assert answer.high - answer > answer - answer.low  # chance takes entropy off
    bits, nats = boot.entropy("x1", 2), boot.entropy("x1")
    assert bits.high == pytest.approx(nats.high / math.log(2))


# A model that is wrong


@pytest.fixture(scope="module")
def wrong():
    """One component, under which nothing depends on anything, for two variables that agree in 9 of 10 records."""
    random = np.random.default_rng(0)
    a = random.integers(0, 2, 3000)
    flips = random.random((2, 3000))
    frame = {"a": a, "b": np.where(flips[0] < 0.1, 1 - a, a), "c": np.where(flips[1] < 0.5, 1 - a, a)}
    return tw.bootstrap(tw.fit(frame, rank=1, smoothing=1), frame, n=40)


def test_misfit_widens_intervals_with_a_note(wrong):
    answers = {
        0.45: wrong.prob({"a": 1, "b": 1}),
        0.9: wrong.given({"a": 1}).prob({"b": 1}),
        0.9 * math.log(1.8) + 0.1 * math.log(0.2): wrong.mutual_information("a", "b"),
    }
    for true, answer in answers.items():
        assert answer.low <= true <= answer.high
        assert "may not fit a × b" in answer.note
        assert answer.note in repr(answer)
        assert answer.to_dict()["note"] == answer.note
    table = wrong.marginal(["a", "b"])
    assert table.high[1, 1] > 0.44
    assert table[1, 1].note == table.note != ""
    # The misfit of a pair is one of questions about more.
    assert "also contains what was observed" in wrong.given({"a": 1, "c": 0}).prob({"b": 1}).note
    without_triples = replace(wrong, observed=replace(wrong.observed, triples=None))
    assert "times as wide" in without_triples.given({"a": 1, "c": 0}).prob({"b": 1}).note
    # What is fitted is as sure as before.
    for sure in (wrong.prob({"a": 1, "c": 1}), wrong.prob({"b": 1}), wrong.expect("a")):
        assert sure.note == ""
        assert sure.high - sure.low < 0.08


def survey(seed, n_records=1000):
    """Return the records of a survey that no small mixture describes, and P(vote = 1) by age and degree."""
    random = np.random.default_rng(seed)
    age, degree = random.integers(0, 5, n_records), (random.random(n_records) < 0.35).astype(int)
    votes = 1 / (1 + np.exp(0.9 * (np.arange(5)[:, None] - 2) - 1.2 * np.array([0, 1])))
    vote = (random.random(n_records) < votes[age, degree]).astype(int)
    return {"age": age, "degree": degree, "vote": vote}, votes


@pytest.mark.slow
def test_intervals_contain_the_truth_where_a_model_is_too_simple():
    """Dependence is too weak in a model of few components; without what was observed, a third would be missed."""
    contained, by_model = [], []
    for seed in range(8):
        frame, votes = survey(seed)
        boot = tw.bootstrap(tw.fit(frame, rank=2, starts=1, smoothing=20), frame, n=40, seed=seed)
        for model, kept in ((boot, contained), (replace(boot, observed=None), by_model)):
            for age in (0, 4):
                answer = model.given({"age": age}).prob({"vote": 1})
                kept.append(answer.low <= votes[age] @ [0.65, 0.35] <= answer.high)
                for degree in (0, 1):
                    answer = model.given({"age": age, "degree": degree}).prob({"vote": 1})
                    kept.append(answer.low <= votes[age, degree] <= answer.high)
    assert np.mean(by_model) < 0.75
    assert np.mean(contained) > 0.85


def test_sparse_tables_do_not_widen_intervals():
    frame, _ = survey(0, 60)  # 6 records per cell of age × vote, 3 per cell of all three variables
    observed = tw.bootstrap(tw.fit(frame, rank=1, smoothing=1.0), frame, n=20).observed
    assert observed.draws(["age", "vote"], 20, posterior=True)
    assert observed.draws(["age", "degree", "vote"], 20, posterior=True) == []
    assert observed.draws(["age"], 20, posterior=True) == []


def test_the_misfit_of_a_sparse_pair_stretches_its_interval():
    label = np.concatenate([np.arange(900) % 2, np.arange(100) % 18 + 2])  # 2.5 records per cell, most in few cells
    frame = {"a": label, "b": label}
    boot = tw.bootstrap(tw.fit(frame, rank=1, smoothing=1), frame, n=20)
    assert boot.observed.draws(["a", "b"], 20, posterior=True) == []
    assert "may not fit a × b; the interval is" in boot.prob({"a": 1, "b": 1}).note


def test_evidence_that_no_record_shows_has_an_answer():
    frame = {"a": [0, 1] * 100, "b": [0, 1] * 100, "c": [0, 0, 1, 1] * 50}
    boot = tw.bootstrap(tw.fit(frame, rank=1, smoothing=1), frame, n=20)
    answer = boot.given({"a": 0, "b": 1}).prob({"c": 1})
    assert "may not fit a × b" in answer.note


def test_observed_tables_are_saved(wrong, tmp_path):
    wrong.save(tmp_path / "wrong.twoway")
    loaded = tw.Bootstrap.load(tmp_path / "wrong.twoway")
    evidence = {"a": 1, "c": 0}
    assert repr(loaded.given(evidence).prob({"b": 1})) == repr(wrong.given(evidence).prob({"b": 1}))
    for one, other in zip(
        (wrong.prob({"a": 1, "b": 1}), wrong.given({"a": 1, "c": 0}).prob({"b": 1})),
        (loaded.prob({"a": 1, "b": 1}), loaded.given({"a": 1, "c": 0}).prob({"b": 1})),
        strict=True,
    ):
        assert (one.low, one.high, one.note) == (other.low, other.high, other.note)


# Tables that leave a question open


@pytest.fixture(scope="module")
def coins(tmp_path_factory):
    """Tables of two coins and whether they differ, which say nothing about all three."""
    a, b = [0, 0, 1, 1] * 1000, [0, 1, 0, 1] * 1000
    tables = tw.count({"a": a, "b": b, "c": [x ^ y for x, y in zip(a, b, strict=True)]})
    boot = tw.bootstrap(tw.fit(tables, rank=1, smoothing=1), tables, n=20)
    path = tmp_path_factory.mktemp("coins") / "coins.twoway"
    boot.save(path)
    return boot, path


def test_answers_that_tables_leave_open_are_widened_with_a_note(coins):
    boot, path = coins
    for one in (boot, tw.Bootstrap.load(path)):
        answer = one.given({"a": 1, "b": 1}).prob({"c": 1})
        assert answer.low < 0.1
        assert answer.high > 0.9
        assert "no table shows all these variables together" in answer.note
        assert "if the model is right" in answer.note
    table = boot.given({"a": 1}).marginal(["b", "c"])
    assert (table.high.array > 0.4).all()
    assert "no table" in table.note
    assert "only if the model is right" in boot.mutual_information("a", "b", given="c").note
    known = boot.given({"a": 1}).prob({"c": 1})
    assert known.note == ""
    assert known.high - known.low < 0.1


def test_ask_shows_notes(coins, capsys):
    _, path = coins
    assert run(["ask", str(path), "P(c = 1 | a = 1, b = 1)", "P(c | a, b = 0)", "H(a, b, c)", "--interval"]) == 0
    shown = capsys.readouterr()
    assert shown.err.count("no table shows all these variables together") == 3
    low, high = (float(end) for end in shown.out.splitlines()[1].partition("(90%: ")[2].rstrip(")").split(" to "))
    assert low < 0.1
    assert high > 0.9


def test_a_pair_is_tested_on_its_own():
    """Among many pairs one as bad as this is no surprise; asked about it, the interval holds what was observed."""
    random = np.random.default_rng(1)
    records = random.integers(0, 2, (300, 8))
    agrees = random.permutation(300) < 170
    records[:, 1] = np.where(agrees, records[:, 0], 1 - records[:, 0])
    frame = {f"v{place}": column for place, column in enumerate(records.T)}
    pmf = tw.fit(frame, rank=1, smoothing=1)
    assert not tw.fit_quality(pmf, frame).misfits
    answer = tw.bootstrap(pmf, frame, n=20).given({"v0": 1}).prob({"v1": 1})
    observed = records[records[:, 0] == 1, 1].mean()
    assert answer.low <= observed <= answer.high
    assert "may not fit v0 × v1" in answer.note
