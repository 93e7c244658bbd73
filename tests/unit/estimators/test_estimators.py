"""Classifier, imputer and density on categorical tables with missing cells."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hidden_trees import random_tree
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_score
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.estimators import averaging
from twoway.estimators.averaging import fit_average
from twoway.model.trees import Trees
from twoway.solvers.starts import naive_bayes

LIBRARIES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


def survey(n_records=300, missing=0.2, seed=0):
    """Return a frame of text and numbers, all of which tell of a hidden kind, and the kind."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_records)
    noisy = [np.where(rng.random(n_records) < 0.2, rng.integers(0, 3, n_records), kind) for _ in range(3)]
    frame = pd.DataFrame(
        {
            "sky": np.array(["clear", "grey", "dark"], dtype=object)[noisy[0]],
            "stars": noisy[1] + 1.0,
            "warm": np.where(noisy[2] == 0, "yes", "no").astype(object),
            "income": np.exp(rng.normal(kind, 0.4)),
        }
    )
    return frame.mask(rng.random(frame.shape) < missing), np.array(["a", "b", "c"], dtype=object)[kind]


QUICK = {"rank": 3, "smoothing": 0.5, "n_starts": 2}


# Classifier


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
    known = np.concatenate([np.flatnonzero(label == one)[:2] for one in "abc"])
    partly = np.full(len(label), None, dtype=object)
    partly[known] = label[known]
    both = tw.JointPMFClassifier(**QUICK).fit(frame, partly)
    few = tw.JointPMFClassifier(**QUICK, unseen="missing").fit(frame.iloc[known], label[known])
    assert (both.predict(frame) == label).mean() > (few.predict(frame) == label).mean() + 0.02


