"""Unusual files: names that differ only in case, blank first lines, many columns, marks, line ends, spaces."""

import gzip
import warnings

import pyarrow as pa
import pytest

import twoway as tw
from twoway.data.files import writing
from twoway.data.files.text_files import read_text_header

ENDINGS = ["csv", "tsv", "jsonl", "parquet", "arrow"]


def shown(records):
    """Return the rows of records as labels."""
    labels = [(*variable.categories, None) for variable in records.schema]
    return [tuple(of[code] for of, code in zip(labels, row, strict=True)) for row in records.codes()]


def both(path, **options):
    """Return the rows that Records reads, after a look that FileRecords gives the same."""
    streamed = tw.FileRecords(path, **options)
    blocks = streamed.map_reduce(lambda block: [tw.Records.from_block(streamed.schema, block)], lambda a, b: a + b)
    read = tw.Records(path, **options)
    assert shown(tw.Records.joined(blocks)) == shown(read)
    return shown(read)


@pytest.mark.parametrize(
    ("ending", "names"),
    [
        ("csv", ("Row", "b2")),
        ("csv", ("row number", "Row number")),
        ("csv", ("C0", "c1")),
        ("tsv", ("x", "X")),
        ("jsonl", ("row number", "Row number")),
        ("jsonl", ("C0", "c1")),
        ("parquet", ("x", "X")),
        ("parquet", ("Row", "b2")),
        ("arrow", ("row number", "Row number")),
    ],
)
def test_a_condition_means_the_column_that_it_names(tmp_path, ending, names):
    one, two = names
    table = pa.table({one: ["a", "b", "a", "b", "c"], two: [0, 1, 2, 3, 4], "z": [9, 8, 7, 6, 5]})
    path = tmp_path / f"x.{ending}"
    writing.write_data_file(table, path)
    assert both(path, where=f"\"{one}\" = 'b'") == [("b", 1, 8), ("b", 3, 6)]
    assert both(path, where=f'"{two}" > 2') == [("b", 3, 6), ("c", 4, 5)]
    assert both(path, columns=["z"], where=f'"{one}" = \'a\' AND "{two}" < 2') == [(9,)]
    if " " not in one + two:
        assert both(path, where=f"{one} = 'b' and {two} > 1") == [("b", 3, 6)]
        assert both(path, columns=[two], where=f"{one} in ('{two}', 'c')") == [(4,)]


def test_a_name_in_text_and_in_a_struct_is_left_alone(tmp_path):
    path = tmp_path / "x.parquet"
    table = pa.table({"x": ["x", "X"], "X": ["a", "X"], "s": [{"x": 1}, {"x": 2}]})
    writing.write_data_file(table, path)
    assert both(path, columns=["x", "X"], where="X = 'X' -- x") == [("X", "X")]
    assert both(path, columns=["x", "X"], where="s.x = 1") == [("x", "a")]
    with pytest.raises(tw.DataError, match="cannot be used: no column 'Y'; known: 'x', 'X', 's'; conditions are SQL"):
        tw.Records(path, columns=["x"], where="Y = 1")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("aeg = 1", "no column 'aeg'; did you mean 'age'"),
        ("age >", "syntax error at or near \">\"; known columns: 'age'"),
        ("age = 'x'", "Could not convert string 'x'"),
    ],
)
def test_a_wrong_condition_is_explained(tmp_path, where, message):
    (tmp_path / "x.csv").write_text("age\n1\n2\n")
    for read in (tw.Records, lambda *path, **options: tw.FileRecords(*path, **options).schema):
        with pytest.raises(tw.DataError, match=f"cannot be used: {message}.*text in single quotes") as caught:
            read(tmp_path / "x.csv", where=where)
        assert " Error: " not in str(caught.value)


def test_a_folder_may_be_named_as_a_helper(tmp_path):
    for place, name in enumerate("abc"):
        folder = tmp_path / f"file number={place}"
        folder.mkdir()
        writing.write_data_file(pa.table({"Row": [name]}), folder / "x.parquet")
    assert both(tmp_path, where='"file number" = 1') == [("b", 1)]


