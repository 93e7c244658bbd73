"""The lanes in numpy, for kernels that run uncompiled (``NUMBA_DISABLE_JIT=1``): slow, but a debugger sees them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Lanes = NDArray[np.float64]


def load(array: Lanes, index: int, prototype: tuple[int, ...]) -> Lanes:
    """Return lanes of a flat array, beginning at an index."""
    return array[index : index + len(prototype)].copy()


def store(array: Lanes, index: int, values: Lanes) -> None:
    """Write lanes into a flat array, beginning at an index."""
    array[index : index + len(values)] = values


def total(values: Lanes) -> float:
    """Return the sum over all lanes, added in the order of the compiled one."""
    a, b, c, d = values.reshape(-1, 4).sum(axis=0)
    return float((a + c) + (b + d))


def spread(number: float, prototype: tuple[int, ...]) -> Lanes:
    """Return lanes that all hold one number."""
    return np.full(len(prototype), number)


def add(left: Lanes, right: Lanes) -> Lanes:
    """Return the sums, lane by lane."""
    return left + right


def multiply(left: Lanes, right: Lanes) -> Lanes:
    """Return the products, lane by lane."""
    return left * right
