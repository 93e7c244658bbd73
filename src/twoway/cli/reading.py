"""How commands read records and tables: one class of the options that they share, and what these options open."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import BadParameter, Option

import twoway as tw
from twoway.cli.options import (
    bins_option,
    bins_option_columns,
    check_max_categories_option,
    missing_option,
    names_option,
    replicate_kind_option,
    rules_option,
    where_option,
)
from twoway.data.files.file_set import FileSet, find_files
from twoway.data.files.file_table import read_file_table
from twoway.data.files.text_files import NO_TEXT
from twoway.data.reader import check_reader_columns, reader_columns
from twoway.errors import DataError, UnknownNameError
from twoway.schema import first_duplicate
from twoway.storage.container import container_kind
from twoway.text import without_password

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from twoway.fitting.sources import United

OF_DATA = ("only", "drop", "missing", "missing_only", "bins", "counts", "weights", "where", "columns", "max_categories")
"""The options of commands that read files of records: `Reading.records`."""
OF_PUBLISHED = ("layout", "area", "kind", "total", "errors")
"""The options that say how to read published tables: `Reading.published`."""
OF_RULES = ("impossible", "exact")
"""The options that say what else is known of tables."""
TO_READ = (*OF_DATA, "tables", *OF_PUBLISHED, *OF_RULES, "db", "table")
"""The options of commands that read what a model can be fitted to: `Reading.source`."""
OF_DESIGN = ("strata", "units", "population", "replicate_weights", "replicate_kind")
"""The options that say how a survey was drawn: `Reading.design`."""
MAX_CATEGORIES = 1000
"""Columns with more distinct values are probably free text, identifiers or measurements."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a command reads records: the options as the user gave them.

    A command that takes ``reading: Annotated[Reading, "only", "drop"]`` offers these options, see `parsed_command`.

    Parameters
    ----------
    only : COLUMNS
        Use only these columns, separated by commas; 'q*' for all that match.
    drop : COLUMNS
        Leave these columns out, separated by commas.
    missing : [COLUMN=]CODES
        Further values that mean missing, besides the empty cell, NA, N/A, n/a, NaN, nan, null, NULL and ?; for one
        column: income=-9,refused. Without a column, only numbers are separated by commas. Repeatable.
    missing_only : [COLUMN=]CODES
        Like --missing, but replaces NA and the others; empty cells stay missing.
    bins : COLUMN[=N|=CUT,CUT…]
        Bin a numeric column: N bins with about equally many records each (default 5), or bins that start at the given
        numbers: age=18,40,65.
    counts : COLUMN
        The column with the number of identical records that each row stands for.
    weights : COLUMN
        The column with the weight of each record.
    where : CONDITION
        Use only records that meet this SQL condition: 'year >= 2020'. If repeated, all conditions must hold.
    unseen : error|missing
        How to treat labels that the model does not know.
    extend
        Add unknown labels as new categories instead of ending with an error.
    columns : TOML
        What the columns are: order, labels, codes for missing; `twoway columns` writes it.
    max_categories : N
        Reject columns with more distinct values than this.
    tables
        Instead of records, published cross-tabs: a folder with one per file, or a banner sheet.
    kind
        What the numbers in --tables are: counts, joint, row or column percentages (default: detected).
    layout : TOML
        What the rows and columns of --tables are; `twoway tables read` writes it.
    area : NAME
        The area to use, where --tables has many.
    total : N
        The number of records behind each table, if the table does not say.
    errors
        Standard errors of --tables: a file of the same shape, or a folder with NAME_se.csv or NAME_moe.csv.
    impossible : CONDITIONS
        A combination that nobody has: 'age = 0-14, marital = married'. For tables only. Repeatable.
    exact : NAMES
        Variables whose published table must hold exactly: age, or 'age, sex'. Repeatable.
    db : URL
        Instead of files, a database: postgres://user@host/db, duckdb:///file.db, …
    table : NAME
        The table of the database.
    strata : COLUMN
        The stratum of each record.
    units : COLUMN
        The primary sampling unit (cluster) of each record.
    population : COLUMN
        The number of units that the record's stratum has in the whole population.
    replicate_weights : COLUMNS
        Replicate weights of the survey, separated by commas, or a pattern: 'repw*'.
    replicate_kind : KIND[:NUMBER]
        The kind of the replicate weights: bootstrap, brr, fay or jackknife (default: recognized by their ratios to the
        weights), with Fay's coefficient, as in fay:0.3, or the factor of squared deviations, as in jackknife:0.9.
    """

    only: list[str] | None = None
    drop: list[str] | None = None
    missing: list[str] | None = None
    missing_only: list[str] | None = None
    bins: list[str] | None = None
    counts: str | None = None
    weights: str | None = None
    where: list[str] | None = None
    unseen: str = "error"
    extend: bool = False
    columns: Path | None = None
    max_categories: Annotated[int, Option(min=1)] = MAX_CATEGORIES
    tables: Path | None = None
    kind: str | None = None
    layout: Path | None = None
    area: str | None = None
    total: float | None = None
    errors: Path | None = None
    impossible: list[str] | None = None
    exact: list[str] | None = None
    db: str | None = None
    table: str | None = None
    strata: str | None = None
    units: str | None = None
    population: str | None = None
    replicate_weights: list[str] | None = None
    replicate_kind: str | None = None
    offered: tuple[str, ...] = ()
    """The options that the command has."""
    file_sets: dict[Path, FileSet] = field(default_factory=dict, repr=False)
    """The files of the names that were looked up."""

    @functools.cached_property
    def labels(self) -> tw.MissingLabels:
        """The labels that mean "not observed"."""
        return missing_option(self.missing, self.missing_only)

    def files(self, path: Path) -> FileSet:
        """Return the files that a name stands for; remote files are fetched once per command."""
        if path not in self.file_sets:
            self.file_sets[path] = find_files(path)
        return self.file_sets[path]

    @functools.cached_property
    def declared(self) -> tw.Columns:
        """What the columns are."""
        return tw.Columns() if self.columns is None else tw.Columns.load(self.columns)

    @functools.cached_property
    def condition(self) -> str | None:
        """The condition that records meet."""
        return where_option(self.where)

    def choose(self, names: Sequence[str]) -> list[str]:
        """Return the columns to use, without those of counts, weights and the design; strata are variables, too."""
        column_of = {new: name for new, name in self.declared.new_names(names).items() if new not in names}
        chosen, dropped = (
            [column_of.get(name, name) for name in names_option(option, [*names, *column_of])]
            for option in (self.only, self.drop)
        )
        replicates = names_option(self.replicate_weights, names)
        used = {*dropped, self.counts, self.weights, self.units, self.population, *replicates}
        return [name for name in chosen or names if name not in used]

    def design(self, data: Sequence[Path]) -> tw.Design | None:
        """Return the design of the sample; None without an option for it."""
        if not self.design_columns:
            return None
        columns = {what: self.design_columns[what] for what in OF_DESIGN[:3] if what in self.design_columns}
        if not columns and not self.replicate_weights:
            raise DataError("--replicate-kind needs --replicate-weights, the columns of these weights")
        if len(data) != 1 or container_kind(data[0]) is not None:
            raise DataError("the design of a survey needs its records, in one file")
        files = self.files(data[0])
        replicates = names_option(self.replicate_weights, files.columns)
        names = list(dict.fromkeys([*columns.values(), *replicates]))
        frame = read_file_table(files, names, where=self.condition).to_pandas()
        for name in replicates:
            try:
                frame[name] = frame[name].astype(float)
            except (TypeError, ValueError) as error:
                raise DataError(f"column {name!r} must hold replicate weights, which are numbers: {error}") from None
        parts = {what: frame[column] for what, column in columns.items()}
        weights = frame[replicates] if replicates else None
        return tw.Design(**parts, replicates=weights, **replicate_kind_option(self.replicate_kind))

    @property
    def design_columns(self) -> dict[str, str]:
        """The columns of the design, by the names of the options."""
        replicates = ",".join(self.replicate_weights or ())
        named = {what: getattr(self, what) for what in OF_DESIGN} | {"replicate_weights": replicates}
        return {what: column for what, column in named.items() if column}

    def like(self, columns: Mapping[str, str], data: Path | None) -> Reading:
        """Return the reading with the columns of weights, counts and design that a model or tables remember.

        Options on the command line take precedence, and "none" means no column. A column that the file lacks is an
        error; for a database (None), its reader raises it.
        """
        known, chosen = None if data is None else self.files(data).columns, dict[str, Any]()
        # Options for a design replace all of the remembered design.
        forgotten = OF_DESIGN if self.design_columns else ()
        for what in ("weights", "counts", *OF_DESIGN):
            option, column = getattr(self, what), None if what in forgotten else columns.get(what)
            if option == "none" and "none" not in (known or ()):
                chosen[what] = None
            elif not option and column is not None and what in self.offered:
                if known is not None and column not in known and not what.startswith("replicate"):
                    raise UnknownNameError(
                        f"the model was fitted with the {what} in column {column!r}, which {str(data)!r} lacks; "
                        f"use --{what} COLUMN to name another column, or --{what} none to use no {what}"
                    )
                chosen[what] = [column] if what == "replicate_weights" else column
        return replace(self, **chosen)

    def like_model(self, pmf: tw.JointPMF, data: Path) -> Reading:
        """Return the reading with the columns that a model remembers, see `like`."""
        return self.like({} if pmf.report is None else pmf.report.columns, data)

    @property
    def options(self) -> dict[str, Any]:
        """The options of the library's readers."""
        return {"missing": self.labels, "counts": self.counts, "weights": self.weights, "where": self.condition}

    @property
    def published(self) -> dict[str, Any]:
        """The options of the library's readers of published tables."""
        return {"kind": self.kind, "totals": self.total, "layout": self.layout, "errors": self.errors}

    def source(self, data: Sequence[Path]) -> United:
        """Return the records or tables of one file, of several as one source, or published tables."""
        from twoway.fitting.sources import United, unite_sources
        from twoway.tables.opening import open_source

        if bool(data) + (self.tables is not None) + (self.db is not None) != 1:
            raise BadParameter("give either DATA (files of records or tables), --tables or --db")
        is_tables = self.db is None and {container_kind(path) for path in data} <= {"tables", "published"}
        for names, has_no_use, where in (
            (OF_DATA, is_tables, "with tables"),
            (OF_PUBLISHED, self.tables is None, "without --tables"),
            (("table",), self.db is None, "without --db"),
            (OF_RULES, self.db is not None or len(data) > 1, "with a database or several files"),
        ):
            if has_no_use:
                self.reject(names, where)
        if self.db is not None:
            with self.database(self.db, self.table) as table:
                return United(open_source(table), ())
        if self.tables is not None:
            return United(self._with_rules(tw.read_published(self.tables, area=self.area, **self.published)), ())
        if len(data) == 1:
            is_published = container_kind(data[0]) == "published"
            source = tw.PublishedTables.load(data[0]) if is_published else self._open(data[0])
            return United(self._with_rules(source), ())
        if self.bins:
            raise DataError(
                "--bins would find different bins in each file; bin the numbers before fitting several files"
            )
        if (duplicate := first_duplicate(map(str, data))) is not None:
            raise DataError(f"{duplicate!r} is given twice; its records would be counted twice")
        columns = {path: [] if container_kind(path) else self.files(path).columns for path in data}
        self.labels.check_columns(dict.fromkeys(name for names in columns.values() for name in names))
        return unite_sources({str(path): self._open(path, self.labels.among(columns[path])) for path in data})

    def reject(self, names: Sequence[str], where: str) -> None:
        """Raise if one of these options was given where it would have no effect."""
        given = [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) != getattr(Reading, name)]
        if given:
            raise DataError(f"{', '.join(given)} cannot be used {where}")

    def _with_rules(self, source: Any) -> Any:
        """Return tables with the combinations that are impossible, and with the tables that must hold exactly."""
        if not (self.impossible or self.exact):
            return source
        if isinstance(source, tw.Tables):
            source = tw.PublishedTables.of([source])
        if not isinstance(source, tw.PublishedTables):
            self.reject(OF_RULES, "with records, only with tables")
        return source.subject_to(**rules_option(source, self.impossible, self.exact))

    def _open(self, data: Path, missing: tw.MissingLabels | None = None) -> tw.Records | tw.FileRecords | tw.Tables:
        match container_kind(data):
            case "tables":
                return tw.Tables.load(data)
            case "published":
                raise DataError(f"{str(data)!r} has published tables, which are fitted alone; give no other file")
            case "model":
                raise DataError(f"{str(data)!r} is a model already; `twoway ask` and `twoway info` read it")
        return self.records(data, missing)

    def proposed_weights(self, data: Sequence[Path]) -> dict[str, str]:
        """Return the weight variables that files name themselves, where no weights are used."""
        if self.weights or self.declared.weights:
            return {}
        plain = [path for path in data if container_kind(path) is None]
        named = {without_password(str(path)): self.files(path).weights for path in plain}
        return {path: column for path, column in named.items() if column is not None}

    @contextmanager
    def database(
        self, address: str, name: str | None, schema: tw.Schema | None = None, inside: bool = False
    ) -> Iterator[tw.DatabaseTable]:
        """Give the table of a database, which is closed at the end."""
        from twoway.data.sql.connections import connected_table

        self.reject(("extend",), "with a database")
        if self.bins:
            raise DataError("--bins is not available for databases: give cuts with --columns, or create a view")
        if name is None:
            raise DataError("name the table of the database with --table")
        with connected_table(address, name) as table:
            yield tw.DatabaseTable(
                table,
                schema=schema,
                columns=replace(self.declared, only=self.declared.kept(self.choose(list(table.columns)))),
                unseen=self.unseen,  # type: ignore[arg-type]  # checked there
                max_categories=self.max_categories,
                inside=inside or None,
                **self.options,
            )

    def records(self, path: Path, missing: tw.MissingLabels | None = None) -> tw.Records | tw.FileRecords:
        """Return the records of a file; files too large for memory are streamed."""
        files, labels, table = self.files(path), missing or self.labels, None
        declared = (self.declared if missing is None else self.declared.among(files.columns)).over(files.declared)
        declared.check(files.columns)
        numbers: dict[str, Any] = {"counts": self.counts or declared.counts}
        numbers["weights"] = self.weights or declared.weights
        check_reader_columns(files.columns, **numbers)
        names = [name for name in self.choose(files.columns) if declared[name].use and name not in numbers.values()]
        if not names:
            raise DataError(f"no column of {files.name!r} is left to use")
        is_streamed = files.is_large(names)
        needed = [bins_option(text, names)[0] for text in self.bins or ()] if is_streamed else names
        if needed:
            columns = reader_columns(list(dict.fromkeys(needed)), **numbers) or []
            table = read_file_table(files, columns, missing=labels, where=self.condition, schema=declared.bins)
            if table.num_rows == 0:
                met = "" if self.condition is None else f" that meet the condition {self.condition!r}"
                raise DataError(f"{files.name!r} has columns but no records{met}")
        binned = bins_option_columns(table, self.bins or (), declared.add_to(labels), numbers)
        declared = replace(binned.over(declared), only=names)
        if is_streamed:
            most, where = self.max_categories, self.condition
            return tw.FileRecords(files, columns=declared, missing=labels, max_categories=most, where=where, **numbers)
        check_max_categories_option(table, [name for name in names if not declared[name].cuts], self.max_categories)
        return tw.Records(table, columns=declared, missing=labels, **numbers)

    def read_by(self, schema: tw.Schema, path: Path) -> tuple[Any, tw.Records]:
        """Return a file whose columns are a model's variables: as an Arrow table with all columns, and as records."""
        if self.unseen not in ("error", "missing"):
            raise DataError(f"--unseen must be error or missing, not {self.unseen!r}")
        unseen: Any = "extend" if self.extend else self.unseen
        common: dict[str, Any] = {"missing": self.labels, "schema": schema, "unseen": unseen}
        try:
            files = self.files(path)
            table = read_file_table(files, where=self.condition, **common)
            columns = files.declared.among(table.column_names)
            records = tw.Records(table, columns=columns, counts=self.counts, weights=self.weights, **common)
            return table.replace_schema_metadata(None), records
        except UnknownNameError as error:
            can_extend = "extend" in self.offered and not self.extend and NO_TEXT not in str(error)
            raise UnknownNameError(f"{error}{'; --extend makes them categories' if can_extend else ''}") from error

    def open_by(self, schema: tw.Schema, path: Path) -> tw.Records | tw.FileRecords:
        """Return the records of a file whose columns are a model's variables; large files are streamed."""
        files = self.files(path)
        if self.extend or not files.is_large(schema.names):
            return self.read_by(schema, path)[1]
        return tw.FileRecords(files, schema=schema, unseen=self.unseen, **self.options)  # type: ignore[arg-type]
