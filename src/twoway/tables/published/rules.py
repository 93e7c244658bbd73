"""Combinations that nobody has, and what is left: disjoint products of categories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from twoway.errors import DataError

Rule = Mapping[int, frozenset[int]]
"""For the position of each variable, categories that do not occur together with those of the others."""
Box = dict[int, frozenset[int]]
"""For the position of each variable that is restricted, the categories that it may have."""

_MOST_BOXES = 64


def possible_boxes(sizes: Sequence[int], rules: Sequence[Rule]) -> tuple[Box, ...]:
    """Return disjoint boxes that make up all that no rule excludes.

    Examples
    --------
    >>> child, married = frozenset({0}), frozenset({1, 2})
    >>> possible_boxes([3, 3], [{0: child, 1: married}])
    ({0: frozenset({1, 2})}, {0: frozenset({0}), 1: frozenset({0})})
    """
    # Rules are split first by the variable that most of them have, so that their boxes are the same.
    often = Counter(variable for rule in rules for variable in rule)
    boxes: list[Box] = [{}]
    for rule in rules:
        order = sorted(rule, key=lambda variable: (-often[variable], variable))
        boxes = [part for box in boxes for part in _box_without_rule(box, rule, order, sizes)]
        if len(boxes) > _MOST_BOXES:
            raise DataError(
                f"the impossible combinations leave more than {_MOST_BOXES} separate parts of what is possible; "
                "declare fewer, or put those of the same categories into one"
            )
    if not boxes:
        raise DataError("the impossible combinations exclude every combination of categories")
    return tuple(boxes)


def _box_without_rule(box: Box, rule: Rule, order: Sequence[int], sizes: Sequence[int]) -> list[Box]:
    """Return what is left of a box without the combinations of a rule."""
    parts, inside = [], dict(box)
    for variable in order:
        allowed = inside.get(variable, frozenset(range(sizes[variable])))
        if outside := allowed - rule[variable]:
            parts.append({**inside, variable: outside})
        if not (both := allowed & rule[variable]):
            return [box]  # the rule does not touch it
        inside[variable] = both
    return parts
