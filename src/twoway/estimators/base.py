"""What the estimators share: their parameters, and how they read records and fit."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from twoway.data.binning import make_bins, parse_number
from twoway.data.categories import observed_labels
from twoway.data.coding import Unseen
from twoway.data.columns import Columns
from twoway.data.missing import MissingLabels
from twoway.data.reading import check_options
from twoway.data.records import Records
from twoway.data.source import Block
from twoway.errors import UnknownNameError, warn_caller, whole_number
from twoway.estimators.averaging import Loss, fit_average
from twoway.estimators.tables import MANY_WHOLE_NUMBERS, TableEstimator, find_continuous, read_training, read_weights
from twoway.model.pmf import JointPMF
from twoway.model.posterior import posterior_of
from twoway.schema import Label, Variable, sort_labels
from twoway.text import shortlist

_MOST_SHOWN = 5
_PARAMETERS = """rank
        The number of components of each fit. None chooses it by held-out records.
    smoothing
        Pseudo-records per component. None chooses it, too.
    n_starts
        How many fits are averaged, each from a random start of its own: that predicts better than the best of them.
    n_bins
        How many bins the numbers of a column that looks continuous are sorted into (see `Discretizer`); where those
        are whole numbers, a warning names the column. None takes every number as a category.
    unseen
        What a category that training never saw means in later data: "missing", with a warning that names it, or
        "error". Declare categories (pandas ``Categorical``, polars ``Enum``) that are possible but may not occur in
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
    converged_ : bool
        Whether all fits converged; a `ConvergenceWarning` says if not.
    n_iter_ : int
        The number of passes of the longest fit.
    stop_reason_ : StopReason
        Why the fits ended: the first reason other than convergence, if there is one.
    n_features_in_, feature_names_in_ : int, ndarray
        The columns of training; names where they had some."""

Class = TypeVar("Class", bound=type)


def documented(estimator: Class) -> Class:
    """Return a class whose docstring has what all estimators share in the places marked."""
    text = (estimator.__doc__ or "").replace("<parameters>", _PARAMETERS)
    estimator.__doc__ = text.replace("<attributes>", _ATTRIBUTES)
    return estimator


def probabilities(pmf: JointPMF, records: Records, index: int) -> NDArray[np.float64]:
    """Return Pr(category of a variable | what a record shows), shape (n_records, n_categories).

    NaN for a record that is impossible under the model, which happens without smoothing only.
    """

    def per_block(block: Block) -> list[NDArray[np.float64]]:
        return [posterior_of(block, pmf.weights, pmf.stacked, impossible=np.nan)[0] @ pmf.factors[index].T]

    return np.concatenate(records.map_reduce(per_block, operator.add))


def record_weights(records: Records) -> NDArray[np.float64]:
    """Return how much each record counts; (n_records,)."""
    return np.ones(records.n_records) if records.weights is None else records.weights


def seed_of(random_state: Any) -> int:
    """Return the seed that scikit-learn's ``random_state`` stands for."""
    if isinstance(random_state, int | np.integer):
        return whole_number("random_state", random_state, 0)
    return int(check_random_state(random_state).randint(2**31))


def _unseen(columns: Columns, variable: Variable) -> list[Label]:
    """Return the labels of a column that are not categories of its variable, nor numbers for its bins."""
    labels = observed_labels(columns, variable.name, MissingLabels().markers(variable.name, variable))
    new = [label for label in labels if variable.find(label) is None]
    return sort_labels(label for label in new if variable.edges is None or parse_number(label) is None)


@dataclass(kw_only=True, repr=False, eq=False)
class JointPMFEstimator(TableEstimator):
    """A joint PMF of all columns, averaged over several fits; the base of the estimators."""

    rank: int | None = None
    smoothing: float | None = None
    n_starts: int = 8
    n_bins: int | None = 8
    unseen: Unseen = "missing"
    threads: int | None = None
    random_state: Any = 0

    def _read_training(self, X: Any, sample_weight: Any) -> tuple[Records, NDArray[np.bool_]]:
        """Return X as records, and which of its rows they are: all but those of weight 0. Remember how it was read."""
        _, columns = self._open(X, None)
        weights = read_weights(sample_weight, columns.n_rows)
        counts = np.ones(columns.n_rows, dtype=bool) if weights is None else weights > 0
        numbers = {} if self.n_bins is None else find_continuous(columns, counts)
        self._bins = {name: make_bins(name, cells, weights, n_bins=self.n_bins or 2) for name, cells in numbers.items()}
        if whole := [name for name, bins in self._bins.items() if bins.is_whole]:
            warn_caller(
                f"columns of more than {MANY_WHOLE_NUMBERS} whole numbers are put into {self.n_bins} bins each: "
                f"{shortlist(whole)}; n_bins=None takes every number as a category",
                once=True,
            )
        records = read_training(columns, self._bins, weights)
        self._schema = records.schema
        return records, counts

    def _read(self, X: Any) -> tuple[Any, Records]:
        """Return X, its columns in the order of training, and its records."""
        check_is_fitted(self)
        X, columns = self._open(X, self._schema.names)
        check_options(None, (), self.unseen)
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
        options = {name: getattr(self, name) for name in ("rank", "smoothing", "n_starts", "threads")}
        fitted = fit_average(records, loss, tol=tol, seed=seed_of(self.random_state), **options)
        self.pmf_ = fitted.pmf
        self.rank_, self.smoothing_ = fitted.recipe.rank, fitted.recipe.smoothing
        self.candidates_ = fitted.candidates
        fitted.describe_end(self)
