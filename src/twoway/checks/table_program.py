"""A linear program over all joints that have some given tables.

Its unknowns are the cells of a joint of a few variables. Every table, summed over the variables left out, bounds sums
of these cells from both sides. A conditional probability is a ratio of two such sums; dividing all unknowns by the
lower sum (Charnes and Cooper, 1962) makes it linear, and a probability is the case in which that sum is 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, Ints
from twoway.tables.tables import Tables

# What floating point makes of shares that should be equal.
_ROUNDING = 1e-9
# HiGHS meets its constraints to 1e-7.
_TOLERANCE = 1e-6
# Beyond so many cells an interior point method is faster than the simplex method.
_MANY_CELLS = 2000
_HELPER_CLASSES = 3
# Cut vertices are looked for by leaving out each variable in turn.
_MOST_PRUNED = 200


@dataclass(frozen=True)
class Axis:
    """A variable of the joint, its categories merged into classes."""

    variable: int
    """Its position in the schema."""
    classes: Ints
    """The class of each category, from 0 on."""

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.classes.max()) + 1

    @property
    def is_merged(self) -> bool:
        """Whether some class holds several categories."""
        return self.n_classes < len(self.classes)


class Margins:
    """The shares of any variables that a table holds together."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        n = len(tables.schema)
        self.together = np.zeros((n, n), dtype=bool)
        """Which pairs of variables some table holds."""
        for first in range(tables.order):
            for second in range(tables.order):
                if first != second:
                    self.together[tables.sets[:, first], tables.sets[:, second]] = True

    def of(self, positions: Sequence[int]) -> tuple[Floats, float] | None:
        """Return the shares of variables, in schema order, in the largest table that holds them, and its records."""
        holding = np.flatnonzero(np.isin(self.tables.sets, positions).sum(axis=1) == len(positions))
        if not holding.size:
            return None
        index = int(holding[np.argmax(self.tables.weights[holding])])
        others = tuple(np.flatnonzero(~np.isin(self.tables.sets[index], positions)).tolist())
        counts = self.tables.array(index).sum(axis=others) / self.tables.totals[index]
        return np.asarray(counts), float(self.tables.weights[index])

    def merged(self, axes: Sequence[Axis]) -> tuple[Floats, float] | None:
        """Return the same for classes of categories; axes in schema order."""
        margin = self.of([axis.variable for axis in axes])
        if margin is None:
            return None
        shares, n_records = margin
        for place, axis in enumerate(axes):
            total = np.zeros([*shares.shape[:place], axis.n_classes, *shares.shape[place + 1 :]])
            np.add.at(np.moveaxis(total, place, 0), axis.classes, np.moveaxis(shares, place, 0))
            shares = total
        return shares, n_records

    def dependence(self, one: Axis, other: Axis) -> float:
        """Return how far the table of two variables is from independence, in total variation; 0 where there is none."""
        first, second = sorted((one, other), key=lambda axis: axis.variable)
        if not self.together[first.variable, second.variable]:
            return 0.0
        margin = self.merged([first, second])
        assert margin is not None
        shares = margin[0]
        return 0.5 * float(np.abs(shares - np.outer(shares.sum(axis=1), shares.sum(axis=0))).sum())

    def relevant(self, asked: Sequence[int]) -> list[int]:
        """Return the variables whose tables can tighten what is known of those asked about, these included.

        A group that hangs by a single variable can be added to any joint of the others that has that variable's
        shares: it tightens nothing.
        """
        from scipy.sparse.csgraph import connected_components

        graph = self.together.copy()
        graph[np.ix_(asked, asked)] = True

        def reached(without: int | None) -> NDArray[np.bool_]:
            part = graph.copy()
            if without is not None:
                part[without] = part[:, without] = False
            _, label = connected_components(part, directed=False)
            inside: NDArray[np.bool_] = np.isin(label, [label[index] for index in asked if index != without])
            if without is not None:
                inside[without] = True
            return inside

        kept = reached(None)
        if len(asked) == 1:
            kept[:] = False
            kept[list(asked)] = True
        elif kept.sum() <= _MOST_PRUNED:
            for index in np.flatnonzero(kept):
                kept &= reached(int(index))
        return [int(index) for index in np.flatnonzero(kept)]


# Which variables, how fine


