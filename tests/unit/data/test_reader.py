"""Reading raw data: every kind of frame and label gives the same records; errors name the bad input."""

import datetime
import decimal
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples, frames, schemas

from twoway.data import raw_columns as columns
from twoway.data.coding import coded_labels
from twoway.data.columns import Columns
from twoway.data.missing import USUAL, MissingLabels
from twoway.data.records import Records
from twoway.errors import DataError, TwowayError, UnknownNameError
from twoway.schema import Schema, Variable

SCHEMA = Schema((Variable("age", ("young", "old")), Variable("vote", ("no", "yes"))))
COLUMNS = {"age": ["young", None, "old", "old"], "vote": ["yes", "no", None, "no"]}
CODES = [[1, 1], [-1, 0], [0, -1], [0, 0]]


def categories(source, **options):
    return {variable.name: variable.categories for variable in Records(source, **options).schema}


def labels_of(records):
    """Return the records as a list of {name: label}."""
    return [
        {v.name: v.categories[code] for v, code in zip(records.schema, row, strict=True) if code >= 0}
        for row in records.codes()
    ]


def objects(*cells):
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column


# The kinds of source


@pytest.mark.parametrize(
    "make",
    [
        dict,
        pd.DataFrame,
        pl.DataFrame,
        pl.LazyFrame,
        pa.table,
        lambda columns: {name: pl.Series(column) for name, column in columns.items()},
        lambda columns: {name: np.array(column, dtype=object) for name, column in columns.items()},
        lambda columns: {name: tuple(column) for name, column in columns.items()},
    ],
    ids=["mapping", "pandas", "polars", "lazy", "pyarrow", "of series", "of arrays", "of tuples"],
)
def test_every_source_gives_the_same_records(make):
    records = Records(make(COLUMNS))
    assert records.schema.names == ("age", "vote")
    assert records.schema["age"].categories == ("old", "young")
    assert records.codes().tolist() == CODES
    assert records.pointers.tolist() == [0, 2, 3, 4, 6]
    assert records.cells.tolist() == [1, 3, 2, 0, 0, 2]
    assert records.cells.dtype == np.uint8


def test_a_numpy_array_names_its_columns():
    array = np.array([["young", "yes"], ["", "no"], ["old", ""], ["old", "no"]])
    assert Records(array).schema.names == ("x0", "x1")
    named = Records(array, columns=["age", "vote"])
    assert named.schema.names == ("age", "vote")
    assert named.codes().tolist() == CODES
    mixed = Records(np.array([[1, "a"], [None, "b"], [True, np.nan]], dtype=object))
    assert labels_of(mixed) == [{"x0": 1, "x1": "a"}, {"x1": "b"}, {"x0": True}]


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float32, np.float64, np.bool_])
def test_arrays_of_numbers(dtype):
    records = Records(np.array([[0, 1], [1, 1]], dtype=dtype))
    expected = {False, True} if dtype is np.bool_ else {0, 1}
    assert set(records.schema["x0"].categories) == expected
    assert all(type(label) in (int, bool) for label in records.schema["x0"].categories)
    assert records.codes().tolist() == [[0, 0], [1, 0]]


def test_a_series_in_a_mapping_counts_by_position_not_by_index():
    records = Records({"a": pd.Series([1, 2], index=[7, 8]), "b": pd.Series(["x", "y"], index=[8, 7])})
    assert labels_of(records) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def test_records_are_read_again():
    records = Records(COLUMNS, schema=SCHEMA, weights=[1, 2, 3, 4])
    again = Records(records)
    assert again.schema == SCHEMA
    assert again.codes().tolist() == records.codes().tolist()
    assert again.weights.tolist() == [1, 2, 3, 4]
    wider = Schema((Variable("vote", ("yes", "maybe", "no")), Variable("age", ("old", "young"))))
    assert labels_of(Records(records, schema=wider)) == labels_of(records)
    assert Records(records, columns=["vote"]).schema.names == ("vote",)
    with pytest.raises(UnknownNameError, match="no category 'young' of 'age'"):
        Records(records, schema=Schema((Variable("age", ("old",)), Variable("vote", ("no", "yes")))))


