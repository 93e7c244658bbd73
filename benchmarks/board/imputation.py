"""Imputation: hidden cells of new records, after training on records that are complete or have holes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

import twoway as tw
from board.data import Codes, as_frame, hide, known_only, load_kernels, split
from board.environments import Environments
from board.scores import prediction_scores
from board.sections import OURS
from board.store import Result

DATA = ("votes", "nursery", "election", "bfi", "adult")
CASES = {"as they are": 0.0, "30 % hidden": 0.3}
ENVIRONMENTS = {
    "missForest": "missforest",
    "random-forest chain": "scikit-learn",
    "KNN": "scikit-learn",
    "IterativeImputer": "scikit-learn",
    "miceforest": "miceforest",
}
HIDDEN = 0.3
BUDGET_SECONDS = 60.0


def run(data: str, case: str, seed: int, methods: Sequence[str], environments: Environments) -> Iterator[Result]:
    """Score methods on one split."""
    random = np.random.default_rng(seed)
    parts = split(data, seed)
    train = hide(parts.train, CASES[case], random)
    whole = known_only(train, parts.test)
    test = hide(whole, HIDDEN, random)
    rows, columns = np.nonzero((whole >= 0) & (test < 0))
    arrays = {"train": train, "test": test, "rows": rows, "columns": columns, "sizes": np.array(parts.sizes)}
    numbers = {"seed": np.array(seed), "share": np.array(HIDDEN), "budget": np.array(BUDGET_SECONDS)}
    found = environments.predict("fill", ENVIRONMENTS, [name for name in methods if name != OURS], **arrays, **numbers)
    if OURS in methods:
        found = chain([(OURS, *ours(train, test, parts.sizes, rows, columns, seed))], found)
    for method, chances, seconds, note in found:
        scores = prediction_scores(chances, whole[rows, columns])
        yield Result("imputation", data, case, method, seed, scores, seconds, note)


def ours(
    train: Codes, test: Codes, sizes: tuple[int, ...], rows: Codes, columns: Codes, seed: int
) -> tuple[np.ndarray, float, str]:
    """Return the chances of the categories of some cells, by `JointPMFImputer` with default options."""
    load_kernels()
    began = time.process_time()
    model = tw.JointPMFImputer(threads=1, random_state=seed).fit(as_frame(train, sizes))
    series = model.predict_proba(as_frame(test, sizes))
    seconds = time.process_time() - began
    table = series.unstack("category").reindex(columns=range(max(sizes))).fillna(0.0)
    names = [f"v{column}" for column in columns]
    return table.loc[list(zip(rows, names, strict=True))].to_numpy(), seconds, shares_of_forms(model.forms_)


def shares_of_forms(forms: Mapping[str, float]) -> str:
    return ", ".join(f"{form} {share:.2f}" for form, share in forms.items())
