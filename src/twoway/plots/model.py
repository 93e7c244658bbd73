"""Plots of a model: its components, and which variables depend on which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from twoway.model.information import pairwise_information
from twoway.model.pmf import JointPMF, model_of
from twoway.plots.heatmap import axes_or_new, draw_heatmap, draw_pairs, plain, strongest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 60


def plot_components(pmf: JointPMF, names: str | Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the components side by side: how common each category is in each, and how that differs from all records.

    Parameters
    ----------
    pmf
        The model.
    names
        The variables to show; by default all, or as many as fit of those that distinguish the components best.
    ax
        Where to draw; by default on a new figure.

    Examples
    --------
    >>> import twoway as tw
    >>> ax = plot_components(tw.datasets.dirichlet_rows(n_variables=4, n_categories=3, rank=2))
    >>> [label.get_text() for label in ax.get_yticklabels()][:5]
    ['x1', '0', '1', '2', 'x2']
    """
    pmf = model_of(pmf)
    indices = _most_informative(pmf) if names is None else pmf.schema.indices(names)
    # A variable is a row of its name, with empty cells, and one for each of its categories.
    empty = np.full((1, pmf.rank), np.nan)
    shares = np.concatenate([part for index in indices for part in (empty, pmf.factors[index])])
    differences = shares - (shares @ pmf.weights)[:, np.newaxis]
    variables = [pmf.schema.variables[index] for index in indices]
    rows = [text for v in variables for text in (plain(v.name, 40), *map(plain, v.categories))]
    headings = np.cumsum([0, *(len(variable) + 1 for variable in variables)])[:-1]
    largest = max(float(np.nanmax(np.abs(differences))), 1e-12)
    ax = axes_or_new(ax, 3.5 + 0.55 * pmf.rank, 1.5 + 0.24 * len(rows))
    columns = [f"{number}\n{weight:.0%}" for number, weight in enumerate(pmf.weights, 1)]
    texts = [[f"{100 * share:.0f}" for share in row] for row in shares]
    legend = "share in the component minus share in all records"
    draw_heatmap(ax, differences, rows, columns, legend=legend, texts=texts, cmap="RdBu", vmin=-largest, vmax=largest)
    for place in headings:
        ax.get_yticklabels()[place].set_fontweight("bold")
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_xlabel("component, and how common it is" + _left_out(len(indices), pmf), fontsize="small")
    return ax


def _most_informative(pmf: JointPMF) -> list[int]:
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


def _left_out(n_shown: int, pmf: JointPMF) -> str:
    total = len(pmf.schema)
    return "" if n_shown == total else f" ({n_shown} of {total} variables)"


def plot_dependence(pmf: JointPMF, names: Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the mutual information of every two variables, with related variables side by side.

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
    pmf = model_of(pmf)
    indices = list(range(len(pmf.schema))) if names is None else pmf.schema.indices(names)
    information = pairwise_information(pmf.weights, [pmf.factors[index] for index in indices]) / math.log(2)
    np.fill_diagonal(information, 0.0)
    shown = strongest(information) if names is None else np.arange(len(indices))
    order = shown[neighbours_together(information[np.ix_(shown, shown)])]
    information = information[np.ix_(order, order)]
    np.fill_diagonal(information, np.nan)
    labels = [plain(pmf.schema.names[indices[place]]) for place in order]
    legend = "mutual information in bits" + _left_out(len(labels), pmf)
    return draw_pairs(ax, information, labels, form=".2f", least=1e-12, legend=legend, cmap="Blues")


def neighbours_together(closeness: NDArray[np.float64]) -> list[int]:
    """Return an order in which what is close is side by side, by hierarchical clustering.

    Examples
    --------
    >>> neighbours_together(np.array([[0, 0, 9, 0], [0, 0, 0, 9], [9, 0, 0, 1], [0, 9, 1, 0.0]]))
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
