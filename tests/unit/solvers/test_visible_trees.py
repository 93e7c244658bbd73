"""Mixtures of trees of the visible variables equal sums over all cells of the joint."""

import itertools

import numpy as np
import pytest
from hidden_trees import random_tree
from random_models import sized

import twoway as tw
from twoway.data.records import Records
from twoway.errors import DataError
from twoway.model.pmf import JointPMF
from twoway.model.trees import Trees
from twoway.solvers.loop import Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.visible_trees import VisibleCounts, VisibleMixture, VisibleTree

SIZES = (2, 3, 2)
SCHEMA = sized(SIZES)
CELLS = list(itertools.product(*map(range, SIZES)))
# The variables of each tree, and the parent of each by its place among them.
STAR, CHAIN = ([1, 0, 2], [-1, 0, 0]), ([0, 2, 1], [-1, 0, 1])


def random_visible_tree(variables, parents, seed):
    rng = np.random.default_rng(seed)
    tables = []
    for variable, parent in zip(variables, parents, strict=True):
        n_columns = 1 if parent < 0 else SIZES[variables[parent]]
        tables.append(rng.dirichlet(np.ones(SIZES[variable]), n_columns).T)
    rows, columns, _ = VisibleTree.shape(np.array(variables), np.array(parents), np.array(SIZES))
    return VisibleTree(rows, np.concatenate([table.ravel() for table in tables]), columns), tables


@pytest.fixture(scope="module")
def mixture():
    trees = tuple(random_visible_tree(*shape, seed)[0] for seed, shape in enumerate((STAR, CHAIN)))
    return VisibleMixture(SCHEMA, np.array([0.3, 0.7]), trees)


def places_of(tree, cell):
    """Return the cell of each of a tree's tables that a cell of the joint is in."""
    rows, places = tree.rows, []
    for vertex, parent in enumerate(rows.parents.tolist()):
        n_columns = 1 if parent < 0 else SIZES[rows.variables[parent]]
        above = 0 if parent < 0 else cell[rows.variables[parent]]
        places.append(int(rows.firsts[vertex]) + cell[rows.variables[vertex]] * n_columns + above)
    return places


def joint_of(tree):
    return np.array([tree.tables[places_of(tree, cell)].prod() for cell in CELLS]).reshape(SIZES)


def joint_of_mixture(mixture):
    return sum(share * joint_of(tree) for share, tree in zip(mixture.shares, mixture.trees, strict=True))


def margin(joint, *variables):
    """Return the shares of some variables, in the order given."""
    return np.einsum(joint, [0, 1, 2], list(variables))


def records_of(codes, weights=None):
    codes = np.asarray(codes)
    columns = {f"v{n}": np.where(codes[:, n] < 0, np.nan, codes[:, n]) for n in range(3)}
    return Records(columns, schema=SCHEMA).reweighted(None if weights is None else np.array(weights, dtype=float))


HOLES = [[0, 2, 1], [1, -1, 0], [-1, -1, 1], [0, 1, -1], [1, 0, 0], [-1, 2, -1]]
WEIGHTS = [1.0, 2.5, 0.5, 3.0, 1.5, 4.0]


def brute_force(mixture, codes, weights):
    """Return the log-likelihood of records, and the counts that EM expects."""
    value, totals, of_trees = 0.0, np.zeros(2), [np.zeros(tree.tables.size) for tree in mixture.trees]
    for record, weight in zip(codes, weights, strict=True):
        ways = []
        for cell in CELLS:
            if all(code in (-1, own) for code, own in zip(record, cell, strict=True)):
                for number, tree in enumerate(mixture.trees):
                    places = places_of(tree, cell)
                    ways.append((number, places, mixture.shares[number] * tree.tables[places].prod()))
        whole = sum(chance for *_, chance in ways)
        value += weight * np.log(whole)
        for number, places, chance in ways:
            totals[number] += weight * chance / whole
            of_trees[number][places] += weight * chance / whole
    return value, totals, of_trees


