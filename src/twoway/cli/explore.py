"""``twoway explore``: a model as one page to click in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def explore(
    model: Annotated[Path, typer.Argument(help="A model that `twoway fit` wrote.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The page to write; by default the model's name with .html.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The page's headline; by default the model's name.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an output that is there already.")] = False,
) -> None:
    """Write one HTML file that shows the model: click what is known, and see everything else change.

    The file holds all it needs, opens in any browser from any disk, and connects to nothing.

    [bold]Examples[/bold]

    twoway explore survey.twoway -o survey.html

    twoway explore survey.twoway --title "Our survey, spring" --force
    """
    from twoway.errors import DataError
    from twoway.explorer import explore as write_page
    from twoway.pmf import JointPMF

    page = model.with_suffix(".html") if out is None else out
    if page.exists() and not force:
        raise DataError(f"{str(page)!r} is there already; --force replaces it")
    write_page(JointPMF.load(model), page, title=model.stem if title is None else title)
    typer.echo(f"{page} ({page.stat().st_size / 1024:.0f} KB): open it in a browser")
