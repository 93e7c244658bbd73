"""``twoway explore``: a model as one interactive page."""

from __future__ import annotations

from pathlib import Path

import twoway as tw
from twoway.cli.output import check_output, print_note, print_output
from twoway.model.pmf import pmf_of


def explore(
    model: Path,
    *,
    out: Path | None = None,
    title: str | None = None,
    no_counts: bool = False,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write one HTML file that shows the model: click what is known, and see everything else change.

    The file is self-contained and makes no connections. It shows intervals if the model was fitted with `--intervals`,
    and marks what was observed, unless the model was fitted with `--no-counts`. A file that
    `twoway segments --model` wrote also has the segments' profiles, under names that can be changed on the page.

    Parameters
    ----------
    out
        The page to write (default: the name of the model with .html).
    title
        The title of the page (default: the name of the model).
    no_counts
        Do not put the two-way counts of the data into the page.

    Examples
    --------
    twoway explore survey.twoway -o survey.html

    twoway explore survey.twoway --title "Our survey, spring" --force
    """
    from twoway.segmentation.segments import load_segments

    page = model.with_suffix(".html") if out is None else out
    check_output(page, force, model)
    loaded = load_segments(model) or tw.load(model)
    tw.explore(loaded, page, title=model.stem if title is None else title, counts=not no_counts)
    size, has_intervals = page.stat().st_size, isinstance(loaded, tw.Bootstrap)
    has_counts = not no_counts and pmf_of(loaded).counts is not None
    text = f"{page} ({size / 1024:.0f} KB{', with intervals' if has_intervals else ''}): open it in a browser"
    print_output({"page": str(page), "bytes": size, "intervals": has_intervals, "counts": has_counts}, text, json=json)
    if has_counts:
        print_note(
            "the page contains exact two-way counts of the data, including small ones; --no-counts leaves them out"
        )
