"""The confusion matrices of annotators, by EM on sparse labels (Dawid and Skene, 1979; Ibrahim and Fu, 2021).

Annotators are variables, an item is a record that shows the labels it got, and the truth is the hidden variable: a
matrix Pr(label | truth) per annotator is a factor of the joint PMF. A gold label is the truth itself, seen: one more
variable, whose factor is the identity.

Most annotators give too few labels to estimate a matrix from them alone. So each row is drawn toward what is usual:
the rows of all annotators together, tilted by how accurate this annotator is on the whole and by how readily they
use each label. All three are estimated along with the rest, pass by pass (empirical Bayes). A spammer, who gives any
label whatever the truth, so has few numbers to estimate, and all of the spammer's labels to estimate them by.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twoway.arrays import Bools, Floats, Ints
from twoway.estimators.labels.table import LabelTable
from twoway.estimators.long_tables import long_table_folds
from twoway.model.pmf import JointPMF
from twoway.model.posterior import posterior_of
from twoway.report import StopReason
from twoway.solvers.cell_sets import CellSets
from twoway.solvers.coupled_nmf import CoupledNMF
from twoway.solvers.em import climb_by_em
from twoway.solvers.evidence import Evidence
from twoway.solvers.heldout import HeldOut
from twoway.solvers.loop import Loop
from twoway.solvers.problem import Problem
from twoway.solvers.smoothing import Smoothing

_MAX_ITER = 1000
_TOL = 1e-7
SMOOTHING_PER_CLASS = 4.0
"""Pseudo-labels of each cell of a row of a matrix, on the average, unless others predict held-out labels better.

