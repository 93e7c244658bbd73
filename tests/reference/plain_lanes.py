"""The lanes of the kernels in numpy, so that kernels run uncompiled (NUMBA_DISABLE_JIT=1), where a tracer sees them."""

import numpy as np

from twoway.kernels import lanes


def load(array, index, prototype):
    return array.reshape(-1)[index : index + len(prototype)].copy()


def store(array, index, values):
    array.reshape(-1)[index : index + len(values)] = values


def total(values):
    a, b, c, d = values.reshape(-1, 4).sum(axis=0)
    return (a + c) + (b + d)


def spread(number, prototype):
    return np.full(len(prototype), number)


def use():
    """Put them in the place of those that only a compiler understands; before any kernel is imported."""
    lanes.load, lanes.store, lanes.total, lanes.spread = load, store, total, spread
    lanes.add, lanes.multiply = np.add, np.multiply
