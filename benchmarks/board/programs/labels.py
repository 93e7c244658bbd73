"""Aggregate labels by crowd-kit, in its own environment: python labels.py GIVEN.npz FOUND.npz."""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")

# More iterations than the 100 of their defaults.
OPTIONS = {"DawidSkene": {"n_iter": 1000}, "OneCoinDawidSkene": {"n_iter": 1000}, "GLAD": {"silent": True}}


def main(given, found):
    import pandas as pd
    from crowdkit import aggregation

    with np.load(given) as stored:
        methods = stored["methods"].tolist()
        labels = pd.DataFrame({name: stored[name] for name in ("task", "worker", "label")})
    results = {}
    for method in methods:
        began = time.process_time()
        guess = getattr(aggregation, method)(**OPTIONS.get(method, {})).fit_predict(labels)
        results[f"seconds {method}"] = time.process_time() - began
        results[f"guesses {method}"] = guess.loc[np.arange(len(guess))].to_numpy()
    np.savez(found, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
