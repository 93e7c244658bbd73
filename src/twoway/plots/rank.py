"""A picture of how the rank was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from twoway.errors import DataError
from twoway.plots.heatmap import axes_or_new
from twoway.solvers.rank import RankChoice

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    ax, ranks = axes_or_new(ax, 6.4, 4.2), candidates["rank"]
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
