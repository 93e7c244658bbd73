"""Replicates of a model: fitted again to other samples like the one at hand."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from twoway.arrays import Floats
from twoway.data.records import Records
from twoway.data.survey_design import Design
from twoway.errors import DataError, check_number, check_whole_number
from twoway.model.intervals import checked_interval_level
from twoway.model.pmf import JointPMF, pmf_of
from twoway.model.records import records_for_model
from twoway.parallel import usable_cores
from twoway.report import Monitor, Progress, StopReason
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.resampling import (
    REPLICATE_PASSES,
    DesignResampling,
    PublishedResampling,
    RecordResampling,
    Resampling,
    TableResampling,
    sample_as_fitted,
)
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.starts import softened_start
from twoway.solvers.theta import theta_groups
from twoway.solvers.visible_trees import VisibleMixture
from twoway.solvers.watch import Watch
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables
from twoway.uncertainty.bootstrap import Bootstrap
from twoway.uncertainty.observed_tables import LEAST_REPLICATES, ObservedTables

_TOL_RECORDS, _TOL_TABLES = 1e-8, 1e-6
_LEAST_SHARE = 1e-300


def bootstrap(
    pmf: JointPMF,
    source: Any,
    n: int = 200,
    *,
    seed: int = 0,
    level: float = 0.9,
    n_records: float | None = None,
    design: Design | None = None,
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
        The records, `Tables` or `PublishedTables` that it was fitted to.
    n
        The number of replicates; at least 20.
    seed
        The same seed gives the same replicates, whatever the number of threads.
    level
        How often an interval should contain the truth.
    n_records
        For tables: the number of people in all tables together. By default the largest total, as if all tables were
        counted on the same people, which gives the widest intervals; ``math.inf`` if each table has its own sample.
    design
        How the records of a survey were drawn: strata, units, replicate weights. By default each record was drawn by
        itself.
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
    pmf = pmf_of(pmf)
    n, seed = check_whole_number("n", n, LEAST_REPLICATES), check_whole_number("seed", seed, 0)
    threads = usable_cores() if threads is None else check_whole_number("threads", threads, 1)
    level = checked_interval_level(level)
    if n_records is not None:
        check_number("n_records", n_records, "a number above 0", lambda number: number > 0)
    if design is not None and isinstance(source, Tables | PublishedTables):
        raise DataError("a survey design applies to records, but tables were given")
    if isinstance(source, PublishedTables):
        published = PublishedResampling.of(source, pmf, n_records)
        with Watch.showing(monitor) as watch:
            refit = partial(published.refit, seed, watch=watch.quiet())
            replicates, warnings = _make_replicates(refit, n, threads, watch)
        return Bootstrap(pmf, replicates, pmf, level, warnings, True, ObservedTables.of(pmf, source))
    mixture = _mixture_to_replicate(pmf, source)
    smoothing = _smoothing_to_replicate(pmf)
    choices, chances = replicate_smoothings(pmf)
    resampling, tol = _replicate_sampling(pmf, source, n, n_records, design)
    of_design = resampling if isinstance(resampling, DesignResampling) else None
    n = n if of_design is None else len(of_design.scales)
    original = resampling.original()
    all_records = cast(Records, original.records)
    with Watch.showing(monitor) as watch:
        loop = Loop("", REPLICATE_PASSES, tol, watch.quiet())

        def fit(sets: CellSets, smoothing: Smoothing, random: np.random.Generator | None = None) -> Descent:
            if mixture is not None:
                prior = mixture.pseudo_counts(all_records, smoothing)
                prior = prior if random is None else mixture.drawn(prior, random)
                return mixture.climb(sets.records, prior, loop, 1)
            drawn = replicate_prior(original, pmf, smoothing, random) if random and smoothing.factors else None
            # A model may have zeros, which multiplicative updates cannot leave.
            start = softened_start(pmf, sets.shares, 1e-6) if drawn is not None or pmf.has_zeros else pmf
            return fit_cells_by_em(sets, start, smoothing, loop, drawn)

        def replicate(number: int) -> Descent:
            random = np.random.default_rng([seed, number, 1])
            if of_design is not None:  # no draw of the truth: it differs from the fit by its weights alone
                return fit(resampling.draw(seed, number), smoothing)
            own = choices[random.choice(len(choices), p=chances)]
            return fit(resampling.draw(seed, number), own, random)

        with watch.guard():
            center = fit(original, smoothing).pmf
        least = LEAST_REPLICATES if of_design is None else n
        replicates, warnings = _make_replicates(replicate, n, threads, watch, least)
    reflected, observed = not smoothing.factors, ObservedTables.of(pmf, source)
    boot = Bootstrap(pmf, replicates, center, level, warnings, reflected, observed)
    return boot if of_design is None else replace(boot, scales=of_design.scales, degrees=of_design.degrees)


def _make_replicates(
    replicate: Callable[[int], Descent], n: int, threads: int, watch: Watch, least: int = LEAST_REPLICATES
) -> tuple[tuple[JointPMF, ...], tuple[str, ...]]:
    """Return the replicates of all numbers below n, and warnings; at least so many must be finished."""
    fits: list[Descent] = []
    with watch.guard(), ThreadPoolExecutor(threads) as pool:
        try:
            for fitted in pool.map(replicate, range(n)):
                fits.append(fitted)
                watch.show(Progress("drawing replicates", len(fits), n))
        except KeyboardInterrupt:
            watch.interrupt()
            pool.shutdown(cancel_futures=True)
    replicates = tuple(fitted.pmf for fitted in fits if fitted.stop_reason is not StopReason.INTERRUPTED)
    if len(replicates) < least:
        raise KeyboardInterrupt
    warnings = [] if len(replicates) == n else [f"interrupted: {len(replicates)} of {n} replicates were finished"]
    if (late := sum(fitted.stop_reason is StopReason.MAX_ITER for fitted in fits)) > 0.05 * n:
        warnings.append(
            f"{late} of {n} replicates did not converge in {REPLICATE_PASSES} passes; intervals may be too narrow"
        )
    return replicates, tuple(warnings)


def _mixture_to_replicate(pmf: JointPMF, source: Any) -> VisibleMixture | None:
    """Return the mixture of trees that a model is; its replicates keep their shapes."""
    if len(pmf.trees.trees) == 1:
        return None
    if pmf.report is None:
        raise DataError("the bootstrap needs a model that was fitted, not an average of several")
    if isinstance(source, Tables):
        raise DataError("the bootstrap of a mixture of trees needs the records that it was fitted to, not tables")
    return VisibleMixture.of(pmf)


def _replicate_sampling(
    pmf: JointPMF, source: Any, n: int, n_records: float | None, design: Design | None
) -> tuple[Resampling, float]:
    if isinstance(source, Tables):
        pmf.schema.check_same(source.schema, "the tables and the model have different variables")
        if len(source) == 0:
            raise DataError("there is no table to draw from")
        return TableResampling(source, pmf, n_records), _TOL_TABLES
    records = records_for_model(pmf.schema, source, report=pmf.report)
    if records.n_silent == records.n_records:
        raise DataError(f"none of the {records.n_records} records has an observed cell; there is nothing to draw from")
    sets_of = sample_as_fitted(pmf.report, pmf.schema)
    if design is not None:
        return DesignResampling(design, records, n, sets_of), _TOL_RECORDS
    return RecordResampling(records, sets_of), _TOL_RECORDS


# The prior that smoothing is, drawn again for each replicate


def _smoothing_to_replicate(pmf: JointPMF) -> Smoothing:
    """Return the smoothing that a model was fitted with."""
    return Smoothing() if pmf.report is None else Smoothing.of_report(pmf.report, pmf.schema)


def replicate_smoothings(pmf: JointPMF) -> tuple[list[Smoothing], Floats]:
    """Return the amounts of smoothing that were compared, and how probable each is given the held-out records."""
    report, chosen = pmf.report, _smoothing_to_replicate(pmf)
    tried = [] if report is None else [candidate for candidate in report.candidates if "weight_smoothing" in candidate]
    if report is None or not tried or not report.n_records or not chosen.factors:
        return [chosen], np.ones(1)
    held_out = np.array([float(candidate["held_out"]) for candidate in tried])
    best = tried[int(held_out.argmax())]
    # Folds are smaller than the whole, and the choice was scaled to the whole.
    scale = chosen.factors / float(best["smoothing"])
    smoothings = [
        Smoothing(
            scale * float(candidate["smoothing"]),
            scale * float(candidate["weight_smoothing"]),
            Smoothing.times_by_name(candidate.get("smoothing_times", {}), pmf.schema),
        )
        for candidate in tried
    ]
    chances = np.exp(report.n_records * (held_out - held_out.max()))
    return smoothings, chances / chances.sum()


def replicate_prior(sets: CellSets, form: JointPMF, smoothing: Smoothing, random: np.random.Generator) -> Floats:
    """Return the shares that smoothing draws each state towards in one replicate, (rows of θ, rank).

    Smoothing is a prior for components: so many records with the variables' overall shares. The components' true
    shares are then about as far from these as so many random records are (a Dirichlet distribution), and replicates
    in which both records and prior are drawn again spread as the truth does given the data. With a fixed prior, all
    replicates would shrink dependence alike, and their spread would not show by how much.
    """
    rank, (amounts, shares) = form.rank, sets.smoothing_of_rows(form, smoothing)
    drawn = np.empty((len(amounts), rank))
    drawn[0] = random.gamma(smoothing.weights, size=rank) + _LEAST_SHARE if smoothing.weights else 1.0
    drawn[0] *= rank / drawn[0].sum()
    drawn[1:] = random.gamma(np.repeat((amounts[1:] * shares)[:, None], rank, axis=1)) + _LEAST_SHARE
    starts = theta_groups(form)
    drawn[1:] /= np.repeat(np.add.reduceat(drawn[1:], starts[:-1], axis=0), np.diff(starts), axis=0)
    return drawn
