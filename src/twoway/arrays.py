"""Names for the types of arrays, and what numpy does not have."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
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


def sums_by(numbers: NDArray[np.number | np.bool_], axes: Container[int], *, keepdims: bool = False) -> Floats:
    """Return the sums for each position on some axes, over all other axes.

    Examples
    --------
    >>> sums_by(np.array([[1.0, 2.0], [3.0, 4.0]]), [0]), sums_by(np.array([[1.0, 2.0], [3.0, 4.0]]), [])
    (array([3., 7.]), array(10.))
    """
    others = tuple(axis for axis in range(numbers.ndim) if axis not in axes)
    return np.asarray(numbers.sum(axis=others, keepdims=keepdims), dtype=np.float64)


def first_true(is_wrong: Bools) -> tuple[int, ...] | None:
    """Return the index of the first true entry, None where there is none."""
    places = np.argwhere(is_wrong)
    return tuple(places[0].tolist()) if len(places) else None


def read_only(array: Floats) -> Floats:
    """Return the array, C-contiguous and read-only; a copy only where necessary."""
    view = np.ascontiguousarray(array, dtype=np.float64).view()
    view.flags.writeable = False
    return view
