"""The progress of a long computation while it runs, and its report afterwards."""

from __future__ import annotations

import enum
import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from types import NoneType, UnionType
from typing import Any, Self, TypeAlias, get_args, get_origin, get_type_hints

from twoway.arrays import Floats
from twoway.category_labels import Label
from twoway.errors import DataError
from twoway.notebook import Shown
from twoway.text import brief, counted, crossed_text, escaped, plain_data, printable, shortlist


class StopReason(enum.StrEnum):
    """Why a computation ended."""

    DIRECT = "direct"
    """The solver does not iterate."""
    CONVERGED = "converged"
    """The objective changed by less than the tolerance."""
    MAX_ITER = "max_iter"
    """The maximum number of passes was reached: the result may still be improving."""
    OUTRUN = "outrun"
    """Other starts were better after as many passes, so this one was stopped."""
    INTERRUPTED = "interrupted"
    """Somebody pressed Ctrl-C; the result is the best up to then."""
    TIME_LIMIT = "time limit"
    """The seconds allowed were over; the result is the best up to then."""


class Iteration:
    """What all iterations have: the objective at each pass, and why they ended."""

    objectives: tuple[float, ...]
    stop_reason: StopReason

    @property
    def objective(self) -> float:
        """The objective reached."""
        return self.objectives[-1]

    @property
    def n_iter(self) -> int:
        """The number of passes recorded."""
        return len(self.objectives)


@dataclass(frozen=True)
class Start(Iteration):
    """One start of a solver, from its first step to its last."""

    solver: str
    """The chain of solvers, such as "spa+em"."""
    objectives: tuple[float, ...]
    """The last solver's objective at each pass; it never gets worse."""
    stop_reason: StopReason


@dataclass(frozen=True)
class TableMisfit:
    """How far the model is from one of the tables it was fitted to."""

    variables: tuple[str, ...]
    total: float
    """The effective number of records that the table rests on."""
    total_variation: float
    """Half the sum of absolute differences between the table and the model, from 0 to 1."""
    kl: float
    """Kullback-Leibler divergence of the model from the table, in nats."""


@dataclass(frozen=True, repr=False)
class FitCheck(Shown):
    """In how many tables a model is off by more than chance, and in which most; `fit_quality` has each of them."""

    n_tables: int
    """How many tables there are."""
    n_compared: int
    """How many of them were compared with the model: all, or a sample of very many."""
    n_off: int
    """In how many of these the model is off by more than chance, all of them considered."""
    variables: tuple[str, ...]
    """The variables of the table that is fitted worst."""
    cell: tuple[Label, ...]
    """Its cell that is most off."""
    observed: float
    """The share of this cell in the table."""
    modelled: float
    """The share of this cell in the model."""

    def __str__(self) -> str:
        ways = {2: "two-way", 3: "three-way"}[len(self.variables)]
        sampled = f" compared, of {self.n_tables:,} in all," if self.n_compared < self.n_tables else ""
        names = crossed_text(self.variables, None)
        cell = ", ".join(escaped(str(label)) for label in self.cell)
        return (
            f"{self.n_off:,} of {self.n_compared:,} {ways} tables{sampled} are off by more than chance; "
            f"worst {names} at ({cell}): observed {self.observed:.4f}, modelled {self.modelled:.4f}"
        )


_MOST_CODES = 6


@functools.cache
def _report_types(of: type) -> dict[str, Any]:
    """Return the type of each field; evaluating annotations takes longer than reading a report."""
    return get_type_hints(of)


