"""Handwritten digits, from scikit-learn: 64 pixels and a label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twoway.errors import whole_number

if TYPE_CHECKING:
    import pandas as pd


def digits(levels: int = 4) -> pd.DataFrame:
    """Return 1797 handwritten digits: a column "digit" and 64 columns "r0c0" … "r7c7" of grey levels.

    Parameters
    ----------
    levels
        The number of grey levels, from 2 to 17; 0 is white.

    Examples
    --------
    >>> digits(levels=4).shape
    (1797, 65)
    """
    import pandas as pd
    from sklearn.datasets import load_digits

    whole_number("levels", levels, 2, 17)
    bunch = load_digits()
    grey = np.minimum(bunch.data.astype(int) * levels // 17, levels - 1)
    frame = pd.DataFrame(grey, columns=[f"r{row}c{column}" for row in range(8) for column in range(8)])
    frame.insert(0, "digit", bunch.target.astype(int))
    return frame
