"""A table for people: on the terminal, as Markdown, as JSON, as a plot; and the page of all tables."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoway.errors import DataError
from twoway.paper.run import results_file
from twoway.paper.scores import METRICS
from twoway.paper.summary import Summary, summarize
from twoway.paper.tables import DEFAULT_RELEASE, Size, find_experiments
from twoway.storage.container import whole_or_not_at_all

if TYPE_CHECKING:
    from rich.console import RenderableType

MARK = "<!-- Everything below this line is written by: twoway reproduce --page -->"

_LEGEND = (
    "Mean ± standard deviation over the trials; the paper's number behind it where it has the like one, the better of "
    "the two marked; † where some trials failed."
)


def digits(value: float) -> int:
    """Return how many decimals show three significant digits.

    Examples
    --------
    >>> digits(0.0123), digits(12.3), digits(4567.0)
    (4, 1, 0)
    """
    return 0 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))


def ours_of(cell: Summary) -> str:
    """Return what a cell says of our runs: "0.652 ± 0.021", "—" where all trials failed, "not run".

    Examples
    --------
    >>> ours_of({"mean": 0.6521, "sd": 0.0213, "decimals": None, "trials": 20, "failed": 0})
    '0.652 ± 0.021'
    >>> ours_of({"mean": 94.9387, "sd": 2.1, "decimals": 2, "trials": 20, "failed": 0})
    '94.94 ± 2.10'
    >>> ours_of({"mean": None, "sd": None, "decimals": None, "trials": 20, "failed": 20})
    '—'
    """
    if not cell["trials"]:
        return "not run"
    if cell["mean"] is None:
        return "—"
    decimals = digits(cell["mean"]) if cell["decimals"] is None else cell["decimals"]
    spread = "" if cell["sd"] is None else f" ± {cell['sd']:.{decimals}f}"
    return f"{cell['mean']:.{decimals}f}{spread}{'†' if cell['failed'] else ''}"


def paper_of(cell: Summary) -> str:
    """Return the paper's number as printed there, or nothing."""
    if cell["paper"] is None:
        return ""
    return f"{cell['paper']:g}" + ("" if cell["paper_sd"] is None else f" ± {cell['paper_sd']:g}")


def shown_rows(summary: Summary, metric: Summary) -> list[Summary]:
    """Return the rows of the methods that were run."""
    return [row for row in metric["rows"] if row["method"] not in summary["not_run"]]


@dataclass(frozen=True)
class Grid:
    """A table as it is shown: columns, and a row a method."""

    title: str
    columns: list[str]
    rows: list[tuple[str, list[Summary]]]
    best: list[str | None]
    """The best method of each column."""


def grids(summary: Summary) -> list[Grid]:
    """Return a table a metric; or one table with a column a metric, where there is but one setting."""
    metrics = summary["metrics"]
    if len(summary["columns"]) > 1 or len(metrics) == 1:
        columns = [column["title"] for column in summary["columns"]]
        return [
            Grid(
                metric["title"],
                columns,
                [(row["method"], row["cells"]) for row in shown_rows(summary, metric)],
                metric["best"],
            )
            for metric in metrics
        ]
    rows = zip(*(shown_rows(summary, metric) for metric in metrics), strict=True)
    return [
        Grid(
            summary["columns"][0]["title"],
            [METRICS[metric["name"]].short for metric in metrics],
            [(row[0]["method"], [one["cells"][0] for one in row]) for row in rows],
            [metric["best"][0] for metric in metrics],
        )
    ]


def notes_of(summary: Summary) -> list[str]:
    """Return what has to be said below a table: trials left to run, methods not run, why some failed."""
    notes = [summary["note"]] if summary["note"] else []
    rows = [row for metric in summary["metrics"][:1] for row in shown_rows(summary, metric)]
    for place, column in enumerate(summary["columns"]):
        fewest = min((row["cells"][place]["trials"] for row in rows), default=0)
        if 0 < fewest < column["trials"]:
            notes.append(f"{column['title']}: at least {fewest} of {column['trials']} trials run")
    if summary["not_run"]:
        notes.append(f"not run: {', '.join(summary['not_run'])}")
    notes += [
        f"{one['method']}, {one['column']}: failed in {one['failed']} of {one['trials']} trials: {one['reason']}"
        for one in summary["reasons"]
    ]
    return notes