def test_tables_lie_one_behind_the_other_with_their_columns_numbered():
    rows, columns, _ = VisibleTree.shape(np.array(STAR[0]), np.array(STAR[1]), np.array(SIZES))
    assert rows.sizes.tolist() == [3, 2, 2]
    assert rows.firsts.tolist() == [0, 3, 9, 15]
    assert columns.tolist() == [0, 0, 0, 1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6]


@pytest.mark.parametrize("shape", [STAR, CHAIN])
def test_tables_shares_and_edges_of_a_tree_are_those_of_its_joint(shape):
    tree, tables = random_visible_tree(*shape, seed=4)
    for split, table in zip(tree.split_tables(), tables, strict=True):
        np.testing.assert_array_equal(split, table)
    joint = joint_of(tree)
    assert joint.sum() == pytest.approx(1.0)
    variables, parents = shape
    for vertex, (variable, parent) in enumerate(zip(variables, parents, strict=True)):
        np.testing.assert_allclose(tree.vertex_shares()[vertex], margin(joint, variable))
        above = margin(joint, variable, variables[parent]) if vertex else margin(joint, variable)[:, None]
        np.testing.assert_allclose(tree.edge_tables()[vertex], above)


@pytest.mark.parametrize("shape", [STAR, CHAIN])
def test_hidden_copies_leave_the_joint_as_it_is_and_can_be_taken_back(shape):
    tree, _ = random_visible_tree(*shape, seed=5)
    hidden = tree.hidden()
    assert hidden.n_hidden == len(set(shape[1])) - 1  # one for each variable with children
    np.testing.assert_allclose(JointPMF.from_trees(SCHEMA, Trees(np.ones(1), (hidden,))).trees.joint(), joint_of(tree))
    np.testing.assert_allclose(joint_of(VisibleTree.of_hidden(hidden)), joint_of(tree))


def test_a_hidden_variable_that_is_no_copy_is_refused():
    with pytest.raises(DataError, match="not copies of visible variables"):
        VisibleTree.of_hidden(random_tree((-1, 0), n_states=(3, 2), sizes=(3, 2, 2), homes=(0, 1, 1)))


def test_a_mixture_and_its_model_have_the_same_joint(mixture):
    np.testing.assert_allclose(mixture.pmf().trees.joint(), joint_of_mixture(mixture))
    again = VisibleMixture.of(mixture.pmf())
    np.testing.assert_array_equal(again.shares, mixture.shares)
    for one, other in zip(again.trees, mixture.trees, strict=True):
        np.testing.assert_allclose(joint_of(one), joint_of(other))


@pytest.mark.parametrize("weights", [WEIGHTS, None])
def test_expected_counts_of_records_with_holes_equal_brute_force(mixture, weights):
    expected = mixture.expected(records_of(HOLES, weights), 1)
    value, totals, of_trees = brute_force(mixture, HOLES, weights or [1.0] * len(HOLES))
    assert expected.log_likelihood == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(expected.totals, totals)
    for ours, theirs in zip(expected.of_trees, of_trees, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-14)


def test_counts_add():
    one, other = (VisibleCounts(np.array([n, 2.0 * n]), [np.full(2, n), np.full(3, 3.0 * n)], -n) for n in (1.0, 10.0))
    both = one.plus(other)
    assert both.totals.tolist() == [11, 22]
    assert [counts.tolist() for counts in both.of_trees] == [[11, 11], [33, 33, 33]]
    assert both.log_likelihood == -11


def test_the_best_tables_are_shares_of_columns_and_stay_where_nothing_was_counted(mixture):
    counts = np.zeros(15)
    counts[:3] = 2, 6, 0
    counts[[4, 7]] = 1, 3  # v0 given the second category of v1; the others never occurred
    best = mixture.trees[0].maximized(counts)
    assert best.tables[:3].tolist() == [0.25, 0.75, 0.0]
    assert best.tables[[4, 7]].tolist() == [0.25, 0.75]
    others = [3, 5, 6, *range(8, 15)]
    assert best.tables[others].tolist() == mixture.trees[0].tables[others].tolist()
    whole = mixture.maximized(VisibleCounts(np.array([1.0, 4.0]), [counts, np.ones(mixture.trees[1].tables.size)]))
    assert whole.shares.tolist() == [0.2, 0.8]
    np.testing.assert_array_equal(whole.trees[0].tables, best.tables)
    assert set(whole.trees[1].tables.tolist()) == {1 / 2, 1 / 3}


