"""From records or tables to a joint PMF: choose, solve, and report."""

from __future__ import annotations

import inspect
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Never

import numpy as np

from twoway import __version__
from twoway.arrays import times_log
from twoway.checks.contradiction import contradicting_shares, find_contradiction
from twoway.checks.fit_quality import modelled_shares
from twoway.data.frames import frame_library_of
from twoway.data.stored_records import Block, RecordSource
from twoway.errors import DataError, check_number, check_whole_number, unknown_option
from twoway.fitting.published_fit import fit_published_tables
from twoway.fitting.sources import CONTRADICTION, TABLES_AS_RECORDS, United, evidence_of_source
from twoway.fitting.structure import FittedStructure, Structure, check_structure, fit_structure, structure_edges
from twoway.fitting.update import updated_counts
from twoway.model.counts import Counts, counts_left_out
from twoway.model.parameters import sufficient_rank
from twoway.model.pmf import JointPMF
from twoway.model.posterior import posterior_of
from twoway.report import FitCheck, Monitor, Report, StopReason, TableMisfit
from twoway.schema import Schema
from twoway.solvers import Evidence, Problem, Smoothing, SolverChoice, Watch, find_solver
from twoway.solvers.rank import RankChoice, choose_rank_from
from twoway.solvers.theta import theta_of, theta_tree_rows
from twoway.solvers.tree import Tree
from twoway.solvers.tree_mixture import Mixture
from twoway.solvers.visible_trees import VisibleMixture
from twoway.storage.checkpoint import Checkpoint
from twoway.tables.opening import open_source
from twoway.tables.pair_graph import pairs_without_table
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables

_MOST_SMOOTHING = 1e15
# A model of more numbers would take 8 GB, and its fit a multiple of that.
_MOST_NUMBERS = 2**30
# Around the table that is fitted worst, so many groups of tables are looked at for contradictions.
_MOST_TRIANGLES = 3


