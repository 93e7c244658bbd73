"""What published tables say of pairs that they lack: a joint that has the tables, and commits to little else.

Of all joints with given tables, iterative proportional fitting (Deming and Stephan, 1940) finds the one of least
relative entropy from where it begins. From independence that is the joint of maximum entropy: variables depend on each
other only as far as the tables between them make them. Real variables mostly have more in common than that; so it
begins on the way from independence to the mean of random models of one hidden variable, but only among variables that
tables connect in a circle. Where a single variable is all that connects two others, these are independent given it.
Each random model has more states than it needs and meets the tables in its own way; their mean keeps what they have in
common. How far it goes toward them is what predicts the given tables best, each from the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Bools, Floats, Ints, sums_by
from twoway.data.flat_counts import flat_entries
from twoway.model.pmf import JointPMF
from twoway.schema import Schema
from twoway.solvers.em import fit_cells_by_em
from twoway.solvers.evidence import Evidence
from twoway.solvers.loop import Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.starts import random_start, softened_start
from twoway.solvers.watch import Watch
from twoway.tables.pair_graph import PairGraph, inseparable_pairs
from twoway.tables.tables import Tables

# The joint of all variables is fitted up to this many cells; beyond, joints of some variables at a time.
_MOST_CELLS, _MOST_PART_CELLS = 2**21, 2**14
_MOST_PARTS = 100
# How far the start is from independence: the powers of what one hidden variable makes of it that are tried.
_POWERS = (0.0, 0.3, 0.6, 0.9)
# The number of folds that compare them, the share of the tables that each leaves out, and how many are compared.
_N_FOLDS, _HELD_OUT, _MOST_COMPARED = 4, 0.25, 16
# The random models: their number and states, and their passes. More of any change little.
_N_MODELS, _STATES, _PASSES, _TOL = 5, 60, 60, 1e-5
# They begin close to independence, so that the strongest dependences are learned first.
_INDEPENDENT = 0.9
_CYCLES, _SETTLED = 50, 1e-5
_LEAST = 1e-300


def random_reference(evidence: Evidence, smoothing: Smoothing, seed: int, watch: Watch) -> JointPMF:
    """Return a model of one hidden variable: the mean of fits from random starts, at least of one."""
    models: list[JointPMF] = []
    while len(models) < _N_MODELS and not (models and watch.ends()):
        shares = evidence.sets.shares
        start = random_start(evidence.schema, _STATES, shares, (seed, len(models)))
        start = softened_start(start, shares, _INDEPENDENT)
        loop = Loop("what tables leave open", _PASSES, _TOL, watch.quiet())
        models.append(fit_cells_by_em(evidence.sets, start, smoothing, loop).pmf)
    weights = np.concatenate([model.weights for model in models]) / len(models)
    return JointPMF.from_stacked(evidence.schema, weights, np.hstack([model.stacked for model in models]))


def best_reference_power(evidence: Evidence, smoothing: Smoothing, seed: int, watch: Watch) -> float:
    """Return how far from independence the start best predicts tables, each from others that still connect all.

    The largest power where no table can be held out: then no variables are connected in a circle.
    """
    tables, random = evidence.tables(2), np.random.default_rng(seed)
    errors = np.zeros(len(_POWERS))
    for held in _reference_folds(tables, random):
        if watch.ends():
            break
        others = tables.part(~np.isin(np.arange(len(tables)), held))
        part_of_evidence = Evidence(evidence.schema, tables=others, threads=evidence.threads)
        single = random_reference(part_of_evidence, smoothing, seed, watch)
        for number in held[: -(-_MOST_COMPARED // _N_FOLDS)]:
            pair, observed = tables.sets[number].tolist(), tables.array(number) / tables.totals[number]
            part = _grown_reference_part(pair, others.together, ~others.together, np.array(evidence.schema.sizes))
            places = [part.index(index) for index in pair]
            for place, power in enumerate(_POWERS):
                joint = reference_joint(others, single, part, power, tables.together)
                errors[place] += np.abs(sums_by(joint, places) - observed).sum()
    return _POWERS[int(np.flatnonzero(errors == errors.min())[-1])]


def _reference_folds(tables: Tables, random: np.random.Generator) -> Iterator[list[int]]:
    """Yield tables to hold out together, so that the others still connect all variables; all that can be, once."""
    # By names, so that the order of variables does not matter.
    order = sorted(range(len(tables)), key=lambda number: sorted(tables.names[number]))
    waiting = [order[place] for place in random.permutation(len(order))]
    most = max(1, int(_HELD_OUT * len(tables)))
    for _ in range(_N_FOLDS):
        held: list[int] = []
        together = tables.together.copy()
        for number in waiting:
            first, second = tables.sets[number]
            together[first, second] = together[second, first] = False
            if len(held) < most and len(PairGraph(together, tables.schema.sizes).groups()) == 1:
                held.append(number)
            else:
                together[first, second] = together[second, first] = True
        if not held:
            return
        waiting = [number for number in waiting if number not in held]
        yield held


def reference_tables(tables: Tables, single: JointPMF, power: float) -> Tables:
    """Return tables of the joint that has given two-way tables and is nearest to where it begins.

    They are of all triples where the joint is small enough, otherwise of the pairs that have no table; with very many
    variables, of some of these.

    Parameters
    ----------
    tables
        Two-way tables that connect all variables.
    single
        A model of one hidden variable of the same tables.
    power
        How far toward it from independence the joint begins, from 0 to 1.
    """
    sizes, everything = tables.schema.sizes, list(range(len(tables.schema)))
    order, parts = 3, iter([everything])
    if math.prod(sizes) > _MOST_CELLS or len(sizes) < 3:
        order, parts = 2, _reference_parts(tables)
    weight, entries = float(np.median(tables.weights)), {}
    for part in parts:
        joint = reference_joint(tables, single, part, power)
        for places in combinations(range(len(part)), order):
            key = tuple(part[place] for place in places)
            if key not in entries and (order == 3 or not tables.together[key]):
                entries[key] = sums_by(joint, places) * weight
    return Tables(tables.schema, *flat_entries(order, ((key, counts, weight) for key, counts in entries.items())))


def reference_joint(
    tables: Tables, single: JointPMF, variables: Sequence[int], power: float, together: Bools | None = None
) -> Floats:
    """Return the joint of some variables, in schema order, with the tables between them; the nearest to its start.

    ``together`` says which variables tables connect; by default these tables.
    """
    start = _reference_start(tables.schema, single, variables, power, tables.together if together is None else together)
    joint = start
    place_of = {variable: place for place, variable in enumerate(variables)}
    targets = []
    for number, row in enumerate(tables.sets.tolist()):
        if set(row) <= place_of.keys():
            places = [place_of[index] for index in row]
            shape = [joint.shape[place] if place in places else 1 for place in range(joint.ndim)]
            targets.append((places, (tables.array(number) / tables.totals[number]).reshape(shape)))
    for _ in range(_CYCLES):
        before, total = joint, np.zeros_like(joint)
        for places, target in targets:
            margin = sums_by(joint, places, keepdims=True)
            joint = joint * np.divide(target, margin, out=np.zeros_like(margin), where=margin > 0)
            total += joint
        if np.abs(joint - before).sum() < 2.0 * _SETTLED:
            break
    # Tables that do not quite agree lead round in a circle; their zeros may leave nothing.
    return np.asarray(total / total.sum() if total.any() else start)


def _reference_start(
    schema: Schema, single: JointPMF, variables: Sequence[int], power: float, together: Bools
) -> Floats:
    """Return a joint between independence and one hidden variable; blocks of variables differ from it by themselves."""
    shares = {index: np.maximum(single.stacked[schema.cells(index)] @ single.weights, _LEAST) for index in variables}

    def independent(block: Sequence[int]) -> Floats:
        joint = np.ones(())
        for index in block:
            joint = np.multiply.outer(joint, shares[index])
        return joint

    joint = independent(variables)
    for block in _reference_blocks(together, variables):
        hidden = single.trees.of_variables(block).joint() / np.maximum(independent(block), _LEAST)
        others = tuple(place for place, index in enumerate(variables) if index not in block)
        joint *= np.expand_dims(np.maximum(hidden, _LEAST) ** power, others)
    return joint


def _reference_blocks(together: Bools, variables: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of three or more variables, in schema order, that no single one of them can part."""
    linked = together[np.ix_(variables, variables)]
    inseparable = inseparable_pairs(linked)
    blocks = {tuple(np.flatnonzero(inseparable[a] & inseparable[b]).tolist()) for a, b in np.argwhere(linked)}
    for block in sorted(blocks):
        if len(block) > 2:
            yield [variables[place] for place in block]


def _reference_parts(tables: Tables) -> Iterator[list[int]]:
    """Yield groups of variables whose joint is small, until each pair without a table is in one of them."""
    sizes, linked = np.array(tables.schema.sizes), tables.together.astype(np.int64)
    is_open = np.triu(~tables.together, 1)
    for _ in range(_MOST_PARTS):
        pairs = np.argwhere(is_open)
        if not len(pairs):
            return
        part = _grown_reference_part(pairs[0].tolist(), linked, is_open | is_open.T, sizes)
        is_open[np.ix_(part, part)] = False
        if linked[np.ix_(part, part)].any():
            yield part


def _grown_reference_part(part: Sequence[int], linked: NDArray[Any], is_open: Bools, sizes: Ints) -> list[int]:
    """Return a part with more variables, in schema order, as long as its joint is small."""
    part = list(part)
    while True:
        # Add what has tables with most of them; of these, what has most open pairs with them.
        gains = linked[part].sum(axis=0) + 0.5 * is_open[part].sum(axis=0)
        gains[part] = -1.0
        gains[sizes * sizes[part].prod() > _MOST_PART_CELLS] = -1.0
        if gains.max() <= 0:
            return sorted(part)
        part.append(int(gains.argmax()))
