"""Pictures of a model: its components, and which variables depend on which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from twoway.model.information import pairwise_information
from twoway.model.mixture import entropy
from twoway.model.pmf import JointPMF, check_model
from twoway.plots.heatmap import axes_or_new, draw_heatmap, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 60
_MOST_VARIABLES = 40


def plot_components(pmf: JointPMF, names: str | Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the components side by side: how common each category is in each, and how that differs from all records.

    Parameters
    ----------
    pmf
        The model.
    names
        The variables to show; by default all, or as many of those that tell the components apart best as fit.
    ax
        Where to draw; by default on a new figure.

    Examples
    --------
    >>> import twoway as tw
    >>> ax = plot_components(tw.datasets.dirichlet_rows(n_variables=4, n_categories=3, rank=2))
    >>> [label.get_text() for label in ax.get_yticklabels()][:5]
    ['x1', '0', '1', '2', 'x2']
    """
    check_model(pmf)
    if names is None:
        indices = _most_telling(pmf)
    else:
        indices = pmf.schema.indices(names)
    # A variable is a row of its name, with empty cells, and one for each of its categories.
    empty = np.full((1, pmf.rank), np.nan)
    shares = np.concatenate([part for index in indices for part in (empty, pmf.factors[index])])
    differences = shares - (shares @ pmf.weights)[:, np.newaxis]
    variables = [pmf.schema.variables[index] for index in indices]
    rows = [text for v in variables for text in (plain(v.name, 40), *map(plain, v.categories))]
    headings = np.cumsum([0, *(len(variable) + 1 for variable in variables)])[:-1]
    largest = max(float(np.nanmax(np.abs(differences))), 1e-12)
    ax = axes_or_new(ax, 3.5 + 0.55 * pmf.rank, 1.5 + 0.24 * len(rows))
    draw_heatmap(
        ax,
        differences,
        rows,
        [f"{component + 1}\n{weight:.0%}" for component, weight in enumerate(pmf.weights)],
        legend="share in the component minus share in all records",
        texts=np.array([[f"{100 * share:.0f}" for share in row] for row in shares]),
        cmap="RdBu",
        vmin=-largest,
        vmax=largest,
    )
    for place in headings:
        ax.get_yticklabels()[place].set_fontweight("bold")
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_xlabel("component, and how common it is" + _left_out(len(indices), pmf), fontsize="small")
    return ax


def _most_telling(pmf: JointPMF) -> list[int]:
    """Return the variables that tell most about the component, as many as fit, in the order of the schema."""
    if pmf.schema.n_categories <= _MOST_ROWS:
        return list(range(len(pmf.schema)))
    told = [
        entropy(pmf.weights, [factor])
        - math.fsum(
            weight * entropy(np.ones(1), [column[:, np.newaxis]])
            for weight, column in zip(pmf.weights, factor.T, strict=True)
        )
        for factor in pmf.factors
    ]
    chosen: list[int] = []
    for index in np.argsort(-np.array(told), kind="stable").tolist():
        if chosen and sum(pmf.schema.sizes[one] for one in [*chosen, index]) > _MOST_ROWS:
            break
        chosen.append(index)
    return sorted(chosen)


def _left_out(n_shown: int, pmf: JointPMF) -> str:
    total = len(pmf.schema)
    return "" if n_shown == total else f" ({n_shown} of {total} variables)"


def plot_dependence(pmf: JointPMF, names: Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw how much every two variables tell about each other, with those beside each other that go together.

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
    check_model(pmf)
    indices = list(range(len(pmf.schema))) if names is None else pmf.schema.indices(names)
    information = pairwise_information(pmf.weights, [pmf.factors[index] for index in indices]) / math.log(2)
    np.fill_diagonal(information, 0.0)
    if names is None and len(indices) > _MOST_VARIABLES:
        kept = np.sort(np.argsort(-information.max(axis=1), kind="stable")[:_MOST_VARIABLES])
        information, indices = information[np.ix_(kept, kept)], [indices[place] for place in kept]
    order = neighbours_together(information)
    information = information[np.ix_(order, order)]
    np.fill_diagonal(information, np.nan)
    labels = [plain(pmf.schema.names[indices[place]]) for place in order]
    size = 2.5 + 0.3 * len(labels)
    ax = axes_or_new(ax, size + 0.8, size)
    texts = np.array([[f"{value:.2f}".removeprefix("0") for value in row] for row in information])
    draw_heatmap(
        ax,
        information,
        labels,
        labels,
        legend="mutual information in bits" + _left_out(len(labels), pmf),
        texts=texts,
        cmap="Blues",
        vmin=0,
        vmax=max(np.nan_to_num(information).max(initial=0.0), 1e-12),
    )
    return ax


def neighbours_together(closeness: NDArray[np.float64]) -> list[int]:
    """Return an order in which what is close stands together, by hierarchical clustering.

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
