"""Every question to a PMF against brute force on the joint."""

import copy
import math
import pickle
import re
from datetime import timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hidden_trees import SIZES, random_tree
from hypothesis import assume, given
from hypothesis import strategies as st
from random_models import numbered, random_pmf
from reference import joint as brute
from strategies import events, examples, frames, pmfs, schemas, some_names

import twoway as tw
from twoway.category_labels import label_key
from twoway.data.distribution import MAX_ROWS
from twoway.data.records import Records
from twoway.datasets import dirichlet_rows
from twoway.errors import DataError, ImpossibleEvidenceError, UnknownNameError
from twoway.model import hidden_tree, information, mixture
from twoway.model import mode as mode_search
from twoway.model.hidden_tree import HiddenTree
from twoway.model.pmf import Estimate, JointPMF, Mode, pmf_behind
from twoway.model.trees import Trees
from twoway.schema import Schema, Variable

quick = examples(40)
AGE, VOTE = Variable("age", ("young", "old")), Variable("vote", ("no", "yes"))
SCHEMA = Schema((AGE, VOTE))
PMF = JointPMF([0.5, 0.5], [[[1, 0.2], [0, 0.8]], [[0.9, 0.4], [0.1, 0.6]]], SCHEMA)


def assert_same(one, other, rtol=1e-12):
    assert one.schema == other.schema
    np.testing.assert_allclose(one.weights, other.weights, rtol=rtol, atol=1e-300)
    np.testing.assert_allclose(one.stacked, other.stacked, rtol=rtol, atol=1e-300)


# The arrays


@given(pmfs())
@quick
def test_arrays_are_shared_and_read_only(pmf):
    assert pmf.stacked.flags.c_contiguous
    assert pmf.stacked.shape == (pmf.schema.n_categories, pmf.rank)
    assert all(np.shares_memory(factor, pmf.stacked) for factor in pmf.factors)
    assert [factor.shape for factor in pmf.factors] == [(size, pmf.rank) for size in pmf.schema.sizes]
    for array in (pmf.weights, pmf.stacked, *pmf.factors):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    np.testing.assert_allclose(brute.write_out(pmf).sum(), 1, rtol=1e-12)
    for twin in (copy.deepcopy(pmf), pickle.loads(pickle.dumps(pmf))):
        assert_same(twin, pmf, rtol=0)
        assert not twin.stacked.flags.writeable
        assert np.shares_memory(twin.factors[0], twin.stacked)
    assert "\n" not in repr(pmf)


def test_input_is_copied_and_rescaled():
    weights, factor = np.array([0.5, 0.5 + 5e-7]), np.array([[0.5, 1], [0.5, 5e-7]])
    pmf = JointPMF(weights, [factor], Schema((AGE,)))
    weights[0], factor[0, 0] = 9, 9
    assert pmf.weights.sum() == pytest.approx(1, abs=1e-15)
    assert pmf.factors[0].sum(axis=0) == pytest.approx([1, 1], abs=1e-15)
    assert pmf.factors[0][0, 0] == 0.5


@pytest.mark.parametrize(
    ("weights", "factors", "message"),
    [
        ([0.5, 0.4], [[[1, 1], [0, 0]]] * 2, "sum to one; they sum to 0.9"),
        ([1.5, -0.5], [[[1, 1], [0, 0]]] * 2, "component 1 has -0.5"),
        ([math.nan, 1], [[[1, 1], [0, 0]]] * 2, "component 0 has nan"),
        ([1], [[[1], [0]], [[0.5], [0.4]]], "'vote' .*component 0 sums to 0.9"),
        ([1], [[[1], [0]], [[1.5], [-0.5]]], "'vote' .*'yes' in component 0 has -0.5"),
        ([1], [[[math.inf], [0]], [[1], [0]]], "'age' .*'young' .*inf"),
        ([1], [[[1], [0]]], "2 variables .*1 factors"),
        ([1], [[[1], [0]], [[1], [0], [0]]], r"factor of 'vote' must have the shape \(2, 1\).*got \(3, 1\)"),
        ([], [[[1], [0]]] * 2, "one number for each component"),
        (["a"], [[[1], [0]]] * 2, "weights must be an array of numbers"),
        ([1], [[[1], [0]], [[1], [0, 3]]], "factor of 'vote' must be an array of numbers"),
    ],
)
def test_bad_parameters_name_the_place(weights, factors, message):
    with pytest.raises(DataError, match=message):
        JointPMF(weights, factors, SCHEMA)


@given(pmfs())
@quick
def test_sorting_keeps_the_joint(pmf):
    ordered = pmf.sorted_by_weight()
    assert (np.diff(ordered.weights) <= 0).all()
    np.testing.assert_allclose(brute.write_out(ordered), brute.write_out(pmf), atol=1e-15)


def test_sorting_is_stable():
    pmf = JointPMF([0.25, 0.5, 0.25], [[[1, 0.5, 0], [0, 0.5, 1]]], Schema((AGE,))).sorted_by_weight()
    assert pmf.factors[0][0].tolist() == [0.5, 1, 0]


# Probabilities


@given(st.data())
@quick
def test_prob_is_brute_force(data):
    pmf = data.draw(pmfs())
    event = data.draw(events(pmf.schema))
    expected = brute.restrict(brute.write_out(pmf), pmf.schema, event).sum()
    assert pmf.prob(event) == pytest.approx(expected, rel=1e-12, abs=1e-300)


def test_events_take_labels_and_collections():
    assert PMF.prob({}) == 1.0
    assert PMF.prob({"age": "old"}) == 0.4
    assert PMF.prob({"age": {"old", "young"}}) == 1.0
    assert PMF.prob({"age": frozenset(["old"]), "vote": np.array(["yes", "no"])}) == 0.4
    rating = JointPMF([1], [[[0.25], [0.75]]], Schema((Variable("r", (1, 2)),)))
    assert rating.prob({"r": 1.0}) == rating.prob({"r": np.int8(1)}) == 0.25


