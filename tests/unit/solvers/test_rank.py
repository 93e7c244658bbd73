"""The choice of the rank: known ranks are found, and all candidates are reported."""

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.solvers import rank as rank_module
from twoway.solvers.heldout import HeldOut
from twoway.solvers.rank import RankChoice

SLOW = pytest.mark.slow


@pytest.mark.parametrize("rank", [pytest.param(1, marks=SLOW), 2, pytest.param(4, marks=SLOW)])
def test_the_true_rank_is_found_from_records_and_from_tables(rank):
    records = draw_records(dirichlet_rows(8, 6, rank, seed=rank), 8000, seed=rank)
    from_records, from_tables = tw.choose_rank(records), tw.choose_rank(tw.count(records))
    assert (from_records.rank, from_records.how) == (rank, "held-out likelihood")
    assert (from_tables.rank, from_tables.how) == (rank, "spectrum")
    assert tw.fit(records, starts=2, smoothing=1).rank == rank


def test_few_records_show_the_rank_with_the_smoothing_that_suits_it():
    choice = tw.choose_rank(draw_records(dirichlet_rows(5, 10, 5, seed=1), 1000, observed=0.8, seed=1))
    assert choice.rank == 5
    assert {one["smoothing"] for one in choice.candidates} == {4.0, 16.0, 64.0}


def test_what_chose_the_smoothing_does_not_score_it():
    """The two halves of the first fold choose for each other; all of it chooses for the other folds."""
    scores = {"one": [0.0, -3.0, 0.0, -3.0, 0.0], "two": [-1.0, -1.0, -1.0, -1.0, -1.0]}
    fits = [HeldOut(np.array(of_fit), np.ones(5)) for of_fit in scores.values()]
    best, scored = rank_module._rank_scores_in_halves(fits)
    assert best == 1
    assert scored.scores.tolist() == [-1.0, -3.0, -1.0, -3.0, -1.0], (
        "even ones ask for the first, odd ones for the second"
    )
    assert scored.weights.tolist() == [1.0] * 5


def test_noise_is_not_predicted():
    """It would be by fits that start from one that has seen what is held out."""
    choice = tw.choose_rank(pd.DataFrame(np.random.default_rng(1).integers(0, 2, (120, 40))), [1, 60])
    assert choice.rank == 1
    assert choice.candidates[1]["gain"] == 0


def test_every_candidate_is_reported_with_the_baseline():
    choice = tw.choose_rank(draw_records(dirichlet_rows(8, 4, 3, seed=1), 3000), [2, 3, 4, 5])
    assert [one["rank"] for one in choice.candidates] == [1, 2, 3, 4, 5]
    assert choice.rank == 3
    base = choice.candidates[0]
    assert base["gain"] == 0
    for one in choice.candidates:
        assert one["gain"] == pytest.approx(one["held_out"] - base["held_out"])
        assert one["behind"] >= -1e-12
        assert one["converged"]
    assert choice.candidates[2]["behind"] <= choice.candidates[2]["standard_error"] + 1e-4
    assert "rank 3, by held-out likelihood" in str(choice)
    assert str(choice).count("\n") == 6


def test_one_fit_has_one_bic():
    """Candidates are short fits to a sample with a smoothing of their own, whose likelihood would differ."""
    pmf = tw.fit(draw_records(dirichlet_rows(6, 4, 3, seed=1), 1000), rank=None, starts=2)
    report = pmf.report
    assert report.bic == pytest.approx(np.log(report.n_records) * report.n_parameters - 2 * report.log_likelihood)
    assert not any({"bic", "aic", "log_likelihood"} & one.keys() for one in pmf.report.candidates)


def test_the_baseline_is_shown_but_chosen_only_where_it_was_asked_for():
    independent = pd.DataFrame({name: np.random.default_rng(i).integers(0, 3, 500) for i, name in enumerate("abcd")})
    assert tw.choose_rank(independent).rank == 1
    assert tw.choose_rank(independent, [2, 3]).rank == 2


def test_the_search_stops_when_it_no_longer_pays():
    choice = tw.choose_rank(draw_records(dirichlet_rows(8, 4, 2, seed=1), 3000))
    tried = [one["rank"] for one in choice.candidates]
    assert choice.rank == 2
    assert tried == [1, 2, 3, 4]


@pytest.mark.slow
def test_ranks_between_those_listed_are_tried():
    """Seven is not in the list of ranks, and six and eight are."""
    records = draw_records(dirichlet_rows(12, 8, 7, seed=2), 10_000, seed=3)
    assert tw.choose_rank(records).rank == 7


def test_tables_without_a_split_are_judged_by_aic():
    """A star: the hub has three categories, so that no two groups can show more than rank 3."""
    records = draw_records(dirichlet_rows(5, 3, 2, seed=3), 4000, observed=1.0)
    tables = tw.count(records).select([("x1", f"x{i}") for i in range(2, 6)])
    choice = tw.choose_rank(tables, [1, 2, 3])
    assert choice.candidates[-1]["singular"] is None
    assert choice.rank in (1, 2)
    assert min(choice.candidates, key=lambda one: one["aic"])["rank"] == choice.rank


