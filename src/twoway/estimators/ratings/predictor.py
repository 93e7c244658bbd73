"""Predict the ratings that users have not given yet, with their whole distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from twoway.arrays import Floats
from twoway.errors import DataError, check_number, check_whole_number
from twoway.estimators.base import describe_end
from twoway.estimators.long_tables import check_long_table_option
from twoway.estimators.ratings.choosing import choose_rating_recipe
from twoway.estimators.ratings.model import RatingFitting
from twoway.estimators.ratings.shape import shape_means
from twoway.estimators.ratings.table import RatingTable, read_rated_pairs, read_ratings, read_true_ratings

# Users are answered in chunks of about this many numbers.
_CHUNK = 2**22


@dataclass(kw_only=True, repr=False, eq=False)
class RatingPredictor(BaseEstimator):  # type: ignore[misc]
    """Predicts E[item | the user's known ratings], and Pr(rating | known ratings).

    Models of two forms are averaged. In a joint PMF the items' ratings are the variables, and a user is a record with
    many holes that belongs to some kind of users. In the other form, users and items have vectors, and a rating is
    about their product. Held-out ratings give each model its weight. What is known of a user is evidence, so that users
    who were not in the training ratings are predicted without another fit.

    Parameters
    ----------
    rank
        The number of components of the joint PMF, kinds of users. None chooses it by ratings that are held out.
    scale
        The points that a rating can be, such as ``range(1, 6)``. None takes those that occur in training.
    columns
        The columns of a long table: user, item, rating.
    n_starts
        How many fits are averaged, of the joint PMF and, at least as many, of vectors. Each has another random
        start: that predicts better than the best of them.
    smoothing
        How many pseudo-ratings each component gets for each item.
    random_state
        The source of every random choice; a number gives the same predictions each time.
    threads
        All cores by default.

    Attributes
    ----------
    pmf_ : JointPMF
        The average of the fits of the joint PMF: every other question about the items can be asked of it.
    rank_ : int
        The rank of each of these.
    pmf_weight_ : float
        The weight of the joint PMF in an expected rating; the vectors have the rest.
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
    >>> ratings = pd.DataFrame({"Alien": [5, 4, 1, 2] * 5, "Aliens": [5, 5, 1, 1] * 5, "Bambi": [1, 2, 5, 4] * 5})
    >>> model = RatingPredictor().fit(ratings)
    >>> known = pd.DataFrame({"Alien": [5]}, index=["ann"])
    >>> model.complete(known).loc["ann"].round().to_dict()
    {'Alien': 5.0, 'Aliens': 5.0, 'Bambi': 1.0}
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
            A long table with the columns user, item and rating (see ``columns``), one row per rating; or a frame of
            users × items, its index the users, with missing cells where a user has not rated an item.
        y
            The ratings, where a long table has no column for them.
        """
        n_starts = check_whole_number("n_starts", self.n_starts, 1)
        allowed = "a number of pseudo-ratings above 0"
        smoothing = check_number("smoothing", self.smoothing, allowed, lambda number: 0 < number < np.inf)
        check_long_table_option(self.columns, "user, item and rating")
        rank = None if self.rank is None else check_whole_number("rank", self.rank, 1)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.known_ = read_ratings(X, self.columns, ratings=y, scale=self.scale)
        self.users_, self.items_, self.scale_ = self.known_.users, self.known_.items, self.known_.points
        table, fitting = self.known_.canonical(), RatingFitting(smoothing, seed, self.threads)
        recipe, tried = choose_rating_recipe(table, rank, fitting)
        self.model_, n_iter, stop_reason = fitting.fit(table, recipe, n_starts)
        self.pmf_, self.rank_ = self.model_.kinds.pmf, recipe.rank
        self.pmf_weight_ = float(recipe.weights[-1])
        self.validation_ = [{"rank": rank, "rmse": rmse} for rank, rmse in tried.items()]
        describe_end(self, n_iter, stop_reason)
        return self

    def predict(self, X: Any, known: Any = None) -> Floats:
        """Return the expected ratings of pairs of user and item, shape (n_pairs,).

        A known rating is returned as it is; a user without known ratings is predicted as an average user.

        Parameters
        ----------
        X
            A long table with the columns user and item.
        known
            The ratings to go by, long or users × items, of any users; those of the training by default.
        """
        pairs = read_rated_pairs(X, self.columns, self._known(known))
        return pairs.with_known(self.model_.expected(pairs), self.scale_)

    def predict_proba(self, X: Any, known: Any = None) -> Floats:
        """Return the probability of each point of the scale, shape (n_pairs, n_points); parameters as for `predict`."""
        pairs = read_rated_pairs(X, self.columns, self._known(known))
        return pairs.with_known(self.model_.probabilities(pairs), np.eye(len(self.scale_)))

    def complete(self, known: Any = None) -> pd.DataFrame:
        """Return all ratings of some users, users × items: known ratings as they are, and expected ones.

        ``known`` is as for `predict`.
        """
        table = self._known(known)
        average = self.model_.average
        of_items, _ = average.of_items
        expected = np.empty((len(table.users), len(self.items_)))
        step = max(1, _CHUNK // of_items.shape[1])
        for first in range(0, len(expected), step):
            users = np.arange(first, min(len(expected), first + step))
            of_users, _ = average.of_users(table.records.take(users))
            expected[users] = shape_means(of_users @ of_items.T, table.points)
        expected.ravel()[table.keys] = table.ratings
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
        """Return the errors of predictions, without those of missing ratings."""
        actual = read_true_ratings(X, self.columns, y)
        errors = (self.predict(X, known) - actual)[~np.isnan(actual)]
        if not len(errors):
            raise DataError("there are no ratings to compare the predictions with")
        return errors

    def _known(self, known: Any) -> RatingTable:
        check_is_fitted(self)
        if known is None:
            return self.known_
        return read_ratings(known, self.columns, items=self.items_, scale=self.scale_.tolist())
