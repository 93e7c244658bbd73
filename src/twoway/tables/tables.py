"""Tables: counts of pairs or triples of variables, each table with its own total."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from twoway.data.distribution import Distribution
from twoway.data.frames import label_array, make_frame
from twoway.data.weighing import effective
from twoway.errors import DataError, FileFormatError, TwowayError, UnknownNameError, unknown
from twoway.schema import Label, Schema
from twoway.storage import container
from twoway.tables.layout import cells_of, check_counts, check_sets, check_size, starts_of, totals_of, without_sets
from twoway.tables.privacy import Release, TotalPrivacy
from twoway.tables.sums import NO_PROMISE, add_tables, merge_entries, recode_tables
from twoway.text import shortlist

if TYPE_CHECKING:
    from twoway.data.records import Records
    from twoway.data.source import RecordSource
    from twoway.tables.crosstabs import Key, Kind

_AXES = (("row_variable", "row_category"), ("column_variable", "column_category"), ("layer_variable", "layer_category"))


@dataclass(frozen=True, eq=False, repr=False)
class Tables:
    """Counts of some pairs (order 2) or triples (order 3) of variables.

    Every table rests on its own records: those in which all its variables were observed, or those of
    the survey that published it. A table without a single count says nothing and is left out.

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
        weights. Each table's own total where nothing is given.
    notes
        What a reader should know about how the tables came about.
    releases
        What was promised when noise was added: see `with_noise`.
    heaviest
        The largest weight of a record: 1 where records have no weights, None where nobody knows.
    noise
        The variance of the noise on each count, shape (n_tables,). 0 where nothing is given.
    empty
        More sets of variables that were counted, without a single record, as in ``sets``.

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

    schema: Schema
    sets: NDArray[np.int32]
    flat: NDArray[np.float64]
    weights: NDArray[np.float64] = None  # type: ignore[assignment]  # filled in below
    notes: tuple[str, ...] = ()
    releases: tuple[Release, ...] = ()
    heaviest: float | None = None
    noise: NDArray[np.float64] = None  # type: ignore[assignment]  # filled in below
    empty: NDArray[np.int32] = None  # type: ignore[assignment]  # filled in below
    """Sets of variables that were counted and are in no table, since no record showed them; shape (n_empty, order)."""
    starts: NDArray[np.int64] = field(init=False)
    """Where each table's counts start in ``flat``, and the end of the last; shape (n_tables + 1,)."""
    totals: NDArray[np.float64] = field(init=False)
    """The sum of each table's counts, shape (n_tables,); never zero."""

    def __post_init__(self) -> None:
        sets, flat = check_sets(self.schema, self.sets), np.asarray(self.flat, dtype=np.float64)
        starts = starts_of(self.schema, sets)
        check_counts(self.schema, sets, flat, starts)
        totals = totals_of(flat, starts)
        weights = totals if self.weights is None else np.array(self.weights, dtype=np.float64)
        if weights.shape != totals.shape:
            raise DataError(f"there are {len(totals)} tables and must be as many weights; got {weights.shape}")
        noise = np.zeros(len(sets)) if self.noise is None else np.array(self.noise, dtype=np.float64)
        if noise.shape != totals.shape or not (np.isfinite(noise) & (noise >= 0)).all():
            raise DataError(f"noise is a number of 0 or more for each of the {len(totals)} tables")
        kept = totals > 0
        for what, numbers in (("total", totals), ("weight", weights)):
            check_size(self.schema, sets[kept], what, numbers[kept])
        empty = sets[~kept]
        if self.empty is not None:
            empty = without_sets(self.schema, np.vstack([np.asarray(self.empty), empty]), sets[kept])
        if not kept.all():
            flat = flat[np.repeat(kept, np.diff(starts))]
            sets, totals, weights, noise = sets[kept], totals[kept], weights[kept], noise[kept]
            starts = starts_of(self.schema, sets)
        elif flat.flags.writeable:
            flat = flat.copy()
        arrays: dict[str, NDArray[Any]] = {
            "sets": sets,
            "flat": flat,
            "starts": starts,
            "totals": totals,
            "weights": weights,
            "noise": noise,
            "empty": empty,
        }
        for name, array in arrays.items():
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "notes", tuple(dict.fromkeys(self.notes)))

    @property
    def order(self) -> int:
        """The number of variables of each table: 2 or 3."""
        return int(self.sets.shape[1])

    @property
    def squares(self) -> NDArray[np.float64]:
        """The sum of the squared weights of each table's records, shape (n_tables,); such sums add as totals do."""
        return effective(self.totals, self.weights)  # (Σw)² over the effective number

    def __len__(self) -> int:
        return len(self.sets)

    @cached_property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """The names of each table's variables, in schema order."""
        return tuple(tuple(self.schema.names[position] for position in row) for row in self.sets.tolist())

    @property
    def pairs(self) -> tuple[tuple[str, ...], ...]:
        """The names of each table's variables, in schema order; the same as ``names``."""
        return self.names

    @cached_property
    def _positions(self) -> dict[tuple[int, ...], int]:
        return {tuple(row): position for position, row in enumerate(self.sets.tolist())}

    def array(self, index: int) -> NDArray[np.float64]:
        """Return the counts of the table at a position: a read-only view, axes in schema order."""
        shape = [self.schema.sizes[position] for position in self.sets[index]]
        return self.flat[self.starts[index] : self.starts[index + 1]].reshape(shape)

    def __iter__(self) -> Iterator[Distribution]:
        return (self[names] for names in self.names)

    def __contains__(self, names: object) -> bool:
        if not isinstance(names, tuple) or not all(name in self.schema for name in names):
            return False
        return tuple(sorted(self.schema.index(name) for name in names)) in self._positions

    def __getitem__(self, names: tuple[str, ...]) -> Distribution:
        """Return one table as a distribution, its axes in the order asked for."""
        asked = self.schema.indices(names)
        found = self._positions.get(tuple(sorted(asked)))
        if found is None:
            raise self._no_table(asked)
        return self._distribution(asked, self.array(found), float(self.totals[found]))

    def marginal(self, names: str | Sequence[str]) -> Distribution:
        """Return the distribution of variables that stand together in a table.

        Fewer variables than a table has are pooled over all tables that hold them, each with its
        total; ``total`` is then that of the largest of these tables.

        Examples
        --------
        >>> from twoway.data.records import Records
        >>> tables = Tables.count(Records({"a": [0, 1, 1], "b": [0, 0, 1], "c": [1, None, 0]}))
        >>> tables.marginal("a")
        a  probability
        0  0.4000
        1  0.6000
        """
        asked = self.schema.indices(names)
        if not asked:
            raise DataError("a marginal needs at least one variable; got none")
        holding = np.flatnonzero(np.isin(self.sets, asked).sum(axis=1) == len(asked))
        if not holding.size:
            raise self._no_table(asked)
        pooled = np.zeros([self.schema.sizes[position] for position in sorted(asked)])
        for index in holding.tolist():
            others = tuple(np.flatnonzero(~np.isin(self.sets[index], asked)).tolist())
            pooled += self.array(index).sum(axis=others)
        return self._distribution(asked, pooled, float(self.totals[holding].max()))

    def _distribution(self, asked: Sequence[int], counts: NDArray[np.float64], total: float) -> Distribution:
        """Return counts, whose axes are in schema order, as a distribution in the order asked for."""
        axes = np.argsort(np.argsort(asked))
        variables = [self.schema.variables[position] for position in asked]
        return Distribution(variables, np.transpose(counts / counts.sum(), axes), total)

    def _no_table(self, asked: Sequence[int]) -> UnknownNameError:
        names = self.schema.names
        lines = [f"no table has {' × '.join(repr(names[position]) for position in asked)}"]
        for position in asked if len(asked) > 1 else []:
            rows = self.sets[(self.sets == position).any(axis=1)]
            beside = [names[other] for other in np.unique(rows[rows != position])]
            lines.append(f"{names[position]!r} has tables with {shortlist(beside) or 'none'}")
        if len(asked) > self.order or len(asked) == 1:
            known = [" × ".join(one) for one in self.names]
            lines.append(f"tables of {self.order} variables: {shortlist(known) or 'none'}")
        return UnknownNameError("; ".join(lines))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tables):
            return NotImplemented
        return (
            self.schema == other.schema
            and np.array_equal(self.sets, other.sets)
            and np.array_equal(self.flat, other.flat)
            and np.array_equal(self.weights, other.weights)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays are compared by value

    def __repr__(self) -> str:
        noun = ("pair", "triple")[self.order - 2] + ("" if len(self) == 1 else "s")
        if not len(self):
            return f"<Tables: no {noun} of {len(self.schema)} variables>"
        low, high = f"{self.totals.min():,.6g}", f"{self.totals.max():,.6g}"
        spread = f"total {low}" if low == high else f"totals {low} to {high}"
        notes = f", {len(self.notes)} note{'s' * (len(self.notes) > 1)}" if self.notes else ""
        return f"<Tables: {len(self)} {noun} of {len(self.schema)} variables, {spread}{notes}>"

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
        from twoway.tables.counting import count_sets

        counted = count_sets(source, order, threads)
        return cls.of_counted(source.schema, *counted, heaviest=source.weight_totals.largest)

    @classmethod
    def of_counted(
        cls,
        schema: Schema,
        sets: NDArray[np.int32],
        flat: NDArray[np.float64],
        squares: NDArray[np.float64] | None,
        heaviest: float,
    ) -> Tables:
        """Return the tables of sets of variables; ``squares`` are the sums of their people's squared weights."""
        if squares is None or not len(sets):
            return cls(schema, sets, flat, heaviest=heaviest)
        return cls(schema, sets, flat, effective(totals_of(flat, starts_of(schema, sets)), squares), heaviest=heaviest)

    @classmethod
    def from_crosstabs(
        cls,
        tables: Any,
        *,
        kind: Kind | Mapping[Key, Kind] = "counts",
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
        from twoway.tables.crosstabs import read_crosstabs

        found, entries, notes = read_crosstabs(
            tables,
            kind=kind,
            schema=schema,
            totals=totals,
            weights=weights,
            standard_errors=standard_errors,
            margins=margins,
        )
        return cls(found, *merge_entries(2, entries), tuple(notes))

    # Combining

    def __add__(self, other: Tables) -> Tables:
        return add_tables(self, other) if isinstance(other, Tables) else NotImplemented

    def __radd__(self, other: object) -> Tables:
        # sum() starts from 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def recoded(self, schema: Schema) -> Tables:
        """Return the tables of a schema's variables, by that schema, which has all their categories in any order."""
        return recode_tables(self, schema)

    def subset(self, names: Sequence[str]) -> Tables:
        """Return the tables of some variables only; the variables are then in the order given."""
        return self.recoded(self.schema.subset([names] if isinstance(names, str) else names))

    def select(self, names: Iterable[Sequence[str]]) -> Tables:
        """Return some of the tables, each named by its variables in any order; all variables stay.

        One that was counted without a single record may be named: with noise it is released like the others.
        """
        kept = np.zeros(len(self), dtype=bool)
        counted = {tuple(row) for row in self.empty.tolist()}
        empty = []
        for one in names:
            asked = self.schema.indices(one)
            place = tuple(sorted(asked))
            if place in self._positions:
                kept[self._positions[place]] = True
            elif place in counted:
                empty.append(place)
            else:
                raise self._no_table(asked)
        return self._part(kept, empty)

    def sample(self, n_tables: int, n_cells: int, random: np.random.Generator) -> Tables:
        """Return a random part of the tables, at most so many with about so many cells together; all if they are fewer.

        At least one table, however large, if there is one.
        """
        if len(self) <= n_tables and len(self.flat) <= n_cells:
            return self
        order = random.permutation(len(self))[:n_tables]
        is_within = np.cumsum(np.diff(self.starts)[order]) <= n_cells
        is_within[0] = True
        kept = np.zeros(len(self), dtype=bool)
        kept[order[is_within]] = True
        return self._part(kept)

    def _part(self, kept: NDArray[np.bool_], empty: Sequence[tuple[int, ...]] = ()) -> Tables:
        """Return the tables that are marked in (n_tables,), and some of those without a single record."""
        return replace(
            self,
            sets=self.sets[kept],
            flat=self.flat[np.repeat(kept, np.diff(self.starts))],
            weights=self.weights[kept],
            noise=self.noise[kept],
            empty=np.array(empty, dtype=np.int32).reshape(-1, self.order),
        )

    def components(self) -> tuple[tuple[str, ...], ...]:
        """Return the groups of variables that tables connect, directly or through others.

        Examples
        --------
        >>> from twoway.data.records import Records
        >>> Tables.count(Records({"a": [0, 1, None], "b": [1, 1, None], "c": [None, None, 2]})).components()
        (('a', 'b'), ('c',))
        """
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        ends = np.concatenate([self.sets[:, [0, axis]] for axis in range(1, self.order)])
        shape = (len(self.schema), len(self.schema))
        _, group = connected_components(coo_array((np.ones(len(ends)), ends.T), shape=shape), directed=False)
        return tuple(
            tuple(self.schema.names[index] for index in np.flatnonzero(group == one)) for one in dict.fromkeys(group)
        )

    @property
    def is_connected(self) -> bool:
        """Whether tables connect every variable with every other, directly or through others."""
        return len(self.components()) == 1

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
        one count in each table. All tables that were counted are released, those without a single record as well, so
        that which tables there are tells nothing. A table's counts are then moved to the nearest ones without a
        negative, its total kept, and it weighs as many records in a fit as they are worth. ``releases`` and notes say
        what was promised; other notes are left out, and `privacy` says what all releases promise together.

        Parameters
        ----------
        epsilon, delta
            How much the records may show: ε around 1, δ well below one over the number of records.
        max_weight
            The largest weight that a record can have, or that one person's records can have together: a number that
            does not come from the records. 1 if not given, which goes for records without weights only.
        public_schema
            Noise does not hide variables and categories. They must have been declared, with a schema that the records
            were read by; say True where they were found in the records and everybody may know them. Values of
            categories that were found in the records, such as the means of bins, are left out.
        seed
            For tests: who knows it takes the noise off again. The system's own randomness if not given.

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
        from twoway.tables.releasing import release_tables

        return release_tables(self, epsilon, delta, max_weight, public_schema=public_schema, seed=seed)

    @property
    def privacy(self) -> TotalPrivacy | None:
        """What all releases together promise, if they were about the same people; None where nothing is promised.

        Releases about different people promise more: each record was in one of them.
        """
        return TotalPrivacy.of(self.releases) if self.releases and NO_PROMISE not in self.notes else None

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
        if pair_weights not in ("counts", "equal"):
            raise unknown("way of weighing pairs", pair_weights, ("counts", "equal"))
        from twoway.data.records import Records

        weights = (
            self.weights if pair_weights == "counts" else np.full(len(self), self.weights.sum() / max(len(self), 1))
        )
        counted = np.flatnonzero(self.flat)
        table = np.searchsorted(self.starts, counted, side="right") - 1
        return Records.from_cells(
            self.schema,
            np.arange(0, counted.size * self.order + 1, self.order, dtype=np.int64),
            self.cells(counted).astype(np.min_scalar_type(self.schema.n_categories - 1)).ravel(),
            self.flat[counted] * (weights / self.totals)[table],
        )

    def cells(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cells, in the schema's numbering, that entries of ``flat`` count; shape (n_entries, order)."""
        return cells_of(self.schema, self.sets, self.starts, entries)

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
            columns["weight"] = np.repeat(self.weights, np.diff(self.starts))
        return make_frame(columns, library)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tables to one file, whole or not at all; the same tables give the same bytes."""
        header = {"schema": self.schema.to_dict(), "notes": list(self.notes)}
        if self.releases:
            header["releases"] = [asdict(release) for release in self.releases]
        if self.heaviest is not None:
            header["heaviest"] = self.heaviest
        arrays: dict[str, NDArray[Any]] = {"sets": self.sets, "flat": self.flat, "weights": self.weights}
        arrays |= {"noise": self.noise} if self.noise.any() else {}
        arrays |= {"empty": self.empty} if self.empty.size else {}
        container.write(path, "tables", header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tables:
        """Return the tables of a file that `save` wrote."""
        header, arrays = container.read(path, "tables")
        try:
            schema, notes = Schema.from_dict(header["schema"]), tuple(str(note) for note in header["notes"])
            releases = tuple(Release(**one) for one in header.get("releases", ()))
            heaviest = header.get("heaviest")
            return cls(
                schema,
                arrays["sets"],
                arrays["flat"],
                arrays["weights"],
                notes,
                releases,
                None if heaviest is None else float(heaviest),
                arrays.get("noise"),  # type: ignore[arg-type]  # which may be lacking
                arrays.get("empty"),  # type: ignore[arg-type]
            )
        except (TwowayError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise FileFormatError(f"{str(path)!r} holds no valid tables: {error}") from error
