"""Options that several commands share, and the records that they describe."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import typer

from twoway.errors import DataError, UnknownNameError, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from twoway.data.files.records import FileRecords
    from twoway.data.missing import MissingLabels
    from twoway.data.records import Records
    from twoway.schema import Schema, Variable

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one line of JSON, for machines.")]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace an output that is there already.")]
Seed: TypeAlias = Annotated[int, typer.Option(help="Where every random choice starts from.")]
Model: TypeAlias = Annotated[Path, typer.Argument(help="A model that `twoway fit` wrote.")]
Missing: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[COLUMN=]CODES",
        help="What also means 'not observed', beside the empty cell, NA, N/A, n/a, NaN, nan, null, NULL and ?; of one "
        "column: income=-9,98. May be given several times.",
    ),
]
MissingOnly: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[COLUMN=]CODES", help="As --missing, but instead of NA and the others; the empty cell stays one."
    ),
]
Only: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="COLUMNS", help="Use these columns only, separated by commas.")
]
Drop: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="COLUMNS", help="Leave these columns out, separated by commas.")
]
Bins: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN[=N|=CUT,CUT…]",
        help="Put a column of numbers into N bins of about equally many records, 5 by default, or into bins that begin "
        "at the numbers given: age=18,40,65.",
    ),
]
Counts: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column that says how many equal records each one stands for.")
]
Weights: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column that says how much each record matters.")
]
Where: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Use the records that meet a condition in SQL: 'year >= 2020'; all of them if given several times.",
    ),
]
MaxCategories: TypeAlias = Annotated[
    int, typer.Option(min=1, metavar="N", help="Refuse columns with more distinct values than that.")
]

DataFile: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="Records: CSV, TSV, Parquet, Arrow or JSON lines; a pattern or a folder of them."
    ),
]
Unseen: TypeAlias = Annotated[
    str, typer.Option(metavar="error|missing", help="What a label gets that the model does not know.")
]
Extend: TypeAlias = Annotated[
    bool, typer.Option("--extend", help="Make a label that is not known yet a category; it is an error otherwise.")
]

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
MAX_CATEGORIES = 1000
"""More distinct values are rather free text, identifiers or measurements than categories."""


def missing_labels(given: Sequence[str] | None, only: Sequence[str] | None = None) -> MissingLabels:
    """Return what means "not observed": codes of every column, or of one (``income=-9,98``).

    A code that reads as a number is meant as text and as a number. Codes of one column are separated by commas; those
    of every column where all of them are numbers. ``=a=b`` is the code ``a=b``.

    Examples
    --------
    >>> missing_labels(["-9", "income=98,refused"])
    MissingLabels(labels=('-9', -9), columns={'income': ('98', 98, 'refused')}, only=False)
    """
    from twoway.data.missing import MissingLabels

    labels: list[object] = [""] if only else []
    columns: dict[str, list[object]] = {}
    for text in (*(given or ()), *(only or ())):
        name, sign, codes = ("", "", text[1:]) if text.startswith("=") else text.rpartition("=")
        parts = [part.strip() for part in codes.split(",")]
        if not sign and not all(map(_NUMBER.fullmatch, parts)):
            parts = [codes]
        for part in parts:
            found: list[object] = [part]
            if _NUMBER.fullmatch(part):
                found.append(int(part) if part.lstrip("+-").isdigit() else float(part))
            (columns.setdefault(name, []) if sign else labels).extend(found)
    return MissingLabels(labels, columns, bool(only))


def all_of(conditions: Sequence[str] | None) -> str | None:
    """Return the condition that records meet who meet all of those given.

    Examples
    --------
    >>> all_of(["year >= 2020"]), all_of(["a = 1 OR b = 1", "c = 1"]), all_of(None)
    ('year >= 2020', '(a = 1 OR b = 1\\n) AND (c = 1\\n)', None)
    """
    if not conditions:
        return None
    # A line of its own for the parenthesis: a condition may end in a comment.
    return conditions[0] if len(conditions) == 1 else " AND ".join(f"({condition}\n)" for condition in conditions)


def split_names(given: Iterable[str] | None, known: Sequence[str]) -> list[str]:
    """Return names that were given separated by commas; a name that holds a comma itself is one name.

    Examples
    --------
    >>> split_names(["age,vote", "a, b"], ["age", "vote", "a, b"])
    ['age', 'vote', 'a, b']
    """
    found: list[str] = []
    for text in given or ():
        parts = [text] if text in known else [part.strip() for part in text.split(",") if part.strip()]
        for name in parts:
            if name not in known:
                raise unknown("column", name, known)
        found += parts
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Reading:
    """How a command was told to read records: the options that say so, as they were given."""

    only: Sequence[str] | None = None
    drop: Sequence[str] | None = None
    missing: MissingLabels | None = None
    counts: str | None = None
    weights: str | None = None
    bins: Sequence[str] | None = None
    max_categories: int = MAX_CATEGORIES
    where: str | None = None

    @property
    def _labels(self) -> MissingLabels:
        return missing_labels(None) if self.missing is None else self.missing

    def columns(self, path: Path) -> list[str]:
        """Return the columns of a file to use, without those of counts and weights."""
        from twoway.data.files import reading as files
        from twoway.data.reading import check_columns_of

        names = files.column_names(path)
        check_columns_of(names, self.counts, self.weights)
        chosen = split_names(self.only, names) or names
        dropped = split_names(self.drop, names)
        kept = [name for name in chosen if name not in dropped and name not in (self.counts, self.weights)]
        if not kept:
            raise DataError(f"no column of {str(path)!r} is left to use")
        return kept

    def records(self, path: Path) -> Records:
        """Return the records of a file, in memory."""
        return self._read(path, self.columns(path))

    def records_of_any_size(self, path: Path) -> Records | FileRecords:
        """Return the records of a file; files too large for memory are streamed."""
        from twoway.cli.binning import parse_request
        from twoway.data.binning import bin_table, with_bins
        from twoway.data.files.records import FileRecords, is_large
        from twoway.data.reading import with_columns_of

        kept, found = self.columns(path), self._labels
        if not is_large(path, kept):
            return self._read(path, kept)
        bins: dict[str, Variable] = {}
        if self.bins:
            binned = dict.fromkeys(parse_request(text, kept)[0] for text in self.bins)
            bins = self._find_bins(self._table(path, with_columns_of(list(binned), self.counts, self.weights) or []))
        records = FileRecords(
            path,
            columns=kept,
            missing=found,
            counts=self.counts,
            weights=self.weights,
            where=self.where,
            max_categories=self.max_categories,
            prepare=(lambda table: bin_table(table, bins, found.by_name(bins))) if bins else None,
        )
        records.schema = with_bins(records.schema, bins)
        return records

    def _read(self, path: Path, kept: list[str]) -> Records:
        from twoway.data.binning import bin_table, with_bins
        from twoway.data.reading import with_columns_of
        from twoway.data.records import Records

        found = self._labels
        table = self._table(path, with_columns_of(kept, self.counts, self.weights) or [])
        bins = self._find_bins(table)
        table = bin_table(table, bins, found.by_name(bins))
        _check_categories(table, kept, self.max_categories)
        read = Records(table, columns=kept, missing=found, counts=self.counts, weights=self.weights)
        return read.with_cells(with_bins(read.schema, bins), read.pointers, read.cells)

    def _find_bins(self, table: Any) -> dict[str, Variable]:
        """Return the bins of columns of numbers, as --bins asks for them; counts and weights decide with them."""
        import numpy as np

        from twoway.cli.binning import find_bins
        from twoway.data.binning import column_numbers

        columns = [table.column(name) for name in (self.counts, self.weights) if name is not None and self.bins]
        weights = [column_numbers(column, frozenset()) for column in columns]
        # Wrong ones are reported when the records are read.
        known = [np.where(np.isfinite(numbers), numbers, 0.0) for numbers in weights if numbers is not None]
        return find_bins(table, self.bins or (), self._labels, np.prod(known, axis=0) if known else None)

    def _table(self, path: Path, columns: Sequence[str]) -> Any:
        from twoway.data.files import reading as files

        table = files.read_table(path, columns, missing=self._labels, where=self.where)
        if table.num_rows == 0:
            met = "" if self.where is None else f" that meet the condition {self.where!r}"
            raise DataError(f"{str(path)!r} has columns but no records{met}")
        return table


class ReadFile(NamedTuple):
    """A file as it is, and as a model sees it."""

    table: Any
    """The Arrow table as it was read."""
    records: Records
    """The same as records, sorted into the bins of the model."""


def read_by(
    schema: Schema,
    path: Path,
    missing: MissingLabels | None = None,
    unseen: str = "error",
    counts: str | None = None,
    weights: str | None = None,
    where: str | None = None,
    extend: bool | None = None,
) -> ReadFile:
    """Return a file whose columns are a model's variables; columns that the model does not have stay in the table.

    ``extend`` is None for commands that do not offer it.
    """
    from twoway.data.files import reading as files
    from twoway.data.files.text_types import NO_TEXT
    from twoway.data.records import Records

    if unseen not in ("error", "missing"):
        raise DataError(f"--unseen must be error or missing, not {unseen!r}")
    missing = missing or missing_labels(None)
    try:
        table = files.read_table(
            path,
            missing=missing,
            schema=schema,
            where=where,
            unseen="extend" if extend else unseen,
        )
        records = Records(
            table,
            schema=schema,
            missing=missing,
            counts=counts,
            weights=weights,
            unseen="extend" if extend else unseen,  # type: ignore[arg-type]  # checked above
        )
    except UnknownNameError as error:
        told = str(error).replace("unseen='missing'", "--unseen missing")
        can_extend = extend is False and NO_TEXT not in told
        raise UnknownNameError(told + ("; --extend makes them categories" if can_extend else "")) from error
    return ReadFile(table, records)


def open_by(
    schema: Schema,
    path: Path,
    missing: MissingLabels | None = None,
    unseen: str = "error",
    counts: str | None = None,
    weights: str | None = None,
    where: str | None = None,
    extend: bool | None = None,
) -> Records | FileRecords:
    """Return the records of a file whose columns are a model's variables; files too large for memory are streamed."""
    from twoway.data.files.records import FileRecords, is_large

    if extend or not is_large(path, schema.names):
        return read_by(schema, path, missing, unseen, counts, weights, where, extend).records
    return FileRecords(
        path,
        schema=schema,
        missing=missing or missing_labels(None),
        counts=counts,
        weights=weights,
        where=where,
        unseen=unseen,  # type: ignore[arg-type]  # checked there
    )


