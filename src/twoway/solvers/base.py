"""What all solvers share: what they are given, what they return, and the one loop.

The loop takes any fixed-point map that never lets its objective rise, and speeds it up by squared extrapolation
(SQUAREM: Varadhan and Roland, Simple and globally convergent methods for accelerating the convergence of
any EM algorithm, 2008). An extrapolated point is kept only if it is no worse than the step before it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, SupportsFloat

import numpy as np

from twoway.data.records import Records
from twoway.data.source import RecordSource
from twoway.errors import DataError, whole_number
from twoway.model.pmf import JointPMF
from twoway.report import Monitor, Progress, Start, StopReason
from twoway.schema import Schema
from twoway.solvers.cells import CellSets, Theta
from twoway.solvers.pairs import PairMatrix, PairWeights
from twoway.storage.checkpoint import Checkpoint, LoopState
from twoway.tables.counting import n_set_cells
from twoway.tables.pair_graph import PairGraph
from twoway.tables.tables import Tables

_MANY_CATEGORIES = 100
# Observed cells of records that a model of very many tables is compared with.
_MOST_COMPARED = 10**7


class Evidence:
    """What is known: records, or tables, or records from which tables can be counted."""

    def __init__(
        self,
        schema: Schema,
        *,
        records: RecordSource | None = None,
        tables: Tables | None = None,
        threads: int | None,
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


class Watch:
    """Passes on where a computation is, and remembers that somebody interrupted it."""

    def __init__(
        self, monitor: Monitor | None = None, parent: Watch | None = None, checkpoint: Checkpoint | None = None
    ) -> None:
        self._monitor = monitor
        self._parent = parent
        self._interrupted = False
        self.checkpoint = checkpoint
        """Where loops take note of how far they have got, and find how far they had got before."""

    @property
    def interrupted(self) -> bool:
        """Whether somebody pressed Ctrl-C."""
        return self._interrupted if self._parent is None else self._parent.interrupted

    def interrupt(self) -> None:
        """Remember that somebody pressed Ctrl-C."""
        if self._parent is None:
            self._interrupted = True
        else:
            self._parent.interrupt()

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Return a context that Ctrl-C ends, not the program: what it found until then is kept."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupt()

    def tell(self, progress: Progress) -> None:
        """Show where the computation is."""
        if self._monitor is not None:
            self._monitor(progress)

    def part(self, task: str, before: int, whole: int, began: float) -> Watch:
        """Return a watch for a part of a task that began at a time and has done ``before`` of its ``whole`` passes."""
        monitor = self._monitor
        if monitor is None:
            return self.quiet()
        done = before

        def tell(progress: Progress) -> None:
            nonlocal done
            done = min(max(done, before + progress.done), whole)
            left = (time.monotonic() - began) * (whole - done) / done if 50 * done > whole else None
            monitor(Progress(task, done, whole, progress.objective, left))

        return Watch(tell, self, self.checkpoint)

    def quiet(self) -> Watch:
        """Return a watch for a part of the computation too small to show."""
        return Watch(None, self, self.checkpoint)


class Smoothing(NamedTuple):
    """Pseudo-records a component, by which factors and weights are drawn toward the plainest ones."""

    factors: float = 0.0
    """Toward each variable's overall shares."""
    weights: float = 0.0
    """Toward equal weights."""


NO_SMOOTHING = Smoothing()


@dataclass(frozen=True)
class Problem:
    """What one start of a solver is given."""

    evidence: Evidence
    rank: int
    seed: int = 0
    number: int = 0
    """Which of several starts this is; the first one (0) may take a start that is better than a random one."""
    smoothing: Smoothing = NO_SMOOTHING
    start: JointPMF | None = None
    """Where to start from: the solution of the solver before it in a chain. None means: wherever you like."""
    origin: str = ""
    """The chain of solvers that led to the start."""
    watch: Watch = field(default_factory=Watch)

    def chain(self, name: str) -> str:
        """Return the chain of solvers that ends with the one named."""
        return f"{self.origin}+{name}" if self.origin else name

    @property
    def seeds(self) -> tuple[int, int]:
        """What the random choices of this start come from."""
        return (self.seed, self.number)


@dataclass(frozen=True)
class Solution:
    """What one start of a solver found."""

    pmf: JointPMF
    objectives: tuple[float, ...]
    """The objective at each pass, never rising; the last one belongs to ``pmf``."""
    stop_reason: StopReason
    solver: str
    """The chain of solvers that led here."""
    objective_name: str
    """What is minimised, for people."""
    smoothing: Smoothing = NO_SMOOTHING
    warnings: tuple[str, ...] = ()
    others: tuple[Start, ...] = ()
    """The other starts that this one was the best of."""
    candidates: tuple[Mapping[str, Any], ...] = ()
    """What was compared to choose the smoothing."""

    def as_start(self) -> Start:
        """Return what a report keeps of it."""
        return Start(self.solver, self.objectives, self.stop_reason)


class Solver(Protocol):
    """A frozen dataclass of its own options, with one method."""

    @property
    def name(self) -> str:
        """The name by which `fit` finds it."""

    def solve(self, problem: Problem) -> Solution:
        """Return the best PMF of the rank asked for, from one start."""


@dataclass(frozen=True)
class Path:
    """How a loop went."""

    theta: Theta
    objectives: tuple[float, ...]
    stop_reason: StopReason


