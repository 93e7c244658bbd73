"""Three steps without bias: segments, the assignment of people to them, and what else is known of these people.

People who are assigned to the wrong segment make segments look more alike than they are. How often that happens is
known from the first step, and both corrections use it: BCH (Bolck, Croon and Hagenaars, 2004; Vermunt, 2010) weights
people so that errors cancel, ML (Vermunt, 2010) takes the assignment as one more answer that depends on the segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from twoway.arrays import Bools, Floats, Ints

Correction: TypeAlias = Literal["bch", "ml", "none"]

# A ridge on slopes of standardized covariates, per person: it keeps them finite where a covariate separates segments.
_RIDGE = 1e-6
_LEAST_VARIANCE = 1e-6
_MOST_STEPS = 300
_SMALL = 1e-12
# Beyond this, the inverse of the errors of assignment is more noise than correction.
_MOST_CONDITION = 1e6


@dataclass(frozen=True)
class Assignment:
    """To which segment people are assigned, and how often that is wrong."""

    modal: Ints
    """(n,)."""
    errors: Floats
    """(count, count): the probability of each assignment (column) for people of each segment (row)."""
    sizes: Floats
    """(count,)."""
    weights: Floats
    """(n,): what each person weighs."""

    @classmethod
    def of(cls, memberships: Floats, weights: Floats) -> Assignment:
        """Return the assignment of people to their most probable segment, from the probabilities of all, (n, count)."""
        modal, count = memberships.argmax(axis=1), memberships.shape[1]
        weighted = memberships * weights[:, None]
        totals = weighted.sum(axis=0)
        crossed = np.zeros((count, count))
        np.add.at(crossed.T, modal, weighted)
        errors = crossed / np.maximum(totals, _SMALL)[:, None]
        return cls(modal, errors, totals / totals.sum(), weights)

    def of_some(self, people: Bools) -> Assignment:
        """Return the assignment of some people, (n,), with the errors of all."""
        return Assignment(self.modal[people], self.errors, self.sizes, self.weights[people])

    def merged(self, group: Ints) -> tuple[Assignment, Ints]:
        """Return the assignment with all people of a group and a segment as one, and the group of each of these."""
        count = len(self.sizes)
        sums = np.bincount(group * count + self.modal, self.weights).astype(np.float64)
        cells = np.flatnonzero(sums)
        return Assignment(cells % count, self.errors, self.sizes, sums[cells]), cells // count

    def unbiased(self, correction: Correction) -> Floats:
        """Return how much each person counts in each segment, (n, count), so that errors of assignment cancel.

        Without a correction, everybody counts in the assigned segment alone.
        """
        of_modal = np.eye(len(self.sizes)) if correction == "none" else np.linalg.inv(self.errors)
        return self.weights[:, None] * of_modal[self.modal]

    def likelihood(self) -> Floats:
        """Return how probable each person's assignment is in each segment, (n, count)."""
        return np.clip(self.errors.T, 1e-15, 1.0)[self.modal]

    def unusable(self) -> int | None:
        """Return a segment that no correction can separate from the others, None if there is none."""
        assigned = np.bincount(self.modal, self.weights, len(self.sizes))
        if not assigned.all():
            return int(assigned.argmin())
        return int(self.errors.diagonal().argmin()) if np.linalg.cond(self.errors) > _MOST_CONDITION else None


def three_step_means(assigned: Assignment, values: Floats, correction: Correction) -> Floats:
    """Return the mean of a number in each segment, (count,).

    With ML, it is normal in each segment, with different variances.
    """
    if correction != "ml":
        members = assigned.unbiased(correction)
        return np.asarray(values @ members / members.sum(axis=0))
    centre, variance = _three_step_moments(values, assigned.weights)
    if variance == 0.0:
        return np.full(len(assigned.sizes), centre)
    scaled = (values - centre) / np.sqrt(variance)
    members = np.maximum(assigned.unbiased("bch"), 0.0) + _SMALL
    likelihood = assigned.likelihood() * assigned.sizes
    before = -np.inf
    for _ in range(_MOST_STEPS):
        totals = members.sum(axis=0)
        means = scaled @ members / totals
        spread = np.maximum(((scaled[:, None] - means) ** 2 * members).sum(axis=0) / totals, _LEAST_VARIANCE)
        exponents = -0.5 * ((scaled[:, None] - means) ** 2 / spread + np.log(spread))
        highest = exponents.max(axis=1, keepdims=True)
        joint = likelihood * np.exp(exponents - highest)
        sums = joint.sum(axis=1, keepdims=True)
        value = float(assigned.weights @ (np.log(sums) + highest).ravel())
        members = assigned.weights[:, None] * joint / sums
        if value - before < 1e-10 * assigned.weights.sum():
            break
        before = value
    return np.asarray(centre + np.sqrt(variance) * means)


