"""What a newcomer gets: the best chain for the evidence at hand, with smoothing chosen and several starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from twoway.errors import DataError
from twoway.pmf import JointPMF
from twoway.records import Records, RecordSource
from twoway.solvers.base import Evidence, Problem, Smoothing, Solution
from twoway.solvers.combine import race, soften
from twoway.solvers.coupled_nmf import CoupledNMF
from twoway.solvers.em import EM
from twoway.solvers.tuning import choose_smoothing

# Counting all pairs of more cells than this costs more than random starts.
_MOST_CELLS = 5000
# Smoothing is chosen on so many observed cells at most: more would say the same.
_TUNING_CELLS = 1_000_000
_N_FOLDS = 5


@dataclass(frozen=True)
class Auto:
    """From records: `SPA`, `CoupledNMF` and `EM` in a chain, raced against random starts. From tables: `CoupledNMF`."""

    n_starts: int = 16
    """The chain's start and random ones."""
    smoothing: Smoothing | None = None
    """None chooses it by held-out likelihood."""

    name: ClassVar[str] = "auto"

    def solve(self, problem: Problem) -> Solution:
        """Return the best solution of all starts."""
        records = problem.evidence.records
        return self._from_tables(problem) if records is None else self._from_records(problem, records)

    def _from_tables(self, problem: Problem) -> Solution:
        smoothing = Smoothing() if self.smoothing is None else self.smoothing
        problem = replace(problem, smoothing=smoothing)
        return race(CoupledNMF(), [replace(problem, number=number) for number in range(self.n_starts)])

    def _from_records(self, problem: Problem, records: RecordSource) -> Solution:
        start = self._chain_start(problem)
        smoothing = self.smoothing
        candidates: tuple[Mapping[str, Any], ...] = ()
        if smoothing is None:
            smoothing, candidates = self._choose_smoothing(problem, records, None if start is None else start.pmf)
        problem = replace(problem, smoothing=smoothing)
        problems = [replace(problem, number=number) for number in range(self.n_starts)]
        if start is None:
            return replace(race(EM(), problems), candidates=candidates)
        problems[0] = replace(problem, start=start.pmf)
        solution = race(EM(), problems)
        return replace(solution, candidates=candidates)

    def _chain_start(self, problem: Problem) -> Solution | None:
        """Return where the chain of table solvers ends, or None where there are no tables to speak of."""
        schema = problem.evidence.schema
        if len(schema) < 2 or schema.n_cells > _MOST_CELLS:
            return None
        try:
            solution = CoupledNMF(tol=1e-5, max_iter=300).solve(problem)
        except DataError:  # no pair observed together, or not all variables connected
            return None
        return replace(solution, pmf=soften(problem, solution))

    def _choose_smoothing(
        self, problem: Problem, records: RecordSource, start: JointPMF | None
    ) -> tuple[Smoothing, tuple[Mapping[str, Any], ...]]:
        sample = records.sample(_TUNING_CELLS, problem.seed)
        threads = problem.evidence.threads
        quiet = problem.watch.quiet()
        quick = EM(tol=1e-6, max_iter=200)

        def refit(train: Records, smoothing: Smoothing) -> JointPMF:
            evidence = Evidence(train.schema, records=train, threads=threads)
            one = Problem(evidence, problem.rank, problem.seed, smoothing=smoothing, start=start, watch=quiet)
            return quick.solve(one).pmf

        return choose_smoothing(sample, problem.rank, refit, n_folds=_N_FOLDS, seed=problem.seed, watch=problem.watch)
