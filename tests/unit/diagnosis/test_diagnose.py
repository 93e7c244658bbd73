"""Diagnose: models built to satisfy and to violate each condition, and data of both kinds."""

import itertools
import json

import numpy as np
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records, uniform_entries
from twoway.diagnosis import alternatives
from twoway.diagnosis.alternatives import distance_to_alternatives, same_table_alternatives, unseen_alternatives
from twoway.diagnosis.bounds import separability
from twoway.diagnosis.conditions import check_stacks_rank, condition_number, sufficiently_scattered
from twoway.schema import Schema, Variable
from twoway.solvers import Evidence
from twoway.tables.pair_graph import PairGraph


def model(weights, *factors):
    arrays = [np.asarray(factor, dtype=float) for factor in factors]
    schema = Schema(tuple(Variable(f"v{i}", tuple(range(len(array)))) for i, array in enumerate(arrays)))
    weights = np.asarray(weights, dtype=float)
    return tw.JointPMF(weights / weights.sum(), [array / array.sum(axis=0) for array in arrays], schema)


def mixed(n_categories, rank, seed):
    return np.random.default_rng(seed).dirichlet(np.ones(n_categories), rank).T


def hexagon(t):
    """Rows on the edges of the triangle: sufficiently scattered while t < 1/3, and never separable for t > 0."""
    return np.array([[1 - t, t, 0], [t, 1 - t, 0], [1 - t, 0, t], [t, 0, 1 - t], [0, t, 1 - t], [0, 1 - t, t]])


def pairs(n, keep):
    return [(f"v{i}", f"v{j}") for i, j in itertools.combinations(range(n), 2) if keep(i, j)]


def across(n, half):
    return pairs(n, lambda i, j: i < half <= j)


def chain(n):
    return pairs(n, lambda i, j: j == i + 1)


def star(n):
    return pairs(n, lambda i, j: i == 0)


def leaky(a, n):
    return [[[a, 1 - a], [1 - a, a]]] * n


I3, BINARY = np.eye(3), [[0.9, 0.1, 0.5], [0.1, 0.9, 0.5]]
INSIDE = 0.3 + I3
XOR = model([1] * 4, [[1, 1, 0, 0], [0, 0, 1, 1]], [[1, 0, 1, 0], [0, 1, 0, 1]], [[1, 0, 0, 1], [0, 1, 1, 0]])

RECOVERABLE = {
    **{f"separable, rank {f}": (model([1] * f, *[np.eye(f)] * 4), None) for f in (2, 3, 4, 5, 8, 12)},
    **{
        f"separable twice, others mixed, unequal weights, rank {f}": (
            model(range(1, f + 1), np.eye(f), np.eye(f), mixed(f, f, 1), mixed(3, f, 2)),
            None,
        )
        for f in (2, 3, 4, 5)
    },
    **{
        f"questions by demographics, separable on both sides, rank {f}": (
            model([1] * f, np.eye(f), mixed(4, f, 1), np.eye(f), mixed(4, f, 2)),
            across(4, 2),
        )
        for f in (2, 3, 4)
    },
    **{f"scattered, not separable, t={t}": (model([1] * 3, *[hexagon(t)] * 3), None) for t in (0.1, 0.2, 0.3)},
    "a chain of separable variables": (model([1] * 3, I3, I3, I3, I3), chain(4)),
    "a star around a separable one": (model([1, 2, 3], I3, I3, mixed(3, 3, 2), mixed(2, 3, 3)), star(4)),
    "one outside, tied well": (
        model([1] * 3, I3, I3, I3, mixed(4, 3, 5)),
        pairs(4, lambda i, j: j < 3 or i == 0),
    ),
    "one component": (model([1], [[0.3], [0.7]], [[0.2], [0.8]], [[0.5], [0.5]]), None),
    "one component, tables apart": (model([1], *[[[0.3], [0.7]]] * 4), [("v0", "v1"), ("v2", "v3")]),
    "two variables": (model([1, 1], *leaky(0.7, 2)), None),
    "one variable": (model([1, 1], [[0.2, 0.5], [0.8, 0.5]]), None),
}
NOT = {
    "parity: three coins, each pair independent": (XOR, None),
    "two groups": (model([1] * 3, I3, I3, I3, I3), [("v0", "v1"), ("v2", "v3")]),
    "a variable in no table": (model([1] * 3, I3, I3, I3, I3), pairs(4, lambda i, j: j < 3)),
    "no table": (model([1] * 3, I3, I3, I3), []),
    "a star around a binary variable": (model([1] * 3, BINARY, I3, I3, I3), star(4)),
    **{f"{n} binary variables at {a}": (model([1, 1], *leaky(a, n)), None) for n in (8, 12) for a in (0.75, 0.8, 0.85)},
    "hardly scattered": (model([1] * 3, *[hexagon(0.45)] * 5), None),
    "inside the simplex": (model([1] * 3, *[INSIDE] * 6), None),
    "questions by demographics, inside": (model([1] * 3, *[INSIDE] * 6), across(6, 3)),
    "questions by demographics, a little inside": (model([1] * 3, *[0.1 + I3] * 6), across(6, 3)),
    "questions by demographics, one side separable": (model([1] * 3, *[I3] * 3, *[INSIDE] * 3), across(6, 3)),
    "rank beyond the categories": (model([1] * 6, *[mixed(2, 6, i) for i in range(6)]), None),
    "a chain with a binary link": (model([1] * 3, INSIDE, BINARY, INSIDE, I3, I3), chain(5)),
}
OPEN = {
    "weak dependence": (model([1, 1], *leaky(0.6, 5)), None),
    "equal components": (model([1, 1], *[[[0.3, 0.3], [0.7, 0.7]]] * 4), None),
    "nearly equal components": (model([1, 1], *[[[0.3, 0.31], [0.7, 0.69]]] * 4), None),
    "not quite scattered": (model([1] * 3, *[hexagon(0.36)] * 3), None),
    "a separable star with leaves inside": (model([1] * 3, I3, *[mixed(3, 3, i) for i in (1, 2, 3)]), star(4)),
    "an end that hangs, held by zeros": (model([1] * 3, I3, BINARY, I3, I3), chain(4)),
}


def test_there_are_enough_cases_both_ways():
    assert len(RECOVERABLE) >= 20
    assert len(NOT) >= 15
    assert len(RECOVERABLE) + len(NOT) + len(OPEN) >= 40


@pytest.mark.parametrize("name", RECOVERABLE)
def test_recoverable_models_are_recognized(name):
    pmf, available = RECOVERABLE[name]
    found = tw.diagnose(pmf, pairs=available)
    assert found.kind == "recoverable", found.verdict
    assert found.ambiguity < 1e-3  # restarts find the model itself again, to their tolerance


@pytest.mark.parametrize("name", NOT)
def test_unrecoverable_models_are_recognized(name):
    pmf, available = NOT[name]
    found = tw.diagnose(pmf, pairs=available)
    assert found.kind == "not from these tables", found.verdict
    # Either nothing connects, or there is another model to show.
    assert "connects" in found.reason or found.ambiguity > 0.25


@pytest.mark.parametrize("name", OPEN)
def test_undecided_models_get_a_condition(name):
    pmf, available = OPEN[name]
    found = tw.diagnose(pmf, pairs=available)
    assert found.kind == "recoverable if", found.verdict


def graph_of(pmf, available):
    matrix = np.zeros((len(pmf.schema),) * 2, dtype=bool)
    for pair in available or itertools.combinations(pmf.schema.names, 2):
        j, k = pmf.schema.indices(pair)
        matrix[j, k] = matrix[k, j] = True
    return PairGraph(matrix, pmf.schema.sizes)


@pytest.mark.parametrize("name", [name for name in (*NOT, *OPEN) if "group" not in name and "no table" not in name])
def test_alternatives_have_the_same_tables(name):
    pmf, available = {**NOT, **OPEN}[name]
    graph = graph_of(pmf, available)
    others = [*same_table_alternatives(pmf, graph, np.random.default_rng(0)), *unseen_alternatives(pmf, graph).values()]
    for other in others:
        for j, k in np.argwhere(np.triu(graph.available)):
            names = [pmf.schema.names[j], pmf.schema.names[k]]
            np.testing.assert_allclose(np.asarray(other.marginal(names)), np.asarray(pmf.marginal(names)), atol=1e-9)


# From data


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_data_show_which_rank_tables_support(seed):
    """Both kinds of model are fitted to sampling error by many; only one is recovered."""
    good = tw.count(draw_records(dirichlet_rows(10, 6, 6, seed=seed), 30_000, seed=seed))
    bad = tw.count(draw_records(uniform_entries(10, 6, 6, seed=seed), 30_000, seed=seed))
    known, unknown = tw.diagnose(good, 6), tw.diagnose(bad, 6)
    assert known.kind == "recoverable if"
    assert known.strength > 2.5
    assert known.visible == 6
    assert known.disagreement < 0.02
    assert unknown.kind == "not from these tables"
    assert unknown.strength < 1.2
    assert unknown.visible < 6
    assert any("three-way tables, or the records" in step for step in unknown.advice)


@pytest.mark.slow
def test_records_are_better_than_their_tables():
    records = draw_records(uniform_entries(8, 5, 5, seed=1), 5000, seed=1)
    found = tw.diagnose(records, 5)
    assert found.beyond_tables > 0
    assert any("fit them" in step for step in found.advice)


def test_separable_data_are_recoverable():
    truth = model([1, 1, 1], *[I3] * 4)
    found = tw.diagnose(tw.count(draw_records(truth, 20_000, observed=1.0)), 3)
    assert found.kind == "recoverable", found.verdict
    assert "as fitted" in found.reason
    assert max(found.separability) < 0.05


def test_the_rank_is_chosen_where_none_is_given():
    found = tw.diagnose(draw_records(dirichlet_rows(6, 4, 2, seed=1), 3000))
    assert found.rank == 2


def test_unconnected_tables():
    tables = tw.count({"a": [0, 1, None], "b": [1, 0, None], "c": [None, None, 1], "d": [None, None, 0]})
    found = tw.diagnose(tables, 2)
    assert found.kind == "not from these tables"
    assert set(found.missing[0].variables) & {"a", "b"}
    assert set(found.missing[0].variables) & {"c", "d"}


def test_the_table_that_would_help_most():
    """v3 is seen with a binary variable only: its table with a full one would settle it."""
    pmf = model([1] * 3, I3, I3, BINARY, INSIDE)
    found = tw.diagnose(pmf, pairs=pairs(4, lambda i, j: j < 3 or i == 2))
    assert found.under_connected == ("v3",)
    assert [set(table.variables) for table in found.missing[:2]] == [{"v0", "v3"}, {"v1", "v3"}]
    assert found.missing[0].disagreement > 0.05
    settled = tw.diagnose(pmf, pairs=[*pairs(4, lambda i, j: j < 3 or i == 2), ("v0", "v3")])
    assert settled.kind == "recoverable"


@pytest.mark.slow
def test_notes_on_components():
    pmf = model([0.5, 0.499, 0.001], [[0.9, 0.89, 0.1], [0.1, 0.11, 0.9]], [[0.2, 0.2, 0.7], [0.8, 0.8, 0.3]], I3)
    notes = [note.what for note in tw.diagnose(pmf).components]
    assert any("nearly empty" in note for note in notes)
    pmf = model([0.5, 0.5], *[[[0.9, 0.89], [0.1, 0.11]]] * 3)
    assert any("nearly equal to component 0" in note.what for note in tw.diagnose(pmf).components)


def test_text_and_json():
    found = tw.diagnose(NOT["inside the simplex"][0])
    assert str(found).startswith("not from these tables: another model has the same tables")
    assert "(i) sufficiently scattered" in str(found)
    described = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert described["kind"] == "not from these tables"
    assert described["verdict"] == found.verdict
    assert {check["status"] for check in described["checks"]} <= {"holds", "fails", "unknown"}


@pytest.mark.slow
def test_the_same_seed_gives_the_same_result():
    tables = tw.count(draw_records(dirichlet_rows(5, 3, 2), 1000))
    assert tw.diagnose(tables, 2).to_dict() == tw.diagnose(tables, 2).to_dict()


def test_bad_input_is_refused():
    pmf = dirichlet_rows(3, 2, 2)
    with pytest.raises(tw.DataError, match="the model has rank 2"):
        tw.diagnose(pmf, 3)
    with pytest.raises(tw.DataError, match="a pair names two"):
        tw.diagnose(pmf, pairs=[("x1", "x2", "x3")])
    with pytest.raises(tw.UnknownNameError, match="did you mean 'x1'"):
        tw.diagnose(pmf, pairs=[("X1", "x2")])
    with pytest.raises(tw.DataError, match="pairs= is for a model"):
        tw.diagnose(tw.count({"a": [0, 1], "b": [1, 0]}), pairs=[("a", "b")])
    with pytest.raises(tw.DataError, match="two-way"):
        tw.diagnose(tw.count({"a": [0, 1], "b": [1, 0], "c": [1, 1]}, 3), 2)


def test_a_diagnosis_gives_ranges():
    """Beside what any joint can have stands what the models found have; exact tables get no slack for chance."""
    found = tw.diagnose(XOR)
    bounds = found.range({"v2": 1}, {"v0": 1, "v1": 1})
    assert (bounds.low, bounds.high, bounds.level) == (pytest.approx(0, abs=1e-6), pytest.approx(1, abs=1e-6), None)
    assert bounds.low - 1e-6 <= bounds.models[0] < bounds.models[1] - 0.25
    assert bounds.n_models == len(found.models)
    tables = tw.count(draw_records(dirichlet_rows(4, 3, 2, seed=1), 2000))
    assert tw.diagnose(tables, 2).range({"x1": 0, "x2": 1, "x3": 2}).level == 0.95


def test_a_diagnosis_by_the_graph_alone_gives_ranges():
    pmf, available = NOT["two groups"]
    bounds = tw.diagnose(pmf, pairs=available).range({"v0": 0, "v3": 0})
    assert (bounds.low, bounds.high) == pytest.approx((0, 1 / 3), abs=1e-6)
    bounds = tw.diagnose(pmf, pairs=[]).range({"v0": 0, "v3": 0})
    assert (bounds.low, bounds.high) == (0, 1)


# The parts


@pytest.mark.parametrize(("t", "status"), [(0.0, "holds"), (0.32, "holds"), (0.34, "fails"), (0.5, "fails")])
def test_the_limit_of_the_scattered_condition(t, status):
    found = sufficiently_scattered(hexagon(t), np.random.default_rng(0))
    assert (found.status, found.is_exact) == (status, True)


def test_scattered_needs_full_rank_and_all_components():
    random = np.random.default_rng(0)
    assert sufficiently_scattered(np.ones((5, 2)), random).status == "fails"
    assert sufficiently_scattered(np.eye(3)[:2], random).status == "fails"
    assert sufficiently_scattered(np.ones((3, 1)), random).status == "holds"


def test_a_search_refutes_what_it_can():
    """Rank 12 is too many dimensions to list vertices; rows inside the simplex are refuted all the same."""
    random = np.random.default_rng(0)
    inside = sufficiently_scattered(random.dirichlet(np.full(12, 3.0), 60), random)
    assert (inside.status, inside.is_exact) == ("fails", False)
    edges = np.array([0.9 * np.eye(12)[i] + 0.1 * np.eye(12)[j] for i in range(12) for j in range(12) if i != j])
    assert sufficiently_scattered(edges, random).status == "unknown"


def brute_split(available, sizes, rank):
    """Whether any two disjoint groups with all tables between them have enough independent rows."""
    n = len(sizes)
    for sides in itertools.product((0, 1, 2), repeat=n):
        first, second = [i for i in range(n) if sides[i] == 1], [i for i in range(n) if sides[i] == 2]
        enough = min(1 + sum(sizes[i] - 1 for i in side) for side in (first, second)) >= rank
        if first and second and enough and all(available[i, j] for i in first for j in second):
            return True
    return False


