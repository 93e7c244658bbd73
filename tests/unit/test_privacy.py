"""Noise on tables: as much as is promised, told in the file, and no more than the fit can bear."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from strategies import examples

import twoway as tw
from twoway.cli import run
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError, FileFormatError
from twoway.privacy import effective_records, noise_scale, nonnegative
from twoway.records import Records
from twoway.tables import Tables

TRUTH = dirichlet_rows(4, 3, 2, seed=2)
TABLES = tw.count(draw_records(TRUTH, 4000, observed=1.0, seed=1))


@given(st.floats(0.01, 50), st.floats(1e-10, 0.3))
@examples(60)
def test_the_noise_keeps_the_promise_and_is_the_least_that_does(epsilon, delta):
    def worst(scale):
        """Return the largest excess P(A) − e^ε Q(A) over all events A, for normals one apart: by its definition."""
        edge = epsilon * scale**2 + 0.5  # where the two densities have the ratio e^ε
        return norm.sf(edge - 1, scale=scale) - math.exp(epsilon) * norm.sf(edge, scale=scale)

    scale = noise_scale(epsilon, delta)
    assert worst(scale) <= delta * (1 + 1e-6)
    assert worst(scale * 0.999) > delta * (1 - 1e-9)


def test_the_noise_is_less_than_the_classical_rule_asks_for():
    for epsilon in (0.1, 0.5, 1.0):
        assert noise_scale(epsilon, 1e-6) < math.sqrt(2 * math.log(1.25 / 1e-6)) / epsilon


def test_one_record_changes_as_many_counts_as_there_are_tables():
    """The sensitivity, by taking a record away: the distance of all counts together."""
    records = draw_records(TRUTH, 50, observed=1.0, seed=3)
    one, other = Tables.count(records), Tables.count(records.take(np.arange(1, 50)))
    noisy = one.with_noise(1.0, 1e-6)
    assert np.linalg.norm(one.flat - other.flat) == pytest.approx(noisy.releases[0].sensitivity)
    weighted = one.with_noise(1.0, 1e-6, max_weight=3).releases[0]
    assert weighted.sensitivity == pytest.approx(3 * noisy.releases[0].sensitivity)
    assert weighted.sigma == pytest.approx(3 * noisy.releases[0].sigma)


def test_the_noise_has_the_standard_deviation_that_is_told():
    off = [(TABLES.with_noise(0.5, 1e-5, seed=seed).flat - TABLES.flat) for seed in range(30)]
    # Counts so large that none gets negative.
    large = TABLES.flat > 150
    told = TABLES.with_noise(0.5, 1e-5, seed=0).releases[0].sigma
    assert large.sum() > 20
    assert np.std(np.array(off)[:, large]) == pytest.approx(told, rel=0.1)


@given(st.lists(st.floats(-50, 200), min_size=1, max_size=12))
def test_the_nearest_counts_without_a_negative(counts):
    counts = np.array(counts)
    nearest = nonnegative(counts)
    assert (nearest >= 0).all()
    if counts.sum() <= 0:
        assert not nearest.any()
        return
    assert nearest.sum() == pytest.approx(counts.sum(), abs=1e-9)
    # The way to any other such point leads away from the counts: the condition of a projection onto a convex set.
    for corner in np.eye(len(counts)) * counts.sum():
        assert (counts - nearest) @ (corner - nearest) <= 1e-6 * (1 + np.abs(counts).max()) ** 2


def test_a_noisy_table_is_worth_fewer_records():
    counts = np.full(16, 1000.0)
    assert effective_records(counts, 0.0) == 16000.0
    assert effective_records(counts, 10.0) > effective_records(counts, 40.0) > 0
    # As many records as have by chance alone the error that chance and noise have together.
    error = 15 / 16 / 16000 + 16 * (40 / 16000) ** 2
    assert effective_records(counts, 40.0) == pytest.approx(15 / 16 / error)
    assert effective_records(np.array([5.0, 0.0]), 3.0) > 0


def test_more_privacy_costs_accuracy_and_less_noise_gives_it_back():
    errors = []
    for epsilon in (0.05, 0.5, 50.0):
        seeds = range(3)
        fits = [tw.fit(TABLES.with_noise(epsilon, 1e-6, seed=seed), rank=2, solver="coupled-nmf") for seed in seeds]
        errors.append(np.mean([tw.total_variation(TRUTH, pmf, ["x1", "x2", "x3"]) for pmf in fits]))
    assert errors[0] > 1.5 * errors[1] > 1.5 * errors[2]
    exact = tw.total_variation(TRUTH, tw.fit(TABLES, rank=2, solver="coupled-nmf"), ["x1", "x2", "x3"])
    assert errors[2] < 1.2 * exact


def test_the_budget_is_in_the_file_the_notes_and_the_report(tmp_path):
    noisy = TABLES.with_noise(1.0, 1e-6)
    noisy.save(tmp_path / "noisy.tables")
    loaded = Tables.load(tmp_path / "noisy.tables")
    assert loaded == noisy
    assert loaded.releases == noisy.releases
    assert loaded.releases[0].neighbours == "one record added or removed"
    assert "ε = 1, δ = 1e-06 for one record added or removed" in loaded.notes[0]
    assert loaded.notes[0] in tw.fit(loaded, rank=1, solver="spa").report.warnings
    TABLES.save(tmp_path / "exact.tables")
    assert b"releases" not in (tmp_path / "exact.tables").read_bytes()


def test_a_file_with_a_broken_budget_is_refused(tmp_path):
    from twoway import container

    arrays = {"sets": TABLES.sets, "flat": TABLES.flat, "weights": TABLES.weights}
    header = {"schema": TABLES.schema.to_dict(), "notes": [], "releases": [{"epsilon": 1}]}
    container.write(tmp_path / "broken.tables", "tables", header, arrays)
    with pytest.raises(FileFormatError, match="no valid tables"):
        Tables.load(tmp_path / "broken.tables")


def test_budgets_are_kept_when_tables_are_added_or_chosen_from():
    one, other = TABLES.with_noise(1.0, 1e-6), TABLES.with_noise(0.5, 1e-7)
    assert (one + other).releases == one.releases + other.releases
    assert one.subset(["x1", "x2", "x3"]).releases == one.select([("x1", "x2")]).releases == one.releases
    assert one.with_noise(2.0, 1e-6, max_weight=1).releases[0] == one.releases[0]
    told = "counts without noise were added to noisy ones"
    assert any(told in note for note in (one + TABLES).notes)
    assert not any(told in note for note in (one + other).notes)


def test_what_is_random_is_not_repeated_unless_a_seed_says_so():
    assert TABLES.with_noise(1.0, 1e-6) != TABLES.with_noise(1.0, 1e-6)
    assert TABLES.with_noise(1.0, 1e-6, seed=1) == TABLES.with_noise(1.0, 1e-6, seed=1)


def test_noise_that_drowns_everything_leaves_no_negative_and_no_crash():
    drowned = tw.count({"a": [0, 1], "b": [0, 1], "c": [0, 1]}).with_noise(1e-3, 1e-9, seed=0)
    assert (drowned.flat >= 0).all()
    assert np.isfinite(drowned.weights).all()
    empty = Tables(TABLES.schema, np.zeros((0, 2), dtype=int), [])
    assert len(empty.with_noise(1.0, 1e-6)) == 0


@pytest.mark.parametrize(
    ("epsilon", "delta", "told"),
    [
        (0, 1e-6, "epsilon must be"),
        (math.inf, 1e-6, "epsilon must be"),
        (1, 0, "delta must be"),
        (1, 1, "delta must be"),
    ],
)
def test_budgets_that_mean_nothing(epsilon, delta, told):
    with pytest.raises(DataError, match=told):
        TABLES.with_noise(epsilon, delta)


def test_weighted_records_need_their_largest_weight():
    weighted = Tables.count(Records({"a": [0, 1], "b": [1, 1]}, weights=[0.5, 1.2]))
    with pytest.raises(DataError, match="give their max_weight"):
        weighted.with_noise(1.0, 1e-6)
    assert weighted.with_noise(1.0, 1e-6, max_weight=1.2).releases[0].max_weight == 1.2


def test_the_command_line_counts_with_noise(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TRUTH.sample(500, seed=1).assign(w=2).to_csv("day.csv", index=False)
    count = ["count", "day.csv", "--drop", "w", "-o"]
    assert run([*count, "noisy.tables", "--epsilon", "1", "--seed", "3"]) == 0
    assert "ε = 1, δ = 1e-06" in capsys.readouterr().out
    noisy = Tables.load("noisy.tables")
    assert noisy == tw.count(TRUTH.sample(500, seed=1)).with_noise(1.0, 1e-6, seed=3)
    assert run(["count", "day.csv", "--add", "noisy.tables", "--epsilon", "0.5", "--delta", "1e-7"]) == 0
    assert [one.epsilon for one in Tables.load("noisy.tables").releases] == [1.0, 0.5]
    capsys.readouterr()
    assert run(["info", "noisy.tables", "--json"]) == 0
    assert [one["delta"] for one in json.loads(capsys.readouterr().out)["releases"]] == [1e-6, 1e-7]
    assert run(["info", "noisy.tables"]) == 0
    assert "ε = 0.5, δ = 1e-07 for one record added or removed" in capsys.readouterr().out
    weighted = ["count", "day.csv", "--weights", "w", "-o", "w.tables", "--epsilon", "1"]
    assert run(weighted) == 3
    assert "a record may weigh 2, more than 1: --max-weight says" in capsys.readouterr().err
    assert run([*weighted, "--max-weight", "2"]) == 0
    assert Tables.load("w.tables").releases[0].max_weight == 2
    assert run([*count, "x.tables", "--seed", "3"]) == 3
