"""EM of one hidden variable, from its start to its end, compiled: for many fits of few records each."""

from __future__ import annotations

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.kernels.expectation import expect
from twoway.kernels.jit import Compressed, jit, jit_inline
from twoway.kernels.lanes import Prototype
from twoway.kernels.maximization import extrapolate, maximize

# The longest extrapolation tried at first; it grows while it succeeds.
_FIRST_LENGTH = 4.0


@jit_inline
def _climb_step(
    records: Compressed, theta: Floats, none: Floats, shares: Floats, groups: Ints, rank: int, prototype: Prototype
) -> tuple[Floats, float]:
    """Return the θ that follows without smoothing, and the log-likelihood of the given one."""
    counts = np.zeros(theta.shape)
    log_likelihood = expect(records, theta, counts, prototype)
    return maximize(counts, none, shares, groups, rank), log_likelihood


@jit
def climb(
    records: Compressed,
    theta: Floats,
    shares: Floats,
    groups: Ints,
    rank: int,
    max_iter: int,
    tol: float,
    prototype: Prototype,
) -> tuple[Floats, float, bool]:
    """Return the θ to which EM leads, its log-likelihood, and whether it settled within ``max_iter`` passes.

    The steps are those of `Loop` with `fit_cells_by_em` and no smoothing, which save, show and stop as users wish:
    Python takes longer for that than a pass over a few hundred distinct records. It has settled when two cycles of up
    to three passes gained less than ``tol`` each.
    """
    none = np.zeros(len(theta))
    best, point = theta, theta
    highest = before = -np.inf
    longest = _FIRST_LENGTH
    passes, quiet = 0, 0
    while passes < max_iter:
        first, at_point = _climb_step(records, point, none, shares, groups, rank, prototype)
        quiet = quiet + 1 if at_point - before < tol else 0
        before = at_point
        if quiet == 2:
            return point, at_point, True
        second, highest = _climb_step(records, first, none, shares, groups, rank, prototype)
        passes += 2
        candidate, length = extrapolate(point, first, second, groups, rank, longest)
        best, point = first, second
        if length > 1.0:
            third, at_candidate = _climb_step(records, candidate, none, shares, groups, rank, prototype)
            passes += 1
            if at_candidate >= highest:
                best, highest, point = candidate, at_candidate, third
                longest *= 4.0 if length == longest else 1.0
            else:
                longest = max(_FIRST_LENGTH, length / 2.0)
    return best, highest, False
