"""``twoway explore``: a model as one page to click in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twoway.cli.options import Force, Model
from twoway.cli.terminal import check_output, say


def explore(
    model: Model,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The page to write; by default the model's name with .html.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The page's headline; by default the model's name.")] = None,
    force: Force = False,
) -> None:
    """Write one HTML file that shows the model: click what is known, and see everything else change.

    The file holds all it needs, opens in any browser from any disk, and connects to nothing.

    [bold]Examples[/bold]

    twoway explore survey.twoway -o survey.html

    twoway explore survey.twoway --title "Our survey, spring" --force
    """
    from twoway.explorer import explore as write_page
    from twoway.pmf import JointPMF

    page = model.with_suffix(".html") if out is None else out
    check_output(page, force)
    write_page(JointPMF.load(model), page, title=model.stem if title is None else title)
    say(f"{page} ({page.stat().st_size / 1024:.0f} KB): open it in a browser")
