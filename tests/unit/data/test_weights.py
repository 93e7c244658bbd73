"""Counts and weights: a constant weight has no effect, a count repeats a record, the sum of weights is ignored."""

import warnings

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.data.files import file_records
from twoway.data.weights import WeightTotals
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError
from twoway.solvers.resampling import RecordResampling

CONSTANTS = (1.5, 1e-6, 1e6)
TRUTH = dirichlet_rows(5, 2, 2, seed=3)


def survey(n=400, seed=0, observed=0.9):
    """Return records of five binary variables as a frame."""
    records = draw_records(TRUTH, n, observed=observed, seed=seed)
    codes = records.codes()
    return pd.DataFrame({name: pd.array(codes[:, i], "Int64") for i, name in enumerate(records.schema.names)}).mask(
        codes < 0
    )


FRAME = survey()


def assert_same(one, other, *, notes=True):
    """Raise where two models, or what their reports say, differ by more than rounding."""
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.stacked, other.stacked, rtol=1e-9, atol=1e-12)
    for name in ("rank", "smoothing", "weight_smoothing", "n_records", "log_likelihood", "aic", "bic"):
        mine, others = getattr(one.report, name), getattr(other.report, name)
        assert mine == others or mine == pytest.approx(others, rel=1e-9)
    assert not notes or one.report.warnings == other.report.warnings
    np.testing.assert_allclose(one.report.support, other.report.support, rtol=1e-8)
    for mine, others in zip(one.report.misfits, other.report.misfits, strict=True):
        assert mine.total == pytest.approx(others.total)


@pytest.fixture(scope="module")
def plain():
    return tw.fit(FRAME, starts=2)


@pytest.mark.parametrize("weight", CONSTANTS)
def test_a_constant_weight_gives_the_same_model(weight, plain):
    assert_same(tw.fit(tw.Records(FRAME, weights=np.full(len(FRAME), weight)), starts=2), plain)


def test_many_different_records_are_not_merged_for_a_constant_weight():
    """Folds of merged records are dealt in another way: the same representation must come out."""
    frame = pd.DataFrame(np.random.default_rng(0).integers(0, 3, (200, 12))).astype(str)
    one, other = tw.Records(frame).for_fit(), tw.Records(frame, weights=np.full(200, 0.7)).for_fit()
    assert one.weights is None
    assert other.weights is None
    np.testing.assert_array_equal(one.codes(), other.codes())


@pytest.mark.slow
def test_the_scale_of_weights_does_not_matter():
    weights = np.random.default_rng(1).lognormal(0, 0.7, len(FRAME))
    one, other = (tw.fit(tw.Records(FRAME, weights=w), starts=2) for w in (weights, weights * 3000.0))
    assert_same(one, other)
    assert one.report.n_records == pytest.approx(weights.sum() ** 2 / np.square(weights).sum(), rel=0.02)


@pytest.mark.parametrize("scale", [1000.0, 3.3, 1e-9, 1e60])
def test_scaled_weights_are_the_same_to_the_last_digit(scale):
    """A choice of smoothing can make a thousandth of a difference in the last digit."""
    random = np.random.default_rng(302)
    weights, counts = random.lognormal(0, 0.8, len(FRAME)), random.integers(0, 5, len(FRAME))
    for options in ({}, {"counts": counts}):
        one, other = (tw.Records(FRAME, weights=w, **options).for_fit() for w in (weights, weights * scale))
        np.testing.assert_array_equal(one.weights, other.weights)
        np.testing.assert_array_equal(one.people, other.people)


def test_counts_are_records_repeated():
    counts = np.random.default_rng(2).integers(0, 4, len(FRAME))
    repeated = FRAME.iloc[np.repeat(np.arange(len(FRAME)), counts)]
    one, other = tw.fit(tw.Records(FRAME, counts=counts), starts=2), tw.fit(repeated, starts=2)
    np.testing.assert_array_equal(one.stacked, other.stacked)
    assert (one.report.bic, one.report.smoothing) == (other.report.bic, other.report.smoothing)
    # With weights beside them, each of so many records has the weight.
    weights = np.random.default_rng(3).lognormal(0, 0.5, len(FRAME))
    both = tw.Records(FRAME, counts=counts, weights=weights)
    long = tw.Records(repeated, weights=np.repeat(weights, counts))
    assert both.weight_totals.effective == pytest.approx(long.weight_totals.effective)
    assert_same(tw.fit(both, rank=2, starts=2), tw.fit(long, rank=2, starts=2), notes=False)
    assert tw.count(both).weights == pytest.approx(tw.count(long).weights)


