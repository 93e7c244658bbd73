"""Tables for the tests of estimators."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

LIBRARIES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}

QUICK = {"rank": 3, "smoothing": 0.5, "n_starts": 2}
"""Options of fits that take little time."""


def survey(n_records=300, missing=0.2, seed=0):
    """Return a frame of text and numbers, all of which tell of a hidden kind, and the kind."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_records)
    noisy = [np.where(rng.random(n_records) < 0.2, rng.integers(0, 3, n_records), kind) for _ in range(3)]
    frame = pd.DataFrame(
        {
            "sky": np.array(["clear", "grey", "dark"], dtype=object)[noisy[0]],
            "stars": noisy[1] + 1.0,
            "warm": np.where(noisy[2] == 0, "yes", "no").astype(object),
            "income": np.exp(rng.normal(kind, 0.4)),
        }
    )
    return frame.mask(rng.random(frame.shape) < missing), np.array(["a", "b", "c"], dtype=object)[kind]


def adults(n_records=240):
    """People as a census has them: ages, mostly no gains, 40 hours, and countries that one of them comes from."""
    rng = np.random.default_rng(0)
    rich = rng.random(n_records) < 0.3
    country = np.where(rng.random(n_records) < 0.9, "here", [f"country {n}" for n in range(n_records)])
    frame = pd.DataFrame(
        {
            "age": rng.integers(17, 91, n_records) // np.where(rich, 1, 2),
            "gain": np.where(
                rng.random(n_records) < np.where(rich, 0.4, 0.02), rng.integers(100, 99_999, n_records), 0
            ),
            "hours": np.where(rng.random(n_records) < 0.6, 40, rng.integers(1, 99, n_records)),
            "country": country,
            "grade": rng.integers(1, 17, n_records),
        }
    )
    return frame, np.where(rich, ">50K", "<=50K")
