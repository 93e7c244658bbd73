"""What was observed of a question in the columns of a banner: by the counts that a model keeps, or by records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from twoway.arrays import Floats
from twoway.checks.sampled_table import DesignTest, SampledRecords, SampledTable, sampled_table_of_sums
from twoway.checks.significance import LEAST_EXPECTED, column_intervals, column_p_values
from twoway.errors import DataError
from twoway.model.counts import Counts
from twoway.questions.answer import share_in_groups
from twoway.schema import Variable

if TYPE_CHECKING:
    from twoway.tabulation.banner import BannerGroup


@dataclass(frozen=True)
class ObservedSource:
    """Where observed numbers come from."""

    counts: Counts | None
    records: SampledRecords | None
    """In place of the counts."""
    has_design: bool
    """Whether letters and intervals are those of the design of the records."""

    def of(self, question: Variable, group: BannerGroup) -> ObservedColumns:
        """Return what was observed of a question in some columns."""
        variables = [question, *group.variables]
        names, shape = [variable.name for variable in variables], (3, len(question), group.size)
        if self.records is not None:
            try:
                sampled = self.records.table(names, group.codes)
            except DataError:  # no record shows them together
                return ObservedColumns(group, np.zeros(shape), None, self.has_design, True)
            sums = np.stack([sampled.shares, sampled.records, sampled.squares]).reshape(shape)
            return ObservedColumns(group, sums, sampled, self.has_design, True)
        counted_sums = None if self.counts is None or group.among else self.counts.sums_of(names)
        if self.counts is None or counted_sums is None:
            return ObservedColumns(group, np.full(shape, np.nan), None, False, False)
        sums = counted_sums.reshape(shape)
        can_compare = group.variables and sums[0].any()
        counted = sampled_table_of_sums(variables, sums) if can_compare else None
        return ObservedColumns(group, sums, counted, False, not self.counts.lacks_totals)


@dataclass(frozen=True)
class ObservedColumns:
    """What was observed of a question in some columns."""

    group: BannerGroup
    sums: Floats
    """(3, n_categories, n_columns): of weights, of records, of squared weights; NaN where they are not known."""
    table: SampledTable | None
    """The same with what chance does to it; None where there is nothing to compare."""
    has_design: bool
    has_totals: bool
    """Whether records were counted: shares alone cannot be tested."""

    @property
    def is_known(self) -> bool:
        """Whether records, or counts of them, have these columns."""
        return not np.isnan(self.sums).any()

    @property
    def records(self) -> Floats:
        """The number of records in each column."""
        return self.sums[1].sum(axis=0) if self.has_totals else np.full(self.group.size, np.nan)

    @property
    def effective(self) -> Floats:
        """How many records without weights would tell as much."""
        if not self.has_totals:
            return self.records
        weights, _, squares = self.sums.sum(axis=1)
        return np.asarray(np.nan_to_num(share_in_groups(weights**2, squares)))

    def shares(self, scores: Floats) -> Floats:
        """Return shares or means, (n_scores, n_columns)."""
        return np.asarray(scores @ share_in_groups(self.sums[0], self.sums[0].sum(axis=0)))

    def intervals(self, scores: Floats, level: float) -> tuple[Floats, Floats]:
        """Return the ends of their intervals, by the design."""
        if self.table is None or not self.has_design:
            nothing = np.full((len(scores), self.group.size), np.nan)
            return nothing, nothing
        return column_intervals(scores, self.table, level)

    @property
    def test(self) -> DesignTest | None:
        """The test of whether the question depends on the columns."""
        if self.table is None or not self.has_totals or not self.group.variables:
            return None
        test = self.table.independence
        return replace(test, variables=(test.variables[0], self.group.title))

    def differences(self, scores: Floats) -> Floats:
        """Return the p-values of differences between columns, (n_scores, n_columns, n_columns)."""
        return column_p_values(self.sums, scores, self.table if self.has_design else None)

    def sparse_notes(self) -> Iterator[str]:
        """Yield a note where a test rests on too few records in many cells."""
        sums = self.sums
        counts = sums[0] * (sums[1].sum() / max(sums[0].sum(), np.finfo(float).tiny))
        expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / max(counts.sum(), np.finfo(float).tiny)
        if (few := int(((expected > 0) & (expected < LEAST_EXPECTED)).sum())) > 0.2 * (expected > 0).sum():
            yield (
                f"fewer than {LEAST_EXPECTED:.0f} records are expected in {few} of {expected.size} cells by "
                f"{self.group.title!r}: its test is only approximate"
            )
