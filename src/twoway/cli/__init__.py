"""The command line: parse, call, print; no mathematics. One file a command."""

from __future__ import annotations

import signal
import sys
import warnings
from itertools import pairwise

EXIT_CODES = {
    0: "done",
    1: "something unexpected; please report it with what --debug shows",
    2: "the command line itself is wrong: an unknown command or option, a value that is not one",
    3: "the data, the question or the model does not allow it: a bad column, an unknown name, impossible evidence",
    4: "a file or a database: not there, not readable, not what its name says, there already, no permission, disk full",
    130: "interrupted by Ctrl-C",
    141: "the program that read the output ended",
}
"""What the command's exit codes mean."""


def main() -> None:
    """Run the command line; an error is a line or two and an exit code, not a traceback."""
    if hasattr(signal, "SIGPIPE"):  # `twoway sample … | head` ends as any other tool would
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a letter gets its number
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run([argument for argument in sys.argv[1:] if argument != "--debug"], debug="--debug" in sys.argv))


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning of the library as a note, without the place in the program."""
    from twoway.cli.terminal import in_options, note

    note(in_options(str(message)))


def run(arguments: list[str], *, debug: bool = False) -> int:
    """Run a command and return its exit code; warnings are printed as notes."""
    with warnings.catch_warnings():
        for category in (UserWarning, FutureWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = _show_warning
        return _run(arguments, debug)


def _run(arguments: list[str], debug: bool) -> int:
    try:
        if asked := _plain_questions(arguments):
            # The parser of arguments takes longer to import than the answer takes to find.
            from twoway.cli.answers import answer_all

            answer_all(asked[0], asked[1:], json="--json" in arguments)
        else:
            from typer import BadParameter

            from twoway.cli.app import app

            if any(not one and not before.startswith("-") for before, one in pairwise(arguments)):
                # To a path it would be the folder one is in, and everything below it.
                raise BadParameter("one of the names is empty; is a variable of the shell not set?")
            # What is wrong with the line is told below: versions of typer differ in what of it they escape.
            code = app(arguments, prog_name="twoway", standalone_mode=False)
            return code if isinstance(code, int) else 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        return 130
    except Exception as raised:
        # typer makes another error of this one, which says nothing.
        error = raised.__cause__ if isinstance(raised.__cause__, EOFError) else raised
        if debug:
            import traceback

            traceback.print_exc()
        from twoway.cli.terminal import in_options, say

        told, code = _describe(error)
        if told:
            say(f"twoway: {in_options(told)}", err=True)
        return code
    return 0


def _plain_questions(arguments: list[str]) -> list[str]:
    """Return the model and the questions of ``ask MODEL QUESTION…`` with no option but --json, otherwise nothing."""
    rest = [one for one in arguments[1:] if one != "--json"]
    is_plain = arguments[:1] == ["ask"] and len(rest) > 1 and not any(one.startswith("-") for one in rest)
    return rest if is_plain else []


def _describe(error: Exception) -> tuple[str, int]:
    """Return what to say about an error, and the exit code."""
    from twoway.errors import FileFormatError, TwowayError

    if isinstance(error, TwowayError):
        return str(error), 4 if isinstance(error, OSError | FileFormatError) else 3
    if isinstance(error, OSError):
        return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part), 4
    if hasattr(error, "format_message"):  # of the parser of arguments
        command = getattr(getattr(error, "ctx", None), "command_path", "twoway")
        told = error.format_message()  # nothing where the help was shown
        return told and f"{told}\n{command} --help shows what there is", 2
    if isinstance(error, MemoryError):
        return "not enough memory; use fewer columns (--drop) or records", 1
    return f"unexpected {type(error).__name__}: {error}; --debug shows where, please report it", 1