@pytest.mark.parametrize(
    ("event", "error", "message"),
    [
        ({"agee": "old"}, UnknownNameError, "no variable 'agee'; did you mean 'age'"),
        ({"age": "odl"}, UnknownNameError, "no category 'odl' of 'age'; did you mean 'old'"),
        ({"age": ["old", "x"]}, UnknownNameError, "no category 'x' of 'age'"),
        ({"age": []}, DataError, "categories for 'age' is empty"),
        ({"age": {"old": 1}}, DataError, "a category must be text"),
        (["age"], DataError, "an event must be"),
    ],
)
def test_bad_events(event, error, message):
    with pytest.raises(error, match=message):
        PMF.prob(event)
    with pytest.raises(error, match=message):
        PMF.given(event)


@given(st.data())
@quick
def test_marginal_is_brute_force(data):
    pmf = data.draw(pmfs(max_variables=5))
    names = data.draw(some_names(pmf.schema))
    table = pmf.marginal(names)
    assert table.names == tuple(names)
    assert table.total is None
    assert not table.array.flags.writeable
    np.testing.assert_allclose(table.array, brute.marginal(brute.write_out(pmf), pmf.schema, names), atol=1e-15)


def test_marginal_takes_one_name_and_refuses_too_many_cells():
    np.testing.assert_allclose(PMF.marginal("age").array, [0.6, 0.4])
    pmf = random_pmf(numbered(24, 2), 3)
    with pytest.raises(DataError, match=r"24 variables.*16,777,216"):
        pmf.marginal(pmf.schema.names)
    assert pmf.marginal(pmf.schema.names[:16]).array.sum() == pytest.approx(1)
    with pytest.raises(DataError, match=r"at least one variable .*'age', 'vote'"):
        PMF.marginal([])
    with pytest.raises(DataError, match="'age'"):
        PMF.marginal(["age", "age"])


