"""Names of the columns of a wide sheet, one for each cell of a table: ``m_18_24_bachelors``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from twoway.arrays import Floats

Labels = tuple[str, ...]


def factor_wide_names(names: Sequence[str], numbers: Floats) -> tuple[list[Labels | None], int] | None:
    """Return the category of each variable for each name, and the number of variables; None for other names.

    Names are split where all combinations of what is before and after an underscore exist. A part whose numbers are
    always the sum of the others' is all of them, "", and so are names that are no combination but a sum of cells;
    what is neither is None.

    Examples
    --------
    >>> names = ["all", "m_young", "m_old", "f_young", "f_old"]
    >>> factor_wide_names(names, np.array([[10.0, 1, 2, 3, 4], [14.0, 2, 3, 4, 5]]))
    ([('', ''), ('m', 'young'), ('m', 'old'), ('f', 'young'), ('f', 'old')], 2)
    """
    tokens = [tuple(name.split("_")) for name in names]
    parts = _factor_wide_tokens(set(tokens))
    if parts is None:
        return None
    labels = [list(dict.fromkeys("_".join(token) for token in part)) for part in parts]
    place = {name: at for at, name in enumerate(names)}
    shape = [len(part) for part in labels]
    order = [place["_".join(combination)] for combination in product(*labels)]
    cells = numbers[:, order].reshape(len(numbers), *shape)
    path_of: dict[int, Labels] = dict(zip(order, product(*labels), strict=True))
    # A part that is the sum of the others is all of them.
    for axis, part in enumerate(labels):
        for code, label in enumerate(part):
            rest = np.delete(cells, code, axis + 1).sum(axis + 1)
            own = cells.take(code, axis + 1)
            if len(part) > 2 and own.any() and own.size > 2 and np.abs(own - rest).max() < 1e-9:
                path_of = {
                    at: tuple("" if i == axis and x == label else x for i, x in enumerate(path))
                    for at, path in path_of.items()
                }
                cells = np.delete(cells, code, axis + 1)
                labels[axis] = [other for other in part if other != label]
                break
    sums = {("",) * len(labels): cells.sum(tuple(range(1, cells.ndim)))}
    for axis, part in enumerate(labels):
        others = tuple(position + 1 for position in range(len(labels)) if position != axis)
        for code, label in enumerate(part):
            path = tuple(label if position == axis else "" for position in range(len(labels)))
            sums[path] = cells.sum(others)[:, code]
    for at in range(len(names)):
        if at not in path_of:
            same = [
                path for path, total in sums.items() if len(numbers) > 1 and np.abs(total - numbers[:, at]).max() < 1e-9
            ]
            if len(same) == 1:
                path_of[at] = same[0]
    return [path_of.get(at) for at in range(len(names))], len(labels)


def _factor_wide_tokens(tokens: set[Labels]) -> list[list[Labels]] | None:
    """Return parts of which all combinations are among the names: the most names, then the fewest first parts."""
    after: dict[Labels, set[Labels]] = {}
    for name in tokens:
        for at in range(1, len(name)):
            after.setdefault(name[:at], set()).add(name[at:])
    groups: dict[frozenset[Labels], list[Labels]] = {}
    for prefix, suffixes in after.items():
        if len(suffixes) > 1:
            groups.setdefault(frozenset(suffixes), []).append(prefix)
    splits = [(prefixes, suffixes) for suffixes, prefixes in groups.items() if len(prefixes) > 1]
    if not splits:
        return None

    def merit(split: tuple[list[Labels], frozenset[Labels]]) -> tuple[int, int, int]:
        prefixes, suffixes = split
        return len(prefixes) * len(suffixes), -len(prefixes), sum(map(len, prefixes))

    first, last = max(splits, key=merit)
    inner = _factor_wide_tokens(set(last))
    if inner is not None and np.prod([len(part) for part in inner]) == len(last):
        return [sorted(first), *inner]
    return [sorted(first), sorted(last)]
