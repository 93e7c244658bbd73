"""Things of the wrong kind are refused by name, and large whole numbers are not run together."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows

PMF = dirichlet_rows(3, 2, 2, seed=1)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: tw.ask(PMF, None), "a question is a text"),
        (lambda: tw.ask(PMF, b"P(x1)"), "a question is a text"),
        (lambda: tw.ask(None, "P(x1)"), "the model must be a JointPMF, such as fit returns, not NoneType"),
        (lambda: tw.update(None, {}), "the model must be a JointPMF"),
        (lambda: tw.Schema(5), "a schema is made of Variables, not 5"),
        (lambda: tw.Schema(None), "a schema is made of Variables, not None"),
        (lambda: tw.JointPMF.average(5), "number 0 of what is averaged must be a JointPMF"),
        (lambda: tw.JointPMF.average([PMF, "zz"]), "number 1 of what is averaged must be a JointPMF"),
        (lambda: tw.fit({"a": np.ones((3, 2)), "b": [1, 2, 3]}), "a column must be a sequence of cells"),
        (lambda: tw.Records({"a": [1, 2]}, weights=[1, 10**400]), "numbers"),
        (lambda: tw.fit({"a": [0, 1], "b": [0, 1]}, rank=10**9), "use a lower rank"),
        (lambda: tw.fit({"a": [0, 1], "b": [0, 1]}, rank=1, smoothing=1e308), "between 0 and 1e"),
    ],
)
def test_what_is_wrong_is_named(call, told):
    with pytest.raises(tw.DataError, match=told):
        call()


LARGE = [2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3]


@pytest.mark.parametrize(
    "column",
    [[*LARGE, None], (*LARGE, None), [*LARGE, float("nan")], [Decimal(one) for one in LARGE]],
    ids=["a list", "a tuple", "not a number", "decimals"],
)
def test_large_whole_numbers_stay_apart(column):
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
