"""Plots of a model and of its fit, with matplotlib (``pip install "twoway[plot]"``); each returns the Axes."""
