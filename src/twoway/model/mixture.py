"""The arithmetic of Σ_f weights_f · Π_n factor_n(·, f), on arrays alone.

Everywhere ``weights`` has the shape (rank,) and ``factors`` holds one array (n_categories, rank) for each
variable asked about; variables that are not asked about sum to one and need not be there.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats

Codes = NDArray[np.integer]

MAX_CELLS = 10**7
"""Sub-joints up to this many cells are written out; larger ones never are."""


def mixture_masses(weights: Floats, rows: Iterable[Floats]) -> tuple[Floats, int]:
    """Return weights · Π rows for each component, to be multiplied by two to the power returned.

    Each component keeps an exponent of its own until the end, so one that falls far behind on the first
    variables can still come to lead on the last.
    """
    mantissas, exponents = np.frexp(weights)
    exponents = exponents.astype(np.int64)
    for row in rows:
        mantissas, shift = np.frexp(mantissas * row)
        exponents += shift
    possible = mantissas > 0
    if not possible.any():
        return np.zeros_like(mantissas), 0
    highest = int(exponents[possible].max())
    return np.ldexp(mantissas, np.maximum(exponents - highest, -2000)), highest


def restrict_mixture(factor: Floats, codes: Codes) -> None:
    """Condition each column of a factor on some categories, in place."""
    if len(codes) == len(factor):
        return
    kept = factor[codes]
    mass = kept.sum(axis=0)
    factor[:] = 0.0
    # A component that the evidence rules out has no weight left, but is still a PMF.
    factor[codes] = np.divide(kept, mass, out=np.full_like(kept, 1 / len(codes)), where=mass > 0)


def draw_mixture_components(weights: Floats, n: int, rng: np.random.Generator) -> Codes:
    """Return n components drawn by their weights."""
    return _invert_mixture_shares(np.cumsum(weights), rng.random(n))


def draw_mixture_codes(factor: Floats, components: Codes, rng: np.random.Generator) -> Codes:
    """Return a category of one variable for each record, drawn by the column of its component."""
    uniform = rng.random(len(components))
    codes = np.empty(len(components), dtype=np.min_scalar_type(len(factor)))
    order = np.argsort(components, kind="stable")
    ends = np.searchsorted(components[order], np.arange(factor.shape[1] + 1))
    for component in np.flatnonzero(np.diff(ends)):
        members = order[ends[component] : ends[component + 1]]
        codes[members] = _invert_mixture_shares(np.cumsum(factor[:, component]), uniform[members])
    return codes


def draw_memberships(memberships: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a component for each record, drawn by its own memberships (n_records, rank)."""
    cumulative = np.cumsum(memberships, axis=1)
    uniform = rng.random(len(memberships)) * cumulative[:, -1]
    # The first component whose cumulated share exceeds the number: never one of share 0. A product that
    # rounds up to the whole belongs to the last component that has any share.
    drawn = (cumulative <= uniform[:, np.newaxis]).sum(axis=1, dtype=np.int64)
    last = memberships.shape[1] - 1 - (memberships[:, ::-1] > 0).argmax(axis=1)
    return np.asarray(np.minimum(drawn, last))


def _invert_mixture_shares(cumulative: Floats, uniform: Floats) -> Codes:
    """Return the first position whose cumulated share exceeds each number: never one of probability 0."""
    return np.searchsorted(cumulative / cumulative[-1], uniform, side="right")
