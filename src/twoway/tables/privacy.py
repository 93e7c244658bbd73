"""Tables with enough Gaussian noise on their counts to hide every single record.

The noise is the least that keeps the promise (Balle and Wang, Improving the Gaussian mechanism for differential
privacy: analytical calibration and optimal denoising, 2018). The classical rule adds more, and fails for ε above 1.

Nothing of the records goes into a release but counts with noise: variables, categories, the tables there are, their
order and the largest weight are known before a record is read. All that is done to noisy counts afterwards, such as
moving them to nonnegative ones, uses the noisy counts alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from twoway.arrays import Floats
from twoway.data.flat_counts import flat_ranks, flat_starts
from twoway.errors import DataError, check_number
from twoway.notebook import Shown
from twoway.schema import Schema
from twoway.text import counted, shortlist

if TYPE_CHECKING:
    from twoway.tables.tables import Tables


@dataclass(frozen=True, repr=False)
class Release(Shown):
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
    """The difference that must not show."""

    def __post_init__(self) -> None:
        numbers = astuple(self)[:-1]
        if not all(isinstance(number, int | float) and 0 <= number < math.inf for number in numbers):
            raise DataError(f"the numbers of a release must be finite and not negative; got {numbers!r}")

    @property
    def rho(self) -> float:
        """The same promise as zero-concentrated differential privacy: Δ² / 2σ², which adds up over releases."""
        if self.sensitivity == 0:
            return 0.0
        return 0.5 * (self.sensitivity / self.sigma) ** 2 if self.sigma > 0 else math.inf

    def __str__(self) -> str:
        return (
            f"noise of standard deviation {self.sigma:.6g} on each count of {counted(self.n_tables, 'table')}: "
            f"ε = {self.epsilon:g}, δ = {self.delta:g} for {self.neighbours} (weight at most {self.max_weight:g}, "
            f"sensitivity {self.sensitivity:.6g}); variables, categories and the choice of tables count as known"
        )


@dataclass(frozen=True, repr=False)
class TotalPrivacy(Shown):
    """What several releases promise together about each record, if all of them were about the same people.

    Examples
    --------
    >>> twice = TotalPrivacy.of([plan_private_release(1.0, 1e-6, 10, 1.0)] * 2)
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
        return cls(len(releases), rho, privacy_epsilon(rho, delta), delta)

    def epsilon_at(self, delta: float) -> float:
        """Return the ε for another δ."""
        _check_privacy_delta(delta)
        return privacy_epsilon(self.rho, delta)

    def __str__(self) -> str:
        several = "1 release" if self.n_releases == 1 else f"{self.n_releases} releases together"
        return f"{several}: ε = {self.epsilon:.4g}, δ = {self.delta:g} (ρ = {self.rho:.4g})"


# Releasing tables


def release_tables(
    tables: Tables, epsilon: float, delta: float, max_weight: float | None, *, public_schema: bool, seed: int | None
) -> Tables:
    """Return tables with noise; see `Tables.with_noise`."""
    in_data = [variable.name for variable in tables.schema if variable.is_found]
    if in_data and not public_schema:
        raise DataError(
            f"the categories of {shortlist(in_data, 4)} were found in the data, or their source is unknown, and noise "
            "does not hide them: count records that were read by a schema (schema=…), or set public_schema=True "
            "if the categories and the choice of tables may be public"
        )
    # All tables that were counted, those without a record with zeros.
    sets = np.vstack([tables.sets, tables.empty])
    order = np.argsort(flat_ranks(tables.schema, sets))
    starts = flat_starts(tables.schema, sets[order])
    flat = np.zeros(int(starts[-1]))
    flat[np.repeat(order < len(tables), np.diff(starts))] = tables.flat
    # A table that a release left without a count has the noise of the release all the same.
    before = np.full(len(tables.empty), sum(release.sigma**2 for release in tables.releases))
    noise = np.concatenate([tables.noise, before])[order]

    release = plan_private_release(epsilon, delta, len(sets), _largest_noisy_weight(tables.heaviest, max_weight))
    noisy = add_noise(flat, release, seed)
    parts = [nonnegative_noisy(noisy[a:b]) for a, b in pairwise(starts.tolist())]
    schema, flat = Schema(tuple(variable.declared() for variable in tables.schema)), np.concatenate([flat[:0], *parts])
    weights = np.array([effective_noisy_records(counts, release.sigma, release.max_weight) for counts in parts])
    releases = (*tables.releases, release)
    notes = tuple(map(str, releases))  # any other could reveal something about the records
    noise = noise + release.sigma**2
    return type(tables)(schema, sets[order], flat, weights, notes, releases, release.max_weight, noise)


