"""The command line: parse, call, print; no mathematics. One file a command."""

from __future__ import annotations

import sys

import typer

from twoway import __version__
from twoway.cli.demo import demo
from twoway.cli.explore import explore
from twoway.cli.reproduce import reproduce
from twoway.errors import TwowayError

app = typer.Typer(
    help="The joint probability of many discrete variables, from records full of holes or from two-way tables alone.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(explore)
app.command()(reproduce)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        parts = (f"{name} {version(name)}" for name in ("numpy", "numba", "scipy", "pandas", "pyarrow"))
        typer.echo(f"twoway {__version__} (Python {sys.version.split()[0]}, {', '.join(parts)})")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print versions and exit."
    ),
) -> None:
    """Hold the options that stand before any command."""


def main() -> None:
    """Run the command line; an error of ours is a line, not a traceback."""
    try:
        app()
    except TwowayError as error:
        typer.echo(f"twoway: {error}", err=True)
        sys.exit(1)
