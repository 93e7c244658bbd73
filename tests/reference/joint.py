"""Slow versions of the questions to a PMF, by brute force on the joint."""

from __future__ import annotations

from itertools import product

import numpy as np

from twoway.category_labels import label_key


def write_out(pmf):
    """Return the joint as an array with one axis a variable."""
    joint = np.zeros(pmf.schema.sizes)
    for share, tree in zip(pmf.trees.shares, pmf.trees.trees, strict=True):
        for states in product(*map(range, tree.n_states)):
            weight = share * tree.weights[states[0]]
            for child, transition in enumerate(tree.transitions, start=1):
                weight *= transition[states[child], states[tree.parents[child]]]
            if weight == 0:
                continue
            for cell in product(*map(range, pmf.schema.sizes)):
                entry = weight
                for factor, home, code in zip(tree.factors, tree.homes, cell, strict=True):
                    entry *= factor[code, states[home]]
                joint[cell] += entry
    return joint


def restrict(joint, schema, event):
    """Return the joint with 0 in every cell outside an event."""
    kept = np.zeros_like(joint)
    for cell in product(*(range(size) for size in schema.sizes)):
        if all(holds(schema[name].categories[cell[schema.index(name)]], wanted) for name, wanted in event.items()):
            kept[cell] = joint[cell]
    return kept


def holds(label, wanted):
    several = wanted if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
    return any(label_key(label) == label_key(one) for one in several)


def marginal(joint, schema, names):
    """Return the sums over all variables but some, with axes in the order of the names."""
    asked = [schema.index(name) for name in names]
    others = tuple(axis for axis in range(joint.ndim) if axis not in asked)
    left = sorted(asked)
    return np.transpose(joint.sum(axis=others), [left.index(axis) for axis in asked])


def entropy(array):
    return -sum(p * np.log(p) for p in np.asarray(array).ravel() if p > 0)


def mutual_information(joint, schema, a, b, given=()):
    """Return Σ p log(p(a,b,c) p(c) / (p(a,c) p(b,c))), cell by cell."""
    table = marginal(joint, schema, [*a, *b, *given])
    n_a, n_b = len(a), len(b)
    axes_a, axes_b = tuple(range(n_a)), tuple(range(n_a, n_a + n_b))
    without_b = table.sum(axis=axes_b, keepdims=True)
    without_a = table.sum(axis=axes_a, keepdims=True)
    known = table.sum(axis=axes_a + axes_b, keepdims=True)
    total = 0.0
    for cell in product(*(range(size) for size in table.shape)):
        if table[cell] > 0:
            p_ac = np.broadcast_to(without_b, table.shape)[cell]
            p_bc = np.broadcast_to(without_a, table.shape)[cell]
            total += table[cell] * np.log(table[cell] * np.broadcast_to(known, table.shape)[cell] / (p_ac * p_bc))
    return total


def record_event(schema, row):
    """Return the event that a record's observed cells make."""
    return {name: label for name, label in zip(schema.names, row, strict=True) if not is_missing(label)}


def is_missing(label):
    return label is None or label != label


def memberships(pmf, event):
    """Return Pr(component | event); NaN where the event is impossible."""
    masses = pmf.weights.copy()
    for name, wanted in event.items():
        variable, factor = pmf.schema[name], pmf.factors[pmf.schema.index(name)]
        rows = [code for code, label in enumerate(variable.categories) if holds(label, wanted)]
        masses = masses * factor[rows].sum(axis=0)
    return masses / masses.sum() if masses.sum() > 0 else np.full(pmf.rank, np.nan)
