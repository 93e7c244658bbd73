"""What was observed, to compare with a model: where the model may be wrong, and what tables do not determine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.checks.fit_quality import PairFit, fit_quality
from twoway.checks.probability_range import ProbabilityRange, quick_range
from twoway.errors import DataError
from twoway.model.events import Event
from twoway.model.pmf import JointPMF
from twoway.model.posterior import records_for
from twoway.tables.counting import n_set_cells
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables

DOUBT = 0.2
"""A pair, or the answer to a question, is doubtful if what was observed differs from it with a p-value below this.

A verdict on all pairs is corrected for their number; an interval is about one question, and it costs little that it
also contains what was observed.
"""
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
            return cls.of_published(pmf, source)
        is_all = isinstance(source, Tables)
        if not is_all and pmf.schema.n_categories > _MAX_CATEGORIES:
            return None
        records = None if is_all else records_for(pmf.schema, source, report=pmf.report)
        tables = source if records is None else Tables.count(records)
        doubtful = [pair for pair in fit_quality(pmf, tables).pairs if pair.p_value < DOUBT]
        if not is_all and len(tables.flat) > _MAX_CELLS:
            tables = tables.select([pair.variables for pair in doubtful])
        triples = None
        if records is not None and 0 < n_set_cells(pmf.schema.sizes, 3) <= _MAX_CELLS:
            triples = Tables.count(records, 3)
        return cls(tables, _residuals(doubtful, tables), is_all, triples)

    @classmethod
    def of_published(cls, pmf: JointPMF, published: PublishedTables) -> ObservedTables:
        """Return published tables to compare the answers of a model with."""
        pairs, triples = published.pairs(only_plain=True), published.triples()
        doubtful = [pair for pair in fit_quality(pmf, pairs).pairs if pair.p_value < DOUBT] if len(pairs) else []
        return cls(pairs, _residuals(doubtful, pairs), True, triples if len(triples) else None, published)

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

    @property
    def open_note(self) -> str:
        """In words, why an answer is open."""
        is_more = self.published is not None
        return "the tables do not determine this" if is_more else "no table shows all these variables together"

    def range(self, event: Event, given: Event, level: float | None) -> ProbabilityRange | None:
        """Return the least and greatest probability of an event that the tables allow; None where it is unknown."""
        return quick_range(self.tables if self.published is None else self.published, event, given, level)

    def determined(self, event: Event, given: Event, width: float) -> ProbabilityRange | None:
        """Return the range that published tables leave without sampling error, where it is no wider than this."""
        found = None if self.published is None else self.range(event, given, None)
        is_narrow = found is not None and found.width <= width and found.contradiction <= _SMALL_CONTRADICTION
        return found if is_narrow else None

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
            return cls.of_published(pmf, pmf.counts.published)
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


def _residuals(doubtful: Iterable[PairFit], tables: Tables) -> Floats:
    """Return by how many standard errors each table is off; 0 for those that are not doubtful."""
    residuals = {pair.variables: abs(pair.residual) for pair in doubtful}
    return np.array([residuals.get(names, 0.0) for names in tables.names])
