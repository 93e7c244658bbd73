"""Files of records: formats agree, types come from the labels, and errors are one line."""

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pytest

import twoway as tw
from twoway.data.files import file_table as files
from twoway.data.files import writing
from twoway.errors import DataError, FileFormatError, MissingFileError, UnknownNameError
from twoway.schema import Schema, Variable

TABLE = pa.table(
    {
        "age": ["18-39", None, "40+", "40+"],
        "stars": [1, 5, None, 10],
        "code": ["007", "01", "2", None],
        "sure": [True, None, False, True],
        "size": [1.5, 2.0, None, -0.25],
    }
)


def write(folder, ending, table=TABLE):
    path = folder / f"records.{ending}"
    writing.write_data_file(table, path)
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "arrow", "feather"])
def test_every_format_gives_the_same_records(tmp_path, ending):
    records = tw.Records(str(write(tmp_path, ending)))
    expected = tw.Records(TABLE)
    assert records.schema == expected.schema
    np.testing.assert_array_equal(records.codes(), expected.codes())
    assert records.schema["stars"].values == (1.0, 5.0, 10.0)
    assert records.schema["code"].categories == ("01", "2", "007")
    assert records.schema["sure"].categories == (False, True)


def test_fit_and_count_take_the_name_of_a_file(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("age,vote\nyoung,no\nold,yes\n,yes\nold,\n")
    assert tw.count(path) == tw.count(pd.read_csv(path))
    pmf = tw.fit(str(path), rank=1, smoothing=1.0)
    assert pmf.prob({"vote": "yes"}) == pytest.approx(2 / 3, abs=0.1)
    assert len(pmf.log_prob(path)) == 4


def test_compressed_files_and_patterns(tmp_path):
    for day, label in enumerate("xyz"):
        with gzip.open(tmp_path / f"day{day}.csv.gz", "wt") as stream:
            stream.write(f"a,b\n{label},1\n")
    assert tw.Records(tmp_path / "day1.csv.gz").schema["a"].categories == ("y",)
    assert tw.Records(str(tmp_path / "day*.csv.gz")).schema["a"].categories == ("x", "y", "z")
    (tmp_path / "day9.csv.gz").write_bytes(gzip.compress(b"a,c\nx,1\n"))
    with pytest.raises(DataError, match="day9"):
        tw.Records(str(tmp_path / "day*.csv.gz"))


@pytest.mark.parametrize(
    ("cells", "categories"),
    [
        (["1", "10", "2"], (1, 2, 10)),
        (["1", "2.5", "-3e1"], (-30, 1, 2.5)),
        (["01", "1"], ("01", "1")),
        (["yes", "no", "yes"], ("no", "yes")),
        (["true", "false"], (False, True)),
        (["True", "1"], ("1", "True")),
        (["1", "?", "NA", ""], (1,)),
        (["12345678901234567890123"], ("12345678901234567890123",)),
        (["2020-01-02", "2020-01-01"], ("2020-01-01", "2020-01-02")),
        (["a,b", 'say "no"', "two\nlines"], ("a,b", 'say "no"', "two\nlines")),
    ],
)
def test_types_come_from_the_labels(tmp_path, cells, categories):
    path = write(tmp_path, "csv", pa.table({"v": cells, "other": ["x"] * len(cells)}))
    assert tw.Records(path).schema["v"].categories == categories


@pytest.mark.parametrize(
    ("text", "categories"),
    [
        ("a;b\n1;2,5\n2;-3\n", {"a": (1, 2), "b": (-3, 2.5)}),
        ("a;b\n1;2,5\n2;1,2,3\n", {"a": (1, 2), "b": ("1,2,3", "2,5")}),
        ("a|b\n1|x\n", {"a": (1,), "b": ("x",)}),
        ('"a,b",c\n1,x\n', {"a,b": (1,), "c": ("x",)}),
        ("\ufeffa,b\r\n1,ä\r\n", {"a": (1,), "b": ("ä",)}),
        ("a\n1\n2\n", {"a": (1, 2)}),
        (",a\n7,x\n", {"column 1": (7,), "a": ("x",)}),
        ("a,b\n#1,x\n", {"a": ("#1",), "b": ("x",)}),
    ],
)
def test_dialects(tmp_path, text, categories):
    path = tmp_path / "x.csv"
    path.write_text(text, newline="")
    assert {v.name: v.categories for v in tw.Records(path).schema} == categories


def test_a_schema_decides_whether_a_label_is_a_number(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b,c,d\n1,1,True,NA\n2,2,False,\n")
    schema = Schema(
        (
            Variable("a", ("1", "2", "many")),
            Variable("b", (1, 2, 3)),
            Variable("c", ("False", "True")),
            Variable("d", ("NA", "DE")),
        )
    )
    records = tw.Records(path, schema=schema)
    assert records.codes().tolist() == [[0, 0, 1, 0], [1, 1, 0, -1]]


def test_ordered_categories_of_parquet_and_arrow_files_keep_their_order(tmp_path):
    frame = pd.DataFrame({"level": pd.Categorical(["mid", "low", "mid"], ["low", "mid", "high"], ordered=True)})
    frame.index = [7, 8, 9]
    frame.to_parquet(tmp_path / "x.parquet")
    feather.write_feather(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "x.feather")
    for ending in ("parquet", "feather"):
        schema = tw.Records(tmp_path / f"x.{ending}").schema
        assert schema.names == ("level",)
        assert schema["level"].categories == ("low", "mid", "high")


def test_some_columns_and_weights(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b,w\nx,1,2\ny,2,0.5\n")
    records = tw.Records(path, columns=["a"], weights="w")
    assert records.schema.names == ("a",)
    assert records.weights.tolist() == [2, 0.5]
    for ending in ("csv", "jsonl", "parquet"):
        with pytest.raises(UnknownNameError, match=r"no column 'ag'; did you mean 'age'"):
            tw.Records(write(tmp_path, ending), columns=["ag"])


def test_json_lines_need_not_be_alike(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1, "b": "x"}\n{"a": "two", "b": null}\n{"b": "1"}\n')
    records = tw.Records(path)
    assert {v.name: v.categories for v in records.schema} == {"a": ("1", "two"), "b": ("1", "x")}
    assert records.codes().tolist() == [[0, 1], [1, -1], [-1, 0]]


def test_column_names(tmp_path):
    for ending in ("csv", "tsv", "jsonl", "parquet", "arrow"):
        assert files.find_files(write(tmp_path, ending)).columns == TABLE.column_names


@pytest.mark.parametrize(
    ("name", "content", "error", "match"),
    [
        ("x.csv", b"", DataError, "x.csv' is empty"),
        ("x.csv", b"\n\n", DataError, "x.csv' is empty"),
        ("x.csv", b"a,a\n1,2\n", DataError, "duplicate column name, 'a'"),
        ("x.csv", b"a,b\n1,2\n1,2,3\n", FileFormatError, "line 3, '1,2,3', should have as many cells as the header, 2"),
        ("x.csv", bytes(range(256)), FileFormatError, "not a text file in UTF-8"),
        ("x.csv", "a,b\n1,2\n".encode("utf-16"), FileFormatError, "not a text file in UTF-8"),
        ("x.csv", "ä,b\n1,2\n".encode("latin1"), FileFormatError, "not in UTF-8"),
        ("x.csv", "a,b\nä,2\n".encode("latin1"), FileFormatError, "(?i)utf-8"),
        ("x.csv", b"PAR1aaaa\n", FileFormatError, "not a text file"),
        ("x.csv.gz", b"a,b\n1,2\n", FileFormatError, "x.csv.gz' is damaged"),
        ("x.parquet", b"a,b\n1,2\n", FileFormatError, "x.parquet' is damaged"),
        ("x.arrow", b"", FileFormatError, "x.arrow' is damaged"),
        ("x.jsonl", b"nonsense\n", FileFormatError, "x.jsonl' cannot be read"),
        ("x.jsonl", b"1\n2\n", DataError, "holds no records; each line must be an object"),
        ("x.docx", b"PK", FileFormatError, r"ends in '.docx'; records are read from .csv"),
        ("x", b"a\n", FileFormatError, "ends in ''"),
    ],
)
def test_errors_for_wrong_files_are_one_line(tmp_path, name, content, error, match):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=match) as caught:
        tw.Records(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_missing_files(tmp_path):
    with pytest.raises(MissingFileError, match=r"there is no file .*nix.csv"):
        tw.Records(tmp_path / "nix.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileFormatError, match="is a folder"):
        tw.Records(tmp_path / "folder.csv")


def test_text_is_written_without_needless_quotes(tmp_path):
    path = write(tmp_path, "csv", pa.table({"a": ["x", None, "1,5"], "b": [1.5, 2.0, None]}))
    assert path.read_text() == 'a,b\nx,1.5\n,2.0\n"1,5",\n'
    path = write(tmp_path, "jsonl", pa.table({"a": ["ä", None]}))
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"a": "ä"}, {"a": None}]
    with pytest.raises(FileFormatError, match="compressed files are read, not written"):
        writing.write_data_file(TABLE, tmp_path / "x.csv.gz")


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = write(tmp_path, "csv")
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "write_data_stream", fail)
    with pytest.raises(OSError, match=r"No space left.*records.csv") as caught:
        writing.write_data_file(TABLE, path)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ('"a\rb",c', "carriage return within the column names 'a.rb'"),
        ("a\rb,c", "first line that cannot be read"),
    ],
)
def test_headers_that_the_reader_would_misread(tmp_path, header, message):
    """Each of these gave no record, or an error of the engine's own."""
    path = tmp_path / "records.csv"
    path.write_bytes(f"{header}\nx,y\n".encode())
    with pytest.raises((DataError, FileFormatError), match=message):
        tw.Records(path)
