"""Where fits of trees begin."""

import itertools

import numpy as np
import pytest
from hidden_trees import random_tree

import twoway as tw
from twoway.model.trees import Trees
from twoway.solvers import Watch
from twoway.solvers.evidence import Evidence
from twoway.solvers.loop import Loop
from twoway.solvers.tree_shape import TreeShape
from twoway.solvers.tree_starts import local_spa_start, random_tree_start, spread_start

NAMES = tuple("abcdefgh")
SCHEMA = tw.Schema(tuple(tw.Variable(name, tuple(range(4))) for name in NAMES))
HOMES = (0, 0, 0, 1, 1, 2, 2, 2)
SHAPE = TreeShape((-1, 0, 1), HOMES, (0, 3, 5))


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


def test_spa_with_more_states_than_it_can_find(truth, evidence):
    start = local_spa_start(evidence, SHAPE, 12, (0, 0))
    (tree,) = start.trees.trees
    assert tree.n_states == (12, 12, 12)
    for columns in (*tree.transitions, *tree.factors):
        np.testing.assert_allclose(columns.sum(axis=0), 1.0)
        assert columns.min() > 0


def test_spa_needs_all_tables(evidence):
    some = evidence.tables(2).part(np.arange(28) > 0)
    assert local_spa_start(Evidence(SCHEMA, tables=some, threads=1), SHAPE, 2, (0, 0)) is None


def test_one_hidden_variable_spread_along_the_tree(truth, evidence):
    loop = Loop("single", 30, 1e-5, Watch())
    start = spread_start(evidence, SHAPE, 2, (0, 0), loop)
    assert start.n_hidden == 3
    assert worst_table(start, truth) < 0.2
