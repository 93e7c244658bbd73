"""Shapes of trees: which variables are neighbours, and which of them have a hidden one; and where their fits begin."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.model.hidden_tree import HiddenTree
from twoway.model.parameters import normalized_factors
from twoway.model.pmf import JointPMF
from twoway.schema import Schema, schema_hash
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.evidence import Evidence
from twoway.solvers.loop import Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.spa import SPA, solve_split_by_spa
from twoway.solvers.starts import random_start, softened_start, start_numbers
from twoway.tables.dependence import dependence_spanning_tree

# A hidden state stands for a category of the variable where it is, but for a little; equal ones differ by a little.
_OPENNESS, _NOISE = 0.05, 0.3
# Copies of a state differ by so much.
_COPY_NOISE = 0.2
# One hidden variable that is spread along the tree: how it is smoothed, and how far neighbours then agree.
_SINGLE_SMOOTHING, _AGREEMENT = Smoothing(4.0, 4.0), 0.9


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
    def of_evidence(cls, evidence: Evidence) -> TreeShape:
        """Return the shape of largest mutual information over the tables there are."""
        tables = evidence.tables(2)
        edges = tables.sets[evidence.is_in_tree].tolist()
        # Variables that no table connects depend on each other through nothing: any edge will do.
        ends = tables.schema.indices(sorted(min(names) for names in tables.components()))
        edges += [(ends[0], end) for end in ends[1:]]
        return cls.of_edges(tables.schema.names, edges)

    @classmethod
    def of_edges(cls, names: Sequence[str], edges: Iterable[tuple[int, int]]) -> TreeShape:
        """Return the hidden variables of a tree of visible ones."""
        n_variables, pairs = len(names), np.array(list(edges), dtype=np.int64).reshape(-1, 2)
        n_neighbours = np.bincount(pairs.ravel(), minlength=n_variables)
        if n_neighbours.max(initial=0) < 2:
            return cls((-1,), (0,) * n_variables, (0,))
        # The root is the vertex with most neighbours, by name where several have: the order of columns must not matter.
        root = max(range(n_variables), key=lambda vertex: (n_neighbours[vertex], names[vertex]))
        vertices, parents = _tree_shape_from_root(root, pairs, n_variables)
        is_inner = n_neighbours[vertices] > 1
        number = np.cumsum(is_inner) - 1
        homes = np.where(is_inner, number, number[parents])[np.argsort(vertices)]
        above = number[parents[is_inner][1:]]
        return cls((-1, *above.tolist()), tuple(homes.tolist()), tuple(vertices[is_inner].tolist()))

    def pmf(
        self, schema: Schema, weights: Floats, transitions: Sequence[Floats], factors: Sequence[Floats]
    ) -> JointPMF:
        """Return the PMF of this shape with these parameters."""
        tree = HiddenTree(self.parents, self.homes, weights, tuple(transitions), tuple(factors))
        return JointPMF.from_tree(schema, tree)


def _tree_shape_from_root(root: int, edges: Ints, n_vertices: int) -> tuple[Ints, Ints]:
    """Return the vertices of a tree, parents before children, and the place of each one's parent; -1 for the root."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    ends = np.vstack([edges, edges[:, ::-1]])
    links = csr_array((np.ones(len(ends)), tuple(ends.T)), shape=(n_vertices, n_vertices))
    vertices, above = breadth_first_order(links, root)
    parents = np.full(len(vertices), -1)
    parents[1:] = np.argsort(vertices)[above[vertices[1:]]]
    return vertices.astype(np.int64), parents


def strongest_tree_shape(strengths: Floats) -> tuple[Ints, Ints]:
    """Return the tree of largest total strength over all pairs (N, N): vertices, parents before children, and parents.

    A parent is a place among the vertices, -1 for the root: the vertex with most neighbours, and of these the first.
    """
    n = len(strengths)
    pairs = np.column_stack(np.triu_indices(n, 1))
    edges = pairs[dependence_spanning_tree(n, pairs, strengths[tuple(pairs.T)].astype(np.float64))]
    root = int(np.bincount(edges.ravel(), minlength=n).argmax())
    return _tree_shape_from_root(root, edges, n)


