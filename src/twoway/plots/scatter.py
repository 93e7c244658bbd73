"""The paper's Figure 1: how the categories scatter over three components."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from twoway.errors import DataError
from twoway.model.pmf import JointPMF, model_of
from twoway.plots.heatmap import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The corners of the triangle, one per component.
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(0.75)]])


def plot_scatter(pmf: JointPMF, names: str | Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw each category of a model of rank 3 at its place between the components, with hull and inner circle.

    A category that occurs in one component only lies in its corner: with one in each, the model is separable. If the
    hull contains the circle, the categories are sufficiently scattered.

    Parameters
    ----------
    pmf
        A model of rank 3.
    names
        The variables whose categories to draw; all by default.
    ax
        Where to draw; by default on a new figure.

    Examples
    --------
    >>> import twoway as tw
    >>> plot_scatter(tw.datasets.dirichlet_rows(4, 5, 3)).get_title()
    '20 categories of 4 variables'
    """
    pmf = model_of(pmf)
    if pmf.rank != 3:
        raise DataError(f"a scatter plot needs three components; this model has rank {pmf.rank}")
    indices = pmf.schema.indices(pmf.schema.names if names is None else names)
    rows = np.concatenate([pmf.factors[index] for index in indices]) * pmf.weights
    sums = rows.sum(axis=1)
    points = (rows[sums > 0] / sums[sums > 0, None]) @ _CORNERS
    ax = axes_or_new(ax, 5.2, 4.8)
    ax.fill(*_CORNERS.T, facecolor="none", edgecolor="0.3")
    hull = _hull(points)
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
    ax.set_title(f"{len(points)} categories of {len(indices)} variable{'s' * (len(indices) > 1)}", pad=18)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def _hull(points: np.ndarray) -> np.ndarray:
    """Return the corners of the hull in order; all points if they lie on a line."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except (QhullError, ValueError):
        return points
