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
    from twoway.category_labels import labels_of_one_kind
    from twoway.questions.conditions import model_given_conditions

    check_output(out, force, model, is_records=True)
    pmf = model_given_conditions(tw.JointPMF.load(model), given)
    plain = tw.Schema(tuple(tw.Variable(v.name, tuple(labels_of_one_kind(v.categories))) for v in pmf.schema))
    drawn = pmf.from_trees(plain, pmf.trees)
    write_output(drawn.sample(n, seed=seed, library="pyarrow"), out, as_json=json)
