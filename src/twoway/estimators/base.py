"""The base classes of estimators: parameters, fits, and tables with continuous columns in bins."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from twoway.arrays import Bools, Floats
from twoway.category_labels import Label, sort_labels
from twoway.data.binning import Bins, bin_column, make_bins, needs_bins, number_to_bin, numbers_to_bin
from twoway.data.frames import eager_frame, frame_in_memory
from twoway.data.merging import merge_schemas
from twoway.data.missing import MissingLabels, Unseen
from twoway.data.raw_columns import RawColumns, open_raw_columns
from twoway.data.reader import check_reader_options
from twoway.data.records import Records
from twoway.data.weights import read_weights, weights_of_rows
from twoway.errors import DataError, UnknownNameError, check_whole_number, warn_caller
from twoway.estimators.averaging import Average, Averaging, Loss
from twoway.report import StopReason
from twoway.schema import Schema, Variable
from twoway.text import shortlist

# Columns with more different whole numbers than this are put into bins: few records share any one of them.
_MANY_WHOLE_NUMBERS = 40
_MARKERS = MissingLabels().markers("")
_MOST_SHOWN = 5


def describe_end(
    estimator: Any, n_iter: int, stop_reason: StopReason, advice: str = "a lower rank, or more smoothing, needs fewer"
) -> None:
    """Set ``converged_``, ``n_iter_`` and ``stop_reason_`` of an estimator; warn if it did not converge."""
    estimator.n_iter_, estimator.stop_reason_ = n_iter, stop_reason
    estimator.converged_ = stop_reason in (StopReason.CONVERGED, StopReason.DIRECT)
    if not estimator.converged_:
        warn_caller(f"{type(estimator).__name__} did not converge in {n_iter} passes; {advice}", ConvergenceWarning)


class TableEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator for tables of categories and numbers with missing cells."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _open(self, X: Any, names: tuple[str, ...] | None) -> tuple[Any, RawColumns]:
        """Return X as a frame or an array, validated by scikit-learn, and its columns.

        Sets ``n_features_in_`` and, from a frame, ``feature_names_in_`` when fitting.

        Parameters
        ----------
        X
            A frame keeps its library; anything else becomes an array.
        names
            None when fitting; afterwards the names that the columns had in training. The columns of a frame are put
            in that order; missing or additional columns are an error that names them.
        """
        X = frame_in_memory(X)
        if (frame := eager_frame(X)) is not None:
            known = None if names is None else getattr(self, "feature_names_in_", None)
            if known is not None and set(known) == set(frame.columns):
                X = frame.select(list(known)).to_native()
            validate_data(self, X, skip_check_array=True, reset=names is None)
            if len(frame) == 0:
                raise DataError("X has 0 records; a minimum of 1 is required")
        else:
            X = validate_data(self, X, dtype=None, ensure_all_finite=False, reset=names is None)
        columns = open_raw_columns(X)
        if names is None:
            is_named = hasattr(self, "feature_names_in_")
            names = columns.names if is_named else tuple(f"x{place}" for place in range(len(columns.names)))
        # Fitting may have seen an array and prediction a frame, or the other way round.
        return X, columns.renamed(dict(zip(names, columns.names, strict=True)))

    @staticmethod
    def _read_numbers(columns: RawColumns, name: str) -> Floats:
        """Return a column of numbers, NaN where missing; anything else is an error."""
        column = columns.read_slice(name, 0, columns.n_rows)
        numbers = numbers_to_bin(column, _MARKERS)
        if numbers is None:
            cells = column if isinstance(column, list) else column.to_pylist()
            text = next(cell for cell in cells if numbers_to_bin([cell], _MARKERS) is None)
            raise DataError(f"column {name!r} must hold numbers to be put into bins; got {text!r}")
        return numbers

    @staticmethod
    def _find_continuous(columns: RawColumns, weights: Floats | None) -> dict[str, Floats]:
        """Return the numbers of the columns that look continuous, NaN where missing or of weight 0.

        Fewer whole numbers suffice than for `needs_bins`: an age is not a category to learn from and predict by.
        """
        continuous = {}
        for name in (name for name in columns.names if name not in columns.declared):
            numbers = numbers_to_bin(columns.read_slice(name, 0, columns.n_rows), _MARKERS)
            if numbers is not None:
                numbers = numbers if weights is None else np.where(weights > 0, numbers, np.nan)
                different = np.unique(numbers[~np.isnan(numbers)])
                if len(different) > _MANY_WHOLE_NUMBERS or needs_bins(different):
                    continuous[name] = numbers
        return continuous

    @staticmethod
    def _read_binned(columns: RawColumns, bins: Mapping[str, Bins], weights: Floats | None) -> Records:
        """Return the records of columns, with the categories that occur in them and with numbers in bins.

        Records of weight 0 are left out.
        """
        variables = {name: bins_of_column.variable for name, bins_of_column in bins.items()}

        def read_slice(name: str, start: int, stop: int) -> Any:
            column = columns.read_slice(name, start, stop)
            return bin_column(column, variables[name], _MARKERS) if name in variables else column

        declared = {**columns.declared, **{name: variable.categories for name, variable in variables.items()}}
        binned = replace(columns, read_slice=read_slice, declared=declared)
        records = Records(binned, where=None if weights is None else weights > 0)
        if weights is not None:
            records = records.reweighted(*weights_of_rows(None, weights[weights > 0]))
        # Labels without edges, as they were read, become the bins that they are the labels of.
        schema = merge_schemas(records.schema, Schema(tuple(variables.values()))) if bins else records.schema
        return records.with_cells(schema, records.pointers, records.cells)


@dataclass(kw_only=True, repr=False, eq=False)
class JointPMFEstimator(TableEstimator):
    """A joint PMF of all columns, averaged over several fits; the base of the estimators.

    Parameters
    ----------
    rank
        The number of components of each fit. None chooses it by held-out records.
    smoothing
        Pseudo-records per component. None chooses it, too.
    n_starts
        How many fits are averaged, each from another random start: that predicts better than the best of them.
    n_bins
        The number of bins for a column that looks continuous (see `Discretizer`); if its numbers are whole, a warning
        names the column. None takes every number as a category.
    unseen
        How a category not seen in training is read: as "missing", with a warning that names it, or as an "error".
        Declare categories (pandas ``Categorical``, polars ``Enum``) that are possible but may not occur in training.
    threads
        All cores by default. The result does not depend on it.
    random_state
        The source of every random choice.

    Attributes
    ----------
    pmf_ : JointPMF
        The average of the fits, for every other question.
    forms_ : dict
        The share of each form of model in the average, the largest first: "single", one hidden variable; "tree",
        hidden variables on a tree; "trees", a mixture of trees of the columns. The forms of a classifier are "single",
        "naive_bayes", features that are independent in each class, and "class_trees", a tree of the columns per class.
    rank_, smoothing_ : int, float
        As given or chosen; if several are averaged, those of the model with the largest share: components, states of
        each hidden variable, or trees of each fit.
    candidates_ : tuple of dict
        What was compared: "form", "rank", "smoothing" and "loss", the mean over held-out predictions.
    converged_ : bool
        Whether all fits converged; a `ConvergenceWarning` says if not.
    n_iter_ : int
        The number of passes of the longest fit.
    stop_reason_ : StopReason
        Why the fits ended: that of one that did not converge, if there is one.
    n_features_in_, feature_names_in_ : int, ndarray
        The columns of training; names where they had some.
    """

    rank: int | None = None
    smoothing: float | None = None
    n_starts: int = 8
    n_bins: int | None = 8
    unseen: Unseen = "missing"
    threads: int | None = None
    random_state: Any = 0

    def __init_subclass__(cls, **options: Any) -> None:
        """Put the shared parameters and attributes into the marked places of a class's docstring."""
        super().__init_subclass__(**options)
        if cls.__doc__ and JointPMFEstimator.__doc__:
            _, parameters, attributes = re.split(r"\s+(?:Parameters|Attributes)\s+-+\s+", JointPMFEstimator.__doc__)
            doc = cls.__doc__.replace("<parameters>", parameters)
            cls.__doc__ = doc.replace("<attributes>", attributes.rstrip())

    def _read_training(self, X: Any, sample_weight: Any) -> tuple[Records, Bools]:
        """Return X as records, and which of its rows they are: all but those of weight 0. Remember how it was read."""
        check_reader_options(None, (), self.unseen)
        _, columns = self._open(X, None)
        weights = read_weights(sample_weight, columns.n_rows)
        self._bins = {}
        if self.n_bins is not None:
            numbers = self._find_continuous(columns, weights)
            self._bins = {name: make_bins(name, cells, weights, n_bins=self.n_bins) for name, cells in numbers.items()}
        if whole_numbers := [name for name, bins in self._bins.items() if bins.is_whole]:
            warn_caller(
                f"columns of more than {_MANY_WHOLE_NUMBERS} whole numbers are put into {self.n_bins} bins each: "
                f"{shortlist(whole_numbers)}; n_bins=None takes every number as a category",
                once=True,
            )
        records = self._read_binned(columns, self._bins, weights)
        self._schema = records.schema
        return records, np.ones(columns.n_rows, dtype=bool) if weights is None else weights > 0

    def _read(self, X: Any) -> tuple[Any, Records]:
        """Return X, its columns in the order of training, and its records."""
        check_is_fitted(self)
        X, columns = self._open(X, self._schema.names)
        try:
            return X, Records(columns, schema=self._schema)
        except UnknownNameError:
            if self.unseen == "error":
                raise
        new = [f"{label!r} of {v.name!r}" for v in self._schema for label in self._unseen_labels(columns, v)]
        warn_caller(
            f"categories not seen in training are read as missing: {', '.join(new[:_MOST_SHOWN])}"
            f"{f' and {len(new) - _MOST_SHOWN} more' if len(new) > _MOST_SHOWN else ''}; unseen='error' refuses them",
            once=True,
        )
        return X, Records(columns, schema=self._schema, unseen="missing")

    @staticmethod
    def _unseen_labels(columns: RawColumns, variable: Variable) -> list[Label]:
        """Return the labels of a column that are not categories of its variable, nor numbers for its bins."""
        labels = columns.observed_labels(variable.name, MissingLabels().markers(variable.name, variable))
        new = [label for label in labels if variable.find(label) is None]
        return sort_labels(label for label in new if variable.edges is None or number_to_bin(label) is None)

    @staticmethod
    def _seed_of(random_state: Any) -> int:
        """Return the seed that scikit-learn's ``random_state`` stands for."""
        if isinstance(random_state, int | np.integer):
            return check_whole_number("random_state", random_state, 0)
        return int(check_random_state(random_state).randint(2**31))

    def _fit_average(self, records: Records, loss: Loss, *, tol: float = 1e-3, **more: Any) -> Average:
        """Return the average of fits, and set the attributes that describe it."""
        more |= {name: getattr(self, name) for name in ("rank", "smoothing", "n_starts", "threads")}
        seed = self._seed_of(self.random_state)
        average, shares, self.candidates_ = Averaging(records, loss, tol=tol, seed=seed, **more).fit()
        largest = next(iter(shares))
        self.pmf_, self.rank_, self.smoothing_ = average.pmf, largest.rank, largest.smoothing
        forms = Counter[str]()
        for recipe, share in shares.items():
            forms[recipe.form] += share  # type: ignore[assignment]  # a counter of shares
        self.forms_ = {form: share / forms.total() for form, share in forms.most_common()}
        describe_end(self, average.n_iter, average.stop_reason)
        return average
