"""Hidden variables on a tree: its shape by Chow and Liu (1968) from the two-way tables, its parameters by EM.

The variables that depend on each other most are neighbours in the tree of largest mutual information. Each inner vertex
of that tree becomes a hidden variable, to which the vertex itself and its neighbours without further ones are attached:
a hidden Chow-Liu tree (Liu and Van den Broeck, 2021). With one inner vertex it is the model of the paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from twoway.arrays import Floats, times_log
from twoway.data.records import Records
from twoway.model.hidden_tree import HiddenTree
from twoway.model.pmf import JointPMF
from twoway.model.trees import Trees
from twoway.schema import Schema, schema_hash
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.loop import Loop
from twoway.solvers.problem import Problem, Smoothing, Solution
from twoway.solvers.tuning import Candidates, HeldOut, held_out_scores
from twoway.tables.tables import Tables

# Observed cells on which smoothing is chosen: more would say the same.
_SAMPLE_CELLS = 300_000
_N_FOLDS = 5
# Pseudo-records of factors and of transitions that are compared on held-out records.
_SMOOTHINGS = tuple(Smoothing(factors, weights) for factors in (0.5, 1.0, 2.0, 4.0) for weights in (1.0, 2.0))
# Without held-out counts, as many per person as are little from tables.
_TABLE_SMOOTHING = Smoothing(0.1, 0.1)
_PASSES_OF_CHOICE = 120
USUAL_STATES = 6
"""States of each hidden variable, unless the caller says how many: predictions hardly depend on it."""
_NO_CANDIDATES: Candidates = ()


@dataclass(frozen=True)
class TreeShape:
    """Which hidden variables there are, and what is attached to each."""

    parents: tuple[int, ...]
    """The parent of each hidden variable, a smaller number; -1 for the root."""
    homes: tuple[int, ...]
    """The hidden variable of each visible one."""
    owners: tuple[int, ...]
    """The visible variable that stands where each hidden one is."""

    @classmethod
    def of_tables(cls, tables: Tables) -> TreeShape:
        """Return the shape of largest mutual information over the tables there are."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import minimum_spanning_tree

        n = len(tables.schema)
        information = corrected_information(tables)
        # A length of 0 would be no edge.
        lengths = information.max(initial=0.0) - information + 1.0
        first, second = tables.sets.T
        edges = minimum_spanning_tree(coo_array((lengths, (first, second)), shape=(n, n)).tocsr()).tocoo()
        return cls.of_edges(tables.schema.names, zip(edges.row.tolist(), edges.col.tolist(), strict=True))

    @classmethod
    def of_edges(cls, names: Sequence[str], edges: Iterable[tuple[int, int]]) -> TreeShape:
        """Return the hidden variables of a tree of visible ones."""
        n_variables = len(names)
        neighbours: list[list[int]] = [[] for _ in range(n_variables)]
        for one, other in edges:
            neighbours[one].append(other)
            neighbours[other].append(one)
        is_inner = [len(some) > 1 for some in neighbours]
        if not any(is_inner):
            return cls((-1,), (0,) * n_variables, (0,))
        # The root is the vertex with most neighbours, by name where several have: the order of columns must not matter.
        root = max(range(n_variables), key=lambda vertex: (len(neighbours[vertex]), names[vertex]))
        owners, parents, number = [root], [-1], {root: 0}
        for here in owners:
            for other in sorted(neighbours[here]):
                if is_inner[other] and other not in number:
                    number[other] = len(owners)
                    owners.append(other)
                    parents.append(number[here])
        homes = [number[v] if is_inner[v] else number[neighbours[v][0]] for v in range(n_variables)]
        return cls(tuple(parents), tuple(homes), tuple(owners))


def corrected_information(tables: Tables) -> Floats:
    """Return the mutual information of each two-way table in nats, less what chance would make of independence."""
    schema, sets = tables.schema, tables.sets
    table = np.repeat(np.arange(len(tables)), np.diff(tables.starts))
    cells = tables.cells(np.arange(len(tables.flat)))
    shares = tables.flat / tables.totals[table]
    information = np.bincount(table, times_log(shares, shares), len(tables))
    n_seen = []
    for axis in (0, 1):
        sizes = np.array(schema.sizes)[sets[:, axis]]
        starts = np.cumsum([0, *sizes[:-1]])
        places = starts[table] + cells[:, axis] - schema.offsets[sets[table, axis]]
        margins = np.asarray(np.bincount(places, shares, sizes.sum()), dtype=np.float64)
        information -= np.add.reduceat(times_log(margins, margins), starts)
        n_seen.append(np.add.reduceat(margins > 0, starts, dtype=np.int64))
    chance = (n_seen[0] - 1) * (n_seen[1] - 1) / (2.0 * np.maximum(tables.weights, 1.0))
    return np.asarray(information - chance)


