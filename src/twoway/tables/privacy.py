"""Gaussian noise on counts, as much as it takes that no single record shows.

The noise is the least that keeps the promise (Balle and Wang, Improving the Gaussian mechanism for differential
privacy: analytical calibration and optimal denoising, 2018). The classical rule adds more, and fails for ε above 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    """The largest weight that a record may have."""
    neighbours: str = "one record added or removed"
    """What must not show."""

    def __post_init__(self) -> None:
        numbers = (self.epsilon, self.delta, self.sigma, self.sensitivity, self.n_tables, self.max_weight)
        if not all(isinstance(one, int | float) and 0 <= one < math.inf for one in numbers):
            raise DataError(f"a release is told by numbers of 0 or more; got {numbers!r}")

    @property
    def rho(self) -> float:
        """The same promise as zero-concentrated differential privacy: Δ² / 2σ², which adds up over releases."""
        if self.sensitivity == 0:
            return 0.0
        return 0.5 * (self.sensitivity / self.sigma) ** 2 if self.sigma > 0 else math.inf

    def effective(self, counts: NDArray[np.float64]) -> float:
        """Return how many records the noisy counts of one table (n,) are worth in a fit; 0 where there are none."""
        return effective_records(counts, self.sigma, self.max_weight) if counts.any() else 0.0

    def __str__(self) -> str:
        return (
            f"noise of standard deviation {self.sigma:.6g} on each count of {self.n_tables} tables: ε = "
            f"{self.epsilon:g}, δ = {self.delta:g} for {self.neighbours} (weight at most {self.max_weight:g}, "
            f"sensitivity {self.sensitivity:.6g}); variables, categories and the choice of tables count as known"
        )


@dataclass(frozen=True)
class TotalPrivacy:
    """What several releases promise together of each record, if all of them were about the same people.

    Examples
    --------
    >>> twice = TotalPrivacy.of([plan_release(1.0, 1e-6, 10, 1.0)] * 2)
    >>> print(twice)
    2 releases together: ε = 1.455, δ = 1e-06 (ρ = 0.05603)
    >>> round(twice.epsilon_at(1e-9), 3)
    1.899
    """

    n_releases: int
    rho: float
    """Zero-concentrated differential privacy: the sum of those of the releases."""
    epsilon: float
    delta: float
    """The largest δ of the releases; ε is that for this δ."""

    @classmethod
    def of(cls, releases: Sequence[Release]) -> TotalPrivacy:
        """Return what releases promise together."""
        rho = sum(release.rho for release in releases)
        delta = max((release.delta for release in releases), default=0.0)
        return cls(len(releases), rho, epsilon_of(rho, delta), delta)

    def epsilon_at(self, delta: float) -> float:
        """Return the ε that goes with another δ."""
        return epsilon_of(self.rho, _checked_delta(delta))

    def __str__(self) -> str:
        several = "1 release" if self.n_releases == 1 else f"{self.n_releases} releases together"
        return f"{several}: ε = {self.epsilon:.4g}, δ = {self.delta:g} (ρ = {self.rho:.4g})"


def plan_release(epsilon: float, delta: float, n_tables: int, max_weight: float) -> Release:
    """Return the release of some tables in which a record of at most ``max_weight`` stands once each."""
    for name, value in (("epsilon", epsilon), ("max_weight", max_weight)):
        if not (isinstance(value, int | float) and 0 < value < math.inf):
            raise DataError(f"{name} must be a number above 0, not {value!r}")
    _checked_delta(delta)
    sensitivity = max_weight * math.sqrt(n_tables)
    sigma = sensitivity * noise_scale(float(epsilon), float(delta))
    return Release(float(epsilon), float(delta), sigma, sensitivity, n_tables, float(max_weight))


def _checked_delta(delta: float) -> float:
    if not (isinstance(delta, int | float) and 0 < delta < 1):
        raise DataError(f"delta must be a number between 0 and 1, such as 1e-6, not {delta!r}")
    return float(delta)


def add_noise(counts: NDArray[np.float64], release: Release, seed: int | None) -> NDArray[np.float64]:
    """Return counts (n,) with the noise of a release; from here on nothing else of the records is seen."""
    return counts + np.random.default_rng(seed).normal(0.0, release.sigma, counts.size)


def epsilon_of(rho: float, delta: float) -> float:
    """Return the least ε for which Gaussian noise of this ρ gives (ε, δ)-differential privacy.

    Gaussian releases together are one Gaussian release, of the sum of their ρ, so that this is exact.
    """
    from scipy.optimize import brentq

    if rho == 0:
        return 0.0
    if not math.isfinite(rho) or delta == 0:
        return math.inf
    scale = 1.0 / math.sqrt(2.0 * rho)
    if leaked(0.0, scale) <= delta:
        return 0.0
    high = 1.0
    while leaked(high, scale) > delta:
        high *= 2.0
    root = float(brentq(lambda epsilon: leaked(epsilon, scale) - delta, 0.0, high, xtol=1e-12))
    return root * (1.0 + 1e-9)  # on the safe side of the root


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


def effective_records(counts: NDArray[np.float64], sigma: float, max_weight: float = 1.0) -> float:
    """Return how many records without noise would tell the shares of one table (n,) as well as these counts do.

    How weights differ is not known of a release: every record may have had the largest weight, the worst there can be.
    """
    total = float(counts.sum()) / max_weight
    shares = counts / counts.sum()
    chance = max(float(shares @ (1.0 - shares)), 1.0 / total) / total
    noise = counts.size * (sigma / max_weight / total) ** 2
    return total * chance / (chance + noise)
