"""Columns of numbers as intervals, whose labels say the edges, so that new records can be put into the same ones."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway.data.bin_labels import cuts_of, label_bins
from twoway.data.frames import Fill
from twoway.data.missing import MissingLabels
from twoway.errors import DataError, unknown
from twoway.schema import Label, Schema, label_key
from twoway.text import shortlist

_DEFAULT_BINS = 5


@dataclass(frozen=True)
class Binning:
    """The inner edges of some columns' bins."""

    edges: Mapping[str, NDArray[np.float64]]
    """For each column the lower edges of all bins but the first, ascending."""
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """For each column the mean of what is in each bin, where that is known."""
    missing: Mapping[str, tuple[Label, ...]] = field(default_factory=dict)
    """For each column what means "not observed", numbers among it."""

    @classmethod
    def find(cls, table: Any, asked: Iterable[str], missing: MissingLabels) -> Binning:
        """Return bins of the columns asked for: of about equally many records, or by the cuts that are given."""
        edges: dict[str, NDArray[np.float64]] = {}
        values: dict[str, tuple[float, ...]] = {}
        for text in asked:
            name, wanted = asked_for(text, table.column_names)
            numbers = _numbers(table.column(name), name, missing.of_column(name))
            seen = numbers[~np.isnan(numbers)]
            inner = _inner_edges(seen, wanted) if isinstance(wanted, int) else np.array(wanted)
            if len(inner) == 0:
                raise DataError(f"column {name!r} has too few different numbers for {wanted} bins")
            edges[name] = inner
            values[name] = _means(seen, inner)
        return cls(edges, values, {name: missing.of_column(name) for name in edges})

    @classmethod
    def of(cls, schema: Schema, missing: MissingLabels | None = None) -> Binning:
        """Return the bins that the categories of a model's variables name."""
        found = {variable.name: cuts_of(variable) for variable in schema}
        binned = {name: np.array(cuts) for name, cuts in found.items() if cuts is not None}
        known = missing or MissingLabels()
        return cls(binned, missing={name: known.of_column(name, schema[name]) for name in binned})

    def apply(self, table: Any) -> Any:
        """Return an Arrow table with its numbers replaced by intervals, in order."""
        import pyarrow as pa

        for name, inner in self.edges.items():
            if name not in table.column_names:
                continue
            if _is_text(table.column(name)):
                column = _bin_text(table.column(name), inner)
                table = table.set_column(table.column_names.index(name), name, column)
                continue
            numbers = _numbers(table.column(name), name, self.missing.get(name, ()))
            code = pa.array(np.searchsorted(inner, numbers, side="right").astype(np.int32), mask=np.isnan(numbers))
            column = pa.DictionaryArray.from_arrays(code, pa.array(label_bins(inner)), ordered=True)
            table = table.set_column(table.column_names.index(name), name, column)
        return table

    def to_numbers(self, fills: Mapping[str, Fill], schema: Schema, table: Any) -> dict[str, Fill]:
        """Return what fills the holes of binned columns as numbers, each bin's mean, as the cells beside them are.

        Among whole numbers the mean is rounded.
        """
        found = dict(fills)
        for name in self.edges:
            if name in found and found[name][1].dtype.kind != "f" and not _is_text(table.column(name)):
                rows, labels = found[name]
                values = schema[name].values
                if values is not None:
                    means = np.array([values[schema[name].code(label)] for label in labels])
                    found[name] = rows, np.rint(means).astype(np.int64) if _is_whole(table.column(name)) else means
        return found

    def with_values(self, schema: Schema) -> Schema:
        """Return a schema whose binned variables have the means of the bins as values."""
        return Schema(
            tuple(replace(v, values=self.values[v.name]) if v.name in self.values else v for v in schema.variables)
        )


