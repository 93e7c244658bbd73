"""Names for the types of arrays, and a product that numpy does not have."""

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
