"""Labels that mean "missing": they add to the usual ones, apply to one column or all, and are remembered."""

import json
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import twoway as tw
import twoway.errors
from twoway.cli.options import missing_option

ROWS = {
    "age": ["1", "-9", "2", "NA", "98"],
    "income": ["98", "5", "-9", "6", "?"],
    "vote": ["no", "yes", "-", "no", "x"],
}


def observed(records):
    return {
        variable.name: [None if code < 0 else variable.categories[code] for code in column]
        for variable, column in zip(records.schema, records.codes().T, strict=True)
    }


@pytest.fixture(params=["csv", "parquet", "jsonl", "frame"])
def source(request, tmp_path):
    """Return the rows, numbers as numbers where the format has types, as each reader takes them."""
    import pyarrow as pa

    from twoway.data.files import writing

    if request.param == "csv":
        path = tmp_path / "x.csv"
        pd.DataFrame(ROWS).to_csv(path, index=False)
        return path
    numbers = {name: [None if c in ("NA", "?") else int(c) for c in ROWS[name]] for name in ("age", "income")}
    table = pa.table({**numbers, "vote": ROWS["vote"]})
    if request.param == "frame":
        return table
    path = tmp_path / f"x.{request.param}"
    writing.write_data_file(table, path)
    return path


def test_they_add_to_the_usual_ones_and_hold_for_one_column(source):
    missing = tw.MissingLabels([-9, "-"], {"income": [98]})
    expected = {
        "age": [1, None, 2, None, 98],
        "income": [None, 5, None, 6, None],
        "vote": ["no", "yes", None, "no", "x"],
    }
    records = tw.Records(source, missing=missing)
    assert observed(records) == expected
    assert observed(tw.Records(source, schema=records.schema)) == expected  # remembered
    assert observed(tw.Records(source, missing={"income": [98, -9], "age": -9, "vote": "-"})) == expected
    if not hasattr(source, "columns"):
        streamed = tw.FileRecords(source, missing=missing)
        assert streamed.schema == records.schema
        assert [v.missing for v in streamed.schema] == [v.missing for v in records.schema]
        assert tw.count(streamed) == tw.count(records)
        assert tw.count(tw.FileRecords(source, schema=records.schema)) == tw.count(records)
    with pytest.raises(tw.UnknownNameError, match="no column 'incom' for the labels"):
        tw.Records(source, missing={"incom": [98]})


def test_only_these():
    records = tw.Records({"a": ["NA", "-", "x"]}, missing=tw.MissingLabels("-", only=True))
    assert observed(records) == {"a": ["NA", None, "x"]}
    assert records.schema["a"].missing == ("-",)
    assert observed(tw.Records({"a": ["x", "-"]}, schema=records.schema)) == {"a": ["x", None]}
    assert tw.Records({"a": ["NA", "x"]}).schema["a"].missing is None


def test_a_category_is_one_even_where_it_reads_like_a_code():
    schema = tw.Schema((tw.Variable("a", (-9, 1), missing=(-9,)),))
    assert tw.Records({"a": [-9, 1]}, schema=schema, missing=[-9]).codes().ravel().tolist() == [0, 1]


@pytest.mark.filterwarnings("ignore:no cell has")
def test_truth_values_and_numbers_are_different_codes():
    assert observed(tw.Records({"a": [True, False]}, missing=[1, 0])) == {"a": [True, False]}
    assert observed(tw.Records({"a": [1, 0, 2]}, missing=[True])) == {"a": [1, 0, 2]}
    assert tw.MissingLabels([1, True, 1.0, None, np.nan]).of_column("a")[-2:] == (1, True)


@pytest.mark.parametrize("wrong", [3, None])
def test_missing_must_be_labels(wrong):
    with pytest.raises(tw.DataError, match="missing must be labels"):
        tw.Records({"a": [1]}, missing=wrong)


def test_models_and_tables_keep_missing_option(tmp_path):
    frame = pd.DataFrame({"a": [1, -9, 2, 1] * 20, "b": ["x", "y", "x", "-"] * 20})
    records = tw.Records(frame, missing=[-9, "-"])
    pmf = tw.fit(records, rank=1)
    pmf.save(tmp_path / "m")
    loaded = tw.load(tmp_path / "m")
    assert loaded.schema["a"].missing[-2:] == (-9, "-")
    filled = loaded.given({"a": 1}).impute(frame)
    assert set(filled["a"]) == {1, 2}
    assert set(filled["b"]) == {"x", "y"}
    np.testing.assert_array_equal(loaded.log_prob(frame), loaded.log_prob(records))
    tables = tw.count(records)
    tables.save(tmp_path / "t")
    again = tw.Tables.load(tmp_path / "t") + tables
    assert again.schema["b"].missing[-2:] == (-9, "-")
    assert tw.update(loaded, frame).schema["a"].missing[-2:] == (-9, "-")


