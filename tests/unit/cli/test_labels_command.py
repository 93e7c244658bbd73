"""``twoway labels``: the summary, the files it writes, gold labels, and what goes wrong."""

import json

import numpy as np
import pandas as pd
import pytest

import twoway as tw

COLUMNS = ("--item", "photo", "--annotator", "worker", "--label", "kind")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    random = np.random.default_rng(0)
    truth = random.choice(["=cat", "dog"], 60)
    photos, workers = np.divmod(np.arange(60 * 5), 5)
    other = np.where(truth == "dog", "=cat", "dog")
    kinds = np.where(random.random(300) < np.array([0.95, 0.9, 0.8, 0.8, 0.1])[workers], truth[photos], other[photos])
    frame = pd.DataFrame({"photo": photos, "worker": [f"w{n}" for n in workers], "kind": kinds, "seconds": 3})
    frame.loc[0, "kind"] = None
    frame.to_csv(folder / "labels.csv", index=False)
    frame.to_parquet(folder / "labels.parquet")
    pd.DataFrame({"photo": range(5), "true": truth[:5]}).to_csv(folder / "gold.csv", index=False)
    pd.DataFrame({"photo": [1, 1], "true": ["dog", "=cat"]}).to_csv(folder / "twice.csv", index=False)
    return folder


def test_all_files(cli, folder):
    code, out, err = cli(
        *("labels", "labels.csv", *COLUMNS, "--gold", "gold.csv", "-o", "truth.csv", "--proba"),
        *("--annotators", "workers.parquet", "--questions", "next.csv", "--number", "4"),
    )
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "299 labels of 60 items by 5 annotators"
    model = tw.LabelAggregator(columns=("photo", "worker", "kind")).fit(
        pd.read_csv(folder / "labels.csv"), gold=pd.read_csv(folder / "gold.csv")
    )
    truth = pd.read_csv(folder / "truth.csv")
    assert truth.columns.tolist() == ["photo", "kind", "probability", "P(=cat)", "P(dog)"]
    assert truth["kind"].tolist() == model.labels_.tolist()
    np.testing.assert_allclose(truth[["P(=cat)", "P(dog)"]], model.probabilities_)
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "workers.parquet"), model.quality(), check_dtype=False)
    asked = pd.read_csv(folder / "next.csv")  # every worker labelled every photo but one
    assert len(asked) == len(model.next_questions(4))


def test_the_same_from_parquet(cli):
    results = [json.loads(cli("labels", name, *COLUMNS, "--json")[1]) for name in ("labels.csv", "labels.parquet")]
    assert results[0] == results[1]
    assert results[0]["items"] == 60
    assert results[0]["converged"]
    assert [one["label"] for one in results[0]["classes"]] == ["=cat", "dog"]
    assert {one["annotator"] for one in results[0]["best"]} | {one["annotator"] for one in results[0]["worst"]} == {
        f"w{n}" for n in range(5)
    }


def test_missing_labels(cli):
    _, out, _ = cli("labels", "labels.csv", *COLUMNS, "--missing", "dog", "--json")
    assert [one["label"] for one in json.loads(out)["classes"]] == ["=cat"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["labels.csv"], 3, "no column 'item'"),
        (["labels.csv", *COLUMNS[:-1], "knd"], 3, "did you mean 'kind'"),
        (["none.csv", *COLUMNS], 4, "none.csv"),
        (["labels.csv", *COLUMNS, "--gold", "twice.csv"], 3, "two gold labels, 'dog' and '=cat'"),
        (["labels.csv", *COLUMNS, "--gold", "none.csv"], 4, "none.csv"),
        (["labels.csv", *COLUMNS, "-o", "labels.csv", "--force"], 4, "input of this command"),
        (["labels.csv", *COLUMNS, "--gold", "gold.csv", "--annotators", "gold.csv", "--force"], 4, "input of this"),
        (["labels.csv", *COLUMNS, "--smoothing", "-1"], 3, "smoothing must be a number"),
    ],
)
def test_mistakes(cli, arguments, code, message):
    result = cli("labels", *arguments)
    assert result[0] == code
    assert message in result[2]