def _largest_noisy_weight(heaviest: float | None, declared: float | None) -> float:
    """Return the weight to allow for: the declared one, unless a record is known to be heavier."""
    if declared is None and heaviest not in (0.0, 1.0):
        why = "the weights of these records are not known" if heaviest is None else "these records have weights"
        raise DataError(f"{why}: give max_weight=…, the largest weight that a record can have")
    allowed = 1.0 if declared is None else declared
    if heaviest is not None and isinstance(allowed, int | float) and heaviest > allowed * (1 + 1e-9):
        raise DataError(
            f"a record has the weight {heaviest:g}, more than {allowed:g}, the largest that max_weight=… allows"
        )
    return allowed


def plan_private_release(epsilon: float, delta: float, n_tables: int, max_weight: float) -> Release:
    """Return the release of some tables, in each of which a record of at most ``max_weight`` is counted once."""
    for name, value in (("epsilon", epsilon), ("max_weight", max_weight)):
        check_number(name, value, "a number above 0", lambda number: 0 < number < math.inf)
    _check_privacy_delta(delta)
    sensitivity = max_weight * math.sqrt(n_tables)
    sigma = sensitivity * noise_scale(float(epsilon), float(delta))
    return Release(float(epsilon), float(delta), sigma, sensitivity, n_tables, float(max_weight))


def _check_privacy_delta(delta: float) -> None:
    check_number("delta", delta, "a number between 0 and 1, such as 1e-6", lambda number: 0 < number < 1)


def add_noise(counts: Floats, release: Release, seed: int | None) -> Floats:
    """Return counts (n,) with the noise of a release; what follows uses nothing else of the records."""
    return counts + np.random.default_rng(seed).normal(0.0, release.sigma, counts.size)


def nonnegative_noisy(counts: Floats) -> Floats:
    """Return the nearest counts of one table (n,) without a negative one and with the same total; zeros if that is < 0.

    Examples
    --------
    >>> nonnegative_noisy(np.array([5.0, 2.0, -1.0]))
    array([4.5, 1.5, 0. ])
    """
    total = float(counts.sum())
    if total <= 0:
        return np.zeros_like(counts)
    if counts.min() >= 0:
        return counts
    # The excess is taken equally from all counts that stay positive.
    descending = np.sort(counts)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, counts.size + 1)
    last_positive = int(np.flatnonzero(descending > excess)[-1])
    return np.asarray(np.maximum(counts - excess[last_positive], 0.0))


def effective_noisy_records(counts: Floats, sigma: float, max_weight: float = 1.0) -> float:
    """Return how many records without noise would give the shares of one table (n,) as precisely as these counts.

    How weights differ is not known of a release: every record may have had the largest weight, the worst case.
    """
    if not counts.any():
        return 0.0
    total = float(counts.sum()) / max_weight
    shares = counts / counts.sum()
    chance = max(float(shares @ (1.0 - shares)), 1.0 / total) / total
    noise = counts.size * (sigma / max_weight / total) ** 2
    return total * chance / (chance + noise)


# The Gaussian mechanism


def privacy_epsilon(rho: float, delta: float) -> float:
    """Return the least ε for which Gaussian noise of this ρ gives (ε, δ)-differential privacy.

    Gaussian releases together are one Gaussian release, of the sum of their ρ, so that this is exact.
    """
    if rho > 0 and (math.isinf(rho) or delta == 0):
        return math.inf
    scale = 1.0 / math.sqrt(2.0 * rho) if rho > 0 else math.inf
    if privacy_leak(0.0, scale) <= delta:
        return 0.0
    return _least_private(lambda epsilon: privacy_leak(epsilon, scale), delta)


def noise_scale(epsilon: float, delta: float) -> float:
    """Return the least standard deviation, for a sensitivity of one, that gives (ε, δ)-differential privacy.

    Examples
    --------
    >>> round(noise_scale(1.0, 1e-6), 3)
    4.225
    """
    return _least_private(lambda scale: privacy_leak(epsilon, scale), delta)


def _least_private(leak: Callable[[float], float], delta: float) -> float:
    """Return the least positive number at which a falling function is at most δ."""
    from scipy.optimize import brentq

    # In logarithms, since good values may lie many powers of ten apart.
    high = 0.0
    while leak(math.exp(high)) > delta:
        high += 1.0
    low = high - 1.0
    while leak(math.exp(low)) <= delta:
        low -= 1.0
    log_root = brentq(lambda log: leak(math.exp(log)) - delta, low, high, xtol=1e-13)
    return math.exp(log_root + 1e-9)  # on the safe side of the root


def privacy_leak(epsilon: float, scale: float) -> float:
    """Return the smallest δ for which noise of this standard deviation gives (ε, δ)-differential privacy."""
    from scipy.special import log_ndtr

    half, shift = 0.5 / scale, epsilon * scale
    return float(np.exp(log_ndtr(half - shift)) - np.exp(epsilon + log_ndtr(-half - shift)))
