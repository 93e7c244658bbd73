"""How many segments: what each number of them gains, and whether chance would gain as much."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from twoway.arrays import Floats
from twoway.data.coding import compressed_codes
from twoway.data.records import Records
from twoway.data.weights import record_people, record_weights
from twoway.model.pmf import JointPMF
from twoway.parallel import map_in_order
from twoway.segmentation.search import Climb, Search
from twoway.solvers.heldout import HeldOut, held_out_folds, held_out_scores

# Random starts of each fit to simulated records or to a fold, in addition to the start that is likely to be right.
_N_STARTS = 12
# The test ends when this many simulated ratios are as large as the observed one (Besag and Clifford, Sequential Monte
# Carlo p-values, 1991): more would only say more exactly that chance explains it.
_ENOUGH = 10
# More simulated people are not needed: the ratio does not grow with their number where chance explains it.
_MOST_PEOPLE = 200_000


@dataclass(frozen=True)
class SegmentCount:
    """What was found for one number of segments."""

    count: int
    log_likelihood: float
    """Of all records, the best of all starts. With weights, of as many as the records are effective."""
    n_parameters: int
    aic: float
    bic: float
    """With the effective number of records."""
    held_out: float
    """The mean log-likelihood of records that were held out, higher is better."""
    p_value: float | None = None
    """How often one segment less would give as large a gain of likelihood by chance; None where that was not tested."""
    n_simulated: int = 0
    """The number of simulated samples behind the p-value."""


def segment_count(search: Search, climb: Climb, *, seed: int) -> SegmentCount:
    """Return the criteria of a number of segments, without a test."""
    records, value = search.records, climb.log_likelihood
    n_parameters = climb.pmf(records.schema).n_parameters
    aic = 2.0 * n_parameters - 2.0 * value
    bic = n_parameters * math.log(records.total_weight) - 2.0 * value
    return SegmentCount(climb.rank, value, n_parameters, aic, bic, _held_out_segment_count(search, climb, seed))


def _held_out_segment_count(search: Search, climb: Climb, seed: int) -> float:
    """Return the mean log-likelihood of held-out records, NaN where there are too few to hold some out."""
    folds, schema = held_out_folds(search.records, seed=seed), search.records.schema

    def score(number: int) -> HeldOut:
        train, held = folds[number]
        fold = Search(train, 1)
        best = fold.best_of_replicate(climb.rank, n_starts=_N_STARTS, seed=[seed, number], first=climb.theta)
        # The folds themselves run side by side.
        return held_out_scores(softened_segments(best.pmf(schema), fold.shares, train.total_weight), held, 1)

    if not folds:
        return math.nan
    return HeldOut.of_folds(map_in_order(range(len(folds)), score, threads=search.threads)).mean


def softened_segments(pmf: JointPMF, shares: Floats, n_records: float) -> JointPMF:
    """Return a model with a record of the overall shares more in each segment, so that nothing is impossible."""
    weights = n_records * pmf.weights + 1.0
    stacked = (n_records * pmf.weights * pmf.stacked + shares[:, None]) / weights
    return JointPMF.from_stacked(pmf.schema, weights / weights.sum(), stacked)


def segment_count_test(
    search: Search, fewer: Climb, more: Climb, n: int, *, seed: int, show: Callable[[int], None]
) -> tuple[float, int]:
    """Return the p-value of the bootstrap likelihood-ratio test of one segment more, and the number of samples drawn.

    Records are simulated from the model with one segment less, each person with the same missing cells and the same
    weight, and both models are fitted to them (McLachlan, 1987). ``show`` gets the number of samples done.
    """
    records, null = search.records, fewer.pmf(search.records.schema)
    observed = 2.0 * (more.log_likelihood - fewer.log_likelihood)

    def ratio(number: int) -> float:
        seeds = [seed, more.rank, number]
        sample = Search(segment_count_sample(records, null, np.random.default_rng(seeds)), 1)
        small = sample.best_of_replicate(fewer.rank, n_starts=_N_STARTS, seed=seeds, first=fewer.theta)
        # How large a ratio is matters only where it could be as large as the observed one.
        enough = small.log_likelihood + 0.5 * observed
        large = sample.best_of_replicate(more.rank, n_starts=_N_STARTS, seed=seeds, first=more.theta, enough=enough)
        return 2.0 * (large.log_likelihood - small.log_likelihood)

    n_done = n_larger = 0
    while n_done < n:
        tasks = range(n_done, min(n, n_done + _ENOUGH))
        for simulated_ratio in map_in_order(tasks, ratio, threads=search.threads):
            n_done += 1
            n_larger += simulated_ratio >= observed
            if n_larger == _ENOUGH:
                return n_larger / n_done, n_done
        show(n_done)
    return (n_larger + 1) / (n_done + 1), n_done


def segment_count_sample(records: Records, pmf: JointPMF, random: np.random.Generator) -> Records:
    """Return other people drawn from a model, with the missing cells and the weights of these, equal ones merged."""
    people = np.maximum(np.rint(record_people(records)), 1.0)
    each, n_people = record_weights(records) / people, people.sum()
    if n_people > _MOST_PEOPLE:
        people = random.multinomial(_MOST_PEOPLE, people / n_people)
    rows = np.repeat(np.arange(records.n_records), people.astype(np.int64))
    codes = np.column_stack(pmf.trees.draw(len(rows), random)).astype(np.int32)
    codes[records.codes()[rows] < 0] = -1
    pointers, cells = compressed_codes(codes, records.schema.offsets, records.schema)
    drawn = Records.from_cells(records.schema, pointers, cells, None if records.weights is None else each[rows])
    return drawn.canonical()