def asked_for(text: str, known: Sequence[str]) -> tuple[str, int | list[float]]:
    """Return the column of "name", "name=n_bins" or "name=cut,cut,…", and the number of bins or the cuts.

    Examples
    --------
    >>> asked_for("age=4", ["age"]), asked_for("age=18,40,65", ["age"]), asked_for("age=40,", ["age"])
    (('age', 4), ('age', [18.0, 40.0, 65.0]), ('age', [40.0]))
    """
    if text in known:
        return text, _DEFAULT_BINS
    name, _, wanted = text.rpartition("=")
    if name not in known:
        raise unknown("column", name or text, known, where=" to put into bins")
    if "," in wanted:
        cuts = [_as_number(cut) for cut in wanted.removesuffix(",").split(",")]
        numbers = [cut for cut in cuts if cut is not None]
        if len(numbers) < len(cuts) or any(low >= high for low, high in itertools.pairwise(numbers)):
            raise DataError(f"--bins {text}: the numbers between bins must be finite and ascend, as in {name}=18,40,65")
        return name, numbers
    if not wanted.isdigit() or int(wanted) < 2:
        raise DataError(
            f"--bins {text}: the number of bins must be a whole number of at least 2; the numbers between bins are "
            f"separated by commas, as in {name}=18,40,65"
        )
    return name, int(wanted)


def _means(seen: NDArray[np.float64], inner: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the mean of the numbers in each bin, of a bin without any its middle, or its end where it has but one."""
    code = np.searchsorted(inner, seen, side="right")
    low, high = np.append(inner[:1], inner), np.append(inner, inner[-1:])
    counts = np.bincount(code, minlength=len(low))
    sums = np.bincount(code, seen, minlength=len(low))
    return tuple(np.where(counts > 0, sums / np.maximum(counts, 1), 0.5 * (low + high)).tolist())


def _inner_edges(seen: NDArray[np.float64], n_bins: int) -> NDArray[np.float64]:
    """Return the edges between bins of about equally many numbers, rounded as far as they stay apart."""
    from sklearn.preprocessing import KBinsDiscretizer

    if len(np.unique(seen)) < 2:
        return np.empty(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bins that would be empty are merged, which is right
        fitted = KBinsDiscretizer(n_bins, encode="ordinal", strategy="quantile", subsample=None).fit(seen[:, None])
    edges = np.unique([float(f"{edge:.6g}") for edge in fitted.bin_edges_[0][1:-1]])
    inner: NDArray[np.float64] = edges[(edges > seen.min()) & (edges <= seen.max())]
    return inner


def _kind(column: Any) -> Any:
    import pyarrow as pa

    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def _is_whole(column: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(_kind(column)))


def _is_text(column: Any) -> bool:
    import pyarrow as pa

    kind = _kind(column)
    return not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _bin_text(column: Any, inner: NDArray[np.float64]) -> Any:
    """Return a column of text in which all that reads as a number is put into bins; the rest stays as it is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = label_bins(inner)

    def binned(text: object) -> object:
        number = _as_number(text)
        return text if number is None else labels[int(np.searchsorted(inner, number, side="right"))]

    distinct = pc.unique(column.cast(_kind(column)))
    names = pa.array([binned(text) for text in distinct.to_pylist()])
    return names.take(pc.index_in(column.cast(_kind(column)), value_set=distinct).combine_chunks())


def odd_labels(labels: Iterable[object]) -> list[str]:
    """Return the text among labels that are numbers by and large: marks for missing cells, most likely.

    Examples
    --------
    >>> odd_labels(["1", "2", "3", "4", "no answer"]), odd_labels(["18-39", "40+", "2"]), odd_labels([1, 2])
    (['no answer'], [], [])
    """
    texts = [label for label in labels if isinstance(label, str)]
    odd = [text for text in texts if _as_number(text) is None]
    return odd if len(odd) <= 0.25 * len(texts) else []


def _explained(column: Any) -> str:
    """Return what keeps a column of numbers from being one, for an error; "" where numbers are not the rule."""
    import pyarrow.compute as pc

    odd = odd_labels(pc.unique(column.cast(_kind(column))).to_pylist())
    if not odd:
        return ""
    shown = " ".join(f"--missing {label!r}" for label in odd[:3])
    return f": it also holds {shortlist(odd, 3)}; {shown} reads that as missing"


def _as_number(text: object) -> float | None:
    try:
        number = float(str(text))
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def _numbers(column: Any, name: str, missing: Sequence[Label]) -> NDArray[np.float64]:
    """Return a column's numbers, NaN where there is none or one that means "not observed"."""
    import pyarrow as pa

    if _is_text(column):
        raise DataError(f"column {name!r} is not one of numbers, which --bins needs{_explained(column)}")
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    numbers: NDArray[np.float64] = plain.cast(pa.float64()).to_numpy()
    gone = [float(one) for one in missing if label_key(one)[0] == "number"]
    return np.where(np.isin(numbers, gone), np.nan, numbers)
