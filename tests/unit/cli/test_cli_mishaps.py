"""Mistakes on the command line: inputs as outputs, empty names, odd cells among numbers."""

import json
import os
from typing import get_type_hints

import numpy as np
import pytest

import twoway as tw
from twoway.cli import run
from twoway.cli.app import make_app
from twoway.data.files import file_set


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mishaps")
    random = np.random.default_rng(0)
    frame = {"age": random.choice(["18-39", "40+"], 300), "trust": random.integers(1, 5, 300)}
    import pandas as pd

    pd.DataFrame(frame).to_csv(folder / "s.csv", index=False)
    assert run(["fit", str(folder / "s.csv"), "-o", str(folder / "m.twoway"), "--rank", "2", "--solver", "em"]) == 0
    (folder / "odd.csv").write_text(
        "age,trust,id,x\n40+,1,007,0.10\n18-39,2,NA,1e5\n,4,?,true\n40+,05,a,\n40+,refused,b,1\n"
    )
    return folder


# Outputs


INPUTS = {
    ("fit", "data"): ["fit", "s.csv"],
    ("fit", "tables"): ["fit", "--tables", "s.csv"],
    ("fit", "columns"): ["fit", "odd.csv", "--columns", "s.csv"],
    ("fit", "layout"): ["fit", "--tables", "odd.csv", "--layout", "s.csv"],
    ("fit", "errors"): ["fit", "--tables", "odd.csv", "--errors", "s.csv"],
    ("segments", "data"): ["segments", "s.csv"],
    ("segments", "columns"): ["segments", "odd.csv", "--columns", "s.csv"],
    ("labels", "data"): ["labels", "s.csv", "--item", "age"],
    ("labels", "gold"): ["labels", "odd.csv", "--gold", "s.csv"],
    ("table", "model"): ["table", "m.twoway", "--columns", "age"],
    ("table", "data"): ["table", "m.twoway", "--columns", "age", "--data", "s.csv"],
    ("tables", "sheet"): ["tables", "read", "s.csv"],
    ("tables", "layout"): ["tables", "read", "odd.csv", "--layout", "s.csv"],
    ("population", "model"): ["population", "m.twoway", "-n", "2"],
    ("population", "tables"): ["population", "--tables", "s.csv", "-n", "2"],
    ("population", "layout"): ["population", "--tables", "odd.csv", "--layout", "s.csv", "-n", "2"],
    ("population", "errors"): ["population", "--tables", "odd.csv", "--errors", "s.csv", "-n", "2"],
    ("columns", "data"): ["columns", "s.csv"],
    ("ask", "model"): ["ask", "m.twoway", "P(age)"],
    ("count", "data"): ["count", "s.csv"],
    ("count", "columns"): ["count", "odd.csv", "--columns", "s.csv"],
    ("count", "schema"): ["count", "s.csv", "--schema", "m.twoway"],
    ("score", "model"): ["score", "m.twoway", "s.csv"],
    ("score", "data"): ["score", "m.twoway", "s.csv"],
    ("explore", "model"): ["explore", "m.twoway"],
    ("export", "model"): ["export", "m.twoway", "--sql", "--table", "t"],
    ("sample", "model"): ["sample", "m.twoway", "-n", "2"],
    ("impute", "model"): ["impute", "m.twoway", "s.csv"],
    ("impute", "data"): ["impute", "m.twoway", "s.csv"],
    ("update", "data"): ["update", "m.twoway", "s.csv"],
}
REPLACED = {("count", "add"), ("update", "model")}  # which is what these are for
# Besides --out.
OUTPUTS = {("segments", "model"), ("segments", "assignments"), ("labels", "annotators"), ("labels", "questions")}


def test_every_input_of_every_command_is_known():
    """A command with an output that is not checked for one of its inputs fails here."""
    inputs = set()
    for command in (registered.callback for registered in make_app().registered_commands):
        hints = get_type_hints(command)
        if "force" in hints:
            inputs |= {
                (command.__name__, name) for name, hint in hints.items() if name != "out" and "Path" in str(hint)
            }
    assert inputs | {("count", "data")} == INPUTS.keys() | REPLACED | OUTPUTS


@pytest.fixture
def inputs(folder):
    """The bytes of the inputs; other names lead to the same files."""
    if not (folder / "symbolic").exists():
        (folder / "symbolic").mkdir()
        (folder / "hard").mkdir()
        for name in ("s.csv", "m.twoway"):
            (folder / "symbolic" / name).symlink_to(folder / name)
            (folder / "hard" / name).hardlink_to(folder / name)
    return {name: (folder / name).read_bytes() for name in ("s.csv", "m.twoway")}


