"""A table for people: as Markdown, which the terminal shows too, as JSON, as a plot; and the page of all tables."""

from __future__ import annotations

import json
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from twoway.errors import DataError
from twoway.paper.results import Summary, results_file, summarize_results
from twoway.paper.tables import DEFAULT_RELEASE, METRICS, Size, find_paper_tables
from twoway.storage.atomic_files import atomic_file, write_text_file
from twoway.text import counted, markdown_table

MARK = "<!-- Everything below this line is written by: twoway reproduce --page -->"

_LEGEND = (
    "Mean ± standard deviation over the trials, followed by the paper's number if it has a comparable one; the better "
    "of the two is marked; † means that some trials failed."
)


def shown_digits(value: float) -> int:
    """Return the number of decimals that show three significant digits.

    Examples
    --------
    >>> shown_digits(0.0123), shown_digits(12.3), shown_digits(4567.0)
    (4, 1, 0)
    """
    return 0 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))


def shown_ours(cell: Summary) -> str:
    """Return the text of a cell for our runs: "0.652 ± 0.021", "—" if all trials failed, "not run".

    Examples
    --------
    >>> shown_ours({"mean": 0.6521, "sd": 0.0213, "decimals": None, "trials": 20, "failed": 0})
    '0.652 ± 0.021'
    >>> shown_ours({"mean": 94.9387, "sd": 2.1, "decimals": 2, "trials": 20, "failed": 0})
    '94.94 ± 2.10'
    >>> shown_ours({"mean": None, "sd": None, "decimals": None, "trials": 20, "failed": 20})
    '—'
    """
    if not cell["trials"]:
        return "not run"
    if cell["mean"] is None:
        return "—"
    decimals = shown_digits(cell["mean"]) if cell["decimals"] is None else cell["decimals"]
    spread = "" if cell["sd"] is None else f" ± {cell['sd']:.{decimals}f}"
    return f"{cell['mean']:.{decimals}f}{spread}{'†' if cell['failed'] else ''}"


def shown_paper(cell: Summary) -> str:
    """Return the paper's number as printed there, or nothing."""
    if cell["paper"] is None:
        return ""
    return f"{cell['paper']:g}" + ("" if cell["paper_sd"] is None else f" ± {cell['paper_sd']:g}")


class Grid(NamedTuple):
    """A table as it is shown: columns, and one row per method."""

    title: str
    columns: list[str]
    rows: dict[str, list[Summary]]
    best: list[str | None]
    """The best method of each column."""


def shown_grids(summary: Summary) -> list[Grid]:
    """Return one table per metric; or one table with one column per metric, if there is only one setting."""
    metrics, columns = summary["metrics"], [column["title"] for column in summary["columns"]]
    tables = [Grid(metric["title"], columns, _shown_rows(summary, metric), metric["best"]) for metric in metrics]
    if len(columns) > 1 or len(metrics) == 1:
        return tables
    rows = {method: [table.rows[method][0] for table in tables] for method in tables[0].rows}
    shorts = [METRICS[metric["name"]].short for metric in metrics]
    return [Grid(columns[0], shorts, rows, [table.best[0] for table in tables])]


def _shown_rows(summary: Summary, metric: Summary) -> dict[str, list[Summary]]:
    """Return the cells of each method that was run."""
    return {row["method"]: row["cells"] for row in metric["rows"] if row["method"] not in summary["not_run"]}


def shown_notes(summary: Summary) -> list[str]:
    """Return the notes below a table: trials left to run, methods not run, why some failed."""
    notes = [summary["note"]] if summary["note"] else []
    rows = _shown_rows(summary, summary["metrics"][0])
    for place, column in enumerate(summary["columns"]):
        fewest = min((cells[place]["trials"] for cells in rows.values()), default=0)
        if 0 < fewest < column["trials"]:
            notes.append(f"{column['title']}: at least {fewest} of {column['trials']} trials run")
    if summary["not_run"]:
        notes.append(f"not run: {', '.join(summary['not_run'])}")
    return notes + [
        f"{row['method']}, {row['column']}: failed in {row['failed']} of {row['trials']} trials: {row['reason']}"
        for row in summary["reasons"]
    ]


def shown_trials(summary: Summary) -> str:
    """Return the trials of the columns and what they draw: "20 trials, 5 at S=10⁶; S=10⁵, S=10⁶"."""
    columns = summary["columns"]
    first = columns[0]["trials"]
    others = [f", {column['trials']} at {column['title']}" for column in columns if column["trials"] != first]
    drawn = dict.fromkeys(column["drawn"] for column in columns)
    return f"{counted(first, 'trial')}{''.join(others)}; {', '.join(drawn)}"


# As Markdown


def show_as_markdown(summary: Summary) -> str:
    """Return a table as Markdown: a section with the command, the machine, one table per metric, and the notes."""
    dates = summary["dates"]
    when = " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "never run"
    lines = [
        f"## {summary['table']}",
        "",
        f"{summary['title']}. The paper's `{summary['label']}`. {shown_trials(summary)}.",
        "",
        "; ".join([f"`{summary['command']}`, twoway {summary['version']}, {when}", *summary["machines"]]) + ".",
        "",
    ]
    for grid in shown_grids(summary):
        rows = [["method", *grid.columns]]
        rows += [[method, *map(_shown_in_markdown, cells)] for method, cells in grid.rows.items()]
        rows.append(["*best of ours*", *(f"*{name or ''}*" for name in grid.best)])
        lines += [f"**{grid.title}**", "", markdown_table(rows), ""]
    notes = [f"- {note}" for note in shown_notes(summary)]
    return "\n".join([*lines, *notes, *([""] if notes else [])])


