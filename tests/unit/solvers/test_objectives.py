"""The reported objective of each solver equals its definition."""

from dataclasses import replace

import numpy as np
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.report import StopReason
from twoway.solvers import auto, coupled_nmf
from twoway.solvers.auto import Auto
from twoway.solvers.cell_sets import CellSets, expected_counts
from twoway.solvers.combined import MultiStart
from twoway.solvers.coupled_nmf import CoupledNMF
from twoway.solvers.ctd import CTD
from twoway.solvers.em import EM, annealed_by_em, fit_cells_by_em
from twoway.solvers.evidence import Evidence
from twoway.solvers.mle_ad import MLEAD
from twoway.solvers.problem import Problem
from twoway.solvers.smoothing import Smoothing, SmoothingChoice
from twoway.solvers.starts import random_start
from twoway.solvers.watch import Watch

TRUTH = dirichlet_rows(5, 3, 2, seed=2)
RECORDS = draw_records(TRUTH, 400, observed=0.7, seed=1).for_fit()


def problem(**options):
    return Problem(Evidence(RECORDS.schema, records=RECORDS, threads=1), 2, **options)


def distances(pmf, order, distance):
    """Return the distance of each counted table from the model's, and the table's total."""
    tables = tw.count(RECORDS, order)
    totals = tables.totals
    found = [
        distance(tables.array(index) / totals[index], np.asarray(pmf.marginal(names)))
        for index, names in enumerate(tables.names)
    ]
    return np.array(found), totals


def kl(shares, model):
    seen = shares > 0
    return (shares[seen] * np.log(shares[seen] / model[seen])).sum()


def half_square(shares, model):
    return 0.5 * ((shares - model) ** 2).sum()


@pytest.mark.parametrize("pair_weights", ["counts", "equal"])
@pytest.mark.parametrize(
    ("loss", "update", "distance", "name"),
    [
        ("kl", "em", kl, "mean Kullback-Leibler divergence per pair"),
        ("kl", "mirror", kl, "mean Kullback-Leibler divergence per pair"),
        ("euclidean", "mirror", half_square, "mean half squared distance per pair"),
    ],
)
def test_pairs(loss, update, distance, name, pair_weights):
    solver = CoupledNMF(loss=loss, update=update, pair_weights=pair_weights, max_iter=40, tol=0)
    solution = solver.solve(problem())
    found, totals = distances(solution.pmf, 2, distance)
    weights = totals if pair_weights == "counts" else np.ones(len(totals))
    assert solution.objectives[-1] == pytest.approx(np.average(found, weights=weights), rel=1e-9)
    assert solution.objective_name == name
    assert solution.solver == "spa+coupled-nmf"


@pytest.mark.parametrize("loss", ["kl", "euclidean"])
def test_mirror_descent_lengthens_its_steps_as_it_shortens_them(loss, monkeypatch):
    """So that a length that was too long can be tried again: all are the first one times a power of two."""
    kept, steps = coupled_nmf._TableLoss, []

    class Watched(kept):
        def value(self, model):
            steps.append(self.step)
            return super().value(model)

    monkeypatch.setattr(coupled_nmf, "_TableLoss", Watched)
    CoupledNMF(loss=loss, update="mirror", max_iter=10, tol=0).solve(problem())
    assert max(steps) > 4.0
    assert np.log2(steps).tolist() == np.rint(np.log2(steps)).tolist()


def test_the_smoothing_penalty_counts_every_table_of_a_variable():
    smoothing = Smoothing(2.0, 3.0)
    solution = CoupledNMF(max_iter=40, tol=0).solve(problem(smoothing=smoothing))
    pmf, tables = solution.pmf, tw.count(RECORDS)
    found, totals = distances(pmf, 2, kl)
    shares = problem().evidence.table_sets("counts").shares
    # Each of the five variables stands in four of the ten tables.
    penalty = 4 * 2.0 * (shares[:, None] * np.log(pmf.stacked / shares[:, None])).sum()
    penalty += 10 * 3.0 * np.log(pmf.weights * pmf.rank).sum()
    expected = np.average(found, weights=totals) - penalty / tables.weights.sum()
    assert solution.objectives[-1] == pytest.approx(expected, rel=1e-9)


def test_sets_keep_the_number_of_threads():
    assert CellSets.of_tables(tw.count(RECORDS), "counts", 3).threads == 3
    assert CellSets.of_records(RECORDS, 3).threads == 3


