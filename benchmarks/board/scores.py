"""Scores of predictions, and what seeds say about two methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# No method loses more than this by one prediction.
LEAST_CHANCE = 1e-6

Verdict = Literal["ahead", "even", "behind"]


def prediction_scores(chances: NDArray[np.float64], truth: NDArray[np.int64]) -> dict[str, float]:
    """Return accuracy and log-loss of probabilities (n, n_categories) of true codes (n,); a code below 0 is missing.

    Rows are brought to sum to one. Several categories that are equally probable share the point.
    """
    known = truth >= 0
    if not known.any():
        raise ValueError("there is nothing to score: all true codes are missing")
    chances, truth = chances[known] / chances[known].sum(axis=1, keepdims=True), truth[known]
    of_truth = chances[np.arange(len(truth)), truth]
    best = np.isclose(chances, chances.max(axis=1, keepdims=True), rtol=1e-9, atol=0)
    is_right = best[np.arange(len(truth)), truth] / best.sum(axis=1)
    return {
        "accuracy": float(is_right.mean()),
        "log-loss": float(-np.log(np.maximum(of_truth, LEAST_CHANCE)).mean()),
    }


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error, which is NaN for a single value."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(np.mean(values)), float(error)


@dataclass(frozen=True)
class Gap:
    """How much better ours is than a peer, seed by seed."""

    mean: float
    error: float
    n: int
    least: float = 0.0
    """What a gap must exceed in any case: half of the last digit that is shown."""

    @classmethod
    def of(
        cls, ours: Mapping[int, float], theirs: Mapping[int, float], *, is_low_better: bool, digits: int = 12
    ) -> Gap:
        """Compare the scores by seed of two methods, on the seeds that both have."""
        seeds = sorted(ours.keys() & theirs.keys())
        gains = [(theirs[seed] - ours[seed]) * (1 if is_low_better else -1) for seed in seeds]
        return cls(*mean_and_error(gains), len(seeds), 0.5 * 0.1**digits)

    @property
    def verdict(self) -> Verdict:
        """Whether the gap is more than two standard errors; for one seed, whether there is one."""
        if abs(self.mean) <= np.nanmax([self.least, 2 * self.error]):
            return "even"
        return "ahead" if self.mean > 0 else "behind"
