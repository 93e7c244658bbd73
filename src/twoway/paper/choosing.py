"""The paper's methods on real data: rank and rounds of EM are chosen on the validation part, then all is fitted again.

What is fitted again sees training and validation part together, like every other method on real data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from twoway.data.records import Records
from twoway.errors import DataError, TwowayError
from twoway.model.pmf import JointPMF
from twoway.solvers import CTD, EM, MLEAD, SPA, CoupledNMF, Evidence, Problem, Solution, Solver
from twoway.solvers.starts import softened

# The paper's programs stop when the objective changes by less than this share.
_TOLERANCE = 1e-6
# As the paper did, EM is ended early where that predicts better.
_ROUNDS = (5, 10, 20, 30)


@dataclass(frozen=True)
class _FirstFive:
    """The paper's split, the first five variables against the others; another one where tables between them lack."""

    name: ClassVar[str] = "spa"

    def solve(self, problem: Problem) -> Solution:
        """Return the solution of the split."""
        try:
            return SPA(first=5).solve(problem)
        except DataError:
            return SPA().solve(problem)


CHAINS: dict[str, tuple[Solver, ...]] = {
    "CNMF-SPA": (_FirstFive(),),
    "CNMF-OPT": (CoupledNMF(pair_weights="equal", tol=_TOLERANCE),),
    "CNMF-SPA-EM": (_FirstFive(), EM()),
    "RAND-EM": (EM(),),
    "CTD": (CTD(tol=_TOLERANCE),),
    "MLE-AD-EM": (MLEAD(tol=_TOLERANCE), EM()),
}


@dataclass(frozen=True)
class Chosen:
    """A model, what was chosen for it, and how long that took."""

    pmf: JointPMF
    rank: int
    rounds: int | None
    seconds: float
    """Of the last fit."""
    seconds_all: float
    """With all that was compared to choose it."""


def fit_chosen(
    method: str,
    train: Records,
    train_and_validation: Records,
    ranks: Sequence[int],
    loss: Callable[[JointPMF], float],
    *,
    seed: int,
    threads: int | None,
) -> Chosen:
    """Return the model of the rank (and rounds of EM) that loses least on the validation part, fitted to both parts.

    Ranks that a method cannot find are passed over; where it can find none, the first one's error is raised.
    """
    began = time.perf_counter()
    evidence = _evidence(train, threads)
    best, chosen = np.inf, None
    error: TwowayError | None = None
    for rank in ranks:
        try:
            for pmf, rounds in _fits(CHAINS[method], evidence, rank, _ROUNDS, seed):
                if (lost := loss(pmf)) < best:
                    best, chosen = lost, (rank, rounds)
        except TwowayError as reason:
            error = error or reason
    if chosen is None:
        raise TwowayError("no rank was tried") if error is None else error
    rank, rounds = chosen
    middle = time.perf_counter()
    pmf, _ = next(_fits(CHAINS[method], _evidence(train_and_validation, threads), rank, (rounds or 0,), seed))
    end = time.perf_counter()
    return Chosen(pmf, rank, rounds, end - middle, end - began)


def _evidence(records: Records, threads: int | None) -> Evidence:
    shown = records.take(np.flatnonzero(np.diff(records.pointers))).canonical()
    return Evidence(records.schema, records=shown, threads=threads)


def _fits(
    chain: Sequence[Solver], evidence: Evidence, rank: int, all_rounds: Sequence[int], seed: int
) -> Iterator[tuple[JointPMF, int | None]]:
    """Yield a chain's solution for each number of rounds of EM; what comes before EM is solved once."""
    problem = Problem(evidence, rank, seed)
    for solver in chain[:-1]:
        problem = replace(problem, start=softened(solver.solve(problem).pmf, evidence.sets.shares))
    last = chain[-1]
    if isinstance(last, EM):
        for rounds in all_rounds:
            yield replace(last, max_iter=rounds).solve(problem).pmf, rounds
    else:
        yield last.solve(problem).pmf, None
