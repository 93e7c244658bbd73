"""``twoway plan``: the number of records that a given accuracy needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from twoway.cli.options import Json, Seed
from twoway.cli.terminal import show, shows_progress


def plan(
    model: Annotated[
        Path | None, Argument(metavar="[MODEL]", help="A model to plan with; or use --variables and --rank.")
    ] = None,
    error: Annotated[float, Option(help="The allowed error of a probability, as total variation.")] = 0.05,
    of: Annotated[
        str, Option(metavar="VARIABLES", help="The variables of interest, separated by commas (default: all).")
    ] = "",
    observed: Annotated[float, Option(help="The share of cells that will be observed.")] = 1.0,
    tables: Annotated[bool, Option("--tables", help="Only two-way tables will be available.")] = False,
    variables: Annotated[int | None, Option(help="Without a model: the number of variables.")] = None,
    categories: Annotated[int, Option(help="Without a model: the number of categories of each.")] = 4,
    rank: Annotated[int | None, Option(help="Without a model: the number of components.")] = None,
    trials: Annotated[int, Option(help="The number of trials for each number of records.")] = 3,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Estimate how many records reach a given error, by simulation and by the paper's bounds.

    [bold]Examples[/bold]

    twoway plan pilot.twoway --error 0.02 --of age,vote --observed 0.7

    twoway plan --variables 10 --categories 4 --rank 5 --error 0.05
    """
    from twoway.diagnosis.plan import plan as make_plan
    from twoway.errors import DataError
    from twoway.model.pmf import JointPMF
    from twoway.schema import Schema, Variable

    if (model is None) == (variables is None):
        raise DataError("give either a MODEL, or --variables and --rank")
    if model is not None:
        source: JointPMF | Schema = JointPMF.load(model)
    else:
        labels = tuple(range(categories))
        source = Schema(tuple(Variable(f"x{number}", labels) for number in range(1, (variables or 0) + 1)))
    result = make_plan(
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
    show(result.to_dict(), result, json=json)
