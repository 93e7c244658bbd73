"""Plan: how many records, by simulation and by the bounds."""

import json
import math

import numpy as np
import pytest
from hidden_trees import random_tree
from random_models import sized

import twoway as tw
from twoway.datasets import dirichlet_rows
from twoway.diagnosis.bounds import table_error
from twoway.diagnosis.plan import Trial, _planned_records
from twoway.model.trees import Trees
from twoway.schema import Schema, Variable

TRUTH = dirichlet_rows(4, 3, 2, seed=2)


@pytest.mark.slow
def test_more_records_less_error_and_the_answer_between():
    found = tw.plan(TRUTH, 0.03, names=["x1", "x2"], sizes=[200, 3200], trials=2)
    assert found.trials[0].error > 0.03 > found.trials[1].error
    assert 200 < found.n_records < 3200
    assert not found.is_beyond
    assert str(found).startswith("about ")
    assert "total variation of x1 × x2 to 0.03" in str(found)
    described = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert described["trials"][0]["error"] == pytest.approx(found.trials[0].error)


@pytest.mark.slow
def test_missing_cells_need_more_records():
    complete = tw.plan(TRUTH, 0.05, sizes=[400, 1600], trials=1)
    half = tw.plan(TRUTH, 0.05, sizes=[400, 1600], trials=1, observed=0.5)
    assert half.trials[-1].error > complete.trials[-1].error
    assert half.by_tables_bound == pytest.approx(4 * complete.by_tables_bound)
    assert "50% are observed" in str(half)


def test_the_bound_on_tables_is_that_of_proposition_1():
    found = tw.plan(TRUTH, 0.05, sizes=[100], trials=1)
    bound = table_error(found.by_tables_bound * 1.001, n_tables=6)
    assert bound.applies
    assert 0.5 * math.sqrt(9) * bound.error <= 0.05


def test_theorem_3_applies_to_separable_models():
    schema = Schema(tuple(Variable(f"v{i}", (0, 1, 2)) for i in range(4)))
    separable = tw.JointPMF([1 / 3] * 3, [np.eye(3)] * 4, schema)
    found = tw.plan(separable, 0.05, sizes=[100], trials=1)
    assert math.isfinite(found.by_spa_bound)
    assert "from " in found.spa_note
    assert "does not apply" in tw.plan(TRUTH, 0.05, sizes=[100], trials=1).spa_note


def test_a_schema_and_tables_only():
    found = tw.plan(TRUTH.schema, 0.2, rank=2, sizes=[300], trials=1, tables=True)
    assert found.n_records == 300
    with pytest.raises(tw.DataError, match="give a rank"):
        tw.plan(TRUTH.schema, 0.2)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_plan():
    one = tw.plan(TRUTH, 0.1, sizes=[100, 200], trials=1)
    assert one.to_dict() == tw.plan(TRUTH, 0.1, sizes=[100, 200], trials=1, threads=1).to_dict()


@pytest.mark.parametrize(
    ("errors", "needed", "is_beyond"),
    [
        ([0.04], 100, False),
        ([0.2, 0.05], 400, False),
        ([0.2, 0.1], 1600, True),  # halves with four times the records
        ([0.2, 0.199, 0.198], None, True),
        ([0.2], None, True),
    ],
)
def test_extrapolation_of_the_error(errors, needed, is_beyond):
    trials = [Trial(100 * 4**i, (error,)) for i, error in enumerate(errors)]
    found, beyond = _planned_records(trials, 0.05)
    assert beyond == is_beyond
    assert found == (None if needed is None else pytest.approx(needed))


def test_bad_input_is_refused():
    for bad in (0, 1, -0.1, "much"):
        with pytest.raises(tw.DataError, match="total variation between 0 and 1"):
            tw.plan(TRUTH, bad)
    with pytest.raises(tw.DataError, match="observed must be"):
        tw.plan(TRUTH, observed=0)
    with pytest.raises(tw.DataError, match="leave rank out"):
        tw.plan(TRUTH, rank=3)
    with pytest.raises(tw.UnknownNameError, match="did you mean 'x1'"):
        tw.plan(TRUTH, names="X1")
    with pytest.raises(tw.DataError, match="a JointPMF or a Schema"):
        tw.plan("survey")
    with pytest.raises(tw.DataError, match="a size must be"):
        tw.plan(TRUTH, sizes=[0])


def test_a_tree_is_planned_with_trees():
    tree = random_tree((-1, 0, 1, 1), concentration=0.5)
    truth = tw.JointPMF.from_trees(sized((3, 2, 4, 3, 2, 3)), Trees(np.ones(1), (tree,)))
    found = tw.plan(truth, 0.1, sizes=[200, 3200], trials=1)
    assert found.trials[0].error > found.trials[1].error
    assert found.trials[1].error < 0.15
    assert "does not apply to hidden variables on a tree" in str(found)
