"""Discretizer: continuous columns as labelled bins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from twoway.arrays import Floats
from twoway.data import frames
from twoway.data.binning import Strategy, make_bins
from twoway.data.raw_columns import RawColumns
from twoway.data.records import Records
from twoway.data.weights import read_weights
from twoway.errors import check_known, check_type
from twoway.estimators.base import TableEstimator


@dataclass(repr=False, eq=False)
class Discretizer(OneToOneFeatureMixin, TransformerMixin, TableEstimator):  # type: ignore[misc]
    """Sorts the numbers of continuous columns into labelled bins; other columns stay as they are.

    Missing cells stay missing. A number outside the range of training belongs to the first or the last bin.

    Parameters
    ----------
    columns
        A name of a column or its position, or several. None takes those that look continuous: more than 20 different
        numbers with fractions (more than 4 if fractions are finer than thousandths), or more than 40 whole numbers.
    n_bins
        The maximum number of bins.
    strategy
        "quantile" for bins with about equally many records each (a very common number has its own bin), "uniform" for
        bins of equal width.

    Attributes
    ----------
    bins_ : dict
        For each continuous column its ``variable`` (the labels of the bins, the edges between them, and the mean of the
        numbers in each as ``values``) and all ``edges``, with the smallest and the largest number.
    n_features_in_, feature_names_in_ : int, ndarray
        The columns of training; names where they had some.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"income": [1.5, 2.25, None, 3.125, 4.0625, 9.5], "vote": list("yynnyn")})
    >>> discretizer = Discretizer(n_bins=2).fit(frame)
    >>> discretizer.transform(frame)["income"].tolist()
    ['below 3.12', 'below 3.12', nan, '3.12 or more', '3.12 or more', '3.12 or more']
    >>> discretizer.bins_["income"].variable.values
    (1.875, 5.5625)

    The means are the values of the categories in records, for expectations:

    >>> import twoway as tw
    >>> round(tw.fit(discretizer.records(frame), rank=1).expect("income"), 1)
    4.1
    """

    columns: str | int | Sequence[str | int] | None = None
    _: KW_ONLY
    n_bins: int = 8
    strategy: Strategy = "quantile"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the continuous columns, unless they are given, and cut them; ``y`` is not used."""
        _, columns = self._open(X, None)
        weights = read_weights(sample_weight, columns.n_rows)
        self._names = columns.names
        self.bins_ = {
            name: make_bins(name, numbers, weights, n_bins=self.n_bins, strategy=self.strategy)
            for name, numbers in self._numbers(columns, weights).items()
        }
        return self

    def transform(self, X: Any) -> Any:
        """Return X with bins for numbers: as ordered categories in a frame, as the means of the bins in an array."""
        check_is_fitted(self)
        X, columns = self._open(X, self._names)
        is_array = isinstance(X, np.ndarray)
        if is_array:
            X = X.astype(np.result_type(X.dtype, np.float64) if X.dtype.kind in "iub" else X.dtype)
        categories = {}
        for name, bins in self.bins_.items():
            place, variable = self._names.index(name), bins.variable
            codes = bins.codes(self._read_numbers(columns, name))
            categories[place] = codes, [str(label) for label in variable.categories]
            if is_array:
                X[:, place] = np.array([*(variable.values or ()), np.nan])[codes]
        return X if is_array else frames.frame_with_categories(X, categories)

    def records(self, X: Any, weights: Any = None) -> Records:
        """Return X as records for `twoway.fit`, with the means of bins as values.

        Parameters
        ----------
        X
            A table like the one of training.
        weights
            How much each record matters; their scale does not.
        """
        check_is_fitted(self)
        _, columns = self._open(X, self._names)
        return self._read_binned(columns, self.bins_, read_weights(weights, columns.n_rows))

    def _numbers(self, columns: RawColumns, weights: Floats | None) -> dict[str, Floats]:
        if self.columns is None:
            return self._find_continuous(columns, weights)
        check_type("columns", self.columns, str | int | Iterable, "names or positions of columns")
        known, positions = columns.names, range(-len(columns.names), len(columns.names))
        chosen: Any = [self.columns] if isinstance(self.columns, str | int) else self.columns
        names = [
            known[place] if isinstance(place, int | np.integer) and place in positions else place for place in chosen
        ]
        check_known("column", known, *names)
        return {str(name): self._read_numbers(columns, str(name)) for name in names}