def test_a_constant_weight_has_no_effect():
    frame, label = survey(80)
    model = tw.JointPMFClassifier(n_starts=1).fit(frame, label)
    for weight in (1e-6, 3, 1e6):
        weighted = tw.JointPMFClassifier(n_starts=1).fit(frame, label, sample_weight=np.full(len(frame), weight))
        assert (weighted.rank_, weighted.smoothing_) == (model.rank_, model.smoothing_)
        np.testing.assert_allclose(weighted.predict_proba(frame), model.predict_proba(frame), atol=1e-9)


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
    losses = {(one["form"], one["rank"], one["smoothing"]): one["loss"] for one in model.candidates_}
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
    pmf = naive_bayes(records, 1.0)
    np.testing.assert_array_equal(pmf.factors[-1], np.eye(3))
    theirs = CategoricalNB(alpha=1.0).fit(codes, classes)
    for factor, logs in zip(pmf.factors, theirs.feature_log_prob_, strict=False):
        np.testing.assert_allclose(factor, np.exp(logs).T)
    np.testing.assert_allclose(pmf.weights, (np.bincount(classes) + 1) / 63)
    # A label that is missing is not counted, nor are missing cells.
    holes = codes.astype(object).mask(np.random.default_rng(0).random(codes.shape) < 0.3).assign(label=label)
    with_more = pd.concat([holes, codes.assign(label=None)], ignore_index=True)
    np.testing.assert_array_equal(
        naive_bayes(tw.Records(with_more), 1.0).stacked, naive_bayes(tw.Records(holes), 1.0).stacked
    )


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
    losses = {one["form"]: one["loss"] for one in model.candidates_}
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be a whole number"),
        ({"smoothing": -1}, "smoothing must be"),
        ({"smoothing": "lots"}, "smoothing must be"),
        ({"n_starts": 0}, "n_starts must be"),
        ({"threads": 0}, "threads must be"),
        ({"n_bins": 1}, "number of bins must be"),
        ({"unseen": "ignore"}, "unseen must be"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_bad_options(options, message):
    frame, label = survey(40)
    with pytest.raises(tw.DataError, match=message):
        tw.JointPMFClassifier(**{**QUICK, **options}).fit(frame, label).predict(frame)


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
    with pytest.warns(UserWarning, match=r"read as missing: 'pink' of 'sky'; unseen='error'") as told:
        found = model.predict_proba(new)
    assert told[0].filename == __file__
    np.testing.assert_array_equal(found, model.predict_proba(new.assign(sky=None)))
    strict = clone(model).set_params(unseen="error").fit(frame, label)
    with pytest.raises(tw.UnknownNameError, match=r"no category 'pink' of 'sky' \(record 0\).*unseen='missing'"):
        strict.predict(new)
    declared = frame.assign(sky=frame["sky"].astype(pd.CategoricalDtype(["clear", "grey", "dark", "pink"])))
    assert clone(model).fit(declared, label).predict(new).shape == (3,)


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


# What is minimised


def random_records(seed=0):
    frame, label = survey(40, seed=seed)
    records = tw.Records(frame.drop(columns="income"))
    codes = np.array(["abc".index(one) for one in label])
    codes[::7] = -1
    return tw.JointPMFClassifier._with_labels(records, tw.Variable("kind", ("a", "b", "c")), codes), codes


def test_appending_a_label():
    records, codes = random_records()
    matrix = records.codes()
    np.testing.assert_array_equal(matrix[:, -1], codes)
    frame, _ = survey(40)
    np.testing.assert_array_equal(matrix[:, :-1], tw.Records(frame.drop(columns="income")).codes())


def test_losses_are_what_they_say():
    records, codes = random_records()
    pmf = tw.fit(records, rank=2, smoothing=1.0)
    matrix, names = records.codes(), records.schema.names
    logs = []
    for row in np.flatnonzero(codes >= 0):
        shown = {n: records.schema[n].categories[c] for n, c in zip(names[:-1], matrix[row], strict=False) if c >= 0}
        logs.append(-np.log(np.asarray(pmf.given(shown).marginal("kind"))[codes[row]]))
    losses, weights = tw.JointPMFClassifier._loss(pmf, records)
    np.testing.assert_allclose(losses, logs)
    assert weights.tolist() == [1.0] * len(logs)

    losses, weights = tw.JointPMFDensity._loss(pmf, records)
    np.testing.assert_allclose(losses, -pmf.log_prob(records))

    # Each hidden cell is scored given what is not hidden of its record, by trees and by one hidden variable.
    n = len(names)
    tree = random_tree((-1, 0), n_states=(2, 3), sizes=records.schema.sizes, homes=[0, 1] * (n // 2) + [0] * (n % 2))
    pmf = tw.JointPMF.average([pmf, tw.JointPMF.from_trees(pmf.schema, Trees(np.ones(1), (tree,)))], [0.3, 0.7])
    assert pmf.n_hidden == 3
    losses, weights = tw.JointPMFImputer._loss(pmf, records)
    hidden = np.random.default_rng(0).random(records.n_observed) < 0.2
    place, expected = 0, []
    for row in range(len(matrix)):
        there = np.flatnonzero(matrix[row] >= 0)
        marks = hidden[place : place + len(there)]
        place += len(there)
        label = {n: records.schema.variables[n].categories[matrix[row, n]] for n in there}
        shown = pmf.given({names[n]: label[n] for n in there[~marks]})
        expected += [-np.log(shown.prob({names[n]: label[n]})) for n in there[marks]]
    np.testing.assert_allclose(losses, expected)
    assert len(weights) == len(losses) > 10


def test_nothing_to_fit():
    records = tw.Records({"a": [None, None], "b": [None, None]}, schema=random_schema())
    with pytest.raises(tw.DataError, match="none of the 2 records"):
        fit_average(records, tw.JointPMFDensity._loss, rank=1, smoothing=None, n_starts=1, tol=1e-3, seed=0, threads=1)


@pytest.mark.parametrize(("tol", "reason"), [(1e-3, tw.StopReason.CONVERGED), (0.0, tw.StopReason.MAX_ITER)])
def test_an_average_knows_how_its_fits_ended(tol, reason):
    records = draw_records(dirichlet_rows(4, 3, 2, seed=1), 100, observed=0.8, seed=1)
    average, _, _ = fit_average(
        records, tw.JointPMFDensity._loss, rank=2, smoothing=1.0, n_starts=3, tol=tol, seed=0, threads=1
    )
    assert average.stop_reason is reason
    assert (average.n_iter >= 300) == (reason is tw.StopReason.MAX_ITER)


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


def random_schema():
    return tw.Schema((tw.Variable("a", (0, 1)), tw.Variable("b", (0, 1))))


# Imputer


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("how", ["mode", "mean", "sample"])
def test_imputer_keeps_frames(library, how):
    frame, _ = survey(150)
    holes = LIBRARIES[library](frame)
    filled = tw.JointPMFImputer(how=how, **QUICK).fit(holes).transform(holes)
    assert type(filled) is type(holes)
    as_pandas = filled if library == "pandas" else filled.to_pandas()
    assert list(as_pandas.columns) == list(frame.columns)
    assert as_pandas.notna().all().all()
    kept = frame.notna().to_numpy()
    assert (as_pandas.to_numpy(dtype=object)[kept] == frame.to_numpy(dtype=object)[kept]).all()
    if library == "pandas":
        assert filled.dtypes.equals(holes.dtypes)
    else:
        assert filled.schema == holes.schema
    assert as_pandas["income"].between(frame["income"].min(), frame["income"].max()).all()
    assert set(as_pandas["sky"]) == {"clear", "grey", "dark"}


def test_imputer_fills_what_fits():
    frame, _ = survey(600, missing=0.0)
    holes = frame.copy()
    hidden = np.random.default_rng(1).random(len(frame)) < 0.3
    holes.loc[hidden, ["sky", "income"]] = np.nan
    imputer = tw.JointPMFImputer(n_starts=3).fit(holes)
    filled = imputer.transform(holes)
    common = (frame["sky"][hidden] == frame["sky"].mode()[0]).mean()
    assert (filled["sky"][hidden] == frame["sky"][hidden]).mean() > common + 0.15
    mean = imputer.set_params(how="mean").transform(holes)["income"]
    errors = (mean - frame["income"])[hidden]
    assert (errors**2).mean() < 0.8 * frame["income"][hidden].var()
    draws = [imputer.set_params(how="sample", random_state=seed).transform(holes)["income"] for seed in (1, 1, 2)]
    assert draws[0].equals(draws[1])
    assert not draws[0].equals(draws[2])
    assert draws[0][hidden].nunique() > 100  # numbers drawn from intervals, not their centres


def test_probabilities_of_holes():
    frame, _ = survey(100)
    imputer = tw.JointPMFImputer(**QUICK).fit(frame)
    proba = imputer.predict_proba(frame)
    assert proba.index.names == ["row", "column", "category"]
    np.testing.assert_allclose(proba.groupby(level=["row", "column"]).sum(), 1.0)
    rows, columns = np.nonzero(frame.isna().to_numpy())
    assert list(dict.fromkeys(proba.index.droplevel("category"))) == list(
        zip(rows, frame.columns[columns], strict=True)
    )
    filled = imputer.transform(frame)
    first = proba.xs("sky", level="column").unstack()
    assert (first.idxmax(axis=1) == filled["sky"].iloc[first.index]).all()
    row = first.index[0]
    shown = frame.drop(columns="income").iloc[row].dropna().to_dict()
    if pd.notna(frame["income"].iloc[row]):
        code = imputer._bins["income"].codes(np.array([frame["income"].iloc[row]]))[0]
        shown["income"] = imputer.pmf_.schema["income"].categories[code]
    expected = imputer.pmf_.given(shown).marginal("sky")
    np.testing.assert_allclose(proba.loc[row, "sky"], np.asarray(expected))
    assert imputer.predict_proba(filled).empty


def test_integers_stay_integers():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"income": rng.integers(0, 10_000, 300).astype(float), "vote": rng.choice(["y", "n"], 300)})
    frame.loc[::5, "income"] = np.nan
    imputer = tw.JointPMFImputer(**QUICK)
    with pytest.warns(UserWarning, match="whole numbers are put into 8 bins each: 'income'"):
        imputer.fit(frame)
    for how in ("mode", "sample"):
        filled = imputer.set_params(how=how).transform(frame)
        assert (filled["income"] % 1 == 0).all()


def adults(n_records=240):
    """People as a census has them: ages, mostly no gains, 40 hours, and countries that one of them comes from."""
    rng = np.random.default_rng(0)
    rich = rng.random(n_records) < 0.3
    country = np.where(rng.random(n_records) < 0.9, "here", [f"country {n}" for n in range(n_records)])
    frame = pd.DataFrame(
        {
            "age": rng.integers(17, 91, n_records) // np.where(rich, 1, 2),
            "gain": np.where(
                rng.random(n_records) < np.where(rich, 0.4, 0.02), rng.integers(100, 99_999, n_records), 0
            ),
            "hours": np.where(rng.random(n_records) < 0.6, 40, rng.integers(1, 99, n_records)),
            "country": country,
            "grade": rng.integers(1, 17, n_records),
        }
    )
    return frame, np.where(rich, ">50K", "<=50K")


@pytest.mark.parametrize("form", ["pandas", "numpy"])
@pytest.mark.parametrize("kind", [tw.JointPMFClassifier, tw.JointPMFDensity, tw.JointPMFImputer])
@pytest.mark.filterwarnings("ignore:columns of more than:UserWarning", "ignore:categories that:UserWarning")
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
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        cross_val_score(tw.JointPMFClassifier(**QUICK), frame.drop(columns="country"), label, cv=4)
    assert [str(one.message) for one in told] == [
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


@pytest.mark.parametrize("how", ["mode", "mean", "sample"])
def test_types_of_columns_stay(how):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 100)
    frame = pd.DataFrame(
        {
            "whole": pd.array(kind, dtype="Int64"),
            "text": pd.array(np.array(["a", "b"])[kind], dtype="string"),
            "truth": pd.array(kind == 1, dtype="boolean"),
            "declared": pd.Categorical(np.array(["lo", "hi"])[kind], categories=["lo", "hi", "never"], ordered=True),
            "single": rng.normal(kind).astype(np.float32),
            "day": pd.to_datetime(np.array(["2020-01-01", "2021-05-05"])[kind]),
        }
    )
    if how == "mean":  # which is no whole number, and no truth value
        frame = frame.drop(columns=["whole", "truth"])
    holes = frame.mask(rng.random(frame.shape) < 0.2)
    filled = tw.JointPMFImputer(how=how, **QUICK).fit_transform(holes)
    assert filled.dtypes.equals(holes.dtypes)
    assert filled.notna().all().all()
    array = holes[["single"]].to_numpy()
    assert tw.JointPMFImputer(how=how, **QUICK).fit_transform(array).dtype == np.float32


def test_duplicate_names():
    with pytest.raises(tw.DataError, match=r"(?s)must differ.*'a' 2 times"):
        tw.JointPMFDensity().fit(pd.DataFrame([[1, 2], [2, 1]], columns=["a", "a"]))


def test_imputer_in_pipelines():
    frame, label = survey(200)
    imputer = tw.JointPMFImputer(**QUICK)
    pipeline = make_pipeline(imputer, OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    assert pipeline.fit(frame, label).score(frame, label) > 0.7
    parts = ColumnTransformer([("some", imputer, ["sky", "stars"])], remainder="passthrough")
    parts.set_output(transform="pandas")
    out = parts.fit_transform(frame)
    assert list(out.columns) == ["some__sky", "some__stars", "remainder__warm", "remainder__income"]
    assert out["some__sky"].notna().all()
    numbers = np.array([[0, 1], [np.nan, 1], [1, 0], [1, np.nan]] * 5)
    named = clone(imputer).set_output(transform="polars").fit_transform(numbers)
    assert isinstance(named, pl.DataFrame)
    assert named.columns == ["x0", "x1"]
    assert clone(imputer).fit(frame).get_feature_names_out().tolist() == list(frame.columns)


def test_imputer_by_name_and_by_place():
    frame, _ = survey(100)
    frame = frame.drop(columns="income")
    imputer = tw.JointPMFImputer(**QUICK).fit(frame)
    straight = imputer.transform(frame)
    assert imputer.transform(frame[["warm", "sky", "stars"]]).equals(straight)
    with pytest.raises(ValueError, match=r"now missing:\n- sky"):
        imputer.transform(frame.drop(columns="sky"))
    array = frame.to_numpy(dtype=object)
    by_place = tw.JointPMFImputer(**QUICK).fit(array)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        assert by_place.transform(pl.from_pandas(frame)).columns == list(frame.columns)
    np.testing.assert_array_equal(by_place.transform(array), straight.to_numpy(dtype=object))


# Density


def test_density_chooses_and_scores():
    frame, _ = survey(500)
    model = tw.JointPMFDensity(n_starts=3).fit(frame)
    assert model.rank_ > 1
    scores = model.score_samples(frame)
    assert scores.shape == (500,)
    assert model.score(frame) == pytest.approx(scores.mean())
    independent = tw.JointPMFDensity(rank=1).fit(frame)
    assert model.score(frame) > independent.score(frame)
    assert model.score_samples(pd.DataFrame([[None] * 4], columns=frame.columns)) == pytest.approx(0.0)


@pytest.mark.parametrize("library", LIBRARIES)
def test_density_draws_tables_like_those_it_saw(library):
    frame, _ = survey(500)
    drawn = tw.JointPMFDensity(**QUICK).fit(LIBRARIES[library](frame)).sample(2000, random_state=1)
    assert type(drawn) is type(LIBRARIES[library](frame))
    drawn = drawn if library == "pandas" else drawn.to_pandas()
    assert list(drawn.columns) == list(frame.columns)
    assert drawn["income"].between(frame["income"].min(), frame["income"].max()).all()
    assert drawn["income"].nunique() > 1900
    assert drawn["income"].median() == pytest.approx(frame["income"].median(), rel=0.15)
    observed, model = (one["sky"].value_counts(normalize=True).sort_index() for one in (frame, drawn))
    np.testing.assert_allclose(observed, model, atol=0.05)


def test_density_of_arrays():
    model = tw.JointPMFDensity(**QUICK).fit(np.array([[0, 1], [1, 0]] * 20))
    assert model.sample(3).shape == (3, 2)
    np.testing.assert_array_equal(model.sample(5, random_state=3), model.sample(5, random_state=3))
    with pytest.raises(ValueError, match="not fitted"):
        tw.JointPMFDensity().sample()


def chain(n_records, seed):
    """Return records of ten columns, each mostly equal to the one before."""
    rng = np.random.default_rng(seed)
    steps = rng.random((n_records, 10)) < np.where(np.arange(10) == 0, 0.5, 0.1)
    return np.cumsum(steps, axis=1) % 2


def test_density_averages_trees_where_held_out_records_ask_for_them(monkeypatch):
    monkeypatch.setattr(averaging, "_RANKS", (1, 2, 4))  # kernels of more states would be compiled for this alone
    train, test = chain(300, 0), chain(500, 1)
    model = tw.JointPMFDensity(n_starts=2).fit(train)
    assert {one["form"] for one in model.candidates_} == {"single", "tree", "trees"}
    assert sum(model.forms_.values()) == pytest.approx(1.0)
    assert set(model.forms_) & {"tree", "trees"}
    assert {"form": next(iter(model.forms_)), "rank": model.rank_, "smoothing": model.smoothing_}.items() <= min(
        (one for one in model.candidates_ if one["form"] == next(iter(model.forms_))), key=lambda one: one["loss"]
    ).items()
    single = tw.JointPMFDensity(n_starts=2, rank=4).fit(train)
    assert single.forms_ == {"single": 1.0}
    assert model.score(test) > single.score(test)
    cells = np.array(np.meshgrid(*[[0, 1]] * 10)).reshape(10, -1).T
    assert np.exp(model.score_samples(cells)).sum() == pytest.approx(1.0)
    assert model.sample(3).shape == (3, 10)


def test_density_chooses_by_given_records(monkeypatch):
    """Records of independent columns to choose by ask for no dependence; to learn from, they would not be asked."""
    monkeypatch.setattr(averaging, "_RANKS", (1, 2, 4))
    train = chain(300, 0)
    independent = np.random.default_rng(0).integers(0, 2, (300, 10))
    model = tw.JointPMFDensity(n_starts=1).fit(train, validation=independent)
    assert model.rank_ == 1
    assert model.forms_ == {"single": 1.0}
    loss = next(one["loss"] for one in model.candidates_ if (one["form"], one["rank"]) == ("single", 1))
    assert loss == pytest.approx(10 * np.log(2), abs=0.02)
    with pytest.raises(ValueError, match="features"):
        tw.JointPMFDensity().fit(train, validation=independent[:, :4])
