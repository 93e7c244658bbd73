"""Tables of a survey by its design: standard errors and tests as R's survey package computes them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from golden.survey_sample import N_TOWNS, survey_sample
from scipy.stats import chi2_contingency, norm
from scipy.stats import t as student

import twoway as tw
from twoway.checks.sampled_table import SampledRecords
from twoway.errors import DataError

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "survey.json").read_text())
SURVEY = survey_sample()
RECORDS = tw.Records(SURVEY, columns=["trust", "vote"], weights="weight")
REPLICATES = SURVEY.filter(like="repw")
STRATA = {"strata": SURVEY["region"]}
UNITS = {"units": SURVEY["town"]}
DESIGNS = {
    "weights": None,
    "strata": tw.Design(**STRATA),
    "units": tw.Design(units=SURVEY["region"] + SURVEY["town"].astype(str)),
    "both": tw.Design(**STRATA, **UNITS),
    "finite": tw.Design(**STRATA, **UNITS, population=SURVEY["size"]),
    "jackknife": tw.Design(replicates=REPLICATES),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_errors_and_tests_are_those_of_r(name):
    expected = GOLDEN[name]
    table = tw.sampled_table(RECORDS, ["trust", "vote"], design=DESIGNS[name])
    assert RECORDS.schema["trust"].categories == ("high", "low", "middle")
    np.testing.assert_allclose(table.shares.ravel(), expected["shares"], rtol=1e-10)
    np.testing.assert_allclose(table.standard_errors.ravel(), expected["errors"], rtol=1e-10)
    test = table.independence
    numbers = [test.statistic, test.degrees, test.other_degrees, test.p_value]
    np.testing.assert_allclose(numbers, expected["test"], rtol=1e-9)
    # The share of "yes" among those who trust much, less that among those who trust little.
    groups = tw.sampled_table(RECORDS, ["vote", "trust"], design=DESIGNS[name]).groups()
    gap, error = expected["gap"]
    assert groups.shares[1, 0] - groups.shares[1, 1] == pytest.approx(gap, rel=1e-10)
    p_value = 2 * student.sf(abs(gap) / error, table.degrees)
    # R asks each replicate for the difference itself, which is not quite linear.
    assert groups.p_values[1, 0, 1] == pytest.approx(p_value, rel=0.2 if name == "jackknife" else 1e-8)


@pytest.mark.parametrize("name", ["weights", "strata", "units", "both", "finite"])
def test_given_shares_are_tested_as_in_r(name):
    sampled = SampledRecords(RECORDS, DESIGNS[name])
    sampled_shares = sampled.shares(sampled.cells_of([0]), 3)
    given = np.array([0.3, 0.45, 0.25])
    effect, degrees = sampled_shares.design_effects(given)
    statistic = ((sampled_shares.shares - given) ** 2 / given).sum() / effect
    # R takes how much deviations vary at the observed shares, not at those given.
    np.testing.assert_allclose([statistic, degrees], GOLDEN[name]["given"], rtol=0.05)
    # A model with these shares, and another variable that says nothing.
    pmf = tw.JointPMF([1.0], [given[:, None], np.ones((2, 1)) / 2], RECORDS.schema)
    quality = tw.fit_quality(pmf, RECORDS, design=DESIGNS[name] or tw.Design())
    own = quality["trust", "vote"]
    sampled_shares = sampled.shares(sampled.cells_of([0, 1]), 6)
    expected = pmf.marginal(["trust", "vote"]).array.ravel()
    effect, degrees = sampled_shares.design_effects(expected)
    assert own.chi_square / own.degrees == pytest.approx(
        ((sampled_shares.shares - expected) ** 2 / expected).sum() / effect
    )
    assert own.total == pytest.approx(5 / effect)
    assert "tests allow for the design" in quality.note
    if name == "both":
        assert quality.note.endswith("15 units in 3 strata")


@pytest.mark.parametrize("name", ["units", "both", "finite", "jackknife"])
def test_replicates_of_a_model_vary_as_in_r(name):
    records = tw.Records(SURVEY, columns=["vote"], weights="weight")
    boot = tw.bootstrap(tw.fit(records, rank=1, smoothing=0), records, n=20, design=DESIGNS[name])
    assert float(boot.standard_error("P(vote = yes)")) == pytest.approx(GOLDEN[name]["yes"], rel=0.02)


def test_records_drawn_one_by_one_give_pearsons_test():
    frame = pd.DataFrame({"a": np.arange(600) % 3, "b": (np.arange(600) * 7 % 11) % 2})
    frame.loc[:40, "b"] = frame.loc[:40, "a"] % 2
    table = tw.sampled_table(frame, ["a", "b"])
    pearson = chi2_contingency(pd.crosstab(frame["a"], frame["b"]), correction=False)
    assert table.independence.p_value == pytest.approx(pearson.pvalue, rel=0.1)
    groups = tw.sampled_table(frame, ["b", "a"]).groups()
    p, n = groups.shares[0], np.bincount(frame["a"])
    z = (p[0] - p[1]) / np.sqrt(p[0] * (1 - p[0]) / n[0] + p[1] * (1 - p[1]) / n[1])
    assert groups.p_values[0, 0, 1] == pytest.approx(2 * norm.sf(abs(z)), rel=0.05)
    # Counts are as many people, and the scale of weights does not matter.
    counted = frame.groupby(["a", "b"]).size().reset_index(name="n")
    for same in (
        tw.Records(counted, columns=["a", "b"], counts="n"),
        tw.Records(frame, columns=["a", "b"], weights=np.full(600, 1e6)),
    ):
        again = tw.sampled_table(same, ["a", "b"])
        np.testing.assert_allclose(again.covariance, table.covariance, atol=1e-15)
        assert again.independence.p_value == pytest.approx(table.independence.p_value)
        np.testing.assert_array_equal(again.records, table.records)


def test_odd_tables():
    frame = pd.DataFrame({"a": ["x"] * 6, "b": list("uuvvww"), "c": list("uuvv") + [None] * 2})
    assert tw.sampled_table(frame, ["a", "b"]).independence.p_value == 1.0
    same = tw.sampled_table(frame, ["b", "c"])
    assert 0 <= same.independence.p_value < 0.05
    # A group that no record shows, and shares of all or nothing.
    groups = tw.sampled_table(frame, ["c", "b"]).groups()
    assert np.isnan(groups.shares[:, 2]).all()
    assert np.isnan(groups.p_values[0, 0, 2])
    assert 0.05 < groups.p_values[0, 0, 1] < 1
    assert groups.p_values[0, 0, 0] == 1
    with pytest.raises(DataError, match="one or two variables"):
        tw.sampled_table(frame, ["a", "b", "c"])
    with pytest.raises(DataError, match="two variables"):
        _ = tw.sampled_table(frame, "a").independence
    with pytest.raises(DataError, match="together"):
        tw.sampled_table({"a": [1, None], "b": [None, 1]}, ["a", "b"])
    with pytest.raises(DataError, match="tables were given"):
        tw.fit_quality(tw.fit(frame, rank=1), tw.count(frame), design=tw.Design())


def test_clusters_that_agree_make_a_misfit_no_surprise():
    """Twenty copies of 14 people are 14 units, and their table is no better known than that of these."""
    people = SURVEY.dropna().iloc[::20].head(14)
    copies = people.loc[people.index.repeat(20)]
    pmf = tw.fit(SURVEY[["trust", "vote"]], rank=1, smoothing=1)
    simple, designed = (
        tw.fit_quality(pmf, copies[["trust", "vote"]], design=design).pairs[0]
        for design in (None, tw.Design(units=copies.index))
    )
    assert designed.total == pytest.approx(14, rel=0.5)
    assert simple.total == 280
    assert simple.p_value < 1e-3 < designed.p_value


def test_replicate_weights_are_recognized():
    weights = SURVEY["weight"].to_numpy()
    half = np.where(SURVEY["town"] % 2 == 0, 2.0, 0.0)
    brr = np.column_stack([weights * half, weights * (2.0 - half)])
    for replicates, said in (
        (brr, "2 BRR weights, recognized"),
        (0.3 * weights[:, None] + 0.7 * brr, "2 Fay's weights with 0.3, recognized"),
        (REPLICATES, "15 jackknife weights, recognized"),
    ):
        assert SampledRecords(RECORDS, tw.Design(replicates=replicates)).description.startswith(said)
    scales = np.repeat([(n - 1) / n for n in N_TOWNS.values()], list(N_TOWNS.values()))
    given = tw.Design(replicates=REPLICATES, kind="jackknife", scale=scales)
    adjusted = REPLICATES * (1 + 0.01 * np.arange(15))
    np.testing.assert_allclose(
        SampledRecords(RECORDS, given)._opened.scales, SampledRecords(RECORDS, DESIGNS["jackknife"])._opened.scales
    )
    with pytest.raises(DataError, match="give the kind"):
        SampledRecords(RECORDS, tw.Design(replicates=adjusted))
    assert SampledRecords(RECORDS, tw.Design(replicates=adjusted, kind="bootstrap")).description.endswith("as given")
    with pytest.raises(DataError, match=r"imply 0\.3"):
        SampledRecords(RECORDS, tw.Design(replicates=0.3 * weights[:, None] + 0.7 * brr, kind="fay", fay=0.5))
    with pytest.raises(DataError, match="row 3, replicate repw01"):
        SampledRecords(RECORDS, tw.Design(replicates=REPLICATES.assign(repw01=[1, 1, 1, -1] * 75)))
