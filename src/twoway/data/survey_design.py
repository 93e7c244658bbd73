"""How the sample of a survey was drawn: strata, units and the size of the population, or replicate weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.data.records import Records
from twoway.errors import DataError, check_known, check_number, check_type
from twoway.lazy_imports import pd
from twoway.text import brief, shortlist

ReplicateKind = Literal["bootstrap", "brr", "fay", "jackknife"]
_USUAL_FAY = 0.5
# Ratios of replicate weights to weights that differ by less are the same: files round weights.
_SAME_RATIO = 1e-3
_SAME_LEFT = 1e-6


@dataclass(frozen=True, eq=False)
class Design:
    """How the records of a survey were drawn: intervals and tests are then those of the design.

    `bootstrap`, `fit_quality` and `sampled_table` take it. Each option is a sequence with an entry for each record,
    such as a column of the frame.

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
        What they are: "bootstrap", "brr" (balanced repeated replication), "fay" (the same, part of the way), or
        "jackknife". By default it is recognised from their ratios to the weights, which show all but the first;
        where they do not, since weights were adjusted later, it must be given.
    fay
        For "fay", the share of its weight that a unit keeps in the half that is left out; by default the one that the
        weights show, or else 0.5.
    scale
        What the squared deviation of each replicate counts in a variance: a number for each, or one for all. By default
        that of the kind; of a jackknife in strata, (n - 1) / n of the replicate's stratum, which weights show unless
        they were adjusted.

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
    kind: ReplicateKind | None = None
    fay: float | None = None
    scale: Any = None


class SampledUnits(NamedTuple):
    """The primary sampling units of records, in the order of their strata."""

    of_record: Ints
    """(n_records,): the number of each record's unit."""
    stratum: Ints
    """(n_units,): the number of each unit's stratum."""
    n_units: Ints
    """(n_strata,): how many units each stratum has in the sample."""
    shares: Floats
    """(n_strata,): which part of the population's units that is."""

    @property
    def degrees(self) -> int:
        """The degrees of freedom of a variance between units."""
        return int((self.n_units - 1).sum())

    @property
    def description(self) -> str:
        """What they are, in words."""
        strata = f" in {len(self.n_units)} strata" if len(self.n_units) > 1 else ""
        finite = ", of a finite population" if self.shares.any() else ""
        return f"{self.n_units.sum():,.0f} units{strata}{finite}"


class ReplicateWeights(NamedTuple):
    """The replicate weights of a survey."""

    weights: Floats
    """(n_records, n_replicates)"""
    scales: Floats
    """(n_replicates,): what the squared deviation of each counts in a variance."""
    degrees: int
    """The degrees of freedom of that variance."""
    description: str
    """What they are, in words."""


def opened_design(design: Design, records: Records) -> SampledUnits | ReplicateWeights:
    """Return the units or the replicate weights of records in the order of a design's entries, or raise."""
    check_type("design", design, Design, "a Design")
    if design.kind is not None:
        check_known("kind", get_args(ReplicateKind), design.kind)
    if design.fay is not None:
        check_number("fay", design.fay, "a number of at least 0 and below 1", lambda number: 0 <= number < 1)
    if design.replicates is None:
        stands_for_several = records.weights is not None and (records.people is None or (records.people != 1).any())
        if design.units is None and stands_for_several:
            raise DataError("a row stands for several records, so the design must name their units")
        return _sampled_units(design, records.n_records)
    if any(part is not None for part in (design.strata, design.units, design.population)):
        raise DataError(
            "replicate weights already describe the design; strata, units and population cannot be given as well"
        )
    replicates = _checked_design_weights(design, records.n_records)
    if records.weights is None:
        raise DataError("replicate weights go with the survey's own weights; give the records these, too: weights=…")
    return _replicate_weights(design, replicates, records.weights)


def _sampled_units(design: Design, n: int) -> SampledUnits:
    labels, stratum = _design_codes("strata", design.strata, n, np.zeros(n, dtype=np.int64))
    _, unit_code = _design_codes("units", design.units, n, np.arange(n))
    pairs, unit_of = np.unique(np.column_stack([stratum, unit_code]), axis=0, return_inverse=True)
    n_units = np.bincount(pairs[:, 0])
    if (alone := np.flatnonzero(n_units < 2)).size:
        if design.strata is None:
            raise DataError("the sample has one unit only; sampling error needs at least two")
        names = shortlist(labels[alone].tolist(), 6)
        raise DataError(f"strata with one unit only: {names}; join each with another stratum")
    shares = np.zeros(len(n_units))
    if design.population is not None:
        sizes = _design_numbers("population", design.population, n)
        for code, n_here in enumerate(n_units):
            own = np.unique(sizes[stratum == code])
            if len(own) > 1 or own[0] < n_here:
                raise DataError(
                    f"population must be one number for each stratum, at least its {n_here} units in the sample; "
                    f"got {shortlist(own.tolist(), 4)} for {brief(labels[code])}"
                )
            shares[code] = n_here / own[0]
    return SampledUnits(unit_of.ravel(), pairs[:, 0], n_units, shares)


