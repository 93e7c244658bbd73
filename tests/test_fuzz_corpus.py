"""Seed inputs of the fuzzers, and inputs that once broke something: each is refused or valid."""

import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).resolve().parents[1] / "fuzz"
SEEDS = sorted(FUZZ.glob("corpus/*/*"))


@pytest.fixture
def harness(request, monkeypatch):
    monkeypatch.syspath_prepend(str(FUZZ))
    name = request.param.parent.name
    for module in ("files", name):  # others may have modules of these names
        monkeypatch.delitem(sys.modules, module, raising=False)
    check = __import__(name).check
    yield lambda: check(request.param.read_bytes())
    for module in ("files", name):
        sys.modules.pop(module, None)


@pytest.mark.parametrize("harness", SEEDS, indirect=True, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_input_is_refused_or_sound(harness):
    harness()


def test_every_fuzzer_has_inputs():
    assert {path.parent.name for path in SEEDS} == {"model_file", "tables_file", "questions"}
