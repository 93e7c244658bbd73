"""Which categories columns have, found part by part: what the parts show adds up, wherever they are.

One pass over the rows of any source gives a `Scan`. Scans add, so slices of a file, partitions of a cluster and batches
of a database find the same categories as one table in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from twoway.arrays import Array, Floats
from twoway.category_labels import Label, label_key, sort_labels
from twoway.data.binning import bin_means
from twoway.data.columns import Columns
from twoway.data.missing import Markers, MissingLabels, missing_key
from twoway.data.raw_columns import LabelsByKey, RawColumns, check_number_of_column_labels
from twoway.data.weights import WeightTotals
from twoway.errors import DataError, warn_caller
from twoway.schema import Schema


@dataclass
class Scan:
    """What some rows show before they are coded: how many there are, what they weigh, which labels they have."""

    n_records: int = 0
    weight_totals: WeightTotals = field(default_factory=WeightTotals)
    declared: dict[str, LabelsByKey] = field(default_factory=dict)
    """The labels that the type of each column declares, in order; none where parts of the column declare none."""
    observed: dict[str, LabelsByKey] = field(default_factory=dict)
    """The labels that occur in each column."""
    ordered: frozenset[str] = frozenset()
    """The columns whose declared labels are in an order that means something."""
    bins: dict[str, Floats] = field(default_factory=dict)
    """For columns of numbers whose bins are declared: how many numbers are in each bin, and their sum; (2, n_bins)."""

    def __add__(self, other: Scan) -> Scan:
        """Return what both show, ``self`` being the earlier rows.

        As in a table put together: categories that all parts declare are listed in the order in which they come up, and
        parts without rows do not decide about types.
        """
        n_records, totals = self.n_records + other.n_records, self.weight_totals + other.weight_totals
        if not self.n_records or not other.n_records:
            labels = other if other.n_records or not self.observed else self
            return Scan(n_records, totals, labels.declared, labels.observed, labels.ordered, labels.bins)
        declared, observed = {}, {}
        for name, labels_before in self.observed.items():
            both = self.declared[name], other.declared[name]
            declared[name] = both[0] | both[1] if both[0] and both[1] else {}
            labels_after = other.observed[name]
            observed[name] = labels_before if labels_after is labels_before else labels_before | labels_after
        bins = {name: sums + other.bins[name] for name, sums in self.bins.items()}
        return Scan(n_records, totals, declared, observed, self.ordered & other.ordered, bins)

    @classmethod
    def of(
        cls,
        columns: RawColumns,
        markers: Mapping[str, Markers],
        weights: Floats | None = None,
        people: Array | None = None,
        *,
        max_categories: int | None = None,
        known: Mapping[str, LabelsByKey] | None = None,
        are_all: bool = False,
        bins: Schema | None = None,
    ) -> Scan:
        """Return what columns show; too many labels are an error, before they fill memory.

        Parameters
        ----------
        columns, markers
            The columns to find categories in, and the labels that mean "not observed" in each.
        weights, people
            Of the rows, as `Records` has them.
        max_categories
            The most labels that a column may have.
        known
            Labels of other rows, to which these are added; several threads may share them.
        are_all
            Whether there are no other rows: what a type declares then needs no look at the cells.
        bins
            Variables whose bins are known already.
        """
        scan = cls(columns.n_rows, WeightTotals.of(weights, people, columns.n_rows), ordered=columns.ordered)
        for name in columns.names:
            if bins is not None and name in bins:
                scan.bins[name] = columns.bin_sums(bins[name], markers[name], weights)
                continue
            labels = (label for label in columns.declared.get(name, ()) if missing_key(label) not in markers[name])
            declared = scan.declared[name] = {label_key(label): label for label in labels}
            observed = scan.observed[name] = {} if known is None else known[name]
            if not (declared and are_all):
                columns.collect_labels(observed, name, markers[name], max_categories)
            check_number_of_column_labels(name, max(len(declared), len(observed)), max_categories)
        return scan

    def schema(self, column_of: Mapping[str, str], missing: MissingLabels, declared: Columns) -> Schema:
        """Return the variables that some columns are, by their new names; a column without a label is an error."""
        if not column_of:
            raise DataError("the data has no columns; it needs at least one")
        bins, variables = declared.bins, []
        for name, column in column_of.items():
            own = missing.remembered(name)
            if bins is not None and name in bins:
                totals, sums = self.bins[name]
                means = bin_means(totals, sums, bins[name].edges or ())
                variable = replace(bins[name], values=tuple(means), is_found=True, missing=own)
            else:
                variable = declared[column].variable(name, self._categories(name), name in self.ordered, own)
                self._warn_of_spaces(column, variable.categories)
            variables.append(replace(variable, column=None if column == name else column))
        return Schema(tuple(variables))

    def _categories(self, name: str) -> tuple[Label, ...]:
        if declared := self.declared.get(name):
            return tuple(declared.values())
        if observed := self.observed.get(name):
            return tuple(sort_labels(observed.values()))
        raise DataError(
            f"column {name!r} has no observed cell in {self.n_records} records; drop it, or declare its categories"
        )

    @staticmethod
    def _warn_of_spaces(column: str, labels: Sequence[Label]) -> None:
        """Warn where two labels differ only in spaces, which most often mean one category."""
        by_words: dict[str, str] = {}
        for label in labels:
            if not isinstance(label, str):
                continue
            if (same := by_words.setdefault(" ".join(label.split()), label)) is not label:
                warn_caller(
                    f"labels that differ only in spaces are different categories, such as {same!r} and {label!r} of "
                    f"column {column!r}; declare them as one (columns) if they are",
                    once=True,
                )
                return
