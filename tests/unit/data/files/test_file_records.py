"""Files larger than memory: the same counts and fits as in memory, and errors that name file and column."""

import errno
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import twoway as tw
from twoway.data.files import file_records, file_set, formats
from twoway.data.files.file_table import FileTable
from twoway.data.files.writing import write_data_file
from twoway.datasets import dirichlet_rows, hide
from twoway.errors import DataError, FileFormatError, UnknownNameError
from twoway.schema import Schema, Variable
from twoway.solvers import EM

N_RECORDS = 3000


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    monkeypatch.setattr(formats, "SLICE_ROWS", 400)


@pytest.fixture
def spilled(monkeypatch):
    monkeypatch.setattr(file_records, "KEPT_BYTES", 0)


@pytest.fixture(scope="module")
def frame():
    drawn = hide(dirichlet_rows(5, 4, 3, seed=1).sample(N_RECORDS, seed=1), 0.3, seed=1)
    drawn["weight"] = np.arange(N_RECORDS) % 3 / 2
    drawn["year"] = 2018 + np.arange(N_RECORDS) % 5
    return drawn


@pytest.fixture
def parquet(frame, tmp_path):
    path = tmp_path / "records.parquet"
    frame.to_parquet(path, row_group_size=700)
    return path


VARIABLES = ["x1", "x2", "x3", "x4", "x5"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "feather"])
def test_every_format_streams_to_the_counts_of_memory(frame, tmp_path, ending):
    path = tmp_path / f"records.{ending}"
    write_data_file(pa.Table.from_pandas(frame), path)
    records = tw.FileRecords(path, columns=VARIABLES)
    expected = tw.Records(frame, columns=VARIABLES)
    assert records.schema == expected.schema
    assert tw.count(records) == tw.count(expected)
    assert (records.n_records, records.n_observed, records.n_silent, records.total_weight) == (
        expected.n_records,
        expected.n_observed,
        expected.n_silent,
        expected.total_weight,
    )


def test_the_order_of_rows_and_groups_of_rows_does_not_matter(frame, tmp_path):
    tables = []
    for number, rows in enumerate((700, 1000)):
        path = tmp_path / f"{number}.parquet"
        frame.sample(frac=1, random_state=number).to_parquet(path, row_group_size=rows, index=False)
        tw.count(tw.FileRecords(path, columns=VARIABLES, weights="weight")).save(tmp_path / f"{number}.tables")
        tables.append((tmp_path / f"{number}.tables").read_bytes())
    assert tables[0] == tables[1]


@pytest.mark.parametrize("weights", [None, "weight"])
def test_a_fit_from_the_scratch_file_is_that_of_memory(frame, parquet, spilled, weights):
    options = {"rank": 3, "solver": EM(max_iter=40, tol=0), "starts": 1}
    records = tw.FileRecords(parquet, columns=VARIABLES, weights=weights)
    assert isinstance(records.for_fit(), file_records.ScratchFileRecords)
    streamed = tw.fit(records, **options)
    in_memory = tw.fit(tw.Records(frame, columns=[*VARIABLES], weights=weights and frame[weights]), **options)
    np.testing.assert_allclose(streamed.stacked, in_memory.stacked, atol=1e-9)
    assert streamed.report.log_likelihood == pytest.approx(in_memory.report.log_likelihood, abs=1e-6)
    assert any("scratch file" in warning for warning in streamed.report.warnings)


def test_what_fits_into_memory_once_coded_is_fitted_there_to_the_byte(frame, parquet):
    streamed = tw.fit(tw.FileRecords(parquet, columns=VARIABLES), rank=2, smoothing=1.0)
    assert streamed.stacked.tobytes() == tw.fit(frame[VARIABLES], rank=2, smoothing=1.0).stacked.tobytes()


def test_auto_draws_the_same_sample_for_the_same_seed(parquet, spilled):
    one, two = (tw.FileRecords(parquet, columns=VARIABLES).sample(2000, seed=3) for _ in range(2))
    assert one.cells.tobytes() == two.cells.tobytes()
    assert 1500 < one.n_observed < 2500
    other = tw.FileRecords(parquet, columns=VARIABLES).sample(2000, seed=4)
    assert other.cells.tobytes() != one.cells.tobytes()
    whole = tw.FileRecords(parquet, columns=VARIABLES)
    assert whole.sample(10**9, seed=0).n_observed <= whole.n_observed
    assert whole.sample(10**9, seed=0).total_weight == N_RECORDS - whole.n_silent


def test_a_full_disk_means_that_files_are_read_again(frame, parquet, spilled, monkeypatch):
    def full(self, records):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    options = {"rank": 2, "solver": EM(max_iter=10, tol=0), "starts": 1}
    expected = tw.fit(frame[VARIABLES], **options)
    monkeypatch.setattr(file_records.ScratchFile, "append", full)
    again = tw.fit(tw.FileRecords(parquet, columns=VARIABLES), **options)
    np.testing.assert_allclose(again.stacked, expected.stacked, atol=1e-9)
    assert any("reads the files again" in w and "No space left" in w for w in again.report.warnings)
    assert tw.FileRecords(parquet, columns=VARIABLES).sample(2000, seed=0).n_observed < 2500


