"""How segments relate to other variables: covariates that explain them, outcomes that differ between them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, get_args

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.category_labels import Label
from twoway.data.frames import eager_frame, frame_columns, frame_in_memory, frame_number_kind
from twoway.data.records import Records
from twoway.data.weights import read_weights
from twoway.errors import DataError, check_known, check_whole_number
from twoway.model.pmf import JointPMF
from twoway.model.records import records_for_model
from twoway.notebook import Shown
from twoway.parallel import map_in_order
from twoway.report import Monitor
from twoway.schema import first_duplicate
from twoway.segmentation.quality import matched_segments, segment_memberships
from twoway.segmentation.search import Search
from twoway.segmentation.three_step import Assignment, Correction, three_step_logit, three_step_means, three_step_shares
from twoway.solvers.theta import theta_of
from twoway.solvers.watch import Watch
from twoway.text import aligned_text, printable

LEAST_REPLICATES = 50
# A standardized slope beyond this is one that grew until the ridge stopped it.
_SEPARATES = 8.0
_MOST_UNUSABLE = 0.1
_Column: TypeAlias = tuple[Floats, tuple[Label, ...]]
"""The numbers of a column, NaN where missing; or its codes, and its categories."""


@dataclass(frozen=True)
class WaldTest:
    """A test that some numbers are all 0.

    The covariance of the numbers is estimated from replicates, so the p-value is that of Hotelling's T²: a multiple of
    the statistic has an F distribution.
    """

    name: str
    statistic: float
    """Wald's: the squared length of the numbers, in units of their covariance."""
    df: int
    """Degrees of freedom of the statistic, the numerator of F: how many numbers vary independently."""
    p_value: float
    f_statistic: float = math.nan
    """The multiple of the statistic that has an F distribution; NaN where nothing varies."""
    df_denominator: int = 0
    """The number of replicates minus ``df``: fewer replicates say less about the covariance."""

    @classmethod
    def of(cls, name: str, estimates: Floats, replicates: Floats) -> WaldTest:
        """Return the test of estimates by their replicates, in arrays of the same shape for each."""
        from scipy.stats import f

        estimates, replicates = estimates.ravel(), replicates.reshape(len(replicates), -1)
        covariance = np.atleast_2d(np.cov(replicates, rowvar=False))
        scale = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
        used = np.flatnonzero(scale > 1e-12 * max(float(scale.max(initial=0.0)), 1e-300))
        if not len(used):  # any difference is certain
            return cls(name, 0.0, 0, float(not estimates.any()))
        scaled = covariance[np.ix_(used, used)] / np.outer(scale[used], scale[used])
        values, vectors = np.linalg.eigh(scaled)
        is_large = values > 1e-8 * values.max()
        scores = (estimates[used] / scale[used]) @ vectors[:, is_large]
        statistic, df = float((scores**2 / values[is_large]).sum()), int(is_large.sum())
        df_denominator = max(len(replicates) - df, 1)
        f_statistic = statistic * df_denominator / ((len(replicates) - 1) * df)
        return cls(name, statistic, df, float(f.sf(f_statistic, df, df_denominator)), f_statistic, df_denominator)

    def __str__(self) -> str:
        statistics = f"W = {self.statistic:.2f}, F({self.df}, {self.df_denominator}) = {self.f_statistic:.2f}"
        return f"Wald test of {printable(self.name, None)}: {statistics if self.df else 'df 0'}, p = {self.p_value:.3g}"


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
        for segment, values, errors in zip(self.segments, self.coefficients, self.errors, strict=True):
            for term, value, error in zip(self.terms, values, errors, strict=True):
                p_value = float(2.0 * norm.sf(abs(value) / error)) if error > 0 else math.nan
                with np.errstate(over="ignore"):
                    odds = float(np.exp(value))
                row = {"segment": segment, "against": self.reference, "term": term, "coefficient": float(value)}
                rows.append({**row, "standard_error": float(error), "odds_ratio": odds, "p_value": p_value})
        return rows

    def __str__(self) -> str:
        table = [["segment", "term", "coefficient", "standard error", "odds ratio", "p"]]
        for row in self.rows():
            numbers = [f"{row['coefficient']:.3f}", f"{row['standard_error']:.3f}", f"{row['odds_ratio']:.3g}"]
            table.append([printable(row["segment"]), printable(row["term"]), *numbers, f"{row['p_value']:.3f}"])
        title = f"against {printable(self.reference, None)}, {self.n_people:,} people"
        notes = [f"note: {warning}" for warning in self.warnings]
        return "\n".join([title, aligned_text(table), "", *map(str, self.tests), *notes])


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
        return "\n".join([aligned_text(table), f"{self.test}, {self.n_people:,} people", *notes])


