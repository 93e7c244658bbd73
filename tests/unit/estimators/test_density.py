"""Density of categorical tables: choice, scores and draws."""

import numpy as np
import pandas as pd
import pytest
from estimator_tables import LIBRARIES, QUICK, survey

import twoway as tw
from twoway.estimators import averaging


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
    observed, model = (table["sky"].value_counts(normalize=True).sort_index() for table in (frame, drawn))
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


@pytest.mark.slow
def test_density_averages_trees_where_held_out_records_ask_for_them(monkeypatch):
    monkeypatch.setattr(averaging, "_RANKS", (1, 2, 4))  # kernels of more states would be compiled for this alone
    train, test = chain(300, 0), chain(500, 1)
    model = tw.JointPMFDensity(n_starts=2).fit(train)
    assert {candidate["form"] for candidate in model.candidates_} == {"single", "tree", "trees"}
    assert sum(model.forms_.values()) == pytest.approx(1.0)
    assert set(model.forms_) & {"tree", "trees"}
    assert {"form": next(iter(model.forms_)), "rank": model.rank_, "smoothing": model.smoothing_}.items() <= min(
        (candidate for candidate in model.candidates_ if candidate["form"] == next(iter(model.forms_))),
        key=lambda candidate: candidate["loss"],
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
    loss = next(
        candidate["loss"] for candidate in model.candidates_ if (candidate["form"], candidate["rank"]) == ("single", 1)
    )
    assert loss == pytest.approx(10 * np.log(2), abs=0.02)
    with pytest.raises(ValueError, match="features"):
        tw.JointPMFDensity().fit(train, validation=independent[:, :4])