def test_the_scratch_file_has_no_name(parquet, spilled, tmp_path, monkeypatch):
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(file_records.tempfile, "tempdir", str(folder))
    records = tw.FileRecords(parquet, columns=VARIABLES)
    assert records.for_fit().n_records > 0
    assert os.listdir(folder) == []  # nothing to remove, whatever becomes of the process


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system does not read ahead on request")
def test_whole_blocks_are_read_ahead(tmp_path, monkeypatch):
    """What is asked of the system is bytes: cells of more than 256 categories take two each, weights eight."""
    records = tw.Records({"id": np.arange(300), "w": np.arange(300) + 0.5}, weights="w")
    assert records.cells.dtype == np.uint16
    file = file_records.ScratchFile(records.schema)
    for _ in range(3):
        file.append(records)
    asked = []
    monkeypatch.setattr(os, "posix_fadvise", lambda number, offset, n_bytes, advice: asked.append((offset, n_bytes)))
    block = file.read(0, 1.0)
    size = file.n_bytes // 3
    assert asked == [(2 * size, size)]
    assert size == pytest.approx(block.cells.nbytes + block.weights.nbytes + block.people.nbytes, abs=1000)
    np.testing.assert_array_equal(block.cells, records.cells)


def test_large_files_are_streamed_and_small_ones_are_not(parquet, monkeypatch):
    from twoway.tables.opening import open_source

    assert isinstance(open_source(str(parquet)), tw.Records)
    monkeypatch.setattr(file_set, "STREAMED_BYTES", 1000)
    assert isinstance(open_source(str(parquet)), tw.FileRecords)
    assert tw.count(parquet) == tw.count(tw.Records(parquet))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_condition(frame, tmp_path, ending):
    path = tmp_path / f"records.{ending}"
    write_data_file(pa.Table.from_pandas(frame), path)
    condition = "year >= 2020 and (x1 <> 2 or x1 is null)"
    kept = frame[(frame["year"] >= 2020) & (frame["x1"] != 2)]
    expected = tw.count(tw.Records(kept, columns=VARIABLES))
    assert tw.count(tw.FileRecords(path, columns=VARIABLES, where=condition)) == expected
    assert tw.count(tw.Records(path, columns=VARIABLES, where=condition)) == expected
    for read in (tw.FileRecords, tw.Records):
        with pytest.raises(DataError, match=r"yeer.*year"):
            tw.count(read(path, columns=VARIABLES, where="yeer >= 2020"))


def test_folders_are_columns(frame, tmp_path):
    for year, part in frame.groupby("year"):
        folder = tmp_path / "trips" / f"year={year}" / "city=New%20York"
        folder.mkdir(parents=True)
        part.drop(columns="year").to_parquet(folder / "part.parquet", index=False)
    (tmp_path / "trips" / "_SUCCESS").touch()
    expected = tw.count(frame[[*VARIABLES, "year"]])
    columns = [*VARIABLES, "year"]
    for name in ("trips", "trips/**/*.parquet", "trips/year=*/*/part.parquet"):
        for read in (tw.FileRecords, tw.Records):
            records = read(str(tmp_path / name), columns=columns)
            assert tw.count(records) == expected
    records = tw.FileRecords(tmp_path / "trips", columns=[*columns, "city"], where="year > 2020 and x1 > 0")
    assert records.schema["city"].categories == ("New York",)
    assert records.schema["year"].categories == (2021, 2022)
    # Files that the condition leaves out by their folders' names alone are not read at all.
    (tmp_path / "trips" / "year=2018" / "city=New%20York" / "part.parquet").write_bytes(b"PAR1 damaged")
    (tmp_path / "trips" / "year=2018").rename(tmp_path / "elsewhere")
    only = tw.FileRecords(tmp_path / "trips", columns=columns, where="year = 2021")
    assert only.n_records == int((frame["year"] == 2021).sum())


def test_an_empty_partition_and_ordered_categories(tmp_path):
    ages = pd.CategoricalDtype(["young", "old", "ancient"], ordered=True)
    for number, labels in enumerate((["old", "young", None], [], ["old"])):
        frame = pd.DataFrame(
            {"age": pd.Series(labels, dtype=ages), "vote": pd.Series(["yes"] * len(labels), dtype=str)}
        )
        frame.to_parquet(tmp_path / f"{number}.parquet")
    records = tw.FileRecords(tmp_path / "*.parquet")
    assert records.schema["age"].categories == ("young", "old", "ancient")
    assert records.schema == tw.Records(tmp_path / "*.parquet").schema
    assert records.n_records == 4
    empty = tw.FileRecords(tmp_path / "1.parquet", schema=records.schema)
    assert (empty.n_records, len(tw.count(empty))) == (0, 0)
    with pytest.raises(DataError, match="there is nothing to fit"):
        tw.fit(empty)


