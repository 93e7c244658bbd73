"""``twoway reproduce``: run the paper's tables, and show them beside the published numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twoway.cli.options import Json

if TYPE_CHECKING:
    from rich.console import Console

    from twoway.paper.run import Plan
    from twoway.paper.tables import Experiment


def reproduce(
    tables: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]...", help="Tables by name, or 'all'.")] = None,
    list_tables: Annotated[bool, typer.Option("--list", help="Name every table and method, and exit.")] = False,
    size: Annotated[str, typer.Option(help="'paper', or 'smoke' for small trials that take seconds.")] = "paper",
    trials: Annotated[
        int | None, typer.Option(help="Trials a column; by default 20 (5 at 10⁶ records), 2 at smoke size.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Trials at a time, each in a process; by default one a core.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for results; what is in it is not run again.")] = Path(
        "reproduce-output"
    ),
    movielens: Annotated[
        str,
        typer.Option(
            help="The release of MovieLens to use: its folder or zip in the folder 'movielens' of TWOWAY_DATA."
        ),
    ] = "ml-latest-small",
    methods: Annotated[str, typer.Option(help="Methods to run, separated by commas; by default all.")] = "",
    page: Annotated[
        Path | None, typer.Option(help="Also write all tables in OUT to this Markdown page, below its mark.")
    ] = None,
    json: Json = False,
) -> None:
    """Run tables of the paper, every method on the same data, and show them beside the published numbers.

    Every finished fit is saved at once: a run that was ended goes on where it stopped, and a finished one only shows
    its table again.

    Real data are looked for in the folder that the variable TWOWAY_DATA names; UCI's are fetched from OpenML otherwise.

    [bold]Example[/bold]: twoway reproduce synthetic-eps0.1 --size smoke
    """
    from rich.console import Console

    from twoway.cli.terminal import say_json
    from twoway.errors import unknown
    from twoway.paper.run import plan
    from twoway.paper.show import renderables, write_files, write_page
    from twoway.paper.summary import summarize
    from twoway.paper.tables import SIZES, find_experiments, find_methods

    console = Console(highlight=False, quiet=json)
    if not console.is_terminal:
        console = Console(highlight=False, quiet=json, width=160)  # no table is cut in a file
    if list_tables or not (tables or page):
        if json:
            say_json(_listed())
        _print_list(console)
        return
    chosen = next((known for known in SIZES if known == size), None)
    if chosen is None:
        raise unknown("size", size, SIZES)
    experiments = find_experiments(tables or [], movielens)
    named = find_methods([name.strip() for name in methods.split(",") if name.strip()])
    todo = plan(experiments, chosen, out, trials=trials, jobs=jobs, methods=named)
    try:
        for experiment in _with_bar(todo):
            summary = summarize(experiment, chosen, out, trials)
            paths = write_files(summary, out)
            if json:
                say_json({**summary, "written": [str(path) for path in paths]})
            console.print(*renderables(summary), sep="\n")
            console.print(f"written: {', '.join(map(str, paths))}", style="dim", soft_wrap=True, markup=False)
            if paths[-1].suffix != ".png":
                console.print('no plot without matplotlib: pip install "twoway[plot]"', style="dim", markup=False)
    except (KeyboardInterrupt, SystemExit):
        typer.echo(f"\nInterrupted; finished fits are saved in {out}; the same command continues from there.", err=True)
        raise typer.Exit(130) from None
    if page is not None:
        write_page(page, out, chosen, movielens)
        console.print(f"written: {page}", style="dim", soft_wrap=True, markup=False)


def _listed() -> dict[str, list[dict[str, str]]]:
    """Return the tables and the methods, for machines."""
    from twoway.paper.tables import EXPERIMENTS, METHODS

    return {
        "tables": [{"table": one.name, "label": one.label, "title": one.title} for one in EXPERIMENTS.values()],
        "methods": [{"method": name, "what": what} for name, what in METHODS.items()],
    }


def _print_list(console: Console) -> None:
    """Print the tables and the methods."""
    from rich.markup import escape
    from rich.table import Table

    from twoway.paper.tables import EXPERIMENTS, METHODS

    table = Table("table", "the paper's", "what", box=None, pad_edge=False, header_style="bold")
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.label, escape(experiment.title))
    console.print(table)
    table = Table("method", "what", box=None, pad_edge=False, header_style="bold")
    for name, what in METHODS.items():
        table.add_row(name, escape(what))
    console.print("", table, sep="\n")
    console.print("\ntwoway reproduce TABLE --size smoke    tries a table in seconds; 'all' takes every table")


def _with_bar(todo: Plan) -> Iterator[Experiment]:
    """Yield each experiment when it is finished, with a progress bar and the time left meanwhile."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
    # Fits take from milliseconds to minutes: the bar counts the work in them, and the time left comes from an hour's.
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=3600) as bar:
        done, total = count(1), len(todo.fits)
        task = bar.add_task(f"0 of {total} fits", total=sum(fit.setting.work for fit in todo.fits))
        yield from todo.run(
            lambda fit: bar.update(task, advance=fit.setting.work, description=f"{next(done)} of {total} fits")
        )