def test_tables_that_show_a_higher_rank_are_not_given_a_lower_one():
    """Two groups of 5 + 2 and 12 categories show no more than rank 4, and that there is more; AIC says how much."""
    random = np.random.default_rng(0)
    people = random.dirichlet(np.ones(10)).reshape(5, 2, 1)
    joints = {name: people * random.dirichlet(np.full(size, 0.5), (5, 2)) for name, size in (("edu", 7), ("family", 5))}
    shares = {("age", "sex"): people[..., 0]}
    shares |= {("age", name): joint.sum(axis=1) for name, joint in joints.items()}
    shares |= {("sex", name): joint.sum(axis=0) for name, joint in joints.items()}
    tables = {pair: pd.DataFrame(np.rint(1e6 * share)) for pair, share in shares.items()}
    choice = tw.choose_rank(tw.Tables.from_crosstabs(tables), [4, 6])
    assert choice.candidates[1]["singular"] > 1.2 * choice.candidates[1]["noise"]
    assert (choice.rank, choice.how, choice.candidates[2]["converged"]) == (6, "AIC", False)


def test_too_little_to_choose_by():
    pmf = tw.fit({"a": [1], "b": [2]})
    assert pmf.rank == 1
    assert any("too little data to choose a rank" in warning for warning in pmf.report.warnings)


def test_the_same_seed_chooses_the_same_and_ctrl_c_ends_it():
    records = draw_records(dirichlet_rows(6, 3, 2), 500)
    assert tw.choose_rank(records) == tw.choose_rank(records, threads=1)

    def stop(progress):
        if progress.done == 2:
            raise KeyboardInterrupt

    kept = tw.choose_rank(records, monitor=stop)
    assert [one["rank"] for one in kept.candidates] == [1, 2]

    def stop_at_once(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tw.choose_rank(records, monitor=stop_at_once)


def test_bad_ranks_are_refused():
    with pytest.raises(tw.DataError, match="a rank must be a whole number"):
        tw.choose_rank({"a": [0, 1]}, [0])
    with pytest.raises(tw.DataError, match="at least one rank"):
        tw.choose_rank({"a": [0, 1]}, [])
    assert RankChoice(1, ({"rank": 1, "held_out": None},)).how == "held-out likelihood"


def test_tables_show_variables_that_depend_on_each_other_alone():
    """Two groups that are as even as can be may have all copies of a variable in one, and show nothing of them."""
    random = np.random.default_rng(77)
    coin, other, third = random.integers(0, 2, (3, 4000))
    frame = pd.DataFrame({"a": coin, "copy": coin, "again": coin, "b": other, "c": third})
    assert tw.choose_rank(tw.count(frame)).rank == 2
    assert tw.choose_rank(tw.count(frame[["a", "b", "c"]])).rank == 1


def test_ranks_that_no_split_can_show_are_compared_by_aic_alone():
    """Three-way tables have no splits, and two variables of two categories none of more than two components."""
    records = draw_records(dirichlet_rows(3, 2, 2, seed=1), 300)
    for tables in (tw.count(records, 3), tw.count(records).subset(["x1", "x2"])):
        choice = tw.choose_rank(tables, [2])
        keys = {"rank", "singular", "noise", "converged", "aic"}
        assert [one.keys() for one in choice.candidates] == [keys] * 2
        assert choice.candidates[1]["singular"] is choice.candidates[1]["noise"] is None
        assert str(choice).splitlines()[1].split() == ["rank", "singular", "noise", "converged", "aic"]


def test_as_many_splits_are_compared_as_the_work_allows(monkeypatch):
    tables, compared = tw.count(draw_records(dirichlet_rows(5, 3, 2, seed=1), 500)), []
    spectrum = rank_module.rank_spectrum

    def counted(tables, pmf, splits, *others):
        compared.append(len(splits))
        return spectrum(tables, pmf, splits, *others)

    monkeypatch.setattr(rank_module, "rank_spectrum", counted)
    for n_splits in (2, 4):
        monkeypatch.setattr(rank_module, "_SPECTRUM_WORK", n_splits * 15**3)
        tw.choose_rank(tables, [2])
        assert set(compared) == {n_splits}
        compared.clear()
    monkeypatch.setattr(rank_module, "_SPECTRUM_WORK", 0)
    tw.choose_rank(tables, [2])
    assert set(compared) == {1}, "one is always compared"


def test_a_choice_prints_what_was_compared():
    candidates = ({"rank": 1, "gain": 0.0, "singular": None}, {"rank": 12, "gain": 0.1234567, "singular": 1.5})
    printed = str(RankChoice(12, candidates, "spectrum")).splitlines()
    assert printed == [
        "rank 12, by spectrum",
        "rank     gain  singular",
        "   1        0         —",
        "  12  0.12346       1.5",
    ]


def test_records_too_few_to_hold_some_out_have_the_least_rank():
    choice = tw.choose_rank({"a": ["x"], "b": ["y"]}, [4, 2])
    assert (choice.rank, choice.candidates) == (2, ({"rank": 2, "held_out": None},))
