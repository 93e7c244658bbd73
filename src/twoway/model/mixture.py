"""The arithmetic of Σ_f weights_f · Π_n factor_n(·, f), on arrays alone.

Everywhere ``weights`` has the shape (rank,) and ``factors`` holds one array (n_categories, rank) for each
variable asked about; variables that are not asked about sum to one and need not be there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats

Codes = NDArray[np.integer]

MAX_CELLS = 10**7
"""Sub-joints up to this many cells are written out; larger ones never are."""
_CHUNK = 2**20


def joint(weights: Floats, factors: Sequence[Floats]) -> Floats:
    """Return the joint of some variables, one axis each."""
    left, right = _halves(weights, factors)
    return (left @ right.T).reshape([len(factor) for factor in factors])


def joint_chunks(weights: Floats, factors: Sequence[Floats]) -> Iterator[Floats]:
    """Yield the joint of some variables flattened, in order, a chunk of cells at a time."""
    left, right = _halves(weights, factors)
    step = max(1, _CHUNK // len(right))
    for first in range(0, len(left), step):
        yield (left[first : first + step] @ right.T).ravel()


def _halves(weights: Floats, factors: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return two matrices (cells, rank) whose product is the joint, together as small as possible."""
    sizes = [len(factor) for factor in factors]
    split = min(range(len(sizes) + 1), key=lambda at: math.prod(sizes[:at]) + math.prod(sizes[at:]))
    return _khatri_rao(weights, factors[:split]), _khatri_rao(np.ones_like(weights), factors[split:])


def _khatri_rao(weights: Floats, factors: Sequence[Floats]) -> Floats:
    product = weights[np.newaxis, :]
    for factor in factors:
        product = (product[:, np.newaxis, :] * factor[np.newaxis, :, :]).reshape(-1, len(weights))
    return product


def component_masses(weights: Floats, rows: Iterable[Floats]) -> tuple[Floats, int]:
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


def restrict(factor: Floats, codes: Codes) -> None:
    """Condition each column of a factor on some categories, in place."""
    if len(codes) == len(factor):
        return
    kept = factor[codes]
    mass = kept.sum(axis=0)
    factor[:] = 0.0
    # A component that the evidence rules out has no weight left, but is still a PMF.
    factor[codes] = np.divide(kept, mass, out=np.full_like(kept, 1 / len(codes)), where=mass > 0)


def log_joint(weights: Floats, factors: Sequence[Floats], codes: Sequence[Codes]) -> Floats:
    """Return the logarithm of the joint at some cells, shape (n,); ``codes`` holds (n,) for each variable."""
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
        log_factors = [np.log(factor) for factor in factors]
    n = len(codes[0])
    result = np.empty(n)
    step = max(1, _CHUNK // len(weights))
    for first in range(0, n, step):
        part = slice(first, first + step)
        logs = np.tile(log_weights, (len(result[part]), 1))
        for factor, code in zip(log_factors, codes, strict=True):
            logs += factor[code[part]]
        result[part] = np.logaddexp.reduce(logs, axis=1)
    return result


def draw_components(weights: Floats, n: int, rng: np.random.Generator) -> Codes:
    """Return n components drawn by their weights."""
    return _invert_mixture_shares(np.cumsum(weights), rng.random(n))


def draw_codes(factor: Floats, components: Codes, rng: np.random.Generator) -> Codes:
    """Return a category of one variable for each record, drawn by the column of its component."""
    uniform = rng.random(len(components))
    codes = np.empty(len(components), dtype=np.min_scalar_type(len(factor)))
    order = np.argsort(components, kind="stable")
    ends = np.searchsorted(components[order], np.arange(factor.shape[1] + 1))
    for component in np.flatnonzero(np.diff(ends)):
        members = order[ends[component] : ends[component + 1]]
        codes[members] = _invert_mixture_shares(np.cumsum(factor[:, component]), uniform[members])
    return codes


def draw_each(memberships: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
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
