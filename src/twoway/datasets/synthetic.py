"""Random models of the three kinds in the paper's experiments, and records with missing cells drawn from them.

The variables are named "x1", "x2", …, their categories 0, 1, 2, ….
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from twoway.arrays import Floats
from twoway.data.coding import compressed_codes
from twoway.data.records import Records
from twoway.errors import DataError, check_number, check_whole_number
from twoway.lazy_imports import pd
from twoway.model.pmf import JointPMF
from twoway.schema import Schema, Variable

# The off-diagonal entry of the nearly separable variable for each ε of the paper, and the diagonal one.
_LEAKS = {0.1: 0.0005, 0.2: 0.015, 0.3: 0.030}
_PEAK = 0.4


def dirichlet_rows(n_variables: int = 15, n_categories: int = 10, rank: int = 10, *, seed: int = 0) -> JointPMF:
    """Return a model whose factors have rows uniform on the simplex, then columns scaled; equal weights.

    The paper's experiments with 15 variables use such models. Rows that favour one component make two-way tables
    informative.

    Examples
    --------
    >>> dirichlet_rows(3, 4, 2, seed=1).factors[0].shape
    (4, 2)
    """
    factors = _dirichlet_factors(np.random.default_rng(seed), n_variables, n_categories, rank)
    return _synthetic_model(np.ones(rank), factors)


def nearly_separable(
    epsilon: float = 0.1, n_variables: int = 5, n_categories: int = 10, rank: int = 5, *, seed: int = 0
) -> JointPMF:
    """Return a model like those of `dirichlet_rows`, with one of the last two variables nearly separable.

    In that variable each of the first ``rank`` categories belongs to one component, except for a small leak that grows
    with ``epsilon``: 0.1, 0.2 or 0.3, as in the paper's experiments with 5 variables.
    """
    if epsilon not in _LEAKS:
        raise DataError(f"epsilon must be one of {', '.join(map(str, _LEAKS))}, not {epsilon!r}")
    if n_categories <= rank:
        raise DataError(f"nearly separable factors need more categories than components; got {n_categories} and {rank}")
    random = np.random.default_rng(seed)
    factors = _dirichlet_factors(random, n_variables, n_categories, rank)
    leak = _LEAKS[epsilon]
    chosen = n_variables - 1 - int(random.integers(min(2, n_variables)))
    factor = factors[chosen]
    factor[:rank] = np.where(np.eye(rank, dtype=bool), _PEAK, leak)
    rest = factor[rank:]
    factor[rank:] = rest * ((1.0 - _PEAK - (rank - 1) * leak) / rest.sum(axis=0))
    factors[chosen] = _synthetic_factor(factor)
    return _synthetic_model(np.ones(rank), factors)


def uniform_entries(n_variables: int = 15, n_categories: int = 10, rank: int = 10, *, seed: int = 0) -> JointPMF:
    """Return a model with entries uniform on (0, 1), scaled, and random weights, as described in the paper's text.

    Its columns are similar, so two-way tables say little about the joint.
    """
    random = np.random.default_rng(seed)
    factors = [_synthetic_factor(random.uniform(size=(n_categories, rank))) for _ in range(n_variables)]
    return _synthetic_model(random.uniform(size=rank), factors)


def draw_records(
    pmf: JointPMF, n_records: int, *, observed: ArrayLike = 0.5, seed: int | np.random.Generator = 0
) -> Records:
    """Return records drawn from a model, each cell observed with the given probability, or with that of its variable.

    Examples
    --------
    >>> draw_records(dirichlet_rows(3, 4, 2), 100, observed=1.0)
    Records(100 records, 3 variables, 300 of 300 cells observed)
    """
    schema, n_records = pmf.schema, check_whole_number("n_records", n_records, 0)
    shares = np.asarray(observed, dtype=np.float64)
    if shares.shape not in ((), (len(schema),)) or not ((shares >= 0) & (shares <= 1)).all():
        raise DataError(f"observed must be a probability, not {observed!r}, or one per variable")
    shares = np.broadcast_to(shares, len(schema))
    random = np.random.default_rng(seed)
    codes = np.empty((n_records, len(schema)), dtype=np.int32)
    if pmf.n_hidden > 1:
        codes[:] = np.column_stack(pmf.trees.draw(n_records, random))
        codes[random.uniform(size=codes.shape) >= shares] = -1
    else:
        components = random.choice(pmf.rank, size=n_records, p=pmf.weights)
        for index, factor in enumerate(pmf.factors):
            below = np.cumsum(factor, axis=0)[:-1]
            codes[:, index] = (random.uniform(size=n_records) >= below[:, components]).sum(axis=0)
            codes[random.uniform(size=n_records) >= shares[index], index] = -1
    return Records.from_cells(schema, *compressed_codes(codes, schema.offsets, schema))


def hide(frame: pd.DataFrame, share: float, *, seed: int = 0) -> pd.DataFrame:
    """Return a pandas frame with a share of its cells missing, each with the same probability.

    Examples
    --------
    >>> import pandas as pd
    >>> int(hide(pd.DataFrame({"x": range(1000)}), 0.5).isna().sum().iloc[0])
    473
    """
    check_number("share", share, "a probability", lambda number: 0 <= number <= 1)
    return frame.mask(np.random.default_rng(seed).uniform(size=frame.shape) < share)


def _dirichlet_factors(random: np.random.Generator, n_variables: int, n_categories: int, rank: int) -> list[Floats]:
    return [_synthetic_factor(random.dirichlet(np.ones(rank), n_categories)) for _ in range(n_variables)]


def _synthetic_factor(factor: Floats) -> Floats:
    columns: Floats = factor / factor.sum(axis=0)
    return columns


def _synthetic_model(weights: Floats, factors: Sequence[Floats]) -> JointPMF:
    """Return a model with weights scaled to sum to one, and numbered names and categories."""
    variables = (Variable(f"x{number}", tuple(range(len(factor)))) for number, factor in enumerate(factors, 1))
    return JointPMF(weights / weights.sum(), factors, Schema(tuple(variables)))
