"""Multiple imputation: completed tables vary as much as they should, and Rubin's rules."""

import math
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows


def survey(seed=0, n=400, missing=0.8):
    frame = dirichlet_rows(4, 2, 2, seed=3).sample(n, seed=seed).astype(float)
    rng = np.random.default_rng([seed, 1])
    frame.loc[rng.random(n) < np.where(frame["x2"] == 0, missing + 0.1, missing - 0.1), "x1"] = np.nan
    return frame


FRAME = survey()


@pytest.fixture(scope="module")
def boot():
    return tw.bootstrap(tw.fit(FRAME, rank=2, smoothing=1, starts=2), FRAME, n=24)


def share(table):
    values = np.asarray(table["x1"], dtype=float)
    return values.mean(), values.var(ddof=1) / len(values)


def test_copies_keep_observed_cells_and_the_type_of_frame(boot):
    observed = FRAME["x1"].notna()
    tables = boot.impute(FRAME, m=5)
    assert len(tables) == 5
    for table in tables:
        assert table["x1"].isin([0, 1]).all()
        pd.testing.assert_frame_equal(table[observed], FRAME[observed])
    assert len({tuple(table["x1"]) for table in tables}) == 5
    again = boot.impute(FRAME, m=5)
    assert all(one.equals(other) for one, other in zip(tables, again, strict=True))
    assert not boot.impute(FRAME, m=5, seed=1)[0].equals(tables[0])
    for frame in (pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME)):
        copies = boot.impute(frame, m=2)
        assert all(type(copy) is type(frame) for copy in copies)
        assert np.asarray(copies[0]["x1"]).tolist() == tables[0]["x1"].tolist()
    arrays = boot.impute(FRAME.to_numpy(), m=2)
    np.testing.assert_array_equal(arrays[0], tables[0].to_numpy())


def test_copies_differ_more_than_those_of_one_model(boot):
    """The model itself is not known: that is the larger part of what 8 missing cells in 10 leave open."""
    proper = tw.pool(share, boot.impute(FRAME, m=20))
    improper = tw.pool(share, [boot.pmf.impute(FRAME, "sample", seed=seed) for seed in range(20)])
    assert proper.standard_error > 1.3 * improper.standard_error
    assert proper.missing_information > improper.missing_information
    assert proper.degrees < improper.degrees


def test_each_copy_needs_a_replicate(boot):
    with pytest.raises(tw.DataError, match="25 were asked for, and there are 24"):
        boot.impute(FRAME, m=25)
    with pytest.raises(tw.DataError, match="m must be a whole number of at least 2"):
        boot.impute(FRAME, m=1)


def test_categories_that_a_replicate_has_not_seen_are_possible():
    """Without smoothing, a replicate that lacks a record's category has probability 0 for it."""
    frame = pd.DataFrame({"a": ["u", "v"] * 20 + ["rare"], "b": ["x", "y"] * 20 + [None]})
    boot = tw.bootstrap(tw.fit(frame, rank=2, smoothing=0, starts=2), frame, n=20)
    assert any(pmf.prob({"a": "rare"}) == 0 for pmf in boot.replicates)
    assert all(table["b"].notna().all() for table in boot.impute(frame, m=20))


# What is impossible

IMPOSSIBLE = tw.JointPMF(
    [0.5, 0.5],
    [[[1, 0], [0, 1]], [[1, 0], [0, 1]], [[0.3, 0.6], [0.7, 0.4]]],
    tw.Schema(tuple(tw.Variable(name, (0, 1)) for name in "abc")),
)


@pytest.mark.parametrize("how", ["mode", "mean", "sample"])
def test_impossible_records_are_not_imputed(how):
    frame = pd.DataFrame({"a": [0, 0, 0], "b": [0, 1, 1], "c": [np.nan, np.nan, 1.0]})
    with pytest.warns(UserWarning, match=r"1 record is impossible.*stay missing: 1, counted"):
        filled = IMPOSSIBLE.impute(frame, how)
    assert filled["c"].isna().tolist() == [False, True, False]
    with pytest.warns(UserWarning, match=r"2 records are impossible.*memberships are NaN: 1, 2, counted"):
        memberships = IMPOSSIBLE.memberships(frame)
    np.testing.assert_array_equal(memberships, [[1, 0], [np.nan] * 2, [np.nan] * 2])
    boot = tw.Bootstrap(IMPOSSIBLE, (IMPOSSIBLE,) * 2, IMPOSSIBLE)
    with pytest.warns(UserWarning, match="1 record is impossible"):
        tables = boot.impute(frame, m=2)
    assert [table["c"].isna().tolist() for table in tables] == [[False, True, False]] * 2


# Rubin's rules


