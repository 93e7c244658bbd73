"""What was observed, beside what a model answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from twoway.arrays import Floats
from twoway.checks.significance import SIGNIFICANT, holm_corrected, standardized_residuals
from twoway.data.weights import effective_weights
from twoway.model.pmf import JointPMF, pmf_of
from twoway.notebook import Shown
from twoway.questions.answer import contrast_answer, contrast_answer_sides, question_to_answer, share_in_groups
from twoway.questions.conditions import condition_codes
from twoway.questions.question import Contrast, Question
from twoway.text import aligned_text

if TYPE_CHECKING:
    from twoway.tables.published.tables import PublishedTables
    from twoway.uncertainty.bootstrap import Bootstrap

# Below this, no χ² has a p-value below `SIGNIFICANT`.
_LEAST_CHI_SQUARE = 3.84


@dataclass(frozen=True, eq=False, repr=False)
class Observed(Shown):
    """The observed share for each probability that answers a question, or mean, and the records behind it."""

    shares: Floats
    """As many numbers as the answer has; NaN if no record meets the condition. For an expected value, means."""
    records: Floats
    """The number of records that show the variables and meet the condition; NaN if published tables do not say. For a
    difference or ratio, those of the first side."""
    effective: Floats = None  # type: ignore[assignment]  # set in __post_init__
    """How many records without weights would tell as much, (Σw)² / Σw²; ``records`` where these have no weights."""
    other_records: Floats | None = None
    """Of a difference or ratio, the records of the second side."""
    other_effective: Floats | None = None
    """Their effective number."""
    variances: Floats | None = None
    """For an expected value, the variance of the values of the records."""

    def __str__(self) -> str:
        columns = {name.replace("_", " "): np.ravel(numbers) for name, numbers in self.columns.items()}
        cells = zip(*columns.values(), strict=True)
        rows = [[f"{share:.4f}", *(f"{number:,.6g}" for number in numbers)] for share, *numbers in cells]
        return aligned_text([list(columns), *rows])

    def __post_init__(self) -> None:
        vars(self).update(effective=self.records if self.effective is None else self.effective)

    @property
    def columns(self) -> dict[str, Floats]:
        """What is known, as columns beside the answer: observed shares, records, and what these count as."""
        columns: dict[str, Floats | None] = {"observed": self.shares}
        if not np.isnan(self.records).any():
            columns |= {"records": self.records, "other_records": self.other_records}
            if not np.array_equal(self.effective, self.records):
                columns |= {"effective_records": self.effective, "other_effective_records": self.other_effective}
        return {name: numbers for name, numbers in columns.items() if numbers is not None}

    def most_unlike(self, modelled: ArrayLike) -> int | None:
        """Return the place of the number that differs most from the model's; None where chance explains all of them.

        Differences count in standard errors, as in `fit_quality`, and allow for how many there are.
        """
        off = self.residuals(modelled)
        p_values = [math.erfc(abs(z) / math.sqrt(2.0)) for z in off.ravel().tolist()]
        worst = int(np.abs(off).argmax())
        return worst if holm_corrected(p_values)[worst] < SIGNIFICANT else None

    def residuals(self, modelled: ArrayLike) -> Floats:
        """Return how far the shares or means are from a model's, in standard errors; 0 where they are not known."""
        known = np.isfinite(self.shares) & (self.effective > 0) & np.isfinite(modelled)
        n_records = np.where(known, self.effective, 1.0)
        residuals = standardized_residuals(self.shares, np.asarray(modelled), n_records, self.variances)
        return np.where(known, residuals, 0.0)


def is_observed_table_off(pmf: JointPMF, names: Sequence[str]) -> bool:
    """Return whether the table of two variables is one of those that the check of the fit calls off."""
    names = sorted(names, key=pmf.schema.index)
    counts = None if pmf.counts is None else pmf.counts.of(names)
    check = None if pmf.report is None else pmf.report.check
    is_all_fitted = check is not None and check.n_off == 0 and check.n_compared == check.n_tables
    if pmf.counts is None or counts is None or not counts.any() or is_all_fitted:
        return False
    n_records, modelled = counts.sum(), np.maximum(pmf.marginal(names), 1e-300)
    # χ² of merged cells is less. Tables are not imported for nothing: that takes longer than an answer.
    if n_records * (np.square(counts / n_records - modelled) / modelled).sum() < _LEAST_CHI_SQUARE:
        return False
    from twoway.checks.fit_quality import fit_quality
    from twoway.tables.tables import Tables

    pair = Tables(pmf.schema, np.array([pmf.schema.indices(names)]), counts.ravel(), np.array([n_records]))
    # Holm calls the least p-values off: those below the level over the number of the others.
    n_others = len(pmf.counts.sets) if check is None else check.n_compared - check.n_off
    return fit_quality(pmf, pair).pairs[0].p_value < SIGNIFICANT / max(n_others, 1)


