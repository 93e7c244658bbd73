"""Hidden trees learned from records and from tables."""

import numpy as np
import pandas as pd
import pytest
from hidden_trees import random_tree

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError, UnknownNameError
from twoway.fitting.sources import evidence_of_source
from twoway.model.trees import Trees
from twoway.solvers import evidence as evidence_module
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.loop import Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.tree_shape import TreeShape
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
