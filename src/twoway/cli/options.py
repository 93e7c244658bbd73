"""Options that several commands share, and the records that they describe."""

from __future__ import annotations

import functools
import inspect
import re
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

from typer import Argument, Option
from typer.models import OptionInfo

from twoway.errors import DataError, UnknownNameError, check_known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from twoway.data.files.file_set import FileSet
    from twoway.data.files.records import FileRecords
    from twoway.data.missing import MissingLabels
    from twoway.data.records import Records
    from twoway.schema import Schema, Variable

Json = Annotated[bool, Option("--json", help="Print the result as one line of JSON.")]
Force = Annotated[bool, Option("--force", help="Replace an existing output file.")]
Seed = Annotated[int, Option(help="Seed of the random numbers.")]
Model = Annotated[Path, Argument(help="A model written by `twoway fit`.")]
Out = Annotated[
    Path | None, Option("-o", "--out", help="A CSV, TSV, Parquet, Arrow or JSON lines file (default: standard output).")
]
Threads = Annotated[int | None, Option(help="The number of threads (default: all cores).")]

DataFile = Annotated[
    Path,
    Argument(
        metavar="DATA", help="Records: a CSV, TSV, Parquet, Arrow or JSON lines file, a glob pattern or a folder."
    ),
]

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
MAX_CATEGORIES = 1000
"""Columns with more distinct values are probably free text, identifiers or measurements."""


