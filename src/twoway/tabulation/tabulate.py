"""From a model to tables of its questions by a banner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Bools, Floats
from twoway.checks.sampled_table import SampledRecords
from twoway.checks.significance import SIGNIFICANT, holm_corrected
from twoway.data.survey_design import Design
from twoway.errors import DataError, check_known, check_type
from twoway.model.events import Names
from twoway.model.intervals import Scale
from twoway.model.pmf import JointPMF, pmf_of
from twoway.model.records import records_for_model
from twoway.questions.answer import share_in_groups
from twoway.questions.conditions import condition_codes
from twoway.questions.language import groups_to_parse, parse_terms
from twoway.schema import Variable, first_duplicate
from twoway.tabulation.banner import BannerGroup, banner_heads, opened_banner
from twoway.tabulation.observed import ObservedColumns, ObservedSource
from twoway.tabulation.result import BannerColumn, BannerRow, BannerTable, Tabulation
from twoway.text import shortlist

if TYPE_CHECKING:
    from twoway.uncertainty.bootstrap import Bootstrap

# The level of intervals of what was observed, where no replicates have another.
LEVEL = 0.9


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
        raise DataError(f"{shortlist(both)} in both rows and columns; use a variable once")
    if not questions:
        raise DataError("every variable is in the columns; leave one for the rows")
    listed = _tabulated_nets(model, nets or {}, questions)
    if design is not None and records is None:
        raise DataError("a design needs records; give both")
    sampled = None if records is None else SampledRecords(records_for_model(schema, records), design)
    evidence = ObservedSource(model.counts, sampled, design is not None)
    level = boot.level if boot is not None else LEVEL if evidence.has_design else None
    # One question after the other, so that only one's observed columns are in memory.
    sheets = (_TabulatedQuestion.of(schema[name], listed.get(name, {}), groups, evidence) for name in questions)
    return Tabulation(tuple(sheet.table(model, boot, level or LEVEL) for sheet in sheets), level)


def _tabulated_names(rows: Names, known: Sequence[str]) -> list[str]:
    """Return the names of rows, each known and given once."""
    check_type("rows", rows, str | Iterable, "names of variables")
    names = [rows] if isinstance(rows, str) else list(rows)
    check_known("variable", known, *names, where=" in rows")
    if (duplicate := first_duplicate(names)) is not None:
        raise DataError(f"duplicate variable {duplicate!r} in rows")
    return names


def _tabulated_nets(pmf: JointPMF, nets: Mapping[str, str], asked: Sequence[str]) -> dict[str, dict[str, list[int]]]:
    """Return the codes of each net, by the name of its variable and its own."""
    listed: dict[str, dict[str, list[int]]] = {}
    check_type("nets", nets, Mapping, "conditions by the name of the row, such as {'Top 2': 'trust >= 4'}")
    for net, condition in nets.items():
        check_type(f"the net {net!r}", condition, str, "a condition as text, such as 'trust >= 4'")
        codes_of = condition_codes(pmf.schema, parse_terms(condition, pmf.schema, groups_to_parse(pmf)))
        (name, codes), *others = codes_of.items()
        if others:
            raise DataError(f"the net {net!r} is of {shortlist(codes_of)}; a net joins categories of one variable")
        if name not in asked:
            raise DataError(f"the net {net!r} is of {name!r}, which is not in the rows: {shortlist(asked)}")
        if net in map(str, pmf.schema[name].categories):
            raise DataError(f"the net {net!r} has the name of a category of {name!r}; give it another name")
        listed.setdefault(name, {})[net] = codes
    return listed


def _tabulated_means(variable: Variable) -> dict[str, Floats]:
    """Return the number that each category counts as in the mean, by the label of the row; empty without a mean.

    These are the values of numbers, and the places from 1 of ordered categories.
    """
    if variable.values is not None and len(variable) > 1:
        return {"Mean": np.array(variable.values)}
    if variable.values is None and variable.is_ordered and len(variable) > 2:
        return {f"Mean place, 1 to {len(variable)}": np.arange(1.0, len(variable) + 1.0)}
    return {}


@dataclass(frozen=True)
class _TabulatedQuestion:
    """A question and its rows as linear functions of the shares of its categories."""

    variable: Variable
    rows: tuple[BannerRow, ...]
    scores: Floats
    """(n_rows, n_categories): ones for the categories of a row, numbers for a mean."""
    parts: Sequence[ObservedColumns]
    """What was observed of it in each group of columns."""

    @classmethod
    def of(
        cls, variable: Variable, nets: Mapping[str, list[int]], groups: Sequence[BannerGroup], evidence: ObservedSource
    ) -> _TabulatedQuestion:
        """Return the rows of a question: categories, nets, and the mean."""
        means = _tabulated_means(variable)
        rows = [BannerRow(label, "category") for label in variable.categories]
        rows += [BannerRow(net, "net") for net in nets] + [BannerRow(label, "mean") for label in means]
        in_nets = [np.isin(np.arange(len(variable)), codes).astype(np.float64) for codes in nets.values()]
        scores = np.vstack([np.eye(len(variable)), *in_nets, *means.values()])
        return cls(variable, tuple(rows), scores, [evidence.of(variable, group) for group in groups])

    def table(self, pmf: JointPMF, boot: Bootstrap | None, level: float) -> BannerTable:
        """Return the table."""
        parts, heads = self.parts, banner_heads([part.group for part in self.parts])
        if not parts[0].sums.any():
            raise DataError(f"no record has a value of {self.variable.name!r}, so its table would have a base of zero")
        shares = ([part.shares(self.scores), *part.intervals(self.scores, level)] for part in parts)
        observed, observed_low, observed_high = np.concatenate(list(shares), axis=2)
        records, effective = np.concatenate([[part.records, part.effective] for part in parts], axis=1)
        (modelled, low, high), notes = self._modelled(pmf, boot)
        return BannerTable(
            name=self.variable.name,
            title=self.variable.label,
            rows=self.rows,
            columns=heads,
            observed=observed,
            observed_low=observed_low,
            observed_high=observed_high,
            modelled=modelled,
            low=low,
            high=high,
            higher_than=self._letters(observed, heads),
            records=records,
            effective=effective,
            tests=tuple(part.test for part in parts if part.test is not None),
            notes=tuple(dict.fromkeys([*notes, *self._notes(records, heads)])),
        )

    def _modelled(self, pmf: JointPMF, boot: Bootstrap | None) -> tuple[Floats, list[str]]:
        """Return modelled shares and means with the ends of their intervals, and notes on these.

        Shape (3, n_rows, n_columns); without replicates, the ends are NaN.
        """
        parts: list[Floats] = []
        notes: list[str] = []
        is_mean = np.array([row.kind == "mean" for row in self.rows])
        scales: dict[Scale, Bools] = {"probability": ~is_mean, "real": is_mean}
        for group in (part.group for part in self.parts):
            ends = np.full((3, len(self.rows), group.size), np.nan)
            ends[0] = self._shares(pmf, group, self.scores)
            for scale, is_row in scales.items():
                if boot is not None and is_row.any():
                    shares_of = partial(self._shares, group=group, scores=self.scores[is_row])
                    cells = self._cells(group, is_row) if scale == "probability" else ()
                    names = [self.variable.name, *group.names]
                    ends[:, is_row], note = boot.answer(shares_of, scale, names, cells=cells)
                    notes += [note] if note else []
            ends[1:, ~np.isfinite(ends[0])] = np.nan
            parts.append(ends)
        return np.concatenate(parts, axis=2), notes

    def _shares(self, pmf: JointPMF, group: BannerGroup, scores: Floats) -> Floats:
        joint = pmf.marginal([*group.codes, self.variable.name, *group.names[len(group.among) :]]).array
        joint = joint[tuple(group.codes.values())].reshape(len(self.variable), -1)
        return np.asarray(scores @ share_in_groups(joint, joint.sum(axis=0)))

    def _cells(self, group: BannerGroup, chosen: Bools) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the event and the evidence of each share."""
        labels = np.array(self.variable.categories, dtype=object)
        events = [{self.variable.name: labels[scores > 0].tolist()} for scores in self.scores[chosen]]
        inner = [{v.name: label} for v in group.variables for label in v.categories] or [{}]
        return [(event, group.given | given) for event in events for given in inner]

    def _letters(self, observed: Floats, heads: Sequence[BannerColumn]) -> NDArray[np.str_]:
        """Return for each cell the letters of the columns of the same group than which it is higher."""
        letters = np.full(observed.shape, "", dtype=object)
        places: list[list[int]] = []
        p_values: list[float] = []
        n_before = 0
        for part in self.parts:
            if part.has_totals:
                differences = part.differences(self.scores)
                comparisons = np.argwhere(np.triu(np.isfinite(differences), 1))
                p_values += differences[tuple(comparisons.T)].tolist()
                comparisons[:, 1:] += n_before
                places += comparisons.tolist()
            n_before += part.group.size
        for (row, first, second), p_value in zip(places, holm_corrected(p_values), strict=True):
            if p_value < SIGNIFICANT:
                high, low = (first, second) if observed[row, first] > observed[row, second] else (second, first)
                letters[row, high] += (" " if letters[row, high] else "") + heads[low].letter
        return letters.astype(str)

    def _notes(self, records: Floats, heads: Sequence[BannerColumn]) -> Iterator[str]:
        """Yield what a reader of the table should know."""
        if self.rows[-1].kind == "mean" and self.variable.values is None:
            first, *_, last = self.variable.categories
            yield f"the mean place counts {first!r} as 1, …, {last!r} as {len(self.variable)}"
        if empty := [f"{head.variable} = {head.label}" for head, n in zip(heads, records, strict=True) if n == 0]:
            yield f"no record with {shortlist(empty, 4)} has a value of {self.variable.name!r}: base of zero"
        if any(part.group.among and not part.is_known for part in self.parts):
            yield "nested columns show only modelled shares; observed shares in them need the records"
        for part in self.parts:
            if part.test is not None:
                yield from part.sparse_notes()
