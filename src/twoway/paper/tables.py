"""The registry of the paper's tables: their columns, which methods they compare, how often, and what is scored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from twoway.errors import unknown
from twoway.paper.base import Setting
from twoway.paper.choosing import CHAINS
from twoway.paper.classification import CLASSIFIERS, Classification
from twoway.paper.recommendation import AVERAGES, FILMS, Recommendation
from twoway.paper.synthetic import SOLVERS, Synthetic

Size = Literal["smoke", "paper"]
SIZES: tuple[Size, ...] = ("smoke", "paper")
DEFAULT_RELEASE = "ml-latest-small"

METHODS: dict[str, str] = {
    "CNMF-SPA": "successive projection, the first 3 variables (5 on real data) against the others",
    "CNMF-OPT": "KL fit of all two-way tables, started by CNMF-SPA",
    "CNMF-SPA-EM": "EM on the records, started by CNMF-SPA",
    "RAND-EM": "EM on the records from one random start",
    "CTD": "least-squares fit of all three-way tables from one random start",
    "MLE-AD-EM": "EM, started by the KL fit of all three-way tables",
    "SVM": "linear support vector machine, one-hot inputs",
    "Logistic Regression": "multinomial, one-hot inputs",
    "SVM-RBF": "support vector machine with radial basis functions, one-hot inputs",
    "Naive Bayes": "one-hot inputs",
    "BMF": "biased matrix factorisation, alternating ridge regressions",
    "Global Average": "the mean of all ratings",
    "User Average": "the mean of the user's ratings",
    "Movie Average": "the mean of the film's ratings",
    "auto": "the library's defaults: `fit`; on real data `JointPMFClassifier` and `RatingPredictor`",
}
"""What each method does. On real data, ranks and the like are chosen on the validation part."""


@dataclass(frozen=True)
class Experiment:
    """One table of the paper."""

    name: str
    title: str
    label: str
    """The LaTeX label of the table in the paper."""
    varies: Literal["records", "observed", "shape", "data"]
    """What differs from column to column."""
    paper: tuple[Setting, ...]
    """The columns, as in the paper."""
    smoke: tuple[Setting, ...]
    """Smaller ones, to see that everything runs."""
    metrics: Mapping[str, str | None]
    """What is scored, and the paper's word for it where its number is the like one."""
    methods: tuple[str, ...] = tuple(SOLVERS)
    note: str = ""
    """What has to be said below the table."""
    is_timed: bool = False
    """Whether trials run one after the other, each with all cores, because time is what they measure."""

    def settings(self, size: Size) -> tuple[Setting, ...]:
        """Return the columns at a size."""
        return self.paper if size == "paper" else self.smoke

    def n_trials(self, setting: Setting, size: Size) -> int:
        """Return how many trials a column has unless told otherwise."""
        return 2 if size == "smoke" else setting.n_trials

    def column(self, setting: Setting) -> str:
        """Return the title of a column."""
        if isinstance(setting, Classification | Recommendation):
            return setting.name.capitalize()
        assert isinstance(setting, Synthetic)
        if self.varies == "records":
            return setting.drawn
        if self.varies == "observed":
            return f"p={setting.observed:g}"
        return f"[{setting.n_variables},{setting.rank},{setting.n_categories}]"

    def published(self, metric: str, method: str, setting: Setting) -> tuple[float, float | None] | None:
        """Return the paper's number and its standard deviation, where printed; None where there is no like number."""
        word = self.metrics[metric]
        if word is None or setting not in self.paper or not setting.is_papers:
            return None
        row = _published()[self.label].get(word, {}).get(method)
        if row is None:
            return None
        number = row[self.paper.index(setting)]
        return (float(number[0]), float(number[1])) if isinstance(number, list) else (float(number), None)

    def with_release(self, release: str) -> Experiment:
        """Return the table of another release of MovieLens; others are as they are."""
        if not any(isinstance(setting, Recommendation) for setting in self.paper) or release == DEFAULT_RELEASE:
            return self
        paper, smoke = (
            tuple(replace(setting, release=release) for setting in settings if isinstance(setting, Recommendation))
            for settings in (self.paper, self.smoke)
        )
        return replace(self, name=f"{self.name}-{release}", paper=paper, smoke=smoke)


@cache
def _published() -> Any:
    return json.loads((files(__package__) / "published.json").read_text(encoding="utf-8"))


def _by_records(*sizes: int, like: Synthetic) -> tuple[Setting, ...]:
    return tuple(replace(like, n_records=size) for size in sizes)