def missing_labels(given: Sequence[str] | None, only: Sequence[str] | None = None) -> MissingLabels:
    """Return the values that mean missing, in every column or in one (``income=-9,98``).

    A code that can be parsed as a number matches the text and the number. Codes for one column are separated by commas;
    codes for every column only if all of them are numbers. ``=a=b`` is the code ``a=b``.

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
            readings: list[object] = [part]
            if _NUMBER.fullmatch(part):
                readings.append(int(part) if part.lstrip("+-").isdigit() else float(part))
            (columns.setdefault(name, []) if sign else labels).extend(readings)
    return MissingLabels(labels, columns, bool(only))


def all_of(conditions: Sequence[str] | None) -> str | None:
    """Return one condition that holds where all of the given conditions hold.

    Examples
    --------
    >>> all_of(["year >= 2020"]), all_of(["a = 1 OR b = 1", "c = 1"]), all_of(None)
    ('year >= 2020', '(a = 1 OR b = 1\\n) AND (c = 1\\n)', None)
    """
    if not conditions:
        return None
    # The parenthesis goes on a new line because a condition may end in a comment.
    return conditions[0] if len(conditions) == 1 else " AND ".join(f"({condition}\n)" for condition in conditions)


def split_names(given: Iterable[str] | None, known: Sequence[str]) -> list[str]:
    """Split names at commas; a known name that contains a comma is kept whole.

    Examples
    --------
    >>> split_names(["age,vote", "a, b"], ["age", "vote", "a, b"])
    ['age', 'vote', 'a, b']
    """
    names: list[str] = []
    for text in given or ():
        names += [text] if text in known else [part.strip() for part in text.split(",") if part.strip()]
    check_known("column", known, *names)
    return list(dict.fromkeys(names))


@dataclass(frozen=True)
class Reading:
    """How a command reads records: the options as the user gave them.

    A command that takes ``reading: Annotated[Reading, "only", "drop"]`` offers these options, see `expand_reading`.
    """

    only: list[str] | None = Option(None, metavar="COLUMNS", help="Use only these columns, separated by commas.")
    drop: list[str] | None = Option(None, metavar="COLUMNS", help="Leave these columns out, separated by commas.")
    missing: list[str] | None = Option(
        None,
        metavar="[COLUMN=]CODES",
        help="Further values that mean missing, besides the empty cell, NA, N/A, n/a, NaN, nan, null, NULL and ?; "
        "for one column: income=-9,98. Repeatable.",
    )
    missing_only: list[str] | None = Option(
        None, metavar="[COLUMN=]CODES", help="Like --missing, but replaces NA and the others; empty cells stay missing."
    )
    bins: list[str] | None = Option(
        None,
        metavar="COLUMN[=N|=CUT,CUT…]",
        help="Bin a numeric column: N bins with about equally many records each (default 5), or bins that start at the "
        "given numbers: age=18,40,65.",
    )
    counts: str | None = Option(
        None, metavar="COLUMN", help="The column with the number of identical records that each row stands for."
    )
    weights: str | None = Option(None, metavar="COLUMN", help="The column with the weight of each record.")
    where: list[str] | None = Option(
        None,
        metavar="CONDITION",
        help="Use only records that meet this SQL condition: 'year >= 2020'. If repeated, all conditions must hold.",
    )
    unseen: str = Option("error", metavar="error|missing", help="How to treat labels that the model does not know.")
    extend: bool = Option(
        False, "--extend", help="Add unknown labels as new categories instead of ending with an error."
    )
    max_categories: int = Option(
        MAX_CATEGORIES, min=1, metavar="N", help="Reject columns with more distinct values than this."
    )
    offered: tuple[str, ...] = ()
    """The options that the command has."""

    def __post_init__(self) -> None:
        defaults = {name: option.default for name, option in vars(self).items() if isinstance(option, OptionInfo)}
        vars(self).update(defaults)

    @functools.cached_property
    def labels(self) -> MissingLabels:
        """What means "not observed"."""
        return missing_labels(self.missing, self.missing_only)

    @functools.cached_property
    def condition(self) -> str | None:
        """The condition that records meet."""
        return all_of(self.where)

    def choose(self, names: Sequence[str]) -> list[str]:
        """Return the columns to use, without those of counts and weights."""
        chosen, dropped = split_names(self.only, names) or names, split_names(self.drop, names)
        return [name for name in chosen if name not in (*dropped, self.counts, self.weights)]

    @property
    def options(self) -> dict[str, Any]:
        """The options of the library's readers."""
        return {"missing": self.labels, "counts": self.counts, "weights": self.weights, "where": self.condition}

    def records(self, path: Path, missing: MissingLabels | None = None) -> Records | FileRecords:
        """Return the records of a file; files too large for memory are streamed."""
        from twoway.cli.binning import parse_request
        from twoway.data.binning import bin_table, with_bins
        from twoway.data.files.file_set import find_files
        from twoway.data.files.records import FileRecords, is_large
        from twoway.data.reading import check_columns_of, with_columns_of
        from twoway.data.records import Records

        files, labels = find_files(path), missing or self.labels
        check_columns_of(files.columns, self.counts, self.weights)
        kept = self.choose(files.columns)
        if not kept:
            raise DataError(f"no column of {files.name!r} is left to use")
        is_streamed = is_large(files, kept)
        needed = [parse_request(text, kept)[0] for text in self.bins or ()] if is_streamed else kept
        columns = with_columns_of(list(dict.fromkeys(needed)), self.counts, self.weights) or []
        table = self._table(files, columns, labels) if needed else None
        bins = self._find_bins(table, labels)

        def prepare(table: Any) -> Any:
            return bin_table(table, bins, labels.by_name(bins))

        if is_streamed:
            options = {**self.options, "missing": labels, "max_categories": self.max_categories}
            records = FileRecords(files, columns=kept, prepare=prepare if bins else None, **options)
            records.schema = with_bins(records.schema, bins)
            return records
        table = prepare(table)
        _check_categories(table, kept, self.max_categories)
        read = Records(table, columns=kept, missing=labels, counts=self.counts, weights=self.weights)
        return read.with_cells(with_bins(read.schema, bins), read.pointers, read.cells)

    def _find_bins(self, table: Any, labels: MissingLabels) -> dict[str, Variable]:
        """Return the bins of numeric columns that --bins asks for; counts and weights are taken into account."""
        import numpy as np

        from twoway.cli.binning import find_bins
        from twoway.data.binning import column_numbers

        columns = [table.column(name) for name in (self.counts, self.weights) if name is not None and self.bins]
        weights = [column_numbers(column, frozenset()) for column in columns]
        # Invalid ones are reported when the records are read.
        known = [np.where(np.isfinite(numbers), numbers, 0.0) for numbers in weights if numbers is not None]
        return find_bins(table, self.bins or (), labels, np.prod(known, axis=0) if known else None)

    def _table(self, files: FileSet, columns: Sequence[str], missing: MissingLabels) -> Any:
        from twoway.data.files.reading import read_table

        table = read_table(files, columns, missing=missing, where=self.condition)
        if table.num_rows == 0:
            met = "" if self.condition is None else f" that meet the condition {self.condition!r}"
            raise DataError(f"{files.name!r} has columns but no records{met}")
        return table

    def read_by(self, schema: Schema, path: Path | FileSet) -> ReadFile:
        """Return a file whose columns are a model's variables; other columns stay in the table."""
        from twoway.data.files.reading import read_table
        from twoway.data.files.text_files import NO_TEXT
        from twoway.data.records import Records

        if self.unseen not in ("error", "missing"):
            raise DataError(f"--unseen must be error or missing, not {self.unseen!r}")
        unseen: Any = "extend" if self.extend else self.unseen
        try:
            common: dict[str, Any] = {"missing": self.labels, "schema": schema, "unseen": unseen}
            table = read_table(path, where=self.condition, **common)
            records = Records(table, counts=self.counts, weights=self.weights, **common)
        except UnknownNameError as error:
            can_extend = "extend" in self.offered and not self.extend and NO_TEXT not in str(error)
            raise UnknownNameError(f"{error}{'; --extend makes them categories' if can_extend else ''}") from error
        return ReadFile(table, records)

    def open_by(self, schema: Schema, path: Path) -> Records | FileRecords:
        """Return the records of a file whose columns are a model's variables; large files are streamed."""
        from twoway.data.files.file_set import find_files
        from twoway.data.files.records import FileRecords, is_large

        files = find_files(path)
        if self.extend or not is_large(files, schema.names):
            return self.read_by(schema, files).records
        return FileRecords(files, schema=schema, unseen=self.unseen, **self.options)  # type: ignore[arg-type]


