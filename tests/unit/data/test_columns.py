"""What columns are declared to be, by files and by people, reaches records and models, whatever the source."""

import json

import numpy as np
import pandas as pd
import pytest

import twoway as tw

RNG = np.random.default_rng(0)
N = 400
TRUST = {1: "not at all", 2: "a little", 3: "a lot"}
FRAME = pd.DataFrame(
    {
        "trust": RNG.choice([1.0, 2, 3, 8, 9, 97, np.nan], N),
        "party": RNG.choice([1, 2, 3, 4], N),
        "age": RNG.integers(18, 90, N).astype(float),
        "sex": RNG.choice(["m", "f"], N),
        "id": np.arange(N),
    }
)
DECLARED = {
    "trust": {"name": "Trust", "label": "How much?", "categories": TRUST, "ordered": True, "missing": [8, 9, (90, 99)]},
    "party": {"categories": {"1, 2": "left", "3": "right"}},
    "age": {"cuts": [30, 60]},
    "id": {"use": False},
}


@pytest.fixture
def sav(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    path = tmp_path / "survey.sav"
    pyreadstat.write_sav(
        FRAME,
        str(path),
        column_labels={"trust": "How much?"},
        variable_value_labels={"trust": {**TRUST, 8: "Don't know", 97: "Refused"}, "sex": {"m": "male"}},
        missing_ranges={"trust": [8, {"lo": 9, "hi": 99}]},
        variable_measure={"trust": "ordinal"},
    )
    return path


def test_labels_order_and_missing_cells_of_a_file_are_those_of_pyreadstat(sav):
    import pyreadstat

    expected, _ = pyreadstat.read_sav(str(sav), apply_value_formats=True)
    records = tw.Records(sav, columns=["trust", "sex", "party"])
    for place, variable in enumerate(records.schema):
        labels = np.array([*variable.categories, None], dtype=object)[records.codes()[:, place]]
        there = expected[variable.name].astype(object)
        assert labels.tolist() == there.where(there.notna(), None).tolist()
    trust = records.schema["trust"]
    assert (trust.categories, trust.values) == (tuple(TRUST.values()), (1, 2, 3))
    assert (trust.ordered, trust.label) == (True, "How much?")
    assert not records.schema["sex"].ordered
    pmf = tw.fit(records, rank=1, smoothing=0)
    assert tw.ask(pmf, "P(trust <= 'a little')") == pytest.approx(np.mean(FRAME.trust[FRAME.trust <= 3] <= 2))


def sources(tmp_path):
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    FRAME.to_parquet(tmp_path / "a.parquet")
    yield tw.Records(FRAME, columns=tw.Columns(DECLARED))
    yield tw.Records(tmp_path / "a.csv", columns=tw.Columns(DECLARED))
    yield tw.FileRecords(tmp_path / "a.csv", columns=tw.Columns(DECLARED), max_categories=50)
    yield tw.FileRecords(tmp_path / "a.parquet", columns=tw.Columns(DECLARED), max_categories=50)


def test_every_source_is_read_alike(tmp_path):
    first, *others = sources(tmp_path)
    assert first.schema.names == ("Trust", "party", "age", "sex")
    assert first.schema["Trust"].categories == tuple(TRUST.values())
    assert first.schema["party"].categories == ("left", "right", 4)
    assert first.schema["age"].categories == ("below 30", "30 to below 60", "60 or more")
    assert first.schema["age"].values[0] == pytest.approx(FRAME.age[FRAME.age < 30].mean())
    counts = tw.Tables.count(first)
    for other in others:
        assert [v.difference(o) for v, o in zip(first.schema, other.schema, strict=True)] == [""] * 4
        assert tw.Tables.count(other).flat.tolist() == counts.flat.tolist()


def test_databases_and_dask_are_read_alike():
    ibis = pytest.importorskip("ibis")
    dd = pytest.importorskip("dask.dataframe")
    counts = tw.Tables.count(tw.Records(FRAME, columns=tw.Columns(DECLARED)))
    table = tw.DatabaseTable(ibis.memtable(FRAME), columns=tw.Columns(DECLARED))
    dask = tw.DaskRecords(dd.from_pandas(FRAME, npartitions=2), columns=tw.Columns(DECLARED))
    for other in (tw.count(table), tw.count(dask)):
        assert other.schema == counts.schema
        assert other.flat.tolist() == counts.flat.tolist()


def test_a_model_reads_the_raw_file_alike(tmp_path, sav):
    pmf = tw.fit(tw.Records(FRAME, columns=tw.Columns(DECLARED)), rank=2, smoothing=1)
    pmf.save(tmp_path / "m.twoway")
    loaded = tw.JointPMF.load(tmp_path / "m.twoway")
    assert loaded.schema["Trust"].codes == tuple(TRUST.items())
    assert loaded.log_prob(FRAME) == pytest.approx(pmf.log_prob(tw.Records(FRAME, columns=tw.Columns(DECLARED))))
    filled = loaded.impute(FRAME)
    holes = ~FRAME.trust.isin(TRUST)
    assert filled.trust[~holes].equals(FRAME.trust[~holes])
    assert set(filled.trust) <= set(TRUST)  # codes in a column of codes
    assert json.loads(json.dumps(loaded.schema.to_dict())) == json.loads(json.dumps(pmf.schema.to_dict()))


@pytest.mark.parametrize(
    ("declared", "match"),
    [
        ({"trust": {"order": ["a lot"], "categories": TRUST}}, "order of 'trust' leaves out the category 'not at all'"),
        (
            {"trust": {"categories": TRUST, "missing": [3]}},
            "'trust': the code 3 is both a category, 'a lot', and missing",
        ),
        ({"trust": {"order": [1, 2], "missing": [2]}}, "'trust': 2 is both a category in the order and missing"),
        ({"trust": {"categories": {1: 2, 2: 1}}}, "1 is a category of 'trust', and a code of another one"),
        ({"trust": {"ordre": [1]}}, "no setting 'ordre' of column 'trust'; did you mean"),
        ({"trsut": {}}, "no column 'trsut' among those declared; did you mean 'trust'"),
        ({"trust": {"cuts": [3, 1]}}, "column 'trust': cuts must be ascending numbers"),
        ({"trust": {"name": "party"}}, "two columns would be called 'party'"),
        ({"trust": {"missing": [(9, 1)]}}, "the smaller one first"),
        ({"sex": {"cuts": [3]}}, "column 'sex' has cuts but does not hold numbers"),
        ({"trust": {"missing": 9}}, "missing must be a list; got 9"),
        ({"trust": {"missing": {"a": 1}}}, "missing must be a list; got"),
        ({"trust": {"missing": [[1, 2, 3]]}}, "column 'trust': a range of missing codes is a pair"),
        ({"trust": {"values": [1]}}, "column 'trust': values must be a table from categories to numbers"),
        ({"sex": {"values": {"m": 1}}}, "the values of 'sex' leave out the category 'f'"),
    ],
)
def test_wrong_declarations_name_the_place(declared, match):
    with pytest.raises((tw.DataError, tw.UnknownNameError), match=match):
        tw.Records(FRAME, columns=tw.Columns(declared))


def test_columns_are_named_or_declared():
    with pytest.raises(tw.DataError, match="columns must be names of columns, or Columns, not 5"):
        tw.Records(FRAME, columns=5)


def test_arrays_of_numbers_declare_what_lists_do():
    of_arrays = {"trust": {"missing": np.array([8, 9])}, "age": {"cuts": np.array([18, 40])}}
    of_lists = {"trust": {"missing": [8, 9]}, "age": {"cuts": [18, 40]}}
    assert str(tw.Columns(of_arrays)) == str(tw.Columns(of_lists))
    assert tw.Columns(of_arrays).bins == tw.Columns(of_lists).bins
    assert tw.MissingLabels([(np.int64(90), np.float32(99))]) == tw.MissingLabels([(90, 99)])


def test_the_text_of_columns_is_toml_that_declares_the_same(tmp_path):
    sport = {"ordered": True, "missing": [8, (90, 99)], "values": {"never": 0, "2 or more": 10.5}}
    sets = {"media": {"columns": ["q5_1", "q5_2"], "chosen": 1, "label": 'what "they" read'}}
    columns = tw.Columns({"sport": sport}, sets=sets, counts="n")
    path = tmp_path / "survey.toml"
    path.write_text(str(columns))
    assert tw.Columns.load(path)["sport"] == columns["sport"]
    assert tw.Columns.load(path).choices == columns.choices


def test_a_toml_file_declares_the_same(tmp_path):
    path = tmp_path / "survey.toml"
    path.write_text(
        'weights = "w"\n[columns.trust]\nordered = true\nmissing = [8, [90, 99]]\n'
        '[columns.trust.categories]\n1 = "low"\n"2, 3" = "high"\n'
    )
    columns = tw.Columns.load(path)
    assert columns == tw.Columns(
        {"trust": {"ordered": True, "missing": [8, (90, 99)], "categories": {"1": "low", "2, 3": "high"}}}, weights="w"
    )
    records = tw.Records({"trust": [1, 2, 3, 8, 95], "w": [1.0, 2, 1, 1, 1]}, columns=columns)
    assert records.schema["trust"].categories == ("low", "high")
    assert records.codes().ravel().tolist() == [0, 1, 1, -1, -1]
    assert records.total_weight == 6
    path.write_text("columns = [")
    with pytest.raises(tw.FileFormatError, match=r"survey\.toml' is not a TOML file: Invalid value"):
        tw.Columns.load(path)


def test_anything_that_hands_out_arrow_data_is_a_frame():
    import pyarrow as pa

    class Stream:
        def __init__(self, table):
            self.table = table

        def __arrow_c_stream__(self, requested_schema=None):
            return self.table.__arrow_c_stream__(requested_schema)

    table = pa.table({"a": ["x", "y", "x"], "b": [1, 2, 1]})
    assert tw.fit(Stream(table), rank=1).schema == tw.fit(table, rank=1).schema


@pytest.mark.slow
def test_codes_of_missing_cells_are_counted_with_their_labels(sav):
    shown = ('8 "Don\'t know"', "9", "97 'Refused'")
    expected = {text: int((FRAME.trust == float(text.split()[0])).sum()) for text in shown}
    assert tw.Records(sav).set_to_missing == {"trust": expected}
    assert tw.FileRecords(sav).set_to_missing == {"trust": expected}
    rows = (FRAME.party == 1).to_numpy()
    some = tw.Records(sav, where=rows, columns=tw.Columns({"trust": {"name": "T", "cuts": [2]}})).set_to_missing
    assert some == {"T": {text: int((FRAME.trust[rows] == float(text.split()[0])).sum()) for text in expected}}
    report = tw.fit(sav, rank=1).report
    ranked = sorted(expected.items(), key=lambda one: -one[1])
    assert report.set_to_missing == (f"trust {', '.join(f'{text} {n}' for text, n in ranked)}",)
    assert "missing     trust " in str(report)
    both = tw.fit([tw.Records(sav), tw.Records(sav)], rank=1).report.set_to_missing
    assert both == (f"trust {', '.join(f'{text} {2 * n}' for text, n in ranked)}",)
    assert tw.Records({"a": [1, 9, None, "NA"]}, missing=[9]).set_to_missing == {"a": {"9": 1}}


def test_letters_for_missing_numbers_are_counted(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    path = tmp_path / "a.dta"
    frame = pd.DataFrame({"q": pd.Series([1, 2, "a", "b", "a", None], dtype=object), "r": [1.0, 2, 1, 2, 1, 2]})
    labels = {"q": {1: "no", 2: "yes", "a": "refused"}}
    pyreadstat.write_dta(frame, str(path), variable_value_labels=labels, missing_user_values={"q": ["a", "b"]})
    records = tw.Records(path)
    assert records.schema["q"].categories == ("no", "yes")
    assert records.codes()[:, 0].tolist() == [0, 1, -1, -1, -1, -1]
    assert records.set_to_missing == {"q": {".a 'refused'": 2, ".b": 1}}
    assert tw.FileRecords(path).set_to_missing == records.set_to_missing


def test_a_declaration_can_take_back_what_a_file_says(sav):
    records = tw.Records(sav, columns=tw.Columns({"trust": {"ordered": False, "missing": []}}))
    trust = records.schema["trust"]
    assert trust.categories == (*TRUST.values(), "Don't know", 9, "Refused")
    assert not trust.is_ordered
    assert records.set_to_missing == {}
    fewer = tw.Records(sav, columns=tw.Columns({"trust": {"missing": [8]}})).schema["trust"]
    assert fewer.categories == (*TRUST.values(), 9, "Refused")
    with pytest.raises(tw.DataError, match="no column is left to use"):
        tw.Records(sav, columns=tw.Columns({name: {"use": False} for name in FRAME}))


@pytest.mark.parametrize(
    ("sets", "match"),
    [
        (5, "sets must be a mapping from names to settings, not 5"),
        ({"media": 5}, "the set 'media' must be a table such as columns = .*, not 5"),
        (
            {"media": {"columns": 5, "chosen": 1}},
            "columns of the set 'media' must be a list of names of columns, not 5",
        ),
        ({"media": {"columns": ["a", "b"], "chosen": [1]}}, r"chosen of the set 'media' must be one code, not \[1\]"),
        ({"media": {"columns": ["a", "b"], "chosen": 1, "label": 2}}, "label of the set 'media' must be text, not 2"),
    ],
)
def test_wrong_sets_name_the_place(sets, match):
    with pytest.raises(tw.DataError, match=match):
        tw.Columns(sets=sets)


def test_labels_in_a_file_stand_for_their_codes_as_missing(sav):
    expected = {"not at all": int((FRAME.trust == 1).sum()), "male": int((FRAME.sex == "m").sum())}
    for missing in ({"trust": ["not at all"], "sex": ["male"]}, ["not at all", "male"]):
        records = tw.Records(sav, missing=missing)
        assert records.schema["trust"].categories == ("a little", "a lot")
        assert records.schema["sex"].categories == ("f",)
        assert records.set_to_missing["trust"]["1 'not at all'"] == expected["not at all"]
        assert records.set_to_missing["sex"] == {"m 'male'": expected["male"]}
    for missing in ({"trust": ["not at al"]}, ["not at al"]):
        with pytest.raises(
            tw.UnknownNameError, match=r"no label 'not at al'.*to be read as missing.*did you mean 'not at all'"
        ):
            tw.Records(sav, missing=missing)
    assert tw.Records(sav, missing=["f"]).schema["sex"].categories == ("male",)  # text of a cell


def test_values_of_categories_are_declared(sav, tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(
        '[columns.trust.values]\n"not at all" = 0\n"a little" = 1\n"a lot" = 10\n[columns.party.values]\n1 = 5'
    )
    trust = tw.Columns.load(path)["trust"]
    records = tw.Records(sav, columns=tw.Columns({"trust": trust}))
    assert records.schema["trust"].values == (0, 1, 10)
    observed = FRAME.trust[FRAME.trust <= 3].map({1: 0, 2: 1, 3: 10})
    assert tw.ask(tw.fit(records, rank=1, smoothing=0), "E(trust)") == pytest.approx(observed.mean())


def test_columns_of_text_and_numbers_are_read():
    frame = pd.DataFrame({"scale": pd.Categorical(["never", 2.0, 3.0, "always", None]), "x": [1, 2, 1, 2, 1]})
    for given in (frame, frame.astype(object)):  # what pd.read_spss makes of a scale with labels at its ends
        records = tw.Records(given)
        assert records.schema["scale"].categories == (2, 3, "always", "never")
        assert records.codes()[:, 0].tolist() == [3, 0, 1, 2, -1]


class Stream:
    """Hands out Arrow data, as many libraries do."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_frames_come_out_of_the_library_that_went_in():
    duckdb, pl, pa = pytest.importorskip("duckdb"), pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    cells = {"a": ["x", "y", "x", None] * 5, "b": ["u", "v", "u", "v"] * 5}
    table = pa.table(cells)
    frames = {
        pd.DataFrame: [pd.DataFrame(cells)],
        pl.DataFrame: [pl.DataFrame(cells), pl.LazyFrame(cells)],
        pa.Table: [table, table.to_batches()[0], Stream(table), duckdb.sql('SELECT * FROM "table"')],
    }
    for kind, sources in frames.items():
        for source in sources:
            pmf = tw.fit(source, rank=1)
            both = pmf.marginal(["a", "b"])
            shown = (
                pmf.impute(source),
                pmf.impute_proba(source),
                pmf.sample(2),
                both.to_frame(),
                both[{"a": "x"}].to_frame(),
            )
            asked = tw.ask(pmf, "P(a | b)").to_frame()
            assert [type(frame) for frame in (*shown, asked, tw.Records(source).marginal("b").to_frame())] == [kind] * 7
            assert len(shown[0]) == 20 if kind is not pa.Table else shown[0].num_rows == 20


def test_missing_labels_of_a_column_hold_under_its_new_name(tmp_path):
    columns = tw.Columns({"q1": {"name": "trust"}})
    (tmp_path / "x.csv").write_text("q1\n1\n2\n9\n")
    for source in ({"q1": [1, 2, 9]}, tmp_path / "x.csv"):
        trust = tw.Records(source, columns=columns, missing={"q1": [9]}).schema["trust"]
        assert (trust.categories, trust.missing and trust.missing[-1]) == ((1, 2), 9)
