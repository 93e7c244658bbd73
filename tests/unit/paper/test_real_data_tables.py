"""The tables on real data, with synthetic files in the same format; and their baselines."""

import itertools
import json
import pydoc
import warnings
import zipfile
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import twoway as tw
from twoway.cli.app import make_app
from twoway.datasets.public import UCI_SOURCES
from twoway.estimators.ratings.table import read_ratings
from twoway.model.pmf import JointPMF
from twoway.paper import choosing, classification, recommendation, run, show
from twoway.paper.classification import CLASSIFIERS, Classification, classification_grid
from twoway.paper.recommendation import FILMS, Recommendation
from twoway.paper.results import summarize_results
from twoway.paper.tables import EXPERIMENTS, find_paper_tables

TABLES = ("car", "movielens-animation")


def reproduce(*arguments):
    return CliRunner().invoke(make_app(), ["reproduce", *map(str, arguments)])


def run_here(names, out, methods=(), release="ml-latest-small"):
    """Run one trial of each table at smoke size in this process: to start others takes longer than all else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_run_before_timing", lambda setting, method: None)
        todo = run.plan_run(find_paper_tables(names, release), "smoke", out, trials=1, jobs=1, methods=methods)
        assert len(list(todo.run())) == len(names)


def write_uci(folder, source, random):
    """Write a data set of the right shape: two kinds of records, told apart by every column."""
    kind = random.integers(2, size=source.n_records)
    columns = {}
    for name in source.columns:
        labels = np.array(["a", "b", "c"])[np.where(random.uniform(size=len(kind)) < 0.8, kind, 2)]
        if name == "class" and source.name == "nursery":
            labels = np.where(labels == "a", "priority", np.where(labels == "b", "spec_prior", "not_recom"))
        elif name != "class" and source.name == "votes":
            labels = np.where(random.uniform(size=len(kind)) < 0.1, "?", labels)
        columns[name] = labels
    pd.DataFrame(columns).to_csv(folder / source.file, header=False, index=False)


def write_ratings(folder, random):
    """Write half-star ratings by users who are generous or strict."""
    folder.mkdir(parents=True)
    films = sorted({film for ids in FILMS.values() for film in ids})
    rows = []
    for user in range(90):
        seen = random.uniform(size=len(films)) < 0.8
        ratings = np.clip(random.normal(2.5 + 1.5 * (user % 2), 0.7, size=len(films)), 0.5, 5)
        rows += [
            (user, film, round(rating * 2) / 2, 0)
            for film, rating, is_seen in zip(films, ratings, seen, strict=True)
            if is_seen
        ]
    rows += [(1000, films[0], 5.0, 0), (1001, 999_999, 5.0, 0)]  # too few films, and another film
    pd.DataFrame(rows, columns=["userId", "movieId", "rating", "timestamp"]).to_csv(folder / "ratings.csv", index=False)


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory):
    """Files of the right format in a folder that TWOWAY_DATA names."""
    folder, random = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    (folder / "uci").mkdir()
    for source in UCI_SOURCES.values():
        write_uci(folder / "uci", source, random)
    for release in ("ml-latest-small", "ml-20m"):
        write_ratings(folder / "movielens" / release, random)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWOWAY_DATA", str(folder))
        for cached in (classification._classification_data, recommendation._recommendation_ratings):
            cached.cache_clear()
        yield folder
    for cached in (classification._classification_data, recommendation._recommendation_ratings):
        cached.cache_clear()


@pytest.fixture(scope="module")
def smoke(data, tmp_path_factory):
    """The folder and the output of two tables at smoke size."""
    out = tmp_path_factory.mktemp("smoke")
    run_here(TABLES, out)
    result = reproduce(*TABLES, "--size", "smoke", "--trials", 1, "--out", out)
    assert result.exit_code == 0, (result.output, result.exception)
    return out, result.stdout


# What comes out


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_method_scores(smoke, name):
    out, told = smoke
    experiment = EXPERIMENTS[name]
    lines = [json.loads(line) for line in (out / f"{name}-smoke.jsonl").read_text().splitlines()]
    assert [line["method"] for line in lines] == list(experiment.methods)
    assert [line["reason"] for line in lines] == [None] * len(lines)
    assert all(name in told for name in experiment.methods)
    page = (out / f"{name}-smoke.md").read_text(encoding="utf-8")
    assert page.count("| method |") == 1  # a column a metric
    assert (out / f"{name}-smoke.png").read_bytes().startswith(b"\x89PNG")
    for line in lines:
        scores = line["scores"]
        if name == "car":
            assert scores["accuracy"] > 60  # guessing gets 40
        else:
            assert scores["mae"] <= scores["rmse"] < 1.3
        if line["method"] not in recommendation.AVERAGES:
            assert 0 < scores["seconds"] <= scores["seconds_all"]
    shown = {
        row["method"]: row["cells"][0] for row in summarize_results(experiment, "smoke", out, 1)["metrics"][-1]["rows"]
    }
    if name != "car":
        assert show.shown_ours(shown["Global Average"]) == "—"
        assert shown["Global Average"]["failed"] == 0


@pytest.mark.parametrize("name", ["votes", "nursery", "mushroom", "movielens-action", "movielens-romance"])
def test_the_other_tables_run_too(name, tmp_path):
    run_here([name], tmp_path, ["Naive Bayes", "Movie Average", "RAND-EM"])
    lines = [json.loads(line) for line in (tmp_path / f"{name}-smoke.jsonl").read_text().splitlines()]
    assert len(lines) == 2
    assert all(line["scores"] for line in lines)


@pytest.mark.slow
def test_best_means_highest_accuracy_and_lowest_error(smoke):
    out, _ = smoke
    for name, first in (("car", "accuracy"), ("movielens-animation", "rmse")):
        metric = summarize_results(EXPERIMENTS[name], "smoke", out, 1)["metrics"][0]
        assert metric["name"] == first
        means = {row["method"]: row["cells"][0]["mean"] for row in metric["rows"]}
        pick = max if first == "accuracy" else min
        assert means[metric["best"][0]] == pick(means.values())


def saved(experiment, out, scores):
    """Save one trial of each method with the scores given."""
    setting = experiment.paper[0]
    lines = [
        {
            "version": tw.__version__,
            "setting": asdict(setting),
            "trial": 0,
            "method": method,
            "date": "2026-01-02",
            "machine": "a machine",
            "scores": scores,
            "reason": None,
        }
        for method in experiment.methods
    ]
    path = out / f"{experiment.name}-paper.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def test_the_papers_numbers_and_their_spread(tmp_path):
    experiment = EXPERIMENTS["votes"]
    saved(experiment, tmp_path, {"accuracy": 94.939, "seconds": 1.0, "seconds_all": 2.0})
    text = show.show_as_markdown(summarize_results(experiment, "paper", tmp_path))
    # A higher accuracy is better, and one that rounds to the paper's is as good.
    assert "| CNMF-SPA | **94.94** (paper 90.07 ± 1.3) | 1.00 (paper **0.005**) | 2.00 |" in text
    assert "| CNMF-OPT | **94.94** (paper **94.94 ± 2.13**) |" in text
    assert "`twoway reproduce votes --size paper`" in text


def test_another_release_has_results_of_its_own(tmp_path):
    (small,), (large,) = (find_paper_tables(["movielens-action"], release) for release in ("ml-latest-small", "ml-20m"))
    assert small is EXPERIMENTS["movielens-action"]
    assert large.name == "movielens-action-ml-20m"
    assert large.paper[0] == Recommendation("action", "ml-20m")
    # The paper's numbers were got on ml-20m.
    assert small.published("rmse", "BMF", small.paper[0]) is None
    assert large.published("rmse", "BMF", large.paper[0]) == (0.8011, 0.0012)
    assert large.published("rmse", "auto", large.paper[0]) is None
    saved(large, tmp_path, {"rmse": 0.7, "mae": 0.6, "seconds": 1.0, "seconds_all": 2.0})
    page = tmp_path / "page.md"
    assert reproduce("--page", page, "--movielens", "ml-20m", "--out", tmp_path).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "`twoway reproduce movielens-action --size paper --movielens ml-20m`" in text
    assert "| BMF | **0.7000** (paper 0.8011 ± 0.0012) |" in text
    assert "29 films, not 30" in text


def test_a_release_is_read_where_it_is_asked_for(tmp_path, data):
    """By name in the folder of data, or by a path to what GroupLens ships for ml-20m: a folder, or its zip."""
    run_here(["movielens-action"], tmp_path, ["Global Average"], "ml-20m")
    run_here(["movielens-action"], tmp_path, ["Global Average"])
    path = tmp_path / "elsewhere" / "ml-20m.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(data / "movielens" / "ml-20m" / "ratings.csv", "ml-20m/ratings.csv")
    by_name = (tmp_path / "movielens-action-ml-20m-smoke.jsonl").read_text()
    for place in (path, data / "movielens" / "ml-20m"):
        (experiment,) = find_paper_tables(["movielens-action"], str(place))
        assert experiment.published("rmse", "BMF", experiment.paper[0]) == (0.8011, 0.0012)
        assert experiment.paper[0].drawn == "ml-20m split 50:20:30"
        out = tmp_path / f"from {place.name}"
        run_here(["movielens-action"], out, ["Global Average"], str(place))
        (line,) = (out / "movielens-action-ml-20m-smoke.jsonl").read_text().splitlines()
        assert json.loads(line)["scores"] == json.loads(by_name)["scores"]
    errors = []
    for name in ("movielens-action-ml-20m", "movielens-action"):
        (line,) = (json.loads(text) for text in (tmp_path / f"{name}-smoke.jsonl").read_text().splitlines())
        errors.append(line["scores"]["rmse"])
    assert errors[0] != errors[1]  # other ratings


# Missing data: said before any work


def test_missing_data_raises_before_any_work(tmp_path, monkeypatch):
    classification._classification_data.cache_clear()
    recommendation._recommendation_ratings.cache_clear()
    monkeypatch.setenv("TWOWAY_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **options: (_ for _ in ()).throw(OSError("no network")))
    for table, told in (
        ("car", "get 'car.data' from https://"),
        ("movielens-action", "get 'ml-latest-small.zip' from"),
    ):
        result = reproduce("runtime", table, "--out", tmp_path / "out")
        assert isinstance(result.exception, tw.MissingFileError)
        assert told in str(result.exception)
        assert not (tmp_path / "out").exists()


# How data are prepared


def test_splits_are_50_20_30_and_differ():
    setting = Classification("car", 1728)
    one, same, other = setting.data(0), setting.data(0), setting.data(1)
    assert [len(part) for part in (one.train, one.validation, one.test)] == [864, 346, 518]
    assert sorted(np.concatenate([one.train_and_validation, one.test])) == list(range(1728))
    assert np.array_equal(one.train, same.train)
    assert not np.array_equal(one.train, other.train)


def test_preparation_as_the_paper_did():
    nursery = Classification("nursery", 12960).data(0).frame
    assert nursery.shape == (12960, 8)
    assert "finance" not in nursery
    assert set(nursery["class"]) == {"priority", "not_recom"}
    votes = Classification("votes", 435)
    data = votes.data(0)
    assert data.frame.isna().to_numpy().any()
    filled = votes.filled(data).frame
    assert not filled.isna().to_numpy().any()
    column = data.frame.columns[1]
    holes = data.frame[column].isna()
    assert set(filled.loc[holes, column]) == {data.frame[column].iloc[data.train].value_counts().idxmax()}
    assert filled.loc[~holes, column].equals(data.frame.loc[~holes, column])


def test_ratings_are_rounded_and_hidden():
    setting = Recommendation("animation")
    data = setting.data(0)
    table = data.table
    assert len(table.items) == 30
    assert table.users.max() < 1000  # one rating is too few
    assert set(table.points) == {1, 2, 3, 4, 5}
    raw = tw.datasets.movielens("ml-latest-small").set_index(["user", "item"])["rating"]
    users, items, ratings = data.pairs(np.ones(len(table.keys), dtype=bool))
    expected = raw.loc[list(zip(table.users[users], table.items[items], strict=True))].to_numpy()
    np.testing.assert_array_equal(ratings, np.floor(expected + 0.5).clip(1))
    n = len(table.keys)
    assert data.train.sum() == n - round(0.3 * n) - (n - round(0.8 * n))
    assert not (data.train & data.validation).any()
    assert not (data.test & (data.train | data.validation)).any()
    assert set(data.pairs(data.test)[0]) <= set(data.pairs(data.train)[0])
    assert set(data.pairs(data.test)[1]) <= set(data.pairs(data.train)[1])
    assert len(FILMS["action"]) == len(set(FILMS["action"])) == 29


# The methods


def test_rank_and_rounds_are_those_that_lose_least():
    """The loss decides: where it wants the largest rank and 10 rounds, it gets them, fitted to everything."""
    data = Classification("car", 200).data(0)
    train, both = data.records.take(data.train), data.records.take(data.train_and_validation)
    losses = []

    def loss(pmf):
        losses.append(pmf.rank)
        return abs(len(losses) - 6)  # the sixth candidate: rank 3, 10 rounds

    pmf, seconds, details = choosing.fit_chosen(
        choosing.CHAINS["CNMF-SPA-EM"], train, both, (2, 3), loss, seed=0, threads=1
    )
    assert losses == [2] * 4 + [3] * 4
    assert (details, pmf.rank) == ({"rank": 3, "rounds": 10}, 3)
    assert 0 < seconds["seconds"] < seconds["seconds_all"]
    only_train = choosing.fit_chosen(choosing.CHAINS["CNMF-SPA-EM"], train, train, (3,), loss, seed=0, threads=1)[0]
    assert not np.allclose(pmf.weights, only_train.weights)


def test_the_protocol_can_be_changed_one_thing_at_a_time(monkeypatch):
    """What benchmarks/below_published.py varies: the last fit's records, the prior, where options are chosen."""
    data, calls = Classification("car", 200).data(0), []

    def fit_chosen(chain, train, last, ranks, loss, **options):
        pmf = fit(chain, train, last, ranks, loss, **options)[0]
        calls.append((last.n_records, loss(pmf)))
        return JointPMF([1.0, 1e-200], pmf.factors, pmf.schema), {}, {}

    fit = choosing.fit_chosen
    monkeypatch.setattr(classification, "fit_chosen", fit_chosen)

    def predicted(**options):
        chain = choosing.CHAINS["CNMF-SPA"]
        return classification.classify_by_chain(chain, data, (2,), seed=0, threads=1, **options)[0]

    base = predicted()
    assert (predicted(has_prior=False) != base).any()
    predicted(refits=False)
    predicted(judge=data.train[:1])
    assert [n for n, _ in calls] == [140, 140, 100, 140]
    assert calls[-1][1] in (0.0, 1.0)  # the loss of a single record


