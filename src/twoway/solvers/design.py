"""What other samples of a survey's design would have been.

Units of a stratum resemble each other less than the records of a unit do, so that a sample of clusters says less than
as many records drawn one by one, and one in strata more. With strata and units, samples are drawn by the rescaled
bootstrap (Rao and Wu, 1988): of the n units of a stratum n - 1 are drawn with replacement, and weights are scaled so
that totals vary as they should. A finite population makes them vary less. Weights go only part of the way to those of
the sample drawn, as in Fay's method: with few units, what a whole step does to a share is far from proportional.
Where there are no more units than samples are asked for, each unit in turn gets more weight and the others of its
stratum less, which leaves nothing to chance (a jackknife). Where a survey ships replicate weights, these are its
samples. Each squared deviation of a replicate counts in the variance as its kind says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from twoway.arrays import Floats
from twoway.data.records import Records
from twoway.data.survey_design import Design, ReplicateWeights, SampledUnits, opened_design
from twoway.solvers.evidence import CellSets
from twoway.solvers.resampling import SetsOf, sample_sets

# The part of the way to another sample that weights go.
_STEP = 0.3
WeightsOf: TypeAlias = Callable[[int, int], Floats]
"""From a seed and the number of a sample to its weights, (n_records,), in units of an effective record."""


@dataclass(frozen=True, eq=False)
class DesignResampling:
    """Records whose weights vary as they do between samples of a design."""

    records: Records
    weights: Floats
    """(n_records,), in units of an effective record, as in the fit."""
    weights_of: WeightsOf
    scales: Floats
    """What the squared deviation of each sample counts in a variance."""
    degrees: int
    """The degrees of freedom of that variance."""
    sets_of: SetsOf

    def original(self) -> CellSets:
        """Return the records themselves."""
        return self._sets(self.weights)

    def draw(self, seed: int, number: int) -> CellSets:
        """Return another sample."""
        return self._sets(self.weights_of(seed, number))

    def _sets(self, weights: Floats) -> CellSets:
        return sample_sets(self.records.reweighted(weights).with_say(), self.sets_of)


def _unit_samples(units: SampledUnits, weights: Floats, n_samples: int) -> tuple[WeightsOf, Floats]:
    """Return samples whose units are drawn with replacement, or one after the other where they are few."""
    unit_of, of_unit, n_units, shares = units
    steps = _STEP * np.sqrt(1.0 - shares)

    def one_by_one(_: int, number: int) -> Floats:
        own = of_unit[number]
        times = 1.0 - np.where(of_unit == own, _STEP / n_units[own], 0.0)
        times[number] += _STEP
        return np.asarray(weights * times[unit_of])

    def drawn(seed: int, number: int) -> Floats:
        random = np.random.default_rng([seed, number])
        times = [random.multinomial(n - 1, np.full(n, 1.0 / n)) * (n / (n - 1)) for n in n_units.tolist()]
        return np.asarray(weights * (1.0 + steps[of_unit] * (np.concatenate(times) - 1.0))[unit_of])

    if len(of_unit) <= n_samples:
        return one_by_one, ((1.0 - shares) * n_units / (n_units - 1.0) / _STEP**2)[of_unit]
    return drawn, np.full(n_samples, 1.0 / (n_samples * _STEP**2))


def design_resampling(design: Design, records: Records, n: int, sets_of: SetsOf) -> DesignResampling:
    """Return ``n`` samples of a design from records in the order of its entries; or its replicate weights."""
    opened, unit = opened_design(design, records), records.weight_totals.unit
    weights = (np.ones(records.n_records) if records.weights is None else records.weights) / unit
    if isinstance(opened, ReplicateWeights):
        samples: tuple[WeightsOf, Floats] = lambda _, number: opened.weights[:, number] / unit, opened.scales
    else:
        samples = _unit_samples(opened, weights, n)
    return DesignResampling(records, weights, *samples, opened.degrees, sets_of)
