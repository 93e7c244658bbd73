"""Options that messages recommend exist, on the command line and in Python."""

import ast
import functools
import inspect
import re
from pathlib import Path

import pandas as pd
import pytest
import typer

import twoway as tw
from twoway.cli.app import make_app
from twoway.cli.output import _PARAMETERS, output_wording

NOISY = ["count", "records.csv", "-o", "c.tables", "--public-schema", "--epsilon"]
SOURCE = Path(tw.__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("advice")


@functools.cache
def messages():
    """Return each text of the source that is no docstring, with its file and line."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            (f"{path.relative_to(SOURCE)}:{node.lineno}", node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        ]
    return found


def options_of_commands():
    commands = typer.main.get_command(make_app()).commands.values()
    return {option for command in commands for parameter in command.params for option in parameter.opts}


def parameters_of_python():
    names = set()
    for holder in (tw, tw.solvers, tw.datasets, tw.JointPMF, tw.Tables):
        for name in dir(holder):
            found = getattr(holder, name)
            if callable(found) and not name.startswith("_"):
                try:
                    names |= set(inspect.signature(found).parameters)
                except (TypeError, ValueError):
                    continue
    return names


def test_recommended_options_exist():
    allowed = options_of_commands() | {"--help", "--version", "--debug", "--install-completion", "--show-completion"}
    named = [(place, option) for place, text in messages() for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)]
    assert len(named) > 30
    assert [(place, option) for place, option in named if option not in allowed] == []


def test_recommended_parameters_exist():
    known = parameters_of_python()
    assert {"smoothing", "unseen", "max_iter", "n_bins"} <= known
    named = [(place, name) for place, text in messages() for name in re.findall(r"\b([a-z_]+)='[\w+-]+'", text)]
    assert len(named) > 5
    assert [(place, name) for place, name in named if name not in known] == []


@pytest.mark.parametrize("name", ["max_iter", "tol", "n_splits"])
def test_no_message_advises_what_fit_does_not_take(name):
    assert name not in inspect.signature(tw.fit).parameters
    advised = re.compile(rf"(raise|increase|lower|set|use|give) {name}\b")
    assert [place for place, text in messages() if advised.search(text)] == []


def test_advice_of_the_library_reads_as_options_in_the_command_line():
    """Each option that advice turns into is there; what it was in Python is not left in it."""
    told = [output_wording(text) for _, text in messages()]
    assert not any("unseen='missing'" in text or "solver='em'" in text for text in told)
    options = {option for text in told for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)}
    assert {"--unseen", "--solver", "--structure", "--bins", "--max-categories", "--area", "--tables"} <= options
    assert {"--max-weight", "--public-schema", "--schema"} <= options
    assert options <= options_of_commands() | {"--help", "--debug", "--version"}


def test_parameters_that_messages_name_are_options():
    options = {output_wording(f"{name} must be").partition(" ")[0] for name in _PARAMETERS.split("|")}
    assert options <= options_of_commands()


def test_what_users_of_the_command_line_read_names_no_python(cli, folder):
    (folder / "records.csv").write_text("a,b\nx,1\ny,2\nx,2\n")
    (folder / "design.csv").write_text("a,b,r1,r2\nx,1,1,2\ny,2,2,1\nx,2,2,2\n")
    design = ["--drop", "r1,r2", "--replicate-weights", "r1,r2", "--replicate-kind", "brr", "--intervals"]
    for arguments, advice in (
        (["fit", "design.csv", *design], "survey's own weights; give the records these, too: --weights"),
        (["fit", "records.csv", "--smoothing", "-1"], "--smoothing must be a number of pseudo-records between 0 and"),
        (["fit", "records.csv", "--seconds", "0"], "--seconds must be a number above 0, not 0"),
        ([*NOISY, "-1"], "--epsilon must be a number above 0"),
        ([*NOISY, "1", "--max-weight", "nan"], "--max-weight must be a number above 0, not nan"),
        (["count", "records.csv", "-o", "c.tables", "--epsilon", "1"], "(--schema), or set --public-schema if"),
    ):
        code, _, err = cli(*arguments)
        assert (code, advice in err) == (3, True), err
        assert not re.search(r"\b[a-z_]+=|None|True|twoway\.", err)


def test_advice_on_percentages_without_bases_names_no_python():
    rows = pd.DataFrame({"no": ["30%", "65%"], "yes": ["70%", "35%"]}, index=["18-39", "40+"])
    with pytest.raises(tw.TwowayError) as error:
        tw.Tables.from_crosstabs({("age", "vote"): rows}, kind="row")
    assert str(error.value) == output_wording(str(error.value))
    assert "give a row or column 'Base' of counts, a table of counts or joint shares that has 'age', or" in str(
        error.value
    )


@pytest.mark.parametrize("cuts", ["20, 10", "10, 10", "10, 1e999", "10, NaN", "10, 1" + "0" * 400, "true", ""])
def test_cuts_of_a_schema_that_cannot_be_used_are_told_with_an_example(cli, folder, cuts):
    (folder / "records.csv").write_text("a,b\nx,1\ny,2\nx,2\n")
    (folder / "schema.json").write_text(f'{{"b": {{"cuts": [{cuts}]}}}}')
    code, _, err = cli("count", "records.csv", "--schema", "schema.json", "-o", "c.tables")
    assert (code, '"income": {"cuts": [10000, 20000]}' in err) == (4, True), err


def test_advice_on_published_tables_names_their_parameters():
    table, shares = tw.PublishedTable.of, {("x", 1): 0.4, ("x", 2): 0.6, ("y", 1): 0.3, ("y", 2): 0.7}
    with pytest.raises(tw.DataError, match="give kind='shares'"):
        table("a", {"x": "40%", "y": "60%"})
    with pytest.raises(tw.DataError, match="name with given=… the variables for each category of which they add up"):
        table(["a", "b"], shares, kind="shares")
    part = table(["a", "b"], {("x", 1): 4, ("x", 2): 6})
    with pytest.raises(tw.DataError, match=r"within=\{'a': …\} if .*, or groups=\{'a': …\} if a label includes them"):
        tw.PublishedTables.of([table("a", {"x": 4, "y": 6}), part])
    assert len(table(["a", "b"], shares, kind="shares", given="a").counts) == 2
