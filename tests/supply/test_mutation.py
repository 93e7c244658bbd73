"""The settings of `make mutate` and `make coverage` name files that exist."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_mutation_names_files_that_exist():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
    paths = [*settings["only_mutate"], *settings["pytest_add_cli_args_test_selection"]]
    assert len(paths) > 10
    assert [path for path in paths if not list(ROOT.glob(path.partition("::")[0]))] == []


def test_coverage_names_files_that_exist():
    settings = re.search(
        r"^UNCOMPILED = ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    paths = [path.partition("::")[0] for path in settings[1].split() if path != "\\"]
    assert len(paths) > 3
    assert [path for path in paths if not (ROOT / path).exists()] == []
