"""Plots of a model and of its fit, with matplotlib (``pip install "twoway[plot]"``); each returns the Axes."""

from twoway.plots.fit import plot_convergence, plot_rank, plot_residuals
from twoway.plots.model import plot_components, plot_dependence, plot_profiles, plot_scatter
from twoway.plots.table import plot_table

__all__ = [
    "plot_components",
    "plot_convergence",
    "plot_dependence",
    "plot_profiles",
    "plot_rank",
    "plot_residuals",
    "plot_scatter",
    "plot_table",
]
