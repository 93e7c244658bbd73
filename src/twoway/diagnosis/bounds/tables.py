"""What chance does to a two-way table (Proposition 1)."""

from __future__ import annotations

import math

from twoway.diagnosis.bounds.base import Bound, Condition, check_numbers
from twoway.errors import whole_number


def table_error(n_records: float, observed: float = 1.0, risk: float = 0.05, *, n_tables: int = 1) -> Bound:
    """Return a bound on ‖X̂ − X‖ (Frobenius) of a two-way table counted from records (Proposition 1).

    Each cell is observed with the probability ``observed``, independently of all else: missing completely at random.

    Parameters
    ----------
    n_records
        Records, complete or not.
    observed
        The share of observed cells.
    risk
        The probability with which the bound may fail.
    n_tables
        How many tables it shall hold for at once. The proposition speaks of one; for more, the risk is shared out.

    Examples
    --------
    >>> print(table_error(100_000, 0.5))
    at most 0.02612 with probability 0.95
    >>> print(table_error(100, 0.1))
    does not apply: share of observed cells, at least √(8/S · log(2/δ)): fails (needs 0.5432, is 0.1)
    """
    check_numbers(n_records=n_records, observed=observed, risk=risk)
    log = math.log(2.0 * whole_number("n_tables", n_tables, 1) / risk)
    least = math.sqrt(8.0 / n_records * log)
    error = math.sqrt(2.0) * (1.0 + math.sqrt(log)) / (observed * math.sqrt(n_records))
    condition = Condition("share of observed cells, at least √(8/S · log(2/δ))", least, observed, observed >= least)
    return Bound(error, risk, (condition,), math.sqrt(2.0))


def records_for_table_error(error: float, observed: float = 1.0, risk: float = 0.05, *, n_tables: int = 1) -> float:
    """Return how many records `table_error` needs to promise an error.

    Examples
    --------
    >>> error = table_error(100_000, 0.5).error
    >>> round(records_for_table_error(error, 0.5))
    100000
    """
    check_numbers(error=error, observed=observed, risk=risk)
    log = math.log(2.0 * whole_number("n_tables", n_tables, 1) / risk)
    return max(2.0 * (1.0 + math.sqrt(log)) ** 2 / (observed * error) ** 2, 8.0 * log / observed**2)
