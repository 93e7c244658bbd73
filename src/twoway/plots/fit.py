"""Plots of a fit: how the starts converged, where the model differs from the tables, how the rank was chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoway.checks.significance import standardized_residuals
from twoway.data.records import Records
from twoway.errors import DataError
from twoway.model.pmf import JointPMF, pmf_of
from twoway.model.records import records_for_model
from twoway.plots.drawing import draw_heatmap, draw_pairs, drawing_axes, drawn_label, drawn_variables
from twoway.report import Report
from twoway.solvers.rank import RankChoice
from twoway.tables.tables import Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_convergence(fitted: JointPMF | Report, *, ax: Axes | None = None) -> Axes:
    """Draw how far each start was from the best objective of all, pass by pass; the kept start is highlighted.

    Parameters
    ----------
    fitted
        A model returned by `tw.fit`, or its report.
    ax
        Where to draw; by default on a new figure.

    Examples
    --------
    >>> import twoway as tw
    >>> pmf = tw.fit({"age": ["young", "old", "old"], "vote": ["no", "yes", "no"]}, rank=2, solver="em", starts=2)
    >>> plot_convergence(pmf).get_xlabel()
    'pass'
    """
    report = fitted.report if hasattr(fitted, "report") else fitted
    if not isinstance(report, Report):
        raise DataError("only a fitted model has objectives to draw; this one has no report")
    ax = drawing_axes(ax, 6.4, 4.2)
    best = report.starts[report.best]
    lowest = min(value for start in report.starts for value in start.objectives)
    # A logarithm has no zero: the best point of all is drawn where a difference would be lost in rounding.
    least = max(1e-12, 1e-12 * abs(lowest))
    for start in sorted(report.starts, key=lambda start: start is best):
        passes = [number for number, value in enumerate(start.objectives, 1) if math.isfinite(value)]
        gaps = [max(start.objectives[number - 1] - lowest, least) for number in passes]
        label = f"{start.solver}, {start.stop_reason.value}" + (" (kept)" if start is best else "")
        style: dict[str, Any] = {"color": "C0", "linewidth": 2, "zorder": 3} if start is best else {"color": "0.65"}
        ax.plot(passes, gaps, marker="o", markevery=[-1] if passes else None, label=label, **style)
    ax.set_yscale("log")
    ax.set_xlabel("pass")
    ax.set_ylabel(f"{report.objective_name},\nabove the best of all starts")
    ax.spines[["top", "right"]].set_visible(False)
    handles, labels = ax.get_legend_handles_labels()
    by_label = dict(zip(reversed(labels), reversed(handles), strict=True))
    ax.legend(by_label.values(), by_label.keys(), fontsize="small", frameon=False)
    return ax


def plot_residuals(pmf: JointPMF, observed: Any, names: Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw where the observed two-way tables differ from the model's, in standard errors.

    For all tables: the root mean square of each table's standardised residuals. Chance alone leaves about 1; more means
    that the model misses something about these two variables. For one table: the residual of each cell.

    Parameters
    ----------
    pmf
        The model.
    observed
        Records in any form that `tw.fit` takes, or `Tables`.
    names
        Two variables, to see the cells of their table.
    ax
        Where to draw; by default on a new figure.

    Examples
    --------
    >>> import twoway as tw
    >>> pmf = tw.datasets.dirichlet_rows(n_variables=4, n_categories=3, rank=2)
    >>> ax = plot_residuals(pmf, pmf.sample(1000), ["x1", "x3"])
    >>> ax.get_ylabel(), ax.get_xlabel()
    ('x1', 'x3')
    """
    pmf = pmf_of(pmf)
    if isinstance(observed, Records):
        observed = Records(observed, schema=pmf.schema)
    is_tables = isinstance(observed, Tables)
    tables = observed if is_tables else Tables.count(records_for_model(pmf.schema, observed, report=pmf.report))
    if names is None:
        return _plot_all_residuals(pmf, tables, ax)
    if isinstance(names, str) or not hasattr(names, "__len__") or len(names) != 2:
        raise DataError(f"names must be two variables, whose table is drawn; got {names!r}")
    residuals = plotted_residuals(pmf, tables, names)
    first, second = pmf.schema[names[0]], pmf.schema[names[1]]
    ax = drawing_axes(ax, 2.8 + 0.5 * len(second), 1.6 + 0.4 * len(first))
    rows, columns = ([drawn_label(label) for label in variable.categories] for variable in (first, second))
    legend = "observed minus model, in standard errors"
    draw_heatmap(ax, residuals, rows, columns, legend=legend, form=".1f", cmap="RdBu", vmin=-4, vmax=4)
    ax.set_ylabel(drawn_label(first.name))
    ax.set_xlabel(drawn_label(second.name))
    return ax


