"""JointPMFDensity: the probability of records, and samples of them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from twoway.arrays import Floats
from twoway.data import frames
from twoway.data.records import Records
from twoway.data.weights import record_weights
from twoway.estimators.averaging import FORMS, Losses
from twoway.estimators.base import JointPMFEstimator
from twoway.model.pmf import JointPMF


class JointPMFDensity(DensityMixin, JointPMFEstimator):  # type: ignore[misc]
    """The joint probability of all columns of a table of categories with missing cells.

    It averages models of one hidden variable, of hidden variables on a tree, and mixtures of trees of the columns.
    Their shares, ranks and smoothing are those under which held-out records are most probable. Where ``rank`` or
    ``smoothing`` is given, there is one hidden variable. The probability of a record with a continuous column is that
    of its bin.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    <attributes>

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0, 0, 0], [1, 1, 1]] * 50)
    >>> model = JointPMFDensity().fit(X)
    >>> np.exp(model.score_samples([[1, 1, 1], [1, 0, 1], [1, np.nan, np.nan]])).round(2)
    array([0.5, 0. , 0.5])
    >>> model.sample(8)[5:]
    array([[0, 0, 0],
           [1, 1, 1],
           [1, 1, 1]])
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, validation: Any = None) -> Self:
        """Learn the joint probability of the columns; ``y`` is not used.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame, or anything that becomes a 2-D array. NaN, None and null are missing.
        sample_weight
            How much each record matters; their scale does not. A record of weight 2 is not two records of weight 1.
        validation
            Records to choose form, rank and smoothing by; nothing else is learned from them. None holds out parts of X.
        """
        X = frames.frame_in_memory(X)
        self._library = "numpy" if frames.eager_frame(X) is None else frames.frame_library(X)
        records = self._read_training(X, sample_weight)[0]
        held_out = None if validation is None else self._read(validation)[1]
        self._fit_average(records, self._loss, forms=FORMS, held_out=held_out)
        return self

    def score_samples(self, X: Any) -> Floats:
        """Return the logarithm of each record's probability, missing cells summed out; (n_records,)."""
        return self.pmf_.log_prob(self._read(X)[1])

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of ``score_samples``."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, random_state: Any = 0) -> Any:
        """Return records drawn from the joint probability, in a frame of the library that X came in, or an array.

        A continuous column gets numbers drawn evenly from its bins.
        """
        check_is_fitted(self)
        seed = self._seed_of(random_state)
        drawn, random = self.pmf_.sample(n_samples, seed=seed), np.random.default_rng([seed, 1])
        columns = {name: drawn[name].to_numpy() for name in self._schema.names}
        for name, bins in self._bins.items():
            columns[name] = bins.draw(np.array([bins.variable.code(label) for label in columns[name]], int), random)
        is_array = self._library == "numpy"
        frame = frames.make_frame(columns, "pandas" if is_array else self._library)
        return frame.to_numpy() if is_array else frame

    @staticmethod
    def _loss(pmf: JointPMF, held: Records) -> Losses:
        """Return the negative log-probability of each record."""
        return -np.maximum(pmf.log_prob(held), -1e6), record_weights(held)