The more classes there are, the more cells have to be estimated from the labels of an annotator.
"""
# The amounts compared, downward and upward from the default, and what another must gain, in standard errors.
_LESS, _MORE = (1 / 4, 1 / 16), (4.0, 16.0)
_CLEARLY = 2.0
# With more labels, one fold is enough to compare amounts; no more than the second number are used.
_MANY_LABELS, _MOST_LABELS = 50_000, 300_000
USUAL_RIGHT = 12.0
"""Pseudo-labels of usual accuracy of each annotator."""
# Pseudo-labels of usual use of the labels of each annotator.
_USUAL_LABELS = 4.0
# Co-occurrences are those of at most this many groups of annotators, with this many pairs of labels per table cell.
_MOST_GROUPS, _PAIRS_PER_CELL = 40, 10
_TINY = 1e-12


@dataclass(frozen=True)
class Confusions:
    """What was learned of the classes and the annotators."""

    priors: Floats
    """(n_classes,): how frequent each class is."""
    matrices: Floats
    """(n_annotators + 1, label, truth): Pr(label | truth) of each annotator, and last of an average one."""
    smoothing: float
    n_iter: int
    stop_reason: StopReason
    log_likelihood: float

    def probabilities(self, table: LabelTable) -> Floats:
        """Return the probability of each class for each item of a table, (n_items, n_classes)."""
        n_classes = len(self.priors)
        stacked = np.vstack([self.matrices.reshape(-1, n_classes), np.eye(n_classes)])
        return posterior_of(table.records.as_block(), self.priors, stacked)[0]


def fit_confusions(table: LabelTable, smoothing: float, *, seed: int, threads: int | None) -> Confusions:
    """Return the more probable of two fits: from majority votes, and from the co-occurrences of annotators."""
    starts = [table.votes]
    if (of_pairs := confusion_start_from_pairs(table, seed=seed, threads=threads)) is not None:
        starts.append(of_pairs)
    fits = [_fit_confusions_from(table, start, smoothing, threads) for start in starts]
    return max(fits, key=lambda fit: fit.log_likelihood)


def _fit_confusions_from(table: LabelTable, start: Floats, smoothing: float, threads: int | None) -> Confusions:
    """Return the fit that begins with some probabilities of the classes of the items, (n_items, n_classes)."""
    n_classes, largest_shares = table.n_classes, table.largest_shares

    def maximize(counts: Floats) -> tuple[Floats, Floats]:
        # The last variable is the truth itself.
        of_annotators = counts[1:-n_classes].reshape(-1, n_classes, n_classes)
        return confusion_parameters(counts[0], of_annotators, largest_shares, smoothing)

    parameters = confusion_parameters(start.sum(axis=0), table.sums(start), largest_shares, smoothing)
    loop = Loop("labels", _MAX_ITER, _TOL, accelerate=False, quiet_cycles=1)
    pmf = JointPMF.from_stacked(table.records.schema, *parameters)
    descent = climb_by_em(CellSets.of_records(table.records, threads), pmf, maximize, loop)
    matrices = descent.pmf.stacked[:-n_classes].reshape(-1, n_classes, n_classes)
    ending = descent.n_iter, descent.stop_reason, -descent.objective
    return Confusions(descent.pmf.weights, matrices, smoothing, *ending)


def confusion_parameters(
    of_class: Floats, of_annotators: Floats, largest_shares: Floats, smoothing: float
) -> tuple[Floats, Floats]:
    """Return how frequent the classes are, and the matrices, stacked above the identity of the truth.

    Parameters
    ----------
    of_class
        The expected number of items of each class.
    of_annotators
        Expected counts, (n_annotators + 1, label, truth).
    largest_shares
        The limits of the classes' shares. Without them, a class with almost no labels would be taken for whatever the
        other classes do not explain.
    smoothing
        Pseudo-labels of each row of a matrix.
    """
    priors = np.minimum((of_class + 1.0) / (of_class + 1.0).sum(), largest_shares)
    factors = of_annotators + smoothing * usual_confusions(of_annotators)
    factors /= factors.sum(axis=1, keepdims=True)
    n_classes = len(of_class)
    return priors / priors.sum(), np.vstack([factors.reshape(-1, n_classes), np.eye(n_classes)])


def usual_confusions(counts: Floats) -> Floats:
    """Return what is usual for each annotator: Pr(label | truth) of all together, tilted; of the shape of the counts.

    Parameters
    ----------
    counts
        (n_annotators, label, truth): how often each annotator is expected to have given each label in each class.
    """
    n_classes = counts.shape[1]
    # One more label in each class, right or of any kind: a class that nobody saw is not out of reach.
    pooled = counts.sum(axis=0) + 0.5 * np.eye(n_classes) + 0.5 / n_classes
    # On the whole, a class is given its own label more often than any other.
    np.fill_diagonal(pooled, pooled.max(axis=0))
    pooled /= pooled.sum(axis=0)
    right, of_class = np.trace(counts, axis1=1, axis2=2), counts.sum(axis=1)
    usually_right = of_class @ np.diag(pooled)
    extra = USUAL_RIGHT * (usually_right.sum() + np.diag(pooled).mean()) / (of_class.sum() + 1.0)
    n_labels = of_class.sum(axis=1) + USUAL_RIGHT
    odds = _confusion_odds((right + extra) / n_labels) / _confusion_odds((usually_right + extra) / n_labels)
    usual: Floats = pooled * np.where(np.eye(n_classes, dtype=bool), odds[:, None, None], 1.0)
    usual /= usual.sum(axis=1, keepdims=True)
    of_label, usually_of_label = counts.sum(axis=2), np.einsum("mjk,mk->mj", usual, of_class)
    extras = usually_of_label.sum(axis=0) + 1.0 / n_classes
    extras *= _USUAL_LABELS / extras.sum()
    usual *= ((of_label + extras) / (usually_of_label + extras))[:, :, None]
    usual /= usual.sum(axis=1, keepdims=True)
    return usual


def _confusion_odds(share: Floats) -> Floats:
    return (share + _TINY) / (1.0 - share + _TINY)


# Where a fit begins


def confusion_start_from_pairs(table: LabelTable, *, seed: int, threads: int | None) -> Floats | None:
    """Return probabilities of the items' classes by the coupled NMF of co-occurrences; None where there are too few.

    The variables are groups of annotators who agree with the majority about as often, so that they have items in
    common, however many annotators there are; few annotators have a group each.
    """
    groups = group_annotators(table)
    records = table.grouped(groups)
    evidence = Evidence(records.schema, records=records, threads=threads)
    if table.n_classes < 2 or len(records.schema) < 3 or len(evidence.tables(2).components()) > 1:
        return None
    solver = CoupledNMF(max_iter=300, tol=1e-5)
    # A little smoothing keeps labels that no pair shows possible.
    pmf = solver.solve(Problem(evidence, table.n_classes, seed, smoothing=Smoothing(0.1, 0.1))).pmf
    memberships = posterior_of(records.as_block(), pmf.weights, pmf.stacked)[0]
    return memberships[:, class_of_components(memberships, table)]


def group_annotators(table: LabelTable) -> Ints:
    """Return a group for each annotator, of about as many labels and as much agreement with the majority."""
    n_annotators = len(table.annotators)
    n_labels = np.bincount(table.annotator_codes, minlength=n_annotators)
    of_item = np.bincount(table.item_codes)
    n_tables = (of_item * (of_item - 1)).sum() / 2 / (_PAIRS_PER_CELL * table.n_classes**2)
    n_groups = int(np.clip(np.sqrt(2 * n_tables), 3, _MOST_GROUPS))
    if n_annotators <= n_groups:
        return np.arange(n_annotators)
    agreement = table.votes[table.item_codes, table.label_codes]
    agreed = np.bincount(table.annotator_codes, agreement, n_annotators) + USUAL_RIGHT * agreement.mean()
    order = np.argsort(agreed / (n_labels + USUAL_RIGHT), kind="stable")
    before = np.cumsum(n_labels[order]) - n_labels[order] / 2
    groups = np.empty(n_annotators, dtype=np.int64)
    _, groups[order] = np.unique(before * n_groups // n_labels.sum(), return_inverse=True)
    return groups


def class_of_components(memberships: Floats, table: LabelTable) -> Ints:
    """Return the component of each class, (n_classes,): by gold labels where there are some, and by majority votes.

    A component is the class that its items are voted for, unless another component has a better claim.
    """
    from scipy.optimize import linear_sum_assignment

    is_gold = table.gold >= 0
    # Gold decides: a gold label counts as all votes together.
    weights = np.where(is_gold, float(len(is_gold)), 1.0)[:, None]
    agreement = (memberships * weights).T @ table.votes
    agreement /= agreement.sum(axis=1, keepdims=True) + _TINY
    components, classes = linear_sum_assignment(agreement, maximize=True)
    return np.asarray(components[np.argsort(classes)])


# How much smoothing


def choose_confusion_smoothing(
    table: LabelTable, *, seed: int, threads: int | None
) -> tuple[float, list[dict[str, float]]]:
    """Return how much smoothing predicts held-out labels best, given the other labels of their items.

    The default, unless another amount is better by more than two standard errors. Also returned are the amounts
    compared, with the mean log-probability of a held-out label.
    """
    random, default = np.random.default_rng(seed), SMOOTHING_PER_CLASS * table.n_classes
    if len(table.label_codes) > _MOST_LABELS:
        some = random.uniform(size=len(table.items)) < _MOST_LABELS / len(table.label_codes)
        table = table.only(some[table.item_codes])
    folds = long_table_folds(len(table.label_codes), _MANY_LABELS, random)
    if not folds:
        return default, []
    tried: dict[float, HeldOut] = {}

    def held_out(smoothing: float) -> HeldOut:
        scores = [_confusion_log_probs(table, held, smoothing, threads) for held in folds]
        tried[smoothing] = HeldOut.of_folds(HeldOut(score, np.ones(len(score))) for score in scores)
        return tried[smoothing]

    best = default
    held_out(best)
    for factors in (_LESS, _MORE):
        for factor in factors:
            if not tried[best].is_behind(held_out(factor * default), _CLEARLY):
                break
            best = factor * default
    return best, [{"smoothing": amount, "log_prob": scores.mean} for amount, scores in sorted(tried.items())]


def _confusion_log_probs(table: LabelTable, held: Bools, smoothing: float, threads: int | None) -> Floats:
    """Return the log-probability of each held-out label, given the others."""
    train = table.only(~held)
    fit = _fit_confusions_from(train, train.votes, smoothing, threads)
    items, annotators, labels = table.item_codes[held], table.annotator_codes[held], table.label_codes[held]
    probabilities = fit.probabilities(train)[items]
    return np.asarray(np.log(np.einsum("nk,nk->n", probabilities, fit.matrices[annotators, labels])))