@given(st.data())
@quick
def test_given_then_marginal_is_bayes_rule(data):
    pmf = data.draw(pmfs())
    evidence = data.draw(events(pmf.schema))
    kept = brute.restrict(brute.write_out(pmf), pmf.schema, evidence)
    if kept.sum() == 0:
        with pytest.raises(ImpossibleEvidenceError, match="probability 0"):
            pmf.given(evidence)
        return
    conditional = pmf.given(evidence)
    assert conditional.schema == pmf.schema
    assert conditional.rank == pmf.rank
    np.testing.assert_allclose(conditional.weights.sum(), 1, rtol=1e-12)
    for factor in conditional.factors:
        np.testing.assert_allclose(factor.sum(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(conditional.weights, brute.memberships(pmf, evidence), atol=1e-15)
    np.testing.assert_allclose(conditional.marginal(pmf.schema.names).array, kept / kept.sum(), atol=1e-14)


@given(st.data())
@quick
def test_evidence_composes(data):
    pmf = data.draw(pmfs(min_variables=2))
    evidence = data.draw(events(pmf.schema))
    first = {name: evidence[name] for name in list(evidence)[: len(evidence) // 2]}
    second = {name: evidence[name] for name in evidence if name not in first}
    assume(pmf.prob(evidence) > 0)
    assert_same(pmf.given(first).given(second), pmf.given(evidence))


def test_impossible_evidence_is_named():
    pmf = JointPMF([0.5, 0.5], [[[1, 0], [0, 1]], [[1, 0], [0, 1]]], SCHEMA)
    with pytest.raises(ImpossibleEvidenceError, match="age = 'old', vote = 'no'"):
        pmf.given({"age": "old", "vote": ["no"]})


def test_a_component_ruled_out_stays_a_pmf():
    schema = Schema((Variable("x", ("a", "b", "c")),))
    pmf = JointPMF([0.5, 0.5], [[[1, 0], [0, 0.5], [0, 0.5]]], schema).given({"x": ["b", "c"]})
    assert pmf.weights.tolist() == [0, 1]
    assert pmf.factors[0].tolist() == [[0, 0], [0.5, 0.5], [0.5, 0.5]]


def pmf_of_turns(n=600):
    """Return a PMF whose first component is far ahead on the first half of its variables and far behind on the rest."""
    schema = Schema(tuple(Variable(f"v{index}", (0, 1, 2)) for index in range(n)))
    ahead, behind = [0.5, 0.25, 0.25], [1e-4, 0.5, 0.4999]
    halves = [np.array([ahead, behind]).T] * (n // 2) + [np.array([behind, ahead]).T] * (n // 2)
    return JointPMF([0.5, 0.5], halves, schema)


# With the last variable left open, the first component has one factor of 1e-4 less, the second one of 0.5.
SHARE = 0.5 / (0.5 + 1e-4)


def test_hundreds_of_variables_do_not_underflow():
    pmf = pmf_of_turns()
    record = dict.fromkeys(pmf.schema.names, 0)
    assert pmf.prob(record) == 0.0  # 10⁻¹²⁹⁰ is beyond a float
    np.testing.assert_allclose(pmf.given(record).weights, [0.5, 0.5], rtol=1e-9)
    most = dict.fromkeys(pmf.schema.names[:-1], 0)
    np.testing.assert_allclose(pmf.given(most).weights, [SHARE, 1 - SHARE], rtol=1e-9)


def test_records_of_hundreds_of_variables_do_not_underflow():
    pmf = pmf_of_turns()
    record = dict.fromkeys(pmf.schema.names, 0)
    expected = 300 * (math.log(0.5) + math.log(1e-4))
    assert pmf.log_prob([record])[0] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(pmf.memberships([record]), [[0.5, 0.5]], rtol=1e-9)
    most = dict.fromkeys(pmf.schema.names[:-1], 0)
    np.testing.assert_allclose(pmf.memberships([most]), [[SHARE, 1 - SHARE]], rtol=1e-9)


def test_prob_keeps_what_a_float_can_hold():
    pmf = random_pmf(numbered(600, 2), 3)
    event = dict.fromkeys(pmf.schema.names, 0)
    logs = np.log(pmf.weights) + sum(np.log(factor[0]) for factor in pmf.factors)
    assert pmf.prob(event) == pytest.approx(math.exp(np.logaddexp.reduce(logs)), rel=1e-9)
    assert pmf.prob(event) > 0


# Mode


@given(st.data())
@quick
def test_mode_is_brute_force(data):
    pmf = data.draw(pmfs())
    names = data.draw(some_names(pmf.schema))
    table = brute.marginal(brute.write_out(pmf), pmf.schema, names)
    mode = pmf.mode(names)
    assert isinstance(mode, Mode)
    assert mode.proven
    assert list(mode.values) == names
    assert mode.probability == pytest.approx(table.max(), rel=1e-12)
    assert pmf.prob(mode.values) == pytest.approx(table.max(), rel=1e-12)
    assert list(pmf.mode().values) == list(pmf.schema.names)


@given(pmfs(max_variables=5))
@quick
def test_branch_and_bound_finds_the_mode(pmf):
    codes, log_probability, is_proven = mode_search.search_mode(pmf.trees)
    joint = brute.write_out(pmf)
    assert is_proven
    assert math.exp(log_probability) == pytest.approx(joint.max(), rel=1e-9)
    assert joint[tuple(codes)] == pytest.approx(joint.max(), rel=1e-9)


def test_mode_of_many_variables_reports_whether_it_is_proven(monkeypatch):
    pmf = random_pmf(numbered(60, 4), 8, concentration=0.5)
    mode = pmf.mode()
    assert mode.proven
    assert mode.probability == pytest.approx(pmf.prob(mode.values), rel=1e-9)
    flat = random_pmf(numbered(40, 3), 8, concentration=50)
    _, log_probability, is_proven = mode_search.search_mode(flat.trees, max_nodes=5)
    assert not is_proven
    parts = [(flat.weights[:, None][f], [factor[:, [f]] for factor in flat.factors]) for f in range(flat.rank)]
    own = [mode_search.search_mode(Trees(np.ones(1), (HiddenTree.single(*part),))) for part in parts]
    cells = [dict(zip(flat.schema.names, codes, strict=True)) for codes, _, _ in own]
    assert math.exp(log_probability) >= max(flat.prob(cell) for cell in cells) * (1 - 1e-9)


def test_enumeration_in_chunks_equals_full_enumeration(monkeypatch):
    pmf = random_pmf(numbered(5, 4), 3)
    whole, entropy = pmf.mode(), pmf.entropy(pmf.schema.names)
    monkeypatch.setattr(hidden_tree, "_CHUNK", 7)
    assert pmf.mode().values == whole.values
    assert pmf.entropy(pmf.schema.names) == pytest.approx(entropy, rel=1e-12)


# Expectation and information


@given(st.data())
@quick
def test_expect_is_brute_force(data):
    pmf = data.draw(pmfs())
    name = data.draw(st.sampled_from(pmf.schema.names))
    values = pmf.schema[name].values
    if values is None:
        with pytest.raises(DataError, match=f"'{name}' has no expected value"):
            pmf.expect(name)
    else:
        shares = brute.marginal(brute.write_out(pmf), pmf.schema, [name])
        assert pmf.expect(name) == pytest.approx(sum(shares * values), abs=1e-12)


@given(st.data())
@quick
def test_entropy_is_brute_force(data):
    pmf = data.draw(pmfs())
    names = data.draw(some_names(pmf.schema))
    expected = brute.entropy(brute.marginal(brute.write_out(pmf), pmf.schema, names))
    assert pmf.entropy(names) == pytest.approx(expected, abs=1e-12)
    assert pmf.entropy(names, base=2) == pytest.approx(expected / math.log(2), abs=1e-12)
    assert pmf.entropy(names).standard_error == 0.0


@given(st.data())
@quick
def test_mutual_information_is_brute_force(data):
    pmf = data.draw(pmfs(min_variables=2, max_variables=5))
    names = data.draw(some_names(pmf.schema, min_size=2))
    cuts = sorted([data.draw(st.integers(1, len(names) - 1)), data.draw(st.integers(2, len(names)))])
    a, b, known = names[: cuts[0]], names[cuts[0] : max(cuts[1], cuts[0] + 1)], names[max(cuts[1], cuts[0] + 1) :]
    expected = brute.mutual_information(brute.write_out(pmf), pmf.schema, a, b, known)
    got = pmf.mutual_information(a, b, known or None)
    assert got == pytest.approx(expected, abs=1e-12)
    assert got >= 0
    assert got.standard_error == 0.0


def test_independent_variables_share_no_information():
    assert random_pmf(numbered(6, 5), 1).mutual_information("v0", "v1") == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: PMF.mutual_information("age", "age"), "'age' "),
        (lambda: PMF.mutual_information("age", "vote", given=["vote"]), "'vote' "),
        (lambda: PMF.mutual_information(["age", "vote"], ["vote", "age"]), "'age' "),
        (lambda: PMF.entropy([]), "at least one variable"),
        (lambda: PMF.entropy("age", base=1), "base .*not 1$"),
        (lambda: PMF.entropy("age", base=-2), "not -2$"),
    ],
)
def test_bad_questions_about_information(ask, message):
    with pytest.raises(DataError, match=message):
        ask()


def test_beyond_the_limit_estimates_carry_their_error(monkeypatch):
    pmf = random_pmf(numbered(30, 3), 4)
    # The variables are independent within a component, so the entropy is known to within that of the component.
    bounds = sum(w * sum(brute.entropy(a[:, f]) for a in pmf.factors) for f, w in enumerate(pmf.weights))
    estimate = pmf.entropy(pmf.schema.names)
    assert estimate.standard_error > 0
    assert bounds - 4 * estimate.standard_error < estimate < bounds + math.log(4) + 4 * estimate.standard_error
    assert pmf.entropy(pmf.schema.names) == estimate
    assert pmf.entropy(pmf.schema.names, seed=1) != estimate
    monkeypatch.setattr(mixture, "MAX_CELLS", 10)
    small = pmf.mutual_information(["v0", "v1"], ["v2", "v3"], given="v4")
    assert small.standard_error > 0
    monkeypatch.undo()
    exact = pmf.mutual_information(["v0", "v1"], ["v2", "v3"], given="v4")
    assert exact.standard_error == 0
    assert abs(small - exact) < 4 * small.standard_error


def test_standard_errors_are_those_of_repeated_draws(monkeypatch):
    monkeypatch.setattr(information, "N_SAMPLES", 500)
    pmf = random_pmf(numbered(30, 3), 4)
    estimates = [pmf.entropy(pmf.schema.names, seed=seed) for seed in range(100)]
    spread = np.std(estimates, ddof=1)
    # With 100 repeats the spread itself is known to about 7 %.
    assert np.mean([one.standard_error for one in estimates]) == pytest.approx(spread, rel=0.3)


def test_a_pair_is_exact_however_large():
    assert pmf_of_pair().mutual_information("a", "b").standard_error == 0.0


def pmf_of_pair():
    n = 3300
    schema = Schema((Variable("a", tuple(range(n))), Variable("b", tuple(range(n)))))
    return JointPMF([1.0], [np.full((n, 1), 1 / n)] * 2, schema)


def test_estimates_are_floats():
    estimate = Estimate(2.0, 0.5)
    assert pickle.loads(pickle.dumps(estimate)).standard_error == 0.5
    assert estimate == 2.0
    assert f"{estimate:.1f}" == "2.0"
    assert repr(estimate) == "Estimate(2.0, standard_error=0.5)"
    assert repr(Estimate(2.0)) == "2.0"
    assert information.Estimate is Estimate


# Samples


@given(pmfs(), st.integers(0, 50))
@quick
def test_samples_are_possible_records(pmf, n):
    frame = pmf.sample(n, seed=3)
    assert list(frame.columns) == list(pmf.schema.names)
    assert len(frame) == n
    pd.testing.assert_frame_equal(frame, pmf.sample(n, seed=3))
    for row in frame.itertuples(index=False):
        assert pmf.prob(dict(zip(pmf.schema.names, row, strict=True))) > 0


class Uniform:
    """A generator whose numbers are given."""

    def __init__(self, numbers):
        self.numbers = np.array(numbers)

    def random(self, n):
        assert n == len(self.numbers)
        return self.numbers


def test_no_draw_has_probability_zero():
    # The ends of the unit interval and the exact edges between categories.
    edges = Uniform([0.0, 0.25, 0.75, np.nextafter(1, 0)])
    assert mixture.draw_mixture_components(np.array([0, 0.25, 0.5, 0, 0.25, 0]), 4, edges).tolist() == [1, 2, 4, 4]
    factor = np.array([[0, 1], [0.25, 0], [0, 0], [0.75, 0], [0, 0]])
    assert mixture.draw_mixture_codes(factor, np.array([0, 0, 1, 0]), edges).tolist() == [1, 3, 0, 3]


def test_samples_follow_the_joint():
    pmf = random_pmf(numbered(3, 3), 3)
    frame = pmf.sample(200_000, seed=1)
    joint = pmf.marginal(pmf.schema.names).array
    counts = np.zeros_like(joint)
    np.add.at(counts, tuple(frame[name].to_numpy() for name in pmf.schema.names), 1)
    error = np.sqrt(joint * (1 - joint) / len(frame))
    assert (abs(counts / len(frame) - joint) < 5 * error + 1e-12).all()


@pytest.mark.parametrize("n", [-1, 2.5, True, "3"])
def test_bad_sample_sizes(n):
    with pytest.raises(DataError, match="whole number of at least 0"):
        PMF.sample(n)


def test_samples_of_every_library():
    polars, arrow = PMF.sample(5, library="polars"), PMF.sample(5, library="pyarrow")
    assert isinstance(polars, pl.DataFrame)
    assert isinstance(arrow, pa.Table)
    assert polars.to_dict(as_series=False) == arrow.to_pydict() == PMF.sample(5).to_dict("list")
    # "young" before "old" is an order of their own, and is kept.
    assert PMF.sample(0, library="polars").schema == {"age": pl.Enum(["young", "old"]), "vote": pl.String}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_samples_keep_the_order_of_categories(library):
    drawn = PMF.sample(200, library=library)
    assert tw.Records(drawn).schema == PMF.schema
    if library == "pandas":
        assert drawn["age"].dtype == pd.CategoricalDtype(["young", "old"], ordered=True)
        assert not isinstance(drawn["vote"].dtype, pd.CategoricalDtype)


def test_lazy_frames_are_collected():
    lazy = pl.LazyFrame({"age": ["young", None, "old"], "vote": ["no", "yes", None]})
    filled = PMF.impute(lazy)
    assert filled.equals(PMF.impute(lazy.collect()))
    np.testing.assert_array_equal(PMF.log_prob(lazy), PMF.log_prob(lazy.collect()))
    assert tw.fit(lazy, rank=1, smoothing=1.0).schema.names == ("age", "vote")
    imputer = tw.JointPMFImputer(rank=1, smoothing=1.0, n_starts=1)
    assert imputer.fit(lazy).transform(lazy).null_count().sum_horizontal()[0] == 0


# Records


@pytest.mark.filterwarnings("ignore:.*impossible under the model")
@given(st.data())
@quick
def test_log_prob_and_memberships_are_brute_force(data):
    pmf = data.draw(pmfs())
    frame = data.draw(frames(pmf.schema))
    joint = brute.write_out(pmf)
    log_prob, memberships = pmf.log_prob(frame), pmf.memberships(frame)
    assert log_prob.shape == (len(frame),)
    assert memberships.shape == (len(frame), pmf.rank)
    listed = []
    for row, got, shares in zip(frame.itertuples(index=False), log_prob, memberships, strict=True):
        event = brute.record_event(pmf.schema, row)
        listed.append(event)
        expected = brute.restrict(joint, pmf.schema, event).sum()
        assert math.exp(got) == pytest.approx(expected, rel=1e-10, abs=1e-300)
        np.testing.assert_allclose(shares, brute.memberships(pmf, event), atol=1e-12)
    if any(listed):
        np.testing.assert_array_equal(pmf.log_prob(listed), log_prob)


def test_a_truth_value_beside_a_number_stays_one():
    pmf = JointPMF([1], [[[0.25], [0.75]]], Schema((Variable("x", (2.5, True)),)))
    frame = pd.DataFrame({"x": pd.Series([2.5, True, None], dtype=object)})
    np.testing.assert_allclose(pmf.log_prob(frame), [math.log(0.25), math.log(0.75), 0])


def test_records_with_nothing_observed():
    np.testing.assert_allclose(PMF.log_prob([{"age": None, "vote": None}, {"age": "old"}]), [0, math.log(0.4)])
    np.testing.assert_allclose(PMF.memberships(pd.DataFrame({"age": [None], "vote": [None]})), [[0.5, 0.5]])
    assert PMF.log_prob([]).shape == (0,)
    assert PMF.memberships([]).shape == (0, 2)


def test_sources_of_records():
    expected = PMF.log_prob(pd.DataFrame({"age": ["old", None], "vote": ["yes", "no"]}))
    array = np.array([["old", "yes"], [None, "no"]], dtype=object)
    np.testing.assert_array_equal(PMF.log_prob(array), expected)
    np.testing.assert_array_equal(
        PMF.log_prob(pl.DataFrame(array.tolist(), schema=["age", "vote"], orient="row")), expected
    )
    np.testing.assert_array_equal(
        PMF.log_prob(Records({"vote": ["yes", "no"], "age": ["old", None]}, schema=SCHEMA)), expected
    )
    np.testing.assert_allclose(PMF.log_prob({"vote": ["no"]}), [math.log(0.65)])
    extra = pd.DataFrame({"note": [1, 2], "age": ["old", None], "vote": ["yes", "no"]})
    np.testing.assert_array_equal(PMF.log_prob(extra), expected)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (pd.DataFrame({"age": ["old"], "vot": ["yes"]}), DataError, "no column for 'vote', and no variable for 'vot'"),
        (pd.DataFrame({"age": ["odl"]}), UnknownNameError, "no category 'odl' of 'age'.*did you mean 'old'"),
        (
            Records({"age": ["old"]}),
            DataError,
            r"schema.*category 1 of 'age'",
        ),
        ([["old", "yes"]], DataError, "a list of records"),
    ],
)
def test_bad_sources(source, error, message):
    with pytest.raises(error, match=message):
        PMF.log_prob(source)


