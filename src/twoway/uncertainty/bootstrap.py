"""How sure the answers are: the same questions put to models of what might have been observed instead."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from twoway.data.distribution import Distribution
from twoway.data.frames import Fill
from twoway.data.records import Records
from twoway.errors import DataError, FileFormatError, ImpossibleEvidenceError, whole_number
from twoway.model.imputation import fills, impute_frames, warn_of_impossible
from twoway.model.intervals import Interval, Intervals, IntervalTable, Scale, checked_level, interval_ends
from twoway.model.mode import Mode
from twoway.model.model_file import parse_model, write_model
from twoway.model.parameters import check_parameters, read_only
from twoway.model.pmf import JointPMF
from twoway.model.posterior import records_for
from twoway.solvers.starts import softened
from twoway.storage import container
from twoway.uncertainty.beliefs import smoothing_of
from twoway.uncertainty.observed_tables import ObservedTables

# What a replicate gives to categories that its sample did not hold, of the model's shares.
_UNSEEN = 1e-6
# Ranges are computed for so many cells of an answer; each takes up to a second.
_MOST_RANGES = 24
Cells = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
"""The event and what is known, for each probability of an answer."""
LEAST_REPLICATES = 20
"""Fewer cannot tell the ends of a 90 % interval."""


@dataclass(frozen=True)
class SureMode(Mode):
    """The most probable values, and how often another sample would have given the same."""

    agreement: float = 1.0
    """The share of replicates with the same values."""


@dataclass(frozen=True)
class Bootstrap:
    """A model and its replicates: answers each question of a `JointPMF` with an interval."""

    pmf: JointPMF
    """The model that was asked about; its answers are the estimates."""
    replicates: tuple[JointPMF, ...]
    """Models of what might have been observed instead."""
    center: JointPMF
    """The fit to the source from which replicates differ by chance; the model itself where it is that fit."""
    level: float = 0.9
    """How often an interval should hold the truth."""
    warnings: tuple[str, ...] = ()
    reflected: bool = True
    """Whether replicates differ from the center as the model differs from the truth, and not as the truth from it."""
    observed: ObservedTables | None = None
    """What the answers are held against: tables that the model may not fit, or that leave questions open."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """What is known, where the PMFs are given something."""

    def __repr__(self) -> str:
        return f"Bootstrap({len(self.replicates)} replicates of {self.pmf!r}, level {self.level:g})"

    def at(self, level: float) -> Bootstrap:
        """Return the same replicates with intervals of another level, such as 0.95."""
        return replace(self, level=checked_level(level))

    # Questions

    def of(self, question: Callable[[JointPMF], Any], scale: Scale = "real") -> Intervals:
        """Return the answer to any question that can be put to a JointPMF, with its intervals.

        Parameters
        ----------
        question
            From a JointPMF to a number or an array.
        scale
            What the answers are: "probability", "nonnegative" or "real" numbers.
        """
        return self.answer(question, scale)[0]

    def answer(
        self,
        question: Callable[[JointPMF], Any],
        scale: Scale = "real",
        about: Sequence[str] = (),
        own: Callable[[JointPMF], float] | None = None,
        cells: Cells = (),
    ) -> tuple[Intervals, str]:
        """Return the answer to a question with its intervals, and a note where these are wider than chance makes them.

        Parameters
        ----------
        question, scale
            As for `of`.
        about
            The variables that the question names, beside the evidence. Where the model may not fit what was observed
            of them, the intervals are widened; without this, nothing is known of that.
        own
            The part of an entropy that the variables would have if they were independent.
        cells
            For each number of a probability, the event, and what is known of it beside the evidence. Where tables leave
            these open, the intervals are widened to all that the tables allow; other answers get a note.
        """
        ends = self._ends(question, scale, own)
        names = tuple(dict.fromkeys([*self.evidence, *about]))
        if self.observed is None or not about:
            return ends, ""
        if self.observed.leaves_open(names):
            return self._widened(ends, self.observed, cells)
        misfits = self.observed.misfits(names)
        if not misfits:
            return ends, ""
        shown = self.observed.named(misfits[0])
        if len(names) == 2:
            # The table says itself what the model gets wrong.
            pmf, several = self.observed.draws(misfits[0], max(len(self.replicates), LEAST_REPLICATES))
            table = Bootstrap(pmf, several, pmf, self.level)
            beside = (table.given(self.evidence) if self.evidence else table).of(question, scale)
            note = f"the model may not fit {shown}; the interval also holds what was observed"
            return ends.widened(beside.low, beside.high), note
        # Off by so many standard errors there, it may be off by as many here.
        times = 1.0 + self.observed.residuals[misfits[0]] / NormalDist().inv_cdf(0.5 + 0.5 * self.level)
        note = f"the model may not fit {shown}; the interval is {times:.1f} times as wide for it"
        return ends.stretched(times, scale), note

    def _widened(self, ends: Intervals, observed: ObservedTables, cells: Cells) -> tuple[Intervals, str]:
        """Return intervals that hold all that tables allow of each cell, unchanged where it is unknown, and a note."""
        some = cells if len(cells) <= _MOST_RANGES else ()
        ranges = [observed.range(event, {**self.evidence, **given}, self.level) for event, given in some]
        if all(one is None for one in ranges):
            note = "no table shows all these variables together: the interval holds only if the model is right"
            return ends, note
        low, high = (
            np.array([np.nan if one is None else getattr(one, end) for one in ranges]).reshape(ends.estimate.shape)
            for end in ("low", "high")
        )
        wider = ends.widened(low, high)
        if np.array_equal(wider.low, ends.low) and np.array_equal(wider.high, ends.high):
            return ends, ""
        note = "no table shows all these variables together: the interval holds all that the tables allow"
        if len(cells) == 1:
            note += f"; {float(ends.low):.4g} to {float(ends.high):.4g} if the model is right"
        return wider, note

    def _ends(
        self, question: Callable[[JointPMF], Any], scale: Scale, own: Callable[[JointPMF], float] | None = None
    ) -> Intervals:
        if own is not None and not self.reflected:
            # Smoothing leaves the variables' own shares alone, so that chance takes as much off the entropy of these
            # as another sample would: they are reflected, dependence is not.
            def reflected(pmf: JointPMF) -> Any:
                return question(pmf) - 2.0 * own(pmf)

            estimate = np.asarray(question(self.pmf), dtype=np.float64)
            shifted = self._ends(reflected, "real")
            low, high = (np.maximum(end - shifted.estimate + estimate, 0.0) for end in (shifted.low, shifted.high))
            return Intervals(estimate, low, high)
        estimate, center = (np.asarray(question(pmf), dtype=np.float64) for pmf in (self.pmf, self.center))
        answers = np.array([np.asarray(question(pmf), dtype=np.float64) for pmf in self.replicates])
        return Intervals(
            estimate, *interval_ends(estimate, center, answers, self.level, scale, reflected=self.reflected)
        )

    def _number(
        self,
        question: Callable[[JointPMF], float],
        scale: Scale,
        about: Sequence[str],
        own: Callable[[JointPMF], float] | None = None,
        cells: Cells = (),
    ) -> Interval:
        (value, low, high), note = self.answer(question, scale, about, own, cells)
        return Interval(float(value), float(low), float(high), self.level, note)

    def prob(self, event: Mapping[str, Any]) -> Interval:
        """Return the probability of an event; see `JointPMF.prob`."""
        return self._number(lambda pmf: pmf.prob(event), "probability", tuple(event), cells=[(event, {})])

    def marginal(self, names: str | Sequence[str]) -> IntervalTable:
        """Return the joint distribution of one variable or several; see `JointPMF.marginal`."""
        whole = self.pmf.marginal(names)
        cells: Cells = [(event, {}) for event in whole.events()]
        ends, note = self.answer(lambda pmf: pmf.marginal(names).array, "probability", whole.names, cells=cells)
        low, high = (Distribution(whole.variables, end) for end in (ends.low, ends.high))
        return IntervalTable(whole, low, high, level=self.level, note=note)

    def given(self, evidence: Mapping[str, Any]) -> Bootstrap:
        """Return the same for the PMFs given what is known of some variables; see `JointPMF.given`."""
        kept = []
        for pmf in self.replicates:
            try:
                kept.append(pmf.given(evidence))
            except ImpossibleEvidenceError:
                continue
        told = self.warnings
        if len(kept) < len(self.replicates):
            told += (f"the evidence is impossible in {len(self.replicates) - len(kept)} replicates, left out",)
        if not kept:
            raise ImpossibleEvidenceError("the evidence has probability 0 in every replicate")
        given = self.pmf.given(evidence)
        center = given if self.center is self.pmf else self.center.given(evidence)
        known = {**self.evidence, **evidence}
        return replace(self, pmf=given, center=center, replicates=tuple(kept), warnings=told, evidence=known)

    def mode(self, names: str | Sequence[str] | None = None) -> SureMode:
        """Return the most probable values and how many replicates agree; see `JointPMF.mode`."""
        found = self.pmf.mode(names)
        same = [pmf.mode(names).values == found.values for pmf in self.replicates]
        return SureMode(found.values, self.prob(found.values), found.proven, agreement=float(np.mean(same)))

    def expect(self, name: str) -> Interval:
        """Return the expected value of a variable; see `JointPMF.expect`."""
        return self._number(lambda pmf: pmf.expect(name), "real", (name,))

    def entropy(self, names: str | Sequence[str], base: float | None = None, *, seed: int = 0) -> Interval:
        """Return the entropy of some variables; see `JointPMF.entropy`."""
        about = [names] if isinstance(names, str) else list(names)

        def own(pmf: JointPMF) -> float:
            return sum(float(pmf.entropy(name, base)) for name in about)

        return self._number(lambda pmf: pmf.entropy(names, base, seed=seed), "nonnegative", about, own)

    def mutual_information(
        self,
        a: str | Sequence[str],
        b: str | Sequence[str],
        given: str | Sequence[str] | None = None,
        base: float | None = None,
        *,
        seed: int = 0,
    ) -> Interval:
        """Return how much one variable tells about another; see `JointPMF.mutual_information`."""
        about = [name for names in (a, b, given or ()) for name in ([names] if isinstance(names, str) else names)]
        return self._number(lambda pmf: pmf.mutual_information(a, b, given, base, seed=seed), "nonnegative", about)

    def log_prob(self, source: Any) -> Intervals:
        """Return the logarithm of each record's probability, arrays (n_records,); see `JointPMF.log_prob`."""
        records = records_for(self.pmf.schema, source)
        return self.of(lambda pmf: pmf.log_prob(records))

    def memberships(self, source: Any) -> Intervals:
        """Return Pr(component | record), arrays (n_records, rank); see `JointPMF.memberships`."""
        records = records_for(self.pmf.schema, source)
        return self.of(lambda pmf: pmf.memberships(records), "probability")

    # Multiple imputation

    def impute(self, frame: Any, m: int = 20, *, seed: int = 0) -> list[Any]:
        """Return ``m`` completed copies of a frame, for analyses that `pool` puts together.

        Each copy is drawn from a replicate of its own, so that the copies differ as much as the missing cells leave
        open: what is in the cells, and what the model is. Draws from one model (``pmf.impute(how="sample")``) differ
        too little, and intervals from them are too narrow. Observed cells never change.

        Parameters
        ----------
        frame
            The frame that the model was fitted to, as `JointPMF.impute` takes it.
        m
            How many copies: at least 2, and at most as many as there are replicates.
        seed
            The same seed draws the same.

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
        return list(
            impute_frames(frame, self.pmf.schema, lambda records, indices: self.draws(records, indices, m, seed=seed))
        )

    def draws(self, records: Records, indices: Sequence[int], m: int, *, seed: int) -> Iterator[dict[str, Fill]]:
        """Yield ``m`` times what fills the missing cells of some variables, each time from another replicate."""
        if whole_number("m", m, 2) > len(self.replicates):
            raise DataError(
                f"each completed table needs a replicate of its own: {m} were asked for, and there are "
                f"{len(self.replicates)}"
            )
        possible = self.pmf.log_prob(records) > -np.inf
        warn_of_impossible(np.flatnonzero(~possible & (records.codes()[:, indices] < 0).any(axis=1)))
        shares = np.concatenate([np.asarray(self.pmf.marginal(name)) for name in self.pmf.schema.names])
        for number, replicate in enumerate(self.replicates[:m]):
            # A category that a replicate has not seen is possible all the same.
            pmf = softened(replicate, shares, _UNSEEN)
            drawn = fills(pmf, records, indices, "sample", (seed, number), warn=False)
            yield {name: (rows[possible[rows]], codes[possible[rows]]) for name, (rows, codes) in drawn.items()}

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a model file with its replicates; `tw.load` reads it."""
        several = [self.center, *self.replicates]
        arrays = {
            "replicate_weights": np.array([pmf.weights for pmf in several]),
            "replicate_stacked": np.array([pmf.stacked for pmf in several]),
            **({} if self.observed is None else self.observed.arrays()),
        }
        write_model(path, self.pmf.schema, self.pmf.weights, self.pmf.stacked, self.pmf.report, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Bootstrap:
        """Return the model of a file with its replicates; one that carries none is an error."""
        loaded = load(path)
        if isinstance(loaded, JointPMF):
            raise FileFormatError(
                f"{str(path)!r} is a model without replicates, which intervals need: "
                "`twoway fit --intervals` or Bootstrap.save writes one with them"
            )
        return loaded


def load(path: str | os.PathLike[str]) -> JointPMF | Bootstrap:
    """Return the model of a file: a `Bootstrap`, with intervals, if the file has replicates; else a `JointPMF`."""
    header, arrays = container.read(path, "model")
    pmf = JointPMF.from_stacked(*parse_model(path, header, arrays))
    if "replicate_weights" not in arrays or "replicate_stacked" not in arrays:
        return pmf
    weights, stacked = arrays["replicate_weights"], arrays["replicate_stacked"]
    try:
        if weights.ndim != 2 or len(weights) < 2:
            raise DataError(f"there are none, in an array of the shape {weights.shape}")
        if stacked.shape != (len(weights), *pmf.stacked.shape) or weights.shape[1:] != pmf.weights.shape:
            raise DataError(f"its arrays have the shapes {weights.shape} and {stacked.shape}")
        for one, other in zip(weights, stacked, strict=True):
            check_parameters(pmf.schema, one, other, 1e-9)
        several = [
            JointPMF.from_stacked(pmf.schema, read_only(one), read_only(other))
            for one, other in zip(weights, stacked, strict=True)
        ]
        observed = ObservedTables.from_arrays(pmf, arrays)
        reflected = not smoothing_of(pmf).factors
        return Bootstrap(pmf, tuple(several[1:]), several[0], reflected=reflected, observed=observed)
    except (DataError, LookupError) as error:
        raise FileFormatError(f"{str(path)!r} holds no sound replicates: {error}") from error
