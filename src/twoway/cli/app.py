"""The application: its commands, the options that come before them, and what errors and warnings print.

The argument parser is imported inside functions: that takes longer than the answer to a question.
"""

from __future__ import annotations

import signal
import sys
import warnings
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING

import twoway as tw
from twoway.cli.output import output_wording, print_note, say
from twoway.errors import FileFormatError, TwowayError

if TYPE_CHECKING:
    from typer import Typer

# In the order of the help. Each is a function in the module of its name.
COMMANDS = (
    *("fit", "ask", "table", "impute", "sample", "population", "score", "count", "update", "info", "columns", "tables"),
    *("segments", "labels"),
    *("compare", "check", "plan", "export", "explore", "demo", "reproduce"),
)

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


def run(arguments: list[str], *, debug: bool = False) -> int:
    """Run a command and return its exit code; warnings are printed as notes, without their place in the source."""
    with warnings.catch_warnings():
        for category in (UserWarning, FutureWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = lambda message, *_, **__: print_note(output_wording(str(message)))
        try:
            return _run_app(arguments)
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
            message, code = _app_error_message(error)
            if message:
                say(f"twoway: {output_wording(message)}", err=True)
            return code


def _run_app(arguments: list[str]) -> int:
    rest = [argument for argument in arguments[1:] if argument != "--json"]
    if arguments[:1] == ["ask"] and len(rest) > 1 and not any(argument.startswith("-") for argument in rest):
        from twoway.cli.answers import print_answers, read_questions

        print_answers(tw.JointPMF.load(rest[0]), read_questions(rest[1:]), json="--json" in arguments)
        return 0
    from typer import BadParameter
    from typer.main import get_command

    if any(not argument and not before.startswith("-") for before, argument in pairwise(arguments)):
        # As a path it would be the current folder, and everything below it.
        raise BadParameter("an argument is empty; is a shell variable not set?")
    # Errors are printed by `run`: versions of typer differ in what they escape.
    code = get_command(make_app())(arguments, prog_name="twoway", standalone_mode=False)
    return code if isinstance(code, int) else 0


def _app_error_message(error: Exception) -> tuple[str, int]:
    """Return the message for an error, and the exit code."""
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


@cache
def make_app() -> Typer:
    """Return the application of all commands."""
    from typer import Exit, Option, Typer, echo

    from twoway.cli.parameters import parsed_command

    app = Typer(
        help="The joint probability of many discrete variables, from incomplete records or from two-way tables alone.",
        epilog="Start with: twoway fit survey.csv -o survey.twoway, then: "
        'twoway ask survey.twoway "P(vote | age = 30-39)"',
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )
    for name in COMMANDS:
        app.command()(parsed_command(getattr(import_module(f"twoway.cli.{name}"), name)))

    def print_version(is_wanted: bool) -> None:
        if is_wanted:
            from importlib.metadata import version

            names = ("numpy", "numba", "scipy", "pandas", "pyarrow", "duckdb", "scikit-learn")
            parts = (f"{name} {version(name)}" for name in names)
            echo(f"twoway {tw.__version__} (Python {sys.version.split()[0]}, {', '.join(parts)})")
            raise Exit

    @app.callback()
    def options(
        version: bool = Option(
            False, "--version", callback=print_version, is_eager=True, help="Print versions and exit."
        ),
        debug: bool = Option(False, "--debug", help="Show the traceback of an error; works anywhere in the command."),
    ) -> None:
        """Declare the options that come before a command."""

    return app
