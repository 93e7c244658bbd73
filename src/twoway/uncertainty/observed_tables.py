"""What was observed, to compare with a model: where the model may be wrong, and what tables do not determine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.checks.fit_quality import fit_quality
from twoway.checks.probability_range import quick_probability_range
from twoway.errors import DataError, ImpossibleEvidenceError
from twoway.model.events import Event
from twoway.model.intervals import Intervals, Scale
from twoway.model.pmf import JointPMF
from twoway.model.records import records_for_model
from twoway.tables.counting import count_cells
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables
from twoway.text import crossed_text

if TYPE_CHECKING:
    from twoway.uncertainty.bootstrap import Bootstrap

DOUBT = 0.2
"""A pair, or the answer to a question, is doubtful if what was observed differs from it with a p-value below this.

More than `SIGNIFICANT`, which is for verdicts on all pairs, corrected for their number. An interval is about one
question, and it costs little that it also contains what was observed: with a rank that is too small, 90 % intervals of
2,000 records contained shares of pairs in 92 % of cases instead of 87 %; with the right rank, coverage rose by a point
at most.
"""
LEAST_REPLICATES = 20
"""With fewer, the ends of a 90 % interval are unknown."""
Question: TypeAlias = Callable[[JointPMF], Any]
Cells: TypeAlias = Sequence[tuple[Event, Event]]
"""The event and what is given, for each probability of an answer."""
# Ranges are computed for answers of up to so many cells; each takes up to a second.
_MAX_RANGES = 24
# With more categories, records are not compared: the tables would be larger than the model.
_MAX_CATEGORIES = 5000
# Tables of all pairs, or of all triples, are kept up to so many cells: 1.6 MB.
_MAX_CELLS = 200_000
# Tables with fewer records per cell say too little about an answer.
_LEAST_RECORDS_PER_CELL = 5
# Tables that disagree by less, in total variation, are as good as right: rounding does as much.
_SMALL_CONTRADICTION = 0.01
# The arrays of tables that are saved.
_SAVED = ("sets", "flat", "weights")


@dataclass(frozen=True)
class ObservedTables:
    """Tables that the answers of a model are compared with."""

    tables: Tables
    """Those that the model was fitted to; for records, all pairs, or if they are too many those that it may not fit."""
    residuals: Floats
    """(n_tables,): by how many standard errors the worst cell is off; 0 where chance explains it well."""
    is_all: bool
    """Whether these tables are all that the model was fitted to, so they may not determine an answer."""
    triples: Tables | None = None
    """All triples that records show, unless they are too many; or those that were published."""
    published: PublishedTables | None = None
    """All that was published, where that is more than two-way tables."""

    @classmethod
    def of(cls, pmf: JointPMF, source: Any) -> ObservedTables | None:
        """Return the tables to compare the answers of a model with; None where there are none."""
        if isinstance(source, PublishedTables):
            pairs, triples = source.pairs(only_plain=True), source.triples()
            return cls(pairs, _doubtful_residuals(pmf, pairs), True, triples if len(triples) else None, source)
        if isinstance(source, Tables):
            return cls(source, _doubtful_residuals(pmf, source), is_all=True)
        if pmf.schema.n_categories > _MAX_CATEGORIES:
            return None
        records = records_for_model(pmf.schema, source, report=pmf.report)
        tables = Tables.count(records)
        residuals = _doubtful_residuals(pmf, tables)
        if len(tables.flat) > _MAX_CELLS:
            tables, residuals = tables.part(residuals > 0), residuals[residuals > 0]
        has_triples = 0 < count_cells(pmf.schema.sizes, 3) <= _MAX_CELLS
        return cls(tables, residuals, is_all=False, triples=Tables.count(records, 3) if has_triples else None)

    def misfits(self, names: Iterable[str]) -> list[int]:
        """Return the positions of tables of these variables that the model may not fit, worst first."""
        wanted, order = set(names), np.argsort(-self.residuals, kind="stable")
        return [at for at in order.tolist() if self.residuals[at] > 0 and wanted.issuperset(self.tables.names[at])]

    def draws(self, names: Iterable[str], n: int, *, posterior: bool) -> list[JointPMF]:
        """Return the model that fits the table of some variables exactly, and ``n`` models like it.

        None of them where there is no such table, or too few records in it. The other models are drawn as probable as
        the table makes them, with half a record in each cell beforehand (Jeffreys' prior), or of other samples of the
        same size.
        """
        wanted = set(names)
        tables = self.tables if len(wanted) == self.tables.order else self.triples
        places = [] if tables is None else [place for place, own in enumerate(tables.names) if wanted == set(own)]
        if tables is None or not places:
            return []
        people, counts = float(tables.weights[places[0]]), tables.array(places[0])
        if people < _LEAST_RECORDS_PER_CELL * counts.size:
            return []
        schema, random = tables.schema.subset(tables.names[places[0]]), np.random.default_rng(places[0])
        shares = counts.ravel() / counts.sum()
        if posterior:
            drawn = random.gamma(people * shares + 0.5, size=(n, shares.size))
            drawn /= drawn.sum(axis=1, keepdims=True)
        else:
            n_people = max(1, round(min(people, 1e15)))
            drawn = random.multinomial(n_people, shares / shares.sum(), size=n) / n_people
        return [JointPMF.from_joint(row.reshape(counts.shape), schema) for row in (shares, *drawn)]

    def leaves_open(self, names: Iterable[str]) -> bool:
        """Return whether no table shows all these variables together, so tables alone do not determine their joint."""
        wanted = set(names)
        if self.published is not None:
            return not any(wanted.issubset(table.variables) for table in self.published.plain)
        return self.is_all and len(wanted) > 1 and not any(wanted.issubset(known) for known in self.tables.names)

    def widened(
        self, boot: Bootstrap, ends: Intervals, question: Question, scale: Scale, names: Sequence[str], cells: Cells
    ) -> tuple[Intervals, str]:
        """Return the intervals of an answer, wider where these tables contradict it or leave it open, and a note.

        ``question``, ``scale`` and ``cells`` are as for `Bootstrap.answer`, ``names`` the variables, with the evidence.
        """
        if self.leaves_open(names):
            return self._widened_to_ranges(boot, ends, cells)
        half = NormalDist().inv_cdf(0.5 + 0.5 * boot.level)
        if (by_table := self._answer_of_table(boot, question, scale, names)) is not None:
            doubtful = ends.differs_from(by_table, NormalDist().inv_cdf(1.0 - 0.5 * DOUBT) / half)
            note = (
                f"the model may not fit {crossed_text(names)}; where the two differ by more than chance, the interval "
                "also contains what was observed"
            )
            if self.is_all:
                # The table is all that is known of these variables: the model cannot be surer than it.
                return ends.widened(by_table.low, by_table.high), note if doubtful.any() else ""
            if doubtful.any():
                low, high = (np.where(doubtful, end, np.nan) for end in (by_table.low, by_table.high))
                return ends.widened(low, high), note
        # The table of a pair is the whole evidence about it; that of a triple is sparser than its pairs.
        misfits = [] if by_table is not None and len(names) == 2 else self.misfits(names)
        if not misfits:
            return ends, ""
        # Off by so many standard errors there, the model may be off by as many here.
        times = 1.0 + self.residuals[misfits[0]] / half
        shown = crossed_text(self.tables.names[misfits[0]])
        return ends.stretched(times, scale), f"the model may not fit {shown}; the interval is {times:.1f} times as wide"

    def _answer_of_table(
        self, boot: Bootstrap, question: Question, scale: Scale, names: Sequence[str]
    ) -> Intervals | None:
        """Return the answer of the one table that shows all variables of a question, None where there is none."""
        # Chance raises measures of dependence in draws from a table, as it does in the table: they are reflected.
        posterior = scale != "nonnegative"
        n = max(len(boot.replicates), LEAST_REPLICATES)
        models = self.draws(names, n, posterior=posterior) if len(names) in (2, 3) else []
        if not models:
            return None
        table = type(boot)(models[0], tuple(models[1:]), models[0], boot.level, reflected=not posterior)
        try:
            return (table.given(boot.evidence) if boot.evidence else table).of(question, scale)
        except ImpossibleEvidenceError:  # no record of the table shows the evidence
            return None

    def _widened_to_ranges(self, boot: Bootstrap, ends: Intervals, cells: Cells) -> tuple[Intervals, str]:
        """Return intervals that contain all that tables allow of each cell, as far as it is known, and a note."""
        is_more = self.published is not None
        note = "the tables do not determine this" if is_more else "no table shows all these variables together"
        some = cells if len(cells) <= _MAX_RANGES else ()
        allowed = [self._allowed(boot, ends, place, *cell) for place, cell in enumerate(some)]
        if not any(known for known, _ in allowed):
            return ends, f"{note}: the interval is valid only if the model is right"
        low, high = np.array([known or (np.nan, np.nan) for known, _ in allowed]).T.reshape(2, *ends.estimate.shape)
        wider, is_open = ends.widened(low, high), np.reshape([own for _, own in allowed], ends.estimate.shape)
        if not (is_open & ((wider.low < ends.low) | (wider.high > ends.high))).any():
            return wider, ""
        note += ": the interval contains all that the tables allow"
        if len(cells) == 1:
            note += f"; {float(ends.low):.4g} to {float(ends.high):.4g} if the model is right"
        return wider, note

    def _allowed(
        self, boot: Bootstrap, ends: Intervals, place: int, event: Event, given: Event
    ) -> tuple[tuple[float, float] | None, bool]:
        """Return what tables allow of one of an answer's cells, if it is known, and whether they leave it open.

        Where published tables leave little open, such as by rounding, sampling error is that of the answer.
        """
        known = {**boot.evidence, **given}
        value, low, high = (float(np.ravel(own)[place]) for own in ends)
        near = None if self.published is None else quick_probability_range(self.published, event, known, None)
        if near is not None and near.width <= high - low and near.contradiction <= _SMALL_CONTRADICTION:
            return (max(near.low - (value - low), 0.0), min(near.high + (high - value), 1.0)), False
        bounds = quick_probability_range(self.published or self.tables, event, known, boot.level)
        return None if bounds is None else (bounds.low, bounds.high), True

    # Files

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a file that `from_arrays` reads."""
        if self.published is not None:  # which the model's counts hold
            return {}
        arrays = {f"observed_{name}": getattr(self.tables, name) for name in _SAVED}
        arrays |= {"observed_residuals": self.residuals, "observed_all": np.array([self.is_all], dtype=np.uint8)}
        if self.triples is not None:
            arrays |= {f"triple_{name}": getattr(self.triples, name) for name in _SAVED}
        return arrays

    @classmethod
    def from_arrays(cls, pmf: JointPMF, arrays: Mapping[str, NDArray[Any]]) -> ObservedTables | None:
        """Return the tables that `arrays` wrote; None where a file has none."""
        if pmf.counts is not None and pmf.counts.published is not None:
            return cls.of(pmf, pmf.counts.published)
        if "observed_sets" not in arrays:
            return None
        tables = Tables(pmf.schema, arrays["observed_sets"], arrays["observed_flat"], arrays["observed_weights"])
        residuals, is_all = arrays["observed_residuals"].astype(np.float64), arrays["observed_all"]
        if residuals.shape != (len(tables),) or is_all.shape != (1,) or not (residuals >= 0).all():
            raise DataError(f"the residuals of its {len(tables)} observed tables are invalid")
        triples = None
        if "triple_sets" in arrays:
            triples = Tables(pmf.schema, arrays["triple_sets"], arrays["triple_flat"], arrays["triple_weights"])
        return cls(tables, residuals, bool(is_all[0]), triples)


def _doubtful_residuals(pmf: JointPMF, tables: Tables) -> Floats:
    """Return by how many standard errors each table is off, (n_tables,); 0 where chance explains it well."""
    off = {pair.variables: abs(pair.residual) for pair in fit_quality(pmf, tables).pairs if pair.p_value < DOUBT}
    return np.array([off.get(names, 0.0) for names in tables.names])
