"""Axes to draw on, and a labelled heat map, which most of the pictures are."""

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


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the axes given, or those of a new figure of some inches."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise DataError('pictures need matplotlib: pip install "twoway[plot]"') from None
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def draw_heatmap(
    ax: Axes,
    colours: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    legend: str,
    texts: NDArray[Any] | None = None,
    **options: Any,
) -> None:
    """Draw a matrix of cells with labels at both sides, numbers in the cells where they fit, and a colour bar.

    Parameters
    ----------
    ax
        Where to draw.
    colours
        Shape (n_rows, n_columns); NaN leaves a cell empty.
    rows, columns
        A label for each, as matplotlib shall show it: see `plain`.
    legend
        What the colours mean.
    texts
        What stands in each cell.
    options
        Passed on to ``imshow``: the colour map and its limits.
    """
    image = ax.imshow(colours, aspect="auto", **options)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    if any(len(line) > 6 for label in columns for line in label.splitlines()):
        ax.tick_params(axis="x", labelrotation=60)
        for label in ax.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    ax.tick_params(length=0, labelsize="small")
    for spine in ax.spines.values():
        spine.set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.6, aspect=30)
    bar.set_label(legend, fontsize="small")
    bar.outline.set_visible(False)
    if texts is None or texts.size > MOST_NUMBERS:
        return
    for (row, column), text in np.ndenumerate(texts):
        if not np.isnan(colours[row, column]):
            red, green, blue, _ = image.to_rgba(colours[row, column])
            is_dark = 0.3 * red + 0.6 * green + 0.1 * blue < 0.5
            ax.text(
                column, row, text, ha="center", va="center", fontsize="x-small", color="white" if is_dark else "black"
            )


def plain(label: object, width: int = MAX_WIDTH) -> str:
    """Return a label as one line of text that matplotlib does not read as a formula.

    Examples
    --------
    >>> plain("$5 or $6")
    '\\\\$5 or \\\\$6'
    """
    return printable(label, width).replace("$", r"\$")