def observed(pmf: JointPMF | Bootstrap, question: str | Question | Contrast) -> Observed | None:
    """Return what was observed of a question for P or E; None where the model keeps no counts for it.

    Counts are of one or two variables, so the question may name no more, nor may a side of a difference or ratio.
    Records with a missing cell there are left out.

    Examples
    --------
    >>> from twoway.fitting.fit import fit
    >>> pmf = fit({"age": ["young", "old", "old", None], "vote": ["no", "yes", "no", "yes"]}, rank=1)
    >>> seen = observed(pmf, "P(vote = yes | age)")
    >>> seen.shares, seen.records
    (array([0.5, 0. ]), array([2., 1.]))
    """
    pmf = pmf_of(pmf)
    asked = question_to_answer(pmf, question)
    if isinstance(asked, Contrast):
        sides = [side for side in (observed(pmf, side) for side in asked.sides) if side is not None]
        if len(sides) < 2:
            return None
        shares = contrast_answer(asked, sides[0].shares, sides[1].shares)
        records, other_records = contrast_answer_sides(asked, *(side.records for side in sides))
        effective, other_effective = contrast_answer_sides(asked, *(side.effective for side in sides))
        return Observed(shares, records, effective, other_records, other_effective)
    is_mean, values = asked.kind == "E", pmf.schema[asked.targets[0].name].values
    # An axis for each variable: groups, targets without a value, and those to be summed out.
    names = list(dict.fromkeys([*asked.axes, *asked.names]))
    is_counted = len(names) <= 2 and (asked.kind == "P" or (is_mean and values is not None))
    if pmf.counts is None or not is_counted:
        return None
    sums, lacks_totals = pmf.counts.sums_of(names), pmf.counts.lacks_totals
    if (sums is None or not sums.any()) and pmf.counts.published is not None and asked.kind == "P":
        sums, lacks_totals = _observed_in_groups(pmf.counts.published, asked, names)
    if sums is None or not sums.any():
        return None
    among = _observed_among(sums, names, condition_codes(pmf.schema, asked.given))
    hits = _observed_among(among[0], names, condition_codes(pmf.schema, asked.targets))
    numbers, low = np.ones(1), 0.0
    if is_mean:  # values from the lowest: squares of large ones would hide how they differ
        low = min(values or ())
        numbers = np.reshape(values or (), [-1 if name == asked.targets[0].name else 1 for name in names]) - low
    summed = tuple(range(len(asked.axes), hits.ndim))
    squared_hits, hits = ((hits * factor).sum(axis=summed) for factor in (np.square(numbers), numbers))
    bases = among.sum(axis=tuple(range(1 + len(asked.groups), among.ndim)))
    bases = bases.reshape(bases.shape + (1,) * (1 + hits.ndim - bases.ndim))
    counts, records, squares = np.broadcast_to(bases, (3, *hits.shape))
    shares, variances = share_in_groups(hits, counts), None
    if lacks_totals:
        return Observed(low + shares, *np.full((2, *hits.shape), np.nan))
    effective = effective_weights(counts, squares)
    if is_mean:  # a record with a rare value, too, moves the mean
        of_one_record = np.square(np.ptp(numbers) or 1.0) / np.maximum(effective, 1.0)
        variances = np.maximum(share_in_groups(squared_hits, counts) - np.square(shares), of_one_record)
    return Observed(low + shares, records, effective, variances=variances)


def _observed_in_groups(
    published: PublishedTables, question: Question, names: Sequence[str]
) -> tuple[Floats | None, bool]:
    """Return sums as `Counts.sums_of` does, from a table with a label for several categories, such as "25-64".

    A condition must allow all or none of the categories of each label, which are counted at the first of them. The
    second result is whether the number of people is unknown. Without such a table, the sums are None.
    """
    from twoway.data.flat_counts import NO_TOTAL

    conditions = [condition_codes(published.schema, terms) for terms in (question.given, question.targets)]
    tables = sorted(published.holding(names), key=lambda table: -table.weight)
    for table in tables:
        margin, places = table.margin(names), []
        for axis, name in enumerate(names):
            labels = published.axis_codes(margin, axis)
            limits = [allowed[name] for allowed in conditions if name in allowed]
            is_whole = all(len({code in limit for code in codes}) == 1 for codes in labels for limit in limits)
            if not is_whole or (name in question.axes and max(map(len, labels)) > 1):
                break
            places.append([codes[0] for codes in labels])
        else:
            sums = np.zeros([len(published.schema[name]) for name in names])
            sums[np.ix_(*places)] = margin.shares * table.weight
            return np.stack([sums] * 3), any(NO_TOTAL in note for note in table.notes)
    return None, False


def _observed_among(counts: Floats, names: Sequence[str], allowed: Mapping[str, Sequence[int]]) -> Floats:
    """Return the counts of allowed categories, and 0 elsewhere."""
    for axis, name in enumerate(names):
        if name in allowed:
            is_allowed = np.isin(np.arange(counts.shape[axis - len(names)]), allowed[name])
            counts = np.where(is_allowed if axis == len(names) - 1 else is_allowed[:, None], counts, 0.0)
    return counts