def assert_refused(told, folder, inputs):
    code, _, err = told
    assert code == 4
    assert "input" in err
    assert {name: (folder / name).read_bytes() for name in inputs} == inputs


@pytest.mark.parametrize("spelling", ["{}", "symbolic/../{}", "symbolic/{}", "hard/{}"])
@pytest.mark.parametrize(("command", "role"), INPUTS)
def test_what_is_read_is_not_replaced(command, role, spelling, cli, folder, inputs):
    output = spelling.format("m.twoway" if role in ("model", "schema") else "s.csv")
    assert_refused(cli(*INPUTS[command, role], "-o", output, "--force"), folder, inputs)


@pytest.mark.parametrize("output", ["model", "assignments"])
def test_other_outputs_do_not_replace_what_is_read(output, cli, folder, inputs):
    assert_refused(cli("segments", "s.csv", f"--{output}", "hard/s.csv", "--force"), folder, inputs)


@pytest.mark.parametrize("flags", [["--proba"], ["--how", "sample"], ["--json"], ["--unseen", "missing"]])
def test_impute_leaves_its_input_with_any_flag(flags, cli, folder, inputs):
    assert_refused(cli("impute", "m.twoway", "s.csv", "-o", "s.csv", "--force", *flags), folder, inputs)


@pytest.mark.parametrize("source", ["s*.csv", "*[s].csv", ".", "{}/."])
def test_patterns_and_folders_are_inputs_file_by_file(source, cli, folder, inputs):
    source = source.format(folder)
    for command in (["fit", source], ["count", source], ["impute", "m.twoway", source], ["fit", "--tables", source]):
        assert_refused(cli(*command, "-o", "hard/s.csv", "--force"), folder, inputs)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_database_is_not_replaced_by_its_counts(kind, cli, folder, inputs):
    for address in (f"{kind}://s.csv", f"{kind}://{folder}/s.csv", f"{kind}://./hard/s.csv?read_only=1"):
        assert_refused(cli("fit", "--db", address, "--table", "t", "-o", "s.csv", "--force"), folder, inputs)
        assert_refused(cli("count", address, "--table", "t", "-o", "s.csv", "--force"), folder, inputs)


def test_counts_are_added_to_tables_of_the_same_order(cli, folder):
    assert cli("count", "s.csv", "-o", "pairs.tables")[0] == 0
    code, _, err = cli("count", "s.csv", "--add", "pairs.tables", "--order", "3")
    assert code == 3
    assert "--order 3" in err
    assert "order 2" in err
    assert cli("count", "s.csv", "--add", "pairs.tables", "--order", "2")[0] == 0
    assert cli("count", "s.csv", "--add", "pairs.tables")[0] == 0
    assert tw.Tables.load(folder / "pairs.tables").totals.max() == 900


def test_a_dangling_link_raises_before_the_fit(cli, folder, monkeypatch):
    (folder / "dangling.twoway").symlink_to("/no/such/folder/x.twoway")
    monkeypatch.setattr("twoway.fitting.fit.fit", None)  # nothing is fitted
    code, _, err = cli("fit", "s.csv", "-o", "dangling.twoway")
    assert code == 4
    assert "there is no folder '/no/such/folder'" in err


def test_names_as_long_as_may_be(cli, folder):
    name = "x" * 248 + ".twoway"
    assert len(name) == 255
    code, _, err = cli("fit", "s.csv", "-o", name, "--rank", "1", "--solver", "em")
    assert (code, err) == (0, "")
    assert tw.load(folder / name).rank == 1
    os.unlink(folder / name)


def test_names_that_are_empty(cli, folder):
    before = set(os.listdir(folder))
    for command in (["fit", "", "-o", "no.twoway"], ["count", "", "-o", "no.tables"], ["score", "m.twoway", ""]):
        code, _, err = cli(*command)
        assert code == 2
        assert "an argument is empty" in err
    code, _, err = cli("fit", "s.csv", "-o", "")
    assert code == 4
    assert "it is a folder" in err
    assert cli("count", "s.csv", "-o", "t.tables", "--missing", "")[0] == 0  # an empty cell is missing anyway
    assert set(os.listdir(folder)) == before | {"t.tables"}


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        (["score", "m.twoway", "s.csv", "--top", "0"], 2, "--top"),
        (["fit", "s.csv", "-o", "n.twoway", "--max-categories", "0"], 2, "--max-categories"),
        (["export", "m.twoway", "--sql", "--table", ""], 2, "--table"),
        (["fit", "s.csv", "-o", "n.twoway", "--rank", "1000000000"], 3, "use a lower rank"),
        (["fit", "s.csv", "-o", "n.twoway", "--smoothing", "1e308"], 3, "between 0 and 1e+15"),
    ],
)
def test_absurd_numbers(command, code, told, cli):
    found, _, err = cli(*command)
    assert found == code
    assert told in err


