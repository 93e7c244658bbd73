"""RatingPredictor: predictions, accepted input and errors."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.estimators.ratings.kinds import fit_rating_kinds, rating_kinds_parameters
from twoway.estimators.ratings.model import ratings_by_model
from twoway.estimators.ratings.table import RatingPairs, read_ratings
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.starts import random_start
from twoway.solvers.theta import theta_of

COLUMNS = ("user", "item", "rating")


def long_table(n_users=120, observed=0.5, seed=0):
    """Ratings 1 to 4 of six films by users of three kinds."""
    codes = draw_records(dirichlet_rows(6, 4, 3, seed=seed), n_users, observed=observed, seed=seed).codes()
    users, items = np.nonzero(codes >= 0)
    return pd.DataFrame(
        {"user": [f"u{user}" for user in users], "item": items + 100, "rating": codes[users, items] + 1}
    )


@pytest.fixture(scope="module")
def ratings():
    return long_table()


@pytest.fixture(scope="module")
def model(ratings):
    return tw.RatingPredictor(rank=3, n_starts=2).fit(ratings)


# What is predicted


def test_kinds_expect_what_the_joint_pmf_says(model, ratings):
    """It is asked about one user at a time."""
    for user in ratings["user"].unique()[:5]:
        known = ratings[ratings["user"] == user]
        items = np.flatnonzero(~model.items_.isin(known["item"]))
        given = model.pmf_.given(
            {str(item): rating for item, rating in zip(known["item"], known["rating"], strict=True)}
        )
        users = np.full(len(items), model.users_.get_loc(user))
        expected = [given.expect(str(item)) for item in model.items_[items]]
        np.testing.assert_allclose(ratings_by_model(model.pmf_, model.known_, users, items), expected, rtol=1e-10)
        whole = np.reshape([np.asarray(given.marginal(str(item))) for item in model.items_[items]], (-1, 4))
        np.testing.assert_allclose(
            model.model_.kinds.shares(RatingPairs(model.known_, users, items)), whole, rtol=1e-10, atol=1e-15
        )


def test_a_prediction_is_the_mean_of_its_distribution(model):
    pairs = pd.DataFrame([(user, item) for user in [*model.users_[:50], "nobody"] for item in model.items_])
    pairs.columns = ["user", "item"]
    chances = model.predict_proba(pairs)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert (chances >= 0).all()
    np.testing.assert_allclose(chances @ model.scale_, model.predict(pairs), atol=1e-8)
    known = pairs[pairs["user"] != "nobody"]
    wide = model.complete().loc[model.users_[:50]].to_numpy()
    np.testing.assert_allclose(wide.ravel(), model.predict(known), rtol=1e-10)


def test_known_ratings_come_back_as_they_are(model, ratings):
    np.testing.assert_array_equal(model.predict(ratings), ratings["rating"])
    assert model.rmse(ratings) == 0
    assert (model.predict_proba(ratings).max(axis=1) == 1).all()


def test_a_user_without_ratings_is_an_average_user(model, ratings):
    pairs = pd.DataFrame({"user": "nobody", "item": model.items_})
    usual = ratings.groupby("item")["rating"].mean().to_numpy()
    np.testing.assert_allclose(model.predict(pairs), usual, atol=0.25)
    shares = ratings.pivot_table(index="item", columns="rating", aggfunc="size") / ratings.groupby("item").size().mean()
    np.testing.assert_allclose(model.predict_proba(pairs), shares, atol=0.2)


def test_new_users_need_no_new_fit(model, ratings):
    old = ratings["user"].iloc[0]
    known = ratings[ratings["user"] == old].assign(user="newcomer")
    pairs = pd.DataFrame({"item": model.items_})
    of_new = model.predict(pairs.assign(user="newcomer"), known=known)
    np.testing.assert_allclose(of_new, model.predict(pairs.assign(user=old)))
    # The same as a frame of users × items, or an array in the order of the items.
    wide = known.pivot(index="user", columns="item", values="rating")
    np.testing.assert_allclose(model.complete(wide).loc["newcomer"], of_new)
    array = wide.reindex(columns=model.items_).to_numpy()
    np.testing.assert_allclose(model.complete(array).to_numpy()[0], of_new)


def test_chunks_change_nothing(model, ratings, monkeypatch):
    pairs = ratings[["user", "item"]].assign(item=103).iloc[::-1]
    before, completed = model.predict_proba(pairs), model.complete()
    monkeypatch.setattr("twoway.estimators.ratings.predictor._CHUNK", 600)
    monkeypatch.setattr("twoway.estimators.ratings.table._CHUNK", 600)
    monkeypatch.setattr("twoway.estimators.ratings.model._CHUNK", 40)
    np.testing.assert_allclose(model.predict_proba(pairs), before)
    np.testing.assert_allclose(model.complete(), completed)


@pytest.mark.slow
def test_it_beats_the_averages_where_users_differ():
    ratings = long_table(600, 0.7, seed=3)
    held = np.random.default_rng(0).uniform(size=len(ratings)) < 0.2
    train, test = ratings[~held], ratings[held]
    model = tw.RatingPredictor().fit(train)
    actual = test["rating"]
    by_item = test["item"].map(train.groupby("item")["rating"].mean())
    by_user = test["user"].map(train.groupby("user")["rating"].mean()).fillna(train["rating"].mean())
    assert model.rmse(test) < 0.97 * min(np.sqrt(((by - actual) ** 2).mean()) for by in (by_item, by_user))
    assert model.mae(test) < (by_item - actual).abs().mean()
    assert model.score(test) == -model.rmse(test)
    compared = {candidate["rank"]: candidate["rmse"] for candidate in model.validation_}
    assert len(compared) > 2
    assert compared[model.rank_] == min(compared.values())


def test_a_pass_follows_its_formula():
    """E-step and M-step written out, a user and an item at a time."""
    table = read_ratings(long_table(40), COLUMNS)
    sets = CellSets.of_records(table.records, 1)
    pmf, smoothing = random_start(sets.schema, 2, sets.shares, (0, 0)), 3.0
    share = sets.shares.reshape(6, 4)
    counts, weights, log_likelihood = np.zeros((6, 4, 2)), np.zeros(2), 0.0
    for record in table.records.codes():
        mass = pmf.weights.copy()
        for item in np.flatnonzero(record >= 0):
            mass = mass * pmf.factors[item][record[item]]
        log_likelihood += np.log(mass.sum())
        weights += mass / mass.sum()
        for item in np.flatnonzero(record >= 0):
            counts[item, record[item]] += mass / mass.sum()
    factors = np.empty_like(counts)
    for f in range(2):
        given, usual = counts[:, :, f].sum(axis=0), sum(counts[n, :, f].sum() * share[n] for n in range(6))
        all_usual = sum(counts[n].sum() * share[n] for n in range(6))
        extra = all_usual / all_usual.sum()
        for n in range(6):
            tilted = share[n] * (given + extra) / (usual + extra)
            drawn = counts[n, :, f] + smoothing * tilted / tilted.sum()
            factors[n, :, f] = drawn / drawn.sum()
    sums = sets.expected(theta_of(pmf), 2)
    following = rating_kinds_parameters(share, smoothing, sums.counts[:, :2])
    np.testing.assert_allclose(following[0], (weights + smoothing) / (weights + smoothing).sum())
    np.testing.assert_allclose(following[1], factors.reshape(24, 2))
    assert sums.log_likelihood == pytest.approx(log_likelihood)


def test_a_component_without_users_has_no_effect():
    table = read_ratings(long_table(4), COLUMNS)
    pmf = fit_rating_kinds(table, 50, smoothing=1e-6, n_starts=2, seed=0, threads=1).pmf
    assert np.isfinite(pmf.stacked).all()
    np.testing.assert_allclose([factor.sum(axis=0) for factor in pmf.factors], 1.0)


# What it takes


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        pl.DataFrame,
        lambda frame: pl.DataFrame(frame).lazy(),
        pa.Table.from_pandas,
        lambda frame: frame.to_dict("list"),
    ],
)
def test_long_tables_of_any_kind(ratings, model, make):
    pairs = ratings[["user", "item"]].assign(item=100)
    same = tw.RatingPredictor(rank=3, n_starts=2).fit(make(ratings))
    np.testing.assert_array_equal(same.predict(make(pairs)), model.predict(pairs))


@pytest.mark.slow
def test_wide_frames_are_long_tables(ratings, model):
    wide = ratings.pivot(index="user", columns="item", values="rating")
    pairs = ratings[["user", "item"]].assign(item=100)
    same = tw.RatingPredictor(rank=3, n_starts=2).fit(wide)
    np.testing.assert_allclose(same.predict(pairs), model.predict(pairs))
    frame = pl.from_pandas(wide.rename(columns=str))
    numbered = tw.RatingPredictor(rank=3, n_starts=2).fit(frame)
    np.testing.assert_allclose(numbered.complete(), same.complete())
    assert list(numbered.users_) == list(range(len(wide)))


@pytest.mark.slow
def test_the_order_of_rows_and_columns_does_not_matter(ratings, model):
    shuffled = ratings.sample(frac=1, random_state=1)[["rating", "item", "user"]]
    same = tw.RatingPredictor(rank=3, n_starts=2).fit(shuffled)
    pairs = ratings[["user", "item"]].assign(item=100)
    np.testing.assert_allclose(same.predict(pairs), model.predict(pairs), rtol=1e-9)


@pytest.mark.slow
def test_other_names_of_columns_and_separate_ratings(ratings, model):
    named = ratings.rename(columns={"user": "who", "item": "what", "rating": "stars"})
    same = tw.RatingPredictor(rank=3, n_starts=2, columns=("who", "what", "stars")).fit(named)
    np.testing.assert_array_equal(same.pmf_.stacked, model.pmf_.stacked)
    same = tw.RatingPredictor(rank=3, n_starts=2).fit(ratings[["user", "item"]], ratings["rating"])
    np.testing.assert_array_equal(same.pmf_.stacked, model.pmf_.stacked)


@pytest.mark.slow
def test_scikit_learn_can_clone_pickle_and_cross_validate(ratings, model):
    assert clone(model).get_params() == model.get_params()
    again = pickle.loads(pickle.dumps(model))
    pairs = ratings[["user", "item"]].assign(item=100)
    np.testing.assert_array_equal(again.predict(pairs), model.predict(pairs))
    scores = cross_val_score(
        model, ratings[["user", "item"]], ratings["rating"], cv=3, scoring="neg_mean_absolute_error"
    )
    assert (scores < 0).all()
    assert (scores > -2).all()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_and_another_another(ratings, model):
    options = {"rank": 3, "n_starts": 2}
    np.testing.assert_array_equal(
        tw.RatingPredictor(**options, threads=1).fit(ratings).pmf_.stacked, model.pmf_.stacked
    )
    other = tw.RatingPredictor(**options, random_state=1).fit(ratings)
    assert not np.array_equal(other.pmf_.stacked, model.pmf_.stacked)


def test_missing_ratings_are_ignored_and_users_without_ratings_are_kept(ratings, model):
    more = pd.concat([ratings, pd.DataFrame({"user": ["silent"], "item": [100], "rating": [np.nan]})])
    same = tw.RatingPredictor(rank=3, n_starts=2).fit(more)
    np.testing.assert_array_equal(same.pmf_.stacked, model.pmf_.stacked)
    assert "silent" in same.users_
    np.testing.assert_allclose(same.complete().loc["silent", 100], same.predict({"user": ["nobody"], "item": [100]})[0])


@pytest.mark.slow
def test_the_scale_may_be_wider_than_what_occurs(ratings):
    model = tw.RatingPredictor(rank=2, n_starts=1, scale=[0.5, 1, 2, 3, 4, 5]).fit(ratings)
    assert list(model.scale_) == [0.5, 1, 2, 3, 4, 5]
    proba = model.predict_proba(pd.DataFrame({"user": ["x"], "item": [100]}))
    assert proba.shape == (1, 6)
    assert proba.min() > 0
    assert proba.sum() == pytest.approx(1)


def test_one_rating_is_enough():
    model = tw.RatingPredictor().fit({"user": ["a"], "item": ["x"], "rating": [3]})
    assert model.rank_ == 1
    assert model.predict({"user": ["b"], "item": ["x"]}) == pytest.approx([3.0])
    assert model.predict_proba({"user": ["b"], "item": ["x"]}).tolist() == [[1.0]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "ratings",
    [
        pd.DataFrame(np.full((8, 3), 4.0)),
        pd.DataFrame(np.arange(12.0)[:, np.newaxis] % 5 + 1),
        pd.DataFrame(np.arange(6.0)[np.newaxis] % 5 + 1),
        pd.DataFrame(np.linspace(0.5, 5, 10)[np.add.outer(np.arange(9), np.arange(4)) % 10]),
    ],
    ids=["constant", "one item", "one user", "half stars"],
)
def test_small_or_constant_ratings(ratings):
    """Some of the cells are missing, and the scale is wider than what occurs."""
    holes = ratings.where(np.random.default_rng(0).uniform(size=ratings.shape) < 0.8)
    holes = holes.loc[:, holes.notna().any()]
    scale = np.arange(1, 11) / 2
    model = tw.RatingPredictor(scale=scale, n_starts=1).fit(holes)
    pairs = pd.DataFrame([(user, item) for user in [*holes.index, "new"] for item in holes.columns])
    pairs.columns = ["user", "item"]
    chances = model.predict_proba(pairs)
    assert np.isfinite(chances).all()
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_allclose(chances @ scale, model.predict(pairs), atol=1e-8)
    if ratings.stack().nunique() == 1:
        np.testing.assert_allclose(model.complete(), 4.0, atol=0.1)
    assert model.converged_


def test_arrow_dictionaries_keep_their_holes(ratings, model):
    encoded = pa.table({name: pa.array(ratings[name].tolist()).dictionary_encode() for name in ratings})
    hole = pa.array([None, *ratings["rating"].tolist()[1:]]).dictionary_encode()
    same = tw.RatingPredictor(rank=3, n_starts=2).fit(encoded.set_column(2, "rating", hole))
    assert len(same.known_.ratings) == len(ratings) - 1
    nobody = pa.array([None, *ratings["user"].tolist()[1:]]).dictionary_encode()
    with pytest.raises(tw.DataError, match="column 'user' is missing in row 0"):
        tw.RatingPredictor().fit(encoded.set_column(0, "user", nobody))


# What it refuses


def table(**changes):
    return pd.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "rating": [1.0, 5.0]} | changes)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (
            table(rating=[1, 6]),
            {"scale": range(1, 6)},
            "rating 6 of item 'y' by user 'b' is outside the scale 1, 2, 3, 4, 5",
        ),
        (table(rating=["1", "good"]), {}, "a rating must be a number"),
        (table(rating=["1", "2"]), {}, "a rating must be a number, or missing; got text"),
        (table(rating=[1, np.inf]), {}, "finite number"),
        (table(rating=[None, None]), {}, "no ratings"),
        (table(rating=[None, 2]), {}, "no user rated 'x'"),
        (pd.DataFrame({"x": [1, 2], "y": [None, None]}), {}, "no user rated 'y'"),
        (table(user=["a", "a"], item=["x", "x"]), {}, "user 'a' rated item 'x' twice"),
        (table(user=["a", None]), {}, "column 'user' is missing in row 1"),
        (pd.DataFrame({"user": np.arange(200), "item": 0, "rating": np.arange(200) / 7}), {}, "200 different values"),
        (np.zeros(3), {}, "2 dimensions"),
        ([1, 2], {}, "got list"),
        (
            pd.DataFrame([[1, 2], [2, 1]], index=["a", "a"]),
            {},
            "duplicate user 'a'",
        ),
        (pd.DataFrame([[1, 2], [2, 1]], columns=["x", "x"]), {}, "duplicate item 'x'"),
        (table(), {"rank": 0}, "rank must be a whole number of at least 1, not 0"),
        (table(), {"n_starts": 0}, "n_starts must be"),
        (table(), {"smoothing": 0}, "smoothing must be"),
        (table(), {"smoothing": "much"}, "not 'much'"),
        (table(), {"scale": []}, "scale must be the possible ratings"),
        (table(), {"scale": 5}, "scale must be the possible ratings, at least one number; got 5"),
        (table(), {"columns": ("user", "item")}, "columns must be three names"),
        (table(), {"columns": None}, "columns must be three names: user, item and rating; got None"),
    ],
)
def test_bad_ratings_are_refused(source, options, message):
    with pytest.raises(tw.DataError) as caught:
        tw.RatingPredictor(**options).fit(source)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (table().rename(columns={"item": "film"}), "no column 'item' in the table of ratings"),
        (
            table().rename(columns={"rating": "ratings"}),
            "no column 'rating' in the table of ratings; did you mean 'ratings'?",
        ),
    ],
)
def test_missing_columns_are_named(source, message):
    with pytest.raises(tw.UnknownNameError, match=message.replace("?", "\\?")):
        tw.RatingPredictor().fit(source)


def test_ratings_of_another_length(ratings):
    with pytest.raises(tw.DataError, match=r"'item' has \d+, 'rating' has 3"):
        tw.RatingPredictor().fit(ratings[["user", "item"]], [1, 2, 3])


def test_what_prediction_refuses(model):
    with pytest.raises(tw.UnknownNameError, match=r"no item 99 among those that have ratings; .*known: 100, 101"):
        model.predict({"user": ["u1"], "item": [99]})
    with pytest.raises(tw.UnknownNameError, match="did you mean the int 100"):
        model.predict({"user": ["u1"], "item": ["100"]})
    with pytest.raises(tw.DataError, match="the rating 9 of item 100 by user 'n' is outside the scale 1, 2, 3, 4"):
        model.predict({"user": ["n"], "item": [101]}, known={"user": ["n"], "item": [100], "rating": [9]})
    with pytest.raises(tw.UnknownNameError, match="no item 99"):
        model.complete(pd.DataFrame({99: [1]}))
    with pytest.raises(tw.DataError, match="no ratings to compare"):
        model.rmse(pd.DataFrame({"user": [], "item": [], "rating": []}))
    with pytest.raises(tw.DataError, match="no ratings to compare"):
        model.rmse({"user": ["u1"], "item": [100], "rating": [np.nan]})
    with pytest.raises(tw.UnknownNameError, match="no column 'rating' in the table of ratings"):
        model.rmse({"user": ["u1"], "item": [100]})
    with pytest.raises(NotFittedError):
        tw.RatingPredictor().predict({"user": ["u1"], "item": [100]})
    assert model.predict({"user": [], "item": np.array([], dtype=int)}).shape == (0,)


def test_missing_ratings_are_not_compared(model):
    known = pd.DataFrame({"user": ["new", "new"], "item": [100, 101], "rating": [1.0, 4.0]})
    holes = pd.concat([known, pd.DataFrame({"user": ["new"], "item": [102], "rating": [np.nan]})])
    for score in (model.rmse, model.mae, model.score):
        assert score(holes) == score(known) != 0


def test_a_user_who_is_impossible_under_the_model_is_predicted_like_an_unknown_one():
    ratings = pd.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "b"], "rating": [1, 1, 2]})
    table = read_ratings(ratings, ("user", "item", "rating"), scale=(1, 2))
    # Nobody rates a with 1, so that the first user is impossible.
    pmf = tw.JointPMF(
        [0.5, 0.5], [np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])], table.records.schema
    )
    known, unknown = np.array([0]), np.array([-1])
    items = np.array([1])
    answers = ratings_by_model(pmf, table.only(np.array([True, False, True])), known, items)
    assert answers == ratings_by_model(pmf, table, unknown, items) == pytest.approx([1.5])


@pytest.mark.parametrize(
    "mapping", [{"Alien": 5}, {"a": 1, "b": 2}, {"a": [1, 2], "b": [1]}, {"a": [1, 2], "b": np.ones((2, 2))}]
)
def test_a_mapping_without_columns_of_one_length_is_an_error(mapping):
    with pytest.raises(tw.DataError, match="must have a list for each item, all of one length"):
        tw.RatingPredictor(rank=1).fit(mapping)


def test_a_frame_that_pandas_cannot_hold_is_not_taken_for_a_mapping(monkeypatch):
    def fails(frame):
        raise ValueError("no such type in pandas")

    monkeypatch.setattr(pl.DataFrame, "to_pandas", fails)
    with pytest.raises(ValueError, match=r"^no such type in pandas$"):
        tw.RatingPredictor(rank=1).fit(pl.DataFrame({"a": [1, 2], "b": [2, 1]}))
