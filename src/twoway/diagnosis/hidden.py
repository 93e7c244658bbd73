"""What two-way tables show about each hidden variable of a tree.

Take one hidden variable away, and the visible ones fall into sides: each that is attached to it, and what lies beyond
each of its neighbours. Given its state the sides are independent, so that the tables between sides are those of the
paper's model, with this one hidden variable. Tables within a side are not, and count as not available.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from twoway.diagnosis.alternatives import distance_to_alternatives, far_alternatives, same_table_alternatives
from twoway.diagnosis.conditions import HiddenVerdict, check_conditions, three_way_tables_prove
from twoway.diagnosis.verdict import Diagnosis
from twoway.errors import DataError
from twoway.model.hidden_tree import HiddenTree
from twoway.model.pmf import JointPMF
from twoway.report import Progress
from twoway.schema import Schema, Variable
from twoway.solvers import Watch
from twoway.tables.pair_graph import PairGraph


def diagnose_hidden(findings: Diagnosis, pmf: JointPMF, graph: PairGraph, seed: int, watch: Watch) -> Diagnosis:
    """Return the findings with what the exact tables of a tree show about its hidden variables."""
    if len(pmf.trees.trees) > 1:
        raise DataError(
            f"diagnose judges one tree, and this model is a mixture of {len(pmf.trees.trees)}, which two-way tables do "
            "not determine; fit one with structure='tree', or diagnose the models that were averaged"
        )
    random, distance = np.random.default_rng(seed), distance_to_alternatives(pmf, seed)
    (tree,) = pmf.trees.trees
    hidden, models, names = [], [], np.array(pmf.schema.names, dtype=object)
    for number in range(tree.n_hidden):
        watch.show(Progress("checking hidden variables", number, tree.n_hidden))
        alone, side_of = tree.seen_from(number)
        local, sides = JointPMF.from_tree(pmf.schema, alone), np.array(side_of)
        attached = names[np.array(tree.homes) == number].tolist()
        between = PairGraph(graph.available & (sides[:, None] != sides), pmf.schema.sizes)
        n_sides = len(np.unique(sides))
        checks, _, is_proven = check_conditions(local, between, 0.0, random) if n_sides > 2 else ((), None, True)
        walks = _other_hidden_states(tree.rooted_at(number), random, 2)
        others = [JointPMF.from_tree(pmf.schema, other) for other in walks]
        models += others
        variables = tuple(attached or names[np.unique(sides, return_index=True)[1]])
        verdict = HiddenVerdict(
            variables,
            n_states=local.rank,
            n_sides=n_sides,
            is_proven=is_proven,
            by_three_way=three_way_tables_prove(local, between),
            ambiguity=max(map(distance, others), default=0.0),
            checks=checks,
        )
        hidden.append(verdict)
    # Other states of one hidden variable after the other: the tables still stay the same, and the joint moves on.
    for _ in range(2 * tree.n_hidden):
        tree = next(_other_hidden_states(tree.rooted_at(int(random.integers(tree.n_hidden))), random, 1), tree)
    models.append(JointPMF.from_tree(pmf.schema, tree))
    joints = far_alternatives(pmf, graph, random)
    return replace(
        findings,
        hidden=tuple(hidden),
        checks=tuple(verdict.check for verdict in hidden),
        is_proven=all(verdict.is_proven for verdict in hidden),
        ambiguity=max(distance(models[-1]), *(verdict.ambiguity for verdict in hidden)),
        any_joint=joints[0][1] if joints else None,
        models=(pmf, *models),
    )


def _other_hidden_states(tree: HiddenTree, random: np.random.Generator, n_walks: int) -> Iterator[HiddenTree]:
    """Yield trees with the same tables whose root has other states; its neighbours stay, as if they were visible."""
    attached = [variable for variable, home in enumerate(tree.homes) if home == 0]
    near = [child - 1 for child, parent in enumerate(tree.parents) if parent == 0]
    factors = [*(tree.factors[variable] for variable in attached), *(tree.transitions[child] for child in near)]
    schema = Schema(tuple(Variable(str(n), tuple(range(len(factor)))) for n, factor in enumerate(factors)))
    around = JointPMF.from_stacked(schema, tree.weights, np.vstack(factors))
    all_tables = PairGraph(np.ones((len(schema), len(schema)), dtype=bool), schema.sizes)
    for other in same_table_alternatives(around, all_tables, random, n_walks):
        changed, transitions = list(tree.factors), list(tree.transitions)
        for place, variable in enumerate(attached):
            changed[variable] = other.factors[place]
        for place, child in enumerate(near, start=len(attached)):
            transitions[child] = other.factors[place]
        yield replace(tree, weights=other.weights, transitions=tuple(transitions), factors=tuple(changed))
