"""Where iterations begin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twoway.arrays import Floats
from twoway.data.records import Records
from twoway.model.parameters import normalized_factors
from twoway.model.pmf import JointPMF
from twoway.schema import Schema, schema_hash
from twoway.solvers.cell_sets import expected_counts
from twoway.solvers.theta import theta_of

# Below this difference of probabilities components have become one.
_SAME = 1e-3


def random_start(schema: Schema, rank: int, shares: Floats, seeds: Sequence[int]) -> JointPMF:
    """Return equal weights and factors drawn around the variables' overall shares (n_categories,).

    What is drawn for a variable depends on its name, not on its place: the order of columns must not matter.
    """
    # No category is out of reach.
    factors = normalized_factors(schema, shares[:, None] * (start_numbers(schema, rank, seeds) + 0.05))
    return JointPMF.from_stacked(schema, np.full(rank, 1.0 / rank), factors)


def start_numbers(schema: Schema, n_columns: int, seeds: Sequence[int]) -> Floats:
    """Return exponential numbers (n_categories, n_columns) that depend on the variables' names, not on their places."""
    generators = (np.random.default_rng([*seeds, schema_hash(name)]) for name in schema.names)
    drawn = [random.exponential(size=(size, n_columns)) for random, size in zip(generators, schema.sizes, strict=True)]
    return np.vstack(drawn)


def naive_bayes_start(records: Records, smoothing: float) -> JointPMF:
    """Return the model whose components are the categories of the last variable, counted in the records that show it.

    Smoothing, which must not be 0, is the number of pseudo-records of each component, and of each category in it.
    """
    schema, rank = records.schema, records.schema.sizes[-1]
    label = schema.cells(len(schema) - 1)
    # One E-step that looks at the last variable only counts all others.
    plain = np.ones((schema.n_categories, rank))
    plain[label] = np.eye(rank)
    labelled = records.take(np.flatnonzero(records.codes()[:, -1] >= 0))
    theta = theta_of(JointPMF.from_stacked(schema, np.ones(rank), plain))
    counts = expected_counts(labelled, theta, rank, 1).counts[:, :rank] + smoothing
    factors = normalized_factors(schema, counts[1:])
    factors[label] = np.eye(rank)
    return JointPMF.from_stacked(schema, counts[0] / counts[0].sum(), factors)


def softened_start(pmf: JointPMF, shares: Floats, part: float = 0.05) -> JointPMF:
    """Return a PMF without zeros: a part of the variables' overall shares and of equal weights mixed in.

    Multiplicative updates cannot leave a zero again.
    """
    return JointPMF.from_trees(pmf.schema, pmf.trees.softened(shares, part))


def is_one_component(pmf: JointPMF) -> bool:
    """Return whether all components have become one, from which no pass of EM leads back."""
    return all(np.ptp(factor, axis=1).max() < _SAME for factor in pmf.factors)
