"""Plots of a model and of its fit, with matplotlib (``pip install "twoway[plot]"``); each returns the Axes."""

from twoway.plots.fit import plot_convergence, plot_residuals
from twoway.plots.model import plot_components, plot_dependence
from twoway.plots.rank import plot_rank
from twoway.plots.scatter import plot_scatter

__all__ = ["plot_components", "plot_convergence", "plot_dependence", "plot_rank", "plot_residuals", "plot_scatter"]