@pytest.mark.parametrize("source", [None, 3, [1, 2], pd.Series([1, 2])], ids=repr)
def test_foreign_sources(source):
    with pytest.raises(DataError, match=r"pandas, polars or pyarrow frame.*got"):
        Records(source)


def test_sources_of_the_wrong_shape():
    with pytest.raises(DataError, match=r"2 dimensions.*got 1"):
        Records(np.zeros(3))
    with pytest.raises(DataError, match="2 columns and got 1 names"):
        Records(np.zeros((3, 2)), columns=["a"])
    with pytest.raises(DataError, match=r"of one length; got \{'a': 2, 'b': 1\}"):
        Records({"a": [1, 2], "b": [1]})
    with pytest.raises(DataError, match="no columns"):
        Records({})
    for scalar in ("abc", 3, None):
        with pytest.raises(DataError, match="column 'a' must be a sequence"):
            Records({"a": scalar})


@pytest.mark.parametrize(
    "source",
    [
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame([[1, 2]], columns=["1", 1]),
        pa.table([[1], [2]], names=["a", "a"]),
    ],
    ids=["pandas", "1 and '1'", "pyarrow"],
)
def test_duplicate_column_names(source):
    with pytest.raises(DataError, match=r"duplicate column name '(a|1)'"):
        Records(source)


def test_duplicate_names_asked_for():
    with pytest.raises(DataError, match="duplicate column name 'a'"):
        Records({"a": [1]}, columns=["a", "a"])
    with pytest.raises(DataError, match="duplicate column name 'a'"):
        Records(np.zeros((1, 2)), columns=["a", "a"])


def test_columns_are_chosen_in_the_order_asked_for():
    assert Records(COLUMNS, columns=["vote", "age"]).schema.names == ("vote", "age")
    assert Records(COLUMNS, columns=["vote"]).codes().tolist() == [[1], [0], [-1], [0]]
    with pytest.raises(UnknownNameError, match=r"no column 'vot'; did you mean 'vote'\?"):
        Records(COLUMNS, columns=["vot"])


# The kinds of labels


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([2, 10, 1], (1, 2, 10)),
        ([2.0, None, 1.0], (1, 2)),
        ([2.5, float("nan"), 1.0], (1, 2.5)),
        (["b", "a", "B"], ("B", "a", "b")),
        ([True, None, False], (False, True)),
        (pd.array([3, None, 1], dtype="Int64"), (1, 3)),
        (pd.array([True, None], dtype="boolean"), (True,)),
        (pd.array(["x", None], dtype="string"), ("x",)),
        ([datetime.date(2021, 1, 2), None], ("2021-01-02",)),
        (pd.to_datetime(["2021-01-02", None]), ("2021-01-02",)),
        ([decimal.Decimal("1.0"), decimal.Decimal("2.5")], (1, 2.5)),
        (objects(1, "1", 1.0, True, "b"), (True, 1, "1", "b")),
        (objects(1, True), (True, 1)),
        (objects(2.5, True, pd.NA, None, np.nan, pd.NaT), (True, 2.5)),
        ([-0.0, 0.0], (0,)),
        ([2**60, 2**60 + 1], (2**60, 2**60 + 1)),
        (np.array([2**64 - 1], dtype=np.uint64), (2**64 - 1,)),
    ],
    ids=str,
)
def test_labels(column, expected):
    found = categories({"v": column})["v"]
    assert found == expected
    assert [type(label) for label in found] == [type(label) for label in expected]


@pytest.mark.parametrize(
    "cell", [b"x", [1], {"x": 1}, (1, 2), 1j, np.array([1, 2]), object()], ids=lambda c: str(type(c))
)
def test_cells_that_are_not_labels(cell):
    for column in (objects(cell, "x"), objects(cell, cell), objects(cell, None)):
        with pytest.raises(DataError, match=r"column 'v': a category must be text, a number"):
            Records(pd.DataFrame({"v": pd.Series(column, dtype=object)}))


