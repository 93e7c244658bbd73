"""Properties of PMFs: any operation gives a PMF, and answers equal brute force on the joint."""

import math
import pickle
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference import joint as brute
from strategies import any_pmfs, columns, events, examples, frames, schemas, some_names

import twoway as tw
from twoway.category_labels import label_key
from twoway.data.distribution import Distribution
from twoway.model.information import pairwise_information
from twoway.model.pmf import JointPMF
from twoway.model.trees import Trees
from twoway.report import Report, Start, StopReason, TableMisfit


def assert_is_pmf(pmf):
    for tree in pmf.trees.trees:
        for matrix in (tree.weights[:, None], *tree.transitions, *tree.factors):
            assert np.isfinite(matrix).all()
            assert (matrix >= 0).all()
            np.testing.assert_allclose(matrix.sum(axis=0), 1, atol=1e-9)
    if pmf.trees.single is not None:
        assert not pmf.weights.flags.writeable
        assert not pmf.stacked.flags.writeable


def rooted_elsewhere(pmf):
    trees = tuple(tree.rooted_at(tree.n_hidden - 1) for tree in pmf.trees.trees)
    return JointPMF.from_trees(pmf.schema, Trees(pmf.trees.shares, trees))


def through_a_file(pmf):
    with tempfile.TemporaryDirectory() as folder:
        pmf.save(Path(folder) / "model")
        return tw.load(Path(folder) / "model")


UNCHANGED = {
    "file": through_a_file,
    "pickle": lambda pmf: pickle.loads(pickle.dumps(pmf)),
    "sorted": JointPMF.sorted_by_weight,
    "written out": lambda pmf: JointPMF.from_joint(pmf.marginal(pmf.schema.names).array, pmf.schema),
    "averaged with itself": lambda pmf: JointPMF.average([pmf, pmf], [1, 3]),
    "known nothing": lambda pmf: pmf.given({}),
    "rooted elsewhere": rooted_elsewhere,
}


@given(st.data())
@examples(40)
def test_a_pmf_stays_a_pmf_whatever_is_done_to_it(data):
    pmf = data.draw(any_pmfs(max_variables=3, max_categories=3))
    joint = brute.write_out(pmf)
    for _ in range(data.draw(st.integers(1, 4))):
        step = data.draw(st.sampled_from([*UNCHANGED, "given", "average"]))
        if step == "given":
            evidence = data.draw(events(pmf.schema))
            kept = brute.restrict(joint, pmf.schema, evidence)
            assume(kept.sum() > 0)
            pmf, joint = pmf.given(evidence), kept / kept.sum()
        elif step == "average":
            other = data.draw(any_pmfs(pmf.schema))
            pmf, joint = JointPMF.average([pmf, other], [2, 1]), (2 * joint + brute.write_out(other)) / 3
        else:
            pmf = UNCHANGED[step](pmf)
        assert_is_pmf(pmf)
        np.testing.assert_allclose(pmf.marginal(pmf.schema.names).array, joint, atol=1e-12)


@given(st.data())
@examples(60)
def test_knowing_one_thing_and_then_another_is_knowing_both(data):
    """Also about the same variable: only what both allow is left."""
    pmf = data.draw(any_pmfs(max_variables=3))
    first, second = data.draw(events(pmf.schema)), data.draw(events(pmf.schema))
    joint = brute.write_out(pmf)
    both = brute.restrict(brute.restrict(joint, pmf.schema, first), pmf.schema, second)
    assume(brute.restrict(joint, pmf.schema, first).sum() > 0)
    if both.sum() == 0:
        with pytest.raises(tw.ImpossibleEvidenceError):
            pmf.given(first).given(second)
        return
    one = pmf.given(first).given(second)
    np.testing.assert_allclose(one.marginal(pmf.schema.names).array, both / both.sum(), atol=1e-12)
    assert pmf.prob(first) * pmf.given(first).prob(second) == pytest.approx(both.sum(), abs=1e-12)


@given(st.data())
@examples(60)
def test_the_laws_of_information(data):
    pmf = data.draw(any_pmfs(min_variables=3, max_variables=3))
    a, b, c = data.draw(st.permutations(pmf.schema.names))
    assert 0 <= pmf.entropy(a) <= math.log(len(pmf.schema[a])) + 1e-12
    assert pmf.entropy(a, base=2) * math.log(2) == pytest.approx(pmf.entropy(a), abs=1e-12)
    information = pmf.mutual_information(a, b)
    assert -1e-12 <= information <= min(pmf.entropy(a), pmf.entropy(b)) + 1e-12
    assert information == pytest.approx(pmf.mutual_information(b, a), abs=1e-12)
    assert information == pytest.approx(pmf.entropy(a) + pmf.entropy(b) - pmf.entropy([a, b]), abs=1e-12)
    # The chain rule.
    assert pmf.mutual_information(a, [b, c]) == pytest.approx(
        information + pmf.mutual_information(a, c, given=b), abs=1e-12
    )
    table = pairwise_information(pmf.trees)
    assert (table >= 0).all()