def random_tree_start(
    schema: Schema, shape: TreeShape, n_states: int, shares: Floats, seeds: Sequence[int]
) -> JointPMF:
    """Return a tree of equal weights, with random factors around the variables' overall shares (n_categories,).

    What is drawn for a variable depends on its name, not on its place: the order of columns must not matter.
    """

    def columns(name: str, around: Floats) -> Floats:
        random = np.random.default_rng([*seeds, schema_hash(name)])
        drawn = around[:, None] * (random.exponential(size=(len(around), n_states)) + 0.05)
        return np.asarray(drawn / drawn.sum(axis=0))

    equal = np.full(n_states, 1.0 / n_states)
    tree = HiddenTree(
        shape.parents,
        shape.homes,
        equal,
        tuple(columns(f"behind {schema.names[owner]}", equal) for owner in shape.owners[1:]),
        tuple(columns(name, shares[schema.cells(index)]) for index, name in enumerate(schema.names)),
    )
    return JointPMF.from_trees(schema, Trees(np.ones(1), (tree,)))


@dataclass(frozen=True)
class Tree:
    """Hidden variables on a tree, as many states each as the rank says, from records or from two-way tables."""

    n_starts: int = 3
    """Random starts, of which the best is taken."""
    max_iter: int = 600
    """Passes over the records."""
    tol: float = 1e-7
    """Stop when each of three cycles of up to three passes lowers the objective by less than this share."""

    name: ClassVar[str] = "tree"

    def solve(self, problem: Problem) -> Solution:
        """Return the best of several starts."""
        evidence = problem.evidence
        has_pairs = len(evidence.schema) > 1
        shape = TreeShape.of_tables(evidence.connected_tables(2)) if has_pairs else TreeShape((-1,), (0,), (0,))
        sets, candidates = evidence.sets, _NO_CANDIDATES
        if problem.smoothing is None:
            smoothing = _TABLE_SMOOTHING
            if evidence.records is not None:
                sample = evidence.records.sample(_SAMPLE_CELLS, seed=problem.seed)
                smoothing, candidates = self._choose_smoothing(problem, shape, sample)
            problem = replace(problem, smoothing=smoothing)
        solutions = []
        for number in range(self.n_starts):
            start = random_tree_start(sets.schema, shape, problem.rank, sets.shares, (problem.seed, number))
            descent = fit_cells_by_em(sets, start, problem.given_smoothing, problem.loop(self))
            solutions.append(problem.solution(self, descent, "negative penalised log-likelihood per record"))
        solutions.sort(key=lambda solution: solution.objectives[-1])
        others = tuple(solution.as_start() for solution in solutions[1:])
        return replace(solutions[0], others=others, candidates=candidates)

    def _choose_smoothing(self, problem: Problem, shape: TreeShape, sample: Records) -> tuple[Smoothing, Candidates]:
        """Return the smoothing that predicts held-out records best, and all that were compared."""
        sets = problem.evidence.sets
        folds = sample.folds(_N_FOLDS, seed=problem.seed)
        loop = Loop("choosing the smoothing", _PASSES_OF_CHOICE, 1e-5, problem.watch.quiet())
        start = random_tree_start(sets.schema, shape, problem.rank, sets.shares, (problem.seed, 0))

        def evaluate(smoothing: Smoothing) -> HeldOut:
            fits = [fit_cells_by_em(sets.with_records(train), start, smoothing, loop).pmf for train, _ in folds]
            return HeldOut.of_folds(held_out_scores(pmf, held) for pmf, (_, held) in zip(fits, folds, strict=True))

        if not folds:
            return _SMOOTHINGS[-1], ()
        scores = {smoothing: evaluate(smoothing) for smoothing in _SMOOTHINGS}
        candidates = tuple(
            {"smoothing": smoothing.factors, "weight_smoothing": smoothing.weights, "held_out": score.mean}
            for smoothing, score in scores.items()
        )
        best = max(scores.values(), key=lambda score: score.mean)
        # Folds are smaller than the whole, and ask for more smoothing: take the least that is as good within chance.
        for smoothing, score in sorted(scores.items()):
            loss, error = score.behind(best)
            if loss <= error:
                return smoothing, candidates
        raise AssertionError("the best candidate is as good as itself")