@pytest.mark.parametrize("before", ["\n\n", "  \n", "\r\n \t\r\n", '""\n', " , \r\n\r\n", "\n" * 70_000])
@pytest.mark.parametrize(("mark", "ending"), [("", "csv"), ("\ufeff", "csv"), ("", "csv.gz")])
def test_blank_lines_before_the_header(tmp_path, before, mark, ending):
    path = tmp_path / f"x.{ending}"
    end = "\r\n" if "\r" in before else "\n"
    text = mark + before + end.join(["age,vote", "1,yes", "2,no", ""])
    content = text.encode()
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    assert both(path) == [(1, "yes"), (2, "no")]


def test_blank_lines_that_end_in_another_way_are_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"\na,b\r\n1,2\r\n")
    with pytest.raises(tw.FileFormatError, match="blank lines before its header"):
        tw.Records(path)


def test_blank_lines_before_a_quoted_header_of_two_lines(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('\n \n"age\nin years";"vote"\n1;yes\n')
    assert tw.Records(path).schema.names == ("age\nin years", "vote")
    assert both(path) == [(1, "yes")]


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_many_columns(tmp_path, ending):
    n = 1000
    path = tmp_path / f"x.{ending}"
    writing.write_data_file(pa.table({f"x{place}": [place % 3, 1] for place in range(n)}), path)
    records = tw.Records(path)
    assert len(records.schema) == n
    assert records.n_observed == 2 * n


def test_a_header_of_100_000_names(tmp_path):
    path = tmp_path / "x.csv"
    names = [f"a rather long name number {place}" for place in range(100_000)]
    path.write_text("\n" + "|".join(names) + "\n")
    assert read_text_header(str(path), "csv")[:3] == (
        names,
        "|",
        1,
    )  # comparing all names with all would take ten minutes


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("decimal", ["0.5", "1e0", "-3.25e-2"])
def test_integers_beyond_2_53_stay_distinct_next_to_a_decimal(tmp_path, ending, decimal):
    numbers = [2**53, 2**53 + 1, -(2**53) - 1, -(2**53), 2**64 + 1, 2**64]
    path = tmp_path / f"x.{ending}"
    lines = [f'{{"id": {n}}}' if ending == "jsonl" else str(n) for n in [*numbers, decimal]]
    path.write_text("\n".join(lines if ending == "jsonl" else ["id", *lines]) + "\n")
    expected = [(n,) for n in [*numbers, float(decimal)]]
    assert both(path) == expected
    schema = tw.Records(path).schema
    assert shown(tw.Records(path, schema=schema)) == expected
    assert shown(tw.Records({"id": [*numbers, float(decimal)]}, schema=schema)) == expected


def test_numbers_of_too_many_digits_stay_text(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("id\n9007199254740993\n1e-300\n")
    assert tw.Records(path).schema["id"].categories == ("1e-300", "9007199254740993")


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_of_one_set_may_have_their_columns_in_another_order(tmp_path, ending):
    first = pa.table({"a": [1, 2], "b": ["x", "y"], "A": [5, 6]})
    writing.write_data_file(first, tmp_path / f"1.{ending}")
    writing.write_data_file(pa.table({"A": [7, 8], "b": ["y", "x"], "a": [1, 2]}), tmp_path / f"2.{ending}")
    pattern = str(tmp_path / f"*.{ending}")
    assert both(pattern) == [(1, "x", 5), (2, "y", 6), (1, "y", 7), (2, "x", 8)]
    assert both(pattern, columns=["b"], where='a = 1 AND "A" > 5') == [("y",)]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfage,vote\n1,yes\n2,no\n",
        b'\xef\xbb\xbf"age","vote"\n1,yes\n2,no\n',
        b"age,vote\r\n1,yes\r\n2,no\r\n",
        b"age,vote\n1,yes\n2,no",
    ],
)
def test_marks_quotes_and_line_ends_are_not_part_of_names_or_labels(tmp_path, content):
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    assert tw.Records(path).schema.names == ("age", "vote")
    assert both(path) == [(1, "yes"), (2, "no")]


