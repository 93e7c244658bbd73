"""Classifier of categorical tables with missing cells and missing labels."""

import pickle

import numpy as np
import pandas as pd
import pytest
from estimator_tables import LIBRARIES, QUICK, survey
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import CategoricalNB

import twoway as tw
from twoway.estimators import averaging
from twoway.estimators.averaging import Recipe
from twoway.estimators.base import describe_end
from twoway.solvers.loop import Loop
from twoway.solvers.starts import naive_bayes_start
from twoway.solvers.watch import Watch


@pytest.mark.parametrize("library", LIBRARIES)
def test_classifier_takes_any_frame(library):
    frame, label = survey()
    model = tw.JointPMFClassifier(**QUICK).fit(LIBRARIES[library](frame), label)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.pmf_.schema.names == (*frame.columns, "label")
    assert model.pmf_.rank == 6
    proba = model.predict_proba(LIBRARIES[library](frame))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert (model.predict(LIBRARIES[library](frame)) == label).mean() > 0.8
    # The same table says the same in every library.
    reference = tw.JointPMFClassifier(**QUICK).fit(frame, label).predict_proba(frame)
    np.testing.assert_allclose(proba, reference, atol=1e-12)


def test_probabilities_are_those_of_the_joint():
    frame, label = survey(100)
    frame = frame.drop(columns="income")
    model = tw.JointPMFClassifier(**QUICK).fit(frame, pd.Series(label, name="kind"))
    assert model.pmf_.schema.names[-1] == "kind"
    for row in range(10):
        given = model.pmf_.given(frame.iloc[row].to_dict())
        np.testing.assert_allclose(model.predict_proba(frame.iloc[[row]])[0], np.asarray(given.marginal("kind")))


def test_label_name_never_clashes_with_a_feature():
    frame, label = survey(60)
    frame = frame.rename(columns={"sky": "label", "warm": "label_"})
    assert tw.JointPMFClassifier(**QUICK).fit(frame, label).pmf_.schema.names[-1] == "label__"


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([3.0, np.nan, 1.0, 3.0] * 10, [1.0, 3.0]),
        (["no", None, "yes", "no"] * 10, ["no", "yes"]),
        (pd.array([1, None, 0, 1] * 10, dtype="Int64"), [0, 1]),
        ([True, None, False, True] * 10, [False, True]),
        ([-1, 1, 1, -1] * 10, [-1, 1]),  # -1 is a class
    ],
)
def test_labels_may_be_missing(labels, classes):
    frame, _ = survey(40)
    model = tw.JointPMFClassifier(**QUICK).fit(frame, labels)
    assert model.classes_.tolist() == classes
    assert set(model.predict(frame)) <= set(classes)


def test_records_without_a_label_help():
    """Two labels a class are few; what goes with what is learnt from the other records."""
    frame, label = survey(600, missing=0.0)
    frame = frame[["sky", "stars", "warm"]].astype(object)
    known = np.concatenate([np.flatnonzero(label == category)[:2] for category in "abc"])
    partly = np.full(len(label), None, dtype=object)
    partly[known] = label[known]
    both = tw.JointPMFClassifier(**QUICK).fit(frame, partly)
    few = tw.JointPMFClassifier(**QUICK, unseen="missing").fit(frame.iloc[known], label[known])
    assert (both.predict(frame) == label).mean() > (few.predict(frame) == label).mean() + 0.02


@pytest.mark.slow
def test_a_constant_weight_has_no_effect():
    frame, label = survey(80)
    model = tw.JointPMFClassifier(n_starts=1).fit(frame, label)
    for weight in (1e-6, 3, 1e6):
        weighted = tw.JointPMFClassifier(n_starts=1).fit(frame, label, sample_weight=np.full(len(frame), weight))
        assert (weighted.rank_, weighted.smoothing_) == (model.rank_, model.smoothing_)
        np.testing.assert_allclose(weighted.predict_proba(frame), model.predict_proba(frame), atol=1e-9)


