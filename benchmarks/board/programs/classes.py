"""Fit latent classes by StepMix, in its own environment: python classes.py GIVEN.npz FOUND.npz."""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")


def main(given, found):
    from stepmix import StepMix

    with np.load(given) as stored:
        codes = stored["codes"]
        n_classes, n_starts, seed = (int(stored[name]) for name in ("n_classes", "n_starts", "seed"))
    values = np.where(codes < 0, np.nan, codes)
    kind = "categorical_nan" if np.isnan(values).any() else "categorical"
    began = time.process_time()
    model = StepMix(n_classes, measurement=kind, n_init=n_starts, random_state=seed, verbose=0, progress_bar=0)
    model.fit(values)
    seconds = time.process_time() - began
    np.savez(found, log_likelihood=model.score(values) * len(values), seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