def choose_axes(margins: Margins, asked: Mapping[int, Ints], max_cells: int) -> tuple[list[Axis], bool]:
    """Return the variables of the joint in schema order, and whether nothing that could tighten a range is left out.

    ``asked`` has the class of each category of the variables asked about. Where all variables that matter do not fit,
    those come in that depend most on two others, in few classes, which are split again as far as there is room.
    """
    sizes = margins.tables.schema.sizes
    relevant = margins.relevant(list(asked))
    if math.prod(sizes[index] for index in relevant) <= max_cells:
        return [_full(index, sizes) for index in relevant], True
    chosen = [Axis(index, classes) for index, classes in asked.items()]
    candidates = {index: _full(index, sizes) for index in relevant if index not in asked}
    links = {index: [margins.dependence(axis, other) for other in chosen] for index, axis in candidates.items()}
    n_cells = math.prod(axis.n_classes for axis in chosen)
    while candidates:
        # A variable tightens what it shares with two others; one that touches a single one may lead on to the next.
        best = max(candidates, key=lambda index: (sorted(links[index])[-2:][0], max(links[index]), -index))
        if max(links[best]) <= _ROUNDING:
            break
        partner = chosen[int(np.argmax(links[best]))]
        axis = _merged(margins, candidates.pop(best), partner, max(2, min(_HELPER_CLASSES, max_cells // n_cells)))
        if n_cells * axis.n_classes > max_cells:
            break
        n_cells *= axis.n_classes
        chosen.append(axis)
        for index, candidate in candidates.items():
            links[index].append(margins.dependence(candidate, axis))
    for place, axis in enumerate(chosen):
        finer = n_cells // axis.n_classes * len(axis.classes)
        if axis.is_merged and finer <= max_cells:
            chosen[place], n_cells = _full(axis.variable, sizes), finer
    return sorted(chosen, key=lambda axis: axis.variable), False


def _full(index: int, sizes: Sequence[int]) -> Axis:
    return Axis(index, np.arange(sizes[index]))


def _merged(margins: Margins, axis: Axis, partner: Axis, n_classes: int) -> Axis:
    """Return a variable in a few classes of about equal shares, of categories that say alike about another variable."""
    if axis.n_classes <= n_classes:
        return axis
    first, second = sorted((axis, partner), key=lambda one: one.variable)
    margin = margins.merged([first, second])
    assert margin is not None
    shares = margin[0] if first is axis else margin[0].T
    weights = shares.sum(axis=1)
    # The last class is the event itself, where the partner is asked about.
    order = np.argsort(shares[:, -1] / np.maximum(weights, 1e-300), kind="stable")
    middle = np.cumsum(weights[order]) - 0.5 * weights[order]
    classes = np.zeros(len(weights), dtype=np.int64)
    classes[order] = np.minimum((middle * n_classes).astype(np.int64), n_classes - 1)
    return Axis(axis.variable, np.unique(classes, return_inverse=True)[1].reshape(-1))


# The program


class TableProgram:
    """All joints of some variables that have the tables given, to within chance.

    Parameters
    ----------
    margins
        The tables.
    axes
        The variables of the joint, in schema order.
    level
        The probability with which all tables together are within their slack. None takes them as exact.
    """

    def __init__(self, margins: Margins, axes: Sequence[Axis], level: float | None) -> None:
        from scipy.sparse import csr_array

        self.axes = list(axes)
        self.shape = tuple(axis.n_classes for axis in axes)
        self.n_cells = math.prod(self.shape)
        self._cells = np.indices(self.shape).reshape(len(axes), -1)
        tables, place_of = margins.tables, {axis.variable: place for place, axis in enumerate(axes)}
        inside = {tuple(index for index in row if index in place_of) for row in tables.sets.tolist()}
        sums = sorted({*inside, *((index,) for row in inside for index in row)} - {()})
        rows, shares, n_records, n_rows = [], [], [], 0
        for positions in sums:
            margin = margins.merged([axes[place_of[index]] for index in positions])
            assert margin is not None
            codes = [self._cells[place_of[index]] for index in positions]
            rows.append(n_rows + np.ravel_multi_index(codes, margin[0].shape))
            shares.append(margin[0].ravel())
            n_records.append(np.full(margin[0].size, margin[1]))
            n_rows += margin[0].size
        columns = np.tile(np.arange(self.n_cells), len(rows))
        place = np.concatenate([np.zeros(0, dtype=np.int64), *rows])
        self._sums = csr_array((np.ones(len(columns)), (place, columns)), shape=(n_rows, self.n_cells))
        self.contradiction = 0.0
        """`least_change`, once it was found that no joint has the tables."""
        self.low, self.high = _boxes(np.concatenate([*shares, []]), np.concatenate([*n_records, []]), level)

    def cells(self, allowed: Mapping[int, Ints]) -> Floats:
        """Return 1 for the cells in which each variable has one of some categories, by its position, and else 0."""
        chosen = np.ones(self.n_cells)
        for place, axis in enumerate(self.axes):
            if axis.variable in allowed:
                is_allowed = np.zeros(axis.n_classes)
                is_allowed[axis.classes[allowed[axis.variable]]] = 1.0
                chosen *= is_allowed[self._cells[place]]
        return chosen

    @cached_property
    def least_change(self) -> float:
        """The least total by which shares must change, beyond their slack, before some joint has them all."""
        least = self._solve(np.zeros(self.n_cells), np.ones(self.n_cells), math.inf)
        assert least is not None
        return least[0] if least[0] > _TOLERANCE else 0.0

    def extreme(self, event: Floats, given: Floats, sign: int) -> tuple[float, Floats] | None:
        """Return the least (sign 1) or greatest (sign −1) share of an event among given cells, and a joint that has it.

        Where no joint has the tables, of those joints that come nearest to them. None where the given cells have
        probability 0 in all of these.
        """
        found = self.cheapest(sign * event, given)
        return None if found is None else (float(np.clip(sign * found[0], 0.0, 1.0)), found[1])

    def cheapest(self, costs: Floats, given: Floats | None = None) -> tuple[float, Floats] | None:
        """Return the least cost of a joint among given cells (all by default), and the joint."""
        cells = np.ones(self.n_cells) if given is None else given
        found = None if self.contradiction else self._solve(costs, cells, None)
        if found is None and self.least_change:
            self.contradiction = self.least_change
            found = self._solve(costs, cells, self.contradiction * (1.0 + _TOLERANCE) + _ROUNDING)
        return found

    def _solve(self, costs: Floats, given: Floats, extra: float | None) -> tuple[float, Floats] | None:
        """Return the least cost of a joint, divided by its share of given cells, and the joint; None where none is.

        ``extra`` is how far sums may be outside of their bounds in total, half the sum as in total variation;
        infinite makes that total the cost.
        """
        from scipy.optimize import linprog
        from scipy.sparse import block_array, csr_array, eye_array

        n, m = self.n_cells, len(self.low)
        eye, whole = eye_array(m), csr_array(np.ones((1, n)))
        low, width = (csr_array(one[:, None]) for one in (self.low, self.high - self.low))
        # Unknowns: cells, the scale of the whole, how far sums are above their lower ends, and beyond either end.
        n_beyond = 0 if extra is None else 2
        nothing = [None] * n_beyond
        equal = block_array(
            [
                [self._sums, -low, -eye, *(-eye, eye)[:n_beyond]],
                [whole, csr_array([[-1.0]]), None, *nothing],
                [csr_array(given[None, :]), None, None, *nothing],
            ],
            format="csr",
        )
        at_most: list[list[Any]] = [[csr_array((m, n)), -width, eye, *[csr_array((m, m))] * n_beyond]]
        cost = np.concatenate([costs, np.zeros(1 + m * (1 + n_beyond))])
        if extra is not None and math.isinf(extra):
            cost[n + 1 + m :] = 0.5
        elif extra is not None:
            halves = csr_array(np.full((1, m), 0.5))
            at_most.append([None, csr_array([[-extra]]), None, halves, halves])
        upper = block_array(at_most, format="csr")
        right = np.zeros(equal.shape[0])
        right[-1] = 1.0
        solve: Any = linprog  # its types know no sparse matrices
        for method in ("highs-ipm", "highs-ds") if n > _MANY_CELLS else ("highs-ds", "highs-ipm"):
            solved = solve(cost, A_ub=upper, b_ub=np.zeros(upper.shape[0]), A_eq=equal, b_eq=right, method=method)
            if solved.status == 0:
                return float(solved.fun), np.asarray(solved.x[:n] / solved.x[n]).reshape(self.shape)
            if solved.status == 2:
                return None
        raise ArithmeticError(f"the linear program was not solved: {solved.message}")


def _boxes(shares: Floats, n_records: Floats, level: float | None) -> tuple[Floats, Floats]:
    """Return the bounds of shares: Clopper and Pearson's, all of which hold together at a level of confidence."""
    if level is None:
        return np.maximum(shares - _ROUNDING, 0.0), np.minimum(shares + _ROUNDING, 1.0)
    from scipy.special import betainccinv, betaincinv

    tail = 0.5 * (1.0 - level) / max(len(shares), 1)
    counts = np.clip(shares, 0.0, 1.0) * n_records
    rest = np.maximum(n_records - counts, 0.0)
    tiny = 1e-300
    low = np.where(counts > 0, betaincinv(np.maximum(counts, tiny), rest + 1.0, tail), 0.0)
    high = np.where(rest > 0, betainccinv(counts + 1.0, np.maximum(rest, tiny), tail), 1.0)
    return np.minimum(low, shares), np.maximum(high, np.minimum(shares, 1.0))
