import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples, schemas

from twoway.category_labels import label_key
from twoway.data.distribution import Distribution
from twoway.errors import DataError, UnknownNameError
from twoway.schema import Variable
from twoway.text import printable

AGE = Variable("age", ("young", "old"))
VOTE = Variable("vote", ("no", "yes", "?"))
TABLE = Distribution((AGE, VOTE), np.arange(6).reshape(2, 3) / 15, total=90)


def test_labels_pick_a_float_or_the_rest():
    assert TABLE["old", "no"] == 3 / 15
    assert isinstance(TABLE["old", "no"], float)
    rest = TABLE["old"]
    assert rest.names == ("vote",)
    assert rest.array.tolist() == [3 / 15, 4 / 15, 5 / 15]
    assert rest.total == 90
    assert TABLE[{"vote": "yes"}].array.tolist() == [1 / 15, 4 / 15]
    assert TABLE[{"vote": "yes", "age": "young"}] == 1 / 15
    assert TABLE[{}].names == ("age", "vote")


@given(st.data())
@examples(40)
def test_every_cell_is_found_by_its_labels(data):
    schema = data.draw(schemas())
    array = np.random.default_rng(0).random(schema.sizes)
    table = Distribution(schema.variables, array)
    labels = tuple(data.draw(st.sampled_from(variable.categories)) for variable in schema)
    codes = tuple(
        [label_key(one) for one in v.categories].index(label_key(label))
        for v, label in zip(schema, labels, strict=True)
    )
    assert table[labels] == array[codes]
    assert table[dict(zip(schema.names, labels, strict=True))] == array[codes]
    frame = table.to_frame()
    assert list(frame.columns) == [*schema.names, "probability"]
    assert len(frame) == array.size
    keep = np.ones(len(frame), dtype=bool)
    for name, label in zip(schema.names, labels, strict=True):
        keep &= np.array([label_key(one) == label_key(label) for one in frame[name]])
    assert frame["probability"][keep].tolist() == [array[codes]]


def test_errors_for_wrong_labels_list_the_known_ones():
    with pytest.raises(UnknownNameError, match="no category 'olt' of 'age'; did you mean 'old'"):
        TABLE["olt"]
    with pytest.raises(UnknownNameError, match="no variable 'vot'; did you mean 'vote'"):
        TABLE[{"vot": "no"}]
    with pytest.raises(DataError, match=r"3 labels .* 2 variables: age, vote"):
        TABLE["old", "no", "no"]
    with pytest.raises(DataError, match=r"shape \(2, 3\); got an array of \(3,\)"):
        Distribution((AGE, VOTE), [1, 2, 3])
    with pytest.raises(TypeError):
        iter(TABLE)


def test_array_is_read_only_and_the_callers_is_not_touched():
    mine = np.array([0.5, 0.5])
    table = Distribution((AGE,), mine)
    mine[0] = 7
    assert table.array.tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="read-only"):
        table.array[0] = 1
    assert np.asarray(table) is table.array
    assert np.array(table) is not table.array
    assert np.asarray(table, dtype=np.float32).dtype == np.float32
    assert (TABLE.array.sum(axis=0) == np.asarray(TABLE).sum(axis=0)).all()


def test_frames_of_every_library():
    pandas = TABLE.to_frame()
    assert isinstance(pandas, pd.DataFrame)
    polars = TABLE.to_frame("polars")
    arrow = TABLE.to_frame("pyarrow")
    assert pandas["vote"].tolist() == polars["vote"].to_list() == arrow["vote"].to_pylist() == ["no", "yes", "?"] * 2
    assert pandas["probability"].tolist() == polars["probability"].to_list() == arrow["probability"].to_pylist()
    with pytest.raises(UnknownNameError, match="'panda'; did you mean 'pandas'"):
        TABLE.to_frame("panda")
    mixed = Distribution((Variable("x", (1, "1")),), [0.5, 0.5])
    assert mixed.to_frame()["x"].tolist() == [1, "1"]
    with pytest.raises(DataError, match="categories of 'x' are of several types"):
        mixed.to_frame("polars")
    with pytest.raises(DataError, match="'probability'"):
        Distribution((Variable("probability", (1,)),), [1.0]).to_frame()


def test_prints_as_a_table():
    assert repr(TABLE).splitlines() == [
        "age \\ vote  no      yes     ?",
        "young       0.0000  0.0667  0.1333",
        "old         0.2000  0.2667  0.3333",
    ]
    assert repr(TABLE["old"]).splitlines()[1] == "no    0.2000"
    assert "2.5e-07" in repr(Distribution((AGE,), [2.5e-7, 1 - 2.5e-7]))
    long = repr(Distribution((AGE, VOTE, AGE), np.full((2, 3, 2), 1 / 12)))
    assert long.splitlines()[0].split() == ["age", "vote", "age", "probability"]
    assert len(long.splitlines()) == 13


def test_large_tables_are_cut():
    many = Variable("many", tuple(range(100)))
    assert repr(Distribution((many,), np.full(100, 0.01))).splitlines()[-1] == "… 80 more rows"
    square = repr(Distribution((many, many), np.full((100, 100), 1e-4))).splitlines()
    assert square[-1] == "… 80 more rows and 92 more columns"
    assert max(map(len, square)) < 120


def test_control_characters_are_not_printed():
    table = Distribution((Variable("a\x1b[2J", ("x\r\n", "y" * 99)),), [0.5, 0.5])
    assert repr(table).isprintable() is False  # the line breaks of the table itself
    assert all(line.isprintable() for line in repr(table).splitlines())
    assert len(repr(table).splitlines()) == 3
    assert printable("\x1b\u202e\ud800") == "\\x1b\\u202e\\ud800"