def test_triples():
    solution = CTD(max_iter=30).solve(problem())
    found, _ = distances(solution.pmf, 3, half_square)
    assert solution.objectives[-1] == pytest.approx(found.sum(), rel=1e-9)
    assert solution.objective_name == "half the squared error of all triples"
    solution = MLEAD(max_iter=30).solve(problem())
    found, totals = distances(solution.pmf, 3, kl)
    assert solution.objectives[-1] == pytest.approx(np.average(found, weights=totals), rel=1e-9)
    assert solution.objective_name == "mean Kullback-Leibler divergence per triple"


def mean_log_prob(pmf):
    return np.average(pmf.log_prob(RECORDS), weights=RECORDS.weights)


def test_records():
    solution = EM(max_iter=30).solve(problem())
    assert solution.objectives[-1] == pytest.approx(-mean_log_prob(solution.pmf), rel=1e-12)
    assert solution.objective_name == "negative log-likelihood per record"
    penalised = EM(max_iter=30).solve(problem(smoothing=Smoothing(2.0, 3.0)))
    assert penalised.objective_name == "negative penalised log-likelihood per record"
    assert penalised.smoothing == Smoothing(2.0, 3.0)
    # The penalty from its least value: pseudo-records of the overall shares, and of equal weights.
    pmf, shares = penalised.pmf, problem().evidence.sets.shares
    penalty = 2.0 * (shares[:, None] * np.log(pmf.stacked / shares[:, None])).sum()
    penalty += 3.0 * np.log(pmf.weights * pmf.rank).sum()
    expected = -mean_log_prob(pmf) - penalty / RECORDS.total_weight
    assert penalised.objectives[-1] == pytest.approx(expected, rel=1e-9)


def test_a_sum_over_blocks_is_the_sum_over_all():
    records = draw_records(dirichlet_rows(20, 3, 2, seed=1), 8000).for_fit()
    assert len(records.blocks()) > 2
    from twoway.kernels.lanes import pad_to_lanes

    theta = pad_to_lanes(TRUTH.weights, dirichlet_rows(20, 3, 2, seed=3).stacked)
    whole = expected_counts(records, theta, 2, 1)
    halves = [
        expected_counts(records.take(rows), theta, 2, 1) for rows in np.array_split(np.arange(records.n_records), 2)
    ]
    np.testing.assert_allclose(whole.counts, halves[0].counts + halves[1].counts, rtol=1e-10)
    assert whole.log_likelihood == pytest.approx(halves[0].log_likelihood + halves[1].log_likelihood, rel=1e-12)
    assert whole.counts[0].sum() == pytest.approx(records.n_records)


# Annealing


def test_annealing_goes_down_from_much_smoothing_to_what_is_wanted(monkeypatch):
    sets = CellSets.of_records(RECORDS, 1)
    stages = []

    def look(sets, start, smoothing, loop):
        stages.append((smoothing, loop))
        return fit_cells_by_em(sets, start, smoothing, loop)

    monkeypatch.setattr("twoway.solvers.em.fit_cells_by_em", look)
    start = random_start(sets.schema, 2, sets.shares, (0, 0))
    annealed_by_em(sets, start, Smoothing(0.5, 20.0), 1000, Watch())
    of_component = RECORDS.total_weight / 2
    shares = 0.25 * 0.8 ** np.arange(12)
    strong = shares / (1 - shares) * of_component
    assert [smoothing.factors for smoothing, _ in stages] == pytest.approx(strong.tolist())
    assert [smoothing.weights for smoothing, _ in stages] == pytest.approx(np.maximum(strong, 20.0).tolist())
    assert {(loop.max_iter, loop.tol, loop.task) for _, loop in stages} == {(10, 0.0, "annealing")}
    stages.clear()
    annealed_by_em(sets, start, Smoothing(), 96, Watch())
    assert {loop.max_iter for _, loop in stages} == {4}
    stages.clear()
    assert annealed_by_em(sets, start, Smoothing(), 71, Watch()) is start
    assert not stages


# What a newcomer gets


def test_tables_get_a_smoothing_and_shares_do_not():
    counted = tw.count(draw_records(TRUTH, 60))
    report = tw.fit(counted, rank=2).report
    assert report.smoothing > 0
    assert report.weight_smoothing == report.smoothing
    assert report.candidates
    assert {"smoothing", "held_out"} <= set(report.candidates[0])
    shares = tw.Tables(counted.schema, counted.sets, counted.flat / 60)
    report = tw.fit(shares, rank=2).report
    assert (report.smoothing, report.candidates) == (0.0, ())


