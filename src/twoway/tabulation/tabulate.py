"""From a model to tables of its questions by a banner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, combinations
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.checks.chance import LEAST_EXPECTED, SIGNIFICANT, holm
from twoway.checks.column_tests import compare_columns, counted_table
from twoway.checks.sampled_table import DesignTest, SampledTable, sampled_table
from twoway.data.design import Design
from twoway.data.records import Records
from twoway.errors import DataError, check_known
from twoway.model.events import Names
from twoway.model.intervals import Intervals, Scale
from twoway.model.pmf import JointPMF, model_of
from twoway.model.posterior import records_for
from twoway.questions.answer import asked_evidence_codes, share_in_groups
from twoway.questions.language import parse_terms
from twoway.schema import Variable, first_duplicate
from twoway.tabulation.result import BannerColumn, BannerRow, BannerTable, RowKind, Tabulation
from twoway.text import shortlist

if TYPE_CHECKING:
    from twoway.uncertainty.bootstrap import Bootstrap

TOTAL = "Total"
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
        The variables of the banner, one beside the other. Each table begins with a column of all records.
    nets
        Categories taken together, as conditions by the name of the row: ``{"Top 2": "trust >= 4"}``,
        ``{"Democrat": "party in {Strong Democrat, Weak Democrat}"}``.
    records, design
        The records that the model was fitted to, and how they were drawn: strata, units, replicate weights. Letters and
        tests are then those of the design. By default each record was drawn by itself, with its weight.

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
    model = model_of(pmf)
    boot = None if isinstance(pmf, JointPMF) else pmf
    schema = model.schema
    banner = [schema[name] for name in _names("columns", columns, schema.names)]
    in_banner = [variable.name for variable in banner]
    default = [name for name in schema.names if name not in in_banner]
    questions = default if rows is None else _names("rows", rows, schema.names)
    if both := [name for name in questions if name in in_banner]:
        raise DataError(f"{shortlist(both)} in both rows and columns; name a variable once")
    if not questions:
        raise DataError("every variable is in the columns; leave one for the rows")
    labels = [(variable.name, label) for variable in banner for label in variable.categories]
    heads = [BannerColumn("", TOTAL, "")]
    heads += [BannerColumn(name, label, _letter(place)) for place, (name, label) in enumerate(labels)]
    listed = _listed_nets(model, nets or {}, questions)
    if (records is None) != (design is None):
        raise DataError("tests of a design need both records and design; one of them is not given")
    by_design = None if design is None else (records_for(schema, records), design)
    sheets = [_Sheet.of(schema[name], listed.get(name, {}), banner, by_design) for name in questions]
    tables = [sheet.table(model, boot, heads) for sheet in sheets]
    return Tabulation(tuple(tables), None if boot is None else boot.level)


def _names(what: str, given: Names, known: Sequence[str]) -> list[str]:
    """Return names, each known and given once."""
    names = [given] if isinstance(given, str) else list(given)
    check_known("variable", known, *names, where=f" in {what}")
    if (twice := first_duplicate(names)) is not None:
        raise DataError(f"{twice!r} is asked for twice in {what}; name a variable once")
    return names


def _letter(place: int) -> str:
    """Return the letter of a column: A to Z, then AA, AB, …

    Examples
    --------
    >>> [_letter(place) for place in (0, 25, 26, 701, 702)]
    ['A', 'Z', 'AA', 'ZZ', 'AAA']
    """
    letters = ""
    while place >= 0:
        place, last = divmod(place, 26)
        letters, place = ascii_uppercase[last] + letters, place - 1
    return letters


def _listed_nets(pmf: JointPMF, nets: Mapping[str, str], questions: Sequence[str]) -> dict[str, dict[str, list[int]]]:
    """Return the codes of each net, by the name of its variable and its own."""
    listed: dict[str, dict[str, list[int]]] = {}
    for net, condition in nets.items():
        codes_of = asked_evidence_codes(pmf.schema, parse_terms(condition, pmf.schema))
        (name, codes), *others = codes_of.items()
        if others:
            raise DataError(f"the net {net!r} is of {shortlist(codes_of)}; a net joins categories of one variable")
        if name not in questions:
            raise DataError(f"the net {net!r} is of {name!r}, which is not in the rows: {shortlist(questions)}")
        if net in map(str, pmf.schema[name].categories):
            raise DataError(f"the net {net!r} is called like a category of {name!r}; give it another name")
        listed.setdefault(name, {})[net] = codes
    return listed


def _mean_scores(variable: Variable) -> Floats | None:
    """Return the numbers of which a variable's mean is: its values, or the places of ordered categories from 1."""
    if variable.values is not None:
        return np.array(variable.values) if len(variable) > 1 else None
    return np.arange(1.0, len(variable) + 1.0) if variable.is_ordered and len(variable) > 2 else None


