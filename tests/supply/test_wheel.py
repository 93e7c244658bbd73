"""A wheel has what it should and nothing else, and works in an environment with nothing but it and what it needs."""

import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

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
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    if done.returncode and "hatchling" in done.stderr:
        pytest.skip("the wheel's builder cannot be fetched here")
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_its_contents(wheel):
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
    assert 0 <= float(done.stdout) <= 1
