"""What a model was learned from, counted: how many records show each category, and each pair of categories."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Bools, Floats, sums_by
from twoway.data.flat_counts import FlatCounts, checked_sets
from twoway.data.stored_records import NO_NUMBERS
from twoway.data.weights import weight_per_person
from twoway.errors import DataError
from twoway.model.events import Names
from twoway.schema import Schema

if TYPE_CHECKING:
    from twoway.tables.published.tables import PublishedTables
    from twoway.tables.tables import Tables

MAX_BYTES = 20 * 10**6
"""Larger counts are left out of a model."""
_FIELDS = ("sets", "flat", "singles", "people", "squares")
_PUBLISHED = "published"


@dataclass(frozen=True, eq=False)
class Counts(FlatCounts):
    """How many records show each category, and each pair of categories; effective numbers where records have weights.

    Of published tables that do not tell their number of records, they are shares, which add up to one.

    Examples
    --------
    >>> from twoway.fitting.fit import fit
    >>> pmf = fit({"age": ["young", "old", "old", None], "vote": ["no", "yes", "yes", "yes"]}, rank=1)
    >>> pmf.counts.of("vote"), pmf.counts.of(["age", "vote"])
    (array([1., 3.]), array([[0., 2.],
           [1., 0.]]))
    """

    schema: Schema
    sets: NDArray[Any]
    """The positions of each table's variables, shape (n_tables, 2), as in `Tables`; (n_tables, 3) for triples."""
    flat: NDArray[Any]
    """The counts of all tables one after the other, each in C order."""
    singles: NDArray[Any]
    """The counts of all categories, shape (n_categories,); empty where there are tables alone."""
    people: NDArray[Any] = field(default_factory=lambda: NO_NUMBERS)
    """Where records have weights, how many there are for each of ``flat`` and then of ``singles``; empty elsewhere."""
    squares: NDArray[Any] = field(default_factory=lambda: NO_NUMBERS)
    """The sums of their squared weights, in units in which they weigh what ``flat`` and ``singles`` say."""
    published: PublishedTables | None = field(default=None, kw_only=True)
    """All that was published, where that is more than two-way tables; ``flat`` has what of it is plain pairs."""

    def __repr__(self) -> str:
        noun = ("pairs", "triples")[self.order - 2]
        return f"Counts({len(self.sets):,} {noun} of {len(self.schema)} variables)"

    def __post_init__(self) -> None:
        vars(self).update(sets=checked_sets(self.schema, "the sets of variables that were counted", self.sets))
        flat, singles = self.flat, self.singles
        if flat.shape != (self.starts[-1],) or singles.shape not in ((0,), (self.schema.n_categories,)):
            raise DataError(f"the counts have the shapes {flat.shape} and {singles.shape}")
        shapes = {self.people.shape, self.squares.shape}
        if shapes not in ({(0,)}, {(flat.size + singles.size,)}):
            raise DataError(f"the counts of records and of squared weights have the shapes {sorted(shapes)}")
        if not all(((own >= 0) & (own < np.inf)).all() for own in (flat, singles, self.people, self.squares)):
            raise DataError("the counts must be finite and not negative")

    @classmethod
    def of_tables(cls, tables: Tables, singles: Floats | None = None) -> Counts:
        """Return the counts of tables, and those of all categories where the tables are of records.

        ``singles`` are what `count_singles` returns, (3, n_categories); (1, n_categories) for records without weights.
        """
        numbers = np.ones(len(tables)) if tables.lacks_totals else tables.weights
        scale = tables.per_cell(numbers / tables.totals)
        pairs = tables.flat[None] * scale
        if tables.bases is not None:
            pairs = np.stack([pairs[0], tables.bases[0], tables.bases[1] * scale**2])
        own = np.zeros((1, 0)) if singles is None else singles
        if len(own) == 3:
            of_variable = np.add.reduceat(own, tables.schema.offsets[:-1], axis=1)
            unit = np.repeat(weight_per_person(of_variable[0], of_variable[2]), tables.schema.sizes)
            own = own * np.stack([unit, np.ones_like(unit), unit**2])
        parts = [pairs[0], own[0]]
        if len(pairs) == 3 or len(own) == 3:  # counts without weights are people, and their squares
            whole = [np.broadcast_to(some, (3, some.shape[1])) for some in (pairs, own)]
            parts += [np.concatenate([some[row] for some in whole]) for row in (1, 2)]
        return cls(tables.schema, tables.sets, *map(packed_counts, parts))

    @cached_property
    def lacks_totals(self) -> bool:
        """Whether these are shares of unknown numbers of records, as in `Tables.lacks_totals`."""
        may_be_shares = not self.singles.size and self.flat.dtype.kind == "f" and len(self.sets) > 0
        return may_be_shares and bool(np.allclose(self.totals, 1.0, rtol=1e-3))

    @property
    def tables(self) -> Tables:
        """The counts of pairs as tables."""
        from twoway.tables.tables import Tables

        bases = np.stack([self.people, self.squares])[:, : self.flat.size] if self.people.size else None
        tables = Tables(self.schema, self.sets, self.flat, bases=bases)
        return tables if self.lacks_totals else replace(tables, weights=tables.totals, notes=())

    def of(self, names: Names) -> Floats | None:
        """Return the counts of one or two variables, an axis each, in the order given; None where there are none.

        Where several tables have the variables, those of the largest.
        """
        sums = self.sums_of(names)
        return None if sums is None else sums[0]

    def sums_of(self, names: Names) -> Floats | None:
        """Return the counts as `of` does, in front of two sums like them: of records, and of their squared weights.

        Shape (3, …). All three add up over categories, so that a group has as many records as its second sum says, and
        the square of its first over its third is their effective number.
        """
        asked = self.schema.indices(names)
        if len(asked) == 1 and self.singles.size:
            return self._rows(self.singles, self.flat.size)[:, self.schema.cells(asked[0])]
        sums = (self.table_sums(index, asked) for index in self.holding(asked).tolist())
        return max(sums, key=lambda each: float(each[0].sum()), default=None)

    @property
    def n_people(self) -> int | None:
        """Of records with weights, how many show the variable seen most, whatever they weigh; None without weights."""
        if not (self.singles.size and self.people.size):
            return None
        return round(float(np.add.reduceat(self.single_sums[1], self.schema.offsets[:-1]).max()))

    @property
    def single_sums(self) -> Floats:
        """The sums of all categories: (3, n_categories) where records have weights, else (1, n_categories)."""
        return self._rows(self.singles, self.flat.size)[: 3 if self.people.size else 1]

    def _rows(self, counts: NDArray[Any], start: int) -> Floats:
        """Return some counts, records and sums of squared weights; these two start at a place of ``people``."""
        end = start + counts.size
        rows = (counts, self.people[start:end], self.squares[start:end]) if self.people.size else (counts,) * 3
        return np.array(rows, dtype=np.float64)

    @cached_property
    def together(self) -> Bools:
        """Which pairs of variables were counted or published together, shape (n_variables, n_variables)."""
        together = super().together
        for first, second in () if self.published is None else self.published.pairs_shown:
            together[first, second] = together[second, first] = True
        return together

    @cached_property
    def are_silent(self) -> Bools | None:
        """Which pairs of variables no table shows, in the shape of `together`; None where there are none.

        Records show every pair.
        """
        is_silent = ~(self.together | np.eye(len(self.schema), dtype=bool))
        return None if self.singles.size or not is_silent.any() else is_silent

    def between(self, names: Names) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return the first two of some variables that nothing shows together, and those by which tables connect them.

        None where every two of them were seen together.
        """
        together = self.together
        for pair in combinations(self.schema.indices(names), 2):
            if together[pair]:
                continue
            bridges = np.flatnonzero(together[pair[0]] & together[pair[1]]).tolist()
            if not bridges:
                from scipy.sparse.csgraph import shortest_path

                before = shortest_path(together, unweighted=True, indices=pair[0], return_predecessors=True)[1]
                step = pair[1]
                while (step := before[step]) not in (pair[0], -9999):
                    bridges.insert(0, step)
            return tuple(self.schema.names[p] for p in pair), tuple(self.schema.names[p] for p in bridges)
        return None

    def table_sums(self, index: int, asked: Sequence[int]) -> Floats:
        """Return the sums of some variables, by their positions, of the table at a place, (3, …)."""
        own = self.sets[index].tolist()
        start, end = self.starts[index : index + 2].tolist()
        sums = self._rows(self.flat[start:end], start).reshape([3, *(self.schema.sizes[position] for position in own)])
        sums = sums_by(sums, [0, *(axis for axis, position in enumerate(own, 1) if position in asked)])
        return sums if list(asked) == sorted(asked) else sums.swapaxes(1, 2)

    # Files

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a file that `from_arrays` reads."""
        fields = _FIELDS if self.people.size else _FIELDS[:3]
        arrays = {f"count_{name}": getattr(self, name) for name in fields}
        if self.published is not None:
            from twoway.tables.published.packing import packed_tables

            header, numbers = packed_tables(self.published)
            arrays[_PUBLISHED] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
            arrays |= {f"{_PUBLISHED}_{name}": own for name, own in numbers.items()}
        return arrays

    @classmethod
    def from_arrays(cls, schema: Schema, arrays: Mapping[str, NDArray[Any]]) -> Counts | None:
        """Return the counts that `arrays` wrote; None where a file has none."""
        if "count_sets" not in arrays:
            return None
        published = None
        if _PUBLISHED in arrays:
            from twoway.tables.published.packing import unpacked_tables
            from twoway.tables.published.tables import PublishedTables

            header = json.loads(arrays[_PUBLISHED].tobytes())
            start = f"{_PUBLISHED}_"
            numbers = {name.removeprefix(start): own for name, own in arrays.items() if name.startswith(start)}
            published = PublishedTables(**unpacked_tables(header, numbers))
            schema.check_same(published.schema, "the published tables and the model have different variables")
        sets, flat, singles = (arrays[f"count_{name}"] for name in _FIELDS[:3])
        people, squares = (arrays.get(f"count_{name}", NO_NUMBERS) for name in _FIELDS[3:])
        return cls(schema, sets, flat, singles, people, squares, published=published)


def packed_counts(counts: Floats) -> NDArray[Any]:
    """Return counts in the smallest type that holds them: whole numbers, or else seven digits of each."""
    most = counts.max(initial=0.0)
    is_whole = most < 2**32 and (counts == np.rint(counts)).all()
    return counts.astype(np.min_scalar_type(int(most)) if is_whole else np.float32)


def counts_left_out(n_cells: int, n_tables: int, order: int = 2, *, is_weighted: bool = False) -> list[str]:
    """Return a warning where counts of so many cells are too large for a model to keep them.

    Where records have weights, three numbers are kept of each.
    """
    if (n_bytes := 4 * ((3 if is_weighted else 1) * n_cells + order * n_tables)) <= MAX_BYTES:
        return []
    return [
        f"the model does not keep its two-way counts: they would take {n_bytes / 1e6:,.0f} MB, and at most "
        f"{MAX_BYTES / 1e6:.0f} are kept; answers are shown without what was observed"
    ]