# Imputation

HOWS = st.sampled_from(("mode", "sample"))


def labels_of(frame, names):
    """Return the columns of a frame of any library as lists of Python labels."""
    if isinstance(frame, np.ndarray):
        return {name: frame[:, index].tolist() for index, name in enumerate(names)}
    if isinstance(frame, pa.Table):
        return frame.to_pydict()
    return {
        name: (frame[name].to_list() if isinstance(frame, pl.DataFrame) else frame[name].tolist()) for name in names
    }


@pytest.mark.filterwarnings("ignore:.*impossible under the model")
@given(st.data())
@quick
def test_imputation_fills_every_hole_and_changes_nothing_else(data):
    # Columns of one type: polars and Arrow have no others.
    pure = [(("no", "yes", "maybe"),), ((0, 1, 2),), ((0.5, 1.5, 3.0),), ((True, False),)]
    kinds = data.draw(st.sampled_from([*pure, tuple(kind[0] for kind in pure)]))
    pmf = data.draw(pmfs(data.draw(schemas(kinds=kinds, max_variables=3))))
    frame = data.draw(frames(pmf.schema)).assign(note=1.5)
    names = pmf.schema.names
    rows = {name: frame[name].tolist() for name in (*names, "note")}
    sources = [frame, pl.DataFrame(rows, strict=False), pa.table(rows), frame[list(names)].to_numpy()]
    if len(kinds) == 1 and not isinstance(kinds[0][0], bool | str):
        sources.append(frame[list(names)].to_numpy().astype(float))
    how = data.draw(HOWS)
    possible = pmf.log_prob(frame[list(names)]) > -np.inf
    results = []
    for source in sources:
        filled = pmf.impute(source, how=how, seed=7)
        assert type(filled) is type(source)
        before, after = labels_of(source, names), labels_of(filled, names)
        for name in names:
            assert len(before[name]) == len(after[name])
            for old, new, is_possible in zip(before[name], after[name], possible, strict=True):
                if brute.is_missing(old) and not is_possible:
                    assert brute.is_missing(new)
                    continue
                assert pmf.schema[name].find(new) is not None
                assert brute.is_missing(old) or label_key(old) == label_key(new)
        results.append(
            {name: [None if brute.is_missing(one) else label_key(one) for one in after[name]] for name in names}
        )
        if not isinstance(source, np.ndarray):
            assert list(getattr(filled, "column_names", filled.columns)) == [*names, "note"]
    assert all(result == results[0] for result in results)
    assert rows == {name: frame[name].tolist() for name in (*names, "note")} or len(frame) == 0


