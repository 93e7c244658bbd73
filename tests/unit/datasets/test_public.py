"""Data sets: published counts, files as distributed, and errors if they are missing."""

import types
import zipfile

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets

import twoway as tw
from twoway import datasets
from twoway.datasets.public import UCI_SOURCES

CSV = "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n7,1029,3.0,1260759179\n"
DAT = "1::31::2.5::1260759144\n7::1029::3::1260759179\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TWOWAY_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def offline(monkeypatch):
    def refuse(**options):
        raise OSError("no network")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", refuse)


# Counts


def test_titanic_has_its_published_margins():
    frame = datasets.titanic()
    assert frame.shape == (2201, 4)
    assert frame["class"].value_counts().to_dict() == {"crew": 885, "third": 706, "first": 325, "second": 285}
    assert frame["sex"].value_counts().to_dict() == {"male": 1731, "female": 470}
    assert frame["age"].value_counts().to_dict() == {"adult": 2092, "child": 109}
    saved = frame[frame["survived"] == "yes"]
    assert saved["class"].value_counts().to_dict() == {"crew": 212, "first": 203, "third": 178, "second": 118}


def test_berkeley_has_its_published_margins():
    frame = datasets.berkeley_admissions()
    counts = frame.groupby(["sex", "admitted"]).size()
    assert counts.to_dict() == {
        ("female", "no"): 1278,
        ("female", "yes"): 557,
        ("male", "no"): 1493,
        ("male", "yes"): 1198,
    }
    sizes = frame["department"].value_counts().to_dict()
    assert sizes == {"A": 933, "B": 585, "C": 918, "D": 792, "E": 584, "F": 714}


def test_they_can_be_fitted():
    pmf = tw.fit(datasets.titanic(), rank=2, starts=1, smoothing=1)
    assert pmf.given({"sex": "female"}).prob({"survived": "yes"}) > pmf.prob({"survived": "yes"})


# UCI


@pytest.mark.parametrize(
    ("load", "shape", "n_missing", "classes"),
    [
        (datasets.car, (1728, 7), 0, {"unacc": 1210, "acc": 384, "good": 69, "vgood": 65}),
        (datasets.mushroom, (8124, 23), 2480, {"e": 4208, "p": 3916}),
        (datasets.votes, (435, 17), 392, {"democrat": 267, "republican": 168}),
        (
            datasets.nursery,
            (12960, 9),
            0,
            {"not_recom": 4320, "priority": 4266, "spec_prior": 4044, "very_recom": 328, "recommend": 2},
        ),
    ],
)
def test_uci_files_as_shipped(data_folder, monkeypatch, load, shape, n_missing, classes):
    monkeypatch.setenv("TWOWAY_DATA", str(data_folder))
    frame = load()
    assert frame.shape == shape
    assert int(frame.isna().sum().sum()) == n_missing
    assert frame["class"].value_counts().to_dict() == classes


def as_openml(source, *, quotes):
    """Return a data set in OpenML's manner: other names, the class last, categorical, quoted at times."""
    names = [name for name in source.columns if name != "class"]
    rows = {f"{name}%3F": [None, *(f"{name}-{row % 3}" for row in range(1, source.n_records))] for name in names}
    frame = pd.DataFrame(
        {**rows, "Class": ["good", "bad"] * (source.n_records // 2) + ["bad"] * (source.n_records % 2)}
    )
    frame = frame.map(lambda label: f"'{label}'" if quotes and isinstance(label, str) else label)
    return types.SimpleNamespace(frame=frame.astype("category"), target_names=["Class"])


@pytest.mark.parametrize("name", ["car", "nursery", "mushroom", "votes"])
@pytest.mark.parametrize("quotes", [False, True])
def test_openml_comes_out_in_the_shape_of_the_files(folder, monkeypatch, name, quotes):
    source = UCI_SOURCES[name]
    asked = []

    def fetch(**options):
        asked.append(options["data_id"])
        return as_openml(source, quotes=quotes)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    frame = getattr(datasets, name)()
    assert asked == [source.openml_id]
    assert list(frame.columns) == source.columns
    assert set(frame["class"]) == {"good", "bad"}
    feature = next(column for column in source.columns if column != "class")
    assert frame[feature].iloc[0] is None
    assert set(frame[feature].iloc[1:]) == {f"{feature}-{code}" for code in range(3)}


def test_no_file_and_no_network(folder, offline, monkeypatch):
    with pytest.raises(tw.MissingFileError) as caught:
        datasets.mushroom()
    message = str(caught.value)
    assert "https://archive.ics.uci.edu/dataset/73/mushroom" in message
    assert repr(str(folder / "uci" / "agaricus-lepiota.data")) in message
    monkeypatch.delenv("TWOWAY_DATA")
    with pytest.raises(tw.MissingFileError, match=r"'uci/car.data', and name the folder in .* TWOWAY_DATA"):
        datasets.car()


@pytest.mark.parametrize("content", ["", "a,b\nc\nd,e,f\n", "vhigh,vhigh,2,2,small,low,unacc\n"])
def test_a_damaged_file_is_named(folder, content):
    (folder / "uci").mkdir()
    (folder / "uci" / "car.data").write_text(content)
    with pytest.raises(tw.FileFormatError, match=r"car"):
        datasets.car()


# MovieLens


def assert_ratings(frame):
    assert list(frame.columns) == ["user", "item", "rating"]
    assert frame.to_numpy().tolist() == [[1, 31, 2.5], [7, 1029, 3.0]]


@pytest.mark.parametrize(("file", "content"), [("ratings.csv", CSV), ("ratings.dat", DAT)])
def test_folder_file_zip_and_name(folder, file, content):
    unpacked = folder / "movielens" / "ml-one"
    unpacked.mkdir(parents=True)
    (unpacked / file).write_text(content)
    with zipfile.ZipFile(folder / "movielens" / "ml-two.zip", "w") as archive:
        archive.writestr("ml-two/README.txt", "read me")
        archive.writestr(f"ml-two/{file}", content)
    for path in (unpacked, unpacked / file, folder / "movielens" / "ml-two.zip", "ml-one", "ml-two"):
        assert_ratings(datasets.movielens(path))


@pytest.mark.slow
def test_ratings_feed_the_predictor(tmp_path):
    (tmp_path / "ratings.csv").write_text(CSV)
    model = tw.RatingPredictor().fit(datasets.movielens(tmp_path))
    np.testing.assert_allclose(model.predict({"user": [7, 1], "item": [1029, 31]}), [3.0, 2.5])


def test_no_ratings(folder, tmp_path):
    with pytest.raises(tw.MissingFileError) as caught:
        datasets.movielens("ml-20m")
    assert "get 'ml-20m.zip' from https://grouplens.org/datasets/movielens/" in str(caught.value)
    assert repr(str(folder / "movielens" / "ml-20m.zip")) in str(caught.value)
    with pytest.raises(tw.MissingFileError, match=r"has neither ratings.csv nor ratings.dat"):
        datasets.movielens(tmp_path)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("other.txt", "")
    with pytest.raises(tw.FileFormatError, match=r"other.zip' has neither"):
        datasets.movielens(tmp_path / "other.zip")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("ratings.csv", "a,b\n1,2\n"),
        ("ratings.csv", CSV + "x,y,z,w\n"),
        ("ratings.csv", ""),
        ("ratings.dat", CSV),
        ("ratings.zip", "PK"),
    ],
)
def test_foreign_files(tmp_path, file, content):
    (tmp_path / file).write_text(content)
    with pytest.raises(tw.FileFormatError, match="is not a MovieLens file of ratings"):
        datasets.movielens(tmp_path / file)
