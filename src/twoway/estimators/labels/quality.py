"""The quality of annotators, with intervals, and the labels to ask for next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twoway.arrays import Floats, Ints
from twoway.estimators.labels.confusions import USUAL_RIGHT, Confusions
from twoway.estimators.labels.table import LabelTable
from twoway.model.intervals import checked_interval_level

# A row rests on at least this share of its labels, however uncertain the classes of its items are.
_LEAST_SHARE = 0.02
# Numbers in memory at a time.
_CHUNK = 2**21


class LabelQuality(NamedTuple):
    """On how much evidence the rows of the confusion matrices rest."""

    matrices: Floats
    """(n_annotators, truth, label): Pr(label | truth)."""
    effective: Floats
    """Of the same shape: the number of labels of items with a known class that would be as informative."""
    in_all: Floats
    """(n_annotators,): the same for the accuracy of each annotator."""

    @classmethod
    def of(cls, fit: Confusions, table: LabelTable, probabilities: Floats) -> LabelQuality:
        """Return the rows of a fit.

        The information about Pr(label | truth) in labels of items whose class is uncertain is that of items whose class
        is known, less what is missing: the variance of its score over the classes (Louis, 1982).
        """
        n_annotators = len(table.annotators)
        share = fit.matrices[:n_annotators]
        of_class = table.sums(probabilities)[:n_annotators].sum(axis=1, keepdims=True)
        unsure = table.sums(probabilities * (1.0 - probabilities))[:n_annotators]
        others = unsure.sum(axis=1, keepdims=True) - unsure
        # Of a share that is 0 or 1 nothing is missing.
        spread = share * (1.0 - share)
        odds = np.divide(1.0 - share, share, out=np.zeros_like(share), where=spread > 0)
        against = np.divide(share, 1.0 - share, out=np.zeros_like(share), where=spread > 0)
        missing = unsure * odds + others * against
        # Pseudo-labels are worth no more than what they were made by: all labels of the annotator.
        of_all = of_class.sum(axis=2, keepdims=True) + USUAL_RIGHT
        usual = of_all * fit.smoothing / (of_all + fit.smoothing)
        effective = np.maximum(of_class + usual - missing, _LEAST_SHARE * (of_class + usual))
        missing_right = np.trace(missing, axis1=1, axis2=2)
        in_all = np.maximum(of_all[:, 0, 0] - missing_right, _LEAST_SHARE * of_all[:, 0, 0])
        return cls(share.transpose(0, 2, 1), effective.transpose(0, 2, 1), in_all)

    def accuracy(self, priors: Floats) -> tuple[Floats, Floats]:
        """Return each annotator's probability of a right label, (n_annotators,), and how many labels it rests on."""
        right = np.diagonal(self.matrices, axis1=1, axis2=2)
        labels = np.diagonal(self.effective, axis1=1, axis2=2)
        accuracy: Floats = right @ priors
        variance = (right * (1.0 - right) / (labels + 1.0)) @ np.square(priors)
        full = accuracy * (1.0 - accuracy)
        of_rows = np.divide(full, variance, out=np.full_like(full, np.inf), where=variance > 0) - 1.0
        # The rows lean on one another.
        return accuracy, np.minimum(of_rows, self.in_all)


def label_quality_interval(mean: Floats, n_labels: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the ends of Jeffreys' intervals of shares, given the number of labels; they contain the share."""
    from scipy.special import betaincinv

    level = checked_interval_level(level)
    right, wrong = mean * n_labels + 0.5, (1.0 - mean) * n_labels + 0.5
    low, high = (betaincinv(right, wrong, tail) for tail in ((1.0 - level) / 2, (1.0 + level) / 2))
    return np.minimum(low, mean), np.maximum(high, mean)


def label_information(matrices: Floats, priors: Floats) -> Floats:
    """Return the mutual information, in nats, of the truth and one label of each annotator, (n_annotators,).

    ``matrices`` is (n_annotators, label, truth).
    """
    return np.asarray(expected_label_gains(priors[None], matrices)[0])


def expected_label_gains(probabilities: Floats, matrices: Floats) -> Floats:
    """Return by how many nats a label of each annotator is expected to reduce each item's entropy, (items, annotators).

    ``probabilities`` is (items, truth), ``matrices`` (annotators, label, truth).
    """
    from scipy.special import entr

    n_annotators, n_labels, n_classes = matrices.shape
    labels = probabilities @ matrices.reshape(-1, n_classes).T
    gains = entr(labels).reshape(-1, n_annotators, n_labels).sum(axis=2)
    gains -= probabilities @ entr(matrices).sum(axis=1).T
    return np.asarray(np.maximum(gains, 0.0))


def best_questions(
    table: LabelTable, probabilities: Floats, matrices: Floats, items: Ints, annotators: Ints, n: int
) -> tuple[Ints, Ints, Floats]:
    """Return the items to ask about, most gain first, each with the annotator to ask and the expected gain in nats.

    Parameters
    ----------
    table
        The existing labels: nobody is asked the same thing again.
    probabilities, matrices
        (n_items, truth), and (n_annotators, label, truth).
    items, annotators
        The positions of those that can be asked about, and asked.
    n
        How many.
    """
    from scipy.special import entr

    entropy = entr(probabilities[items]).sum(axis=1)
    order = items[np.argsort(-entropy, kind="stable")]
    entropy = np.sort(entropy)[::-1]
    place = np.full(len(table.annotators), -1)
    place[annotators] = np.arange(len(annotators))
    pointers = np.searchsorted(table.item_codes, np.arange(len(table.items) + 1))
    best, who, size = np.empty(0), np.empty(0, dtype=np.int64), max(1, _CHUNK // max(1, matrices[annotators].size))
    size = max(size, min(len(order), n))
    for first in range(0, len(order), size):
        # No label says more than there is to know: the rest cannot be among the best.
        if len(best) >= n and np.partition(best, -n)[-n] >= entropy[first]:
            break
        chunk = order[first : first + size]
        gains = expected_label_gains(probabilities[chunk], matrices[annotators])
        for row, item in enumerate(chunk):
            asked = place[table.annotator_codes[pointers[item] : pointers[item + 1]]]
            gains[row, asked[asked >= 0]] = -1.0
        who = np.concatenate([who, gains.argmax(axis=1)])
        best = np.concatenate([best, gains.max(axis=1)])
    chosen = np.argsort(-best, kind="stable")[:n]
    chosen = chosen[best[chosen] >= 0]
    return order[chosen], annotators[who[chosen]], best[chosen]
