"""Where fits of trees begin."""

import itertools

import numpy as np
import pytest
from hidden_trees import random_tree

import twoway as tw
from twoway.model.hidden_tree import HiddenTree
from twoway.model.trees import Trees
from twoway.solvers import Watch
from twoway.solvers.evidence import Evidence
from twoway.solvers.loop import Loop
from twoway.solvers.tree_starts import (
    TreeShape,
    _states_of_categories,
    local_spa_start,
    random_tree_start,
    spread_start,
    visible_tree_start,
    with_more_states,
)

NAMES = tuple("abcdefgh")
SCHEMA = tw.Schema(tuple(tw.Variable(name, tuple(range(4))) for name in NAMES))
HOMES = (0, 0, 0, 1, 1, 2, 2, 2)
SHAPE = TreeShape((-1, 0, 1), HOMES, (0, 3, 5))
LINKS = TreeShape.of_edges("abcd", [(0, 1), (1, 2), (2, 3)])


@pytest.fixture(scope="module")
def truth():
    """A chain of three hidden variables of two states, each of which some categories show alone."""
    tree = random_tree((-1, 0, 1), n_states=(2, 2, 2), sizes=(4,) * 8, homes=HOMES, seed=3)
    alone = np.array([[0.6, 0.0], [0.0, 0.5], [0.3, 0.1], [0.1, 0.4]])
    stay = np.array([[0.8, 0.3], [0.2, 0.7]])
    tree = type(tree)(tree.parents, tree.homes, np.array([0.6, 0.4]), (stay, stay), (alone,) * 8)
    return tw.JointPMF.from_trees(SCHEMA, Trees(np.ones(1), (tree,)))


@pytest.fixture(scope="module")
def evidence(truth):
    records = tw.Records(truth.sample(100_000, seed=1), schema=SCHEMA)
    return Evidence(SCHEMA, tables=tw.count(records), threads=1)


def table(pmf, pair):
    return np.asarray(pmf.marginal(list(pair)))


def worst_table(pmf, truth):
    """Return the total variation of the table in which a start is farthest from the truth."""
    pairs = itertools.combinations(NAMES, 2)
    return max(np.abs(table(pmf, pair) - table(truth, pair)).sum() / 2 for pair in pairs)


def test_spa_at_each_hidden_variable_finds_the_tree(truth, evidence):
    start = local_spa_start(evidence, SHAPE, 2, (0, 0))
    # But for what keeps zeros out, a twentieth.
    assert worst_table(start, truth) < 0.06
    assert worst_table(random_tree_start(SCHEMA, SHAPE, 2, evidence.sets.shares, (0, 0)), truth) > 0.2


def test_spa_finds_the_transitions_of_exact_tables_but_for_a_twentieth(truth, evidence):
    sets = evidence.tables(2).sets
    shares = [table(truth, [NAMES[place] for place in pair]).ravel() for pair in sets]
    exact = Evidence(SCHEMA, tables=tw.Tables(SCHEMA, sets, 1e6 * np.concatenate(shares)), threads=1)
    (tree,) = local_spa_start(exact, SHAPE, 2, (0, 0)).trees.trees
    for found, true in zip(tree.transitions, truth.trees.trees[0].transitions, strict=True):
        # One part in 21 leads to each state alike; states may be in another order.
        np.testing.assert_allclose(np.sort(found.ravel()), np.sort((20 * true + 0.5).ravel() / 21), atol=1e-4)


def test_spa_with_more_states_than_it_can_find(truth, evidence):
    start = local_spa_start(evidence, SHAPE, 12, (0, 0))
    (tree,) = start.trees.trees
    assert tree.n_states == (12, 12, 12)
    assert tree.weights.sum() == pytest.approx(1.0)
    for columns in (*tree.transitions, *tree.factors):
        np.testing.assert_allclose(columns.sum(axis=0), 1.0)
        assert columns.min() > 0


def test_states_that_spa_cannot_find_are_copies_that_share_the_weight_and_differ_a_little(linked):
    (tree,) = local_spa_start(linked[0], LINKS, 9, (0, 0)).trees.trees
    assert tree.weights.sum() == pytest.approx(1.0)
    own = np.vstack([factor for factor, home in zip(tree.factors, tree.homes, strict=True) if home == 0])
    assert len(np.unique(own.round(9), axis=1).T) == 9


def test_spa_with_one_state_is_independence(evidence):
    (tree,) = local_spa_start(evidence, SHAPE, 1, (0, 0)).trees.trees
    assert tree.n_states == (1, 1, 1)
    np.testing.assert_array_equal(tree.weights, 1.0)


