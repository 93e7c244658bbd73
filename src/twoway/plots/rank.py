"""A picture of how the rank was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twoway.errors import DataError
from twoway.plots.heatmap import axes_or_new
from twoway.solvers.rank import RankChoice

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_rank(choice: RankChoice, *, ax: Axes | None = None) -> Axes:
    """Draw what was compared to choose the rank, with the one chosen.

    From records: how far each rank is behind the best on held-out records, with one standard error. From tables: the
    singular value beyond each rank against what chance makes; or AIC where there is no spectrum.

    Parameters
    ----------
    choice
        What `tw.choose_rank` returned.
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
    ax = axes_or_new(ax, 6.4, 4.2)
    candidates = choice.candidates
    ranks = [one["rank"] for one in candidates]
    if choice.how == "held-out likelihood":
        if candidates[0].get("held_out") is None:
            raise DataError("there was too little to compare ranks by; there is nothing to draw")
        behind = [one["behind"] for one in candidates]
        ax.errorbar(ranks, behind, yerr=[one["standard_error"] for one in candidates], marker="o", capsize=3)
        for one in candidates:
            if not one["converged"]:
                ax.plot(one["rank"], one["behind"], "o", color="white", markeredgecolor="C0", zorder=3)
        ax.set_ylabel("behind the best, nats a held-out record")
    elif choice.how == "spectrum":
        shown = [one for one in candidates if one["singular"] is not None]
        ax.plot([one["rank"] for one in shown], [one["singular"] for one in shown], marker="o", label="tables")
        ax.plot([one["rank"] for one in shown], [one["noise"] for one in shown], "--", color="0.5", label="chance")
        ax.set_ylabel("singular value beyond the rank")
        ax.legend(frameon=False)
    else:
        ax.plot(ranks, [one["aic"] for one in candidates], marker="o")
        ax.set_ylabel("AIC")
    ax.axvline(choice.rank, color="C1", linewidth=1)
    ax.set_title(f"rank {choice.rank}, by {choice.how}")
    ax.set_xlabel("rank")
    ax.set_xticks(ranks)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
