"""The layout of tables, counts of many sets of variables in one array, and questions about them; one class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Bools, Floats, Ints, sums_by
from twoway.category_labels import Label
from twoway.data.distribution import MAX_ROWS, Distribution
from twoway.data.flat_counts import (
    NO_TOTAL,
    NOMINAL_TOTAL,
    Entry,
    FlatCounts,
    are_flat_shares,
    checked_sets,
    flat_ranks,
    flat_starts,
    flat_totals,
)
from twoway.data.weights import effective_weights
from twoway.errors import DataError, UnknownNameError
from twoway.notebook import html_text, notebook_table
from twoway.schema import Schema
from twoway.tables.pair_graph import PairGraph
from twoway.tables.privacy import Release
from twoway.text import counted, crossed_text, shortlist

# Of a table's total and weight: their squares can be added.
_LEAST_COUNT, _MOST_COUNT = 1e-150, 1e150


@dataclass(frozen=True, eq=False, repr=False)
class TableLayout(FlatCounts):
    """Counts of sets of variables, checked when they are made; see `Tables`."""

    schema: Schema
    sets: NDArray[np.int32]
    flat: Floats
    weights: Floats = None  # type: ignore[assignment]  # set in __post_init__
    notes: tuple[str, ...] = ()
    releases: tuple[Release, ...] = ()
    heaviest: float | None = None
    noise: Floats = None  # type: ignore[assignment]  # set in __post_init__
    empty: NDArray[np.int32] = None  # type: ignore[assignment]  # set in __post_init__
    """Sets of variables that were counted but have no records together; shape (n_empty, order)."""
    bases: Floats | None = None
    number_columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sets, flat = checked_sets(self.schema, "sets", self.sets), np.asarray(self.flat, dtype=np.float64)
        if (np.diff(flat_ranks(self.schema, sets)) <= 0).any():
            raise DataError("the rows of sets must be in lexicographic order without duplicates")
        vars(self).update(sets=sets, flat=flat, notes=tuple(dict.fromkeys(self.notes)))
        self._check_counts()
        starts, totals = self.starts, self.totals
        weights = self._assumed_weights(totals) if self.weights is None else np.array(self.weights, dtype=np.float64)
        noise = np.zeros(len(sets)) if self.noise is None else np.array(self.noise, dtype=np.float64)
        for name, numbers in (("weights", weights), ("noise", noise)):
            if numbers.shape != totals.shape:
                raise DataError(f"{name} must have the shape {totals.shape}, one per table; got {numbers.shape}")
        if not (np.isfinite(noise) & (noise >= 0)).all():
            raise DataError("noise must be finite and not negative")
        bases = None if self.bases is None else np.array(self.bases, dtype=np.float64)
        if bases is not None and not (bases.shape == (2, flat.size) and (np.isfinite(bases) & (bases >= 0)).all()):
            raise DataError(f"bases must be numbers of 0 or more of the shape {(2, flat.size)}; got {bases.shape}")
        is_counted = totals > 0
        for name, numbers in (("total", totals), ("weight", weights)):
            self._check_size(name, np.where(is_counted, numbers, 1.0))
        named = sets[:0] if self.empty is None else checked_sets(self.schema, "empty", self.empty, (self.order,))
        known = np.vstack([named, sets[~is_counted]])
        ranks, first = np.unique(flat_ranks(self.schema, known), return_index=True)
        empty = known[first[~np.isin(ranks, flat_ranks(self.schema, sets[is_counted]))]]
        if not is_counted.all():
            is_counted_cell = self.per_cell(is_counted)
            flat, bases = flat[is_counted_cell], None if bases is None else bases[:, is_counted_cell]
            sets, totals, weights, noise = sets[is_counted], totals[is_counted], weights[is_counted], noise[is_counted]
            starts = flat_starts(self.schema, sets)
        elif flat.flags.writeable:
            flat = flat.copy()
        arrays = {"sets": sets, "flat": flat, "starts": starts, "totals": totals, "weights": weights, "noise": noise}
        for array in (*arrays.values(), empty, *(() if bases is None else (bases,))):
            array.flags.writeable = False
        vars(self).update(arrays, empty=empty, bases=bases)

    def _assumed_weights(self, totals: Floats) -> Floats:
        """Return each table's own total, or a usual one with a note where it has shares."""
        shares = are_flat_shares(self.flat, self.starts)
        if not shares.any():
            return totals
        # Beside shares, a table of whole numbers that adds up to the same is one, too.
        shares |= np.isin(totals, (1.0, 100.0))
        usual = float(np.median(totals[~shares])) if not shares.all() else NOMINAL_TOTAL
        tables = f"{crossed_text(self.names[int(np.flatnonzero(shares)[0])])} has"
        if (n_tables := int(shares.sum())) > 1:
            tables = f"{n_tables} tables of shares have"
        vars(self).update(notes=(*self.notes, f"{tables} {NO_TOTAL} {usual:g} records"))
        return np.where(shares, usual, totals)

    def _check_counts(self) -> None:
        """Raise where there are not as many counts as cells, or one of them is not a valid count."""
        flat = self.flat
        if flat.shape != (self.starts[-1],):
            raise DataError(f"the tables have {self.starts[-1]} cells together; got counts of the shape {flat.shape}")
        bad = np.flatnonzero(~((flat >= 0) & (flat <= _MOST_COUNT)))
        if bad.size:
            cell = ", ".join(f"{name!r} = {label!r}" for name, label in self.labels(bad[0]).items())
            allowed = f"at most {_MOST_COUNT:g}" if _MOST_COUNT < flat[bad[0]] < np.inf else "a number of 0 or more"
            raise DataError(f"a count must be {allowed}; at {cell} it is {flat[bad[0]]}")

    def _check_size(self, what: str, numbers: Floats) -> None:
        """Raise where a table's total or weight is too small or too large to be squared."""
        wrong = np.flatnonzero(~((numbers >= _LEAST_COUNT) & (numbers <= _MOST_COUNT)))
        if wrong.size:
            names = " × ".join(repr(self.schema.names[position]) for position in self.sets[wrong[0]])
            raise DataError(
                f"a table's {what} must be between {_LEAST_COUNT:g} and {_MOST_COUNT:g}; that of {names} is "
                f"{float(numbers[wrong[0]])!r}"
            )

    @property
    def squares(self) -> Floats:
        """The sum of the squared weights of each table's records, shape (n_tables,); such sums add as totals do."""
        return effective_weights(self.totals, self.weights)  # (Σw)² over the effective number

    @property
    def is_plain(self) -> bool:
        """Whether a count is a number of records: they have no weights."""
        return self.bases is None and np.array_equal(self.weights, self.totals)

    @property
    def n_records(self) -> Floats:
        """The number of records behind each table, shape (n_tables,); an effective one where no other is known."""
        return self.weights if self.bases is None else flat_totals(self.bases[0], self.starts)

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

    def array(self, index: int) -> Floats:
        """Return the counts of the table at a position: a read-only view, axes in schema order."""
        shape = [self.schema.sizes[position] for position in self.sets[index]]
        return self.flat[self.starts[index] : self.starts[index + 1]].reshape(shape)

    def counts_of(self, index: int, positions: Sequence[int]) -> Floats:
        """Return the counts of some variables, in schema order, in a table at a position that has them all."""
        return sums_by(self.array(index), np.flatnonzero(np.isin(self.sets[index], positions)))

    def cells(self, entries: Ints) -> Ints:
        """Return the cells, in the schema's numbering, that entries of ``flat`` count; shape (n_entries, order)."""
        table = np.searchsorted(self.starts, entries, side="right") - 1
        cells = np.empty((len(entries), self.order), dtype=np.int64)
        sizes = np.array(self.schema.sizes, dtype=np.int64)
        rest = entries - self.starts[table]
        for axis in reversed(range(self.order)):
            variable = self.sets[table, axis]
            rest, code = np.divmod(rest, sizes[variable])
            cells[:, axis] = self.schema.offsets[variable] + code
        return cells

    def labels(self, entry: int) -> dict[str, Label]:
        """Return the variables and categories that an entry of ``flat`` counts."""
        table = int(np.searchsorted(self.starts, entry, side="right")) - 1
        variables = [self.schema.variables[position] for position in self.sets[table]]
        codes = np.unravel_index(entry - self.starts[table], [len(variable) for variable in variables])
        return {variable.name: variable.categories[code] for variable, code in zip(variables, codes, strict=True)}

    def __iter__(self) -> Iterator[Distribution]:
        return (self[names] for names in self.names)

    def __contains__(self, names: object) -> bool:
        if not isinstance(names, tuple) or not all(name in self.schema for name in names):
            return False
        return tuple(sorted(self.schema.index(name) for name in names)) in self._positions

    def __getitem__(self, names: tuple[str, ...]) -> Distribution:
        """Return one table as a distribution, its axes in the order asked for."""
        asked = self.schema.indices(names)
        if tuple(sorted(asked)) not in self._positions:
            raise self._no_table(asked)
        return self.marginal(names)

    def marginal(self, names: str | Sequence[str]) -> Distribution:
        """Return the distribution of variables that are together in a table.

        Fewer variables than a table has are pooled over all tables that have them, each with its
        total; ``total`` is then that of the largest of these tables.

        Examples
        --------
        >>> from twoway.data.records import Records
        >>> from twoway.tables.tables import Tables
        >>> tables = Tables.count(Records({"a": [0, 1, 1], "b": [0, 0, 1], "c": [1, None, 0]}))
        >>> tables.marginal("a")
        a  probability
        0  0.4000
        1  0.6000
        """
        asked = self.schema.indices(names)
        if not asked:
            raise DataError("a marginal needs at least one variable; got none")
        order = sorted(asked)
        known = self._positions.get(tuple(order))
        holding = [known] if known is not None else self.holding(asked).tolist()
        if not holding:
            raise self._no_table(asked)
        counts = np.zeros([self.schema.sizes[position] for position in order])
        for index in holding:
            counts += self.counts_of(index, asked)
        shares = np.transpose(counts / counts.sum(), [order.index(position) for position in asked])
        variables = [self.schema.variables[position] for position in asked]
        return Distribution(variables, shares, float(self.totals[holding].max()))

    def _no_table(self, asked: Sequence[int]) -> UnknownNameError:
        names = self.schema.names
        parts = [f"no table has {' × '.join(repr(names[position]) for position in asked)}"]
        for position in asked if len(asked) > 1 else []:
            beside = [names[other] for other in np.flatnonzero(self.together[position])]
            parts.append(f"{names[position]!r} has tables with {shortlist(beside) or 'none'}")
        if len(asked) > self.order or len(asked) == 1:
            known = [" × ".join(table) for table in self.names]
            parts.append(f"tables of {self.order} variables: {shortlist(known) or 'none'}")
        return UnknownNameError("; ".join(parts))

    def entries_in(self, schema: Schema, flat: Floats) -> Iterator[Entry]:
        """Yield the tables whose variables are all in another schema, with its categories; numbers as in ``flat``."""
        places = {
            index: (schema.index(v.name), [schema[v.name].code(label) for label in v.categories])
            for index, v in enumerate(self.schema)
            if v.name in schema
        }
        for index, row in enumerate(self.sets.tolist()):
            if all(position in places for position in row):
                positions, codes = zip(*(places[position] for position in row), strict=True)
                counts = np.zeros([schema.sizes[position] for position in positions])
                numbers = flat[self.starts[index] : self.starts[index + 1]]
                counts[np.ix_(*codes)] = numbers.reshape([len(axis) for axis in codes])
                yield positions, counts, float(self.weights[index])

    def select(self, names: Iterable[Sequence[str]]) -> Self:
        """Return some of the tables, each named by its variables in any order; all variables stay.

        A table that was counted but has no records may be named: with noise it is released like the others.
        """
        is_selected = np.zeros(len(self), dtype=bool)
        counted = {tuple(row) for row in self.empty.tolist()}
        empty = []
        for table in names:
            positions = self.schema.indices(table)
            variables = tuple(sorted(positions))
            if variables in self._positions:
                is_selected[self._positions[variables]] = True
            elif variables in counted:
                empty.append(variables)
            else:
                raise self._no_table(positions)
        return self.part(is_selected, empty)

    def sample(self, n_tables: int, n_cells: int, random: np.random.Generator) -> Self:
        """Return at most ``n_tables`` random tables with at most ``n_cells`` cells in total; all if they are fewer.

        At least one table, however large, if there is one.
        """
        if len(self) <= n_tables and len(self.flat) <= n_cells:
            return self
        order = random.permutation(len(self))[:n_tables]
        is_within = np.cumsum(np.diff(self.starts)[order]) <= n_cells
        is_within[0] = True
        return self.part(np.isin(np.arange(len(self)), order[is_within]))

    def part(self, is_selected: Bools, empty: Sequence[tuple[int, ...]] = ()) -> Self:
        """Return the tables that a mask (n_tables,) selects, and some of those without a single record."""
        is_selected_cell = self.per_cell(is_selected)
        bases = None if self.bases is None else self.bases[:, is_selected_cell]
        uncounted = np.array(empty, dtype=np.int32).reshape(-1, self.order)
        per_table = {name: getattr(self, name)[is_selected] for name in ("sets", "weights", "noise")}
        return replace(self, **per_table, flat=self.flat[is_selected_cell], empty=uncounted, bases=bases)

    def components(self) -> tuple[tuple[str, ...], ...]:
        """Return the groups of variables that tables connect, directly or through others.

        Examples
        --------
        >>> from twoway.data.records import Records
        >>> from twoway.tables.tables import Tables
        >>> Tables.count(Records({"a": [0, 1, None], "b": [1, 1, None], "c": [None, None, 2]})).components()
        (('a', 'b'), ('c',))
        """
        groups = PairGraph(self.together, self.schema.sizes).groups()
        return tuple(tuple(self.schema.names[position] for position in group) for group in groups)

    @property
    def is_connected(self) -> bool:
        """Whether tables connect every variable with every other, directly or through others."""
        return len(self.components()) == 1

    def check_connected(self) -> None:
        """Raise where the tables do not connect all variables."""
        if len(self) == 0:
            raise DataError(
                f"there is no table of {shortlist(self.schema.names)}: no {self.order} variables were observed "
                "together; if you have records, fit them with solver='em'"
            )
        groups = self.components()
        if len(groups) > 1:
            smallest = min(groups, key=len)
            raise DataError(
                f"no table connects {shortlist(smallest)} with the other variables; add a table that does, "
                "or fit the groups separately: " + "; ".join(shortlist(group, 4) for group in groups[:4])
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TableLayout):
            return NotImplemented
        return self.schema == other.schema and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in ("sets", "flat", "weights", "bases")
        )

    __hash__ = None  # type: ignore[assignment]  # arrays are compared by value

    def _repr_html_(self) -> str:
        text = f"<p>{html_text(repr(self).strip('<>'))}</p>"
        if not len(self):
            return text
        totals, more = self.totals[:MAX_ROWS], len(self) - MAX_ROWS
        listed = zip(self.names[:MAX_ROWS], totals, strict=True)
        rows = [["table", "total"], *([crossed_text(names), f"{total:,.6g}"] for names, total in listed)]
        note = f"… {counted(more, 'more table')}" if more > 0 else ""
        return text + notebook_table(rows, totals[:, None] / self.totals.max(), note)

    def __repr__(self) -> str:
        noun, of = ("pair", "triple")[self.order - 2], counted(len(self.schema), "variable")
        if not len(self):
            return f"<Tables: no {noun}s of {of}>"
        low, high = f"{self.totals.min():,.6g}", f"{self.totals.max():,.6g}"
        spread = f"total {low}" if low == high else f"totals {low} to {high}"
        notes = f", {counted(len(self.notes), 'note')}" if self.notes else ""
        return f"<Tables: {counted(len(self), noun)} of {of}, {spread}{notes}>"
