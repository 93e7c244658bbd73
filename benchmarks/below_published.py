"""Find out why some cells of the paper's tables are below the published number: run them with one thing changed.

    python benchmarks/below_published.py [--trials 10] [--page docs/results.md]
    python benchmarks/below_published.py --only n15 mirror           the cells with all of these words

Reads which cells of docs/results.md are worse than the paper's by more than two standard errors of our trials, and runs
each again on the same data, with the parts of the data, the prediction or the end of the fit changed. Prints two
Markdown tables, mean ± standard error over the trials, of which "ours" has all and the others the first ones; --page
writes them between the two marks of that page. Needs the data of ``twoway reproduce`` (TWOWAY_DATA). Set
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twoway.data.records import Records
from twoway.errors import TwowayError
from twoway.model.pmf import JointPMF
from twoway.paper.choosing import CHAINS, FirstFive
from twoway.paper.classification import Classification, Split, classify_by_chain
from twoway.paper.show import shown_digits
from twoway.paper.synthetic import SOLVERS, Synthetic, synthetic_scores
from twoway.paper.tables import EXPERIMENTS, METRICS
from twoway.paper.trials import trial_seed
from twoway.solvers import EM, SPA, CoupledNMF, Evidence, Problem, Solver, find_solver
from twoway.solvers.starts import softened_start

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results.md"
BEGIN, END = "<!-- below_published.py writes from here -->", "<!-- to here -->"
LEAST_ERRORS = 2.0
CLASS = "class"


@dataclass(frozen=True)
class Cell:
    """A number of a table, and the paper's."""

    table: str
    metric: str
    method: str
    setting: Classification | Synthetic
    ours: str
    paper: float

    @property
    def title(self) -> str:
        """The table, and the column where it has several."""
        experiment = EXPERIMENTS[self.table]
        return self.table if experiment.varies == "data" else f"{self.table}, {self.setting.column(experiment.varies)}"


def cells_below(page: str) -> Iterator[Cell]:
    """Yield the cells of a page of results that are worse than the paper's by more than chance."""
    titles = {metric.title: name for name, metric in METRICS.items()}
    shorts = {metric.short: name for name, metric in METRICS.items()}
    experiment, metric, columns = None, None, []
    for line in page.splitlines():
        if line.startswith("## "):
            experiment = EXPERIMENTS.get(line[3:])
        elif line.startswith("**"):
            metric = titles.get(line.strip("*"))
        elif line.startswith("| method"):
            columns = [cell.strip() for cell in line.split("|")[2:-1]]
        elif experiment is not None and "(paper **" in line:
            method, *texts = [cell.strip() for cell in line.split("|")[1:-1]]
            for place, (column, text) in enumerate(zip(columns, texts, strict=True)):
                found = re.fullmatch(r"([\d.]+) ± ([\d.]+)(†?) \(paper \*\*([\d.]+).*\)", text)
                name = metric or shorts.get(column)
                if found is None or name is None or name.startswith("seconds"):
                    continue
                setting = experiment.paper[place if metric else 0]
                mean, paper = float(found[1]), float(found[4])
                error = float(found[2]) / np.sqrt(setting.n_trials)
                if abs(mean - paper) > LEAST_ERRORS * error:
                    ours = f"{found[1]} ± {error:.{len(found[2].partition('.')[2])}f}{found[3]}"
                    yield Cell(experiment.name, name, method, setting, ours, paper)


# Real data


def other_split(data: Split) -> Split:
    """Return the same rows, in the same order, split 70:10:20."""
    rows = np.concatenate([data.train, data.validation, data.test])
    ends = np.rint(np.array([0.7, 0.8]) * len(rows)).astype(int)
    return Split(data.frame, data.records, *np.split(rows, ends))


def class_moved(data: Split) -> Split:
    """Return the same data with the class in the other group of CNMF-SPA: last if it was first, and vice versa."""
    names = [name for name in data.frame.columns if name != CLASS]
    names = [*names, CLASS] if data.frame.columns[0] == CLASS else [CLASS, *names]
    frame = data.frame[names]
    return replace(data, frame=frame, records=Records(frame))


def plain(data: Split) -> Split:
    return data


FITTED = {"early": 30, "converged": 5000}
# How the data are changed, the options of the prediction, and when the fit ends.
ON_REAL_DATA: dict[str, tuple[Callable[[Split], Split], dict[str, object], str | None]] = {
    "unchanged": (plain, {}, None),
    "fitted to the 50 % only": (plain, {"refits": False}, None),
    "split 70:10:20": (other_split, {}, None),
    "class in the other group": (class_moved, {}, None),
    "λ left out": (plain, {"has_prior": False}, None),
    "30 passes": (plain, {}, "early"),
    "to convergence": (plain, {}, "converged"),
    "from CNMF-SPA": (plain, {}, "from CNMF-SPA"),
    "50 % only, to convergence": (plain, {"refits": False}, "converged"),
    "50 % only, λ left out": (plain, {"refits": False, "has_prior": False}, None),
    "chosen on the test part": (plain, {"judge": "test"}, None),
}