def _check_categories(table: Any, names: Sequence[str], most: int) -> None:
    """Refuse columns that are no categories, all of them at once: free text, identifiers, measurements."""
    import pyarrow as pa

    many: dict[str, int] = {}
    numbers = []
    for name in names:
        column = table.column(name)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_nested(kind):
            raise DataError(f"column {name!r} holds {kind}, which is no category; --drop {name!r} leaves it out")
        n_distinct = len(column.cast(kind).unique().drop_null())
        if n_distinct > most:
            many[name] = n_distinct
            if pa.types.is_integer(kind) or pa.types.is_floating(kind):
                numbers.append(name)
    if not many:
        return
    shown = [f"column {name!r} has {n:,} distinct values in {table.num_rows:,} records" for name, n in many.items()]
    texts = [name for name in many if name not in numbers]
    ways = []
    if texts:
        ways.append(f"--drop {','.join(texts)!r} leaves {_it(texts)} out")
    if numbers:
        bins = " ".join(f"--bins {name!r}" for name in numbers)
        ways.append(f"{bins} puts {_it(numbers)} into bins, --drop {','.join(numbers)!r} leaves {_it(numbers)} out")
    kinds = [*(["free text"] if texts else []), *(["measurements"] if numbers else [])]
    raise DataError(
        f"{'; '.join(shown)}: {', '.join(kinds)} or an identifier? {'; '.join(ways)}; "
        f"--max-categories {max(many.values())} takes each value as a category"
    )


def _it(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"
