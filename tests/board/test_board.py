"""The board of peers: its store, its scores and its page, with made-up results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from board.data import hide, known_only
from board.page import page, rows_of
from board.registry import FACTS, SECTIONS
from board.scores import LEAST_CHANCE, Gap, mean_and_error, prediction_scores
from board.sections import Score, Section
from board.store import Result, Store

SCORE = Score("log-loss", is_low_better=True)


def section(**options):
    def run(*_):
        raise AssertionError("a page runs nothing")

    return Section("guess", "Guesses", dict, ("twoway", "peer", "other"), {}, (SCORE,), run, **options)


def result(method, seed, loss, data="dice", case=""):
    return Result("guess", data, case, method, seed, {"log-loss": loss}, 1.5)


def store_of(path, **losses):
    store = Store.open(path / "results.jsonl")
    for method, values in losses.items():
        for seed, loss in enumerate(values):
            store.add(result(method, seed, loss))
    return store


def test_a_store_remembers_and_knows_what_is_missing(tmp_path):
    store_of(tmp_path, twoway=[0.5, 0.6], peer=[0.7])
    store = Store.open(tmp_path / "results.jsonl")
    assert store.missing("guess", "dice", "", ["twoway", "peer"], 1) == ["peer"]
    assert store.missing("guess", "dice", "", ["twoway", "peer"], 2) == ["twoway", "peer"]
    assert store.missing("guess", "dice", "half hidden", ["twoway"], 0) == ["twoway"]
    assert [found.scores["log-loss"] for found in store.of("guess", "dice", "", "twoway")] == [0.5, 0.6]


def test_a_later_line_counts_and_half_a_line_does_not(tmp_path):
    store = store_of(tmp_path, twoway=[0.5, 0.6])
    store.add(result("twoway", 0, 0.4))
    with store.path.open("a") as file:
        file.write('{"section": "guess", "data": "di')
    again = Store.open(store.path)
    assert [found.scores["log-loss"] for found in again.of("guess", "dice", "", "twoway")] == [0.4, 0.6]
    again.tidy()
    lines = [json.loads(line) for line in store.path.read_text().splitlines()]
    assert [(line["seed"], line["scores"]["log-loss"]) for line in lines] == [(0, 0.4), (1, 0.6)]


def test_scores_leave_out_missing_cells():
    chances = np.array([[3.0, 1.0, 0.0], [0.2, 0.2, 0.6], [0.1, 0.9, 0.0]])
    found = prediction_scores(chances, np.array([0, 1, -1]))
    assert found["accuracy"] == 0.5
    assert found["log-loss"] == pytest.approx(-(np.log(0.75) + np.log(0.2)) / 2)


def test_an_impossible_truth_costs_a_bounded_amount_and_ties_share_a_point():
    found = prediction_scores(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1, 0]))
    assert found["log-loss"] == pytest.approx(-(np.log(LEAST_CHANCE) + np.log(0.5)) / 2)
    assert found["accuracy"] == 0.25


def test_nothing_to_score_is_an_error():
    with pytest.raises(ValueError, match="nothing to score"):
        prediction_scores(np.ones((2, 2)), np.array([-1, -1]))


def test_standard_errors():
    mean, error = mean_and_error([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5
    assert error == pytest.approx(np.sqrt(5 / 3) / 2)
    assert np.isnan(mean_and_error([1.0])[1])


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [([0.1, 0.2, 0.3], "ahead"), ([0.5, 0.4, 0.6], "even"), ([0.9, 0.8, 0.9], "behind"), ([0.5, 0.5, 0.5], "even")],
)
@pytest.mark.parametrize("is_low_better", [True, False])
def test_two_standard_errors_decide(ours, verdict, is_low_better):
    """Behind is what a peer is ahead by more than two standard errors of the difference, seed by seed."""
    sign = 1 if is_low_better else -1
    own = {seed: sign * value for seed, value in enumerate(ours)} | {7: 100.0}  # a seed that the peer lacks
    gap = Gap.of(own, dict.fromkeys(range(3), sign * 0.5), is_low_better=is_low_better)
    assert gap.n == 3
    assert gap.mean == pytest.approx(0.5 - np.mean(ours))
    assert gap.verdict == verdict


def test_less_than_is_shown_is_no_gap():
    ours, theirs = {0: -5.0, 1: -5.0}, {0: -5.0001, 1: -5.0001}
    assert Gap.of(ours, theirs, is_low_better=False).verdict == "ahead"
    assert Gap.of(ours, theirs, is_low_better=False, digits=3).verdict == "even"


def test_a_split_hides_no_more_and_asks_for_nothing_unknown():
    random = np.random.default_rng(0)
    train, test = np.array([[0, 1], [0, 2]]), np.array([[0, 0], [1, 1], [-1, 2]])
    assert known_only(train, test).tolist() == [[0, -1], [-1, 1], [-1, 2]]
    assert (hide(train, 0.0, random) == train).all()
    assert (hide(train, 1.0, random) == -1).all()


def test_a_page_says_who_is_ahead_and_why_not(tmp_path):
    store = store_of(tmp_path, twoway=[0.5, 0.6, 0.7], peer=[0.4, 0.51, 0.6], other=[0.9, 0.9, 0.9])
    why = {("guess", "dice", "", "log-loss"): "The dice are loaded."}
    text = page("# Board\n\n<!-- verdicts -->\n\n<!-- guess -->\n", [section()], store, why, {})
    assert "| Guesses | log-loss | 1 | 0 | 0 | 1 | 3 |" in text
    assert "| dice | 0.600 ± 0.058 | **0.503** ± 0.058 | 0.900 ± 0.000 |" in text
    assert "-0.097 ± 0.003 (peer, 3 seeds): **behind**" in text
    assert "- dice: peer is better by 0.097 ± 0.003 log-loss. The dice are loaded." in text
    assert "ours is second in 1 of 1 rows" in text


def test_published_figures_count_for_the_place(tmp_path):
    store = store_of(tmp_path, twoway=[0.5, 0.6], peer=[0.8, 0.9])
    published = section(published={"paper": {"dice": 0.3}, "older paper": {"coins": 0.1}})
    (row,) = rows_of(published, SCORE, store)
    assert "Not run where this page was written: other." in page(
        "<!-- verdicts --><!-- guess -->", [published], store, {}, {}
    )
    assert row.rank() == 2
    assert row.gap(row.best_peer).verdict == "ahead"


@pytest.mark.parametrize(("n", "peer"), [(1, "peer"), (2, "other")])
def test_a_peer_of_few_seeds_is_shown_but_not_the_one_compared(tmp_path, n, peer):
    store = store_of(tmp_path, twoway=[0.5, 0.6, 0.5], peer=[0.8, 0.9, 0.8], other=[0.1, 0.1][:n])
    (row,) = rows_of(section(), SCORE, store)
    assert row.best_peer == peer


def test_the_template_has_a_place_for_everything(tmp_path):
    template = Path(sys.modules["board"].__path__[0], "template.md").read_text()
    text = page(template, list(SECTIONS.values()), Store(tmp_path / "none.jsonl"), {}, FACTS)
    assert "<!--" not in text
    assert text.count("Not run yet") == len(SECTIONS)
    with pytest.raises(ValueError, match="no place for 'density'"):
        page("<!-- verdicts -->", [SECTIONS["density"]], Store(tmp_path / "none.jsonl"), {}, {})
