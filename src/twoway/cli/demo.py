"""``twoway demo``: a survey with holes, from the file to answers that can be checked."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from typer import Argument, Option

import twoway as tw
from twoway.cli.demo_digits import demo_digits
from twoway.cli.options import Json
from twoway.cli.output import has_progress_output, say_json
from twoway.text import aligned_text

_HIDDEN = 0.3
_QUESTIONS = (
    ("survived", "yes", {"sex": "female"}),
    ("survived", "yes", {"class": "third"}),
    ("survived", "yes", {"class": "third", "sex": "male"}),
)


class Subject(StrEnum):
    """What a demo is about."""

    TITANIC = "titanic"
    DIGITS = "digits"


def demo(
    subject: Subject = Argument(Subject.TITANIC, help="The people on board the Titanic, or handwritten digits."),
    out: Path = Option(Path("demo-output"), help="The folder to write a model, a page and more to."),
    json: Json = False,
) -> None:
    """Learn from a survey with three answers in ten missing, ask, fill the holes, and compare with the truth.

    The survey is of the 2,201 people on board the Titanic. OUT gets the file with holes (titanic.csv), the file filled
    (filled.csv), the model (titanic.twoway) and a page to click in (titanic.html). "digits" completes pictures.

    [bold]Examples[/bold]

    twoway demo

    twoway demo digits --out my-demo
    """
    out.mkdir(parents=True, exist_ok=True)  # a folder that cannot be created is reported before anything is learned
    (demo_digits if subject is Subject.DIGITS else _demo_titanic)(out, json=json)


def _demo_titanic(out: Path, *, json: bool) -> None:
    import numpy as np
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True, quiet=json)
    survey, filled, model, page = (
        out / name for name in ("titanic.csv", "filled.csv", "titanic.twoway", "titanic.html")
    )
    truth = tw.datasets.titanic()
    holes = tw.datasets.hide(truth, _HIDDEN, seed=1)
    holes.to_csv(survey, index=False)
    n_whole = int(holes.notna().all(axis=1).sum())
    console.print(
        f"{survey} has the {len(truth):,} people on board the Titanic: {', '.join(truth.columns)}. Three answers in "
        f"ten were hidden, so that only {n_whole:,} rows are complete. Fitting a model to all of them.\n",
        markup=False,
    )
    pmf = tw.fit(survey, monitor=has_progress_output() or None)
    pmf.save(model)

    answers, rows = [], [["question", "answer", "in the file", "of so many", "truth"]]
    for name, label, known in _QUESTIONS:
        question = f"P({name}={label} | {', '.join(f'{key}={value}' for key, value in known.items())})"
        shown = holes.dropna(subset=[name, *known])
        seen, right = (
            (frame.loc[(frame[list(known)] == list(known.values())).all(axis=1), name] == label)
            for frame in (shown, truth)
        )
        shares = {
            "answer": pmf.given(known).prob({name: label}),
            "in_the_file": float(seen.mean()),
            "truth": float(right.mean()),
        }
        answers.append({"question": question, **shares, "of": len(seen)})
        texts = [f"{share:.3f}" for share in shares.values()]
        rows.append([question, texts[0], texts[1], f"{len(seen):,}", texts[2]])
    console.print(aligned_text(rows), markup=False)

    completed = pmf.impute(holes)
    completed.to_csv(filled, index=False)
    is_hidden, original = holes.isna().to_numpy(), truth.to_numpy()
    common = np.tile(holes.mode().iloc[0].to_numpy(), (len(holes), 1))
    rates = {
        "filled_correctly": float(np.mean(completed.to_numpy()[is_hidden] == original[is_hidden])),
        "most_common_correct": float(np.mean(common[is_hidden] == original[is_hidden])),
    }
    tw.explore(pmf, page, title="On board the Titanic")
    if json:
        written = {"survey": str(survey), "filled": str(filled), "model": str(model), "page": str(page)}
        say_json({"questions": answers, "hidden": int(is_hidden.sum()), **rates, **written})
    console.print(
        f"\nOf {int(is_hidden.sum()):,} hidden answers the model fills {rates['filled_correctly']:.1%} as they were; "
        f"the most common answer to each question would fill {rates['most_common_correct']:.1%}.\n"
        f"\nTo look at: {page}, in a browser: click what you know, and all other bars move. {filled} is the survey "
        "without holes.\n"
        "\nWhat to try next:\n\n"
        f'    twoway ask {model} "P(survived | class, sex)"\n'
        f"    twoway check {model} --data {survey}\n"
        '\nWith your own file: twoway fit survey.csv --ask "P(vote | age)". In Python: tw.fit("survey.csv").',
        markup=False,
    )
