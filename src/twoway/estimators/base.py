"""What the estimators share: their parameters, how they read tables, and how they fit."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from twoway.data.categories import observed_labels
from twoway.data.coding import Unseen
from twoway.data.columns import Columns, open_columns
from twoway.data.frames import in_memory
from twoway.data.missing import MissingLabels
from twoway.data.reading import as_numbers, check_options
from twoway.data.records import Records
from twoway.data.source import Block
from twoway.data.weighing import check_weights, of_rows
from twoway.errors import DataError, UnknownNameError, warn_caller, whole_number
from twoway.estimators.averaging import Loss, fit_average
from twoway.estimators.bins import MANY_WHOLE_NUMBERS, Bins, binned, find_continuous, make_bins
from twoway.model.pmf import JointPMF
from twoway.model.posterior import posterior_of
from twoway.schema import Label, Schema, Variable, sort_labels
from twoway.text import shortlist

_MOST_SHOWN = 5
_PARAMETERS = """rank
        The number of components of each fit. None chooses it by held-out records.
    smoothing
        Pseudo-records per component. None chooses it, too.
    n_starts
        How many fits are averaged, each from a random start of its own: that predicts better than the best of them.
    n_bins
        How many intervals the numbers of a column that looks continuous are put into (see `Discretizer`); where those
        are whole numbers, a warning names the column. None takes every number as a category.
    unseen
        What a category that training never saw means in later data: "missing", with a warning that names it, or
        "error". Declare categories (pandas ``Categorical``, polars ``Enum``) that are possible but may be lacking in
        training.
    threads
        All cores by default. The result does not depend on it.
    random_state
        The source of every random choice."""
_ATTRIBUTES = """pmf_ : JointPMF
        The average of the fits, for every other question; its rank is ``rank_`` times ``n_starts``.
    rank_, smoothing_ : int, float
        What was given or chosen.
    candidates_ : tuple of dict
        What was compared: "rank", "smoothing" and "loss", the mean over held-out predictions.
    n_features_in_, feature_names_in_ : int, ndarray
        The columns of training; names where they had some."""

Class = TypeVar("Class", bound=type)


def documented(one: Class) -> Class:
    """Return a class whose docstring has what all estimators share in the places marked."""
    text = (one.__doc__ or "").replace("<parameters>", _PARAMETERS)
    one.__doc__ = text.replace("<attributes>", _ATTRIBUTES)
    return one


def is_frame(X: Any) -> bool:
    """Return whether X is a pandas, polars or pyarrow frame."""
    import narwhals as nw

    try:
        return isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"names of columns must differ: {error}") from None


def open_table(estimator: BaseEstimator, X: Any, names: tuple[str, ...] | None) -> tuple[Any, Columns]:
    """Return X as a frame or an array that scikit-learn agrees with, and its columns.

    Parameters
    ----------
    estimator
        It gets ``n_features_in_`` and, from a frame, ``feature_names_in_``, or has them already.
    X
        A frame keeps its library; anything else becomes an array.
    names
        None when fitting; afterwards the names that the columns had then. The columns of a frame are put in that order;
        a missing or an additional one is an error that names it.
    """
    X = in_memory(X)
    if is_frame(X):
        import narwhals as nw

        frame = nw.from_native(X, eager_only=True)
        known = None if names is None else getattr(estimator, "feature_names_in_", None)
        if known is not None and set(known) == set(frame.columns):
            X = frame.select(list(known)).to_native()
        validate_data(estimator, X, skip_check_array=True, reset=names is None)
        if len(frame) == 0:
            raise DataError("X has 0 records; a minimum of 1 is required")
    else:
        X = validate_data(estimator, X, dtype=None, ensure_all_finite=False, reset=names is None)
    opened = open_columns(X)
    if names is None:
        named = hasattr(estimator, "feature_names_in_")
        names = opened.names if named else tuple(f"x{place}" for place in range(len(opened.names)))
    return X, _renamed(opened, names)


def _renamed(columns: Columns, names: tuple[str, ...]) -> Columns:
    """Return columns under other names: an array may stand where a frame was, and a frame where an array was."""
    if columns.names == names:
        return columns
    old = dict(zip(names, columns.names, strict=True))
    declared = {name: columns.declared[one] for name, one in old.items() if one in columns.declared}
    return Columns(
        names, columns.n_rows, lambda name, start, stop: columns.read_slice(old[name], start, stop), declared
    )


def read_weights(given: Any, n_records: int) -> NDArray[np.float64]:
    """Return the weights of records as an array, or raise where they cannot be weights."""
    weights = as_numbers(given, "weights", n_records)
    check_weights(weights)
    if n_records and not weights.any():
        raise DataError("the weights of the records are all zero; at least one must be positive")
    return weights


def read_training(columns: Columns, bins: Mapping[str, Bins], weights: NDArray[np.float64] | None) -> Records:
    """Return the records of some columns, their categories found in them; intervals have their centres as values.

    Records of weight 0 are as if they were not there.
    """
    records = Records(binned(columns, bins), where=None if weights is None else weights > 0)
    if weights is not None:
        records = records.reweighted(*of_rows(None, weights[weights > 0]))
    variables = tuple(bins[v.name].variable if v.name in bins else v for v in records.schema)
    return records.with_cells(Schema(variables), records.pointers, records.cells)


def _unseen(columns: Columns, variable: Variable) -> list[Label]:
    """Return the labels of a column that are no categories of its variable."""
    labels = observed_labels(columns, variable.name, MissingLabels().markers(variable.name, variable))
    return sort_labels(label for label in labels if variable.find(label) is None)


def probabilities(pmf: JointPMF, records: Records, index: int) -> NDArray[np.float64]:
    """Return Pr(category of one variable | what a record shows), shape (n_records, n_categories).

    NaN for a record that is impossible under the model, which only one without smoothing can have.
    """

    def per_block(block: Block) -> list[NDArray[np.float64]]:
        memberships, log_prob = posterior_of(block, pmf.weights, pmf.stacked)
        memberships[log_prob == -np.inf] = np.nan
        return [memberships @ pmf.factors[index].T]

    return np.concatenate(records.map_reduce(per_block, operator.add))


def seed_of(random_state: Any) -> int:
    """Return the seed that scikit-learn's ``random_state`` stands for."""
    if isinstance(random_state, int | np.integer):
        return whole_number("random_state", random_state, 0)
    return int(check_random_state(random_state).randint(2**31))


