"""What the documentation shows is what happens: docstrings, the README and the pages."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest

import twoway

README = Path(__file__).resolve().parents[1] / "README.md"
PAGES = sorted((README.parent / "docs").glob("*.md"))
MODULES = ["twoway", *(module.name for module in pkgutil.walk_packages(twoway.__path__, "twoway."))]
MODULES = [name for name in MODULES if not name.endswith("__main__")]  # importing that one runs it


def code_blocks(text, language="python"):
    """Return the fenced blocks of a language, each with the line it begins at."""
    fence = re.compile(rf"^```{language}[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, found.start(1)) + 1, found.group(1)) for found in fence.finditer(text)]


def run_block(source, line, namespace, path="README.md"):
    """Run a block: as a doctest where it shows a prompt, as a program otherwise."""
    if ">>>" in source:
        parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        example = parser.get_doctest(source, namespace, path, path, line - 1)
        told = []
        runner.run(example, out=told.append, clear_globs=False)
        assert not runner.failures, "".join(told)
        namespace.update(example.globs)
    else:
        # Lines keep the numbers they have in the file.
        exec(compile("\n" * (line - 1) + source, path, "exec"), namespace)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module)
    assert result.failed == 0


def test_docstrings_do_have_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [
        example for name in MODULES for test in finder.find(importlib.import_module(name)) for example in test.examples
    ]
    assert len(examples) > 50


def test_readme(tmp_path, monkeypatch):
    """The blocks run in order in one namespace, in a folder where they may write."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "readme"}
    text = README.read_text(encoding="utf-8")
    for line, source in code_blocks(text):
        run_block(source, line, namespace)
    # What the page shows is what comes out, but for the last digits of another processor.
    shown = re.search(r"^18-39 +([\d.]+) +([\d.]+)\n40\+ +([\d.]+) +([\d.]+)$", text, re.MULTILINE)
    assert shown is not None
    came_out = np.asarray(namespace["pmf"].marginal(["age", "vote"])).ravel()
    np.testing.assert_allclose(came_out, [float(number) for number in shown.groups()], atol=0.01)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page, tmp_path, monkeypatch):
    """A page's blocks run in order, in a namespace of their own and a folder where they may write."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": page.stem}
    for line, source in code_blocks(page.read_text(encoding="utf-8")):
        run_block(source, line, namespace, page.name)


def test_blocks_are_found_and_can_fail():
    text = "# Title\n\n```python\nx = 1\n```\n\n```bash\nls\n```\n\n"
    text += "```python\n>>> x + 1\n2\n```\n\n```python\n>>> x\n3\n```\n"
    blocks = code_blocks(text)
    assert [line for line, _ in blocks] == [4, 12, 17]
    namespace = {}
    run_block(blocks[0][1], blocks[0][0], namespace)
    run_block(blocks[1][1], blocks[1][0], namespace)
    with pytest.raises(AssertionError, match="Expected"):
        run_block(blocks[2][1], blocks[2][0], namespace)
    with pytest.raises(ZeroDivisionError):
        run_block("1 / 0", 1, {})
