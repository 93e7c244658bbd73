"""The tables of other samples of a survey's design."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.checks.association import DesignSamples
from twoway.model.posterior import records_for
from twoway.schema import Schema, Variable
from twoway.solvers.design import Design, design_resampling

# Of designs without replicate weights of their own.
_N_SAMPLES = 200


@dataclass(frozen=True, eq=False)
class DesignTables:
    """Records, and what they weigh in other samples of a design."""

    schema: Schema
    codes: NDArray[np.int32]
    """(n_records, n_variables), -1 where missing."""
    weights: Floats
    """(n_samples, n_records)."""
    scales: Floats
    degrees: int

    @classmethod
    def of(cls, schema: Schema, records: Any, design: Design) -> DesignTables:
        """Return the tables of a design of the records of a model."""
        own = records_for(schema, records)
        samples = design_resampling(design, own, _N_SAMPLES, count_tables=False)
        weights = np.stack([samples.weights_of(0, number) for number in range(len(samples.scales))])
        return cls(schema, own.codes(), weights, samples.scales, samples.degrees)

    def samples(self, row: Variable, column: Variable) -> DesignSamples:
        """Return the table of two variables in each sample."""
        codes = self.codes[:, self.schema.indices([row.name, column.name])]
        seen = (codes >= 0).all(axis=1)
        cells = codes[seen, 0] * len(column) + codes[seen, 1]
        size = len(row) * len(column)
        tables = np.array([np.bincount(cells, own[seen], size) for own in self.weights], dtype=np.float64)
        return DesignSamples(tables.reshape(-1, len(row), len(column)), self.scales, self.degrees)
