"""The registry of the paper's tables: their columns, the methods they compare, and what is scored.

All are declared in tables.json, with the numbers that the paper prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from twoway.errors import check_known
from twoway.paper.classification import Classification
from twoway.paper.recommendation import Recommendation, recommendation_release
from twoway.paper.synthetic import Synthetic
from twoway.paper.trials import PAPER, TrialSetting

Size = Literal["smoke", "paper"]
SIZES: tuple[Size, ...] = ("smoke", "paper")
DEFAULT_RELEASE = "ml-latest-small"
_KINDS: dict[str, type[TrialSetting]] = {
    "synthetic": Synthetic,
    "classification": Classification,
    "recommendation": Recommendation,
}

METHODS: dict[str, str] = PAPER["methods"]
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


METRICS = {name: Metric(**fields) for name, fields in PAPER["metrics"].items()}


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
    printed: Mapping[str, Any]
    """The titles of the paper's "columns"; by the paper's word for a score and by method, its numbers, a number each or
    with a standard deviation."""
    note: str = ""
    """A remark below the table."""
    is_timed: bool = False
    """Whether fits run one after the other, each with all cores, because their time is measured."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that are compared."""
        return self.paper[0].methods

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
        row = self.printed.get(word, {}).get(method.removesuffix("-mirror"))
        if row is None:
            return None
        number = row[self.paper.index(setting)]
        return tuple(number) if isinstance(number, list) else (number, None)


def _read_paper_tables(release: str) -> dict[str, Experiment]:
    """Return the tables by their names; those of ratings are of a release of MovieLens, named or at a path."""
    tables = {}
    for name, declared in PAPER["tables"].items():
        fields, ending = dict(declared), ""
        kind, shared = _KINDS[fields.pop("kind")], fields.pop("shared", {})
        if kind is Recommendation:
            shared = {"release": release}
            ending = "" if release == DEFAULT_RELEASE else f"-{recommendation_release(release)}"
        for size in SIZES:
            fields[size] = tuple(kind(**shared, **column) for column in fields[size])
        tables[name] = Experiment(f"{name}{ending}", **fields)
    return tables


EXPERIMENTS = _read_paper_tables(DEFAULT_RELEASE)


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
    tables = EXPERIMENTS if release == DEFAULT_RELEASE else _read_paper_tables(release)
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
