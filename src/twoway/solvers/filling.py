"""Counts that are not quite known: what a model expects of them."""

from __future__ import annotations

import numpy as np

from twoway.arrays import Floats, times_log

_LEAST = 1e-300
_BISECTIONS = 100
# Probabilities below are differences of rounding errors.
_NO_MASS = 1e-11


def expected_in_range(means: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the expected values of Poisson numbers that are within bounds, and the logarithm of that probability.

    Examples
    --------
    >>> np.round(expected_in_range(np.array([2.0, 9.0, 3.0]), np.zeros(3), np.array([4.0, 4.0, np.inf]))[0], 3)
    array([1.81 , 3.476, 3.   ])
    """
    from scipy.special import gammaln, pdtr

    means, low, high = np.maximum(means, 1e-12), np.ceil(low), np.floor(high)
    below, above = pdtr(np.maximum(low - 1.0, 0.0), means) * (low > 0), np.where(high < np.inf, pdtr(high, means), 1.0)
    mass = above - below
    inner = np.where(high < np.inf, pdtr(np.maximum(high - 1.0, 0.0), means) * (high > 0), 1.0)
    inner -= pdtr(np.maximum(low - 2.0, 0.0), means) * (low > 1)
    # Far from the mean, all but the nearest end is as good as impossible.
    is_far = mass < _NO_MASS
    end = np.clip(means, low, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.where(is_far, end, np.clip(means * inner / mass, low, high))
        logs = np.where(is_far, end * np.log(means) - means - gammaln(end + 1.0), np.log(mass))
    return expected, logs


def tilted_to(shares: Floats, values: Floats, mean: float) -> tuple[Floats, float]:
    """Return shares ∝ shares · exp(t · value) that have a mean, and their divergence from the shares.

    Of all shares with that mean, they are nearest to the given ones.

    Examples
    --------
    >>> tilted, divergence = tilted_to(np.full(3, 1 / 3), np.array([0.0, 1.0, 2.0]), 1.5)
    >>> np.round(tilted, 3), round(divergence, 3)
    (array([0.116, 0.268, 0.616]), 0.197)
    """
    centred = values - mean
    scale = max(float(np.abs(centred).max()), _LEAST)
    low, high = -60.0 / scale, 60.0 / scale
    for _ in range(_BISECTIONS):
        tilt = 0.5 * (low + high)
        powers = tilt * centred
        tilted = shares * np.exp(powers - powers.max())
        if float(tilted @ centred) > 0:
            high = tilt
        else:
            low = tilt
    tilted /= tilted.sum()
    return tilted, max(float(times_log(tilted, tilted / np.maximum(shares, _LEAST)).sum()), 0.0)
