"""Latent classes: the likelihood that as many random starts lead to, and its cost."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

import twoway as tw
from board.data import folder
from board.environments import PROGRAMS, Environments
from board.store import Result
from twoway.segmentation.search import Search

CASES: dict[str, tuple[int, ...]] = {"carcinoma": (3, 4), "gss82": (3,), "election": (3,)}
N_STARTS = 10
N_QUESTIONS = 12  # of election; others are about the people


def data() -> Mapping[str, Sequence[str]]:
    return {name: [f"{count} classes" for count in counts] for name, counts in CASES.items()}


@cache
def has_polca() -> bool:
    """Return whether R is there, with the package."""
    rscript = shutil.which("Rscript")
    command = [str(rscript), "-e", "quit(status = !requireNamespace('poLCA', quietly = TRUE))"]
    return rscript is not None and subprocess.run(command, capture_output=True).returncode == 0


def run(data: str, case: str, seed: int, methods: Sequence[str], environments: Environments) -> Iterator[Result]:
    """Fit all records; only the random starts differ between seeds."""
    frame, n_classes = pd.read_csv(folder() / "lca" / f"poLCA__{data}.csv"), int(case.split()[0])
    frame = frame.iloc[:, :N_QUESTIONS] if data == "election" else frame
    codes = frame.apply(lambda column: pd.Series(pd.factorize(column, sort=True)[0])).to_numpy()
    for method in methods:
        if method == "twoway":
            records = tw.Records(frame).for_fit()
            Search(records, 1).best(n_classes, n_starts=1, seed=[seed + 1000])  # loads compiled kernels
            began = time.process_time()
            reached = Search(records, 1).best(n_classes, n_starts=N_STARTS, seed=[seed]).log_likelihood
            seconds = time.process_time() - began
        elif method == "poLCA":
            if not has_polca():
                continue
            reached, seconds = by_polca(codes, n_classes, seed)
        else:
            with tempfile.TemporaryDirectory() as place:
                numbers = {"n_classes": n_classes, "n_starts": N_STARTS, "seed": seed}
                arrays = {name: np.array(number) for name, number in numbers.items()}
                found = environments.run("stepmix", "classes", place, codes=codes, **arrays)
            reached, seconds = float(found["log_likelihood"]), float(found["seconds"])
        yield Result("classes", data, case, method, seed, {"log-likelihood": reached}, seconds)


def by_polca(codes: np.ndarray, n_classes: int, seed: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "codes.csv"
        # Categories of poLCA begin with 1.
        pd.DataFrame(codes).add_prefix("v").mask(codes < 0).add(1).astype("Int64").to_csv(path, index=False)
        command = ["Rscript", str(PROGRAMS / "polca.R"), str(path), str(n_classes), str(N_STARTS), str(seed)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    reached, seconds = map(float, done.stdout.splitlines()[-1].split())
    return reached, seconds
