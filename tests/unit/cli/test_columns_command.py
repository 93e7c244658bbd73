"""`twoway columns`, and survey files from the raw file to the answer and back, by the command line."""

import struct

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.data.column_finding import find_columns
from twoway.data.toml_text import columns_toml

pyreadstat = pytest.importorskip("pyreadstat")

RNG = np.random.default_rng(0)
N = 300
TRUST = {1: "low", 2: "middle", 3: "high"}
TICKED = RNG.random((N, 3)) < 0.4
FRAME = pd.DataFrame(
    {
        "caseid": np.arange(N) + 1000.0,
        "trust": RNG.choice([1.0, 2, 3, 8, 97], N),
        "income": RNG.normal(2000, 500, N).round(),
        "final_weight": RNG.random(N).round(3) + 0.5,
        **{f"media_{n + 1}": np.where(TICKED[:, n], 1.0, np.nan) for n in range(3)},
        "city": RNG.choice(["Oslo", "Kiel, Germany"], N),
    }
)


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@pytest.fixture
def twoway(cli):
    return lambda *arguments: cli(*map(str, arguments))


@pytest.fixture(scope="module")
def sav(tmp_path_factory):
    path = tmp_path_factory.mktemp("survey") / "survey.sav"
    pyreadstat.write_sav(
        FRAME,
        str(path),
        column_labels={"trust": "How much do you trust?"},
        variable_value_labels={"trust": {**TRUST, 8: "don't know", 97: "refused"}, "media_1": {1: "Television"}},
        missing_ranges={"trust": [8, {"lo": 90, "hi": 99}]},
        variable_measure={"trust": "ordinal"},
    )
    content = bytearray(path.read_bytes())
    content[76:80] = struct.pack("<i", 4)  # WEIGHT BY the fourth variable
    path.write_bytes(content)
    return path


def test_from_the_file_to_the_right_answer_in_one_command(twoway, sav, tmp_path):
    question = "P(trust <= middle)"
    model = tmp_path / "m.twoway"
    code, out, _ = twoway("fit", sav, "-o", model, "--drop", "caseid,income", "--rank", "1", "--ask", question)
    observed = FRAME.trust[FRAME.trust <= 3] <= 2
    assert code == 0
    assert f"observed {observed.mean():.4f} ({len(observed)} records)" in out
    counts = FRAME.trust.value_counts()
    assert f"set to missing  trust 8 \"don't know\" {counts[8]}, 97 'refused' {counts[97]}" in out.replace("\n", " ")
    assert "declares the weight variable 'final_weight', which was not used; --weights 'final_weight' uses it" in out
    assert "How much do you trust?: low, middle, high  (missing: 90 to 99, 8)" in twoway("info", model)[1]


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "xlsx"])
def test_codes_given_on_the_command_line_are_counted_and_written(twoway, ending, tmp_path):
    path, toml, model = tmp_path / f"a.{ending}", tmp_path / "a.toml", tmp_path / "m.twoway"
    frame = pd.DataFrame({"vote": ["yes", "no", "no"] * 10, "trust": [1, -1, 2] * 10})
    if ending == "xlsx":
        frame.to_excel(path, index=False)
    elif ending == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    code, out, err = twoway("fit", path, "-o", model, "--missing", "trust=-1", "--rank", "1")
    assert (code, err) == (0, "")
    assert "set to missing trust -1 10" in " ".join(out.split())
    assert twoway("columns", path, "-o", toml, "--missing", "trust=-1")[0] == 0
    assert "# missing: -1 in 10 cells\nmissing = [-1]" in toml.read_text()
    again = tmp_path / "again.twoway"
    assert twoway("fit", path, "-o", again, "--columns", toml, "--rank", "1")[0] == 0
    assert tw.JointPMF.load(again).schema["trust"].categories == (1, 2)
    assert twoway("impute", again, path, "-o", tmp_path / "out.parquet")[0] == 0
    assert b"read as missing" not in (tmp_path / "out.parquet").read_bytes()


