"""Distribution: probabilities with the user's own names and labels on every axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from twoway.arrays import Array, Floats
from twoway.category_labels import Label
from twoway.errors import DataError, check_known
from twoway.notebook import notebook_table
from twoway.schema import Variable
from twoway.text import MAX_WIDTH, aligned_text, printable

Quantity: TypeAlias = Literal["probability", "expectation", "difference", "ratio"]
"""What the numbers of a distribution are."""
MAX_ROWS = 20
"""Lines of a printed table before it is cut."""
MAX_COLUMNS = 8
"""Columns of a printed cross-tabulation before it is cut."""


class Distribution:
    """A labelled array of probabilities, with one axis for each variable.

    Parameters
    ----------
    variables
        The variable of each axis, in order.
    array
        The probabilities, shape (n_categories of each variable, …). It is copied unless it is
        already a read-only array of float64.
    total
        The count that the probabilities rest on, None for those of a model.
    quantity
        What the numbers are: "probability", or what `ask` gives for each group or category: "expectation" for expected
        values, "difference" or "ratio" for a comparison of two.
    library
        The library of the frames that `to_frame` returns: that of the frame behind the numbers.

    Examples
    --------
    >>> age, vote = Variable("age", ("young", "old")), Variable("vote", ("no", "yes"))
    >>> table = Distribution((age, vote), [[0.1, 0.2], [0.3, 0.4]])
    >>> table["old", "yes"]
    0.4
    >>> table[{"vote": "yes"}]
    age    probability
    young  0.2000
    old    0.4000
    >>> table
    age \\ vote  no      yes
    young       0.1000  0.2000
    old         0.3000  0.4000
    """

    __slots__ = ("array", "library", "quantity", "total", "variables")

    variables: tuple[Variable, ...]
    """The variable of each axis."""
    array: Floats
    """The probabilities; read-only."""
    total: float | None
    """The count that the probabilities rest on, None for those of a model."""
    quantity: Quantity
    """What the numbers are: "probability", "expectation", "difference" or "ratio"."""
    library: str
    """The library of frames: "pandas", "polars" or "pyarrow"."""

    # Indexing is by label, so the fallback of Python that iterates by position would mislead.
    __iter__ = None

    def __init__(
        self,
        variables: Sequence[Variable],
        array: ArrayLike,
        total: float | None = None,
        *,
        quantity: Quantity = "probability",
        library: str = "pandas",
    ) -> None:
        self.variables = tuple(variables)
        values = np.asarray(array, dtype=np.float64)
        sizes = tuple(len(variable) for variable in self.variables)
        if values.shape != sizes:
            names = ", ".join(self.names)
            raise DataError(f"a distribution of {names} has the shape {sizes}; got an array of {values.shape}")
        if values.flags.writeable:
            values = values.copy()
            values.flags.writeable = False
        self.array = values
        self.total, self.quantity, self.library = total, quantity, library

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each axis."""
        return tuple(variable.name for variable in self.variables)

    def events(self) -> list[dict[str, Label]]:
        """Return the event of each cell, in the order of the array: a label by the name of each axis."""
        labels = product(*(variable.categories for variable in self.variables))
        return [dict(zip(self.names, cell, strict=True)) for cell in labels]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if dtype is not None and np.dtype(dtype) != self.array.dtype:
            if copy is False:
                raise ValueError(
                    f"a distribution of float64 cannot become an array of {np.dtype(dtype)} without a copy"
                )
            return self.array.astype(dtype)
        return self.array.copy() if copy else self.array

    def __getitem__(self, labels: Label | tuple[Label, ...] | Mapping[str, Label]) -> float | Distribution:
        """Return the probability at a label for each axis, or the distribution over the axes not named.

        Labels go with the axes in their order; a mapping names them instead. What is left is not
        rescaled: its entries are still probabilities of the whole.
        """
        chosen = self._chosen(labels)
        picked = self.array[tuple(chosen.get(axis, slice(None)) for axis in range(len(self.variables)))]
        if len(chosen) == len(self.variables):
            return float(picked)
        rest = [variable for axis, variable in enumerate(self.variables) if axis not in chosen]
        return Distribution(rest, picked, self.total, quantity=self.quantity, library=self.library)

    def _chosen(self, labels: object) -> dict[int, int]:
        """Return the axis and the category code of each label."""
        if isinstance(labels, Mapping):
            check_known("variable", self.names, *labels)
            by_axis = {self.names.index(name): label for name, label in labels.items()}
        else:
            by_axis = dict(enumerate(labels if isinstance(labels, tuple) else (labels,)))
        if len(by_axis) > len(self.variables):
            raise DataError(
                f"{len(by_axis)} labels {labels!r} for a distribution of {len(self.variables)} variables: "
                f"{', '.join(self.names)}"
            )
        return {axis: self.variables[axis].code(label) for axis, label in by_axis.items()}

    def to_frame(self, library: str | None = None) -> Any:
        """Return a frame of one row for each cell: a column for each variable, and ``probability``, or ``expectation``.

        Parameters
        ----------
        library
            "pandas", "polars" or "pyarrow"; by default that of the frame that the model was fitted to.

        Examples
        --------
        >>> Distribution([Variable("vote", ("no", "yes"))], [0.25, 0.75]).to_frame()
          vote  probability
        0   no         0.25
        1  yes         0.75
        """
        return distribution_frame(self.variables, {self.quantity: self.array}, library or self.library)

    def __repr__(self) -> str:
        return self.to_text(whole=False)

    def _repr_html_(self) -> str:
        if len(self.variables) != 2:
            return distribution_html(self.variables, {self.quantity: self.array})
        rows, note = self._cross_tab_rows(MAX_ROWS, MAX_COLUMNS, MAX_WIDTH, {})
        bars = np.full((len(rows) - 1, len(rows[0]) - 1), np.nan)
        shown = self.array[:MAX_ROWS, :MAX_COLUMNS]
        bars[:, : shown.shape[1]] = _distribution_bars(shown)
        return notebook_table(rows, bars, note)

    def to_text(self, *, whole: bool = True, beside: Mapping[str, Floats] | None = None) -> str:
        """Return the table as lines of text: all of it, or as much as is printed by default.

        ``beside`` are other numbers of each cell: "observed", shares, and perhaps "records" and "effective_records",
        the same along a row.
        """
        n_rows, n_columns, width = (None, None, None) if whole else (MAX_ROWS, MAX_COLUMNS, MAX_WIDTH)
        if len(self.variables) == 2:
            n_columns = n_columns and n_columns // (2 if beside else 1)
            return aligned_text(*self._cross_tab_rows(n_rows, n_columns, width, beside or {}))
        return distribution_text(self.variables, {self.quantity: self.array, **(beside or {})}, n_rows, width)

    def _cross_tab_rows(
        self, n_rows: int | None, n_columns: int | None, width: int | None, beside: Mapping[str, Floats]
    ) -> tuple[list[list[str]], str]:
        """Return a cross-tabulation as rows of text, and a note below them."""
        rows, columns = self.variables
        shown = columns.categories[:n_columns]
        labels = rows.categories[:n_rows]
        hidden_columns, hidden_rows = len(columns) - len(shown), len(rows) - len(labels)
        mark = ["…"] if hidden_columns else []
        head = f"{printable(rows.name, width)} \\ {printable(columns.name, width)}"
        bases = [name for name in _BASES if name in beside]
        heads = [name.replace("_", " ") for name in bases]
        printed = [[head, *(printable(label, width) for label in shown), *mark, *heads]]
        for row, label in enumerate(labels):
            cells = [_distribution_share(number) for number in self.array[row, : len(shown)]]
            if "observed" in beside:
                seen = map(_distribution_share, beside["observed"][row])
                cells = [f"{cell} ({share})" for cell, share in zip(cells, seen, strict=False)]
            records = (_distribution_number(name, beside[name][row, 0]) for name in bases)
            printed.append([printable(label, width), *cells, *mark, *records])
        numbers = {"rows": hidden_rows, "columns": hidden_columns}
        hidden = [f"{number} more {what}" for what, number in numbers.items() if number]
        more = [f"… {' and '.join(hidden)}"] if hidden else []
        more += ["in brackets: the observed share"] if "observed" in beside else []
        return printed, "\n".join(more)


