"""Continuous columns: detection, cut points, labels."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from strategies import examples

import twoway as tw
from twoway.data.binning import make_bins, needs_bins


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (range(5), False),
        (range(18, 95), False),  # ages are categories still
        (range(150), True),
        (np.arange(0.5, 5.5, 0.5), False),  # stars, by halves
        (np.arange(0, 10, 0.1), True),
        ([0.123456, 0.2, 0.3, 0.4], False),
        (np.random.default_rng(0).random(6), True),
        ([], False),
    ],
)
def test_what_looks_continuous(numbers, expected):
    assert needs_bins(np.asarray(list(numbers), dtype=float)) == expected


def mixed(n_records=200):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"income": np.exp(rng.normal(size=n_records)), "stars": rng.integers(1, 6, n_records), "vote": ["y", "n"] * 100}
    )
    frame.loc[::4, "income"] = np.nan
    return frame


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_frames_get_ordered_labels(strategy):
    frame = mixed()
    discretizer = tw.Discretizer(n_bins=4, strategy=strategy).fit(frame)
    assert list(discretizer.bins_) == ["income"]
    for table in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame, preserve_index=False)):
        binned = discretizer.transform(table)
        assert type(binned) is type(table)
        records = tw.Records(binned)
        labels = discretizer.bins_["income"].variable.categories
        assert records.schema["income"].categories == labels
        assert records.schema["stars"].categories == (1, 2, 3, 4, 5)
        codes = records.codes()[:, 0]
        np.testing.assert_array_equal(codes < 0, frame["income"].isna())
        # Later intervals hold greater numbers.
        ordered = np.argsort(frame["income"].to_numpy())[: (codes >= 0).sum()]
        assert (np.diff(codes[ordered]) >= 0).all()
    if strategy == "quantile":
        assert np.ptp(np.bincount(codes[codes >= 0])) <= 1
    assert labels[0].startswith("below ")
    assert labels[-1].endswith(" or more")
    assert discretizer.get_feature_names_out().tolist() == list(frame.columns)


def test_arrays_get_centres():
    array = mixed()[["income", "stars"]].to_numpy()
    discretizer = tw.Discretizer(n_bins=3).fit(array)
    binned = discretizer.transform(array)
    np.testing.assert_array_equal(np.isnan(binned), np.isnan(array))
    np.testing.assert_array_equal(binned[:, 1], array[:, 1])
    centres = discretizer.bins_["x0"].variable.values
    assert set(binned[~np.isnan(binned[:, 0]), 0]) == set(centres)
    for centre in centres:
        assert array[binned[:, 0] == centre, 0].mean() == pytest.approx(centre)
    whole = np.arange(300).reshape(-1, 1)
    assert tw.Discretizer(n_bins=2).fit_transform(whole).ravel().tolist() == [74.5] * 150 + [224.5] * 150


def test_records_have_centres_as_values():
    frame = mixed()
    discretizer = tw.Discretizer().fit(frame)
    pmf = tw.fit(discretizer.records(frame), rank=1, smoothing=0)
    assert pmf.expect("income") == pytest.approx(frame["income"].mean(), rel=0.01)
    weights = np.where(frame["income"] > 1, 3.0, 0.0)
    heavy = tw.fit(discretizer.records(frame, weights), rank=1, smoothing=0)
    assert heavy.expect("income") == pytest.approx(frame["income"][frame["income"] > 1].mean(), rel=0.05)


def test_columns_may_be_named():
    frame = mixed()
    assert list(tw.Discretizer(["stars"], n_bins=2).fit(frame).bins_) == ["stars"]
    for columns in ([1], [-len(frame.columns) + 1], "stars", 1):
        assert list(tw.Discretizer(columns, n_bins=2).fit(frame).bins_) == ["stars"]
    with pytest.raises(tw.UnknownNameError, match="no column -9"):
        tw.Discretizer([-9]).fit(frame)
    with pytest.raises(tw.UnknownNameError, match=r"no column 0\.0"):
        tw.Discretizer([0.0]).fit(frame)
    with pytest.raises(tw.UnknownNameError, match=r"no column 'incom'; did you mean 'income'\?"):
        tw.Discretizer(["incom"]).fit(frame)
    with pytest.raises(tw.DataError, match=r"column 'vote' must hold numbers.*got 'y'"):
        tw.Discretizer(["vote"]).fit(frame)


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        ([1.5, np.inf, 2.25], {}, "infinite"),
        ([np.nan, np.nan, np.nan], {}, "no observed number"),
        ([1.5, 2.5, 3.5], {"n_bins": 1}, "number of bins"),
        ([1.5, 2.5, 3.5], {"strategy": "kmeans"}, "no strategy 'kmeans'"),
    ],
)
def test_bad_columns(column, options, message):
    with pytest.raises(tw.TwowayError, match=message):
        tw.Discretizer(["x"], **options).fit(pd.DataFrame({"x": column}))


def test_markers_of_missing_cells_are_missing():
    frame = pd.DataFrame({"x": ["NA", 1.25, 2.125, 3.0625, "?", 4.5, 5.03125, None]}, dtype=object)
    discretizer = tw.Discretizer(n_bins=2).fit(frame)
    assert list(discretizer.bins_) == ["x"]
    assert discretizer.transform(frame)["x"].isna().tolist() == [True, False, False, False, True, False, False, True]
    with pytest.raises(tw.DataError, match="got 'high'"):
        discretizer.transform(pd.DataFrame({"x": [1.5, "high"]}, dtype=object))


@examples(50)
@given(
    hnp.arrays(float, st.integers(1, 40), elements=st.floats(-1e6, 1e6) | st.just(7.0)),
    st.integers(2, 9),
    st.sampled_from(["quantile", "uniform"]),
)
def test_every_number_has_one_bin(numbers, n_bins, strategy):
    bins = make_bins("x", numbers, n_bins=n_bins, strategy=strategy)
    codes = bins.codes(numbers)
    assert len(set(bins.variable.categories)) == len(bins.variable) <= n_bins
    assert set(codes) == set(range(len(bins.variable)))  # none is empty
    assert (np.diff(codes[np.argsort(numbers, kind="stable")]) >= 0).all()
    assert (np.diff(bins.variable.values) > 0).all()
    outside = bins.codes(np.array([-1e9, 1e9, np.nan]))
    assert outside.tolist() == [0, len(bins.variable) - 1, -1]
    every = np.arange(len(bins.variable))
    drawn = bins.draw(every, np.random.default_rng(0))
    assert (bins.edges[:-1] <= drawn).all()
    assert (drawn <= bins.edges[1:]).all()
    assert bins.is_whole == (numbers == np.rint(numbers)).all()
    if bins.is_whole:
        assert (drawn == np.rint(drawn)).all()
        assert bins.codes(drawn).tolist() == every.tolist()  # each in the bin it was drawn from
        assert bins.codes(bins.means(every)).tolist() == every.tolist()


def test_integers_are_drawn_from_their_own_bin():
    bins = make_bins("x", np.array([7.0, 0.0]), n_bins=8, strategy="uniform")  # cut at 6.125
    drawn = bins.draw(np.repeat([0, 1], 200), np.random.default_rng(0))
    assert set(drawn[200:]) == {7.0}
    assert set(drawn[:200]) == {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0}


def test_fit_warns_that_a_column_looks_continuous():
    frame = mixed()
    with pytest.warns(UserWarning, match=r"look continuous.*'income'.*Discretizer") as caught:
        pmf = tw.fit(frame, rank=2, solver="em", starts=1)
    assert caught[0].filename == __file__
    assert any("'income'" in warning and "Discretizer" in warning for warning in pmf.report.warnings)
    # Nothing is said of a table without such columns, nor of bins.
    pmf = tw.fit(tw.Discretizer().fit(frame).records(frame), rank=2, solver="em", starts=1)
    assert not any("continuous" in warning for warning in pmf.report.warnings)


def test_columns_of_another_type_are_an_error():
    with pytest.raises(tw.DataError, match=r"columns must be names or positions of columns, not 3\.5"):
        tw.Discretizer(3.5).fit(pd.DataFrame({"x": [1.5, 2.5]}))
