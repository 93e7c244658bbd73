"""From records to segments: fit each number of them, choose one, and say how good it is."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from twoway.arrays import read_only
from twoway.data.frames import frame_library_of
from twoway.data.records import Records
from twoway.errors import DataError, check_whole_number
from twoway.fitting.fit import fitted_model
from twoway.fitting.sources import evidence_of_source
from twoway.fitting.structure import FittedStructure
from twoway.report import Monitor, Progress, StopReason
from twoway.segmentation.profile import profile_errors
from twoway.segmentation.quality import replicated_quality, segment_quality
from twoway.segmentation.search import Climb, Search
from twoway.segmentation.segment_count import segment_count, segment_count_test
from twoway.segmentation.segments import Segments
from twoway.solvers import Problem, Smoothing, Solution, Watch

_MOST_SEGMENTS = 100


def segments(
    source: Any,
    count: int | Iterable[int] = range(2, 9),
    *,
    starts: int = 50,
    replicates: int = 100,
    seed: int = 0,
    threads: int | None = None,
    monitor: Monitor | bool | None = None,
) -> Segments:
    """Return segments of people: latent classes, found by maximum likelihood.

    Parameters
    ----------
    source
        Records of any kind that `fit` takes, with any cells missing; `Records` says which columns are used, and which
        one holds weights.
    count
        How many segments, or several numbers to compare: the one of the lowest BIC is taken.
    starts
        Random starts for each number, of which the best counts.
    replicates
        How many samples are drawn to see how stable the segments are, and for the bootstrap likelihood-ratio tests of
        the chosen number against one less, and of one more against it. 0 leaves both out.
    seed
        The same seed gives the same segments, whatever the number of threads.
    threads
        All cores by default.
    monitor
        True shows a progress bar; a function gets each `Progress`.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows, draw_records
    >>> found = segments(draw_records(dirichlet_rows(8, 3, 3, seed=1), 1000), range(1, 5), replicates=0)
    >>> found.count, found.names
    (3, ('segment 1', 'segment 2', 'segment 3'))
    """
    began = time.monotonic()
    starts, seed = check_whole_number("starts", starts, 1), check_whole_number("seed", seed, 0)
    replicates = check_whole_number("replicates", replicates, 0)
    if replicates == 1:
        raise DataError("replicates must be 0 or at least 2, not 1")
    evidence, warnings, known = evidence_of_source(source, threads)
    if evidence.records is None:
        raise DataError("segments are groups of records, but the source has only tables; give the records")
    records = evidence.records.sample(evidence.records.n_observed, seed=seed)  # all of them, in memory
    counts = _counts_to_find(count, records)
    search = Search(records, evidence.threads)
    with Watch.showing(monitor) as watch:

        def fit(number: int) -> Climb:
            watch.show(Progress("finding segments", number, max(counts)))
            return search.best(number, n_starts=starts, seed=[seed])

        climbs = {number: fit(number) for number in counts}
        candidates = {number: segment_count(search, climbs[number], seed=seed) for number in counts}
        best = min(candidates.values(), key=lambda candidate: (candidate.bic, candidate.count)).count
        for number in (best, best + 1):
            if replicates and number > 1 and number in candidates:
                if number - 1 not in climbs:
                    climbs[number - 1] = fit(number - 1)
                pair = climbs[number - 1], climbs[number]
                show = watch.counting(f"testing {number} segments", replicates)
                p_value, n_simulated = segment_count_test(search, *pair, replicates, seed=seed, show=show)
                candidates[number] = replace(candidates[number], p_value=p_value, n_simulated=n_simulated)
        climb, name = climbs[best], "negative log-likelihood per record"
        pmf, objective = climb.pmf(records.schema), -climb.log_likelihood / records.total_weight
        stop_reason = StopReason.CONVERGED if climb.converged else StopReason.MAX_ITER
        solution = Solution(pmf, (objective,), stop_reason, solver="em", objective_name=name)
        fitted = FittedStructure("em", Problem(evidence, best, seed, smoothing=Smoothing()), solution)
        if (n_cells := np.prod([float(len(v)) for v in records.schema])) <= pmf.n_parameters:
            warnings.append(
                f"{best} segments have {pmf.n_parameters} parameters, more than the {n_cells:.0f} combinations of "
                "answers can determine: other profiles fit equally well"
            )
        if len(counts) > 1 and best == counts[-1]:
            warnings.append(f"the lowest BIC is that of {best} segments, the most that were tried: more may be better")
        pmf = fitted_model(fitted, warnings, known, began).with_library(frame_library_of(source))
        quality, errors = segment_quality(records, pmf), profile_errors(pmf, records)
        if replicates:
            show = watch.counting("drawing replicates", replicates)
            quality, drawn_errors = replicated_quality(quality, search, pmf, replicates, seed=seed, show=show)
            errors = np.maximum(errors, drawn_errors)
    names = tuple(f"segment {number}" for number in range(1, best + 1))
    return Segments(pmf, names, tuple(candidates.values()), quality, read_only(errors))


def _counts_to_find(count: Any, records: Records) -> list[int]:
    """Return the numbers of segments to compare, ascending, or raise where one is not possible."""
    numbers = list(count) if isinstance(count, Iterable) and not isinstance(count, str) else [count]
    if not numbers:
        raise DataError(f"count is empty, {count!r}; give a number of segments, or several such as range(2, 9)")
    counts = sorted({check_whole_number("count", number, 1, _MOST_SEGMENTS) for number in numbers})
    n_people = records.total_weight if records.people is None else float(records.people.sum())
    if counts[-1] > n_people:
        raise DataError(
            f"{counts[-1]} segments are more than the {n_people:.0f} people who have an answer and a weight above 0"
        )
    return counts
