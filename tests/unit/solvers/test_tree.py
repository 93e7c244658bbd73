"""Hidden trees learned from records and from tables."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hidden_trees import random_tree

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError, UnknownNameError
from twoway.fitting.sources import evidence_of_source
from twoway.model.trees import Trees
from twoway.report import StopReason
from twoway.solvers import evidence as evidence_module
from twoway.solvers import tree as tree_module
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.heldout import HeldOut
from twoway.solvers.loop import Loop
from twoway.solvers.problem import Problem
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.tree import Tree, _RacingTree
from twoway.solvers.tree_starts import TreeShape, local_spa_start, random_tree_start, spread_start, visible_tree_start
from twoway.solvers.watch import Watch
from twoway.tables.dependence import table_dependence

# A chain of five hidden variables, each of which keeps its state mostly and shows it in two variables.
N_HIDDEN = 5
NAMES = tuple(f"x{n}" for n in range(2 * N_HIDDEN))
SCHEMA = tw.Schema(tuple(tw.Variable(name, ("a", "b", "c")) for name in NAMES))


def chain():
    stay = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    show = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
    random = random_tree(
        (-1, *range(N_HIDDEN - 1)), n_states=(3,) * N_HIDDEN, sizes=(3,) * 10, homes=np.repeat(range(N_HIDDEN), 2)
    )
    tree = type(random)(random.parents, random.homes, np.full(3, 1 / 3), (stay,) * (N_HIDDEN - 1), (show,) * 10)
    return tw.JointPMF.from_trees(SCHEMA, Trees(np.ones(1), (tree,)))


@pytest.fixture(scope="module")
def truth():
    return chain()


@pytest.fixture(scope="module")
def records(truth):
    return truth.sample(2000, seed=1).astype(object)


@pytest.fixture(scope="module")
def fitted(records):
    return tw.fit(records, structure="tree", rank=3, starts=2)


def test_information_of_tables(records):
    tables = tw.count(records)
    information = table_dependence(tables)
    for index, (one, other) in enumerate(tables.names):
        counts = pd.crosstab(records[one], records[other]).to_numpy()
        shares = counts / counts.sum()
        plain = (shares * np.log(shares / np.outer(shares.sum(axis=1), shares.sum(axis=0)))).sum()
        assert information[index] == pytest.approx(plain - 4 / (2 * 2000), abs=1e-12)


def test_shape_of_edges():
    star = TreeShape.of_edges("abcd", [(0, 1), (0, 2), (0, 3)])
    assert (star.parents, star.homes, star.owners) == ((-1,), (0, 0, 0, 0), (0,))
    chain = TreeShape.of_edges("abcde", [(0, 1), (1, 2), (2, 3), (3, 4)])
    # Ends are attached to their neighbours.
    assert chain.parents == (-1, 0, 1)
    assert chain.homes == (2, 2, 1, 0, 0)
    assert chain.owners == (3, 2, 1)
    assert TreeShape.of_edges("ab", [(0, 1)]).parents == (-1,)


def test_shape_follows_the_chain(fitted):
    # Neighbours in the tree show the same or adjacent hidden variables of the truth.
    tree = fitted.trees.trees[0]
    for variable, home in enumerate(tree.homes):
        owner = next(n for n, other in enumerate(tree.homes) if other == home)
        assert abs(variable // 2 - owner // 2) <= 1


def test_a_tree_is_nearer_the_truth_than_one_hidden_variable(truth, records, fitted):
    fresh = truth.sample(4000, seed=2).astype(object)
    best = truth.log_prob(fresh).mean()
    single = tw.fit(records, rank=6).log_prob(fresh).mean()
    tree = fitted.log_prob(fresh).mean()
    assert best - 0.15 < tree < best + 0.05
    assert tree > single + 0.1


def test_from_tables(truth, records):
    pmf = tw.fit(tw.count(records), structure="tree", rank=3, starts=1)
    fresh = truth.sample(4000, seed=2).astype(object)
    assert truth.log_prob(fresh).mean() - 0.25 < pmf.log_prob(fresh).mean()


def test_report(fitted, records):
    report = fitted.report
    assert report.n_hidden == fitted.n_hidden > 1
    assert report.n_parameters == fitted.n_parameters
    assert report.log_likelihood == pytest.approx(fitted.log_prob(records).sum())
    assert "hidden variables of 3 states" in str(report)
    for start in report.starts:
        assert (np.diff(start.objectives) <= 1e-12 * abs(start.objectives[-1])).all()


def test_same_seed_same_model_and_threads_do_not_matter(records):
    one, other = (
        tw.fit(records, structure="tree", rank=2, starts=1, smoothing=2, threads=threads) for threads in (1, 2)
    )
    np.testing.assert_array_equal(one.log_prob(records), other.log_prob(records))


def test_order_of_columns_and_records_does_not_matter(records):
    options = {"structure": "tree", "rank": 2, "starts": 1, "smoothing": 2.0}
    shuffled = records[list(reversed(NAMES))].sample(frac=1, random_state=0)
    one, other = tw.fit(records, **options), tw.fit(shuffled, **options)
    np.testing.assert_allclose(one.log_prob(records), other.log_prob(records), atol=1e-3)


def test_file(fitted, records, tmp_path):
    fitted.save(tmp_path / "tree.twoway")
    loaded = tw.load(tmp_path / "tree.twoway")
    np.testing.assert_array_equal(loaded.log_prob(records), fitted.log_prob(records))
    assert loaded.report.n_hidden == fitted.n_hidden


def test_missing_cells(records, truth):
    holes = records.mask(np.random.default_rng(0).random(records.shape) < 0.4)
    pmf = tw.fit(holes, structure="tree", rank=3, starts=1, smoothing=2)
    filled = pmf.impute(holes)
    hidden = holes.isna()
    assert (filled.to_numpy() == records.to_numpy())[hidden.to_numpy()].mean() > 0.7
    assert (filled.to_numpy() == records.to_numpy())[~hidden.to_numpy()].all()


def test_one_variable(records):
    pmf = tw.fit(records[["x0"]], structure="tree", rank=2)
    shares = records["x0"].value_counts(normalize=True).sort_index().to_numpy()
    np.testing.assert_allclose(pmf.marginal("x0"), shares, atol=0.01)


def test_two_variables_have_one_hidden(records):
    pmf = tw.fit(records[["x0", "x1"]], structure="tree", rank=3)
    assert pmf.n_hidden == 1
    assert pmf.weights.shape == (3,)


@pytest.mark.slow
def test_bootstrap(fitted, records, truth, tmp_path):
    boot = tw.bootstrap(fitted, records, n=40)
    event = {"x0": "a", "x9": "b"}
    answer = boot.prob(event)
    assert answer == pytest.approx(fitted.prob(event))
    assert answer.low < truth.prob(event) < answer.high
    assert answer.high - answer.low < 0.05
    boot.save(tmp_path / "boot.twoway")
    loaded = tw.load(tmp_path / "boot.twoway")
    assert isinstance(loaded, tw.Bootstrap)
    assert loaded.prob(event) == answer
    assert (loaded.prob(event).low, loaded.prob(event).high) == (answer.low, answer.high)
    completed = boot.impute(records.mask(np.random.default_rng(0).random(records.shape) < 0.2), m=2)
    assert not completed[0].isna().any(axis=None)


@pytest.mark.slow
def test_bootstrap_of_tables(records):
    tables = tw.count(records)
    pmf = tw.fit(tables, structure="tree", rank=3, starts=1)
    answer = tw.bootstrap(pmf, tables, n=20).prob({"x0": "a", "x1": "a"})
    assert answer.low < answer < answer.high


def test_what_a_tree_cannot_yet_do_says_so(fitted, records):
    for task in (
        lambda: tw.plot_components(fitted),
        lambda: tw.plot_scatter(fitted),
        lambda: tw.sql_view(fitted, "survey"),
        lambda: tw.factor_mse(fitted, fitted),
        lambda: tw.mean_relative_error(fitted, fitted),
    ):
        with pytest.raises(DataError, match=r"one hidden variable.*(score and fill|compare|choose one by)"):
            task()
    with pytest.raises(DataError, match="solver"):
        tw.fit(records, structure="tree", solver="em")
    with pytest.raises(UnknownNameError, match="tree"):
        tw.fit(records, structure="tre")


def test_tables_of_given_edges_count_as_much_as_those_of_a_tree_that_was_found():
    records = draw_records(dirichlet_rows(5, 3, 2, seed=3), 400, observed=1.0)
    star = [("x1", f"x{n}") for n in (2, 3, 4, 5)]
    pmf = tw.fit(records, structure=star, rank=2, smoothing=0.5, starts=1)
    evidence = evidence_of_source(records, None)[0]
    sets = evidence.tree_sets([(0, n) for n in (1, 2, 3, 4)])
    once, strong = 1 + evidence_module._IN_ALL_TABLES, evidence_module._IN_STRONG_TABLES
    assert sets.copies.tolist() == [once + 4 * strong, *([once + strong] * 4)]
    found = fit_cells_by_em(sets, pmf, Smoothing(0.5, 0.5), Loop("", 1, 0.0, Watch())).objectives[0]
    assert found == pytest.approx(pmf.report.objective, rel=1e-4)


@pytest.mark.slow
def test_what_tables_leave_open_is_the_same_for_counts_and_for_shares():
    random, names = np.random.default_rng(4), "abcd"
    factors = (random.dirichlet(np.full(3, 0.5), 3).T for _ in names)
    joint = np.einsum("r,ar,br,cr,dr->abcd", np.full(3, 1 / 3), *factors)
    shares = {
        tuple(pair): pd.DataFrame(
            joint.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in pair)), list("xyz"), list("xyz")
        )
        for pair in ("ab", "bc", "cd", "ad")
    }

    def open_pair(tables, **options):
        return tw.fit(tw.Tables.from_crosstabs(tables, **options)).marginal(["a", "c"]).array

    # Shares, and as many hundredths of a person.
    np.testing.assert_allclose(open_pair(shares), open_pair(shares, kind="joint"), atol=2e-3)
    # Counts, and one of the tables as shares among them.
    counts = {pair: 7e6 * own for pair, own in shares.items()}
    mixed = open_pair(
        counts | {("a", "d"): shares["a", "d"]}, kind=dict.fromkeys(counts, "counts") | {("a", "d"): "joint"}
    )
    np.testing.assert_allclose(mixed, open_pair(counts), atol=2e-3)


def test_parts_of_the_data_are_fitted_in_as_many_threads_as_all_of_it(monkeypatch):
    start_of, threads = Tree._start, []

    def look(self, evidence, *others):
        threads.append(evidence.threads)
        return start_of(self, evidence, *others)

    monkeypatch.setattr(Tree, "_start", look)
    records = draw_records(dirichlet_rows(4, 2, 2, seed=1), 120, observed=1.0)
    for source in (records, tw.count(records)):
        tw.fit(source, structure="tree", rank=2, starts=1, threads=1)
        assert len(threads) > 5, "folds among them"
        assert set(threads) == {1}
        threads.clear()


def test_an_interrupted_choice_of_the_smoothing_ends_with_one_of_its_fits(monkeypatch):
    start_of, starts = Tree._start, []

    def look(self, evidence, n_states, seeds, watch):
        assert not watch.interrupted, "there is a fit already"
        starts.append(start_of(self, evidence, n_states, seeds, watch))
        return starts[-1]

    def press(progress):
        if progress.task == "choosing the smoothing" and progress.done == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Tree, "_start", look)
    records = draw_records(dirichlet_rows(5, 3, 2, seed=1), 200, observed=1.0)
    pmf = tw.fit(records, structure="tree", rank=2, starts=2, monitor=press)
    assert pmf.report.stop_reason is StopReason.INTERRUPTED
    likelihoods = [start.log_prob(records).mean() for start in starts]
    assert pmf.log_prob(records).mean() > max(likelihoods)


def test_a_table_that_no_model_meets_does_not_drown_the_others():
    """It counts at most eight times as much as on average, and others at least an eighth."""
    schema = tw.Schema(tuple(tw.Variable(name, (0, 1)) for name in "abcd"))
    even, odd = np.full((2, 2), 250.0), np.array([[900.0, 50.0], [30.0, 20.0]])
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    tables = tw.Tables(schema, np.array(pairs), np.concatenate([even.ravel()] * 5 + [odd.ravel()]))
    evidence = evidence_of_source(tables, None)[0]
    problem = Problem(evidence, rank=2, smoothing=Smoothing(0.02, 0.02))
    start = random_tree_start(schema, TreeShape.of_evidence(evidence), 2, evidence.sets.shares, (0, 0))
    times = _RacingTree().nearing(problem, start)[0].times
    assert times[-1] == times.max() <= 8.0
    assert times.min() >= 1 / 8
    assert times.max() > 4.0 * times.min()


# Starts


def small_problem(*, from_tables, pairs=None, **options):
    """Return a problem of 300 records of four variables, or of their tables."""
    records = draw_records(dirichlet_rows(4, 3, 2, seed=6), 300, observed=1.0)
    tables = tw.count(records)
    tables = tables if pairs is None else tables.select(pairs)
    evidence = evidence_of_source(tables if from_tables else records, None)[0]
    return Problem(evidence, rank=2, **options)


def starts_by_definition(evidence, number):
    shape, seeds = TreeShape.of_evidence(evidence), (7, number)
    single = Loop("", tree_module._FIRST_PASSES, 1e-5, Watch())
    return [
        lambda: spread_start(evidence, shape, 2, seeds, single),
        lambda: visible_tree_start(evidence, shape, 2, seeds),
        lambda: local_spa_start(evidence, shape, 2, seeds),
        lambda: random_tree_start(evidence.schema, shape, 2, evidence.sets.shares, seeds),
    ]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("from_tables", [False, True])
def test_starts_are_one_spread_variable_then_the_visible_tree_then_spa_then_random(from_tables, number):
    """Tables begin at the visible tree, and go on in the same order."""
    evidence = small_problem(from_tables=from_tables).evidence
    start = Tree()._start(evidence, 2, (7, number), Watch())
    expected = starts_by_definition(evidence, number)[min(number + from_tables, 3)]()
    for own, other in zip(start.factors, expected.factors, strict=True):
        np.testing.assert_array_equal(own, other)
    np.testing.assert_array_equal(start.marginal(["x1", "x4"]), expected.marginal(["x1", "x4"]))


def test_all_starts_are_near_the_visible_tree_where_tables_are_missing():
    pairs = [("x1", "x2"), ("x2", "x3"), ("x3", "x4"), ("x1", "x4")]
    evidence = small_problem(from_tables=True, pairs=pairs).evidence
    everything = list(evidence.schema.names)
    shape = TreeShape.of_evidence(evidence)
    plain = visible_tree_start(evidence, shape, 3, (7, 0), spread=0.0).marginal(everything)
    first, second, last = (
        Tree()._start(evidence, 3, (7, number), Watch()).marginal(everything) for number in (0, 1, 3)
    )
    for start in (first, second, last):
        assert 1e-6 < np.abs(start.array - plain.array).sum() / 2 < 0.03
    assert not np.allclose(first, second, atol=1e-9)


# What is minimised


@pytest.mark.parametrize(("amount", "ending"), [(0.0, ""), (0.5, ", penalised")])
def test_what_is_minimised_has_a_name(amount, ending):
    smoothing = Smoothing(amount, amount)
    records, tables = (small_problem(from_tables=is_so, smoothing=smoothing) for is_so in (False, True))
    start = Tree()._start(tables.evidence, 2, (0, 0), Watch())

    def name(problem, **options):
        return _RacingTree(1, **options).solve(replace(problem, start=start)).objective_name

    assert name(tables) == f"mean Kullback-Leibler divergence per pair{ending}"
    assert name(records) == f"negative log-likelihood per record{ending}"
    with_tables = f"negative log-likelihood per record and its two-way tables{ending}"
    assert name(records, counts_tables=True) == with_tables


def divergences(pmf, tables):
    """Return the Kullback-Leibler divergence of a model from each table."""
    shares = [tables.array(place) / tables.totals[place] for place in range(len(tables))]
    models = [np.asarray(pmf.marginal(names)) for names in tables.names]
    return np.array([(own * np.log(own / model)).sum() for own, model in zip(shares, models, strict=True)])


def test_the_objective_of_tables_is_their_mean_divergence():
    problem = small_problem(from_tables=True)
    tables = problem.evidence.tables(2)
    problem = replace(problem, start=Tree()._start(problem.evidence, 2, (0, 0), Watch()))
    solution = _RacingTree(3, 0.0).solve(problem)
    assert solution.objectives[-1] == pytest.approx(divergences(solution.pmf, tables).mean(), rel=1e-6)
    times = np.arange(1.0, 7.0)
    solution = _RacingTree(3, 0.0, times=times).solve(problem)
    expected = np.average(divergences(solution.pmf, tables), weights=times)
    assert solution.objectives[-1] == pytest.approx(expected, rel=1e-6)


def test_what_tables_leave_open_counts_a_fiftieth_of_them_in_all():
    given, left = [("x1", "x2"), ("x2", "x3"), ("x3", "x4")], [("x1", "x3"), ("x1", "x4"), ("x2", "x4")]
    problem = small_problem(from_tables=True, pairs=given)
    reference = small_problem(from_tables=True, pairs=left).evidence.tables(2)
    problem = replace(problem, start=Tree()._start(problem.evidence, 2, (0, 0), Watch()))
    solution = _RacingTree(3, 0.0, reference=reference).solve(problem)
    of_given, of_left = (divergences(solution.pmf, own).mean() for own in (problem.evidence.tables(2), reference))
    assert solution.objectives[-1] == pytest.approx(of_given + 0.02 * of_left, rel=1e-6)


# Tables in stages


def test_a_table_that_is_further_off_counts_more(monkeypatch):
    """After a stage, as many times as more people are off in it, but at most twice and at least half."""
    monkeypatch.setattr(tree_module, "_STAGES", 1)
    tables = small_problem(from_tables=True).evidence.tables(2)
    people = np.array([1, 2, 1, 1, 5, 1])
    tables = tw.Tables(tables.schema, tables.sets, tables.flat * np.repeat(people, 9))
    evidence = evidence_of_source(tables, None)[0]
    start = Tree()._start(evidence, 1, (0, 0), Watch())
    solver, pmf = _RacingTree().nearing(Problem(evidence, rank=1, smoothing=Smoothing(0.02, 0.02)), start)
    off = [
        np.abs(tables.array(place) - tables.totals[place] * np.asarray(pmf.marginal(names))).sum()
        for place, names in enumerate(tables.names)
    ]
    expected = np.clip(off / np.mean(off), 0.5, 2.0)
    assert 0.5 < np.median(expected) < 2.0
    np.testing.assert_allclose(solver.times, expected / expected.mean(), rtol=1e-9)
    assert solver.tol > _RacingTree().tol


def test_no_stage_is_begun_when_the_time_is_over():
    problem = small_problem(from_tables=True, smoothing=Smoothing(0.02, 0.02), watch=Watch(deadline=0.0))
    start = Tree()._start(problem.evidence, 2, (0, 0), Watch())
    solver, pmf = _RacingTree().nearing(problem, start)
    assert pmf is start
    np.testing.assert_array_equal(solver.times, 1.0)


# Choices


@pytest.mark.parametrize(
    ("n_records", "gains", "chosen", "tried"),
    [
        # Clearly better with more states, but not with many; of the tables, the records are better off with them.
        (9600, {"records": 3, 6: -2, 24: 3, 48: 3.5}, (True, 24), [6, 24, 48]),
        (9600, {"records": 0, 6: -2, 24: 3, 48: 6}, (True, 48), [6, 24, 48]),
        (9599, {"records": 0, 6: -2, 24: 3, 48: 6}, (True, 24), [6, 24]),
        # Where more states are not clearly better, still more are not tried.
        (9600, {"records": 0, 6: 0.5, 24: 0.5, 48: 9}, (True, 12), [6, 24]),
        # Where fewer are better, more are not tried.
        (9600, {"records": 0, 6: 3, 24: 9}, (True, 6), [6]),
        # Records are far better off without their tables.
        (400, {"records": 9, 6: 0}, (False, 12), [6]),
    ],
)
def test_the_form_that_predicts_a_first_fold_clearly_better_is_chosen(monkeypatch, n_records, gains, chosen, tried):
    """Gains are in standard errors, over 12 states and the tables that count besides."""
    random, seen = np.random.default_rng(0), []

    def first_fold(self, problem):
        seen.append(problem.rank)
        is_first = self.counts_tables and problem.rank == 12
        gain = 0 if is_first else gains["records" if problem.rank == 12 else problem.rank]
        noise = random.normal(size=10_000)
        noise = (noise - noise.mean()) / noise.std()
        return HeldOut(noise + gain * np.sqrt(2.0 / 10_000), np.ones(10_000))

    monkeypatch.setattr(Tree, "_first_fold", first_fold)
    records = draw_records(dirichlet_rows(2, 2, 2, seed=1), n_records, observed=1.0)
    problem = Problem(evidence_of_source(records, None)[0], rank=12)
    tree, following = Tree(chooses_states=True)._chosen_form(problem)
    assert (tree.counts_tables, following.rank) == chosen
    assert [rank for rank in seen if rank != 12] == tried
    assert Tree()._chosen_form(problem)[1].rank == 12


def test_tables_have_no_first_fold():
    assert Tree()._first_fold(small_problem(from_tables=True)) is None


def test_shares_without_counts_are_smoothed_by_a_millionth():
    tables = small_problem(from_tables=True).evidence.tables(2)
    halves = tw.Tables(tables.schema, tables.sets, tables.flat / 600)
    choice, short = Tree()._choose_smoothing(Problem(evidence_of_source(halves, None)[0], rank=2))
    assert choice.smoothing[:2] == pytest.approx((0.5e-6, 0.5e-6))
    assert short is None


def test_where_tables_are_missing_smoothing_decides_only_what_nothing_else_does():
    problem = small_problem(from_tables=True, pairs=[("x1", "x2"), ("x2", "x3"), ("x3", "x4")])
    choice, short = Tree()._choose_smoothing(problem)
    assert choice.smoothing == Smoothing(0.02, 0.02)
    assert short is None
