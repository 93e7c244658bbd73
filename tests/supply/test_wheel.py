"""The distributions contain what they should, and the wheel works in an environment with nothing else installed."""

import os
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import twoway as tw

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "twoway"
PROGRAM = """
import pathlib, twoway as tw
assert "site-packages" in tw.__file__, tw.__file__
pmf = tw.fit({"age": ["young", "old", "old", None], "vote": ["no", "yes", None, "yes"]}, rank=2, solver="em")
tw.explore(pmf, "page.html")
pmf.save("m.twoway")
assert "twoway" in pathlib.Path("page.html").read_text(encoding="utf-8")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source distribution, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "uv", "build", "--quiet", "--out-dir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    if done.returncode and "hatchling" in done.stderr:
        pytest.skip("hatchling, which builds the wheel, cannot be fetched here")
    assert done.returncode == 0, done.stderr
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def wheel(built):
    return built[1]


@pytest.mark.slow
def test_the_source_distribution_has_what_a_developer_needs(built):
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile"} <= names
    assert {"src/twoway/py.typed", "tests/test_layers.py"} <= names
    assert not [name for name in names if name.startswith((".venv", "site", "demo-output")) or "__pycache__" in name]


def test_the_citation_names_this_version():
    assert f"version: {tw.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.slow
def test_contents_of_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (about,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(about).decode())
    source = {
        f"twoway/{path.relative_to(PACKAGE).as_posix()}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "twoway/py.typed" in source
    assert {name for name in names if name.startswith("twoway/")} == source
    rest = {name.split("/", 1)[1] for name in names - source}
    assert rest == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert metadata["Name"] == "twoway"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "BSD-3-Clause"


@pytest.mark.slow
def test_it_works_in_an_empty_environment(wheel, tmp_path):
    python = tmp_path / "empty" / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(python.parents[1])], check=True)
        subprocess.run([*uv, "pip", "install", "--quiet", "--python", str(python), str(wheel)], check=True)
    except subprocess.CalledProcessError:
        pytest.skip("no environment can be made here")
    subprocess.run([python, "-c", PROGRAM], cwd=tmp_path, env=environment, check=True)
    command = [python.parent / "twoway", "ask", "m.twoway", "P(vote = yes | age = old)"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert 0 <= float(done.stdout.partition(",")[0]) <= 1
