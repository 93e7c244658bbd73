"""Every command on data with hostile names and labels: safe output, and no files other than those asked for."""

import csv
import importlib.util
import os

import numpy as np
import pytest
from hostile import ASKED, HOSTILE, hostile_frame, is_safe

import twoway as tw
from twoway.cli import run
from twoway.data.files import writing
from twoway.questions.question import question_word


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import pyarrow as pa

    folder = tmp_path_factory.mktemp("hostile")
    frame = hostile_frame(80)
    writing.write_data_file(pa.Table.from_pandas(frame, preserve_index=False), folder / "in.csv")
    holes = frame.where(np.random.default_rng(1).random(frame.shape) < 0.7)
    writing.write_data_file(pa.Table.from_pandas(holes, preserve_index=False), folder / "holes.csv")
    before = os.getcwd()
    os.chdir(folder)
    try:
        assert run(["fit", "in.csv", "-o", "m.twoway", "--rank", "2", "--solver", "em"]) == 0
        assert run(["count", "in.csv", "-o", "t.tables"]) == 0
    finally:
        os.chdir(before)
    return folder


QUOTED = [repr(name) for name in hostile_frame(1).columns]

COMMANDS = {
    "info": ["info", "m.twoway"],
    "info of tables": ["info", "t.tables"],
    "info for machines": ["info", "m.twoway", "--json"],
    "ask": ["ask", "m.twoway", *(f"P({name})" for name in QUOTED)],
    "ask for pairs": ["ask", "m.twoway", *(f"P({name} | {QUOTED[0]})" for name in QUOTED[1:])],
    "ask for a mode": ["ask", "m.twoway", f"mode({', '.join(QUOTED[:4])})"],
    "ask by order": ["ask", "m.twoway", f"P({QUOTED[12]} <= {question_word(HOSTILE[12])})"],
    "ask for nothing": ["ask", "m.twoway", f"P({QUOTED[12]} < {question_word(HOSTILE[12])})"],
    "ask what is not there": ["ask", "m.twoway", f"P({QUOTED[12][:-1]}?')", *QUOTED],
    "ask for machines": ["ask", "m.twoway", f"P({QUOTED[12]})", "--json"],
    "score": ["score", "m.twoway", "in.csv", "--top", "3"],
    "columns": ["columns", "in.csv"],
    "columns of what is not there": ["columns", f"{HOSTILE[12]}.csv"],
    "compare": ["compare", "m.twoway", "m.twoway"],
    "check": ["check", "t.tables", "--rank", "2"],
    "check a model": ["check", "m.twoway", "--data", "in.csv"],
    "plan": ["plan", "m.twoway", "--error", "0.9", "--trials", "1", "--of", f"{HOSTILE[0]},{HOSTILE[12]}"],
    "plan what is not there": ["plan", "m.twoway", "--of", HOSTILE[12] + "?"],
    "export": ["export", "m.twoway", "--sql", "--table", HOSTILE[5], "--dialect", HOSTILE[12]],
    "export nothing of": ["export", "m.twoway", "--sql", "--table", HOSTILE[12], "--what", HOSTILE[12]],
    "update with": ["update", "m.twoway", "in.csv", "--weights", HOSTILE[12] + "?"],
    "update what is not there": ["update", f"{HOSTILE[12]}.twoway", "in.csv"],
    "reproduce": ["reproduce", HOSTILE[12]],
    "reproduce by": ["reproduce", "mse", "--methods", HOSTILE[12]],
    "demo": ["demo", "--out", f"in.csv/{HOSTILE[12]}"],
    "impute": ["impute", "m.twoway", f"{HOSTILE[12]}.csv"],
    "sample": ["sample", "m.twoway", "-n", HOSTILE[12]],
    "segments": ["segments", "in.csv", "--count", "2", "--starts", "1", "--replicates", "0"],
    "segments called": ["segments", "in.csv", "--count", "2", "--names", HOSTILE[12]],
    "labels": [
        *("labels", "in.csv", "--item", HOSTILE[0], "--annotator", HOSTILE[1], "--label", HOSTILE[12]),
    ],
    "labels of what is not there": ["labels", "in.csv", "--item", HOSTILE[12] + "?"],
    "table": ["table", "m.twoway", "--columns", HOSTILE[0], "--rows", HOSTILE[12]],
    "table of what is not there": ["table", "m.twoway", "--columns", HOSTILE[12] + "?"],
    "population": ["population", f"{HOSTILE[12]}.twoway", "-n", "2", "-o", "people.csv"],
    "tables": ["tables", "read", "in.csv"],
    "tables of what is not there": ["tables", "read", f"{HOSTILE[12]}.csv"],
    "explore": ["explore", f"{HOSTILE[12]}.twoway"],
    "count": ["count", "in.csv", "-o", "n.tables", "--bins", HOSTILE[12]],
    "count in a database": ["count", f"sqlite:///{HOSTILE[12]}.db", "--table", HOSTILE[12], "-o", "n.tables"],
    "fit what is not there": ["fit", f"{HOSTILE[12]}.csv", "-o", "n.twoway"],
    "fit without": ["fit", "in.csv", "-o", "n.twoway", "--drop", HOSTILE[12] + "?"],
    "another command": [HOSTILE[12]],
    "another option": ["info", f"--{HOSTILE[12]}"],
}


