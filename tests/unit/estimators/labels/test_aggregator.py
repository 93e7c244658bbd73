"""LabelAggregator: the right label of each item, accepted input, odd tables and errors."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import twoway as tw
from twoway.errors import DataError, TwowayError, UnknownNameError
from twoway.estimators.labels import confusions


def simulated(accuracies, n_items=200, n_classes=2, *, seed=0, observed=1.0):
    """Return a long table of labels, and the truth."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, n_classes, n_items)
    items, annotators = np.divmod(np.arange(n_items * len(accuracies)), len(accuracies))
    wrong = (truth[items] + random.integers(1, max(n_classes, 2), len(items))) % n_classes
    labels = np.where(random.random(len(items)) < np.array(accuracies)[annotators], truth[items], wrong)
    frame = pd.DataFrame({"item": items, "annotator": annotators, "label": labels})
    frame = frame[random.random(len(frame)) < observed].reset_index(drop=True)
    return frame, pd.Series(truth)


def share_right(model, truth):
    return float((model.labels_ == truth.loc[model.items_].to_numpy()).mean())


FRAME, TRUTH = simulated([0.9, 0.85, 0.8, 0.5, 0.3], observed=0.8)
MODEL = tw.LabelAggregator().fit(FRAME)


def fit(items, annotators, labels, **options):
    """Fit a small table; that two annotators are too few is no news here."""
    with pytest.warns(UserWarning, match="gold"):
        return tw.LabelAggregator().fit((items, annotators, labels), **options)


def test_better_than_the_majority():
    votes = FRAME.groupby("item")["label"].mean().sub(0.5)
    majority = float((votes.gt(0) == TRUTH.loc[votes.index].eq(1)).mean())
    assert share_right(MODEL, TRUTH) > majority + 0.05
    assert MODEL.converged_
    assert MODEL.stop_reason_ is tw.StopReason.CONVERGED
    assert 1 < MODEL.n_iter_ < 1000


def test_shapes():
    assert MODEL.probabilities_.shape == (len(MODEL.items_), 2)
    np.testing.assert_allclose(MODEL.probabilities_.sum(axis=1), 1.0)
    np.testing.assert_allclose(MODEL.confusion_.sum(axis=2), 1.0)
    assert MODEL.class_prior_.sum() == pytest.approx(1.0)
    assert MODEL.labels_.index.name == "item"
    assert [row["smoothing"] for row in MODEL.validation_] == sorted({row["smoothing"] for row in MODEL.validation_})
    assert MODEL.smoothing_ in [row["smoothing"] for row in MODEL.validation_]


def test_quality_and_confusion():
    quality = MODEL.quality()
    assert quality["annotator"].tolist() == [0, 1, 2, 3, 4]
    assert quality["labels"].sum() == len(FRAME)
    np.testing.assert_allclose(quality["accuracy"], [0.9, 0.85, 0.8, 0.5, 0.3], atol=0.1)
    assert (quality["low"] < quality["accuracy"]).all()
    assert (quality["accuracy"] < quality["high"]).all()
    assert quality["information"].idxmin() == 3  # a coin tells nothing, one who is mostly wrong tells something
    narrow = MODEL.quality(level=0.5)
    assert (narrow["high"] - narrow["low"] < quality["high"] - quality["low"]).all()
    one = MODEL.confusion(4)
    np.testing.assert_array_equal(one["probability"].to_numpy().reshape(2, 2), MODEL.confusion_[4])
    pd.testing.assert_frame_equal(MODEL.confusion(np.array([4])), one)
    some = MODEL.confusion([4, 0])
    assert some["annotator"].unique().tolist() == [4, 0]
    pd.testing.assert_frame_equal(some.head(4), one)
    every = MODEL.confusion()
    pd.testing.assert_frame_equal(every[every["annotator"] == 4].reset_index(drop=True), one)
    assert ((every["low"] <= every["probability"]) & (every["probability"] <= every["high"])).all()


def test_always_wrong_is_as_good_as_always_right():
    frame, truth = simulated([0.9, 0.85, 0.8, 0.0, 0.5], seed=1)
    model = tw.LabelAggregator().fit(frame)
    quality = model.quality()
    assert share_right(model, truth) > 0.98
    assert quality.loc[3, "accuracy"] < 0.03
    assert quality.loc[3, "high"] > 0.015  # 200 labels cannot exclude that a few are right
    assert quality["information"].idxmax() == 3


