"""The paper's guarantees as functions, each with the conditions under which it holds.

Ibrahim and Fu, Theorems 1 and 3 and Proposition 1. They are proven and loose: `docs/theory.md` compares them with
observed errors, and explains why Theorem 4 is missing here. Where a condition fails, a bound prints "does not apply"
and why.

    S  records            p  share of observed cells       F  rank             I  categories of a variable
    N  variables          M  variables of the first group of a split           δ  the risk that the bound fails
    W  the first group's factors, stacked                  η  the smallest share of a category
    ε  how far the second group is from separable          κ  condition number of W, largest by smallest singular value
"""

from twoway.diagnosis.bounds.base import Bound, Condition
from twoway.diagnosis.bounds.spa import (
    SplitConstants,
    largest_epsilon,
    records_for_spa,
    separability,
    spa_error,
    split_constants,
)
from twoway.diagnosis.bounds.tables import records_for_table_error, table_error
from twoway.model.parameters import sufficient_rank

__all__ = [
    "Bound",
    "Condition",
    "SplitConstants",
    "largest_epsilon",
    "records_for_spa",
    "records_for_table_error",
    "separability",
    "spa_error",
    "split_constants",
    "sufficient_rank",
    "table_error",
]
