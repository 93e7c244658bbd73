"""Random models for tests; the same arguments give the same model."""

import numpy as np

from twoway.model.pmf import JointPMF
from twoway.schema import Schema, Variable


def numbered(n_variables, n_categories=5):
    """Return a schema of the variables v0, v1, … with the categories 0, 1, …."""
    return sized([n_categories] * n_variables)


def sized(sizes):
    """Return a schema of the variables v0, v1, … with so many categories each."""
    return Schema(tuple(Variable(f"v{n}", tuple(range(size))) for n, size in enumerate(sizes)))


def random_pmf(schema, rank, *, seed=0, concentration=1.0, zeros=0.0, report=None):
    """Return a model with Dirichlet columns; a share of its entries is zero."""
    rng = np.random.default_rng(seed)

    def columns(n):
        array = rng.dirichlet(np.full(n, concentration), rank).T
        if zeros:
            array *= rng.random((n, rank)) >= zeros
            array[0, array.sum(axis=0) == 0] = 1
        return array / array.sum(axis=0)

    factors = [columns(len(variable)) for variable in schema]
    return JointPMF(rng.dirichlet(np.ones(rank)), factors, schema, report=report)