def test_line_breaks_within_quotes(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('"first\nname",vote\n"a\nb",yes\n"a,b",no\n')
    assert tw.Records(path).schema.names == ("first\nname", "vote")
    assert both(path) == [("a\nb", "yes"), ("a,b", "no")]


def test_one_label_of_text_makes_a_column_text(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n1,1,true\n2.5,1.0,false\nx,2,NA\n")
    assert both(path) == [("1", 1, True), ("2.5", 1, False), ("x", 2, None)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "'.*x.csv' is empty; its first line must name the columns"),
        (b"\xef\xbb\xbf", "is empty; its first line must name the columns"),
        (b"\n \n", "is empty; its first line must name the columns"),
        (b"a,b\n", "column 'a' has no observed cell in 0 records"),
        (b"a,b,a \n1,2,3\n", "has a duplicate column name, 'a'; its first line must name each column once"),
        (b"a,b\r1,2\r3,4\r", "has lines that end in a carriage return without a line feed; save it again"),
        (b"a,b\n1,2\n3\n", "line 3, '3', should have as many cells as the header, 2, and has 1;"),
        (b'a,b\n1,2\n"3,4\n5,6\n', "line 3, .*, has a quote that does not end;"),
        ("a,b\né,2\n".encode("latin-1"), "x.csv': line 2, .*, is not in UTF-8; .* save it as UTF-8"),
        (b"a,b\n1," + b"x" * 2_100_000, "line 2, .*, has more than 2000000 bytes; does a quote before it not end"),
    ],
)
def test_files_that_cannot_be_read_say_why(tmp_path, content, message):
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    for read in (tw.Records, lambda path: tw.FileRecords(path).schema):
        with pytest.raises(tw.TwowayError, match=message):
            read(path)


@pytest.mark.parametrize("content", ["age vote\nyoung no\nold  yes\n", "\r\nage vote w\r\na b 1\r\n\r\nc d 2\r\n"])
def test_columns_separated_by_spaces_are_warned_of_once(tmp_path, content):
    path = tmp_path / "x.txt"
    path.write_text(content)
    for read in (tw.Records, lambda path: tw.FileRecords(path).schema):
        with pytest.warns(
            UserWarning, match="one column, 'age vote.*', but each of its first lines has . words"
        ) as caught:
            read(path)
        assert len(caught) == 1
        assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "content", ["age\nyoung\nold\n", "how do you feel\nvery well\nwell\n", "my age,b c\n1 2,3 4\n"]
)
def test_spaces_in_one_column_are_not_warned_of(tmp_path, content):
    (tmp_path / "x.csv").write_text(content)
    assert tw.Records(tmp_path / "x.csv").n_records == content.count("\n") - 1


@pytest.mark.filterwarnings("always:labels that differ in spaces")
def test_labels_that_differ_in_spaces_alone_are_named(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("town,vote\nNew York,yes\nNew York ,no\nNew  York,no\nParis,yes\n")
    named = "such as 'New  York' and 'New York' of column 'town'"
    for read in (tw.Records, lambda path: tw.FileRecords(path).schema):
        with pytest.warns(UserWarning, match=named) as caught:
            read(path)
        assert len(caught) == 1
    with warnings.catch_warnings(action="ignore"):
        assert [town for town, _ in both(path)] == ["New York", "New York ", "New  York", "Paris"]
    one = {"New York ": "New York", "New  York": "New York"}
    with warnings.catch_warnings(action="error"):
        records = tw.Records(path, columns=tw.Columns({"town": {"categories": one}}))
    assert records.schema["town"].categories == ("New York", "Paris")