def ten_files(folder):
    for number in range(10):
        write_data_file(pa.table({"a": ["x", "y"] * 50, "b": [1, 2] * 50}), folder / f"{number}.parquet")
    return folder / "*.parquet"


def test_a_category_of_the_last_block_alone(tmp_path):
    pattern = ten_files(tmp_path)
    write_data_file(pa.table({"a": ["x"] * 999 + ["new"], "b": [1] * 1000}), tmp_path / "9.parquet")
    assert tw.FileRecords(pattern).schema["a"].categories == ("new", "x", "y")
    schema = Schema((Variable("a", ("x", "y")), Variable("b", (1, 2))))
    with pytest.raises(UnknownNameError, match=r"9\.parquet'.*'new'.*'a' \(record 999\)"):
        tw.count(tw.FileRecords(pattern, schema=schema))
    assert tw.count(tw.FileRecords(pattern, schema=schema, unseen="missing")).totals.tolist() == [1899.0]


def test_files_that_change_their_columns(tmp_path):
    pattern = ten_files(tmp_path)
    write_data_file(pa.table({"a": ["x"], "c": [1]}), tmp_path / "3.parquet")
    for read in (tw.FileRecords, tw.Records):
        with pytest.raises(DataError, match=r"3\.parquet' lacks the column 'b'"):
            read(pattern)
        assert tw.count(read(pattern, columns=["a"])).schema["a"].categories == ("x", "y")
    write_data_file(pa.table({"a": ["x"], "b": [1], "c": [1]}), tmp_path / "3.parquet")
    with pytest.raises(DataError, match=r"3\.parquet' has a column 'c'"):
        tw.FileRecords(pattern)
    write_data_file(pa.table({"a": ["x"], "b": ["1"]}), tmp_path / "3.parquet")
    with pytest.raises(DataError, match=r"column 'b' is text in .*3\.parquet' and number in .*0\.parquet'"):
        tw.FileRecords(pattern)
    write_data_file(pa.table({"b": [2.0], "a": pa.array(["x"]).dictionary_encode()}), tmp_path / "3.parquet")
    assert tw.count(tw.FileRecords(pattern)) == tw.count(tw.Records(pattern))


def test_a_damaged_file_is_named(tmp_path):
    pattern = ten_files(tmp_path)
    whole = (tmp_path / "2.parquet").read_bytes()
    (tmp_path / "2.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match=r"2\.parquet' is damaged"):
        tw.FileRecords(pattern)
    # The end, which lists the columns, is whole; the pages are not.
    (tmp_path / "2.parquet").write_bytes(b"PAR1" + b"\xff" * 60 + whole[64:])
    with pytest.raises(FileFormatError, match=r"2\.parquet'"):
        tw.count(tw.FileRecords(pattern))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path):
    pattern = ten_files(tmp_path)
    (tmp_path / "4.parquet").chmod(0)
    with pytest.raises(PermissionError, match=r"4\.parquet"):
        tw.FileRecords(pattern)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"columns": ["x1", "x9"]}, "no column 'x9'"),
        ({"weights": "wait"}, "no column 'wait' for the weights; did you mean 'weight'"),
        ({"weights": "x1", "columns": ["x2"]}, r"records\.parquet.*record weights must be finite.* nan"),
        ({"weights": [1, 2]}, "weights must be the name of a column; got list"),
        ({"where": [True]}, "a condition in SQL"),
        ({"unseen": "drop"}, "unseen must be"),
        ({"max_categories": 3}, "more than 3 distinct values"),
    ],
)
def test_wrong_options(parquet, options, match):
    with pytest.raises((DataError, UnknownNameError), match=match):
        tw.count(tw.FileRecords(parquet, **options))


def test_text_files_have_one_type_per_column(tmp_path):
    path = tmp_path / "records.csv"
    path.write_text("a,b,c\n" + "1,true,7\n" * 1000 + "x,false,1.5\nNA,,\n")
    records = tw.FileRecords(path)
    assert [variable.categories for variable in records.schema] == [("1", "x"), (False, True), (1.5, 7)]
    assert tw.count(records) == tw.count(tw.Records(path))
    conditioned = tw.FileRecords(path, where="c > 6")
    assert [variable.categories for variable in conditioned.schema] == [("1",), (True,), (7,)]
    assert conditioned.schema == tw.Records(path, where="c > 6").schema


def test_small_groups_of_rows_are_read_together(tmp_path):
    table = pa.table({"a": ["x", "y"] * 500, "b": ["u", "v"] * 500})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10)
    opened = FileTable.open(tmp_path / "a.parquet")
    pieces = list(opened.pieces())
    assert [piece.start for piece in pieces] == [0, 400, 800]
    assert pa.types.is_dictionary(next(pieces[0].read()).column("a").type)  # text is not made
