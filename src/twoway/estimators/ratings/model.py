"""The mixture behind a rating predictor: EM with smoothing that learns what is alike in all items.

A component is a kind of users. Much of what a kind has in common is how it uses the scale: generously, strictly, only
its ends. So each factor is drawn toward the item's overall shares *tilted* by the component's own use of the scale,
p(r) ∝ share_item(r) · tilt_component(r), where the tilt says how much more often the component gives the rating r than
its items get it on the whole. That is learned from all items together, so few ratings tell much. The tilt is estimated
along with all else, pass by pass (empirical Bayes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.estimators.averaging import Average
from twoway.estimators.ratings.table import RatingTable
from twoway.model.pmf import JointPMF
from twoway.model.posterior import posterior_of
from twoway.solvers.cells import CellSets, Theta
from twoway.solvers.heldout import HeldOut, try_in_order
from twoway.solvers.loop import Loop
from twoway.solvers.starts import random_start

_MAX_ITER = 100
# Passes end when the log-likelihood rises by less than this share: later ones do not improve predictions.
_TOL = 1e-4
# Ranks are compared, from the smallest up, by ratings that are held out.
_RANKS = (1, 2, 5, 10, 20, 40, 80)
_FOLDS = 5
_TRIAL_STARTS = 3
# On so many ratings one fold tells ranks apart; no more than the second number are used.
_MANY_RATINGS, _MOST_RATINGS = 50_000, 500_000
# A component needs at least so many users.
_USERS_PER_COMPONENT = 5
# Pairs of user and item are answered in chunks of about this many numbers.
_CHUNK = 2**22


def average_fit(
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
    average = Average.of(loop.descend(em_step(sets, rank, smoothing), start) for start in starts)
    if loop.watch.interrupted:
        raise KeyboardInterrupt
    return average


def em_step(sets: CellSets, rank: int, smoothing: float) -> Callable[[Theta], tuple[Theta, float]]:
    """Return one pass of EM: from parameters to the next ones, and the negative log-likelihood of the given ones."""
    from twoway.kernels.expectation import pack

    of_item = sets.shares.reshape(len(sets.schema), -1)

    def step(theta: Theta) -> tuple[Theta, float]:
        expected = sets.expected(theta, rank)
        counts = expected.counts[:, :rank]
        of_cell = counts[1:].reshape(*of_item.shape, rank)
        factors = of_cell + smoothing * _tilted(of_item, of_cell)
        factors /= factors.sum(axis=1, keepdims=True)
        weights = counts[0] + smoothing
        return pack(weights / weights.sum(), factors.reshape(-1, rank)), -expected.log_likelihood

    return step


def _tilted(of_item: Floats, of_cell: Floats) -> Floats:
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


# What a model says


def distributions(pmf: JointPMF, table: RatingTable, user_codes: Ints, item_codes: Ints) -> Floats:
    """Return Pr(rating | the user's ratings in the table) for pairs of user (-1: unknown) and item, (n, n_points)."""
    of_item = pmf.stacked.reshape(len(table.items), table.n_points, pmf.rank)
    return _answers(pmf, table, user_codes, item_codes, of_item, np.eye(table.n_points))


def expectations(pmf: JointPMF, table: RatingTable, user_codes: Ints, item_codes: Ints) -> Floats:
    """Return E[rating | the user's ratings in the table] for pairs of user (-1: unknown) and item, (n,)."""
    of_item = expected_in_components(pmf, table)[:, np.newaxis]
    return _answers(pmf, table, user_codes, item_codes, of_item, table.points[:, np.newaxis])[:, 0]


def expected_in_components(pmf: JointPMF, table: RatingTable) -> Floats:
    """Return the expected rating of each item in each component, (n_items, rank)."""
    return table.points @ pmf.stacked.reshape(len(table.items), table.n_points, pmf.rank)


def _answers(
    pmf: JointPMF, table: RatingTable, user_codes: Ints, item_codes: Ints, of_item: Floats, of_point: Floats
) -> Floats:
    """Return the mean of what holds in each component, (n_items, n_numbers, rank), by each user's memberships.

    A rating that is known has what holds for its point, (n_points, n_numbers).
    """
    answers = np.empty((len(user_codes), of_item.shape[1]))
    # Those of a user together, a chunk at a time.
    order, size = np.argsort(user_codes, kind="stable"), max(1, _CHUNK // of_item[0].size)
    for pairs in (order[first : first + size] for first in range(0, len(order), size)):
        users, of_pair = np.unique(user_codes[pairs], return_inverse=True)
        memberships = np.tile(pmf.weights, (len(users), 1))
        is_known = users >= 0
        if is_known.any():
            block = table.records.take(users[is_known]).as_block()
            memberships[is_known], _ = posterior_of(block, pmf.weights, pmf.stacked)
        answers[pairs] = np.einsum("pf,pnf->pn", memberships[of_pair], of_item[item_codes[pairs]])
    given = table.known(user_codes, item_codes)
    answers[given >= 0] = of_point[given[given >= 0]]
    return answers


# How many components


def choose_rank(
    table: RatingTable, *, smoothing: float, seed: int, threads: int | None
) -> tuple[int, list[dict[str, float]]]:
    """Return the rank that predicts held-out ratings best, given the users' other ones, and the RMSE of each."""
    random = np.random.default_rng(seed)
    if len(table.keys) > _MOST_RATINGS:
        some = random.uniform(size=len(table.users)) < _MOST_RATINGS / len(table.keys)
        table = table.only(some[table.keys // len(table.items)])
    n_users = int(np.count_nonzero(np.diff(table.records.pointers)))
    ranks = [rank for rank in _RANKS if rank <= max(1, n_users // _USERS_PER_COMPONENT)]
    if len(table.keys) < _FOLDS:
        return ranks[0], []
    fold_of_rating = random.permutation(len(table.keys)) % _FOLDS
    folds = [fold_of_rating == fold for fold in range(_FOLDS if len(table.keys) <= _MANY_RATINGS else 1)]
    options: dict[str, Any] = {"smoothing": smoothing, "n_starts": _TRIAL_STARTS, "seed": seed, "threads": threads}
    tried: dict[int, float] = {}

    def score(rank: int, held: Bools) -> tuple[Floats, Floats]:
        train = table.only(~held)
        users, items = np.divmod(table.keys[held], len(table.items))
        predicted = expectations(average_fit(train, rank, **options).pmf, train, users, items)
        actual = table.points[table.records.cells[held] % table.n_points]
        return -((predicted - actual) ** 2), np.ones(len(actual))

    def is_better(rank: int) -> bool:
        rmse = float(np.sqrt(-HeldOut.of_folds(score(rank, held) for held in folds).mean))
        lowest = min(tried.values(), default=np.inf)
        tried[rank] = rmse
        return rmse < lowest

    try_in_order(ranks, is_better)
    return min(tried, key=tried.__getitem__), [{"rank": rank, "rmse": rmse} for rank, rmse in tried.items()]
