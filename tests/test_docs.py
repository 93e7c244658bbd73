"""The documentation's examples run, and their output is correct: docstrings, the README and the pages."""

import doctest
import importlib
import pkgutil
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

import twoway

README = Path(__file__).resolve().parents[1] / "README.md"
PAGES = sorted((README.parent / "docs").glob("*.md"))
MODULES = ["twoway", *(module.name for module in pkgutil.walk_packages(twoway.__path__, "twoway."))]
MODULES = [name for name in MODULES if not name.endswith("__main__")]  # importing it runs the program


def code_blocks(text, language="python"):
    """Return the fenced blocks of a language, each with its first line; blocks in lists are dedented."""
    fence = re.compile(rf"^ *```{language}[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
    return [
        (text.count("\n", 0, found.start(1)) + 1, textwrap.dedent(found.group(1))) for found in fence.finditer(text)
    ]


def run_block(source, line, namespace, path="README.md"):
    """Run a block: as a doctest if it has a prompt, otherwise as a program."""
    if ">>>" in source:
        parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        example = parser.get_doctest(source, namespace, path, path, line - 1)
        messages = []
        runner.run(example, out=messages.append, clear_globs=False)
        assert not runner.failures, "".join(messages)
        namespace.update(example.globs)
    else:
        # Keep the line numbers of the file.
        exec(compile("\n" * (line - 1) + source, path, "exec"), namespace)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
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
    """The blocks run in order in one namespace, in a temporary folder."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "readme"}
    text = README.read_text(encoding="utf-8")
    for line, source in code_blocks(text):
        run_block(source, line, namespace)
    # The output on the page is correct, up to the last digits on another processor.
    row = r"([\d.]+)(?: \(.*?\))? +([\d.]+)\b.*"
    tables = re.findall(rf"^18-39 +{row}\n40\+ +{row}$", text, re.MULTILINE)
    by_command, joint = np.array(tables, dtype=float).reshape(2, 2, 2)
    computed = np.asarray(namespace["pmf"].marginal(["age", "vote"]))
    np.testing.assert_allclose(computed, joint, atol=0.0003)
    # The command chose another rank, so it agrees less closely.
    np.testing.assert_allclose(computed / computed.sum(axis=1, keepdims=True), by_command, atol=0.02)
    survey = namespace["survey"]
    for age, no, yes, n_records in re.findall(
        r"^(\S+) +[\d.]+ \(([\d.]+)\) +[\d.]+ \(([\d.]+)\) +(\d+)$", text, re.MULTILINE
    ):
        votes = survey[survey["age"] == age]["vote"].dropna()
        assert (int(n_records), float(no), float(yes)) == (
            len(votes),
            round((votes == "no").mean(), 4),
            round((votes == "yes").mean(), 4),
        )
    assert f"{len(survey):,} records, {survey.isna().to_numpy().mean():.1%} of their cells missing" in text
    for name, nats in re.findall(r"age × (\w+): ([\d.]+) nats", text):
        assert namespace["pmf"].mutual_information("age", name) == pytest.approx(float(nats), abs=0.01)
    for numbers in re.findall(r"pmf\.(.*?) +# ([\d.]+):", text):
        half_a_digit = 0.5 * 10.0 ** -len(numbers[1].partition(".")[2])
        assert eval(f"pmf.{numbers[0]}", namespace) == pytest.approx(float(numbers[1]), abs=1.2 * half_a_digit)


def test_the_readme_claims_no_more_speed_than_was_measured():
    measured = (README.parent / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    claimed = README.read_text(encoding="utf-8")
    assert "in about seven seconds" in claimed
    assert float(re.search(r"100,000 records of 15 variables, half missing \| ([\d.]+) \|", measured).group(1)) < 7.5
    assert "ten million in about a minute" in claimed
    assert float(re.search(r"Ten million records of 15 variables take ([\d.]+) seconds", measured).group(1)) < 66


# The pages with the longest fits run with the slow tests.
LONG = {
    "estimators.md",
    "segments.md",
    "how-sure.md",
    "missing-cells.md",
    "many-sources.md",
    "cluster.md",
    "databases.md",
}
MARKED = [pytest.param(page, marks=pytest.mark.slow) if page.name in LONG else page for page in PAGES]


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.name)
def test_pages(page, tmp_path, monkeypatch):
    """A page's blocks run in order, in one namespace and a temporary folder."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": page.stem}
    for line, source in code_blocks(page.read_text(encoding="utf-8")):
        run_block(source, line, namespace, page.name)


def test_blocks_are_found_and_can_fail():
    text = "# Title\n\n```python\nx = 1\n```\n\n```bash\nls\n```\n\n"
    text += "  ```python\n  >>> x + 1\n  2\n  ```\n\n```python\n>>> x\n3\n```\n"
    blocks = code_blocks(text)
    assert [line for line, _ in blocks] == [4, 12, 17]
    namespace = {}
    run_block(blocks[0][1], blocks[0][0], namespace)
    run_block(blocks[1][1], blocks[1][0], namespace)
    with pytest.raises(AssertionError, match="Expected"):
        run_block(blocks[2][1], blocks[2][0], namespace)
    with pytest.raises(ZeroDivisionError):
        run_block("1 / 0", 1, {})


def test_the_reference_has_every_public_name():
    reference = (README.parent / "docs" / "api.md").read_text(encoding="utf-8")
    shown = re.findall(r"^::: twoway\.(\S+)$", reference, re.MULTILINE)
    assert sorted(shown) == sorted(twoway.__all__), "docs/api.md has a line '::: twoway.NAME' for each"


@pytest.mark.slow
def test_the_site_builds_without_a_warning(site):
    """Broken links and anchors, pages without a menu entry and unknown objects are warnings."""
    built = {page.stem for page in site.glob("*.html")}
    assert {page.stem for page in PAGES} | {"index", "changelog", "contributing"} <= built


@pytest.mark.slow
def test_the_site_fetches_nothing(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(
            r"<(?:script|img|iframe)[^>]*\ssrc=[\"']?([^\"' >]+)|<link[^>]*\shref=[\"']?([^\"' >]+)", text
        )
        assert fetched
        assert not [url for pair in fetched for url in pair if "//" in url], page.name
