"""The edges of bins in files of version 1, which were written into the labels only."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

_NUMBER = r"([+-]?(?:inf|\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
_BELOW = re.compile(rf"(?:below |< ){_NUMBER}")
_BETWEEN = re.compile(rf"{_NUMBER} to below {_NUMBER}")
_IN_BRACKETS = re.compile(rf"([\[(]){_NUMBER}, {_NUMBER}([\])])")
_ABOVE = re.compile(rf"(?:{_NUMBER} or more|>= {_NUMBER})")


def add_version_1_edges(header: dict[str, Any]) -> None:
    """Add the edges of each variable whose labels are bins to a header of version 1."""
    schema = header.get("schema")
    for variable in schema if isinstance(schema, list) else ():
        labels = variable.get("categories") if isinstance(variable, dict) else None
        edges = version_1_edges(labels) if isinstance(labels, list) else None
        if edges is not None:
            variable["edges"] = edges


def version_1_edges(labels: Sequence[object]) -> list[float] | None:
    """Return the numbers that separate bins, by their labels; None where labels are something else.

    Bins that hold their upper end, as pandas writes them, begin at the next number that a float can hold.

    Examples
    --------
    >>> (
    ...     version_1_edges(["below 18", "18 to below 40", "40 or more"]),
    ...     version_1_edges(["< 1.5", ">= 1.5"]),
    ...     version_1_edges(["18-39", "40+"]),
    ... )
    ([18.0, 40.0], [1.5], None)
    """
    ends = [_version_1_ends(label) if isinstance(label, str) else None for label in labels]
    known = [pair for pair in ends if pair is not None]
    if len(known) < max(len(ends), 2) or any(low >= high for low, high in known):
        return None
    is_gapless = all(before[1] == after[0] for before, after in pairwise(known))
    return [low for low, _ in known[1:]] if is_gapless else None


def _version_1_ends(label: str) -> tuple[float, float] | None:
    """Return the first number of a bin, and the first one above it."""
    if match := _BELOW.fullmatch(label):
        return -math.inf, float(match[1])
    if match := _BETWEEN.fullmatch(label):
        return float(match[1]), float(match[2])
    if match := _ABOVE.fullmatch(label):
        return float(match[1] or match[2]), math.inf
    if match := _IN_BRACKETS.fullmatch(label):
        low, high = float(match[2]), float(match[3])
        above = math.nextafter(low, math.inf), math.nextafter(high, math.inf)
        return above[0] if match[1] == "(" else low, above[1] if match[4] == "]" else high
    return None