def test_the_fit_to_all_records_goes_on_where_the_race_on_a_sample_ended(monkeypatch):
    monkeypatch.setattr(auto, "_SAMPLE_CELLS", 600)
    solution = Auto(n_starts=3).solve(problem(smoothing=Smoothing()))
    assert len(solution.others) == 3
    assert all(start.solver.endswith(" on a sample") for start in solution.others)
    assert solution.solver == f"{solution.others[0].solver.removesuffix(' on a sample')}+em"
    assert solution.stop_reason is StopReason.CONVERGED
    beginning = EM(max_iter=1).solve(
        problem(start=random_start(RECORDS.schema, 2, problem().evidence.sets.shares, (0, 0)))
    )
    assert solution.objectives[0] < beginning.objectives[0] - 0.01


@pytest.mark.parametrize(("n_records", "n_starts"), [(200, 7), (4000, 1)])
def test_smoothing_is_rehearsed_with_as_many_starts_as_matter(n_records, n_starts, monkeypatch):
    """On little data several, of which the best is taken; on much, the one at hand."""
    fits = []

    def look(part, start, smoothing, loop):
        fits.append(loop)
        return fit_cells_by_em(part, start, smoothing, replace(loop, max_iter=2))

    def choose(sample, refit, **options):
        found = refit(sample, Smoothing(1.0, 1.0))
        assert found.rank == 2
        assert options["first"] == 8.0
        assert options["n_components"] == 2
        return Smoothing(1.0, 1.0), ()

    monkeypatch.setattr(auto, "fit_cells_by_em", look)
    monkeypatch.setattr(auto, "choose_smoothing", choose)
    truth = dirichlet_rows(20, 3, 2, seed=1)
    records = draw_records(truth, n_records).for_fit()
    given = Problem(Evidence(records.schema, records=records, threads=1), 2)
    solver = Auto(n_starts=1)
    solver._choose_smoothing(given, truth)
    assert len(fits) == n_starts
    assert {(loop.max_iter, loop.tol, loop.task) for loop in fits} == {(200, 1e-6, "choosing the smoothing")}
    fits.clear()
    solver._choose_smoothing(given, None)
    assert len(fits) == n_starts


@pytest.mark.slow
def test_the_race_is_on_the_sample_and_its_first_start_is_the_chains(monkeypatch):
    monkeypatch.setattr(auto, "_SAMPLE_CELLS", 600)
    seen = []
    run = MultiStart.race

    def look(solver, problems):
        seen.append(problems)
        return run(solver, problems)

    monkeypatch.setattr(MultiStart, "race", staticmethod(look))
    first, again = (Auto(n_starts=3).solve(problem(seed=5)) for _ in range(2))
    assert first.pmf.stacked.tobytes() == again.pmf.stacked.tobytes()
    problems = seen[0]
    assert [one.number for one in problems] == [0, 1, 2]
    assert all(one.evidence.records.n_observed < RECORDS.n_observed for one in problems)
    assert problems[0].start is not None
    assert problems[0].origin == "spa+coupled-nmf"
    assert problems[1].start is None
    monkeypatch.setattr(auto, "_SAMPLE_CELLS", 10**6)
    seen.clear()
    Auto(n_starts=2).solve(problem())
    assert all(one.evidence.records is RECORDS for one in seen[0])


def test_the_smoothing_of_tables_is_rehearsed_from_where_their_fit_ends(monkeypatch):
    starts = []

    def look(self, problem, start):
        starts.append(start)
        return SmoothingChoice(Smoothing(), (), None)

    monkeypatch.setattr(Auto, "_choose_smoothing", look)
    tables = tw.count(RECORDS)
    given = Problem(Evidence(tables.schema, tables=tables, threads=1), 2)
    Auto(n_starts=1).solve(given)
    (start,) = starts
    starts.clear()
    Auto(n_starts=1).solve(problem())
    assert starts[0] is not None, "from records it is the chain's"
    best = CoupledNMF().solve(given)
    found = CoupledNMF(max_iter=1).solve(replace(given, start=start)).objectives[0]
    assert found == pytest.approx(best.objectives[-1], rel=1e-2)
