"""What the columns of all tables share: data drawn by a trial's number, and methods that are run on it."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, ClassVar

import numpy as np

Scores = dict[str, float]
Details = dict[str, Any]
"""What is saved beside the scores: how a method ended, what it chose."""

PAPER: Any = json.loads((files(__package__) / "tables.json").read_text(encoding="utf-8"))
"""What is declared of the tables: methods, metrics, films, and the columns with the numbers that the paper prints."""

# Each purpose has its own random numbers, so that no method starts from those of the model.
_SEEDS = {"model": 1, "records": 2, "method": 3}


@dataclass(frozen=True)
class TrialSetting(ABC):
    """What the trials of a column draw, and how a method is run on it; its fields are saved with each result."""

    methods: ClassVar[tuple[str, ...]]
    """The methods that can be run on what is drawn."""

    @property
    @abstractmethod
    def drawn(self) -> str:
        """What a trial draws, in a few characters."""

    @property
    @abstractmethod
    def work(self) -> float:
        """About how much there is to compute, in a unit that all settings share; the time left is estimated from it."""

    @property
    def n_bytes(self) -> int:
        """About how much memory a trial needs at its peak: that of a process with the library and its kernels."""
        return 300 * 2**20

    @property
    def n_trials(self) -> int:
        """The number of trials of the column at the paper's size."""
        return 20

    @property
    def is_papers(self) -> bool:
        """Whether the paper's numbers were computed on the same data."""
        return True

    @abstractmethod
    def column(self, varies: str) -> str:
        """Return the title of the column in a table whose columns differ in this."""

    @abstractmethod
    def data(self, trial: int) -> Any:
        """Return what a trial draws, the same for every method."""

    @abstractmethod
    def run(self, method: str, data: Any, trial: int, threads: int | None) -> tuple[Scores, Details]:
        """Return the scores of a method; a `TwowayError` explains why it cannot be run on this data."""


def trial_seed(purpose: str, *numbers: int) -> int:
    """Return a seed for a purpose and some numbers, the trial's first; every method of a trial gets the same."""
    return int(np.random.SeedSequence((_SEEDS[purpose], *numbers)).generate_state(1)[0])


def trial_seconds(fit_began: float, all_began: float | None = None) -> Scores:
    """Return the seconds that a fit took until now, and those with everything that was compared before it."""
    now = time.perf_counter()
    return {"seconds": now - fit_began, "seconds_all": now - (fit_began if all_began is None else all_began)}
