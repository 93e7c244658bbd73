"""Gaussian noise on counts, as much as it takes that no single record shows.

The noise is the least that keeps the promise (Balle and Wang, Improving the Gaussian mechanism for differential
privacy: analytical calibration and optimal denoising, 2018). The classical rule adds more, and fails for ε above 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoway.errors import DataError


@dataclass(frozen=True)
class Release:
    """What one release of noisy tables promises: (ε, δ)-differential privacy of each record."""

    epsilon: float
    delta: float
    sigma: float
    """The standard deviation of the noise on each count."""
    sensitivity: float
    """How far one record can move all counts together, as Euclidean distance."""
    n_tables: int
    """The tables released, in each of which a record changes at most one count."""
    max_weight: float
    """The largest weight that a record had."""
    neighbours: str = "one record added or removed"
    """What must not show."""

    def __post_init__(self) -> None:
        numbers = (self.epsilon, self.delta, self.sigma, self.sensitivity, self.n_tables, self.max_weight)
        if not all(isinstance(one, int | float) and 0 <= one < math.inf for one in numbers):
            raise DataError(f"a release is told by numbers of 0 or more; got {numbers!r}")

    def __str__(self) -> str:
        return (
            f"noise of standard deviation {self.sigma:.6g} on each count of {self.n_tables} tables: ε = "
            f"{self.epsilon:g}, δ = {self.delta:g} for {self.neighbours} (weight at most {self.max_weight:g}, "
            f"sensitivity {self.sensitivity:.6g}); variables, categories and the choice of tables count as known"
        )


def plan_release(epsilon: float, delta: float, n_tables: int, max_weight: float) -> Release:
    """Return the release of some tables in which a record of at most ``max_weight`` stands once each."""
    for name, value in (("epsilon", epsilon), ("max_weight", max_weight)):
        if not (isinstance(value, int | float) and 0 < value < math.inf):
            raise DataError(f"{name} must be a number above 0, not {value!r}")
    if not (isinstance(delta, int | float) and 0 < delta < 1):
        raise DataError(f"delta must be a number between 0 and 1, such as 1e-6, not {delta!r}")
    sensitivity = max_weight * math.sqrt(n_tables)
    sigma = sensitivity * noise_scale(float(epsilon), float(delta))
    return Release(float(epsilon), float(delta), sigma, sensitivity, n_tables, float(max_weight))


def noise_scale(epsilon: float, delta: float) -> float:
    """Return the least standard deviation, for a sensitivity of one, that gives (ε, δ)-differential privacy.

    Examples
    --------
    >>> round(noise_scale(1.0, 1e-6), 3)
    4.225
    """
    from scipy.optimize import brentq

    # In logarithms, since good values may lie many powers of ten apart.
    high = 0.0
    while leaked(epsilon, math.exp(high)) > delta:
        high += 1.0
    low = high - 1.0
    while leaked(epsilon, math.exp(low)) <= delta:
        low -= 1.0
    found = brentq(lambda scale: leaked(epsilon, math.exp(scale)) - delta, low, high, xtol=1e-13)
    return math.exp(found + 1e-9)  # on the safe side of the root


def leaked(epsilon: float, scale: float) -> float:
    """Return the smallest δ for which noise of this standard deviation gives (ε, δ)-differential privacy."""
    from scipy.special import log_ndtr

    half, shift = 0.5 / scale, epsilon * scale
    return float(np.exp(log_ndtr(half - shift)) - np.exp(epsilon + log_ndtr(-half - shift)))


def nonnegative(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest counts of one table (n,) without a negative one and with the same total; zeros if that is < 0.

    Examples
    --------
    >>> nonnegative(np.array([5.0, 2.0, -1.0]))
    array([4.5, 1.5, 0. ])
    """
    total = float(counts.sum())
    if total <= 0:
        return np.zeros_like(counts)
    if counts.min() >= 0:
        return counts
    # What is too much is taken from all counts alike, until those left are positive.
    descending = np.sort(counts)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, counts.size + 1)
    n_left = int(np.flatnonzero(descending > excess)[-1])
    nearest: NDArray[np.float64] = np.maximum(counts - excess[n_left], 0.0)
    return nearest


def effective_records(counts: NDArray[np.float64], sigma: float) -> float:
    """Return how many records without noise would tell the shares of one table (n,) as well as these counts do."""
    total = float(counts.sum())
    shares = counts / total
    chance = max(float(shares @ (1.0 - shares)), 1.0 / total) / total
    noise = counts.size * (sigma / total) ** 2
    return total * chance / (chance + noise)
