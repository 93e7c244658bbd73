"""Data to try things on: real data, synthetic models of the paper's kinds, and records drawn from them."""

from twoway.datasets.counts import berkeley_admissions, titanic
from twoway.datasets.digits import digits
from twoway.datasets.movielens import movielens
from twoway.datasets.synthetic import dirichlet_rows, draw_records, hide, nearly_separable, uniform_entries
from twoway.datasets.uci import car, mushroom, nursery, votes

__all__ = ["berkeley_admissions", "car", "digits", "movielens", "mushroom", "nursery", "titanic", "votes"]
__all__ += ["dirichlet_rows", "draw_records", "hide", "nearly_separable", "uniform_entries"]
