"""``twoway compare``: how far two models are from each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import twoway as tw
from twoway.cli.output import print_note, say, say_json
from twoway.text import aligned_text, printable


def compare(model: Path, other: Path, *, json: bool = False) -> None:
    """Show where two models differ: variables, fit, and the distributions of single variables and pairs.

    Differences are total variation: 0 for equal distributions, 1 for distributions that have nothing in common.

    Parameters
    ----------
    other
        Another model.

    Examples
    --------
    twoway compare monday.twoway tuesday.twoway

    twoway compare rank4.twoway rank8.twoway --json
    """
    models = [tw.JointPMF.load(path) for path in (model, other)]
    comparison = tw.compare(*models)
    numbers = {"records": "n_records", "log_likelihood": "log_likelihood", "bic": "bic"}
    fits = [
        {"variables": len(pmf.schema), "rank": pmf.rank}
        | {key: getattr(pmf.report, name, None) for key, name in numbers.items()}
        | {"people": None if pmf.counts is None else pmf.counts.n_people}
        for pmf in models
    ]
    if json:
        say_json({"models": fits, "shared": len(comparison.variables), **vars(comparison)})
        return
    rows = [["", printable(model.name), printable(other.name)]]
    keys = ("variables", "rank", *numbers)
    rows += [[key.replace("_", "-"), *(_compared_number(fit, key) for fit in fits)] for key in keys]
    say(f"{aligned_text(rows)}\n\n{comparison}")
    for text in comparison.notes:
        print_note(text)


def _compared_number(fit: dict[str, Any], key: str) -> str:
    if fit[key] is None:
        return "–"
    if key != "records":
        return f"{fit[key]:,.10g}"
    people = f" effective, {fit['people']:,} in the most observed variable" if fit["people"] else ""
    return f"{fit[key]:,.0f}{people}"