def accuracy(cell: Cell, trial: int, variant: str) -> float:
    """Return the accuracy of a method with one thing changed, in percent."""
    change, options, end = ON_REAL_DATA[variant]
    data = change(cell.setting.filled(cell.setting.data(trial)))
    chain = CHAINS[cell.method]
    if options.get("judge") == "test":
        options = {"judge": data.test}
    if end == "from CNMF-SPA":
        if not isinstance(chain[-1], CoupledNMF):
            return np.nan
        chain = (FirstFive(), *chain)
    elif end is not None:
        if not isinstance(chain[-1], CoupledNMF | EM):
            return np.nan
        last = replace(chain[-1], max_iter=FITTED[end], tol=1e-8 if end == "converged" else chain[-1].tol)
        chain, options = (*chain[:-1], last), {**options, "all_rounds": (FITTED[end],)}
    if variant == "class in the other group" and not any(isinstance(solver, FirstFive) for solver in chain):
        return np.nan
    seed = trial_seed("method", trial)
    predicted, _, _ = classify_by_chain(chain, data, cell.setting.ranks, seed=seed, threads=1, **options)
    return 100.0 * float(np.mean(predicted == data.frame[CLASS].to_numpy()[data.test]))


# Synthetic data


@dataclass(frozen=True)
class Change:
    """What is changed about a chain of solvers."""

    passes: int | None = None
    """Where the last solver ends, if early."""
    has_true_weights: bool = False
    """Whether CNMF-OPT starts from the true weights, as in the paper."""
    tries_splits: bool = False
    """Whether CNMF-SPA tries six splits of the variables, not the first three against the others."""

    def applies(self, chain: Sequence[Solver]) -> bool:
        """Return whether it changes anything."""
        if self.has_true_weights and not isinstance(chain[-1], CoupledNMF):
            return False
        if self.tries_splits and not isinstance(chain[0], SPA):
            return False
        return self.passes is None or not isinstance(chain[-1], SPA)


ON_SYNTHETIC_DATA = {
    "unchanged": Change(),
    "10 passes": Change(10),
    "30 passes": Change(30),
    "100 passes": Change(100),
    "true λ at the start": Change(has_true_weights=True),
    "true λ, 30 passes": Change(30, has_true_weights=True),
    "best of 6 splits": Change(tries_splits=True),
}


def error(cell: Cell, trial: int, variant: str) -> float:
    """Return the error of a method with one thing changed."""
    setting, change, (choice, starts) = cell.setting, ON_SYNTHETIC_DATA[variant], SOLVERS[cell.method]
    solver = find_solver(choice, starts)
    chain = getattr(solver, "solvers", (solver,))
    if not change.applies(chain):
        return np.nan
    *first, last = (SPA() if change.tries_splits and isinstance(one, SPA) else one for one in chain)
    truth, records = setting.model(trial), setting.data(trial)
    evidence = Evidence(records.schema, records=records, threads=1)
    problem = Problem(evidence, setting.rank, trial_seed("method", trial))
    for one in first:
        pmf = one.solve(problem).pmf
        if change.has_true_weights:
            pmf = JointPMF.from_stacked(truth.schema, truth.weights, pmf.stacked)
        problem = replace(problem, start=softened_start(pmf, evidence.sets.shares))
    last = last if change.passes is None else replace(last, max_iter=change.passes)
    return synthetic_scores(truth, last.solve(problem).pmf, 0.0)[cell.metric]


# The tables


def shown(values: list[float], decimals: int | None) -> str:
    """Return a mean and its standard error, "-" for what does not apply, and how many trials failed."""
    known = [value for value in values if not np.isnan(value)]
    if len(known) < 2:
        return "-"
    digits = shown_digits(np.mean(known)) if decimals is None else decimals
    return f"{np.mean(known):.{digits}f} ± {np.std(known, ddof=1) / np.sqrt(len(known)):.{digits}f}"


def score(run: Callable[[Cell, int, str], float], cell: Cell, trial: int, variant: str) -> float:
    try:
        return run(cell, trial, variant)
    except TwowayError:
        return np.nan


def table(
    cells: list[Cell], variants: list[str], run: Callable[[Cell, int, str], float], decimals: int | None, n_trials: int
) -> Iterator[str]:
    """Yield the lines of a table, a row per cell."""
    yield f"| table | method | paper | ours | {' | '.join(variants)} |\n|---|---|---|---|{'---|' * len(variants)}"
    for cell in cells:
        trials = range(min(n_trials, cell.setting.n_trials))
        scores = ([score(run, cell, trial, variant) for trial in trials] for variant in variants)
        texts = [shown(values, decimals) for values in scores]
        yield f"| {cell.title} | {cell.method} | {cell.paper:g} | {cell.ours} | {' | '.join(texts)} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--page", type=Path)
    parser.add_argument(
        "--only", nargs="*", default=[], help="words of the table and the method; the page is not written"
    )
    options = parser.parse_args()
    cells = [
        cell
        for cell in cells_below(RESULTS.read_text(encoding="utf-8"))
        if all(word in f"{cell.title} {cell.method}" for word in options.only)
    ]
    real = [cell for cell in cells if isinstance(cell.setting, Classification) and cell.method in CHAINS]
    synthetic = [cell for cell in cells if isinstance(cell.setting, Synthetic)]
    lines = [f"`python benchmarks/below_published.py --trials {options.trials}`", ""]
    for one in (
        table(real, list(ON_REAL_DATA), accuracy, 2, options.trials),
        table(synthetic, list(ON_SYNTHETIC_DATA), error, None, options.trials),
    ):
        for line in one:
            print(line, flush=True)
            lines.append(line)
        lines.append("")
    if options.page is not None and not options.only:
        text = options.page.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        options.page.write_text(
            "\n".join([f"{before}{BEGIN}", "", *lines, f"{END}{rest.split(END)[1]}"]), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
