"""Columns of real records with a class: the share of classes in the test part that is predicted correctly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoway import datasets
from twoway.arrays import Ints
from twoway.data.records import Records
from twoway.model.pmf import JointPMF
from twoway.model.posterior import posterior_of
from twoway.paper.choosing import CHAINS, ROUNDS, fit_chosen
from twoway.paper.trials import Details, Scores, TrialSetting, trial_seconds, trial_seed
from twoway.solvers import Solver

if TYPE_CHECKING:
    import pandas as pd


Rows = Ints

_CLASS = "class"
_TRAIN, _VALIDATION = 0.5, 0.2

# The ranks that the paper tried.
_RANKS = {"votes": (2, 3, 4, 5, 6), "car": (2, 3, 4, 5), "nursery": (2, 3, 4, 5), "mushroom": (5, 10, 15)}

CLASSIFIERS = ("SVM", "Logistic Regression", "SVM-RBF", "Naive Bayes")


@dataclass(frozen=True)
class Split:
    """A data set, and which of its rows are for what."""

    frame: pd.DataFrame
    records: Records
    """All rows with all columns, read by the categories of the whole data set."""
    train: Rows
    validation: Rows
    test: Rows

    @property
    def train_and_validation(self) -> Rows:
        """The rows that are not for testing."""
        return np.concatenate([self.train, self.validation])


@dataclass(frozen=True)
class Classification(TrialSetting):
    """A trial splits a data set at random: 50 % to train, 20 % to validate, 30 % to test."""

    methods = (*CHAINS, *CLASSIFIERS, "auto")
    name: str
    n_records: int
    """The number of rows used; fewer than all serve to see that everything runs, and try one rank only."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that the paper tried."""
        return _RANKS[self.name]

    @property
    def drawn(self) -> str:
        """How many records."""
        return f"{self.n_records} records split 50:20:30"

    @property
    def work(self) -> float:
        """About how much there is to compute."""
        return 200.0 * self.n_records

    def column(self, varies: str) -> str:
        """Return the name of the data set."""
        return self.name.capitalize()

    def data(self, trial: int) -> Split:
        """Return the split of a trial."""
        frame = _classification_data(self.name)
        rows = np.random.default_rng(trial_seed("records", trial)).permutation(len(frame))[: self.n_records]
        ends = np.rint(np.array([_TRAIN, _TRAIN + _VALIDATION]) * len(rows)).astype(int)
        return Split(frame, Records(frame), *np.split(rows, ends))

    def run(self, method: str, data: Split, trial: int, threads: int | None) -> tuple[Scores, Details]:
        """Return the accuracy of a method on the test part."""
        seed = trial_seed("method", trial)
        if method in CHAINS:
            ranks = self.ranks if self.n_records == len(data.frame) else self.ranks[:1]
            predicted, seconds, details = classify_by_chain(
                CHAINS[method], self.filled(data), ranks, seed=seed, threads=threads
            )
        elif method in CLASSIFIERS:
            predicted, seconds, details = _classify_by_sklearn(method, data, seed=seed)
        else:
            predicted, seconds, details = _classify_by_default(data, seed=seed, threads=threads)
        actual = data.frame[_CLASS].to_numpy()[data.test]
        return {"accuracy": 100.0 * float(np.mean(predicted == actual)), **seconds}, details

    def filled(self, data: Split) -> Split:
        """Return the data as the paper's methods saw them: missing votes are replaced by the most common ones."""
        if self.name != "votes":
            return data
        common = data.frame.iloc[data.train].mode().iloc[0]
        frame = data.frame.fillna(common)
        return replace(data, frame=frame, records=Records(frame))


@cache
def _classification_data(name: str) -> pd.DataFrame:
    """Return a data set as the paper used it."""
    frame: pd.DataFrame = getattr(datasets, name)()
    if name == "nursery":
        frame = frame.drop(columns="finance").replace({_CLASS: {"spec_prior": "priority"}})
    return frame


Result = tuple[NDArray[Any], Scores, Details]
"""The classes predicted for the test part, the seconds, and what was chosen."""


