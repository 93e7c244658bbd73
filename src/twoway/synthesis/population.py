"""Population: whole persons, from a model and published tables, and how well their tables agree with these."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Floats, Ints
from twoway.category_labels import Label, labels_of_one_kind
from twoway.data.distribution import Distribution
from twoway.data.files.formats import FilePath
from twoway.data.files.writing import write_data_file_parts
from twoway.data.frames import make_drawn_frame
from twoway.errors import DataError, check_whole_number
from twoway.fitting.fit import fit
from twoway.model.events import Event, Names
from twoway.model.pmf import JointPMF
from twoway.notebook import Shown
from twoway.report import Monitor
from twoway.schema import Schema
from twoway.solvers.watch import Watch
from twoway.synthesis.exact import settle_exact_margins
from twoway.synthesis.persons import draw_persons, parse_person_rules
from twoway.synthesis.targets import Target, TargetCells, published_targets, table_targets
from twoway.synthesis.weights import rake_weights, round_weights
from twoway.tables.published.rules import Rule
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables
from twoway.text import aligned_text, counted, crossed_text, printable

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_PERSONS = 10**8
# Tables cannot all hold if a cell is off by more than this share of all persons before anything is rounded.
_CONTRADICTING = 1e-3
_ROWS_PER_GROUP = 2**18
_MOST_LISTED = 5


@dataclass(frozen=True)
class TableDifference:
    """How far a table of the population is from the published one, in the cell that is most off."""

    variables: tuple[str, ...]
    cell: tuple[Label, ...]
    """Its categories; of a coarser group, all of them in words."""
    published: float
    """The number of persons that the cell must have, scaled to the population."""
    persons: int
    """The number that it has."""
    share: float
    """The difference as a share of the population."""
    is_exact: bool = False
    """Whether the table was declared exact."""

    @classmethod
    def _of(cls, schema: Schema, target: Target, cell: int, published: float, persons: int, n: int) -> TableDifference:
        """Return how far a cell of a target is off."""
        variables = [schema.variables[position] for position in target.variables]
        labels: list[Label] = []
        for variable, codes in zip(variables, target.combinations(cell).T, strict=True):
            categories = [variable.categories[code] for code in np.unique(codes)]
            labels.append(categories[0] if len(categories) == 1 else " or ".join(map(str, categories)))
        names = tuple(variable.name for variable in variables)
        return cls(names, tuple(labels), published, persons, abs(persons - published) / n, target.is_exact)

    @property
    def off(self) -> float:
        """The difference in persons."""
        return abs(self.persons - self.published)

    def __str__(self) -> str:
        cell = ", ".join(printable(label) for label in self.cell)
        persons, off = counted(self.persons, "person"), f"off by {self.share:.4%} of all persons"
        return f"{crossed_text(self.variables, 40)} at ({cell}): {persons}, goal {self.published:,.1f}, {off}"


@dataclass(frozen=True, repr=False)
class PopulationReport(Shown):
    """What a population is, and how well its tables agree with the published ones."""

    n_persons: int
    n_different: int
    """The number of different persons."""
    tables: tuple[TableDifference, ...]
    """Each published table, worst first."""
    exact: tuple[tuple[str, ...], ...]
    """The variables of the margins that hold exactly; a number that is not whole is rounded up or down."""
    warnings: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @classmethod
    def _of(
        cls, schema: Schema, cells: TargetCells, weights: Floats, counts: Ints, lacking: float, began: float
    ) -> PopulationReport:
        """Return how well numbers of persons agree with targets; ``began`` is when the computation started.

        ``lacking`` is the share of people that a table may lack: tables that count different people differ by up to it.
        """
        n, sums, targets = int(counts.sum()), cells.sums(counts), cells.targets
        goals = cells.goals(sums)
        off, worst_cells = cells.worst(sums)
        tables = [
            TableDifference._of(schema, target, int(cell - start), float(goals[cell]), round(float(sums[cell])), n)
            for target, start, cell in zip(targets, cells.starts, worst_cells, strict=False)
        ]
        # Already before rounding, and still after it: that of few persons may be off by more, and by less.
        is_off = (cells.worst(cells.sums(weights))[0] > _CONTRADICTING * n) & (off > max(_CONTRADICTING * n, 1.0))
        warnings = []
        if is_off.any():
            worst = tables[int(np.where(is_off, off, 0.0).argmax())]
            is_explained = worst.share <= lacking
            why = "count different people, as where cells are missing" if is_explained else "contradict each other"
            warnings.append(
                f"the tables {why}, or the model lacks persons that they need: "
                f"{np.count_nonzero(is_off)} of {len(targets)} tables are off by more than {_CONTRADICTING:.1%} of all "
                f"persons in the best compromise found; the worst is {worst}"
            )
        exact = (tuple(schema.names[place] for place in target.variables) for target in targets if target.is_exact)
        ordered = tuple(sorted(tables, key=lambda table: -table.off))
        n_different = int(np.count_nonzero(counts))
        return cls(n, n_different, ordered, tuple(exact), tuple(warnings), time.monotonic() - began)

    @property
    def worst(self) -> TableDifference | None:
        """The table that is most off; None where there is no table."""
        return self.tables[0] if self.tables else None

    def __str__(self) -> str:
        rows = [["persons", f"{self.n_persons:,}, {self.n_different:,} of them different"]]
        n_agreeing = sum(table.off < 1.0 for table in self.tables)
        rows.append(["tables", f"{len(self.tables)}, {n_agreeing} of them met to within one person"])
        for number, table in enumerate(self.tables[:_MOST_LISTED]):
            rows.append(["" if number else "worst", str(table)])
        if self.exact:
            rows.append(["exact", ", ".join(crossed_text(names, 40) for names in self.exact)])
        rows.append(["time", f"{self.seconds:.1f} s"])
        return aligned_text([*rows, *(["warning", printable(warning, 400)] for warning in self.warnings)])


@dataclass(frozen=True, eq=False, repr=False)
class Population(Shown):
    """Whole persons whose tables agree with published ones; `population` makes them.

    Persons are in a random order, which the seed decides, so that any part of them is a sample of all.
    """

    schema: Schema
    codes: NDArray[np.integer]
    """The category of each variable of each different person, shape (n_variables, n_different)."""
    counts: Ints
    """How many persons there are of each, shape (n_different,)."""
    report: PopulationReport
    seed: int = field(default=0, kw_only=True)
    library: str = "pandas"

    def __len__(self) -> int:
        return int(self.counts.sum())

    def __str__(self) -> str:
        return str(self.report)

    def marginal(self, names: Names) -> Distribution:
        """Return the shares of one variable or several together; ``total`` is the number of persons."""
        positions = self.schema.indices(names)
        shape = [self.schema.sizes[position] for position in positions]
        cells = np.ravel_multi_index([self.codes[position] for position in positions], shape)
        table = np.bincount(cells, self.counts, int(np.prod(shape))).reshape(shape)
        variables = [self.schema.variables[position] for position in positions]
        return Distribution(variables, table / len(self), total=float(len(self)), library=self.library)

    def to_frame(self, library: str | None = None) -> Any:
        """Return a frame with a row per person; text with an order of its own is an ordered categorical.

        Parameters
        ----------
        library
            "pandas", "polars" or "pyarrow"; by default that of the frame which the model was fitted to.
        """
        rows = self._shuffled()
        return make_drawn_frame(self.schema.variables, [codes[rows] for codes in self.codes], library or self.library)

    def save(self, path: FilePath, *, monitor: Monitor | bool | None = None) -> None:
        """Write a row per person to a CSV, TSV, Parquet, Arrow, JSON lines, SPSS or Stata file, whole or not at all.

        Rows are written in groups, so that the file may be larger than memory (but for SPSS and Stata). The same
        population gives the same bytes.
        """
        with Watch.showing(monitor) as watch:
            write_data_file_parts(self._groups(watch), path)

    def _shuffled(self) -> NDArray[np.int32]:
        """Return the number of the different person that each person is, in a random order."""
        rows = np.repeat(np.arange(len(self.counts), dtype=np.int32), self.counts)
        np.random.default_rng([self.seed, 1]).shuffle(rows)
        return rows

    def _groups(self, watch: Watch) -> Iterator[pa.Table]:
        """Yield the persons a group at a time."""
        import pyarrow as pa

        rows, labels = self._shuffled(), [pa.array(labels_of_one_kind(v.categories)) for v in self.schema]
        show = watch.counting("writing", len(rows))
        for start in range(0, len(rows), _ROWS_PER_GROUP):
            part = rows[start : start + _ROWS_PER_GROUP]
            codes = [pa.array(own[part].astype(np.int32)) for own in self.codes]
            columns = [pa.DictionaryArray.from_arrays(*column) for column in zip(codes, labels, strict=True)]
            # Text stays a dictionary, which takes little memory.
            plain = [own if pa.types.is_string(own.dictionary.type) else own.dictionary_decode() for own in columns]
            yield pa.table(plain, names=list(self.schema.names))
            show(start + len(part))


def population(
    source: Any,
    n: int,
    *,
    tables: Tables | PublishedTables | None = None,
    exact: Iterable[Names] = (),
    impossible: Sequence[Event] = (),
    seed: int = 0,
    threads: int | None = None,
    monitor: Monitor | bool | None = None,
) -> Population:
    """Return n whole persons whose tables agree with published ones.

    Persons are drawn from the model, and weighted so that their tables have the published numbers (raking). Weights are
    then rounded to whole persons so that the tables keep their sums. In cells where a table has nobody there is nobody.

    Parameters
    ----------
    source
        A model, or anything that `fit` takes, which is then fitted with default options: usually `Tables` or
        `PublishedTables`, whose rules and exact margins also hold.
    n
        The number of persons, up to 10⁸. Tables are scaled to it.
    tables
        The tables to agree with; by default the source, or the two-way tables that a model keeps.
    exact
        Margins that must hold exactly: a name, or several for a margin of several variables, each. Where a number is
        not whole when scaled to ``n``, it is rounded up or down. Margins that contradict each other are an error. Of a
        model of records with missing cells, the margin is that of the table with the most records.
    impossible
        Combinations that no person has: ``[{"age": "0-14", "marital": {"married", "widowed"}}]``.
    seed
        The same seed gives the same persons.
    threads
        For the fit, where there is one; all cores by default.
    monitor
        True shows a progress bar; a function gets each `Progress`.

    Returns
    -------
    Population
        ``population.report`` says by how much each table is off, and names those that contradict others.

    Examples
    --------
    >>> import pandas as pd
    >>> vote = pd.DataFrame({"no": [301, 402], "yes": [199, 98]}, index=["young", "old"])
    >>> trust = pd.DataFrame({"low": [120, 380], "high": [380, 120]}, index=["young", "old"])
    >>> pmf = fit(Tables.from_crosstabs({("age", "vote"): vote, ("age", "trust"): trust}), rank=2)
    >>> people = population(pmf, 1000, exact=[("age", "vote")])
    >>> people.to_frame().value_counts(["age", "vote"]).to_dict()
    {('old', 'no'): 402, ('young', 'no'): 301, ('young', 'yes'): 199, ('old', 'yes'): 98}
    """
    began = time.monotonic()
    n = check_whole_number("n, the number of persons,", n, 1, _MOST_PERSONS)
    seed = check_whole_number("seed", seed, 0)
    margins: list[Names] = [exact] if isinstance(exact, str) else [*exact]
    if isinstance(source, PublishedTables):
        # The model itself is then fitted to them.
        source = source.subject_to(impossible=impossible, exact=margins)
        margins, impossible = [], []
    with Watch.showing(monitor) as watch:
        pmf = _population_model(source, seed, threads, watch)
        targets, known_rules, lacking = _population_targets(source, pmf, tables, n, margins)
        rules = [*parse_person_rules(pmf.schema, impossible, targets), *known_rules]
        rng = np.random.default_rng([seed, 0])
        watch.counting("drawing", 1)(0)
        persons = draw_persons(pmf, targets, rules, n, rng)
        cells = TargetCells.of(targets, persons.codes)
        weights = rake_weights(cells, persons.draws, n, watch)
        cells = cells.settled(weights)
        counts = round_weights(cells, weights, n, rng, watch)
        counts = settle_exact_margins(pmf.schema, cells, weights, counts, rng)
    report = PopulationReport._of(pmf.schema, cells, weights, counts, lacking, began)
    is_present = counts > 0
    return Population(pmf.schema, persons.codes[:, is_present], counts[is_present], report, pmf.library, seed=seed)


def _population_model(source: Any, seed: int, threads: int | None, watch: Watch) -> JointPMF:
    """Return the model that was given, or that of the records or tables that were."""
    model = getattr(source, "pmf", source)  # of a Bootstrap
    if isinstance(model, JointPMF):
        return model
    pmf = fit(source, seed=seed, threads=threads, monitor=watch)
    if watch.interrupted:
        raise KeyboardInterrupt  # nobody wants a population from a model that is half fitted
    return pmf


def _population_targets(
    source: Any, pmf: JointPMF, tables: Tables | PublishedTables | None, n: int, exact: list[Names]
) -> tuple[list[Target], Sequence[Rule], float]:
    """Return what the population must agree with, and the combinations that tables say nobody has.

    And the share of people that a table may lack, where the tables count different people.
    """
    if tables is None and isinstance(source, Tables | PublishedTables):
        tables = source
    if tables is None and pmf.counts is not None:
        tables = pmf.counts.published
    if isinstance(tables, PublishedTables):
        pmf.schema.check_same(tables.schema, "the tables must have the same variables and categories as the model")
        return published_targets(tables, n, [*tables.exact, *exact]), tables.rules, 0.0
    if tables is not None:
        pmf.schema.indices(tables.schema.names)  # `recoded` would leave out tables of unknown variables
        return table_targets(tables.recoded(pmf.schema), n, exact), [], _share_lacking(tables)
    if pmf.counts is None:
        raise DataError(
            "this model does not keep the tables that it was fitted to; give them with tables=…, or use sample, "
            "which draws records from the model without tables"
        )
    of_records = pmf.counts.singles.size > 0
    lacking = 1.0 if of_records else _share_lacking(pmf.counts.tables)
    return table_targets(pmf.counts.tables, n, exact, of_records=of_records), [], lacking


def _share_lacking(tables: Tables) -> float:
    """Return the share of the largest table's people that the smallest one lacks."""
    if tables.lacks_totals or not len(tables):
        return 0.0
    return 1.0 - float(tables.totals.min() / tables.totals.max())
