"""The joint that has given tables and says what they leave open."""

import numpy as np
import pytest

from twoway.fitting.fit import fit
from twoway.model.pmf import JointPMF
from twoway.report import StopReason
from twoway.schema import Schema, Variable
from twoway.solvers import reference
from twoway.solvers.evidence import Evidence
from twoway.solvers.reference import best_reference_power, random_reference, reference_joint, reference_tables
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.theta import theta_of
from twoway.solvers.watch import Watch
from twoway.tables.tables import Tables

NAMES, SIZES = "abcd", (2, 3, 2, 3)
SCHEMA = Schema(tuple(Variable(name, tuple(range(size))) for name, size in zip(NAMES, SIZES, strict=True)))


def model(seed, rank=2, schema=SCHEMA):
    random = np.random.default_rng(seed)
    factors = [random.dirichlet(np.ones(size), rank).T for size in schema.sizes]
    return JointPMF.from_stacked(schema, random.dirichlet(np.ones(rank)), np.vstack(factors))


def tables_of(joint, pairs, total=10_000.0):
    axes, pairs = range(joint.ndim), sorted(pairs)
    flat = [joint.sum(axis=tuple(set(axes) - set(pair))).ravel() * total for pair in pairs]
    schema = SCHEMA if joint.ndim == len(SCHEMA) else SCHEMA.subset(NAMES[: joint.ndim])
    return Tables(schema, np.array(pairs), np.concatenate(flat))


def random_joint(seed, n=4):
    return np.random.default_rng(seed).dirichlet(np.ones(int(np.prod(SIZES[:n])))).reshape(SIZES[:n])


def worst(joint, tables):
    off = [
        np.abs(joint.sum(axis=tuple(set(range(joint.ndim)) - set(pair))) - tables.array(n) / tables.totals[n]).sum()
        for n, pair in enumerate(tables.sets.tolist())
    ]
    return max(off)


@pytest.mark.parametrize("seed", range(3))
def test_chain_is_independent_given_its_middle(seed):
    # Whatever one hidden variable would make of it: nothing but b connects a with c.
    tables = tables_of(random_joint(seed), [(0, 1), (1, 2), (2, 3)])
    joint = reference_joint(tables, model(seed), range(4), 0.9)
    ab, bc, cd = (tables.array(n) / tables.totals[n] for n in range(3))
    implied = np.einsum("ab,bc,cd,b,c->abcd", ab, bc, cd, 1 / ab.sum(axis=0), 1 / bc.sum(axis=0))
    np.testing.assert_allclose(joint, implied, atol=1e-6)