def test_spa_matches_neighbours_by_all_variables_beyond_the_edge():
    """Also by those of the neighbour itself, where variables farther away say nothing of it."""
    alone = np.array([[0.6, 0.0], [0.0, 0.5], [0.3, 0.1], [0.1, 0.4]])
    transitions = np.array([[0.8, 0.3], [0.2, 0.7]]), np.full((2, 2), 0.5)
    tree = HiddenTree(SHAPE.parents, HOMES, np.array([0.7, 0.3]), transitions, (alone,) * 8)
    truth = tw.JointPMF.from_trees(SCHEMA, Trees(np.ones(1), (tree,)))
    pairs = np.array(list(itertools.combinations(range(8), 2)))
    shares = [table(truth, [NAMES[place] for place in pair]).ravel() for pair in pairs]
    exact = Evidence(SCHEMA, tables=tw.Tables(SCHEMA, pairs, 1e6 * np.concatenate(shares)), threads=1)
    start = local_spa_start(exact, SHAPE, 2, (0, 0))
    (found,) = start.trees.trees
    # A twentieth of each share is that of equal ones.
    np.testing.assert_allclose(np.sort(found.weights), 0.95 * np.array([0.3, 0.7]) + 0.025, atol=1e-4)
    for pair in ("ad", "be", "ce"):
        assert np.abs(table(start, pair) - table(truth, pair)).sum() / 2 < 0.03


def test_spa_needs_all_tables(evidence):
    some = evidence.tables(2).part(np.arange(28) > 0)
    assert local_spa_start(Evidence(SCHEMA, tables=some, threads=1), SHAPE, 2, (0, 0)) is None


def test_one_hidden_variable_spread_along_the_tree(truth, evidence):
    loop = Loop("single", 30, 1e-5, Watch())
    start = spread_start(evidence, SHAPE, 2, (0, 0), loop)
    assert start.n_hidden == 3
    assert worst_table(start, truth) < 0.2


def test_the_visible_tree_has_the_tables_of_neighbours_and_rules_nothing_out():
    """A fiftieth of each table is what independent variables would show."""
    schema = tw.Schema(tuple(tw.Variable(name, tuple(range(3))) for name in "abcd"))
    codes = np.repeat(np.arange(3), 200)
    columns = {"a": codes, "b": codes, "c": np.where(codes == 0, 1, codes), "d": (codes + 1) % 3}
    evidence = Evidence(schema, tables=tw.count(tw.Records(columns, schema=schema)), threads=1)
    edges = [(0, 1), (1, 2), (2, 3)]
    start = visible_tree_start(evidence, TreeShape.of_edges("abcd", edges), 3, (0, 0), spread=0.0)
    for pair in edges:
        names = [schema.names[place] for place in pair]
        observed = evidence.tables(2).array(evidence.tables(2).sets.tolist().index(list(pair))) / 600
        expected = 0.98 * observed + 0.02 * np.outer(observed.sum(axis=1), observed.sum(axis=0))
        np.testing.assert_allclose(table(start, names), expected, rtol=0.05, atol=2e-5)


@pytest.fixture(scope="module")
def linked():
    """Four variables, each of which depends on the one before: evidence, and the shares of each table."""
    random = np.random.default_rng(5)
    sizes = {"a": 2, "b": 3, "c": 4, "d": 2}
    schema = tw.Schema(tuple(tw.Variable(name, tuple(range(size))) for name, size in sizes.items()))
    columns = {"a": random.integers(0, 2, 500)}
    for before, name in itertools.pairwise("abcd"):
        any_code = random.integers(0, sizes[name], 500)
        columns[name] = np.where(random.random(500) < 0.5, columns[before] % sizes[name], any_code)
    tables = tw.count(tw.Records(columns, schema=schema))
    evidence = Evidence(schema, tables=tables, threads=1)
    return evidence, {names: tables.array(place) / 500 for place, names in enumerate(tables.names)}


@pytest.mark.parametrize("n_states", [4, 7])
def test_the_visible_tree_is_the_joint_of_its_tables(linked, n_states):
    """However many states stand for a category: what no table of neighbours says is independent."""
    evidence, shares = linked
    start = visible_tree_start(evidence, LINKS, n_states, (0, 0), spread=0.0)
    tables = [shares["a", "b"], shares["b", "c"], shares["c", "d"]]
    mixed = [0.98 * own + 0.02 * np.outer(own.sum(axis=1), own.sum(axis=0)) for own in tables]
    of_b, of_c = tables[0].sum(axis=0), tables[1].sum(axis=0)
    joint = np.einsum("ab,bc,cd,b,c->abcd", *mixed, 1 / of_b, 1 / of_c)
    np.testing.assert_allclose(start.marginal(list("abcd")), joint, atol=2e-4)