def test_the_prior_is_a_product_of_powers(mixture):
    prior = VisibleCounts(np.array([2.0, 0.5]), [np.zeros(15), np.zeros(mixture.trees[1].tables.size)])
    prior.of_trees[0][[0, 9]] = 1.0, 3.0
    first = mixture.trees[0].tables
    powers = 0.3**2.0 * 0.7**0.5 * first[0] * first[9] ** 3.0
    assert mixture.log_prior(prior) == pytest.approx(np.log(powers))


def test_smoothing_adds_records_without_dependence_and_with_the_shares_of_all(mixture):
    smoothing = Smoothing(2.0, 0.5)
    prior = mixture.pseudo_counts(records_of(HOLES, WEIGHTS), smoothing)
    assert prior.totals.tolist() == [0.5, 0.5]
    for number, tree in enumerate(mixture.trees):
        joint, variables = joint_of(tree), tree.rows.variables.tolist()
        expected = []
        for vertex, (variable, parent) in enumerate(zip(variables, tree.rows.parents.tolist(), strict=True)):
            above = variables[parent] if vertex else None
            seen = np.zeros((SIZES[variable], 1 if above is None else SIZES[above]))
            for record, weight in zip(HOLES, WEIGHTS, strict=True):
                if record[variable] >= 0 and (above is None or record[above] >= 0):
                    seen[record[variable], 0 if above is None else record[above]] += weight
            expected.append(2.0 * (margin(joint, variable)[:, None] + seen / seen.sum()))
        np.testing.assert_allclose(prior.of_trees[number], np.concatenate([one.ravel() for one in expected]))


def test_smoothing_of_variables_that_were_never_seen_together_is_without_dependence(mixture):
    apart = records_of([[0, -1, -1], [-1, 2, -1], [-1, -1, 1], [1, -1, -1]])
    star = mixture.trees[0]
    of_star = mixture.pseudo_counts(apart, Smoothing(1.0, 1.0)).of_trees[0]
    np.testing.assert_allclose(of_star[3:9].reshape(2, 3), np.repeat(star.vertex_shares()[1][:, None], 3, axis=1))


def test_what_is_remembered_are_the_counts_of_people_as_the_mixture_has_them(mixture):
    everyone = records_of(CELLS, 50.0 * joint_of_mixture(mixture).ravel())
    expected, remembered = mixture.expected(everyone, 1), mixture.remembered(np.array([15.0, 35.0]))
    np.testing.assert_allclose(expected.totals, remembered.totals)
    for ours, theirs in zip(remembered.of_trees, expected.of_trees, strict=True):
        np.testing.assert_allclose(ours, theirs)
    again = mixture.maximized(remembered)
    np.testing.assert_allclose(again.trees[1].tables, mixture.trees[1].tables)


def test_a_climb_is_em_and_its_objective_counts_the_prior_from_the_start(mixture):
    records, mixture = records_of(HOLES, WEIGHTS), VisibleMixture.of(mixture.pmf())
    prior = mixture.pseudo_counts(records, Smoothing(1.0, 2.0))
    descent = mixture.climb(records, prior, Loop("test", 2, 0.0), 1)
    value, totals, of_trees = brute_force(mixture, HOLES, WEIGHTS)
    assert descent.objectives[0] == pytest.approx(-value / sum(WEIGHTS))
    following = mixture.maximized(VisibleCounts(totals, of_trees).plus(prior))
    np.testing.assert_allclose(descent.pmf.trees.joint(), joint_of_mixture(following))
    gain = following.log_prior(prior) - mixture.log_prior(prior)
    after = brute_force(following, HOLES, WEIGHTS)[0]
    assert descent.objectives[1] == pytest.approx(-(after + gain) / sum(WEIGHTS))