@pytest.mark.slow
def test_the_scale_of_weights_does_not_matter():
    frame, label = survey(80)
    weights = np.random.default_rng(0).random(len(frame)) + 0.5
    first, second = (
        tw.JointPMFClassifier(n_starts=1).fit(frame, label, sample_weight=scale * weights) for scale in (1.0, 1024.0)
    )
    assert (first.rank_, first.smoothing_) == (second.rank_, second.smoothing_)
    np.testing.assert_allclose(first.predict_proba(frame), second.predict_proba(frame), atol=1e-9)


def test_rank_and_smoothing_are_chosen():
    frame, label = survey(600)
    model = tw.JointPMFClassifier(n_starts=2).fit(frame, label)
    losses = {
        (candidate["form"], candidate["rank"], candidate["smoothing"]): candidate["loss"]
        for candidate in model.candidates_
    }
    assert {form for form, _, _ in losses} == {"single", "naive_bayes", "class_trees"}
    first = next(iter(model.forms_))
    chosen = losses[first, model.rank_, model.smoothing_]
    assert chosen < losses["single", 1, 0.25]
    assert chosen <= min(losses.values()) + 0.02
    given = tw.JointPMFClassifier(rank=2, smoothing=3).fit(frame, label)
    assert (given.rank_, given.smoothing_, given.candidates_) == (2, 3.0, ())


def test_classifier_averages_what_its_forms_say_of_the_label():
    """Some features agree or differ by class, others repeat what one says: no form is right about both."""
    rng = np.random.default_rng(1)
    label, first = rng.integers(2, size=(2, 500))
    noisy = [label ^ (rng.random(500) < share) for share in (0.3, 0.35, 0.4)]
    columns = [first, first ^ label ^ (rng.random(500) < 0.2), *noisy, noisy[0] ^ (rng.random(500) < 0.1)]
    frame = pd.DataFrame(np.transpose(columns)).rename(columns=str).mask(rng.random((500, 6)) < 0.2)
    model = tw.JointPMFClassifier(n_starts=2).fit(frame, label)
    assert len(model._parts) > 1
    assert sum(share for share, _ in model._parts) == pytest.approx(1.0)
    assert sum(model.forms_.values()) == pytest.approx(1.0)
    shown, expected = frame.head(30), np.zeros((30, 2))
    for share, pmf in model._parts:
        for row, cells in enumerate(shown.to_dict("records")):
            known = {name: value for name, value in cells.items() if not pd.isna(value)}
            expected[row] += share * np.asarray(pmf.given(known).marginal("label"))
    np.testing.assert_allclose(model.predict_proba(shown), expected, atol=1e-12)


def test_naive_bayes_is_that_of_scikit_learn():
    frame, label = survey(60, missing=0.0)
    codes = frame[["sky", "stars", "warm"]].apply(lambda column: column.astype("category").cat.codes)
    records, classes = tw.Records(codes.assign(label=label)), np.unique(label, return_inverse=True)[1]
    pmf = naive_bayes_start(records, 1.0)
    np.testing.assert_array_equal(pmf.factors[-1], np.eye(3))
    theirs = CategoricalNB(alpha=1.0).fit(codes, classes)
    for factor, logs in zip(pmf.factors, theirs.feature_log_prob_, strict=False):
        np.testing.assert_allclose(factor, np.exp(logs).T)
    np.testing.assert_allclose(pmf.weights, (np.bincount(classes) + 1) / 63)
    # A label that is missing is not counted, nor are missing cells.
    holes = codes.astype(object).mask(np.random.default_rng(0).random(codes.shape) < 0.3).assign(label=label)
    with_more = pd.concat([holes, codes.assign(label=None)], ignore_index=True)
    np.testing.assert_array_equal(
        naive_bayes_start(tw.Records(with_more), 1.0).stacked, naive_bayes_start(tw.Records(holes), 1.0).stacked
    )


