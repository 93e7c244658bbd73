"""Segments: groups of people, with names, sizes, profiles, and the assignment of people to them."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, read_only
from twoway.data.frames import make_frame
from twoway.errors import DataError, FileFormatError, check_known
from twoway.model.model_file import parse_model, write_model
from twoway.model.pmf import JointPMF
from twoway.model.records import records_for_model
from twoway.notebook import Shown, notebook_table
from twoway.report import Monitor
from twoway.schema import first_duplicate
from twoway.segmentation.profile import SegmentProfile
from twoway.segmentation.quality import SegmentQuality, segment_memberships
from twoway.segmentation.relations import SegmentRelations, people_frame
from twoway.segmentation.segment_count import SegmentCount, softened_segments
from twoway.storage.container import read_container
from twoway.text import aligned_text, counted, plain_data, printable

_ERRORS = "segment_errors"
_TRAITS_SHOWN = 4
_LONGEST_NAME = 200


@dataclass(frozen=True, repr=False)
class Segments(Shown):
    """Segments of people, which `segments` finds: the states of one hidden variable, largest first."""

    pmf: JointPMF
    """The model: its components are the segments."""
    names: tuple[str, ...]
    candidates: tuple[SegmentCount, ...]
    """What was found for each number of segments."""
    quality: SegmentQuality
    errors: Floats = field(repr=False)
    """(1 + n_categories, count): standard errors of the sizes, and of share minus overall share below them."""

    @property
    def count(self) -> int:
        """The number of segments."""
        return self.pmf.rank

    @property
    def sizes(self) -> dict[str, float]:
        """The share of people in each segment, by its name."""
        return dict(zip(self.names, self.pmf.weights.tolist(), strict=True))

    @property
    def n_records(self) -> float:
        """The effective number of records that the segments were found in."""
        return 0.0 if self.pmf.report is None else float(self.pmf.report.n_records or 0.0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before the segments are used."""
        return () if self.pmf.report is None else self.pmf.report.warnings

    @cached_property
    def profile(self) -> SegmentProfile:
        """How common each category is in each segment."""
        return SegmentProfile(self.pmf, self.errors[1:])

    def rename(self, names: Mapping[str, str] | Sequence[str]) -> Segments:
        """Return the same segments under other names: those of some by their old names, or of all in order.

        Examples
        --------
        >>> import twoway as tw
        >>> people = {"a": ["x", "x", "y", "y"] * 9, "b": ["u", "u", "v", "v"] * 9}
        >>> tw.segments(people, 2, replicates=0).rename({"segment 1": "regulars"}).names
        ('regulars', 'segment 2')
        """
        if isinstance(names, Mapping):
            check_known("segment", self.names, *names)
            new = [names.get(name, name) for name in self.names]
        else:
            new = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [names]
            if len(new) != self.count:
                numbers = f"{counted(self.count, 'segment')} and {counted(len(new), 'name')}"
                raise DataError(f"there are {numbers}; each segment needs one name")
        for name in new:
            if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME:
                raise DataError(f"the name of a segment must be text of 1 to {_LONGEST_NAME} characters, not {name!r}")
        if (duplicate := first_duplicate(new)) is not None:
            raise DataError(f"the name {duplicate!r} is taken: two segments cannot have the same name")
        return replace(self, names=tuple(new))

    def memberships(self, source: Any) -> Floats:
        """Return the probability of each segment given each record, (n_records, count).

        A record with nothing observed has the sizes. A record that is impossible under the model is assigned as if each
        segment had one more average person.
        """
        records = records_for_model(self.pmf.schema, source)
        memberships = segment_memberships(records, self.pmf)
        if self.pmf.has_zeros:
            impossible = np.flatnonzero(self.pmf.log_prob(records) == -np.inf)
            shares = np.maximum(self.profile.average, 1e-12)
            soft = softened_segments(self.pmf, shares, max(self.n_records, 1.0))
            memberships[impossible] = segment_memberships(records.take(impossible), soft)
        return memberships

    def assign(self, frame: Any) -> Any:
        """Return a frame with two columns more: the name of each person's most probable "segment", and "probability".

        Parameters
        ----------
        frame
            A pandas, polars or pyarrow frame of people; columns that are not in the model pass through.

        Examples
        --------
        >>> import pandas as pd, twoway as tw
        >>> people = pd.DataFrame({"a": ["x", "x", "y"] * 9, "b": ["u", "u", "v"] * 9, "id": range(27)})
        >>> found = tw.segments(people[["a", "b"]], 2, replicates=0)
        >>> found.assign(people).loc[:2, ["id", "segment"]].to_numpy().tolist()
        [[0, 'segment 1'], [1, 'segment 1'], [2, 'segment 2']]
        """
        import narwhals as nw

        people = people_frame(frame)
        if taken := [name for name in ("segment", "probability") if name in people.columns]:
            raise DataError(f"the frame has a column {taken[0]!r}, which assign adds; rename or drop it first")
        memberships = self.memberships(people.to_native())
        names = np.array(self.names, dtype=object)[memberships.argmax(axis=1)]
        columns = {"segment": names, "probability": memberships.max(axis=1)}
        added = nw.from_native(make_frame(columns, people.implementation.value), eager_only=True)
        return people.with_columns(added[name] for name in columns).to_native()

    def relate(
        self,
        frame: Any,
        *,
        weights: Any = None,
        replicates: int = 200,
        seed: int = 0,
        threads: int | None = None,
        monitor: Monitor | bool | None = None,
    ) -> SegmentRelations:
        """Return what relates segments to other columns of the people: covariates that explain them, and outcomes.

        Parameters
        ----------
        frame
            The people that the segments were found in, with the other columns.
        weights
            The column of the weights, or the weights, where the segments were found with some.
        replicates
            Samples of these people that standard errors rest on: each finds the segments again.
        seed, threads, monitor
            As for `segments`.

        Examples
        --------
        >>> import pandas as pd, twoway as tw
        >>> people = pd.DataFrame({"a": [0, 0, 1, 1] * 30, "b": [0, 0, 1, 1] * 30, "spent": [1.0, 2.0, 5.0, 6.0] * 30})
        >>> relations = tw.segments(people[["a", "b"]], 2, replicates=0).relate(people, replicates=50)
        >>> relations.outcomes("spent")["spent"].test.p_value < 0.001
        True
        """
        return SegmentRelations(
            pmf=self.pmf,
            names=self.names,
            frame=frame,
            weights=weights,
            replicates=replicates,
            seed=seed,
            threads=threads,
            monitor=monitor,
        )

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return all results as rows of named columns: "segments", "profiles", "means" and "number of segments".

        Means are those of variables whose categories are numbers, or were declared to have values.
        """

        def by_name(what: str, numbers: NDArray[Any]) -> dict[str, Any]:
            return {f"{what}: {name}": number for name, number in zip(self.names, numbers.tolist(), strict=True)}

        profile, sizes = self.profile, list(self.sizes.values())
        columns: dict[str, Any] = {"segment": self.names, "size": sizes, "standard_error": self.errors[0]}
        columns |= {"people": [size * self.n_records for size in sizes], "certainty": self.quality.certainty}
        columns |= {"stability": self.quality.stability} if self.quality.stability else {}
        parts = {"share": profile.shares, "index": profile.index, "mark": profile.marks}
        profiles: list[dict[str, Any]] = []
        for cell, (name, label) in enumerate(profile.cells):
            profiles.append({"variable": name, "category": str(label), "all": profile.average[cell]})
            for what, array in parts.items():
                profiles[-1] |= by_name(what, array[cell])
        means = []
        for variable, factor in zip(self.pmf.schema, self.pmf.factors, strict=True):
            if variable.values is not None:
                of_segments = np.array(variable.values) @ factor
                of_all = {"variable": variable.name, "all": float(of_segments @ self.pmf.weights)}
                means.append(of_all | by_name("mean", of_segments))
        return {
            "segments": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
            "profiles": profiles,
            "means": means,
            "number of segments": [asdict(candidate) for candidate in self.candidates],
        }

    def __str__(self) -> str:
        parts = [f"{counted(self.count, 'segment')} of {self.n_records:,.0f} records", self._text_of_sizes()]
        for place, name in enumerate(self.names):
            traits = []
            for sign, word in ((1, "more"), (-1, "less")):
                for trait in self.profile.telling(place, sign)[:_TRAITS_SHOWN]:
                    category = f"{printable(trait.variable, None)} = {printable(trait.category, None)}"
                    traits.append(f"  {word} often {category}: {trait.share:.0%}, index {trait.index:.0f}")
            title = f"{printable(name, None)}, {self.pmf.weights[place]:.1%}"
            parts.append("\n".join([title, *(traits or ["  no significant difference from all people"])]))
        parts += [self._text_of_numbers()] if len(self.candidates) > 1 else []
        parts += [f"note: {warning}" for warning in self.warnings]
        return "\n\n".join(parts)

    def _text_of_sizes(self) -> str:
        errors = [f" ± {error:.1%}" if self.quality.n_replicates else "" for error in self.errors[0]]
        sizes = [f"{size:.1%}{error}" for size, error in zip(self.sizes.values(), errors, strict=True)]
        columns = [["segment", *map(printable, self.names)], ["size", *sizes]]
        for what, numbers in (("certainty", self.quality.certainty), ("stability", self.quality.stability)):
            columns += [[what, *(f"{number:.2f}" for number in numbers)]] if numbers else []
        rows, agreement = [*zip(*columns, strict=True)], self.quality.agreement
        more = "" if agreement is None else f", agreement of {self.quality.n_replicates} replicates {agreement:.2f}"
        return f"{aligned_text(rows)}\nrelative entropy {self.quality.relative_entropy:.2f}{more}"

    def _text_of_numbers(self) -> str:
        rows = [["count", "log-likelihood", "parameters", "AIC", "BIC", "held out", "p against one less"]]
        for row in self.candidates:
            count, p = f"{row.count}{'*' * (row.count == self.count)}", row.p_value
            numbers = [f"{row.log_likelihood:.2f}", str(row.n_parameters), f"{row.aic:.1f}", f"{row.bic:.1f}"]
            rows.append([count, *numbers, f"{row.held_out:.4f}", "" if p is None else f"{p:.3f}"])
        return f"{aligned_text(rows)}\n* has the lowest BIC"

    def _repr_html_(self) -> str:
        rows, bars = [["variable", "category", "all", *map(printable, self.names)]], []
        for cell, row in enumerate(self.tables()["profiles"]):
            shares = [row["all"], *self.profile.shares[cell].tolist()]
            marks = ["", *({1: " +", -1: " −", 0: ""}[mark] for mark in self.profile.marks[cell].tolist())]
            texts = [f"{share:.0%}{mark}" for share, mark in zip(shares, marks, strict=True)]
            rows.append([printable(row["variable"]), printable(row["category"]), *texts])
            bars.append(shares)
        sizes = ", ".join(f"{printable(name)} {size:.1%}" for name, size in self.sizes.items())
        title = html.escape(f"{counted(self.count, 'segment')}: {sizes}")
        note = "+ and −: more and less often than in all people, by more than chance"
        return f"<p>{title}</p>{notebook_table(rows, bars, note)}"

    def save(self, path: str | os.PathLike[str], *, counts: bool = True) -> None:
        """Write the segments to a model file, which `JointPMF.load` and all commands read too.

        Parameters
        ----------
        path
            Where to write; an existing file is replaced once the new one is complete.
        counts
            Whether to keep the two-way counts, as for `JointPMF.save`.
        """
        described = plain_data({"names": self.names, "candidates": self.candidates, "quality": self.quality})
        write_model(path, self.pmf, {_ERRORS: self.errors}, counts=counts, described={"segments": described})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Segments:
        """Return the segments in a file; a model without them is an error."""
        if (segments := load_segments(path)) is None:
            raise FileFormatError(
                f"{str(path)!r} is a model without segments; make one with tw.segments or `twoway segments`"
            )
        return segments


def load_segments(path: str | os.PathLike[str]) -> Segments | None:
    """Return the segments in a model file, None where it has none."""
    header, arrays = read_container(path, "model")
    if "segments" not in header:
        return None
    pmf = JointPMF.from_trees(*parse_model(path, header, arrays))
    try:
        described, errors = header["segments"], arrays[_ERRORS].astype(np.float64)
        if errors.shape != (1 + pmf.schema.n_categories, pmf.rank) or not (errors >= 0).all():
            raise DataError(f"the array of standard errors is invalid, of shape {errors.shape}")
        candidates = tuple(SegmentCount(**_segments_numbers(fields)) for fields in described["candidates"])
        quality = SegmentQuality(**_segments_numbers(described["quality"]))
        if len(quality.certainty) != pmf.rank or len(quality.stability) not in (0, pmf.rank):
            raise DataError(f"the quality is not that of {pmf.rank} segments")
        return Segments(pmf, ("",) * pmf.rank, candidates, quality, read_only(errors)).rename(described["names"])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(f"the segments in {str(path)!r} are invalid: {error}") from error


def _segments_numbers(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a dataclass from JSON: numbers, and tuples of numbers; null in one of these is NaN."""
    fields: dict[str, Any] = {}
    for key, value in described.items():
        if isinstance(value, list):
            fields[key] = tuple(math.nan if number is None else float(number) for number in value)
        elif value is None or isinstance(value, int | float):
            fields[key] = math.nan if value is None and key not in ("p_value", "agreement") else value
        else:
            raise DataError(f"{key} is {value!r}")
    return fields
