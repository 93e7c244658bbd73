"""Bootstrap: every question has an interval, and coverage is about as stated."""

import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.model.intervals import Interval, interval_ends
from twoway.solvers.resampling import RecordResampling, TableResampling
from twoway.uncertainty.bootstrap import Bootstrap

TRUTH = dirichlet_rows(6, 3, 2, seed=4)
RECORDS = draw_records(TRUTH, 1500, observed=0.7, seed=1)


@pytest.fixture(scope="module")
def boot():
    return tw.bootstrap(tw.fit(RECORDS, rank=2, smoothing=1.0), RECORDS, n=60)


def test_every_question_has_an_interval(boot):
    pmf = boot.pmf
    numbers = {
        boot.prob({"x1": 0, "x2": [1, 2]}): pmf.prob({"x1": 0, "x2": [1, 2]}),
        boot.expect("x3"): pmf.expect("x3"),
        boot.entropy(["x1", "x2"]): pmf.entropy(["x1", "x2"]),
        boot.mutual_information("x1", "x2"): pmf.mutual_information("x1", "x2"),
        boot.mutual_information("x1", "x2", given="x3", base=2): pmf.mutual_information("x1", "x2", "x3", 2),
    }
    for interval, value in numbers.items():
        assert float(interval) == value
        assert interval.low < value < interval.high
        assert interval.level == 0.9
    table = boot.marginal(["x2", "x1"])
    np.testing.assert_array_equal(np.asarray(table), np.asarray(pmf.marginal(["x2", "x1"])))
    assert ((table.low.array < table.estimate.array) & (table.estimate.array < table.high.array)).all()
    assert table[1, 0] == pmf.marginal(["x2", "x1"])[1, 0]
    assert table[{"x1": 0}][1].high == table[1, 0].high
    logs = boot.log_prob(RECORDS)
    assert logs.low.shape == logs.estimate.shape == (1500,)
    assert boot.memberships(RECORDS).high.shape == (1500, 2)
    mode = boot.mode(["x1", "x2"])
    assert mode.values == pmf.mode(["x1", "x2"]).values
    assert mode.probability.low < mode.probability < mode.probability.high
    assert 0 < mode.agreement <= 1


@pytest.mark.slow
def test_a_bootstrap_is_accepted_wherever_a_model_is(boot):
    pmf = boot.pmf
    assert (boot.schema, boot.rank, boot.report) == (pmf.schema, pmf.rank, pmf.report)
    assert boot.sample(5, seed=1).equals(pmf.sample(5, seed=1))
    answer = tw.ask(boot, "P(x1 = 0 | x2 = 1)")
    assert (float(answer), answer.level) == (tw.ask(pmf, "P(x1 = 0 | x2 = 1)"), 0.9)
    assert answer.low < answer < answer.high
    table = tw.ask(boot, "P(x1 | x2)")
    assert np.array_equal(table, tw.ask(pmf, "P(x1 | x2)"))
    assert (np.asarray(table.low) <= np.asarray(table.high)).all()
    for question in ("E(x3)", "H(x1)", "I(x1; x2)"):
        assert float(tw.ask(boot, question)) == pytest.approx(float(tw.ask(pmf, question)))
    assert tw.ask(boot, "mode(x1 | x2 = 0)").values == tw.ask(pmf, "mode(x1 | x2 = 0)").values
    assert tw.compare(boot, boot).pairs[0].total_variation == 0
    assert tw.fit_quality(boot, RECORDS).pairs == tw.fit_quality(pmf, RECORDS).pairs
    assert tw.update(boot, RECORDS, max_iter=2).rank == 2
    assert tw.sql_view(boot, "t") == tw.sql_view(pmf, "t")
    assert tw.diagnose(boot).verdict == tw.diagnose(pmf).verdict
    assert tw.summarize(boot, RECORDS) == tw.summarize(pmf, RECORDS)
    assert len(tw.bootstrap(boot, RECORDS, n=20).replicates) == 20


def test_given_composes(boot):
    inside = boot.given({"x1": 0})
    answer = inside.prob({"x2": 1})
    assert float(answer) == boot.pmf.given({"x1": 0}).prob({"x2": 1})
    assert answer.high - answer.low > 0
    # Known for sure stays known for sure.
    assert inside.prob({"x1": 0}).low == pytest.approx(1)


def test_a_higher_level_is_wider(boot):
    narrow, wide = boot.at(0.5).prob({"x1": 0}), boot.at(0.95).prob({"x1": 0})
    assert wide.low < narrow.low < narrow.high < wide.high
    with pytest.raises(tw.DataError, match="between 0 and 1"):
        boot.at(90)


