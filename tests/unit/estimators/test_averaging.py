"""What the average of several fits minimises, and how its fits ended."""

import numpy as np
import pytest
from estimator_tables import survey
from hidden_trees import random_tree

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.estimators.averaging import Averaging
from twoway.model.trees import Trees


def random_records(seed=0):
    frame, label = survey(40, seed=seed)
    records = tw.Records(frame.drop(columns="income"))
    codes = np.array(["abc".index(one) for one in label])
    codes[::7] = -1
    return tw.JointPMFClassifier._with_labels(records, tw.Variable("kind", ("a", "b", "c")), codes), codes


def test_appending_a_label():
    records, codes = random_records()
    matrix = records.codes()
    np.testing.assert_array_equal(matrix[:, -1], codes)
    frame, _ = survey(40)
    np.testing.assert_array_equal(matrix[:, :-1], tw.Records(frame.drop(columns="income")).codes())


def test_losses_are_what_they_say():
    records, codes = random_records()
    pmf = tw.fit(records, rank=2, smoothing=1.0)
    matrix, names = records.codes(), records.schema.names
    logs = []
    for row in np.flatnonzero(codes >= 0):
        shown = {n: records.schema[n].categories[c] for n, c in zip(names[:-1], matrix[row], strict=False) if c >= 0}
        logs.append(-np.log(np.asarray(pmf.given(shown).marginal("kind"))[codes[row]]))
    losses, weights = tw.JointPMFClassifier._loss(pmf, records)
    np.testing.assert_allclose(losses, logs)
    assert weights.tolist() == [1.0] * len(logs)

    losses, weights = tw.JointPMFDensity._loss(pmf, records)
    np.testing.assert_allclose(losses, -pmf.log_prob(records))

    # Each hidden cell is scored given what is not hidden of its record, by trees and by one hidden variable.
    n = len(names)
    tree = random_tree((-1, 0), n_states=(2, 3), sizes=records.schema.sizes, homes=[0, 1] * (n // 2) + [0] * (n % 2))
    pmf = tw.JointPMF.average([pmf, tw.JointPMF.from_trees(pmf.schema, Trees(np.ones(1), (tree,)))], [0.3, 0.7])
    assert pmf.n_hidden == 3
    losses, weights = tw.JointPMFImputer._loss(pmf, records)
    hidden = np.random.default_rng(0).random(records.n_observed) < 0.2
    place, expected = 0, []
    for row in range(len(matrix)):
        there = np.flatnonzero(matrix[row] >= 0)
        marks = hidden[place : place + len(there)]
        place += len(there)
        label = {n: records.schema.variables[n].categories[matrix[row, n]] for n in there}
        shown = pmf.given({names[n]: label[n] for n in there[~marks]})
        expected += [-np.log(shown.prob({names[n]: label[n]})) for n in there[marks]]
    np.testing.assert_allclose(losses, expected)
    assert len(weights) == len(losses) > 10


def random_schema():
    return tw.Schema((tw.Variable("a", (0, 1)), tw.Variable("b", (0, 1))))


def test_nothing_to_fit():
    records = tw.Records({"a": [None, None], "b": [None, None]}, schema=random_schema())
    with pytest.raises(tw.DataError, match="none of the 2 records"):
        Averaging(records, tw.JointPMFDensity._loss, rank=1, smoothing=None, n_starts=1, tol=1e-3, seed=0, threads=1)


@pytest.mark.parametrize(("tol", "reason"), [(1e-3, tw.StopReason.CONVERGED), (0.0, tw.StopReason.MAX_ITER)])
def test_an_average_knows_how_its_fits_ended(tol, reason):
    records = draw_records(dirichlet_rows(4, 3, 2, seed=1), 100, observed=0.8, seed=1)
    options = {"rank": 2, "smoothing": 1.0, "n_starts": 3, "tol": tol, "seed": 0, "threads": 1}
    average, _, _ = Averaging(records, tw.JointPMFDensity._loss, **options).fit()
    assert average.stop_reason is reason
    assert (average.n_iter >= 300) == (reason is tw.StopReason.MAX_ITER)
