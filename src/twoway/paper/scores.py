"""The scores of an estimate: the measures as defined, and as the paper's programs computed them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twoway.model.measures import factor_mse, match_components, mean_relative_error
from twoway.model.pmf import JointPMF


@dataclass(frozen=True)
class Metric:
    """A number that shows how good a method is."""

    title: str
    short: str
    is_higher_better: bool = False
    decimals: int = 4
    """How many the paper prints: a mean that rounds to its number is as good."""
    shows_decimals: bool = False
    """Whether our means are shown with as many; otherwise with three significant digits."""


METRICS = {
    "mse": Metric("MSE of the factors", "MSE"),
    "mse_published": Metric(
        "MSE as published: with A_1 of the truth multiplied by diag(λ), as in the paper's N=5 tables", "MSE*"
    ),
    "mre": Metric("MRE of the joint, relative to the truth", "MRE"),
    "mre_estimate": Metric("MRE as published: relative to the estimate", "MRE*"),
    "accuracy": Metric("Accuracy on the test part, %", "accuracy, %", True, decimals=2, shows_decimals=True),
    "rmse": Metric("RMSE on the test part", "RMSE", shows_decimals=True),
    "mae": Metric("MAE on the test part", "MAE", shows_decimals=True),
    "seconds": Metric("Seconds per fit", "seconds"),
    "seconds_all": Metric("Seconds in all, with the choice of ranks and other parameters", "seconds in all"),
}


def scores_of(truth: JointPMF, estimate: JointPMF, seconds: float) -> dict[str, float]:
    """Return every metric of an estimate."""
    return {
        "mse": factor_mse(truth, estimate),
        "mse_published": published_mse(truth, estimate),
        "mre": mean_relative_error(truth, estimate),
        "mre_estimate": mean_relative_error(truth, estimate, relative_to="estimate"),
        "seconds": seconds,
    }


def published_mse(truth: JointPMF, estimate: JointPMF) -> float:
    """Return the MSE with the first factor of the truth multiplied by its weights, the estimate's not.

    The paper's tables with 5 variables were computed in this way. A perfect estimate gets about 0.0204 there.

    Examples
    --------
    >>> from twoway.datasets import nearly_separable
    >>> truth = nearly_separable(seed=1)
    >>> factor_mse(truth, truth), round(published_mse(truth, truth), 2)
    (0.0, 0.02)
    """
    matched = match_components(truth, estimate)
    first = slice(0, truth.schema.sizes[0])
    right, wrong = truth.stacked[first], truth.stacked[first] * truth.weights
    estimated = estimate.stacked[first][:, matched]
    constant = np.square(estimated - wrong).sum() - np.square(estimated - right).sum()
    return factor_mse(truth, estimate) + float(constant) / (len(truth.schema) * truth.rank)
