"""A bound, and the conditions under which it holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from twoway.errors import DataError, unknown

Form = Literal["printed", "corrected"]


@dataclass(frozen=True)
class Condition:
    """One assumption of a theorem, with the number it needs and the number there is."""

    what: str
    needed: float
    got: float
    holds: bool | None
    """None where it cannot be checked."""

    def __str__(self) -> str:
        mark = {True: "holds", False: "fails", None: "cannot be checked"}[self.holds]
        return f"{self.what}: {mark} (needs {self.needed:.4g}, is {self.got:.4g})"


@dataclass(frozen=True)
class Bound:
    """A bound on an error, and whether it applies."""

    error: float
    """What the formula gives; a guarantee only where it applies."""
    risk: float
    """The probability with which the bound may fail."""
    conditions: tuple[Condition, ...]
    trivial: float
    """The error that no two models exceed anyway: a bound above it says nothing."""

    @property
    def applies(self) -> bool:
        """Whether no condition fails."""
        return not any(condition.holds is False for condition in self.conditions)

    @property
    def says_something(self) -> bool:
        """Whether the bound applies and is below what holds for any two models."""
        return self.applies and self.error < self.trivial

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it does not apply; empty where it does."""
        return tuple(str(condition) for condition in self.conditions if condition.holds is False)

    def __str__(self) -> str:
        if not self.applies:
            return "does not apply: " + "; ".join(self.reasons)
        told = f"at most {self.error:.4g} with probability {1 - self.risk:g}"
        return told if self.says_something else f"{told}, which says nothing: no error exceeds {self.trivial:.4g}"


def check_numbers(*, form: str | None = None, **numbers: float) -> None:
    """Raise where a number is out of its range."""
    if form not in ("printed", "corrected", None):
        raise unknown("form of the theorem", form, ("printed", "corrected"))
    for name, value in numbers.items():
        most = {"observed": 1.0, "risk": 1.0}.get(name, math.inf)
        if not (isinstance(value, int | float | np.number) and 0 < value <= most):
            allowed = "above 0" if most == math.inf else "above 0 and at most 1"
            raise DataError(f"{name} must be a number {allowed}, not {value!r}")
