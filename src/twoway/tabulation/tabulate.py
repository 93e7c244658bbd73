"""From a model to tables of its questions by a banner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.checks.sampled_table import SampledRecords
from twoway.checks.significance import SIGNIFICANT, holm_corrected
from twoway.data.survey_design import Design
from twoway.errors import DataError, check_known
from twoway.model.events import Names
from twoway.model.intervals import Intervals, Scale
from twoway.model.pmf import JointPMF, pmf_of
from twoway.model.records import records_for_model
from twoway.questions.answer import share_in_groups
from twoway.questions.conditions import condition_codes
from twoway.questions.language import groups_to_parse, parse_terms
from twoway.schema import Variable, first_duplicate
from twoway.tabulation.banner import BannerGroup, banner_heads, opened_banner
from twoway.tabulation.observed import ObservedColumns, ObservedSource
from twoway.tabulation.result import BannerColumn, BannerRow, BannerTable, RowKind, Tabulation
from twoway.text import shortlist

if TYPE_CHECKING:
    from twoway.uncertainty.bootstrap import Bootstrap

# The level of intervals of what was observed, where no replicates have another.
LEVEL = 0.9
# The scales on which rows of some kinds vary.
_SCALES: tuple[tuple[tuple[RowKind, ...], Scale], ...] = ((("category", "net"), "probability"), (("mean",), "real"))


def tabulate(
    pmf: JointPMF | Bootstrap,
    rows: Names | None = None,
    columns: Names = (),
    *,
    nets: Mapping[str, str] | None = None,
    records: Any = None,
    design: Design | None = None,
) -> Tabulation:
    """Return a table for each question, with a column for each category of some other variables, the banner.

    Each table has observed and modelled shares, the number of records in each column, and letters for differences
    between columns that are more than chance. A `Bootstrap` of the model adds intervals.

    Parameters
    ----------
    pmf
        The model, or a `Bootstrap` of it. Observed shares and letters need the counts that a model keeps.
    rows
        The questions; by default all variables that are not in the banner.
    columns
        The variables of the banner, one beside the other; ``"age > gender"`` has a column for each gender within each
        age. Each table begins with a column of all records.
    nets
        Categories taken together, as conditions by the name of the row: ``{"Top 2": "trust >= 4"}``,
        ``{"Democrat": "party in {Strong Democrat, Weak Democrat}"}``.
    records
        The records that the model was fitted to, of which observed shares are then taken. Columns within columns need
        them: a model keeps counts of pairs.
    design
        How these records were drawn: strata, units, replicate weights. Letters and tests are then those of the design,
        and observed shares have intervals. By default each record was drawn by itself, with its weight.

    Examples
    --------
    >>> from twoway.fitting.fit import fit
    >>> survey = {"age": ["18-39", "40+"] * 40, "vote": ["no", "yes", "no", "yes", "no", "yes", "yes", "no"] * 10}
    >>> tables = tabulate(fit(survey, rank=2, smoothing=0), rows="vote", columns="age")
    >>> print(str(tables).partition("\\n\\n")[0])
    vote
                Total  age
                       18-39    40+
                       A        B
    Base        80     40       40
    no          50.0%  75.0% B  25.0%
      modelled  50.0%  75.0%    25.0%
    yes         50.0%  25.0%    75.0% A
      modelled  50.0%  25.0%    75.0%
    vote × age: F 19.75 on 1 and 79 degrees of freedom, p = 2.84e-05
    """
    model = pmf_of(pmf)
    boot = None if isinstance(pmf, JointPMF) else pmf
    schema = model.schema
    groups = opened_banner(schema, columns)
    in_banner = {name for group in groups for name in group.names}
    default = [name for name in schema.names if name not in in_banner]
    questions = default if rows is None else _tabulated_names(rows, schema.names)
    if both := [name for name in questions if name in in_banner]:
        raise DataError(f"{shortlist(both)} in both rows and columns; name a variable once")
    if not questions:
        raise DataError("every variable is in the columns; leave one for the rows")
    listed = _tabulated_nets(model, nets or {}, questions)
    evidence = _tabulated_evidence(model, records, design)
    level = boot.level if boot is not None else LEVEL if evidence.has_design else None
    sheets = [_TabulatedQuestion.of(schema[name], listed.get(name, {}), groups, evidence) for name in questions]
    return Tabulation(tuple(sheet.table(model, boot, level or LEVEL) for sheet in sheets), level)


def _tabulated_names(given: Names, known: Sequence[str]) -> list[str]:
    """Return the names of rows, each known and given once."""
    names = [given] if isinstance(given, str) else list(given)
    check_known("variable", known, *names, where=" in rows")
    if (twice := first_duplicate(names)) is not None:
        raise DataError(f"{twice!r} is asked for twice in rows; name a variable once")
    return names


def _tabulated_evidence(model: JointPMF, records: Any, design: Design | None) -> ObservedSource:
    """Return what observed numbers are taken from."""
    if records is None:
        if design is not None:
            raise DataError("a design is that of records: give records, too")
        return ObservedSource(model.counts)
    return ObservedSource(None, SampledRecords(records_for_model(model.schema, records), design), design is not None)


def _tabulated_nets(pmf: JointPMF, nets: Mapping[str, str], asked: Sequence[str]) -> dict[str, dict[str, list[int]]]:
    """Return the codes of each net, by the name of its variable and its own."""
    listed: dict[str, dict[str, list[int]]] = {}
    for net, condition in nets.items():
        codes_of = condition_codes(pmf.schema, parse_terms(condition, pmf.schema, groups_to_parse(pmf)))
        (name, codes), *others = codes_of.items()
        if others:
            raise DataError(f"the net {net!r} is of {shortlist(codes_of)}; a net joins categories of one variable")
        if name not in asked:
            raise DataError(f"the net {net!r} is of {name!r}, which is not in the rows: {shortlist(asked)}")
        if net in map(str, pmf.schema[name].categories):
            raise DataError(f"the net {net!r} is called like a category of {name!r}; give it another name")
        listed.setdefault(name, {})[net] = codes
    return listed


def _tabulated_scores(variable: Variable) -> Floats | None:
    """Return the numbers of which a variable's mean is: its values, or the places of ordered categories from 1."""
    if variable.values is not None:
        return np.array(variable.values) if len(variable) > 1 else None
    return np.arange(1.0, len(variable) + 1.0) if variable.is_ordered and len(variable) > 2 else None