def fit(
    source: Any,
    *,
    rank: int | None = None,
    solver: SolverChoice = "auto",
    seed: int = 0,
    starts: int | None = None,
    smoothing: float | None = None,
    structure: Structure = "auto",
    threads: int | None = None,
    monitor: Monitor | bool | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    seconds: float | None = None,
    **others: Never,
) -> JointPMF:
    """Return the joint PMF of all variables in a source.

    Parameters
    ----------
    source
        Records (a pandas, polars or pyarrow frame, a numpy array, a mapping of columns, the name of a file such as
        "survey.csv", `Records`, or `FileRecords`), or `Tables`; or several of these, in a list or a mapping that names
        them, whose variables need not be the same. Or `PublishedTables`. Files too large for memory are streamed.
        `Records` says how to read them: survey weights, some columns only, what means "missing".
    rank
        The number of components. None chooses it; see `choose_rank`.
    solver
        A name ("auto", "em", "coupled-nmf", "spa", "symmetric-nmf", "ctd", "mle-ad"), a chain ("spa+em"), an instance,
        or a sequence of these.
    seed
        The source of every random choice; the same seed gives the same model, whatever the number of threads.
    starts
        How many starts to run, of which the best is taken; each solver has a sensible default.
    smoothing
        Pseudo-records per component. None lets the solver "auto" choose it by held-out likelihood, and is 0 for others.
    structure
        "single": one hidden variable, given which all others are independent, as in the paper. "tree": hidden variables
        on a tree, so that neighbours depend on each other directly; the rank is the number of states of each. Pairs of
        names: a tree with these neighbours. "mixture": several trees of the variables themselves, each with a shape of
        its own, from records; the rank is their number. "auto" compares all three by what was held out, and
        ``pmf.report`` says how they compare; with a rank, a solver or an amount of smoothing it means "single".
    threads
        All cores by default.
    monitor
        True shows a progress bar; a function gets each `Progress`. Ctrl-C returns the best model so far.
    checkpoint
        A file in which a long fit saves its state every 30 seconds. The same call after an interruption continues from
        there, to the same result; a fit that ends removes the file.
    seconds
        A time limit, from the call on. The fit ends after the pass during which it is over, and returns the best model
        so far, with the stop reason "time limit" and a warning; the report takes a little longer. With a checkpoint,
        the same call continues from there, with the same limit again or another.

    Returns
    -------
    JointPMF
        Components sorted by weight, largest first. ``pmf.report`` describes the fit.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows, draw_records
    >>> truth = dirichlet_rows(4, 3, 2, seed=1)
    >>> pmf = fit(draw_records(truth, 2000, observed=0.7), rank=2)
    >>> pmf
    JointPMF(rank 2, 4 variables: x1 (3), x2 (3), x3 (3), x4 (3))
    >>> print(pmf.report.stop_reason)
    converged
    """
    _refuse_fit_options(fit, others)
    began, deadline = time.monotonic(), math.inf
    if seconds is not None:
        allowed = "None, for no time limit, or a number above 0"
        deadline = began + check_number("seconds", seconds, allowed, lambda number: number > 0)
    if isinstance(source, United) and isinstance(source.source, PublishedTables):
        source = source.source
    if isinstance(source, PublishedTables):
        options: dict[str, Any] = {"rank": rank, "solver": solver, "seed": seed, "starts": starts}
        options |= {"smoothing": smoothing, "structure": structure, "threads": threads}
        with Watch.showing(monitor, deadline=deadline) as watch:
            return fit_published_tables(source, partial(fit, **options, monitor=watch), watch, threads, began)
    seed = check_whole_number("seed", seed, 0)
    rank = None if rank is None else check_whole_number("rank", rank, 1)
    given_smoothing = _fit_smoothing(smoothing)
    single_solver = find_solver(solver, starts)
    evidence, warnings, known = evidence_of_source(source, threads)
    edges = structure_edges(structure, evidence.schema)
    is_tree = edges is not None or structure == "tree"
    if (is_tree or structure == "mixture") and solver != "auto":
        raise DataError(f"structure {structure!r} has a solver of its own; solver={solver!r} is for structure 'single'")
    tree = Tree(Tree.n_starts if starts is None else starts, edges)
    _check_fit_size(evidence.schema, rank, is_tree)
    saved = checkpoint if isinstance(checkpoint, Checkpoint | None) else Checkpoint(checkpoint)
    if saved is not None:
        saved.open(_fit_description(evidence, structure, rank, single_solver, tree, seed, given_smoothing))
    with Watch.showing(monitor, saved, deadline) as watch:
        problem = Problem(evidence, 1, seed, smoothing=given_smoothing, watch=watch)
        kind = "tree" if is_tree else structure
        if kind == "auto" and (solver != "auto" or rank is not None or smoothing is not None):
            kind = "single"
        mixture = Mixture(Mixture.n_starts if starts is None else starts)
        fitted = fit_structure(kind, problem, rank, single_solver, tree, mixture)
    if saved is not None:
        saved.close(is_interrupted=watch.interrupted)
        if saved is not checkpoint:  # whose owner removes it when the model is saved
            saved.remove()
    names = evidence.schema.names
    known = {**known, "edges": tuple((names[end], names[other_end]) for end, other_end in edges or ())}
    return fitted_model(fitted, warnings, known, began).with_library(frame_library_of(source))


def fitted_model(fitted: FittedStructure, warnings: list[str], known: Mapping[str, Any], began: float) -> JointPMF:
    """Return the model of a solution, with its report and the counts that it keeps of its evidence.

    ``known`` is what `evidence_of_source` says of the evidence, ``began`` when the fit did, by the monotonic clock.
    """
    counts, left_out = _fit_counts(fitted.problem.evidence, warnings)
    report = _fit_report(fitted, warnings)
    report = replace(report, warnings=(*report.warnings, *left_out), seconds=time.monotonic() - began, **known)
    return fitted.solution.pmf.sorted_by_weight().with_report(report).with_counts(counts)


def count(source: Any, order: int = 2, *, threads: int | None = None, **others: Never) -> Tables:
    """Return the tables of all pairs (or triples, ``order=3``) of variables, counted from records.

    Each table counts the records that show all its variables, and has its own total.

    Examples
    --------
    >>> count({"age": ["young", "old", "old"], "vote": ["no", "yes", None]})
    <Tables: 1 pair of 2 variables, total 2>
    """
    _refuse_fit_options(count, others)
    if isinstance(source, Tables):
        raise DataError("these are tables already, counted from records; fit takes them as they are")
    opened = open_source(source, order)
    return opened if isinstance(opened, Tables) else Tables.count(opened, order, threads=threads)


