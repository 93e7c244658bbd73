"""Common mistakes raise errors of the package that say what is allowed, not errors of Python or numpy."""

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.errors import DataError, TwowayError
from twoway.solvers import CTD, EM, MLEAD, CoupledNMF

FRAME = {"a": ["x", "y", "x", "y"], "b": [0, 1, 1, 0], "c": [0, 1, 0, 1]}
PMF = tw.fit(FRAME, rank=1, solver="em")

SEEDS = {
    "sample": lambda seed: PMF.sample(2, seed=seed),
    "impute": lambda seed: PMF.impute(pd.DataFrame(FRAME), seed=seed),
    "entropy": lambda seed: PMF.entropy("a", seed=seed),
    "mutual information": lambda seed: PMF.mutual_information("a", "b", seed=seed),
    "fit": lambda seed: tw.fit(FRAME, rank=1, seed=seed),
    "rank": lambda seed: tw.choose_rank(FRAME, [1], seed=seed),
    "bootstrap": lambda seed: tw.bootstrap(PMF, FRAME, n=20, seed=seed),
    "diagnose": lambda seed: tw.diagnose(PMF, seed=seed),
    "population": lambda seed: tw.population(PMF, 5, seed=seed),
}


@pytest.mark.parametrize("where", SEEDS)
@pytest.mark.parametrize("seed", [-1, 0.5, "one", None, True])
def test_seeds_are_integers(where, seed):
    with pytest.raises(DataError, match="seed must be a whole number of at least 0"):
        SEEDS[where](seed)


@pytest.mark.parametrize("solver", [EM, CoupledNMF, CTD, MLEAD])
@pytest.mark.parametrize("options", [{"tol": None}, {"tol": "small"}, {"tol": -1}, {"max_iter": None}, {"max_iter": 0}])
def test_options_of_loops(solver, options):
    with pytest.raises(DataError, match=next(iter(options))):
        tw.fit(FRAME, rank=1, solver=solver(**options), starts=1)


def test_a_class_is_not_a_solver():
    with pytest.raises(DataError, match=r"not a class: write EM\(\)"):
        tw.fit(FRAME, rank=1, solver=EM)
    with pytest.raises(DataError, match="a method solve"):
        tw.fit(FRAME, rank=1, solver=7)


MISTAKES = {
    "no categories": (lambda: tw.Variable("a", None), "categories of 'a' must be labels"),
    "one number": (lambda: tw.Variable("a", 3), "categories of 'a' must be labels"),
    "values of text": (lambda: tw.Variable("a", ("x",), ("one",)), "must be numbers"),
    "a value": (lambda: tw.Variable("a", ("x",), 1.0), "must be numbers"),
    "a number that no float holds": (lambda: tw.Variable("a", (10**400,)), "below 1.8e308"),
    "a number that cannot be printed": (lambda: tw.Variable("a", (10**5000,)), "below 1.8e308"),
    "half a record": (lambda: PMF.sample(0.5), "records to draw must be a whole number"),
    "less than no record": (lambda: PMF.sample(-1), "records to draw must be a whole number"),
    "a smoothing of text": (lambda: tw.fit(FRAME, rank=1, smoothing="much"), "smoothing"),
    "a negative rank": (lambda: tw.fit(FRAME, rank=-1), "rank"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake):
    act, message = MISTAKES[mistake]
    with pytest.raises(TwowayError, match=message):
        act()


def test_large_numbers_are_categories_still():
    variable = tw.Variable("a", (2**1000, -(2**1000), 1e300, 10**300, 1.7e308, int(1.75e308)))
    assert all(np.isfinite(variable.values))
    assert variable.find(float(2**1000)) == 0