# Numbers of records beside shares.
_BASES = ("records", "effective_records")


def _distribution_share(probability: float) -> str:
    """Return a probability with four decimals, or in powers of ten where those would show nothing; "–" for NaN."""
    if probability != probability:
        return "–"
    return f"{probability:.1e}" if 0 < abs(probability) < 0.00005 else f"{probability:.4f}"


def _distribution_number(column: str, number: float) -> str:
    return f"{number:,.0f}" if column.endswith("records") else _distribution_share(number)


def _distribution_bars(numbers: Floats) -> Floats:
    """Return the numbers as parts of the largest; of numbers below 0 none."""
    return np.asarray(np.maximum(numbers, 0.0) / max(np.nanmax(numbers, initial=0.0), np.finfo(float).tiny))


def distribution_text(
    variables: Sequence[Variable], columns: Mapping[str, Floats], n_rows: int | None, width: int | None
) -> str:
    """Return numbers of cells, arrays with one axis per variable, as lines of text: one row per cell."""
    return aligned_text(*_distribution_rows(variables, columns, n_rows, width))


def distribution_html(variables: Sequence[Variable], columns: Mapping[str, Floats]) -> str:
    """Return the same as a table of HTML, with a bar for the first number."""
    rows, note = _distribution_rows(variables, columns, MAX_ROWS, MAX_WIDTH)
    bars = np.full((len(rows) - 1, len(columns)), np.nan)
    bars[:, 0] = _distribution_bars(next(iter(columns.values())).ravel()[:MAX_ROWS])
    return notebook_table(rows, bars, note)


def _distribution_rows(
    variables: Sequence[Variable], columns: Mapping[str, Floats], n_rows: int | None, width: int | None
) -> tuple[list[list[str]], str]:
    """Return a row of text for each cell, below a head, and a note below them."""
    heads = (name.replace("_", " ") for name in columns)
    printed = [[*(printable(variable.name, width) for variable in variables), *heads]]
    cells = product(*(variable.categories for variable in variables))
    numbers = zip(*(array.ravel()[:n_rows] for array in columns.values()), strict=True)
    for labels, values in zip(cells, numbers, strict=False):
        printed.append([*(printable(label, width) for label in labels), *map(_distribution_number, columns, values)])
    n_hidden = next(iter(columns.values())).size - len(printed) + 1
    return printed, f"… {n_hidden} more rows" if n_hidden > 0 else ""


def distribution_frame(variables: Sequence[Variable], columns: Mapping[str, Floats], library: str = "pandas") -> Any:
    """Return numbers of cells, arrays with one axis per variable, as a frame with one row per cell."""
    from twoway.data.frames import make_labelled_frame

    for name in columns:
        if name in [variable.name for variable in variables]:
            raise DataError(f"the variable {name!r} has the same name as another column of the frame")
    codes = np.indices([len(variable) for variable in variables]).reshape(len(variables), -1)
    numbers = {name: array.ravel() for name, array in columns.items()}
    return make_labelled_frame(tuple(variables), list(codes), library, numbers)
