"""Data to try things on: small real data, synthetic models of the paper's kinds, and records drawn from them."""

from twoway.datasets.digits import digits
from twoway.datasets.synthetic import dirichlet_rows, draw_records, hide, nearly_separable, uniform_entries

__all__ = ["digits", "dirichlet_rows", "draw_records", "hide", "nearly_separable", "uniform_entries"]
