import sys

import pytest

from twoway.cli import run


@pytest.fixture
def cli(folder, capfdbinary, monkeypatch):
    """Run a command in the module's folder; returns its exit code, output and errors."""
    monkeypatch.chdir(folder)
    capfdbinary.readouterr()

    def call(*arguments):
        code = run(list(arguments))
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return call
