"""The solvers, and the one table of their names.

A new solver costs a file of its own and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from twoway.errors import DataError, unknown, whole_number
from twoway.solvers.auto import Auto
from twoway.solvers.base import Evidence, Problem, Smoothing, Solution, Solver, Watch
from twoway.solvers.combine import Chain, MultiStart
from twoway.solvers.coupled_nmf import CoupledNMF
from twoway.solvers.ctd import CTD
from twoway.solvers.em import EM
from twoway.solvers.mle_ad import MLEAD
from twoway.solvers.spa import SPA

__all__ = [
    "CTD",
    "EM",
    "MLEAD",
    "SOLVERS",
    "SPA",
    "Auto",
    "Chain",
    "CoupledNMF",
    "Evidence",
    "MultiStart",
    "Problem",
    "Smoothing",
    "Solution",
    "Solver",
    "Watch",
    "find_solver",
]

SOLVERS: dict[str, Callable[[], Solver]] = {
    "auto": Auto,
    "coupled-nmf": CoupledNMF,
    "ctd": CTD,
    "em": EM,
    "mle-ad": MLEAD,
    "spa": SPA,
}

SolverChoice: TypeAlias = str | Solver | Sequence[str | Solver]

# What an iterative solver on its own gets; a chain begins where its first solver says.
_DEFAULT_STARTS = 10


def find_solver(choice: SolverChoice, starts: int | None = None) -> Solver:
    """Return the solver of a name, a chain such as "spa+em", an instance or a sequence of these.

    Parameters
    ----------
    starts
        How many starts to take the best of; by default 10 for an iterative solver, 16 for "auto", one for a chain.

    Examples
    --------
    >>> find_solver("spa+em").name
    'spa+em'
    """
    if starts is not None:
        starts = whole_number("starts", starts, 1)
    parts: Sequence[str | Solver]
    if isinstance(choice, str):
        parts = choice.split("+")
    else:
        parts = choice if isinstance(choice, Sequence) else [choice]
    solvers = tuple(_find_one(part.strip() if isinstance(part, str) else part) for part in parts)
    if not solvers:
        raise DataError("a chain of solvers needs at least one; got none")
    if len(solvers) > 1:
        chain = Chain(solvers)
        return chain if starts is None or starts == 1 else MultiStart(chain, starts)
    solver = solvers[0]
    if isinstance(solver, Auto):
        return solver if starts is None else Auto(starts, solver.smoothing)
    if starts is None:
        starts = _DEFAULT_STARTS if hasattr(solver, "max_iter") else 1
    return solver if starts == 1 else MultiStart(solver, starts)


def _find_one(part: str | Solver) -> Solver:
    if not isinstance(part, str):
        if isinstance(part, type):
            raise DataError(f"a solver is a name or an object, not a class: write {part.__name__}(), with its brackets")
        if not hasattr(part, "solve"):
            raise DataError(f"a solver is a name or an object with a method solve; got {part!r}")
        return part
    if part not in SOLVERS:
        raise unknown("solver", part, SOLVERS)
    return SOLVERS[part]()
