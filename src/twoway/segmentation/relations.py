"""How segments relate to other variables: covariates that explain them, outcomes that differ between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from twoway.arrays import Bools, Floats
from twoway.category_labels import Label
from twoway.data.frames import frame_columns, frame_in_memory, frame_number_kind
from twoway.data.records import Records
from twoway.data.weights import check_weights, weights_as_floats
from twoway.errors import DataError, check_known, check_whole_number
from twoway.model.pmf import JointPMF
from twoway.model.records import records_for_model
from twoway.notebook import Shown
from twoway.parallel import map_in_order
from twoway.segmentation.quality import matched_segments, segment_memberships
from twoway.segmentation.search import Search
from twoway.segmentation.three_step import (
    Assignment,
    Correction,
    three_step_logit,
    three_step_means,
    three_step_shares,
)
from twoway.solvers.watch import Watch
from twoway.text import aligned_text, printable

LEAST_REPLICATES = 50
# A standardized slope beyond this is one that grew until the ridge stopped it.
_SEPARATES = 8.0
_MOST_UNUSABLE = 0.1


@dataclass(frozen=True)
class WaldTest:
    """Whether some numbers are all 0, as far as chance can tell."""

    name: str
    statistic: float
    df: int
    p_value: float

    @classmethod
    def of(cls, name: str, estimates: Floats, replicates: Floats) -> WaldTest:
        """Return the test of estimates (d,) by their replicates (n, d), of which the covariance is an estimate too."""
        from scipy.stats import f

        spread = np.atleast_2d(np.cov(replicates, rowvar=False))
        scale = np.sqrt(np.maximum(spread.diagonal(), 0.0))
        used = np.flatnonzero(scale > 1e-12 * max(float(scale.max(initial=0.0)), 1e-300))
        if not len(used):  # nothing varies: what differs at all does so for sure
            return cls(name, 0.0, 0, float(not estimates.any()))
        scaled = spread[np.ix_(used, used)] / np.outer(scale[used], scale[used])
        values, vectors = np.linalg.eigh(scaled)
        kept = values > 1e-8 * values.max()
        scores = (estimates[used] / scale[used]) @ vectors[:, kept]
        statistic, df = float((scores**2 / values[kept]).sum()), int(kept.sum())
        # Hotelling's: the fewer replicates, the less is known of the covariance.
        left = max(len(replicates) - df, 1)
        p_value = float(f.sf(statistic * left / ((len(replicates) - 1) * df), df, left))
        return cls(name, statistic, df, p_value)


@dataclass(frozen=True, repr=False)
class SegmentCovariates(Shown):
    """A multinomial logit of the segment on covariates."""

    reference: str
    """The segment that the others are compared with."""
    segments: tuple[str, ...]
    """The other segments."""
    terms: tuple[str, ...]
    """The intercept, then the covariates: a number, or a category compared with the first one."""
    coefficients: Floats
    """(n_segments - 1, n_terms): differences of log odds."""
    errors: Floats
    """Their standard errors, in the same shape."""
    tests: tuple[WaldTest, ...]
    """For each covariate, whether it matters at all."""
    n_people: int
    warnings: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """Return the coefficients as rows of named columns."""
        from scipy.stats import norm

        rows: list[dict[str, Any]] = []
        for place, segment in enumerate(self.segments):
            for term, value, error in zip(self.terms, self.coefficients[place], self.errors[place], strict=True):
                p_value = float(2.0 * norm.sf(abs(value) / error)) if error > 0 else float("nan")
                with np.errstate(over="ignore"):
                    odds = float(np.exp(value))
                row = {"segment": segment, "against": self.reference, "term": term, "coefficient": float(value)}
                rows.append({**row, "standard_error": float(error), "odds_ratio": odds, "p_value": p_value})
        return rows

    def __str__(self) -> str:
        head = ["segment", "term", "coefficient", "standard error", "odds ratio", "p"]
        table = [head]
        for row in self.rows():
            numbers = [f"{row['coefficient']:.3f}", f"{row['standard_error']:.3f}", f"{row['odds_ratio']:.3g}"]
            table.append([printable(row["segment"]), printable(row["term"]), *numbers, f"{row['p_value']:.3f}"])
        title = f"against {printable(self.reference, None)}, {self.n_people:,} people"
        notes = [f"note: {warning}" for warning in self.warnings]
        return "\n".join([title, aligned_text(table), "", _relation_tests(self.tests), *notes])


@dataclass(frozen=True, repr=False)
class SegmentOutcome(Shown):
    """The mean of a number in each segment, or the shares of categories."""

    name: str
    segments: tuple[str, ...]
    categories: tuple[Label, ...]
    """Empty where it is a number."""
    estimates: Floats
    """(n_segments, 1) of means, or (n_segments, n_categories) of shares."""
    errors: Floats
    """Their standard errors, in the same shape."""
    test: WaldTest
    """Whether segments differ at all."""
    n_people: int
    warnings: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """Return the estimates as rows of named columns."""
        labels = [str(label) for label in self.categories] or ["mean"]
        return [
            {"outcome": self.name, "category": label, "segment": segment}
            | {"estimate": float(self.estimates[place, column]), "standard_error": float(self.errors[place, column])}
            for column, label in enumerate(labels)
            for place, segment in enumerate(self.segments)
        ]

    def __str__(self) -> str:
        labels = [printable(label) for label in self.categories] or ["mean"]
        form = "{:.1%} ± {:.1%}" if self.categories else "{:.4g} ± {:.2g}"
        table = [[printable(self.name), *map(printable, self.segments)]]
        for column, label in enumerate(labels):
            pairs = zip(self.estimates[:, column], self.errors[:, column], strict=True)
            table.append([label, *(form.format(value, error) for value, error in pairs)])
        notes = [f"note: {warning}" for warning in self.warnings]
        return "\n".join([f"{aligned_text(table)}\n{_relation_tests([self.test])}, {self.n_people:,} people", *notes])


def _relation_tests(tests: Sequence[WaldTest]) -> str:
    return "\n".join(
        f"Wald test of {printable(test.name, None)}: {test.statistic:.2f}, df {test.df}, p = {test.p_value:.3g}"
        for test in tests
    )


@dataclass(frozen=True)
class Relation:
    """How segments are related to other variables."""

    correction: Correction
    replicates: int
    seed: int
    threads: int | None
    watch: Watch

    def __post_init__(self) -> None:
        check_known("correction", get_args(Correction), self.correction)
        check_whole_number("replicates", self.replicates, LEAST_REPLICATES)
        check_whole_number("seed", self.seed, 0)


class People:
    """Those whose segments are related to other variables: their answers, weights and other columns."""

    def __init__(self, pmf: JointPMF, names: tuple[str, ...], frame: Any, others: Sequence[str], weights: Any) -> None:
        import narwhals as nw

        self.pmf, self.names = pmf, names
        self.frame = frame_in_memory(frame)
        self._native = nw.from_native(self.frame, eager_only=True)
        self._columns = frame_columns(self.frame, pmf.schema.names)
        others = [others] if isinstance(others, str) else list(others)
        if not others:
            raise DataError("no columns to relate segments to; name at least one")
        check_known("column", self._columns, *others)
        for place, name in enumerate(others):
            if name in others[:place]:
                raise DataError(f"duplicate column name {name!r}")
            if name in pmf.schema:
                raise DataError(
                    f"{name!r} is one of the variables that the segments were found by, so it cannot be related to "
                    "them; find segments without it, or see the profile"
                )
        self.columns = {name: self._column(name) for name in others}
        self.weights = self._weights(weights)
        self._records = records_for_model(pmf.schema, self.frame)
        self._memberships = segment_memberships(self._records, pmf)
        self.assigned = Assignment.of(self._memberships, self.weights)
        if (segment := self.assigned.unusable()) is not None:
            raise DataError(
                f"too few people are assigned to {names[segment]!r} to relate it to other variables; use fewer segments"
            )

    def _column(self, name: str) -> tuple[Floats, tuple[Label, ...]]:
        """Return a column as numbers with NaN where missing, or as codes and categories."""
        records = Records({name: self._native[name].to_native()})
        (variable,) = records.schema
        codes = records.codes()[:, 0].astype(np.float64)
        if len(variable) < 2:
            raise DataError(f"column {name!r} has only one value, {variable.categories[0]!r}: it cannot differ")
        codes[codes < 0] = np.nan
        if frame_number_kind(self.frame, name) is None or variable.values is None:
            return codes, variable.categories
        numbers = np.append(np.array(variable.values, dtype=np.float64), np.nan)
        return numbers[np.where(np.isnan(codes), len(numbers) - 1, codes).astype(np.int64)], ()

    def _weights(self, weights: Any) -> Floats:
        if weights is None:
            return np.ones(len(self._native))
        if isinstance(weights, str):
            check_known("column", self._columns, weights, where=" for the weights")
            weights = self._native[weights].to_numpy()
        array = weights_as_floats(weights, "weights", len(self._native))
        check_weights(array)
        if not array.any():
            raise DataError("the weights are all zero; at least one must be positive")
        return np.asarray(array / array.mean())

    def known(self, *names: str) -> Bools:
        """Return who has a weight and shows all of some columns, (n,)."""
        known = self.weights > 0
        for name in names:
            known &= ~np.isnan(self.columns[name][0])
        if not known.any():
            raise DataError(f"nobody has a weight and a value of {', '.join(map(repr, names))}")
        return known

    def replicates(
        self, estimate: Callable[[Assignment], Floats], known: Bools, relation: Relation
    ) -> tuple[Floats, Floats, list[str]]:
        """Return an estimate from these people, those from people drawn again (n, …), and notes.

        Each sample finds the segments again, from where they were, so that replicates differ as much as all three steps
        do by chance.
        """
        records, memberships, rank = self._records, self._memberships, self.pmf.rank
        theta, n_people, n_done = Search.parameters(self.pmf.weights, self.pmf.stacked), len(self.weights), 0
        n, show = relation.replicates, relation.watch.counting("drawing replicates", relation.replicates)

        def replicate(number: int) -> Floats | None:
            nonlocal n_done
            random = np.random.default_rng([relation.seed, number])
            drawn = self.weights * random.multinomial(n_people, np.full(n_people, 1.0 / n_people))
            end = Search(records.reweighted(drawn), 1).climb(theta, rank, 500, 1e-8)
            own = JointPMF.from_stacked(self.pmf.schema, end.theta[0, :rank], end.theta[1:, :rank])
            again = segment_memberships(records, own)
            again = again[:, matched_segments(memberships, again, self.weights)]
            whole = Assignment.of(again, drawn)
            n_done += 1
            show(n_done)
            return None if whole.unusable() is not None or not drawn[known].any() else estimate(whole.of_some(known))

        drawn = map_in_order(range(n), replicate, threads=relation.threads)
        usable = [part for part in drawn if part is not None and np.isfinite(part).all()]
        lacks = "a value" if self.weights.all() else "a value or a weight"
        notes = [] if known.all() else [f"{np.count_nonzero(~known):,} people without {lacks} were left out"]
        if len(usable) < (1.0 - _MOST_UNUSABLE) * n:
            notes.append(
                f"in {n - len(usable)} of {n} samples a segment had too few people, or a covariate separated segments: "
                "standard errors are too small"
            )
        if len(usable) < 2:
            raise DataError("in other samples of these people, segments have too few people; use fewer segments")
        return estimate(self.assigned.of_some(known)), np.array(usable), notes


def relate_covariates(people: People, relation: Relation) -> SegmentCovariates:
    """Return the multinomial logit of the segment on all columns of some people."""
    if people.pmf.rank < 2:
        raise DataError("one segment is the same for everybody: covariates need at least two")
    known = people.known(*people.columns)
    terms, parts, owner = ["intercept"], [], []
    for name, (numbers, categories) in people.columns.items():
        shown = numbers[known]
        if np.ptp(shown) == 0:
            raise DataError(f"covariate {name!r} is the same for everybody who shows all covariates")
        columns = [(name, shown)]
        if categories:
            columns = [(f"{name} = {label}", (shown == code) * 1.0) for code, label in enumerate(categories) if code]
            columns = [(term, column) for term, column in columns if column.any()]
        terms += [term for term, _ in columns]
        parts += [column for _, column in columns]
        owner += [name] * len(columns)
    design = np.column_stack(parts)
    _check_relation_rank(design, terms[1:])
    start: Floats | None = None
    # People with the same covariates are one with their weights: few, where covariates are categories.
    different, group = np.unique(design, axis=0, return_inverse=True)

    def separates(slopes: Floats) -> Bools:
        return np.asarray(np.abs(slopes[:, 1:]) * design.std(axis=0) > _SEPARATES)

    def estimate(assigned: Assignment) -> Floats:
        merged, own = assigned.merged(group)
        slopes = three_step_logit(merged, different[own], relation.correction, start)
        # A sample in which a slope has no limit, though it has one here, would make any standard error.
        is_lost = start is not None and bool((separates(slopes) & ~separates(start)).any())
        return np.full_like(slopes, np.nan) if is_lost else slopes

    start = estimate(people.assigned.of_some(known))
    found, drawn, notes = people.replicates(estimate, known, relation)
    for place in np.flatnonzero(separates(found).any(axis=0)):
        notes.append(f"{terms[1 + place]} separates segments perfectly or nearly so: its coefficients have no limit")
    tests = []
    for name in people.columns:
        own = [1 + place for place, of in enumerate(owner) if of == name]
        tests.append(WaldTest.of(name, found[:, own].ravel(), drawn[:, :, own].reshape(len(drawn), -1)))
    reference, *others = people.names
    errors, n_people = drawn.std(axis=0, ddof=1), int(np.count_nonzero(known))
    return SegmentCovariates(
        reference, tuple(others), tuple(terms), found, errors, tuple(tests), n_people, tuple(notes)
    )


def _check_relation_rank(design: Floats, terms: Sequence[str]) -> None:
    """Raise where a covariate follows from those before it."""
    scaled = (design - design.mean(axis=0)) / np.where(design.std(axis=0) > 0, design.std(axis=0), 1.0)
    for place in range(1, design.shape[1] + 1):
        if np.linalg.matrix_rank(scaled[:, :place], tol=1e-8 * np.sqrt(len(design))) < place:
            raise DataError(f"covariate {terms[place - 1]!r} follows from those before it; leave it out")


def relate_outcome(people: People, name: str, relation: Relation) -> SegmentOutcome:
    """Return the mean of a column in each segment, or the shares of its categories."""
    known = people.known(name)
    numbers, categories = people.columns[name]
    different, group = np.unique(numbers[known], return_inverse=True)

    def estimate(assigned: Assignment) -> Floats:
        merged, own = assigned.merged(group)
        if categories:
            return three_step_shares(merged, different[own].astype(np.int64), len(categories), relation.correction)
        return three_step_means(merged, different[own], relation.correction)[:, None]

    found, drawn, notes = people.replicates(estimate, known, relation)
    columns = slice(1, None) if categories else slice(None)  # shares add up to one
    contrasts = (found[1:, columns] - found[:1, columns]).ravel()
    spread = (drawn[:, 1:, columns] - drawn[:, :1, columns]).reshape(len(drawn), -1)
    test = WaldTest.of(name, contrasts, spread)
    errors, n_people = drawn.std(axis=0, ddof=1), int(np.count_nonzero(known))
    return SegmentOutcome(name, people.names, categories, found, errors, test, n_people, tuple(notes))