@pytest.mark.slow
def test_choices_checks_and_intervals_are_the_same(plain):
    weighted = tw.Records(FRAME, weights=np.full(len(FRAME), 0.01))
    assert str(tw.choose_rank(weighted)) == str(tw.choose_rank(FRAME))
    for one, other in zip(tw.fit_quality(plain, weighted).pairs, tw.fit_quality(plain, FRAME).pairs, strict=True):
        assert one.chi_square == pytest.approx(other.chi_square)
        assert one.total == pytest.approx(other.total)
    assert tw.fit_quality(plain, weighted).note == ""
    one, other = (tw.bootstrap(plain, source, n=20).prob({"x1": 0}) for source in (weighted, FRAME))
    assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-7)
    assert str(tw.diagnose(weighted)) == str(tw.diagnose(FRAME))
    assert_same(tw.update(plain, weighted), tw.update(plain, FRAME))


@pytest.fixture(scope="module")
def plain_of_tables():
    return tw.fit(tw.count(FRAME), starts=2)


@pytest.mark.parametrize("weight", CONSTANTS)
def test_tables_of_weighted_records(weight, plain_of_tables):
    tables, plain = tw.count(tw.Records(FRAME, weights=np.full(len(FRAME), weight))), tw.count(FRAME)
    np.testing.assert_allclose(tables.weights, plain.weights, rtol=1e-9)
    np.testing.assert_allclose(tables.totals, plain.totals * weight, rtol=1e-9)
    np.testing.assert_allclose(tables.squares, plain.totals * weight**2, rtol=1e-9)
    assert_same(tw.fit(tables, starts=2), plain_of_tables)


@pytest.mark.parametrize("order", [2, 3])
def test_tables_know_the_effective_number_of_their_own_records(order, tmp_path):
    weights = np.random.default_rng(4).lognormal(0, 0.7, len(FRAME))
    tables = tw.count(tw.Records(FRAME, weights=weights), order)
    for names, weight in zip(tables.names, tables.weights, strict=True):
        there = FRAME[list(names)].notna().all(axis=1).to_numpy()
        assert weight == pytest.approx(weights[there].sum() ** 2 / np.square(weights[there]).sum(), rel=1e-9)
    # Parts add up to the whole, also after a file.
    parts = [tw.count(tw.Records(FRAME[rows], weights=weights[rows]), order) for rows in (slice(150), slice(150, None))]
    parts[0].save(tmp_path / "part.tables")
    added = tw.Tables.load(tmp_path / "part.tables") + parts[1]
    np.testing.assert_allclose(added.weights, tables.weights, rtol=1e-9)


@pytest.mark.parametrize("kept_bytes", [2**26, 100])
@pytest.mark.parametrize("weight", [1.5, 1e-6])
def test_streamed_files(kept_bytes, weight, tmp_path, monkeypatch, plain):
    monkeypatch.setattr(file_records, "KEPT_BYTES", kept_bytes)
    FRAME.assign(w=weight, n=2).to_parquet(tmp_path / "survey.parquet")
    path, names = tmp_path / "survey.parquet", list(FRAME.columns)
    one, other = (
        tw.fit(tw.FileRecords(path, columns=names, **given), rank=2, starts=2, smoothing=1.0)
        for given in ({"weights": "w"}, {})
    )
    assert_same(one, other)
    both = tw.fit(tw.FileRecords(path, columns=names, counts="n", weights="w"), rank=1, smoothing=1.0)
    assert both.report.n_records == pytest.approx(2 * plain.report.n_records)
    np.testing.assert_allclose(
        tw.count(tw.FileRecords(path, columns=names, weights="w")).weights, tw.count(FRAME).weights, rtol=1e-9
    )


