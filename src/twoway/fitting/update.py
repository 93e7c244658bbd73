"""Add new records to a model, at the cost of the new ones alone.

The expected counts of the old records are kept for each component and variable. These stay as
they are, and EM runs over the new records alone: incremental EM (Neal and Hinton, A view of the EM algorithm that
justifies incremental, sparse, and other variants, 1998), which is the posterior mode with the old records as prior.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from twoway.arrays import Floats
from twoway.data.missing import Unseen
from twoway.data.records import Records
from twoway.data.stored_records import RecordSource
from twoway.errors import DataError, UnknownNameError
from twoway.model.counts import Counts, counts_left_out
from twoway.model.parameters import normalized_factors
from twoway.model.pmf import JointPMF, pmf_of
from twoway.model.records import records_for_model
from twoway.model.trees import Trees
from twoway.report import Monitor, Report, Start
from twoway.schema import Schema
from twoway.solvers.cell_sets import CellSets, expected_counts_of_groups
from twoway.solvers.evidence import Evidence
from twoway.solvers.loop import Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.starts import softened_start
from twoway.solvers.theta import Theta, pmf_of_theta, theta_groups, theta_of, theta_tree_rows
from twoway.solvers.visible_trees import VisibleMixture
from twoway.solvers.watch import Watch
from twoway.tables.counting import count_cells, count_singles

# What a start gives to a category that is impossible in a component, of the variable's overall shares.
_SOFTENING = 1e-3
_UPDATED = "records were added since the fit: the likelihood, AIC and BIC of all records are not known"


def update(
    pmf: JointPMF,
    source: Any,
    *,
    extend: bool = False,
    max_iter: int = 30,
    tol: float = 1e-7,
    threads: int | None = None,
    monitor: Monitor | bool | None = None,
) -> JointPMF:
    """Return a model that also knows new records, at the cost of these alone.

    It comes close to a fit of all records, old and new, as long as the new ones are like the old ones, or fewer. A tree
    that was fitted to records and their two-way tables gets new records alone: with their tables, it comes no closer.
    Components keep their places, so that one can be followed from day to day.

    Parameters
    ----------
    pmf
        A model that `fit` or `update` made, from memory or from a file.
    source
        The new records: whatever `fit` takes as records. Columns that the model does not know are passed over.
    extend
        Whether a label that the model does not know becomes a category; it is an error otherwise.
    max_iter
        Passes over the new records.
    tol
        Stop when each of three cycles of up to three passes lowers the objective by less than this share.
    threads
        All cores by default.
    monitor
        True shows a progress bar; a function gets each `Progress`.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows, draw_records
    >>> from twoway.fitting.fit import fit
    >>> truth = dirichlet_rows(4, 3, 2, seed=1)
    >>> monday = fit(draw_records(truth, 2000, observed=1.0, seed=1), rank=2)
    >>> tuesday = update(monday, draw_records(truth, 500, observed=1.0, seed=2))
    >>> tuesday.report.n_records
    2500.0
    """
    began = time.perf_counter()
    pmf = pmf_of(pmf)
    report = pmf.report
    if report is None or report.support is None:
        raise DataError(
            "cannot add records: this model does not keep the number of records behind it; models from `fit` do, "
            "but not averages, conditional models or files of older versions"
        )
    records = _records_to_update(pmf.schema, source, extend, report)
    fitted = records.for_fit()
    if fitted.n_observed == 0:
        return pmf
    evidence = Evidence(fitted.schema, records=fitted, threads=threads)
    counts: Counts | None = None
    left_out: list[str] = []
    if pmf.counts is not None and pmf.counts.singles.size:  # otherwise the old ones are not known, or not of records
        counts, left_out = updated_counts(evidence, pmf.counts)
    pmf = _extended_to_update(pmf, fitted.schema)
    is_mixture = len(pmf.trees.trees) > 1
    with Watch.showing(monitor) as watch:
        update_it = _update_mixture if is_mixture else _update_model
        updated, start, support = update_it(pmf, report, evidence.sets, Loop("update", max_iter, tol, watch))
    n_records = None if report.n_records is None else report.n_records + fitted.total_weight
    warnings = [warning for warning in report.warnings if warning not in (_UPDATED, *left_out)]
    return updated.with_counts(counts).with_report(
        Report(
            # What was asked of the fit stays; all else is found anew.
            seed=report.seed,
            smoothing=report.smoothing,
            weight_smoothing=report.weight_smoothing,
            smoothing_times=report.smoothing_times,
            columns=report.columns,
            solver=f"{report.solver.removesuffix('+update')}+update",
            rank=report.rank if is_mixture else updated.rank,
            objective_name="negative log-posterior per new record, with the old records as prior",
            starts=(start,),
            best=0,
            n_records=n_records,
            n_observed=None if report.n_observed is None else report.n_observed + records.n_observed,
            n_parameters=updated.n_parameters,
            n_hidden=updated.n_hidden,
            n_trees=len(updated.trees.trees),
            warnings=(*warnings, *left_out, _UPDATED),
            support=support,
            seconds=time.perf_counter() - began,
        )
    )


def _records_to_update(schema: Schema, source: Any, extend: bool, report: Report) -> RecordSource:
    """Return new records by a model's schema, with new categories where these are welcome."""
    unseen: Unseen = "extend" if extend else "error"
    is_read = isinstance(source, Records)
    if hasattr(type(source), "map_reduce") and not is_read:
        schema.check_same(source.schema, "these records must have the schema of the model, but differ in it")
        return source  # type: ignore[no-any-return]
    try:
        if is_read:
            return source if source.schema == schema else Records(source, schema=schema, unseen=unseen)
        return records_for_model(schema, source, unseen, report)
    except UnknownNameError as error:
        way = "extend=True makes such labels categories"
        raise UnknownNameError(str(error).replace("unseen='missing' reads such labels as missing", way)) from error