@pytest.mark.filterwarnings("ignore:.*impossible under the model")
@given(st.data())
@quick
def test_imputed_modes_are_brute_force(data):
    pmf = data.draw(pmfs())
    frame = data.draw(frames(pmf.schema))
    filled = pmf.impute(frame)
    joint = brute.write_out(pmf)
    for old, new in zip(frame.itertuples(index=False), filled.itertuples(index=False), strict=True):
        event = brute.record_event(pmf.schema, old)
        kept = brute.restrict(joint, pmf.schema, event)
        if kept.sum() == 0:
            continue
        for name, was, label in zip(pmf.schema.names, old, new, strict=True):
            if brute.is_missing(was):
                shares = brute.marginal(kept, pmf.schema, [name]) / kept.sum()
                assert shares[pmf.schema[name].code(label)] == pytest.approx(shares.max(), rel=1e-9)


@pytest.mark.filterwarnings("ignore:.*impossible under the model")
@given(st.data())
@quick
def test_imputed_means_are_brute_force(data):
    pmf = data.draw(pmfs(data.draw(schemas(kinds=((0, 1, 2, 5), (2.5, 1, -3))))))
    frame = data.draw(frames(pmf.schema))
    filled = pmf.impute(frame, how="mean")
    joint = brute.write_out(pmf)
    for old, new in zip(frame.itertuples(index=False), filled.itertuples(index=False), strict=True):
        kept = brute.restrict(joint, pmf.schema, brute.record_event(pmf.schema, old))
        for name, was, got in zip(pmf.schema.names, old, new, strict=True):
            if brute.is_missing(was):
                assert isinstance(got, float) or kept.sum() == 0
                if kept.sum() > 0:
                    shares = brute.marginal(kept, pmf.schema, [name]) / kept.sum()
                    assert got == pytest.approx(float(shares @ pmf.schema[name].values), abs=1e-9)
            else:
                assert got == was


