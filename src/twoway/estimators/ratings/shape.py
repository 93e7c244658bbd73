"""The distribution of a rating around what is expected.

Its shape is a product of three, p(r) ∝ normal(r)ᵃ · user(r)ᵇ · kinds(r)ᶜ: how sure the expectation is, how the user
uses the scale (some give no half stars, some only the ends), and what the mixture says. The product is then tilted,
times exp(θ r), so that its mean is the expected rating: the best guess of the rating stays what it was. The exponents
are those that make held-out ratings most probable.
"""

from __future__ import annotations

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.data.records import Records

# Exponents are drawn to the usual ones as if by this many held-out ratings.
USUAL_EXPONENTS, _USUAL_RATINGS = np.array([0.25, 0.6, 0.1]), 20.0
# The pseudo-ratings of each user, in the shares of all ratings.
_USER_SMOOTHING = 5.0
# An expected rating stays away from the ends of the scale by this share of its length: others would have no chance.
_MARGIN = 0.005
# Steps of a search that at least halves an interval, and the tolerance of a mean.
_MOST_STEPS, _EXACT = 100, 1e-10


def shape_means(means: Floats, points: Floats) -> Floats:
    """Return expected ratings moved away from the ends of the scale."""
    margin = _MARGIN * (points[-1] - points[0])
    return np.asarray(np.clip(means, points[0] + margin, points[-1] - margin))


def shape_of_users(users: Records, shares: Floats) -> Floats:
    """Return how often each user gives each rating, smoothed by how often all do, (n_users, n_points)."""
    n_users, n_points = users.n_records, len(shares)
    user_of_cell = np.repeat(np.arange(n_users), np.diff(users.pointers))
    counts = np.bincount(user_of_cell * n_points + users.cells % n_points, minlength=n_users * n_points)
    smoothed: Floats = counts.reshape(n_users, n_points) + _USER_SMOOTHING * shares
    smoothed /= smoothed.sum(axis=1, keepdims=True)
    return smoothed


def tilt_shape(scores: Floats, points: Floats, means: Floats) -> Floats:
    """Return p(r) ∝ exp(score(r) + θ r), with the θ for which the mean is as given, (n, n_points).

    Newton's method for θ, in an interval that contains it.
    """
    if len(points) == 1:
        return np.ones_like(scores)
    # At its ends, the last two points differ by so much that the mean is beyond any that is asked for.
    farthest = (np.ptp(scores, axis=1) - np.log(_MARGIN / len(points))) / np.diff(points).min() + 1.0
    lowest, highest, theta = -farthest, farthest, np.zeros(len(scores))
    shares: Floats = np.empty_like(scores)
    for _ in range(_MOST_STEPS):
        tilted = scores + theta[:, np.newaxis] * points
        shares = np.exp(tilted - tilted.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        gaps = shares @ points - means
        if np.abs(gaps).max(initial=0.0) < _EXACT:
            break
        highest, lowest = np.where(gaps > 0, theta, highest), np.where(gaps < 0, theta, lowest)
        newton = theta - gaps / np.maximum(_shape_variances(shares, points), 1e-300)
        theta = np.where((newton > lowest) & (newton < highest), newton, 0.5 * (lowest + highest))
    return shares


def fit_shape_exponents(parts: Floats, points: Floats, means: Floats, codes: Ints) -> Floats:
    """Return the exponents of the parts of the shape that make held-out ratings most probable, (n_parts,).

    Parameters
    ----------
    parts
        The logarithms of the parts, (n_parts, n_ratings, n_points).
    means
        The expected ratings.
    codes
        The ratings, as positions on the scale.
    """
    if len(points) == 1:
        return USUAL_EXPONENTS
    from scipy.optimize import minimize

    places = np.arange(len(codes))

    def loss(exponents: Floats) -> tuple[float, Floats]:
        shares = tilt_shape(np.tensordot(exponents, parts, 1), points, means)
        expected = np.einsum("fnp,np->fn", parts, shares)
        together = np.einsum("fnp,np,p->fn", parts, shares, points) - expected * means
        # How θ changes with each exponent, so that the mean stays.
        slopes = -together / np.maximum(_shape_variances(shares, points), 1e-300)
        gradient = parts[:, places, codes] - expected + (points[codes] - means) * slopes
        away = exponents - USUAL_EXPONENTS
        total = -np.log(np.maximum(shares[places, codes], 1e-300)).sum() + _USUAL_RATINGS * away @ away
        return total / len(codes), (2.0 * _USUAL_RATINGS * away - gradient.sum(axis=1)) / len(codes)

    bounds = [(0.0, None)] * len(USUAL_EXPONENTS)
    return np.asarray(minimize(loss, USUAL_EXPONENTS, jac=True, method="L-BFGS-B", bounds=bounds).x)


def _shape_variances(shares: Floats, points: Floats) -> Floats:
    return np.asarray(shares @ points**2 - (shares @ points) ** 2)
