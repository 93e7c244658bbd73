"""Arguments of the wrong type are named in the error, and large integers stay distinct."""

import copy
import pickle
from decimal import Decimal
from inspect import signature
from types import FunctionType

import numpy as np
import pyarrow as pa
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows

PMF = dirichlet_rows(3, 2, 2, seed=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tw.ask(PMF, None), "question"),
        (lambda: tw.ask(PMF, b"P(x1)"), "question"),
        (lambda: tw.ask(None, "P(x1)"), "the model must be .*NoneType"),
        (lambda: tw.update(None, {}), "the model must be a JointPMF"),
        (lambda: tw.Schema(5), "not 5$"),
        (lambda: tw.Schema(None), "not None$"),
        (lambda: tw.JointPMF.average(5), r"pmfs\[0\] must be a JointPMF"),
        (lambda: tw.JointPMF.average([PMF, "zz"]), r"pmfs\[1\] must be a JointPMF"),
        (lambda: tw.fit({"a": np.ones((3, 2)), "b": [1, 2, 3]}), "column"),
        (lambda: tw.Records({"a": [1, 2]}, weights=[1, 10**400]), "numbers"),
        (lambda: tw.fit({"a": [0, 1], "b": [0, 1]}, rank=10**9), "use a lower rank"),
        (lambda: tw.fit({"a": [0, 1], "b": [0, 1]}, rank=1, smoothing=1e308), "between 0 and 1e"),
        (lambda: tw.fit({"a": [0, 1], "b": [0, 1]}, rank=1, smoothing=10**400), "between 0 and 1e"),
        (
            lambda: tw.fit({"a": [0, 1], "b": [0, 1]}, rank=1, seconds=np.ones(2)),
            "seconds must be None, for no time limit, or a number",
        ),
        (lambda: tw.bootstrap(PMF, {}, n_records="many"), "n_records must be a number above 0, not 'many'"),
        (lambda: tw.diagnose(tw.count({"a": [0, 1], "b": [0, 1]}), n_records=-5), "n_records must be .* not -5"),
        (lambda: PMF.save(None), "file.* not None"),
        (lambda: tw.load(5), "file.* not 5"),
        (lambda: tw.FileRecords(5), "file.* not 5"),
        (lambda: tw.Records({"a": [1, 2]}, where="a > 1"), "got 'a > 1'; a condition in SQL is for files"),
        (lambda: tw.Records({"a": [1, 2]}, where=[1, 0, 1]), "2 truth values, one per record; got 3 of type int64"),
        (lambda: tw.count({"a": [1], "b": [1]}).save(None), "file.* not None"),
        (lambda: tw.sql_view(PMF, None), "the name of a table .*NoneType"),
        (lambda: tw.kl_divergence(PMF, 5), "the estimate must be .*int"),
        (lambda: tw.kl_divergence(5, PMF), "the truth must be a JointPMF"),
        (lambda: tw.total_variation(PMF, 5, "x1"), "second .*not int"),
    ],
)
def test_what_is_wrong_is_named(call, message):
    with pytest.raises(tw.DataError, match=message):
        call()


MODEL_FUNCTIONS = [
    name
    for name in tw.__all__
    if isinstance(getattr(tw, name), FunctionType)
    and next(iter(signature(getattr(tw, name)).parameters)) in ("pmf", "truth", "one", "fitted", "choice", "model")
]


@pytest.mark.parametrize("name", MODEL_FUNCTIONS)
@pytest.mark.parametrize("given", [None, 5, "model.twoway", {"x1": [1]}])
def test_every_function_of_a_model_rejects_other_types_by_name(name, given):
    """The model is checked first, before the other arguments."""
    function = getattr(tw, name)
    needed = [one for one in signature(function).parameters.values() if one.default is one.empty][1:]
    with pytest.raises(tw.TwowayError):
        function(given, *("x1" for _ in needed))


def test_functions_of_a_model_are_found():
    assert {"ask", "explore", "sql_view", "kl_divergence", "plot_components", "bootstrap", "update"} < set(
        MODEL_FUNCTIONS
    )


@pytest.mark.parametrize("name", ["weights", "factors", "stacked", "schema", "report", "anything"])
def test_a_model_does_not_change(name):
    before = PMF.prob({"x1": 0})
    with pytest.raises(AttributeError, match=f"'{name}' cannot be assigned"):
        setattr(PMF, name, None)
    with pytest.raises(AttributeError):
        delattr(PMF, name)
    with pytest.raises((TypeError, ValueError)):
        PMF.factors[0] = PMF.factors[1]
    with pytest.raises(ValueError, match="read-only"):
        PMF.weights[0] = 1.0
    assert PMF.prob({"x1": 0}) == before
    for copied in (copy.copy(PMF), copy.deepcopy(PMF), pickle.loads(pickle.dumps(PMF))):
        assert copied.prob({"x1": 0}) == before


LARGE = [2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3]


@pytest.mark.parametrize(
    "column",
    [[*LARGE, None], (*LARGE, None), [*LARGE, float("nan")], [Decimal(one) for one in LARGE]],
    ids=["a list", "a tuple", "not a number", "decimals"],
)
def test_large_integers_stay_distinct(column):
    assert tw.Records({"a": column}).schema["a"].categories == tuple(LARGE)


def test_decimals_of_arrow():
    column = pa.array([*map(Decimal, LARGE), None], pa.decimal128(38, 0))
    assert tw.Records(pa.table({"a": column})).schema["a"].categories == tuple(LARGE)
    mixed = [Decimal("0.5"), Decimal("sNaN"), Decimal("NaN"), Decimal("1e5"), Decimal("2.0")]
    assert tw.Records({"a": mixed}).schema["a"].categories == (0.5, 2, 100000)


def test_dates_that_python_does_not_have():
    table = pa.table({"a": pa.array([10**7, 0], pa.int32()).cast(pa.date32())})
    with pytest.raises(tw.DataError, match="dates beyond the years 1 to 9999"):
        tw.Records(table)
