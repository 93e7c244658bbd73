"""Other samples of the same size: what they are counted on, and how far they are from what they are drawn from."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from random_models import random_pmf, sized

import twoway as tw
from twoway.data.survey_design import SampledUnits
from twoway.solvers import resampling as resampling_module
from twoway.solvers.evidence import Evidence
from twoway.solvers.resampling import DesignResampling, RecordResampling, TableResampling, sample_as_fitted

SCHEMA = sized([3, 2, 4])
PMF = random_pmf(SCHEMA, 2, seed=1)
TOTALS = {(0, 1): 50, (0, 2): 2000, (1, 2): 300}


def shares_of(pair):
    return np.asarray(PMF.marginal([f"v{n}" for n in pair]))


def tables(totals=TOTALS):
    flat = [shares_of(pair).ravel() * total for pair, total in totals.items()]
    return tw.Tables(SCHEMA, np.array(list(totals)), np.concatenate(flat))


def test_tables_of_different_people_are_whole_counts_of_their_own_totals():
    resampling = TableResampling(tables(), PMF, math.inf)
    draws = [resampling.tables(0, number) for number in range(200)]
    for at, (pair, total) in enumerate(TOTALS.items()):
        counts = np.array([drawn.array(at) for drawn in draws])
        np.testing.assert_allclose(counts, np.rint(counts), atol=1e-9)
        np.testing.assert_allclose(counts.sum(axis=(1, 2)), total)
        shares = shares_of(pair)
        error = np.sqrt(shares * (1 - shares) / total)
        assert (np.abs(counts.mean(axis=0) / total - shares) < 5 * error / math.sqrt(200)).all()
        assert (counts / total).std(axis=0) == pytest.approx(error, rel=0.25)
    # Nobody is in two of them, so they need not agree.
    first, second = draws[0].array(0).sum(axis=1) / 50, draws[0].array(1).sum(axis=1) / 2000
    assert np.abs(first - second).max() > 0.001


def test_replicates_are_fitted_to_the_same_tables_as_the_model():
    records = tw.Records(PMF.sample(100, seed=1), schema=SCHEMA)
    evidence = Evidence(SCHEMA, records=records, threads=1)

    def copies(**of_report):
        report = SimpleNamespace(**{"counts_tables": True, "edges": ()} | of_report)
        return sample_as_fitted(report, SCHEMA)(evidence).copies.tolist()

    for edges in ([(0, 1), (0, 2)], [(2, 1), (1, 0)]):
        names = tuple((f"v{first}", f"v{second}") for first, second in edges)
        assert copies(edges=names) == evidence.tree_sets(edges).copies.tolist()
    assert copies(edges=(("v0", "v1"), ("v0", "v2"))) != copies(edges=(("v2", "v1"), ("v1", "v0")))
    assert copies() == evidence.tree_sets().copies.tolist()
    assert copies(counts_tables=False) == [1.0] * 3
    assert sample_as_fitted(None, SCHEMA)(evidence) is evidence.sets


@pytest.mark.parametrize("n_records", [None, math.inf])
def test_the_original_of_tables_are_those_of_the_model(n_records):
    even = [np.full(SCHEMA.sizes[a] * SCHEMA.sizes[b], total) for (a, b), total in TOTALS.items()]
    flat = np.concatenate([one / one.size for one in even])
    resampling = TableResampling(tw.Tables(SCHEMA, np.array(list(TOTALS)), flat), PMF, n_records)
    expected = Evidence(SCHEMA, tables=tables(), threads=1).table_sets("counts")
    np.testing.assert_allclose(resampling.original().records.weights, expected.records.weights)


def test_the_same_number_of_a_sample_draws_the_same():
    for n_records in (None, math.inf):
        resampling = TableResampling(tables(), PMF, n_records)
        first = resampling.tables(3, 5)
        np.testing.assert_array_equal(resampling.tables(3, 5).flat, first.flat)
        assert resampling.draw(3, 5).records.total_weight == pytest.approx(first.weights.sum())
        assert (resampling.tables(3, 6).flat != first.flat).any()
        assert (resampling.tables(4, 5).flat != first.flat).any()


def test_variables_are_observed_as_often_as_the_totals_say():
    """Of 2000 people, as many show two variables as if each were missing at random; no share is above one."""
    observed = np.array([0.9, 0.5, 0.2])
    totals = {(a, b): 2000.0 * observed[a] * observed[b] for a, b in TOTALS}
    np.testing.assert_allclose(TableResampling(tables(totals), PMF, 2000.0)._observed, observed)
    equal = dict.fromkeys(TOTALS, 300.0)
    for n_records in (None, 300.0, 10.0):  # there are at least as many as the largest table has
        np.testing.assert_allclose(TableResampling(tables(equal), PMF, n_records)._observed, 1.0)
    np.testing.assert_allclose(TableResampling(tables(equal), PMF, 1200.0)._observed, 0.5)
    assert TableResampling(tables(TOTALS), PMF, None)._observed.max() <= 1.0


def test_tables_of_the_same_people_agree_and_are_whole_counts():
    resampling = TableResampling(tables(dict.fromkeys(TOTALS, 300)), PMF, None)
    draws = [resampling.tables(0, number) for number in range(100)]
    for drawn in draws:
        first, second, third = (drawn.array(place) for place in range(3))
        np.testing.assert_allclose(first.sum(axis=1), second.sum(axis=1))
        np.testing.assert_allclose(first.sum(axis=0), third.sum(axis=1))
        np.testing.assert_allclose(second, np.rint(second), atol=1e-9)
    shares = shares_of((0, 1))
    error = np.sqrt(shares * (1 - shares) / 300)
    assert np.std([drawn.array(0) / 300 for drawn in draws], axis=0) == pytest.approx(error, rel=0.3)


def test_chance_is_that_of_all_people_where_fewer_are_simulated(monkeypatch):
    monkeypatch.setattr(resampling_module, "_MOST_SIMULATED", 400)
    resampling = TableResampling(tables(dict.fromkeys(TOTALS, 1e6)), PMF, None)
    drawn = np.array([resampling.tables(0, number).array(1) for number in range(100)]) / 1e6
    shares = shares_of((0, 2))
    error = np.sqrt(shares * (1 - shares) / 1e6)
    assert drawn.std(axis=0) == pytest.approx(error, rel=0.3)
    assert (np.abs(drawn.mean(axis=0) - shares) < 4 * error / 10).all()


def test_fewer_people_are_simulated_for_very_many_tables(monkeypatch):
    asked, draw = [], resampling_module.draw_records

    def watched(pmf, n, **options):
        asked.append(n)
        return draw(pmf, min(n, 100), **options)

    monkeypatch.setattr(resampling_module, "draw_records", watched)
    for total in (50.0, 1e9):
        TableResampling(tables(dict.fromkeys(TOTALS, total)), PMF, None).tables(0, 0)
    monkeypatch.setattr(resampling_module, "_MOST_COUNTED", 3e4)
    TableResampling(tables(dict.fromkeys(TOTALS, 1e9)), PMF, None).tables(0, 0)
    assert asked == [50, 100_000, 12_000]


def test_a_table_that_nobody_would_show_has_the_shares_of_the_model():
    resampling = TableResampling(tables({(0, 1): 500, (0, 2): 1e-9}), PMF, None)
    np.testing.assert_allclose(resampling.tables(0, 0).array(1), shares_of((0, 2)) * 1e-9)


def test_a_table_of_less_than_one_person_is_drawn_as_one():
    drawn = TableResampling(tables({(0, 1): 0.2, (0, 2): 0.3}), PMF, math.inf).tables(0, 0)
    assert sorted(drawn.array(0).ravel().tolist()) == pytest.approx([0.0] * 5 + [0.2])
    assert sorted(drawn.array(1).ravel().tolist()) == pytest.approx([0.0] * 11 + [0.3])


def test_shares_that_noise_left_nothing_of_are_even(monkeypatch):
    noisy = tables().with_noise(1.0, 1e-6, max_weight=1.0, seed=3)
    monkeypatch.setattr(resampling_module, "nonnegative_noisy", np.zeros_like)
    drawn = TableResampling(noisy, PMF, None).tables(0, 0)
    for place in range(3):
        assert np.ptp(drawn.array(place)) == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(drawn.totals, noisy.weights)


def test_people_are_drawn_with_replacement_each_with_their_weight():
    columns = {"a": ["x", "y", "z"], "b": ["u", "u", "v"]}
    records = tw.Records(columns, counts=[50, 30, 20])
    resampling = RecordResampling(records)
    drawn = [resampling.draw(1, number).records for number in range(50)]
    assert {sample.total_weight for sample in drawn} == {100.0}
    assert len({tuple(sample.weights.tolist()) for sample in drawn}) > 40
    np.testing.assert_array_equal(resampling.draw(1, 7).records.weights, drawn[7].weights)
    assert all((sample.weights == np.rint(sample.weights)).all() for sample in drawn)
    assert sorted(resampling.original().records.weights.tolist()) == [20.0, 30.0, 50.0]
    assert resampling.original().threads == 1


def test_weighted_tables_vary_as_their_effective_number_of_people_does():
    counted = tables(dict.fromkeys(TOTALS, 1000))
    weighted = tw.Tables(SCHEMA, counted.sets, counted.flat, np.full(3, 50.0))
    drawn = TableResampling(weighted, PMF, math.inf).tables(0, 0)
    np.testing.assert_allclose(drawn.flat, np.rint(drawn.flat), atol=1e-9)
    np.testing.assert_allclose(drawn.totals, 50.0)


def test_a_sample_of_one_person_is_one_person():
    assert RecordResampling(tw.Records({"a": ["x"], "b": ["u"]})).draw(0, 0).records.total_weight == 1.0


@pytest.mark.parametrize("n_samples", [4, 60])
def test_totals_vary_between_samples_as_the_design_says(n_samples):
    """With few units, each in turn gets more weight; with many, units are drawn: 4 of 7 here."""
    random = np.random.default_rng(0)
    stratum, shares = np.array([0, 0, 0, 1, 1, 1, 1]), np.array([0.0, 0.5])
    units = SampledUnits(np.repeat(np.arange(7), 3), stratum, np.array([3, 4]), shares)
    weights, values = random.uniform(0.5, 2.0, 21), random.normal(size=21)
    weights_of, scales = DesignResampling._of_units(units, weights, n_samples)
    total = weights @ values
    of_unit = np.bincount(units.of_record, weights * values)
    variance = sum(
        (1 - share) * n / (n - 1) * np.square(of_unit[stratum == h] - of_unit[stratum == h].mean()).sum()
        for h, (n, share) in enumerate(zip(units.n_units, shares, strict=True))
    )
    if n_samples > 7:
        deviations = np.array([weights_of(0, number) @ values - total for number in range(7)])
        assert scales @ np.square(deviations) == pytest.approx(variance)
        return
    deviations = np.array([weights_of(3, number) @ values - total for number in range(4000)])
    assert len(scales) == 4
    assert scales.sum() * np.square(deviations).mean() == pytest.approx(variance, rel=0.1)
    assert abs(deviations.mean()) < 4 * deviations.std() / math.sqrt(4000)
    for number in range(5):  # whoever is drawn, a unit's records keep their weights among each other
        ratios = (weights_of(3, number) / weights).reshape(7, 3)
        np.testing.assert_allclose(ratios, ratios[:, :1] * np.ones(3))
