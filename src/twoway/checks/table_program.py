"""A linear program over all joints that have given tables.

Its unknowns are the cells of a joint of a few variables. Every table, summed over the variables left out, bounds sums
of these cells from both sides. A conditional probability is a ratio of two such sums; dividing all unknowns by the
lower sum (Charnes and Cooper, 1962) makes it linear, and a probability is the case in which that sum is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.schema import Schema
from twoway.tables.tables import Tables

# What floating point makes of shares that should be equal.
_ROUNDING = 1e-9
# HiGHS meets its constraints to 1e-7.
_TOLERANCE = 1e-6
# With more cells, an interior point method is faster than the simplex method.
_MANY_CELLS = 2000
_HELPER_CLASSES = 3
# Cut vertices are searched for by leaving out each variable in turn, among at most so many.
_MAX_PRUNED = 200


@dataclass(frozen=True, order=True)
class ProgramAxis:
    """A variable of the joint, its categories merged into classes."""

    variable: int
    """Its position in the schema."""
    classes: Ints = field(compare=False)
    """The class of each category, from 0 on."""

    @classmethod
    def full(cls, schema: Schema, variables: Iterable[int]) -> list[ProgramAxis]:
        """Return some variables, by position, with each category as its own class."""
        return [cls(index, np.arange(schema.sizes[index])) for index in variables]

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.classes.max()) + 1

    @property
    def is_merged(self) -> bool:
        """Whether some class holds several categories."""
        return self.n_classes < len(self.classes)


def program_shares(tables: Tables, axes: Sequence[ProgramAxis]) -> tuple[Floats, float]:
    """Return the shares of classes of categories in the largest table of these variables, and its records.

    Some table must hold all the variables, and axes are in schema order.
    """
    positions = [axis.variable for axis in axes]
    holding = tables.holding(positions)
    index = int(holding[np.argmax(tables.weights[holding])])
    shares = tables.counts_of(index, positions) / tables.totals[index]
    for place, axis in enumerate(axes):
        total = np.zeros([*shares.shape[:place], axis.n_classes, *shares.shape[place + 1 :]])
        np.add.at(np.moveaxis(total, place, 0), axis.classes, np.moveaxis(shares, place, 0))
        shares = total
    return shares, float(tables.weights[index])


def _axis_dependence(tables: Tables, one: ProgramAxis, other: ProgramAxis) -> float:
    """Return how far two variables are from independent, in total variation; 0 where no table holds both."""
    if not tables.together[one.variable, other.variable]:
        return 0.0
    shares, _ = program_shares(tables, sorted((one, other)))
    return 0.5 * float(np.abs(shares - np.outer(shares.sum(axis=1), shares.sum(axis=0))).sum())


def _program_variables(tables: Tables, asked: Sequence[int]) -> list[int]:
    """Return the variables whose tables can narrow the range of those asked about, these included.

    A group that a single variable connects to the rest can be added to any joint of the others that has that
    variable's shares: it does not narrow anything.
    """
    from scipy.sparse.csgraph import connected_components

    if len(asked) == 1:
        return list(asked)
    graph = tables.together.copy()
    graph[np.ix_(asked, asked)] = True

    def reached(without: Sequence[int]) -> Bools:
        part = graph.copy()
        part[without] = part[:, without] = False
        _, label = connected_components(part, directed=False)
        inside: Bools = np.isin(label, [label[index] for index in asked if index not in without])
        inside[without] = True
        return inside

    kept = reached([])
    if kept.sum() <= _MAX_PRUNED:
        for index in np.flatnonzero(kept).tolist():
            kept &= reached([index])
    return np.flatnonzero(kept).tolist()


def choose_program_axes(tables: Tables, asked: Mapping[int, Ints], max_cells: int) -> tuple[list[ProgramAxis], bool]:
    """Return the variables of the joint in schema order, and whether nothing that could narrow a range is left out.

    ``asked`` has the class of each category of the variables asked about. Where the relevant variables do not all
    fit, those that depend most on two others are added, in few classes, which are split again as far as there is
    room.
    """
    relevant = ProgramAxis.full(tables.schema, _program_variables(tables, list(asked)))
    if math.prod(axis.n_classes for axis in relevant) <= max_cells:
        return relevant, True
    chosen = [ProgramAxis(index, classes) for index, classes in asked.items()]
    candidates = {axis.variable: axis for axis in relevant if axis.variable not in asked}
    links = {index: [_axis_dependence(tables, axis, other) for other in chosen] for index, axis in candidates.items()}
    n_cells = math.prod(axis.n_classes for axis in chosen)
    while candidates:
        # A variable helps by its tables with two others; one with a single table may lead to the next.
        best = max(candidates, key=lambda index: (sorted(links[index])[-2:][0], max(links[index]), -index))
        if max(links[best]) <= _ROUNDING:
            break
        partner = chosen[int(np.argmax(links[best]))]
        axis = _merged_axis(tables, candidates.pop(best), partner, max(2, min(_HELPER_CLASSES, max_cells // n_cells)))
        if n_cells * axis.n_classes > max_cells:
            break
        n_cells *= axis.n_classes
        chosen.append(axis)
        for index, candidate in candidates.items():
            links[index].append(_axis_dependence(tables, candidate, axis))
    for place, axis in enumerate(chosen):
        finer = n_cells // axis.n_classes * len(axis.classes)
        if axis.is_merged and finer <= max_cells:
            chosen[place], n_cells = ProgramAxis(axis.variable, np.arange(len(axis.classes))), finer
    return sorted(chosen), False


def _merged_axis(tables: Tables, axis: ProgramAxis, partner: ProgramAxis, n_classes: int) -> ProgramAxis:
    """Return a variable in a few classes of about equal shares, of categories that are alike given another."""
    if axis.n_classes <= n_classes:
        return axis
    shares, _ = program_shares(tables, sorted((axis, partner)))
    shares = shares if axis < partner else shares.T
    weights = shares.sum(axis=1)
    # The last class is the event itself, where the partner is asked about.
    order = np.argsort(shares[:, -1] / np.maximum(weights, 1e-300), kind="stable")
    middle = np.cumsum(weights[order]) - 0.5 * weights[order]
    classes = np.zeros(len(weights), dtype=np.int64)
    classes[order] = np.minimum((middle * n_classes).astype(np.int64), n_classes - 1)
    return ProgramAxis(axis.variable, np.unique(classes, return_inverse=True)[1].reshape(-1))


class TableProgram:
    """All joints of some variables that have given tables, within sampling error.

    Parameters
    ----------
    tables
        The tables.
    axes
        The variables of the joint, in schema order.
    level
        The probability with which all shares together are within their bounds. None takes tables as exact.
    """

    def __init__(self, tables: Tables, axes: Sequence[ProgramAxis], level: float | None) -> None:
        from scipy.sparse import csr_array

        self.axes = list(axes)
        self.shape = tuple(axis.n_classes for axis in axes)
        self.n_cells = math.prod(self.shape)
        self._cells = np.indices(self.shape).reshape(len(axes), -1)
        place_of = {axis.variable: place for place, axis in enumerate(axes)}
        inside = {tuple(index for index in row if index in place_of) for row in tables.sets.tolist()}
        sums = sorted({*inside, *((index,) for row in inside for index in row)} - {()})
        rows, shares, n_records, n_rows = [], [], [], 0
        for positions in sums:
            margin, weight = program_shares(tables, [axes[place_of[index]] for index in positions])
            codes = [self._cells[place_of[index]] for index in positions]
            rows.append(n_rows + np.ravel_multi_index(codes, margin.shape))
            shares.append(margin.ravel())
            n_records.append(np.full(margin.size, weight))
            n_rows += margin.size
        columns = np.tile(np.arange(self.n_cells), len(rows))
        place = np.concatenate([np.zeros(0, dtype=np.int64), *rows])
        self._sums = csr_array((np.ones(len(columns)), (place, columns)), shape=(n_rows, self.n_cells))
        self.contradiction = 0.0
        """`least_change`, once it turned out that no joint has the tables."""
        self.low, self.high = self._bounds(np.concatenate([*shares, []]), np.concatenate([*n_records, []]), level)

    def cells(self, allowed: Mapping[int, Ints]) -> Floats:
        """Return 1 for the cells in which each variable has one of its allowed categories, otherwise 0."""
        chosen = np.ones(self.n_cells)
        for place, axis in enumerate(self.axes):
            if axis.variable in allowed:
                is_allowed = np.zeros(axis.n_classes)
                is_allowed[axis.classes[allowed[axis.variable]]] = 1.0
                chosen *= is_allowed[self._cells[place]]
        return chosen

    @cached_property
    def least_change(self) -> float:
        """The least total by which shares must leave their bounds before some joint has them all."""
        least = self._solve(np.zeros(self.n_cells), np.ones(self.n_cells), math.inf)
        assert least is not None
        return least[0] if least[0] > _TOLERANCE else 0.0

    def extreme(self, event: Floats, given: Floats, sign: int) -> tuple[float, Floats] | None:
        """Return the least (sign 1) or greatest (sign −1) share of an event among given cells, and a joint that has it.

        Where no joint has the tables, the joints nearest to them count. None where the given cells have probability 0
        in all of these.
        """
        best = self.cheapest(sign * event, given)
        return None if best is None else (float(np.clip(sign * best[0], 0.0, 1.0)), best[1])

    def cheapest(self, costs: Floats, given: Floats | None = None) -> tuple[float, Floats] | None:
        """Return the least cost of a joint among given cells (all by default), and the joint."""
        cells = np.ones(self.n_cells) if given is None else given
        if self.n_cells == 1:  # HiGHS may call that infeasible, by rounding
            return (float(costs[0] / cells[0]), np.ones(self.shape)) if cells[0] else None
        best = None if self.contradiction else self._solve(costs, cells, None)
        if best is None and self.least_change:
            self.contradiction = self.least_change
            best = self._solve(costs, cells, self.contradiction * (1.0 + _TOLERANCE) + _ROUNDING)
        return best

    def _solve(self, costs: Floats, given: Floats, extra: float | None) -> tuple[float, Floats] | None:
        """Return the least cost of a joint, divided by its share of given cells, and the joint; None if infeasible.

        ``extra`` is how far sums may be outside of their bounds in total, half the sum as in total variation;
        infinite makes that total the cost.
        """
        from scipy.optimize import linprog
        from scipy.sparse import block_array, csr_array, eye_array

        n, m = self.n_cells, len(self.low)
        eye, whole = eye_array(m), csr_array(np.ones((1, n)))
        low, width = csr_array(self.low[:, None]), csr_array((self.high - self.low)[:, None])
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
        solve: Any = linprog  # scipy-stubs lacks sparse matrices
        for method in ("highs-ipm", "highs-ds") if n > _MANY_CELLS else ("highs-ds", "highs-ipm"):
            solved = solve(cost, A_ub=upper, b_ub=np.zeros(upper.shape[0]), A_eq=equal, b_eq=right, method=method)
            if solved.status == 0:
                return float(solved.fun), np.asarray(solved.x[:n] / solved.x[n]).reshape(self.shape)
            if solved.status == 2:
                return None
        raise ArithmeticError(f"the linear program was not solved: {solved.message}")

    @staticmethod
    def _bounds(shares: Floats, n_records: Floats, level: float | None) -> tuple[Floats, Floats]:
        """Return Clopper and Pearson's bounds of shares, which hold together at a level of confidence."""
        if level is None:
            return np.maximum(shares - _ROUNDING, 0.0), np.minimum(shares + _ROUNDING, 1.0)
        from scipy.special import betainccinv, betaincinv

        tail = 0.5 * (1.0 - level) / max(len(shares), 1)
        counts = np.clip(shares, 0.0, 1.0) * n_records
        rest = np.maximum(n_records - counts, 0.0)
        low = np.where(counts > 0, betaincinv(np.maximum(counts, 1e-300), rest + 1.0, tail), 0.0)
        high = np.where(rest > 0, betainccinv(counts + 1.0, np.maximum(rest, 1e-300), tail), 1.0)
        return np.minimum(low, shares), np.maximum(high, np.minimum(shares, 1.0))
