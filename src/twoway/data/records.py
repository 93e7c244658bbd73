"""Records: observed cells, compressed, with their counts and weights; one class, a quarter of it documentation.

`reading` is the one gate for raw data; everything behind it trusts it.
"""

from __future__ import annotations

import functools
import html
import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Array, Bools, Floats, Ints
from twoway.data.distribution import MAX_ROWS, Distribution
from twoway.data.frames import frame_library_of
from twoway.data.missing import AnyMissing, Unseen
from twoway.data.stored_records import Block, Combine, PerBlock
from twoway.data.weights import (
    WeightTotals,
    is_unit_weight,
    merged_weights,
    record_people,
    record_weights,
    scaled_weights,
    weight_per_person,
)
from twoway.errors import DataError
from twoway.notebook import notebook_table
from twoway.parallel import reduce_in_order
from twoway.schema import Schema
from twoway.text import counted, printable

if TYPE_CHECKING:
    from twoway.data.columns import Columns

WORTH_MERGING = 0.9
"""Records without weights are merged where fewer than this share of them differ."""

T = TypeVar("T")

# Blocks are large enough to hide the cost of handing them out, and few enough that their sums fit.
_BLOCK_CELLS = 2**15
_MOST_BLOCKS = 64
_MOST_DEALT = 2.0**62