def test_naive_bayes_does_not_iterate():
    """Its end is still described as scikit-learn's users expect: one pass, and nothing left to improve."""
    records = tw.Records(pd.DataFrame({"a": list("xxyyxy"), "label": list("uuvvvu")}))
    recipe = Recipe("naive_bayes", 2, 1.0)
    descent = averaging._fit_averaged(records, recipe, (0, 0), Loop("em", 9, 1e-6, Watch()))
    average = averaging.Average.of([descent])
    assert (average.n_iter, average.stop_reason) == (1, tw.StopReason.DIRECT)
    assert descent.objective == pytest.approx(-descent.pmf.log_prob(records).mean())
    model = tw.JointPMFClassifier()
    describe_end(model, average.n_iter, average.stop_reason)
    assert model.converged_


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (["direct", "direct"], "direct"),
        (["converged", "direct"], "converged"),
        (["direct", "max_iter", "converged"], "max_iter"),
    ],
)
def test_fits_end_as_the_least_converged_one(reasons, expected):
    assert averaging.average_stop_reason(map(tw.StopReason, reasons)) == expected


@pytest.mark.slow
def test_classifier_does_not_lose_to_naive_bayes():
    """Features of few records that are independent in each class; the other forms have to guess more."""
    gaps, forms = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        tables = rng.dirichlet(np.ones(4), size=(3, 12))
        label = rng.integers(3, size=1120)
        codes = (rng.random((1120, 12, 1)) > tables[label].cumsum(axis=-1)[..., :-1]).sum(axis=-1)
        frame = pd.DataFrame(codes).rename(columns=str).astype(pd.CategoricalDtype(range(4)))
        model = tw.JointPMFClassifier(n_starts=2).fit(frame[:120], label[:120])
        theirs = CategoricalNB(min_categories=4).fit(codes[:120], label[:120])
        ours, other = (
            -np.log(proba[np.arange(1000), label[120:]])
            for proba in (model.predict_proba(frame[120:]), theirs.predict_proba(codes[120:]))
        )
        gaps.append(ours - other)
        forms += model.forms_
    assert forms.count("naive_bayes") >= 2
    # By chance is what the 120 records by which it chooses cannot tell.
    assert np.mean(gaps) <= 2 * np.std(gaps) / np.sqrt(4 * 120)


def test_classifier_takes_trees_where_features_depend_on_each_other():
    """In one class two features agree, in the other they differ: naive Bayes knows nothing."""
    rng = np.random.default_rng(0)
    label, first, other = rng.integers(2, size=(3, 600))
    frame = pd.DataFrame({"first": first, "second": first ^ label, "third": other, "fourth": other ^ label})
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    model = tw.JointPMFClassifier(n_starts=2).fit(frame[:300], label[:300])
    losses = {candidate["form"]: candidate["loss"] for candidate in model.candidates_}
    assert losses["naive_bayes"] > 0.6
    assert losses["class_trees"] < 0.2
    proba = model.predict_proba(frame[300:])
    assert ((proba[:, 1] > 0.5) == label[300:]).mean() > 0.93
    given = model.pmf_.given({"first": 0, "second": 1})
    np.testing.assert_allclose(
        model.predict_proba(pd.DataFrame({"first": [0.0], "second": [1.0], "third": [np.nan], "fourth": [np.nan]}))[0],
        np.asarray(given.marginal("label")),
        atol=1e-6,  # what is averaged is not quite the mixture
    )


@pytest.mark.slow
def test_classifier_learns_a_rule_of_all_features():
    """Whether three coins show an odd number of heads: no two of them tell anything."""
    rng = np.random.default_rng(0)
    coins = rng.integers(2, size=(500, 3))
    label = coins.sum(axis=1) % 2
    model = tw.JointPMFClassifier(n_starts=2).fit(coins[:300], label[:300])
    assert list(model.forms_) == ["single"]
    assert model.score(coins[300:], label[300:]) == 1.0