def test_neighbours_without_a_table_begin_as_independent(linked):
    evidence, shares = linked
    tables = evidence.tables(2)
    some = tables.part(np.array([names != ("c", "d") for names in tables.names]))
    start = visible_tree_start(Evidence(evidence.schema, tables=some, threads=1), LINKS, 4, (0, 0), spread=0.0)
    expected = np.outer(shares["c", "d"].sum(axis=1), shares["c", "d"].sum(axis=0))
    np.testing.assert_allclose(table(start, "cd"), expected, atol=2e-4)


def test_states_of_the_visible_tree_part_by_the_spread(linked):
    """Seven states stand for two to four categories; those of the same category differ, and none is ruled out."""
    evidence, _ = linked
    plain, little, much = (visible_tree_start(evidence, LINKS, 7, (0, 0), spread=spread) for spread in (0.0, 0.1, 1.0))

    def farthest(start):
        return max(np.abs(own - other).max() for own, other in zip(start.factors, plain.factors, strict=True))

    assert 0.001 < farthest(little) < farthest(much) < 0.3
    # Of each twentieth that is open to all states, a state may get little, but not nothing.
    own = much.factors[1]
    assert own.min() > 1e-6 > plain.factors[1].min()
    assert len(np.unique(plain.factors[1].round(6), axis=1).T) == 3
    assert len(np.unique(own.round(6), axis=1).T) == 7


def evidence_of_three(of_a, of_b, of_c):
    """Return tables of three independent variables with these shares."""
    shares = {"a": np.array(of_a), "b": np.array(of_b), "c": np.array(of_c)}
    schema = tw.Schema(tuple(tw.Variable(name, tuple(range(len(own)))) for name, own in shares.items()))
    tables = [1e6 * np.outer(shares[first], shares[second]).ravel() for first, second in ("ab", "ac", "bc")]
    return Evidence(schema, tables=tw.Tables(schema, np.array([[0, 1], [0, 2], [1, 2]]), np.hstack(tables)), threads=1)


def test_a_twentieth_of_each_category_is_open_to_all_states():
    """What is drawn for it is uniform, so it is a third of a twentieth for each of three states on average."""
    evidence = evidence_of_three([0.5, 0.5], [0.8, 0.15, 0.05], [0.5, 0.5])
    shape = TreeShape.of_edges("abc", [(0, 1), (1, 2)])
    starts = [visible_tree_start(evidence, shape, 3, (0, number)) for number in range(100)]
    weights = np.mean([start.weights for start in starts], axis=0)
    np.testing.assert_allclose(weights, 0.95 * np.array([0.8, 0.15, 0.05]) + 0.05 / 3, atol=3e-3)


def test_states_of_the_visible_tree_differ_by_up_to_three_tenths():
    """An independent variable has nearly the same shares in all states."""
    evidence = evidence_of_three([0.5, 0.5], [0.5, 0.5], [0.5, 0.5])
    shape = TreeShape.of_edges("abc", [(0, 1), (1, 2)])
    start = visible_tree_start(evidence, shape, 200, (0, 0))
    for factor in (start.factors[0], start.factors[2]):
        odds = factor[0] / factor[1]
        assert 1.2 < odds.max() < 1.3
        assert 1.2 < 1 / odds.min() < 1.3


def test_several_states_stand_for_a_frequent_category():
    """The next state is for the category with the largest share for each of its states."""
    shares = np.array([0.25, 0.65, 0.1])
    stands = _states_of_categories(shares, 6, 0.0, np.random.default_rng(0))
    expected = [[1 / 2, 0, 0]] * 2 + [[0, 1 / 3, 0]] * 3 + [[0, 0, 1]]
    np.testing.assert_allclose(stands, expected, atol=1e-8)
    noisy = _states_of_categories(shares, 6, 0.3, np.random.default_rng(0))
    np.testing.assert_allclose(noisy.sum(axis=0), 1.0)
    assert noisy[[0, 1, 5], 1].max() < 1e-8
    copies = _states_of_categories(np.ones(1), 100, 0.3, np.random.default_rng(0))
    assert 1.25 < copies.max() / copies.min() < 1.3


