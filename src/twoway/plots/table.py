"""A table by a banner as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twoway.errors import DataError
from twoway.plots.drawing import draw_heatmap, drawing_axes, drawn_label
from twoway.tabulation.result import BannerTable
from twoway.tabulation.writing import written_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_table(table: BannerTable, *, ax: Axes | None = None) -> Axes:
    """Draw the shares of one question by a banner, with letters for differences that are more than chance.

    Shares are those that were observed, where the model keeps counts, and modelled ones elsewhere. Means are not drawn.

    Parameters
    ----------
    table
        One of the tables that `tabulate` returns, such as ``tables["vote"]``.
    ax
        Where to draw; by default on a new figure.

    Examples
    --------
    >>> import twoway as tw
    >>> survey = {"age": ["18-39", "40+"] * 40, "vote": ["no", "yes", "no", "yes", "no", "yes", "yes", "no"] * 10}
    >>> ax = plot_table(tw.tabulate(tw.fit(survey, rank=2), "vote", "age")["vote"])
    >>> [text.get_text() for text in ax.texts]
    ['50', '75 B', '25', '50', '25', '75 A']
    """
    if not isinstance(table, BannerTable):
        raise DataError(f"plot_table draws a table of tw.tabulate, such as tables['vote'], not {type(table).__name__}")
    places = [place for place, row in enumerate(table.rows) if row.kind != "mean"]
    shares = (table.observed if table.is_observed else table.modelled)[places]
    if not np.isfinite(shares).any():
        raise DataError(f"the table of {table.name!r} has no shares to draw")
    # Above a column: variable, label, letter and base.
    heads = [
        (drawn_label(column.variable, 12), drawn_label(column.label, 12), column.letter) for column in table.columns
    ]
    bases = [f"n = {n:,.0f}" if np.isfinite(n) else "" for n in table.records.tolist()]
    columns = ["\n".join(filter(None, (*head, base))) for head, base in zip(heads, bases, strict=True)]
    rows = [drawn_label(table.rows[place].label) for place in places]
    letters = table.higher_than[places]
    ax = drawing_axes(ax, 3.0 + 0.85 * len(columns), 2.2 + 0.3 * len(rows))
    legend = "observed share, %" if table.is_observed else "modelled share, %"
    style: dict[str, Any] = {"form": ".0f", "cmap": "Blues", "vmin": 0.0, "vmax": 100.0}
    marks = np.where(letters != "", np.char.add(" ", letters), "")
    are_nets = [table.rows[place].kind == "net" for place in places]
    draw_heatmap(ax, 100.0 * shares, rows, columns, legend=legend, marks=marks, bold=are_nets, **style)
    ax.set_title(drawn_label(written_title(table), 70), fontsize="medium", loc="left", fontweight="bold")
    return ax
