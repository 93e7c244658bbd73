"""The classifiers of scikit-learn that the joint PMF is compared with, and the parameters tried for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np

# One-hot inputs: a missing cell is a category of its own; categories not seen in training are ignored.
_COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)


def pipeline_and_grid(method: str, *, seed: int) -> tuple[Any, dict[str, list[Any]]]:
    """Return a classifier on one-hot inputs, and the values of its parameters to choose from."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.svm import SVC, LinearSVC

    model, grid = {
        "SVM": (LinearSVC(random_state=seed), {"C": [*_COSTS]}),
        "Logistic Regression": (LogisticRegression(max_iter=1000), {"C": [*_COSTS]}),
        # The squared distance of two records that differ in k attributes is 2k.
        "SVM-RBF": (SVC(random_state=seed, cache_size=500), {"C": [1.0, 10.0, 100.0], "gamma": [0.02, 0.1]}),
        # On one-hot inputs, counts of categories are multinomial.
        "Naive Bayes": (MultinomialNB(), {"alpha": [0.01, 0.1, 1.0, 10.0]}),
    }[method]
    one_hot = OneHotEncoder(handle_unknown="ignore", dtype=np.float64)
    return Pipeline([("one_hot", one_hot), ("model", model)]), {f"model__{name}": list(grid[name]) for name in grid}
