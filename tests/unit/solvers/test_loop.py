"""The loop of the solvers: when it stops, and the progress it reports."""

import math

import numpy as np
import pytest

from twoway.datasets import dirichlet_rows, draw_records
from twoway.fitting.fit import fit
from twoway.report import Progress
from twoway.solvers import loop
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.coupled_nmf import CoupledNMF
from twoway.solvers.em import climb_by_em, fit_cells_by_em
from twoway.solvers.loop import Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.starts import random_start
from twoway.solvers.watch import Watch


def test_a_watch_for_a_part_shares_the_state_of_its_parent(monkeypatch):
    seen, kept = [], object()
    watch = Watch(seen.append, checkpoint=kept)
    monkeypatch.setattr("twoway.solvers.loop.time.monotonic", lambda: 30.0)
    part, quiet = watch.part("all", 10, 100, 20.0), watch.quiet()
    assert part.checkpoint is quiet.checkpoint is kept
    part.show(Progress("own", 5, 50, 1.5))
    part.show(Progress("own", 500, 50, 1.0))
    assert seen == [Progress("all", 15, 100, 1.5, 10.0 * 85 / 15), Progress("all", 100, 100, 1.0, 0.0)]
    seen.clear()
    begun = watch.part("all", 0, 100, 20.0)
    for done in (2, 3):
        begun.show(Progress("own", done, 50))
    assert [one.seconds_left for one in seen] == [None, 10.0 * 97 / 3]
    quiet.interrupt()
    assert watch.interrupted
    assert part.interrupted


def test_a_loop_has_settled_when_gains_are_small_and_do_not_grow():
    def settled(gains, tol, quiet_cycles=3):
        return loop._loop_has_settled(gains, tol, quiet_cycles)

    assert settled([math.inf, 1e-9, 1e-9, 1e-9], 1e-8)
    assert settled([math.inf, 3e-9, 2e-9, 1e-9], 1e-8)
    assert settled([math.inf, 1e-8, 1e-8, 1e-8], 1e-8)
    assert not settled([math.inf, 1e-9, 1e-9, 2e-9], 1e-8), "gains that grow: a saddle"
    assert settled([math.inf, -1e-14, 1e-15, 9e-14], 1e-8), "below rounding they neither grow nor shrink"
    assert not settled([math.inf, 1e-9, 1e-9], 1e-8), "too few"
    assert not settled([math.inf, 1e-7, 1e-9, 1e-9], 1e-8)
    assert settled([math.inf, 1e-7, 1e-9], 1e-8, quiet_cycles=1)
    assert not settled([math.inf], 1e-8, quiet_cycles=1)
    assert not settled([math.inf, 1e-7, -1e-3], 1e-8, quiet_cycles=1), "an objective that rises has not settled"


def test_the_time_left_is_that_of_gains_that_go_on_to_shrink(monkeypatch):
    monkeypatch.setattr("twoway.solvers.loop.time.monotonic", lambda: 120.0)
    gains = [math.inf, *(10.0**-power for power in range(9))]  # a tenth each cycle, 1e-8 now
    assert loop._loop_seconds_left(gains, 1e-11, 100.0) == pytest.approx(3 * 20.0 / 10)
    assert loop._loop_seconds_left(gains, 1e-3, 100.0) == 0.0
    assert loop._loop_seconds_left(gains, 0.0, 100.0) is None
    assert loop._loop_seconds_left([math.inf, 1e-3, 1e-4, 1e-5], 1e-8, 100.0) is None, "too few to tell"
    assert loop._loop_seconds_left([math.inf, 1e-3, 1e-3, 1e-3, 1e-3], 1e-8, 100.0) is None, "they do not shrink"


@pytest.mark.parametrize("solver", ["em", "coupled-nmf", "mirror", "ctd", "mle-ad"])
def test_progress_has_the_solvers_name(solver):
    shown = []
    frame = dirichlet_rows(5, 3, 2, seed=1).sample(300, seed=0)
    options = {"solver": CoupledNMF(update="mirror", max_iter=20) if solver == "mirror" else solver}
    fit(frame, rank=2, starts=1, monitor=shown.append, **options)
    wanted = "coupled-nmf" if solver == "mirror" else solver
    assert {progress.task for progress in shown} - {"annealing"} == {wanted}


def test_em_with_an_m_step_of_its_own_is_em():
    """With shares of expected counts it is maximum likelihood; Ctrl-C is an error."""
    records = draw_records(dirichlet_rows(3, 4, 2, seed=1), 200, seed=1)
    sets = CellSets.of_records(records, 1)
    start = random_start(records.schema, 2, sets.shares, (0,))

    def maximize(counts):
        factors = counts[1:].reshape(3, 4, 2)
        return counts[0] / counts[0].sum(), (factors / factors.sum(axis=1, keepdims=True)).reshape(12, 2)

    own = climb_by_em(sets, start, maximize, Loop("own", 10, 0.0))
    usual = fit_cells_by_em(sets, start, Smoothing(), Loop("usual", 10, 0.0))
    np.testing.assert_allclose(own.pmf.stacked, usual.pmf.stacked, rtol=1e-9)
    assert own.objective == pytest.approx(usual.objective * 200)
    stopped = Loop("own", 10, 0.0)
    stopped.watch.interrupt()
    with pytest.raises(KeyboardInterrupt):
        climb_by_em(sets, start, maximize, stopped)
