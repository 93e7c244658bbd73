"""The data folder for tests on real data, hypothesis profiles, and kernels that are compiled once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# No deadlines: a first call compiles, and machines are shared. `make test` uses the same few examples every time;
# `make test-all` searches for new ones, and each failing example becomes an @example of its test.
settings.register_profile("twoway", deadline=None, derandomize=True, database=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("twoway")


def pytest_sessionstart():
    """Make derandomized examples independent of the tests that ran before.

    Hypothesis also tries numbers and texts that it finds in the source of every module loaded so far.
    """
    providers = sys.modules.get("hypothesis.internal.conjecture.providers")
    if settings.default.derandomize and hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants


# Background jobs of a shell without job control ignore Ctrl-C; the tests of Ctrl-C must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

compile_here = Dispatcher.compile


def compile_once(kernel, signature):
    """Compile a kernel while the other processes of pytest-xdist wait for it; they will read it from the cache.

    Locks are taken from callers to callees, and by one thread at a time, so that nobody waits for ever.
    """
    folder = kernel._cache.cache_path
    if folder is None:
        return compile_here(kernel, signature)
    with global_compiler_lock, open(os.path.join(folder, f"{kernel.py_func.__name__}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return compile_here(kernel, signature)


if fcntl and "PYTEST_XDIST_WORKER" in os.environ:
    Dispatcher.compile = compile_once

ROOT = Path(__file__).resolve().parents[1]


def folder_or_skip(variable):
    """Return the folder in an environment variable; skip the test if there is none."""
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"needs real data: set {variable} to their folder (CONTRIBUTING.md)")
    if not Path(folder).is_dir():
        pytest.skip(f"there is no folder {folder}, which {variable} names")
    return Path(folder)


@pytest.fixture(scope="session")
def data_folder():
    """Real data sets."""
    return folder_or_skip("TWOWAY_DATA")


@pytest.fixture(scope="session")
def reference_folder():
    """Runs of the paper's own programs."""
    return folder_or_skip("TWOWAY_REFERENCE")


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