def test_splits_are_found_where_there_are_any():
    random = np.random.default_rng(3)
    answers = []
    for _ in range(60):
        n = int(random.integers(2, 7))
        available = np.triu(random.uniform(size=(n, n)) < 0.6, 1)
        available = available | available.T
        sizes = random.integers(2, 5, n).tolist()
        rank = int(random.integers(2, 6))
        splits = PairGraph(available, sizes).splits(rank, random)
        for split in splits:
            assert available[np.ix_(split.first, split.second)].all()
            assert not (split.first & split.second).any()
        answers.append(bool(splits))
        assert answers[-1] == brute_split(available, sizes, rank)
    assert 10 < sum(answers) < 50


def test_large_graphs_are_split_by_growing():
    """Forty questions by six demographics: the questions have no tables among themselves."""
    available = np.zeros((46, 46), dtype=bool)
    available[:40, 40:] = available[40:, :40] = True
    splits = PairGraph(available, [4] * 46).splits(19, np.random.default_rng(0))
    assert splits
    assert {int(splits[0].first.sum()), int(splits[0].second.sum())} == {6, 40}
    assert PairGraph(available, [4] * 46).splits(20, np.random.default_rng(0)) == []


def test_splits_of_many_variables_are_not_searched_where_finding_none_proves_nothing(monkeypatch):
    """5,000 variables in a chain took half an hour."""
    chain = np.eye(40, k=1, dtype=bool)
    graph = PairGraph(chain | chain.T, [5] * 40)
    monkeypatch.setattr(PairGraph, "_candidates", lambda *_: pytest.fail("searched"))
    assert graph.why_no_split(9) is None


def test_stacks_count_independent_rows():
    """Two factors of two rows each have three independent rows: rank 4 is out of reach, rank 3 is not."""
    assert check_stacks_rank(model([1] * 4, mixed(2, 4, 1), mixed(2, 4, 2)), np.random.default_rng(0)).status == "fails"
    assert check_stacks_rank(model([1] * 3, mixed(2, 3, 1), mixed(2, 3, 2)), np.random.default_rng(0)).status == "holds"
    assert condition_number(np.vstack([mixed(2, 4, 1), mixed(2, 4, 2)])) == np.inf
    same = model([1] * 3, I3, [[0.2, 0.2, 0.5], [0.3, 0.3, 0.1], [0.5, 0.5, 0.4]], I3)
    found = check_stacks_rank(same, np.random.default_rng(0))
    assert found.status == "fails"
    assert "'v1'" in found.detail


def test_joint_distance_exact_and_drawn():
    one, other = dirichlet_rows(4, 3, 2, seed=1), dirichlet_rows(4, 3, 2, seed=2)
    names = one.schema.names
    exact = 0.5 * np.abs(np.asarray(one.marginal(names)) - np.asarray(other.marginal(names))).sum()
    assert distance_to_alternatives(one)(other) == pytest.approx(exact)
    many = dirichlet_rows(40, 3, 2, seed=1)
    assert distance_to_alternatives(many)(many) == 0.0
    assert 0.3 < distance_to_alternatives(many)(dirichlet_rows(40, 3, 2, seed=2)) <= 1


def test_separability_of_a_model_is_that_of_posteriors():
    pmf = model([0.9, 0.1], [[0.9, 0.1], [0.1, 0.9]])
    posterior = np.array([[0.81, 0.01], [0.09, 0.09]])
    posterior /= posterior.sum(axis=1, keepdims=True)
    expected = max(np.linalg.norm(posterior - np.eye(2), axis=1))
    assert separability(pmf.stacked * pmf.weights) == pytest.approx(expected)


def test_more_tables_than_starts_can_work_through(monkeypatch):
    """A part of the tables that connects all variables stands for them."""
    tables = tw.count(draw_records(dirichlet_rows(12, 3, 2, seed=3), 4000))
    evidence = Evidence(tables.schema, tables=tables, threads=1)
    assert alternatives._tables_for_alternatives(evidence, 2, 0) is evidence
    monkeypatch.setattr(alternatives, "_WORK", 1.0)
    fewer = alternatives._tables_for_alternatives(evidence, 2, 0).tables(2)
    assert len(fewer) < len(tables)
    assert fewer.is_connected
    degrees = np.bincount(fewer.sets.ravel(), minlength=12)
    assert degrees.min() >= alternatives._MIN_TABLES
