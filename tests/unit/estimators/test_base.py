"""What all estimators share: options, columns, bins, unseen categories, and how fits end."""

import warnings

import numpy as np
import pandas as pd
import pytest
from estimator_tables import QUICK, adults, survey
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, cross_val_score

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be a whole number"),
        ({"smoothing": -1}, "smoothing must be"),
        ({"smoothing": "lots"}, "smoothing must be"),
        ({"n_starts": 0}, "n_starts must be"),
        ({"threads": 0}, "threads must be"),
        ({"n_bins": 0}, "number of bins must be"),
        ({"n_bins": 1}, "number of bins must be"),
        ({"unseen": "ignore"}, "unseen must be"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_bad_options(options, message):
    frame, label = survey(40)
    with pytest.raises(tw.DataError, match=message):
        tw.JointPMFClassifier(**{**QUICK, **options}).fit(frame, label)


def test_columns_by_name():
    frame, label = survey()
    model = tw.JointPMFClassifier(**QUICK).fit(frame, label)
    expected = model.predict_proba(frame)
    np.testing.assert_array_equal(model.predict_proba(frame[["income", "warm", "sky", "stars"]]), expected)
    with pytest.raises(ValueError, match=r"now missing:\n- stars"):
        model.predict(frame.drop(columns="stars"))
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- more"):
        model.predict(frame.assign(more=1))
    with pytest.raises(ValueError, match="0 records"):
        model.predict(frame.head(0))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(model.predict_proba(frame.to_numpy(dtype=object)), expected)


def test_an_array_is_read_as_a_frame_without_names():
    array = np.array([[0, 1, 0], [1, 0, 1], [0, 0, 1], [1, 1, 1]] * 5, dtype=float)
    label = ["a", "b"] * 10
    model = tw.JointPMFClassifier(**QUICK).fit(pd.DataFrame(array), label)
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.predict_proba(array), model.predict_proba(pd.DataFrame(array)))
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.predict(array[:, :2])


def test_unseen_categories():
    frame, label = survey()
    new = frame.head(3).assign(sky="pink")
    model = tw.JointPMFClassifier(**QUICK).fit(frame, label)
    with pytest.warns(UserWarning, match=r"read as missing: 'pink' of 'sky'; unseen='error'") as caught:
        found = model.predict_proba(new)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(found, model.predict_proba(new.assign(sky=None)))
    strict = clone(model).set_params(unseen="error").fit(frame, label)
    with pytest.raises(tw.UnknownNameError, match=r"no category 'pink' of 'sky' \(record 0\).*unseen='missing'"):
        strict.predict(new)
    declared = frame.assign(sky=frame["sky"].astype(pd.CategoricalDtype(["clear", "grey", "dark", "pink"])))
    assert clone(model).fit(declared, label).predict(new).shape == (3,)


def test_duplicate_names():
    with pytest.raises(tw.DataError, match=r"(?s)must differ.*'a' 2 times"):
        tw.JointPMFDensity().fit(pd.DataFrame([[1, 2], [2, 1]], columns=["a", "a"]))


@pytest.mark.parametrize("form", ["pandas", "numpy"])
@pytest.mark.parametrize("kind", [tw.JointPMFClassifier, tw.JointPMFDensity, tw.JointPMFImputer])
@pytest.mark.filterwarnings("ignore:columns of more than:UserWarning", "ignore:categories not seen:UserWarning")
def test_tables_as_they_are_can_be_cross_validated(kind, form):
    frame, label = adults()
    X = frame if form == "pandas" else frame.to_numpy()
    if kind is tw.JointPMFImputer:
        for train, test in KFold(4).split(frame):
            imputer = kind(**QUICK).fit(X[train] if form == "numpy" else X.iloc[train])
            filled = imputer.transform(X[test] if form == "numpy" else X.iloc[test])
            assert not pd.isna(np.asarray(filled)).any()
        return
    scores = cross_val_score(kind(**QUICK), X, label, cv=4, error_score="raise")
    assert np.isfinite(scores).all()
    if kind is tw.JointPMFClassifier:
        assert scores.mean() > 0.72


def test_binning_of_integers_gives_one_warning():
    frame, label = adults(600)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        cross_val_score(tw.JointPMFClassifier(**QUICK), frame.drop(columns="country"), label, cv=4)
    assert [str(warning.message) for warning in caught] == [
        "columns of more than 40 whole numbers are put into 8 bins each: 'age', 'gain', 'hours'; "
        "n_bins=None takes every number as a category"
    ]
    model = tw.JointPMFClassifier(**QUICK, n_bins=None).fit(frame, label)  # nothing to say
    assert len(model.pmf_.schema["age"]) > 40


def test_a_common_number_has_an_interval_of_its_own():
    frame, _ = adults(1000)
    bins = tw.Discretizer().fit(frame).bins_
    assert list(bins) == ["age", "gain", "hours"]
    for name, common in (("gain", 0), ("hours", 40)):
        codes = bins[name].codes(frame[name].to_numpy(dtype=float))
        alone = codes[frame[name] == common][0]
        assert (frame[name][codes == alone] == common).all()
        assert len(bins[name].variable) == 8
        others = np.bincount(codes[codes != alone])
        assert others[others > 0].max() <= 2.5 * others[others > 0].min()


@pytest.mark.parametrize("kind", [tw.JointPMFClassifier, tw.JointPMFDensity, tw.JointPMFImputer])
def test_estimators_say_how_their_fits_ended(kind, monkeypatch):
    records = draw_records(dirichlet_rows(4, 3, 2, seed=1), 100, observed=0.8, seed=1)
    codes = np.where(records.codes() < 0, np.nan, records.codes())
    X, y = codes[:, :3], np.arange(100) % 2
    model = kind(**QUICK).fit(X, y)
    assert model.converged_
    assert model.stop_reason_ is tw.StopReason.CONVERGED
    assert 1 <= model.n_iter_ < 300
    monkeypatch.setattr("twoway.estimators.averaging._MOST_PASSES", 2)
    with pytest.warns(ConvergenceWarning, match=f"{kind.__name__} did not converge in 2 passes") as caught:
        model = kind(**QUICK).fit(X, y)
    assert caught[0].filename == __file__
    assert not model.converged_
    assert model.stop_reason_ is tw.StopReason.MAX_ITER
    assert model.n_iter_ == 2


def test_smoothing_may_be_a_number_of_numpy():
    """As the search of scikit-learn over `np.arange` gives it."""
    frame = pd.DataFrame({"item": [0, 0, 0, 1, 1, 1], "annotator": list("abc") * 2, "label": list("xxyyyx")})
    ratings = pd.DataFrame({"Alien": [5, 1, 4], "Bambi": [1, 5, 2]})
    four = np.arange(1, 5)[-1]
    assert tw.LabelAggregator(smoothing=four).fit(frame).smoothing_ == 4.0
    assert tw.RatingPredictor(smoothing=four, rank=1, n_starts=1).fit(ratings).rank_ == 1
    density = tw.JointPMFDensity(smoothing=four, rank=1, n_starts=1).fit(ratings)
    assert density.smoothing_ == 4.0
