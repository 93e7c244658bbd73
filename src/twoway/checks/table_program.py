"""A linear program over all joints that have given tables.

Its unknowns are the cells of a joint of a few variables. Every table, summed over the variables left out, bounds sums
of these cells from both sides, as shares of all or of other sums. A conditional probability is a ratio of two such
sums; dividing all unknowns by the lower sum (Charnes and Cooper, 1962) makes it linear, and a probability is the case
in which that sum is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.schema import Schema
from twoway.tables.pair_graph import PairGraph, inseparable_pairs
from twoway.tables.tables import Tables

# What floating point makes of shares that should be equal.
_ROUNDING = 1e-9
# HiGHS meets its constraints to 1e-7.
_TOLERANCE = 1e-6
# With more cells, an interior point method is faster than the simplex method.
_MANY_CELLS = 2000
_HELPER_CLASSES = 3
# Cut vertices are searched for by leaving out each variable in turn, among at most this number.
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

    def summed(self, numbers: Floats, place: int) -> Floats:
        """Return an array with the categories along its axis at ``place`` added up by class."""
        sums = np.zeros([*numbers.shape[:place], self.n_classes, *numbers.shape[place + 1 :]])
        np.add.at(np.moveaxis(sums, place, 0), self.classes, np.moveaxis(numbers, place, 0))
        return sums


def program_cells(axes: Sequence[ProgramAxis]) -> dict[int, tuple[ProgramAxis, Ints]]:
    """Return, by the position of each variable, its axis and its class in each cell of the joint, (n_cells,)."""
    classes = np.indices([axis.n_classes for axis in axes]).reshape(len(axes), -1)
    return {axis.variable: (axis, row) for axis, row in zip(axes, classes, strict=True)}


def program_shares(tables: Tables, axes: Sequence[ProgramAxis]) -> tuple[Floats, float]:
    """Return the shares of classes of categories in the largest table of these variables, and its records.

    Some table must hold all the variables, and axes are in schema order.
    """
    positions = [axis.variable for axis in axes]
    holding = tables.holding(positions)
    index = int(holding[np.argmax(tables.weights[holding])])
    shares = tables.counts_of(index, positions) / tables.totals[index]
    for place, axis in enumerate(axes):
        shares = axis.summed(shares, place)
    return shares, float(tables.weights[index])


def _program_dependence(tables: Tables, first: ProgramAxis, second: ProgramAxis) -> float:
    """Return how far two variables are from independent, in total variation; 0 where no table holds both."""
    if not tables.together[first.variable, second.variable]:
        return 0.0
    shares, _ = program_shares(tables, sorted((first, second)))
    return 0.5 * float(np.abs(shares - np.outer(shares.sum(axis=1), shares.sum(axis=0))).sum())


def _program_variables(tables: Tables, asked: Sequence[int]) -> list[int]:
    """Return the variables whose tables can narrow the range of those asked about, these included.

    A group that a single variable connects to the rest can be added to any joint of the others that has that
    variable's shares: it does not narrow anything.
    """
    if len(asked) == 1:
        return list(asked)
    graph = tables.together.copy()
    graph[np.ix_(asked, asked)] = True
    relevant = next(group for group in PairGraph(graph, tables.schema.sizes).groups() if asked[0] in group)
    if len(relevant) <= _MAX_PRUNED:
        is_beside_all = inseparable_pairs(graph[np.ix_(relevant, relevant)])[np.isin(relevant, asked)].all(axis=0)
        relevant = relevant[is_beside_all]
    return [int(index) for index in relevant]


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
    links = {
        index: [_program_dependence(tables, axis, other) for other in chosen] for index, axis in candidates.items()
    }
    n_cells = math.prod(axis.n_classes for axis in chosen)
    while candidates:
        # A variable helps by its tables with two others; one with a single table may lead to the next.
        best = max(candidates, key=lambda index: (sorted(links[index])[-2:][0], max(links[index]), -index))
        if max(links[best]) <= _ROUNDING:
            break
        partner = chosen[int(np.argmax(links[best]))]
        n_classes = max(2, min(_HELPER_CLASSES, max_cells // n_cells))
        axis = _merged_program_axis(tables, candidates.pop(best), partner, n_classes)
        if n_cells * axis.n_classes > max_cells:
            break
        n_cells *= axis.n_classes
        chosen.append(axis)
        for index, candidate in candidates.items():
            links[index].append(_program_dependence(tables, candidate, axis))
    for place, axis in enumerate(chosen):
        finer = n_cells // axis.n_classes * len(axis.classes)
        if axis.is_merged and finer <= max_cells:
            chosen[place], n_cells = ProgramAxis(axis.variable, np.arange(len(axis.classes))), finer
    return sorted(chosen), False


def _merged_program_axis(tables: Tables, axis: ProgramAxis, partner: ProgramAxis, n_classes: int) -> ProgramAxis:
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


class ProgramTable(NamedTuple):
    """A table over the cells of a joint: which of its cells each of these is in, and what is known of their shares."""

    cell_of: Ints
    """The table's cell for each cell of the joint, (n_cells,); -1 for those that it says nothing of."""
    low: Floats
    """The least and greatest share that was published, (n_table_cells,): the same where a number is known."""
    high: Floats
    n_records: Floats
    """The effective number of records of which they are shares."""
    blocks: Ints | None = None
    """The group of the table's cells within which they are shares; None for shares of all people."""


