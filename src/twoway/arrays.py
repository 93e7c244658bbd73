"""Names for the types of arrays, and what numpy does not have."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


def times_log(shares: Floats, values: Floats) -> Floats:
    """Return shares · log(values), 0 where the share is 0."""
    return shares * np.log(values, where=shares > 0, out=np.zeros_like(shares))


def log_of(numbers: Floats) -> Floats:
    """Return the logarithm of numbers, minus infinity for 0."""
    with np.errstate(divide="ignore"):
        return np.log(numbers)


def log_product(logs: Floats, matrix: Floats) -> Floats:
    """Return log(exp(logs) @ matrix), shape (n, columns), exact also where single terms underflow."""
    top = logs.max(axis=1, keepdims=True)
    top = np.where(top > -np.inf, top, 0.0)
    result = log_of(np.exp(logs - top) @ matrix) + top
    lost = np.argwhere(result == -np.inf)
    if len(lost):
        terms = logs[lost[:, 0]] + log_of(matrix).T[lost[:, 1]]
        result[lost[:, 0], lost[:, 1]] = np.logaddexp.reduce(terms, axis=1)
    return result


def read_only(array: Floats) -> Floats:
    """Return the array, C-contiguous and read-only; a copy only where necessary."""
    view = np.ascontiguousarray(array, dtype=np.float64).view()
    view.flags.writeable = False
    return view