class JointPMFEstimator(BaseEstimator):  # type: ignore[misc]
    """A joint PMF of all columns, averaged over several fits; the base of the estimators."""

    def __init__(
        self,
        *,
        rank: int | None = None,
        smoothing: float | None = None,
        n_starts: int = 8,
        n_bins: int | None = 8,
        unseen: Unseen = "missing",
        threads: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.rank = rank
        self.smoothing = smoothing
        self.n_starts = n_starts
        self.n_bins = n_bins
        self.unseen = unseen
        self.threads = threads
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _read_training(self, X: Any, sample_weight: Any) -> tuple[Records, NDArray[np.bool_]]:
        """Return X as records, and which of its rows they are: all but those of weight 0. Remember how it was read."""
        _, columns = open_table(self, X, None)
        weights = None if sample_weight is None else read_weights(sample_weight, columns.n_rows)
        counts = np.ones(columns.n_rows, dtype=bool) if weights is None else weights > 0
        numbers = {} if self.n_bins is None else find_continuous(columns, counts)
        self._bins = {
            name: make_bins(name, column, weights, n_bins=self.n_bins or 2, strategy="quantile")
            for name, column in numbers.items()
        }
        if whole := [name for name, bins in self._bins.items() if bins.is_whole]:
            warn_caller(
                f"columns of more than {MANY_WHOLE_NUMBERS} whole numbers are put into {self.n_bins} intervals each: "
                f"{shortlist(whole)}; n_bins=None takes every number as a category",
                once=True,
            )
        records = read_training(columns, self._bins, weights)
        self._schema = records.schema
        return records, counts

    def _read(self, X: Any) -> tuple[Any, Records]:
        """Return X, its columns in the order of training, and its records."""
        check_is_fitted(self)
        X, columns = open_table(self, X, self._schema.names)
        check_options(None, (), self.unseen)
        columns = binned(columns, self._bins)
        try:
            return X, Records(columns, schema=self._schema)
        except UnknownNameError:
            if self.unseen == "error":
                raise
        new = [f"{label!r} of {v.name!r}" for v in self._schema for label in _unseen(columns, v)]
        warn_caller(
            f"categories that training did not see are read as missing: {', '.join(new[:_MOST_SHOWN])}"
            f"{f' and {len(new) - _MOST_SHOWN} more' if len(new) > _MOST_SHOWN else ''}; unseen='error' refuses them",
            once=True,
        )
        return X, Records(columns, schema=self._schema, unseen="missing")

    def _fit_average(self, records: Records, loss: Loss, tol: float = 1e-3) -> None:
        fitted = fit_average(
            records,
            loss,
            rank=self.rank,
            smoothing=self.smoothing,
            n_starts=self.n_starts,
            tol=tol,
            seed=seed_of(self.random_state),
            threads=self.threads,
        )
        self.pmf_ = fitted.pmf
        self.rank_, self.smoothing_ = fitted.recipe.rank, fitted.recipe.smoothing
        self.candidates_ = fitted.candidates
