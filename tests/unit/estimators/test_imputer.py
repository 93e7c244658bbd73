"""Imputer of categories and numbers: frames, types, probabilities, pipelines."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimator_tables import LIBRARIES, QUICK, survey
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import twoway as tw


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


def test_a_wrong_way_to_impute_is_named_by_fit():
    with pytest.raises(tw.UnknownNameError, match="no way to impute 'modee'; did you mean 'mode'"):
        tw.JointPMFImputer(how="modee").fit(survey(40)[0])