def people_frame(frame: Any) -> Any:
    """Return a frame of people as one of narwhals; anything else is an error."""
    people = eager_frame(frame_in_memory(frame))
    if people is None:
        raise DataError(f"frame must be of pandas, polars or pyarrow, not {type(frame).__name__}")
    return people


@dataclass(kw_only=True, repr=False, eq=False)
class SegmentRelations:
    """How segments relate to other columns of the people: `Segments.relate` makes it.

    The segments are found again in samples of the people when these are first needed, once for all relations.
    """

    pmf: JointPMF
    names: tuple[str, ...]
    frame: Any
    weights: Any
    replicates: int
    seed: int
    threads: int | None
    monitor: Monitor | bool | None

    def __post_init__(self) -> None:
        check_whole_number("replicates", self.replicates, LEAST_REPLICATES)
        check_whole_number("seed", self.seed, 0)
        self._people, weights = people_frame(self.frame), self.weights
        self._columns = frame_columns(self._people.to_native(), self.pmf.schema.names)
        if isinstance(weights, str):
            check_known("column", self._columns, weights, where=" for the weights")
            weights = self._people[weights].to_numpy()
        array = read_weights(weights, len(self._people))
        self._weights = np.ones(len(self._people)) if array is None else np.asarray(array / array.mean())
        self._records = records_for_model(self.pmf.schema, self._people.to_native())
        self._memberships = segment_memberships(self._records, self.pmf)
        self._assigned = Assignment.of(self._memberships, self._weights)
        if (segment := self._assigned.unusable()) is not None:
            raise DataError(
                f"too few people are assigned to {self.names[segment]!r} to relate it to other variables; use fewer "
                "segments"
            )

    def covariates(self, names: str | Sequence[str], correction: Correction = "ml") -> SegmentCovariates:
        """Return how covariates explain the segment: a multinomial logit, corrected for errors of assignment.

        Parameters
        ----------
        names
            The covariates. Numbers are taken as numbers; the categories of other columns are compared with the first.
        correction
            "ml" or "bch"; "none" counts everybody as if the assignment were certain, which makes segments look alike.

        Examples
        --------
        >>> import pandas as pd, twoway as tw
        >>> people = pd.DataFrame({"a": [0, 0, 1, 1] * 30, "b": [0, 0, 1, 1] * 29 + [0] * 4, "age": range(120)})
        >>> found = tw.segments(people[["a", "b"]], 2, replicates=0)
        >>> found.relate(people, replicates=50).covariates("age").terms
        ('intercept', 'age')
        """
        read = self._read(names, correction)
        if self.pmf.rank < 2:
            raise DataError("there is only one segment, the same for everybody; covariates need at least two")
        known = self._known(read)
        terms, places = ["intercept"], dict[str, list[int]]()
        parts: list[Floats] = []
        for name, (values, categories) in read.items():
            numbers = values[known]
            if np.ptp(numbers) == 0:
                raise DataError(f"covariate {name!r} is the same for everybody who has a value of all covariates")
            columns = {name: numbers}
            if categories:  # of these people, each compared with the first
                codes = np.unique(numbers).astype(np.int64)[1:]
                columns = {f"{name} = {categories[code]}": (numbers == code) * 1.0 for code in codes}
            places[name] = list(range(len(terms), len(terms) + len(columns)))
            terms += columns
            parts += columns.values()
        design = np.column_stack(parts)
        _check_relation_rank(design, terms[1:])
        start: Floats | None = None
        # People with the same covariates are one with their weights: few, where covariates are categories.
        different, group = np.unique(design, axis=0, return_inverse=True)

        def separates(slopes: Floats) -> Bools:
            return np.asarray(np.abs(slopes[:, 1:]) * design.std(axis=0) > _SEPARATES)

        def estimate(assigned: Assignment) -> Floats:
            merged, group_of_merged = assigned.merged(group)
            slopes = three_step_logit(merged, different[group_of_merged], correction, start)
            # A sample in which a slope has no limit, though it has one here, would make any standard error.
            is_lost = start is not None and bool((separates(slopes) & ~separates(start)).any())
            return np.full_like(slopes, np.nan) if is_lost else slopes

        start = estimate(self._assigned.of_some(known))
        slopes, drawn, notes = self._estimates(estimate, known)
        for place in np.flatnonzero(separates(slopes).any(axis=0)):
            notes.append(f"{terms[1 + place]} separates segments perfectly or nearly so: its coefficients are infinite")
        tests = tuple(WaldTest.of(name, slopes[:, place], drawn[:, :, place]) for name, place in places.items())
        (reference, *others), errors = self.names, drawn.std(axis=0, ddof=1)
        n_people = int(np.count_nonzero(known))
        return SegmentCovariates(reference, tuple(others), tuple(terms), slopes, errors, tests, n_people, tuple(notes))

    def outcomes(self, names: str | Sequence[str], correction: Correction = "bch") -> dict[str, SegmentOutcome]:
        """Return what outcomes are like in each segment, corrected for errors of assignment, by their names.

        Means of numbers, shares of the categories of other columns. With "ml", a number is normal in each segment, with
        different variances; "bch" assumes nothing of it. Parameters are those of `covariates`.

        Examples
        --------
        >>> import pandas as pd, twoway as tw
        >>> people = pd.DataFrame({"a": [0, 0, 1, 1] * 30, "b": [0, 0, 1, 1] * 30, "spent": [1.0, 2.0, 5.0, 6.0] * 30})
        >>> found = tw.segments(people[["a", "b"]], 2, replicates=0)
        >>> found.relate(people, replicates=50).outcomes("spent")["spent"].estimates.ravel().round(2).tolist()
        [1.5, 5.5]
        """
        return {
            name: self._outcome(name, *column, correction) for name, column in self._read(names, correction).items()
        }

    def _outcome(
        self, name: str, values: Floats, categories: tuple[Label, ...], correction: Correction
    ) -> SegmentOutcome:
        known = self._known({name: (values, categories)})
        different, group = np.unique(values[known], return_inverse=True)

        def estimate(assigned: Assignment) -> Floats:
            merged, group_of_merged = assigned.merged(group)
            of_people = different[group_of_merged]
            if categories:
                return three_step_shares(merged, of_people.astype(np.int64), len(categories), correction)
            return three_step_means(merged, of_people, correction)[:, None]

        estimates, drawn, notes = self._estimates(estimate, known)
        columns = slice(1, None) if categories else slice(None)  # shares add up to one
        contrasts, of_drawn = (part[..., 1:, columns] - part[..., :1, columns] for part in (estimates, drawn))
        test, errors = WaldTest.of(name, contrasts, of_drawn), drawn.std(axis=0, ddof=1)
        n_people = int(np.count_nonzero(known))
        return SegmentOutcome(name, self.names, categories, estimates, errors, test, n_people, tuple(notes))

    def _read(self, names: str | Sequence[str], correction: Correction) -> dict[str, _Column]:
        """Return the columns of these names."""
        check_known("correction", get_args(Correction), correction)
        chosen = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
        if not chosen:
            raise DataError("there are no columns to relate segments to; name at least one")
        check_known("column", self._columns, *chosen)
        if (duplicate := first_duplicate(chosen)) is not None:
            raise DataError(f"duplicate column name {duplicate!r}")
        for name in chosen:
            if name in self.pmf.schema:
                raise DataError(
                    f"{name!r} is one of the variables that the segments were found by, so it cannot be related to "
                    "them; find segments without it, or see the profile"
                )
        return {name: self._column(name) for name in chosen}

    def _column(self, name: str) -> _Column:
        records = Records({name: self._people[name].to_native()})
        (variable,) = records.schema
        if len(variable) < 2:
            raise DataError(f"column {name!r} has only one value, {variable.categories[0]!r}, for everybody")
        is_number = frame_number_kind(self._people.to_native(), name) is not None and variable.values is not None
        # The last one is that of the code -1, of missing cells.
        numbers = np.array([*((variable.values if is_number else None) or range(len(variable))), np.nan])
        return numbers[records.codes()[:, 0]], () if is_number else variable.categories

    def _known(self, columns: Mapping[str, _Column]) -> Bools:
        """Return who has a weight above 0 and a value in each of some columns, (n,)."""
        known = self._weights > 0
        for values, _ in columns.values():
            known &= ~np.isnan(values)
        if not known.any():
            raise DataError(f"nobody has a weight above 0 and a value of {', '.join(map(repr, columns))}")
        return known

    def _drawn(self, number: int) -> Floats:
        """Return how often each person is drawn in a sample, times the person's weight; (n,)."""
        n, random = len(self._weights), np.random.default_rng([self.seed, number])
        return np.asarray(self._weights * random.multinomial(n, np.full(n, 1.0 / n)))

    @cached_property
    def _refits(self) -> list[tuple[JointPMF, Ints]]:
        """The segments found again in each sample, from where they were, and which of them is which."""
        pmf, theta, done = self.pmf, theta_of(self.pmf), itertools.count(1)

        def refit(number: int) -> tuple[JointPMF, Ints]:
            end = Search(self._records.reweighted(self._drawn(number)), 1).climb(theta, pmf.rank, 500, 1e-8)
            again = JointPMF.from_stacked(pmf.schema, end.theta[0, : pmf.rank], end.theta[1:, : pmf.rank])
            others = segment_memberships(self._records, again)
            show(next(done))
            return again, matched_segments(self._memberships, others, self._weights)

        with Watch.showing(self.monitor) as watch:
            show = watch.counting("drawing replicates", self.replicates)
            return map_in_order(range(self.replicates), refit, threads=self.threads)

    def _estimates(self, estimate: Callable[[Assignment], Floats], known: Bools) -> tuple[Floats, Floats, list[str]]:
        """Return an estimate from these people, those from samples of them (n, …), and notes.

        Each sample has segments of its own, so that replicates differ as much as all three steps do by chance.
        """
        n, refits = self.replicates, self._refits

        def replicate(number: int) -> Floats | None:
            (pmf, order), drawn = refits[number], self._drawn(number)
            assigned = Assignment.of(segment_memberships(self._records, pmf)[:, order], drawn)
            is_usable = assigned.unusable() is None and drawn[known].any()
            return estimate(assigned.of_some(known)) if is_usable else None

        estimates = map_in_order(range(n), replicate, threads=self.threads)
        usable = [part for part in estimates if part is not None and np.isfinite(part).all()]
        missing = "a value" if self._weights.all() else "a value or a weight"
        notes = [] if known.all() else [f"{np.count_nonzero(~known):,} people without {missing} were left out"]
        if len(usable) < (1.0 - _MOST_UNUSABLE) * n:
            notes.append(
                f"in {n - len(usable)} of {n} samples a segment had too few people or a covariate separated segments: "
                "standard errors are too small"
            )
        if len(usable) < 2:
            raise DataError("in other samples of these people, segments have too few people; use fewer segments")
        return estimate(self._assigned.of_some(known)), np.array(usable), notes


def _check_relation_rank(design: Floats, terms: Sequence[str]) -> None:
    """Raise where a covariate is a linear combination of those before it."""
    scaled = (design - design.mean(axis=0)) / np.where(design.std(axis=0) > 0, design.std(axis=0), 1.0)
    for place in range(1, design.shape[1] + 1):
        if np.linalg.matrix_rank(scaled[:, :place], tol=1e-8 * np.sqrt(len(design))) < place:
            raise DataError(f"covariate {terms[place - 1]!r} follows from those before it; leave it out")