def test_more_records_give_narrower_intervals(boot):
    more = draw_records(TRUTH, 24_000, observed=0.7, seed=2)
    surer = tw.bootstrap(tw.fit(more, rank=2, starts=2, smoothing=1), more, n=60)
    one, other = (replace(each, observed=None).prob({"x1": 0, "x2": 1}) for each in (boot, surer))
    assert 2.5 < (one.high - one.low) / (other.high - other.low) < 6.5  # √16 = 4


def test_the_same_seed_gives_the_same_whatever_the_threads(boot):
    again = tw.bootstrap(boot.pmf, RECORDS, n=60, threads=1)
    assert all(np.array_equal(a.stacked, b.stacked) for a, b in zip(boot.replicates, again.replicates, strict=True))
    other = tw.bootstrap(boot.pmf, RECORDS, n=20, seed=1)
    assert not np.array_equal(boot.replicates[0].stacked, other.replicates[0].stacked)


def test_intervals_contain_the_truth():
    """Many answers of several data sets: about nine in ten, measured closely in benchmarks/diagnose.py."""
    held = []
    for seed in range(5):
        truth = dirichlet_rows(6, 3, 2, seed=seed)
        records = draw_records(truth, 2000, observed=0.6, seed=seed)
        table = tw.bootstrap(tw.fit(records, rank=2, starts=2, smoothing=1), records, n=60)
        for pair in (["x1", "x2"], ["x3", "x4"], ["x5", "x6"]):
            found, true = table.marginal(pair), np.asarray(truth.marginal(pair))
            held.append((found.low.array <= true) & (true <= found.high.array))
    assert 0.82 < np.mean(held) < 0.98


@pytest.mark.slow
def test_tables_that_share_people_have_wider_intervals():
    complete = draw_records(TRUTH, 2000, observed=1.0, seed=3)
    tables = tw.count(complete)
    pmf = tw.fit(tables, rank=2, starts=2, smoothing=1)
    together = tw.bootstrap(pmf, tables, n=60).prob({"x1": 0})
    apart = tw.bootstrap(pmf, tables, n=60, n_records=math.inf).prob({"x1": 0})
    # The share of x1 = 0 among 2000 people is known to ±√(p(1−p)/2000), however many tables repeat it.
    error = math.sqrt(together * (1 - together) / 2000)
    assert (together.high - together.low) / (2 * 1.645 * error) == pytest.approx(1, abs=0.35)
    assert (apart.high - apart.low) < 0.65 * (together.high - together.low)


def test_tables_are_drawn_with_their_own_totals_and_the_models_shares():
    tables = tw.count(draw_records(TRUTH, 3000, observed=0.5, seed=3))
    for n_records in (None, 3000, math.inf):
        drawn = TableResampling(tables, TRUTH, n_records)
        sets = [drawn.draw(0, number).records for number in range(30)]
        totals = [tables.schema, np.array([one.total_weight for one in sets])]
        np.testing.assert_allclose(totals[1], tables.weights.sum())
        mean = np.mean([one.cell_totals() for one in sets], axis=0)
        model = np.concatenate([np.asarray(TRUTH.marginal(name)) for name in TRUTH.schema.names])
        of_variable = np.bincount(tables.sets.ravel(), np.repeat(tables.weights, 2))
        np.testing.assert_allclose(mean, model * np.repeat(of_variable, 3), rtol=0.1, atol=20)


def test_huge_totals_are_not_simulated_one_by_one():
    truth = dirichlet_rows(3, 3, 2)
    flat = np.concatenate([np.asarray(truth.marginal(pair)).ravel() for pair in (["x1", "x2"], ["x1", "x3"])]) * 1e12
    tables = tw.Tables(truth.schema, np.array([[0, 1], [0, 2]]), flat)
    answer = tw.bootstrap(tw.fit(tables, rank=2, starts=2, smoothing=0), tables, n=20).prob({"x1": 0})
    assert answer.high - answer.low < 1e-5


def test_weights_are_resampled_with_their_records():
    """What a pattern weighs in replicates has the sum of its people's weights as mean, of their squares as variance."""
    columns = {"a": [0] * 300 + [1] * 1200}
    weights = np.where(np.arange(1500) % 5 == 0, 4.0, 0.5)
    resampling = RecordResampling(tw.Records(columns, weights=weights))
    unit = np.square(weights).sum() / weights.sum()
    drawn = np.array([np.sort(resampling.draw(0, number).records.weights) for number in range(2000)])
    assert drawn[:, 0].mean() == pytest.approx(weights[:300].sum() / unit, rel=0.01)
    # All are drawn from as many people, so that the other pattern gets what this one lacks.
    expected = np.square(weights[:300]).sum() / unit**2 * (1 - 300 / 1500)
    assert drawn[:, 0].var() == pytest.approx(expected, rel=0.1)
    # One record a hundred times is a hundred records, each a tenth of all.
    merged = RecordResampling(tw.Records({"a": [0, 1]}, counts=[900, 100])).draw(0, 0).records
    assert merged.total_weight == 1000
    assert 60 < merged.weights.min() < 140


