"""JointPMFClassifier: the label is one more variable."""

from __future__ import annotations

import operator
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from twoway.arrays import Floats, Ints
from twoway.data.records import Records
from twoway.data.stored_records import Block
from twoway.data.weights import record_weights
from twoway.errors import DataError
from twoway.estimators.averaging import CLASS_FORMS, Losses
from twoway.estimators.base import JointPMFEstimator
from twoway.model.imputation import warn_of_impossible
from twoway.model.pmf import JointPMF
from twoway.model.posterior import Posterior
from twoway.schema import Schema, Variable

# A label that is less probable than this costs no more: one that is impossible would decide alone.
_LEAST_CHANCE = 1e-6


class JointPMFClassifier(ClassifierMixin, JointPMFEstimator):  # type: ignore[misc]
    """A classifier for tables of categories with missing cells, the label being one more variable of a joint PMF.

    Features may be missing, in training and in prediction: no imputation, no dummy codes. So may labels in training
    (NaN or None in ``y``): such records still show which features occur together. The most probable class is predicted,
    prior included. Models of several forms, ranks and smoothing are fitted (see ``forms_``), and their probabilities of
    the classes are averaged, with the shares that minimize the log-loss of the labels of held-out records. Naive Bayes
    is taken alone unless the average is better by more than a standard error.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    <attributes>

    Notes
    -----
    -1 in ``y`` is a class like any other; write a missing label as NaN or None.

    Where several forms have a share, ``pmf_``, their mixture, need not give a label the probability that
    ``predict_proba`` gives it: in a mixture, a form counts as much as it makes the features of the record probable.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"sky": ["clear", "grey", None, "grey"] * 5, "wind": ["calm", "calm", "calm", "storm"] * 5})
    >>> y = ["walk", "read", "walk", None] * 5
    >>> model = JointPMFClassifier(rank=2).fit(X, y)
    >>> model.predict(pd.DataFrame({"sky": ["grey", "clear"], "wind": [None, None]}))
    array(['read', 'walk'], dtype=object)
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the joint probability of features and label.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame, or anything that becomes a 2-D array. NaN, None and null are missing.
        y
            A label per record, NaN or None where it is missing.
        sample_weight
            How much each record matters; their scale does not. A record of weight 2 is not two records of weight 1.
        """
        features, is_used = self._read_training(X, sample_weight)
        codes = self._read_labels(y, len(is_used))[is_used]
        name = y.name if isinstance(getattr(y, "name", None), str) else "label"
        while name in features.schema:
            name += "_"
        records = self._with_labels(features, Variable(name, tuple(self.classes_.tolist())), codes)
        # The label is a small part of a record: runs that end early have not learnt it yet.
        self._parts = self._fit_average(records, self._loss, tol=3e-5, forms=CLASS_FORMS).parts
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, shape (n_records, n_classes), in the order of ``classes_``.

        The columns of a frame may be in any order. A record that is impossible under the model, as some are without
        smoothing, has NaN, with a warning.
        """
        _, features = self._read(X)
        # The label is the last variable: the cells of the others have the same numbers with it and without it.
        records = Records.from_cells(self.pmf_.schema, features.pointers, features.cells)
        weights, models = zip(*self._parts, strict=True)
        shares: Floats = np.tensordot(weights, [self._class_shares(pmf, records) for pmf in models], axes=1)
        shares /= shares.sum(axis=1, keepdims=True)
        impossible = np.flatnonzero(np.isnan(shares[:, 0]))
        warn_of_impossible(impossible, "probabilities are NaN, and the most common class is predicted")
        return shares

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each record; the most common class if it is impossible under the model."""
        shares = self.predict_proba(X)
        overall = self._overall_shares(self.pmf_)
        return np.asarray(self.classes_[np.where(np.isnan(shares), overall, shares).argmax(axis=1)])

    def _read_labels(self, y: Any, n_records: int) -> Ints:
        """Return the class of each record, -1 where it is missing, and remember the classes."""
        if y is None:
            raise DataError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; write missing labels as NaN "
                "or None in y"
            )
        labels = column_or_1d(y, warn=True)
        if len(labels) != n_records:
            raise DataError(f"X has {n_records} records and y has {len(labels)} labels; each record needs one")
        is_known = ~pd.isna(labels)
        known = labels[is_known]
        is_text = {isinstance(label, str) for label in known} if known.dtype == object else set()
        if len(is_text) == 2:
            raise DataError("some labels in y are text and others are not; make them all text, or all numbers")
        if is_text == {False}:
            known = np.array(known.tolist())
        if len(known) == 0:
            raise DataError(f"all {len(labels)} labels are missing; a classifier needs records with a label")
        if known.dtype.kind == "f" and np.isinf(known).any():
            raise DataError("y contains infinity; a label is text, a truth value or a finite number")
        check_classification_targets(known)
        codes = np.full(len(labels), -1, dtype=np.int64)
        self.classes_, codes[is_known] = np.unique(known, return_inverse=True)
        if len(self.classes_) == 1:
            raise DataError(
                f"the label has one class only, {self.classes_.tolist()[0]!r}, in {len(known)} records; at least two "
                "classes are needed"
            )
        return codes

    @staticmethod
    def _with_labels(features: Records, label: Variable, codes: Ints) -> Records:
        """Return records with one more variable, the last one, whose codes (n_records,) are -1 where it is missing."""
        schema, is_known = Schema((*features.schema.variables, label)), codes >= 0
        pointers = features.pointers + np.concatenate([[0], np.cumsum(is_known)])
        cells = features.cells.astype(np.min_scalar_type(schema.n_categories - 1))
        cells = np.insert(cells, features.pointers[1:][is_known], features.schema.n_categories + codes[is_known])
        return features.with_cells(schema, pointers, cells)

    @staticmethod
    def _class_shares(pmf: JointPMF, records: Records) -> Floats:
        """Return Pr(class | what a record shows), shape (n_records, n_classes).

        NaN for a record that is impossible under the model, which happens without smoothing only.
        """

        def per_block(block: Block) -> list[Floats]:
            return [Posterior.of(pmf.trees, block).memberships(len(pmf.schema) - 1) @ pmf.factors[-1].T]

        return np.concatenate(records.map_reduce(per_block, operator.add))

    @staticmethod
    def _overall_shares(pmf: JointPMF) -> Floats:
        """Return Pr(class), shape (n_classes,)."""
        return pmf.factors[-1] @ pmf.trees.state_shares(len(pmf.schema) - 1)

    @classmethod
    def _loss(cls, pmf: JointPMF, held: Records) -> Losses:
        """Return the negative log-probability of each label, given the features of its record."""
        codes = held.codes()[:, -1]
        held = held.take(np.flatnonzero(codes >= 0))
        codes = codes[codes >= 0]
        shares = cls._class_shares(pmf, held.showing(np.arange(len(pmf.schema)) < len(pmf.schema) - 1))
        shares = np.where(np.isnan(shares), cls._overall_shares(pmf), shares)  # as `predict` guesses
        chances = shares[np.arange(len(codes)), codes]
        return -np.log(np.maximum(chances, _LEAST_CHANCE)), record_weights(held)
