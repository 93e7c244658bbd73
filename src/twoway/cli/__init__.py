"""The command line: parse, call, print; no mathematics. One file per command."""

from __future__ import annotations

import signal
import sys
import warnings
from itertools import pairwise

EXIT_CODES = {
    0: "success",
    1: "an unexpected error; please report it with the output of --debug",
    2: "an invalid command line: an unknown command or option, an invalid value",
    3: "invalid data, question or model: a bad column, an unknown name, impossible evidence",
    4: "a file or database error: missing, unreadable, wrong format, already exists, no permission, disk full",
    130: "interrupted by Ctrl-C",
    141: "the program that read the output ended",
}
"""The exit codes of the command."""


def main() -> None:
    """Run the command line; an error is a line or two and an exit code, not a traceback."""
    if hasattr(signal, "SIGPIPE"):  # `twoway sample … | head` ends as other tools do
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # characters that the terminal lacks are escaped
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run([argument for argument in sys.argv[1:] if argument != "--debug"], debug="--debug" in sys.argv))


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning of the library as a note, without its place in the source."""
    from twoway.cli.terminal import in_options, note

    note(in_options(str(message)))


def run(arguments: list[str], *, debug: bool = False) -> int:
    """Run a command and return its exit code; warnings are printed as notes."""
    with warnings.catch_warnings():
        for category in (UserWarning, FutureWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = _show_warning
        try:
            return _run(arguments)
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except KeyboardInterrupt:
            return 130
        except Exception as raised:
            # typer turns EOFError into an error without a message.
            error = raised.__cause__ if isinstance(raised.__cause__, EOFError) else raised
            if debug:
                import traceback

                traceback.print_exc()
            from twoway.cli.terminal import in_options, say

            message, code = _describe(error)
            if message:
                say(f"twoway: {in_options(message)}", err=True)
            return code


def _run(arguments: list[str]) -> int:
    rest = [argument for argument in arguments[1:] if argument != "--json"]
    if arguments[:1] == ["ask"] and len(rest) > 1 and not any(argument.startswith("-") for argument in rest):
        # Without the argument parser, whose import takes longer than the answer.
        from twoway.cli.answers import answer_all

        answer_all(rest[0], rest[1:], json="--json" in arguments)
        return 0
    from typer import BadParameter

    from twoway.cli.app import app

    if any(not argument and not before.startswith("-") for before, argument in pairwise(arguments)):
        # As a path it would be the current folder, and everything below it.
        raise BadParameter("an argument is empty; is a shell variable not set?")
    # Errors are printed by `run`: versions of typer differ in what they escape.
    code = app(arguments, prog_name="twoway", standalone_mode=False)
    return code if isinstance(code, int) else 0


def _describe(error: Exception) -> tuple[str, int]:
    """Return the message for an error, and the exit code."""
    from twoway.errors import FileFormatError, TwowayError

    if isinstance(error, TwowayError):
        return str(error), 4 if isinstance(error, OSError | FileFormatError) else 3
    if isinstance(error, OSError):
        return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part), 4
    if hasattr(error, "format_message"):  # of the argument parser
        command = getattr(getattr(error, "ctx", None), "command_path", "twoway")
        message = error.format_message()  # empty if the help was shown
        return message and f"{message}\n{command} --help shows the options", 2
    if isinstance(error, MemoryError):
        return "not enough memory; use fewer columns (--drop) or records", 1
    return f"unexpected {type(error).__name__}: {error}; --debug shows where, please report it", 1