def test_questions_of_a_file_that_begins_with_a_mark(cli, monkeypatch):
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("\ufeffH(age)\n"))
    code, out, _ = cli("ask", "m.twoway", "-")
    assert code == 0
    assert out.endswith("nats\n")


# Cells


def test_one_odd_cell_does_not_make_text_of_the_numbers_beside_it(cli, folder, monkeypatch):
    for streamed in (False, True):
        if streamed:
            monkeypatch.setattr(file_set, "STREAMED_BYTES", 1)
        code, _, err = (
            cli("count", "odd.csv", "--add", "t2.tables") if streamed else cli("score", "m.twoway", "odd.csv")
        )
        if not streamed:
            assert code == 3
            assert "no category '05' of 'trust'; known: 1, 2, 3, 4, none of which is text; --unseen missing" in err
            assert cli("count", "s.csv", "-o", "t2.tables")[0] == 0
    assert code == 3
    code, out, err = cli("count", "odd.csv", "--add", "t2.tables", "-o", "t3.tables", "--unseen", "missing", "--json")
    assert code == 0, err
    assert json.loads(out)["largest_total"] == 302  # of two records both cells are known and seen


def test_only_holes_change(cli, folder):
    code, out, err = cli("impute", "m.twoway", "odd.csv", "--unseen", "missing")
    assert code == 0, err
    before = [line.split(",") for line in (folder / "odd.csv").read_text().splitlines()]
    after = [line.split(",") for line in out.splitlines()]
    filled = {
        (row, column)
        for row, cells in enumerate(after)
        for column, cell in enumerate(cells)
        if cell != before[row][column]
    }
    assert filled == {(3, 0), (4, 1), (5, 1)}
    assert after[4][1] in "1234"
    code, _, _ = cli("impute", "m.twoway", "odd.csv", "--unseen", "missing", "-o", "filled.parquet")
    assert code == 0
    import pyarrow.parquet as pq

    assert pq.read_table(folder / "filled.parquet")["trust"].to_pylist()[:3] == [1, 2, 4]


def test_a_condition_brings_no_code_from_elsewhere(cli):
    for source in ("https://127.0.0.1:9/x.csv", "s3://x/y.csv"):
        code, _, err = cli(
            "count", "s.csv", "-o", "no.tables", "--where", f"exists(select * from read_csv('{source}'))"
        )
        assert code in (3, 4)
        assert "download" not in err
        assert "requires the extension" in err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("fit s.tables --drop age", "--drop cannot be used with tables"),
        ("fit s.tables --weights w --max-categories 5", "--weights, --max-categories cannot be used with tables"),
        ("check s.tables --missing=-9", "--missing cannot be used with tables"),
        ("fit --tables s.csv --only age", "--only cannot be used with tables"),
        ("fit s.csv --kind row --total 9", "--kind, --total cannot be used without --tables"),
        ("fit s.csv --table survey", "--table cannot be used without --db"),
        ("fit s.csv --exact age", "--exact cannot be used with records"),
        ("fit s.csv s.tables --exact age", "--exact cannot be used with a database or several files"),
        ("fit --db duckdb:///x.db --table t --impossible age=40+", "--impossible cannot be used with a database"),
        ("fit --tables s.csv --areas --exact age", "--exact cannot be used with --areas"),
        ("fit --tables s.csv --areas --area north", "--area cannot be used with --areas"),
        ("check m.twoway --drop age", "--drop cannot be used with a model"),
        ("check m.twoway --data s.csv --kind row", "--kind cannot be used with a model"),
        ("segments m.twoway --drop age", "--drop cannot be used with a model"),
        ("impute m.twoway s.csv --proba --how mean", "--proba cannot be combined with --how"),
    ],
)
def test_an_option_without_effect_is_an_error(command, message, cli, folder):
    tw.Tables.count(tw.Records(folder / "s.csv")).save(folder / "s.tables")
    code, _, err = cli(*command.split())
    assert (code, message in err) == (3, True), err


def test_options_of_records_are_for_the_records_beside_tables(cli, folder):
    tw.Tables.count(tw.Records(folder / "s.csv")).save(folder / "s.tables")
    code, _, err = cli("fit", "s.csv", "s.tables", "--missing", "refused", "-o", "both.twoway", "--rank", "2")
    assert code == 0, err
