"""Draws of components and categories, on arrays alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats

Codes = NDArray[np.integer]

MAX_CELLS = 10**7
"""Sub-joints up to this many cells are written out; larger ones never are."""


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