# The longest extrapolation tried at first; it grows while it succeeds.
_FIRST_LENGTH = 4.0
_QUIET_CYCLES = 3
_ROUNDING = 1e-13
# Gains are relative to the objective, or to this where the objective itself goes to zero.
_SMALL_OBJECTIVE = 1e-6

Update = Callable[[Theta], tuple[Theta, float]]
"""From a point to the next one, with the objective at the point given."""


def descend(
    update: Update,
    start: Theta,
    schema: Schema,
    rank: int,
    *,
    max_iter: int,
    tol: float,
    task: str,
    watch: Watch,
    accelerate: bool = True,
) -> Path:
    """Return where a fixed-point map leads, accelerated, with an objective that never rises.

    Parameters
    ----------
    update
        From a point to the next one, with the objective at the point given.
    max_iter
        Passes allowed; a cycle of the acceleration takes up to three.
    tol
        Stop when each of three cycles lowers the objective by less than this share of it; 0 never stops early.
    accelerate
        Whether to extrapolate; a cycle is a single pass otherwise.
    """
    from twoway.kernels.maximization import extrapolate

    check_loop_options(max_iter, tol)
    began = time.monotonic()
    objectives: list[float] = []
    gains: list[float] = []
    best = point = start
    longest = _FIRST_LENGTH
    passes = 0
    stop_reason = StopReason.MAX_ITER

    def step(here: Theta) -> tuple[Theta, float]:
        nonlocal passes
        passes += 1
        return update(here)

    cycle_start = math.inf
    kept = watch.checkpoint
    key, before = ("", None) if kept is None else kept.begin(start)
    if before is not None:
        point, best = before.point, before.best
        objectives, gains = list(map(float, before.numbers["objectives"])), list(map(float, before.numbers["gains"]))
        longest, passes = float(before.numbers["longest"]), before.numbers["passes"]
        cycle_start = float(before.numbers["cycle_start"])
        if before.numbers["stop_reason"] is not None:
            return Path(best, tuple(objectives), StopReason(before.numbers["stop_reason"]))

    def take_note(stop_reason: StopReason | None = None) -> None:
        if kept is not None:
            numbers = {
                "objectives": list(map(repr, objectives)),  # JSON has no infinity
                "gains": list(map(repr, gains)),
                "longest": longest,
                "passes": passes,
                "cycle_start": repr(cycle_start),
                "stop_reason": stop_reason,
            }
            kept.tell(key, LoopState(point, best, numbers), has_ended=stop_reason is not None)

    with watch.guard():
        while passes < max_iter:
            take_note()
            first, at_point = step(point)
            best = point
            objectives.append(at_point)
            gains.append((cycle_start - at_point) / max(abs(at_point), _SMALL_OBJECTIVE))
            if watch.interrupted:
                break
            watch.tell(Progress(task, passes, max_iter, at_point, _seconds_left(gains, tol, began)))
            if tol > 0 and _has_settled(gains, tol):
                stop_reason = StopReason.CONVERGED
                break
            cycle_start = at_point
            if not accelerate:
                point = first
                continue
            if passes >= max_iter:
                break
            second, at_first = step(first)
            best = first
            objectives.append(at_first)
            candidate = np.zeros(start.shape)
            length = extrapolate(point, first, second, schema.offsets, rank, longest, candidate)
            point = second
            if length > 1.0 and passes < max_iter:
                third, at_candidate = step(candidate)
                if at_candidate <= at_first:
                    best, point = candidate, third
                    objectives.append(at_candidate)
                    longest = longest * 4.0 if length == longest else longest
                else:
                    longest = max(_FIRST_LENGTH, length / 2.0)
    if watch.interrupted:
        if not objectives:
            raise KeyboardInterrupt
        stop_reason = StopReason.INTERRUPTED
    else:
        take_note(stop_reason)
    return Path(best, tuple(objectives), stop_reason)


def check_loop_options(max_iter: int, tol: float) -> None:
    """Raise where the options of a loop make no sense."""
    whole_number("max_iter", max_iter, 1)
    if not isinstance(tol, SupportsFloat) or not float(tol) >= 0:
        raise DataError(f"tol must be a number of at least 0, got {tol!r}")


def _has_settled(gains: list[float], tol: float) -> bool:
    """Return whether the last cycles gained next to nothing, and what they gained was dying out.

    One quiet cycle, or several whose gains grow again, may be a saddle, on which the objective rests before it goes on.
    """
    recent = gains[-_QUIET_CYCLES:]
    if len(gains) <= _QUIET_CYCLES or max(recent) > tol:
        return False
    # Gains below rounding are noise, and neither grow nor shrink.
    return recent[-1] <= max(recent[0], _ROUNDING)


def _seconds_left(gains: list[float], tol: float, began: float) -> float | None:
    """Return how long it should still take, if gains go on to shrink as they did."""
    recent = [gain for gain in gains[-8:] if 0 < gain < math.inf]
    if len(recent) < 4 or tol <= 0 or recent[-1] >= recent[0]:
        return None
    shrinking = math.log(recent[0] / recent[-1]) / (len(recent) - 1)
    cycles_left = max(0.0, math.log(recent[-1] / tol) / shrinking)
    return cycles_left * (time.monotonic() - began) / len(gains)
