"""Slow, obvious versions of twoway.kernels.least_squares, with all tables and models written out."""

import numpy as np


def model(weights, factors, positions):
    """Return the model's table of three variables."""
    return np.einsum("f,if,jf,kf->ijk", weights, *(factors[position] for position in positions))


def half_squared_error(tables, weights, factors):
    """Return ½ Σ ‖X − model‖² over tables, given as {positions: shares}."""
    return sum(0.5 * np.square(x - model(weights, factors, positions)).sum() for positions, x in tables.items())


def contract(x, factors, positions, axis):
    """Return a table multiplied along its other two axes by their factors, (I, F)."""
    one, other = (factors[position] for place, position in enumerate(positions) if place != axis)
    return np.einsum(("ijk,jf,kf->if", "ijk,if,kf->jf", "ijk,if,jf->kf")[axis], x, one, other)


def project(point):
    """Return the nearest point of the simplex: the largest entries, less what they have too much in equal parts."""
    descending = np.sort(point)[::-1]
    excess = (np.cumsum(descending) - 1) / np.arange(1, len(point) + 1)
    return np.maximum(point - excess[np.flatnonzero(descending > excess)[-1]], 0)


def gradient(tables, weights, factors, slope):
    """Return the derivatives by weights and factors of a sum over tables, from its slope(x, model) a cell."""
    by_weights, by_factors = np.zeros_like(weights), [np.zeros_like(factor) for factor in factors]
    for positions, x in tables.items():
        bent = slope(x, model(weights, factors, positions))
        for axis, position in enumerate(positions):
            by_factors[position] += contract(bent, factors, positions, axis) * weights
        by_weights += np.einsum("ijk,if,jf,kf->f", bent, *(factors[position] for position in positions))
    return by_weights, by_factors


def largest_gains(weights, factors, by_weights, by_factors):
    """Return by how much each block alone could lower a function that is convex in it, at most.

    Over a simplex, a convex function lies above its tangent, which is lowest at a corner.
    """
    gains = [by_weights @ weights - by_weights.min()]
    for factor, slope in zip(factors, by_factors, strict=True):
        gains.append((slope * factor).sum() - slope.min(axis=0).sum())
    return gains