def test_columns_of_other_types():
    for frame in (
        pa.table({"v": pa.array([[1], [2]])}),
        pa.table({"v": pa.array([{"x": 1}])}),
        pl.DataFrame({"v": [[1], [2]]}),
        np.array([[1j]]),
        np.array([[b"x"]]),
    ):
        with pytest.raises(DataError, match=r"column '(v|x0)': a category"):
            Records(frame)


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_infinity_is_not_a_category(infinite):
    with pytest.raises(DataError, match="column 'v': a category must be a finite number"):
        Records({"v": [1.0, infinite]})


def test_the_limit_of_categories():
    assert Records({"v": [1, 2, 2]}, max_categories=2).schema["v"].categories == (1, 2)
    for column in ([1, 2, 3], pd.Categorical(["a"], ["a", "b", "c"])):
        with pytest.raises(DataError, match="column 'v' has more than 2 distinct values"):
            Records({"v": column}, max_categories=2)
    with pytest.raises(DataError, match="max_categories must be a whole number"):
        Records({"v": [1]}, max_categories=0)


def test_readers_take_the_same_options_in_the_same_order():
    import inspect

    import twoway as tw

    shared = ["columns", "where", "missing", "weights", "counts", "max_categories", "schema", "unseen"]
    for reader in (tw.Records, tw.FileRecords, tw.DatabaseTable, tw.DaskRecords):
        parameters = list(inspect.signature(reader).parameters.values())[1:]
        assert [parameter.name for parameter in parameters][: len(shared)] == shared
        assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters)


# Declared categories


def test_pandas_categories_keep_their_order_used_or_not():
    column = pd.Categorical(["b", None, "a"], categories=["c", "b", "a"])
    records = Records({"v": column})
    assert records.schema["v"].categories == ("c", "b", "a")
    assert records.codes().ravel().tolist() == [1, -1, 2]
    assert categories({"v": pd.Categorical([None, None], categories=[3, 1])})["v"] == (3, 1)
    dates = pd.Categorical(pd.to_datetime(["2021-01-02", "2020-01-01"]))
    assert categories({"v": dates})["v"] == ("2020-01-01", "2021-01-02")
    assert Records({"v": dates}).codes().ravel().tolist() == [1, 0]


def test_a_declared_category_may_mean_missing():
    records = Records({"v": pd.Categorical(["NA", "x"], categories=["NA", "x"])})
    assert records.schema["v"].categories == ("x",)
    assert records.codes().ravel().tolist() == [-1, 0]


def test_polars_enum_is_declared_and_categorical_is_not():
    enum = pl.Series("v", ["b", None, "a"], dtype=pl.Enum(["c", "b", "a"]))
    assert categories(pl.DataFrame({"v": enum}))["v"] == ("c", "b", "a")
    assert Records(pl.DataFrame({"v": enum})).codes().ravel().tolist() == [1, -1, 2]
    loose = pl.Series("v", ["b", None, "a"], dtype=pl.Categorical)
    assert categories(pl.DataFrame({"v": loose}))["v"] == ("a", "b")
    assert Records(pl.DataFrame({"v": loose})).codes().ravel().tolist() == [1, -1, 0]


@pytest.mark.parametrize("ordered", [True, False])
def test_pyarrow_dictionaries_in_chunks(ordered):
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), ["z", "a"], ordered=ordered),
        pa.DictionaryArray.from_arrays(pa.array([1, None], pa.int8()), ["m", "z"], ordered=ordered),
    ]
    records = Records(pa.table({"v": pa.chunked_array(chunks)}))
    assert records.schema["v"].categories == (("z", "a", "m") if ordered else ("a", "z"))
    assert labels_of(records) == [{"v": "z"}, {"v": "a"}, {"v": "z"}, {}]


# Missing cells


@pytest.mark.parametrize("marker", ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "?", " NA ", "  "])
def test_usual_markers(marker):
    assert labels_of(Records({"v": [marker, "x"]})) == [{}, {"v": "x"}]


