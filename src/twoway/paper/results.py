"""Results in files, and their summary: mean and standard deviation, with the paper's number beside each.

Each table and size has one file of JSON lines, one line per setting, trial and method. Only the command itself writes
to it; the processes that fit send their results back.
"""

from __future__ import annotations

import json
import os
import statistics
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from twoway import __version__
from twoway.errors import FileFormatError
from twoway.paper.tables import EXPERIMENTS, METRICS, Experiment, Size
from twoway.paper.trials import TrialSetting
from twoway.storage.atomic_files import lock_folder

Line = dict[str, Any]
Key = tuple[Any, ...]
Summary = dict[str, Any]
LinesByCell = dict[tuple[TrialSetting, str], list[Line]]
"""The lines of each setting and method, in the order of the trials."""


def results_file(out: Path, experiment: Experiment, size: Size) -> Path:
    """Return the file that holds the lines of an experiment."""
    return out / f"{experiment.name}-{size}.jsonl"


def result_key(setting: dict[str, Any], trial: int, method: str) -> Key:
    """Return what identifies a line, in a form that can be hashed."""
    return tuple(sorted(setting.items())), trial, method


def read_results(path: Path) -> dict[Key, Line]:
    """Return the lines of a file that this version of the library saved, by their keys; a torn last line is ignored."""
    lines: dict[Key, Line] = {}
    if not path.exists():
        return lines
    for number, text in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], 1):
        try:
            line = json.loads(text)
            key = result_key(line["setting"], line["trial"], line["method"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise FileFormatError(
                f"line {number} of {str(path)!r} is not a result of 'twoway reproduce': {text[:60]!r}; "
                "remove the line, or name another folder with --out"
            ) from None
        if line.get("version") == __version__:
            lines[key] = line
    return lines


def append_result(path: Path, line: Line) -> None:
    """Add a line to a file."""
    text = json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        with lock_folder(path), open(path, "ab") as stream:
            stream.write(text.encode())
    except OSError as error:
        error.filename = str(path)
        raise


def remove_torn_result(path: Path) -> None:
    """Remove a last line that a killed run or a full disk left incomplete; the next line would be added to it."""
    if path.exists():
        with lock_folder(path):
            content = path.read_bytes()
            if not content.endswith(b"\n"):
                os.truncate(path, content.rfind(b"\n") + 1)


def summarize_results(experiment: Experiment, size: Size, out: Path, trials: int | None = None) -> Summary:
    """Return a table of the results saved in a folder, as plain dictionaries.

    Only the first ``trials`` trials count (by default as many as the size has), so that the same question
    has the same answer however many were run.
    """
    n_trials = experiment.columns(size, trials)
    lines = read_results(results_file(out, experiment, size))
    cells: LinesByCell = {
        (setting, method): [
            lines[key] for trial in range(n) if (key := result_key(asdict(setting), trial, method)) in lines
        ]
        for setting, n in n_trials.items()
        for method in experiment.methods
    }
    lines_used = [line for cell in cells.values() for line in cell]
    table = next(name for name in EXPERIMENTS if experiment.name.startswith(name))
    option = "" if trials is None else f" --trials {trials}"
    option += "" if table == experiment.name else f" --movielens {experiment.name.removeprefix(f'{table}-')}"
    return {
        "table": experiment.name,
        "title": experiment.title,
        "label": experiment.label,
        "varies": experiment.varies,
        "size": size,
        "version": __version__,
        "command": f"twoway reproduce {table} --size {size}{option}",
        "dates": sorted({line["date"] for line in lines_used}),
        "machines": sorted({line["machine"] for line in lines_used}),
        "columns": [
            {"title": column.column(experiment.varies), "drawn": column.drawn, "setting": asdict(column), "trials": n}
            for column, n in n_trials.items()
        ],
        "metrics": [_summarized_metric(experiment, metric, list(n_trials), cells) for metric in experiment.metrics],
        "reasons": _summarized_failures(experiment, cells),
        "note": experiment.note,
        "not_run": [name for name in experiment.methods if not any(cells[setting, name] for setting in n_trials)],
    }


def _summarized_metric(
    experiment: Experiment, metric: str, settings: list[TrialSetting], cells: LinesByCell
) -> Summary:
    rows = {
        method: [
            _summarized_result(metric, cells[setting, method], experiment.published(metric, method, setting))
            for setting in settings
        ]
        for method in experiment.methods
    }
    choose = max if METRICS[metric].is_higher_better else min
    best = []
    for place in range(len(settings)):
        cells_of = {method: row[place] for method, row in rows.items()}
        # A method that failed in some trials has the mean of the others only, and cannot be the best.
        means = {name: c["mean"] for name, c in cells_of.items() if c["mean"] is not None and not c["failed"]}
        best.append(choose(means, key=means.__getitem__, default=None))
    return {
        "name": metric,
        "title": METRICS[metric].title,
        "paper": experiment.metrics[metric],
        "rows": [{"method": method, "cells": row} for method, row in rows.items()],
        "best": best,
    }


def _summarized_result(metric: str, lines: list[Line], published: tuple[float, float | None] | None) -> Summary:
    """Return mean, sample standard deviation, the numbers of trials run and failed, the paper's number, the better."""
    scored = [line["scores"] for line in lines if line["scores"] is not None]
    values = [scores[metric] for scores in scored if metric in scores]
    mean = statistics.fmean(values) if values else None
    paper, paper_sd = published or (None, None)
    better = None
    if mean is not None and paper is not None:
        ahead = round(mean, METRICS[metric].decimals) - paper
        ahead = ahead if METRICS[metric].is_higher_better else -ahead
        better = "both" if ahead == 0 else "ours" if ahead > 0 else "paper"
    return {
        "mean": mean,
        "sd": statistics.stdev(values) if len(values) > 1 else None,
        "decimals": METRICS[metric].decimals if METRICS[metric].shows_decimals else None,
        "trials": len(lines),
        "failed": len(lines) - len(scored),
        "paper": paper,
        "paper_sd": paper_sd,
        "better": better,
    }


def _summarized_failures(experiment: Experiment, cells: LinesByCell) -> list[Summary]:
    """Return why methods failed: the most common reason of each column and method."""
    reasons = []
    for (setting, method), lines in sorted(cells.items(), key=lambda cell: experiment.methods.index(cell[0][1])):
        if counts := Counter(line["reason"] for line in lines if line["reason"] is not None):
            column, reason = setting.column(experiment.varies), counts.most_common(1)[0][0]
            row = {"method": method, "column": column, "failed": counts.total(), "trials": len(lines), "reason": reason}
            reasons.append(row)
    return reasons
