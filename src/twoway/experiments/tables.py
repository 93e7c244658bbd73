"""The registry of the paper's synthetic tables: what is drawn, which methods see it, how often, and what they score."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from twoway.datasets.synthetic import dirichlet_rows, draw_records, nearly_separable
from twoway.errors import unknown
from twoway.pmf import JointPMF
from twoway.records import Records
from twoway.solvers import SPA, CoupledNMF, SolverChoice

Size = Literal["smoke", "paper"]
SIZES: tuple[Size, ...] = ("smoke", "paper")

# What a seed is for: each purpose has random numbers of its own, so that no method starts from the model's own.
_FOR_MODEL, _FOR_RECORDS, _FOR_METHOD = 1, 2, 3


@dataclass(frozen=True)
class Setting:
    """What a trial draws: a model, and records from it with holes."""

    n_records: int
    observed: float = 0.5
    """The probability that a cell is observed."""
    n_variables: int = 5
    rank: int = 5
    n_categories: int = 10
    epsilon: float | None = 0.1
    """How far one variable is from separable; None imposes nothing."""

    def model(self, trial: int) -> JointPMF:
        """Return the truth of a trial, the same one for any number of records."""
        shape, seed = (self.n_variables, self.n_categories, self.rank), _seed(_FOR_MODEL, trial)
        if self.epsilon is None:
            return dirichlet_rows(*shape, seed=seed)
        return nearly_separable(self.epsilon, *shape, seed=seed)

    def records(self, trial: int) -> Records:
        """Return the records of a trial, the same ones for every method."""
        seed = _seed(_FOR_RECORDS, trial, self.n_records, round(self.observed * 1e6))
        return draw_records(self.model(trial), self.n_records, observed=self.observed, seed=seed)

    @property
    def work(self) -> float:
        """About how much there is to compute, to foretell the time of what has not been run yet."""
        return float(self.n_records) * self.n_variables * self.rank

    @property
    def n_bytes(self) -> int:
        """About how much memory a trial takes at its peak, while the records are drawn."""
        return self.n_records * (4 * self.n_variables + 10 * (self.n_categories - 1)) + _PROCESS_BYTES


# A process with the library imported and its kernels loaded.
_PROCESS_BYTES = 300 * 2**20


def method_seed(trial: int) -> int:
    """Return the seed that every method of a trial gets."""
    return _seed(_FOR_METHOD, trial)


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


@dataclass(frozen=True)
class Method:
    """A method of the paper, as a solver of this library: it sees data only."""

    solver: Callable[[], SolverChoice]
    starts: int | None
    what: str


# The paper's stopping rules and starts need the truth; these stop on their own objective, with the defaults.
METHODS: dict[str, Method] = {
    "CNMF-SPA": Method(lambda: SPA(first=3), 1, "successive projection, the first 3 variables against the others"),
    "CNMF-OPT": Method(lambda: CoupledNMF(pair_weights="equal"), 1, "KL fit of all two-way tables, started by 'spa'"),
    "CNMF-SPA-EM": Method(lambda: "spa+em", 1, "EM on the records, started by 'spa'"),
    "RAND-EM": Method(lambda: "em", 1, "EM on the records from one random start"),
    "CTD": Method(lambda: "ctd", 1, "least-squares fit of all three-way tables from one random start"),
    "MLE-AD-EM": Method(lambda: "mle-ad+em", 1, "EM, started by the KL fit of all three-way tables"),
    "auto": Method(lambda: "auto", None, "what `twoway.fit` does by default"),
}


@dataclass(frozen=True)
class Experiment:
    """One table of the paper."""

    name: str
    title: str
    label: str
    """The LaTeX label of the table in the paper."""
    varies: Literal["records", "observed", "shape"]
    """What differs from column to column."""
    paper: tuple[Setting, ...]
    """The columns, as in the paper."""
    smoke: tuple[Setting, ...]
    """Smaller ones, to see that everything runs."""
    metrics: Mapping[str, str | None]
    """What is scored, and the paper's word for it where its number is the like one."""
    methods: tuple[str, ...] = field(default=tuple(METHODS))
    is_timed: bool = False
    """Whether trials run one after the other, each with all cores, because time is what they measure."""

    def settings(self, size: Size) -> tuple[Setting, ...]:
        """Return the columns at a size."""
        return self.paper if size == "paper" else self.smoke

    def n_trials(self, setting: Setting, size: Size) -> int:
        """Return how many trials a column has unless told otherwise."""
        if size == "smoke":
            return 2
        return 5 if setting.n_records >= 10**6 else 20

    def column(self, setting: Setting) -> str:
        """Return the title of a column."""
        if self.varies == "records":
            return f"S={power(setting.n_records)}"
        if self.varies == "observed":
            return f"p={setting.observed:g}"
        return f"[{setting.n_variables},{setting.rank},{setting.n_categories}]"

    def published(self, metric: str, method: str, setting: Setting) -> float | None:
        """Return the paper's number, or None where it has none for this very setting."""
        word = self.metrics[metric]
        if word is None or setting not in self.paper:
            return None
        row = _published()[self.label].get(word, {}).get(method)
        return None if row is None else float(row[self.paper.index(setting)])


@cache
def _published() -> Any:
    return json.loads((files(__package__) / "published.json").read_text(encoding="utf-8"))


def power(number: int) -> str:
    """Return a number, as a power of ten where it is a large one.

    Examples
    --------
    >>> power(10**5), power(300)
    ('10⁵', '300')
    """
    exponent = len(str(number)) - 1
    if number != 10**exponent or exponent < 3:
        return str(number)
    return "10" + str(exponent).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _by_records(*sizes: int, like: Setting) -> tuple[Setting, ...]:
    return tuple(replace(like, n_records=size) for size in sizes)


_FEW = Setting(1000)
_MANY = Setting(1000, n_variables=15, rank=10, epsilon=None)
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
            tuple(Setting(10**5, observed) for observed in (0.1, 0.05, 0.01, 0.005)),
            tuple(Setting(2000, observed) for observed in (0.1, 0.05, 0.01, 0.005)),
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
    )
}


def find_experiments(names: list[str]) -> list[Experiment]:
    """Return the experiments of these names, each once; "all" means every one.

    Examples
    --------
    >>> [experiment.name for experiment in find_experiments(["runtime", "runtime"])]
    ['runtime']
    """
    if "all" in names:
        return list(EXPERIMENTS.values())
    for name in names:
        if name not in EXPERIMENTS:
            raise unknown("table", name, [*EXPERIMENTS, "all"])
    return [EXPERIMENTS[name] for name in dict.fromkeys(names)]


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