def test_drawn_counts_keep_the_sum_of_each_column_and_vary_as_dirichlet_shares(mixture):
    of_star = np.zeros(15)
    of_star[:3] = 1.0, 2.0, 5.0
    of_star[[4, 7]] = 3.0, 9.0
    prior = VisibleCounts(np.array([6.0, 2.0]), [of_star, np.ones(mixture.trees[1].tables.size)])
    draws = [mixture.drawn(prior, np.random.default_rng(seed)) for seed in range(400)]
    totals, stars = np.array([one.totals for one in draws]), np.array([one.of_trees[0] for one in draws])
    np.testing.assert_allclose(totals.sum(axis=1), 8.0)
    np.testing.assert_allclose(stars[:, :3].sum(axis=1), 8.0)
    np.testing.assert_allclose(stars[:, [4, 7]].sum(axis=1), 12.0)
    assert not stars[:, [3, 5, 6, *range(8, 15)]].any()
    for drawn, counts in ((totals, [6.0, 2.0]), (stars[:, :3], [1.0, 2.0, 5.0]), (stars[:, [4, 7]], [3.0, 9.0])):
        counts = np.array(counts)
        spread = np.sqrt(counts * (counts.sum() - counts) / (counts.sum() + 1.0))
        assert (np.abs(drawn.mean(axis=0) - counts) < 4.0 * spread / np.sqrt(len(draws))).all()
        np.testing.assert_allclose(drawn.std(axis=0), spread, rtol=0.15)


def test_new_categories_are_impossible_and_say_nothing_of_others(mixture):
    assert mixture.extended(SCHEMA) is mixture
    schema = tw.Schema(
        (tw.Variable("v0", (0, "new", 1)), tw.Variable("v1", ("new", 0, 1, 2)), tw.Variable("v2", (0, 1, "new")))
    )
    extended = mixture.extended(schema)
    assert extended.schema == schema
    joint = extended.pmf().trees.joint()
    np.testing.assert_allclose(joint[np.ix_([0, 2], [1, 2, 3], [0, 1])], joint_of_mixture(mixture))
    assert joint.sum() == pytest.approx(1.0)
    for tree in extended.trees:  # each column of the tables has its own total
        np.testing.assert_allclose(np.bincount(tree.columns, tree.tables), 1.0)
        for again in (tree.maximized(tree.tables), tree.maximized(3.0 * tree.tables)):
            np.testing.assert_allclose(again.tables, tree.tables)
    star, old = extended.trees[0].split_tables(), mixture.trees[0]
    assert star[0].ravel().tolist() == [0.0, *old.split_tables()[0].ravel()]
    for vertex, rows in ((1, [0, 2]), (2, [0, 1])):
        np.testing.assert_array_equal(star[vertex][rows, 1:], old.split_tables()[vertex])
        np.testing.assert_array_equal(star[vertex][rows, 0], old.vertex_shares()[vertex])
        np.testing.assert_allclose(star[vertex].sum(axis=0), 1.0)


def test_a_part_of_overall_shares_is_mixed_into_each_table(mixture):
    overall = np.array([0.25, 0.75, 0.5, 0.3, 0.2, 0.9, 0.1])
    softened = mixture.softened(0.25, overall)
    assert softened.shares.tolist() == mixture.shares.tolist()
    shares = {0: overall[:2], 1: overall[2:5], 2: overall[5:]}
    for before, after in zip(mixture.trees, softened.trees, strict=True):
        for vertex, variable in enumerate(before.rows.variables.tolist()):
            expected = 0.75 * before.split_tables()[vertex] + 0.25 * shares[variable][:, None]
            np.testing.assert_allclose(after.split_tables()[vertex], expected)
    independent = np.einsum("a,b,c->abc", *shares.values())
    np.testing.assert_allclose(joint_of_mixture(mixture.softened(1.0, overall)), independent)
