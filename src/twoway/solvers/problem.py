"""The input and the result of a solver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

from twoway.errors import DataError
from twoway.model.pmf import JointPMF
from twoway.report import Start, StopReason
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.evidence import Evidence
from twoway.solvers.heldout import HeldOut
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.starts import random_start
from twoway.solvers.watch import Watch


@dataclass(frozen=True)
class Problem:
    """The input of one start of a solver."""

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

    @property
    def name_of_likelihood(self) -> str:
        """What a fit of records minimises, in words."""
        return f"negative {'penalised ' if any(self.given_smoothing) else ''}log-likelihood per record"

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

    def direct(self, solver: Solver, pmf: JointPMF, divergence: float) -> Solution:
        """Return what a solver found in two-way tables at once, without smoothing."""
        descent = Descent(pmf, (divergence,), StopReason.DIRECT)
        return replace(self, smoothing=None).solution(solver, descent, "mean Kullback-Leibler divergence per pair")

    def check_categories(self, solver: Solver, most: int) -> None:
        """Raise where there are more categories than a solver can take."""
        if (n_categories := self.evidence.schema.n_categories) > most:
            raise DataError(
                f"solver {solver.name!r} takes at most {most} categories in all, but there are {n_categories}; "
                "use solver='coupled-nmf'"
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
    counts_tables: bool = False
    """Whether the two-way tables of records counted besides; see `CellSets`."""
    held_out: HeldOut | None = None
    """How well such fits predict what was held out, where the smoothing was chosen by that."""

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
