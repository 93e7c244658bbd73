"""From published tables of any kind to a joint PMF.

First the two-way tables that they have are fitted, as tables alone are: that chooses the structure, and leaves open
what no table says. Then EM goes on from there with all that was published, drawn toward where it began.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from twoway.arrays import Floats, times_log
from twoway.checks.contradiction import published_contradictions
from twoway.errors import DataError
from twoway.model.counts import Counts
from twoway.model.hidden_tree import HiddenTree
from twoway.model.pmf import JointPMF
from twoway.report import Report, Start, StopReason, TableMisfit
from twoway.solvers.loop import Descent
from twoway.solvers.table_sums import fit_table_sums
from twoway.solvers.tree_starts import with_more_states
from twoway.solvers.watch import Watch
from twoway.tables.pair_graph import pairs_without_table
from twoway.tables.published.places import TablePlaces
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables
from twoway.text import crossed_text, shortlist

_PASSES = 5000
# Two-way tables may need fewer states than tables of more variables: each hidden variable gets at least so many, and
# twice as many as a variable has categories, up to a limit. Several begin as almost the same.
_LEAST_STATES, _MOST_STATES = 24, 64
# How far off an exact table of several variables may be in the model, in total variation, before that is said.
_EXACT_TOLERANCE = 1e-3
# Boxes of what is possible that hold less of the first model are left out.
_NO_SHARE = 1e-9


def fit_published_tables(
    published: PublishedTables,
    fit_tables: Callable[[Tables], JointPMF],
    watch: Watch,
    threads: int | None,
    began: float,
) -> JointPMF:
    """Return the joint PMF of published tables; ``fit_tables`` fits connected two-way tables.

    ``began`` is when the fit did, by the monotonic clock.
    """
    start, report, warnings = _first_published_fit(published, fit_tables)
    if published.names_beyond_pairs:
        least = min(max(_LEAST_STATES, 2 * max(published.schema.sizes)), _MOST_STATES)
        # Copies of a state have nothing to tell of variables that are in pairs only, and must not begin to.
        start = with_more_states(start, least, published.names_beyond_pairs)
    start = _only_possible_published(start, published)
    margins = published.exact_margins
    descent = fit_table_sums(published, start, watch, threads, margins=margins, passes=_PASSES, quiet_cycles=10)
    return reported_published_fit(published, report, descent, warnings, began)


def reported_published_fit(
    published: PublishedTables, report: Report, descent: Descent, warnings: Sequence[str], began: float | None = None
) -> JointPMF:
    """Return a model of published tables with its report and the counts that it keeps."""
    pmf = descent.pmf.sorted_by_weight()
    unfinished = "the fit did not converge within the passes allowed: read it with care"
    said = [*warnings, *([unfinished] if descent.stop_reason is StopReason.MAX_ITER else [])]
    misfits = published_fit_misfits(pmf, published)
    said += [
        f"the exact table {crossed_text(misfit.variables)} is met to {misfit.total_variation:.2g} in total variation "
        "only; a population has it exactly"
        for misfit in misfits
        if misfit.total_variation > _EXACT_TOLERANCE and set(misfit.variables) in map(set, published.exact)
    ]
    counts = replace(Counts.of_tables(published.pairs(only_plain=True)), published=published)
    report = replace(
        report,
        silent=pairs_without_table(pmf.schema, counts.together),
        rank=pmf.rank,
        n_hidden=pmf.n_hidden,
        n_parameters=pmf.n_parameters,
        starts=(Start("tree+tables", descent.objectives, descent.stop_reason),),
        best=0,
        objective_name="mean divergence per person of the tables, penalised",
        misfits=misfits,
        check=None,
        support=None,
        # What the first model was said to miss may be what was filled in for it.
        warnings=tuple(dict.fromkeys([*said, *published_contradictions(published, pmf), *published.notes])),
        seconds=None if began is None else time.monotonic() - began,
    )
    return pmf.with_report(report).with_counts(counts)


# The first model


def _first_published_fit(
    published: PublishedTables, fit_tables: Callable[[Tables], JointPMF]
) -> tuple[JointPMF, Report, list[str]]:
    """Return a model of the two-way tables; variables that no table connects are independent in it."""
    schema, pairs = published.schema, published.pairs()
    parts, reports = [], []
    groups = sorted(pairs.components(), key=len, reverse=True)
    for names in groups:
        positions = schema.indices(names)
        if len(names) == 1:
            tree = HiddenTree.single(np.ones(1), [published.single_shares[positions[0]][:, None]])
        else:
            pmf = fit_tables(pairs.subset(names) if len(names) < len(schema) else pairs)
            (tree,) = pmf.trees.trees
            assert pmf.report is not None
            reports.append(pmf.report)
        parts.append((positions, tree))
    warnings = []
    if len(groups) > 1:
        warnings.append(
            "no table connects these variables, which are taken as independent: "
            + "; ".join(shortlist(names, 4) for names in groups[:6])
        )
    tree = _published_trees_side_by_side(parts, len(schema))
    pmf = JointPMF.from_tree(schema, tree)
    plain = Report("tree", 1, 0, 0.0, 0.0, "", (Start("direct", (0.0,), StopReason.DIRECT),), 0)
    return pmf, reports[0] if reports else plain, warnings


def _published_trees_side_by_side(parts: Sequence[tuple[Sequence[int], HiddenTree]], n_variables: int) -> HiddenTree:
    """Return trees of different variables as one, in which they are independent."""
    _, first = parts[0]
    parents, transitions = list(first.parents), list(first.transitions)
    homes, factors = [0] * n_variables, [np.empty(0)] * n_variables
    n_root = len(first.weights)
    for number, (positions, tree) in enumerate(parts):
        offset = 0
        if number and tree.n_hidden == 1 and len(tree.weights) == 1:
            # One state is a state of the root like all others.
            columns = [np.repeat(factor, n_root, axis=1) for factor in tree.factors]
        else:
            columns = list(tree.factors)
            if number:
                offset = len(parents)
                parents += [0, *(offset + parent for parent in tree.parents[1:])]
                transitions += [np.repeat(tree.weights[:, None], n_root, axis=1), *tree.transitions]
        for place, position in enumerate(positions):
            homes[position], factors[position] = offset + tree.homes[place], columns[place]
    return HiddenTree(tuple(parents), tuple(homes), first.weights, tuple(transitions), tuple(factors))


def _only_possible_published(pmf: JointPMF, published: PublishedTables) -> JointPMF:
    """Return a model given that nothing impossible happens: one tree, with states of their own for each box."""
    if not published.rules:
        return pmf
    shares, trees = [], []
    for box in published.boxes:
        allowed = {variable: np.array(sorted(codes)) for variable, codes in box.items()}
        share = float(np.exp(pmf.trees.log_probability(allowed)))
        part = pmf.trees.given(allowed)
        if part is not None and share > _NO_SHARE:
            shares.append(share)
            trees.append(part.trees[0])
    if not trees:
        raise DataError("the tables and the impossible combinations exclude every combination of categories")
    return JointPMF.from_tree(pmf.schema, _published_trees_as_blocks(np.array(shares), trees))


def _published_trees_as_blocks(shares: Floats, trees: Sequence[HiddenTree]) -> HiddenTree:
    """Return a mixture of trees of one shape as one tree: its states are those of all, which never mix."""
    from scipy.linalg import block_diag

    first, shares = trees[0], shares / shares.sum()
    weights = np.concatenate([share * tree.weights for share, tree in zip(shares, trees, strict=True)])
    transitions = tuple(block_diag(*own) for own in zip(*(tree.transitions for tree in trees), strict=True))
    factors = tuple(np.hstack(own) for own in zip(*(tree.factors for tree in trees), strict=True))
    return HiddenTree(first.parents, first.homes, weights, transitions, factors)


# How far the model is from what was published


def published_fit_misfits(pmf: JointPMF, published: PublishedTables) -> tuple[TableMisfit, ...]:
    """Return how far a model is from each published table, worst first."""
    misfits = []
    for table in published.tables:
        observed, places = table.shares, TablePlaces.of(published, table)
        modelled = places.shares(pmf.trees.of_variables(places.variables).joint(), table)
        is_known = table.low == table.high
        # Of a cell that was not published, or rounded, only what is beyond its bounds is off.
        unit = 1.0 / float(table.counts.sum())
        off = np.where(
            is_known, np.abs(observed - modelled), np.maximum(table.low * unit - modelled, modelled - table.high * unit)
        )
        distance = 0.5 * float(np.maximum(off, 0.0).sum())
        divergence = float(times_log(observed, observed / np.maximum(modelled, 1e-300))[is_known].sum())
        misfits.append(TableMisfit(table.variables, table.weight, distance, max(divergence, 0.0)))
    return tuple(sorted(misfits, key=lambda misfit: -misfit.total_variation))
