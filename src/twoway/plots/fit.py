"""Plots of a fit: how the starts converged, and where the model differs from the tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoway.data.records import Records
from twoway.errors import DataError
from twoway.model.measures import standardized_residuals
from twoway.model.pmf import JointPMF, model_of
from twoway.plots.heatmap import axes_or_new, draw_heatmap, draw_pairs, plain, strongest
from twoway.report import Report
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
    ax = axes_or_new(ax, 6.4, 4.2)
    kept = report.starts[report.best]
    lowest = min(value for start in report.starts for value in start.objectives)
    # A logarithm has no zero: the best point of all is drawn where a difference would be lost in rounding.
    least = max(1e-12, 1e-12 * abs(lowest))
    for start in sorted(report.starts, key=lambda start: start is kept):
        passes = [number for number, value in enumerate(start.objectives, 1) if math.isfinite(value)]
        gaps = [max(start.objectives[number - 1] - lowest, least) for number in passes]
        label = f"{start.solver}, {start.stop_reason.value}" + (" (kept)" if start is kept else "")
        style: dict[str, Any] = {"color": "C0", "linewidth": 2, "zorder": 3} if start is kept else {"color": "0.65"}
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
    pmf = model_of(pmf)
    tables = observed if isinstance(observed, Tables) else Tables.count(Records(observed, schema=pmf.schema))
    if names is None:
        return _draw_tables(pmf, tables, ax)
    if len(names) != 2 or isinstance(names, str):
        raise DataError(f"names must be two variables, whose table is drawn; got {names!r}")
    residuals = table_residuals(pmf, tables, names)
    first, second = pmf.schema[names[0]], pmf.schema[names[1]]
    ax = axes_or_new(ax, 2.8 + 0.5 * len(second), 1.6 + 0.4 * len(first))
    labels = ([plain(label) for label in variable.categories] for variable in (first, second))
    texts = [[f"{value:.1f}" for value in row] for row in residuals]
    legend = "observed minus model, in standard errors"
    draw_heatmap(ax, residuals, *labels, legend=legend, texts=texts, cmap="RdBu", vmin=-4, vmax=4)
    ax.set_ylabel(plain(first.name))
    ax.set_xlabel(plain(second.name))
    return ax


def _draw_tables(pmf: JointPMF, tables: Tables, ax: Axes | None) -> Axes:
    if tables.order != 2 or not len(tables):
        raise DataError("residuals need two-way tables, and there are none")
    variables = tables.schema.names
    sizes = np.full((len(variables), len(variables)), np.nan)
    for names in tables.names:
        row, column = tables.schema.indices(names)
        residuals = table_residuals(pmf, tables, names)
        sizes[row, column] = sizes[column, row] = np.sqrt(np.mean(residuals**2))
    shown = strongest(sizes)
    labels = [plain(variables[place]) for place in shown]
    legend = "residuals in standard errors (chance: about 1)"
    return draw_pairs(ax, sizes[np.ix_(shown, shown)], labels, form=".1f", least=3.0, legend=legend, cmap="OrRd")


def table_residuals(pmf: JointPMF, tables: Tables, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the differences of a table's shares from the model's, each divided by its standard error.

    Shape (n_categories of the first, n_categories of the second).

    Examples
    --------
    >>> import twoway as tw
    >>> pmf = tw.JointPMF([1], [[[0.5], [0.5]]] * 2, tw.Schema((tw.Variable("a", (0, 1)), tw.Variable("b", (0, 1)))))
    >>> tables = tw.count({"a": [0] * 50 + [1] * 50, "b": [0] * 20 + [1] * 30 + [0] * 30 + [1] * 20})
    >>> table_residuals(pmf, tables, ["a", "b"]).round(2)
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
