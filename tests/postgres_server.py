"""A PostgreSQL server for the tests: on loopback, in a temporary folder, under a user other than root."""

import contextlib
import glob
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

# Debian does not put them on the path.
_FOLDERS = [*sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True), *os.environ.get("PATH", "").split(":")]

_CLUSTER = ["--no-sync", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8"]


def _program(name):
    return next((found for folder in _FOLDERS if (found := shutil.which(name, path=folder))), None)


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A running server, and how to reach it."""

    def __init__(self, folder, port, password):
        self.folder, self.port, self.password = folder, port, password

    def address(self, user="owner", password=None, database="postgres"):
        return f"postgres://{user}:{password or self.password}@127.0.0.1:{self.port}/{database}"

    def connect(self, **options):
        import psycopg

        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="owner", password=self.password, dbname="postgres", **options
        )

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as stream:
            return stream.read()


@contextlib.contextmanager
def run_server():
    """Start a server and stop it at the end; skip the test if there is none."""
    programs = {name: _program(name) for name in ("initdb", "postgres")}
    if None in programs.values():
        pytest.skip("there is no PostgreSQL server here: apt-get install postgresql")
    prefix = []
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        if shutil.which("setpriv") is None or not _has_user("postgres"):
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres to run it")
        prefix = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    password = secrets.token_hex(8)
    # Not in pytest's folder, which other users cannot access.
    with tempfile.TemporaryDirectory(prefix="twoway-postgres-") as folder:
        secret = os.path.join(folder, "password")
        with open(secret, "w", encoding="utf-8") as stream:
            stream.write(password)
        if prefix:
            for path in (folder, secret):
                shutil.chown(path, "postgres", "postgres")
        data = os.path.join(folder, "data")
        made = subprocess.run(
            [*prefix, programs["initdb"], "-D", data, "-U", "owner", "--pwfile", secret, *_CLUSTER],
            capture_output=True,
            text=True,
            cwd=folder,
        )
        if made.returncode:
            pytest.skip(f"initdb failed: {made.stderr.strip()}")
        server = Server(folder, _free_port(), password)
        settings = {"listen_addresses": "127.0.0.1", "port": server.port, "unix_socket_directories": folder}
        settings |= {"fsync": "off", "log_statement": "all", "logging_collector": "off", "jit": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [*prefix, programs["postgres"], "-D", data, *options], stdout=log, stderr=log, cwd=folder
            )
        try:
            _wait(server, process)
            yield server
        finally:
            process.send_signal(signal.SIGINT)  # do not wait for clients
            process.wait(timeout=30)


def _has_user(name):
    import pwd

    return any(entry.pw_name == name for entry in pwd.getpwall())


def _wait(server, process):
    import psycopg

    for _ in range(300):
        if process.poll() is not None:
            pytest.skip(f"PostgreSQL did not start: {server.log()[-500:]}")
        try:
            server.connect().close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    pytest.skip("PostgreSQL did not start within 30 seconds")


@pytest.fixture(scope="session")
def postgres():
    with run_server() as server:
        yield server
