"""Kinds of users: the joint PMF of all items' ratings, a mixture.

It is fitted by EM with smoothing that learns what is alike in all items. A component is a kind of users. Much of what a
kind has in common is how it uses the scale: generously, strictly, only its ends. So each factor is drawn toward the
item's overall shares *tilted* by the component's own use of the scale, p(r) ∝ share_item(r) · tilt_component(r), where
the tilt says how much more often the component gives the rating r than its items get it on the whole. That is learned
from all items together, so few ratings tell much. The tilt is estimated along with all else, pass by pass (empirical
Bayes).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.data.records import Records
from twoway.estimators.averaging import Average
from twoway.estimators.ratings.experts import Two, expert_ratings
from twoway.estimators.ratings.table import RatingTable
from twoway.model.pmf import JointPMF
from twoway.model.posterior import posterior_of
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.loop import Loop
from twoway.solvers.starts import random_start
from twoway.solvers.theta import Theta

_MAX_ITER = 100
# Passes end when the log-likelihood rises by less than this share: later ones do not improve predictions.
_TOL = 1e-4


@dataclass(frozen=True)
class RatingKinds:
    """A mixture as a model that predicts ratings."""

    pmf: JointPMF
    points: Floats

    @cached_property
    def of_items(self) -> Two:
        """The expected rating in each component, and its square; each (n_items, rank)."""
        return self.points @ self._factors, self.points**2 @ self._factors

    def of_users(self, users: Records) -> Two:
        """Return the users' memberships, (n_users, rank)."""
        memberships, _ = posterior_of(users.as_block(), self.pmf.weights, self.pmf.stacked)
        return memberships, memberships

    def shares(self, table: RatingTable, user_codes: Ints, item_codes: Ints) -> Floats:
        """Return Pr(rating | the user's ratings in the table) for pairs of user and item, (n_pairs, n_points)."""
        answers = np.empty((len(user_codes), len(self.points)))
        for pairs, users, of_pair in table.pairs_by_user(user_codes, self._factors[0].size):
            memberships, _ = self.of_users(users)
            answers[pairs] = np.einsum("pf,pnf->pn", memberships[of_pair], self._factors[item_codes[pairs]])
        return answers

    @property
    def _factors(self) -> Floats:
        """(n_items, n_points, rank)."""
        return self.pmf.stacked.reshape(-1, len(self.points), self.pmf.rank)


def ratings_by_kinds(pmf: JointPMF, table: RatingTable, user_codes: Ints, item_codes: Ints) -> Floats:
    """Return the ratings that a joint PMF expects for pairs of user (-1: unknown) and item, (n_pairs,)."""
    return expert_ratings(RatingKinds(pmf, table.points), table, user_codes, item_codes)


def fit_rating_kinds(
    table: RatingTable, rank: int, *, smoothing: float, n_starts: int, seed: int, threads: int | None
) -> Average:
    """Return the average of several fits, each from a random start of its own.

    Parameters
    ----------
    smoothing
        The pseudo-ratings that each factor and each weight gets.
    """
    rated_some = np.flatnonzero(np.diff(table.records.pointers))
    sets = CellSets.of_records(table.records.take(rated_some).canonical(), threads)
    starts = (random_start(sets.schema, rank, sets.shares, (seed, number)) for number in range(n_starts))
    loop = Loop("ratings", _MAX_ITER, _TOL, accelerate=False, quiet_cycles=1)
    average = Average.of(loop.descend(rating_kinds_step(sets, rank, smoothing), start) for start in starts)
    if loop.watch.interrupted:
        raise KeyboardInterrupt
    return average


def rating_kinds_step(sets: CellSets, rank: int, smoothing: float) -> Callable[[Theta], tuple[Theta, float]]:
    """Return one pass of EM: from parameters to the next ones, and the negative log-likelihood of the given ones."""
    from twoway.kernels.lanes import pad_to_lanes

    of_item = sets.shares.reshape(len(sets.schema), -1)

    def step(theta: Theta) -> tuple[Theta, float]:
        expected = sets.expected(theta, rank)
        counts = expected.counts[:, :rank]
        of_cell = counts[1:].reshape(*of_item.shape, rank)
        factors = of_cell + smoothing * _tilted_kind_shares(of_item, of_cell)
        factors /= factors.sum(axis=1, keepdims=True)
        weights = counts[0] + smoothing
        return pad_to_lanes(weights / weights.sum(), factors.reshape(-1, rank)), -expected.log_likelihood

    return step


def _tilted_kind_shares(of_item: Floats, of_cell: Floats) -> Floats:
    """Return each item's shares, tilted by each component's use of the scale.

    Parameters
    ----------
    of_item
        The items' overall shares, (n_items, n_points).
    of_cell
        The expected counts, (n_items, n_points, rank).
    """
    given = of_cell.sum(axis=0)
    usual = of_item.T @ of_cell.sum(axis=1)
    # One more rating, of the usual kind: a component with none has no tilt.
    extra = usual.sum(axis=1, keepdims=True) / usual.sum()
    tilted: Floats = of_item[:, :, np.newaxis] * ((given + extra) / (usual + extra))
    tilted /= tilted.sum(axis=1, keepdims=True)
    return tilted