def test_rubins_rules_by_hand():
    pairs = [(1.0, 4.0), (3.0, 5.0), (2.0, 6.0)]
    pooled = tw.pool(lambda pair: pair, pairs, degrees=10)
    total = 5 + 4 / 3 * 1
    share = (4 / 3) / total
    left = 11 / 13 * 10 * (1 - share)
    degrees = 1 / (share**2 / 2 + 1 / left)
    assert (pooled.estimate, pooled.n_tables, pooled.level) == (2, 3, 0.9)
    assert pooled.standard_error == pytest.approx(math.sqrt(total))
    assert pooled.degrees == pytest.approx(degrees)
    ratio = share / (1 - share)
    assert pooled.missing_information == pytest.approx((ratio + 2 / (degrees + 3)) / (ratio + 1))
    # Student's t with 5.82 degrees of freedom has its 95 % quantile at 1.954.
    assert pooled.high - 2 == pytest.approx(1.954 * math.sqrt(total), rel=2e-3) == 2 - pooled.low
    assert pooled.interval == 2
    assert (pooled.interval.low, pooled.interval.high) == (pooled.low, pooled.high)
    assert tw.pool(lambda pair: pair, pairs, degrees=math.inf).degrees == pytest.approx(2 / share**2)


def test_nothing_missing_is_the_analysis_of_one_table():
    table = FRAME.drop(columns="x1").rename(columns={"x2": "x1"})
    pooled = tw.pool(share, [table] * 5, level=0.95)
    mean, variance = share(table)
    assert pooled.estimate == pytest.approx(mean)
    assert pooled.standard_error == pytest.approx(math.sqrt(variance))
    assert pooled.missing_information == 0
    assert pooled.high - mean == pytest.approx(1.966 * math.sqrt(variance), rel=1e-3)
    sure = tw.pool(lambda _: (1.0, 0.0), [table] * 2)
    assert (sure.low, sure.high) == (1, 1)


def test_several_estimates_at_once():
    tables = [np.arange(6.0), np.arange(6.0) + 1, np.arange(6.0) * 2]
    one = tw.pool(lambda table: (table.mean(), table.var()), tables, degrees=5)
    named = tw.pool(lambda table: {"mean": (table.mean(), table.var())}, tables, degrees=5)
    listed = tw.pool(lambda table: np.array([[table.mean(), table.var()]] * 3), tables, degrees=5)
    pairs = tw.pool(lambda table: (np.full(3, table.mean()), np.full(3, table.var())), tables, degrees=5)
    series = tw.pool(
        lambda table: (pd.Series({"a": table.mean(), "b": 1.0}), pd.Series({"b": 2.0, "a": table.var()})),
        tables,
        degrees=5,
    )
    assert named == {"mean": one}
    assert listed == pairs == [one] * 3
    assert series["a"] == one
    assert (series["b"].estimate, series["b"].standard_error) == (1, pytest.approx(math.sqrt(2)))
    # Rows less estimates.
    assert tw.pool(lambda table: {"x": (0.0, 1.0), "y": (1.0, 1.0)}, tables)["x"].degrees == pytest.approx(4 * 5 / 7)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda table: table.mean(), "without a variance: it must return (estimate, variance)"),
        (lambda table: {"a": table.mean()}, "for 'a' in table 1, without a variance"),
        (lambda table: "text", "it must return (estimate, variance)"),
        (lambda table: None, "it must return (estimate, variance)"),
        (lambda table: {}, "nothing for table 1"),
        (lambda table: (1.0, 2.0, 3.0), "without a variance"),
        (lambda table: (math.nan, 1.0), "the estimate in table 1 is nan: are there still missing cells?"),
        (lambda table: {"a": (1.0, -1.0)}, "the variance for 'a' in table 1 must be a number of at least 0, not -1.0"),
        (lambda table: (table.mean(), 0.0), "is 0 in every table, but the estimates differ"),
        (lambda table: {table.mean(): (1.0, 1.0)}, "for table 2, but"),
    ],
)
def test_functions_that_cannot_be_pooled(function, message):
    with pytest.raises(tw.DataError, match=re.escape(message)):
        tw.pool(function, [np.arange(5.0), np.arange(5.0) + 1])


def test_misuse():
    with pytest.raises(tw.DataError, match="at least 2 completed tables, got 1"):
        tw.pool(share, [FRAME])
    with pytest.raises(tw.DataError, match="function first"):
        tw.pool([FRAME], share)
    with pytest.raises(tw.DataError, match="between 0 and 1"):
        tw.pool(share, [FRAME] * 2, level=90)
    with pytest.raises(tw.DataError, match="degrees"):
        tw.pool(lambda _: (1.0, 1.0), [FRAME] * 2, degrees=0)
