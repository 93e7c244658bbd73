"""`make test` uses the same hypothesis examples every time, in any order."""

import importlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn_examples():
    """Return the examples of a property."""
    examples = []

    @given(st.integers(), st.floats())
    def collect(whole, decimal):
        examples.append((whole, decimal))

    collect()
    return repr(examples)


def test_examples_do_not_depend_on_chance_or_on_loaded_modules(tmp_path, monkeypatch):
    if not settings.default.derandomize:
        pytest.skip("this run looks for new examples")
    before = drawn_examples()
    numbers = range(7_000_001, 7_000_301)
    (tmp_path / "many_constants.py").write_text("\n".join(f"X{number} = ({number}, {number}.5)" for number in numbers))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("many_constants")
    assert drawn_examples() == before
