"""How many trees a mixture has, and how smooth it is: what is compared, and what is kept of it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError
from twoway.report import StopReason
from twoway.schema import Schema, Variable
from twoway.solvers import tree_mixture
from twoway.solvers.evidence import Evidence
from twoway.solvers.heldout import HeldOut, held_out_folds
from twoway.solvers.loop import Loop
from twoway.solvers.problem import Problem
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.tree_mixture import Mixture, MixtureChoice, can_be_mixture, choose_mixture, fit_random_tree_mixture
from twoway.solvers.watch import Watch
from twoway.tables.tables import Tables


@pytest.fixture(scope="module")
def problem():
    records = draw_records(dirichlet_rows(4, 2, 2, seed=1), 150, observed=1.0, seed=2)
    return Problem(Evidence(records.schema, records=records, threads=1), rank=1)


def test_tables_and_shares_of_trees_are_smoothed_alike(problem):
    choice = choose_mixture(problem, 2)
    assert choice.n_trees == 2
    assert choice.smoothing.weights == choice.smoothing.factors > 0
    best = max(choice.candidates, key=lambda one: one["held_out"])
    assert best["smoothing"] == choice.smoothing.factors


def test_each_record_is_held_out_once(problem):
    given = choose_mixture(replace(problem, smoothing=Smoothing(1.0, 1.0)), 2)
    folds = held_out_folds(problem.evidence.records, seed=problem.seed)
    assert len(folds) == 5
    assert len(given.held_out.scores) == sum(len(held) for _, held in folds)
    assert given.held_out.weights.sum() == 150
    assert given.smoothing == Smoothing(1.0, 1.0)


@pytest.mark.parametrize(("slope", "end"), [(-1.0, tree_mixture._LEAST), (1.0, tree_mixture._MOST)])
def test_the_search_for_the_smoothing_goes_to_its_ends(problem, slope, end):
    search = tree_mixture._MixtureSearch(problem, problem.evidence.records)
    search.first_fold = lambda _, amount: SimpleNamespace(mean=slope * np.log(amount))
    assert search.best_smoothing((2, tree_mixture._FIRST_SMOOTHING)) == (2, end)


def held_out_like(fitted, gap):
    """Return what predicts so much better than a choice, in each record and without chance."""
    return HeldOut(fitted.held_out.scores + gap, fitted.held_out.weights)


def test_the_search_ends_with_the_first_fold_where_a_rival_is_clearly_better(problem, monkeypatch):
    monkeypatch.setattr(tree_mixture, "_CHOICE_PASSES", 2)
    whole = choose_mixture(problem, 2)
    n_first = len(held_out_folds(problem.evidence.records, seed=problem.seed)[0][1])
    hopeless = choose_mixture(problem, 2, held_out_like(whole, 100.0))
    assert [one["smoothing"] for one in hopeless.candidates] == [tree_mixture._FIRST_SMOOTHING]
    assert len(hopeless.held_out.scores) == n_first < 150
    assert hopeless.smoothing == Smoothing(tree_mixture._FIRST_SMOOTHING, tree_mixture._FIRST_SMOOTHING)
    better = choose_mixture(problem, 2, held_out_like(whole, -100.0))
    assert better.candidates == whole.candidates
    assert len(better.candidates) > 1
    np.testing.assert_array_equal(better.held_out.scores, whole.held_out.scores)


def test_scores_are_those_of_mixtures_fitted_to_the_rest(problem):
    records, given = problem.evidence.records, replace(problem, smoothing=Smoothing(2.0, 2.0))
    choice = choose_mixture(given, 2)
    scores = []
    for train, held in held_out_folds(records, seed=problem.seed):
        loop = Loop("test", tree_mixture._CHOICE_PASSES, tree_mixture._CHOICE_TOL)
        fitted = fit_random_tree_mixture(train, 2, Smoothing(2.0, 2.0), (problem.seed, 0), loop)
        scores.append(fitted.pmf.log_prob(held))
    np.testing.assert_allclose(choice.held_out.scores, np.concatenate(scores))
    first = {"trees": 2, "smoothing": 2.0, "held_out": pytest.approx(scores[0].mean())}
    assert choice.candidates == (first,)


def test_what_a_mixture_rules_out_costs_much_but_not_everything(problem, monkeypatch):
    search = tree_mixture._MixtureSearch(problem, problem.evidence.records)
    of_fold = np.array([-np.inf, -2e6, -3.0])
    monkeypatch.setattr(tree_mixture, "held_out_scores", lambda *_: HeldOut(of_fold, np.ones(3)))
    assert search.first_fold(2, 1.0).scores.tolist() == [-1e6, -1e6, -3.0]


def counted(problem, gains, n_records=None):
    """Return a search in which each number of trees scores so much in each record, and the numbers that it fits."""
    search, fitted = tree_mixture._MixtureSearch(problem, problem.evidence.records), []

    def scores(_, n_trees, __):
        fitted.append(n_trees)
        return HeldOut(np.full(30, gains[n_trees]) + np.tile([-0.5, 0.5], 15), np.ones(30))

    search._scores = scores
    if n_records is not None:
        search.folds = [(SimpleNamespace(total_weight=n_records), None)] * 2
    return search, fitted


def test_more_trees_are_tried_until_they_are_no_better(problem):
    gains = {3: 0.0, 8: 1.0, 21: 1.0, 55: 9.0}
    search, fitted = counted(problem, gains, 10_000.0)
    assert search.best_number((3, 4.0)) == (8, 4.0)
    assert fitted == [3, 8, 21], "each is fitted once, and none after one that is no better"
    assert search.candidates == tuple(
        {"trees": n_trees, "smoothing": 4.0, "held_out": pytest.approx(gains[n_trees])} for n_trees in (3, 8, 21)
    )
    rising, fitted = counted(problem, {3: 0.0, 8: 1.0, 21: 2.0, 55: 3.0}, 10_000.0)
    assert rising.best_number((8, 4.0)) == (55, 4.0)
    assert fitted == [8, 21, 55]


@pytest.mark.parametrize(("n_records", "most"), [(420.0, 21), (419.0, 8), (160.0, 8), (159.0, 3)])
def test_each_tree_needs_twenty_records(problem, n_records, most):
    search, _ = counted(problem, {3: 0.0, 8: 1.0, 21: 2.0, 55: 3.0}, n_records)
    assert search.best_number((3, 4.0)) == (most, 4.0)


def test_all_folds_are_scored_and_the_first_only_once(problem):
    search, fitted = counted(problem, {3: 0.0})
    search.first_fold(3, 4.0)
    assert len(search.all_folds(3, 4.0).scores) == 5 * 30
    assert len(fitted) == 5


@pytest.mark.parametrize(("means", "best"), [([3, 2, 1], 4.0), ([1, 2, 3], 64.0), ([1, 2, 2.0009], 16.0)])
def test_smoothing_goes_up_while_it_clearly_helps(problem, means, best):
    search, tried = tree_mixture._MixtureSearch(problem, problem.evidence.records), []

    def first_fold(_, amount):
        tried.append(amount)
        return SimpleNamespace(mean=dict(zip([4.0, 16.0, 64.0], means, strict=True)).get(amount, -9.0))

    search.first_fold = first_fold
    assert search.best_smoothing((2, 4.0)) == (2, best)
    assert (1.0 in tried) == (best == 4.0), "down only where up did not help"


def test_progress_says_what_is_compared(problem):
    shown = []
    choose_mixture(replace(problem, smoothing=Smoothing(1.0, 1.0), watch=Watch(shown.append)), 2)
    assert [(one.task, one.done) for one in shown] == [("comparing mixtures of trees", 0)]


def test_an_interrupted_choice_is_no_verdict(problem):
    def press(_):
        raise KeyboardInterrupt

    watch = Watch(press)
    choice = choose_mixture(replace(problem, watch=watch), 2)
    assert watch.stopped is StopReason.INTERRUPTED
    assert (choice.n_trees, choice.held_out, choice.candidates) == (2, None, ())
    assert choice.with_more_trees(replace(problem, watch=watch)) is choice
    assert choose_mixture(replace(problem, watch=watch), None).n_trees == tree_mixture._TREES[0]


def test_a_larger_part_of_many_records_may_ask_for_more_trees(problem, monkeypatch):
    choice = MixtureChoice(Smoothing(2.0, 2.0), ({"trees": 3},), None, 3)
    assert choice.with_more_trees(problem) is choice, "all records were compared already"
    records = problem.evidence.records
    monkeypatch.setattr(tree_mixture, "CHOICE_CELLS", records.n_observed)
    assert choice.with_more_trees(problem) is choice
    monkeypatch.setattr(tree_mixture, "CHOICE_CELLS", records.n_observed - 1)
    monkeypatch.setattr(tree_mixture, "_RECORDS_PER_TREE", 1)
    monkeypatch.setattr(tree_mixture, "_TREE_CELLS", 200)
    seen = []

    def scores(self, number, n_trees, amount):
        seen.append((number, n_trees, amount, sum(held.n_observed for _, held in self.folds)))
        return HeldOut(np.full(5, min(n_trees, 21.0)), np.ones(5))

    monkeypatch.setattr(tree_mixture._MixtureSearch, "_scores", scores)
    more = choice.with_more_trees(problem)
    assert more.n_trees == 21
    assert more.smoothing == choice.smoothing
    assert [one["trees"] for one in more.candidates] == [3, 3, 8, 21]
    assert {(number, amount) for number, _, amount, _ in seen} == {(0, 2.0)}
    n_observed = problem.evidence.sample(200, seed=problem.seed).n_observed
    assert {sampled for *_, sampled in seen} == {n_observed}
    assert 100 < n_observed <= 200
    only_tables = replace(problem, evidence=Evidence(records.schema, tables=Tables.count(records), threads=1))
    assert choice.with_more_trees(only_tables) is choice


def threads_of(monkeypatch, act):
    """Return the numbers of threads that linear algebra has while mixtures are fitted."""
    seen = set()

    def look(*arguments):
        seen.update(library["num_threads"] for library in threadpool_info())
        return fit_random_tree_mixture(*arguments)

    monkeypatch.setattr(tree_mixture, "fit_random_tree_mixture", look)
    act()
    return seen


def test_linear_algebra_has_one_thread(problem, monkeypatch):
    monkeypatch.setattr(tree_mixture, "_CHOICE_PASSES", 1)
    given = replace(problem, smoothing=Smoothing(1.0, 1.0), rank=2)
    assert threads_of(monkeypatch, lambda: choose_mixture(given, 2)) == {1}
    assert threads_of(monkeypatch, lambda: Mixture(max_iter=2).solve(given)) == {1}
    monkeypatch.setattr(tree_mixture, "CHOICE_CELLS", 10)
    monkeypatch.setattr(tree_mixture, "_TREES", (1, 2))
    choice = MixtureChoice(Smoothing(2.0, 2.0), (), None, 1)
    assert threads_of(monkeypatch, lambda: choice.with_more_trees(given)) == {1}


def test_what_can_be_a_mixture(problem):
    records = problem.evidence.records

    def can(n_variables, n_categories):
        variables = (Variable(f"v{n}", tuple(range(n_categories))) for n in range(n_variables))
        return can_be_mixture(Evidence(Schema(tuple(variables)), records=records, threads=1))

    assert can(3, 2)
    assert not can(2, 2)
    assert can(4, 250)
    assert not can(7, 143)
    assert not can_be_mixture(Evidence(records.schema, tables=Tables.count(records), threads=1))


def test_the_best_of_all_starts_is_kept_with_the_others_to_start_from(problem):
    given = replace(problem, smoothing=Smoothing(1.0, 1.0), rank=2)
    solution = Mixture(n_starts=3, max_iter=5).solve(given)
    objectives = []
    for number in range(3):
        loop = Loop("test", 5, 1e-5)
        fitted = fit_random_tree_mixture(problem.evidence.records, 2, Smoothing(1.0, 1.0), (0, number), loop, 1)
        objectives.append(fitted.objective)
    assert len(set(objectives)) > 1
    assert [solution.objective, *(one.objectives[-1] for one in solution.others)] == pytest.approx(sorted(objectives))
    assert solution.objective_name == "negative penalised log-likelihood per record"
    tables = Tables.count(problem.evidence.records)
    with pytest.raises(DataError, match="needs records"):
        Mixture().solve(replace(given, evidence=Evidence(tables.schema, tables=tables, threads=1)))
