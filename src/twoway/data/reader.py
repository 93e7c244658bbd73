"""The one gate for raw data: how labels, counts and weights are read, wherever the rows are.

Rows are read twice: once to find the categories, where no schema gives them, and once to write their codes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from twoway.arrays import Array, Floats, Ints
from twoway.category_labels import sort_labels
from twoway.data.coding import CodeOf, encode_slice
from twoway.data.columns import Columns
from twoway.data.files.file_set import FileSet, find_files, is_file_path
from twoway.data.files.file_table import FileTable
from twoway.data.files.formats import FilePath
from twoway.data.merging import merge_variables
from twoway.data.missing import USUAL, AnyMissing, Markers, MissingLabels, Unseen
from twoway.data.raw_columns import RawColumns, open_raw_columns
from twoway.data.scan import Scan
from twoway.data.weights import check_counts, check_weights, weights_as_floats, weights_of_rows
from twoway.errors import DataError, check_known, check_type, check_whole_number, near_miss, warn_caller
from twoway.schema import Schema, Variable
from twoway.text import brief, shortlist

_MOST_COMPARED = 10_000
"""So many labels are searched for a near miss; more would take seconds."""


@dataclass(frozen=True)
class Reader:
    """How rows are read, wherever they are; the fields are options of `Records`.

    Rows that are not in memory have their counts and weights in columns, and cannot extend a schema.
    """

    missing: Any  # MissingLabels, once checked
    weights: Any
    counts: Any
    max_categories: int | None
    schema: Schema | None
    unseen: Unseen
    in_memory: bool = False
    declared: Columns = Columns()  # noqa: RUF009  # frozen

    def __post_init__(self) -> None:
        missing = check_reader_options(self.schema, self.missing, self.unseen, self.in_memory)
        vars(self).update(missing=self.declared.add_to(missing))
        for what in ("counts", "weights"):
            column = getattr(self.declared, what) if getattr(self, what) is None else getattr(self, what)
            vars(self)[what] = column
            if not self.in_memory and not isinstance(column, str | None):
                raise DataError(f"{what} must be the name of a column; got {type(column).__name__}")
        if self.max_categories is not None:
            check_whole_number("max_categories", self.max_categories, 1)

    @property
    def number_columns(self) -> dict[str, str]:
        """The columns of counts and weights, if there are some."""
        named = {"counts": self.counts, "weights": self.weights}
        return {what: column for what, column in named.items() if isinstance(column, str)}

    def markers(self, names: Iterable[str]) -> dict[str, Markers]:
        """Return the labels that mean "not observed" in each of some columns."""
        known = {} if self.schema is None else {variable.name: variable for variable in self.schema}
        return {name: self.missing.markers(name, known.get(name)) for name in names}

    def variable_columns(self, names: Sequence[str]) -> list[str]:
        """Return the columns used, without those of counts and weights."""
        return [name for name in self.declared.kept(names) if name not in self.number_columns.values()]

    def wanted(self, names: Sequence[str]) -> list[str] | None:
        """Return the columns to read, None where these are all; raise where those of counts or weights do not exist."""
        check_reader_columns(names, self.counts, self.weights)
        kept = self.declared.kept(names)
        if names and not kept:
            raise DataError("no column is left to use: all are declared with use = false")
        return None if kept == list(names) else reader_columns(kept, self.counts, self.weights)

    def column_of(self, names: Sequence[str]) -> dict[str, str]:
        """Return the columns that are variables by the names of these."""
        columns = self.variable_columns(names)
        if self.schema is None:
            return self.declared.new_names(columns)
        known = self.schema.columns_among(columns)
        used = set(known.values())
        return known | {column: column for column in columns if column not in used}

    def open_files(self, path: FilePath | FileSet, where: str | None = None) -> tuple[Reader, FileTable]:
        """Return how the rows of files are read, which may say themselves what their columns are, and their table."""
        files = find_files(path)
        self.declared.check(files.columns)
        reader = replace(self, declared=self.declared.over(files.declared))
        options = {"missing": reader.missing, "max_categories": reader.max_categories, "unseen": reader.unseen}
        schema = reader.schema or reader.declared.bins
        return reader, FileTable.open(files, reader.wanted(files.columns), where=where, schema=schema, **options)

    def found(self, scan: Scan, names: Sequence[str]) -> Schema:
        """Return the variables that columns are, by what a scan of them has found."""
        return scan.schema(self.column_of(names), self.missing, self.declared)

    def split(self, columns: RawColumns) -> tuple[RawColumns, Floats | None, Array | None]:
        """Return the columns of variables, what rows weigh and how many people they stand for."""
        check_reader_columns(columns.names, self.counts, self.weights)
        column_of = self.column_of(columns.names)
        rest = columns.renamed(column_of)
        of_schema = None if self.schema is None else {v.name: v.choices for v in self.schema if v.choices}
        if choices := self.declared.choices if of_schema is None else of_schema:
            rest = rest.with_choices(choices, column_of, columns)
        numbers: list[Floats | None] = []
        for what, option, check in (("counts", self.counts, check_counts), ("weights", self.weights, check_weights)):
            array = None
            if isinstance(option, str):
                array = columns.numbers(option, what)
            elif option is not None:
                array = weights_as_floats(option, what, columns.n_rows if columns.rows is None else len(columns.rows))
                array = array if columns.rows is None else array[columns.rows]
            if array is not None:
                check(array, columns.record_number)
            numbers.append(array)
        return rest, *weights_of_rows(*numbers)

    def scan(self, columns: RawColumns, weights: Floats | None, people: Array | None, **options: Any) -> Scan:
        """Return what `split` gave of some rows shows, without labels where a schema gives the categories.

        The options are those of `Scan.of`.
        """
        if self.schema is not None:
            columns = columns.select(())
        options |= {"max_categories": self.max_categories, "bins": self.declared.bins}
        return Scan.of(columns, self.markers(columns.names), weights, people, **options)

    def encode(self, columns: RawColumns, schema: Schema) -> tuple[Ints, Array, Counter[CodeOf]]:
        """Return pointers and cells of columns, and how often each code that means "not observed" occurs."""
        known = set(columns.names)
        markers = self.markers(name for name in schema.names if name in known)
        pointers = [np.zeros(1, dtype=np.int64)]
        cells: list[Array] = [np.empty(0, dtype=np.min_scalar_type(schema.n_categories - 1))]
        n_cells = 0
        missing_codes = Counter[CodeOf](
            {(name, code): n for name in markers for code, n in columns.codes_read_as_missing.get(name, {}).items()}
        )
        for start, stop in columns.slices():
            pointers_here, cells_here, codes_here = encode_slice(columns, start, stop, schema, markers, self.unseen)
            pointers.append(pointers_here[1:] + n_cells)
            cells.append(cells_here)
            n_cells += len(cells_here)
            missing_codes += codes_here
        return np.concatenate(pointers), np.concatenate(cells), missing_codes

    def set_to_missing(self, codes: Mapping[CodeOf, int], names: Sequence[str]) -> dict[str, dict[str, int]]:
        """Return how often each code meant "not observed", letters in files included, as `Records` has it."""
        column_of = self.column_of(names)
        name_of = {column: name for name, column in column_of.items()}
        letters = sum(self.declared.letters.values(), Counter[CodeOf]())
        of_letters = {(name_of[column], code): n for (column, code), n in letters.items() if column in name_of}
        counts: dict[str, dict[str, int]] = {}
        for (name, code), n in sorted({**codes, **of_letters}.items(), key=str):
            counts.setdefault(name, {})[self.declared[column_of[name]].shown_code(code)] = n
        return counts

    def warn_of_unused(self, found: Iterable[CodeOf], names: Sequence[str], schema: Schema) -> None:
        """Warn of labels given as missing that no cell has; ``found`` are those that cells have, by column or variable.

        Where a schema says how to read, other records may have them.
        """
        if self.schema is not None or not (self.missing.labels or self.missing.columns):
            return
        column_of = self.column_of(names)
        texts = {(column_of.get(name, name), str(code).strip()) for name, code in found}
        words = {str(label) for column in self.declared.columns.values() for label in column.value_labels.values()}
        words |= {str(category) for column in self.declared.columns.values() for _, category in column.codes}
        for column, given in (None, self.missing.labels), *self.missing.columns.items():
            used = words.union(USUAL, (text for name, text in texts if column in (None, name)))
            # A code may be given as text and as a number; ranges are most often wider than what occurs.
            unused = {str(label): label for label in given if not isinstance(label, tuple) and str(label) not in used}
            variables = [v for v in schema if column in (None, column_of.get(v.name))]
            if unused and variables:
                known = list(islice(chain.from_iterable(v.categories for v in variables), _MOST_COMPARED))
                hints = (near_miss(label, known).removesuffix(";") for label in unused.values())
                where = "" if column is None else f" of column {column!r}"
                hint = next(filter(None, hints), "")
                warn_caller(f"no cell{where} has {shortlist(unused.values())}, given as missing{hint}", once=True)

    def extended_schema(self, columns: RawColumns) -> Schema:
        """Return the schema with the labels that columns show beyond its categories."""
        variables = []
        for variable in self.schema or ():
            name = variable.name
            # Bins hold all numbers: no other category can be added to them.
            is_open = name in columns.names and variable.edges is None
            labels = columns.observed_labels(name, self.markers([name])[name]) if is_open else ()
            new = sort_labels(label for label in labels if variable.find(label) is None)
            variables.append(merge_variables(variable, Variable(name, tuple(new), is_found=True)) if new else variable)
        return Schema(tuple(variables))


def read(
    source: Any, reader: Reader, where: Any
) -> tuple[Schema, Ints, Array, Floats | None, Array | None, dict[str, dict[str, int]]]:
    """Return the records in a source: schema, pointers, cells, weights, people, and what was set to missing."""
    wanted = reader_columns(reader.declared.only, reader.counts, reader.weights)  # of an array, the names of all
    if isinstance(source, FileSet) or is_file_path(source):
        condition = where if isinstance(where, str) else None
        reader, table = reader.open_files(source, condition)
        source, wanted, where = table.read(), list(table.columns), where if condition is None else None
    opened = open_raw_columns(source, wanted)
    if wanted is None:
        reader.declared.check(opened.names)
        reader.missing.check_columns(opened.names, reader.schema)
    if where is not None:
        rows = np.asarray(where)
        if rows.dtype != np.bool_ or rows.shape != (opened.n_rows,):
            shown = f"{len(rows)} of type {rows.dtype}" if rows.ndim == 1 else brief(where)
            files = "; a condition in SQL is for files and databases" if isinstance(where, str) else ""
            raise DataError(f"where must be {opened.n_rows} truth values, one per record; got {shown}{files}")
        opened = opened.where(rows)
    names = opened.names
    opened, weights, people = reader.split(opened)
    scan = reader.scan(opened, weights, people, are_all=True)
    if reader.schema is None:
        schema = reader.found(scan, names)
    else:
        match_reader_columns(reader.schema, opened.names)
        schema = reader.extended_schema(opened) if reader.unseen == "extend" else reader.schema
    scan.weight_totals.check(scan.n_records)
    pointers, cells, codes = reader.encode(opened, schema)
    reader.warn_of_unused(codes, names, schema)
    return schema, pointers, cells, weights, people, reader.set_to_missing(codes, names)


def check_reader_options(schema: Any, missing: AnyMissing, unseen: Unseen, can_extend: bool = False) -> MissingLabels:
    """Return the labels that mean "not observed"; raise if an option of reading makes no sense."""
    check_type("schema", schema, Schema | None, "a Schema")
    check_type("missing", missing, Iterable | MissingLabels, 'labels that mean "not observed", or a mapping of them')
    allowed = ("error", "missing", "extend") if can_extend else ("error", "missing")
    if unseen not in allowed:
        raise DataError(f"unseen must be {', '.join(map(repr, allowed[:-1]))} or {allowed[-1]!r}, not {unseen!r}")
    return MissingLabels.of(missing)


def reader_columns(columns: Sequence[str] | None, counts: Any, weights: Any) -> list[str] | None:
    """Return columns with those that hold counts and weights; None means all."""
    if columns is None:
        return None
    return [*columns, *(name for name in (counts, weights) if isinstance(name, str) and name not in columns)]


def check_reader_columns(names: Sequence[str], counts: Any, weights: Any) -> None:
    """Raise if counts or weights name a column that does not exist, or the same one."""
    for what, name in (("counts", counts), ("weights", weights)):
        if isinstance(name, str):
            check_known("column", names, name, where=f" for the {what}")
    if isinstance(counts, str) and counts == weights:
        raise DataError(f"column {counts!r} cannot hold both counts and weights: name it as one of them")


def match_reader_columns(schema: Schema, names: Sequence[str]) -> list[str]:
    """Return the variables that have a column; columns both lacking and left over are an error."""
    known = set(names)
    absent = [name for name in schema.names if name not in known]
    extra = [name for name in names if name not in schema]
    if absent and extra:
        raise DataError(
            f"columns and variables do not match: no column for {shortlist(absent)}, and no variable for "
            f"{shortlist(extra)}{near_miss(extra[0], list(absent))} rename or drop columns so that one side is complete"
        )
    if len(absent) == len(schema):
        raise DataError(f"the data has none of the variables {shortlist(schema.names)}")
    return [name for name in schema.names if name in known]
