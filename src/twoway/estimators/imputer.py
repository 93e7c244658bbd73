"""JointPMFImputer: missing cells filled, given the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags

from twoway.arrays import Floats
from twoway.data import frames
from twoway.data.records import Records
from twoway.data.weights import record_weights
from twoway.errors import check_known
from twoway.estimators.averaging import FORMS, Losses
from twoway.estimators.base import JointPMFEstimator
from twoway.estimators.long_tables import long_table_records
from twoway.model.imputation import How, impute_probabilities, imputed_codes, imputed_values
from twoway.model.pmf import JointPMF
from twoway.model.posterior import Posterior

# The share of a held-out record's cells that are hidden, to see how well they are found again.
_HIDDEN = 0.2


@dataclass(kw_only=True, repr=False, eq=False)
class JointPMFImputer(OneToOneFeatureMixin, TransformerMixin, JointPMFEstimator):  # type: ignore[misc]
    """An imputer for tables of categories, numbers or both: each hole is filled given the record's other cells.

    A frame keeps its library, its columns and their types. Fits average models of one hidden variable, of hidden
    variables on a tree, and mixtures of trees of the columns. Their shares, ranks and smoothing are those under which
    hidden cells of held-out records are most probable. Where ``rank`` or ``smoothing`` is given, there is one hidden
    variable. A continuous column is filled with the mean of a bin, or with a draw.

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
    A category not seen in training counts as missing and is filled, unless ``unseen="error"``.

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

    how: How = "mode"

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
        check_known("way to impute", get_args(How), self.how)
        self._fit_average(self._read_training(X, sample_weight)[0], self._loss, forms=FORMS)
        return self

    def transform(self, X: Any) -> Any:
        """Return X with its missing cells filled: a frame of the same library and types, or an array."""
        X, records = self._read(X)
        names, seed = records.schema.names, self._seed_of(self.random_state)
        random = np.random.default_rng(seed)

        def numbers(name: str, codes: NDArray[Any]) -> Floats:
            return self._bins[name].draw(codes, random) if self.how == "sample" else self._bins[name].means(codes)

        codes = imputed_codes(self.pmf_, records, range(len(names)), self.how, seed)
        columns = frames.frame_columns(X, names)
        # They differ where training saw an array, and this is a frame.
        column_of = dict(zip(names, columns, strict=True))
        return frames.fill_frame(X, imputed_values(X, records.schema, codes, column_of, numbers), columns)

    def predict_proba(self, X: Any) -> pd.Series[float]:
        """Return the probability of each category of each missing cell.

        A pandas Series whose index has the levels "row" (a number from 0 on), "column" and "category":
        ``.loc[3, "vote"]`` are the probabilities of one hole, ``.xs("vote", level="column").unstack()`` those of all
        holes of a column as a table. Those of a record that is impossible under the model are NaN, with a warning.
        """
        _, records = self._read(X)
        schema = records.schema
        rows, columns, codes, shares = impute_probabilities(self.pmf_, records, range(len(schema)))
        every_label = [label for variable in schema for label in variable.categories]
        place_of_label = {label: place for place, label in enumerate(dict.fromkeys(every_label))}
        categories = np.array([place_of_label[label] for label in every_label])[schema.offsets[columns] + codes]
        # The levels of the index are in the order of the table, so that holes are found quickly.
        levels: Any = [range(records.n_records), schema.names, pd.Index(list(place_of_label), dtype=object)]
        holes: Any = [rows, columns, categories]
        return pd.Series(shares, pd.MultiIndex(levels, holes, names=["row", "column", "category"]), name="probability")

    @staticmethod
    def _loss(pmf: JointPMF, held: Records) -> Losses:
        """Return the negative log-probability of each hidden cell, given those of its record that are not hidden."""
        rows = np.repeat(np.arange(held.n_records), np.diff(held.pointers))
        cells = held.cells[held.pointers[0] : held.pointers[-1]]
        # The same cells are hidden each time.
        hidden = np.random.default_rng(0).random(len(cells)) < _HIDDEN
        evidence = long_table_records(held.schema, rows[~hidden], cells[~hidden], held.n_records)
        rows, cells = rows[hidden], cells[hidden]
        variables = np.searchsorted(held.schema.offsets, cells, side="right") - 1
        losses = np.empty(len(cells))
        first = 0
        for block in evidence.blocks():
            posterior = Posterior.of(pmf.trees, block)
            last = first + len(posterior.log_prob)
            for variable, factor in enumerate(pmf.factors):
                places = np.flatnonzero((variables == variable) & (rows >= first) & (rows < last))
                shares = posterior.memberships(variable)[rows[places] - first]
                # A record that is impossible under the model says nothing.
                shares = np.where(np.isnan(shares), pmf.trees.state_shares(variable), shares)
                chances = np.einsum("ij,ij->i", shares, factor[cells[places] - held.schema.offsets[variable]])
                losses[places] = -np.log(np.maximum(chances, 1e-300))
            first = last
        return losses, record_weights(held)[rows]
