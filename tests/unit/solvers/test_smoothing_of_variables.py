"""Smoothing of each variable by its own evidence: how it is chosen, kept and used again."""

import numpy as np
import pandas as pd
import pytest
from hidden_trees import SIZES, random_tree

import twoway as tw
from twoway.datasets import draw_records
from twoway.model.trees import Trees
from twoway.solvers import smoothing as smoothing_module
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.heldout import HeldOut, held_out_cell_scores
from twoway.solvers.smoothing import Smoothing, SmoothingTrial
from twoway.solvers.tree import Tree
from twoway.uncertainty.replication import replicate_smoothings


def study(n_records, seed=0):
    """Six variables on a chain, hardly noisy; one of 30 categories that is all noise, and one that is none."""
    rng = np.random.default_rng(seed)
    state, columns = rng.integers(0, 3, n_records), {}
    for name in "abcdef":
        state = np.where(rng.random(n_records) < 0.9, state, rng.integers(0, 3, n_records))
        columns[name] = np.where(rng.random(n_records) < 0.95, state, rng.integers(0, 3, n_records))
    columns["noisy"] = rng.integers(0, 30, n_records)
    columns["sharp"] = 10 * state + rng.integers(0, 10, n_records)
    return pd.DataFrame(columns).astype(str)


@pytest.fixture(scope="module")
def fitted():
    return tw.fit(study(400), structure="tree", rank=6, starts=1)


@pytest.mark.parametrize("parents", [(-1, 0, 1, 1), (-1, 0, 0, 0), (-1,)])
def test_cells_are_scored_given_the_others_of_their_record(parents):
    n_hidden = len(parents)
    homes = (0, 1, 2, 3, 3, 1) if n_hidden > 1 else (0,) * 6
    tree = random_tree(parents, n_states=(3, 2, 4, 3)[:n_hidden], homes=homes)
    schema = tw.Schema(tuple(tw.Variable(f"x{n}", tuple(range(size))) for n, size in enumerate(SIZES)))
    pmf = tw.JointPMF.from_trees(schema, Trees(np.ones(1), (tree,)))
    records = draw_records(pmf, 12, observed=0.6, seed=1)
    expected = []
    for record in records.codes():
        event = {f"x{n}": int(code) for n, code in enumerate(record) if code >= 0}
        for name in event:
            others = {other: label for other, label in event.items() if other != name}
            expected.append(np.log(pmf.prob(event) / pmf.prob(others)))
    np.testing.assert_allclose(held_out_cell_scores(pmf, records), expected, rtol=1e-12, atol=1e-12)


class Landscape:
    """Held-out cells of three variables, 40 each in two folds: a parabola around what each asks for."""

    def __init__(self, wanted, noise=0.0):
        self.wanted, self.noise, self.tried = np.log2(wanted), noise, []

    def __call__(self, smoothing):
        self.tried.append(smoothing)
        own = np.log2(smoothing.factors * np.array(smoothing.times or (1.0, 1.0, 1.0)))
        scores = np.tile(-np.square(own - self.wanted), 80)
        scores += self.noise * np.log2(smoothing.factors) * np.random.default_rng(0).normal(size=240)
        return SmoothingTrial(smoothing, HeldOut(scores.reshape(80, 3).sum(axis=1), np.ones(80)), False, scores)


def cells_of_three():
    schema = tw.Schema(tuple(tw.Variable(name, ("u", "v")) for name in "abc"))
    codes = np.zeros((40, 3), dtype=int)
    fold = tw.Records(pd.DataFrame(codes, columns=list("abc")).replace(0, "u"), schema=schema)
    return smoothing_module._CellsToSmooth([fold.reweighted(np.ones(40))] * 2, 1.0)


def tuned(landscape):
    common = landscape(Smoothing(1.0, 1.0))
    amounts = [common, *(landscape(Smoothing(amount, amount)) for amount in (4.0, 0.25))]
    return [
        trial.smoothing
        for trial in smoothing_module._smooth_variables(landscape, common, common, amounts, cells_of_three())
    ]


def test_each_variable_gets_what_its_own_cells_ask_for():
    assert tuned(Landscape((1.0, 4.0, 0.25)))[-1] == Smoothing(1.0, 1.0, (1.0, 4.0, 0.25))


def test_a_variable_goes_on_as_long_as_it_gains():
    steps = tuned(Landscape((1.0, 1.0, 64.0)))
    assert [step.times for step in steps] == [(1.0, 1.0, 4.0), (1.0, 1.0, 16.0), (1.0, 1.0, 64.0)]
    assert tuned(Landscape((1.0, 1.0, 1e9)))[-1].times == (1.0, 1.0, smoothing_module._MOST_TIMES)


def test_a_variable_that_asks_for_nothing_keeps_the_amount_of_all():
    """Whatever others ask for, and in whatever order amounts were tried."""
    landscape = Landscape((1.0, 16.0, 1.0))
    amounts = [landscape(Smoothing(amount, amount)) for amount in (0.25, 1.0, 4.0)]
    common, cells = amounts[1], cells_of_three()
    list(smoothing_module._smooth_variables(landscape, common, common, amounts, cells))
    assert {smoothing.times[::2] for smoothing in landscape.tried[3:]} == {(1.0, 1.0)}
    assert landscape.tried[3].times[1] == 4.0


def test_what_is_not_clear_is_left_alone():
    landscape = Landscape((1.0, 2.1, 1.0), noise=2.0)
    assert tuned(landscape) == []
    assert len(landscape.tried) == 3, "nothing else is tried"