def test_what_was_found_is_written_and_read_back(twoway, sav, tmp_path):
    toml, model = tmp_path / "survey.toml", tmp_path / "m.twoway"
    assert twoway("columns", sav, "-o", toml)[0] == 0
    text = toml.read_text()
    for line in (
        'weights = "final_weight"',
        '[sets.media]\ncolumns = ["media_1", "media_2", "media_3"]\nchosen = 1',
        "[columns.caseid]\n# an identifier? 300 cells, all different\nuse = false",
        f'# missing: 8 "don\'t know" in {(FRAME.trust == 8).sum()} cells',
        f"# missing: 97 'refused' in {(FRAME.trust == 97).sum()} cells",
        'ordered = true\nmissing = [[90, 99], 8]\n[columns.trust.categories]\n1 = "low"\n2 = "middle"\n3 = "high"',
        '"\\"Kiel, Germany\\"" = "Kiel, Germany"',
        'label = "Television"',
        "cuts = [",
    ):
        assert line in text
    assert twoway("fit", sav, "--columns", toml, "-o", model, "--rank", "1")[0] == 0
    schema = tw.JointPMF.load(model).schema
    assert schema.names == ("trust", "income", "media_1", "media_2", "media_3", "city")
    assert schema["media_1"].categories == ("no", "yes")
    # The raw file, by the model alone: every record has the same probability as when it was declared.
    assert twoway("score", model, sav, "-o", tmp_path / "scores.csv")[0] == 0
    pmf = tw.JointPMF.load(model)
    declared = tw.Records(sav, columns=tw.Columns.load(toml))
    assert pd.read_csv(tmp_path / "scores.csv").log_prob.to_numpy() == pytest.approx(pmf.log_prob(declared))
    assert twoway("impute", model, sav, "-o", tmp_path / "complete.csv")[0] == 0
    complete = pd.read_csv(tmp_path / "complete.csv")
    kept = FRAME.trust <= 3
    assert complete.trust[kept].tolist() == FRAME.trust[kept].tolist()
    assert set(complete.trust) == {1, 2, 3}
    assert twoway("update", model, sav, "-o", tmp_path / "more.twoway")[0] == 0
    assert twoway("check", model, "--data", sav)[0] == 0


def test_a_multiple_choice_question_is_answered_where_anything_is_ticked():
    columns = tw.Columns(sets={"media": {"columns": ["media_1", "media_2", "media_3"], "chosen": 1}})
    records = tw.Records(FRAME[["media_1", "media_2", "media_3"]], columns=columns)
    expected = np.where(TICKED.any(axis=1, keepdims=True), TICKED.astype(int), -1)
    assert records.codes().tolist() == expected.tolist()
    by_model = tw.Records(FRAME, schema=tw.Schema.from_dict(records.schema.to_dict()))
    assert by_model.codes().tolist() == expected.tolist()
    with pytest.raises(tw.DataError, match="the set 'media' needs"):
        tw.Columns(sets={"media": {"columns": ["media_1"], "chosen": 1}})


def test_what_is_found_in_a_csv_file_reads_like_the_file(tmp_path):
    path = tmp_path / "survey.csv"
    FRAME.to_csv(path, index=False)
    text = columns_toml(*find_columns(path))
    assert 'weights = "final_weight"' in text
    (tmp_path / "survey.toml").write_text(text)
    columns = tw.Columns.load(tmp_path / "survey.toml")
    streamed, whole = tw.FileRecords(path, columns=columns), tw.Records(path, columns=columns)
    assert streamed.schema == whole.schema
    assert tw.Tables.count(streamed).flat == pytest.approx(tw.Tables.count(whole).flat)


