"""The errors of the package: each says what, where, what was got and what is allowed."""

from __future__ import annotations

import difflib
import inspect
import operator
import re
from collections.abc import Iterable
from typing import SupportsIndex
from warnings import warn

_LONGEST = 4000
_warnings_given: set[tuple[str, str | None, int | None]] = set()
_LONGEST_NAME = 100


ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/{1,2}(?=[^/]|/[^/])")
"""How an address begins, such as postgres:// or s3://; a path has lost one of the slashes."""


class TwowayError(Exception):
    """Every error the package raises on purpose; its text is fit for a terminal, whatever names are in it."""

    def __str__(self) -> str:
        return _fit_for_terminal(super().__str__())


class DataError(TwowayError, ValueError):
    """Input that cannot be used: a bad column, table, weight or option."""


class UnknownNameError(TwowayError, KeyError):
    """A variable, category, solver or table that does not exist."""

    def __str__(self) -> str:
        # KeyError would print its message quoted and escaped.
        return _fit_for_terminal(str(self.args[0])) if self.args else ""


class UnknownOptionError(TwowayError, TypeError):
    """An option that a function does not have."""


class ImpossibleEvidenceError(TwowayError, ValueError):
    """Evidence whose probability under the model is zero."""


class QuestionError(TwowayError, ValueError):
    """A question that cannot be read, or asks for something that does not exist; it points at the place."""


class FileFormatError(TwowayError, ValueError):
    """A model or tables file that is truncated, foreign or of a newer version."""


class MissingFileError(TwowayError, FileNotFoundError):
    """A file or folder that is not there."""


class DatabaseError(TwowayError, OSError):
    """A database that cannot be reached, or does not let itself be read."""


class ClusterError(TwowayError, RuntimeError):
    """A cluster that failed: workers that died or ran out of memory, a scheduler that cannot be reached."""


class OutputError(DataError, OSError):
    """A file or folder that cannot be written where it was asked for."""


def _fit_for_terminal(message: str) -> str:
    """Return a message with control characters escaped, its middle left out where it repeats much of what was given."""
    if len(message) > _LONGEST:
        ends = 3 * _LONGEST // 4, _LONGEST // 4
        left_out = f" … ({len(message) - sum(ends):,} characters left out) … "
        message = message[: ends[0]] + left_out + message[-ends[1] :]
    return escaped(message, keep="\n")


def brief(value: object) -> str:
    """Return the ``repr`` of a value, its middle left out where it is long.

    Examples
    --------
    >>> brief("age"), len(brief("a" * 1_000_000))
    ("'age'", 101)
    """
    shown = repr(value)
    half = _LONGEST_NAME // 2
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[:half]}…{shown[-half:]}"


def unknown(kind: str, got: object, allowed: Iterable[object], *, where: str = "") -> UnknownNameError:
    """Return the error for a name that does not exist, with the near miss and what is known.

    Parameters
    ----------
    kind
        What the name should have named: "variable", "category", "solver".
    got
        The name as it was given.
    allowed
        All names that exist, in their own order.
    where
        A place to add to the message, such as ``" of 'age'"``.

    Examples
    --------
    >>> print(unknown("variable", "vot", ["age", "vote", "region"]))
    no variable 'vot'; did you mean 'vote'? known: 'age', 'vote', 'region'
    """
    names = list(allowed)
    return UnknownNameError(f"no {kind} {brief(got)}{where}{near_miss(got, names)} known: {shortlist(names)}")


def escaped(text: str, keep: str = "") -> str:
    """Return text with everything escaped that a terminal could take for a command, but for the characters to keep.

    Examples
    --------
    >>> print(escaped("\x1b[31mred"))
    \\x1b[31mred
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode("ascii") for char in text
    )


def without_password(text: str) -> str:
    """Return the address of a database or of a file elsewhere as it may be shown; other text as it is.

    Examples
    --------
    >>> without_password("postgres://ann:p@ss/word@host/db?password=secret")
    'postgres://ann:***@host/db?password=***'
    """
    if ADDRESS.match(text) is None:
        return text
    # A password may hold anything, an @ too: it ends at the last one.
    hidden = re.sub(r"(:/+[^:]*):.*@", r"\1:***@", text)
    return re.sub(r"((?:password|passwd|pwd|secret|token|key)=)[^&;]*", r"\1***", hidden, flags=re.IGNORECASE)


def whole_number(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return an option as an integer, or raise where it is not a whole number from ``least`` to ``most``."""
    # Asking a protocol takes its time, and plain integers come here in every pass.
    if isinstance(value, bool) or not isinstance(value, int | SupportsIndex) or operator.index(value) < least:
        raise DataError(f"{name} must be a whole number of at least {least}, not {brief(value)}")
    if most is not None and operator.index(value) > most:
        raise DataError(f"{name} must be a whole number of at most {most:,}, not {brief(value)}")
    return operator.index(value)


def near_miss(got: object, names: list[object]) -> str:
    """Return "; did you mean 'vote'?" where a name is near enough, otherwise ";"."""
    text = str(got).strip()
    if len(text) > 10 * _LONGEST_NAME:
        return ";"  # no misspelt name, and the search would take its time
    same_text = [name for name in names if str(name).strip().casefold() == text.casefold()]
    if same_text:
        return f"; did you mean {describe(same_text[0], beside=got)}?"
    by_text = {str(name): name for name in names}
    close = difflib.get_close_matches(str(got), by_text, n=1)
    return f"; did you mean {brief(by_text[close[0]])}?" if close else ";"


def describe(name: object, *, beside: object) -> str:
    """Return ``repr(name)``, with its type where that is all that differs from ``beside``."""
    if type(name) is not type(beside) and str(name) == str(beside):
        return f"the {'text' if isinstance(name, str) else type(name).__name__} {name!r}"
    return repr(name)


def shortlist(names: Iterable[object], limit: int = 12) -> str:
    """Return the names, comma-separated, cut after ``limit`` with a count of the rest."""
    listed = list(names)
    shown = ", ".join(brief(name) for name in listed[:limit])
    return shown + (f", … ({len(listed) - limit} more)" if len(listed) > limit else "")


def warn_caller(message: str, category: type[Warning] = UserWarning, *, once: bool = False) -> None:
    """Warn of the line outside this package that led here, however many functions lie between.

    ``once`` gives the same warning at the same line once only: Python's own filter forgets it whenever filters change.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "twoway":
        level, frame = level + 1, frame.f_back
    warning = (message, frame and frame.f_code.co_filename, frame and frame.f_lineno)
    if not (once and warning in _warnings_given):
        warn(message, category, stacklevel=level)
        _warnings_given.add(warning)


_READING = ("schema", "columns", "missing", "counts", "weights", "where", "unseen")


def unknown_option(function: str, got: str, allowed: Iterable[str]) -> UnknownOptionError:
    """Return the error for an option that a function does not have; those of reading belong to `Records`.

    Examples
    --------
    >>> print(unknown_option("fit", "weights", ["rank", "seed"]))
    fit has no option 'weights', which belongs to Records: fit(tw.Records(source, weights=…))
    >>> print(unknown_option("fit", "ranks", ["rank", "seed"]))
    fit has no option 'ranks'; did you mean 'rank'? known: 'rank', 'seed'
    """
    if got in _READING:
        return UnknownOptionError(
            f"{function} has no option {got!r}, which belongs to Records: {function}(tw.Records(source, {got}=…))"
        )
    return UnknownOptionError(str(unknown("option", got, allowed)).replace("no option", f"{function} has no option", 1))
