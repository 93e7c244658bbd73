"""Plots of a model: its components, which variables depend on which, and how categories scatter over components."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoway.errors import DataError
from twoway.model.information import pairwise_information
from twoway.model.pmf import JointPMF, pmf_behind, pmf_of
from twoway.plots.drawing import draw_hatches, draw_heatmap, draw_pairs, drawing_axes, drawn_label, drawn_variables
from twoway.segmentation.segments import Segments
from twoway.text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_MOST_ROWS = 60
# The corners of the triangle, one per component.
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(0.75)]])


def plot_components(
    pmf: JointPMF, names: str | Sequence[str] | None = None, *, of: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the components side by side: how common each category is in each, and how that differs from all records.

    Parameters
    ----------
    pmf
        The model.
    names
        The variables to show; by default all, or as many as fit of those that distinguish the components best.
    of
        A variable: the components are the states of the hidden variable that it is attached to. Only a model with
        several hidden variables needs it.
    ax
        Where to draw; by default on a new figure.

    Examples
    --------
    >>> import twoway as tw
    >>> ax = plot_components(tw.datasets.dirichlet_rows(n_variables=4, n_categories=3, rank=2))
    >>> [label.get_text() for label in ax.get_yticklabels()][:5]
    ['x1', '0', '1', '2', 'x2']
    """
    pmf = pmf_behind(pmf, of, "plot_components")
    columns = [f"{number}\n{weight:.0%}" for number, weight in enumerate(pmf.weights, 1)]
    return _plot_model_profiles(pmf, names, columns, "component", "how common it is", ax)