def test_samples_fill_a_record_jointly():
    pmf = JointPMF([0.5, 0.5], [[[1, 0], [0, 1]], [[1, 0], [0, 1]]], SCHEMA)
    holes = pd.DataFrame({"age": [None] * 1000, "vote": [None] * 1000})
    filled = pmf.impute(holes, how="sample")
    assert ((filled["age"] == "old") == (filled["vote"] == "yes")).all()
    assert 400 < (filled["age"] == "old").sum() < 600
    pd.testing.assert_frame_equal(filled, pmf.impute(holes, how="sample"))
    assert not filled.equals(pmf.impute(holes, how="sample", seed=1))
    half = pmf.impute(pd.DataFrame({"age": ["old"] * 50, "vote": [None] * 50}), how="sample")
    assert (half["vote"] == "yes").all()


def test_dtypes_stay_where_they_can():
    schema = Schema((Variable("rating", (1, 2, 3)), Variable("vote", ("no", "yes"))))
    pmf = JointPMF([1], [[[0.1], [0.2], [0.7]], [[0.9], [0.1]]], schema)
    pandas = pd.DataFrame(
        {
            "rating": pd.array([1, None], dtype="Int64"),
            "id": [7, 8],
            "vote": pd.Categorical([None, "yes"], categories=["yes"]),
        },
        index=[5, 5],
    )
    filled = pmf.impute(pandas)
    assert filled.dtypes.astype(str).tolist() == ["Int64", "int64", "category"]
    assert filled["rating"].tolist() == [1, 3]
    assert filled["vote"].tolist() == ["no", "yes"]
    assert filled.index.tolist() == [5, 5]
    polars = pl.DataFrame({"vote": pl.Series([None, "yes"], dtype=pl.Categorical), "rating": [1, None]})
    filled = pmf.impute(polars)
    assert filled.schema == polars.schema
    assert filled.rows() == [("no", 1), ("yes", 3)]
    assert polars.rows() == [(None, 1), ("yes", None)]
    arrow = pa.table({"vote": pa.array([None, "yes"]).dictionary_encode(), "rating": pa.array([1, None], pa.int8())})
    filled = pmf.impute(arrow)
    assert filled.schema == arrow.schema
    assert filled.to_pylist() == [{"vote": "no", "rating": 1}, {"vote": "yes", "rating": 3}]
    texts = np.array([["1", "?"], ["", "yes"]])
    assert JointPMF([1], [[[0.4], [0.6]], [[0.9], [0.1]]], Schema((Variable("a", ("1", "longer")), VOTE))).impute(
        texts
    ).tolist() == [["1", "no"], ["longer", "yes"]]
    means = pmf.impute(polars.select("rating"), how="mean")
    assert means["rating"].to_list() == [1.0, pytest.approx(2.6)]


@pytest.mark.parametrize(("declared", "kept"), [(["no", "yes"], pl.Enum), (["yes"], pl.String)])
def test_an_enum_stays_where_it_has_the_category(declared, kept):
    pmf = JointPMF([1], [[[0.9], [0.1]]], Schema((VOTE,)))
    filled = pmf.impute(pl.DataFrame({"vote": pl.Series([None, "yes"], dtype=pl.Enum(declared))}))
    assert filled["vote"].dtype == kept
    assert filled["vote"].to_list() == ["no", "yes"]


def test_dates_stay_dates():
    frame = pd.DataFrame({"day": pd.to_datetime(["2024-01-01", None, "2024-01-01", "2024-02-01"])})
    records = Records(frame)
    label = records.schema["day"].categories[0]
    pmf = JointPMF([1], [[[0.9], [0.1]]], records.schema)
    assert isinstance(label, str)
    filled = pmf.impute(frame)
    assert filled["day"].dtype == frame["day"].dtype
    assert filled["day"][1] == pd.Timestamp("2024-01-01")
    assert pmf.impute(pl.from_pandas(frame))["day"].to_list() == filled["day"].tolist()
    assert pmf.impute(pa.Table.from_pandas(frame))["day"].to_pylist() == filled["day"].tolist()