def _report_part(name: str, kind: Any, value: Any) -> Any:
    """Return a part of a report from plain data; a file from elsewhere may have a value of another type."""
    origin, of = get_origin(kind), get_args(kind)
    if NoneType in of:
        return None if value is None else _report_part(name, of[0], value)
    if origin is tuple and isinstance(value, list | tuple) and (of[-1] is ... or len(of) == len(value)):
        return tuple(_report_part(name, of[0], item) for item in value)
    if origin is Mapping and isinstance(value, Mapping):
        return {str(key): _report_part(name, of[1], item) for key, item in value.items()}
    if is_dataclass(kind) and isinstance(value, Mapping):
        types = _report_types(kind)  # type: ignore[arg-type]  # no object of it
        return kind(**{key: _report_part(key, types[key], part) for key, part in value.items()})  # type: ignore[operator]
    if kind is StopReason:
        return StopReason(value)
    if kind is Any or (origin in (None, UnionType) and isinstance(value, int | float if kind is float else kind)):
        return value
    raise DataError(f"the report in this file is invalid: {name} has the invalid value {brief(value)}")


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """How a model was fitted, and how far it can be trusted.

    ``seconds`` is kept in memory only: files do not depend on the clock. Model files keep ``support`` as an array.
    """

    solver: str
    rank: int
    seed: int
    smoothing: float
    """Pseudo-records by which each component's factors are drawn toward the variables' overall shares."""
    weight_smoothing: float
    """Pseudo-records by which the components' weights are drawn toward equal ones."""
    objective_name: str
    """What was minimised."""
    starts: tuple[Start, ...]
    best: int
    """The position in ``starts`` of the start that was kept."""
    n_records: float | None = None
    """The effective number of records, (Σw)² / Σw² of their weights; None for tables."""
    n_observed: int | None = None
    """Observed cells of the records."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The columns that said how to read the records, by what they hold: "weights", "counts", and from the command line
    those of a survey's design. `update`, `fit_quality` and `bootstrap` look for the same in a frame or a file."""
    set_to_missing: tuple[str, ...] = ()
    """For each variable that had some, the codes that meant "not observed", and how often each was found."""
    log_likelihood: float | None = None
    n_parameters: int | None = None
    aic: float | None = None
    bic: float | None = None
    relative_entropy: float | None = None
    """How clearly records fall into components: 1 each into one, 0 each evenly into all."""
    misfits: tuple[TableMisfit, ...] = ()
    """One for each table that was fitted, worst first; empty where records were fitted."""
    check: FitCheck | None = None
    """In how many tables the model is off by more than chance; None where no two variables were observed together."""
    n_hidden: int = 1
    """The number of hidden variables; more than one lie on a tree, or on several in a mixture."""
    n_trees: int = 1
    """The number of trees; of more than one, the model is a mixture, and the rank their number."""
    counts_tables: bool = False
    """Whether the two-way tables of the records counted besides."""
    edges: tuple[tuple[str, str], ...] = ()
    """The pairs of neighbours that were given; empty where a tree was found, or none was fitted."""
    structure: str = ""
    """In words, why one hidden variable or several; empty where they were not compared."""
    silent: str = ""
    """How many pairs of variables no table shows, and the first of them; empty where all have one, as in records."""
    smoothing_times: Mapping[str, float] = field(default_factory=dict)
    """How many times as much smoothing some variables get than others, by the evidence for each."""
    candidates: tuple[Mapping[str, Any], ...] = ()
    """What was compared to choose rank and smoothing, where they were chosen."""
    warnings: tuple[str, ...] = ()
    seconds: float | None = field(default=None, compare=False)
    support: Floats | None = field(default=None, compare=False, repr=False)
    """On how many records each component rests (first row), and its factor of each variable (a row each, hidden ones
    first); shape (n_hidden + n_variables, rank). Of a mixture, on how many each tree rests; shape (1, n_trees).
    `update` adds to it. None where it is not known."""

    @property
    def objective(self) -> float:
        """The objective of the start that was kept."""
        return self.starts[self.best].objective

    @property
    def stop_reason(self) -> StopReason:
        """Why the start that was kept ended."""
        return self.starts[self.best].stop_reason

    @property
    def converged(self) -> bool:
        """Whether the start that was kept converged, or its solver does not iterate."""
        return self.stop_reason in (StopReason.CONVERGED, StopReason.DIRECT)

    @property
    def _smoothing(self) -> str:
        """The amounts of smoothing, in words."""
        is_tree = self.n_hidden > 1 and self.n_trees == 1
        each, others = ("state", "transitions") if is_tree else ("component", "weights")
        words = f"{self.smoothing:.3g} pseudo-records per {each}, {self.weight_smoothing:.3g} for {others}"
        for times in sorted(set(self.smoothing_times.values()), reverse=True):
            names = [name for name in self.smoothing_times if self.smoothing_times[name] == times]
            share = f"{times:.3g} times" if times > 1 else f"1/{1 / times:.3g}"
            words += f"; {share} as many for {shortlist(names, 4)}"
        return words

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain lists and dictionaries, without the seconds and the support."""
        described: dict[str, Any] = plain_data(self)  # without the support, which its text has not either
        del described["seconds"]
        return described

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Report:
        """Return the report that ``to_dict`` described."""
        starts = [dict(start) for start in described["starts"]]
        for start in starts:
            start["objectives"] = [math.inf if value is None else value for value in start["objectives"]]
        report: Report = _report_part("report", cls, {**described, "starts": starts})
        if wrong := [times for times in report.smoothing_times.values() if not 0 < times < math.inf]:
            raise DataError(
                f"the report in this file is invalid: smoothing_times must be finite and above 0; got {brief(wrong[0])}"
            )
        is_sound = all(start.objectives for start in report.starts) and report.best in range(len(report.starts))
        if report.check is not None:
            is_sound &= len(report.check.variables) == len(report.check.cell) and len(report.check.cell) in (2, 3)
        if not is_sound:
            raise DataError("the report in this file is invalid: its parts do not match")
        return report

    def __str__(self) -> str:
        best = self.starts[self.best]
        form = reported_model_form(self.n_trees, self.n_hidden, self.rank)
        lines = {
            "solver": f"{self.solver}, {form}, seed {self.seed}",
            "smoothing": self._smoothing,
            "starts": f"{len(self.starts)}; kept {best.solver}, {best.stop_reason.value} after {best.n_iter} passes",
            "objective": f"{best.objective:.6g} ({self.objective_name})",
            "structure": self.structure,
            "no table": self.silent,
        }
        if self.n_records is not None:
            effective = " effective," if self.n_records % 1 else ""  # a whole number of them has no weights
            lines["records"] = f"{self.n_records:g}{effective} with {self.n_observed} observed cells"
        lines["columns"] = ", ".join(f"{what} {column!r}" for what, column in self.columns.items())
        lines["missing"] = reported_missing_codes(self.set_to_missing)
        if self.log_likelihood is not None:
            lines["likelihood"] = f"log {self.log_likelihood:.2f}, AIC {self.aic:.2f}, BIC {self.bic:.2f}"
        for worst in self.misfits[:1]:
            names = crossed_text(worst.variables, None)
            lines["worst fit"] = f"{names}: total variation {worst.total_variation:.3g}"
        if self.check is not None:
            lines["check"] = str(self.check)
        if self.seconds is not None:
            lines["time"] = f"{self.seconds:.2f} s"
        rows = [*lines.items(), *(("warning", warning) for warning in self.warnings)]
        return escaped("\n".join(f"{title:<12}{text}" for title, text in rows if text), keep="\n")


def reported_missing_codes(set_to_missing: Sequence[str]) -> str:
    """Return the codes that meant "not observed" in the first variables that had some."""
    more = len(set_to_missing) - _MOST_CODES
    codes = "; ".join(printable(text, 200) for text in set_to_missing[:_MOST_CODES])
    return f"{codes}; … ({counted(more, 'more variable')})" if more > 0 else codes


def reported_model_form(n_trees: int, n_hidden: int, rank: int) -> str:
    """Return what a model is made of, in words."""
    if n_trees > 1:
        return f"a mixture of {n_trees} trees"
    return f"rank {rank}" if n_hidden == 1 else f"{n_hidden} hidden variables of {rank} states on a tree"


@dataclass(frozen=True)
class Progress:
    """Where a computation is."""

    task: str
    """What is being done, such as "em" or "choosing the rank"."""
    done: int
    """Passes done of this task."""
    at_most: int
    """Passes allowed for this task."""
    objective: float | None = None
    seconds_left: float | None = None
    """An estimate for this task; None while it is unknown."""


_SECONDS_BETWEEN_LINES = 0.1
Monitor: TypeAlias = Callable[[Progress], None]


class ProgressBar:
    """A monitor that draws a progress bar with the objective and the time left; a context manager.

    ``tw.fit(..., monitor=True)`` uses one.
    """

    def __init__(self) -> None:
        # In a notebook a line of text is written anew: rich would need widgets there.
        self._line: Any = None
        self._written = 0.0
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("pass {task.completed:.0f} of at most {task.total:.0f}"),
            TextColumn("{task.fields[objective]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=Console(stderr=True),  # stdout is for results
            transient=True,
        )

    def __enter__(self) -> Self:
        if self._bar.console.is_jupyter:
            from IPython.display import display

            self._line = display({"text/plain": ""}, raw=True, display_id=True)
        else:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is None:
            self._bar.stop()
        else:
            self._line.update({"text/plain": ""}, raw=True)

    def __call__(self, progress: Progress) -> None:
        """Redraw the bar."""
        objective = "" if progress.objective is None else f"objective {progress.objective:.6g}"
        left = "" if progress.seconds_left is None else f"about {progress.seconds_left:.0f} s left"
        if self._line is not None:
            if time.monotonic() - self._written > _SECONDS_BETWEEN_LINES:
                passes = f"{progress.task}: pass {progress.done} of at most {progress.at_most}"
                self._line.update({"text/plain": "  ".join(filter(None, (passes, objective, left)))}, raw=True)
                self._written = time.monotonic()
            return
        if [task.description for task in self._bar.tasks] != [progress.task]:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._bar.add_task(progress.task, total=progress.at_most, objective="", left="")
        (task,) = self._bar.task_ids
        self._bar.update(task, completed=progress.done, total=progress.at_most, objective=objective, left=left)
