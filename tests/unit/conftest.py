"""Database connections that are closed at the end of a test."""

from contextlib import ExitStack

import pytest


@pytest.fixture
def connect():
    """Return a function that opens a database of ibis at an address; "duckdb://" and "sqlite://" are in memory."""
    ibis = pytest.importorskip("ibis", reason='databases need ibis: pip install "twoway[sql]"')
    with ExitStack() as opened:

        def open_at(address):
            backend = ibis.connect(address)
            opened.callback(backend.disconnect)
            return backend

        yield open_at