@pytest.mark.parametrize(
    "frame_of", [pd.DataFrame, pl.DataFrame, pa.table, lambda columns: pd.DataFrame(columns, dtype=object)]
)
def test_durations_stay_durations(frame_of):
    waits = [timedelta(days=-1, hours=1), timedelta(days=-1, hours=1), timedelta(minutes=5)]
    pmf = tw.fit(frame_of({"wait": waits}), rank=1)
    filled = pmf.impute(frame_of({"wait": [None, waits[2], None]}))
    cells = filled["wait"].to_pylist() if isinstance(filled, pa.Table) else list(filled["wait"])
    assert cells == [waits[0], waits[2], waits[0]]


@pytest.mark.parametrize("frame_of", [pd.DataFrame, lambda columns: pl.DataFrame(pa.table(columns)), pa.table])
def test_durations_keep_their_nanoseconds(frame_of):
    waits = pa.array([1, 1, 3_000_000_007], pa.duration("ns"))
    pmf = tw.fit(frame_of({"wait": waits.to_pandas() if frame_of is pd.DataFrame else waits}), rank=1)
    hidden = pa.array([None, 1, None], pa.duration("ns"))
    filled = pmf.impute(frame_of({"wait": hidden.to_pandas() if frame_of is pd.DataFrame else hidden}))
    column = (
        filled["wait"].to_arrow() if isinstance(filled, pl.DataFrame) else pa.table({"wait": filled["wait"]})["wait"]
    )
    assert column.cast(pa.int64()).to_pylist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda: PMF.impute(pd.DataFrame({"vote": [None]}), how="mod"), UnknownNameError, "did you mean 'mode'"),
        (lambda: PMF.impute([{"vote": None}]), DataError, "pandas, polars and pyarrow frames.*got list"),
        (lambda: PMF.impute(np.zeros((2, 3))), DataError, r"2 variables in order; got the shape \(2, 3\)"),
    ],
)
def test_bad_imputations(ask, error, message):
    with pytest.raises(error, match=message):
        ask()


def test_a_mean_does_not_fit_among_text():
    pmf = JointPMF([1], [[[0.5], [0.5]]], Schema((Variable("size", ("s", "l"), (0, 1)),)))
    assert pmf.impute(pd.DataFrame({"size": ["s", None]}), how="mean")["size"].tolist() == ["s", 0.5]
    with pytest.raises(DataError, match=r"column 'size' of type String cannot hold 0\.5"):
        pmf.impute(pl.DataFrame({"size": ["s", None]}), how="mean")


def test_holes_of_several_blocks_are_filled_in_place():
    pmf = random_pmf(numbered(6, 3), 3)
    rng = np.random.default_rng(0)
    whole = pmf.sample(40_000, seed=1).to_numpy().astype(float)
    holes = np.where(rng.random(whole.shape) < 0.3, np.nan, whole)
    assert len(Records(holes).blocks()) > 1
    filled = pmf.impute(holes)
    np.testing.assert_array_equal(filled[~np.isnan(holes)], whole[~np.isnan(holes)])
    for record in (0, 20_000, 39_999):
        np.testing.assert_array_equal(filled[[record]], pmf.impute(holes[[record]]))


# Averages


@given(st.data())
@quick
def test_average_is_the_mixture(data):
    schema = data.draw(schemas())
    members = data.draw(st.lists(pmfs(schema=schema), min_size=1, max_size=3))
    shares = data.draw(st.lists(st.integers(1, 5), min_size=len(members), max_size=len(members)))
    joints = [brute.write_out(pmf) for pmf in members]
    average = JointPMF.average(members)
    assert average.rank == sum(pmf.rank for pmf in members)
    np.testing.assert_allclose(brute.write_out(average), np.mean(joints, axis=0), atol=1e-14)
    weighted = JointPMF.average(members, shares=shares)
    np.testing.assert_allclose(brute.write_out(weighted), np.average(joints, axis=0, weights=shares), atol=1e-14)


@pytest.mark.parametrize(
    ("variables", "difference"),
    [
        ((AGE, Variable("region", ("n", "s"))), "'vote' .*'region'"),
        ((AGE, Variable("vote", ("yes", "no"))), "'vote' .*'no' .*'yes'"),
        ((AGE, Variable("vote", ("no", "yes"), (0, 1))), r"'vote' .*None .*\(0.0, 1.0\)"),
        ((AGE,), "2 variables .*1"),
    ],
)
def test_average_of_different_schemas_shows_the_difference(variables, difference):
    schema = Schema(variables)
    other = JointPMF([1], [np.full((len(variable), 1), 1 / len(variable)) for variable in schema], schema)
    with pytest.raises(DataError, match=rf"pmfs\[1\] .*{difference}"):
        JointPMF.average([PMF, other])


@pytest.mark.parametrize("shares", [[1], [1, -1], [0, 0], [1, math.nan], ["a", "b"]])
def test_bad_shares(shares):
    with pytest.raises(DataError, match="shares must be"):
        JointPMF.average([PMF, PMF], shares=shares)
    with pytest.raises(DataError, match="pmfs is empty"):
        JointPMF.average([])


def test_an_average_names_the_member_that_is_not_a_model():
    with pytest.raises(DataError, match=r"pmfs\[1\] must be a JointPMF, .* not str"):
        JointPMF.average([PMF, "PMF"])


def test_what_is_not_known_is_no_evidence():
    row = {"age": None, "vote": float("nan")}
    assert PMF.prob(row) == 1.0
    np.testing.assert_array_equal(PMF.given(row).stacked, PMF.stacked)


