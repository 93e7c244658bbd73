"""Tables: counts of pairs or triples of variables, each with its own total; one class, a third of it documentation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats
from twoway.category_labels import Label, label_array
from twoway.data.flat_counts import NO_TOTAL, flat_entries, flat_ranks, flat_starts, flat_totals
from twoway.data.frames import make_frame
from twoway.data.merging import merge_schemas
from twoway.data.weights import effective_weights
from twoway.errors import DataError, check_known
from twoway.schema import Schema
from twoway.storage.container import checked_content, read_container, write_container
from twoway.tables.counting import CountedSets, count_sets
from twoway.tables.layout import TableLayout
from twoway.tables.privacy import Release, TotalPrivacy, release_tables

if TYPE_CHECKING:
    from twoway.data.records import Records
    from twoway.data.stored_records import RecordSource
    from twoway.tables.crosstabs.crosstabs import TableKind
    from twoway.tables.crosstabs.sheets import Key

# The note of tables about whose records no release promises anything.
_NO_PROMISE = "counts without noise were added to noisy ones, so the sum has no privacy guarantee"
_AXES = (("row_variable", "row_category"), ("column_variable", "column_category"), ("layer_variable", "layer_category"))


@dataclass(frozen=True, eq=False, repr=False)
class Tables(TableLayout):
    """Counts of some pairs (order 2) or triples (order 3) of variables.

    Every table rests on its own records: those in which all its variables were observed, or those of
    the survey that published it. A table without a single count is left out.

    Tables add (shards, days, sites), and ``sum`` adds many; a category that one side lacks counts as zero
    there, with a note. Two sets of tables are equal when their schemas, counts and weights are; notes do
    not matter.

    Parameters
    ----------
    schema
        The variables; some may be in no table.
    sets
        The positions in the schema of each table's variables, shape (n_tables, order): ascending in
        a row, and rows in lexicographic order.
    flat
        The counts of all tables one after the other, each in C order.
    weights
        The effective number of records behind each table, shape (n_tables,): (Σw)² / Σw² where records have
        weights. By default each table's own total; a usual number, with a note, where it has shares or percentages:
        numbers with fractions that add up to 1, or to 100.
    notes
        What a reader should know about how the tables were made.
    releases
        What was promised when noise was added: see `with_noise`.
    heaviest
        The largest weight of a record: 1 where records have no weights, None where it is not known.
    noise
        The variance of the noise on each count, shape (n_tables,); 0 by default.
    empty
        More sets of variables that were counted, without a single record, as in ``sets``.
    bases
        Where records have weights, how many records each cell has and the sum of their squared weights, shape
        (2, n_cells), so that the base of any group is known: its number of records, and the effective one. None where
        these are the counts themselves, or not known.
    number_columns
        The columns that had "weights" and "counts" in what was counted.

    Examples
    --------
    >>> from twoway.data.records import Records
    >>> tables = Tables.count(Records({"age": ["young", "old", "old"], "vote": ["no", "yes", None]}))
    >>> tables
    <Tables: 1 pair of 2 variables, total 2>
    >>> tables["vote", "age"]
    vote \\ age  old     young
    no          0.0000  0.5000
    yes         0.5000  0.0000
    >>> (tables + tables).totals
    array([4.])
    """

    # Making

    @classmethod
    def count(cls, source: RecordSource, order: int = 2, *, threads: int | None = None) -> Tables:
        """Return the counts of every pair (or triple) of variables that records show together.

        The counts do not depend on the order of the records, on blocks or on threads, to the byte.

        Parameters
        ----------
        source
            Records, or another source of blocks of records.
        order
            2 for pairs, 3 for triples.
        threads
            How many threads count; None for as many as there are cores.
        """
        columns, heaviest = dict(getattr(source, "number_columns", {})), source.weight_totals.largest
        return cls.of_counted(source.schema, count_sets(source, order, threads), heaviest, columns)

    @classmethod
    def of_counted(cls, schema: Schema, counted: CountedSets, heaviest: float, columns: Mapping[str, str]) -> Tables:
        """Return the tables of sets of variables that were counted, with the columns of weights and counts."""
        sets, flat, squares, bases = counted
        weights: Any = None
        if squares is not None:
            weights = effective_weights(flat_totals(flat, flat_starts(schema, sets)), squares)
        return cls(schema, sets, flat, weights, heaviest=heaviest, bases=bases, number_columns=columns)

    @classmethod
    def from_crosstabs(
        cls,
        tables: Any,
        *,
        kind: TableKind | Mapping[Key, TableKind] = "counts",
        schema: Schema | None = None,
        totals: float | Mapping[Key, float] | None = None,
        weights: Mapping[Key, float] | None = None,
        standard_errors: Mapping[Key, Any] | None = None,
        margins: Mapping[str, Mapping[Label, Any]] | None = None,
    ) -> Tables:
        """Return the counts behind published cross-tabulations.

        Parameters
        ----------
        tables
            A mapping of (row variable, column variable) to pandas, polars or pyarrow frames, or pairs of
            these. A frame has row labels in its index (pandas) or first column and column labels as
            headers; or it is long, with a column for each variable and one of values. Instead of a
            mapping, one frame of many tables may have the columns row_variable, row_category,
            column_variable, column_category, value, as `to_frame` writes.
        kind
            What the numbers are: "counts", "joint" (shares of the whole), "row" or "column" (each row,
            or column, adds up to 100 %). One for all, or a mapping with an entry for each table.
        schema
            Variables and categories. Found in the tables if not given, in the order in which they come.
        totals
            The number of records behind a table: one for all, or a mapping. Counts are scaled to it.
        weights
            How many records a table should count as in a fit, where that is not its total.
        standard_errors
            Instead of a weight, the standard error of a published proportion, or a frame of them: the
            table counts as mean p·(1 − p) / se² records, for "row" and "column" in each row or column.
        margins
            For each variable, category and share: overall shares that "row" and "column" tables need.

        Notes
        -----
        A cell is a number of 0 or more, also "1,234", "45%", a dash for zero or "<1%" for half of that.
        Shares may be off by what rounding explains. Rows and columns called total, all, sum, base, N,
        unweighted base and the like are margins, unless the schema lists them as categories.

        "row" and "column" tables become joint ones with the overall shares of the variable that they
        condition on. These come from a base of counts in the table; else from ``margins``; else from
        other tables with the variable; else from the overall distribution of the other variable, its
        total, by nonnegative least squares over all tables that have one.

        A category that other tables have and a table of counts lacks has zero counts there, with a
        note; percentages must give every category. Labels that look like numbers are numbers if all
        labels of that variable do. The same pair twice, or the other way round, is added. A table that
        rests on an unknown number of records counts as the median of the known ones, or as 1000, with
        a note.

        Examples
        --------
        >>> import pandas as pd
        >>> vote = pd.DataFrame({"no": ["70%", "40%"], "yes": ["30%", "60%"]}, index=["young", "old"])
        >>> shares = {"age": {"young": 0.25, "old": 0.75}}
        >>> tables = Tables.from_crosstabs({("age", "vote"): vote}, kind="row", totals=2000, margins=shares)
        >>> tables.marginal("vote")
        vote  probability
        no    0.4750
        yes   0.5250
        """
        from twoway.tables.crosstabs.crosstabs import read_crosstabs

        schema, entries, notes = read_crosstabs(tables, kind, schema, totals, weights, standard_errors, margins)
        return cls(schema, *flat_entries(2, entries), tuple(notes))

    # Combining

    def __add__(self, other: Tables) -> Tables:
        """Return the sum of two sets of tables; a category that one side lacks counts as zero there, with a note."""
        if not isinstance(other, Tables):
            return NotImplemented
        if self.order != other.order:
            raise DataError(f"tables of {self.order} variables and tables of {other.order} cannot be added")
        notes, releases = (*self.notes, *other.notes), (*self.releases, *other.releases)
        # A release may have no count left because of its noise; still, what is added to it has none of its promise.
        if releases and any(len(part) and not part.releases for part in (self, other)):
            notes = (*notes, _NO_PROMISE)
        schema = merge_schemas(self.schema, other.schema)
        lacking = [
            f"some of the tables that were added lack categories of {name!r}, which count as zero there"
            for name in self.schema.names
            if name in other.schema and min(len(self.schema[name]), len(other.schema[name])) < len(schema[name])
        ]
        return self._sum([self, other], schema, (*notes, *lacking), releases)

    def __radd__(self, other: object) -> Tables:
        # sum() starts from 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    @classmethod
    def _sum(
        cls, parents: Sequence[Tables], schema: Schema, notes: Iterable[str], releases: Iterable[Release]
    ) -> Tables:
        """Return the sum of one or two sets of tables in a schema with all categories of the variables they share."""
        first, last = parents[0], parents[-1]
        is_aligned = first is not last and first.schema == last.schema and np.array_equal(first.sets, last.sets)

        def added(flats: Sequence[Floats]) -> tuple[NDArray[np.int32], Floats, Floats]:
            if is_aligned:
                weights = effective_weights(first.totals + last.totals, first.squares + last.squares)
                return first.sets, flats[0] + flats[1], weights
            entries = (part.entries_in(schema, flat) for part, flat in zip(parents, flats, strict=True))
            return flat_entries(first.order, chain.from_iterable(entries))

        sets, flat, weights = added([parent.flat for parent in parents])
        of_parents = cls._bases_of(parents)
        bases = None if of_parents is None else np.stack([added(row)[1] for row in zip(*of_parents, strict=True)])
        ranks, noise, empty = flat_ranks(schema, sets), np.zeros(len(sets)), []
        for parent in parents:
            place_of = np.array([schema.index(name) if name in schema else -1 for name in parent.schema.names])
            counted, uncounted = (np.sort(place_of[some], axis=1) for some in (parent.sets, parent.empty))
            known = (counted >= 0).all(axis=1)
            np.add.at(noise, np.searchsorted(ranks, flat_ranks(schema, counted[known])), parent.noise[known])
            empty.append(uncounted[(uncounted >= 0).all(axis=1)])
        heaviest = [parent.heaviest for parent in parents if parent.heaviest is not None]
        more: dict[str, Any] = {"noise": noise, "empty": np.vstack(empty), "bases": bases}
        more["heaviest"] = max(heaviest) if len(heaviest) == len(parents) else None
        more["number_columns"] = first.number_columns if first.number_columns == last.number_columns else {}
        return cls(schema, sets, flat, weights, tuple(notes), tuple(releases), **more)

    @staticmethod
    def _bases_of(parents: Sequence[Tables]) -> list[Floats] | None:
        """Return the bases of each of some tables, None where one does not know them, or none needs them."""
        bases = [np.stack([part.flat, part.flat]) if part.is_plain else part.bases for part in parents]
        known = [numbers for numbers in bases if numbers is not None]
        is_needed = any(part.bases is not None for part in parents)
        return known if is_needed and len(known) == len(parents) else None

    def recoded(self, schema: Schema) -> Tables:
        """Return the tables of a schema's variables, coded by that schema, which has all their categories."""
        return self._sum([self], schema, self.notes, self.releases)

    def subset(self, names: Sequence[str]) -> Tables:
        """Return the tables of some variables only; the variables are then in the order given."""
        return self.recoded(self.schema.subset(names))

    # Leaving

    def with_noise(
        self,
        epsilon: float,
        delta: float,
        *,
        max_weight: float | None = None,
        public_schema: bool = False,
        seed: int | None = None,
    ) -> Tables:
        """Return the tables with Gaussian noise on every count, so that no single record shows in all of them together.

        The noise is the least that gives (ε, δ)-differential privacy for one record added or removed, which changes
        one count in each table. All tables that were counted are released, also those without a single record, so
        that the list of tables reveals nothing. A table's counts are then moved to the nearest nonnegative ones with
        the same total, and it weighs as many records in a fit as they are worth. ``releases`` and notes record
        the promise; other notes are left out, and `privacy` is the promise of all releases together.

        Parameters
        ----------
        epsilon, delta
            How much the counts may reveal: ε around 1, δ well below one over the number of records.
        max_weight
            The largest weight that a record can have, or that one person's records can have together: a number that
            does not come from the records. The default, 1, is for records without weights only.
        public_schema
            Noise does not hide variables and categories. They must have been declared, with a schema that the records
            were read with; True where they were found in the records and may be public. Values of
            categories that were found in the records, such as the means of bins, are left out.
        seed
            For tests: whoever knows it can remove the noise. The system's own randomness by default.

        Examples
        --------
        >>> from twoway.data.records import Records
        >>> from twoway.schema import Schema, Variable
        >>> schema = Schema((Variable("age", ("young", "old")), Variable("vote", ("no", "yes"))))
        >>> records = Records({"age": ["young", "old"] * 500, "vote": ["no", "yes"] * 500}, schema=schema)
        >>> noisy = Tables.count(records).with_noise(1.0, 1e-6)
        >>> round(noisy.releases[0].sigma, 2)
        4.22
        >>> print((noisy + noisy).privacy)
        2 releases together: ε = 1.455, δ = 1e-06 (ρ = 0.05603)
        """
        return release_tables(self, epsilon, delta, max_weight, public_schema=public_schema, seed=seed)

    @property
    def privacy(self) -> TotalPrivacy | None:
        """The promise of all releases together, if they were about the same people; None where there is none.

        Releases about different people promise more: each record was in one of them.
        """
        return TotalPrivacy.of(self.releases) if self.releases and _NO_PROMISE not in self.notes else None

    @property
    def lacks_totals(self) -> bool:
        """Whether the number of records behind a table is assumed, not known: it has shares or percentages."""
        return any(NO_TOTAL in note for note in self.notes)

    def as_records(self, pair_weights: Literal["counts", "equal"] = "counts") -> Records:
        """Return one weighted record for each table cell that was counted, observed in the table's variables.

        The likelihood of these records is, up to a constant, minus the sum over all tables of weight
        times KL divergence: fitting them is fitting the tables.

        Parameters
        ----------
        pair_weights
            "counts": a table's records weigh as much as the table, ``weights``. "equal": each
            table's records weigh the mean of that.
        """
        check_known("way of weighing pairs", ("counts", "equal"), pair_weights)
        from twoway.data.records import Records

        weights = self.weights
        if pair_weights == "equal":
            weights = np.full(len(self), weights.sum() / max(len(self), 1))
        counted = np.flatnonzero(self.flat)
        table = self.table_of_cell[counted]
        pointers = np.arange(0, counted.size * self.order + 1, self.order, dtype=np.int64)
        cells = self.cells(counted).astype(np.min_scalar_type(self.schema.n_categories - 1)).ravel()
        return Records.from_cells(self.schema, pointers, cells, self.flat[counted] * (weights / self.totals)[table])

    def to_frame(self, library: str = "pandas") -> Any:
        """Return a frame of one row for each cell of each table, zeros too.

        Its columns are row_variable, row_category, column_variable, column_category (for triples
        layer_variable and layer_category) and value, with weight where a table's weight is not its
        total. `from_crosstabs` reads pairs back. Where categories are of several types, other libraries
        than pandas get all of them as text.

        Parameters
        ----------
        library
            "pandas", "polars" or "pyarrow".
        """
        labels = [label for variable in self.schema for label in variable.categories]
        if library != "pandas" and len({type(label) for label in labels}) > 1:
            labels = [str(label) for label in labels]
        label_of_cell, name_of_cell = label_array(labels), np.repeat(label_array(self.schema.names), self.schema.sizes)
        columns: dict[str, NDArray[Any]] = {}
        for (variable, category), cells in zip(_AXES, self.cells(np.arange(self.flat.size)).T, strict=False):
            columns |= {variable: name_of_cell[cells], category: label_of_cell[cells]}
        columns["value"] = self.flat
        if not np.array_equal(self.weights, self.totals):
            columns["weight"] = self.per_cell(self.weights)
        return make_frame(columns, library)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tables to one file, whole or not at all; the same tables give the same bytes."""
        header = {"schema": self.schema.to_dict(), "notes": list(self.notes)}
        header |= {"releases": [asdict(release) for release in self.releases]} if self.releases else {}
        header |= {"heaviest": self.heaviest} if self.heaviest is not None else {}
        header |= {"columns": dict(self.number_columns)} if self.number_columns else {}
        arrays: dict[str, NDArray[Any]] = {"sets": self.sets, "flat": self.flat, "weights": self.weights}
        arrays |= {"noise": self.noise} if self.noise.any() else {}
        arrays |= {"empty": self.empty} if self.empty.size else {}
        arrays |= {"bases": self.bases} if self.bases is not None else {}
        write_container(path, "tables", header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tables:
        """Return the tables of a file that `save` wrote."""
        header, arrays = read_container(path, "tables")
        with checked_content(path, "tables file"):
            schema, notes = Schema.from_dict(header["schema"]), tuple(map(str, header["notes"]))
            more: dict[str, Any] = {name: arrays.get(name) for name in ("noise", "empty", "bases")}  # may be absent
            more["heaviest"] = None if (heaviest := header.get("heaviest")) is None else float(heaviest)
            more["number_columns"] = {str(what): str(column) for what, column in header.get("columns", {}).items()}
            more["releases"] = tuple(Release(**release) for release in header.get("releases", ()))
            return cls(schema, arrays["sets"], arrays["flat"], arrays["weights"], notes, **more)
