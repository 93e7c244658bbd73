"""``twoway plan``: how many records a wanted error takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twoway.cli.options import Json, Seed
from twoway.cli.terminal import say, say_json, shows_progress


def plan(
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="A model to plan by; or assume one by the options below.")
    ] = None,
    error: Annotated[float, typer.Option(help="By how much a probability may be off: total variation.")] = 0.05,
    of: Annotated[
        str, typer.Option(metavar="VARIABLES", help="The variables asked about, separated by commas; by default all.")
    ] = "",
    observed: Annotated[float, typer.Option(help="The share of cells that will be observed.")] = 1.0,
    tables: Annotated[bool, typer.Option("--tables", help="Only two-way tables will be there.")] = False,
    variables: Annotated[int | None, typer.Option(help="Without a model: how many variables.")] = None,
    categories: Annotated[int, typer.Option(help="Without a model: categories of each.")] = 4,
    rank: Annotated[int | None, typer.Option(help="Without a model: how many components to assume.")] = None,
    trials: Annotated[int, typer.Option(help="How often each number of records is tried.")] = 3,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Say how many records bring an error down to what is wanted, by trying it out and by the paper's bounds.

    [bold]Examples[/bold]

    twoway plan pilot.twoway --error 0.02 --of age,vote --observed 0.7

    twoway plan --variables 10 --categories 4 --rank 5 --error 0.05
    """
    from twoway.diagnosis.plan import plan as make_plan
    from twoway.errors import DataError
    from twoway.model.pmf import JointPMF
    from twoway.schema import Schema, Variable

    if (model is None) == (variables is None):
        raise DataError("give either a MODEL, or --variables and --rank to assume one")
    if model is not None:
        source: JointPMF | Schema = JointPMF.load(model)
    else:
        labels = tuple(range(categories))
        source = Schema(tuple(Variable(f"x{number}", labels) for number in range(1, (variables or 0) + 1)))
    found = make_plan(
        source,
        error,
        names=[name.strip() for name in of.split(",") if name.strip()] or None,
        rank=rank,
        observed=observed,
        tables=tables,
        trials=trials,
        seed=seed,
        monitor=shows_progress() or None,
    )
    if json:
        say_json(found.to_dict())
    else:
        say(str(found))
