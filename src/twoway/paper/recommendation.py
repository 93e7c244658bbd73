"""Columns of MovieLens ratings: some are hidden, and predicted from the others.

The baseline is biased matrix factorisation by alternating ridge regressions, those of `RatingPredictor`'s vectors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.datasets import movielens
from twoway.errors import DataError
from twoway.model.pmf import JointPMF
from twoway.paper.choosing import CHAINS, fit_chosen
from twoway.paper.trials import PAPER, Details, Scores, TrialSetting, trial_seconds, trial_seed

if TYPE_CHECKING:  # scikit-learn takes seconds to import, and the synthetic tables do not need it
    from twoway.estimators.ratings.table import RatingTable

    Predict = Callable[[Ints, Ints], Floats]
    # Predictions for pairs, the seconds, and what was chosen.
    Result = tuple[Predict, Scores, Details]

_COLUMNS = ("user", "item", "rating")
_SCALE = (1, 2, 3, 4, 5)
_LEAST_RATINGS = 5
_VALIDATION, _TEST = 0.2, 0.3

# The ranks that the paper tried, for the joint PMF and for the factorisation.
_RANKS = (5, 10, 15, 20, 25)
_BMF_RANKS = (5, 10, 15, 20)
_MOST_SWEEPS = 200
_PENALTY = 10.0

# What the mean is taken over, by users and items of pairs.
AVERAGES: dict[str, Callable[[Ints, Ints], Ints]] = {
    "Global Average": lambda users, items: np.zeros_like(users),
    "User Average": lambda users, items: users,
    "Movie Average": lambda users, items: items,
}

# MovieLens's numbers. The paper's list of 30 Action films has 1036 twice: see docs/results.md.
FILMS: dict[str, list[int]] = PAPER["films"]


@dataclass(frozen=True)
class Hidden:
    """Ratings, and which of them are for what."""

    table: RatingTable
    train: Bools
    """(n_ratings,), like the others."""
    validation: Bools
    test: Bools

    def pairs(self, part: Bools) -> tuple[Ints, Ints, Floats]:
        """Return users, items and ratings of a part."""
        users, items = np.divmod(self.table.keys[part], len(self.table.items))
        return users, items, self.table.ratings[part]

    def errors(self, predict: Predict, part: Bools) -> Floats:
        """Return predicted minus actual ratings of a part."""
        users, items, actual = self.pairs(part)
        return predict(users, items) - actual


def split_ratings(table: RatingTable, trial: int) -> Hidden:
    """Return the ratings of a trial; users and films without any training rating are not asked about."""
    n = len(table.keys)
    place = np.random.default_rng(trial_seed("records", trial)).permutation(n)
    test, validation = place < round(_TEST * n), place >= round((1.0 - _VALIDATION) * n)
    train = ~(test | validation)
    users, items = np.divmod(table.keys, len(table.items))
    asked = np.isin(users, users[train]) & np.isin(items, items[train])
    return Hidden(table, train, validation & asked, test & asked)


@dataclass(frozen=True)
class Recommendation(TrialSetting):
    """A trial hides 20 % of the ratings for validation and 30 % for the test."""

    methods = (*CHAINS, "BMF", *AVERAGES, "auto")
    name: str
    """Which films: a key of ``FILMS``."""
    release: str = "ml-latest-small"
    """Its name, or the path to its folder or zip."""
    n_users: int | None = None
    """The number of users; fewer than all serve to see that everything runs, and try one rank only."""

    def column(self, varies: str) -> str:
        """Return the name of the set of films."""
        return self.name.capitalize()

    @property
    def drawn(self) -> str:
        """Which ratings."""
        return f"{recommendation_release(self.release)} split 50:20:30"

    @property
    def work(self) -> float:
        """About how much there is to compute: the sets have similar sizes."""
        return 2000.0 * (self.n_users or 1000)

    @property
    def n_bytes(self) -> int:
        """About how much memory a trial needs, from the size of the table."""
        n_users = self.n_users or len(_recommendation_ratings(self.name, self.release).users)
        return super().n_bytes + n_users * 2**12

    @property
    def is_papers(self) -> bool:
        """Whether the paper used the same ratings."""
        return recommendation_release(self.release) == "ml-20m" and self.n_users is None

    def data(self, trial: int) -> Hidden:
        """Return the ratings of a trial."""
        table = _recommendation_ratings(self.name, self.release)
        if self.n_users is not None:
            table = table.only(table.keys // len(table.items) < self.n_users)
        return split_ratings(table, trial)

    def run(self, method: str, data: Hidden, trial: int, threads: int | None) -> tuple[Scores, Details]:
        """Return RMSE and MAE of a method on the test part."""
        seed = trial_seed("method", trial)
        if method in CHAINS:
            ranks = _RANKS if self.n_users is None else _RANKS[:1]
            predict, seconds, details = _recommend_by_chain(method, data, ranks, seed=seed, threads=threads)
        elif method == "BMF":
            predict, seconds, details = _recommend_by_factorization(data, seed=seed)
        elif method in AVERAGES:
            predict, seconds, details = _recommend_by_average(method, data)
        else:
            predict, seconds, details = _recommend_by_default(data, seed=seed, threads=threads)
        errors = data.errors(predict, data.test)
        return {"rmse": _root_mean_square(errors), "mae": float(np.mean(np.abs(errors))), **seconds}, details


def recommendation_release(release: str) -> str:
    """Return the name of a release of MovieLens, given by name or by a path.

    Examples
    --------
    >>> recommendation_release("downloads/ml-20m.zip")
    'ml-20m'
    """
    return Path(release).name.removesuffix(".zip")


@cache
def _recommendation_ratings(films: str, release: str) -> RatingTable:
    """Return the ratings of a set of films, rounded, by users who rated at least five of them."""
    from twoway.estimators.ratings.table import read_ratings

    ratings = movielens(release)
    ratings = ratings[ratings["item"].isin(FILMS[films])]
    n_rated = ratings.groupby("user")["rating"].transform("size")
    ratings = ratings[n_rated >= _LEAST_RATINGS]
    if ratings.empty:
        raise DataError(f"no user of {release!r} rated {_LEAST_RATINGS} films of the set {films!r}")
    rounded = np.clip(np.floor(ratings["rating"].to_numpy() + 0.5), 1, 5)
    return read_ratings(ratings.assign(rating=rounded), _COLUMNS, scale=_SCALE)


def _root_mean_square(errors: Floats) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _recommend_by_chain(method: str, data: Hidden, ranks: tuple[int, ...], *, seed: int, threads: int | None) -> Result:
    from twoway.estimators.ratings.model import ratings_by_model

    train, both = data.table.only(data.train), data.table.only(data.train | data.validation)

    def loss(pmf: JointPMF) -> float:
        predict = partial(ratings_by_model, pmf, train)
        return _root_mean_square(data.errors(predict, data.validation))

    parts = train.records, both.records
    pmf, seconds, details = fit_chosen(CHAINS[method], *parts, ranks, loss, seed=seed, threads=threads)
    return partial(ratings_by_model, pmf, both), seconds, details


def factorization_sweeps(table: RatingTable, rank: int, *, seed: int) -> Iterator[Predict]:
    """Yield the predictions after each sweep over users and items, clipped to the scale, indefinitely."""
    from twoway.estimators.ratings.vectors import ridge_sweeps_of_vectors

    start, points = np.random.default_rng(seed).normal(scale=0.1, size=(len(table.items), rank)), table.points
    for before, after in pairwise(ridge_sweeps_of_vectors(table, start, _PENALTY, _PENALTY, 1)):
        # A sweep ends with the items: users have the vectors that suit the items before it.
        of_users, of_items = before.of_users(table.records)[0], after.means
        yield partial(_predict_by_factorization, of_users, of_items, points)


def _predict_by_factorization(of_users: Floats, of_items: Floats, points: Floats, users: Ints, items: Ints) -> Floats:
    return np.asarray(np.einsum("pn,pn->p", of_users[users], of_items[items]).clip(points[0], points[-1]))


def _recommend_by_factorization(data: Hidden, *, seed: int) -> Result:
    """Return the factorisation; the validation part chooses its rank, and its sweeps end when the error there rises."""
    began = time.perf_counter()
    train = data.table.only(data.train)
    candidates = []
    for rank in _BMF_RANKS:
        lowest, n_sweeps = np.inf, 0
        for number, predict in enumerate(factorization_sweeps(train, rank, seed=seed), 1):
            error = _root_mean_square(data.errors(predict, data.validation))
            if error >= lowest or number > _MOST_SWEEPS:
                break
            lowest, n_sweeps = error, number
        candidates.append((lowest, rank, n_sweeps))
    _, rank, n_sweeps = min(candidates)
    refit_began = time.perf_counter()
    both = data.table.only(data.train | data.validation)
    predict = next(islice(factorization_sweeps(both, rank, seed=seed), n_sweeps - 1, None))
    return predict, trial_seconds(refit_began, began), {"rank": rank, "sweeps": n_sweeps}


def _recommend_by_average(method: str, data: Hidden) -> Result:
    users, items, ratings = data.pairs(data.train | data.validation)
    group_of = AVERAGES[method]
    groups = group_of(users, items)
    means = np.bincount(groups, ratings) / np.maximum(np.bincount(groups), 1)
    return lambda users, items: means[group_of(users, items)], {}, {}  # they take no time worth mentioning


def _recommend_by_default(data: Hidden, *, seed: int, threads: int | None) -> Result:
    """Return the library's predictor with its defaults; it makes its own validation part."""
    import pandas as pd

    from twoway.estimators import RatingPredictor

    users, items, ratings = data.pairs(data.train | data.validation)
    model = RatingPredictor(scale=_SCALE, random_state=seed, threads=threads)
    began = time.perf_counter()
    model.fit(pd.DataFrame({"user": users, "item": items, "rating": ratings}))
    seconds, details = trial_seconds(began), {"rank": model.rank_}
    return lambda users, items: model.predict(pd.DataFrame({"user": users, "item": items})), seconds, details
