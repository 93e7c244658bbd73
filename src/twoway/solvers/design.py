"""How a survey's sample was drawn, and what other samples of the same design would have been.

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
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.data.records import Records
from twoway.errors import DataError, check_known
from twoway.solvers.evidence import CellSets
from twoway.solvers.resampling import sample_sets
from twoway.text import brief, shortlist

# The part of the way to another sample that weights go.
_STEP = 0.3
ReplicateKind = Literal["bootstrap", "brr", "fay", "jackknife"]
WeightsOf: TypeAlias = Callable[[int, int], Floats]
"""From a seed and the number of a sample to its weights, (n_records,), in units of an effective record."""


@dataclass(frozen=True, eq=False)
class Design:
    """How the records of a survey were drawn, for `bootstrap`: its intervals are then those of the design.

    Each option is a sequence with an entry for each record, such as a column of the frame.

    Parameters
    ----------
    strata
        The stratum of each record; one for all by default.
    units
        The primary sampling unit (cluster) of each record; each record is one by default. Units of different strata
        are different, even if they are called alike.
    population
        How many units the record's stratum has in the whole population. By default the sample is a small part of it.
    replicates
        Replicate weights that came with the survey, shape (n_records, n_replicates), in place of all the others. The
        records have the survey's own weights.
    kind
        What they are: "bootstrap", "brr" (balanced repeated replication), "fay" (the same, halfway), or "jackknife".
    fay
        For "fay", the share of its weight that a unit keeps in the half that is left out.
    scale
        What the squared deviation of each replicate counts in a variance: a number for each, or one for all. By default
        that of the kind; of a jackknife in strata it must be given, (n - 1) / n of the replicate's stratum.

    Examples
    --------
    >>> import pandas as pd
    >>> import twoway as tw
    >>> schools = pd.DataFrame({"town": list("aabbccdd") * 20, "big": list("yynnynnn") * 20})
    >>> pmf = tw.fit(schools[["big"]], rank=1)
    >>> by_town = tw.bootstrap(pmf, schools, n=100, design=tw.Design(units=schools["town"]))
    >>> by_record = tw.bootstrap(pmf, schools, n=100)
    >>> wide, narrow = by_town.prob({"big": "y"}), by_record.prob({"big": "y"})
    >>> bool(wide.high - wide.low > 3 * (narrow.high - narrow.low))
    True
    """

    strata: Any = None
    units: Any = None
    population: Any = None
    replicates: Any = None
    kind: ReplicateKind = "bootstrap"
    fay: float = 0.5
    scale: Any = None


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
    count_tables: bool

    def original(self) -> CellSets:
        """Return the records themselves."""
        return self._sets(self.weights)

    def draw(self, seed: int, number: int) -> CellSets:
        """Return another sample."""
        return self._sets(self.weights_of(seed, number))

    def _sets(self, weights: Floats) -> CellSets:
        return sample_sets(self.records.reweighted(weights).with_say(), self.count_tables)


def _unit_samples(design: Design, weights: Floats, n_samples: int) -> tuple[WeightsOf, Floats, int]:
    """Return samples whose units are drawn with replacement, or one after the other where they are few."""
    n = len(weights)
    labels, stratum = _coded("strata", design.strata, n, np.zeros(n, dtype=np.int64))
    _, unit_code = _coded("units", design.units, n, np.arange(n))
    pairs, unit_of = np.unique(np.column_stack([stratum, unit_code]), axis=0, return_inverse=True)
    # Units are in the order of their strata.
    n_units = np.bincount(pairs[:, 0])
    if (alone := np.flatnonzero(n_units < 2)).size:
        if design.strata is None:
            raise DataError("the sample has one unit only; chance can be told from at least two")
        names = shortlist(labels[alone].tolist(), 6)
        raise DataError(f"strata with one unit only: {names}; join each with another stratum")
    shares = np.zeros(len(n_units))
    if design.population is not None:
        sizes = _numbers("population", design.population, n)
        for code, n_here in enumerate(n_units):
            own = np.unique(sizes[stratum == code])
            if len(own) > 1 or own[0] < n_here:
                raise DataError(
                    f"population must be one number for each stratum, at least its {n_here} units in the sample; "
                    f"got {shortlist(own.tolist(), 4)} for {brief(labels[code])}"
                )
            shares[code] = n_here / own[0]
    of_unit, steps = pairs[:, 0], _STEP * np.sqrt(1.0 - shares)

    def one_by_one(_: int, number: int) -> Floats:
        own = of_unit[number]
        times = 1.0 - np.where(of_unit == own, _STEP / n_units[own], 0.0)
        times[number] += _STEP
        return np.asarray(weights * times[unit_of])

    def drawn(seed: int, number: int) -> Floats:
        random = np.random.default_rng([seed, number])
        times = [random.multinomial(n - 1, np.full(n, 1.0 / n)) * (n / (n - 1)) for n in n_units.tolist()]
        return np.asarray(weights * (1.0 + steps[of_unit] * (np.concatenate(times) - 1.0))[unit_of])

    degrees = int((n_units - 1).sum())
    if len(pairs) <= n_samples:
        return one_by_one, ((1.0 - shares) * n_units / (n_units - 1.0) / _STEP**2)[of_unit], degrees
    return drawn, np.full(n_samples, 1.0 / (n_samples * _STEP**2)), degrees


def _replicate_samples(design: Design, n_records: int, unit: float) -> tuple[WeightsOf, Floats, int]:
    """Return the replicate weights that came with a survey."""
    weights = _as_floats("replicates", design.replicates)
    if weights.ndim != 2 or weights.shape[0] != n_records or weights.shape[1] < 2:
        raise DataError(
            f"replicate weights must be at least 2 columns of {n_records} rows, one for each record; "
            f"got the shape {weights.shape}"
        )
    if (wrong := np.argwhere(~(np.isfinite(weights) & (weights >= 0)))).size:
        row, column = wrong[0].tolist()
        raise DataError(
            f"replicate weights must be numbers of 0 or more; got {weights[row, column]} in row {row}, "
            f"replicate {column}"
        )
    if not weights.any(axis=0).all():
        raise DataError(f"replicate {int(np.argmin(weights.any(axis=0)))} has no weight above 0")
    n = weights.shape[1]
    usual = {"fay": 1.0 / (n * (1.0 - design.fay) ** 2), "jackknife": (n - 1) / n}.get(design.kind, 1.0 / n)
    scale = np.asarray(usual) if design.scale is None else _as_floats("scale", design.scale)
    if scale.shape not in ((), (n,)) or not ((scale > 0) & np.isfinite(scale)).all():
        raise DataError(f"scale must be a number above 0, or one for each of {n} replicates; got {brief(design.scale)}")
    return lambda _, number: np.asarray(weights[:, number] / unit), np.broadcast_to(scale, (n,)), n - 1


def design_resampling(design: Design, records: Records, n: int, *, count_tables: bool) -> DesignResampling:
    """Return ``n`` samples of a design from records in the order of its entries; or its replicate weights."""
    check_known("kind", get_args(ReplicateKind), design.kind)
    if not (isinstance(design.fay, int | float) and 0 <= design.fay < 1):
        raise DataError(f"fay must be a number of at least 0 and below 1; got {design.fay!r}")
    unit = records.weight_totals.unit
    weights = (np.ones(records.n_records) if records.weights is None else records.weights) / unit
    if design.replicates is None:
        if design.units is None and records.weights is not None and records.people is None:
            raise DataError("each row stands for several records, which a design must tell apart: give units")
        samples = _unit_samples(design, weights, n)
    else:
        if any(part is not None for part in (design.strata, design.units, design.population)):
            raise DataError("replicate weights say all about a design; strata, units and population must not be given")
        samples = _replicate_samples(design, records.n_records, unit)
        if records.weights is None:
            raise DataError(
                "replicate weights go with the survey's own weights; give records with weights, as in "
                'tw.Records(frame, weights="w")'
            )
    return DesignResampling(records, weights, *samples, count_tables)


def _coded(what: str, values: Any, n: int, default: Ints) -> tuple[Any, Ints]:
    """Return the distinct entries of a column, and the number of each record's."""
    import pandas as pd

    if values is None:
        return np.array(["all"], dtype=object), default
    column = pd.Series(values).reset_index(drop=True)
    if len(column) != n:
        raise DataError(f"{what} must have an entry for each of {n} records; got {len(column)}")
    if (missing := np.flatnonzero(column.isna())).size:
        raise DataError(f"{what} must be known for each record; row {missing[0]} has none")
    codes, labels = pd.factorize(column, sort=False)
    return np.asarray(labels, dtype=object), codes


def _numbers(what: str, values: Any, n: int) -> Floats:
    numbers = _as_floats(what, values)
    if numbers.shape != (n,):
        raise DataError(f"{what} must have a number for each of {n} records; got the shape {numbers.shape}")
    if (unknown := np.flatnonzero(~np.isfinite(numbers))).size:
        raise DataError(f"{what} must be known for each record; row {unknown[0]} has {numbers[unknown[0]]}")
    return numbers


def _as_floats(what: str, values: Any) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what} must be numbers; got {brief(values)}") from None
