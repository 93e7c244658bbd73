"""What solvers are given, and what they return."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from twoway.data.records import Records
from twoway.data.source import RecordSource
from twoway.errors import DataError
from twoway.model.pmf import JointPMF
from twoway.report import Start
from twoway.schema import Schema
from twoway.solvers.cells import CellSets
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.pairs import PairMatrix, PairWeights
from twoway.solvers.starts import random_start
from twoway.solvers.watch import Watch
from twoway.tables.counting import n_set_cells
from twoway.tables.pair_graph import PairGraph
from twoway.tables.tables import Tables
from twoway.text import shortlist

_MANY_CATEGORIES = 100
# Observed cells of the records that a model of very many tables is compared with.
_MOST_COMPARED = 10**7


class Evidence:
    """What is known: records, or tables, or records from which tables can be counted."""

    def __init__(
        self, schema: Schema, *, records: RecordSource | None = None, tables: Tables | None = None, threads: int | None
    ) -> None:
        self.schema = schema
        self.records = records
        self.threads = threads
        self._tables = {} if tables is None else {tables.order: tables}
        self._table_sets: dict[tuple[PairWeights, int], CellSets] = {}
        self.given_order = 2 if tables is None else tables.order

    def tables(self, order: int) -> Tables:
        """Return the two-way or three-way tables: those given, or those counted (once) from the records."""
        if order not in self._tables:
            if self.records is None:
                known = ", ".join(f"{key}-way" for key in self._tables)
                raise DataError(f"this solver needs {order}-way tables or records, and there are only {known} tables")
            tables = Tables.count(self.records, order, threads=self.threads)
            # Equal records were merged for the fit: the weight of a single one is known no longer.
            is_known = not self.records.weight_totals.is_weighted
            self._tables[order] = tables if is_known else replace(tables, heaviest=None)
        return self._tables[order]

    def connected_tables(self, order: int) -> Tables:
        """Return the two-way or three-way tables, or raise where they do not connect all variables."""
        names = self.schema.names
        if order == 3 and len(names) < 3:
            raise DataError(f"three-way tables need at least 3 variables; got {shortlist(names)}")
        tables = self.tables(order)
        check_connected(tables)
        return tables

    def compared_tables(self, n_tables: int, n_cells: int, *, seed: int) -> tuple[Tables, int]:
        """Return tables to compare a model with, at most so many with at most so many cells, and how many there are.

        They are those given, or the two-way ones of the records; a random part of them where they are more.
        """
        schema, order = self.schema, self.given_order
        n_pairs = math.comb(len(schema), 2)
        random = np.random.default_rng(seed)
        is_small = n_pairs <= n_tables and n_set_cells(schema.sizes, 2) <= n_cells
        if self.records is None or order in self._tables or is_small:
            tables = self.tables(order)
            return tables.sample(n_tables, n_cells, random), len(tables)
        variables: list[int] = []
        for variable in random.permutation(len(schema)).tolist():
            sizes = [schema.sizes[other] for other in (*variables, variable)]
            if math.comb(len(sizes), 2) > n_tables:
                break
            if n_set_cells(sizes, 2) <= n_cells:
                variables.append(variable)
        variables.sort()
        tables = Tables.count(self.records.sample(_MOST_COMPARED, seed=seed).narrowed(variables), threads=self.threads)
        return Tables(schema, np.array(variables)[tables.sets], tables.flat, tables.weights), n_pairs

    @cached_property
    def graph(self) -> PairGraph:
        """Which two-way tables there are."""
        return PairGraph.of(self.tables(2))

    @cached_property
    def pairs(self) -> PairMatrix:
        """The two-way tables as one matrix."""
        return PairMatrix.of(self.tables(2))

    @cached_property
    def sets(self) -> CellSets:
        """What is to be explained: the records, or the cells of the tables where there are none."""
        if self.records is None:
            return self.table_sets("counts", self.given_order)
        return CellSets.of_records(self.records, self.threads)

    def sample(self, n_observed: int, *, seed: int) -> Records:
        """Return a part of the sets to be explained, in memory, that can be dealt out to folds.

        Variables of very many categories are left out, where there are others: how well an identifier is predicted
        would decide everything, and nothing that matters.
        """
        if self.records is not None:
            plain = np.array(self.schema.sizes) <= _MANY_CATEGORIES
            sample = self.records.sample(n_observed, seed=seed)
            return sample.showing(plain) if plain.any() and not plain.all() else sample
        cells = self.tables(self.given_order).as_records().canonical()
        # Counts are dealt out one by one; published shares of a total need not be whole ones.
        return cells if cells.weights is None else cells.reweighted(np.rint(cells.weights))

    def table_sets(self, pair_weights: PairWeights, order: int = 2) -> CellSets:
        """Return the cells of the two-way or three-way tables."""
        key = (pair_weights, order)
        if key not in self._table_sets:
            self._table_sets[key] = CellSets.of_tables(self.tables(order), pair_weights, self.threads)
        return self._table_sets[key]


def check_connected(tables: Tables) -> None:
    """Raise where the tables do not connect all variables."""
    if len(tables) == 0:
        raise DataError(
            f"there is no table of {shortlist(tables.schema.names)}: no {tables.order} variables were seen together; "
            "solver='em' on records needs none"
        )
    groups = tables.components()
    if len(groups) > 1:
        smallest = min(groups, key=len)
        raise DataError(
            f"no table connects {shortlist(smallest)} with the other variables; add a table that does, "
            "or fit the groups apart: " + "; ".join(shortlist(group, 4) for group in groups[:4])
        )


class Smoothing(NamedTuple):
    """Pseudo-records per component, by which factors and weights are drawn toward the plainest ones."""

    factors: float = 0.0
    """Toward each variable's overall shares."""
    weights: float = 0.0
    """Toward equal weights."""