def test_a_fold_that_moves_as_a_whole_is_no_evidence():
    """All cells of one fold gain, those of the other do not: what chance is among folds counts."""
    cells = cells_of_three()
    plain = SmoothingTrial(Smoothing(1.0, 1.0), HeldOut(np.zeros(80), np.ones(80)), False, np.zeros(240))
    moved = SmoothingTrial(Smoothing(4.0, 4.0), plain.held_out, False, np.repeat([1.0, 0.0], 120))
    both = SmoothingTrial(Smoothing(4.0, 4.0), plain.held_out, False, np.ones(240))
    assert not cells.clear_gains(plain, moved, np.full(3, 4.0)).any()
    assert (cells.clear_gains(plain, both, np.full(3, 4.0)) == 1.0).all()


@pytest.mark.parametrize(("second", "is_clear"), [(0.30, False), (0.36, True)])
def test_a_gain_is_clear_where_it_is_two_standard_errors_of_the_mean_of_folds(second, is_clear):
    cells, none = cells_of_three(), HeldOut(np.zeros(80), np.ones(80))
    of_folds = np.array([1.0, second])
    error = of_folds.std(ddof=1) / np.sqrt(2)
    assert (of_folds.mean() > 2.0 * error) == is_clear
    plain = SmoothingTrial(Smoothing(1.0, 1.0), none, False, np.zeros(240))
    moved = SmoothingTrial(Smoothing(4.0, 4.0), none, False, np.repeat(of_folds, 120))
    expected = of_folds.mean() if is_clear else 0.0
    np.testing.assert_allclose(cells.clear_gains(plain, moved, np.full(3, 4.0)), expected)


def test_less_smoothing_must_gain_more_than_one_cell_can_lose():
    """80 cells that all gain: one that was not held out may lose the logarithm of the ratio, with that as its error."""
    cells, none = cells_of_three(), HeldOut(np.zeros(80), np.ones(80))
    plain = SmoothingTrial(Smoothing(1.0, 1.0), none, False, np.zeros(240))
    loss = np.log(4.0) / 80
    for gain, expected in ((2.9 * loss, 0.0), (3.1 * loss, 2.1 * loss)):
        less = SmoothingTrial(Smoothing(0.25, 0.25), none, False, np.full(240, gain))
        np.testing.assert_allclose(cells.clear_gains(plain, less, np.full(3, 0.25)), expected)
        assert (cells.clear_gains(plain, less, np.full(3, 4.0)) > 0).all()


@pytest.mark.slow
def test_a_noisy_variable_gets_more_than_others(fitted):
    """One column of 30 categories must not wash out those of 3, nor be read as they are."""
    times = dict(fitted.report.smoothing_times)
    assert times.pop("noisy") >= 4.0
    assert all(own <= 1.0 for own in times.values())
    assert "times as many for 'noisy'" in str(fitted.report)
    single = tw.fit(study(300)[["a", "b", "c", "noisy"]], structure="single", rank=2, starts=1)
    assert single.report.smoothing_times["noisy"] >= 4.0


def test_tables_ask_for_it_too():
    """From tables little is fixed for all; what depends clearly gets less."""
    pmf = tw.fit(tw.count(study(1500)[["a", "c", "e", "sharp"]]), structure="tree", rank=6, starts=1)
    assert pmf.report.smoothing == 0.2
    assert pmf.report.smoothing_times.get("sharp", 1.0) < 1.0


def test_what_was_chosen_is_kept_and_used_again(fitted, tmp_path):
    schema, report = fitted.schema, fitted.report
    fitted.save(tmp_path / "study.twoway")
    loaded = tw.load(tmp_path / "study.twoway")
    assert loaded.report.smoothing_times == report.smoothing_times != {}
    smoothing = Smoothing.of_report(loaded.report, schema)
    assert smoothing.named_times(schema) == report.smoothing_times
    drawn, chances = replicate_smoothings(loaded)
    assert drawn[int(chances.argmax())][:2] == pytest.approx(smoothing[:2])
    assert drawn[int(chances.argmax())].times == smoothing.times
    assert tw.update(loaded, study(50, seed=1)).report.smoothing_times == report.smoothing_times


def test_rows_of_a_variable_get_so_many_times_as_much(fitted):
    sets = CellSets.of_records(tw.Records(study(50), schema=fitted.schema), 1)
    plain, _ = sets.smoothing_of_rows(fitted, Smoothing(2.0, 1.0))
    more, _ = sets.smoothing_of_rows(fitted, Smoothing(2.0, 1.0, (1, 1, 1, 1, 1, 1, 5, 1)))
    ratios = more[-fitted.schema.n_categories :] / plain[-fitted.schema.n_categories :]
    assert set(ratios[fitted.schema.cells(6)]) == {5.0}
    assert ratios.sum() == pytest.approx(len(ratios) + 4 * fitted.schema.sizes[6])


def test_folds_of_tables_begin_without_what_is_held_out(monkeypatch):
    tables, seen, start = tw.count(study(300)), [], Tree._start

    def look(self, evidence, *others):
        seen.append(evidence.tables(2).totals.sum())
        return start(self, evidence, *others)

    monkeypatch.setattr(Tree, "_start", look)
    tw.fit(tables, structure="tree", rank=3, starts=1)
    *folds, whole = seen
    assert whole == tables.totals.sum()
    assert len(folds) == 5
    assert sum(folds) == 4 * whole