def test_means_where_there_are_values_and_modes_elsewhere():
    schema = Schema((Variable("n", (1, 2, 4)), Variable("t", ("a", "b"))))
    pmf = JointPMF([1.0], [[[0.5], [0.25], [0.25]], [[0.3], [0.7]]], schema)
    filled = pmf.impute(pd.DataFrame({"n": [None, 1.0], "t": ["a", None]}), how="mean")
    assert filled["n"].tolist() == [2.0, 1.0]
    assert filled["t"].tolist() == ["a", "b"]


@quick
@given(pmfs(min_variables=1, max_variables=4))
def test_the_information_of_all_pairs_is_that_of_each(pmf):
    table = information.pairwise_information(pmf.trees)
    names = pmf.schema.names
    each = [[pmf.entropy(a) if a == b else pmf.mutual_information(a, b) for b in names] for a in names]
    np.testing.assert_allclose(table, each, atol=1e-12)


def test_information_of_what_hardly_ever_happens():
    """Two shares so small that their product is no number any more."""
    schema = Schema((Variable("a", (0, 1)), Variable("b", (0, 1))))
    pmf = JointPMF.from_stacked(schema, np.array([1.0, 1e-200]), np.vstack([np.eye(2), np.eye(2)]))
    table = information.pairwise_information(pmf.trees)
    assert np.isfinite(table).all()
    assert (table >= 0).all()


def test_arguments_in_the_wrong_order_raise_a_short_error():
    schema = Schema(tuple(Variable(f"x{n}", tuple(range(100))) for n in range(50)))
    weights, factors = [1.0], [np.full((100, 1), 0.01)] * 50
    for arguments in ((schema, weights, factors), (weights, schema, factors), (factors, weights, schema)):
        with pytest.raises(DataError) as raised:
            JointPMF(*arguments)
        assert len(str(raised.value)) < 500
    with pytest.raises(DataError, match=r"JointPMF\(weights, factors, schema\)"):
        JointPMF(weights, schema, factors)


def test_more_records_than_there_can_be():
    pmf = JointPMF([1.0], [[[0.5], [0.5]]], Schema((Variable("a", (0, 1)),)))
    with pytest.raises(DataError, match="at most 1,000,000,000,000"):
        pmf.sample(99999999999999999999)


def test_expectations_of_what_has_no_numbers():
    with pytest.raises(DataError, match=r"'vote' .* Variable\(name, categories, values\)"):
        JointPMF([1.0], [[[0.5], [0.5]]], Schema((Variable("vote", ("no", "yes")),))).expect("vote")


def test_probabilities_of_modes_are_at_most_one():
    """Rounding may add up to a little more."""
    pmf = JointPMF([0.1] * 10, [np.ones((1, 10))], Schema((Variable("a", (0,)),)))
    assert pmf.mode(["a"]).probability <= 1.0
    assert dirichlet_rows(2, 2, 2).mode().probability <= 1.0


def test_a_model_in_a_line():
    one = JointPMF([1.0], [[[0.5], [0.5]]], Schema((Variable("a", (1, 2)),)))
    assert repr(one) == "JointPMF(rank 1, 1 variable: a (2))"
    assert repr(dirichlet_rows(2, 3, 2)) == "JointPMF(rank 2, 2 variables: x1 (3), x2 (3))"
    listed = ", ".join(f"x{place} (3)" for place in range(1, 7))
    assert repr(dirichlet_rows(6, 3, 2)) == f"JointPMF(rank 2, 6 variables: {listed})"
    assert repr(dirichlet_rows(7, 3, 2)) == f"JointPMF(rank 2, 7 variables: {listed}, … (1 more))"
    assert repr(dirichlet_rows(8, 3, 2)) == f"JointPMF(rank 2, 8 variables: {listed}, … (2 more))"


def test_a_model_in_a_notebook_lists_the_most_probable_category_of_each_variable():
    schema = Schema((Variable("vote", ("no", "yes", "unsure")), Variable("age", ("young", "old"))))
    pmf = JointPMF([0.5, 0.5], [[[0.2, 0.1], [0.5, 0.7], [0.3, 0.2]], [[0.8, 0.6], [0.2, 0.4]]], schema)
    cells = re.findall("<t[dh][^>]*>(.*?)</t[dh]>", pmf._repr_html_())
    text = [re.sub("<[^>]*>", "", cell) for cell in cells]
    assert text[-8:] == ["vote", "3", "yes", "0.6000", "age", "2", "young", "0.7000"]


def test_a_model_in_a_notebook_says_how_many_variables_it_leaves_out():
    assert "more variables" not in dirichlet_rows(MAX_ROWS, 2, 2)._repr_html_()
    assert "… 1 more variable<" in dirichlet_rows(MAX_ROWS + 1, 2, 2)._repr_html_()


def test_no_probability_is_above_one():
    """Sums of all categories are above one by rounding now and then."""
    models = [dirichlet_rows(3, 5, 4, seed=seed) for seed in range(200)]
    sums = [(pmf.weights * np.prod([factor.sum(axis=0) for factor in pmf.factors], axis=0)).sum() for pmf in models]
    assert max(sums) > 1.0
    everything = {name: list(range(5)) for name in ("x1", "x2", "x3")}
    assert max(pmf.prob(everything) for pmf in models) == 1.0


# The model behind a variable


def test_the_model_behind_a_variable_is_that_of_its_hidden_variable():
    schema = Schema(tuple(Variable(f"x{n}", tuple(range(size))) for n, size in enumerate(SIZES)))
    tree = random_tree((-1, 0, 1, 1), seed=2)
    pmf = JointPMF.from_trees(schema, Trees(np.ones(1), (tree,)))
    for index, name in enumerate(schema.names):
        behind = pmf_behind(pmf, name, "plot_components")
        assert behind.rank == tree.n_states[tree.homes[index]]
        np.testing.assert_allclose(behind.factors[index], tree.factors[index])
        for other in schema.names:
            np.testing.assert_allclose(behind.marginal(other), pmf.marginal(other))