@pytest.mark.filterwarnings("ignore:no cell has")
def test_markers_of_ones_own_replace_the_usual_ones():
    assert categories({"v": [-9, 1, 2]}, missing=[-9])["v"] == (1, 2)
    assert categories({"v": [-9.0, 1.0]}, missing=[-9])["v"] == (1,)
    assert categories({"v": ["-9", "1"]}, missing=[-9])["v"] == ("1", "-9")
    assert categories({"v": ["NA", "-9", "x"]}, missing=["-9"])["v"] == ("x",)
    assert categories({"v": ["NA", "x"]}, missing=MissingLabels(only=True))["v"] == ("NA", "x")
    assert categories({"v": ["N", "A", "NA"]}, missing="NA")["v"] == ("A", "N")
    assert categories({"v": [True, False]}, missing=[1])["v"] == (False, True)


@pytest.mark.parametrize(
    "column", [[None, None], [np.nan], ["", "NA"], [], pd.Series([None, None], dtype=object)], ids=str
)
def test_a_column_without_an_observed_cell(column):
    with pytest.raises(DataError, match="column 'v' has no observed cell"):
        Records({"v": column})
    schema = Schema((Variable("v", ("a", "b")),))
    records = Records({"v": column}, schema=schema)
    assert records.n_observed == 0
    assert records.n_records == len(column)


# Weights and where