def test_a_database_is_fitted_directly(twoway, tmp_path):
    pytest.importorskip("ibis")
    duckdb = pytest.importorskip("duckdb")
    frame = FRAME  # noqa: F841  # duckdb finds it by its name
    with duckdb.connect(tmp_path / "s.db") as database:
        database.execute("create table survey as select * from frame")
    (tmp_path / "s.toml").write_text(
        '[columns.trust]\norder = ["low", "middle", "high"]\nmissing = [8, [90, 99]]\n'
        '[columns.trust.categories]\n1 = "low"\n2 = "middle"\n3 = "high"\n'
    )
    options = ["--only", "trust,city", "-o", tmp_path / "m.twoway", "--rank", "1", "--ask", "P(trust <= middle)"]
    address = f"duckdb://{tmp_path / 's.db'}"
    code, out, _ = twoway("fit", "--db", address, "--table", "survey", "--columns", tmp_path / "s.toml", *options)
    assert code == 0
    assert f"observed {(FRAME.trust[FRAME.trust <= 3] <= 2).mean():.4f}" in out
    assert twoway("fit", "--db", address, *options, "--force")[0] == 3  # no table
    assert twoway("fit", "survey.csv", "--db", address, *options, "--force")[0] == 2


def test_files_elsewhere_are_fetched(tmp_path):
    pytest.importorskip("fsspec")
    import fsspec

    fsspec.filesystem("memory").pipe("/folder/a.csv", b"x,y\n1,2\n3,4\n")
    fsspec.filesystem("memory").pipe("/folder/b.csv", b"x,y\n5,6\n")
    assert tw.Records("memory://folder/a.csv").n_records == 2
    assert tw.Records("memory://folder/*.csv").n_records == 3
    for year in (2023, 2024):
        fsspec.filesystem("memory").pipe(f"/trips/year={year}/a.csv", b"x\n1\n2\n")
    assert tw.Records("memory://trips/*/a.csv").schema["year"].categories == (2023, 2024)
    with pytest.raises(tw.MissingFileError, match=r"there is no file 'memory://folder/c\.csv'"):
        tw.Records("memory://folder/c.csv")
    with pytest.raises(tw.DataError, match=r'pip install "twoway\[remote\]"'):
        tw.Records("nosuch://folder/c.csv")
    pytest.importorskip("aiohttp")
    with pytest.raises(tw.MissingFileError, match="cannot be fetched; is there a network"):
        tw.Records("http://127.0.0.1:9/a.csv")


def test_a_file_elsewhere_is_fetched_once_per_command(twoway, tmp_path, monkeypatch):
    pytest.importorskip("fsspec")
    from fsspec.implementations.memory import MemoryFileSystem

    fetched, get_file = [], MemoryFileSystem.get_file
    monkeypatch.setattr(MemoryFileSystem, "get_file", lambda *given: fetched.append(given[1]) or get_file(*given))
    MemoryFileSystem().pipe("/folder/s.csv", b"x,y,s\n" + b"1,2,a\n2,1,a\n1,1,b\n2,2,b\n" * 5)
    options = ("--rank", "1", "--strata", "s", "--intervals", "--threads", "1")
    assert twoway("fit", "memory://folder/s.csv", "-o", tmp_path / "m.twoway", *options)[0] == 0
    assert fetched == ["/folder/s.csv"]
    assert twoway("count", "memory://folder/s.csv", "-o", tmp_path / "s.tables")[0] == 0
    assert tw.Tables.load(tmp_path / "s.tables").schema.names == ("x", "y", "s")
    (tmp_path / "a b.csv").write_text("x\n1\n2\n")
    assert tw.Records(f"file://{tmp_path}/a%20b.csv").n_records == 2
    assert twoway("info", f"file://{tmp_path}/a%20b.csv")[0] == 0


def test_columns_of_the_design_are_recognised(twoway, tmp_path):
    path = tmp_path / "a.csv"
    columns = {"vote": RNG.choice(["a", "b"], 60), "psu": RNG.integers(1, 9, 60), "stratum": RNG.integers(1, 4, 60)}
    weights = {name: RNG.random(60).round(3) for name in ("weight", "wt_short", "repw1", "repw2", "repw3")}
    pd.DataFrame({**columns, "fpc": 100, **weights}).to_csv(path, index=False)
    declared, notes = find_columns(path)
    assert declared.weights == "weight"
    assert [name for name in notes if not declared[name].use] == ["psu", "fpc", "wt_short", "repw1", "repw2", "repw3"]
    for name, said in (("psu", "--units 'psu'"), ("stratum", "--strata 'stratum'"), ("fpc", "--population 'fpc'")):
        assert notes[name][-1] == f"how the sample was drawn? {said}"
    assert notes["repw2"] == ["replicate weights? --replicate-weights 'repw*'"]
    assert notes["wt_short"] == ["weights of another kind? --weights 'wt_short'"]


