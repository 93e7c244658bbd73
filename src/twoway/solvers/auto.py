"""What a newcomer gets: the best chain for the evidence at hand, with smoothing chosen and several starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from twoway.data.records import Records
from twoway.data.stored_records import RecordSource
from twoway.errors import DataError
from twoway.model.pmf import JointPMF
from twoway.solvers.combined import MultiStart
from twoway.solvers.coupled_nmf import CoupledNMF
from twoway.solvers.em import EM, fit_cells_by_em
from twoway.solvers.evidence import Evidence
from twoway.solvers.heldout import CHOICE_CELLS
from twoway.solvers.loop import Loop
from twoway.solvers.mle_ad import MLEAD
from twoway.solvers.problem import Problem, Solution
from twoway.solvers.smoothing import Smoothing, SmoothingChoice, choose_smoothing
from twoway.solvers.starts import random_start, softened_start
from twoway.solvers.symmetric_nmf import MOST_CATEGORIES, SymmetricNMF

# Counting all pairs of more categories than this costs more than random starts.
_MOST_CATEGORIES = 5000
# Starts are compared on at most this many observed cells: more would give the same answer.
_SAMPLE_CELLS = 1_000_000
_LITTLE_CELLS = 20_000
_REHEARSED_STARTS = 6
_NO_CHOICE = SmoothingChoice(Smoothing(), (), None)


@dataclass(frozen=True)
class Auto:
    """From records: `SPA`, `CoupledNMF` and `EM` in a chain, raced against random starts.

    From two-way tables: `CoupledNMF`, with one start from `SymmetricNMF` where pairs lack a table; from three-way
    tables: `MLEAD`.
    """

    n_starts: int = 16
    """The chain's start and random ones."""

    name: ClassVar[str] = "auto"

    def solve(self, problem: Problem) -> Solution:
        """Return the best solution of all starts."""
        records = problem.evidence.records
        return self._from_tables(problem) if records is None else self._from_records(problem, records)

    def _from_tables(self, problem: Problem) -> Solution:
        evidence, choice = problem.evidence, _NO_CHOICE
        solver = CoupledNMF() if evidence.given_order == 2 else MLEAD()
        if problem.smoothing is None and evidence.has_counts:
            start = replace(solver, tol=1e-5, max_iter=300).solve(problem).pmf
            choice = self._choose_smoothing(problem, start)
            problem = replace(problem, smoothing=choice.smoothing)
            if problem.watch.interrupted:  # this is the best so far
                problem = replace(problem, start=start)
        problems = [replace(problem, number=number) for number in range(self.n_starts)]
        # With all tables, no start from imputed ones was better than random ones; nor should it take more than seconds.
        lacks_pairs = evidence.given_order == 2 and not evidence.has_all_pairs
        is_small = evidence.schema.n_categories <= MOST_CATEGORIES
        if len(problems) > 1 and lacks_pairs and is_small and not problem.watch.ends():
            completed = SymmetricNMF().solve(problem)
            start = softened_start(completed.pmf, evidence.sets.shares)
            problems[-1] = replace(problem, start=start, origin=completed.solver)
        solution = MultiStart.race(solver, problems)
        return replace(solution, candidates=choice.candidates, held_out=choice.held_out)

    def _from_records(self, problem: Problem, records: RecordSource) -> Solution:
        sample = records.sample(_SAMPLE_CELLS, seed=problem.seed)
        start, choice = self._chain_start(problem), _NO_CHOICE
        if problem.smoothing is None:
            choice = self._choose_smoothing(problem, None if start is None else start.pmf)
            problem = replace(problem, smoothing=choice.smoothing)
        # Starts race on the sample, which separates good from bad ones as well as all records do. Where the sample is
        # all records, it holds them in memory, whatever their source.
        evidence = Evidence(records.schema, records=sample, threads=problem.evidence.threads)
        raced = problem if sample is records else replace(problem, evidence=evidence)
        problems = [replace(raced, number=number) for number in range(self.n_starts)]
        if start is not None:
            problems[0] = replace(raced, start=start.pmf, origin=start.solver)
        solution = MultiStart.race(EM(), problems)
        if records.n_observed > _SAMPLE_CELLS:
            starts = (solution.as_start(), *solution.others)
            final = EM().solve(replace(problem, start=solution.pmf, origin=solution.solver))
            solution = replace(final, others=tuple(replace(s, solver=f"{s.solver} on a sample") for s in starts))
        return replace(solution, candidates=choice.candidates, held_out=choice.held_out)

    def _chain_start(self, problem: Problem) -> Solution | None:
        """Return where the chain of table solvers ends; None with a given start, or no tables to speak of."""
        schema = problem.evidence.schema
        if problem.start is not None or len(schema) < 2 or schema.n_categories > _MOST_CATEGORIES:
            return None
        try:
            solution = CoupledNMF(tol=1e-5, max_iter=300).solve(problem)
        except DataError:  # no pair observed together, or not all variables connected
            return None
        return replace(solution, pmf=softened_start(solution.pmf, problem.evidence.sets.shares))

    def _choose_smoothing(self, problem: Problem, start: JointPMF | None) -> SmoothingChoice:
        evidence, watch = problem.evidence, problem.watch
        from_tables = evidence.records is None
        sets, sample = evidence.sets, evidence.sample(CHOICE_CELLS, seed=problem.seed)
        # On little data each start ends at a different peak, and the fit takes the highest: so must its rehearsal.
        n_random = (0 if start else 1) + (_REHEARSED_STARTS if sample.n_observed <= _LITTLE_CELLS else 0)
        seeds = [(problem.seed, number) for number in range(1, n_random + 1)]
        starts = [random_start(sets.schema, problem.rank, sets.shares, pair) for pair in seeds]
        starts = starts if start is None else [start, *starts]
        loop = Loop("choosing the smoothing", 200, 1e-6, watch.quiet())

        def refit(train: Records, smoothing: Smoothing) -> JointPMF:
            training = replace(sets, records=train)  # once, as its totals are the same for all starts
            fits = [fit_cells_by_em(training, start, smoothing, loop) for start in starts]
            return min(fits, key=lambda fit: fit.objective).pmf

        return choose_smoothing(
            sample,
            refit,
            # A person is counted in many tables: held-out counts forgive more, and too much smoothing is hard to leave.
            first=1.0 if from_tables else 8.0,
            n_components=1 if from_tables else problem.rank,
            seed=problem.seed,
            watch=watch,
            copies=float(sets.copies.mean()),
            threads=evidence.threads,
        )