@dataclass(frozen=True)
class _TabulatedQuestion:
    """A question and its rows as linear functions of the shares of its categories."""

    variable: Variable
    rows: tuple[BannerRow, ...]
    scores: Floats
    """(n_rows, n_categories): ones for the categories of a row, numbers for a mean."""
    groups: Sequence[BannerGroup]
    evidence: ObservedSource

    @classmethod
    def of(
        cls, variable: Variable, nets: Mapping[str, list[int]], groups: Sequence[BannerGroup], evidence: ObservedSource
    ) -> _TabulatedQuestion:
        """Return the rows of a question: categories, nets, and the mean."""
        rows = [BannerRow(label, "category") for label in variable.categories]
        rows += [BannerRow(net, "net") for net in nets]
        among = [np.isin(np.arange(len(variable)), codes).astype(np.float64) for codes in nets.values()]
        means = _tabulated_scores(variable)
        rows += [] if means is None else [BannerRow("Mean", "mean")]
        scores = np.vstack([np.eye(len(variable)), *among, *([] if means is None else [means])])
        return cls(variable, tuple(rows), scores, groups, evidence)

    def table(self, pmf: JointPMF, boot: Bootstrap | None, level: float) -> BannerTable:
        """Return the table."""
        heads = banner_heads(self.groups)
        parts = [self.evidence.of(self.variable, group) for group in self.groups]
        seen = [part for part in parts if part is not None]
        if parts[0] is not None and not parts[0].sums.any():
            raise DataError(f"no record shows {self.variable.name!r}: its table would have a base of zero")
        observed, bases = np.full((3, len(self.rows), len(heads)), np.nan), np.full((2, len(heads)), np.nan)
        for part, own in zip(parts, self._places, strict=True):
            if part is not None:
                observed[:, :, own] = part.shares(self.scores), *part.intervals(self.scores, level)
                bases[:, own] = part.records, part.effective
        modelled, notes = self._modelled(pmf, boot)
        notes += self._empty_notes(bases[0], heads)
        if any(group.among for group, part in zip(self.groups, parts, strict=True) if part is None):
            notes.append(
                "columns within others show only what is modelled: what was observed in them needs the records"
            )
        notes += [note for part in seen if part.test is not None for note in part.sparse_notes()]
        tests = tuple(part.test for part in seen if part.test is not None)
        letters, said = self._letters(parts, observed[0], heads), tuple(dict.fromkeys(notes))
        shares = (observed[0], observed[1], observed[2], *modelled)
        behind = (bases[0], bases[1], tests, said)
        return BannerTable(self.variable.name, self.variable.label, self.rows, heads, *shares, letters, *behind)

    @property
    def _places(self) -> list[slice]:
        """The columns of each group."""
        ends = list(accumulate(group.size for group in self.groups))
        return [slice(end - group.size, end) for end, group in zip(ends, self.groups, strict=True)]

    def _modelled(self, pmf: JointPMF, boot: Bootstrap | None) -> tuple[Intervals, list[str]]:
        """Return modelled shares and means, with intervals where there are replicates, and notes on these."""
        parts: list[Intervals] = []
        notes: list[str] = []
        for group in self.groups:
            if boot is None:
                estimate = self._shares(pmf, group, self.scores)
                parts.append(Intervals(estimate, *[np.full(estimate.shape, np.nan)] * 2))
                continue
            ends = np.full((3, len(self.rows), group.size), np.nan)
            for chosen, scale in _SCALES:
                own = np.array([row.kind in chosen for row in self.rows])
                if own.any():
                    shares_of = partial(self._shares, group=group, scores=self.scores[own])
                    cells = self._cells(group, own) if scale == "probability" else ()
                    ends[:, own], note = boot.answer(shares_of, scale, [self.variable.name, *group.names], cells=cells)
                    notes += [note] if note else []
            ends[1:, ~np.isfinite(ends[0])] = np.nan
            parts.append(Intervals(*ends))
        return Intervals(*(np.concatenate(own, axis=1) for own in zip(*parts, strict=True))), notes

    def _shares(self, pmf: JointPMF, group: BannerGroup, scores: Floats) -> Floats:
        joint = pmf.marginal([*group.codes, self.variable.name, *group.names[len(group.among) :]]).array
        joint = joint[tuple(group.codes.values())].reshape(len(self.variable), -1)
        return np.asarray(scores @ share_in_groups(joint, joint.sum(axis=0)))

    def _cells(self, group: BannerGroup, chosen: NDArray[np.bool_]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the event and the evidence of each share."""
        labels = np.array(self.variable.categories, dtype=object)
        events = [{self.variable.name: labels[scores > 0].tolist()} for scores in self.scores[chosen]]
        own = group.variable
        inner = [{}] if own is None else [{own.name: label} for label in own.categories]
        return [(event, {**group.given, **given}) for event in events for given in inner]

    def _letters(
        self, parts: Sequence[ObservedColumns | None], observed: Floats, heads: Sequence[BannerColumn]
    ) -> NDArray[np.str_]:
        """Return for each cell the letters of the columns of the same group than which it is higher."""
        letters = np.full(observed.shape, "", dtype=object)
        places: list[tuple[int, int, int]] = []
        p_values: list[float] = []
        for part, own in zip(parts, self._places, strict=True):
            if part is None or not part.has_totals:
                continue
            found = part.differences(self.scores)
            for first, second in combinations(range(found.shape[1]), 2):
                for row in np.flatnonzero(np.isfinite(found[:, first, second])).tolist():
                    places.append((row, own.start + first, own.start + second))
                    p_values.append(float(found[row, first, second]))
        for (row, first, second), p_value in zip(places, holm_corrected(p_values), strict=True):
            if p_value < SIGNIFICANT:
                high, low = (first, second) if observed[row, first] > observed[row, second] else (second, first)
                letters[row, high] += (" " if letters[row, high] else "") + heads[low].letter
        return letters.astype(str)

    def _empty_notes(self, records: Floats, heads: Sequence[BannerColumn]) -> list[str]:
        empty = [f"{head.variable} = {head.label}" for head, n in zip(heads, records.tolist(), strict=True) if n == 0]
        return [f"no record shows {self.variable.name!r} among {shortlist(empty, 4)}: base of zero"] if empty else []
