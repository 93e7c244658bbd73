"""How clear segments are, and how stable: the same people drawn again, and fitted again."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from twoway.arrays import Floats, Ints, times_log
from twoway.data.records import Records
from twoway.data.weights import record_weights
from twoway.model.pmf import JointPMF
from twoway.model.posterior import posterior_of
from twoway.parallel import map_in_order
from twoway.segmentation.search import Search
from twoway.solvers.resampling import RecordResampling
from twoway.solvers.theta import theta_of

# Random starts of each replicate, in addition to the segments of all people.
_N_STARTS = 8


@dataclass(frozen=True)
class SegmentQuality:
    """How clear and how stable segments are."""

    relative_entropy: float
    """1 if everybody certainly belongs to one segment, 0 if all segments are equally likely for everybody."""
    certainty: tuple[float, ...]
    """For each segment, the mean probability that the people assigned to it belong to it; NaN if there are none."""
    stability: tuple[float, ...] = ()
    """For each segment, its mean overlap (Jaccard index) with the matching segment in bootstrap replicates: the people
    in both as a share of the people in either. Above 0.75 is stable."""
    agreement: float | None = None
    """The mean adjusted Rand index of the assignments of two fits: 1 if they are the same, 0 as by chance."""
    n_replicates: int = 0


def segment_quality(records: Records, pmf: JointPMF) -> SegmentQuality:
    """Return how clear the assignment of records to segments is."""
    memberships = segment_memberships(records, pmf)
    weights = record_weights(records)
    entropies = -times_log(memberships, memberships).sum(axis=1)
    most = float(np.log(pmf.rank)) if pmf.rank > 1 else 1.0
    relative = 1.0 - float(np.average(entropies, weights=weights)) / most
    modal = memberships.argmax(axis=1)
    sizes = np.bincount(modal, weights, pmf.rank)
    sums = np.bincount(modal, weights * memberships.max(axis=1), pmf.rank)
    certainty = np.divide(sums, sizes, out=np.full(pmf.rank, np.nan), where=sizes > 0)
    return SegmentQuality(relative, tuple(certainty.tolist()))


def segment_memberships(records: Records, pmf: JointPMF) -> Floats:
    """Return Pr(segment | record), (n_records, count); an impossible record has the sizes."""
    return posterior_of(records.as_block(), pmf.weights, pmf.stacked)[0]


def replicated_quality(
    quality: SegmentQuality, search: Search, pmf: JointPMF, n: int, *, seed: int, show: Callable[[int], None]
) -> tuple[SegmentQuality, Floats]:
    """Return the quality with the stability of segments in other samples of the same people, and standard errors.

    Each sample is fitted from the segments' own parameters and from random starts. The errors, (1 + n_categories,
    count), are those of the sizes, and below them those of share minus overall share. ``show`` gets the number of
    samples done.
    """
    records, theta, rank = search.records, theta_of(pmf), pmf.rank
    resampling, weights = RecordResampling(records), record_weights(records)
    memberships = segment_memberships(records, pmf)
    modal = memberships.argmax(axis=1)
    done = itertools.count(1)

    def replicate(number: int) -> tuple[Floats, Floats, float]:
        sample = Search(resampling.draw(seed, number).records, 1)  # type: ignore[arg-type]
        climb = sample.best_of_replicate(rank, n_starts=_N_STARTS, seed=[seed, number], first=theta)
        best = climb.pmf(records.schema)
        others = segment_memberships(records, best)
        order = matched_segments(memberships, others, weights)
        shared = np.bincount(modal * rank + np.argsort(order)[others.argmax(axis=1)], weights, rank * rank)
        table: Floats = shared.reshape(rank, rank).astype(np.float64)
        either = table.sum(axis=0) + table.sum(axis=1) - table.diagonal()
        jaccard = np.divide(table.diagonal(), either, out=np.ones(rank), where=either > 0)
        weights_again, shares = best.weights[order], best.stacked[:, order]
        differences = np.vstack([weights_again, shares - (shares @ weights_again)[:, None]])
        show(next(done))
        return differences, jaccard, adjusted_rand(table)

    results = map_in_order(range(n), replicate, threads=search.threads)
    differences, jaccard, agreement = (np.array(part) for part in zip(*results, strict=True))
    stability = tuple(jaccard.mean(axis=0).tolist())
    quality = replace(quality, stability=stability, agreement=float(agreement.mean()), n_replicates=n)
    return quality, differences.std(axis=0, ddof=1)


def matched_segments(memberships: Floats, others: Floats, weights: Floats) -> Ints:
    """Return the order of other segments in which they have most in common with these, (count,)."""
    from scipy.optimize import linear_sum_assignment

    overlap = (memberships * weights[:, None]).T @ others
    return np.asarray(linear_sum_assignment(overlap, maximize=True)[1])


def adjusted_rand(table: Floats) -> float:
    """Return the adjusted Rand index of two assignments, from how many people are in each pair of segments.

    Examples
    --------
    >>> adjusted_rand(np.array([[5.0, 0.0], [0.0, 5.0]])), adjusted_rand(np.array([[8.0, 8.0], [8.0, 8.0]])) < 0
    (1.0, True)
    """

    def pairs(counts: Floats) -> float:
        return float((counts * (counts - 1.0)).sum()) / 2.0

    both, rows, columns = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    chance = rows * columns / max(pairs(table.sum(keepdims=True)), 1e-300)
    most = (rows + columns) / 2.0
    return 1.0 if most == chance else (both - chance) / (most - chance)