def test_the_model_need_not_be_the_best_fit():
    """Intervals stay around the model's answer, as wide as chance makes them."""
    rough = tw.fit(RECORDS, rank=2, solver="spa")
    best = tw.fit(RECORDS, rank=2, smoothing=1.0)
    boots = [replace(tw.bootstrap(pmf, RECORDS, n=40), observed=None) for pmf in (rough, best)]
    answers = [boot.prob({"x1": 0, "x2": 1}) for boot in boots]
    widths = [answer.high - answer.low for answer in answers]
    assert answers[0].low < answers[0] < answers[0].high
    assert 0.5 < widths[0] / widths[1] < 2


def test_tables_of_given_edges_count_as_they_did_in_the_fit(tmp_path):
    records = draw_records(dirichlet_rows(5, 3, 2, seed=3), 400, observed=1.0)
    path = [(f"x{n}", f"x{n + 1}") for n in range(1, 5)]
    pmf = tw.fit(records, structure=path, rank=2, smoothing=0.5, starts=1)
    assert pmf.report.edges == tuple(path)
    pmf.save(tmp_path / "path.twoway")
    pmf = tw.JointPMF.load(tmp_path / "path.twoway")
    assert pmf.report.edges == tuple(path)
    # At the optimum already: other tables, as those of the tree that would be found, lead elsewhere.
    center = tw.bootstrap(pmf, records, n=20, threads=1).center
    other = replace(pmf.report, edges=())
    elsewhere = tw.bootstrap(pmf.with_report(other), records, n=20, threads=1).center
    off = [np.abs(model.log_prob(records) - pmf.log_prob(records)).max() for model in (center, elsewhere)]
    assert off[0] < 0.1 * off[1]


def test_files_carry_replicates(boot, tmp_path):
    boot.save(tmp_path / "model.twoway")
    assert np.array_equal(tw.JointPMF.load(tmp_path / "model.twoway").stacked, boot.pmf.stacked)
    assert len(tw.load(tmp_path / "model.twoway").replicates) == len(boot.replicates)
    boot.pmf.save(tmp_path / "plain.twoway")
    assert isinstance(tw.load(tmp_path / "plain.twoway"), tw.JointPMF)
    again = Bootstrap.load(tmp_path / "model.twoway")
    assert again.prob({"x1": 0}).to_dict() == boot.prob({"x1": 0}).to_dict()
    boot.pmf.save(tmp_path / "plain.twoway")
    with pytest.raises(tw.FileFormatError, match="without replicates"):
        Bootstrap.load(tmp_path / "plain.twoway")


def test_bad_input_is_refused(boot):
    with pytest.raises(tw.DataError, match="n must be a whole number of at least 20"):
        tw.bootstrap(boot.pmf, RECORDS, n=5)
    with pytest.raises(tw.DataError, match="nothing to draw from"):
        tw.bootstrap(boot.pmf, {"x1": [None, None]})
    with pytest.raises(tw.DataError, match="different variables"):
        tw.bootstrap(boot.pmf, tw.count({"a": [0, 1], "b": [1, 0]}))
    with pytest.raises(tw.UnknownNameError, match="did you mean 'x1'"):
        boot.prob({"X1": 0})


