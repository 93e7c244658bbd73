"""The code is formatted, linted and typed: the commands of `make lint`, run beside the other tests."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = re.search(r"^lint:.*\n((?:\t.+\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("command", [line.removeprefix("\t$(BIN)/") for line in COMMANDS[1].splitlines()])
def test_lint(command):
    tool, *options = command.split()
    if find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed")
    found = subprocess.run([sys.executable, "-m", tool, *options], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