def test_a_rank_that_cannot_be_found_is_passed_over():
    data = Classification("car", 200).data(0)
    parts = data.records.take(data.train), data.records.take(data.train_and_validation)
    options = {"seed": 0, "threads": 1}
    details = choosing.fit_chosen(choosing.CHAINS["CNMF-SPA"], *parts, (2, 1000), lambda pmf: -pmf.rank, **options)[2]
    assert details["rank"] == 2
    with pytest.raises(tw.DataError, match="rank 1000 is more than 'spa' can find"):
        choosing.fit_chosen(choosing.CHAINS["CNMF-SPA"], *parts, (1000, 2000), lambda pmf: 0.0, **options)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_take_missing_and_new_labels(name):
    pipeline, grid = classification_grid(name, seed=0)
    assert set(grid) <= set(pipeline.get_params())
    train = pd.DataFrame({"x": ["a", "b", None] * 10, "y": ["c", "d", "c"] * 10}, dtype=object)
    labels = ["p", "q", "r"] * 10
    pipeline.set_params(**{key: values[-1] for key, values in grid.items()}).fit(train, labels)
    assert list(pipeline.predict(train.iloc[:3])) == ["p", "q", "r"]
    assert pipeline.predict(pd.DataFrame({"x": ["new"], "y": ["d"]}, dtype=object)) in ("p", "q", "r")


