"""Labels of many annotators: how many are found, on public data and in simulated regimes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

import labels as simulation
import numpy as np
import pandas as pd

import twoway as tw
from board.data import folder
from board.environments import Environments
from board.sections import OURS
from board.store import Result

REAL = ("bluebird", "rte")
# The last of these regimes is for intervals.
SIMULATED = tuple(simulation.REGIMES)[:-1]
METHODS = ("MajorityVote", "DawidSkene", "OneCoinDawidSkene", "GLAD")


def data() -> Mapping[str, Sequence[str]]:
    return dict.fromkeys((*REAL, *SIMULATED), ("",))


def labels_of(data: str, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Return labels and the truth: of public data a random nine tenths of the labels, so that seeds differ."""
    if data not in REAL:
        return simulation.simulated_labels(data, seed)[:2]
    frame = pd.read_csv(folder() / "crowd" / data / "label.csv").rename(columns={"worker": "annotator"})
    truth = pd.read_csv(folder() / "crowd" / data / "truth.csv").set_index("item")["truth"]
    frame = frame.sample(frac=0.9, random_state=seed)
    return frame, truth[truth.index.isin(frame["item"])]


def run(data: str, case: str, seed: int, methods: Sequence[str], environments: Environments) -> Iterator[Result]:
    """Return the share of the items whose label is found."""
    frame, truth = labels_of(data, seed)
    items, workers, given = (pd.factorize(frame[name]) for name in ("item", "annotator", "label"))
    guesses = {}
    if OURS in methods:
        began = time.process_time()
        guess = tw.LabelAggregator(threads=1).fit_predict(frame)
        guesses[OURS] = guess, time.process_time() - began
    if peers := [name for name in methods if name != OURS]:
        with tempfile.TemporaryDirectory() as place:
            arrays = {"task": items[0], "worker": workers[0], "label": given[0], "methods": np.array(peers)}
            found = environments.run("crowd-kit", "labels", place, **arrays)
        for name in peers:
            guess = pd.Series(given[1][found[f"guesses {name}"]], items[1])
            guesses[name] = guess, float(found[f"seconds {name}"])
    for method, (guess, seconds) in guesses.items():
        accuracy = float((guess.loc[truth.index] == truth).mean())
        yield Result("labels", data, case, method, seed, {"accuracy": accuracy}, seconds)
