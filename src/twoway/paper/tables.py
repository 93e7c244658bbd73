"""The registry of the paper's tables: their columns, the methods they compare, and what is scored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from twoway.datasets.public import UCI_SOURCES
from twoway.errors import check_known
from twoway.paper.choosing import CHAINS
from twoway.paper.classification import CLASSIFIERS, Classification
from twoway.paper.recommendation import AVERAGES, FILMS, Recommendation, recommendation_release
from twoway.paper.synthetic import SOLVERS, Synthetic
from twoway.paper.trials import TrialSetting

Size = Literal["smoke", "paper"]
SIZES: tuple[Size, ...] = ("smoke", "paper")
DEFAULT_RELEASE = "ml-latest-small"

METHODS: dict[str, str] = {
    "CNMF-SPA": "successive projection, the first 3 variables (5 on real data) against the others",
    "CNMF-OPT": "KL fit of all two-way tables by accelerated EM, started by CNMF-SPA",
    "CNMF-OPT-mirror": "the same objective and start, by the paper's block-wise mirror descent",
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
"""What each method does. On real data, ranks and other parameters are chosen on the validation part."""


@dataclass(frozen=True)
class Metric:
    """A number that shows how good a method is."""

    title: str
    short: str
    is_higher_better: bool = False
    decimals: int = 4
    """How many the paper prints: a mean that rounds to its number is as good."""
    shows_decimals: bool = False
    """Whether our means are shown with as many; otherwise with three significant digits."""


METRICS = {
    "mse": Metric("MSE of the factors", "MSE"),
    "mse_published": Metric(
        "MSE as published: with A_1 of the truth multiplied by diag(λ), as in the paper's N=5 tables", "MSE*"
    ),
    "mre": Metric("MRE of the joint, relative to the truth", "MRE"),
    "mre_estimate": Metric("MRE as published: relative to the estimate", "MRE*"),
    "accuracy": Metric("Accuracy on the test part, %", "accuracy, %", True, decimals=2, shows_decimals=True),
    "rmse": Metric("RMSE on the test part", "RMSE", shows_decimals=True),
    "mae": Metric("MAE on the test part", "MAE", shows_decimals=True),
    "seconds": Metric("Seconds per fit", "seconds"),
    "seconds_all": Metric("Seconds in all, with the choice of ranks and other parameters", "seconds in all"),
}


@dataclass(frozen=True)
class Experiment:
    """One table of the paper."""

    name: str
    title: str
    label: str
    """The LaTeX label of the table in the paper."""
    varies: Literal["records", "observed", "shape", "data"]
    """What differs from column to column."""
    paper: tuple[TrialSetting, ...]
    """The columns, as in the paper."""
    smoke: tuple[TrialSetting, ...]
    """Smaller ones, to see that everything runs, and to load and compile everything before a column is timed."""
    metrics: Mapping[str, str | None]
    """What is scored, and the paper's word for it if its number is comparable."""
    methods: tuple[str, ...] = tuple(SOLVERS)
    note: str = ""
    """A remark below the table."""
    is_timed: bool = False
    """Whether fits run one after the other, each with all cores, because their time is measured."""

    def columns(self, size: Size, trials: int | None = None) -> dict[TrialSetting, int]:
        """Return the columns at a size with their numbers of trials, by default the paper's, and 2 at "smoke"."""
        if size == "smoke":
            return dict.fromkeys(self.smoke, trials or 2)
        return {setting: trials or setting.n_trials for setting in self.paper}

    def published(self, metric: str, method: str, setting: TrialSetting) -> tuple[float, float | None] | None:
        """Return the paper's number and its standard deviation, if printed; None without a comparable number."""
        word = self.metrics[metric]
        if word is None or setting not in self.paper or not setting.is_papers:
            return None
        # Two ways to the minimum of one objective are compared with the same published row.
        row = _published_paper_tables()[self.label].get(word, {}).get(method.removesuffix("-mirror"))
        if row is None:
            return None
        number = row[self.paper.index(setting)]
        return tuple(number) if isinstance(number, list) else (number, None)


@cache
def _published_paper_tables() -> Any:
    return json.loads((files(__package__) / "published.json").read_text(encoding="utf-8"))


def _paper_table_by_records(like: Synthetic, *sizes: int) -> tuple[TrialSetting, ...]:
    """Return columns that differ in the number of records."""
    return tuple(replace(like, n_records=size) for size in sizes)


def _paper_table_of_ratings(films: str, release: str = DEFAULT_RELEASE) -> Experiment:
    """Return the table of a set of films on a release of MovieLens, named or at a path."""
    return Experiment(
        name=f"movielens-{films}" + ("" if release == DEFAULT_RELEASE else f"-{recommendation_release(release)}"),
        title=f"RMSE and MAE of hidden ratings, {len(FILMS[films])} films of the set {films.capitalize()}",
        label=_FILM_LABELS[films],
        varies="data",
        paper=(Recommendation(films, release),),
        smoke=(Recommendation(films, release, n_users=100),),
        metrics={"rmse": "RMSE", "mae": "MAE", "seconds": "seconds", "seconds_all": None},
        methods=(*CHAINS, "BMF", *AVERAGES, "auto"),
        note=_NOTES.get(films, ""),
    )


