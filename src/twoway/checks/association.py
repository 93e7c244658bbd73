"""Tests of a two-way table of weighted records: of all of it (Rao and Scott, 1984), and of one column with another.

A table comes as three sums for each cell: of weights, of records, and of squared weights. Where each record was drawn
by itself, these are all that the tests need: the covariances of the shares follow from them. Where a survey has a
design, they follow from the same table of each of its samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.checks.chance import LEAST_EXPECTED


class Association(NamedTuple):
    """A test of whether two variables are independent."""

    statistic: float
    """Pearson's χ² over its mean if they are, so that it compares with an F distribution."""
    degrees: tuple[float, float]
    p_value: float


class DesignSamples(NamedTuple):
    """A table of other samples of a design."""

    weights: Floats
    """(n_samples, n_rows, n_columns): the sums of weights."""
    scales: Floats
    """(n_samples,): what the squared deviation of each counts in a variance."""
    degrees: int

    def variances(self, numbers: Floats, center: Floats) -> Floats:
        """Return the variances of numbers, (n_samples, …), that are ``center`` in the sample at hand."""
        return np.asarray(np.tensordot(self.scales, np.square(numbers - center), axes=1))


def association(sums: Floats, samples: DesignSamples | None = None) -> Association:
    """Return the test that two variables are independent, corrected for the design to the second order.

    Parameters
    ----------
    sums
        Sums of weights, records and squared weights, shape (3, n_rows, n_columns).
    samples
        The table of other samples of the design; by default each record was drawn by itself.

    Examples
    --------
    >>> counts = np.array([[30.0, 20.0], [20.0, 40.0]])
    >>> round(association(np.stack([counts] * 3)).p_value, 4)
    0.0062
    """
    rows, columns = sums[0].any(axis=1), sums[0].any(axis=0)
    weights, _, squares = kept = sums[:, rows][:, :, columns]
    (n_rows, n_columns), people = weights.shape, float(kept[1].sum())
    if min(n_rows, n_columns) < 2:
        return Association(0.0, (0.0, 0.0), 1.0)
    shares = (weights / weights.sum()).ravel()
    if samples is None:
        squared, degrees = squares.ravel() / weights.sum() ** 2, people - 1.0
        covariance = np.diag(squared) - np.outer(shares, squared) - np.outer(squared, shares)
        covariance = (covariance + np.outer(shares, shares) * squared.sum()) * (people / max(degrees, 1.0))
    else:
        drawn, degrees = samples.weights[:, rows][:, :, columns].reshape(len(samples.weights), -1), samples.degrees
        deviations = drawn / drawn.sum(axis=1, keepdims=True) - shares
        covariance = (samples.scales[:, None] * deviations).T @ deviations
    table = shares.reshape(n_rows, n_columns)
    expected = np.outer(table.sum(axis=1), table.sum(axis=0))
    chi_square = people * float((np.square(table - expected) / expected).sum())
    # The interactions that a log-linear model of both variables lacks, free of what it has.
    by_row, by_column = np.repeat(np.eye(n_rows), n_columns, axis=0), np.tile(np.eye(n_columns), (n_rows, 1))
    both = (by_row[:, 1:, None] * by_column[:, None, 1:]).reshape(len(shares), -1)
    main = np.column_stack([np.ones(len(shares)), by_row[:, 1:], by_column[:, 1:]])
    contrasts = both - main @ np.linalg.lstsq(main, both, rcond=None)[0]
    inverse = np.divide(1.0, shares, out=np.zeros_like(shares), where=shares > 0)
    scaled = inverse[:, None] * contrasts
    effects = np.linalg.lstsq(contrasts.T @ scaled / people, scaled.T @ covariance @ scaled, rcond=None)[0]
    trace, trace_of_square = float(np.trace(effects)), float(np.trace(effects @ effects))
    if not trace > 0:
        return Association(0.0, (0.0, 0.0), 1.0)
    from scipy.special import fdtrc

    first, statistic = trace**2 / trace_of_square, chi_square / trace
    return Association(statistic, (first, first * degrees), float(fdtrc(first, first * degrees, statistic)))


def compare_columns(sums: Floats, scores: Floats, samples: DesignSamples | None = None) -> Floats:
    """Return the p-values of differences between every two columns of a table, (n_scores, n_columns, n_columns).

    ``scores`` is (n_scores, n_rows): rows of zeros and ones are shares of some categories, others the numbers of which
    to compare means. NaN where there are too few records to compare.
    """
    from scipy.special import ndtr, stdtr

    weights, _, squares = sums
    totals, square_totals = weights.sum(axis=0), squares.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        effective = np.where(square_totals > 0, totals**2 / square_totals, 0.0)
        means = scores @ (weights / totals)
        spread = [
            np.square(scores[:, :, None] - means[:, None, :])[:, :, b] @ squares[:, b] for b in range(len(totals))
        ]
        errors = np.stack(spread, axis=1) / totals**2  # of means, squared
        first, second = means[:, :, None], means[:, None, :]
        n_first, n_second = effective[:, None], effective[None, :]
        # A share of the two columns together, and how much more it varies than if weights had nothing to do with it.
        together = (first * n_first + second * n_second) / (n_first + n_second)
        whole, part = scores @ weights.sum(axis=1) / totals.sum(), scores @ squares.sum(axis=1) / square_totals.sum()
        design = (part * (1.0 - whole) ** 2 + (1.0 - part) * whole**2) / (whole * (1.0 - whole))
        variance = design[:, None, None] * together * (1.0 - together) * (1.0 / n_first + 1.0 / n_second)
        by_share = 2.0 * ndtr(-np.abs(first - second) / np.sqrt(variance))
        least = np.minimum(n_first, n_second)
        enough = least * np.minimum(together, 1.0 - together) >= LEAST_EXPECTED
        own, other = errors[:, :, None], errors[:, None, :]
        freedom = (own + other) ** 2 / (own**2 / (n_first - 1.0) + other**2 / (n_second - 1.0))
        by_mean = 2.0 * stdtr(freedom, -np.abs(first - second) / np.sqrt(own + other))
        if samples is not None:
            drawn = scores @ (samples.weights / samples.weights.sum(axis=1, keepdims=True))
            between = samples.variances(drawn[:, :, :, None] - drawn[:, :, None, :], first - second)
            by_share = by_mean = 2.0 * stdtr(samples.degrees, -np.abs(first - second) / np.sqrt(between))
    is_share = ((scores == 0.0) | (scores == 1.0)).all(axis=1)[:, None, None]
    allowed: NDArray[np.bool_] = np.where(is_share, enough, least >= 2.0 * LEAST_EXPECTED)
    return np.asarray(np.where(allowed, np.where(is_share, by_share, by_mean), np.nan))
