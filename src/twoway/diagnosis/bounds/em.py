"""The error rates of EM (Theorem 4), which no model is guaranteed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoway.diagnosis.bounds.base import Condition, check_numbers
from twoway.model.measures import match_components
from twoway.model.pmf import JointPMF


@dataclass(frozen=True)
class EMBound:
    """What Theorem 4 says of EM: its rates, which no model is guaranteed."""

    factor_errors: NDArray[np.float64]
    """(rank,): on |Â_n(i, f) − A_n(i, f)|, for every variable and category."""
    weight_errors: NDArray[np.float64]
    """(rank,): on |λ̂_f − λ_f|."""
    risk: float
    conditions: tuple[Condition, ...]
    separation: float
    """D̄, half the sum of D̄₁ and D̄₂."""

    @property
    def applies(self) -> bool:
        """False: the condition on D̄ holds for no model (the proof is in docs/theory.md)."""
        return not any(condition.holds is False for condition in self.conditions)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it does not apply."""
        return tuple(str(condition) for condition in self.conditions if condition.holds is False)

    def __str__(self) -> str:
        return (
            f"not guaranteed: factors within {self.factor_errors.max():.4g}, weights within "
            f"{self.weight_errors.max():.4g}. Does not apply: {'; '.join(self.reasons)}"
        )


def em_error(
    pmf: JointPMF, n_records: float, observed: float = 1.0, risk: float = 0.05, *, start: JointPMF | None = None
) -> EMBound:
    """Return the error rates of EM from a good start (Theorem 4), as *unguaranteed*: its conditions cannot be met.

    Parameters
    ----------
    pmf
        The true model, or an assumed one.
    n_records, observed, risk
        As for `table_error`.
    start
        Where EM begins, to be compared with how near the theorem wants it.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows
    >>> bound = em_error(dirichlet_rows(15, 10, 3), 1e5, 0.5)
    >>> bound.applies, bool(bound.factor_errors.max() > 0)
    (False, True)
    """
    check_numbers(n_records=n_records, observed=observed, risk=risk)
    n, rank, widest = len(pmf.schema), pmf.rank, max(pmf.schema.sizes)
    rho_1, rho_2 = float(pmf.stacked.min()), float(pmf.weights.min())
    d_1, d_2 = _separations(pmf, observed)
    d = 0.5 * (d_1 + d_2)
    log = math.log(12.0 * n * rank * widest / risk)
    conditions = [Condition("smallest entries ρ₁ and ρ₂, above", 0.0, min(rho_1, rho_2), min(rho_1, rho_2) > 0)]
    delta_1 = delta_2 = math.inf
    if conditions[0].holds:
        # Where D̄ ≤ −4 the radii are no longer radii; the condition on D̄ has failed by then.
        delta_1 = 4.0 / (rho_1 * (4.0 + d)) if d > -4 else math.inf
        delta_2 = 4.0 / (rho_2 * (4.0 + n * d)) if n * d > -4 else math.inf
        least_d = max((8 - 4 * rho_1**2) / rho_1**2, (8 - 4 * rho_2**2) / (n * rho_2**2))
        conditions.append(Condition("separation D̄, at least what no model reaches", least_d, d, d >= least_d))
        least_n = math.inf
        if d_1 > 0 and d > 0:
            first = 33.0 * math.log(3.0 * n_records * rank / risk) / (rho_1 * d_1)
            second = 4.0 * math.log(4.0 * n_records * rank**2 / (3.0 * observed * rho_2 * risk)) / d
            least_n = max(first, second)
        conditions.append(Condition("variables N, at least", least_n, n, n >= least_n))
        least_s = 192.0 * rank**2 * log / (observed * rho_2 * min(delta_1, delta_2)) ** 2
        conditions.append(Condition("records S, at least", least_s, n_records, n_records >= least_s))
    if start is not None:
        matched = match_components(pmf, start)
        off_1 = float(np.abs(start.stacked[:, matched] - pmf.stacked).max())
        off_2 = float(np.abs(start.weights[matched] - pmf.weights).max())
        conditions.append(Condition("start within δ₁ of the factors", delta_1, off_1, off_1 <= delta_1))
        conditions.append(Condition("start within δ₂ of the weights", delta_2, off_2, off_2 <= delta_2))
    with np.errstate(divide="ignore"):
        factor_errors = np.sqrt(48.0 * log / (n_records * observed * pmf.weights))
    weight_errors = np.sqrt(192.0 * rank**2 * pmf.weights * log / n_records)
    return EMBound(factor_errors, weight_errors, risk, tuple(conditions), d)


def _separations(pmf: JointPMF, observed: float) -> tuple[float, float]:
    """Return D̄₁, how far apart components are on an average variable, and D̄₂, minus how unequal their weights."""
    n = len(pmf.schema)
    if pmf.rank == 1:
        return 0.0, 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(pmf.stacked)
        # Σ a·log a − Σ a·log b for every pair of components; 0·log 0 is 0, a·log 0 is −∞.
        own = np.where(pmf.stacked > 0, pmf.stacked * logs, 0.0).sum(axis=0)
        crossed = np.where(pmf.stacked[:, :, None] > 0, pmf.stacked[:, :, None] * logs[:, None, :], 0.0).sum(axis=0)
        kl = own[:, None] - crossed
        ratio = float(np.log(pmf.weights.min() / pmf.weights.max()))
    apart = ~np.eye(pmf.rank, dtype=bool)
    return float(observed * kl[apart].min() / n), 2.0 * ratio / n
