"""All commands, and the options that come before them."""

from __future__ import annotations

import sys

import typer

from twoway import __version__
from twoway.cli.ask import ask
from twoway.cli.check import check
from twoway.cli.compare import compare
from twoway.cli.count import count
from twoway.cli.demo import demo
from twoway.cli.explore import explore
from twoway.cli.export import export
from twoway.cli.fit import fit
from twoway.cli.impute import impute
from twoway.cli.info import info
from twoway.cli.options import expand_reading
from twoway.cli.plan import plan
from twoway.cli.reproduce import reproduce
from twoway.cli.sample import sample
from twoway.cli.score import score
from twoway.cli.update import update

# In the order of the help.
COMMANDS = (
    fit,
    ask,
    impute,
    sample,
    score,
    count,
    update,
    info,
    compare,
    check,
    plan,
    export,
    explore,
    demo,
    reproduce,
)

app = typer.Typer(
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
        typer.echo(f"twoway {__version__} (Python {sys.version.split()[0]}, {', '.join(parts)})")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print versions and exit."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error; works anywhere in the command."),
) -> None:
    """Declare the options that come before a command."""