@dataclass(frozen=True)
class _Sheet:
    """A question and its rows as linear functions of the shares of its categories."""

    variable: Variable
    banner: Sequence[Variable]
    rows: tuple[BannerRow, ...]
    scores: Floats
    """(n_rows, n_categories): ones for the categories of a row, numbers for a mean."""
    by_design: tuple[Records, Design] | None

    @classmethod
    def of(
        cls,
        variable: Variable,
        nets: Mapping[str, list[int]],
        banner: Sequence[Variable],
        by_design: tuple[Records, Design] | None,
    ) -> _Sheet:
        """Return the rows of a question: categories, nets, and the mean."""
        rows = [BannerRow(label, "category") for label in variable.categories]
        rows += [BannerRow(net, "net") for net in nets]
        among = [np.isin(np.arange(len(variable)), codes).astype(np.float64) for codes in nets.values()]
        means = _mean_scores(variable)
        rows += [] if means is None else [BannerRow("Mean", "mean")]
        scores = np.vstack([np.eye(len(variable)), *among, *([] if means is None else [means])])
        return cls(variable, banner, tuple(rows), scores, by_design)

    def table(self, pmf: JointPMF, boot: Bootstrap | None, heads: Sequence[BannerColumn]) -> BannerTable:
        """Return the table."""
        parts = [self._sums(pmf, None), *(self._sums(pmf, variable) for variable in self.banner)]
        if parts[0] is not None and not parts[0].any():
            raise DataError(f"no record shows {self.variable.name!r}: its table would have a base of zero")
        sizes = [1, *map(len, self.banner)]
        observed, records, effective = (
            np.concatenate([own[place] for own in map(self._observed, parts, sizes)], axis=-1) for place in range(3)
        )
        if pmf.counts is not None and pmf.counts.lacks_totals:
            records, effective = np.full_like(records, np.nan), np.full_like(effective, np.nan)
        ends, notes = self._modelled(pmf, boot)
        notes += self._empty_notes(records, heads)
        known = [(variable, sums) for variable, sums in zip(self.banner, parts[1:], strict=True) if sums is not None]
        can_test = pmf.counts is not None and not pmf.counts.lacks_totals
        tests: list[DesignTest] = []
        letters = np.full(observed.shape, "", dtype=object)
        if can_test:
            tests = [self._tested(own, sums).independence for own, sums in known if sums[0].any()]
            self._mark(letters, parts, observed, heads)
            notes += [note for variable, sums in known for note in _sparse_notes(variable, sums)]
        return BannerTable(
            self.variable.name,
            self.variable.label,
            self.rows,
            tuple(heads),
            observed,
            ends.estimate,
            ends.low,
            ends.high,
            letters.astype(str),
            records,
            effective,
            tuple(tests),
            tuple(dict.fromkeys(notes)),
        )

    def _sums(self, pmf: JointPMF, column: Variable | None) -> Floats | None:
        """Return weights, records and squared weights, (3, n_categories, n_columns); None where they are not kept."""
        names = [self.variable.name] if column is None else [self.variable.name, column.name]
        sums = None if pmf.counts is None else pmf.counts.sums_of(names)
        return sums if sums is None else sums.reshape(3, len(self.variable), -1)

    def _observed(self, sums: Floats | None, size: int) -> tuple[Floats, Floats, Floats]:
        """Return observed shares and means, and the records and effective records of each column."""
        if sums is None:
            return np.full((len(self.rows), size), np.nan), np.full(size, np.nan), np.full(size, np.nan)
        weights, people, squares = sums.sum(axis=1)
        shares = share_in_groups(sums[0], weights)
        return self.scores @ shares, people, np.nan_to_num(share_in_groups(weights**2, squares))

    def _modelled(self, pmf: JointPMF, boot: Bootstrap | None) -> tuple[Intervals, list[str]]:
        """Return modelled shares and means, with intervals where there are replicates, and notes on these."""
        parts: list[Intervals] = []
        notes: list[str] = []
        for column in (None, *self.banner):
            if boot is None:
                estimate = self._shares(pmf, column, self.scores)
                parts.append(Intervals(estimate, *[np.full(estimate.shape, np.nan)] * 2))
                continue
            ends = np.full((3, len(self.rows), 1 if column is None else len(column)), np.nan)
            names = [self.variable.name] if column is None else [self.variable.name, column.name]
            for chosen, scale in _SCALES:
                own = np.array([row.kind in chosen for row in self.rows])
                if own.any():
                    shares_of = partial(self._shares, column=column, scores=self.scores[own])
                    cells = self._cells(column, own) if scale == "probability" else ()
                    ends[:, own], note = boot.answer(shares_of, scale, names, cells=cells)
                    notes += [note] if note else []
            ends[1:, ~np.isfinite(ends[0])] = np.nan
            parts.append(Intervals(*ends))
        return Intervals(*(np.concatenate(own, axis=1) for own in zip(*parts, strict=True))), notes

    def _shares(self, pmf: JointPMF, column: Variable | None, scores: Floats) -> Floats:
        if column is None:
            return np.asarray(scores @ pmf.marginal(self.variable.name).array[:, None])
        joint = pmf.marginal([self.variable.name, column.name]).array
        return np.asarray(scores @ share_in_groups(joint, joint.sum(axis=0)))

    def _cells(self, column: Variable | None, chosen: NDArray[np.bool_]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the event and the evidence of each share."""
        labels = np.array(self.variable.categories, dtype=object)
        events = [{self.variable.name: labels[scores > 0].tolist()} for scores in self.scores[chosen]]
        known: list[dict[str, Any]] = [{}] if column is None else [{column.name: label} for label in column.categories]
        return [(event, given) for event in events for given in known]

    def _mark(
        self,
        letters: NDArray[np.object_],
        parts: Sequence[Floats | None],
        observed: Floats,
        heads: Sequence[BannerColumn],
    ) -> None:
        """Add to each cell the letters of the columns of the same variable than which it is higher."""
        starts = [1, *accumulate((len(variable) for variable in self.banner), initial=1)][1:]
        places: list[tuple[int, int, int]] = []
        p_values: list[float] = []
        for start, variable, sums in zip(starts, self.banner, parts[1:], strict=False):
            if sums is None:
                continue
            found = compare_columns(sums, self.scores, self._tested(variable, sums) if self.by_design else None)
            for first, second in combinations(range(found.shape[1]), 2):
                for row in np.flatnonzero(np.isfinite(found[:, first, second])).tolist():
                    places.append((row, start + first, start + second))
                    p_values.append(float(found[row, first, second]))
        for (row, first, second), p_value in zip(places, holm(p_values), strict=True):
            if p_value < SIGNIFICANT:
                high, low = (first, second) if observed[row, first] > observed[row, second] else (second, first)
                letters[row, high] += (" " if letters[row, high] else "") + heads[low].letter

    def _tested(self, column: Variable, sums: Floats) -> SampledTable:
        """Return the table by a variable of the banner with what chance does to it."""
        if self.by_design is None:
            return counted_table((self.variable, column), sums)
        records, design = self.by_design
        return sampled_table(records, [self.variable.name, column.name], design=design)

    def _empty_notes(self, records: Floats, heads: Sequence[BannerColumn]) -> list[str]:
        empty = [f"{head.variable} = {head.label}" for head, n in zip(heads, records.tolist(), strict=True) if n == 0]
        return [f"no record shows {self.variable.name!r} among {shortlist(empty, 4)}: base of zero"] if empty else []


def _sparse_notes(variable: Variable, sums: Floats) -> Iterator[str]:
    """Yield a note where a test rests on too few records in many cells."""
    counts = sums[0] * (sums[1].sum() / max(sums[0].sum(), np.finfo(float).tiny))
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / max(counts.sum(), np.finfo(float).tiny)
    if (few := int(((expected > 0) & (expected < LEAST_EXPECTED)).sum())) > 0.2 * (expected > 0).sum():
        yield (
            f"fewer than {LEAST_EXPECTED:.0f} records are expected in {few} of {expected.size} cells by "
            f"{variable.name!r}: its test is rough"
        )
