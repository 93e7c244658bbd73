"""Frames that are filled: columns keep their type, or the labels are refused."""

from datetime import date
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from twoway.data.frames import fill_frame
from twoway.errors import DataError

HOLES = np.array([1, 2])


def filled(column, values):
    """Return the column "x" of a frame with the cells in the rows 1 and 2 replaced."""
    name = column.name if isinstance(column, pl.Series) else "x"
    frame = pl.DataFrame([column]) if isinstance(column, pl.Series) else pa.table({name: column})
    return fill_frame(frame, {name: (HOLES, np.array(values))}, [name])[name]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array(["a", None, None]), [True, False]),
        (pa.array(["a", None, None]).dictionary_encode(), [True, False]),
        (pl.Series("x", ["a", None, None]), [True, False]),
        (pl.Series("x", [date(2020, 1, 1), None, None]), [1, 2]),
        (pl.Series("x", [date(2020, 1, 1), None, None]), [1.5, 2.0]),
    ],
)
def test_labels_of_another_kind_are_refused(column, values):
    with pytest.raises(DataError, match="cannot hold"):
        filled(column, values)


def test_decimals_stay_decimals():
    cells = [Decimal("1.50"), None, None]
    expected = [Decimal("1.50"), Decimal("1.00"), Decimal("2.25")]
    arrow = filled(pa.array(cells), [1.0, 2.25])
    assert arrow.type == pa.array(cells).type
    assert arrow.to_pylist() == expected
    assert filled(pl.Series("x", cells), [1.0, 2.25]).to_list() == expected


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["b", "a"])])
def test_polars_categories_stay_as_they_are(dtype):
    column = pl.Series("x", ["a", None, None], dtype=dtype)
    assert filled(column, ["b", "a"]).equals(pl.Series("x", ["a", "b", "a"], dtype=dtype))


def test_an_enum_becomes_text_for_a_label_that_it_does_not_have():
    column = pl.Series("x", ["a", None, None], dtype=pl.Enum(["a"]))
    assert filled(column, ["b", "a"]).equals(pl.Series("x", ["a", "b", "a"]))
