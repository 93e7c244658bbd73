"""Classification: labels of new records, complete and with half of all cells hidden in training and testing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

import twoway as tw
from board.data import Codes, as_frame, hide, known_only, load_kernels, split
from board.environments import Environments
from board.scores import prediction_scores
from board.sections import OURS
from board.store import Result

DATA = ("votes", "mushroom", "nursery", "car", "election", "bfi", "adult")
CASES = {"as they are": 0.0, "half hidden": 0.5}
METHODS = ("gradient boosting", "random forest", "logistic regression", "naive Bayes")
BUDGET_SECONDS = 60.0


def run(data: str, case: str, seed: int, methods: Sequence[str], environments: Environments) -> Iterator[Result]:
    """Score methods on one split; records without a label are left out."""
    random = np.random.default_rng(seed)
    parts = split(data, seed)
    learn, ask = parts.train[parts.train[:, -1] >= 0], parts.test[parts.test[:, -1] >= 0]
    train, labels = hide(learn[:, :-1], CASES[case], random), learn[:, -1]
    test, truth = hide(known_only(train, ask[:, :-1]), CASES[case], random), ask[:, -1]
    *sizes, n_classes = parts.sizes
    arrays = {"train": train, "labels": labels, "test": test, "sizes": np.array(sizes)}
    numbers = {"n_classes": n_classes, "seed": seed, "budget": BUDGET_SECONDS}
    arrays |= {name: np.array(number) for name, number in numbers.items()}
    peers = [name for name in methods if name != OURS]
    found = environments.predict("classify", dict.fromkeys(METHODS, "scikit-learn"), peers, **arrays)
    if OURS in methods:
        found = chain([(OURS, *ours(train, labels, test, parts.sizes, seed))], found)
    for method, chances, seconds, note in found:
        yield Result("classification", data, case, method, seed, prediction_scores(chances, truth), seconds, note)


def ours(train: Codes, labels: Codes, test: Codes, sizes: tuple[int, ...], seed: int) -> tuple[np.ndarray, float, str]:
    """Return the chances of the classes, by `JointPMFClassifier` with default options."""
    load_kernels()
    began = time.process_time()
    model = tw.JointPMFClassifier(threads=1, random_state=seed).fit(as_frame(train, sizes[:-1]), labels)
    chances = np.zeros((len(test), sizes[-1]))
    chances[:, model.classes_] = model.predict_proba(as_frame(test, sizes[:-1]))
    return chances, time.process_time() - began, ", ".join(model.forms_)