@pytest.mark.parametrize("kept_bytes", [2**26, 100])
def test_streamed_files_with_weights_that_differ(kept_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr(file_records, "KEPT_BYTES", kept_bytes)
    weights = np.random.default_rng(4).lognormal(0, 0.7, len(FRAME))
    FRAME.assign(w=weights).to_parquet(tmp_path / "survey.parquet")
    streamed = tw.FileRecords(tmp_path / "survey.parquet", weights="w")
    in_memory = tw.Records(FRAME, weights=weights)
    assert tw.count(streamed) == tw.count(in_memory)
    options = {"rank": 2, "solver": "em", "smoothing": 2.0}
    assert_same(tw.fit(streamed, **options), tw.fit(in_memory, **options), notes=False)
    whole = streamed.for_fit()
    part = streamed.sample(whole.n_observed // 4, seed=0)
    assert part.total_weight == pytest.approx(whole.total_weight / 4, rel=0.4)


def test_folds_split_patterns_of_any_weight():
    """Fractional weights left out whole patterns: rank 2 became rank 1."""
    records = tw.Records(survey(2000, observed=1.0), weights=np.random.default_rng(5).uniform(0.5, 1.5, 2000)).for_fit()
    assert records.n_records <= 32
    for train, held in records.folds(5, seed=0):
        assert (held.weights > 0).mean() > 0.8
        assert held.total_weight == pytest.approx(records.total_weight / 5, rel=0.2)
        np.testing.assert_allclose(train.people + held.people, records.people)
        np.testing.assert_allclose(held.weights[held.people > 0] / held.people[held.people > 0], 1.0, atol=0.5)


def test_merged_patterns_keep_sums_of_weights_and_squares():
    weights = np.random.default_rng(6).lognormal(0, 1, 2000)
    records = tw.Records(survey(2000, observed=1.0), weights=weights)
    merged = records.canonical()
    assert merged.n_records <= 32
    for name in ("total", "squares", "effective"):
        assert getattr(merged.weight_totals, name) == pytest.approx(getattr(records.weight_totals, name))
    order = np.random.default_rng(7).permutation(2000)
    again = records.take(order).canonical()
    assert again.weights.tobytes() == merged.weights.tobytes()
    assert again.people.tobytes() == merged.people.tobytes()


def test_thinning_takes_people_not_patterns():
    weights = np.random.default_rng(8).lognormal(0, 0.7, 2000)
    records = tw.Records(survey(2000, observed=1.0), weights=weights).for_fit()
    part = records.thinned(0.25, np.random.default_rng(0))
    assert part.n_records > 0.8 * records.n_records
    assert part.total_weight == pytest.approx(0.25 * records.total_weight, rel=0.15)


def test_replicates_of_a_constant_weight_are_those_of_none():
    weighted, plain = (RecordResampling(tw.Records(FRAME, weights=w)) for w in (np.full(len(FRAME), 0.3), None))
    for number in range(3):
        np.testing.assert_array_equal(weighted.draw(0, number).records.weights, plain.draw(0, number).records.weights)


# What counts and weights may be


@pytest.mark.parametrize("counts", [[1, 2.5], [1, -1], [1, np.nan], [1, np.inf], [1, 2.0**54], [1, 5e-324]])
def test_counts_that_are_none(counts):
    with pytest.raises(DataError, match=r"counts must be whole numbers from 0 to 2\*\*53; record 1 has"):
        tw.Records({"a": [0, 1]}, counts=counts)


@pytest.mark.parametrize("weights", [[1, 5e-324], [1, 1e308], [1e-101, 1], [1, 1e101]])
def test_weights_whose_squares_cannot_be_added(weights):
    with pytest.raises(DataError, match=r"weights must be 0 or between 1e-100 and 1e\+100; record [01] has"):
        tw.Records({"a": [0, 1]}, weights=weights)


@pytest.mark.parametrize("weights", [[1e-100, 1e100, 1.0, 0.0], [1e100] * 4, [1e-100] * 4])
def test_extreme_weights_give_a_model_without_a_warning(weights):
    columns = {"a": [0, 0, 1, 1], "b": [0, 1, 1, 0]}
    pmf = tw.fit(tw.Records(columns, weights=weights), rank=2, starts=2)
    shares = np.bincount(columns["a"], weights) / np.sum(weights)
    smoothed = tw.fit(tw.Records(columns, weights=weights), rank=1, solver="em")
    assert np.asarray(smoothed.marginal("a")) == pytest.approx(shares, abs=1e-9)
    assert np.isfinite(pmf.stacked).all()
    tables = tw.count(tw.Records(columns, weights=weights))
    assert np.asarray(tables.marginal("a")) == pytest.approx(shares)


@pytest.mark.parametrize("flat", [[5e-324] * 4, [1e308] * 4, [1, 1e308, 1, 1], [1e-320, 0, 0, 0]])
def test_invalid_counts_of_tables(flat):
    schema = tw.Schema((tw.Variable("a", (0, 1)), tw.Variable("b", (0, 1))))
    with pytest.raises(DataError, match=r"a count must be at most|a table's total must be between"):
        tw.Tables(schema, [[0, 1]], flat)


@pytest.mark.slow
def test_tiny_counts_among_others():
    schema = tw.Schema((tw.Variable("a", (0, 1)), tw.Variable("b", (0, 1))))
    one, other = (
        tw.fit(tw.Tables(schema, [[0, 1]], [700.0, 200.0, few, 100.0]), rank=2, starts=1) for few in (5e-324, 0.0)
    )
    np.testing.assert_allclose(np.asarray(one.marginal(["a", "b"])), np.asarray(other.marginal(["a", "b"])), atol=1e-6)


def test_names_of_columns():
    frame = FRAME.assign(n=2, w=0.5)
    records = tw.Records(frame, counts="n", weights="w")
    assert records.schema.names == tuple(FRAME.columns)
    assert records.weight_totals == WeightTotals(400.0, 200.0, 0.5, 0.5, is_weighted=True, is_whole=False)
    assert tw.Records(frame, columns=["x1"], counts="n").schema.names == ("x1",)
    with pytest.raises(tw.UnknownNameError, match="no column 'm' for the counts"):
        tw.Records(frame, counts="m")
    with pytest.raises(DataError, match="'n' cannot hold both counts and weights"):
        tw.Records(frame, counts="n", weights="n")
    again = tw.Records(records, where=np.arange(len(frame)) < 100)
    assert again.weight_totals.effective == 200


def test_integer_weights_give_one_warning():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tw.Records({"a": [0, 1]}, weights=[2, 2])
        tw.Records({"a": [0, 1]}, weights=[0, 2])
        tw.Records({"a": [0, 1]}, weights=[1.5, 2])
        tw.Records({"a": [0, 1]}, counts=[1, 2])
        assert not told
        for _ in range(2):
            tw.Records({"a": [0, 1]}, weights=[1, 2])
    assert [one.category for one in told] == [FutureWarning]
    assert "counts" in str(told[0].message)
    assert told[0].filename == __file__


def test_tables_of_weights_many_powers_of_ten_apart():
    """The squares of the least weights are rounded away beside those of the largest; their table still counts."""
    frame = pd.DataFrame({"a": ["no", None], "b": ["no", None], "c": [None, "no"], "d": [None, "no"]})
    tables = tw.count(tw.Records(frame, weights=[1e-12, 0.3]))
    assert 0 < tables.weights[tables.names.index(("a", "b"))] <= 1
    assert tables.weights[tables.names.index(("c", "d"))] == pytest.approx(1)


def test_a_weight_that_is_no_number_is_named_with_its_record():
    with pytest.raises(DataError, match=r"record 2 has 'abc' \(the first record is 0\)"):
        tw.Records({"a": [0, 1, 0]}, weights=[1.0, 2.0, "abc"])
    with pytest.raises(DataError, match=r"record 1 has nan \(the first record is 0\); .* weight 0"):
        tw.Records({"a": [0, 1, 0]}, weights=[1.0, None, 2.0])