@pytest.mark.parametrize(
    ("method", "classifier", "shown"),
    [("auto", "twoway.estimators.JointPMFClassifier", ["told"]), ("SVM", "sklearn.model_selection.GridSearchCV", [])],
)
def test_only_the_search_for_options_is_silent(method, classifier, shown, monkeypatch):
    """Candidates that do not converge are passed over; what the library's classifier warns of is shown."""

    def fit(model, *data):
        warnings.warn("told", UserWarning, stacklevel=2)
        return own(model, *data)

    own = pydoc.locate(classifier).fit
    monkeypatch.setattr(f"{classifier}.fit", fit)
    setting = Classification("car", 200)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        setting.run(method, setting.data(0), 0, 1)
    assert [str(warning.message) for warning in caught if str(warning.message) == "told"] == shown


def test_factorization_is_ridge_regressions():
    """μ + b_user + c_item + p_user · q_item: users given the items, then items given the users, one at a time."""
    random = np.random.default_rng(0)
    ratings = np.where(random.uniform(size=(20, 8)) < 0.6, random.integers(1, 6, size=(20, 8)), np.nan)
    rows, columns = np.nonzero(~np.isnan(ratings))
    frame = pd.DataFrame({"user": rows, "item": columns, "rating": ratings[rows, columns]})
    table = read_ratings(frame, ("user", "item", "rating"), scale=range(1, 6))
    mean, items = np.nanmean(ratings), np.zeros((8, 3))
    items[:, :2] = np.random.default_rng(0).normal(scale=0.1, size=(8, 2))

    def regressions(rated, others):
        solved = []
        for row in rated:
            known = ~np.isnan(row)
            inputs = np.column_stack([others[known, :2], np.ones(known.sum())])
            outputs = row[known] - mean - others[known, 2]
            solved.append(np.linalg.solve(inputs.T @ inputs + 10 * np.eye(3), inputs.T @ outputs))
        return np.array(solved)

    for predict in itertools.islice(recommendation.factorization_sweeps(table, 2, seed=0), 4):
        users = regressions(ratings, items)
        items = regressions(ratings.T, users)
        expected = mean + users[:, [2]] + items[:, 2] + users[:, :2] @ items[:, :2].T
        np.testing.assert_allclose(predict(rows, columns), expected[rows, columns].clip(1, 5), rtol=1e-9)


def test_averages_are_averages():
    data = Recommendation("animation").data(0)
    users, items, ratings = data.pairs(data.train | data.validation)
    asked = data.pairs(data.test)[:2]
    for method, keys, group in (("User Average", users, asked[0]), ("Movie Average", items, asked[1])):
        predict, _, _ = recommendation._recommend_by_average(method, data)
        means = pd.Series(ratings).groupby(keys).mean()
        np.testing.assert_allclose(predict(*asked), means.loc[group])
    predict, _, _ = recommendation._recommend_by_average("Global Average", data)
    np.testing.assert_allclose(predict(*asked), ratings.mean())