def test_gold_decides_which_class_is_which():
    frame, truth = simulated([0.1, 0.1, 0.15, 0.9], seed=2)
    assert share_right(tw.LabelAggregator().fit(frame), truth) < 0.1  # the majority is wrong
    for gold in (truth[:10].to_dict(), truth[:10], pd.DataFrame({"item": truth[:10].index, "class": truth[:10]})):
        model = tw.LabelAggregator().fit(frame, gold=gold)
        assert share_right(model, truth) > 0.9
        assert model.labels_.loc[:9].tolist() == truth[:10].tolist()
        assert model.probabilities_.loc[:9].max(axis=1).eq(1.0).all()


def test_gold_adds_classes_and_items():
    with pytest.warns(UserWarning, match="class frequencies only: 999"):
        model = tw.LabelAggregator().fit(FRAME, gold={0: 2, 999: 1})
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.labels_.loc[[0, 999]].tolist() == [2, 1]
    assert share_right(MODEL, TRUTH) - (model.labels_[:-1] == TRUTH.loc[model.items_[:-1]]).mean() < 0.02


@pytest.mark.parametrize("as_frame", [pl.DataFrame, pa.Table.from_pandas, lambda frame: pl.DataFrame(frame).lazy()])
def test_frames_of_every_library(as_frame):
    model = tw.LabelAggregator().fit(as_frame(FRAME))
    pd.testing.assert_frame_equal(model.probabilities_, MODEL.probabilities_)
    np.testing.assert_array_equal(MODEL.predict(as_frame(FRAME)), MODEL.labels_)


def test_arrays_columns_and_y():
    arrays = tuple(FRAME[name].to_numpy() for name in ("item", "annotator", "label"))
    renamed = FRAME.rename(columns={"annotator": "worker"})
    for model in (
        tw.LabelAggregator().fit(arrays),
        tw.LabelAggregator().fit(FRAME[["item", "annotator"]], FRAME["label"]),
        tw.LabelAggregator().fit({name: FRAME[name].tolist() for name in FRAME}),
        tw.LabelAggregator(columns=("item", "worker", "label")).fit(renamed),
    ):
        np.testing.assert_array_equal(model.probabilities_, MODEL.probabilities_)
    np.testing.assert_array_equal(tw.LabelAggregator().fit_predict(FRAME), MODEL.labels_)


def test_the_order_of_rows_does_not_matter():
    shuffled = tw.LabelAggregator(smoothing=8).fit(FRAME.sample(frac=1.0, random_state=1))
    sorted_one = tw.LabelAggregator(smoothing=8).fit(FRAME)
    found = shuffled.probabilities_.loc[sorted_one.items_]
    np.testing.assert_allclose(found, sorted_one.probabilities_, atol=1e-4)


def test_deterministic_and_threads():
    for threads in (1, 2):
        again = tw.LabelAggregator(threads=threads).fit(FRAME)
        np.testing.assert_array_equal(again.probabilities_, MODEL.probabilities_)
    assert again.smoothing_ == MODEL.smoothing_


def test_scikit_learn_protocol():
    copy = clone(tw.LabelAggregator(smoothing=3.0))
    assert copy.get_params()["smoothing"] == 3.0
    with pytest.raises(NotFittedError):
        copy.predict(FRAME)
    loaded = pickle.loads(pickle.dumps(MODEL))
    np.testing.assert_array_equal(loaded.predict_proba(FRAME), MODEL.probabilities_)


def test_convergence_is_told(monkeypatch):
    monkeypatch.setattr(confusions, "_MAX_ITER", 2)
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 passes; more smoothing"):
        model = tw.LabelAggregator(smoothing=8).fit(FRAME)
    assert not model.converged_
    assert model.stop_reason_ is tw.StopReason.MAX_ITER


# Predictions


