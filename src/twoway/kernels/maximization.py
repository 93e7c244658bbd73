"""The M-step, its penalty, and the extrapolation between steps."""

from __future__ import annotations

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.kernels.jit import jit


@jit
def maximize(counts: Floats, pseudo_counts: Floats, marginal: Floats, offsets: Ints, rank: int) -> Floats:
    """Return θ (1 + I, width), the parameters that best explain expected counts and pseudo-counts.

    Each variable is divided by what was observed of it, not by the component's weight: records that lack the
    variable must not dilute it. A component without any support of a variable gets the variable's overall
    shares (``marginal``, (I,)), so that a later step can revive it instead of spreading NaN.
    """
    theta = np.zeros(counts.shape)
    total = 0.0
    for f in range(rank):
        theta[0, f] = counts[0, f] + pseudo_counts[0]
        total += theta[0, f]
    for f in range(rank):
        theta[0, f] = theta[0, f] / total if total > 0.0 else 1.0 / rank
    for n in range(offsets.size - 1):
        begin, end = offsets[n] + 1, offsets[n + 1] + 1
        for f in range(rank):
            total = 0.0
            for c in range(begin, end):
                total += counts[c, f] + pseudo_counts[c]
            if total > 0.0:
                for c in range(begin, end):
                    theta[c, f] = (counts[c, f] + pseudo_counts[c]) / total
            else:
                for c in range(begin, end):
                    theta[c, f] = marginal[c - 1]
    return theta


@jit
def log_prior(theta: Floats, pseudo_counts: Floats, rank: int) -> float:
    """Return Σ pseudo-count · log θ: what smoothing adds to the log-likelihood."""
    value = 0.0
    for c in range(theta.shape[0]):
        if pseudo_counts[c] > 0.0:
            row = 0.0
            for f in range(rank):
                row += np.log(theta[c, f])
            value += pseudo_counts[c] * row
    return value


@jit
def extrapolate(
    start: Floats, first: Floats, second: Floats, offsets: Ints, rank: int, longest: float
) -> tuple[Floats, float]:
    """Return a point beyond two steps of a fixed-point iteration, and how many steps beyond it is.

    The step length is SQUAREM's third scheme (Varadhan and Roland, 2008), at most ``longest``; entries that would
    leave the simplex stop well inside it, so that none is lost for good.
    """
    velocity = 0.0
    acceleration = 0.0
    for c in range(start.shape[0]):
        for f in range(rank):
            step = first[c, f] - start[c, f]
            bend = second[c, f] - first[c, f] - step
            velocity += step * step
            acceleration += bend * bend
    length, theta = 1.0, np.zeros(start.shape)
    if acceleration > 0.0:
        length = min(max(np.sqrt(velocity / acceleration), 1.0), longest)
    for c in range(start.shape[0]):
        for f in range(rank):
            step = first[c, f] - start[c, f]
            bend = second[c, f] - first[c, f] - step
            moved = start[c, f] + 2.0 * length * step + length * length * bend
            theta[c, f] = max(moved, 0.01 * second[c, f])
    none = np.zeros(start.shape[0])
    return maximize(theta, none, none, offsets, rank), length