def random_tree_start(
    schema: Schema, shape: TreeShape, n_states: int, shares: Floats, seeds: Sequence[int]
) -> JointPMF:
    """Return a tree of equal weights, with random factors around the variables' overall shares (n_categories,).

    What is drawn for a variable depends on its name, not on its place: the order of columns must not matter.
    """

    def transition(name: str) -> Floats:
        random = np.random.default_rng([*seeds, schema_hash(f"behind {name}")])
        drawn = random.exponential(size=(n_states, n_states)) + 0.05
        return np.asarray(drawn / drawn.sum(axis=0))

    single = random_start(schema, n_states, shares, seeds)
    transitions = [transition(schema.names[owner]) for owner in shape.owners[1:]]
    return shape.pmf(schema, single.weights, transitions, single.factors)


def visible_tree_start(
    evidence: Evidence, shape: TreeShape, n_states: int, seeds: Sequence[int], *, spread: float = 1.0
) -> JointPMF:
    """Return the tree of the visible variables themselves: hidden states stand for the categories of their owners.

    Variables that are not neighbours are independent given those between them: what tables do not say is not invented.
    States that stand for the same category differ a little, so that a fit can part them: by ``spread``,
    of which 0 is the visible tree itself.
    """
    schema, shares = evidence.schema, evidence.sets.shares
    of_variable = [shares[schema.cells(index)] for index in range(len(schema))]
    of_set = {tuple(pair): table for table, pair in enumerate(evidence.tables(2).sets.tolist())}
    generators = [np.random.default_rng([*seeds, schema_hash(name)]) for name in schema.names]
    noise, openness = spread * _NOISE, spread * _OPENNESS
    # (n_states, categories of the owner): the states that stand for each category.
    states = []
    for owner in shape.owners:
        stands = _states_of_categories(of_variable[owner], n_states, noise, generators[owner])
        open_to = generators[owner].dirichlet(np.ones(n_states), stands.shape[1]).T
        states.append((1.0 - openness) * stands + openness * open_to)

    def table(first: int, second: int) -> Floats:
        plain = np.outer(of_variable[first], of_variable[second])
        if (place := of_set.get((min(first, second), max(first, second)))) is None:
            return plain
        counts = evidence.tables(2).array(place)
        observed = counts if first < second else counts.T
        return np.asarray(0.98 * observed / observed.sum() + 0.02 * plain)

    def columns(joint: Floats, random: np.random.Generator) -> Floats:
        moved = joint.T * (1.0 + noise * random.random(joint.T.shape))
        return np.asarray(moved / moved.sum(axis=0))

    factors = []
    for index, (home, random) in enumerate(zip(shape.homes, generators, strict=True)):
        owner = shape.owners[home]
        with_owner = np.diag(of_variable[owner]) if owner == index else table(owner, index)
        factors.append(columns(states[home] @ with_owner, random))
    edges = enumerate(zip(shape.owners[1:], shape.parents[1:], strict=True), start=1)
    transitions = [
        columns(states[parent] @ table(shape.owners[parent], owner) @ states[child].T, generators[owner])
        for child, (owner, parent) in edges
    ]
    weights = states[0] @ of_variable[shape.owners[0]]
    return shape.pmf(schema, weights / weights.sum(), transitions, factors)


def _states_of_categories(shares: Floats, n_states: int, noise: float, random: np.random.Generator) -> Floats:
    """Return how states stand for categories, (n_states, n_categories): columns sum to one.

    Several states stand for a frequent category; neighbouring categories share a state where states are fewer.
    """
    n_categories = len(shares)
    if n_categories > n_states:
        middles = np.cumsum(shares) - shares / 2.0
        of_state = np.minimum((middles / shares.sum() * n_states).astype(int), n_states - 1)
        stands = (np.arange(n_states)[:, None] == of_state).astype(np.float64)
    else:
        counts = np.ones(n_categories, dtype=int)
        for _ in range(n_states - n_categories):
            counts[np.argmax(shares / counts)] += 1
        stands = (np.repeat(np.arange(n_categories), counts)[:, None] == np.arange(n_categories)) / counts
        stands *= 1.0 + noise * random.random(stands.shape)
        stands /= stands.sum(axis=0)
    # A state that stands for nothing is like all.
    return np.asarray((stands + 1e-9) / (stands + 1e-9).sum(axis=0))