def test_ctrl_c_keeps_what_is_finished():
    def stop(progress):
        if progress.done == 30:
            raise KeyboardInterrupt

    pmf = tw.fit(RECORDS, rank=2, smoothing=1.0)
    kept = tw.bootstrap(pmf, RECORDS, n=2000, monitor=stop)
    assert len(kept.replicates) == 30
    assert "interrupted: 30 of 2000" in kept.warnings[0]

    def stop_at_once(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tw.bootstrap(pmf, RECORDS, n=2000, monitor=stop_at_once)


# Intervals


def test_interval_is_a_number():
    interval = Interval(0.25, 0.2, 0.31, 0.9)
    assert interval * 2 == 0.5
    for copied in (copy.copy(interval), pickle.loads(pickle.dumps(interval))):
        assert copied.to_dict() == interval.to_dict()


@examples(50)
@given(st.sampled_from(["probability", "nonnegative", "real"]), st.integers(0, 10**6), st.floats(0.5, 0.99))
def test_intervals_stay_where_answers_can_be(scale, seed, level):
    random = np.random.default_rng(seed)
    replicates = random.beta(0.5, 0.5, size=(30, 7))
    estimate = replicates.mean(axis=0)
    _, low, high = interval_ends(estimate, estimate, replicates, level, scale, reflected=True)
    assert (low <= estimate).all()
    assert (estimate <= high).all()
    if scale != "real":
        assert (low >= 0).all()
    if scale == "probability":
        assert (high <= 1).all()


def test_bias_is_removed():
    """Replicates that all lie above the center say that the estimate lies above the truth."""
    estimate = np.array(0.5)
    replicates = np.linspace(0.52, 0.62, 101)[:, None].squeeze()
    _, low, high = interval_ends(estimate, estimate, replicates, 0.9, "real", reflected=True)
    assert low == pytest.approx(0.385, abs=0.002)
    assert high == 0.5  # never without the estimate


def test_infinite_answers_have_infinite_intervals():
    replicates = np.array([[0.0, -np.inf], [1.0, 2.0], [2.0, 3.0]])
    _, low, high = interval_ends(np.array([1.0, 2.0]), np.array([1.0, 2.0]), replicates, 0.5, "real", reflected=True)
    assert np.isfinite([low[0], high[0]]).all()
    assert (low[1], high[1]) == (-np.inf, np.inf)


def test_tables_of_intervals_as_frames(boot):
    table = boot.marginal(["x1", "x2"])
    frame = table.to_frame()
    assert list(frame.columns) == ["x1", "x2", "probability", "low", "high"]
    assert len(frame) == np.asarray(table).size
    row = frame.iloc[1]
    cell = table[row.x1, row.x2]
    assert (row.probability, row.low, row.high) == (float(cell), cell.low, cell.high)
    assert table.to_frame("polars").rows() == [tuple(row) for row in frame.itertuples(index=False)]
    named = tw.fit({"low": [0, 1, 1, 0], "b": [0, 1, 1, 1]}, rank=1)
    with pytest.raises(tw.DataError, match="variable 'low'"):
        tw.bootstrap(named, {"low": [0, 1, 1, 0], "b": [0, 1, 1, 1]}, 20).marginal("low").to_frame()


def test_evidence_that_some_replicates_exclude():
    """A category seen once is in some replicates only; the others have nothing to say about it."""
    data = {"a": ["x"] * 30 + ["rare"], "b": ["p", "q"] * 15 + ["p"]}
    boot = tw.bootstrap(tw.fit(data, rank=1, smoothing=0.0), data, 40, seed=0)
    given = boot.given({"a": "rare"})
    left = len(given.replicates)
    assert 10 < left < 40
    assert f"{40 - left} replicates" in given.warnings[-1]
    never = Bootstrap(
        boot.pmf, tuple(pmf for pmf in boot.replicates if pmf.prob({"a": "rare"}) == 0), boot.pmf, 0.9, ()
    )
    with pytest.raises(tw.ImpossibleEvidenceError, match="in every replicate"):
        never.given({"a": "rare"})


def test_nothing_to_draw_from(boot):
    with pytest.raises(tw.DataError, match="different variables"):
        tw.bootstrap(boot.pmf, tw.count({"a": [0, 1], "b": [0, 1]}), 20)
    with pytest.raises(tw.DataError, match="nothing to draw from"):
        tw.bootstrap(boot.pmf, {name: [None, None] for name in boot.pmf.schema.names}, 20)
    counted = tw.count(boot.pmf.sample(50))
    with pytest.raises(tw.DataError, match="n_records must be a number above 0, not -1"):
        tw.bootstrap(boot.pmf, counted, 20, n_records=-1)
    with pytest.raises(tw.DataError, match="no table to draw from"):
        tw.bootstrap(boot.pmf, counted.select([]), 20)


def test_intervals_of_expected_values_and_differences_keep_to_their_ranges():
    random = np.random.default_rng(0)
    x = random.integers(0, 2, 60)
    # The difference is near -1, and the expected value is negative.
    data = {"x": np.where(x == 1, -5, -7), "y": np.where(random.random(60) < 0.03, 1 - x, x)}
    boot = tw.bootstrap(tw.fit(data, rank=2, smoothing=0.5), data, n=40, seed=1)
    mean = tw.ask(boot, "E(x)")
    assert -7 <= mean.low < float(mean) < mean.high <= -5
    difference = tw.ask(boot, "P(y = 1 | x = -7) - P(y = 1 | x = -5)")
    assert -1.0 <= difference.low < float(difference) < difference.high < -0.8
    other = tw.ask(boot, "P(y = 1 | x = -5) - P(y = 1 | x = -7)")
    assert 0.8 < other.low < float(other) < other.high <= 1.0
    ratio = tw.ask(boot, "P(y = 1 | x = -7) / P(y = 1 | x = -5)")
    assert 0.0 <= ratio.low < ratio.high < 0.2
