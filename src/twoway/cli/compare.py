"""``twoway compare``: how far two models are from each other."""

from __future__ import annotations

from pathlib import Path

import twoway as tw
from twoway.cli.output import print_note, say, say_json
from twoway.text import aligned_text, printable


def compare(
    model: Path,
    other: Path,
    *,
    json: bool = False,
) -> None:
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
    for key in ("variables", "rank", *numbers):
        form = ",.0f" if key == "records" else ",.10g"
        texts = ["–" if fit[key] is None else format(fit[key], form) for fit in fits]
        if key == "records":
            beside = [
                f" effective, {fit['people']:,} in the most observed variable" if fit["people"] else "" for fit in fits
            ]
            texts = list(map("".join, zip(texts, beside, strict=True)))
        rows.append([key.replace("_", "-"), *texts])
    say(f"{aligned_text(rows)}\n\n{comparison}")
    for text in comparison.notes:
        print_note(text)
