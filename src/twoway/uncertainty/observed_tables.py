"""What was observed beside a model: where the model is wrong beyond chance, and what tables leave open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.checks.fit_quality import fit_quality
from twoway.checks.probability_range import ProbabilityRange, probability_range
from twoway.errors import DataError, ImpossibleEvidenceError
from twoway.model.pmf import JointPMF
from twoway.model.posterior import records_for
from twoway.tables.tables import Tables
from twoway.text import printable

# Pairs of more categories are not compared: their tables would be larger than the model.
_MOST_CELLS = 5000
# A pair is doubtful where its own p-value is below this. A verdict on all pairs allows for their number; an interval is
# about one pair, and it costs little that it also holds what was observed of it.
_DOUBT = 0.2
# A range is searched over so many cells of a joint: under a second.
_RANGE_CELLS = 2000


@dataclass(frozen=True)
class ObservedTables:
    """Tables that the answers of a model are held against."""

    tables: Tables
    """Those that the model was fitted to; of records, those of pairs that the model may not fit."""
    residuals: NDArray[np.float64]
    """(n_tables,): by how many standard errors the model is off the worst cell; 0 where chance explains it well."""
    is_all: bool
    """Whether these tables are all that the model was fitted to, so that they may leave a question open."""

    @classmethod
    def of(cls, pmf: JointPMF, source: Any) -> ObservedTables | None:
        """Return what there is to hold the answers of a model against; None where nothing is."""
        is_all = isinstance(source, Tables)
        if not is_all and pmf.schema.n_categories > _MOST_CELLS:
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
        """Return the places of tables about these variables alone that the model may not fit, worst first."""
        wanted, order = set(names), np.argsort(-self.residuals, kind="stable")
        off = [place for place in order.tolist() if self.residuals[place] > 0]
        return [place for place in off if wanted.issuperset(self.tables.names[place])]

    def draws(self, place: int, n: int) -> tuple[JointPMF, tuple[JointPMF, ...]]:
        """Return a table as a model of its own, which fits it exactly, and ``n`` others that chance could have made."""
        schema = self.tables.schema.subset(self.tables.names[place])
        shares = self.tables.array(place) / self.tables.totals[place]
        people = max(1, round(min(float(self.tables.weights[place]), 1e15)))
        drawn = np.random.default_rng(place).multinomial(people, shares.ravel() / shares.sum(), size=n) / people
        several = tuple(JointPMF.from_joint(one.reshape(shares.shape), schema) for one in drawn)
        return JointPMF.from_joint(shares, schema), several

    def named(self, place: int) -> str:
        """Return a table's variables, for a message."""
        return " × ".join(printable(name) for name in self.tables.names[place])

    def leaves_open(self, names: Iterable[str]) -> bool:
        """Return whether no table shows all these variables together, so that tables alone do not tell."""
        wanted = set(names)
        return self.is_all and len(wanted) > 1 and not any(wanted.issubset(known) for known in self.tables.names)

    def range(self, event: Mapping[str, Any], given: Mapping[str, Any], level: float) -> ProbabilityRange | None:
        """Return the least and greatest probability of an event that the tables allow; None where that is not found."""
        try:
            return probability_range(self.tables, event, given or None, level=level, max_cells=_RANGE_CELLS)
        except (DataError, ImpossibleEvidenceError):  # about too many variables, or what cannot be
            return None

    # Files

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as the arrays of a file."""
        return {
            "observed_sets": self.tables.sets,
            "observed_flat": self.tables.flat,
            "observed_weights": self.tables.weights,
            "observed_residuals": self.residuals,
            "observed_all": np.array([self.is_all], dtype=np.uint8),
        }

    @classmethod
    def from_arrays(cls, pmf: JointPMF, arrays: Mapping[str, NDArray[Any]]) -> ObservedTables | None:
        """Return what `arrays` made, or None where a file has none."""
        if "observed_sets" not in arrays:
            return None
        tables = Tables(pmf.schema, arrays["observed_sets"], arrays["observed_flat"], arrays["observed_weights"])
        residuals, is_all = arrays["observed_residuals"].astype(np.float64), arrays["observed_all"]
        if residuals.shape != (len(tables),) or is_all.shape != (1,):
            raise DataError(f"its {len(tables)} tables are described by an array of the shape {residuals.shape}")
        if not (residuals >= 0).all():
            raise DataError("its tables are described by negative numbers")
        return cls(tables, residuals, bool(is_all[0]))
