"""Ranges of probabilities against all vertices of small programs, Fréchet's bounds, and the truth."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

import twoway as tw
from twoway.checks.table_program import TableProgram, choose_program_axes, program_tables
from twoway.datasets import dirichlet_rows, draw_records
from twoway.schema import Schema, Variable
from twoway.tables.tables import Tables


def schema_of(sizes):
    return Schema(tuple(Variable(f"v{i}", tuple(range(size))) for i, size in enumerate(sizes)))


def tables_of(joint, sets, total=1000.0):
    """The exact tables of a joint, an array with an axis for each variable."""
    flat = [
        total * joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis not in row)).ravel()
        for row in sorted(sets)
    ]
    return Tables(schema_of(joint.shape), np.array(sorted(sets), dtype=np.int32), np.concatenate(flat))


def random_joint(sizes, seed, zeros=0.0):
    random = np.random.default_rng(seed)
    joint = random.dirichlet(np.ones(int(np.prod(sizes)))).reshape(sizes)
    joint[random.uniform(size=sizes) < zeros] = 0.0
    return joint / joint.sum()


def vertices(joint, sets):
    """Every vertex of the set of joints with the same tables, by going through all bases."""
    cells = np.indices(joint.shape).reshape(joint.ndim, -1)
    rows = []
    for row in sets:
        labels = itertools.product(*(range(joint.shape[axis]) for axis in row))
        rows += [
            np.all([cells[axis] == code for axis, code in zip(row, codes, strict=True)], axis=0) for codes in labels
        ]
    sums = np.array(rows, dtype=float)
    rank, right = np.linalg.matrix_rank(sums), sums @ joint.ravel()
    found = []
    for basis in itertools.combinations(range(sums.shape[1]), rank):
        part = sums[:, basis]
        if np.linalg.matrix_rank(part) < rank:
            continue
        solution = np.linalg.lstsq(part, right, rcond=None)[0]
        if solution.min() > -1e-9:
            vertex = np.zeros(sums.shape[1])
            vertex[list(basis)] = solution
            found.append(vertex.reshape(joint.shape))
    return found


PAIRS = [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("sizes", "sets"), [((2, 2, 2), PAIRS), ((2, 2, 2), [(0, 1), (1, 2)]), ((2, 3, 2), PAIRS), ((3, 2, 2), PAIRS[:2])]
)
def test_the_range_is_that_of_all_vertices(sizes, sets, seed):
    joint = random_joint(sizes, seed, zeros=0.2)
    tables, corners = tables_of(joint, sets), vertices(joint, sets)
    assert len(corners) > 1
    for event, given in (({"v0": 1, "v1": 0, "v2": 1}, None), ({"v0": 1}, {"v1": 0, "v2": 1}), ({"v2": 0}, {"v0": 0})):
        inside, beside = ([slice(None)] * 3 for _ in range(2))
        for name, code in {**(given or {})}.items():
            beside[int(name[1])] = inside[int(name[1])] = [code]
        for name, code in event.items():
            inside[int(name[1])] = [code]
        ratios = [
            corner[np.ix_(*(np.arange(n)[i] for n, i in zip(sizes, inside, strict=True)))].sum() / below
            for corner in corners
            if (below := corner[np.ix_(*(np.arange(n)[i] for n, i in zip(sizes, beside, strict=True)))].sum()) > 1e-9
        ]
        found = tw.probability_range(tables, event, given, level=None)
        assert found.low == pytest.approx(min(ratios), abs=1e-6)
        assert found.high == pytest.approx(max(ratios), abs=1e-6)
        assert found.is_sharp
        assert found.contradiction == 0


def test_one_table_has_frechets_bounds():
    """Of two variables without a table together, only their shares are known."""
    joint = random_joint((2, 3, 2, 2), 1)
    tables = tables_of(joint, [(0, 1), (2, 3)])
    one, other = joint.sum(axis=(1, 2, 3))[1], joint.sum(axis=(0, 1, 3))[0]
    found = tw.probability_range(tables, {"v0": 1, "v2": 0}, level=None)
    assert (found.low, found.high) == pytest.approx((max(0.0, one + other - 1.0), min(one, other)), abs=1e-6)
    assert found.variables == ("v0", "v2")  # the others hang by these: they tighten nothing
    assert found.is_sharp


def test_a_table_determines_its_own_cells():
    joint = random_joint((3, 3, 2), 2)
    tables = tables_of(joint, PAIRS)
    found = tw.probability_range(tables, {"v0": [0, 2], "v1": 1}, level=None)
    truth = joint[[0, 2], 1].sum()
    assert (found.low, found.high) == pytest.approx((truth, truth), abs=1e-6)
    assert truth == pytest.approx(found.low, abs=1e-6)
    three_way = tables_of(joint, [(0, 1, 2)])
    found = tw.probability_range(three_way, {"v2": 1}, {"v0": 1, "v1": 1}, level=None)
    truth = joint[1, 1, 1] / joint[1, 1].sum()
    assert (found.low, found.high) == pytest.approx((truth, truth), abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_more_tables_never_widen_the_range(seed):
    joint = random_joint((2, 3, 2, 2, 2), seed)
    every = list(itertools.combinations(range(5), 2))
    order = np.random.default_rng(seed).permutation(len(every))
    event, given = {"v0": 1, "v1": [0, 2]}, {"v3": 1, "v4": 0}
    truth = joint[1][[0, 2]][:, :, 1, 0].sum() / joint[:, :, :, 1, 0].sum()
    low, high = 0.0, 1.0
    for count in range(4, len(every) + 1, 2):
        found = tw.probability_range(tables_of(joint, [every[i] for i in order[:count]]), event, given, level=None)
        assert low - 1e-6 <= found.low <= truth + 1e-6
        assert truth - 1e-6 <= found.high <= high + 1e-6
        low, high = found.low, found.high
    assert high - low < 0.999


def test_the_ends_are_attained_by_joints_with_these_tables():
    joint = random_joint((2, 3, 2, 2), 4)
    sets = list(itertools.combinations(range(4), 2))
    tables = tables_of(joint, sets)
    axes, _ = choose_program_axes(tables, {0: np.arange(2), 1: np.arange(3)}, 1000)
    program = TableProgram(program_tables(tables, axes), axes, None)
    event, given = program.cells({0: np.array([1]), 1: np.array([2])}), program.cells({2: np.array([1])})
    for sign in (1, -1):
        value, other = program.extreme(event * given, given, sign)
        assert other.min() >= -1e-9
        assert other[1, 2, 1].sum() / other[:, :, 1].sum() == pytest.approx(value, abs=1e-6)
        for row in sets:
            rest = tuple(axis for axis in range(4) if axis not in row)
            np.testing.assert_allclose(other.sum(axis=rest), joint.sum(axis=rest), atol=1e-6)


@pytest.mark.parametrize("max_cells", [8, 40, 200, 1296])
def test_fewer_cells_widen_the_range(max_cells):
    """Merged categories and variables left out widen the range, and never lose what a finer one has."""
    joint = random_joint((4, 3, 4, 3, 3, 3), 5, zeros=0.8)
    tables = tables_of(joint, list(itertools.combinations(range(6), 2)))
    event = {"v0": [1, 3], "v1": 0, "v2": 2}
    truth = joint[[1, 3], 0, 2].sum()
    sharp = tw.probability_range(tables, event, level=None)
    found = tw.probability_range(tables, event, level=None, max_cells=max_cells)
    assert sharp.is_sharp
    assert found.is_sharp == (max_cells == 1296)
    assert found.n_cells <= max_cells
    assert {"v0", "v1", "v2"} <= set(found.variables)
    assert found.low <= sharp.low + 1e-6 <= truth + 2e-6
    assert truth - 2e-6 <= sharp.high - 1e-6 <= found.high
    assert ("could narrow it" in str(found)) == (max_cells < 1296)


def test_other_variables_narrow_the_range():
    """c copies both a and b: what is asked of a and b alone is settled by it."""
    a = np.repeat([0, 1], 500)
    joint = np.zeros((2, 2, 2))
    np.add.at(joint, (a, a, a), 1 / len(a))
    tables = tables_of(joint, [(0, 1), (1, 2)])
    found = tw.probability_range(tables, {"v0": 1, "v2": 0}, level=None)
    assert found.variables == ("v0", "v1", "v2")
    assert found.high < 1e-6


def test_ranges_from_samples_contain_the_truth():
    held = []
    for seed in range(20):
        truth = dirichlet_rows(4, 2, 2, seed=seed)
        tables = tw.count(draw_records(truth, 400, observed=1.0, seed=seed))
        event = {"x1": 0, "x2": 1}
        found = tw.probability_range(tables, event)
        held.append(truth.prob(event) in found)
        assert found.low < found.high
        narrower = tw.probability_range(tables, event, level=0.5)
        assert found.low <= narrower.low <= narrower.high <= found.high
    assert sum(held) >= 19


def test_a_count_of_zero_is_not_impossible():
    tables = tw.count({"a": [0, 0, 1, 1], "b": [0, 0, 0, 1]})
    found = tw.probability_range(tables, {"a": 0, "b": 1})
    assert found.low == 0
    assert 0.3 < found.high < 1
    tables = tw.count({"a": [0, 0, 1, 1] * 10**4, "b": [0, 0, 0, 1] * 10**4})
    assert tw.probability_range(tables, {"a": 0, "b": 1}).high < 1e-3


def contradicting():
    def table(different):
        same = 0.5 * (1.0 - different)
        return 1000.0 * np.array([same, 0.5 * different, 0.5 * different, same])

    flat = np.concatenate([table(0.2), table(0.8), table(0.1)])
    return Tables(schema_of((2, 2, 2)), np.array(PAIRS, dtype=np.int32), flat)


def test_tables_that_contradict_each_other():
    """a = b mostly, b = c mostly, a ≠ c mostly: 0.8 where 0.2 + 0.1 are the most there can be."""
    found = tw.probability_range(contradicting(), {"v0": 1, "v1": 1, "v2": 1}, level=None)
    assert found.contradiction == pytest.approx(0.5, abs=1e-6)
    assert "contradict" in str(found)
    assert 0 <= found.low < found.high <= 0.5
    by_chance = tw.probability_range(contradicting(), {"v0": 1, "v1": 1, "v2": 1})
    assert 0 < by_chance.contradiction < 0.5


def test_impossible_evidence():
    joint = np.zeros((2, 2, 2))
    joint[0, 0, 0] = joint[1, 1, 1] = 0.5
    with pytest.raises(tw.ImpossibleEvidenceError, match="v0 = 0, v1 = 1"):
        tw.probability_range(tables_of(joint, PAIRS), {"v2": 1}, {"v0": 0, "v1": 1}, level=None)


def test_trivial_questions():
    tables = tables_of(random_joint((2, 3, 2), 3), PAIRS)
    assert tw.probability_range(tables, {}).low == 1
    everything = tw.probability_range(tables, {"v1": [0, 1, 2]}, level=None)
    assert (everything.low, everything.high) == pytest.approx((1, 1))
    # An event and what is given may be about the same variable.
    share = np.asarray(tables.marginal("v1"))
    found = tw.probability_range(tables, {"v1": 1}, {"v1": [1, 2]}, level=None)
    assert (found.low, found.high) == pytest.approx((share[1] / (share[1] + share[2]),) * 2, abs=1e-6)
    never = tw.probability_range(tables, {"v1": 0}, {"v1": [1, 2]}, level=None)
    assert (never.low, never.high) == pytest.approx((0, 0), abs=1e-6)


def test_rare_evidence_and_many_records():
    """A condition of one in a hundred thousand, tables of 10¹² records."""
    joint = random_joint((2, 2, 2), 7)
    joint[:, 1, 1] *= 1e-5
    joint /= joint.sum()
    exact = tw.probability_range(tables_of(joint, PAIRS), {"v0": 1}, {"v1": 1, "v2": 1}, level=None)
    many = tw.probability_range(tables_of(joint, PAIRS, 1e12), {"v0": 1}, {"v1": 1, "v2": 1})
    truth = joint[1, 1, 1] / joint[:, 1, 1].sum()
    assert exact.low - 1e-3 <= truth <= exact.high + 1e-3
    assert truth in many


def test_bad_questions_are_refused():
    tables = tables_of(random_joint((2, 3, 2), 3), PAIRS)
    with pytest.raises(tw.UnknownNameError, match="v7"):
        tw.probability_range(tables, {"v7": 1})
    with pytest.raises(tw.DataError, match="count records first"):
        tw.probability_range({"a": [1]}, {"a": 1})
    with pytest.raises(tw.DataError, match="level"):
        tw.probability_range(tables, {"v0": 1}, level=1.0)
    with pytest.raises(tw.DataError, match="more cells than max_cells allows, 7;"):
        tw.probability_range(tables, {"v0": 1, "v1": 1, "v2": 1}, max_cells=7)


def test_a_question_about_more_cells_than_a_float_can_count():
    schema = tw.Schema(tuple(tw.Variable(f"v{i}", (0, 1)) for i in range(1100)))
    tables = tw.Tables(schema, np.array([[0, 1]], dtype=np.int32), np.ones(4))
    with pytest.raises(tw.DataError, match="a range for 1100 variables takes more cells"):
        tw.probability_range(tables, dict.fromkeys(schema.names, 1))


def test_text_and_json():
    found = replace(tw.probability_range(contradicting(), {"v0": 1}, {"v1": 0}), models=(0.25, 0.5), n_models=2)
    assert "P(v0 = 1 | v1 = 0)" in str(found)
    assert "2 models" in str(found)
    described = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert described["models"] == [0.25, 0.5]
    assert described["variables"] == ["v0", "v1", "v2"]


def test_models_that_agree_are_one_number_beside_a_range_and_none_beside_a_number():
    found = replace(tw.probability_range(contradicting(), {"v0": 1}), low=0.1, high=0.6, n_models=8)
    assert "in the 8 models found that fit the tables: 0.3000 to 0.3252" in str(replace(found, models=(0.3, 0.3252)))
    agreeing = replace(found, models=(0.32519, 0.32521))
    assert str(agreeing).endswith("in the best model found: 0.3252")
    assert "found" not in str(replace(agreeing, low=0.3252, high=0.3252))


def test_the_only_joint_of_constants():
    tables = tw.count({"a": ["x"] * 5, "b": [1] * 5, "c": [True] * 5})
    found = tw.probability_range(tables, {"a": "x", "b": 1, "c": True}, level=None)
    assert (found.low, found.high) == (1.0, 1.0)
    assert tw.diagnose(tables, 1).any_joint == 0
