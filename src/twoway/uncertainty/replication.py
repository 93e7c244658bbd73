"""Replicates of a model: fitted again to other samples like the one at hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from twoway.arrays import Floats
from twoway.errors import DataError, whole_number
from twoway.fitting.fit import watching
from twoway.model.intervals import checked_level
from twoway.model.pmf import JointPMF, model_of
from twoway.model.posterior import records_for
from twoway.parallel import usable_cores
from twoway.report import Monitor, Progress, StopReason
from twoway.solvers.cells import CellSets
from twoway.solvers.latent import fit_cells
from twoway.solvers.loop import Loop
from twoway.solvers.problem import Smoothing
from twoway.solvers.resampling import FromRecords, FromTables, Resampling
from twoway.solvers.starts import softened
from twoway.solvers.watch import Watch
from twoway.tables.tables import Tables
from twoway.uncertainty.beliefs import drawn_shares, likely_smoothings, smoothing_of
from twoway.uncertainty.bootstrap import LEAST_REPLICATES, Bootstrap
from twoway.uncertainty.observed_tables import ObservedTables

# Replicates start at the model and converge soon.
_MAX_ITER = 500
_TOL_RECORDS, _TOL_TABLES = 1e-8, 1e-6


def bootstrap(
    pmf: JointPMF,
    source: Any,
    n: int = 200,
    *,
    seed: int = 0,
    level: float = 0.9,
    n_records: float | None = None,
    threads: int | None = None,
    monitor: Monitor | bool | None = None,
) -> Bootstrap:
    """Return an object that answers each question of a `JointPMF` with an interval.

    Starting from its parameters, the model is fitted again to ``n`` samples like the one at hand: records drawn with
    replacement, or tables counted on people drawn from the model. Each replicate also draws its amount of smoothing,
    as probable as held-out records make it, and the shares towards which smoothing draws the components. Where the
    answer differs from what was observed of its variables, or tables do not determine it, intervals are wider, with a
    note.

    Parameters
    ----------
    pmf
        The model; smoothing is that of its report.
    source
        The records or `Tables` that it was fitted to.
    n
        The number of replicates; at least 20.
    seed
        The same seed gives the same replicates, whatever the number of threads.
    level
        How often an interval should contain the truth.
    n_records
        For tables: the number of people in all tables together. By default the largest total, as if all tables were
        counted on the same people, which gives the widest intervals; ``math.inf`` if each table has its own sample.
    threads
        The number of replicates fitted at a time; all cores by default.
    monitor
        True shows a progress bar. Ctrl-C stops early with the replicates that are finished, if they are enough.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows, draw_records
    >>> from twoway.fitting.fit import fit
    >>> records = draw_records(dirichlet_rows(5, 3, 2), 1000)
    >>> boot = bootstrap(fit(records, rank=2), records, n=40)
    >>> answer = boot.prob({"x1": 0, "x2": 1})
    >>> bool(0 <= answer.low < answer < answer.high <= 1)
    True
    """
    pmf = model_of(pmf)
    n, seed = whole_number("n", n, LEAST_REPLICATES), whole_number("seed", seed, 0)
    threads = usable_cores() if threads is None else whole_number("threads", threads, 1)
    smoothing = smoothing_of(pmf)
    choices, chances = likely_smoothings(pmf)
    resampling, tol = _resampling(pmf, source, n_records)
    original = resampling.original()
    with watching(monitor) as callback:
        watch = Watch(callback)
        loop = Loop("", _MAX_ITER, tol, watch.quiet())

        def fit(sets: CellSets, smoothing: Smoothing, drawn: Floats | None = None) -> tuple[JointPMF, StopReason]:
            # A model may have zeros, which multiplicative updates cannot leave.
            start = softened(pmf, sets.shares, 1e-6) if drawn is not None or (pmf.stacked == 0).any() else pmf
            descent = fit_cells(sets, start, smoothing, loop, drawn)
            return descent.pmf, descent.stop_reason

        def replicate(number: int) -> tuple[JointPMF, StopReason]:
            random = np.random.default_rng([seed, number, 1])
            own = choices[random.choice(len(choices), p=chances)]
            drawn = drawn_shares(original, pmf.rank, own, random) if own.factors else None
            return fit(resampling.draw(seed, number), own, drawn)

        fits: list[tuple[JointPMF, StopReason]] = []
        with watch.guard():
            center = fit(original, smoothing)[0]
            with ThreadPoolExecutor(threads) as pool:
                try:
                    for fitted in pool.map(replicate, range(n)):
                        fits.append(fitted)
                        watch.show(Progress("drawing replicates", len(fits), n))
                except KeyboardInterrupt:
                    watch.interrupt()
                    pool.shutdown(cancel_futures=True)
    replicates = tuple(fitted for fitted, stop in fits if stop is not StopReason.INTERRUPTED)
    if len(replicates) < LEAST_REPLICATES:
        raise KeyboardInterrupt
    warnings = [] if len(replicates) == n else [f"interrupted: {len(replicates)} of {n} replicates were finished"]
    late = sum(stop is StopReason.MAX_ITER for _, stop in fits)
    if late > 0.05 * n:
        warnings.append(f"{late} of {n} replicates did not converge in {_MAX_ITER} passes; intervals may be too narrow")
    reflected, observed = not smoothing.factors, ObservedTables.of(pmf, source)
    return Bootstrap(pmf, replicates, center, checked_level(level), tuple(warnings), reflected, observed)


def _resampling(pmf: JointPMF, source: Any, n_records: float | None) -> tuple[Resampling, float]:
    if isinstance(source, Tables):
        if difference := pmf.schema.difference(source.schema):
            raise DataError(f"the tables are not about the model's variables: {difference}")
        if len(source) == 0:
            raise DataError("there is no table to draw from")
        if n_records is not None and not n_records > 0:
            raise DataError(f"n_records must be a number above 0, not {n_records!r}")
        return FromTables(source, pmf, n_records), _TOL_TABLES
    records = records_for(pmf.schema, source)
    if records.n_silent == records.n_records:
        raise DataError(f"none of the {records.n_records} records has an observed cell; there is nothing to draw from")
    return FromRecords(records), _TOL_RECORDS
