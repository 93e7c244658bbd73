"""Updating a model with new records: close to a fit of all, at the cost of the new ones."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples, frames, schemas

import twoway as tw
from twoway.cli import run
from twoway.data.records import Records
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError, FileFormatError, UnknownNameError
from twoway.fitting.sources import evidence_of_source
from twoway.report import StopReason
from twoway.schema import Schema, Variable
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.loop import Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.theta import theta_of
from twoway.solvers.watch import Watch
from twoway.storage.container import read_container, write_container

TRUTH = dirichlet_rows(8, 3, 3, seed=1)
DAYS = [draw_records(TRUTH, 600, observed=0.6, seed=day) for day in range(5)]
N_HEARD = [day.n_records - day.n_silent for day in DAYS]
FRESH = draw_records(TRUTH, 4000, observed=1.0, seed=99)


def fit(source, structure="single", **options):
    """Return a quick fit, always with the same smoothing unless told otherwise."""
    if structure == "tree":
        return tw.fit(source, structure="tree", starts=1, **{"rank": 3, "smoothing": 0.2} | options)
    options = {"rank": 3, "smoothing": 2.0} | options
    return tw.fit(source, **{"solver": "spa+em"} | options)


FIRSTS = {structure: fit(DAYS[:4], structure) for structure in ("single", "tree")}
FIRST = FIRSTS["single"]
both = pytest.mark.parametrize("structure", FIRSTS)


def test_the_tree_is_one():
    assert FIRSTS["tree"].n_hidden > 1


def score(pmf):
    """Return the log-likelihood a fresh record."""
    return float(np.mean(pmf.log_prob(FRESH)))


class Watched:
    """Records that count how often their cells were looked at."""

    def __init__(self, records):
        self._records, self.cells_seen = records, 0

    def __getattr__(self, name):
        return getattr(self._records, name)

    def for_fit(self):
        return self

    def sample(self, n_observed, seed):
        return self._records.sample(n_observed, seed=seed)

    def map_reduce(self, per_block, combine, *, threads=None):
        self.cells_seen += self._records.n_observed
        return self._records.map_reduce(per_block, combine, threads=threads)


@both
def test_an_update_comes_close_to_a_fit_of_all_records(structure):
    first = FIRSTS[structure]
    updated, all_at_once = tw.update(first, DAYS[4]), fit(DAYS, structure)
    assert score(updated) > score(first)
    assert (updated.n_hidden, updated.report.n_hidden) == (first.n_hidden, first.n_hidden)
    assert updated.report.n_parameters == updated.n_parameters == first.n_parameters
    assert score(updated) > score(all_at_once) - (0.005 if structure == "single" else 0.01)
    assert updated.report.n_records == all_at_once.report.n_records == sum(N_HEARD)
    assert updated.report.n_observed == all_at_once.report.n_observed


def test_an_updated_tree_is_near_what_records_and_their_tables_ask_for():
    """The tables of new records do not count besides: with them, an update comes no closer."""
    sets, smoothing = evidence_of_source(DAYS, None)[0].tree_sets(), Smoothing(0.2, 0.2)

    def descent(pmf, passes):
        return fit_cells_by_em(sets, pmf, smoothing, Loop("", passes, 1e-7, Watch())).objectives

    first = fit(DAYS[:2], "tree")
    updated = tw.update(first, Records.joined(DAYS[2:]))
    assert first.report.counts_tables
    best = descent(updated, 500)[-1]
    assert descent(updated, 1)[0] - best < 0.25 * (descent(first, 1)[0] - best)


@both
def test_the_counts_beside_answers_include_the_new_records(structure):
    updated = tw.update(fit(DAYS[:2], structure), DAYS[2])
    counted = tw.count(Records.joined(DAYS[:3]))
    np.testing.assert_array_equal(updated.counts.tables.flat, counted.flat)
    np.testing.assert_array_equal(updated.counts.tables.totals, counted.totals)


@both
def test_day_after_day_from_a_single_one(structure):
    first = fit(DAYS[0], structure)
    pmf = first
    for day in DAYS[1:]:
        pmf = tw.update(pmf, day)
    # What the later days brought, of what they could bring.
    gained, possible = score(pmf) - score(first), score(fit(DAYS, structure)) - score(first)
    assert gained > (0.8 if structure == "single" else 0.75) * possible > 0


@both
def test_the_cost_is_that_of_the_new_records(structure):
    seen = {}
    for n_days in (1, 4):
        watched = Watched(DAYS[4].for_fit())
        tw.update(fit(DAYS[:n_days], structure, rank=2), watched, max_iter=10, tol=0)
        seen[n_days] = watched.cells_seen
    # Ten passes, one to end with, one for the overall shares and one to count pairs, whatever there was before.
    assert seen[1] == seen[4] == 13 * DAYS[4].n_observed


@both
def test_the_objective_never_gets_worse(structure):
    for smoothing in (0.0, 2.0):
        pmf = tw.update(fit(DAYS[0], structure, smoothing=smoothing), DAYS[1], max_iter=60, tol=0)
        assert (np.diff(pmf.report.starts[0].objectives) <= 1e-12).all()
        assert pmf.report.stop_reason is StopReason.MAX_ITER


@both
def test_the_factors_are_the_expected_counts_over_their_support(structure):
    """What is remembered adds: the support grows by the new records that show each variable, or one beyond it."""
    first = FIRSTS[structure]
    updated, (tree,) = tw.update(first, DAYS[4]), first.trees.trees
    rests = updated.report.support[0] + updated.report.weight_smoothing
    np.testing.assert_allclose(rests / rests.sum(), updated.trees.trees[0].weights)
    gained = (updated.report.support - first.report.support).sum(axis=1)
    observed = DAYS[4].codes() >= 0
    beyond = [observed[:, np.array(tree.homes) == k].any(axis=1) for k in range(tree.n_hidden)]
    for child in range(tree.n_hidden - 1, 0, -1):
        beyond[tree.parents[child]] |= beyond[child]
    expected = [*(some.sum() for some in beyond), *observed.sum(axis=0)]
    np.testing.assert_allclose(gained, expected, rtol=1e-6)
    assert expected[0] == N_HEARD[4]
    assert first.report.support[0].sum() == pytest.approx(first.report.n_records) == sum(N_HEARD[:4])


@both
def test_complete_records_of_one_component_are_simply_counted(structure):
    one, other = (draw_records(TRUTH, n, observed=1.0, seed=n) for n in (100, 300))
    for smoothing in (0.0, 10.0, 1e6):  # which draws toward shares that are those of all records by then
        first, both = (fit(records, structure, rank=1, smoothing=smoothing) for records in (one, [one, other]))
        for name in TRUTH.schema.names:
            np.testing.assert_allclose(tw.update(first, other).marginal(name), both.marginal(name), atol=1e-3)


@given(st.data())
@examples(15)
def test_an_update_without_records_changes_nothing(data):
    schema = data.draw(schemas(min_variables=2, max_variables=3))
    frame = data.draw(frames(schema))
    records = Records(frame, schema=schema)
    if not records.n_observed:
        return
    pmf = tw.fit(records, rank=data.draw(st.integers(1, 2)), solver="em", smoothing=data.draw(st.sampled_from([0, 1])))
    empty = Records(frame[:0], schema=schema)
    for extend in (False, True):
        same = tw.update(pmf, empty, extend=extend)
        np.testing.assert_array_equal(same.stacked, pmf.stacked)
        np.testing.assert_array_equal(same.weights, pmf.weights)
        assert same.report == pmf.report
        np.testing.assert_array_equal(same.report.support, pmf.report.support)


@both
def test_records_that_weigh_next_to_nothing_change_next_to_nothing(structure):
    light, first = DAYS[4].reweighted(np.full(600, 1e-9)), FIRSTS[structure]
    np.testing.assert_allclose(theta_of(tw.update(first, light)), theta_of(first), atol=1e-6)


@both
def test_a_weighted_record_counts_as_often_as_it_weighs(structure):
    twice = DAYS[4].take(np.repeat(np.arange(600), 2))
    weighted = DAYS[4].reweighted(np.full(600, 2.0))
    updated = [theta_of(tw.update(FIRSTS[structure], records)) for records in (twice, weighted)]
    np.testing.assert_allclose(*updated, atol=1e-9)


@both
def test_a_new_category_is_an_error_that_names_it_or_becomes_one(structure):
    first = FIRSTS[structure]
    new = TRUTH.sample(400, seed=7).astype(object)
    new.loc[new["x3"] == 0, "x3"] = np.where(np.arange((new["x3"] == 0).sum()) % 2, 0, 9)
    with pytest.raises(UnknownNameError, match=r"no category 9 of 'x3'.*extend=True makes such labels categories"):
        tw.update(first, new)
    extended = tw.update(first, new, extend=True)
    assert extended.schema["x3"].categories == (0, 1, 2, 9)
    share = (new["x3"] == 9).mean() * 400 / (first.report.support[-6].sum() + 400)
    assert extended.prob({"x3": 9}) == pytest.approx(share, rel=0.2)
    # What it goes with is learned from the few records that show it: it is what 0 was.
    was, now = (np.asarray(pmf.given({"x3": c}).marginal("x1")) for pmf, c in ((first, 0), (extended, 9)))
    assert 0.5 * np.abs(was - now).sum() < 0.15
    for name in ("x1", "x2", "x8"):
        assert extended.schema[name] == first.schema[name]


def test_new_categories_where_nothing_is_smoothed_and_in_records_read_before():
    pmf = tw.fit({"a": ["x", "y"] * 20, "b": ["u", "v"] * 20}, rank=2, smoothing=0.0, solver="em")
    new = Records({"b": ["w", "u"] * 10, "a": ["z", "x"] * 10})
    with pytest.raises(UnknownNameError, match="no category 'z' of 'a'"):
        tw.update(pmf, new)
    updated = tw.update(pmf, new, extend=True)
    assert updated.schema["b"].categories == ("u", "v", "w")
    assert updated.prob({"a": "z"}) == pytest.approx(10 / 60)
    assert updated.prob({"a": "y"}) == pytest.approx(20 / 60)


def test_a_variable_that_was_never_observed():
    schema = Schema((Variable("a", "xy"), Variable("b", "xy")))
    pmf = tw.fit(Records({"a": ["x", "y"], "b": [None, None]}, schema=schema), rank=2, smoothing=0.0, solver="em")
    updated = tw.update(pmf, {"a": ["x", "x"]})
    assert updated.prob({"a": "x"}) == pytest.approx(3 / 4, abs=1e-6)
    assert updated.prob({"b": "x"}) == pytest.approx(1 / 2)


def test_what_was_impossible_can_happen():
    """Zeros of an unsmoothed model do not stand in the way of records that show them."""
    pmf = tw.fit({"a": ["x", "y"] * 20, "b": ["u", "v"] * 20}, rank=2, smoothing=0.0, solver="em")
    updated = tw.update(pmf, {"a": ["x"] * 10, "b": ["v"] * 10}, max_iter=200)
    assert updated.prob({"a": "x", "b": "v"}) > 0.1
    assert np.isfinite(updated.stacked).all()


@both
def test_a_model_of_tables_can_be_updated_too(structure):
    tables = tw.count(draw_records(TRUTH, 1000, observed=1.0, seed=1))
    pmf = fit(tables, structure) if structure == "tree" else tw.fit(tables, rank=3, solver="coupled-nmf")
    # A person stands in all tables, and counts once.
    np.testing.assert_allclose(pmf.report.support[[0, *range(pmf.n_hidden, len(pmf.report.support))]].sum(axis=1), 1000)
    assert score(tw.update(pmf, draw_records(TRUTH, 1000, observed=1.0, seed=3))) > score(pmf)


@both
def test_what_is_remembered_is_in_the_file(structure, tmp_path):
    first = FIRSTS[structure]
    first.save(tmp_path / "m.twoway")
    loaded = tw.load(tmp_path / "m.twoway")
    np.testing.assert_array_equal(loaded.report.support, first.report.support)
    updated = tw.update(loaded, DAYS[4])
    np.testing.assert_array_equal(theta_of(updated), theta_of(tw.update(first, DAYS[4])))
    updated.save(tmp_path / "n.twoway")
    assert tw.update(tw.load(tmp_path / "n.twoway"), DAYS[0]).report.n_records == sum(N_HEARD) + N_HEARD[0]


@both
def test_a_file_whose_memory_is_broken_is_refused(structure, tmp_path):
    FIRSTS[structure].save(tmp_path / "m.twoway")
    header, arrays = read_container(tmp_path / "m.twoway", "model")
    for wrong in (arrays["support"][1:], -arrays["support"], arrays["support"] * np.nan):
        write_container(tmp_path / "n.twoway", "model", header, {**arrays, "support": wrong})
        with pytest.raises(FileFormatError, match="support"):
            tw.load(tmp_path / "n.twoway")


def test_models_without_counts_cannot_be_updated(tmp_path):
    for forgetful in (TRUTH, FIRST.given({"x1": 0}), tw.JointPMF.average([FIRSTS["tree"], FIRST])):
        with pytest.raises(DataError, match="cannot add records"):
            tw.update(forgetful, DAYS[0])


def test_columns_that_the_model_does_not_have_are_passed_over_and_others_may_lack():
    frame = TRUTH.sample(50, seed=1)
    np.testing.assert_array_equal(tw.update(FIRST, frame.assign(more=1)).stacked, tw.update(FIRST, frame).stacked)
    assert tw.update(FIRST, frame[["x1", "x2"]]).report.n_records == FIRST.report.n_records + 50


def test_a_source_elsewhere_must_have_the_schema_of_the_model():
    watched = Watched(Records({"x1": [0, 1]}))
    with pytest.raises(DataError, match="schema of the model"):
        tw.update(FIRST, watched)


def test_given_values_need_one_for_a_new_category():
    schema = Schema((Variable("a", ("low", "high"), (1, 5)), Variable("b", (0, 1))))
    pmf = tw.fit(Records({"a": ["low", "high"], "b": [0, 1]}, schema=schema), rank=1)
    with pytest.raises(DataError, match="'a' has the values"):
        tw.update(pmf, {"a": ["huge"], "b": [1]}, extend=True)


def test_the_command_line_updates(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, seed in (("monday", 1), ("tuesday", 2)):
        TRUTH.sample(300, seed=seed).to_csv(f"{name}.csv", index=False)
    assert run(["fit", "monday.csv", "-o", "m.twoway", "--rank", "2", "--solver", "em"]) == 0
    assert run(["update", "m.twoway", "tuesday.csv", "-o", "n.twoway"]) == 0
    expected = tw.update(tw.load("m.twoway"), "tuesday.csv")
    np.testing.assert_array_equal(tw.load("n.twoway").stacked, expected.stacked)
    assert run(["update", "m.twoway", "tuesday.csv", "-o", "n.twoway"]) == 4  # it is there already
    TRUTH.sample(300, seed=3).replace({"x1": {0: 7}}).to_csv("odd.csv", index=False)
    capsys.readouterr()
    before = (tmp_path / "m.twoway").read_bytes()
    assert run(["update", "m.twoway", "odd.csv"]) == 3
    assert "no category 7 of 'x1'" in (told := capsys.readouterr().err)
    assert "--extend makes them categories" in told
    assert (tmp_path / "m.twoway").read_bytes() == before
    assert run(["update", "m.twoway", "odd.csv", "--extend", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["new_categories"] == [{"variable": "x1", "category": 7}]
    assert tw.load("m.twoway").report.n_records == 600


def test_the_command_line_fits_several_files(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TRUTH.sample(300, seed=1)[["x1", "x2", "x3"]].to_csv("a.csv", index=False)
    TRUTH.sample(300, seed=2)[["x3", "x4"]].to_csv("b.csv", index=False)
    assert run(["count", "b.csv", "-o", "b.tables"]) == 0
    fit = ["fit", "-o", "m.twoway", "--rank", "2", "--solver", "em", "--force"]
    assert run([*fit, "a.csv", "b.tables"]) == 0
    assert "2 sources together" in capsys.readouterr().out
    assert tw.load("m.twoway").schema.names == ("x1", "x2", "x3", "x4")
    assert run([*fit, "a.csv", "b.csv", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["sources"], told["records"]) == (2, 600)
    expected = tw.fit(["a.csv", "b.csv"], rank=2, solver="em")
    np.testing.assert_array_equal(tw.load("m.twoway").stacked, expected.stacked)
    assert run([*fit, "a.csv", "a.csv"]) == 3
    assert "given twice" in capsys.readouterr().err
    assert run([*fit, "a.csv", "b.csv", "--bins", "x3"]) == 3
    assert run([*fit, "a.csv", "m.twoway", "-o", "n.twoway"]) == 3
    TRUTH.sample(20, seed=2)[["x5", "x6"]].to_csv("c.csv", index=False)
    capsys.readouterr()
    assert run([*fit, "a.csv", "c.csv"]) == 3
    assert "(in a.csv); 'x5', 'x6' (in c.csv)" in capsys.readouterr().err
