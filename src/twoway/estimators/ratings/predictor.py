"""Predict the ratings that users have not given yet, with their whole distribution.

The mixture behind it is fitted by EM with smoothing that learns what is alike in all items. A component is a kind of
users. Much of what a kind has in common is how it uses the scale: generously, strictly, only its ends. So each factor
is drawn toward the item's overall shares *tilted* by the component's own use of the scale, p(r) ∝ share_item(r) ·
tilt_component(r), where the tilt says how much more often the component gives the rating r than its items get it on the
whole. That is learned from all items together, so few ratings tell much. The tilt is estimated along with all else,
pass by pass (empirical Bayes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from twoway.arrays import Bools, Floats, Ints
from twoway.errors import DataError, whole_number
from twoway.estimators.averaging import Average
from twoway.estimators.ratings.table import RatingTable, find_rated_items, read_rated_pairs, read_ratings
from twoway.model.pmf import JointPMF
from twoway.model.posterior import posterior_of
from twoway.solvers.evidence import CellSets, Theta
from twoway.solvers.heldout import try_in_order
from twoway.solvers.loop import Loop
from twoway.solvers.starts import random_start

if TYPE_CHECKING:
    import pandas as pd

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
# Users, and pairs of user and item, are answered in chunks of about this many numbers.
_CHUNK = 2**22


@dataclass(kw_only=True, repr=False, eq=False)
class RatingPredictor(BaseEstimator):  # type: ignore[misc]
    """Predicts E[item | the user's known ratings], and Pr(rating | known ratings).

    The items' ratings are the variables of a joint PMF, and a user is a record of it, mostly holes. What is known of a
    user is evidence, so that users who were not there in training are predicted without another fit.

    Parameters
    ----------
    rank
        The number of components, kinds of users. None chooses it by ratings that are held out.
    scale
        The points that a rating can be, such as ``range(1, 6)``. None takes those that occur in training.
    columns
        The columns of a long table: user, item, rating.
    n_starts
        How many fits are averaged, each from a random start of its own: that predicts better than the best of them.
    smoothing
        How many pseudo-ratings each component gets for each item.
    random_state
        The source of every random choice; a number gives the same predictions each time.
    threads
        All cores by default.

    Attributes
    ----------
    pmf_ : JointPMF
        The average of the fits: every other question about the items can be asked of it.
    rank_ : int
        The rank of each fit.
    converged_ : bool
        Whether all fits converged; a `ConvergenceWarning` says if not.
    n_iter_ : int
        The number of passes of the longest fit.
    stop_reason_ : StopReason
        Why the fits ended.
    items_, users_ : Index
        The items, and the users of the training ratings.
    scale_ : ndarray
        The points of the scale, in the order of the columns of `predict_proba`.
    validation_ : list of dict
        The ranks compared, with the RMSE of held-out ratings; empty where the rank was given.

    Examples
    --------
    >>> import pandas as pd
    >>> ratings = pd.DataFrame({"Alien": [5, 4, 1, 2, 5], "Aliens": [5, 5, 1, 1, None], "Bambi": [1, 2, 5, 4, None]})
    >>> model = RatingPredictor(rank=2, smoothing=0.5).fit(ratings)
    >>> model.complete().loc[4].round().to_dict()
    {'Alien': 5.0, 'Aliens': 4.0, 'Bambi': 2.0}
    """

    rank: int | None = None
    scale: Sequence[float] | None = None
    columns: Sequence[str] = ("user", "item", "rating")
    n_starts: int = 10
    smoothing: float = 8.0
    random_state: Any = 0
    threads: int | None = None

    def fit(self, X: Any, y: Any = None) -> RatingPredictor:
        """Learn from ratings.

        Parameters
        ----------
        X
            A long table with the columns user, item and rating (see ``columns``), a row a rating; or a frame of users ×
            items, its index the users, with missing cells where a user has not rated an item.
        y
            The ratings, where a long table has no column for them.
        """
        n_starts = whole_number("n_starts", self.n_starts, 1)
        if not 0 < self.smoothing < np.inf:
            raise DataError(f"smoothing must be a number of pseudo-ratings above 0, not {self.smoothing!r}")
        if len(self.columns) != 3:
            raise DataError(f"columns must be three names, of user, item and rating; got {self.columns!r}")
        rank = None if self.rank is None else whole_number("rank", self.rank, 1)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.known_ = read_ratings(X, self.columns, ratings=y, scale=self.scale)
        self.users_, self.items_, self.scale_ = self.known_.users, self.known_.items, self.known_.points
        options: dict[str, Any] = {"smoothing": float(self.smoothing), "seed": seed, "threads": self.threads}
        self.rank_, self.validation_ = choose_ratings_rank(self.known_, **options) if rank is None else (rank, [])
        average = fit_ratings(self.known_, self.rank_, n_starts=n_starts, **options)
        self.pmf_ = average.pmf
        average.describe_end(self)
        return self

    def predict(self, X: Any, known: Any = None) -> Floats:
        """Return the expected ratings of pairs of user and item, shape (n_pairs,).

        A rating that is known is returned as it is; a user with no known rating gets what is expected of anybody.

        Parameters
        ----------
        X
            A long table with the columns user and item.
        known
            The ratings to go by, long or users × items, of any users; those of the training by default.
        """
        return predicted_ratings(*self._asked(X, known))

    def predict_proba(self, X: Any, known: Any = None) -> Floats:
        """Return the probability of each point of the scale, shape (n_pairs, n_points); parameters as for `predict`."""
        return predicted_shares(*self._asked(X, known))

    def complete(self, known: Any = None) -> pd.DataFrame:
        """Return all ratings of some users, users × items: those known as they are, the others as expected.

        ``known`` is what `predict` takes.
        """
        import pandas as pd

        table = self._known(known)
        means = predicted_by_component(self.pmf_, table).T
        expected = np.empty((len(table.users), len(self.items_)))
        step = max(1, _CHUNK // self.pmf_.rank)
        for first in range(0, len(expected), step):
            users = np.arange(first, min(len(expected), first + step))
            expected[users] = self.pmf_.memberships(table.records.take(users)) @ means
        expected.ravel()[table.keys] = table.points[table.records.cells % table.n_points]
        return pd.DataFrame(expected, index=table.users, columns=self.items_)

    def rmse(self, X: Any, y: Any = None, known: Any = None) -> float:
        """Return the root mean squared error of the predictions for a table of ratings.

        Parameters
        ----------
        X
            A long table with the columns user, item and rating.
        y
            The ratings, where the table has no column for them.
        known
            As for `predict`.
        """
        return float(np.sqrt(np.mean(np.square(self._errors(X, y, known)))))

    def mae(self, X: Any, y: Any = None, known: Any = None) -> float:
        """Return the mean absolute error of the predictions; parameters as for `rmse`."""
        return float(np.mean(np.abs(self._errors(X, y, known))))

    def score(self, X: Any, y: Any = None, known: Any = None) -> float:
        """Return the negative RMSE: higher is better, as scikit-learn's tools expect."""
        return -self.rmse(X, y, known)

    def _errors(self, X: Any, y: Any, known: Any) -> Floats:
        actual = np.asarray(X[self.columns[2]] if y is None else y, dtype=np.float64)
        if not len(actual):
            raise DataError("there is no rating to compare the predictions with")
        return self.predict(X, known) - actual

    def _asked(self, X: Any, known: Any) -> tuple[JointPMF, RatingTable, Ints, Ints]:
        """Return the model, the ratings to go by, and the positions of each pair's user and item."""
        import pandas as pd

        table = self._known(known)
        users, items = read_rated_pairs(X, self.columns)
        user_codes: Ints = table.users.get_indexer(pd.Index(users)).astype(np.int64)
        return self.pmf_, table, user_codes, find_rated_items(self.items_, items)

    def _known(self, known: Any) -> RatingTable:
        check_is_fitted(self)
        if known is None:
            return self.known_
        return read_ratings(known, self.columns, items=self.items_, scale=self.scale_.tolist())


# The mixture


def fit_ratings(
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
    average = Average.of(loop.descend(ratings_em_step(sets, rank, smoothing), start) for start in starts)
    if loop.watch.interrupted:
        raise KeyboardInterrupt
    return average


def ratings_em_step(sets: CellSets, rank: int, smoothing: float) -> Callable[[Theta], tuple[Theta, float]]:
    """Return one pass of EM: from parameters to the next ones, and the negative log-likelihood of the given ones."""
    from twoway.kernels.lanes import pad_to_lanes

    of_item = sets.shares.reshape(len(sets.schema), -1)

    def step(theta: Theta) -> tuple[Theta, float]:
        expected = sets.expected(theta, rank)
        counts = expected.counts[:, :rank]
        of_cell = counts[1:].reshape(*of_item.shape, rank)
        factors = of_cell + smoothing * _tilted_rating_shares(of_item, of_cell)
        factors /= factors.sum(axis=1, keepdims=True)
        weights = counts[0] + smoothing
        return pad_to_lanes(weights / weights.sum(), factors.reshape(-1, rank)), -expected.log_likelihood

    return step


def _tilted_rating_shares(of_item: Floats, of_cell: Floats) -> Floats:
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


def predicted_shares(pmf: JointPMF, table: RatingTable, user_codes: Ints, item_codes: Ints) -> Floats:
    """Return Pr(rating | the user's ratings in the table) for pairs of user (-1: unknown) and item, (n, n_points)."""
    of_item = pmf.stacked.reshape(len(table.items), table.n_points, pmf.rank)
    return _predictions(pmf, table, user_codes, item_codes, of_item, np.eye(table.n_points))


def predicted_ratings(pmf: JointPMF, table: RatingTable, user_codes: Ints, item_codes: Ints) -> Floats:
    """Return E[rating | the user's ratings in the table] for pairs of user (-1: unknown) and item, (n,)."""
    of_item = predicted_by_component(pmf, table)[:, np.newaxis]
    return _predictions(pmf, table, user_codes, item_codes, of_item, table.points[:, np.newaxis])[:, 0]


def predicted_by_component(pmf: JointPMF, table: RatingTable) -> Floats:
    """Return the expected rating of each item in each component, (n_items, rank)."""
    return table.points @ pmf.stacked.reshape(len(table.items), table.n_points, pmf.rank)


def _predictions(
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


def choose_ratings_rank(
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

    def squared_errors(rank: int, held: Bools) -> Floats:
        train = table.only(~held)
        users, items = np.divmod(table.keys[held], len(table.items))
        predicted = predicted_ratings(fit_ratings(train, rank, **options).pmf, train, users, items)
        actual: Floats = table.points[table.records.cells[held] % table.n_points]
        return (predicted - actual) ** 2

    def is_better(rank: int) -> bool:
        rmse = float(np.sqrt(np.mean(np.concatenate([squared_errors(rank, held) for held in folds]))))
        lowest = min(tried.values(), default=np.inf)
        tried[rank] = rmse
        return rmse < lowest

    try_in_order(ranks, is_better)
    return min(tried, key=tried.__getitem__), [{"rank": rank, "rmse": rmse} for rank, rmse in tried.items()]
