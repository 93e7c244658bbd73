"""From the lines of many trials to one table: mean and standard deviation, with the paper's number beside each."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from twoway import __version__
from twoway.paper.base import Setting
from twoway.paper.run import Line, read_lines, results_file, settings_key
from twoway.paper.scores import METRICS
from twoway.paper.tables import EXPERIMENTS, Experiment, Size

Summary = dict[str, Any]
LinesByCell = dict[tuple[Setting, str], list[Line]]
"""The lines of each setting and method, in the order of the trials."""


def summarize(experiment: Experiment, size: Size, out: Path, trials: int | None = None) -> Summary:
    """Return a table of the results saved in a folder, as plain dictionaries.

    Only the first ``trials`` trials count (by default as many as the size has), so that the same question
    has the same answer however many were run.
    """
    n_trials = experiment.columns(size, trials)
    by_key = {settings_key(asdict(setting)): setting for setting in n_trials}
    lines = {
        (by_key.get(settings_key(line["setting"])), line["method"], line["trial"]): line
        for line in read_lines(results_file(out, experiment, size))
    }
    cells: LinesByCell = {
        (setting, method): [lines[key] for trial in range(n) if (key := (setting, method, trial)) in lines]
        for setting, n in n_trials.items()
        for method in experiment.methods
    }
    used = [line for cell in cells.values() for line in cell]
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
        "dates": sorted({line["date"] for line in used}),
        "machines": sorted({line["machine"] for line in used}),
        "columns": [
            {"title": column.column(experiment.varies), "drawn": column.drawn, "setting": asdict(column), "trials": n}
            for column, n in n_trials.items()
        ],
        "metrics": [_summarize_metric(experiment, metric, list(n_trials), cells) for metric in experiment.metrics],
        "reasons": _reasons(experiment, cells),
        "note": experiment.note,
        "not_run": [name for name in experiment.methods if not any(cells[setting, name] for setting in n_trials)],
    }


def _summarize_metric(experiment: Experiment, metric: str, settings: list[Setting], cells: LinesByCell) -> Summary:
    rows = {
        method: [
            _cell(metric, cells[setting, method], experiment.published(metric, method, setting)) for setting in settings
        ]
        for method in experiment.methods
    }
    sign = -1.0 if METRICS[metric].is_higher_better else 1.0
    best = []
    for place in range(len(settings)):
        column = {method: row[place] for method, row in rows.items()}
        # A method that failed in some trials has the mean of the others only, and cannot be the best.
        means = {name: cell["mean"] for name, cell in column.items() if cell["mean"] is not None and not cell["failed"]}
        best.append(min(means, key=lambda name: sign * means[name], default=None))  # called at once
    return {
        "name": metric,
        "title": METRICS[metric].title,
        "paper": experiment.metrics[metric],
        "rows": [{"method": method, "cells": row} for method, row in rows.items()],
        "best": best,
    }


def _cell(metric: str, lines: list[Line], published: tuple[float, float | None] | None) -> Summary:
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


def _reasons(experiment: Experiment, cells: LinesByCell) -> list[Summary]:
    """Return why methods failed: the most common reason of each column and method."""
    reasons = []
    for (setting, method), lines in sorted(cells.items(), key=lambda cell: experiment.methods.index(cell[0][1])):
        if counts := Counter(line["reason"] for line in lines if line["reason"] is not None):
            column, reason = setting.column(experiment.varies), counts.most_common(1)[0][0]
            row = {"method": method, "column": column, "failed": counts.total(), "trials": len(lines), "reason": reason}
            reasons.append(row)
    return reasons