def program_tables(tables: Tables, axes: Sequence[ProgramAxis]) -> list[ProgramTable]:
    """Return tables, and the shares of single variables, over the cells of a joint."""
    cells = program_cells(axes)
    inside = {tuple(index for index in row if index in cells) for row in tables.sets.tolist()}
    shared = []
    for positions in sorted({*inside, *((index,) for row in inside for index in row)} - {()}):
        margin, weight = program_shares(tables, [cells[index][0] for index in positions])
        cell_of = np.ravel_multi_index([cells[index][1] for index in positions], margin.shape)
        shares = margin.ravel()
        shared.append(ProgramTable(cell_of, shares, shares, np.full(shares.size, weight)))
    return shared


class TableProgram:
    """All joints of some variables that have given tables, within sampling error.

    Parameters
    ----------
    shared
        What the tables say of sums of the joint's cells.
    axes
        The variables of the joint, in schema order.
    level
        The probability with which all shares together are within their bounds. None takes tables as exact.
    is_possible
        Which cells of the joint are possible; all by default.
    """

    def __init__(
        self,
        shared: Sequence[ProgramTable],
        axes: Sequence[ProgramAxis],
        level: float | None,
        is_possible: Bools | None = None,
    ) -> None:
        from scipy.sparse import csr_array

        self.axes = list(axes)
        self.shape = tuple(axis.n_classes for axis in axes)
        self.n_cells = math.prod(self.shape)
        self._most = np.where(np.ones(self.n_cells, dtype=bool) if is_possible is None else is_possible, np.inf, 0.0)
        sums, bases, n_rows = [np.zeros((2, 0), dtype=np.int64)], [np.zeros((2, 0), dtype=np.int64)], 0
        for table in shared:
            columns = np.flatnonzero(table.cell_of >= 0)
            sums.append(np.array([n_rows + table.cell_of[columns], columns]))
            if table.blocks is not None:
                # Each of a table's cells is a share of all cells of its group.
                rows, others = np.nonzero(table.blocks[:, None] == table.blocks[table.cell_of[columns]][None, :])
                bases.append(np.array([n_rows + rows, columns[others]]))
            n_rows += len(table.low)
        self._sums, self._bases = (
            csr_array((np.ones(places.shape[1]), (places[0], places[1])), shape=(n_rows, self.n_cells))
            for places in (np.hstack(sums), np.hstack(bases))
        )
        self._is_whole = np.concatenate([[], *(np.full(len(table.low), table.blocks is None) for table in shared)])
        self.contradiction = 0.0
        """`least_change`, once it turned out that no joint has the tables."""
        low, high, n_records = (
            np.concatenate([[], *(getattr(table, name) for table in shared)]) for name in ("low", "high", "n_records")
        )
        self.low, self.high = self._bounds(low, high, n_records, level)

    def cells(self, allowed: Mapping[int, Ints]) -> Floats:
        """Return 1 for the cells in which each variable has one of its allowed categories, otherwise 0."""
        chosen = np.ones(self.n_cells)
        cells = program_cells(self.axes)
        for variable, categories in allowed.items():
            axis, classes = cells[variable]
            chosen *= np.isin(classes, axis.classes[categories])
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
        return None if best is None else (float(np.clip(sign * best[0], 0.0, 1.0)) + 0.0, best[1])

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
        from scipy.sparse import block_array, csr_array, diags_array, eye_array

        n, m = self.n_cells, len(self.low)
        eye, whole = eye_array(m), csr_array(np.ones((1, n)))
        bounds = self.low, self.high - self.low
        low, width = (csr_array((numbers * self._is_whole)[:, None]) for numbers in bounds)
        low_of_bases, width_of_bases = (diags_array(numbers) @ self._bases for numbers in bounds)
        # Unknowns: cells, the scale of the whole, how far sums are above their lower ends, and beyond either end.
        n_beyond = 0 if extra is None else 2
        nothing = [None] * n_beyond
        equations: list[list[Any]] = [
            [self._sums - low_of_bases, -low, -eye, *(-eye, eye)[:n_beyond]],
            [whole, csr_array([[-1.0]]), None, *nothing],
            [csr_array(given[None, :]), None, None, *nothing],
        ]
        equal = block_array(equations, format="csr")
        at_most: list[list[Any]] = [[-width_of_bases, -width, eye, *[csr_array((m, m))] * n_beyond]]
        cost = np.concatenate([costs, np.zeros(1 + m * (1 + n_beyond))])
        if extra is not None and math.isinf(extra):
            cost[n + 1 + m :] = 0.5
        elif extra is not None:
            halves = csr_array(np.full((1, m), 0.5))
            at_most.append([None, csr_array([[-extra]]), None, halves, halves])
        upper = block_array(at_most, format="csr")
        right = np.append(np.zeros(equal.shape[0] - 1), 1.0)
        solve: Any = linprog  # scipy-stubs lacks sparse matrices
        limits = np.tile([0.0, np.inf], (len(cost), 1))
        limits[:n, 1] = self._most
        for method in ("highs-ipm", "highs-ds") if n > _MANY_CELLS else ("highs-ds", "highs-ipm"):
            options = {"A_ub": upper, "b_ub": np.zeros(upper.shape[0]), "A_eq": equal, "b_eq": right}
            solved = solve(cost, **options, bounds=limits, method=method)
            if solved.status == 0:
                return float(solved.fun), np.asarray(solved.x[:n] / solved.x[n]).reshape(self.shape)
            if solved.status == 2:
                return None
        raise ArithmeticError(f"the linear program was not solved: {solved.message}")

    @staticmethod
    def _bounds(low: Floats, high: Floats, n_records: Floats, level: float | None) -> tuple[Floats, Floats]:
        """Return Clopper and Pearson's bounds of shares, which hold together at a level of confidence."""
        if level is None:
            return np.maximum(low - _ROUNDING, 0.0), np.minimum(high + _ROUNDING, 1.0)
        from scipy.special import betainccinv, betaincinv

        tail = 0.5 * (1.0 - level) / max(len(low), 1)
        (least, beside_least), (most, beside_most) = (
            (counts, np.maximum(n_records - counts, 0.0))
            for counts in (np.clip(shares, 0.0, 1.0) * n_records for shares in (low, high))
        )
        lowest = np.where(least > 0, betaincinv(np.maximum(least, 1e-300), beside_least + 1.0, tail), 0.0)
        highest = np.where(beside_most > 0, betainccinv(most + 1.0, np.maximum(beside_most, 1e-300), tail), 1.0)
        return np.minimum(lowest, low), np.maximum(highest, np.minimum(high, 1.0))