def test_a_file_of_an_earlier_version_has_no_missing_option():
    described = tw.Schema((tw.Variable("a", (1, 2)),)).to_dict()
    assert "missing" not in described[0]
    assert tw.Schema.from_dict(json.loads(json.dumps(described)))["a"].missing is None


def test_how_the_command_line_names_them():
    assert missing_option(["-9,98"]).labels == ("-9", -9, "98", 98)
    assert missing_option(["no, never"]).labels == ("no, never",)
    assert missing_option(["=a=b"]).labels == ("a=b",)
    assert missing_option(["x=y=2.5"]).columns == {"x=y": ("2.5", 2.5)}
    assert missing_option(None, ["."]) == tw.MissingLabels(["", "."], only=True)
    assert missing_option(["inf", "1_0"]).labels == ("inf", "1_0")


@pytest.mark.parametrize("order", [1, -1])
def test_tables_that_are_added_remember_the_codes_of_both(order):
    plain, coded = {"a": [0, 1], "b": [1, 0]}, {"a": [0, 1, -9], "b": [1, 0, 1]}
    both = [tw.count(tw.Records(plain)), tw.count(tw.Records(coded, missing=[-9]))][::order]
    assert both[0].schema == both[1].schema
    assert -9 in (both[0] + both[1]).schema["a"].missing
    declared = [tw.Tables(tw.Schema(tuple(v.declared() for v in one.schema)), one.sets, one.flat) for one in both]
    assert -9 in (declared[0] + declared[1]).schema["a"].missing


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (["x", "yess"], "no cell has 'yess', given as missing; did you mean 'yes'"),
        ([98.5, "nosuch"], "no cell has 98.5, 'nosuch', given as missing"),
        ({"vote": ["x"], "income": [-8]}, "no cell of column 'income' has -8, given as missing"),
    ],
)
def test_labels_given_as_missing_that_no_cell_has_are_warned_of(source, missing, message, monkeypatch):
    readers = [tw.Records, tw.FileRecords] if isinstance(source, Path) else [tw.Records]
    for reader in readers:
        monkeypatch.setattr(twoway.errors, "_warnings_given", set())  # each is given once at a line
        with pytest.warns(UserWarning, match=message) as caught:
            tw.count(reader(source, missing=missing))
        assert [warning.filename for warning in caught] == [__file__]


def test_only_the_first_pass_over_files_warns_of_labels_that_no_cell_has(tmp_path):
    (tmp_path / "votes.csv").write_text("vote,age\nyes,1\nno,2\n")
    records = tw.FileRecords(tmp_path / "votes.csv", missing=["yess"])
    with pytest.warns(UserWarning, match="no cell has 'yess'"):
        tw.count(records)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tw.count(records)


@pytest.mark.parametrize(
    "missing",
    [[-9, 98], ["-9", -9], [(-99, -50)], ["NA"], {"income": [98, (-99, -50)]}, tw.MissingLabels("?", only=True)],
)
def test_labels_given_as_missing_that_occur_are_not_warned_of(source, missing):
    if not isinstance(source, Path):
        missing = [-9]
    assert tw.Records(source, missing=missing).n_records == 5
    schema = tw.Records(source).schema
    assert tw.Records(source, missing=["nosuch"], schema=schema).n_records == 5  # as later records may have it


def test_dates_and_decimals_given_as_missing_are_found():
    frame = {"day": pd.to_datetime(["1900-01-01", "2020-01-02"]), "price": [Decimal(-9), Decimal("2.5")]}
    records = tw.Records(frame, missing=["1900-01-01", -9])
    assert records.set_to_missing == {"day": {"1900-01-01": 1}, "price": {"-9": 1}}


ANSWERS = pd.DataFrame(
    {"vote": ["yes", "no", "x", "no", "yes", "no"] * 5, "trust": ["1", "2", "-1", "refused", "2", "1"] * 5}
)


def written(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.parquet", "a.jsonl"])
def test_codes_in_files_are_counted_among_the_records_that_are_read(name, tmp_path, recwarn):
    path, missing = written(ANSWERS, tmp_path / name), {"trust": [-1, "-1", "refused"], "vote": ["x"]}
    expected = {"trust": {"-1": 5, "refused": 5}, "vote": {"x": 5}}
    assert tw.Records(path, missing=missing).set_to_missing == expected
    assert tw.FileRecords(path, missing=missing).set_to_missing == expected
    codes = tw.fit(tw.Records(path, missing=missing), rank=1).report.set_to_missing
    assert sorted(codes) == ["trust -1 5, refused 5", "vote x 5"]
    assert not [str(one.message) for one in recwarn if "no cell" in str(one.message)]
    some = tw.Records(path, missing={"trust": ["refused"]}, where="vote = 'no'", columns=["trust"])
    assert some.set_to_missing == {"trust": {"refused": 5}}
    schema = tw.Records(path).schema  # in which these are categories
    assert tw.Records(path, missing=missing, schema=schema).set_to_missing == {}
