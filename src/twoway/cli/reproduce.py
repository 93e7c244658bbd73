"""``twoway reproduce``: run the paper's tables, and show them beside the published numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from typer import Exit, Option, echo

from twoway.cli.output import say_json

if TYPE_CHECKING:
    from rich.console import Console

    from twoway.paper.run import RunPlan
    from twoway.paper.tables import Experiment, Size


def reproduce(
    tables: list[str] | None = None,
    *,
    list_tables: Annotated[bool, Option("--list")] = False,
    size: str = "paper",
    trials: int | None = None,
    jobs: int | None = None,
    out: Path = Path("reproduce-output"),
    movielens: str = "ml-latest-small",
    methods: str = "",
    page: Path | None = None,
    json: bool = False,
) -> None:
    """Run tables of the paper, every method on the same data, and show them beside the published numbers.

    Every finished fit is saved at once: an interrupted run continues where it stopped, and a finished one only shows
    its table again.

    Real data are read from the folder in the environment variable TWOWAY_DATA; otherwise those of UCI come from OpenML.

    [bold]Example[/bold]: twoway reproduce synthetic-eps0.1 --size smoke

    Parameters
    ----------
    tables : [TABLE]...
        Tables by name, or 'all'.
    list_tables
        Name every table and method, and exit.
    size
        'paper', or 'smoke' for small trials that take seconds.
    trials
        Trials per column; by default 20 (5 at 10⁶ records), 2 at smoke size.
    jobs
        Fits at a time, each in a process; by default one per core.
    out
        The folder for results; fits saved there are not run again.
    movielens
        The release of MovieLens to use: the path to its folder or zip, or its name there in the subfolder 'movielens'
        of TWOWAY_DATA.
    methods
        Methods to run, separated by commas; by default all.
    page
        Also write all tables in OUT to this Markdown page, below its mark; others on it are kept.
    """
    from rich.console import Console
    from rich.markdown import Markdown

    from twoway.paper.results import summarize_results
    from twoway.paper.run import plan_run
    from twoway.paper.show import show_in_files, show_on_page
    from twoway.paper.tables import find_paper_methods, find_paper_tables

    # No table is cut in a file.
    console = Console(highlight=False, quiet=json, width=None if sys.stdout.isatty() else 160)
    if list_tables or not (tables or page):
        _list_reproducible(console, json)
        return
    named = find_paper_methods([name.strip() for name in methods.split(",") if name.strip()])
    experiments = find_paper_tables(tables or [], movielens)
    todo = plan_run(experiments, cast("Size", size), out, trials=trials, jobs=jobs, methods=named)
    try:
        for experiment in _reproduce_with_bar(todo):
            summary = summarize_results(experiment, todo.size, out, trials)
            paths = show_in_files(summary, out)
            if json:
                say_json({**summary, "written": [str(path) for path in paths]})
            text = paths[1].read_text(encoding="utf-8")
            if console.is_terminal:
                console.print(Markdown(text))
            else:
                console.print(text, soft_wrap=True, markup=False)
            console.print(f"written: {', '.join(map(str, paths))}", style="dim", soft_wrap=True, markup=False)
            if paths[-1].suffix != ".png":
                console.print('no plot without matplotlib: pip install "twoway[plot]"', style="dim", markup=False)
    except (KeyboardInterrupt, SystemExit):
        echo(f"\nInterrupted; finished fits are saved in {out}; the same command continues from there.", err=True)
        raise Exit(130) from None
    if page is not None:
        show_on_page(page, out, todo.size, movielens)
        console.print(f"written: {page}", style="dim", soft_wrap=True, markup=False)


def _list_reproducible(console: Console, json: bool) -> None:
    """Print the tables and the methods."""
    from rich.markup import escape
    from rich.table import Table

    from twoway.paper.tables import EXPERIMENTS, METHODS

    tables = [{"table": table.name, "label": table.label, "title": table.title} for table in EXPERIMENTS.values()]
    methods = [{"method": name, "what": what} for name, what in METHODS.items()]
    if json:
        say_json({"tables": tables, "methods": methods})
    for rows in (tables, methods):
        listing = Table(*rows[0], box=None, pad_edge=False, header_style="bold")
        for row in rows:
            listing.add_row(*map(escape, row.values()))
        console.print(listing, "", sep="\n")
    console.print("twoway reproduce TABLE --size smoke    tries a table in seconds; 'all' means every table")


def _reproduce_with_bar(todo: RunPlan) -> Iterator[Experiment]:
    """Yield each experiment when it is finished, with a progress bar and the time left meanwhile."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
    # Fits take from milliseconds to minutes: the bar measures their work, and the time left comes from the last hour.
    with Progress(
        *columns, TextColumn("left"), console=Console(stderr=True), transient=True, speed_estimate_period=3600
    ) as bar:
        done, total = count(1), len(todo.fits)
        task = bar.add_task(f"0 of {total} fits", total=sum(fit.setting.work for fit in todo.fits))
        yield from todo.run(
            lambda fit: bar.update(task, advance=fit.setting.work, description=f"{next(done)} of {total} fits")
        )
