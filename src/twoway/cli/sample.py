"""``twoway sample``: synthetic records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twoway.cli.options import Force, Model, Seed
from twoway.cli.terminal import check_output, write_result

if TYPE_CHECKING:
    from twoway.model.pmf import JointPMF


def sample(
    model: Model,
    n: Annotated[int, typer.Option("-n", help="How many records.")] = 10,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="CSV, TSV, Parquet, Arrow or JSON lines; standard output if not given."),
    ] = None,
    given: Annotated[
        str, typer.Option(metavar="CONDITIONS", help="Draw records of which this is known: 'age = 30-39, vote != no'.")
    ] = "",
    seed: Seed = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines, for machines.")] = False,
    force: Force = False,
) -> None:
    """Draw records like those the model was learned from, all cells filled.

    [bold]Examples[/bold]

    twoway sample survey.twoway -n 1000 -o synthetic.csv

    twoway sample survey.twoway -n 5 --given "region = north"
    """
    from twoway.model.pmf import JointPMF
    from twoway.questions.answer import suppose

    check_output(out, force, model, is_records=True)
    pmf = suppose(JointPMF.load(model), given)
    write_result(_draw(pmf, n, seed), out, as_json=json)


def _draw(pmf: JointPMF, n: int, seed: int) -> Any:
    """Return an Arrow table of records; labels of several types, which Arrow cannot hold in one column, become text."""
    from twoway.schema import Schema, Variable, label_key

    def plain(variable: Variable) -> Variable:
        is_mixed = len({label_key(label)[0] for label in variable.categories}) > 1
        return Variable(variable.name, tuple(map(repr, variable.categories))) if is_mixed else variable

    schema = Schema(tuple(map(plain, pmf.schema)))
    return pmf.from_stacked(schema, pmf.weights, pmf.stacked).sample(n, seed=seed, library="pyarrow")
