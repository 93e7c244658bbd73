"""The least probable records, and what is unusual about each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from twoway.category_labels import Label
from twoway.errors import ImpossibleEvidenceError, check_whole_number
from twoway.model.pmf import JointPMF, pmf_of
from twoway.model.records import records_for_model

_SHOWN = 3


@dataclass(frozen=True)
class SurprisingCell:
    """A cell of a record, and how probable it is given the rest of the record."""

    variable: str
    category: Label
    probability: float
    expected: Label | None
    """The most probable category; None where it is the observed one."""


@dataclass(frozen=True)
class Surprise:
    """A record, its log-probability, and its cells, least probable first."""

    record: int
    """The position of the record, from 0."""
    log_prob: float
    cells: tuple[SurprisingCell, ...]

    def __repr__(self) -> str:
        cells = ", ".join(f"{cell.variable}={cell.category!r} ({cell.probability:.2g})" for cell in self.cells[:_SHOWN])
        more = f", … ({len(self.cells) - _SHOWN} more)" if len(self.cells) > _SHOWN else ""
        return f"Surprise(record {self.record}, log-probability {self.log_prob:.4g}: {cells}{more})"


def surprises(pmf: JointPMF, source: Any, n: int = 10) -> list[Surprise]:
    """Return the ``n`` least probable records, each with its cells, least probable given the rest of the record first.

    Cells of which the rest of the record is impossible are left out.

    Parameters
    ----------
    pmf
        The model.
    source
        Records, as `JointPMF.log_prob` takes them.
    n
        The number of records.

    Examples
    --------
    >>> from twoway import fit
    >>> frame = {"sky": ["grey", "blue"] * 50 + ["blue"], "rain": ["yes", "no"] * 50 + ["yes"]}
    >>> (surprise,) = surprises(fit(frame, rank=2), frame, n=1)
    >>> surprise.record, sorted((cell.variable, cell.expected) for cell in surprise.cells)
    (100, [('rain', 'no'), ('sky', 'grey')])
    """
    pmf = pmf_of(pmf)
    records = records_for_model(pmf.schema, source)
    log_prob = pmf.log_prob(records)
    least = np.argsort(log_prob, kind="stable")[: check_whole_number("n", n, 1)]
    rows = zip(least.tolist(), records.take(least).codes(), strict=True)
    return [Surprise(row, float(log_prob[row]), _surprising_cells(pmf, codes)) for row, codes in rows]


def _surprising_cells(pmf: JointPMF, codes: np.ndarray[Any, Any]) -> tuple[SurprisingCell, ...]:
    observed = {v.name: v.categories[code] for v, code in zip(pmf.schema, codes, strict=True) if code >= 0}
    cells = []
    for name, label in observed.items():
        with suppress(ImpossibleEvidenceError):
            shares = pmf.given({other: known for other, known in observed.items() if other != name}).marginal(name)
            probability = float(shares.array[pmf.schema[name].code(label)])
            expected = pmf.schema[name].categories[int(shares.array.argmax())]
            cells.append(SurprisingCell(name, label, probability, None if expected == label else expected))
    return tuple(sorted(cells, key=lambda cell: cell.probability))
