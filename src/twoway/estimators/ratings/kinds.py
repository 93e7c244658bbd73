"""Kinds of users: the joint PMF of all items' ratings, a mixture.

It is fitted by EM with smoothing that learns what is alike in all items. A component is a kind of users. Much of what a
kind has in common is how it uses the scale: generously, strictly, only its ends. So each factor is drawn toward the
item's overall shares *tilted* by the component's own use of the scale, p(r) ∝ share_item(r) · tilt_component(r), where
the tilt says how much more often the component gives the rating r than its items get it on the whole. That is learned
from all items together, so few ratings are enough. The tilt is estimated along with all else, pass by pass (empirical
Bayes).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from twoway.arrays import Floats
from twoway.data.records import Records
from twoway.estimators.averaging import Average
from twoway.estimators.ratings.table import RatingPairs, RatingTable
from twoway.model.pmf import JointPMF
from twoway.model.posterior import posterior_of
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.em import climb_by_em
from twoway.solvers.loop import Loop
from twoway.solvers.starts import random_start

_MAX_ITER = 100
# Passes end when the log-likelihood rises by less than this share: later ones do not improve predictions.
_TOL = 1e-4


@dataclass(frozen=True)
class RatingKinds:
    """A mixture as a model that predicts ratings."""

    pmf: JointPMF
    points: Floats

    @cached_property
    def of_items(self) -> tuple[Floats, Floats]:
        """The expected rating in each component, and its square; each (n_items, rank)."""
        return self.points @ self._factors, self.points**2 @ self._factors

    def of_users(self, users: Records) -> tuple[Floats, Floats]:
        """Return the users' memberships, (n_users, rank)."""
        memberships, _ = posterior_of(users.as_block(), self.pmf.weights, self.pmf.stacked)
        return memberships, memberships

    def shares(self, pairs: RatingPairs) -> Floats:
        """Return Pr(rating | the user's known ratings) for pairs of user and item, (n_pairs, n_points)."""
        answers = np.empty((len(pairs), len(self.points)))
        for places, users, of_pair in pairs.by_user(self._factors[0].size):
            memberships, _ = self.of_users(users)
            answers[places] = np.einsum("pf,pnf->pn", memberships[of_pair], self._factors[pairs.item_codes[places]])
        return answers

    @property
    def _factors(self) -> Floats:
        """(n_items, n_points, rank)."""
        return self.pmf.stacked.reshape(-1, len(self.points), self.pmf.rank)


def fit_rating_kinds(
    table: RatingTable, rank: int, *, smoothing: float, n_starts: int, seed: int, threads: int | None
) -> Average:
    """Return the average of several fits, each from another random start.

    Parameters
    ----------
    smoothing
        The pseudo-ratings that each factor and each weight gets.
    """
    rated_some = np.flatnonzero(np.diff(table.records.pointers))
    sets = CellSets.of_records(table.records.take(rated_some).canonical(), threads)
    starts = (random_start(sets.schema, rank, sets.shares, (seed, number)) for number in range(n_starts))
    loop = Loop("ratings", _MAX_ITER, _TOL, accelerate=False, quiet_cycles=1)
    maximize = partial(rating_kinds_parameters, sets.shares.reshape(len(sets.schema), -1), smoothing)
    return Average.of(climb_by_em(sets, start, maximize, loop) for start in starts)


def rating_kinds_parameters(of_item: Floats, smoothing: float, counts: Floats) -> tuple[Floats, Floats]:
    """Return weights and stacked factors from expected counts, (1 + n_items · n_points, rank).

    ``of_item`` are the items' overall shares, (n_items, n_points), which each component's use of the scale tilts.
    """
    of_cell = counts[1:].reshape(*of_item.shape, -1)
    of_point = of_cell.sum(axis=0)
    usual = of_item.T @ of_cell.sum(axis=1)
    # One more rating, of the usual kind: a component with none has no tilt.
    extra = usual.sum(axis=1, keepdims=True) / usual.sum()
    tilted = of_item[:, :, np.newaxis] * ((of_point + extra) / (usual + extra))
    factors = of_cell + smoothing * (tilted / tilted.sum(axis=1, keepdims=True))
    factors /= factors.sum(axis=1, keepdims=True)
    weights = counts[0] + smoothing
    return weights / weights.sum(), factors.reshape(counts[1:].shape)