@dataclass(frozen=True)
class Problem:
    """What one start of a solver is given."""

    evidence: Evidence
    rank: int
    seed: int = 0
    number: int = 0
    """Which of several starts this is; the first one (0) may take a start that is better than a random one."""
    smoothing: Smoothing | None = None
    """None lets `Auto` choose; other solvers then do not smooth."""
    start: JointPMF | None = None
    """Where to start: the solution of the previous solver in a chain. None leaves it to the solver."""
    origin: str = ""
    """The chain of solvers that led to the start."""
    watch: Watch = field(default_factory=Watch)

    @property
    def seeds(self) -> tuple[int, int]:
        """The seeds of this start's random choices."""
        return (self.seed, self.number)

    @property
    def given_smoothing(self) -> Smoothing:
        """The smoothing for a solver that does not choose it."""
        return Smoothing() if self.smoothing is None else self.smoothing

    def chain(self, name: str) -> str:
        """Return the chain of solvers that ends with the named one."""
        return f"{self.origin}+{name}" if self.origin else name

    def first_point(self, sets: CellSets) -> JointPMF:
        """Return the given start, or a random one around the overall shares of what is to be explained."""
        return self.start or random_start(sets.schema, self.rank, sets.shares, self.seeds)

    def loop(self, solver: IterativeSolver, *, accelerate: bool = True) -> Loop:
        """Return the loop with a solver's options."""
        return Loop(solver.name, solver.max_iter, solver.tol, self.watch, accelerate)

    def solution(self, solver: Solver, descent: Descent, objective_name: str, *warnings: str) -> Solution:
        """Return the end of a loop as a solver's solution."""
        return Solution(
            **vars(descent),
            solver=self.chain(solver.name),
            objective_name=objective_name,
            smoothing=self.given_smoothing,
            warnings=warnings,
        )


@dataclass(frozen=True)
class Solution(Descent):
    """The result of one start of a solver."""

    solver: str
    """The chain of solvers that led here."""
    objective_name: str
    """What is minimised, for people."""
    smoothing: Smoothing = Smoothing()  # noqa: RUF009 - it cannot change
    warnings: tuple[str, ...] = ()
    others: tuple[Start, ...] = ()
    """The other starts, of which this one was the best."""
    candidates: tuple[Mapping[str, Any], ...] = ()
    """What was compared to choose the smoothing."""

    def as_start(self) -> Start:
        """Return the part of it that a report keeps."""
        return Start(self.solver, self.objectives, self.stop_reason)


@runtime_checkable
class Solver(Protocol):
    """A frozen dataclass of its own options, with one method."""

    @property
    def name(self) -> str:
        """The name by which `fit` finds it."""

    def solve(self, problem: Problem) -> Solution:
        """Return the best PMF of the given rank, from one start."""


@runtime_checkable
class IterativeSolver(Solver, Protocol):
    """A solver whose starts can race: a few passes at a time."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def max_iter(self) -> int:
        """Passes allowed."""

    @property
    def tol(self) -> float:
        """The share of the objective below which a gain counts as none; see `Loop`."""
