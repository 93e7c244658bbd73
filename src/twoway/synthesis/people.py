"""Population: whole persons, and how well their tables agree with published ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoway.arrays import Ints
from twoway.category_labels import Label, label_key
from twoway.data.distribution import Distribution
from twoway.data.files.formats import FilePath
from twoway.data.files.writing import write_data_file_parts
from twoway.data.frames import make_drawn_frame
from twoway.model.events import Names
from twoway.notebook import Shown
from twoway.report import Monitor
from twoway.schema import Schema, Variable
from twoway.solvers.loop import Watch
from twoway.text import aligned_text, counted, crossed_text, printable

if TYPE_CHECKING:
    import pyarrow as pa

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

    @property
    def off(self) -> float:
        """The difference in persons."""
        return abs(self.persons - self.published)

    def __str__(self) -> str:
        cell = ", ".join(printable(label) for label in self.cell)
        names = crossed_text(self.variables, 40)
        return (
            f"{names} at ({cell}): {counted(self.persons, 'person')}, goal {self.published:,.1f} ({self.share:.4%} off)"
        )


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

    @property
    def worst(self) -> TableDifference | None:
        """The table that is most off; None where there is no table."""
        return self.tables[0] if self.tables else None

    def __str__(self) -> str:
        rows = [["persons", f"{self.n_persons:,}, {self.n_different:,} of them different"]]
        rows.append(["tables", f"{len(self.tables)}, {sum(table.off < 1.0 for table in self.tables)} within a person"])
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
        return make_drawn_frame(self.schema.variables, [own[rows] for own in self.codes], library or self.library)

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

        rows, labels = self._shuffled(), [_arrow_labels(variable) for variable in self.schema]
        show = watch.counting("writing", len(rows))
        for start in range(0, len(rows), _ROWS_PER_GROUP):
            part = rows[start : start + _ROWS_PER_GROUP]
            columns = [_arrow_column(own[part], known) for own, known in zip(self.codes, labels, strict=True)]
            yield pa.table(columns, names=list(self.schema.names))
            show(start + len(part))


def _arrow_labels(variable: Variable) -> pa.Array:
    """Return the labels of a variable in an array: those of several types become text."""
    import pyarrow as pa

    is_mixed = len({label_key(label)[0] for label in variable.categories}) > 1
    labels: list[Label] = [repr(label) if is_mixed else label for label in variable.categories]
    return pa.array(labels)


def _arrow_column(codes: NDArray[np.integer], labels: pa.Array) -> pa.Array:
    """Return the labels of some persons: text as a dictionary, which takes little memory."""
    import pyarrow as pa

    if pa.types.is_string(labels.type):
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), labels)
    return labels.take(pa.array(codes.astype(np.int32)))
