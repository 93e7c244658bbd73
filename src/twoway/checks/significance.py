"""What chance explains: tests, corrections for their number, and standard errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats

SIGNIFICANT = 0.05
"""A difference with a lower p-value, corrected for the number of comparisons, is more than chance."""
LEAST_EXPECTED = 5.0
"""Cells of which fewer are expected are taken together: χ² would not hold for them."""


def holm_corrected(p_values: Sequence[float]) -> NDArray[np.float64]:
    """Return p-values corrected for their number, whatever depends on what (Holm, 1979)."""
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def homogeneity_p_value(counts: NDArray[np.float64]) -> float:
    """Return the p-value of Pearson's test that samples, counts (n_samples, n_cells), have the same shares.

    Examples
    --------
    >>> (
    ...     homogeneity_p_value(np.array([[50.0, 50.0], [49.0, 51.0]])) > 0.5,
    ...     homogeneity_p_value(np.array([[90.0, 10.0], [40.0, 60.0]])) < 1e-6,
    ... )
    (True, True)
    """
    from scipy.stats import chi2

    totals = counts.sum(axis=1)
    few = totals.min() * counts.sum(axis=0) < LEAST_EXPECTED * totals.sum()
    merged = np.column_stack([counts[:, ~few], counts[:, few].sum(axis=1)])
    merged = merged[:, merged.any(axis=0)]
    if merged.shape[1] < 2:
        return 1.0
    expected = np.outer(totals, merged.sum(axis=0) / totals.sum())
    statistic = (np.square(merged - expected) / expected).sum()
    return float(chi2.sf(statistic, (len(merged) - 1) * (merged.shape[1] - 1)))


def standardized_residuals(shares: Floats, modelled: Floats, n_records: float | Floats) -> Floats:
    """Return the differences of observed shares from a model's, each divided by its standard error.

    Examples
    --------
    >>> standardized_residuals(np.array([0.2, 0.8]), np.array([0.25, 0.75]), 100).round(2)
    array([-1.15,  1.15])
    """
    # Of a rare cell too, chance moves the count by about one.
    errors = np.sqrt(np.maximum(modelled * (1.0 - modelled), 1.0 / n_records) / n_records)
    return np.asarray((shares - modelled) / errors)