class Records:
    """Records with any share of missing cells, read from a frame or an array.

    Parameters
    ----------
    source
        A pandas, polars or pyarrow frame, a 2-D numpy array, a mapping of names to columns, the name of a file
        (CSV, TSV, Parquet, Arrow, JSON lines, SPSS, Stata, SAS, Excel, OpenDocument), anything that hands out Arrow
        data (``__arrow_c_stream__``), or records.
        Text, numbers, truth values and categorical columns are categories; whole floats are integers.
    columns
        The columns to use, all by default; for an array, their names ("x0", "x1", … by default). `Columns` says what
        columns are: their labels, order, bins, names.
    where
        A truth value for each record: whether to read it. For files also a condition in SQL: "year >= 2020".
    missing
        Labels that mean "not observed", beside null, NaN and the usual text: the empty one, NA, N/A, n/a, NaN, nan,
        null, NULL and ?. A mapping names those of single columns: ``{"income": [-9, 98]}``; `MissingLabels` says both,
        and can replace the usual ones. Text is compared without surrounding space. A label that no cell has is warned
        of, unless a schema is given. The variables of the schema remember labels, so that a model reads later records
        alike.
    weights
        How much each record matters, such as the weights of a survey: numbers of 0 or more, or the name of a column
        that holds them. Their scale does not matter. With ``counts`` too, each of so many records has the weight.
    counts
        How many equal records each one stands for: whole numbers, or the name of a column that holds them.
    max_categories
        A column with more distinct values is an error. No limit by default.
    schema
        Variables and categories to read by. Found in the data if not given: numbers by size, text by
        alphabet but "5-9" before "10-14", declared categories (pandas Categorical, polars Enum, an ordered pyarrow
        dictionary) as declared.
    unseen
        What happens to a label that the schema does not have: "error"; "missing"; or "extend", a category of its own.

    Notes
    -----
    With a schema, columns beyond it are passed over and variables that have no column count as missing
    throughout, but not both at once: that is more likely a misspelt name, and an error.

    Examples
    --------
    >>> records = Records({"age": ["young", "old", None], "vote": [1, None, 0]})
    >>> records
    Records(3 records, 2 variables, 4 of 6 cells observed)
    >>> records.schema["age"].categories
    ('old', 'young')
    >>> Records({"age": ["young", "old"], "n": [10, 5]}, counts="n").total_weight
    15.0
    """

    schema: Schema
    pointers: Ints
    cells: Array
    weights: Floats | None
    """What all people that a record stands for weigh together; None where every record weighs one."""
    people: Array | None
    """How many people a record stands for; None where each of them weighs one, so that weights are counts.

    Of equal records that were merged, the number of people of one weight that are worth as much: see `merged_weights`.
    """
    heads: Array | None = None
    """How many people they are by head where that differs: where equal records with weights were merged."""
    number_columns: Mapping[str, str] = MappingProxyType({})
    """The columns of counts and weights, where these were read from columns."""
    set_to_missing: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    """The codes that meant "not observed" in each variable, with their labels in a file, and in how many records each
    was found: ``{"trust": {"99 'refused'": 12}}``. Empty cells, NA and the like are not listed, nor are the codes of
    text files and databases."""
    notes: Sequence[str] = ()
    library: str = "pandas"
    """The library of the frame that they were read from."""

    def __init__(
        self,
        source: Any,
        *,
        columns: Sequence[str] | Columns | None = None,
        where: Any = None,
        missing: AnyMissing = (),
        weights: Any = None,
        counts: Any = None,
        max_categories: int | None = None,
        schema: Schema | None = None,
        unseen: Unseen = "error",
    ) -> None:
        from twoway.data.columns import Columns
        from twoway.data.raw_columns import RawColumns
        from twoway.data.reader import Reader, read

        given = source if isinstance(source, Records) else None
        if given is not None and schema is None and columns is None and not missing:
            schema = given.schema
        declared = Columns.of(columns)
        reader = Reader(missing, weights, counts, max_categories, schema, unseen, in_memory=True, declared=declared)
        content = source if given is None else RawColumns.of_codes(given.schema, given.codes())
        self.schema, self.pointers, self.cells, self.weights, self.people, missing_codes = read(content, reader, where)
        self.set_to_missing = missing_codes if given is None else given.set_to_missing
        self.number_columns = reader.number_columns if given is None else given.number_columns
        if given is not None and counts is None and weights is None:
            given = given if where is None else given.take(np.flatnonzero(where))
            self.weights, self.people, self.heads = given.weights, given.people, given.heads
        self.library = frame_library_of(source)

    @classmethod
    def from_cells(
        cls,
        schema: Schema,
        pointers: Ints,
        cells: Array,
        weights: Floats | None = None,
        people: Array | None = None,
        heads: Array | None = None,
    ) -> Records:
        """Return records on arrays that are known to be valid; nothing is copied or checked."""
        made = cls.__new__(cls)
        vars(made).update(schema=schema, pointers=pointers, cells=cells, weights=weights, people=people, heads=heads)
        return made

    def with_cells(self, schema: Schema, pointers: Ints, cells: Array) -> Records:
        """Return records of the same people that show something else; nothing is copied or checked."""
        return Records.from_cells(schema, pointers, cells, self.weights, self.people, self.heads)

    @classmethod
    def from_block(cls, schema: Schema, block: Block) -> Records:
        """Return the records of a block; nothing is copied."""
        return cls.from_cells(schema, *block)

    @classmethod
    def joined(cls, parts: Sequence[Records]) -> Records:
        """Return the records of some parts of one schema, one part after the other, at least one; all are copied."""
        lengths = np.concatenate([np.diff(part.pointers) for part in parts])
        cells = np.concatenate([part.cells[part.pointers[0] : part.pointers[-1]] for part in parts])
        weights = people = heads = None
        if any(part.weights is not None for part in parts):
            weights = np.concatenate([record_weights(part) for part in parts])
        if any(part.people is not None for part in parts):
            people = np.concatenate([record_people(part) for part in parts])
        if any(part.heads is not None for part in parts):
            heads = np.concatenate([part.as_block().n_people for part in parts])
        pointers = np.concatenate([[0], np.cumsum(lengths)])
        return cls.from_cells(parts[0].schema, pointers, cells, weights, people, heads)

    def __len__(self) -> int:
        return self.n_records

    def __repr__(self) -> str:
        cells = f"{self.n_observed} of {self.n_records * len(self.schema)} cells observed"
        return f"Records({self.n_records} records, {len(self.schema)} variables, {cells})"

    def _repr_html_(self) -> str:
        cells = self.cells[self.pointers[0] : self.pointers[-1]]
        of_cells = np.bincount(cells, minlength=self.schema.n_categories)
        shares = np.add.reduceat(of_cells, self.schema.offsets[:-1]) / max(self.n_records, 1)
        rows = [["variable", "", "categories", "observed"]]
        for variable, share in zip(self.schema.variables[:MAX_ROWS], shares, strict=False):
            rows.append([printable(variable.name), printable(variable.label, 60), str(len(variable)), f"{share:.1%}"])
        n_hidden = len(self.schema) - MAX_ROWS
        note = f"… {counted(n_hidden, 'more variable')}" if n_hidden > 0 else ""
        return f"<p>{html.escape(repr(self))}</p>{notebook_table(rows, shares[:MAX_ROWS, None], note)}"

    @property
    def n_records(self) -> int:
        """The number of records, those that stand for several counted once."""
        return len(self.pointers) - 1

    @property
    def n_observed(self) -> int:
        """The number of observed cells."""
        return int(self.pointers[-1] - self.pointers[0])

    @property
    def n_silent(self) -> int:
        """The number of records that show nothing or weigh nothing."""
        return self.n_records - int(np.count_nonzero(self._has_say))

    @property
    def total_weight(self) -> float:
        """The sum of the records' weights."""
        return float(self.n_records) if self.weights is None else float(self.weights.sum())

    @property
    def weight_totals(self) -> WeightTotals:
        """What the records' weights add up to."""
        return WeightTotals.of(self.weights, self.people, self.n_records)

    def blocks(self) -> list[Block]:
        """Return the records in blocks of about as many cells, whatever the number of threads."""
        return self._blocks

    @functools.cached_property
    def _blocks(self) -> list[Block]:
        n_blocks = min(_MOST_BLOCKS, self.n_records, 1 + self.n_observed // _BLOCK_CELLS) or 1
        # A record costs as much as a few cells even where it is empty.
        work = self.pointers[:-1] - self.pointers[0] + 4 * np.arange(self.n_records)
        total = self.n_observed + 4 * self.n_records
        edges = np.searchsorted(work, np.linspace(0, total, n_blocks + 1))
        numbers = self.weights, self.people, self.heads
        return [
            Block(self.pointers[a : b + 1], self.cells, *(None if array is None else array[a:b] for array in numbers))
            for a, b in itertools.pairwise(edges)
        ]

    def map_reduce(self, per_block: PerBlock[T], combine: Combine[T], *, threads: int | None = None) -> T:
        """Return the combination of what ``per_block`` gives for each block, always in the same order."""
        blocks = self.blocks()
        return reduce_in_order(blocks, per_block, combine, threads=threads, n_tasks=len(blocks))

    def reweighted(self, weights: Floats | None, people: Array | None = None, heads: Array | None = None) -> Records:
        """Return the same records with other weights, for other people; cells are shared, not copied."""
        return Records.from_cells(self.schema, self.pointers, self.cells, weights, people, heads)

    def sample(self, n_observed: int, *, seed: int) -> Records:
        """Return a random part of the records with about so many observed cells; all if there are fewer."""
        if self.n_observed <= n_observed:
            return self
        return self.thinned(n_observed / self.n_observed, np.random.default_rng(seed))

    def thinned(self, share: float, random: np.random.Generator) -> Records:
        """Return a random part of the records; of a record that stands for several people, a random part of them."""
        if self.weights is None:
            return self.take(np.flatnonzero(random.uniform(size=self.n_records) < share))
        n_left = random.binomial(self._dealt, share)
        return self._part(n_left).take(np.flatnonzero(n_left))

    @property
    def _dealt(self) -> Ints:
        """The people of each record in whole numbers, so that they can be dealt out one by one."""
        people = np.rint(record_people(self))
        return np.clip(people, record_weights(self) > 0, _MOST_DEALT).astype(np.int64)

    def _part(self, n_people: Ints) -> Records:
        """Return the records with so many of the people of each that are dealt out."""
        dealt = self._dealt
        share = weight_per_person(n_people, dealt)
        # Counts stay whole numbers.
        weights = np.where(record_weights(self) == dealt, n_people.astype(np.float64), record_weights(self) * share)
        return self.reweighted(weights, None if self.people is None else self.people * share)

    def _without(self, part: Records) -> Records:
        """Return what is left of the records' people without a part of them."""
        people = None if self.people is None or part.people is None else self.people - part.people
        return self.reweighted(record_weights(self) - record_weights(part), people)

    def take(self, rows: Ints) -> Records:
        """Return some records, in the order given."""
        from twoway.kernels.compression import gather_compressed

        pointers = np.empty(len(rows) + 1, dtype=np.int64)
        cells = gather_compressed(self.pointers, self.cells, rows, pointers)
        numbers = (None if array is None else array[rows] for array in (self.weights, self.people, self.heads))
        return Records.from_cells(self.schema, pointers, cells, *numbers)

    def showing(self, variables: Bools) -> Records:
        """Return the records with only some variables shown, those marked in (n_variables,); the schema stays."""
        first, last = int(self.pointers[0]), int(self.pointers[-1])
        kept = np.repeat(variables, self.schema.sizes)[self.cells[first:last]]
        before = np.concatenate([[0], np.cumsum(kept)])
        return self.with_cells(self.schema, before[self.pointers - first], self.cells[first:last][kept])

    def narrowed(self, variables: Sequence[int]) -> Records:
        """Return the records with some variables only, by their positions in ascending order."""
        is_asked = np.isin(np.arange(len(self.schema)), list(variables))
        shown = self.showing(is_asked)
        schema = self.schema.subset([self.schema.names[variable] for variable in variables])
        is_cell_asked = np.repeat(is_asked, self.schema.sizes)
        cells = (np.cumsum(is_cell_asked) - 1).astype(np.min_scalar_type(max(schema.n_categories - 1, 0)))[shown.cells]
        return shown.with_cells(schema, shown.pointers, cells)

    def folds(self, n_folds: int, *, seed: int) -> list[tuple[Records, Records]]:
        """Return pairs of training and held-out records, each person held out once; none where there is too little.

        A record that stands for several people is split among the folds.
        """
        random = np.random.default_rng(seed)
        if self.weights is None:
            fold_of_record = random.permutation(self.n_records) % n_folds
            dealt = [(fold_of_record == fold).astype(np.int64) for fold in range(n_folds)]
        else:
            # As one pack of cards, so that folds are of one size even where a record stands for 10¹² people.
            dealt, left = [], self._dealt
            for remaining in range(n_folds, 1, -1):
                dealt.append(random.binomial(left, 1.0 / remaining))
                left = left - dealt[-1]
            dealt.append(left)
        folds = [(self._without(held), held) for held in map(self._part, dealt)]
        return [(train, held) for train, held in folds if record_weights(train).any() and record_weights(held).any()]

    def for_fit(self) -> Records:
        """Return the records that show something and weigh something, in an order that does not depend on the rows'.

        Their weights add up to the effective number of records.
        """
        records = self.with_say().canonical()
        return records.effective(records.weight_totals.unit)

    def apart_from_weight(self) -> tuple[Records, float]:
        """Return records in canonical order and what each person weighs, where that is one number; otherwise 1.

        Records without weights, so that all that is drawn from them is the same as if there were none.
        """
        totals = self.weight_totals
        each = totals.unit if totals.is_constant else 1.0
        return (self, 1.0) if is_unit_weight(each) else (self.effective(each), each)

    def effective(self, unit: float = 1.0) -> Records:
        """Return records in canonical order with weights in units of an effective record, which weighs ``unit``.

        Where all people weigh the same, so that weights are counts, and so few are equal that they would not have been
        merged, every record stands for one again.
        """
        weights, people = self.weights, self.people
        if weights is not None and people is not None:
            weights, people = scaled_weights(weights, people, unit)
        records = self.reweighted(weights, people, None if people is None else self.heads)
        is_whole = weights is not None and people is None and np.array_equal(weights, np.rint(weights))
        if weights is None or not is_whole or self.n_records < WORTH_MERGING * weights.sum():
            return records
        return records.take(np.repeat(np.arange(self.n_records), weights.astype(np.int64))).reweighted(None)

    def with_say(self) -> Records:
        """Return the records that show something and weigh something, in their order."""
        has_say = self._has_say
        return self if has_say.all() else self.take(np.flatnonzero(has_say))

    def as_block(self) -> Block:
        """Return all records as one block."""
        return Block(self.pointers, self.cells, self.weights, self.people, self.heads)

    @property
    def _has_say(self) -> Bools:
        shows: Bools = np.diff(self.pointers) > 0
        return shows if self.weights is None else shows & (self.weights > 0)

    def canonical(self) -> Records:
        """Return the records in an order of their own, equal ones merged where that makes them fewer.

        The order depends on names and labels alone, so that a fit depends on the order neither of rows nor of
        columns. Records of one length stand together, which spares the processor a wrong guess at the end of each.
        """
        from twoway.kernels.compression import compressed_as_previous, compressed_keys

        if self.n_records == 0:
            return self
        keys = compressed_keys(self.pointers, self.cells, self.schema.cell_hashes)
        # Equal records by their weights, whose sum would depend on the order of rows.
        order = np.argsort(keys, kind="stable") if self.people is None else np.lexsort((record_weights(self), keys))
        del keys
        first = ~compressed_as_previous(self.pointers, self.cells, order)
        # Weights are merged always: of two equal records, the order would decide which comes first.
        if self.weights is None and np.count_nonzero(first) >= WORTH_MERGING * self.n_records:
            return self.take(order)
        starts = np.flatnonzero(first)
        people = None if self.people is None else self.people[order]
        weights, people = merged_weights(record_weights(self)[order], people, starts)
        heads = None if people is None else np.add.reduceat(self.as_block().n_people[order], starts)
        return self.take(order[starts]).reweighted(weights, people, heads)

    def codes(self) -> NDArray[np.int32]:
        """Return the records as a matrix of category positions, -1 where missing; (n_records, n_variables)."""
        from twoway.kernels.compression import expand

        codes = np.full((self.n_records, len(self.schema)), -1, dtype=np.int32)
        variable_of_cell = np.repeat(np.arange(len(self.schema), dtype=np.int32), self.schema.sizes)
        expand(self.pointers, self.cells, variable_of_cell, self.schema.offsets, codes)
        return codes

    def cell_totals(self) -> Floats:
        """Return how often each cell was observed; shape (n_categories,)."""
        first, last = int(self.pointers[0]), int(self.pointers[-1])
        weights = None if self.weights is None else np.repeat(self.weights, np.diff(self.pointers))
        return np.bincount(self.cells[first:last], weights, minlength=self.schema.n_categories).astype(np.float64)

    def marginal(self, names: str | Sequence[str]) -> Distribution:
        """Return the shares of the categories of some variables among the records that show all of them."""
        indices = self.schema.indices(names)
        variables = tuple(self.schema.variables[index] for index in indices)
        codes = self.codes()[:, indices]
        complete = (codes >= 0).all(axis=1)
        shape = tuple(len(variable) for variable in variables)
        flat = np.ravel_multi_index(tuple(codes[complete].T), shape)
        counts = np.bincount(flat, record_weights(self)[complete], minlength=int(np.prod(shape))).reshape(shape)
        total = float(counts.sum())
        if total == 0:
            raise DataError(f"no record shows {', '.join(v.name for v in variables)} together")
        return Distribution(variables, counts / total, total=total, library=self.library)