def choose_rank(
    source: Any,
    ranks: Iterable[int] | None = None,
    *,
    seed: int = 0,
    threads: int | None = None,
    monitor: Monitor | bool | None = None,
) -> RankChoice:
    """Return the rank to fit, and all that were compared.

    From records, the smallest rank within one standard error of the one that predicts held-out records best. From
    tables, the one beyond which their spectrum shows nothing above sampling error; where no two groups of variables
    with all tables between them can show that, the one of least AIC. Ranks are tried from the smallest up, until two
    in a row are not better; then those between the best and the one below it.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows, draw_records
    >>> choose_rank(draw_records(dirichlet_rows(8, 4, 2), 2000), [1, 2, 3]).rank
    2
    """
    seed = check_whole_number("seed", seed, 0)
    evidence, _, _ = evidence_of_source(source, threads)
    with Watch.showing(monitor) as watch:
        return choose_rank_from(evidence, ranks, seed=seed, watch=watch)


def _fit_description(evidence: Evidence, *options: object) -> str:
    """Return in words what is fitted and how, the same for the same fit of the same data."""
    sets = evidence.records or evidence.tables(evidence.given_order).as_records()
    data = (sets.n_records, sets.n_observed, sets.total_weight, evidence.schema.to_dict())
    return repr((__version__, data, options))


def _refuse_fit_options(function: Callable[..., Any], others: Mapping[str, object]) -> None:
    """Raise where a function was given an unknown option, with the near miss."""
    for name in others:
        *allowed, _ = inspect.signature(function).parameters
        raise unknown_option(function.__name__, name, allowed)


def _check_fit_size(schema: Schema, rank: int | None, is_tree: bool) -> None:
    """Raise where a model would be too large to hold."""
    n_rows = schema.n_categories + (len(schema) * (rank or 0) if is_tree else 0)
    if rank is not None and rank * n_rows > _MOST_NUMBERS:
        raise DataError(
            f"rank {rank} with {schema.n_categories} categories in all would be {rank * n_rows:.2g} numbers, "
            f"more than {_MOST_NUMBERS:.2g}; use a lower rank"
        )


def _fit_smoothing(smoothing: float | None) -> Smoothing | None:
    if smoothing is None:
        return None
    allowed = f"None or a number of pseudo-records between 0 and {_MOST_SMOOTHING:g}"
    amount = check_number("smoothing", smoothing, allowed, lambda number: 0 <= number <= _MOST_SMOOTHING)
    return Smoothing(amount, amount)


def _fit_report(fitted: FittedStructure, warnings: list[str]) -> Report:
    problem, solution, choice = fitted.problem, fitted.solution, fitted.rank_choice
    evidence, pmf = problem.evidence, solution.pmf.sorted_by_weight()
    warnings = [*warnings, *dict.fromkeys(solution.warnings)]
    if (stopped := problem.watch.stopped) is not None:
        solution = replace(solution, stop_reason=stopped)
        what = "ended by its time limit" if stopped is StopReason.TIME_LIMIT else "interrupted"
        warnings.append(f"the fit was {what}; this is the best model up to then")
    if choice is not None and choice.candidates[0].get("held_out", 0.0) is None:
        warnings.append("there is too little data to choose a rank by; give one")
    is_single = pmf.n_hidden == 1
    if is_single and fitted.solver != Tree.name and pmf.rank > (enough := sufficient_rank(pmf.schema)):
        warnings.append(
            f"rank {pmf.rank} is more than any joint distribution of these variables needs; {enough} is enough"
        )
    if solution.stop_reason is StopReason.MAX_ITER:
        warnings.append(
            "the fit did not converge within the passes allowed: read it with care; a lower rank, or more smoothing, "
            "needs fewer"
        )
    rank = pmf.rank
    if evidence.records is not None and len(pmf.trees.trees) > 1:
        mixture = VisibleMixture.of(pmf)
        of_trees = mixture.expected(evidence.records, evidence.threads)
        rank, log_likelihood, support = len(mixture.trees), of_trees.log_likelihood, of_trees.totals[None]
    else:
        expected = evidence.sets.expected(theta_of(pmf), pmf.rank, theta_tree_rows(pmf))
        log_likelihood, support = expected.log_likelihood, evidence.sets.support(expected.counts, pmf)
    compared, check = check_structure(solution.pmf, problem)
    findings: dict[str, Any]
    if evidence.records is None:
        tables = evidence.tables(evidence.given_order)
        if not any(warning.startswith(CONTRADICTION) for warning in warnings):
            warnings += _fit_contradictions(pmf, compared, check)
        findings = {"misfits": _fit_misfits(pmf, tables), "silent": pairs_without_table(pmf.schema, tables.together)}
    else:
        findings = _fit_likelihood(pmf, evidence.records, log_likelihood, evidence.threads)
        if not np.isfinite(log_likelihood):
            warnings.append("some records are impossible under this model: it gives their values no probability")
    return Report(
        solver=fitted.solver,
        rank=rank,
        seed=problem.seed,
        smoothing=solution.smoothing.factors,
        weight_smoothing=solution.smoothing.weights,
        smoothing_times=solution.smoothing.named_times(pmf.schema),
        objective_name=solution.objective_name,
        starts=(solution.as_start(), *solution.others),
        best=0,
        n_parameters=pmf.n_parameters,
        n_hidden=pmf.n_hidden,
        n_trees=len(pmf.trees.trees),
        counts_tables=solution.counts_tables,
        structure=fitted.reason,
        candidates=(*(choice.candidates if choice else ()), *solution.candidates),
        warnings=tuple(warnings),
        support=support,
        check=check,
        **findings,
    )


