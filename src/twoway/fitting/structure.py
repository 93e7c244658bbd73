"""One hidden variable, several on a tree, or a mixture of trees: whichever predicts better what was held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from twoway.arrays import times_log
from twoway.checks.fit_quality import check_fit_quality
from twoway.errors import DataError, check_known
from twoway.model.parameters import normalized_factors
from twoway.model.pmf import JointPMF
from twoway.report import FitCheck, StopReason
from twoway.schema import Schema
from twoway.solvers import Evidence, Problem, Smoothing, Solution, Solver
from twoway.solvers.em import fit_near_by_em
from twoway.solvers.heldout import FAR_BEHIND, HeldOut
from twoway.solvers.loop import Descent, Loop
from twoway.solvers.rank import RankChoice, choose_rank_from
from twoway.solvers.tree import USUAL_STATES, Tree
from twoway.solvers.tree_mixture import Mixture, MixtureChoice, can_be_mixture, choose_mixture
from twoway.solvers.tree_starts import with_more_states
from twoway.tables.tables import Tables

Structure: TypeAlias = Literal["auto", "single", "tree", "mixture"] | Sequence[tuple[str, str]]
"""The hidden variables of a model: one; several on a tree; a mixture of trees, each with a shape of its own; or several
on a tree with these pairs of neighbours."""

# A fit ends with a look at so many tables, with so many cells together; at a random part of them where there are more.
_MOST_COMPARED = 20_000
_MOST_COMPARED_CELLS = 2**22
# With more variables, trees are fitted only when asked for: they would take many minutes.
_MOST_VARIABLES = 1000
# Tables of so many people are met closely, with so many states.
_LARGE_TABLE, _STATES_TO_MEET = 10_000, 64
_PASSES_TO_MEET, _TOL_TO_MEET = 3000, 1e-5
# A gain in the logarithm of the likelihood of all people together that no one would notice.
_SMALL_GAIN = 0.1
# People of all states together by which these are drawn to where they began: what tables of pairs leave open stays so.
_PSEUDO_PEOPLE = 2.0
# A single table of so many people per cell is the joint itself, but for a little.
_PEOPLE_PER_CELL, _LITTLE_SMOOTHING = 5.0, 0.02
_ONE_IS_ENOUGH = "one hidden variable describes all two-way tables up to chance"
_NOT_COMPARED = "the fit ended before one hidden variable was compared with several on a tree"


@dataclass(frozen=True)
class FittedStructure:
    """A solution, the problem that it solves, and how both were chosen."""

    solver: str
    """Its name."""
    problem: Problem
    solution: Solution
    rank_choice: RankChoice | None = None
    reason: str = ""
    """Why one hidden variable, or several, in words; empty where nothing was compared."""

    @property
    def held_out(self) -> HeldOut | None:
        """How well such fits predict what was held out, where that is known."""
        return self.solution.held_out or (self.rank_choice.held_out if self.rank_choice else None)


def structure_edges(structure: Any, schema: Schema) -> tuple[tuple[int, int], ...] | None:
    """Return the pairs of neighbours of a structure, None where it leaves them open; raise where they are no tree."""
    if isinstance(structure, str):
        check_known("structure", get_args(get_args(Structure)[0]), structure)
        return None
    try:
        pairs = [(str(first), str(second)) for first, second in structure]
    except (TypeError, ValueError):
        raise DataError(
            "structure must be 'auto', 'single', 'tree', 'mixture' or pairs of names such as [('age', 'vote')]; "
            f"got {structure!r}"
        ) from None
    edges = [(int(first), int(second)) for first, second in map(schema.indices, pairs)]
    linked = np.arange(len(schema))
    for pair, (first, second) in zip(pairs, edges, strict=True):
        if linked[first] == linked[second]:
            raise DataError(f"the edges of a tree must not form a cycle; {pair} closes one")
        linked[linked == linked[second]] = linked[first]
    if len(edges) != len(schema) - 1:
        apart = schema.names[int(np.flatnonzero(linked != linked[0])[0])]
        raise DataError(f"the edges must connect all variables; nothing connects {apart!r} with {schema.names[0]!r}")
    return tuple(edges)


def fit_structure(
    structure: Structure, problem: Problem, rank: int | None, solver: Solver, tree: Tree, mixture: Mixture
) -> FittedStructure:
    """Return the fit of a structure, or with "auto" of the best, each by its solver."""
    match structure:
        case "single":
            return fit_single_structure(problem, rank, solver)
        case "tree":
            return fit_tree_structure(problem, rank, tree)
        case "mixture":
            return fit_mixture_structure(problem, rank, mixture)
    return fit_structure_closer(_fit_best_structure(problem, solver, tree, mixture))


def fit_single_structure(
    problem: Problem, rank: int | None, solver: Solver, choice: RankChoice | None = None
) -> FittedStructure:
    """Return the fit of one hidden variable, of a given rank, of the one chosen or of the best."""
    if rank is None and choice is None:
        choice = choose_rank_from(problem.evidence, None, seed=problem.seed, watch=problem.watch)
    problem = replace(problem, rank=rank or (choice.rank if choice else 1))
    if choice is not None and problem.watch.interrupted:
        # The short fit by which the rank was chosen is the best so far.
        problem = replace(problem, start=choice.pmf)
    return FittedStructure(solver.name, problem, solver.solve(problem), choice)


def fit_tree_structure(problem: Problem, n_states: int | None, tree: Tree) -> FittedStructure:
    """Return the fit of several hidden variables on a tree."""
    solution = replace(tree, chooses_states=n_states is None).solve(replace(problem, rank=n_states or USUAL_STATES))
    return FittedStructure(tree.name, replace(problem, rank=solution.pmf.rank), solution)


def fit_mixture_structure(problem: Problem, n_trees: int | None, mixture: Mixture) -> FittedStructure:
    """Return the fit of a mixture of trees."""
    if problem.evidence.records is None:
        raise DataError("structure 'mixture' needs records, and there are only tables; 'tree' fits tables")
    return _fit_chosen_mixture(problem, choose_mixture(problem, n_trees), mixture, n_trees is None)


def _fit_chosen_mixture(problem: Problem, choice: MixtureChoice, mixture: Mixture, more_trees: bool) -> FittedStructure:
    choice = choice.with_more_trees(problem) if more_trees else choice
    problem = replace(problem, rank=choice.n_trees, smoothing=choice.smoothing)
    solution = replace(mixture.solve(problem), candidates=choice.candidates, held_out=choice.held_out)
    return FittedStructure(mixture.name, problem, solution)


def _fit_best_structure(problem: Problem, solver: Solver, tree: Tree, mixture: Mixture) -> FittedStructure:
    """Return the best of one hidden variable, a tree and a mixture of trees; the first where others are not clearly so.

    A mixture is tried where even the best of the others leaves tables off, or where it was not tried at all.
    """
    if _is_one_table(problem.evidence):
        return _fit_one_table(problem, solver)
    best = _fit_better_structure(problem, solver, tree)
    rival, watch = best.held_out, problem.watch
    if rival is None or watch.interrupted or best.reason == _ONE_IS_ENOUGH or not can_be_mixture(problem.evidence):
        return best
    choice = choose_mixture(problem, None, rival)
    if choice.held_out is None:
        return best
    gain, error = rival.behind(choice.held_out)
    n_hidden = best.solution.pmf.n_hidden
    other = "one hidden variable" if n_hidden == 1 else f"{n_hidden} hidden variables on one tree"
    verdict = "predicts better than" if gain > error else "does not clearly predict better than"
    verdict = "predicts worse than" if gain < -error else verdict
    reason = _structure_verdict(f"a mixture of {choice.n_trees} trees {verdict} {other}", rival, gain, error, "record")
    if gain > error:
        with watch.guard():
            return replace(_fit_chosen_mixture(problem, choice, mixture, more_trees=True), reason=reason)
        reason += ", but the time limit was reached"
    return replace(best, reason="; ".join(filter(None, (best.reason, reason))))


def _is_one_table(evidence: Evidence) -> bool:
    """Return whether a two-way table is all there is, of enough people that it is not mostly chance."""
    if evidence.records is not None or len(evidence.schema) != 2 or not evidence.has_counts:
        return False
    return float(evidence.tables(2).weights[0]) >= _PEOPLE_PER_CELL * math.prod(evidence.schema.sizes)


def _fit_one_table(problem: Problem, solver: Solver) -> FittedStructure:
    """Return a two-way table as a model, whose components are the categories of the variable that has fewer."""
    tables = problem.evidence.tables(2)
    # So small a part of a person in each cell that only empty ones notice.
    cells = tables.array(0) + _LITTLE_SMOOTHING / tables.flat.size
    is_tall = cells.shape[0] > cells.shape[1]
    plain = np.eye(min(cells.shape))
    factors = normalized_factors(tables.schema, np.vstack((cells, plain) if is_tall else (plain, cells.T)))
    weights = cells.sum(axis=0 if is_tall else 1)
    pmf = JointPMF.from_stacked(tables.schema, weights / weights.sum(), factors)
    observed = tables.array(0) / tables.totals[0]
    divergence = float(times_log(observed, observed * cells.sum() / cells).sum())
    problem = replace(problem, rank=pmf.rank, smoothing=Smoothing(_LITTLE_SMOOTHING, _LITTLE_SMOOTHING))
    descent = Descent(pmf, (max(divergence, 0.0),), StopReason.DIRECT)
    solution = problem.solution(solver, descent, "Kullback-Leibler divergence of the table")
    reason = "there is only one table, of two variables: the model is that table"
    return FittedStructure(solver.name, problem, solution, reason=reason)


def fit_structure_closer(fitted: FittedStructure) -> FittedStructure:
    """Return a fit that meets large tables more closely, where it is off by more than chance and all pairs have one.

    A choice by what was held out stops where more states predict no better. Whoever compares a model with published
    tables of many people wants these met: so the fit goes on with more states, drawn a little toward where it began.
    """
    problem, solution = fitted.problem, fitted.solution
    evidence, watch = problem.evidence, problem.watch
    is_tables = evidence.records is None and evidence.given_order == 2
    if not is_tables or not evidence.has_all_pairs or not evidence.has_counts or watch.ends():
        return fitted
    check = check_structure(solution.pmf, problem)[1]
    if check is None or check.n_off == 0 or float(evidence.tables(2).weights.min()) < _LARGE_TABLE:
        return fitted
    names = evidence.schema.names
    start = with_more_states(solution.pmf, _STATES_TO_MEET, names)
    small = _SMALL_GAIN / (_TOL_TO_MEET * evidence.sets.records.total_weight)
    loop = Loop("meeting the tables", _PASSES_TO_MEET, _TOL_TO_MEET, watch, small=small)
    descent = fit_near_by_em(evidence.sets, start, _PSEUDO_PEOPLE, loop)
    amount, others = _PSEUDO_PEOPLE / start.rank, (solution.as_start(), *solution.others)
    closer = replace(solution, **vars(descent), smoothing=Smoothing(amount, amount), others=others)
    what = (
        f"{check.n_off} of {check.n_compared} tables were off by more than chance, so the fit went on with more states"
    )
    return replace(fitted, solution=closer, reason="; ".join(filter(None, (fitted.reason, what))))


def _fit_better_structure(problem: Problem, solver: Solver, tree: Tree) -> FittedStructure:
    """Return the better of the two; one hidden variable where several are not clearly better."""
    evidence, watch, is_records = problem.evidence, problem.watch, problem.evidence.records is not None
    # Of two visible variables, one hidden one is enough.
    can_be_tree = 2 < len(evidence.schema) <= _MOST_VARIABLES and evidence.given_order == 2
    if can_be_tree and not (evidence.bridges_all_pairs and evidence.has_counts):
        reason = "the tables do not say how many records they count: a tree makes the fewest assumptions"
        if not evidence.bridges_all_pairs:
            reason = "some pairs have no table: a tree derives them from the other tables"
        return replace(fit_tree_structure(problem, None, tree), reason=reason)
    choice = choose_rank_from(evidence, None, seed=problem.seed, watch=watch)
    several, reason = None, ""
    if can_be_tree and choice.pmf is not None and (watch.ends() or tree.n_hidden(evidence) > 1):
        reason, tree = _why_single_structure(problem, choice.pmf, choice.held_out, tree)
        if not reason:
            with watch.guard():
                several = fit_tree_structure(problem, None, tree)
    if several is None:
        return replace(fit_single_structure(problem, None, solver, choice), reason=reason)
    best, held_out, of_several = several, choice.held_out, several.solution.held_out
    if held_out is None or of_several is None or not held_out.is_behind(of_several, FAR_BEHIND):
        best = fit_single_structure(problem, None, solver, choice)
        held_out = best.held_out
    if held_out is None or of_several is None:
        little = "there is too little data to compare one hidden variable with several"
        return replace(best, reason=_NOT_COMPARED if watch.interrupted else little)
    gain, error = held_out.behind(of_several)
    # A person is counted in many tables.
    error *= math.sqrt(evidence.sets.total_copies)
    verdict, unit = "do not clearly predict better than one", "record" if is_records else "count of the tables"
    # Held-out counts of tables say nothing of more than two variables, where a tree assumes less.
    if gain > (error if is_records else -error):
        best = several
        verdict = "predict better than one" if gain > error else "predict as well as one, and assume less"
    what = f"{several.solution.pmf.n_hidden} hidden variables on a tree {verdict}"
    return replace(best, reason=_structure_verdict(what, held_out, gain, error, unit))


def _why_single_structure(problem: Problem, pmf: JointPMF, held_out: HeldOut | None, tree: Tree) -> tuple[str, Tree]:
    """Return why one hidden variable is enough, by a short fit of it; empty where several are to be tried.

    And the solver of these, with what is known of how they predict.
    """
    if not problem.watch.interrupted:
        check = check_structure(pmf, problem)[1]
        if check is None or check.n_off == 0:
            return _ONE_IS_ENOUGH, tree
        tree = tree.scored(replace(problem, rank=USUAL_STATES))
    if problem.watch.interrupted:
        return _NOT_COMPARED, tree
    if held_out is not None and tree.records_only is not None and tree.records_only.is_behind(held_out, FAR_BEHIND):
        return "one hidden variable predicts held-out records far better than several on a tree", tree
    return "", tree


def _structure_verdict(what: str, rival: HeldOut, gain: float, error: float, unit: str) -> str:
    """Return a verdict with the numbers behind it: what is gained over a rival, and the standard error of that."""
    return (
        f"{what}: {rival.mean + gain:.3f} against {rival.mean:.3f} nats per held-out {unit}, "
        f"standard error of the difference {error:.3f}"
    )


def check_structure(pmf: JointPMF, problem: Problem) -> tuple[Tables, FitCheck | None]:
    """Return tables of the evidence, and in how many of them a model is off by more than chance."""
    tables, n_tables = problem.evidence.compared_tables(_MOST_COMPARED, _MOST_COMPARED_CELLS, seed=problem.seed)
    return tables, check_fit_quality(pmf, tables, n_tables)
