"""Estimates from several completed tables, pooled by Rubin's rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from twoway.arrays import Floats
from twoway.errors import DataError, check_number
from twoway.model.intervals import Interval, checked_interval_level
from twoway.text import brief

Pairs: TypeAlias = dict[Hashable, tuple[float, float]]

_WANTED = (
    "it must return (estimate, variance), the variance being the squared standard error, or a mapping of such pairs"
)


@dataclass(frozen=True)
class Pooled:
    """An estimate from several completed tables.

    Its standard error includes both sampling error and what the missing cells add.
    """

    estimate: float
    """The mean of the tables' estimates."""
    standard_error: float
    """The root of the total variance: within tables, plus (1 + 1/m) times that between them."""
    degrees: float
    """Degrees of freedom of Student's t (Barnard and Rubin, 1999)."""
    low: float
    high: float
    level: float
    """How often the interval from low to high should contain the truth."""
    missing_information: float
    """The share of information that is lost with the missing cells, from 0 to 1."""
    n_tables: int

    @property
    def interval(self) -> Interval:
        """The estimate as a number that carries its interval."""
        return Interval(self.estimate, self.low, self.high, self.level)

    def __repr__(self) -> str:
        return (
            f"{self.interval!r}, standard error {self.standard_error:.4g}, {self.degrees:.4g} degrees of freedom, "
            f"{100 * self.missing_information:.2g} % of information missing"
        )


def pool(
    function: Callable[[Any], Any], tables: Iterable[Any], *, level: float = 0.9, degrees: float | None = None
) -> Any:
    """Return what a function estimates from completed tables, pooled by Rubin's rules.

    Parameters
    ----------
    function
        A function from a completed table to (estimate, variance), where the variance is the squared standard error; or
        to a mapping from names to such pairs, a pair of pandas Series (``fit.params, fit.bse**2`` of statsmodels), or a
        pair of arrays.
    tables
        The tables, such as `Bootstrap.impute` returns; at least 2.
    level
        How often intervals should contain the truth.
    degrees
        The degrees of freedom that the estimate would have if nothing were missing: by default the number of rows of a
        table less the number of estimates.

    Returns
    -------
    Pooled, or a dictionary of them
        `Pooled` for one pair, a dictionary by name for a mapping or Series, a list for arrays.

    Examples
    --------
    >>> import numpy as np
    >>> tables = [np.array([1.0, 2.0, 3.0, 6.0]), np.array([1.0, 2.0, 3.0, 4.0])]
    >>> pooled = pool(lambda table: (table.mean(), table.var(ddof=1) / len(table)), tables)
    >>> round(pooled.estimate, 2), round(pooled.standard_error, 2), round(pooled.degrees, 1)
    (2.75, 0.99, 1.5)
    """
    if not callable(function):
        raise DataError(
            f"pool takes the function first, then the tables; got {type(function).__name__} as the function"
        )
    level = checked_interval_level(level)
    listed = list(tables)
    if len(listed) < 2:
        raise DataError(f"pooling needs at least 2 completed tables, got {len(listed)}; see Bootstrap.impute")
    parts = [_pairs_to_pool(function(table), number) for number, table in enumerate(listed, 1)]
    names = list(parts[0])
    for number, part in enumerate(parts, 1):
        if list(part) != names:
            raise DataError(f"the function returned estimates {list(part)} for table {number}, but {names} for table 1")
    if degrees is None:
        degrees = (len(listed[0]) if hasattr(listed[0], "__len__") else math.inf) - len(names)
    check_number("degrees", degrees, "a number above 0", lambda number: number > 0)
    pooled = {name: _pooled(np.array([part[name] for part in parts]), level, degrees, name) for name in names}
    if names == [None]:
        return pooled[None]
    return list(pooled.values()) if names == list(range(len(names))) else pooled


def _pooled(pairs: Floats, level: float, degrees: float, name: Hashable) -> Pooled:
    """Return the pooled estimate of pairs (m, 2)."""
    from scipy.stats import t

    m = len(pairs)
    within = float(pairs[:, 1].mean())
    between = float(pairs[:, 0].var(ddof=1)) if np.ptp(pairs[:, 0]) > 0.0 else 0.0  # not rounding
    if within == 0.0 and between > 0.0:
        of = "" if name is None else f" of {name!r}"
        raise DataError(f"the variance{of} is 0 in every table, but the estimates differ: {_WANTED}")
    total = within + (1.0 + 1.0 / m) * between
    share = (1.0 + 1.0 / m) * between / total if total > 0.0 else 0.0
    # Those of the variance between tables, and what is left of those of complete data.
    known = (m - 1.0) / share**2 if share > 0.0 else math.inf
    left = (degrees + 1.0) / (degrees + 3.0) * degrees * (1.0 - share) if math.isfinite(degrees) else math.inf
    df = 1.0 / (1.0 / known + 1.0 / left) if share > 0.0 or math.isfinite(left) else math.inf
    ratio = share / (1.0 - share)
    missing = (ratio + 2.0 / (df + 3.0)) / (ratio + 1.0) if share > 0.0 else 0.0
    estimate, error = float(pairs[:, 0].mean()), math.sqrt(total)
    half = float(t.ppf(0.5 + 0.5 * level, df)) * error
    return Pooled(estimate, error, df, estimate - half, estimate + half, level, min(missing, 1.0), m)


def _pairs_to_pool(result: Any, number: int) -> Pairs:
    """Return the result of a function as pairs by name: None for a single pair, positions for arrays."""
    if isinstance(result, tuple | list) and len(result) == 2 and all(hasattr(part, "reindex") for part in result):
        estimates, variances = result  # Series of pandas
        pairs = zip(estimates, variances.reindex(estimates.index), strict=True)
        result = dict(zip(estimates.index, pairs, strict=True))
    if not isinstance(result, Mapping):
        try:
            array = np.asarray(result, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"the function returned {brief(result)} for table {number}: {_WANTED}") from None
        by_rows = array.T if isinstance(result, tuple) else array
        if array.shape != (2,) and (by_rows.ndim != 2 or by_rows.shape[1] != 2):
            raise DataError(f"the function returned {brief(result)} for table {number}, without a variance: {_WANTED}")
        result = {None: result} if array.shape == (2,) else dict(enumerate(by_rows))
    if not result:
        raise DataError(f"the function returned nothing for table {number}: {_WANTED}")
    return {name: _pair_to_pool(pair, number, name) for name, pair in result.items()}


def _pair_to_pool(pair: Any, number: int, name: Hashable) -> tuple[float, float]:
    of = "" if name is None else f" for {name!r}"
    try:
        estimate, variance = (float(value) for value in pair)
    except (TypeError, ValueError):
        raise DataError(
            f"the function returned {brief(pair)}{of} in table {number}, without a variance: {_WANTED}"
        ) from None
    if not math.isfinite(estimate):
        raise DataError(f"the estimate{of} in table {number} is {estimate}: are there still missing cells?")
    what = f"the variance{of} in table {number}"
    check_number(what, variance, "a number of at least 0", lambda number: 0 <= number < math.inf)
    return estimate, variance