def _fit_counts(evidence: Evidence, warnings: list[str]) -> tuple[Counts | None, list[str]]:
    """Return the counts that a model keeps of its evidence, and a warning where they are too large.

    Noisy tables are no counts, nor are tables that were made records.
    """
    if TABLES_AS_RECORDS in warnings:
        return None, []
    if evidence.records is not None:
        return updated_counts(evidence)
    tables = evidence.tables(evidence.given_order)
    if tables.releases or tables.noise.any():
        return None, []
    left_out = counts_left_out(len(tables.flat), len(tables), tables.order, is_weighted=tables.bases is not None)
    return (None if left_out else Counts.of_tables(tables)), left_out


def _fit_likelihood(
    pmf: JointPMF, records: RecordSource, log_likelihood: float, threads: int | None
) -> dict[str, float | None]:
    """Return the number of records, and what their likelihood says about the model where that is above 0."""

    def uncertainty(block: Block) -> float:
        memberships, _ = posterior_of(block, pmf.weights, pmf.stacked)
        entropies = -times_log(memberships, memberships).sum(axis=1)
        return float(entropies.sum() if block.weights is None else (entropies * block.weights).sum())

    n_records, n_free = records.total_weight, pmf.n_parameters
    if not np.isfinite(log_likelihood):
        return {"n_records": n_records}
    relative_entropy = None
    if pmf.n_hidden == 1 and pmf.rank > 1:
        total = records.map_reduce(uncertainty, float.__add__, threads=threads)
        relative_entropy = 1.0 - total / (n_records * float(np.log(pmf.rank)))
    return {
        "n_records": n_records,
        "log_likelihood": log_likelihood,
        "aic": 2.0 * n_free - 2.0 * log_likelihood,
        "bic": float(np.log(n_records)) * n_free - 2.0 * log_likelihood,
        "relative_entropy": relative_entropy,
    }


def _fit_contradictions(pmf: JointPMF, tables: Tables, check: FitCheck | None) -> list[str]:
    """Return contradictions between tables that rounding and chance do not explain."""
    sentences = contradicting_shares(tables, pmf)
    if not sentences and check is not None and check.n_off and tables.order == 2:
        contradiction = find_contradiction(tables, [check.variables], most_groups=_MOST_TRIANGLES)
        sentences = [] if contradiction is None else [str(contradiction)]
    return sentences


def _fit_misfits(pmf: JointPMF, tables: Tables) -> tuple[TableMisfit, ...]:
    """Return how far the model is from each table, worst first."""
    table, shares, modelled = tables.table_of_cell, tables.shares, modelled_shares(pmf, tables)
    kl = np.maximum(np.bincount(table, times_log(shares, shares / np.maximum(modelled, 1e-300))), 0.0)
    distances = 0.5 * np.bincount(table, np.abs(shares - modelled))
    misfits = map(TableMisfit, tables.names, tables.weights.tolist(), distances.tolist(), kl.tolist())
    return tuple(sorted(misfits, key=lambda misfit: -misfit.total_variation))
