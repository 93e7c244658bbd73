"""Combinations that nobody has, and what is left: disjoint products of categories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.errors import DataError

Rule = Mapping[int, frozenset[int]]
"""For the position of each variable, categories that do not occur together with those of the others."""
Box = dict[int, frozenset[int]]
"""For the position of each variable that is restricted, the categories that it may have."""

_MOST_BOXES = 64


def listed_rules(impossible: Iterable[Any]) -> list[Mapping[str, Any]]:
    """Return rules about combinations that nobody has, each a mapping of names of variables to labels."""
    rules = [*impossible] if isinstance(impossible, Iterable) else [impossible]
    if not all(isinstance(rule, Mapping) for rule in rules):
        raise DataError(
            "impossible must be a list of mappings, such as [{'age': '0-14', 'marital': 'married'}]; "
            f"got {impossible!r}"
        )
    return rules


def contradicted_cell(rule: Rule, variables: Sequence[int], cell_of: NDArray[np.int32], low: Floats) -> int | None:
    """Return the cell with the most people of those that a rule excludes; None where these have nobody.

    ``cell_of`` has an axis for each of a table's variables, and ``low`` is the least number of people in each cell.
    """
    if not rule.keys() <= {*variables}:
        return None
    excluded = ([*rule.get(position, range(n))] for position, n in zip(variables, cell_of.shape, strict=True))
    allowed = cell_of.copy()
    allowed[np.ix_(*excluded)] = -1
    against = np.where(np.isin(np.arange(low.size), allowed), 0.0, low.ravel())
    return int(against.argmax()) if against.max(initial=0.0) > 0 else None


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