def _extended_to_update(pmf: JointPMF, schema: Schema) -> JointPMF:
    """Return a PMF by a schema with more categories, which it holds to be impossible."""
    if pmf.schema == schema:
        return pmf
    if len(pmf.trees.trees) > 1:
        return VisibleMixture.of(pmf).extended(schema).pmf()
    trees = []
    for tree in pmf.trees.trees:
        factors = []
        for factor, old, new in zip(tree.factors, pmf.schema, schema, strict=True):
            factors.append(np.zeros((len(new), factor.shape[1])))
            factors[-1][[new.code(label) for label in old.categories]] = factor
        trees.append(replace(tree, factors=tuple(factors)))
    return JointPMF.from_trees(schema, Trees(pmf.trees.shares, tuple(trees)), pmf.report)


def updated_counts(evidence: Evidence, old: Counts | None = None) -> tuple[Counts | None, list[str]]:
    """Return the counts of records, and of old ones; None with a warning where they are too large."""
    schema = evidence.schema
    records = evidence.sets.records
    is_weighted = records.weight_totals.is_weighted or (old is not None and old.people.size > 0)
    if left_out := counts_left_out(count_cells(schema.sizes, 2), math.comb(len(schema), 2), is_weighted=is_weighted):
        return None, left_out
    singles = count_singles(records, evidence.threads) if is_weighted else evidence.sets.totals[None]
    new = Counts.of_tables(evidence.tables(2), singles)
    if old is None:
        return new, []
    # Both in effective records of their own: their weights may be on different scales.
    tables = old.tables + new.tables
    tables = tables if tables.schema == schema else tables.recoded(schema)
    singles = np.array(np.broadcast_to(new.single_sums, (3 if is_weighted else 1, schema.n_categories)))
    singles[:, old.schema.cells_in(schema)] += old.single_sums
    return Counts.of_tables(tables, singles), []


def _update_mixture(pmf: JointPMF, report: Report, sets: CellSets, loop: Loop) -> tuple[JointPMF, Start, Floats]:
    """Return the same of a mixture of trees, which keep their shapes; what they had learned is what they say."""
    assert report.support is not None
    mixture, (totals,) = VisibleMixture.of(pmf), report.support
    start = mixture.softened(_SOFTENING, sets.shares)
    descent = start.climb(sets.records, mixture.remembered(totals), loop, sets.threads)
    new = VisibleMixture.of(descent.pmf).expected(sets.records, sets.threads)
    return descent.pmf, Start("update", descent.objectives, descent.stop_reason), (totals + new.totals)[None]


def _update_model(pmf: JointPMF, report: Report, sets: CellSets, loop: Loop) -> tuple[JointPMF, Start, Floats]:
    """Return the model with the new records in it, how it got there, and what it rests on then."""
    from twoway.kernels.maximization import maximize

    assert report.support is not None
    rank, groups, rows = pmf.rank, theta_groups(pmf), theta_tree_rows(pmf)
    amounts, pseudo_shares = sets.smoothing_of_rows(pmf, Smoothing.of_report(report, pmf.schema))
    of_states, cells = np.split(np.arange(len(pseudo_shares)), [-pmf.schema.n_categories])

    def shares_of(counts: Floats) -> Floats:
        """Return what smoothing draws the rows behind the first to, given the counts of all cells."""
        counts = counts + 1e-300 * pseudo_shares[cells]  # a variable that was never observed has shares, too
        return np.concatenate([pseudo_shares[of_states], normalized_factors(pmf.schema, counts[:, None])[:, 0]])

    def pseudo_counts(shares: Floats) -> Floats:
        return np.concatenate([amounts[:1], amounts[1:] * shares])[:, None]

    # Parameters are (old counts + smoothing) over their sum. Smoothing draws toward overall shares, which move.
    sums = report.support + np.add.reduceat(pseudo_counts(pseudo_shares), [0, *1 + groups[:-1]])
    sums[0] = sums[0].sum()
    theta = theta_of(pmf)
    smoothed = theta[:, :rank] * np.repeat(sums, np.diff([-1, *groups]), axis=0)
    # Less than nothing only by rounding, or far from an optimum.
    old = np.maximum(smoothed - pseudo_counts(shares_of(smoothed[1 + cells].sum(axis=1))), 0.0)
    shares = shares_of(old[1 + cells].sum(axis=1) + sets.totals)
    remembered = np.zeros(theta.shape)
    remembered[:, :rank] = old + pseudo_counts(shares)
    nothing = np.zeros(len(remembered))
    at_rest = maximize(remembered, nothing, shares, groups, rank)
    is_there = remembered > 0
    start = softened_start(pmf, shares[cells], _SOFTENING) if pmf.has_zeros else pmf
    total_weight = sets.records.total_weight

    def step(theta: Theta) -> tuple[Theta, float]:
        expected = sets.expected(theta, rank, rows)
        # Zero at rest and negative elsewhere: what the old records say against the new parameters.
        against = float(remembered[is_there] @ np.log(theta[is_there] / at_rest[is_there]))
        following = maximize(remembered + expected.counts, nothing, shares, groups, rank)
        return following, -(expected.log_likelihood + against) / total_weight

    descent = loop.descend(step, start)
    new = sets.expected(theta_of(descent.pmf), rank, rows).counts
    updated = pmf_of_theta(pmf, maximize(remembered + new, nothing, shares, groups, rank))
    support = expected_counts_of_groups(old + new[:, :rank], pmf)
    return updated, Start("update", descent.objectives, descent.stop_reason), support