def classify_by_chain(
    chain: Sequence[Solver],
    data: Split,
    ranks: tuple[int, ...],
    *,
    seed: int,
    threads: int | None,
    all_rounds: Sequence[int] = ROUNDS,
    refits: bool = True,
    has_prior: bool = True,
    judge: Rows | None = None,
) -> Result:
    """Return the predictions of a chain of solvers; the defaults are the protocol of the tables.

    Not ``refits`` means that the last fit is to the training part alone, not ``has_prior`` that components count alike
    in the prediction, as in the paper's programs. Rank and rounds are chosen on the rows ``judge``, by default the
    validation part.
    """
    schema = data.records.schema
    label = schema.index(_CLASS)
    hidden = data.records.showing(np.arange(len(schema)) != label)
    codes = data.records.codes()[:, label]

    def predict(pmf: JointPMF, rows: Rows) -> Ints:
        weights = pmf.weights if has_prior else np.full(pmf.rank, 1.0 / pmf.rank)
        memberships = posterior_of(hidden.take(rows).as_block(), weights, pmf.stacked)[0]
        chosen: Ints = (memberships @ pmf.factors[label].T).argmax(axis=1)
        return chosen

    def loss(pmf: JointPMF) -> float:
        rows = data.validation if judge is None else judge
        return float(np.mean(predict(pmf, rows) != codes[rows]))

    parts = data.records.take(data.train), data.records.take(data.train_and_validation if refits else data.train)
    pmf, seconds, details = fit_chosen(chain, *parts, ranks, loss, seed=seed, threads=threads, all_rounds=all_rounds)
    return np.array(schema[_CLASS].categories, dtype=object)[predict(pmf, data.test)], seconds, details


def _classify_by_sklearn(method: str, data: Split, *, seed: int) -> Result:
    """Return the predictions of a scikit-learn classifier, tuned on the validation part, then fitted to both parts."""
    import warnings

    from sklearn.model_selection import GridSearchCV, PredefinedSplit

    fold = np.repeat([-1, 0], [len(data.train), len(data.validation)])
    search = GridSearchCV(*classification_grid(method, seed=seed), cv=PredefinedSplit(fold))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about candidates that do not converge: the validation part decides
        predicted, seconds = _classify_by_fit(search, data)
    return predicted, {**seconds, "seconds": search.refit_time_}, search.best_params_


def _classify_by_default(data: Split, *, seed: int, threads: int | None) -> Result:
    """Return the predictions of the library's classifier with its defaults; it makes its own validation part."""
    from twoway.estimators import JointPMFClassifier

    model = JointPMFClassifier(random_state=seed, threads=threads, unseen="missing")
    return *_classify_by_fit(model, data), {}


def _classify_by_fit(model: Any, data: Split) -> tuple[NDArray[Any], Scores]:
    """Return the predictions of a classifier that is fitted to both parts, and the seconds of the fit."""
    rows, features = data.train_and_validation, data.frame.drop(columns=_CLASS)
    began = time.perf_counter()
    model.fit(features.iloc[rows], data.frame[_CLASS].iloc[rows])
    seconds = trial_seconds(began)
    return model.predict(features.iloc[data.test]), seconds


def classification_grid(method: str, *, seed: int) -> tuple[Any, dict[str, list[Any]]]:
    """Return a classifier on one-hot inputs, and the values of its parameters to choose from.

    A missing cell is a category of its own; categories not seen in training are ignored.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.svm import SVC, LinearSVC

    costs = [0.01, 0.1, 1.0, 10.0, 100.0]
    model, grid = {
        "SVM": (LinearSVC(random_state=seed), {"C": costs}),
        "Logistic Regression": (LogisticRegression(max_iter=1000), {"C": costs}),
        # The squared distance of two records that differ in k attributes is 2k.
        "SVM-RBF": (SVC(random_state=seed, cache_size=500), {"C": [1.0, 10.0, 100.0], "gamma": [0.02, 0.1]}),
        # On one-hot inputs, counts of categories are multinomial.
        "Naive Bayes": (MultinomialNB(), {"alpha": [0.01, 0.1, 1.0, 10.0]}),
    }[method]
    one_hot = OneHotEncoder(handle_unknown="ignore", dtype=np.float64)
    return Pipeline([("one_hot", one_hot), ("model", model)]), {f"model__{name}": grid[name] for name in grid}
