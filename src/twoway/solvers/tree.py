"""Hidden variables on a tree: its shape by Chow and Liu (1968) from the two-way tables, its parameters by EM.

The variables that depend on each other most are neighbours in the tree of largest mutual information. Each inner vertex
of that tree becomes a hidden variable, to which the vertex itself and its neighbours without further ones are attached:
a hidden Chow-Liu tree (Liu and Van den Broeck, 2021). With one inner vertex it is the model of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from twoway.arrays import Floats
from twoway.checks.fit_quality import modelled_shares
from twoway.data.flat_counts import NOMINAL_TOTAL
from twoway.data.records import Records
from twoway.model.pmf import JointPMF
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.combined import MultiStart
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.evidence import Evidence
from twoway.solvers.heldout import CHOICE_CELLS, FAR_BEHIND, HeldOut, held_out_folds, held_out_scores
from twoway.solvers.loop import Loop
from twoway.solvers.problem import Problem, Solution
from twoway.solvers.reference import best_reference_power, random_reference, reference_tables
from twoway.solvers.smoothing import Smoothing, SmoothingChoice, choose_smoothing
from twoway.solvers.tree_starts import TreeShape, local_spa_start, random_tree_start, spread_start, visible_tree_start
from twoway.solvers.watch import Watch
from twoway.tables.tables import Tables

_FIRST, _FIRST_WITHOUT = Smoothing(0.2, 0.2), Smoothing(1.0, 1.0)
# Held-out counts of tables ask for less, because they forget that a person is counted in many of them.
_TABLE_SMOOTHING = Smoothing(0.2, 0.2)
# Of shares without counts, so small a part that it decides only what they leave open.
_SHARE_SMOOTHING = 1e-6
# Passes over tables cost little, and the last of a divergence matters.
_TABLE_PASSES, _TABLE_TOL = 5000, 1e-6
_PASSES_OF_CHOICE, _FIRST_PASSES = 60, 30
# Observed cells on which starts race, their passes, and passes over all records after that where there are more.
_RACE_CELLS, _RACE_PASSES, _FINAL_PASSES = 1_000_000, 30, 30
# Where pairs have no table, nor others that imply it: more states, and smoothing only where nothing else decides.
_OPEN_STATES, _OPEN_SMOOTHING = 24, Smoothing(0.02, 0.02)
# Their fits go on in stages. After each, tables that are off count more, up to this many times.
_STAGES, _STAGE_PASSES, _STAGE_TOL, _LAST_TOL, _MOST_TIMES = 8, 300, 1e-5, 3e-4, 8.0
_LITTLE_SPREAD = 0.1
# The smoothing of the random models that say what tables leave open.
_RANDOM_SMOOTHING = 0.5
# How much the tables that others imply count, for each count of these: triples of the whole joint, which has these
# tables; and pairs of its parts, which agree with them less.
_REFERENCE = {3: 0.2, 2: 0.02}
# The start by CNMF-SPA works on a matrix of all pairs for each hidden variable.
_MOST_SPA_CATEGORIES = 1000
USUAL_STATES = 12
"""States of each hidden variable, unless the caller says how many: predictions hardly depend on it."""
# Also tried: fewer states, then more and more where there are enough records to compare them.
_FEW_STATES, _MORE_STATES, _RECORDS_PER_STATE = 6, (24, 48), 200


@dataclass(frozen=True)
class Tree:
    """Hidden variables on a tree, as many states each as the rank says, from records or from two-way tables."""

    n_starts: int = 4
    """Starts that race: one hidden variable spread along the tree, the tree of the visible variables, CNMF-SPA at each
    hidden variable, then random ones. Where tables are missing, all begin at the tree of the visible variables."""
    edges: tuple[tuple[int, int], ...] | None = None
    """The pairs of neighbours, a tree of all variables. None takes the tree of largest mutual information."""
    chooses_states: bool = False
    """Whether other numbers of states than the rank are tried."""
    counts_tables: bool = True
    """Whether the two-way tables of records count besides. Without a given smoothing both ways are tried."""
    records_only: HeldOut | None = field(default=None, compare=False, repr=False)
    """How well a short fit to records alone predicts the first fold, where that is known."""

    name: ClassVar[str] = "tree"

    def solve(self, problem: Problem) -> Solution:
        """Return the best solution of all starts."""
        evidence, watch, tree = problem.evidence, problem.watch, self
        choice, short = SmoothingChoice(_TABLE_SMOOTHING, (), None), None
        if evidence.records is None:
            evidence.connected_tables(2)
        if self.chooses_states and not evidence.bridges_all_pairs:
            problem = replace(problem, rank=_OPEN_STATES)
        if problem.smoothing is None:
            with watch.guard():
                tree, problem = self._chosen_form(problem)
            choice, short = tree._choose_smoothing(problem)
            problem = replace(problem, smoothing=choice.smoothing)
        raced = problem
        if is_large := evidence.records is not None and evidence.records.n_observed > _RACE_CELLS:
            # A sample separates good starts from bad ones, and leads near the end, as well as all records do.
            assert evidence.records is not None
            sample = evidence.records.sample(_RACE_CELLS, seed=problem.seed)
            raced = replace(problem, evidence=Evidence(evidence.schema, records=sample, threads=evidence.threads))
        starts = [short] if short is not None and watch.interrupted else []  # it is the best so far
        while len(starts) < self.n_starts and not (starts and watch.ends()):
            starts.append(self._start(raced.evidence, problem.rank, (problem.seed, len(starts)), watch))
        solver = _RacingTree(counts_tables=tree.counts_tables, edges=self.edges)
        if evidence.records is None:
            solver = _RacingTree(_TABLE_PASSES, _TABLE_TOL, reference=self._reference(problem))
        quick = replace(solver, max_iter=_RACE_PASSES)
        solution = MultiStart.race(quick, [replace(raced, number=n, start=start) for n, start in enumerate(starts)])
        if not watch.ends():
            final, start = replace(solver, max_iter=_FINAL_PASSES) if is_large else solver, solution.pmf
            if solver.reference is not None:
                final, start = solver.nearing(problem, start)
            last = final.solve(replace(problem, start=start))
            solution = replace(last, others=(solution.as_start(), *solution.others))
        return replace(solution, candidates=choice.candidates, held_out=choice.held_out)

    def scored(self, problem: Problem) -> Tree:
        """Return the solver with how well a short fit to records alone predicts the first fold."""
        return replace(self, records_only=replace(self, counts_tables=False)._first_fold(problem))

    def _chosen_form(self, problem: Problem) -> tuple[Tree, Problem]:
        """Return how records are fitted: without their tables only where they are predicted far better so.

        And with another number of states only where that is clearly better.
        """
        tree, best = self, self._first_fold(problem)
        scored = self.records_only or self.scored(problem).records_only
        if best is None or scored is None:
            return tree, problem
        if best.is_behind(scored, FAR_BEHIND):
            tree, best = replace(self, counts_tables=False), scored
        n_records = problem.evidence.sets.records.total_weight
        more = [n_states for n_states in _MORE_STATES if n_states * _RECORDS_PER_STATE <= n_records]
        for n_states in (_FEW_STATES, *more) if self.chooses_states else ():
            if problem.watch.ends():
                break
            other = replace(problem, rank=n_states)
            scored = tree._first_fold(other)
            is_better = scored is not None and best.is_behind(scored, 1.0)
            if scored is not None and is_better:
                best, problem = scored, other
            # Where fewer are better, more are not tried, nor beyond those that are no better.
            if is_better == (n_states == _FEW_STATES):
                break
        return tree, problem

    def _first_fold(self, problem: Problem) -> HeldOut | None:
        """Return how well a short fit predicts the first fold; None without folds or records."""
        evidence = problem.evidence
        if evidence.records is None:
            return None
        folds = held_out_folds(evidence.sample(CHOICE_CELLS, seed=problem.seed), seed=problem.seed)
        if not folds:
            return None
        train, held = folds[0]
        part = Evidence(evidence.schema, records=train, threads=evidence.threads)
        loop = Loop("comparing trees", _PASSES_OF_CHOICE, 1e-5, problem.watch.quiet())
        start = self._start(part, problem.rank, (problem.seed, 0), problem.watch)
        pmf = fit_cells_by_em(self._sets(part), start, self._first_smoothing, loop).pmf
        return held_out_scores(pmf, held, evidence.threads)

    @property
    def _first_smoothing(self) -> Smoothing:
        return _FIRST if self.counts_tables else _FIRST_WITHOUT

    def _sets(self, evidence: Evidence) -> CellSets:
        return evidence.tree_sets(self.edges) if self.counts_tables else evidence.sets

    def _reference(self, problem: Problem) -> Tables | None:
        """Return what tables imply of pairs that they lack; None where they have all, or the time is over."""
        evidence = problem.evidence
        if evidence.has_all_pairs or problem.watch.ends():
            return None
        tables, amount = evidence.tables(2), _RANDOM_SMOOTHING
        if not evidence.has_counts:
            # Shares that add up to one person, or to a hundred, are taken to count as many as tables without a total.
            amount *= min(1.0, float(np.median(tables.weights)) / NOMINAL_TOTAL)
        options = evidence, Smoothing(amount, amount), problem.seed, problem.watch
        power, single = best_reference_power(*options), random_reference(*options)
        return None if problem.watch.ends() else reference_tables(tables, single, power)

    def n_hidden(self, evidence: Evidence) -> int:
        """Return how many hidden variables the tree has."""
        return len(self._shape(evidence).parents)

    def _shape(self, evidence: Evidence) -> TreeShape:
        if self.edges is None and len(evidence.schema) > 1:
            return TreeShape.of_evidence(evidence)
        return TreeShape.of_edges(evidence.schema.names, self.edges or ())

    def _start(self, evidence: Evidence, n_states: int, seeds: tuple[int, int], watch: Watch) -> JointPMF:
        """Return a start, by the second of the seeds: those that lead further come first."""
        schema, shape, (_, number) = evidence.schema, self._shape(evidence), seeds
        if len(schema) > 1 and not evidence.has_all_pairs:
            # Only what a table asks for may lead away from the visible tree.
            return visible_tree_start(evidence, shape, n_states, seeds, spread=_LITTLE_SPREAD)
        start = None
        # What is left open by tables alone stays as near to the visible tree as they allow.
        number += evidence.records is None
        if number == 0:
            loop = Loop("one hidden variable", _FIRST_PASSES, 1e-5, watch.quiet())
            start = spread_start(evidence, shape, n_states, seeds, loop)
        elif number == 1 and len(schema) > 1:
            start = visible_tree_start(evidence, shape, n_states, seeds)
        elif number == 2 and schema.n_categories <= _MOST_SPA_CATEGORIES:
            start = local_spa_start(evidence, shape, n_states, seeds)
        return random_tree_start(schema, shape, n_states, evidence.sets.shares, seeds) if start is None else start

    def _choose_smoothing(self, problem: Problem) -> tuple[SmoothingChoice, JointPMF | None]:
        """Return the smoothing, and one of the short fits by which it was chosen."""
        evidence, watch = problem.evidence, problem.watch
        if not evidence.has_counts:
            amount = _SHARE_SMOOTHING * float(np.median(evidence.tables(2).weights))
            return SmoothingChoice(Smoothing(amount, amount), (), None), None
        if not evidence.bridges_all_pairs:
            return SmoothingChoice(_OPEN_SMOOTHING, (), None), None
        loop = Loop("choosing the smoothing", _PASSES_OF_CHOICE, 1e-5, watch.quiet())
        from_tables = evidence.records is None
        first = _TABLE_SMOOTHING if from_tables else self._first_smoothing
        parts: dict[Records, tuple[Evidence, JointPMF]] = {}

        def refit(train: Records, smoothing: Smoothing) -> JointPMF:
            if train not in parts:
                tables = Tables.count(train) if from_tables else None
                records = None if from_tables else train
                part = Evidence(evidence.schema, records=records, tables=tables, threads=evidence.threads)
                start = self._start(part, problem.rank, (problem.seed, 0), problem.watch)
                # From records, all amounts begin where the first one leads.
                parts[train] = part, start if from_tables else fit(part, start, first)
            return fit(*parts[train], smoothing)

        def fit(part: Evidence, start: JointPMF, smoothing: Smoothing) -> JointPMF:
            return fit_cells_by_em(self._sets(part), start, smoothing, loop).pmf

        # One number for factors and transitions: 1 component leaves them together.
        choice = choose_smoothing(
            evidence.sample(CHOICE_CELLS, seed=problem.seed),
            refit,
            first=first.factors,
            n_components=1,
            seed=problem.seed,
            watch=watch,
            coarse=True,
            is_fixed=from_tables,
            copies=float(evidence.sets.copies.mean()),
            threads=evidence.threads,
        )
        return choice, next((pmf for _, pmf in parts.values()), None)


@dataclass(frozen=True)
class _RacingTree:
    """EM from one start, which the problem gives."""

    max_iter: int = 1500
    tol: float = 3e-7
    counts_tables: bool = False
    edges: tuple[tuple[int, int], ...] | None = None
    reference: Tables | None = field(default=None, compare=False, repr=False)
    """What the given tables leave open, as tables of a joint that has them, which count a little besides."""
    times: Floats | None = field(default=None, compare=False, repr=False)
    """How many times each of the given tables counts, (n_tables,); once by default."""

    name: ClassVar[str] = "tree"

    def solve(self, problem: Problem) -> Solution:
        evidence = problem.evidence
        sets = evidence.tree_sets(self.edges) if self.counts_tables else evidence.sets
        if self.times is not None:
            tables = evidence.tables(2)
            sets = CellSets.of_tables(replace(tables, weights=tables.weights * self.times), "counts", evidence.threads)
        if self.reference is not None:
            sets = sets.beside(self.reference, _REFERENCE[self.reference.order])
        start, smoothing = problem.first_point(sets), problem.given_smoothing
        descent = fit_cells_by_em(sets, start, smoothing, problem.loop(self))
        unit = "mean Kullback-Leibler divergence per pair"
        if evidence.records is not None:
            unit = f"negative log-likelihood per record{' and its two-way tables' if self.counts_tables else ''}"
        solution = problem.solution(self, descent, f"{unit}, penalised" if any(smoothing) else unit)
        return replace(solution, counts_tables=self.counts_tables)

    def nearing(self, problem: Problem, pmf: JointPMF) -> tuple[_RacingTree, JointPMF]:
        """Return a solver for which tables count more the further a model is from them, and its model so far.

        A table of variables that are far apart on the tree would else be met many times later than others. A table of
        few people may be further off than one of many: where they disagree, the model keeps to the larger.
        """
        tables, stage = problem.evidence.tables(2), replace(self, max_iter=_STAGE_PASSES, tol=_STAGE_TOL)
        times = np.ones(len(tables))
        for _ in range(_STAGES):
            if problem.watch.ends():
                break
            pmf = replace(stage, times=times).solve(replace(problem, start=pmf)).pmf
            gaps = modelled_shares(pmf, tables) - tables.shares
            off = np.add.reduceat(np.abs(gaps), tables.starts[:-1]) * tables.weights
            times *= np.clip(off / max(float(off.mean()), 1e-300), 0.5, 2.0)
            times = np.clip(times / times.mean(), 1.0 / _MOST_TIMES, _MOST_TIMES)
        return replace(self, times=times, tol=_LAST_TOL), pmf
