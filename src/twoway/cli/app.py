"""All commands, and the options that come before them."""

from __future__ import annotations

import sys
from importlib import import_module

from typer import Exit, Option, Typer, echo

from twoway import __version__
from twoway.cli.options import expand_reading

# In the order of the help. Each is a function in the module of its name.
_NAMES = (
    *("fit", "ask", "impute", "sample", "score", "count", "update", "info"),
    *("compare", "check", "plan", "export", "explore", "demo", "reproduce"),
)
COMMANDS = tuple(getattr(import_module(f"twoway.cli.{name}"), name) for name in _NAMES)

app = Typer(
    help="The joint probability of many discrete variables, from incomplete records or from two-way tables alone.",
    epilog='Start with: twoway fit survey.csv -o survey.twoway, then: twoway ask survey.twoway "P(vote | age = 30-39)"',
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for command in COMMANDS:
    app.command()(expand_reading(command))


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        names = ("numpy", "numba", "scipy", "pandas", "pyarrow", "duckdb", "scikit-learn")
        parts = (f"{name} {version(name)}" for name in names)
        echo(f"twoway {__version__} (Python {sys.version.split()[0]}, {', '.join(parts)})")
        raise Exit


@app.callback()
def _options(
    version: bool = Option(False, "--version", callback=_print_version, is_eager=True, help="Print versions and exit."),
    debug: bool = Option(False, "--debug", help="Show the traceback of an error; works anywhere in the command."),
) -> None:
    """Declare the options that come before a command."""