def _shown_in_markdown(cell: Summary) -> str:
    """Return "**0.652 ± 0.021** (paper 0.6746)", with the better one bold."""
    ours, paper = (
        f"**{text}**" if cell["better"] in (whose, "both") else text
        for whose, text in (("ours", shown_ours(cell)), ("paper", shown_paper(cell)))
    )
    return f"{ours} (paper {paper})" if paper else ours


# In files


def show_in_files(summary: Summary, out: Path) -> list[Path]:
    """Write a table as JSON, Markdown and, if matplotlib is installed, as a plot; return the files."""
    stem = f"{summary['table']}-{summary['size']}"
    paths = [out / f"{stem}.json", out / f"{stem}.md"]
    write_text_file(paths[0], json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write_text_file(paths[1], show_as_markdown(summary) + f"\n{_LEGEND}\n")
    if find_spec("matplotlib") is not None:
        paths.append(out / f"{stem}.png")
        _show_as_plot(summary, paths[2])
    return paths


def show_on_page(page: Path, out: Path, size: Size, release: str = DEFAULT_RELEASE) -> None:
    """Write all tables in a folder below the mark of a page; the text above the mark is kept.

    So is each table that is on the page and not in the folder, with its own date and machine. The tables of ratings are
    those of one release of MovieLens.
    """
    above, below = "# Results\n\n", ""
    if page.exists():
        above, mark, below = page.read_text(encoding="utf-8").partition(MARK)
        if not mark:
            raise DataError(f"{str(page)!r} has no line {MARK!r}: text below such a line is replaced, so add it")
    parts = [f"{above}{MARK}\n", "", _LEGEND, ""]
    sections = {text.partition("\n")[0]: text for text in below.split("\n## ")[1:]}
    for experiment in find_paper_tables(["all"], release):
        section = sections.get(experiment.name, "")
        if results_file(out, experiment, size).exists():
            parts.append(show_as_markdown(summarize_results(experiment, size, out)))
        elif "| method |" in section:
            parts += [f"## {section.rstrip()}", ""]
        else:
            parts += [f"## {experiment.name}", "", f"{experiment.title}. Not run.", ""]
    write_text_file(page, "\n".join(parts))


def _show_as_plot(summary: Summary, path: Path) -> None:
    """Draw one panel per metric and one line per method, all logarithmic; the paper's comparable numbers are dotted.

    If there is only one setting, a method is a mark with its standard deviation, the paper's an empty one.
    """
    from matplotlib.figure import Figure

    metrics, has_lines = summary["metrics"], summary["varies"] != "data"
    n_columns = min(len(metrics), 2)
    n_rows = math.ceil(len(metrics) / n_columns)
    figure = Figure(figsize=(5.0 * n_columns, 3.6 * n_rows + 0.6), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for panel in panels[len(metrics) :]:
        panel.set_axis_off()
    for panel, metric in zip(panels, metrics, strict=False):
        panel.set_title(metric["title"].split(":")[0], fontsize="medium")
        panel.grid(alpha=0.3)
        (_show_lines if has_lines else _show_marks)(panel, summary, metric)
    handles, labels = panels[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    figure.suptitle(f"{summary['table']} ({summary['size']}); {'dotted' if has_lines else 'empty'}: the paper's")
    with atomic_file(path) as stream:
        figure.savefig(stream, format="png", dpi=120)


def _show_lines(panel: Any, summary: Summary, metric: Summary) -> None:
    """Draw each method's means against what varies, and the paper's."""
    field, label = {
        "records": ("n_records", "records"),
        "observed": ("observed", "probability that a cell is observed"),
        "shape": (None, "[variables, rank, categories]"),
    }[summary["varies"]]
    columns = summary["columns"]
    places = [number if field is None else column["setting"][field] for number, column in enumerate(columns)]
    for number, row in enumerate(metric["rows"]):
        if row["method"] not in summary["not_run"]:
            style: dict[str, Any] = {"color": f"C{number}", "marker": "osD^v<>P"[number]}
            ours, paper = ([cell[key] or math.nan for cell in row["cells"]] for key in ("mean", "paper"))
            panel.plot(places, ours, label=row["method"], **style)
            panel.plot(places, paper, linestyle=":", markerfacecolor="none", alpha=0.6, **style)
    panel.set_yscale("log")
    if field is None:
        panel.set_xticks(places, [column["title"] for column in columns])
    else:
        panel.set_xscale("log")
    panel.set_xlabel(label)
    panel.set_ylabel(METRICS[metric["name"]].short)


def _show_marks(panel: Any, summary: Summary, metric: Summary) -> None:
    """Draw each method's mean and standard deviation, and the paper's, the first method at the top."""
    rows = _shown_rows(summary, metric)
    for place, (cell, *_) in enumerate(rows.values()):
        for mean, sd, face in ((cell["mean"], cell["sd"], "C0"), (cell["paper"], cell["paper_sd"], "none")):
            if mean is not None:
                panel.errorbar(mean, place, xerr=sd, fmt="o", color="C0", markerfacecolor=face)
    panel.set_yticks(range(len(rows)), list(rows))
    panel.invert_yaxis()
    panel.set_xlabel(METRICS[metric["name"]].short)
    if metric["name"].startswith("seconds"):
        panel.set_xscale("log")
