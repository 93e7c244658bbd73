"""Pictures of a model and of its fit, with matplotlib (``pip install "twoway[plot]"``); each returns the Axes."""

from twoway.plots.fit import plot_convergence, plot_residuals
from twoway.plots.model import plot_components, plot_dependence

__all__ = ["plot_components", "plot_convergence", "plot_dependence", "plot_residuals"]