def test_neighbouring_categories_share_a_state_where_states_are_fewer():
    """Each state stands for about as many people."""
    random = np.random.default_rng(0)
    stands = _states_of_categories(np.full(6, 1 / 6), 3, 0.3, random)
    np.testing.assert_allclose(stands, np.repeat(np.eye(3), 2, axis=1), atol=1e-8)
    people = np.array([40.0, 10.0, 10.0, 10.0, 30.0])
    for shares in (people / 100, people):
        stands = _states_of_categories(shares, 2, 0.3, random)
        np.testing.assert_allclose(stands, [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]], atol=1e-8)


def test_a_state_that_stands_for_nothing_is_like_all_categories():
    stands = _states_of_categories(np.array([0.96, 0.01, 0.01, 0.02]), 3, 0.3, np.random.default_rng(0))
    np.testing.assert_allclose(stands, [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 1, 1]], atol=1e-8)
    np.testing.assert_allclose(stands.sum(axis=0), 1.0)
    np.testing.assert_allclose(stands[0] / stands[0, 0], 1.0)
    assert stands[0, 0] > 0


def test_random_starts_depend_on_names_not_on_places():
    shares = np.random.default_rng(0).dirichlet(np.ones(4), 8)
    start = random_tree_start(SCHEMA, SHAPE, 3, shares.ravel(), (1, 2))
    backwards = tw.Schema(SCHEMA.variables[::-1])
    shape = TreeShape(SHAPE.parents, HOMES[::-1], tuple(7 - owner for owner in SHAPE.owners))
    same = random_tree_start(backwards, shape, 3, shares[::-1].ravel(), (1, 2))
    assert worst_table(same, start) < 1e-12
    other = random_tree_start(SCHEMA, SHAPE, 3, shares.ravel(), (1, 3))
    assert worst_table(other, start) > 0.01
    (tree,) = start.trees.trees
    assert (tree.parents, tree.homes, tree.n_states) == (SHAPE.parents, SHAPE.homes, (3, 3, 3))
    np.testing.assert_allclose(tree.weights, 1 / 3)
    for columns in (*tree.transitions, *tree.factors):
        np.testing.assert_allclose(columns.sum(axis=0), 1.0)
        assert columns.min() > 0
        assert columns.max() > 0.5, "far from equal shares"


def test_neighbours_of_one_spread_variable_mostly_agree(linked):
    """All of its copies have the same shares; a tenth of those in a state move to any, by these."""
    evidence, shares = linked
    start = spread_start(evidence, LINKS, 3, (0, 0), Loop("single", 5, 0.0, Watch()))
    (tree,) = start.trees.trees
    assert tree.parents == (-1, 0)
    np.testing.assert_allclose(tree.shares[1], tree.weights)
    np.testing.assert_allclose(tree.transitions[0], 0.9 * np.eye(3) + 0.1 * tree.weights[:, None])
    # Every variable keeps its own shares, as in any fit by EM.
    np.testing.assert_allclose(start.marginal(start.schema.names[0]), shares["a", "b"].sum(axis=1), atol=0.01)
    np.testing.assert_allclose(start.marginal(start.schema.names[3]), shares["c", "d"].sum(axis=0), atol=0.01)


def test_a_spread_variable_rules_nothing_out_and_few_records_hardly_part_its_states():
    """A twentieth of its factors are the overall shares, and so is most of them where states rest on few records."""
    few, many = np.diag([3.0, 3.0]), np.diag([1e6, 1e6])
    schema = tw.Schema(tuple(tw.Variable(name, (0, 1)) for name in "abc"))
    shape = TreeShape.of_edges("abc", [(0, 1), (1, 2)])

    def start(counts):
        tables = tw.Tables(schema, np.array([[0, 1], [0, 2], [1, 2]]), np.hstack([counts.ravel()] * 3))
        loop = Loop("single", 30, 0.0, Watch())
        return spread_start(Evidence(schema, tables=tables, threads=1), shape, 2, (0, 0), loop)

    for factor in start(many).factors:
        np.testing.assert_allclose(np.sort(factor, axis=0), [[0.025] * 2, [0.975] * 2], atol=1e-3)
    for factor in start(few).factors:
        assert np.ptp(factor, axis=1).max() < 0.7


def test_more_states_are_nearly_the_same_model(truth):
    same = with_more_states(truth, 5, ())
    assert same.trees.trees[0].n_states == (6, 6, 6)
    assert worst_table(same, truth) < 1e-12
    parted = with_more_states(truth, 4, ("c", "h"))
    assert 1e-6 < worst_table(parted, truth) < 0.05
    for name, copied, own in zip(NAMES, parted.factors, truth.factors, strict=True):
        first, second = copied[:, [0, 2]], copied[:, [1, 3]]
        assert np.allclose(first, second) is (name not in "ch")
        np.testing.assert_allclose((first + second) / 2, own, atol=0.1)
