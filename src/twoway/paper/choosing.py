"""The paper's methods on real data: rank and rounds of EM are chosen on the validation part, then fitted again.

The last fit uses the training and the validation part together, like every other method on real data.
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
from twoway.paper.trials import Details, Scores, trial_seconds
from twoway.solvers import CTD, EM, MLEAD, SPA, CoupledNMF, Evidence, Problem, Solution, Solver
from twoway.solvers.starts import softened_start

# The paper's programs stop when the objective changes by less than this share.
_TOLERANCE = 1e-6
# As in the paper, EM stops early if that predicts better.
ROUNDS = (5, 10, 20, 30)


@dataclass(frozen=True)
class FirstFive:
    """The paper's split, the first five variables against the others; another if a table between them is missing."""

    name: ClassVar[str] = "spa"

    def solve(self, problem: Problem) -> Solution:
        """Return the solution of the split."""
        try:
            return SPA(first=5).solve(problem)
        except DataError:
            return SPA().solve(problem)


CHAINS: dict[str, tuple[Solver, ...]] = {
    "CNMF-SPA": (FirstFive(),),
    "CNMF-OPT": (CoupledNMF(pair_weights="equal", tol=_TOLERANCE),),
    "CNMF-SPA-EM": (FirstFive(), EM()),
    "RAND-EM": (EM(),),
    "CTD": (CTD(tol=_TOLERANCE),),
    "MLE-AD-EM": (MLEAD(tol=_TOLERANCE), EM()),
}


def fit_chosen(
    chain: Sequence[Solver],
    train: Records,
    train_and_validation: Records,
    ranks: Sequence[int],
    loss: Callable[[JointPMF], float],
    *,
    seed: int,
    threads: int | None,
    all_rounds: Sequence[int] = ROUNDS,
) -> tuple[JointPMF, Scores, Details]:
    """Return the model of the rank (and rounds of EM) with the least loss on the validation part, fitted to both parts.

    ``train_and_validation`` is what is fitted last; the paper's programs keep to ``train``. Ranks that a method cannot
    find are skipped; if it can find none, the first error is raised. The seconds of the last fit and of everything are
    returned too, and the rank and the rounds.
    """
    began = time.perf_counter()
    evidence = _evidence_to_choose(train, threads)
    losses = {}
    errors = []
    for rank in ranks:
        try:
            for pmf, rounds in _fits_to_choose(chain, evidence, rank, all_rounds, seed):
                losses[rank, rounds] = loss(pmf)
        except TwowayError as error:
            errors.append(error)
    if not losses:
        raise errors[0]
    rank, rounds = min(losses, key=lambda choice: losses[choice])
    refit_began = time.perf_counter()
    both = _evidence_to_choose(train_and_validation, threads)
    pmf, _ = next(_fits_to_choose(chain, both, rank, (rounds or 0,), seed))
    return pmf, trial_seconds(refit_began, began), {"rank": rank, "rounds": rounds}


def _evidence_to_choose(records: Records, threads: int | None) -> Evidence:
    not_empty = records.take(np.flatnonzero(np.diff(records.pointers))).canonical()
    return Evidence(records.schema, records=not_empty, threads=threads)


def _fits_to_choose(
    chain: Sequence[Solver], evidence: Evidence, rank: int, all_rounds: Sequence[int], seed: int
) -> Iterator[tuple[JointPMF, int | None]]:
    """Yield the solution of a chain for each number of rounds of EM; the solvers before EM run once."""
    problem = Problem(evidence, rank, seed)
    for solver in chain[:-1]:
        problem = replace(problem, start=softened_start(solver.solve(problem).pmf, evidence.sets.shares))
    last = chain[-1]
    if isinstance(last, EM):
        for rounds in all_rounds:
            yield replace(last, max_iter=rounds).solve(problem).pmf, rounds
    else:
        yield last.solve(problem).pmf, None