@given(st.data())
@examples(40)
def test_records_are_drawn_with_their_probabilities_and_read_back(data):
    pmf = data.draw(any_pmfs())
    drawn = pmf.sample(data.draw(st.integers(0, 5)), seed=data.draw(st.integers(0, 2**70)))
    rows = [brute.record_event(pmf.schema, row) for row in drawn.itertuples(index=False, name=None)]
    assert all(len(row) == len(pmf.schema) for row in rows)
    for row, log_prob in zip(rows, pmf.log_prob(rows) if rows else [], strict=True):
        assert log_prob > -math.inf
        assert log_prob == pytest.approx(math.log(pmf.prob(row)), abs=1e-9)


@given(st.data())
@examples(40)
def test_filling_holes_keeps_what_was_seen_and_fills_with_what_can_be(data):
    pmf = data.draw(any_pmfs(max_variables=3))
    frame = data.draw(frames(pmf.schema))
    joint = brute.write_out(pmf)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*impossible under the model")
        filled = pmf.impute(frame, how="sample", seed=data.draw(st.integers(0, 100)))
    for old, new in zip(frame.itertuples(index=False), filled.itertuples(index=False), strict=True):
        seen = brute.record_event(pmf.schema, old)
        now = brute.record_event(pmf.schema, new)
        assert all(label_key(now[name]) == label_key(label) for name, label in seen.items())
        if brute.restrict(joint, pmf.schema, seen).sum() > 0:
            assert len(now) == len(pmf.schema)
            assert brute.restrict(joint, pmf.schema, now).sum() > 0
        else:  # nothing can be said of an impossible record
            assert len(now) == len(seen)


@given(st.data())
@examples(60)
def test_equivalent_questions_give_the_same_distribution(data):
    schema = data.draw(schemas(max_variables=3))
    array = data.draw(columns(math.prod(schema.sizes), 1)).reshape(schema.sizes)
    table = Distribution(schema.variables, array)
    frame = table.to_frame()
    assert len(frame) == array.size
    for *labels, share in frame.itertuples(index=False, name=None):
        assert table[tuple(labels)] == share
        by_name = dict(zip(schema.names, labels, strict=True))
        assert table[by_name] == share
        some = data.draw(st.sampled_from(schema.names))
        rest = table[{some: by_name[some]}]
        left = tuple(label for name, label in by_name.items() if name != some)
        assert (rest if not left else rest[left]) == share
    assert repr(table).replace("\n", "").isprintable()


@given(st.data())
@examples(40)
def test_distances_between_pmfs(data):
    schema = data.draw(schemas(max_variables=3))
    one, other = data.draw(any_pmfs(schema)), data.draw(any_pmfs(schema))
    names = data.draw(some_names(schema))
    distance = tw.total_variation(one, other, names)
    assert 0 <= distance <= 1 + 1e-12
    assert distance == tw.total_variation(other, one, names)
    assert tw.total_variation(one, one, names) == 0
    assert tw.kl_divergence(one, other) >= 0
    # Pinsker's inequality.
    assert tw.total_variation(one, other, schema.names) <= math.sqrt(tw.kl_divergence(one, other) / 2) + 1e-9
    assert tw.kl_divergence(one, one) == pytest.approx(0, abs=1e-12)
    if one.rank == other.rank and one.n_hidden == other.n_hidden == 1:
        assert tw.factor_mse(one, other) >= 0
        assert tw.factor_mse(one, one) == pytest.approx(0, abs=1e-15)


NUMBER = st.floats(-1e6, 1e6)
STARTS = st.lists(
    st.builds(
        Start,
        st.text(max_size=5),
        st.lists(st.one_of(NUMBER, st.just(math.inf)), min_size=1, max_size=3).map(tuple),
        st.sampled_from(StopReason),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
MISFITS = st.lists(st.builds(TableMisfit, st.tuples(st.text(), st.text()), NUMBER, NUMBER, NUMBER), max_size=2)


@given(STARTS, MISFITS, st.lists(st.text(), max_size=2), st.one_of(st.none(), NUMBER), st.data())
@examples(50)
def test_reports_come_back_and_print(starts, misfits, warnings, number, data):
    report = Report(
        data.draw(st.text()),
        3,
        0,
        0.5,
        1.0,
        data.draw(st.text()),
        starts,
        data.draw(st.integers(0, len(starts) - 1)),
        n_records=number,
        misfits=tuple(misfits),
        warnings=tuple(warnings),
    )
    assert Report.from_dict(report.to_dict()) == report
    assert str(report).replace("\n", "").isprintable()
