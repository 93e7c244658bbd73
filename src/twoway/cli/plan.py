"""``twoway plan``: the number of records that a given accuracy needs."""

from __future__ import annotations

from pathlib import Path

import twoway as tw
from twoway.cli.output import has_progress_output, print_output


def plan(
    model: Path | None = None,
    *,
    error: float = 0.05,
    of: str = "",
    observed: float = 1.0,
    tables: bool = False,
    variables: int | None = None,
    categories: int = 4,
    rank: int | None = None,
    trials: int = 3,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Estimate how many records reach a given error, by simulation and by the paper's bounds.

    Parameters
    ----------
    model : [MODEL]
        A model to plan with; or use --variables and --rank.
    error
        The allowed error of a probability, as total variation.
    of : VARIABLES
        The variables of interest, separated by commas (default: all).
    observed
        The share of cells that will be observed.
    tables
        Only two-way tables will be available.
    variables
        Without a model: the number of variables.
    categories
        Without a model: the number of categories of each.
    rank
        Without a model: the number of components.
    trials
        The number of trials for each number of records.

    Examples
    --------
    twoway plan pilot.twoway --error 0.02 --of age,vote --observed 0.7

    twoway plan --variables 10 --categories 4 --rank 5 --error 0.05
    """
    if (model is None) == (variables is None):
        raise tw.DataError("give either a MODEL, or --variables and --rank")
    if model is not None:
        source: tw.JointPMF | tw.Schema = tw.JointPMF.load(model)
    else:
        labels = tuple(range(categories))
        source = tw.Schema(tuple(tw.Variable(f"x{number}", labels) for number in range(1, (variables or 0) + 1)))
    result = tw.plan(
        source,
        error,
        names=[name.strip() for name in of.split(",") if name.strip()] or None,
        rank=rank,
        observed=observed,
        tables=tables,
        trials=trials,
        seed=seed,
        monitor=has_progress_output() or None,
    )
    print_output(result.to_dict(), result, json=json)