_FEW = Synthetic(1000)
_MANY = Synthetic(1000, n_variables=15, rank=10, epsilon=None)
_DECADES = (10**3, 10**4, 10**5, 10**6)
_UCI_LABELS = {"votes": "tab:votes", "car": "tab:uci_car", "nursery": "tab:nursery", "mushroom": "tab:mushroom"}
_FILM_LABELS = {"action": "tab:action", "animation": "tab:anim", "romance": "tab:romance"}
_NOTES = {
    "votes": "for the paper's methods, missing votes are replaced by the most common ones, as in the paper; `auto` "
    "treats them as missing, the classifiers as a category of their own",
    "nursery": "as in the paper, without the column finance, and with the classes priority and spec_prior as one",
    "action": "29 films, not 30: film 1036 is in the paper's list twice, so that a method can read a hidden rating "
    "from its copy, which makes the paper's numbers look better",
}

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *(
            Experiment(
                name=f"synthetic-eps{epsilon}",
                title=f"MSE and MRE, N=5, F=5, I=10, p=0.5, ε={epsilon}",
                label=label,
                metrics={"mse": None, "mse_published": "MSE", "mre": None, "mre_estimate": "MRE"},
                varies="records",
                paper=_paper_table_by_records(replace(_FEW, epsilon=epsilon), *_DECADES),
                smoke=_paper_table_by_records(replace(_FEW, epsilon=epsilon), 200, 1000),
            )
            for epsilon, label in ((0.1, "tab:synthetic2"), (0.3, "tab:synthetic_ep3"))
        ),
        Experiment(
            name="synthetic-sparse",
            title="MSE at very small p, N=5, F=5, I=10, ε=0.1",
            label="tab:mse_smallp",
            varies="observed",
            paper=tuple(Synthetic(10**5, observed) for observed in (0.1, 0.05, 0.01, 0.005)),
            smoke=tuple(Synthetic(2000, observed) for observed in (0.1, 0.005)),
            metrics={"mse": None, "mse_published": "MSE", "mre": None},
        ),
        *(
            Experiment(
                name=f"synthetic-n15-p{observed}",
                title=f"MSE, and MRE, which the paper lacks, N=15, F=10, I=10, p={observed}",
                label=label,
                metrics={"mse": "MSE", "mre": None},
                varies="records",
                paper=_paper_table_by_records(replace(_MANY, observed=observed), *_DECADES),
                smoke=_paper_table_by_records(replace(_MANY, observed=observed), 100, 200),
            )
            for observed, label in ((0.5, "tab:synthetic3"), (0.2, "tab:synthetic4"))
        ),
        Experiment(
            name="runtime",
            title="Seconds per fit for [N,F,I], p=0.5; one at a time, each with all cores",
            label="tab:runtime",
            varies="shape",
            paper=(replace(_FEW, n_records=10**5), replace(_MANY, n_records=10**5)),
            smoke=(replace(_FEW, n_records=200), replace(_MANY, n_records=100)),
            metrics={"seconds": "seconds"},
            is_timed=True,
        ),
        *(
            Experiment(
                name=name,
                title=f"Accuracy (%) on UCI's {name.capitalize()}",
                label=label,
                varies="data",
                paper=(Classification(name, UCI_SOURCES[name].n_records),),
                smoke=(Classification(name, 150),),
                metrics={"accuracy": "Accuracy", "seconds": "seconds", "seconds_all": None},
                methods=(*CHAINS, *CLASSIFIERS, "auto"),
                note=_NOTES.get(name, ""),
            )
            for name, label in _UCI_LABELS.items()
        ),
        *map(_paper_table_of_ratings, FILMS),
    )
}


def find_paper_tables(names: list[str], release: str = DEFAULT_RELEASE) -> list[Experiment]:
    """Return the experiments of these names, each once; "all" means every one, on a release of MovieLens.

    Examples
    --------
    >>> [experiment.name for experiment in find_paper_tables(["runtime", "runtime"])]
    ['runtime']
    """
    if "all" in names:
        names = list(EXPERIMENTS)
    check_known("table", [*EXPERIMENTS, "all"], *names)
    tables = EXPERIMENTS
    if release != DEFAULT_RELEASE:
        tables = tables | {f"movielens-{films}": _paper_table_of_ratings(films, release) for films in FILMS}
    return [tables[name] for name in dict.fromkeys(names)]


def find_paper_methods(names: list[str]) -> list[str]:
    """Return the methods of these names, in the registry's order; all of them if there are no names.

    Examples
    --------
    >>> find_paper_methods(["auto", "RAND-EM"])
    ['RAND-EM', 'auto']
    """
    check_known("method", METHODS, *names)
    return [name for name in METHODS if name in names or not names]
