"""One hidden variable or a tree: which one is chosen, and what is said of it."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from random_models import random_pmf, sized

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError, UnknownNameError
from twoway.fitting.structure import fit_single_structure, fit_structure_closer
from twoway.model.trees import Trees
from twoway.solvers import Evidence, Problem, find_solver
from twoway.solvers.heldout import HeldOut
from twoway.solvers.tree import Tree

NAMES = tuple("abcdefgh")


def chain_records(n_records, seed=0, stay=0.85):
    """Return records of a Markov chain of visible variables with three categories."""
    random = np.random.default_rng(seed)
    columns = [random.integers(3, size=n_records)]
    for _ in NAMES[1:]:
        moves = random.random(n_records) > stay
        columns.append(np.where(moves, random.integers(3, size=n_records), columns[-1]))
    return pd.DataFrame(dict(zip(NAMES, columns, strict=True))).astype(object)


@pytest.fixture(scope="module")
def records():
    return chain_records(1500)


@pytest.fixture(scope="module")
def fitted(records):
    return tw.fit(records)


def test_neighbours_that_depend_directly_ask_for_a_tree(records, fitted):
    assert fitted.n_hidden > 1
    assert fitted.report.solver == "tree"
    assert "hidden variables on a tree predict better than one" in fitted.report.structure
    assert fitted.report.structure in str(fitted.report)
    fresh = chain_records(3000, seed=1)
    assert fitted.log_prob(fresh).mean() > tw.fit(records, structure="single").log_prob(fresh).mean()


def test_answers_agree_with_the_cross_tabs(records, fitted):
    for one, other in itertools.pairwise(NAMES):
        shares = pd.crosstab(records[one], records[other], normalize=True).to_numpy()
        np.testing.assert_allclose(fitted.marginal([one, other]), shares, atol=0.006)
    assert fitted.report.check.n_off == 0


@pytest.mark.parametrize("as_tables", [False, True])
def test_data_of_one_hidden_variable_get_one(as_tables):
    drawn = draw_records(dirichlet_rows(6, 4, 3, seed=1), 2000)
    pmf = tw.fit(tw.count(drawn) if as_tables else drawn)
    assert pmf.n_hidden == 1
    assert pmf.report.structure == "one hidden variable describes all two-way tables up to chance"


@pytest.mark.parametrize("options", [{"rank": 2}, {"solver": "em", "rank": 2}, {"smoothing": 2.0}])
def test_options_of_one_hidden_variable_mean_one(records, options):
    pmf = tw.fit(records.iloc[:100, :4], starts=1, **options)
    assert pmf.n_hidden == 1
    assert pmf.report.structure == ""


def test_too_few_records_to_compare(records):
    pmf = tw.fit(records.head(3))
    assert pmf.n_hidden == 1


@pytest.mark.parametrize("seed", range(10))
def test_a_pair_without_a_table_gets_what_lies_between(seed):
    random = np.random.default_rng(seed)
    sizes = random.integers(2, 6, size=3)
    middle = random.choice(sizes[1], 2000, p=random.dirichlet(np.ones(sizes[1])))
    sides = [random.dirichlet(np.ones(size), size=sizes[1]) for size in (sizes[0], sizes[2])]
    first, last = ((random.random(2000)[:, None] > side[middle].cumsum(axis=1)).sum(axis=1) for side in sides)
    frame = pd.DataFrame({"a": first, "b": middle, "c": last})
    pmf = tw.fit(tw.count(frame).select([("a", "b"), ("b", "c")]), seed=seed)
    given = [pd.crosstab(frame[name], frame["b"], normalize="columns").to_numpy() for name in "ac"]
    shares = frame["b"].value_counts(normalize=True).sort_index().to_numpy()
    implied = (given[0] * shares) @ given[1].T
    assert np.abs(np.asarray(pmf.marginal(["a", "c"])) - implied).sum() / 2 < 0.01
    assert max(misfit.total_variation for misfit in pmf.report.misfits) < 0.001
    assert pmf.report.structure.startswith("some pairs have no table")
    assert pmf.report.silent == "1 of 3 pairs: a × c"


def test_shares_without_counts_leave_open_what_they_leave_open():
    frame = chain_records(3000)[["a", "b", "c"]]
    crosstabs = {pair: pd.crosstab(frame[pair[0]], frame[pair[1]], normalize=True) for pair in [("a", "b"), ("b", "c")]}
    pmf = tw.fit(tw.Tables.from_crosstabs(crosstabs))
    ab, bc = crosstabs["a", "b"].to_numpy(), crosstabs["b", "c"].to_numpy()
    implied = (ab / ab.sum(axis=0)) @ bc
    assert np.abs(np.asarray(pmf.marginal(["a", "c"])) - implied).sum() / 2 < 0.01


def test_shares_without_counts_get_a_tree():
    frame = chain_records(20_000)[list("abcdef")]
    pairs = [(one, other) for one in "abcdef" for other in "abcdef" if one < other]
    tables = tw.Tables.from_crosstabs({(a, b): pd.crosstab(frame[a], frame[b], normalize=True) for a, b in pairs})
    report = tw.fit(tables).report
    assert report.structure.startswith("the tables do not say how many records")
    assert report.misfits[0].total_variation < 0.01


@pytest.mark.slow
def test_one_missing_table_of_many_leaves_both_structures_open():
    truth = dirichlet_rows(8, 4, 3, seed=4)
    tables = tw.count(draw_records(truth, 20_000, seed=4))
    pmf = tw.fit(tables.select(tables.names[1:]))
    assert pmf.n_hidden == 1
    missing = list(tables.names[0])
    off = np.abs(np.asarray(pmf.marginal(missing)) - np.asarray(truth.marginal(missing))).sum() / 2
    assert off < 0.02


def test_more_categories_than_states():
    random = np.random.default_rng(0)
    age = np.where(random.random(2000) < 0.5, 0, random.integers(20, size=2000))
    frame = pd.DataFrame({"age": age} | {name: (age + random.integers(8, size=2000)) // 9 for name in "bcd"})
    tables = tw.count(frame).select([("age", "b"), ("age", "c"), ("age", "d")])
    report = tw.fit(tables).report
    assert np.isfinite(report.starts[0].objectives).all()
    assert report.misfits[0].total_variation < 0.02
    # Nobody asked for the number of states.
    assert not any("more than any joint distribution" in warning for warning in report.warnings)


def test_equal_columns_in_any_order(records):
    frame = records[list("abcd")].head(400)
    frame = frame.assign(b2=frame["b"], a2=frame["a"])
    options = {"structure": "tree", "rank": 3, "smoothing": 0.5, "starts": 1}
    one, other = tw.fit(frame, **options), tw.fit(frame[sorted(frame, reverse=True)], **options)
    np.testing.assert_allclose(one.log_prob(frame), other.log_prob(frame), atol=1e-6)


def test_edges(records):
    edges = [("a", "b"), ("b", "c"), ("b", "d")]
    pmf = tw.fit(records[list("abcd")], structure=edges, rank=3, smoothing=0.5, starts=1)
    # One inner vertex: a single hidden variable behind b.
    assert pmf.n_hidden == 1
    edges = [("a", "b"), ("c", "b"), ("c", "d"), ("d", "e")]
    pmf = tw.fit(records[list("abcde")], structure=edges, rank=3, smoothing=0.5, starts=1)
    assert pmf.n_hidden == 3


@pytest.mark.parametrize(
    ("structure", "error", "culprit"),
    [
        ("forest", UnknownNameError, "structure"),
        ([("a", "b"), ("b", "a")], DataError, "cycle"),
        ([("a", "b")], DataError, "'c'"),
        ([("a", "x"), ("b", "c")], UnknownNameError, "'x'"),
        ([("a", "b", "c")], DataError, "pairs"),
        (3, DataError, "pairs"),
    ],
)
def test_a_structure_that_is_none(records, structure, error, culprit):
    with pytest.raises(error, match=culprit):
        tw.fit(records[list("abc")], structure=structure)


def test_a_tree_has_a_solver_of_its_own(records):
    with pytest.raises(DataError, match="solver"):
        tw.fit(records, structure="tree", solver="em")
    with pytest.raises(DataError, match="starts"):
        tw.fit(records, structure="tree", starts=0)


@pytest.mark.parametrize(
    ("scores", "counts_tables", "rank"),
    [
        ({(True, 12): -5.0, (False, 12): -4.9, (True, 6): -5.1}, True, 12),
        # Far better without tables; then fewer states as well, or not.
        ({(True, 12): -5.0, (False, 12): -4.0, (False, 6): -4.2}, False, 12),
        ({(True, 12): -5.0, (False, 12): -4.0, (False, 6): -3.9}, False, 6),
        ({(True, 12): -5.0, (False, 12): -5.0, (True, 6): -4.9}, True, 6),
    ],
)
def test_the_form_that_predicts_the_first_fold(records, monkeypatch, scores, counts_tables, rank):
    noise = np.random.default_rng(0).normal(size=100)
    noise -= noise.mean()

    def first_fold(self, problem):
        # The standard error of a difference is about 0.04.
        own = 0.3 * np.roll(noise, problem.rank + self.counts_tables)
        return HeldOut(scores[self.counts_tables, problem.rank] + own, np.ones(100))

    monkeypatch.setattr(Tree, "_first_fold", first_fold)
    report = tw.fit(records[list("abcde")].head(200), structure="tree", starts=1).report
    assert (report.counts_tables, report.rank) == (counts_tables, rank)


@pytest.mark.slow
def test_a_hidden_markov_chain():
    """A long chain behind many variables: two of them say little of it, a record says much."""
    n_variables, n_states = 180, 4
    random = np.random.default_rng(0)
    emissions = random.beta(0.3, 0.3, size=(n_variables, n_states))
    stay = np.full((n_states, n_states), 0.1 / 3) + (0.9 - 0.1 / 3) * np.eye(n_states)
    parents = (-1, *range(n_variables - 1))
    factors = tuple(np.vstack([1 - p, p]) for p in emissions)
    weights = np.full(n_states, 1 / n_states)
    tree = tw.HiddenTree(parents, tuple(range(n_variables)), weights, (stay,) * (n_variables - 1), factors)
    schema = tw.Schema(tuple(tw.Variable(f"x{n}", (0, 1)) for n in range(n_variables)))
    truth = tw.JointPMF.from_trees(schema, Trees(np.ones(1), (tree,)))
    fresh = truth.sample(2400, seed=1)
    pmf = tw.fit(truth.sample(1600, seed=0))
    assert pmf.n_hidden > 1
    assert not pmf.report.counts_tables
    assert truth.log_prob(fresh).mean() - pmf.log_prob(fresh).mean() < 2.0


def worst_pair(pmf, tables):
    return max(np.abs(np.asarray(pmf.marginal(names)) - np.asarray(tables[names])).sum() / 2 for names in tables.names)


def test_large_tables_of_all_pairs_are_met():
    """Whoever compares a model with published tables of many people finds them in it."""
    tables = tw.count(random_pmf(sized([5, 4, 3, 4]), 20, seed=3, concentration=0.3).sample(20_000, seed=0))
    problem = Problem(Evidence(tables.schema, tables=tables, threads=1), 2)
    rough = fit_single_structure(problem, 2, find_solver("auto", 1))
    assert worst_pair(rough.solution.pmf, tables) > 0.02
    closer = fit_structure_closer(rough)
    assert worst_pair(closer.solution.pmf, tables) < 0.003
    assert "went on with more states" in closer.reason
    # Smaller tables are smoothed instead: how far they are off is mostly chance.
    few = replace(tables, flat=tables.flat / 10, weights=tables.weights / 10)
    small = replace(rough, problem=replace(problem, evidence=Evidence(few.schema, tables=few, threads=1)))
    assert fit_structure_closer(small) is small


@pytest.mark.parametrize("is_turned", [False, True])
def test_one_table_is_its_own_model(is_turned):
    counts = pd.DataFrame([[693, 676, 0, 10], [856, 0, 764, 20], [565, 615, 572, 30]], list("xyz"), list("stuv"))
    counts = counts.T if is_turned else counts
    pmf = tw.fit(tw.Tables.from_crosstabs({("a", "b"): counts}))
    assert pmf.report is not None
    assert pmf.report.converged
    np.testing.assert_allclose(pmf.marginal(["a", "b"]).array, counts / counts.to_numpy().sum(), atol=1e-5)
    assert pmf.rank == 3
    # What nobody answered stays possible.
    assert 0 < pmf.prob({"a": "u", "b": "x"} if is_turned else {"a": "x", "b": "u"}) < 1e-5