def _checked_design_weights(design: Design, n_records: int) -> Floats:
    weights = _design_floats("replicates", design.replicates)
    if weights.ndim != 2 or weights.shape[0] != n_records or weights.shape[1] < 2:
        raise DataError(
            f"replicate weights must be at least 2 columns of {n_records} rows, one for each record; "
            f"got the shape {weights.shape}"
        )
    names = [str(name) for name in getattr(design.replicates, "columns", range(weights.shape[1]))]
    if (wrong := np.argwhere(~(np.isfinite(weights) & (weights >= 0)))).size:
        row, column = wrong[0].tolist()
        raise DataError(
            f"replicate weights must be numbers of 0 or more; got {weights[row, column]} in row {row}, "
            f"replicate {names[column]}"
        )
    if not weights.any(axis=0).all():
        raise DataError(f"replicate {names[int(np.argmin(weights.any(axis=0)))]} has no weight above 0")
    return weights


def _replicate_weights(design: Design, replicates: Floats, weights: Floats) -> ReplicateWeights:
    n = replicates.shape[1]
    kind, fay, scales = _recognized_design(replicates, weights)
    if design.kind is None and kind is None:
        raise DataError(
            f"the kind of the {n} replicate weights cannot be recognized from their values (unadjusted BRR, Fay and "
            "jackknife weights can): give the kind that the survey's documentation names, one of "
            f"{shortlist(get_args(ReplicateKind))}"
        )
    how = "recognized by their ratios to the weights" if design.kind is None else "as given"
    if design.kind is not None and design.kind != kind:
        kind, fay, scales = design.kind, None, None
    if kind == "fay":
        known = [share for share in (design.fay, fay) if share is not None]
        if len(known) == 2 and abs(known[0] - known[1]) > _SAME_RATIO:
            raise DataError(
                f"Fay's coefficient {design.fay:g} does not match the replicate weights, which imply {fay:.3g}"
            )
        fay = known[0] if known else _USUAL_FAY
    usual = {"fay": 1.0 / (n * (1.0 - (fay or 0.0)) ** 2), "jackknife": (n - 1) / n}.get(str(kind), 1.0 / n)
    scale = np.asarray(usual if scales is None else scales)
    if design.scale is not None:
        scale = _design_floats("scale", design.scale)
    if scale.shape not in ((), (n,)) or not ((scale > 0) & np.isfinite(scale)).all():
        raise DataError(f"scale must be a number above 0, or one for each of {n} replicates; got {brief(design.scale)}")
    # As many directions as the weights vary in: many bootstrap samples of few units say no more than the units do.
    degrees = replicate_degrees(replicates)
    named = {"brr": "BRR weights", "fay": f"Fay's weights with {fay or 0:g}"}.get(str(kind), f"{kind} weights")
    return ReplicateWeights(replicates, np.broadcast_to(scale, (n,)), degrees, f"{n} {named}, {how}")


def _recognized_design(replicates: Floats, weights: Floats) -> tuple[ReplicateKind | None, float | None, Floats | None]:
    """Return the kind of replicate weights, Fay's share, and scales, where their ratios to the weights show them."""
    ratios = replicates[weights > 0] / weights[weights > 0][:, None]
    low, high = float(ratios.min()), float(ratios.max())
    is_half = bool(((ratios - low < _SAME_RATIO) | (high - ratios < _SAME_RATIO)).all())
    if is_half and abs(low + high - 2.0) < 2.0 * _SAME_RATIO and low < 1.0 - _SAME_RATIO:
        return ("brr", None, None) if low < _SAME_RATIO else ("fay", low, None)
    is_left_out = ratios == 0
    heavier = ratios.max(axis=0)
    is_known = is_left_out | (np.abs(ratios - heavier) < _SAME_LEFT) | (np.abs(ratios - 1.0) < _SAME_LEFT)
    is_once = (is_left_out.sum(axis=1) == 1).all()  # other ways leave out one unit of each stratum only
    if is_once and is_known.all() and (heavier > 1.0 + _SAME_LEFT).all():
        return "jackknife", None, 1.0 / heavier
    return None, None, None


def _design_codes(what: str, values: Any, n: int, default: Ints) -> tuple[Any, Ints]:
    """Return the distinct entries of a column, and the number of each record's."""
    if values is None:
        return np.array(["all"], dtype=object), default
    column = pd.Series(values).reset_index(drop=True)
    if len(column) != n:
        raise DataError(f"{what} must have an entry for each of {n} records; got {len(column)}")
    if (missing := np.flatnonzero(column.isna())).size:
        raise DataError(f"{what} must be known for each record; row {missing[0]} has none")
    codes, labels = pd.factorize(column, sort=False)
    return np.asarray(labels, dtype=object), codes


def _design_numbers(what: str, values: Any, n: int) -> Floats:
    numbers = _design_floats(what, values)
    if numbers.shape != (n,):
        raise DataError(f"{what} must have a number for each of {n} records; got the shape {numbers.shape}")
    if (unknown := np.flatnonzero(~np.isfinite(numbers))).size:
        raise DataError(f"{what} must be known for each record; row {unknown[0]} has {numbers[unknown[0]]}")
    return numbers


def _design_floats(what: str, values: Any) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what} must be numbers; got {brief(values)}") from None


def replicate_degrees(weights: Floats) -> int:
    """Return the degrees of freedom of a variance by replicate weights, (n_records, n_replicates), of some records."""
    return max(int(np.linalg.matrix_rank(weights, 1e-5 * np.linalg.norm(weights, 2))) - 1, 1)
