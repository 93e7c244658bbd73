"""Axes to draw on, and labelled heat maps, which most of the plots are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoway.errors import DataError
from twoway.text import MAX_WIDTH, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NUMBERS = 900
"""A heat map of more cells has no numbers in them."""
MOST_VARIABLES = 40
"""A heat map of pairs has at most this many variables."""


def drawing_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return ``ax``, or the axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise DataError('plots need matplotlib: pip install "twoway[plot]"') from None
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def drawn_variables(matrix: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the variables with the largest entries of a symmetric matrix, as many as fit, in their order."""
    largest = np.nan_to_num(matrix).max(axis=1)
    return np.sort(np.argsort(-largest, kind="stable")[:MOST_VARIABLES])


def draw_pairs(
    ax: Axes | None, matrix: NDArray[np.float64], labels: Sequence[str], *, least: float, **options: Any
) -> Axes:
    """Draw a number for every two variables, with the same labels at both sides; NaN leaves a cell empty.

    ``least`` is the number that the darkest colour means at least; the options are those of `draw_heatmap`.
    """
    ax = drawing_axes(ax, 3.3 + 0.3 * len(labels), 2.5 + 0.3 * len(labels))
    highest = max(least, float(np.nan_to_num(matrix).max(initial=0.0)))
    draw_heatmap(ax, matrix, labels, labels, vmin=0, vmax=highest, **options)
    return ax


def draw_heatmap(
    ax: Axes,
    colours: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    numbers: NDArray[np.float64] | None = None,
    *,
    legend: str,
    form: str,
    marks: NDArray[np.str_] | None = None,
    bold: Sequence[bool] | NDArray[np.bool_] | None = None,
    **options: Any,
) -> None:
    """Draw a matrix of cells with labels at both sides, numbers in the cells if they fit, and a colour bar.

    Parameters
    ----------
    ax
        Where to draw.
    colours
        Shape (n_rows, n_columns); NaN leaves a cell empty.
    rows, columns
        The labels, as matplotlib should show them: see `drawn_label`.
    numbers
        The number in each cell, of the same shape; by default what the colour means.
    legend
        What the colours mean.
    form
        The format of the numbers.
    marks
        Text behind each number, of the same shape.
    bold
        For each row, whether its label is bold. The labels of the columns are then upright, above the cells.
    options
        For ``imshow``: the colour map and its limits.
    """
    image = ax.imshow(colours, aspect="auto", **options)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    for place in np.flatnonzero([] if bold is None else bold):
        ax.get_yticklabels()[place].set_fontweight("bold")
    if bold is not None:
        ax.xaxis.tick_top()
    elif any(len(line) > 6 for label in columns for line in label.splitlines()):
        ax.set_xticks(range(len(columns)), columns, rotation=60, ha="right", rotation_mode="anchor")
    ax.tick_params(length=0, labelsize="small")
    ax.spines[:].set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.6, aspect=30)
    bar.set_label(legend, fontsize="small")
    bar.outline.set_visible(False)
    if colours.size > MOST_NUMBERS:
        return
    for row, column in np.argwhere(~np.isnan(colours)).tolist():
        red, green, blue, _ = image.to_rgba(colours[row, column])
        colour = "white" if 0.3 * red + 0.6 * green + 0.1 * blue < 0.5 else "black"
        text = format((colours if numbers is None else numbers)[row, column], form)
        text += "" if marks is None else str(marks[row, column])
        ax.text(column, row, text, ha="center", va="center", fontsize="x-small", color=colour)


def draw_hatches(ax: Axes, is_hatched: NDArray[np.bool_], legend: str) -> None:
    """Draw some cells of a matrix in hatched grey, and write above it what that means."""
    from matplotlib.patches import Rectangle

    style: dict[str, Any] = {"facecolor": "0.93", "edgecolor": "0.6", "hatch": "////", "linewidth": 0}
    for row, column in np.argwhere(is_hatched).tolist():
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **style))
    key = Rectangle((0, 0), 1, 1, **style)
    ax.legend([key], [legend], loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize="small")


def drawn_label(label: object, width: int = MAX_WIDTH) -> str:
    """Return a label as one line of text that matplotlib does not parse as a formula.

    Examples
    --------
    >>> drawn_label("$5 or $6")
    '\\\\$5 or \\\\$6'
    """
    return printable(label, width).replace("$", r"\$")
