"""Find the true labels of items that several annotators labelled, and how good each annotator is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from twoway.arrays import Ints
from twoway.category_labels import label_array
from twoway.errors import DataError, check_number, check_whole_number, warn_caller
from twoway.estimators.base import describe_end
from twoway.estimators.labels.confusions import choose_confusion_smoothing, fit_confusions
from twoway.estimators.labels.quality import LabelQuality, best_questions, label_information, label_quality_interval
from twoway.estimators.labels.table import LabelTable, read_labels, read_new_labels
from twoway.estimators.long_tables import check_long_table_option, find_long_table_names
from twoway.text import counted

# With fewer annotators, their agreement does not show who is right.
_FEWEST_ANNOTATORS = 3


@dataclass(kw_only=True, repr=False, eq=False)
class LabelAggregator(BaseEstimator):  # type: ignore[misc]
    """Finds the true label of each item from the labels of several annotators, and how good each annotator is.

    The model is that of Dawid and Skene: an item has a true class, and each annotator gives each label with a
    probability that depends on that class. The matrices of these probabilities are drawn toward what is usual, as much
    as held-out labels suggest, so that annotators with few labels do no harm.

    Parameters
    ----------
    columns
        The columns of the table: item, annotator, label.
    smoothing
        How many pseudo-labels each row of a confusion matrix gets, as they are usual. None takes four for each class,
        or another number where it predicts held-out labels clearly better.
    missing
        Further labels that mean "no label", in addition to null, NaN, the empty text, "NA", "?" and the like.
    random_state
        The source of every random choice; a number gives the same result each time.
    threads
        All cores by default.

    Attributes
    ----------
    labels_ : Series
        The most probable class of each item, by item.
    probabilities_ : DataFrame
        The probability of each class, items × classes.
    class_prior_ : Series
        How frequent each class is.
    confusion_ : ndarray
        (n_annotators, n_classes, n_classes): Pr(label | truth) of each annotator, a row per true class.
    items_, annotators_ : Index
        In the order of their first appearance.
    classes_ : ndarray
        The classes, in the order of all columns and matrices.
    smoothing_ : float
        As given or chosen.
    validation_ : list of dict
        The amounts of smoothing compared, with the mean log-probability of a held-out label; empty where it was given.
    converged_ : bool
        Whether the fit converged; a `ConvergenceWarning` says if not.
    n_iter_ : int
        The number of passes.
    stop_reason_ : StopReason
        Why the fit ended.

    Examples
    --------
    >>> import pandas as pd
    >>> labels = pd.DataFrame(
    ...     {
    ...         "item": [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4],
    ...         "annotator": ["ann", "bob", "eve"] * 4,
    ...         "label": ["cat", "cat", "dog", "dog", "dog", "cat", "cat", "cat", "cat", "dog", "dog", "cat"],
    ...     }
    ... )
    >>> model = LabelAggregator().fit(labels)
    >>> model.labels_.to_dict()
    {1: 'cat', 2: 'dog', 3: 'cat', 4: 'dog'}
    >>> model.quality()["annotator"].tolist()
    ['ann', 'bob', 'eve']
    """

    columns: Sequence[str] = ("item", "annotator", "label")
    smoothing: float | None = None
    missing: Sequence[Any] = ()
    random_state: Any = 0
    threads: int | None = None

    def fit(self, X: Any, y: Any = None, *, gold: Any = None) -> LabelAggregator:
        """Learn from labels.

        An annotator who gave the same item two different labels is an error; the same label twice counts once.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow) or mapping with the columns item, annotator and label (see ``columns``), a
            row per label; or a tuple of three arrays in this order.
        y
            The labels, where X does not hold them.
        gold
            Known classes of some items, taken as true: a mapping or a pandas Series from item to class, or a frame with
            the column of the items and one more.
        """
        check_long_table_option(self.columns, "item, annotator and label")
        smoothing = self.smoothing
        if smoothing is not None:
            allowed = "None or a number of pseudo-labels above 0"
            check_number("smoothing", smoothing, allowed, lambda number: 0 < number < np.inf)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options: dict[str, Any] = {"seed": seed, "threads": self.threads}
        table = read_labels(X, self.columns, labels=y, gold=gold, missing=self.missing)
        n_annotators = len(np.unique(table.annotator_codes))
        if n_annotators < _FEWEST_ANNOTATORS and not (table.gold >= 0).any():
            warn_caller(
                f"{counted(n_annotators, 'annotator')} and no gold labels: agreement shows errors only if there are at "
                f"least {_FEWEST_ANNOTATORS} annotators"
            )
        self.validation_: list[dict[str, float]] = []
        if smoothing is None:
            smoothing, self.validation_ = choose_confusion_smoothing(table, **options)
        self._table, self._fit = table, fit_confusions(table, float(smoothing), **options)
        self.smoothing_ = self._fit.smoothing
        self.items_, self.annotators_ = table.items, table.annotators
        self.classes_ = label_array(table.classes)
        self.probabilities_ = self._frame_of(table)
        self.labels_ = self._most_probable(self.probabilities_)
        self.class_prior_ = pd.Series(self._fit.priors, index=pd.Index(self.classes_), name="share")
        self._rows = LabelQuality.of(self._fit, table, self.probabilities_.to_numpy())
        self.confusion_ = self._rows.matrices
        describe_end(self, self._fit.n_iter, self._fit.stop_reason, "more smoothing needs fewer")
        return self

    def fit_predict(self, X: Any, y: Any = None, *, gold: Any = None) -> pd.Series[Any]:
        """Return the most probable class of each item, by item; parameters as for `fit`."""
        return self.fit(X, y, gold=gold).labels_

    def predict(self, X: Any) -> pd.Series[Any]:
        """Return the most probable class of each item of a table of labels, by item.

        Parameters
        ----------
        X
            Labels as for `fit`, of any items. An annotator not seen in training is treated as an average one, with a
            warning; a label not seen in training is an error.
        """
        return self._most_probable(self.predict_proba(X))

    def predict_proba(self, X: Any) -> pd.DataFrame:
        """Return the probability of each class, items × classes; parameters as for `predict`."""
        check_is_fitted(self)
        return self._frame_of(read_new_labels(X, self.columns, self._table, self.missing))

    def quality(self, level: float = 0.95) -> pd.DataFrame:
        """Return how good each annotator is, in the order of `annotators_`.

        Columns: "annotator"; "labels", how many they gave; "accuracy", the probability that a label is right, and its
        interval, "low" and "high"; "information", how much a label says about the truth, in nats. An annotator who
        is always wrong about two classes has an accuracy of 0 and the same information as one who is always right; the
        information of a spammer is 0.

        Parameters
        ----------
        level
            The probability of the intervals.
        """
        check_is_fitted(self)
        accuracy, n_labels = self._rows.accuracy(self._fit.priors)
        low, high = label_quality_interval(accuracy, n_labels, level)
        columns = {
            "annotator": self.annotators_,
            "labels": np.bincount(self._table.annotator_codes, minlength=len(self.annotators_)),
            "accuracy": accuracy,
            "low": low,
            "high": high,
            "information": label_information(self._fit.matrices[:-1], self._fit.priors),
        }
        return pd.DataFrame(columns)

    def confusion(self, annotator: Any = None, level: float = 0.95) -> pd.DataFrame:
        """Return the confusion matrices with intervals, a row per annotator, true class and label.

        Columns: "annotator", "truth", "label", "probability", "low", "high".

        Parameters
        ----------
        annotator
            One of `annotators_`, or a list of some; all by default.
        level
            The probability of the intervals.
        """
        check_is_fitted(self)
        is_one = isinstance(annotator, str) or not (annotator is None or hasattr(annotator, "__len__"))
        places = self._places("annotator", self.annotators_, [annotator] if is_one else annotator)
        rows = LabelQuality(*(array[places] for array in self._rows))
        low, high = label_quality_interval(rows.matrices, rows.effective, level)
        of_cells: Any = [self.annotators_[places], self.classes_, self.classes_]
        index: pd.MultiIndex = pd.MultiIndex.from_product(of_cells, names=["annotator", "truth", "label"])
        return index.to_frame(index=False).assign(probability=rows.matrices.ravel(), low=low.ravel(), high=high.ravel())

    def next_questions(self, n: int = 10, *, items: Any = None, annotators: Any = None) -> pd.DataFrame:
        """Return which items to ask about next, and whom: those whose label is expected to be most informative.

        Columns: "item", "annotator", "gain", the expected reduction of the item's entropy in nats, and the item's
        current "label" and its "probability". An item is listed once, with the best annotator who has not labelled it;
        items with a gold label are not listed.

        Parameters
        ----------
        n
            How many.
        items, annotators
            Those that can be asked about, and asked; all by default.
        """
        check_is_fitted(self)
        n = check_whole_number("n", n, 1)
        about = np.intersect1d(np.flatnonzero(self._table.gold < 0), self._places("item", self.items_, items))
        who = np.unique(self._places("annotator", self.annotators_, annotators))
        probabilities = self.probabilities_.to_numpy()
        asked, whom, gains = best_questions(self._table, probabilities, self._fit.matrices[:-1], about, who, n)
        columns = {
            "item": self.items_[asked],
            "annotator": self.annotators_[whom],
            "gain": gains,
            "label": self.labels_.to_numpy()[asked],
            "probability": probabilities[asked].max(axis=1),
        }
        return pd.DataFrame(columns)

    @staticmethod
    def _places(kind: str, known: pd.Index, names: Any) -> Ints:
        """Return the positions of names, or all positions for None; an unknown name is an error."""
        if names is None:
            return np.arange(len(known))
        if isinstance(names, str) or not hasattr(names, "__len__"):
            raise DataError(f"{kind}s must be a list of names, got {names!r}")
        return find_long_table_names(kind, known, list(names))

    def _frame_of(self, table: LabelTable) -> pd.DataFrame:
        index = table.items.rename(self.columns[0])
        return pd.DataFrame(self._fit.probabilities(table), index=index, columns=pd.Index(self.classes_))

    def _most_probable(self, probabilities: pd.DataFrame) -> pd.Series[Any]:
        most = self.classes_[probabilities.to_numpy().argmax(axis=1)]
        return pd.Series(most, index=probabilities.index, name=self.columns[2])
