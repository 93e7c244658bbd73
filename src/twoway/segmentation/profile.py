"""The profiles of segments: how common each category is in each of them and in all people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.category_labels import Label
from twoway.checks.significance import SIGNIFICANT, holm_corrected
from twoway.data.records import Records
from twoway.model.pmf import JointPMF
from twoway.questions.answer import share_in_groups


@dataclass(frozen=True)
class SegmentTrait:
    """How common a category is in a segment."""

    variable: str
    category: Label
    share: float
    """In the segment."""
    index: float
    """The share as a percentage of that in all people: 100 is average; NaN where nobody shows the category."""
    p_value: float
    """How probable so large a difference from all people is by chance, corrected for the number of shares."""


@dataclass(frozen=True)
class SegmentProfile:
    """How common each category is in each segment, and whether chance explains that it is not as common as in all."""

    pmf: JointPMF
    errors: Floats
    """Standard errors of share minus average, (n_categories, count)."""

    @property
    def shares(self) -> Floats:
        """(n_categories, count)."""
        return self.pmf.stacked

    @cached_property
    def average(self) -> Floats:
        """The share of each category among all people, (n_categories,)."""
        return self.pmf.stacked @ self.pmf.weights

    @cached_property
    def index(self) -> Floats:
        """The shares as percentages of the average, (n_categories, count); NaN where nobody shows a category."""
        return np.asarray(100.0 * share_in_groups(self.shares, self.average[:, None]))

    @cached_property
    def p_values(self) -> Floats:
        """(n_categories, count), corrected for their number (Holm)."""
        from scipy.stats import norm

        if self.pmf.rank == 1:
            return np.ones(self.shares.shape)
        differences = np.abs(self.shares - self.average[:, None])
        scores = np.divide(differences, self.errors, out=np.zeros_like(differences), where=self.errors > 0)
        return holm_corrected((2.0 * norm.sf(scores)).ravel().tolist()).reshape(differences.shape)

    @cached_property
    def marks(self) -> Ints:
        """(n_categories, count): 1 where a category is over-represented by more than chance, -1 under-, 0 neither."""
        signs = np.sign(self.shares - self.average[:, None])
        return np.where(self.p_values < SIGNIFICANT, signs, 0).astype(np.int64)

    @property
    def cells(self) -> list[tuple[str, Label]]:
        """The variable and the category of each row."""
        return [(variable.name, label) for variable in self.pmf.schema for label in variable.categories]

    def traits(self, segment: int) -> Iterator[SegmentTrait]:
        """Yield what a segment shows, in the order of variables and categories."""
        numbers = (array[:, segment].tolist() for array in (self.shares, self.index, self.p_values))
        for (name, label), *of_cell in zip(self.cells, *numbers, strict=True):
            yield SegmentTrait(name, label, *of_cell)

    def telling(self, segment: int, sign: int) -> list[SegmentTrait]:
        """Return what is over- (1) or under-represented (-1) in a segment by more than chance, most telling first."""
        gaps = sign * (self.shares[:, segment] - self.average)
        traits = list(self.traits(segment))
        chosen = np.flatnonzero(self.marks[:, segment] == sign)
        return [traits[cell] for cell in chosen[np.argsort(-gaps[chosen], kind="stable")]]


def profile_errors(pmf: JointPMF, records: Records) -> Floats:
    """Return the standard errors of sizes, and below them of share minus average, (1 + n_categories, count).

    They are those as if it were known who belongs where: no fit knows more.
    """
    n_records, schema = records.total_weight, records.schema
    observed = np.repeat(np.add.reduceat(records.cell_totals(), schema.offsets[:-1]), schema.sizes) / n_records
    average = (pmf.stacked @ pmf.weights)[:, None]
    members = np.maximum(n_records * observed[:, None] * pmf.weights, 1.0)
    # Of a rare category too, chance moves the count by about one.
    variances = np.maximum(average * (1.0 - average), 1.0 / members) / members
    of_sizes = np.sqrt(pmf.weights * (1.0 - pmf.weights) / n_records)
    return np.vstack([of_sizes, np.sqrt(variances * (1.0 - pmf.weights))])
