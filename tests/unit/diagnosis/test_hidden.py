"""Diagnosis of hidden trees: each hidden variable is judged by the tables between its sides."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hidden_trees import random_tree
from random_models import sized

import twoway as tw
from twoway.diagnosis.conditions import three_way_tables_prove
from twoway.diagnosis.hidden import _other_hidden_states
from twoway.errors import DataError
from twoway.model.hidden_tree import HiddenTree
from twoway.model.trees import Trees
from twoway.tables.pair_graph import PairGraph

SCHEMA = sized((3, 2, 4, 3, 2, 3))
SHAPES = [(-1, 0, 0, 0), (-1, 0, 1, 2), (-1, 0, 0, 1)]


def model(tree, schema=SCHEMA):
    return tw.JointPMF.from_trees(schema, Trees(np.ones(1), (tree,)))


def separable(n_hidden=2, mixed=0.3, n_own=3):
    """Return a chain of hidden variables of two states, each with variables that show its state plainly."""
    move = np.array([[1 - mixed, mixed], [mixed, 1 - mixed]])
    homes = tuple(hidden for hidden in range(n_hidden) for _ in range(n_own))
    tree = HiddenTree(
        (-1, *range(n_hidden - 1)), homes, np.array([0.6, 0.4]), (move,) * (n_hidden - 1), (np.eye(2),) * len(homes)
    )
    return model(tree, sized((2,) * len(homes)))


def tables(pmf):
    return [pmf.marginal(pair).array for pair in itertools.combinations(pmf.schema.names, 2)]


@pytest.mark.parametrize("parents", SHAPES)
def test_the_tables_between_sides_are_those_of_one_hidden_variable(parents):
    tree = random_tree(parents)
    pmf = model(tree)
    for root in range(tree.n_hidden):
        alone, sides = tree.seen_from(root)
        local = model(alone)
        np.testing.assert_allclose(local.weights, tree.shares[root], rtol=1e-12)
        differs = []
        for j, k in itertools.combinations(range(len(SCHEMA)), 2):
            pair = (SCHEMA.names[j], SCHEMA.names[k])
            difference = np.abs(local.marginal(pair).array - pmf.marginal(pair).array).max()
            if sides[j] == sides[k]:
                differs.append(difference)
            else:
                assert difference < 1e-14
        # Within a side the form does not hold.
        assert max(differs, default=1) > 1e-4


def test_sides_are_own_variables_and_what_lies_beyond_each_neighbour():
    _, sides = random_tree((-1, 0, 0, 1)).seen_from(0)  # 3 and 4 are at the child of 1
    found = [np.flatnonzero(np.array(sides) == side).tolist() for side in dict.fromkeys(sides)]
    assert found == [[0], [1, 3, 4, 5], [2]]


@pytest.mark.parametrize("parents", SHAPES)
def test_other_states_of_a_hidden_variable_leave_all_tables_as_they_are(parents):
    tree, random = random_tree(parents), np.random.default_rng(0)
    pmf, moved = model(tree), 0.0
    for root in range(tree.n_hidden):
        for other in _other_hidden_states(tree.rooted_at(root), random, 3):
            another = model(other)
            for one, table in zip(tables(another), tables(pmf), strict=True):
                np.testing.assert_allclose(one, table, atol=1e-12)
            assert np.abs(sum(another.trees.joint().ravel()) - 1) < 1e-12
            moved = max(moved, np.abs(another.trees.joint() - pmf.trees.joint()).sum() / 2)
    assert moved > 1e-3


def test_a_separable_tree_is_recoverable():
    diagnosis = tw.diagnose(separable())
    assert diagnosis.kind == "recoverable"
    assert "at each hidden variable, among trees of this shape" in diagnosis.verdict
    assert diagnosis.is_proven
    assert [verdict.variables for verdict in diagnosis.hidden] == [("v0", "v1", "v2"), ("v3", "v4", "v5")]
    assert all(verdict.check.status == "holds" for verdict in diagnosis.hidden)
    assert diagnosis.ambiguity < 1e-9


def test_a_hidden_variable_that_is_not_determined_is_named():
    tree = separable().trees.trees[0]
    blurred = np.array([[0.7, 0.35], [0.3, 0.65]])
    # One hidden variable that shows plainly, one that only shows through noise.
    pmf = model(replace(tree, factors=(*tree.factors[:3], *[blurred] * 3)), sized((2,) * 6))
    diagnosis = tw.diagnose(pmf)
    plain, noisy = diagnosis.hidden
    assert plain.is_proven
    assert not noisy.is_proven
    assert noisy.variables == ("v3", "v4", "v5")
    assert noisy.ambiguity > 0.01
    assert noisy.by_three_way
    assert diagnosis.kind != "recoverable"
    assert diagnosis.ambiguity >= noisy.ambiguity
    lines = str(diagnosis).splitlines()
    assert sum("hidden variable of" in line for line in lines) == 2
    assert any(line.strip().startswith("fails") and "'v3', 'v4', 'v5'" in line for line in lines)
    # What it says: there is a model with the same tables and another joint.
    for other in diagnosis.models[1:]:
        for one, table in zip(tables(other), tables(pmf), strict=True):
            np.testing.assert_allclose(one, table, atol=1e-12)


@pytest.mark.slow
def test_the_verdict_does_not_depend_on_the_root():
    tree = random_tree((-1, 0, 0, 1), concentration=0.1, seed=1)
    verdicts = []
    for root in (0, 3):
        diagnosis = tw.diagnose(model(tree.rooted_at(root)))
        verdicts.append({(v.variables, v.n_states, v.n_sides, v.is_proven, v.by_three_way) for v in diagnosis.hidden})
    assert verdicts[0] == verdicts[1]
    assert len(verdicts[0]) == 4


@pytest.mark.slow
def test_between_two_sides_the_states_do_not_matter():
    diagnosis = tw.diagnose(model(random_tree((-1, 0, 0, 0))))
    (ends,) = [verdict for verdict in diagnosis.hidden if verdict.variables == ("v0",)][:1]
    (leaf,) = [verdict for verdict in diagnosis.hidden if verdict.variables == ("v2",)]
    assert ends.n_sides == 4
    assert leaf.n_sides == 2
    assert leaf.is_proven
    assert leaf.ambiguity < 1e-12
    assert "do not affect the joint" in str(leaf.check)


@pytest.mark.slow
def test_a_hidden_variable_without_variables_of_its_own_is_named_by_its_sides():
    tree = random_tree((-1, 0, 0, 0), homes=(1, 1, 2, 2, 3, 3))
    assert tw.diagnose(model(tree)).hidden[0].variables == ("v0", "v2", "v4")


def test_missing_tables_count_against_a_hidden_variable():
    pmf = separable()
    across = [pair for pair in itertools.combinations(pmf.schema.names, 2) if pair != ("v0", "v1")]
    assert tw.diagnose(pmf, pairs=across).kind == "recoverable"
    few = [("v0", "v1"), ("v1", "v2"), ("v2", "v3"), ("v3", "v4"), ("v3", "v5")]
    assert len(tw.diagnose(pmf, pairs=few).hidden) == 2
    apart = tw.diagnose(pmf, pairs=few[:2] + few[3:])
    assert apart.kind == "not from these tables"
    assert "no table connects" in apart.reason


@pytest.mark.parametrize(
    ("n_categories", "rank", "proves"),
    [((2, 2, 2), 2, True), ((3, 3, 2), 3, True), ((3, 2, 2), 3, False), ((2, 2), 2, False)],
)
def test_kruskals_condition(n_categories, rank, proves):
    random = np.random.default_rng(0)
    schema = sized(n_categories)
    factors = [random.dirichlet(np.ones(size), rank).T for size in n_categories]
    graph = PairGraph(np.ones((len(schema), len(schema)), dtype=bool), schema.sizes)
    pmf = tw.JointPMF(np.full(rank, 1 / rank), factors, schema)
    assert three_way_tables_prove(pmf, graph) == proves
    # Two equal columns of one factor: none of its k-rank counts but one.
    factors[0][:, 1] = factors[0][:, 0]
    assert not three_way_tables_prove(tw.JointPMF(np.full(rank, 1 / rank), factors, schema), graph)


def test_what_cannot_be_diagnosed_says_so():
    pmf = model(random_tree((-1, 0, 1, 1)))
    with pytest.raises(DataError, match="a mixture of 2"):
        tw.diagnose(tw.JointPMF.average([pmf, model(random_tree((-1, 0, 0, 0), seed=2))]))
    with pytest.raises(DataError, match="rank 4"):
        tw.diagnose(pmf, rank=2)


def test_as_plain_data_and_with_ranges():
    diagnosis = tw.diagnose(separable())
    described = json.loads(json.dumps(diagnosis.to_dict()))
    assert described["hidden"][0]["variables"] == ["v0", "v1", "v2"]
    event = {"v0": 0, "v4": 1}
    found = diagnosis.range(event)
    assert diagnosis.models[0].prob(event) in found
    assert found.n_models == len(diagnosis.models)
