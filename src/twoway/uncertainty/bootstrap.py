"""How sure the answers are: the same questions, answered by models of other samples."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from twoway.arrays import Floats
from twoway.data.distribution import Distribution
from twoway.data.frames import Fill
from twoway.data.records import Records
from twoway.errors import DataError, FileFormatError, ImpossibleEvidenceError, check_whole_number
from twoway.model.events import Event, Names
from twoway.model.imputation import imputed_codes, imputed_frames, warn_of_impossible
from twoway.model.intervals import Interval, Intervals, IntervalTable, Scale, checked_interval_level, interval_ends
from twoway.model.mode import Mode
from twoway.model.model_file import parse_model, parse_replicated_models, replicated_model_arrays, write_model
from twoway.model.pmf import JointPMF, Tabulated
from twoway.model.records import records_for_model
from twoway.questions.answer import ask
from twoway.report import Report
from twoway.schema import Schema
from twoway.storage.container import read_container
from twoway.uncertainty.observed_tables import Cells, ObservedTables, Question

# The part of the model's shares that a replicate gives to categories that its sample lacks.
_UNSEEN = 1e-6
# The arrays of a file that hold the scales of a design's replicates and their degrees of freedom.
_SCALES, _DEGREES = "replicate_scales", "replicate_degrees"


@dataclass(frozen=True)
class SureMode(Mode):
    """The most probable values, and how often another sample gives the same."""

    agreement: float = 1.0
    """The share of replicates with the same values; NaN for those of a design."""


@dataclass(frozen=True)
class Bootstrap(Tabulated):
    """A model and its replicates: answers each question of a `JointPMF` with an interval."""

    pmf: JointPMF
    """The model whose answers are the estimates."""
    replicates: tuple[JointPMF, ...]
    """Models of other samples."""
    center: JointPMF
    """The fit from which replicates differ by chance."""
    level: float = 0.9
    """How often an interval should contain the truth."""
    warnings: tuple[str, ...] = ()
    reflected: bool = True
    """Whether replicates differ from the center as the model from the truth, not as the truth from the model."""
    observed: ObservedTables | None = None
    """Tables that the answers are compared with: the model may not fit them, or they may not determine an answer."""
    scales: Floats | None = None
    """Of a survey's design: what the squared deviation of each replicate counts in a variance; None for draws."""
    degrees: int | None = None
    """The degrees of freedom of that variance."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """What the PMFs are given."""

    def __repr__(self) -> str:
        return f"Bootstrap({len(self.replicates)} replicates of {self.pmf!r}, level {self.level:g})"

    def at(self, level: float) -> Bootstrap:
        """Return the same replicates with intervals of another level, such as 0.95."""
        return replace(self, level=checked_interval_level(level))

    # Of the model itself

    @property
    def schema(self) -> Schema:
        """The variables of the model."""
        return self.pmf.schema

    @property
    def rank(self) -> int:
        """The number of components of the model."""
        return self.pmf.rank

    @property
    def report(self) -> Report | None:
        """How the model was fitted."""
        return self.pmf.report

    def sample(self, n: int, *, seed: int = 0, library: str | None = None) -> Any:
        """Return new records drawn from the model; see `JointPMF.sample`."""
        return self.pmf.sample(n, seed=seed, library=library)

    # Questions

    def of(self, question: Question, scale: Scale = "real") -> Intervals:
        """Return the answer to any question about a JointPMF, with its intervals.

        Parameters
        ----------
        question
            A function from a JointPMF to a number or an array.
        scale
            What the answers are: "probability", "nonnegative" or "real" numbers.
        """
        return self.answer(question, scale)[0]

    def answer(
        self,
        question: Question,
        scale: Scale = "real",
        about: Sequence[str] = (),
        own: Question | None = None,
        cells: Cells = (),
    ) -> tuple[Intervals, str]:
        """Return the answer to a question with its intervals, and a note where they are wider than chance makes them.

        Parameters
        ----------
        question, scale
            As for `of`.
        about
            The variables of the question, beside the evidence. Where the model may not fit what was observed of
            them, the intervals are widened.
        own
            The part of an entropy that the variables would have if they were independent.
        cells
            For each probability, the event, and what is given beside the evidence. Where tables do not determine
            it, the intervals are widened to all that the tables allow; other answers get a note.
        """
        ends = self._ends(question, scale, own)
        names = tuple(dict.fromkeys([*self.evidence, *about]))
        if self.observed is None or not about:
            return ends, ""
        return self.observed.widened(self, ends, question, scale, names, cells)

    def _ends(self, question: Question, scale: Scale, own: Question | None = None) -> Intervals:
        if own is not None and not self.reflected and self.scales is None:
            # Smoothing leaves the variables' own shares as they are, so chance lowers their entropy as another sample
            # would: they are reflected, dependence is not.
            estimate = np.asarray(question(self.pmf), dtype=np.float64)
            shifted = self._ends(lambda pmf: question(pmf) - 2.0 * own(pmf), "real")
            low, high = (np.maximum(end - shifted.estimate + estimate, 0.0) for end in (shifted.low, shifted.high))
            return Intervals(estimate, low, high)
        estimate, center = (np.asarray(question(pmf), dtype=np.float64) for pmf in (self.pmf, self.center))
        answers = np.array([np.asarray(question(pmf), dtype=np.float64) for pmf in self.replicates])
        return interval_ends(
            estimate,
            center,
            answers,
            self.level,
            scale,
            reflected=self.reflected,
            scales=self.scales,
            degrees=self.degrees,
        )

    def standard_error(self, question: Question | str) -> Floats:
        """Return the standard error of the answer to any question about a JointPMF: a number or an array.

        The question is a function of a model, or text as in `ask`.

        Examples
        --------
        >>> from twoway.fitting.fit import fit
        >>> from twoway.uncertainty.replication import bootstrap
        >>> coin = {"side": ["heads", "tails"] * 50}
        >>> boot = bootstrap(fit(coin, rank=1), coin, n=200)
        >>> round(float(boot.standard_error("P(side = heads)")), 2)
        0.05
        >>> round(float(boot.standard_error(lambda pmf: pmf.prob({"side": "heads"}))), 2)
        0.05
        """
        asked: Question = partial(_bootstrap_in_words, question=question) if isinstance(question, str) else question
        center = np.asarray(asked(self.center), dtype=np.float64)
        answers = np.array([np.asarray(asked(pmf), dtype=np.float64) for pmf in self.replicates])
        if self.scales is None:
            return np.asarray(answers.std(axis=0, ddof=1))
        return np.asarray(np.tensordot(self.scales, (answers - center) ** 2, axes=1) ** 0.5)

    def _number(self, question: Question, scale: Scale, about: Sequence[str], **options: Any) -> Interval:
        (value, low, high), note = self.answer(question, scale, about, **options)
        return Interval(float(value), float(low), float(high), self.level, note)

    def prob(self, event: Event) -> Interval:
        """Return the probability of an event; see `JointPMF.prob`."""
        return self._number(lambda pmf: pmf.prob(event), "probability", tuple(event), cells=[(event, {})])

    def marginal(self, names: Names) -> IntervalTable:
        """Return the joint distribution of one variable or several; see `JointPMF.marginal`."""
        whole = self.pmf.marginal(names)
        cells: Cells = [(event, {}) for event in whole.events()]
        ends, note = self.answer(lambda pmf: pmf.marginal(names).array, "probability", whole.names, cells=cells)
        low, high = (Distribution(whole.variables, end) for end in (ends.low, ends.high))
        return IntervalTable(whole, low, high, level=self.level, note=note)

    def given(self, evidence: Event) -> Bootstrap:
        """Return the same for the PMFs given evidence on some variables; see `JointPMF.given`."""
        replicates, warnings = [], self.warnings
        for pmf in self.replicates:
            with suppress(ImpossibleEvidenceError):
                replicates.append(pmf.given(evidence))
        if not replicates:
            raise ImpossibleEvidenceError("the evidence has probability 0 in every replicate")
        if len(replicates) < len(self.replicates) and self.scales is not None:
            raise ImpossibleEvidenceError("the evidence has probability 0 in some samples of the design")
        if (n_left_out := len(self.replicates) - len(replicates)) > 0:
            warnings += (f"{n_left_out} replicates in which the evidence is impossible are left out",)
        pmf = self.pmf.given(evidence)
        center = pmf if self.center is self.pmf else self.center.given(evidence)
        known = {**self.evidence, **evidence}
        return replace(self, pmf=pmf, center=center, replicates=tuple(replicates), warnings=warnings, evidence=known)

    def mode(self, names: Names | None = None) -> SureMode:
        """Return the most probable values and how many replicates agree; see `JointPMF.mode`."""
        mode = self.pmf.mode(names)
        agrees = [pmf.mode(names).values == mode.values for pmf in self.replicates]
        # Samples of a design go a part of the way only: how often they agree says nothing.
        agreement = float(np.mean(agrees)) if self.scales is None else float("nan")
        return SureMode(mode.values, self.prob(mode.values), mode.proven, agreement=agreement)

    def expect(self, name: str) -> Interval:
        """Return the expected value of a variable; see `JointPMF.expect`."""
        return self._number(lambda pmf: pmf.expect(name), "real", (name,))

    def entropy(self, names: Names, base: float | None = None, *, seed: int = 0) -> Interval:
        """Return the entropy of some variables; see `JointPMF.entropy`."""
        about = [names] if isinstance(names, str) else list(names)

        def own(pmf: JointPMF) -> float:
            return sum(float(pmf.entropy(name, base)) for name in about)

        return self._number(lambda pmf: pmf.entropy(names, base, seed=seed), "nonnegative", about, own=own)

    def mutual_information(
        self, a: Names, b: Names, given: Names | None = None, base: float | None = None, *, seed: int = 0
    ) -> Interval:
        """Return how much one variable tells about another; see `JointPMF.mutual_information`."""
        about = [name for names in (a, b, given or ()) for name in ([names] if isinstance(names, str) else names)]
        return self._number(lambda pmf: pmf.mutual_information(a, b, given, base, seed=seed), "nonnegative", about)

    def log_prob(self, source: Any) -> Intervals:
        """Return the logarithm of each record's probability, arrays (n_records,); see `JointPMF.log_prob`."""
        records = records_for_model(self.pmf.schema, source)
        return self.of(lambda pmf: pmf.log_prob(records))

    def memberships(self, source: Any) -> Intervals:
        """Return Pr(component | record), arrays (n_records, rank); see `JointPMF.memberships`."""
        records = records_for_model(self.pmf.schema, source)
        return self.of(lambda pmf: pmf.memberships(records), "probability")

    # Multiple imputation

    def impute(self, frame: Any, m: int = 20, *, seed: int = 0) -> list[Any]:
        """Return ``m`` completed copies of a frame, for analyses that `pool` combines; ``pmf.impute`` returns one.

        Each copy is drawn from a different replicate, so that copies vary in both the missing cells and the model.
        Draws from one model (``pmf.impute(how="sample")``) vary too little, and intervals from them are too narrow.
        Observed cells never change.

        Parameters
        ----------
        frame
            The frame that the model was fitted to, as `JointPMF.impute` takes it.
        m
            The number of copies: at least 2, and at most the number of replicates.
        seed
            The same seed gives the same copies.

        Examples
        --------
        >>> import pandas as pd
        >>> from twoway.uncertainty.pooling import pool
        >>> from twoway.uncertainty.replication import bootstrap
        >>> from twoway.fitting.fit import fit
        >>> frame = pd.DataFrame({"age": [0, 1, 0, 1] * 50, "vote": [0, 1, None, 1, 0, 0, 1, None] * 25})
        >>> boot = bootstrap(fit(frame, rank=2), frame, n=20)
        >>> tables = boot.impute(frame, m=10)
        >>> len(tables), int(tables[0]["vote"].isna().sum())
        (10, 0)
        >>> pooled = pool(lambda table: (table["vote"].mean(), table["vote"].var() / len(table)), tables)
        >>> bool(pooled.low < 0.5 < pooled.high)
        True
        """
        return list(imputed_frames(frame, self.pmf.schema, partial(self.draws, m=m, seed=seed)))

    def draws(self, records: Records, indices: Sequence[int], m: int, *, seed: int) -> Iterator[dict[str, Fill]]:
        """Yield ``m`` times what fills the missing cells of some variables, each time from a different replicate."""
        from twoway.solvers.starts import softened_start

        if self.scales is not None:
            raise DataError("replicates of a design are not draws of the model; use a bootstrap without a design")
        if check_whole_number("m", m, 2) > (known := len(self.replicates)):
            raise DataError(f"each completed table needs its own replicate: {m} were asked for, and there are {known}")
        possible = self.pmf.log_prob(records) > -np.inf
        warn_of_impossible(np.flatnonzero(~possible & (records.codes()[:, indices] < 0).any(axis=1)))
        shares = np.concatenate([np.asarray(self.pmf.marginal(name)) for name in self.pmf.schema.names])
        for number, replicate in enumerate(self.replicates[:m]):
            # A category that a replicate has not seen is possible, too.
            pmf = softened_start(replicate, shares, _UNSEEN)
            drawn = imputed_codes(pmf, records, indices, "sample", (seed, number), warn=False)
            yield {name: (rows[possible[rows]], codes[possible[rows]]) for name, (rows, codes) in drawn.items()}

    # Files

    def save(self, path: str | os.PathLike[str], *, counts: bool = True) -> None:
        """Write a model file with its replicates; `tw.load` reads it.

        ``counts`` is as for `JointPMF.save`. Without counts, intervals from the file cannot be wider where the model
        does not fit what was observed.
        """
        arrays = replicated_model_arrays([pmf.trees for pmf in (self.center, *self.replicates)])
        if self.scales is not None:
            arrays |= {_SCALES: self.scales, _DEGREES: np.array([self.degrees], dtype=np.int64)}
        if counts and self.observed is not None:
            arrays |= self.observed.arrays()
        write_model(path, self.pmf, arrays, counts=counts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Bootstrap:
        """Return the model of a file with its replicates; a file without replicates is an error."""
        model = load(path)
        if isinstance(model, JointPMF):
            raise FileFormatError(
                f"{str(path)!r} is a model without replicates, which intervals and multiple imputation need: "
                "`twoway fit --intervals` or Bootstrap.save writes one with replicates"
            )
        return model


def _bootstrap_in_words(pmf: JointPMF, question: str) -> Any:
    """Return the answer to a question in words, as numbers."""
    answer = ask(pmf, question)
    if isinstance(answer, Mode):
        raise DataError(f"{question!r} has no standard error: its answer is not a number")
    return answer


def load(path: str | os.PathLike[str]) -> JointPMF | Bootstrap:
    """Return the model of a file: a `Bootstrap` if the file has replicates, a `JointPMF` if it has not.

    `JointPMF.load` returns the model without replicates, `Bootstrap.load` requires them.
    """
    header, arrays = read_container(path, "model")
    pmf = JointPMF.from_trees(*parse_model(path, header, arrays))
    try:
        models = [JointPMF.from_trees(pmf.schema, trees) for trees in parse_replicated_models(pmf.schema, arrays)]
        if not models:
            return pmf
        center, *replicates = models
        observed = ObservedTables.from_arrays(pmf, arrays)
        is_published = observed is not None and observed.published is not None
        reflected = is_published or not (pmf.report and pmf.report.smoothing)
        boot = Bootstrap(pmf, tuple(replicates), center, reflected=reflected, observed=observed)
        if _SCALES not in arrays:
            return boot
        scales, (degrees,) = arrays[_SCALES], arrays[_DEGREES].tolist()
        if scales.shape != (len(replicates),) or not (scales >= 0).all() or not degrees > 0:
            raise DataError(f"the scales of its {len(replicates)} replicates are invalid")
        return replace(boot, scales=scales, degrees=degrees)
    except (TypeError, ValueError, LookupError) as error:
        raise FileFormatError(f"the replicates in {str(path)!r} are invalid: {error}") from error