def spread_start(evidence: Evidence, shape: TreeShape, n_states: int, seeds: Sequence[int], loop: Loop) -> JointPMF:
    """Return a short fit of one hidden variable, spread along the tree: neighbours are mostly in the same state."""
    schema, shares = evidence.schema, evidence.sets.shares
    start = random_start(schema, n_states, shares, seeds)
    single = softened_start(fit_cells_by_em(evidence.sets, start, _SINGLE_SMOOTHING, loop).pmf, shares)
    same = _AGREEMENT * np.eye(n_states) + (1.0 - _AGREEMENT) * single.weights[:, None]
    return shape.pmf(schema, single.weights, [same] * (len(shape.parents) - 1), single.factors)


def local_spa_start(evidence: Evidence, shape: TreeShape, n_states: int, seeds: Sequence[int]) -> JointPMF | None:
    """Return CNMF-SPA's solution at each hidden variable, put together; None where a table is missing.

    Given a hidden variable, what lies on different sides of it is independent: the tables between sides are those of
    the paper's model. The states of neighbours are then matched by what both say of the variables beyond the edge.
    """
    from scipy.optimize import nnls

    if not evidence.has_all_pairs:
        return None
    schema, pairs, shares = evidence.schema, evidence.pairs, evidence.sets.shares
    plain = random_tree_start(schema, shape, n_states, shares, seeds).trees.trees[0]
    local, below = [], np.eye(len(shape.parents), dtype=bool)
    for number, owner in enumerate(shape.owners):
        own_seeds = (*seeds, schema_hash(schema.names[owner]))
        side = np.array(plain.seen_from(number)[1])
        between = replace(pairs, weights=np.where(side[:, None] != side, pairs.weights, 0.0))
        most = next((rank for rank in range(n_states, 0, -1) if between.can_carry(rank)), 0)
        split = next(SPA().splits(between, most, own_seeds), None) if most else None
        if split is None:
            return None
        pmf = softened_start(solve_split_by_spa(between, split, most, exact=False), shares)
        # Where there are more states than SPA can find, several begin as almost the same.
        copies = np.arange(n_states) % most
        noise = 1.0 + _NOISE * start_numbers(schema, n_states, own_seeds)
        stacked = pmf.stacked[:, copies] * (noise if most < n_states else 1.0)
        weights = (pmf.weights / np.bincount(copies))[copies]
        local.append(JointPMF.from_stacked(schema, weights, normalized_factors(schema, stacked)))
    for child, parent in reversed(list(enumerate(shape.parents))[1:]):
        below[parent] |= below[child]
    transitions = []
    for child, parent in list(enumerate(shape.parents))[1:]:
        is_beyond = np.repeat(below[child][list(shape.homes)], schema.sizes)
        given_child, given_parent = local[child].stacked[is_beyond], local[parent].stacked[is_beyond]
        columns = np.column_stack([nnls(given_child, column)[0] for column in given_parent.T]) + _OPENNESS / n_states
        transitions.append(columns / columns.sum(axis=0))
    factors = [local[home].factors[index] for index, home in enumerate(shape.homes)]
    return shape.pmf(schema, local[0].weights, transitions, factors)


def with_more_states(pmf: JointPMF, least: int, names: Collection[str]) -> JointPMF:
    """Return nearly the same model with at least ``least`` states of each hidden variable.

    Several states begin as copies that differ a little in the variables named, so that a fit can part them.
    """
    (tree,) = pmf.trees.trees
    random = np.random.default_rng(0)
    copies = [-(-least // n_states) for n_states in tree.n_states]

    def repeated(matrix: Floats, rows: int, columns: int, noise: float = 0.0) -> Floats:
        """Return a matrix with copies of states, in rows and in columns; columns still sum to one."""
        wide = np.repeat(np.repeat(matrix, rows, axis=0), columns, axis=1)
        wide = random.uniform(wide, (1.0 + noise) * wide)
        return np.asarray(wide / wide.sum(axis=0))

    weights = repeated(tree.weights[:, None], copies[0], 1)[:, 0]
    edges = zip(tree.transitions, copies[1:], tree.parents[1:], strict=True)
    transitions = tuple(repeated(matrix, n_rows, copies[parent]) for matrix, n_rows, parent in edges)
    noise = [_COPY_NOISE * (name in names) for name in pmf.schema.names]
    factors = tuple(repeated(tree.factors[n], 1, copies[home], noise[n]) for n, home in enumerate(tree.homes))
    wider = HiddenTree(tree.parents, tree.homes, weights, transitions, factors)
    return JointPMF.from_tree(pmf.schema, wider)
