"""The errors of the package: each names the problem, its place, the value and what is allowed."""

from __future__ import annotations

import difflib
import inspect
import math
import operator
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, SupportsFloat
from warnings import warn

from twoway.text import ADDRESS, brief, escaped, shortlist, text_beside, without_password

_LONGEST = 4000
_LONGEST_NAME = 1000
_PASSED_BY_WARNINGS = ("twoway", "functools", "contextlib")  # the latter call cached properties and context managers
_warnings_given: set[tuple[str, str | None, int | None]] = set()


class TwowayError(Exception):
    """The base of all errors of the package; its text is safe for a terminal, whatever names are in it."""

    def __str__(self) -> str:
        return _error_text(super().__str__())


class DataError(TwowayError, ValueError):
    """Input that cannot be used: a bad column, table, weight or option."""


class UnknownNameError(TwowayError, KeyError):
    """A variable, category, solver or table that does not exist."""

    def __str__(self) -> str:
        # KeyError would print its message quoted and escaped.
        return _error_text(str(self.args[0])) if self.args else ""


class UnknownOptionError(TwowayError, TypeError):
    """An option that a function does not have."""


class ImpossibleEvidenceError(TwowayError, ValueError):
    """Evidence whose probability under the model is zero."""


class QuestionError(TwowayError, ValueError):
    """A question that cannot be parsed, or asks for something that does not exist; it marks the place."""


class FileFormatError(TwowayError, ValueError):
    """A model or tables file that is truncated, of another format or of a newer version."""


class MissingFileError(TwowayError, FileNotFoundError):
    """A file or folder that does not exist."""


class DatabaseError(TwowayError, OSError):
    """A database that cannot be reached or read."""


class ClusterError(TwowayError, RuntimeError):
    """A cluster that failed: workers that died or ran out of memory, a scheduler that cannot be reached."""


class OutputError(DataError, OSError):
    """A file or folder that cannot be written."""


def _error_text(message: str) -> str:
    """Return a message with control characters escaped, and its middle left out where it is long."""
    if len(message) > _LONGEST:
        ends = 3 * _LONGEST // 4, _LONGEST // 4
        left_out = f" … ({len(message) - sum(ends):,} characters left out) … "
        message = message[: ends[0]] + left_out + message[-ends[1] :]
    return escaped(message, keep="\n")


def unknown_name(kind: str, got: object, allowed: Iterable[object], *, where: str = "") -> UnknownNameError:
    """Return the error for a name that does not exist, with the near miss and the known names.

    Parameters
    ----------
    kind
        What the name stands for: "variable", "category", "solver".
    got
        The unknown name.
    allowed
        All names that exist, in their own order.
    where
        A place to add to the message, such as ``" of 'age'"``.

    Examples
    --------
    >>> print(unknown_name("variable", "vot", ["age", "vote", "region"]))
    no variable 'vot'; did you mean 'vote'? known: 'age', 'vote', 'region'
    """
    names = list(allowed)
    return UnknownNameError(f"no {kind} {brief(got)}{where}{near_miss(got, names)} known: {shortlist(names)}")


def near_miss(got: object, names: Sequence[object]) -> str:
    """Return "; did you mean 'vote'?" where a name is near enough, otherwise ";"."""
    text = str(got).strip()
    if len(text) > _LONGEST_NAME:
        return ";"  # not a misspelt name, and the search would be slow
    same_text = [name for name in names if str(name).strip().casefold() == text.casefold()]
    if same_text:
        return f"; did you mean {text_beside(same_text[0], beside=got)}?"
    by_text = {str(name): name for name in names}
    close = difflib.get_close_matches(str(got), by_text, n=1)
    return f"; did you mean {brief(by_text[close[0]])}?" if close else ";"


def missing_file_error(path: str | os.PathLike[str]) -> MissingFileError:
    """Return the error for a missing file, with a special message for an address."""
    name = os.fspath(path)
    if ADDRESS.match(name):
        return MissingFileError(f"{without_password(name)!r} is an address; only files on this machine can be read")
    return MissingFileError(f"there is no file {name!r}")


@contextmanager
def errors_at(place: str) -> Iterator[None]:
    """Add a place to the errors of the package that do not name it."""
    try:
        yield
    except TwowayError as error:
        raise error if place in str(error) else type(error)(f"{place}: {error}") from error


def check_known(kind: str, known: Iterable[object], *names: object, where: str = "") -> None:
    """Raise the error of `unknown_name` for the first of some names that is not among the known ones."""
    allowed = dict.fromkeys(known)
    for name in names:
        if not isinstance(name, Hashable) or name not in allowed:
            raise unknown_name(kind, name, allowed, where=where)


def check_type(name: str, value: object, types: Any, allowed: str) -> None:
    """Raise where an option is of a type that it may not be.

    Examples
    --------
    >>> check_type("use", "yes", bool, "true or false")
    Traceback (most recent call last):
    twoway.errors.DataError: use must be true or false, not 'yes'
    """
    if not isinstance(value, types):
        raise DataError(f"{name} must be {allowed}, not {brief(value)}")


def check_whole_number(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return an option as an integer, or raise where it is not a whole number from ``least`` to ``most``."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]  # or it raises
    except TypeError:  # also of arrays
        number = None
    if number is None or number < least:
        raise DataError(f"{name} must be a whole number of at least {least}, not {brief(value)}")
    if most is not None and number > most:
        raise DataError(f"{name} must be a whole number of at most {most:,}, not {brief(value)}")
    return number


def check_number(name: str, value: object, allowed: str, is_allowed: Callable[[float], bool]) -> float:
    """Return an option as a float, or raise where it is not a number that is allowed.

    Examples
    --------
    >>> check_number("level", 0.9, "a number between 0 and 1", lambda level: 0 < level < 1)
    0.9
    >>> check_number("level", 95, "a number between 0 and 1", lambda level: 0 < level < 1)
    Traceback (most recent call last):
    twoway.errors.DataError: level must be a number between 0 and 1, not 95
    """
    number = math.nan
    if isinstance(value, SupportsFloat) and not isinstance(value, bool):
        with suppress(TypeError, ValueError, OverflowError):  # arrays, and numbers too large for a float
            number = float(value)
    if not is_allowed(number):
        raise DataError(f"{name} must be {allowed}, not {brief(value)}")
    return number


def warn_caller(message: str, category: type[Warning] = UserWarning, *, once: bool = False) -> None:
    """Warn with the line outside this package that led here, however many functions are in between.

    ``once`` gives the same warning at the same line only once: Python's own filter forgets it whenever filters change.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _PASSED_BY_WARNINGS:
        level, frame = level + 1, frame.f_back
    warning = (message, frame and frame.f_code.co_filename, frame and frame.f_lineno)
    if not (once and warning in _warnings_given):
        warn(message, category, stacklevel=level)
        _warnings_given.add(warning)


_READING = ("columns", "where", "missing", "weights", "counts", "max_categories", "schema", "unseen")


def unknown_option(function: str, got: str, allowed: Iterable[str]) -> UnknownOptionError:
    """Return the error for an option that a function does not have; options for reading belong to `Records`.

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
    return UnknownOptionError(
        str(unknown_name("option", got, allowed)).replace("no option", f"{function} has no option", 1)
    )