_VOTES_NOTE = (
    "the paper's methods get missing votes filled by the most common ones, as there; `auto` takes them as missing, the "
    "classifiers as a category of their own"
)
_NURSERY_NOTE = "as in the paper, without the column finance, and with the classes priority and spec_prior as one"
_ACTION_NOTE = (
    "29 films, not 30: film 1036 stands in the paper's list twice, so that there a method can read a hidden rating off "
    "its copy; the paper's numbers are flattered by that"
)
_FEW = Synthetic(1000)
_MANY = Synthetic(1000, n_variables=15, rank=10, epsilon=None)
_MEASURES: dict[str, str | None] = {"mse": None, "mse_published": "MSE", "mre": None, "mre_estimate": "MRE"}
_DECADES = (10**3, 10**4, 10**5, 10**6)

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *(
            Experiment(
                f"synthetic-eps{epsilon}",
                f"MSE and MRE, N=5, F=5, I=10, p=0.5, ε={epsilon}",
                label,
                "records",
                _by_records(*_DECADES, like=replace(_FEW, epsilon=epsilon)),
                _by_records(200, 1000, like=replace(_FEW, epsilon=epsilon)),
                _MEASURES,
            )
            for epsilon, label in ((0.1, "tab:synthetic2"), (0.3, "tab:synthetic_ep3"))
        ),
        Experiment(
            "synthetic-sparse",
            "MSE at very small p, N=5, F=5, I=10, ε=0.1",
            "tab:mse_smallp",
            "observed",
            tuple(Synthetic(10**5, observed) for observed in (0.1, 0.05, 0.01, 0.005)),
            tuple(Synthetic(2000, observed) for observed in (0.1, 0.005)),
            {"mse": None, "mse_published": "MSE", "mre": None},
        ),
        *(
            Experiment(
                f"synthetic-n15-p{observed}",
                f"MSE, and MRE, which the paper lacks, N=15, F=10, I=10, p={observed}",
                label,
                "records",
                _by_records(*_DECADES, like=replace(_MANY, observed=observed)),
                _by_records(100, 200, like=replace(_MANY, observed=observed)),
                {"mse": "MSE", "mre": None},
            )
            for observed, label in ((0.5, "tab:synthetic3"), (0.2, "tab:synthetic4"))
        ),
        Experiment(
            "runtime",
            "Seconds a fit for [N,F,I], p=0.5; one at a time, each with all cores",
            "tab:runtime",
            "shape",
            (replace(_FEW, n_records=10**5), replace(_MANY, n_records=10**5)),
            (replace(_FEW, n_records=200), replace(_MANY, n_records=100)),
            {"seconds": "seconds"},
            is_timed=True,
        ),
        *(
            Experiment(
                name,
                f"Accuracy (%) on UCI's {name.capitalize()}",
                label,
                "data",
                (Classification(name, n_records),),
                (Classification(name, 150),),
                {"accuracy": "Accuracy", "seconds": "seconds", "seconds_all": None},
                (*CHAINS, *CLASSIFIERS, "auto"),
                note,
            )
            for name, label, n_records, note in (
                ("votes", "tab:votes", 435, _VOTES_NOTE),
                ("car", "tab:uci_car", 1728, ""),
                ("nursery", "tab:nursery", 12960, _NURSERY_NOTE),
                ("mushroom", "tab:mushroom", 8124, ""),
            )
        ),
        *(
            Experiment(
                f"movielens-{name}",
                f"RMSE and MAE of hidden ratings, {len(films)} films of the set {name.capitalize()}",
                label,
                "data",
                (Recommendation(name),),
                (Recommendation(name, n_users=100),),
                {"rmse": "RMSE", "mae": "MAE", "seconds": "seconds", "seconds_all": None},
                (*CHAINS, "BMF", *AVERAGES, "auto"),
                _ACTION_NOTE if name == "action" else "",
            )
            for (name, films), label in zip(FILMS.items(), ("tab:action", "tab:anim", "tab:romance"), strict=True)
        ),
    )
}


def find_experiments(names: list[str], release: str = DEFAULT_RELEASE) -> list[Experiment]:
    """Return the experiments of these names, each once; "all" means every one, on a release of MovieLens.

    Examples
    --------
    >>> [experiment.name for experiment in find_experiments(["runtime", "runtime"])]
    ['runtime']
    """
    if "all" in names:
        names = list(EXPERIMENTS)
    for name in names:
        if name not in EXPERIMENTS:
            raise unknown("table", name, [*EXPERIMENTS, "all"])
    return [EXPERIMENTS[name].with_release(release) for name in dict.fromkeys(names)]


def find_methods(names: list[str]) -> list[str]:
    """Return the methods of these names, in the registry's order; all of them for none.

    Examples
    --------
    >>> find_methods(["auto", "RAND-EM"])
    ['RAND-EM', 'auto']
    """
    for name in names:
        if name not in METHODS:
            raise unknown("method", name, METHODS)
    return [name for name in METHODS if name in names or not names]