def plot_profiles(segments: Segments, names: str | Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the profiles of segments side by side: how common each category is in each, and whether that is chance.

    Parameters
    ----------
    segments
        What `segments` found. A share without + or − differs from that of all people by no more than chance.
    names
        The variables to show; by default all, or as many as fit of those that distinguish the segments best.
    ax
        Where to draw; by default on a new figure.

    Examples
    --------
    >>> import twoway as tw
    >>> people = {"a": ["x", "x", "y"] * 20, "b": ["u", "u", "v"] * 20}
    >>> ax = plot_profiles(tw.segments(people, 2, replicates=0).rename(["regulars", "others"]))
    >>> [label.get_text().split() for label in ax.get_xticklabels()]
    [['regulars', '67%'], ['others', '33%']]
    """
    if not isinstance(segments, Segments):
        raise DataError(f"plot_profiles draws what tw.segments found, not {type(segments).__name__}")
    columns = [f"{textwrap.fill(drawn_label(name), 12)}\n{size:.0%}" for name, size in segments.sizes.items()]
    return _plot_model_profiles(segments.pmf, names, columns, "segment", "its size", ax, segments.profile.marks)


def _plot_model_profiles(
    pmf: JointPMF,
    names: str | Sequence[str] | None,
    columns: Sequence[str],
    what: str,
    size: str,
    ax: Axes | None,
    marks: NDArray[np.int64] | None = None,
) -> Axes:
    """Draw the shares of some variables' categories in each component, with marks (n_categories, rank) behind them."""
    indices = _plotted_model_variables(pmf) if names is None else _named_model_variables(pmf, names)
    cells = np.r_[tuple(pmf.schema.cells(index) for index in indices)]
    # Above its categories, each variable has a row of its name, with empty cells.
    heads = np.cumsum([0, *(pmf.schema.sizes[index] for index in indices[:-1])])
    shares = np.insert(pmf.stacked[cells], heads, np.nan, axis=0)
    differences = shares - (shares @ pmf.weights)[:, np.newaxis]
    variables = [pmf.schema.variables[index] for index in indices]
    rows = [text for v in variables for text in (drawn_label(v.name, 40), *map(drawn_label, v.categories))]
    largest = max(float(np.nanmax(np.abs(differences))), 1e-12)
    widest = max(len(line) for column in columns for line in column.splitlines())
    ax = drawing_axes(ax, 3.5 + max(0.55, 0.09 * widest) * pmf.rank, 1.5 + 0.24 * len(rows))
    legend = f"share in the {what} minus share in all records"
    style: dict[str, Any] = {"cmap": "RdBu", "vmin": -largest, "vmax": largest, "bold": np.isnan(shares[:, 0])}
    signs = None if marks is None else np.insert(np.array(["−", "", "+"])[marks[cells] + 1], heads, "", axis=0)
    draw_heatmap(ax, differences, rows, columns, 100 * shares, legend=legend, form=".0f", marks=signs, **style)
    ax.xaxis.set_label_position("top")
    ax.set_xlabel(f"{what}, and {size}{_plotted_model_part(len(indices), pmf)}", fontsize="small")
    return ax


def _named_model_variables(pmf: JointPMF, names: str | Sequence[str] | None) -> list[int]:
    """Return the positions of these variables, at least one, or of all."""
    if not (indices := pmf.schema.indices(pmf.schema.names if names is None else names)):
        raise DataError("names is empty; name at least one variable, or leave it out to see all")
    return indices


def _plotted_model_variables(pmf: JointPMF) -> list[int]:
    """Return the variables that say most about the component, as many as fit, in the order of the schema."""
    from scipy.special import rel_entr

    if pmf.schema.n_categories <= _MOST_ROWS:
        return list(range(len(pmf.schema)))
    by_cell = rel_entr(pmf.stacked, (pmf.stacked @ pmf.weights)[:, np.newaxis]) @ pmf.weights
    information = np.add.reduceat(by_cell, pmf.schema.offsets[:-1])
    order = np.argsort(-information, kind="stable")
    n_rows = np.cumsum(np.array(pmf.schema.sizes)[order])
    n_shown = max(1, int(np.searchsorted(n_rows, _MOST_ROWS, side="right")))
    return sorted(order[:n_shown].tolist())


def _plotted_model_part(n_shown: int, pmf: JointPMF) -> str:
    total = len(pmf.schema)
    return "" if n_shown == total else f" ({n_shown} of {total} variables)"


def plot_dependence(pmf: JointPMF, names: Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the mutual information of every two variables, with related variables side by side.

    Of a model fitted from tables, pairs of variables that no table shows are hatched in grey.

    Parameters
    ----------
    pmf
        The model.
    names
        The variables to show; by default all, or the 40 with the strongest links.
    ax
        Where to draw; by default on a new figure.

    Examples
    --------
    >>> import twoway as tw
    >>> ax = plot_dependence(tw.datasets.dirichlet_rows(n_variables=4, n_categories=3, rank=2))
    >>> sorted(label.get_text() for label in ax.get_yticklabels())
    ['x1', 'x2', 'x3', 'x4']
    """
    pmf = pmf_of(pmf)
    indices = _named_model_variables(pmf, names)
    information = pairwise_information(pmf.trees.of_variables(indices)) / math.log(2)
    np.fill_diagonal(information, 0.0)
    shown = drawn_variables(information) if names is None else np.arange(len(indices))
    order = shown[plotted_dependence_order(information[np.ix_(shown, shown)])]
    information = information[np.ix_(order, order)]
    np.fill_diagonal(information, np.nan)
    labels = [drawn_label(pmf.schema.names[indices[place]]) for place in order]
    legend = "mutual information in bits" + _plotted_model_part(len(labels), pmf)
    is_silent = None if pmf.counts is None else pmf.counts.are_silent
    if is_silent is not None:
        places = np.array(indices)[order]
        is_silent = is_silent[np.ix_(places, places)]
        information[is_silent] = np.nan
    ax = draw_pairs(ax, information, labels, form=".2f", least=1e-12, legend=legend, cmap="Blues")
    if is_silent is not None and is_silent.any():
        draw_hatches(ax, is_silent, "no table shows the pair")
    return ax


def plotted_dependence_order(closeness: NDArray[np.float64]) -> list[int]:
    """Return an order in which what is close is side by side, by hierarchical clustering.

    Examples
    --------
    >>> plotted_dependence_order(np.array([[0, 0, 9, 0], [0, 0, 0, 9], [9, 0, 0, 1], [0, 9, 1, 0.0]]))
    [0, 2, 3, 1]
    """
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(closeness) < 3:
        return list(range(len(closeness)))
    distances = closeness.max() - closeness
    np.fill_diagonal(distances, 0.0)
    tree = linkage(squareform(distances, checks=False), "average", optimal_ordering=True)
    return [int(place) for place in leaves_list(tree)]


def plot_scatter(
    pmf: JointPMF, names: str | Sequence[str] | None = None, *, of: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw each category of a model of rank 3 at its place between the components, with hull and inner circle.

    A category that occurs in one component only lies in its corner: with one in each, the model is separable. If the
    hull contains the circle, the categories are sufficiently scattered.

    Parameters
    ----------
    pmf
        A model of rank 3.
    names
        The variables whose categories to draw; all by default.
    of
        A variable: the components are the states of the hidden variable that it is attached to, as for
        `plot_components`.
    ax
        Where to draw; by default on a new figure.

    Examples
    --------
    >>> import twoway as tw
    >>> plot_scatter(tw.datasets.dirichlet_rows(4, 5, 3)).get_title()
    '20 categories of 4 variables'
    """
    pmf = pmf_behind(pmf, of, "plot_scatter")
    if pmf.rank != 3:
        raise DataError(f"a scatter plot needs three components; this model has rank {pmf.rank}")
    indices = _named_model_variables(pmf, names)
    rows = np.concatenate([pmf.factors[index] for index in indices]) * pmf.weights
    sums = rows.sum(axis=1)
    points = (rows[sums > 0] / sums[sums > 0, None]) @ _CORNERS
    ax = drawing_axes(ax, 5.2, 4.8)
    ax.fill(*_CORNERS.T, facecolor="none", edgecolor="0.3")
    hull = _plot_scatter_hull(points)
    ax.fill(*hull.T, facecolor="C0", alpha=0.15, edgecolor="C0", linewidth=1)
    around = np.linspace(0.0, 2.0 * math.pi, 200)
    # The cone Σx ≥ √2·‖x‖ meets the triangle in the circle that touches its sides.
    radius = 1.0 / (2.0 * math.sqrt(3.0))
    center = _CORNERS.mean(axis=0)
    ax.plot(center[0] + radius * np.cos(around), center[1] + radius * np.sin(around), color="C3", linewidth=1)
    ax.plot(*points.T, "o", color="C0", markersize=4)
    for number, (corner, weight) in enumerate(zip(_CORNERS, pmf.weights, strict=True), 1):
        offset, side = ((0, -12), "top") if corner[1] == 0 else ((0, 8), "bottom")
        ax.annotate(f"{number} ({weight:.0%})", corner, offset, textcoords="offset points", ha="center", va=side)
    ax.set_title(f"{len(points)} categories of {counted(len(indices), 'variable')}", pad=18)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def _plot_scatter_hull(points: np.ndarray) -> np.ndarray:
    """Return the corners of the hull in order; all points if they lie on a line."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except (QhullError, ValueError):
        return points
