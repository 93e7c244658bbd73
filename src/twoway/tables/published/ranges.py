"""Labels that are ranges of whole numbers, such as ages: their common finest categories."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from twoway.category_labels import Label

_NUMBER = r"(\d{1,4})"
_BELOW = rf"(?:u|under|<|less than|below) ?_?{_NUMBER}"
_BETWEEN = rf" ?(?:-|–|_|to|through) ?{_NUMBER}"
_ABOVE = r"( ?_?(?:\+|up|plus|and (?:over|older|up|above)|or (?:over|older|more)|years and over))"
_UNIT = r"(?: years?(?: old| of age)?)?"
_RANGE = re.compile(rf"(?:aged? )?(?:{_BELOW}|{_NUMBER}(?:{_BETWEEN}|{_ABOVE})?){_UNIT}", re.IGNORECASE)

Range = tuple[float, float]


def range_of_label(label: object) -> Range | None:
    """Return the first and the last number of a range, None for other labels.

    Examples
    --------
    >>> [range_of_label(label) for label in ("15_17", "u15", "65 and over", "20", "<5 years", "yes")]
    [(15, 17), (-inf, 14), (65, inf), (20, 20), (-inf, 4), None]
    """
    if (match := _RANGE.fullmatch(str(label).strip())) is None:
        return None
    below, first, last, is_above = match.groups()
    if below is not None:
        return -math.inf, int(below) - 1
    ends = int(first), math.inf if is_above else int(last or first)
    return ends if ends[0] <= ends[1] else None


def in_order_of_ranges(labels: tuple[Label, ...]) -> tuple[Label, ...]:
    """Return labels from the lowest range to the highest, or as they are where they are not ranges.

    Examples
    --------
    >>> in_order_of_ranges(("15-64", "0-14", "65+")), in_order_of_ranges(("yes", "no"))
    (('0-14', '15-64', '65+'), ('yes', 'no'))
    """
    ranges = {label: own for label in labels if (own := range_of_label(label)) is not None}
    return tuple(sorted(labels, key=lambda label: ranges[label])) if len(ranges) == len(labels) else labels


def groups_of_ranges(sides: Sequence[Sequence[str]]) -> Mapping[str, tuple[str, ...]] | None:
    """Return which finest ranges each label of some tables stands for, where it is not one of them itself.

    None where the labels are not ranges, or are the same in all tables.

    Examples
    --------
    >>> groups_of_ranges([["u18", "18_64", "65up"], ["16_24", "25up"]])
    {'u18': ('u16', '16_17'), '18_64': ('18_24', '25_64'), '16_24': ('16_17', '18_24'), '25up': ('25_64', '65up')}
    """
    labels = list(dict.fromkeys(label for side in sides for label in side))
    ranges = {label: own for label in labels if (own := range_of_label(label)) is not None}
    if len(ranges) < len(labels) or len({frozenset(side) for side in sides}) < 2:
        return None
    highest = max(last for _, last in ranges.values())
    starts = {first for first, _ in ranges.values()} | {last + 1 for _, last in ranges.values() if last < highest}
    finest = [(first, following - 1) for first, following in pairwise([*sorted(starts), highest + 1])]
    known = {own: label for label, own in ranges.items()}
    sign = next((sign for sign in ("_", "–", "-") if any(sign in label for label in labels)), "-")
    named = {part: known.get(part) or _range_label(part, labels, sign) for part in finest}
    members = {
        label: tuple(name for part, name in named.items() if first <= part[0] and part[1] <= last)
        for label, (first, last) in ranges.items()
    }
    return {label: own for label, own in members.items() if own != (label,)} or None


def _range_label(part: Range, labels: Sequence[str], sign: str) -> str:
    first, last = part
    if first == -math.inf:
        prefix = "u" if any(re.fullmatch(r"u\d+", label) for label in labels) else "under "
        return f"{prefix}{last + 1:.0f}"
    if last == math.inf:
        return f"{first:.0f}up" if any(label.endswith("up") for label in labels) else f"{first:.0f}+"
    return f"{first:.0f}" if first == last else f"{first:.0f}{sign}{last:.0f}"
