"""From the lines of many trials to one table: mean and standard deviation, with the paper's number beside each."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from twoway import __version__
from twoway.experiments.run import Line, key_of, read_lines, results_file
from twoway.experiments.scores import METRICS
from twoway.experiments.tables import Experiment, Setting, Size

Summary = dict[str, Any]

# The paper prints so many decimals: a mean that rounds to its number is as good.
_DECIMALS = 4


def summarize(experiment: Experiment, size: Size, out: Path, trials: int | None = None) -> Summary:
    """Return a table of what is saved in a folder, as plain dictionaries.

    Only the first ``trials`` trials count (by default as many as the size has), so that the same question
    has the same answer however many were run.
    """
    settings = experiment.settings(size)
    wanted = {setting: trials or experiment.n_trials(setting, size) for setting in settings}
    lines = {}
    for line in read_lines(results_file(out, experiment, size)):
        setting = Setting(**line["setting"])
        if line["trial"] < wanted.get(setting, 0) and line["method"] in experiment.methods:
            lines[key_of(line)] = line
    found: dict[tuple[Setting, str], list[Line]] = {}
    for line in sorted(lines.values(), key=lambda line: int(line["trial"])):
        found.setdefault((Setting(**line["setting"]), line["method"]), []).append(line)
    option = "" if trials is None else f" --trials {trials}"
    return {
        "table": experiment.name,
        "title": experiment.title,
        "label": experiment.label,
        "size": size,
        "version": __version__,
        "command": f"twoway reproduce {experiment.name} --size {size}{option}",
        "dates": sorted({line["date"] for line in lines.values()}),
        "machines": sorted({line["machine"] for line in lines.values()}),
        "columns": [
            {"title": experiment.column(setting), "setting": asdict(setting), "trials": wanted[setting]}
            for setting in settings
        ],
        "metrics": [_summarize_metric(experiment, metric, wanted, found) for metric in experiment.metrics],
        "reasons": _reasons(experiment, wanted, found),
        "not_run": [name for name in experiment.methods if not any(method == name for _, method in found)],
    }


def _summarize_metric(
    experiment: Experiment, metric: str, wanted: dict[Setting, int], found: dict[tuple[Setting, str], list[Line]]
) -> Summary:
    rows = [
        {
            "method": method,
            "cells": [
                _cell(metric, found.get((setting, method), []), experiment.published(metric, method, setting))
                for setting in wanted
            ],
        }
        for method in experiment.methods
    ]
    return {
        "name": metric,
        "title": METRICS[metric].title,
        "paper": experiment.metrics[metric],
        "rows": rows,
        "lowest": [_lowest(rows, column) for column in range(len(wanted))],
    }


def _cell(metric: str, lines: list[Line], paper: float | None) -> Summary:
    """Return mean, sample standard deviation, how many trials were run and failed, the paper's number, the better."""
    values = [line["scores"][metric] for line in lines if line["scores"] is not None]
    mean = statistics.fmean(values) if values else None
    better = None
    if mean is not None and paper is not None:
        rounded = round(mean, _DECIMALS)
        better = "both" if rounded == paper else "ours" if rounded < paper else "paper"
    return {
        "mean": mean,
        "sd": statistics.stdev(values) if len(values) > 1 else None,
        "trials": len(lines),
        "failed": len(lines) - len(values),
        "paper": paper,
        "better": better,
    }


def _lowest(rows: list[Summary], column: int) -> str | None:
    """Return the method with the lowest mean of a column, among those that never failed there."""
    means = {row["method"]: row["cells"][column] for row in rows}
    entered = {name: cell["mean"] for name, cell in means.items() if cell["mean"] is not None and not cell["failed"]}
    return min(entered, key=lambda name: float(entered[name])) if entered else None


def _reasons(
    experiment: Experiment, wanted: dict[Setting, int], found: dict[tuple[Setting, str], list[Line]]
) -> list[Summary]:
    """Return why methods had nothing to say, the commonest reason of each column and method."""
    reasons = []
    for method in experiment.methods:
        for setting in wanted:
            lines = found.get((setting, method), [])
            told = Counter(line["reason"] for line in lines if line["reason"] is not None)
            if told:
                reasons.append(
                    {
                        "method": method,
                        "column": experiment.column(setting),
                        "failed": told.total(),
                        "trials": len(lines),
                        "reason": told.most_common(1)[0][0],
                    }
                )
    return reasons