def _plot_all_residuals(pmf: JointPMF, tables: Tables, ax: Axes | None) -> Axes:
    if tables.order != 2 or not len(tables):
        raise DataError("residuals need two-way tables, and there are none")
    variables = tables.schema.names
    sizes = np.full((len(variables), len(variables)), np.nan)
    for names in tables.names:
        row, column = tables.schema.indices(names)
        residuals = plotted_residuals(pmf, tables, names)
        sizes[row, column] = sizes[column, row] = np.sqrt(np.mean(residuals**2))
    shown = drawn_variables(sizes)
    labels = [drawn_label(variables[place]) for place in shown]
    legend = "residuals in standard errors (chance: about 1)"
    return draw_pairs(ax, sizes[np.ix_(shown, shown)], labels, form=".1f", least=3.0, legend=legend, cmap="OrRd")


def plotted_residuals(pmf: JointPMF, tables: Tables, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the differences of a table's shares from the model's, each divided by its standard error.

    Shape (n_categories of the first, n_categories of the second).

    Examples
    --------
    >>> import twoway as tw
    >>> pmf = tw.JointPMF([1], [[[0.5], [0.5]]] * 2, tw.Schema((tw.Variable("a", (0, 1)), tw.Variable("b", (0, 1)))))
    >>> tables = tw.count({"a": [0] * 50 + [1] * 50, "b": [0] * 20 + [1] * 30 + [0] * 30 + [1] * 20})
    >>> plotted_residuals(pmf, tables, ["a", "b"]).round(2)
    array([[-1.15,  1.15],
           [ 1.15, -1.15]])
    """
    table = tables.marginal(list(names))
    for variable in table.variables:
        if difference := pmf.schema[variable.name].difference(variable):
            raise DataError(f"the tables and the model have different variables: {difference}")
    expected, n_records = np.asarray(pmf.marginal(list(names))), table.total
    if n_records is None:
        raise DataError(f"the table of {names!r} has no total, so its residuals have no standard error")
    return standardized_residuals(np.asarray(table), expected, n_records)


def plot_rank(choice: RankChoice, *, ax: Axes | None = None) -> Axes:
    """Draw the comparison of ranks, and the rank that was chosen.

    From records: how far each rank is behind the best on held-out records, with one standard error. From tables: the
    singular value beyond each rank, against what chance alone gives; or AIC if there is no spectrum.

    Parameters
    ----------
    choice
        The result of `tw.choose_rank`.
    ax
        Where to draw; by default on a new figure.

    Examples
    --------
    >>> import twoway as tw
    >>> records = tw.datasets.draw_records(tw.datasets.dirichlet_rows(6, 3, 2), 1000)
    >>> plot_rank(tw.choose_rank(records, [1, 2, 3])).get_xlabel()
    'rank'
    """
    if not isinstance(choice, RankChoice):
        raise DataError(f"plot_rank draws what choose_rank returns, not {type(choice).__name__}")
    candidates = pd.DataFrame(list(choice.candidates))
    if choice.how == "held-out likelihood" and candidates["held_out"].isna().any():
        raise DataError("there was too little data to compare ranks, so there is nothing to draw")
    ax, ranks = drawing_axes(ax, 6.4, 4.2), candidates["rank"]
    if choice.how == "held-out likelihood":
        ax.errorbar(ranks, candidates["behind"], yerr=candidates["standard_error"], marker="o", capsize=3)
        unfinished = candidates[~candidates["converged"].astype(bool)]
        ax.plot(unfinished["rank"], unfinished["behind"], "o", color="white", markeredgecolor="C0", zorder=3)
        ax.set_ylabel("behind the best, nats per held-out record")
    elif choice.how == "spectrum":
        ax.plot(ranks, candidates["singular"], marker="o", label="tables")
        ax.plot(ranks, candidates["noise"], "--", color="0.5", label="chance")
        ax.set_ylabel("singular value beyond the rank")
        ax.legend(frameon=False)
    else:
        ax.plot(ranks, candidates["aic"], marker="o")
        ax.set_ylabel("AIC")
    ax.axvline(choice.rank, color="C1", linewidth=1)
    ax.set_title(f"rank {choice.rank}, by {choice.how}")
    ax.set_xlabel("rank")
    ax.set_xticks(ranks)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
