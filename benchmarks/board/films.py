"""Ratings: hidden ratings of films, beside a factorization that is tuned, averaged and given noise."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import peer_bmf

import twoway as tw
from board.environments import Environments
from board.sections import OURS
from board.store import Result
from twoway.datasets import movielens
from twoway.estimators.ratings.table import read_ratings
from twoway.paper.recommendation import FILMS, Hidden, Recommendation, split_ratings

MANY_FILMS = "films with at least 20 ratings"
DATA = (*FILMS, MANY_FILMS)
LEAST_RATINGS, MANY_RATINGS = 20, 20_000
# As many fits as are averaged in `RatingPredictor()`: of kinds of users, and of vectors.
N_FITS = 10 + 12
METHODS = ("factorization",)
# How a factorization gets the distribution of a rating: what fits the noise, and what it says of a rating then.
NOISE = (
    (peer_bmf.normal_noise, peer_bmf.normal_scores),
    (peer_bmf.ordinal_noise, peer_bmf.ordinal_scores),
)


def run(data: str, case: str, seed: int, methods: Sequence[str], environments: Environments) -> Iterator[Result]:
    """Predict the ratings of a split."""
    hidden = hidden_ratings(data, seed)
    points, known = hidden.table.points, hidden.train | hidden.validation
    train, test = (peer_bmf.Ratings(*hidden.pairs(part)) for part in (known, hidden.test))
    codes = np.searchsorted(points, test.values)
    for method in methods:
        began, note = time.process_time(), ""
        if method == OURS:
            rated = pd.DataFrame({"user": train.users, "item": train.items, "rating": train.values})
            asked = pd.DataFrame({"user": test.users, "item": test.items})
            model = tw.RatingPredictor(scale=points.tolist(), threads=1).fit(rated)
            values, logs = model.predict(asked), np.log(model.predict_proba(asked))
        else:
            values, logs, note = by_factorization(hidden, train, test)
        seconds = time.process_time() - began
        scores = {
            "RMSE": float(np.sqrt(np.mean((values - test.values) ** 2))),
            "log-loss": mean_loss(logs, codes),
        }
        yield Result("ratings", data, case, method, seed, scores, seconds, note)


def mean_loss(logs: np.ndarray, codes: np.ndarray) -> float:
    return -float(np.mean(logs[np.arange(len(codes)), codes]))


def by_factorization(
    hidden: Hidden, train: peer_bmf.Ratings, test: peer_bmf.Ratings
) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the predicted ratings, the logarithms of the chances of all ratings, and the options.

    Noise is fitted to ratings that the averaged fits did not see; of the two kinds, the one that suits them better.
    """
    points, shape = hidden.table.points, (len(hidden.table.users), len(hidden.table.items))
    folds = held_out_folds(hidden)
    options = peer_bmf.tune(folds, shape, points)
    predicted = np.concatenate([peer_bmf.averaged(known, held, shape, options, N_FITS) for known, held in folds])
    codes = np.searchsorted(points, np.concatenate([held.values for _, held in folds]))
    on_test, found = peer_bmf.averaged(train, test, shape, options, N_FITS), []
    for fit_noise, scores_of in NOISE:
        noise = fit_noise(predicted, codes, points)
        found.append((mean_loss(scores_of(noise, predicted, points), codes), scores_of(noise, on_test, points)))
    _, logs = min(found, key=lambda pair: pair[0])
    return np.clip(on_test, points[0], points[-1]), logs, str(options)


def hidden_ratings(data: str, seed: int) -> Hidden:
    """Return the ratings of a set of films, split 50:20:30."""
    if data != MANY_FILMS:
        return Recommendation(data).data(seed)
    ratings = movielens("ml-latest-small")
    n_rated = ratings.groupby("item")["rating"].transform("size")
    return split_ratings(read_ratings(ratings[n_rated >= LEAST_RATINGS], ("user", "item", "rating")), seed)


def held_out_folds(data: Hidden) -> peer_bmf.Folds:
    """Return known and held-out ratings: few in five folds, as in `RatingPredictor`; of many, one part says enough."""
    known = data.train | data.validation
    held = [data.validation]
    if np.count_nonzero(known) <= MANY_RATINGS:
        fold_of_rating = np.random.default_rng(0).permutation(len(known)) % 5
        held = [known & (fold_of_rating == fold) for fold in range(5)]
    return [
        (peer_bmf.Ratings(*data.pairs(known & ~part)), peer_bmf.Ratings(*data.pairs(known & part))) for part in held
    ]
