"""Data to try things on: real data, synthetic models of the paper's kinds, and records drawn from them."""

from twoway.datasets.public import berkeley_admissions, car, digits, movielens, mushroom, nursery, titanic, votes
from twoway.datasets.synthetic import dirichlet_rows, draw_records, hide, nearly_separable, uniform_entries

__all__ = ["berkeley_admissions", "car", "digits", "movielens", "mushroom", "nursery", "titanic", "votes"]
__all__ += ["dirichlet_rows", "draw_records", "hide", "nearly_separable", "uniform_entries"]
