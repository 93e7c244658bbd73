"""Where real data is, for the tests that need it; and how hypothesis runs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# Tests are never timed: a first call compiles, and machines are shared. `make test` tries the same examples every time;
# `make test-all` looks for new ones, and what it finds becomes an @example of the test that failed.
settings.register_profile("twoway", deadline=None, derandomize=True, database=None)
settings.register_profile("thorough", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("twoway")


def pytest_sessionstart():
    """Make derandomized examples independent of the tests that ran before.

    Hypothesis also tries numbers and texts that it finds in the source of every module loaded so far.
    """
    providers = sys.modules.get("hypothesis.internal.conjecture.providers")
    if settings.default.derandomize and hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants


# What a shell without job control starts in the background ignores Ctrl-C; the tests of Ctrl-C must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


def folder_or_skip(variable, default):
    """Return the folder that a variable names, else the default; skip where it is not there."""
    folder = Path(os.environ.get(variable) or default)
    if not folder.is_dir():
        pytest.skip(f"there is no folder {folder}; set {variable} to where the data is")
    return folder


@pytest.fixture(scope="session")
def data_folder():
    """Real data sets: TWOWAY_DATA, else ../shared/data."""
    return folder_or_skip("TWOWAY_DATA", SHARED / "data")


@pytest.fixture(scope="session")
def reference_folder():
    """Runs of the paper's own programs: TWOWAY_REFERENCE, else ../shared/reference."""
    return folder_or_skip("TWOWAY_REFERENCE", SHARED / "reference")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The pages as `make docs` builds them."""
    pytest.importorskip("material", reason="the site needs mkdocs-material: make install")
    pytest.importorskip("mkdocstrings", reason="the site needs mkdocstrings: make install")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        build, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder
