"""Databases by their address, and their errors in one line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from twoway.data.files.formats import is_data_format
from twoway.errors import DatabaseError, DataError, MissingFileError, TwowayError, unknown_name
from twoway.lazy_imports import import_extra
from twoway.text import without_password

_NO_PERMISSION = "42501"  # SQLSTATE of the standard's databases
_WRONG_PASSWORD = ("28P01", "28000")


def is_database_address(source: str) -> bool:
    """Return whether text is the address of a database rather than the name of a file.

    Examples
    --------
    >>> [is_database_address(name) for name in ("postgres://ann@host/db", "https://host/survey.csv", "survey.csv")]
    [True, False, False]
    """
    is_file = database_file(source) is None and is_data_format(source.partition("?")[0])
    return not is_file and re.match(r"[a-z][a-z0-9+]*://", source) is not None


def database_file(address: str) -> str | None:
    """Return the file of a database, None for a server.

    Examples
    --------
    >>> database_file("duckdb:///data/survey.db"), database_file("sqlite://survey.db"), database_file("postgres://h/db")
    ('/data/survey.db', 'survey.db', None)
    """
    scheme, _, path = address.partition("://")
    return path.partition("?")[0] if scheme in ("duckdb", "sqlite") else None


@contextmanager
def connected_table(address: str, name: str) -> Iterator[Any]:
    """Give the ibis table of a name, or of ``schema.name``, in the database at an address; it is closed at the end."""
    ibis = import_extra("ibis", "databases need ibis", "sql")
    shown = without_password(address)
    path = database_file(address)
    if path is not None and not os.path.exists(path):  # an empty one would be made
        raise MissingFileError(f"there is no file {path!r}")
    with connection_errors(shown):
        try:
            backend = ibis.connect(address, **({"read_only": True} if urlsplit(address).scheme == "duckdb" else {}))
        except (ValueError, AttributeError):
            raise DataError(
                f"{shown!r} is not the address of a database; one begins with postgres://, duckdb://, sqlite:// or "
                "another name that ibis knows, and / ? # in a password are written as %2F %3F %23"
            ) from None
        except ImportError as error:
            raise DataError(f"{shown!r} needs a package that is not installed: {error}") from None
    try:
        with connection_errors(shown):
            table = _find_connected_table(backend, name, shown)
        yield table
    finally:
        backend.disconnect()


def _find_connected_table(backend: Any, name: str, shown: str) -> Any:
    tables = _tables_of_connection(backend)
    if name in tables:
        return backend.table(name)
    place, _, rest = name.rpartition(".")
    if place and rest in _tables_of_connection(backend, place):
        return backend.table(rest, database=place)
    if backend.name == "postgres" and _is_hidden_from_account(backend, place, rest):
        raise DatabaseError(f"{shown}: this account may not read the table {name!r}")
    raise unknown_name("table", name, tables, where=f" in {shown}")


def _is_hidden_from_account(backend: Any, place: str, name: str) -> bool:
    """Return whether PostgreSQL has a table that it does not list, as it lists only those that an account may use."""
    known = (
        "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND "
        "((c.relname = %s AND n.nspname = ANY(current_schemas(false))) OR (c.relname = %s AND n.nspname = %s))"
    )
    whole = f"{place}.{name}" if place else name
    with backend.con.cursor() as cursor:
        return cursor.execute(known, [whole, name, place]).fetchone() is not None


def _tables_of_connection(backend: Any, place: str | None = None) -> list[str]:
    try:
        return list(backend.list_tables(database=place))
    except AttributeError:  # ibis 12 asks DuckDB 2 for what it no longer has
        known = "SELECT table_name FROM information_schema.tables WHERE table_schema = coalesce(?, current_schema())"
        return [row[0] for row in backend.con.execute(known, [place]).fetchall()]


@contextmanager
def connection_errors(database: Any) -> Iterator[None]:
    """Turn errors of a database, its driver or ibis into errors of this package, in one line."""
    name = database if isinstance(database, str) else f"the {database.name} database"
    try:
        yield
    except TwowayError:
        raise
    except Exception as error:
        # Errors of Python itself are mistakes of this package.
        if type(error).__module__ == "builtins" and not isinstance(error, OSError):
            raise
        # Not from the error: a driver's message on an address may hold a password.
        raise DatabaseError(f"{name}: {_explain_connection_error(error)}") from None


def _explain_connection_error(error: Exception) -> str:
    kind, state = type(error).__name__, getattr(error, "sqlstate", None)
    message = next((line.strip() for line in str(error).splitlines() if line.strip()), kind)
    message = re.sub(r"^[A-Z]\w+ Error: ", "", message)  # the class of DuckDB's errors
    if state == _NO_PERMISSION or "permission denied" in message:
        return f"this account may not read it: {message}"
    if state in _WRONG_PASSWORD or "password authentication failed" in str(error):
        return f"the user or the password is wrong: {message}"
    if kind in ("OperationalError", "InterfaceError", "AdminShutdown") and "no such" not in message:
        return f"no connection, or it was lost: {message}"
    return message
