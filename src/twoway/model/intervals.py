"""Numbers and tables with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.category_labels import Label
from twoway.data.distribution import MAX_ROWS, Distribution, distribution_frame, distribution_html, distribution_text
from twoway.errors import check_number
from twoway.text import MAX_WIDTH

Scale = Literal["real", "nonnegative", "probability"]


class Interval(float):
    """A number with the interval that contains the true one at some level of confidence.

    Examples
    --------
    >>> answer = Interval(0.25, 0.2, 0.31, 0.9)
    >>> answer
    0.25 (90 %: 0.2 to 0.31)
    >>> answer + 1, answer.low, answer.high
    (1.25, 0.2, 0.31)
    """

    low: float
    high: float
    level: float
    note: str
    """Why the interval is wider than chance makes it; empty where it is not."""

    def __new__(cls, value: float, low: float, high: float, level: float, note: str = "") -> Interval:
        """Return the number with its interval."""
        made = super().__new__(cls, value)
        made.low, made.high, made.level, made.note = float(low), float(high), float(level), note
        return made

    def __reduce__(self) -> tuple[type[Interval], tuple[float, float, float, float, str]]:
        return Interval, (float(self), self.low, self.high, self.level, self.note)

    def __repr__(self) -> str:
        more = f"; {self.note}" if self.note else ""
        return f"{float(self):.4g} ({100 * self.level:g} %: {self.low:.4g} to {self.high:.4g}{more})"

    def to_dict(self) -> dict[str, Any]:
        """Return the number and its interval as a plain dictionary."""
        numbers = {"value": float(self), "low": self.low, "high": self.high, "level": self.level}
        return {**numbers, "note": self.note} if self.note else numbers


class Intervals(NamedTuple):
    """Arrays of one shape: numbers, and the ends of their intervals."""

    estimate: Floats
    low: Floats
    high: Floats

    def widened(self, low: Floats, high: Floats) -> Intervals:
        """Return intervals that also contain others; ends that are NaN are ignored."""
        return Intervals(self.estimate, np.fmin(self.low, low), np.fmax(self.high, high))

    def differs_from(self, direct: Intervals, z: float) -> NDArray[np.bool_]:
        """Return where direct estimates from part of the evidence are further away than ``z`` standard errors allow.

        ``z`` is relative to the half-width of an interval: 1 where its ends are. The error of a direct estimate is
        that of these estimates plus what the rest of the evidence corrects, so the variance of the difference is the
        difference of the variances; at least a quarter of the larger one, since both are estimates.
        """
        here, there = ((ends.low + ends.high) / 2.0 for ends in (self, direct))
        own, others = (np.square((ends.high - ends.low) / 2.0) for ends in (self, direct))
        return np.asarray(np.abs(there - here) > z * np.sqrt(np.maximum(others - own, others / 4.0)))

    def stretched(self, times: float, scale: Scale) -> Intervals:
        """Return intervals so many times as wide, on the scale on which they were computed."""
        to, back = _SCALES[scale]
        here = to(self.estimate)
        low, high = (back(here + times * (to(end) - here)) for end in (self.low, self.high))
        return Intervals(self.estimate, np.minimum(low, self.low), np.maximum(high, self.high))


class IntervalTable:
    """A distribution with an interval for each cell.

    Examples
    --------
    >>> from twoway.schema import Variable
    >>> vote = (Variable("vote", ("no", "yes")),)
    >>> ends = [Distribution(vote, ends) for ends in ([0.4, 0.6], [0.35, 0.55], [0.45, 0.65])]
    >>> table = IntervalTable(*ends, level=0.9)
    >>> table
    vote  probability  low     high
    no    0.4000       0.3500  0.4500
    yes   0.6000       0.5500  0.6500
    >>> table["yes"]
    0.6 (90 %: 0.55 to 0.65)
    """

    # Indexing is by label, so the fallback of Python that iterates by position would mislead.
    __iter__ = None

    def __init__(
        self, estimate: Distribution, low: Distribution, high: Distribution, *, level: float, note: str = ""
    ) -> None:
        self.estimate, self.low, self.high, self.level, self.note = estimate, low, high, level, note

    @property
    def variables(self) -> tuple[Any, ...]:
        """The variable of each axis."""
        return self.estimate.variables

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.estimate.__array__(dtype, copy)

    def __getitem__(self, labels: Label | tuple[Label, ...] | Mapping[str, Label]) -> Interval | IntervalTable:
        """Return one cell with its interval, or the table over the axes not named."""
        parts: Any = [part[labels] for part in (self.estimate, self.low, self.high)]
        make: Any = IntervalTable if isinstance(parts[0], Distribution) else Interval
        return make(*parts, level=self.level, note=self.note)  # type: ignore[no-any-return]

    @property
    def _columns(self) -> dict[str, Floats]:
        return {self.estimate.quantity: self.estimate.array, "low": self.low.array, "high": self.high.array}

    def to_frame(self, library: str | None = None) -> Any:
        """Return a frame of one row per cell: the variables, probability, low and high."""
        return distribution_frame(self.variables, self._columns, library or self.estimate.library)

    def __repr__(self) -> str:
        return self.to_text(whole=False)

    def _repr_html_(self) -> str:
        return distribution_html(self.variables, self._columns)

    def to_text(self, *, whole: bool = True, beside: Mapping[str, Floats] | None = None) -> str:
        """Return the table as lines of text: all of it, or as much as is printed by default; see `Distribution`."""
        columns = {**self._columns, **(beside or {})}
        return distribution_text(self.variables, columns, *((None, None) if whole else (MAX_ROWS, MAX_WIDTH)))


def interval_ends(
    estimate: Floats,
    center: Floats,
    replicates: Floats,
    level: float,
    scale: Scale,
    reflected: bool,
    scales: Floats | None = None,
    degrees: int | None = None,
) -> Intervals:
    """Return the intervals of estimates, from replicates (n, …) around a center.

    Replicates of a smoothed model are draws of the truth given the data: the truth differs from the estimate as they
    differ from the center. Those of a model without smoothing are fits to other samples: they differ from the center
    as the estimate differs from the truth, and are reflected (the basic interval, which removes the bias of fitting
    chance). Both are computed on a scale on which the spread does not depend on the value, so that probabilities stay
    between 0 and 1. The estimate itself is always inside; where nothing is known, so are all numbers.

    Replicates of a survey's design give standard errors: a squared deviation counts ``scales`` times, and ``degrees``
    are the degrees of freedom.
    """
    to, back = _SCALES[scale]
    here, middle, spread = to(estimate), to(center), to(replicates)
    with np.errstate(invalid="ignore"):
        if scales is not None and degrees is not None:
            from scipy.special import stdtrit

            reach = stdtrit(degrees, 0.5 + 0.5 * level) * np.sqrt(np.tensordot(scales, (spread - middle) ** 2, axes=1))
            below, above = -reach, reach
        else:
            tail = 0.5 * (1.0 - level)
            # Weibull's quantiles do not take the most extreme of few replicates for the limit of what is possible.
            below, above = np.quantile(spread, [tail, 1.0 - tail], axis=0, method="weibull")
            if reflected:
                below, above = 2.0 * middle - above, 2.0 * middle - below
            below, above = below - middle, above - middle
        low, high = back(here + below), back(here + above)
    is_known = np.isfinite(spread).all(axis=0) & np.isfinite(here) & np.isfinite(middle)
    low, high = np.where(is_known, low, -np.inf), np.where(is_known, high, np.inf)
    return Intervals(estimate, np.minimum(low, estimate), np.maximum(high, estimate))


def checked_interval_level(level: float) -> float:
    """Return how often intervals should contain the truth, or raise if that is not a share."""
    return check_number("level", level, "a number between 0 and 1, such as 0.9", lambda number: 0 < number < 1)


def interval_angle(share: Floats) -> Floats:
    """Return shares on a scale on which chance moves each about as far."""
    return np.asarray(np.arcsin(np.sqrt(np.clip(share, 0.0, 1.0))))


def interval_share(angle: Floats) -> Floats:
    """Return the shares that `interval_angle` was given; angles beyond the scale are clipped."""
    return np.asarray(np.sin(np.clip(angle, 0.0, 0.5 * np.pi)) ** 2)


_SCALES: dict[Scale, tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]] = {
    "probability": (interval_angle, interval_share),
    "nonnegative": (lambda value: np.sqrt(np.maximum(value, 0.0)), lambda root: np.maximum(root, 0.0) ** 2),
    "real": (np.asarray, np.asarray),
}
