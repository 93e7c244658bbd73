"""JointPMFImputer: what belongs into the missing cells, given the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags

from twoway.data import frames
from twoway.data.coding import Unseen
from twoway.data.records import Records
from twoway.estimators.averaging import Losses
from twoway.estimators.base import JointPMFEstimator, documented, probabilities, seed_of
from twoway.model.imputation import How, fills, warn_of_impossible
from twoway.model.pmf import JointPMF
from twoway.model.posterior import posterior_of

if TYPE_CHECKING:
    import pandas as pd

# The share of a held-out record's cells that are hidden, to see how well they are found again.
_HIDDEN = 0.2


@documented
class JointPMFImputer(OneToOneFeatureMixin, TransformerMixin, JointPMFEstimator):  # type: ignore[misc]
    """An imputer for tables of categories, numbers or both: each hole is filled given the record's other cells.

    A frame keeps its library, its columns and their types. Rank and smoothing are those under which hidden cells of
    held-out records are most probable. A continuous column is filled with the centre of an interval, or with a draw.

    Parameters
    ----------
    how
        "mode" fills in the most probable category; "mean" the expected value where a column has numbers, else the most
        probable category; "sample" draws all holes of a record together.
    <parameters>

    Attributes
    ----------
    <attributes>

    Notes
    -----
    A category that training never saw counts as missing, and is filled, too, unless ``unseen="error"``.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"sky": ["clear", "grey", None, "grey"] * 5, "mood": [3, 1, 3, None] * 5})
    >>> imputer = JointPMFImputer(rank=2).fit(frame)
    >>> imputer.transform(frame.head(4))
         sky  mood
    0  clear   3.0
    1   grey   1.0
    2  clear   3.0
    3   grey   1.0
    >>> imputer.predict_proba(frame.head(4)).round(1)
    row  column  category
    2    sky     clear       1.0
                 grey        0.0
    3    mood    1           1.0
                 3           0.0
    Name: probability, dtype: float64
    """

    def __init__(
        self,
        *,
        how: How = "mode",
        rank: int | None = None,
        smoothing: float | None = None,
        n_starts: int = 8,
        n_bins: int | None = 8,
        unseen: Unseen = "missing",
        threads: int | None = None,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            rank=rank,
            smoothing=smoothing,
            n_starts=n_starts,
            n_bins=n_bins,
            unseen=unseen,
            threads=threads,
            random_state=random_state,
        )
        self.how = how

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the joint probability of the columns; ``y`` is not used.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame, or anything that becomes a 2-D array. NaN, None and null are missing.
        sample_weight
            How much each record matters; their scale does not. A record of weight 2 is not two records of weight 1.
        """
        self._fit_average(self._read_training(X, sample_weight)[0], _hidden_loss)
        return self

    def transform(self, X: Any) -> Any:
        """Return X with its missing cells filled: a frame of the same library and types, or an array."""
        X, records = self._read(X)
        names, seed = records.schema.names, seed_of(self.random_state)
        random = np.random.default_rng(seed) if self.how == "sample" else None
        filled = fills(records, self.pmf_.weights, self.pmf_.stacked, range(len(names)), self.how, seed)
        columns = frames.column_names(X, names)  # a frame may stand where an array was
        by_column = {}
        for name, (rows, values) in filled.items():
            column = columns[names.index(name)]
            if name in self._bins and values.dtype.kind == "O":
                values = self._bins[name].draw(values, random)
            if values.dtype.kind == "f" and _is_single(X, column):  # a mean or a draw is as good with fewer digits
                values = values.astype(np.float32)
            by_column[column] = rows, values
        return frames.fill(X, by_column, columns)

    def predict_proba(self, X: Any) -> pd.Series[float]:
        """Return the probability of each category of each missing cell.

        A pandas Series whose index has the levels "row" (a number from 0 on), "column" and "category":
        ``.loc[3, "vote"]`` are the probabilities of one hole, ``.xs("vote", level="column").unstack()`` those of all
        holes of a column as a table. Those of a record that is impossible under the model are NaN, with a warning.
        """
        import pandas as pd

        _, records = self._read(X)
        missing = records.codes() < 0
        labels = list(dict.fromkeys(label for variable in records.schema for label in variable.categories))
        place_of_label = {label: place for place, label in enumerate(labels)}
        parts = []
        for index, variable in enumerate(records.schema):
            holes = np.flatnonzero(missing[:, index])
            values = probabilities(self.pmf_, records.take(holes), index).ravel()
            of_label = np.array([place_of_label[label] for label in variable.categories])
            places = np.repeat(holes, len(variable)), np.full(values.shape, index), np.tile(of_label, len(holes))
            parts.append((values, *places))
        values, rows, columns, categories = map(np.concatenate, zip(*parts, strict=True))
        warn_of_impossible(np.unique(rows[np.isnan(values)]), "probabilities are NaN")
        # The levels of the index stand in the order of the table, so that holes are found quickly.
        order = np.argsort(rows, kind="stable")
        levels: Any = [range(records.n_records), records.schema.names, pd.Index(labels, dtype=object)]
        codes: Any = [places[order] for places in (rows, columns, categories)]
        holes_and_categories = pd.MultiIndex(levels, codes, names=["row", "column", "category"])
        return pd.Series(values[order], holes_and_categories, name="probability")


def _is_single(X: Any, column: str) -> bool:
    """Return whether a column holds numbers of single precision."""
    import narwhals as nw

    if isinstance(X, np.ndarray):
        return bool(X.dtype == np.float32)
    return bool(nw.from_native(X).schema[column] == nw.Float32)


def _hidden_loss(pmf: JointPMF, held: Records) -> Losses:
    """Return the negative log-probability of each hidden cell, given those of its record that are not hidden."""
    held = held.with_cells(held.schema, held.pointers - held.pointers[0], held.cells)
    # The same cells are hidden each time.
    hidden = np.random.default_rng(0).random(held.n_observed) < _HIDDEN
    before = np.concatenate([[0], np.cumsum(~hidden)])
    shown = Records.from_cells(held.schema, before[held.pointers], held.cells[: len(hidden)][~hidden])
    rows = np.repeat(np.arange(held.n_records), np.diff(held.pointers))[hidden]
    cells = held.cells[: len(hidden)][hidden]
    losses = np.empty(len(cells))
    first = 0
    for block in shown.blocks():
        memberships, _ = posterior_of(block, pmf.weights, pmf.stacked)
        last = first + len(memberships)
        inside = (rows >= first) & (rows < last)
        found = np.einsum("ij,ij->i", memberships[rows[inside] - first], pmf.stacked[cells[inside]])
        losses[inside] = -np.log(np.maximum(found, 1e-300))
        first = last
    return losses, np.ones(len(cells)) if held.weights is None else held.weights[rows]