def test_new_items():
    new = (["n1", "n1", "n2"], [0, 1, 4], [1, 1, 1])
    found = MODEL.predict_proba(new)
    assert found.index.tolist() == ["n1", "n2"]
    # By Bayes' rule, from what was learned.
    joint = MODEL.class_prior_.to_numpy() * MODEL.confusion_[0, :, 1] * MODEL.confusion_[1, :, 1]
    np.testing.assert_allclose(found.loc["n1"], joint / joint.sum())
    assert MODEL.predict(new).to_dict() == {"n1": 1, "n2": 0}  # the fifth annotator is mostly wrong


def test_strangers_are_average():
    with pytest.warns(UserWarning, match="average annotators: 'ann', 'bob'"):
        found = MODEL.predict_proba((["a", "a", "b"], ["ann", "bob", "ann"], [1, 1, 1]))
    assert 0.5 < found.loc["b", 1] < found.loc["a", 1] < 1


def test_unknown_labels_are_errors():
    with pytest.raises(UnknownNameError, match="no label '1' among those of training; did you mean the int 1"):
        MODEL.predict((["a"], [0], ["1"]))


# Odd tables


def test_one_annotator():
    model = fit(["a", "b", "c"], ["x"] * 3, [1, 2, 1])
    assert model.labels_.tolist() == [1, 2, 1]


def test_everybody_agrees():
    model = tw.LabelAggregator().fit((np.repeat([1, 2, 3], 3), np.tile([1, 2, 3], 3), np.repeat(["u", "v", "u"], 3)))
    assert model.labels_.tolist() == ["u", "v", "u"]
    assert model.probabilities_.max(axis=1).min() > 0.99


def test_one_class():
    model = tw.LabelAggregator().fit((np.repeat([1, 2], 3), np.tile([1, 2, 3], 2), ["u"] * 6))
    assert (model.probabilities_["u"] == 1.0).all()
    assert model.quality()["information"].eq(0.0).all()
    assert np.isfinite(model.confusion().select_dtypes(float)).all().all()


def test_ties_are_ties():
    model = fit(np.repeat([1, 2, 3], 2), np.tile([1, 2], 3), [0, 1] * 3)
    np.testing.assert_allclose(model.probabilities_, 0.5, atol=1e-9)


def test_one_label_per_item_and_per_annotator():
    model = tw.LabelAggregator().fit((list("abcdef"), list("uvwxyz"), [1, 2, 1, 2, 1, 1]))
    assert model.labels_.tolist() == [1, 2, 1, 2, 1, 1]


def test_labels_of_several_types():
    model = fit(["a", 1, "a", 1], ["x", "x", 2, 2], ["yes", 0, "yes", 0])
    assert model.labels_.to_dict() == {"a": "yes", 1: 0}
    truths = fit(["a", "a", "b", "b"], [1, 2, 1, 2], [True, True, False, False])
    assert truths.labels_.dtype == bool


def test_missing_labels():
    model = tw.LabelAggregator(missing=["unclear"]).fit(
        (["a"] * 3 + ["b"] * 3 + ["c"], [1, 2, 3, 1, 2, 3, 1], ["x", "x", None, "y", "unclear", "y", "?"])
    )
    assert model.labels_.loc[["a", "b"]].tolist() == ["x", "y"]
    np.testing.assert_allclose(model.probabilities_.loc["c"], model.class_prior_)
    assert model.classes_.tolist() == ["x", "y"]


def test_repeated_rows_count_once():
    repeated = pd.concat([FRAME, FRAME[:50]], ignore_index=True)
    with pytest.warns(UserWarning, match="50 labels repeat one by the same annotator"):
        model = tw.LabelAggregator().fit(repeated)
    np.testing.assert_array_equal(model.probabilities_, MODEL.probabilities_)


def test_many_classes():
    frame, truth = simulated([0.7] * 12, n_items=300, n_classes=12, seed=4, observed=0.5)
    assert share_right(tw.LabelAggregator().fit(frame), truth) > 0.93


def test_declared_categories_keep_their_order():
    declared = FRAME.assign(label=pd.Categorical(np.where(FRAME["label"], "yes", "no"), ["yes", "no", "maybe"]))
    model = tw.LabelAggregator().fit(declared)
    # A class that nobody gave is no class: it would be taken for what the others do not explain.
    assert model.classes_.tolist() == ["yes", "no"]
    np.testing.assert_allclose(model.probabilities_["yes"], MODEL.probabilities_[1])