def trials_of(summary: Summary) -> str:
    """Return how many trials the columns have, and of what: "20 trials, 5 at S=10⁶; S=10⁵, S=10⁶"."""
    columns = summary["columns"]
    counts = [column["trials"] for column in columns]
    others = [
        f", {count} at {column['title']}" for count, column in zip(counts, columns, strict=True) if count != counts[0]
    ]
    drawn = dict.fromkeys(column["drawn"] for column in columns)
    return f"{counts[0]} {'trial' if counts[0] == 1 else 'trials'}{''.join(others)}; {', '.join(drawn)}"


# On the terminal


def renderables(summary: Summary) -> list[RenderableType]:
    """Return what `rich` prints: a table a metric, then the notes."""
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = [
        Text(f"\n{summary['table']}: {summary['title']}", style="bold"),
        Text(f"the paper's {summary['label']}; {trials_of(summary)}; ✓ the better one of ours and the paper's", "dim"),
    ]
    for grid in grids(summary):
        table = Table(title=escape(grid.title), title_justify="left", title_style="", header_style="bold")
        table.add_column("method", no_wrap=True)
        has_paper = any(cell["paper"] is not None for _, cells in grid.rows for cell in cells)
        for column in grid.columns:
            table.add_column(escape(column), justify="right", no_wrap=True)
        for method, cells in grid.rows:
            table.add_row(method, *(_terminal_cell(cell, has_paper) for cell in cells))
        table.add_section()
        table.add_row("best of ours", *(name or "" for name in grid.best), style="dim")
        parts.append(table)
    parts += [Text(note, style="dim") for note in notes_of(summary)]
    return parts


def _terminal_cell(cell: Summary, has_paper: bool) -> str:
    """Return our number, with the paper's in a line below it in tables that have any."""
    ours = ours_of(cell) + (" ✓" if cell["better"] in ("ours", "both") else "  ")
    if not has_paper:
        return ours
    paper = paper_of(cell)
    return f"{ours}\n" + (f"paper {paper}{' ✓' if cell['better'] in ('paper', 'both') else '  '}" if paper else "")


# As Markdown


def markdown(summary: Summary, level: int = 2) -> str:
    """Return a table as Markdown: a section with the command, the machine, a table a metric, and the notes."""
    head, dates = "#" * level, summary["dates"]
    when = " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "never run"
    lines = [
        f"{head} {summary['table']}",
        "",
        f"{summary['title']}. The paper's `{summary['label']}`. {trials_of(summary)}.",
        "",
        f"`{summary['command']}`, twoway {summary['version']}, {when}"
        + "".join(f"; {machine}" for machine in summary["machines"])
        + ".",
        "",
    ]
    for grid in grids(summary):
        lines += [
            f"**{grid.title}**",
            "",
            "| method | " + " | ".join(grid.columns) + " |",
            "|---|" + "---|" * len(grid.columns),
        ]
        lines += [f"| {method} | {' | '.join(_markdown_cell(cell) for cell in cells)} |" for method, cells in grid.rows]
        lines += ["| *best of ours* | " + " | ".join(f"*{name or ''}*" for name in grid.best) + " |", ""]
    notes = [f"- {note}" for note in notes_of(summary)]
    return "\n".join([*lines, *notes, *([""] if notes else [])])


def _markdown_cell(cell: Summary) -> str:
    """Return "**0.652 ± 0.021** (paper 0.6746)", with the better one bold."""
    ours, paper = ours_of(cell), paper_of(cell)
    if cell["better"] in ("ours", "both"):
        ours = f"**{ours}**"
    if not paper:
        return ours
    return f"{ours} (paper {f'**{paper}**' if cell['better'] in ('paper', 'both') else paper})"


# In files


def write_files(summary: Summary, out: Path) -> list[Path]:
    """Write a table as JSON, Markdown and, where matplotlib is there, as a plot; return the files."""
    stem = f"{summary['table']}-{summary['size']}"
    paths = [out / f"{stem}.json", out / f"{stem}.md"]
    text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    _write(paths[0], text)
    _write(paths[1], markdown(summary) + f"\n{_LEGEND}\n")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return paths
    paths.append(out / f"{stem}.png")
    _plot(summary, paths[2])
    return paths


