"""Vectors, averages of models, and the shape of distributions."""

import numpy as np
import pandas as pd
import pytest

from twoway.estimators.ratings import shape
from twoway.estimators.ratings.model import RatingAverage, expert_powers
from twoway.estimators.ratings.table import RatingPairs, read_ratings
from twoway.estimators.ratings.vectors import VectorRecipe
from twoway.report import StopReason

COLUMNS = ("user", "item", "rating")
FORMS = [VectorRecipe(2, None), VectorRecipe(3, 0.02)]


def drawn(n_users=120, n_items=40, shown=0.5, noise=0.5, seed=0):
    """Ratings 1 to 5 from vectors of two dimensions, users × items, some missing."""
    random = np.random.default_rng(seed)
    users, items = random.normal(size=(n_users, 2)), random.normal(scale=0.7, size=(n_items, 2))
    expected = 3 + random.normal(scale=0.4, size=n_items) + users @ items.T
    ratings = np.clip(np.round(expected + noise * random.normal(size=expected.shape)), 1, 5)
    return ratings, np.where(random.uniform(size=ratings.shape) < shown, ratings, np.nan)


@pytest.fixture(scope="module")
def table():
    return read_ratings(pd.DataFrame(drawn()[1]), COLUMNS)


@pytest.mark.parametrize("form", FORMS)
def test_no_pass_lowers_the_bound(table, form):
    fit = form.fit(table, seed=(0,), threads=1)
    assert len(fit.bounds) > 5
    assert (np.diff(fit.bounds) < 0).all()
    assert fit.stop_reason is StopReason.CONVERGED


def test_parts_of_users_change_nothing_but_rounding(table, monkeypatch):
    whole = FORMS[0].fit(table, seed=(0,), threads=1).vectors
    monkeypatch.setattr("twoway.estimators.ratings.vectors._PART", 300)
    for threads in (1, 2):
        parts = FORMS[0].fit(table, seed=(0,), threads=threads).vectors
        np.testing.assert_allclose(parts.means, whole.means, atol=1e-8)


def test_many_ratings_are_fitted_from_a_sample_on(table, monkeypatch):
    whole = FORMS[0].fit(table, seed=(0,), threads=1)
    monkeypatch.setattr("twoway.estimators.ratings.vectors._MOST_RATINGS", 1000)
    continued = FORMS[0].fit(table, seed=(0,), threads=1)
    assert len(continued.bounds) < len(whole.bounds)
    assert continued.bounds[-1] == pytest.approx(whole.bounds[-1], rel=0.01)


def test_hidden_ratings_are_found_and_more_known_ones_help(table):
    """The kinds of a mixture collapse where users have rated much; vectors do not."""
    ratings, holes = drawn()
    vectors = FORMS[0].fit(table, seed=(0,), threads=1).vectors
    users, items = np.nonzero(np.isnan(holes))
    errors = []
    for n_known in (2, 5, 20):
        few = np.cumsum(~np.isnan(holes), axis=1) <= n_known
        known = read_ratings(pd.DataFrame(np.where(few, holes, np.nan)), COLUMNS, items=table.items, scale=range(1, 6))
        means, squares = expert_powers(vectors, RatingPairs(known, users, items))
        gaps = means - ratings[users, items]
        errors.append(float(np.sqrt(np.mean(gaps**2))))
        # The model knows how wrong it is.
        assert np.mean(gaps**2 / (squares - means**2)) == pytest.approx(1.0, abs=0.25)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.75


def test_an_average_expects_the_weighted_mean(table):
    fits = [form.fit(table, seed=(0,), threads=1).vectors for form in FORMS]
    users, items = np.array([3, -1, 3, 0]), np.array([1, 2, 5, 0])
    both = expert_powers(RatingAverage(fits, [0.3, 0.7]), RatingPairs(table, users, items))
    one, other = (expert_powers(fit, RatingPairs(table, users, items)) for fit in fits)
    for number in range(2):
        np.testing.assert_allclose(both[number], 0.3 * one[number] + 0.7 * other[number])


def test_an_unknown_user_gets_the_offsets(table):
    vectors = FORMS[0].fit(table, seed=(0,), threads=1).vectors
    items = np.arange(len(table.items))
    means, squares = expert_powers(vectors, RatingPairs(table, np.full(len(items), -1), items))
    np.testing.assert_allclose(means, vectors.means[:, 0])
    # Their variance is that of loadings and offset, plus the noise.
    diagonal = [0, 2, 5]
    expected = vectors.moments[:, diagonal].sum(axis=1) - vectors.means[:, 0] ** 2 + vectors.noise
    np.testing.assert_allclose(squares - means**2, expected)


# The distribution


@pytest.mark.parametrize("points", [np.arange(1.0, 6), np.array([0.5, 1, 4, 5]), np.array([0.0, 1.0])])
def test_a_tilt_gives_the_mean_and_keeps_the_shape(points):
    random = np.random.default_rng(0)
    scores = random.normal(scale=20, size=(200, len(points)))
    means = shape.shape_means(random.uniform(points[0] - 1, points[-1] + 1, size=200), points)
    shares = shape.tilt_shape(scores, points, means)
    np.testing.assert_allclose(shares @ points, means, atol=1e-8)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    # The logarithm of the ratio to the untilted is a straight line in the rating.
    is_clear = shares.min(axis=1) > 1e-100
    slopes = np.diff(np.log(shares[is_clear]) - scores[is_clear], axis=1) / np.diff(points)
    np.testing.assert_allclose(slopes, slopes[:, :1].repeat(len(points) - 1, axis=1), atol=1e-6)


def test_a_distribution_that_has_its_mean_is_not_tilted():
    shares = np.array([[0.5, 0.2, 0.3]])
    points = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(shape.tilt_shape(np.log(shares), points, shares @ points), shares)


def test_exponents_are_those_of_the_least_loss():
    """Ratings are drawn from a product with known exponents, and these are found again."""
    random, points, true = np.random.default_rng(0), np.arange(1.0, 6), np.array([0.5, 1.0, 0.3])
    parts = random.normal(size=(3, 4000, 5))
    scores = np.tensordot(true, parts, 1)
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    codes = (random.uniform(size=(4000, 1)) > np.cumsum(shares, axis=1)).sum(axis=1)
    found = shape.fit_shape_exponents(parts, points, shares @ points, codes)
    np.testing.assert_allclose(found, true, atol=0.1)