def expand_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameter ``reading: Annotated[Reading, "only", …]`` is the options named there.

    typer reads the options of a command from its signature, and has no groups of them.
    """
    signature = inspect.signature(command, eval_str=True)
    if "reading" not in signature.parameters:
        return command
    offered: tuple[str, ...] = signature.parameters["reading"].annotation.__metadata__
    hints = get_type_hints(Reading)
    keyword = Parameter.KEYWORD_ONLY
    others = [p.replace(kind=keyword) for p in signature.parameters.values() if p.name != "reading"]
    options = [Parameter(name, keyword, default=getattr(Reading, name), annotation=hints[name]) for name in offered]

    @functools.wraps(command)
    def expanded(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in offered}
        command(reading=Reading(**chosen, offered=offered), **given)

    expanded.__signature__ = signature.replace(parameters=[*others, *options])  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in (*others, *options)}
    return expanded


class ReadFile(NamedTuple):
    """A file as it is, and as a model sees it."""

    table: Any
    """The Arrow table as it was read."""
    records: Records
    """The same as records, sorted into the bins of the model."""


def _check_categories(table: Any, names: Sequence[str], most: int) -> None:
    """Reject columns that are not categorical, all of them in one error: free text, identifiers, measurements."""
    import pyarrow as pa

    many: dict[str, int] = {}
    numbers = []
    for name in names:
        column = table.column(name)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_nested(kind):
            raise DataError(f"column {name!r} has type {kind}, which is not categorical; --drop {name!r} leaves it out")
        n_distinct = len(column.cast(kind).unique().drop_null())
        if n_distinct > most:
            many[name] = n_distinct
            if pa.types.is_integer(kind) or pa.types.is_floating(kind):
                numbers.append(name)
    if not many:
        return
    shown = [f"column {name!r} has {n:,} distinct values in {table.num_rows:,} records" for name, n in many.items()]
    texts = [name for name in many if name not in numbers]
    kinds = ["free text"] * bool(texts) + ["measurements"] * bool(numbers)
    ways = [f"--drop {','.join(names)!r} leaves {_it(names)} out" for names in (texts, numbers) if names]
    if numbers:
        ways[-1] = f"{' '.join(f'--bins {name!r}' for name in numbers)} bins {_it(numbers)}, {ways[-1]}"
    raise DataError(
        f"{'; '.join(shown)}: {', '.join(kinds)} or an identifier? {'; '.join(ways)}; "
        f"--max-categories {max(many.values())} keeps every value as a category"
    )


def _it(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"