@pytest.mark.parametrize("rare", [1, 2])
def test_rare_classes_do_not_break_the_folds(rare):
    frame, label = survey(60)
    label[:rare] = "rare"
    model = tw.JointPMFClassifier(n_starts=1).fit(frame, label)
    proba = model.predict_proba(frame)
    assert model.classes_.tolist() == ["a", "b", "c", "rare"]
    assert np.isfinite(proba).all()


def test_tiny_tables():
    model = tw.JointPMFClassifier().fit([["x"], ["y"]], ["a", "b"])
    assert model.predict([["x"], ["y"]]).shape == (2,)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 40, "one class only, 'a', in 40 records"),
        ([None] * 40, "all 40 labels are missing"),
        ([np.nan] * 40, "all 40 labels are missing"),
        (["a", "b"], "X has 40 records and y has 2 labels"),
        (np.array(["a", 1] * 20, dtype=object), "some labels in y are text"),
        (np.linspace(0.1, 0.7, 40), "Unknown label type"),
        ([0.0, np.inf] * 20, "infinity"),
        (None, "requires y to be passed"),
    ],
)
def test_bad_labels(labels, message):
    frame, _ = survey(40)
    with pytest.raises(ValueError, match=message):
        tw.JointPMFClassifier(**QUICK).fit(frame, labels)


def test_impossible_records():
    """Without smoothing, what training never saw together is impossible; nothing is made up about it."""
    frame = pd.DataFrame({"a": ["x", "y"] * 30, "b": ["x", "y"] * 30, "c": ["x", "y"] * 30})
    label = np.array(["p", "q"] * 28 + ["q"] * 4)
    new = pd.DataFrame({"a": ["x", "x"], "b": ["y", "x"], "c": [None, None]})
    options = {"rank": 2, "smoothing": 0, "n_starts": 1}
    model = tw.JointPMFClassifier(**options).fit(frame, label)
    with pytest.warns(UserWarning, match="1 record is impossible under the model.*NaN.*: 0, counted"):
        found = model.predict_proba(new)
    assert np.isnan(found[0]).all()
    assert found[1].sum() == pytest.approx(1)
    with pytest.warns(UserWarning, match="impossible"):
        assert model.predict(new)[0] == "q"  # the commonest
    imputer = tw.JointPMFImputer(**options).fit(frame)
    with pytest.warns(UserWarning, match="impossible"):
        chances = imputer.predict_proba(new)
    assert chances.loc[0].isna().all()
    assert chances.loc[1].sum() == pytest.approx(1)
    with pytest.warns(UserWarning, match="impossible.*stay missing"):
        assert imputer.transform(new)["c"].isna().tolist() == [True, False]
    assert tw.JointPMFDensity(**options).fit(frame).score_samples(new)[0] == -np.inf


@pytest.mark.slow
def test_same_bytes_whatever_the_threads():
    frame, label = survey(100)
    first, second = (tw.JointPMFClassifier(n_starts=3, threads=threads).fit(frame, label) for threads in (1, 3))
    assert first.candidates_ == second.candidates_
    np.testing.assert_array_equal(first.pmf_.stacked, second.pmf_.stacked)


def test_interrupted_fit_leaves_nothing_fitted(monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    frame, label = survey(60)
    model = tw.JointPMFClassifier()
    monkeypatch.setattr("twoway.estimators.averaging.fit_cells_by_em", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(frame, label)
    assert not hasattr(model, "pmf_")


def test_in_cross_validation_and_in_a_file():
    frame, label = survey(120)
    scores = cross_val_score(tw.JointPMFClassifier(**QUICK), frame, label, cv=3)
    assert scores.mean() > 0.7
    model = tw.JointPMFClassifier(**QUICK).fit(frame, label)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