def test_variable_with_one_table_hangs_on_its_neighbour_beside_a_circle():
    tables = tables_of(random_joint(1), [(0, 1), (0, 2), (1, 2), (2, 3)])
    joint = reference_joint(tables, model(1), range(4), 0.9)
    cd = tables.array(3) / tables.totals[3]
    implied = joint.sum(axis=3)[..., None] * (cd / cd.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(joint, implied, atol=1e-6)


def test_all_tables_are_met_and_a_circle_leans_to_the_hidden_variable():
    truth = model(3)
    whole = truth.trees.joint()
    tables = tables_of(whole, [(0, 1), (1, 2), (2, 3), (0, 3)])
    leaning, plain = (reference_joint(tables, single, range(4), 0.9) for single in (truth, model(0, rank=1)))
    assert worst(leaning, tables) < 1e-4
    assert worst(plain, tables) < 1e-4

    def off(joint):
        return np.abs(joint.sum(axis=(1, 3)) - whole.sum(axis=(1, 3))).sum()

    assert off(leaning) < 0.9 * off(plain)
    # Entropy is largest from independence.
    entropies = [-(joint * np.log(joint)).sum() for joint in (plain, leaning)]
    assert entropies[0] > entropies[1]


def test_the_joint_of_two_variables_is_their_table():
    tables = tables_of(random_joint(7), [(0, 1), (1, 2), (0, 2)])
    joint = reference_joint(tables, model(7), [1, 2], 0.6)
    np.testing.assert_allclose(joint, tables.array(tables.sets.tolist().index([1, 2])) / 10_000, atol=1e-9)


def test_random_models_begin_near_independence(monkeypatch):
    monkeypatch.setattr(reference, "_PASSES", 1)
    evidence = Evidence(SCHEMA, tables=tables_of(random_joint(8), [(0, 1), (1, 2), (2, 3), (0, 3)]), threads=1)
    begun = random_reference(evidence, Smoothing(1.0, 1.0), 0, Watch())
    for first, second in ("ab", "bc", "cd"):
        joint = np.asarray(begun.marginal([first, second]))
        independent = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        assert 0.0 < np.abs(joint - independent).sum() < 0.1


def test_contradicting_tables_and_empty_categories_end():
    tables = tables_of(random_joint(2), [(0, 1), (1, 2), (0, 2), (2, 3)])
    flat = tables.flat.copy()
    flat[: len(tables.array(0).ravel())] = [1000, 0, 0, 0, 2000, 0]
    odd = Tables(SCHEMA, tables.sets, flat)
    joint = reference_joint(odd, model(2), range(4), 0.9)
    assert joint.sum() == pytest.approx(1.0)
    assert np.isfinite(joint).all()
    assert joint.min() >= 0


def test_parts_say_of_missing_pairs_what_the_whole_says(monkeypatch):
    tables = tables_of(random_joint(4), [(0, 1), (1, 2), (2, 3)])
    whole = reference_tables(tables, model(4), 0.9)
    assert whole.order == 3
    assert len(whole) == 4
    monkeypatch.setattr(reference, "_MOST_CELLS", 20)
    parts = reference_tables(tables, model(4), 0.9)
    assert parts.sets.tolist() == [[0, 2], [0, 3], [1, 3]]
    joint = reference_joint(tables, model(4), range(4), 0.9)
    for number, pair in enumerate(parts.sets.tolist()):
        of_whole = joint.sum(axis=tuple(set(range(4)) - set(pair)))
        np.testing.assert_allclose(parts.array(number) / parts.totals[number], of_whole, atol=1e-5)
    monkeypatch.setattr(reference, "_MOST_PART_CELLS", 12)  # nothing is said of b and d without c
    assert reference_tables(tables, model(4), 0.9).sets.tolist() == [[0, 2], [0, 3]]


def test_tables_beside_others_leave_the_divergence_of_a_perfect_model_at_zero():
    joint = random_joint(5)
    tables = tables_of(joint, [(0, 1), (1, 2), (2, 3)])
    sets = Evidence(SCHEMA, tables=tables, threads=1).sets
    beside = sets.beside(tables_of(joint, [(0, 2), (1, 3)]), 0.25)
    assert beside.besides.total_weight == pytest.approx(0.25 * sets.records.total_weight)
    exact = JointPMF.from_joint(joint, SCHEMA)
    for each in (sets, beside):
        value = each.expected(theta_of(exact), exact.rank).log_likelihood
        assert each.offset - value / sets.records.total_weight == pytest.approx(0.0, abs=1e-9)


def test_tables_beside_others_count_by_their_people():
    """The divergence of a perfect model is zero too where one of the tables has many more people than another."""
    joint = random_joint(5)
    sets = Evidence(SCHEMA, tables=tables_of(joint, [(0, 1), (1, 2), (2, 3)]), threads=1).sets
    large, small = tables_of(joint, [(0, 2)], 90_000.0), tables_of(joint, [(1, 3)], 10.0)
    both = Tables(SCHEMA, np.vstack([large.sets, small.sets]), np.concatenate([large.flat, small.flat]))
    beside, exact = sets.beside(both, 0.25), JointPMF.from_joint(joint, SCHEMA)
    value = beside.expected(theta_of(exact), exact.rank).log_likelihood
    assert beside.offset - value / sets.records.total_weight == pytest.approx(0.0, abs=1e-9)


def test_default_fit_meets_consistent_tables_and_invents_nothing():
    joint = random_joint(6)
    tables = tables_of(joint, [(0, 1), (0, 2), (1, 2), (2, 3)])
    pmf = fit(tables)
    assert pmf.report.misfits[0].total_variation < 0.003
    made, with_c, base = (np.asarray(pmf.marginal(list(names))) for names in ("bd", "cd", "bc"))
    implied = base @ (with_c / with_c.sum(axis=1, keepdims=True))
    assert 0.5 * np.abs(made - implied).sum() < 0.005


def test_mean_of_random_models_meets_the_tables_whatever_the_order_of_variables():
    whole = model(3, rank=3).trees.joint()
    tables = tables_of(whole, [(0, 1), (1, 2), (2, 3), (0, 3)])
    backwards = tables.subset(tuple(reversed(NAMES)))
    first, second = (
        random_reference(Evidence(own.schema, tables=own, threads=1), Smoothing(0.5, 0.5), 7, Watch())
        for own in (tables, backwards)
    )
    assert worst(first.trees.joint(), tables) < 0.02
    assert second.schema.names == tuple(reversed(NAMES))
    np.testing.assert_allclose(first.trees.joint(), second.trees.joint().transpose(), atol=1e-9)


def test_mean_of_random_models_has_at_least_one_when_the_time_is_over():
    tables, watch = tables_of(random_joint(2), [(0, 1), (1, 2), (0, 2)]), Watch()
    evidence = Evidence(tables.schema, tables=tables, threads=1)
    all_of_them = random_reference(evidence, Smoothing(0.5, 0.5), 0, Watch())
    watch.interrupt(StopReason.TIME_LIMIT)
    only = random_reference(evidence, Smoothing(0.5, 0.5), 0, watch)
    assert only.rank < all_of_them.rank
    np.testing.assert_allclose(only.trees.joint().sum(), 1.0)


def chosen(joint, pairs):
    tables = tables_of(joint, pairs)
    return best_reference_power(Evidence(tables.schema, tables=tables, threads=1), Smoothing(0.5, 0.5), 0, Watch())


def test_tables_say_how_far_to_lean_to_the_hidden_variable():
    circle = [(0, 1), (1, 2), (2, 3), (0, 3)]
    # Each variable depends on its neighbours only, in opposite directions: what goes round the circle cancels.
    near = np.exp(-0.75 * np.abs(np.subtract.outer(np.arange(2), np.arange(3))))
    joint = np.einsum("ab,cb,cd,ad->abcd", near, near, near, 1.0 / near)
    assert chosen(joint / joint.sum(), circle) == 0.0
    # One hidden variable behind all of them.
    two, three = np.array([[0.85, 0.2], [0.15, 0.8]]), np.array([[0.7, 0.1], [0.2, 0.2], [0.1, 0.7]])
    assert chosen(np.einsum("r,ar,br,cr,dr->abcd", [0.6, 0.4], two, three, two, three), circle) > 0.5
    # Nothing can be held out of a chain, and nothing depends on it there.
    assert chosen(random_joint(0), [(0, 1), (1, 2), (2, 3)]) == 0.9


def test_held_out_tables_leave_all_variables_connected():
    tables = tables_of(random_joint(0), [(0, 1), (0, 2), (1, 2), (2, 3), (1, 3)])
    folds = list(reference._reference_folds(tables, np.random.default_rng(0)))
    assert sorted(number for held in folds for number in held) == sorted({number for held in folds for number in held})
    for held in folds:
        left = np.ones(len(tables), dtype=bool)
        left[held] = False
        assert len(tables.part(left).components()) == 1


def test_the_power_is_that_which_predicts_all_tables_best_together(monkeypatch):
    """Each of four tables is held out once; how far each power is off is given, and differs from table to table."""
    tables = tables_of(random_joint(0), [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
    off = np.array([[0.0, 0.2, 0.3, 0.3], [0.1, 0.2, 0.3, 0.0], [0.4, 0.3, 0.1, 0.2], [0.4, 0.3, 0.1, 0.2]])
    powers = list(reference._POWERS)

    def joint_of(others, single, part, power, together):
        pair = next(pair for pair in tables.sets.tolist() if pair not in others.sets.tolist())
        number = tables.sets.tolist().index(pair)
        exact = tables.array(number) / tables.totals[number]
        away = tuple(place for place, index in enumerate(part) if index not in pair)
        moved = np.expand_dims(exact, away) / np.prod([SIZES[part[place]] for place in away])
        joint = np.broadcast_to(moved, [SIZES[index] for index in part]).copy()
        joint.flat[0] += off[number, powers.index(power)]
        return joint

    monkeypatch.setattr(reference, "_reference_folds", lambda *_: iter([[0], [1], [2], [3]]))
    monkeypatch.setattr(reference, "reference_joint", joint_of)
    monkeypatch.setattr(reference, "random_reference", lambda *_: model(0))
    evidence = Evidence(SCHEMA, tables=tables, threads=1)
    best = best_reference_power(evidence, Smoothing(0.5, 0.5), 0, Watch())
    assert best == powers[off.sum(axis=0).argmin()] == 0.9
