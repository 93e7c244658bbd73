"""Data to try things on: synthetic models of the paper's kinds, and records drawn from them."""

from twoway.datasets.synthetic import dirichlet_rows, draw_records, nearly_separable, uniform_entries

__all__ = ["dirichlet_rows", "draw_records", "nearly_separable", "uniform_entries"]