def three_step_shares(assigned: Assignment, codes: Ints, n_categories: int, correction: Correction) -> Floats:
    """Return the share of each category in each segment, (count, n_categories)."""
    shows = np.eye(n_categories)[codes]
    members = assigned.unbiased("none" if correction == "none" else "bch")
    shares: Floats = np.asarray((members.T @ shows) / members.sum(axis=0)[:, None])
    if correction == "none":
        return shares
    # Weights that make errors cancel can be negative, and so can what a rare category gets of them.
    shares = np.asarray(np.maximum(shares, 0.0 if correction == "bch" else 1e-6))
    shares /= shares.sum(axis=1, keepdims=True)
    if correction == "bch":
        return shares
    likelihood = assigned.likelihood() * assigned.sizes
    before = -np.inf
    for _ in range(_MOST_STEPS):
        joint = likelihood * shares.T[codes]
        sums = joint.sum(axis=1, keepdims=True)
        value = float(assigned.weights @ np.log(sums).ravel())
        counts = (assigned.weights[:, None] * joint / sums).T @ shows
        shares = np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), _SMALL))
        if value - before < 1e-10 * assigned.weights.sum():
            break
        before = value
    return shares


def three_step_logit(
    assigned: Assignment, covariates: Floats, correction: Correction, start: Floats | None = None
) -> Floats:
    """Return the coefficients of a multinomial logit of the segment, (count - 1, 1 + n_covariates).

    The first segment is the reference, the first column the intercepts. Covariates have the shape (n, n_covariates).
    """
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    count, weights = len(assigned.sizes), assigned.weights
    moments = [_three_step_moments(column, weights) for column in covariates.T]
    centres, spreads = (np.array(part) for part in zip(*moments, strict=True))
    spreads = np.sqrt(np.where(spreads > 0, spreads, 1.0))
    design = np.column_stack([np.ones(len(covariates)), (covariates - centres) / spreads])
    counts = assigned.likelihood() if correction == "ml" else assigned.unbiased(correction)
    total = weights.sum()
    ridge = np.full((count - 1, design.shape[1]), _RIDGE)
    ridge[:, 0] = 0.0

    def objective(flat: Floats) -> tuple[float, Floats]:
        slopes = flat.reshape(count - 1, -1)
        logs = log_softmax(np.column_stack([np.zeros(len(design)), design @ slopes.T]), axis=1)
        shares = np.exp(logs)
        if correction == "ml":
            joint = shares * counts
            sums = joint.sum(axis=1, keepdims=True)
            value = float(weights @ np.log(sums).ravel())
            gradient = design.T @ (weights[:, None] * (joint / sums - shares))
        else:
            value = float((counts * logs).sum())
            gradient = design.T @ (counts - counts.sum(axis=1, keepdims=True) * shares)
        penalty = 0.5 * float((ridge * slopes**2).sum())
        slope = -gradient.T[1:] / total + ridge * slopes
        return penalty - value / total, slope.ravel()

    first = np.zeros((count - 1, design.shape[1]))
    if start is None:
        first[:, 0] = np.log(np.maximum(assigned.sizes[1:], _SMALL) / max(assigned.sizes[0], _SMALL))
    else:
        first[:, 1:] = start[:, 1:] * spreads
        first[:, 0] = start[:, 0] + start[:, 1:] @ centres
    end = minimize(objective, first.ravel(), jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": _MOST_STEPS})
    slopes = end.x.reshape(count - 1, -1)
    slopes[:, 1:] /= spreads
    slopes[:, 0] -= slopes[:, 1:] @ centres
    return np.asarray(slopes)


def _three_step_moments(values: Floats, weights: Floats) -> tuple[float, float]:
    """Return the weighted mean and variance of numbers; a variance that is rounding only is 0."""
    centre = float(np.average(values, weights=weights))
    variance = float(np.average((values - centre) ** 2, weights=weights))
    return centre, variance if variance > (1e-12 * max(abs(centre), 1e-300)) ** 2 else 0.0