def test_columns_are_chosen_by_their_new_names(twoway, tmp_path):
    (tmp_path / "a.csv").write_text("q1,q2,q3\n" + "1,2,3\n2,1,3\n" * 9)
    (tmp_path / "a.toml").write_text('[columns.q1]\nname = "trust"\n')
    for chosen in (("--only", "trust,q2"), ("--drop", "q3")):
        command = ("count", tmp_path / "a.csv", "--columns", tmp_path / "a.toml", "-o", tmp_path / "a.tables")
        assert twoway(*command, *chosen, "--force")[0] == 0
        assert tw.Tables.load(tmp_path / "a.tables").schema.names == ("trust", "q2")
    code, _, err = twoway("count", tmp_path / "a.csv", "-o", tmp_path / "b.tables", "--only", "trust")
    assert (code, "no column 'trust'" in err) == (3, True)


def test_bins_leave_out_the_codes_of_missing_cells(twoway, tmp_path):
    path = tmp_path / "a.sav"
    frame = pd.DataFrame({"age": [*range(20, 60), *[999.0] * 40], "x": [1.0, 2.0] * 40})
    pyreadstat.write_sav(
        frame, str(path), missing_ranges={"age": [999]}, variable_value_labels={"age": {999: "refused"}}
    )
    code, out, _ = twoway("fit", path, "-o", tmp_path / "m.twoway", "--bins", "age=2", "--rank", "1")
    assert code == 0
    assert tw.JointPMF.load(tmp_path / "m.twoway").schema["age"].edges == (40,)
    assert "age 999 'refused' 40" in out


def test_an_error_about_many_columns_is_short(twoway, tmp_path):
    path = tmp_path / "a.csv"
    pd.DataFrame({f"measurement_number_{n}": RNG.random(50) for n in range(60)}).to_csv(path, index=False)
    code, _, err = twoway("fit", path, "-o", tmp_path / "m.twoway", "--max-categories", "40")
    assert code == 3
    assert "54 more columns with too many" in err
    assert "`twoway columns` writes a file" in err
    assert len(err) < 1500


@pytest.mark.parametrize("ending", ["sav", "zsav", "dta"])
def test_filled_survey_files_keep_codes_and_labels(twoway, sav, tmp_path, ending):
    model, out = tmp_path / "m.twoway", tmp_path / f"complete.{ending}"
    assert twoway("fit", sav, "-o", model, "--only", "trust,city", "--rank", "1")[0] == 0
    assert twoway("impute", model, sav, "-o", out)[0] == 0
    before, known = pyreadstat.read_sav(sav, user_missing=True)
    after, metadata = getattr(pyreadstat, "read_dta" if ending == "dta" else "read_sav")(out, user_missing=True)
    holes = before.trust.isin([8, 97])
    assert after.trust.isin(TRUST).all()
    assert after.trust[~holes].tolist() == before.trust[~holes].tolist()
    assert after.drop(columns="trust").equals(before.drop(columns="trust"))
    assert metadata.variable_value_labels["trust"] == known.variable_value_labels["trust"]
    assert metadata.column_names_to_labels["trust"] == "How much do you trust?"
    if ending != "dta":
        assert metadata.missing_ranges == known.missing_ranges
        assert metadata.variable_measure["trust"] == "ordinal"
    assert twoway("impute", model, sav, "-o", tmp_path / "complete.csv")[0] == 0
    assert pd.read_csv(tmp_path / "complete.csv", dtype=str).trust.isin(list("123")).all()  # codes as in the file
