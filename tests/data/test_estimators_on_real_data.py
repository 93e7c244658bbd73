"""Accuracy of the estimators on real data, in small; benchmarks/estimators.py measures it in full."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

import twoway as tw

pytestmark = pytest.mark.data


def test_votes_with_holes(data_folder, monkeypatch):
    monkeypatch.setenv("TWOWAY_DATA", str(data_folder))
    frame = tw.datasets.votes().astype("category")
    label = frame.pop("class").astype(object)
    scores = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(frame))
        learn, test = order[:304], order[304:]
        scores.append(
            tw.JointPMFClassifier().fit(frame.iloc[learn], label.iloc[learn]).score(frame.iloc[test], label.iloc[test])
        )
    assert np.mean(scores) > 0.94


@pytest.mark.filterwarnings("ignore:columns of more than:UserWarning")
def test_election_is_imputed_better_than_by_the_commonest(data_folder):
    frame = pd.read_csv(data_folder / "lca" / "poLCA__election.csv")
    hidden = (np.random.default_rng(0).random(frame.shape) < 0.2) & frame.notna().to_numpy()
    holes = frame.mask(hidden)
    filled = tw.JointPMFImputer(n_starts=4).fit_transform(holes)
    common = holes.fillna(holes.mode().iloc[0])
    right, right_by_mode = (
        (table.to_numpy(dtype=object)[hidden] == frame.to_numpy(dtype=object)[hidden]).mean()
        for table in (filled, common)
    )
    assert right > right_by_mode + 0.05


@pytest.mark.filterwarnings("ignore:columns of more than:UserWarning", "ignore:categories not seen:UserWarning")
def test_adult_is_cross_validated_as_it_is(data_folder):
    frame = pd.read_csv(data_folder / "uci" / "adult.data.gz", header=None, skipinitialspace=True).head(6000)
    frame.columns = [f"column {number}" for number in range(15)]
    label = frame.pop("column 14")
    scores = cross_val_score(tw.JointPMFClassifier(n_starts=4), frame, label, cv=3, error_score="raise")
    assert scores.mean() > 0.8  # 0.76 are of the more common class


def test_density_of_nltcs(data_folder):
    train, valid, test = (
        np.loadtxt(data_folder / "density" / "nltcs" / f"nltcs.{part}.data.gz", delimiter=",", dtype=np.int64)
        for part in ("train", "valid", "test")
    )
    assert tw.JointPMFDensity(n_starts=4).fit(np.vstack([train, valid])).score(test) >= -6.02


@pytest.mark.parametrize("name", ["bluebird", "rte"])
def test_components_find_the_truth_behind_annotators(data_folder, name):
    """The recipe of docs/estimators.md."""
    given = pd.read_csv(data_folder / "crowd" / name / "label.csv")
    truth = pd.read_csv(data_folder / "crowd" / name / "truth.csv").set_index("item")["truth"]
    votes = given.pivot(index="item", columns="worker", values="label").add_prefix("worker ")
    truth = truth.loc[votes.index].to_numpy()
    schema = tw.Schema(tuple(tw.Variable(worker, (0, 1)) for worker in votes.columns))
    records = tw.Records(votes, schema=schema)
    pmf = tw.fit(records, rank=2, smoothing=2)
    agreed = pd.DataFrame({worker: [0, 1] for worker in votes.columns})
    component_of_class = pmf.memberships(agreed).argmax(axis=1)
    assert sorted(component_of_class) == [0, 1]
    ours = (pmf.memberships(records)[:, component_of_class].argmax(axis=1) == truth).mean()
    assert ours > ((votes.mean(axis=1) > 0.5).to_numpy() == truth).mean()