def _plot(summary: Summary, path: Path) -> None:
    """Draw a panel a metric, a line a method, all logarithmic; the paper's numbers dotted where they are alike.

    Where there is but one setting, a method is a mark with its standard deviation, the paper's an empty one.
    """
    from matplotlib.figure import Figure

    metrics, varies = summary["metrics"], summary["varies"]
    n_columns = 2 if len(metrics) > 1 else 1
    n_rows = -(-len(metrics) // n_columns)
    figure = Figure(figsize=(5.0 * n_columns, 3.6 * n_rows + 0.6), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    places, axis_label = _axis(summary)
    for panel, metric in zip(panels, metrics, strict=False):
        panel.set_title(metric["title"].split(":")[0], fontsize="medium")
        panel.grid(alpha=0.3)
        if varies == "data":
            _marks(panel, metric["name"], shown_rows(summary, metric))
            continue
        for row in shown_rows(summary, metric):
            number = [one["method"] for one in metric["rows"]].index(row["method"])
            style: dict[str, Any] = {"color": f"C{number}", "marker": "osD^v<>"[number]}
            _line(panel, places, [cell["mean"] for cell in row["cells"]], label=row["method"], **style)
            paper = [cell["paper"] for cell in row["cells"]]
            _line(panel, places, paper, linestyle=":", markerfacecolor="none", alpha=0.6, **style)
        panel.set_yscale("log")
        if varies == "shape":
            panel.set_xticks(places, [column["title"] for column in summary["columns"]])
        else:
            panel.set_xscale("log")
        panel.set_xlabel(axis_label)
        panel.set_ylabel(METRICS[metric["name"]].short)
    for panel in panels[len(metrics) :]:
        panel.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    figure.suptitle(f"{summary['table']} ({summary['size']}); {'empty' if varies == 'data' else 'dotted'}: the paper's")
    with whole_or_not_at_all(path) as stream:
        figure.savefig(stream, format="png", dpi=120)


def _marks(panel: Any, metric: str, rows: list[Summary]) -> None:
    """Draw each method's mean and standard deviation, and the paper's, the first method at the top."""
    names = [row["method"] for row in rows]
    for place, row in enumerate(rows):
        cell = row["cells"][0]
        for mean, sd, face in ((cell["mean"], cell["sd"], "C0"), (cell["paper"], cell["paper_sd"], "none")):
            if mean is not None:
                panel.errorbar(mean, place, xerr=sd, fmt="o", color="C0", markerfacecolor=face)
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    panel.set_xlabel(METRICS[metric].short)
    if metric.startswith("seconds"):
        panel.set_xscale("log")


def _axis(summary: Summary) -> tuple[list[float], str]:
    """Return where the columns stand, and what that is."""
    settings = [column["setting"] for column in summary["columns"]]
    if summary["varies"] == "records":
        return [setting["n_records"] for setting in settings], "records"
    if summary["varies"] == "observed":
        return [setting["observed"] for setting in settings], "probability that a cell is observed"
    return [float(place) for place in range(len(settings))], "[variables, rank, categories]"


def _line(panel: Any, places: Sequence[float], values: Sequence[float | None], **style: Any) -> None:
    known = [(place, value) for place, value in zip(places, values, strict=True) if value]
    if known:
        panel.plot(*zip(*known, strict=True), **style)


def write_page(page: Path, out: Path, size: Size, release: str = DEFAULT_RELEASE) -> None:
    """Write all tables found in a folder below the mark of a page; what stands above it is kept.

    The tables of ratings are those of one release of MovieLens.
    """
    above = f"# Results\n\n{MARK}\n"
    if page.exists():
        above, mark, _ = page.read_text(encoding="utf-8").partition(MARK)
        if not mark:
            raise DataError(f"{str(page)!r} has no line {MARK!r}: what is below such a line is replaced, so add it")
        above += f"{MARK}\n"
    parts = [above, "", _LEGEND, ""]
    for experiment in find_experiments(["all"], release):
        if results_file(out, experiment, size).exists():
            parts.append(markdown(summarize(experiment, size, out)))
        else:
            parts += [f"## {experiment.name}", "", f"{experiment.title}. Not run.", ""]
    _write(page, "\n".join(parts))


def _write(path: Path, text: str) -> None:
    with whole_or_not_at_all(path) as stream:
        stream.write(text.encode())
