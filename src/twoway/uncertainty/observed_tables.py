"""What was observed, to compare with a model: where the model may be wrong, and what tables do not determine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.checks.fit_quality import fit_quality
from twoway.checks.probability_range import ProbabilityRange, probability_range
from twoway.errors import DataError, ImpossibleEvidenceError
from twoway.model.pmf import JointPMF
from twoway.model.posterior import records_for
from twoway.tables.tables import Tables

# With more categories, records are not compared: the tables would be larger than the model.
_MAX_CATEGORIES = 5000
# A pair is doubtful if its own p-value is below this. A verdict on all pairs is corrected for their number; an interval
# is about one pair, and it costs little that it also contains what was observed.
_DOUBT = 0.2
# A range is computed over so many cells of a joint: under a second.
_RANGE_CELLS = 2000


@dataclass(frozen=True)
class ObservedTables:
    """Tables that the answers of a model are compared with."""

    tables: Tables
    """Those that the model was fitted to; for records, the tables of pairs that the model may not fit."""
    residuals: Floats
    """(n_tables,): by how many standard errors the worst cell is off; 0 where chance explains it well."""
    is_all: bool
    """Whether these tables are all that the model was fitted to, so they may not determine an answer."""

    @classmethod
    def of(cls, pmf: JointPMF, source: Any) -> ObservedTables | None:
        """Return the tables to compare the answers of a model with; None where there are none."""
        is_all = isinstance(source, Tables)
        if not is_all and pmf.schema.n_categories > _MAX_CATEGORIES:
            return None
        tables = source if is_all else Tables.count(records_for(pmf.schema, source))
        doubtful = [pair for pair in fit_quality(pmf, tables).pairs if pair.p_value < _DOUBT]
        if not is_all:
            if not doubtful:
                return None
            tables = tables.select([pair.variables for pair in doubtful])
        residuals = {pair.variables: abs(pair.residual) for pair in doubtful}
        return cls(tables, np.array([residuals.get(names, 0.0) for names in tables.names]), is_all)

    def misfits(self, names: Iterable[str]) -> list[int]:
        """Return the positions of tables of these variables that the model may not fit, worst first."""
        wanted, order = set(names), np.argsort(-self.residuals, kind="stable")
        return [at for at in order.tolist() if self.residuals[at] > 0 and wanted.issuperset(self.tables.names[at])]

    def draws(self, place: int, n: int) -> tuple[JointPMF, tuple[JointPMF, ...]]:
        """Return a model that fits a table exactly, and ``n`` models of other samples of the same size."""
        schema = self.tables.schema.subset(self.tables.names[place])
        shares = self.tables.array(place) / self.tables.totals[place]
        people = max(1, round(min(float(self.tables.weights[place]), 1e15)))
        drawn = np.random.default_rng(place).multinomial(people, shares.ravel() / shares.sum(), size=n) / people
        replicates = tuple(JointPMF.from_joint(row.reshape(shares.shape), schema) for row in drawn)
        return JointPMF.from_joint(shares, schema), replicates

    def leaves_open(self, names: Iterable[str]) -> bool:
        """Return whether no table shows all these variables together, so tables alone do not determine their joint."""
        wanted = set(names)
        return self.is_all and len(wanted) > 1 and not any(wanted.issubset(known) for known in self.tables.names)

    def range(self, event: Mapping[str, Any], given: Mapping[str, Any], level: float) -> ProbabilityRange | None:
        """Return the least and greatest probability of an event that the tables allow; None where it is unknown."""
        try:
            return probability_range(self.tables, event, given or None, level=level, max_cells=_RANGE_CELLS)
        except (DataError, ImpossibleEvidenceError):  # too many variables, or impossible evidence
            return None

    # Files

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a file that `from_arrays` reads."""
        return {
            "observed_sets": self.tables.sets,
            "observed_flat": self.tables.flat,
            "observed_weights": self.tables.weights,
            "observed_residuals": self.residuals,
            "observed_all": np.array([self.is_all], dtype=np.uint8),
        }

    @classmethod
    def from_arrays(cls, pmf: JointPMF, arrays: Mapping[str, NDArray[Any]]) -> ObservedTables | None:
        """Return the tables that `arrays` wrote; None where a file has none."""
        if "observed_sets" not in arrays:
            return None
        tables = Tables(pmf.schema, arrays["observed_sets"], arrays["observed_flat"], arrays["observed_weights"])
        residuals, is_all = arrays["observed_residuals"].astype(np.float64), arrays["observed_all"]
        if residuals.shape != (len(tables),) or is_all.shape != (1,) or not (residuals >= 0).all():
            raise DataError(f"the residuals of its {len(tables)} observed tables are invalid")
        return cls(tables, residuals, bool(is_all[0]))
