"""``twoway sample``: synthetic records."""

from __future__ import annotations

from pathlib import Path

import twoway as tw
from twoway.cli.output import check_output, write_output


def sample(
    model: Path,
    *,
    n: int = 10,
    out: Path | None = None,
    given: str = "",
    seed: int = 0,
    json: bool = False,
    force: bool = False,
) -> None:
    """Draw records like those that the model was fitted to, with all cells filled.

    Parameters
    ----------
    n
        The number of records.
    given : CONDITIONS
        Draw records that meet these: 'age = 30-39, vote != no'.

    Examples
    --------
    twoway sample survey.twoway -n 1000 -o synthetic.csv

    twoway sample survey.twoway -n 5 --given "region = north"
    """
    from twoway.category_labels import label_key
    from twoway.questions.conditions import model_given_conditions

    def plain(variable: tw.Variable) -> tw.Variable:
        """Return a variable that Arrow can hold in one column: labels of several types become text."""
        is_mixed = len({label_key(label)[0] for label in variable.categories}) > 1
        return tw.Variable(variable.name, tuple(map(repr, variable.categories))) if is_mixed else variable

    check_output(out, force, model, is_records=True)
    pmf = model_given_conditions(tw.JointPMF.load(model), given)
    drawn = pmf.from_trees(tw.Schema(tuple(map(plain, pmf.schema))), pmf.trees)
    write_output(drawn.sample(n, seed=seed, library="pyarrow"), out, as_json=json)
