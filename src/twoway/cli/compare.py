"""``twoway compare``: how far two models are from each other."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twoway.cli.options import Json, Model
from twoway.cli.terminal import note, say, say_json

if TYPE_CHECKING:
    from twoway.model.pmf import JointPMF

_SHOWN = 5


def compare(
    model: Model,
    other: Annotated[Path, typer.Argument(help="Another model.")],
    json: Json = False,
) -> None:
    """Show where two models differ: variables, fit, and the distributions of one and of two variables.

    Differences are total variation: 0 for equal distributions, 1 for those that share nothing.

    [bold]Examples[/bold]

    twoway compare monday.twoway tuesday.twoway

    twoway compare rank4.twoway rank8.twoway --json
    """
    from twoway.model.pmf import JointPMF

    content = _content(JointPMF.load(model), JointPMF.load(other))
    if json:
        say_json(content)
    else:
        _print(content, (model.name, other.name))


def _content(one: JointPMF, two: JointPMF) -> dict[str, Any]:
    from twoway.errors import DataError
    from twoway.model.measures import total_variation

    notes = []
    shared = []
    for variable in one.schema:
        if variable.name not in two.schema:
            notes.append(f"only the first model has {variable.name!r}")
        elif difference := variable.difference(two.schema[variable.name]):
            notes.append(f"not compared: {difference}")
        else:
            shared.append(variable.name)
    notes += [f"only the second model has {name!r}" for name in two.schema.names if name not in one.schema]
    if not shared:
        raise DataError("the models have no variable in common that has the same categories in both")
    singles = {name: total_variation(one, two, name) for name in shared}
    pairs = {pair: total_variation(one, two, pair) for pair in combinations(shared, 2)}

    def ranked(found: dict[Any, float]) -> list[dict[str, Any]]:
        listed = sorted(found.items(), key=lambda item: -item[1])
        return [
            {"variables": [names] if isinstance(names, str) else list(names), "total_variation": distance}
            for names, distance in listed
        ]

    return {
        "models": [_fit(pmf) for pmf in (one, two)],
        "shared": len(shared),
        "variables": ranked(singles),
        "pairs": ranked(pairs),
        "notes": notes,
    }


def _fit(pmf: JointPMF) -> dict[str, Any]:
    report = pmf.report
    return {
        "variables": len(pmf.schema),
        "rank": pmf.rank,
        "records": None if report is None else report.n_records,
        "log_likelihood": None if report is None else report.log_likelihood,
        "bic": None if report is None else report.bic,
    }


def _print(content: dict[str, Any], names: tuple[str, str]) -> None:
    from twoway.text import aligned, printable

    rows = [["", *map(printable, names)]]
    for key in ("variables", "rank", "records", "log_likelihood", "bic"):
        values = [model[key] for model in content["models"]]
        rows.append([key.replace("_", "-"), *("–" if value is None else f"{value:,.10g}" for value in values)])
    parts = [aligned(rows)]
    for title in ("variables", "pairs"):
        found = content[title]
        if found:
            mean = sum(one["total_variation"] for one in found) / len(found)
            lines = [[f"{title} that differ most", f"(mean {mean:.4f})"]]
            for one in found[:_SHOWN]:
                shown = " × ".join(printable(name, 40) for name in one["variables"])
                lines.append([f"  {shown}", f"{one['total_variation']:.4f}"])
            parts.append(aligned(lines))
    say("\n\n".join(parts))
    for told in content["notes"]:
        note(told)
