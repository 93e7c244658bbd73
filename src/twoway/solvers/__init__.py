"""The solvers, and the one table of their names.

A new solver takes one new file and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from twoway.errors import DataError, check_known, check_whole_number
from twoway.solvers.auto import Auto as Auto
from twoway.solvers.combined import Chain as Chain
from twoway.solvers.combined import MultiStart as MultiStart
from twoway.solvers.coupled_nmf import CoupledNMF as CoupledNMF
from twoway.solvers.ctd import CTD as CTD
from twoway.solvers.em import EM as EM
from twoway.solvers.evidence import Evidence as Evidence
from twoway.solvers.mle_ad import MLEAD as MLEAD
from twoway.solvers.problem import IterativeSolver as IterativeSolver
from twoway.solvers.problem import Problem as Problem
from twoway.solvers.problem import Solution as Solution
from twoway.solvers.problem import Solver as Solver
from twoway.solvers.smoothing import Smoothing as Smoothing
from twoway.solvers.spa import SPA as SPA
from twoway.solvers.symmetric_nmf import SymmetricNMF as SymmetricNMF
from twoway.solvers.watch import Watch as Watch

SOLVERS: dict[str, Callable[[], Solver]] = {
    "auto": Auto,
    "coupled-nmf": CoupledNMF,
    "ctd": CTD,
    "em": EM,
    "mle-ad": MLEAD,
    "spa": SPA,
    "symmetric-nmf": SymmetricNMF,
}

SolverChoice: TypeAlias = str | Solver | Sequence[str | Solver]

# For an iterative solver on its own; a chain has one start, that of its first solver.
_DEFAULT_STARTS = 10


def find_solver(choice: SolverChoice, starts: int | None = None) -> Solver:
    """Return the solver of a name, a chain such as "spa+em", an instance or a sequence of these.

    Parameters
    ----------
    starts
        How many starts to run; the best is taken. By default 10 for an iterative solver, 16 for "auto", 1 for a chain.

    Examples
    --------
    >>> find_solver("spa+em").name
    'spa+em'
    """
    n_starts = None if starts is None else check_whole_number("starts", starts, 1)
    named = choice.split("+") if isinstance(choice, str) else choice
    solvers = tuple(map(_find_one_solver, named if isinstance(named, Sequence) else (named,)))
    if not solvers:
        raise DataError("a chain of solvers needs at least one solver; got none")
    solver = solvers[0] if len(solvers) == 1 else Chain(solvers)
    if isinstance(solver, Auto):
        return solver if n_starts is None else Auto(n_starts)
    if n_starts is None:
        n_starts = _DEFAULT_STARTS if isinstance(solver, IterativeSolver) else 1
    return solver if n_starts == 1 else MultiStart(solver, n_starts)


def _find_one_solver(part: str | Solver) -> Solver:
    if isinstance(part, type):
        raise DataError(f"a solver is a name or an object, not a class: write {part.__name__}() with parentheses")
    if not isinstance(part, str):
        if not isinstance(part, Solver):
            raise DataError(f"a solver is a name or an object with a name and a method solve; got {part!r}")
        return part
    check_known("solver", SOLVERS, part.strip())
    return SOLVERS[part.strip()]()