def test_weights():
    by_array = Records(COLUMNS, weights=[1, 0.5, 0, 2])
    by_column = Records(COLUMNS | {"w": [1, 0.5, 0, 2]}, weights="w")
    chosen = Records(COLUMNS | {"w": [1, 0.5, 0, 2]}, columns=["age", "vote"], weights="w")
    for records in (by_array, by_column, chosen):
        assert records.schema.names == ("age", "vote")
        assert records.weights.tolist() == [1, 0.5, 0, 2]
        assert records.total_weight == 3.5
    assert Records(np.array([[1, 2.0], [0, 3.0]]), columns=["a", "w"], weights="w").weights.tolist() == [2, 3]
    assert Records(COLUMNS).weights is None
    assert Records(COLUMNS).total_weight == 4


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2, 3], "4 records and 3 weights"),
        ([1, 2, 3, -4], r"record 3 has -4\.0"),
        ([1, np.nan, 3, 4], "record 1 has nan"),
        ([1, 2, np.inf, 4], "record 2 has inf"),
        ([1, None, 3, 4], "record 1 has nan"),
        ([0, 0, 0, 0], "all zero"),
        (["a", 1, 2, 3], "must be numbers"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(DataError, match=message):
        Records(COLUMNS, weights=weights)


def test_no_such_column_for_the_weights():
    with pytest.raises(UnknownNameError, match=r"no column 'wt' for the weights"):
        Records(COLUMNS | {"weight": [1, 1, 1, 1]}, weights="wt")


def test_where():
    records = Records(COLUMNS, where=[True, False, False, True], weights=[1, 2, 3, 4])
    assert labels_of(records) == [{"age": "young", "vote": "yes"}, {"age": "old", "vote": "no"}]
    assert records.weights.tolist() == [1, 4]
    for where in ([True], [1, 0, 0, 1], "age"):
        with pytest.raises(DataError, match="4 truth values"):
            Records(COLUMNS, where=where)


def test_records_outside_where_have_no_effect():
    assert categories({"v": ["a", "b"]}, where=[True, False])["v"] == ("a",)
    schema = Schema((Variable("v", ("a",)),))
    assert Records({"v": ["a", "b"]}, schema=schema, where=[True, False]).n_records == 1
    assert Records({"v": ["a", "b"]}, weights=[1, -1], where=[True, False]).weights.tolist() == [1]
    assert Records({"v": ["a", "b"]}, weights=[1, float("nan")], where=[True, False]).weights.tolist() == [1]
    with pytest.raises(DataError, match="all zero"):
        Records({"v": ["a", "b"]}, weights=[0, 1], where=[True, False])
    with pytest.raises(DataError, match="'v' has no observed cell in 1 records"):
        Records({"v": [None, "b"]}, where=[True, False])


# Reading by a schema


def test_a_schema_decides_the_codes():
    records = Records(COLUMNS, schema=SCHEMA)
    assert records.codes().tolist() == [[0, 1], [-1, 0], [1, -1], [1, 0]]


def test_unseen_labels():
    columns = {"age": ["young", "old"], "vote": ["no", "yess"]}
    with pytest.raises(
        UnknownNameError, match=r"no category 'yess' of 'vote' \(record 1\); did you mean 'yes'\?.*unseen="
    ):
        Records(columns, schema=SCHEMA)
    assert Records(columns, schema=SCHEMA, unseen="missing").codes().tolist() == [[0, 0], [1, -1]]
    with pytest.raises(DataError, match="unseen must be 'error', 'missing' or 'extend', not 'drop'"):
        Records(columns, schema=SCHEMA, unseen="drop")


def test_unseen_labels_far_down_name_their_record(monkeypatch):
    monkeypatch.setattr(columns, "SLICE_ROWS", 4)
    with pytest.raises(UnknownNameError, match=r"'q' of 'vote' \(record 9\)"):
        Records({"age": ["old"] * 12, "vote": ["no"] * 9 + ["q", "no", "q"]}, schema=SCHEMA)


def test_some_rows_are_read_as_a_frame_of_them_alone(monkeypatch):
    monkeypatch.setattr(columns, "SLICE_ROWS", 4)
    frame = pd.DataFrame({"age": ["young", "old", None] * 8, "income": np.linspace(0.1, 7, 24), "w": [1.5, 2, 3] * 8})
    rows = np.arange(24) % 5 > 1
    declared = Columns({"income": {"cuts": [2, 4]}}, weights="w")
    some, alone = Records(frame, columns=declared, where=rows), Records(frame[rows], columns=declared)
    assert some.schema == alone.schema
    assert some.codes().tolist() == alone.codes().tolist()
    assert some.weights.tolist() == alone.weights.tolist()
    frame.loc[18, "age"] = "odd"
    with pytest.raises(UnknownNameError, match=r"'odd' of 'age' \(record 18\)"):
        Records(frame[["age"]], schema=SCHEMA, where=rows)


def test_labels_match_by_the_rule():
    schema = Schema((Variable("v", (1, "1", True)),))
    assert Records({"v": objects(1, 1.0, "1", True, np.int8(1))}, schema=schema).codes().ravel().tolist() == [
        0,
        0,
        1,
        2,
        0,
    ]
    with pytest.raises(UnknownNameError, match="did you mean the text '2'"):
        Records({"v": [2]}, schema=Schema((Variable("v", ("1", "2")),)))


def test_columns_lacking_or_left_over_but_not_both():
    assert Records({"vote": ["no"]}, schema=SCHEMA).codes().tolist() == [[-1, 0]]
    assert Records({"vote": ["no"], "age": ["old"], "id": [17]}, schema=SCHEMA).codes().tolist() == [[1, 0]]
    with pytest.raises(DataError, match=r"no column for 'age'.*no variable for 'aeg'; did you mean 'age'\?"):
        Records({"vote": ["no"], "aeg": ["old"]}, schema=SCHEMA)


# Any frame, any slices


@examples(50)
@given(st.data())
def test_codes_match_the_frame(data):
    schema = data.draw(schemas())
    frame = data.draw(frames(schema))
    records = Records(frame, schema=schema)
    told = [
        {name: label for name, label in zip(frame.columns, row, strict=True) if label is not None}
        for row in frame.itertuples(index=False)
    ]
    # 1 == True in Python, but not here.
    assert [{k: (type(v), v) for k, v in row.items()} for row in labels_of(records)] == [
        {k: (type(schema[k].categories[schema[k].code(v)]), v) for k, v in row.items()} for row in told
    ]
    assert records.n_observed == sum(map(len, told))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "numpy"])
