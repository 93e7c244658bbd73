"""What chance explains: tests, corrections for their number, and standard errors.

A cross-tab that was counted comes as three sums for each cell: of weights, of records, and of squared weights. Where
each record was drawn by itself, these are all that tests of its columns need: the covariances of the shares follow from
them. Where a survey has a design, they come with its `SampledTable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats

if TYPE_CHECKING:
    from twoway.checks.sampled_table import SampledTable

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
    from scipy.stats import chi2_contingency

    totals = counts.sum(axis=1)
    few = totals.min() * counts.sum(axis=0) < LEAST_EXPECTED * totals.sum()
    merged = np.column_stack([counts[:, ~few], counts[:, few].sum(axis=1)])
    merged = merged[:, merged.any(axis=0)]
    if merged.shape[1] < 2:
        return 1.0
    return float(chi2_contingency(merged, correction=False).pvalue)


def standardized_residuals(
    shares: Floats, modelled: Floats, n_records: float | Floats, variances: Floats | None = None
) -> Floats:
    """Return the differences of observed shares from a model's, each divided by its standard error.

    For means, ``variances`` are those of the values of the records.

    Examples
    --------
    >>> standardized_residuals(np.array([0.2, 0.8]), np.array([0.25, 0.75]), 100).round(2)
    array([-1.15,  1.15])
    """
    if variances is None:
        # Of a rare cell too, chance moves the count by about one.
        variances = np.maximum(modelled * (1.0 - modelled), 1.0 / n_records)
    return np.asarray((shares - modelled) / np.sqrt(variances / n_records))


# The columns of a cross-tab


def column_p_values(sums: Floats, scores: Floats, sampled: SampledTable | None = None) -> Floats:
    """Return the p-values of differences between every two columns of a table, (n_scores, n_columns, n_columns).

    ``scores`` is (n_scores, n_rows): rows of zeros and ones are shares of some categories, others the numbers of which
    to compare means. NaN where there are too few records to compare. ``sampled`` is the table by a design.
    """
    from scipy.special import ndtr, stdtr

    weights, _, squares = sums
    totals, square_totals = weights.sum(axis=0), squares.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        effective = np.where(square_totals > 0, totals**2 / square_totals, 0.0)
        means = scores @ (weights / totals)
        first, second = means[:, :, None], means[:, None, :]
        n_first, n_second = effective[:, None], effective[None, :]
        # A share of the two columns together, and how much more it varies than if weights had nothing to do with it.
        together = (first * n_first + second * n_second) / (n_first + n_second)
        whole, part = scores @ weights.sum(axis=1) / totals.sum(), scores @ squares.sum(axis=1) / square_totals.sum()
        design = (part * (1.0 - whole) ** 2 + (1.0 - part) * whole**2) / (whole * (1.0 - whole))
        variance = design[:, None, None] * together * (1.0 - together) * (1.0 / n_first + 1.0 / n_second)
        by_share = 2.0 * ndtr(-np.abs(first - second) / np.sqrt(variance))
        # Of means, what a change of a cell does to that of its column.
        slopes = (scores[:, :, None] - means[:, None, :]) / totals
        errors = np.einsum("irb,rb->ib", slopes**2, squares)
        of_first, of_second = errors[:, :, None], errors[:, None, :]
        freedom = (of_first + of_second) ** 2 / (of_first**2 / (n_first - 1.0) + of_second**2 / (n_second - 1.0))
        by_mean = 2.0 * stdtr(freedom, -np.abs(first - second) / np.sqrt(of_first + of_second))
        if sampled is not None:
            covariance = sampled.column_covariance(scores)
            variances = np.einsum("ibb->ib", covariance)
            between = variances[:, :, None] + variances[:, None, :] - 2.0 * covariance
            by_share = by_mean = 2.0 * stdtr(sampled.degrees, -np.abs(first - second) / np.sqrt(between))
        least = np.minimum(n_first, n_second)
        enough = least * np.minimum(together, 1.0 - together) >= LEAST_EXPECTED
    is_share = ((scores == 0.0) | (scores == 1.0)).all(axis=1)[:, None, None]
    allowed = np.where(is_share, enough, least >= 2.0 * LEAST_EXPECTED)
    return np.asarray(np.where(allowed, np.where(is_share, by_share, by_mean), np.nan))


def column_intervals(scores: Floats, sampled: SampledTable, level: float) -> tuple[Floats, Floats]:
    """Return the ends of intervals of the shares or means of columns by a design, (n_scores, n_columns) each.

    Those of shares are Wilson's (Probable inference, 1927) with as many records as would vary like the design, by
    Student's t: they stay between 0 and 1, also where nobody or everybody is in a category. NaN for an empty column.
    """
    from scipy.special import stdtrit

    shares = sampled.shares.reshape(scores.shape[1], -1)
    squares = sampled.squares.reshape(shares.shape).sum(axis=0)
    totals, z = shares.sum(axis=0), float(stdtrit(sampled.degrees, 0.5 + 0.5 * level))
    is_share = ((scores == 0.0) | (scores == 1.0)).all(axis=1)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        means = scores @ (shares / totals)
        variances = np.einsum("ibb->ib", sampled.column_covariance(scores))
        spread = means * (1.0 - means)
        n = np.where(spread * variances > 1e-12, spread / variances, totals**2 / squares)
        centre = np.where(is_share, (means + z**2 / (2.0 * n)) / (1.0 + z**2 / n), means)
        half = np.where(
            is_share,
            z / (1.0 + z**2 / n) * np.sqrt(np.maximum(spread, 0.0) / n + z**2 / (4.0 * n**2)),
            z * np.sqrt(np.maximum(variances, 0.0)),
        )
    return centre - half, centre + half
