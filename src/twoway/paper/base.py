"""What the columns of all tables share: data drawn by a trial's number, and methods that are run on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

Scores = dict[str, float]
Details = dict[str, Any]
"""What is saved beside the scores: how a method ended, what it chose."""

# What a seed is for: each purpose has random numbers of its own, so that no method starts from the model's own.
FOR_MODEL, FOR_RECORDS, FOR_METHOD = 1, 2, 3

# A process with the library imported and its kernels loaded.
PROCESS_BYTES = 300 * 2**20


@dataclass(frozen=True)
class Setting(ABC):
    """What the trials of a column draw, and how a method is run on it; its fields are saved with each result."""

    @property
    @abstractmethod
    def drawn(self) -> str:
        """What a trial draws, in a few characters."""

    @property
    @abstractmethod
    def work(self) -> float:
        """About how much there is to compute, in a unit that all settings share; the time left is estimated from it."""

    @property
    @abstractmethod
    def n_bytes(self) -> int:
        """About how much memory a trial takes at its peak."""

    @property
    def n_trials(self) -> int:
        """How many trials the column has at the paper's size."""
        return 20

    @property
    def is_papers(self) -> bool:
        """Whether the paper's numbers were got on this very data."""
        return True

    def check(self) -> None:  # noqa: B027
        """Raise where data is missing; what is drawn at random needs none."""

    @abstractmethod
    def smaller(self) -> Setting:
        """Return a setting of the same kind that takes next to no time, to load and compile everything."""

    @abstractmethod
    def data(self, trial: int) -> Any:
        """Return what a trial draws, the same for every method."""

    @abstractmethod
    def run(self, method: str, data: Any, trial: int, threads: int | None) -> tuple[Scores, Details]:
        """Return what a method scores; a `TwowayError` says why it cannot be run on this data."""


def seed_of(*numbers: int) -> int:
    """Return a seed for some purpose and numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def method_seed(trial: int) -> int:
    """Return the seed that every method of a trial gets."""
    return seed_of(FOR_METHOD, trial)