def test_more_rows_than_a_slice(library):
    """Each slice has labels of its own; the second one none of the first."""
    n = columns.SLICE_ROWS + 1000
    numbers = np.arange(n) // 1000
    text = np.array([f"t{number:03d}" for number in numbers], dtype=object)
    text[::7] = None
    frame = pd.DataFrame({"number": numbers, "text": text})
    source = {
        "pandas": lambda: frame,
        "polars": lambda: pl.from_pandas(frame),
        "pyarrow": lambda: pa.Table.from_pandas(frame).replace_schema_metadata(),
        "numpy": lambda: frame.to_numpy(dtype=object),
    }[library]()
    records = Records(source)
    codes = records.codes()
    assert records.n_records == n
    assert records.schema.n_categories == 2 * (n // 1000 + 1)
    np.testing.assert_array_equal(codes[:, 0], numbers)
    np.testing.assert_array_equal(codes[:, 1], np.where(frame["text"].isna(), -1, numbers))


def test_slices_of_any_size_read_the_same(monkeypatch):
    frame = pa.table({"v": pa.chunked_array([["a", "b"], ["c"], ["a", None]]), "w": [5, 4, 3, 2, 1]})
    whole = Records(frame).codes().tolist()
    for rows in (1, 2, 3):
        monkeypatch.setattr(columns, "SLICE_ROWS", rows)
        assert Records(frame).codes().tolist() == whole


@pytest.mark.parametrize(
    ("size", "dtype"),
    [
        (256, np.uint8),
        (257, np.uint16),
        pytest.param(65536, np.uint16, marks=pytest.mark.slow),
        pytest.param(65537, np.uint32, marks=pytest.mark.slow),
    ],
)
def test_cells_are_as_small_as_can_be(size, dtype):
    records = Records({"v": np.arange(size)[::-1].copy()})
    assert records.cells.dtype == dtype
    np.testing.assert_array_equal(records.cells, np.arange(size)[::-1])


def test_no_rows_at_all():
    records = Records({"age": [], "vote": []}, schema=SCHEMA)
    assert (records.n_records, records.n_observed) == (0, 0)
    assert records.codes().shape == (0, 2)
    assert len(records.blocks()) == 1


def test_dictionary_of_an_empty_chunked_column():
    labels, codes = coded_labels(pa.chunked_array([], type=pa.string()))
    assert labels == []
    assert codes.size == 0


@examples(40)
@given(st.lists(st.one_of(st.none(), st.text(), st.floats(), st.integers(), st.booleans(), st.binary(), st.dates())))
def test_anything_is_read_or_refused_by_name(cells):
    column = objects(*cells)
    bad = any(isinstance(cell, bytes) or cell in (math.inf, -math.inf) for cell in cells)
    missing = all(cell is None or cell != cell or str(cell).strip() in ("", *USUAL) for cell in cells)
    if bad or missing:
        with pytest.raises(TwowayError, match="column 'v'"):
            Records({"v": column})
    else:
        records = Records({"v": column})
        assert records.n_records == len(cells)
        assert 0 < records.n_observed <= len(cells)


def test_bins_and_spans_are_their_text_in_order():
    bins = pd.cut([9.0, 2.0, 3.0], [0, 5, 10])
    assert categories({"v": bins})["v"] == ("(0, 5]", "(5, 10]")
    assert Records({"v": bins}).codes().ravel().tolist() == [1, 0, 0]


def test_columns_may_be_numbered():
    frame = pd.DataFrame([[1, 2], [3, 4]])
    assert Records(frame).schema.names == ("0", "1")
    assert Records(frame).codes().tolist() == [[0, 0], [1, 1]]


def test_a_mapping_of_frames_is_pointed_to_tables():
    with pytest.raises(DataError, match="from_crosstabs"):
        Records({("a", "b"): pd.DataFrame({"x": [1]})})


def test_a_category_of_the_schema_is_never_missing():
    schema = Schema((Variable("v", ("?", "NA", "x")),))
    assert Records({"v": ["?", "NA", "x", None]}, schema=schema).codes().ravel().tolist() == [0, 1, 2, -1]


def test_half_of_a_surrogate_pair_is_refused_with_its_column():
    frame = pd.DataFrame({"a": pd.Series(["x", "\ud800"], dtype=object)})
    with pytest.raises(DataError, match=r"'a'.*surrogate"):
        Records(frame)
