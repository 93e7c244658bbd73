"""docs/cli.md documents every command and option, and the shell examples of all pages run."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from test_docs import code_blocks, run_block

import twoway as tw
from twoway.cli import EXIT_CODES, run
from twoway.cli.app import make_app
from twoway.datasets import hide, titanic

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
TEXT = (DOCS / "cli.md").read_text(encoding="utf-8")
COMMANDS = typer.main.get_command(make_app()).commands
# They have pages of their own.
ELSEWHERE = {"demo", "reproduce", "explore"}


def section(name):
    found = re.search(rf"^### `twoway {name}\b.*?(?=^##)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"docs/cli.md has no section on twoway {name}"
    return found.group()


def options_in(text):
    """Return the options that a section names in code, but those of its shell examples."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return set(re.findall(r"`(--?[a-z][a-z-]*)", prose))


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - ELSEWHERE))
def test_exactly_the_existing_options_are_documented(name):
    real = {option for parameter in COMMANDS[name].params for option in parameter.opts if option.startswith("-")}
    assert options_in(section(name)) == real - {"--help"}


def test_every_command_is_documented():
    for name in ELSEWHERE:
        assert f"`twoway {name}`" in TEXT
    assert re.findall(r"^### `twoway (\w+)", TEXT, re.MULTILINE) == [n for n in COMMANDS if n not in ELSEWHERE]


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - ELSEWHERE))
def test_help_has_examples_that_parse(name):
    help_text = COMMANDS[name].help
    examples = [line.strip() for line in help_text.splitlines() if line.strip().startswith("twoway ")]
    assert len(examples) >= 2
    for example in examples:
        command, *arguments = shlex.split(example)[1:]
        COMMANDS[command].make_context(command, arguments, resilient_parsing=False)


def test_exit_codes():
    rows = dict(re.findall(r"^\| (\d+) \| (.*) \|$", TEXT, re.MULTILINE))
    assert {int(code): told for code, told in rows.items()} == EXIT_CODES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    rng = np.random.default_rng(0)
    n = 400
    young = rng.random(n) < 0.4
    survey = pd.DataFrame(
        {
            "age": np.where(young, "18-39", "40+"),
            "region": rng.choice(["north", "south", "west"], n),
            "vote": np.where(rng.random(n) < np.where(young, 0.7, 0.35), "yes", "no"),
            "trust": rng.integers(1, 6, n),
        }
    ).mask(rng.random((n, 4)) < 0.2)
    survey["trust"] = survey["trust"].astype("Int64")
    survey.assign(id=range(n), income=rng.integers(0, 500, n), w=1.5).to_csv(folder / "survey.csv", index=False)
    (folder / "tables").mkdir()
    (folder / "sheets").mkdir()
    (folder / "county").mkdir()
    page = (DOCS / "published-tables.md").read_text(encoding="utf-8")
    for name, content in re.findall(
        r"^`((?:tables|sheets|county)/\S+)`(?: \([^\n]*\))?:\n\n```text\n(.*?)```", page, re.MULTILINE | re.DOTALL
    ):
        (folder / name).write_text(content)
    declared = re.search(r"```json\n(.*?)```", (DOCS / "many-sources.md").read_text(encoding="utf-8"), re.DOTALL)
    (folder / "categories.json").write_text(declared.group(1))
    random_labels = {"item": rng.integers(0, 30, 200), "annotator": rng.integers(0, 9, 200), "label": 1}
    labels = pd.DataFrame(random_labels).drop_duplicates()
    labels.assign(label=labels["item"] % 3).to_csv(folder / "labels.csv", index=False)
    pd.DataFrame({"item": [0, 1], "truth": [0, 1]}).to_csv(folder / "gold.csv", index=False)
    hide(titanic(), 0.3).to_csv(folder / "titanic.csv", index=False)
    titanic().assign(boat=np.arange(2201) // 40).to_csv(folder / "clusters.csv", index=False)
    for day in ("monday", "tuesday"):
        survey.to_csv(folder / f"{day}.csv", index=False)
    survey.to_csv(folder / "small.csv", index=False)
    assert (
        run(["fit", str(folder / "small.csv"), "-o", str(folder / "survey.twoway"), "--rank", "2", "--solver", "em"])
        == 0
    )
    return folder


def shell_lines(path):
    """Return the lines of a page's shell blocks, indented blocks included."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line.strip() for block in blocks for line in block.splitlines()]


WITH_SHELL = [page for page in (ROOT / "README.md", *sorted(DOCS.glob("*.md"))) if shell_lines(page)]
TARGETS = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


# Every command has tests of its own, and these pages take the longest.
LONG = {"cli.md", "spss-stata.md", "excel.md"}
MARKED = [pytest.param(page, marks=pytest.mark.slow) if page.name in LONG else page for page in WITH_SHELL]


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.name)
def test_the_shell_examples_run(folder, monkeypatch, capsys, page):
    """Each line of a page, one after the other. What other tests run need only be understood here.

    That is the survey of the published tables (a test of real data) and every table of `twoway reproduce`.
    """
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    if any("--sql" in line or "://" in line for line in shell_lines(page)):
        pytest.importorskip("sqlglot", reason="databases need the extra sql")
    if page.name in ("spss-stata.md", "excel.md"):  # their programs write the files that the commands read
        for package in ("pyreadstat", "openpyxl", "python_calamine"):
            pytest.importorskip(package)
        namespace = {"__name__": page.stem}
        for number, source in code_blocks(page.read_text(encoding="utf-8")):
            run_block(source, number, namespace, page.name)
    for line in shell_lines(page):
        program, *arguments = shlex.split(line)
        if program == "make":
            assert set(arguments) <= TARGETS, line
            continue
        assert program in ("twoway", ".venv/bin/twoway"), line
        if any(part in line for part in ("men.twoway", "sacramento", "california", "--size smoke")):
            COMMANDS[arguments[0]].make_context(arguments[0], arguments[1:])
            continue
        if page.name == "README.md" and arguments[0] == "fit":
            arguments[1] = "small.csv"  # the other one has an identifier, too
        if arguments[0] == "fit" or "-o" in arguments:
            arguments.append("--force")
        assert run(arguments) == 0, line
    capsys.readouterr()


def test_the_pages_with_shell_examples_are_found():
    assert {"README.md", "cli.md", "published-tables.md", "survey.md"} <= {page.name for page in WITH_SHELL}
    assert shell_lines(ROOT / "README.md")[0] == "make install"
    assert {"install", "demo", "docs", "test"} <= TARGETS


def test_the_questions_are_questions(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    asked = TEXT[TEXT.index("## Questions") : TEXT.index("The grammar, in full")]
    questions = [one.replace("\\|", "|") for one in re.findall(r"`((?:P|E|mode|H|I)\(.*?\))`", asked)]
    assert len(questions) == 19
    run(["fit", "survey.csv", "-o", "q.twoway", "--rank", "1", "--solver", "em", "--only", "age,region,vote,trust"])
    pmf = tw.load("q.twoway")
    for question in questions:
        assert tw.ask(pmf, question) is not None
    capsys.readouterr()
    assert run(["ask", "q.twoway", "P(vot | age = 18-39)"]) == 3
    assert capsys.readouterr().err in TEXT
