"""Intervals of answers from published tables: of what they determine, of what they leave open, and in files."""

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.tables.published.table import PublishedTable
from twoway.tables.published.tables import PublishedTables


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(0)
    age = random.choice(3, 2000, p=[0.2, 0.6, 0.2])
    works = random.random(2000) < np.array([0.0, 0.7, 0.1])[age]
    return pd.DataFrame(
        {
            "age": np.array(["0-14", "15-64", "65+"])[age],
            "sex": random.choice(["m", "f"], 2000),
            "works": np.where(works, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def published(people):
    of_workers = people[people["age"] != "0-14"].value_counts(["sex", "works"])
    return PublishedTables.of(
        [
            PublishedTable.of(["age", "sex"], people.value_counts(["age", "sex"])),
            PublishedTable.of(["sex", "works"], of_workers, within={"age": "15+"}),
        ],
        groups={"age": {"15+": ["15-64", "65+"]}},
        impossible=[{"age": "0-14", "works": "yes"}],
    )


@pytest.fixture(scope="module")
def boot(published):
    return tw.bootstrap(tw.fit(published), published, n=40)


def test_what_tables_determine_has_the_interval_of_its_sample(boot, people):
    for event in ({"age": "65+"}, {"works": "yes"}, {"sex": "m", "age": "15-64"}, {"sex": "f", "works": "yes"}):
        answer = boot.prob(event)
        share = float(np.logical_and.reduce([people[name] == label for name, label in event.items()]).mean())
        error = np.sqrt(share * (1 - share) / 2000)
        assert answer == pytest.approx(share, abs=2e-3)
        assert answer.high - answer.low == pytest.approx(2 * 1.645 * error, rel=0.6)
        assert answer.note == ""


def test_what_tables_leave_open_has_all_that_they_allow(boot, published):
    event = {"works": "yes", "age": "65+"}
    answer, bounds = boot.prob(event), tw.probability_range(published, event, level=None)
    assert answer.low <= bounds.low + 1e-6
    assert answer.high >= bounds.high - 1e-6
    assert "the tables do not determine this" in answer.note


def test_what_is_impossible_is_certainly_so(boot):
    answer = boot.prob({"age": "0-14", "works": "yes"})
    assert (answer, answer.low, answer.high) == (0, 0, 0)


def test_a_variable_of_some_people_only_is_said_to_be(people):
    of_workers = people[people["age"] != "0-14"].value_counts(["sex", "works"])
    tables = PublishedTables.of(
        [
            PublishedTable.of(["age", "sex"], people.value_counts(["age", "sex"])),
            PublishedTable.of(["sex", "works"], of_workers, within={"age": ["15-64", "65+"]}),
        ]
    )
    answer = tw.bootstrap(tw.fit(tables), tables, n=20).prob({"works": "yes"})
    assert "the tables do not determine this" in answer.note
    assert answer.high - answer.low > 0.15  # nothing is known of those of 0-14


def test_a_file_gives_the_same_intervals(boot, tmp_path):
    boot.save(tmp_path / "model.twoway")
    loaded = tw.load(tmp_path / "model.twoway")
    for event in ({"works": "yes", "age": "65+"}, {"sex": "m", "works": "yes"}, {"sex": "f"}):
        one, other = boot.prob(event), loaded.prob(event)
        assert (one.low, one.high, one.note) == (other.low, other.high, other.note)
    boot.save(tmp_path / "again.twoway")
    assert (tmp_path / "again.twoway").read_bytes() == (tmp_path / "model.twoway").read_bytes()
    boot.save(tmp_path / "bare.twoway", counts=False)
    assert tw.load(tmp_path / "bare.twoway").observed is None


@pytest.mark.slow
def test_three_way_tables_determine_triples(people):
    counted = people.groupby(list(people)).size().unstack(fill_value=0).stack()
    tables = PublishedTables.of([PublishedTable.of(["age", "sex", "works"], counted)])
    answer = tw.bootstrap(tw.fit(tables), tables, n=20).prob({"age": "65+", "sex": "m", "works": "yes"})
    assert answer.note == ""
    assert 0 < answer.low < answer.high < 0.05


def test_one_way_tables_leave_everything_between_them_open():
    tables = PublishedTables.of({"age": {"young": 600, "old": 400}, "vote": {"yes": 700, "no": 300}})
    answer = tw.bootstrap(tw.fit(tables), tables, n=20).prob({"age": "old", "vote": "yes"})
    assert answer.low < 0.11
    assert answer.high > 0.39