def test_a_stray_label_does_no_harm():
    stray = FRAME.assign(label=FRAME["label"].mask(np.arange(len(FRAME)) == 7, 2))
    model = tw.LabelAggregator().fit(stray)
    assert model.labels_.eq(2).sum() <= 1
    assert share_right(model, TRUTH) > share_right(MODEL, TRUTH) - 0.02


# Errors

ITEMS = {"item": [1, 1, 2], "annotator": [1, 2, 1], "label": [0, 1, 0]}
MISTAKES = {
    "two labels": (
        lambda: tw.LabelAggregator().fit((["a", "a"], ["b", "b"], [1, 0])),
        "annotator 'b' gave item 'a' two",
    ),
    "no column": (lambda: tw.LabelAggregator().fit({"item": [1], "anotator": [1], "label": [1]}), "did you mean 'anot"),
    "two arrays": (lambda: tw.LabelAggregator().fit(([1], [1])), "three arrays"),
    "lengths": (
        lambda: tw.LabelAggregator().fit(([1, 2], [1], [1])),
        "differ in length: 'item' has 2, 'annotator' has 1, 'label' has 1",
    ),
    "new lengths": (
        lambda: MODEL.predict(([1, 2], [1], [1])),
        "differ in length: 'item' has 2, 'annotator' has 1, 'label' has 1",
    ),
    "no rows": (lambda: tw.LabelAggregator().fit(([], [], [])), "no label"),
    "only missing": (lambda: tw.LabelAggregator().fit(([1], [1], [None])), "no observed cell"),
    "no item": (lambda: tw.LabelAggregator().fit(([1, None], [1, 1], [1, 1])), "'item' is missing in row 1"),
    "no table": (lambda: tw.LabelAggregator().fit("labels.csv"), "got str"),
    "numbers": (lambda: tw.LabelAggregator().fit((np.arange(300),) * 3), "300 different labels"),
    "gold twice": (
        lambda: tw.LabelAggregator().fit(ITEMS, gold=pd.DataFrame({"item": [1], "x": [1], "y": [1]})),
        "no column",
    ),
    "gold contradicts": (
        lambda: tw.LabelAggregator().fit(ITEMS, gold=pd.DataFrame({"item": [1, 1], "g": [0, 1]})),
        "item 1 has two gold labels, 0 and 1",
    ),
    "gold of others": (lambda: tw.LabelAggregator().fit(ITEMS, gold={"1": 0}), "did you mean the int 1"),
    "smoothing": (lambda: tw.LabelAggregator(smoothing=0).fit(ITEMS), "smoothing must be None or a number"),
    "columns": (lambda: tw.LabelAggregator(columns=("a", "b")).fit(ITEMS), "three names"),
    "n": (lambda: MODEL.next_questions(0), "n must be a whole number"),
    "annotators": (lambda: MODEL.next_questions(annotators="bob"), "must be a list of names"),
    "annotator": (lambda: MODEL.next_questions(annotators=[9]), "no annotator 9"),
    "confusion": (lambda: MODEL.confusion("9"), "no annotator '9'"),
    "level": (lambda: MODEL.quality(level=95), "between 0 and 1"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake):
    act, message = MISTAKES[mistake]
    with pytest.raises(TwowayError, match=message):
        act()


def test_gold_as_a_mapping_is_by_item():
    # A mapping of columns would be one, too: its keys are items here.
    with pytest.raises(DataError):
        tw.LabelAggregator().fit(ITEMS, gold={1: [0, 1]})


def test_arrow_dictionaries_keep_their_holes():
    table = pa.table({name: pa.array(FRAME[name].tolist()).dictionary_encode() for name in FRAME})
    hole = pa.array([None, *FRAME["label"].tolist()[1:]]).dictionary_encode()
    model = tw.LabelAggregator(smoothing=8).fit(table.set_column(2, "label", hole))
    assert model.quality()["labels"].sum() == len(FRAME) - 1
    with pytest.raises(DataError, match="'item' is missing in row 0"):
        tw.LabelAggregator().fit(table.set_column(0, "item", hole))
    np.testing.assert_array_equal(tw.Records({"label": hole}).codes()[:2, 0] < 0, [True, False])