@pytest.mark.parametrize("case", COMMANDS)
def test_what_is_said(case, cli, folder):
    before = set(os.listdir(folder))
    code, out, err = cli(*COMMANDS[case])
    assert code in (0, 2, 3, 4), err
    assert out + err
    assert is_safe(out + err), ascii(out + err)
    assert set(os.listdir(folder)) == before


def test_what_was_found_in_columns_of_any_name_is_read_back(cli, folder, tmp_path):
    assert cli("columns", "in.csv", "-o", str(tmp_path / "in.toml"))[0] == 0
    assert list(tw.Columns.load(tmp_path / "in.toml").columns) == list(hostile_frame(1).columns)
    declared = tw.Records(folder / "in.csv", columns=tw.Columns.load(tmp_path / "in.toml"))
    plain = tw.Records(folder / "in.csv")
    assert all(set(v.categories) == set(plain.schema[v.name].categories) for v in declared.schema)


def test_every_command_was_tried():
    import typer

    from twoway.cli.app import make_app

    known = set(typer.main.get_command(make_app()).commands)
    assert known <= {arguments[0] for arguments in COMMANDS.values()}


def read(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def test_what_is_written(cli, folder):
    """Holes are filled, and nothing else of the file changes; drawn records have the labels that were read."""
    before = set(os.listdir(folder))
    assert cli("impute", "m.twoway", "holes.csv", "-o", "filled.csv")[0] == 0
    holes, filled = read(folder / "holes.csv"), read(folder / "filled.csv")
    assert filled[0] == holes[0] == list(hostile_frame(1).columns)
    for old, new in zip(holes[1:], filled[1:], strict=True):
        assert all(one == other for one, other in zip(old, new, strict=True) if one.strip() not in ("", "nan"))
        assert all(new)
    assert cli("sample", "m.twoway", "-n", "50", "-o", "drawn.csv")[0] == 0
    drawn = read(folder / "drawn.csv")
    assert drawn[0] == holes[0]
    assert {cell for row in drawn[1:] for cell in row} <= set(HOSTILE)
    assert any(cell.startswith(("=", "+", "@")) for row in drawn[1:] for cell in row), "formulas are data"
    writing = {
        "page.html": ["explore", "m.twoway", "--title", ASKED],
        "fitted.twoway": ["fit", "in.csv", "--rank", "2", "--solver", "em"],
        "updated.twoway": ["update", "m.twoway", "in.csv"],
        "counted.tables": ["count", "in.csv"],
    }
    if importlib.util.find_spec("sqlglot"):  # the extra sql
        writing["view.sql"] = ["export", "m.twoway", "--sql", "--table", HOSTILE[5], "--view", HOSTILE[6]]
    for name, arguments in writing.items():
        code, out, err = cli(*arguments, "-o", name)
        assert code == 0, err
        assert is_safe(out + err), ascii(out + err)
    assert set(os.listdir(folder)) == before | {"filled.csv", "drawn.csv", *writing}
